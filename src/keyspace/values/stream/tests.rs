//! The stream against a naive model of it.

use super::*;
use proptest::prelude::*;

/// A stream as a sorted list.
#[derive(Debug, Default)]
struct Model {
    entries: Vec<(StreamId, Vec<Vec<u8>>)>,
    last_id: StreamId,
    max_deleted_id: StreamId,
}

#[derive(Debug, Clone)]
enum Step {
    Push { ms: u64, seq: u64, fields: Vec<Vec<u8>> },
    Delete(usize),
    TrimLen(usize),
    TrimFrom(usize),
    TrimAbout(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let part = prop_oneof![
        3 => Just(b"name".to_vec()),
        3 => (0..1000u32).prop_map(|number| number.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..400),
    ];
    let fields = prop_oneof![
        2 => part.clone().prop_map(|value| vec![b"name".to_vec(), value]),
        1 => (1..4usize).prop_flat_map(move |pairs| prop::collection::vec(part.clone(), 2 * pairs)),
    ];
    prop_oneof![
        20 => (0..3u64, 0..3u64, fields).prop_map(|(ms, seq, fields)| Step::Push { ms, seq, fields }),
        6 => any::<usize>().prop_map(Step::Delete),
        1 => any::<usize>().prop_map(Step::TrimLen),
        1 => any::<usize>().prop_map(Step::TrimFrom),
        1 => any::<usize>().prop_map(Step::TrimAbout),
    ]
}

/// An ID of the model, or next to one.
fn some_id(model: &Model, choice: usize) -> StreamId {
    let Some((id, _)) = model.entries.get(choice / 4 % model.entries.len().max(1)) else { return model.last_id };
    match choice % 4 {
        0 => id.next().expect("the tests' IDs are small"),
        1 => id.previous().expect("the tests' IDs are above 0-0"),
        _ => *id,
    }
}

fn take(stream: &mut Stream, model: &mut Model, step: Step) {
    match step {
        Step::Push { ms, seq, fields } => {
            let last = model.last_id;
            let id = StreamId { ms: last.ms + ms, seq: if ms == 0 { last.seq + 1 + seq } else { seq } };
            stream.push(BlockLimits::of(4096, 100), id, fields.iter().map(Vec::as_slice));
            model.entries.push((id, fields));
            model.last_id = id;
        }
        Step::Delete(choice) => {
            let id = some_id(model, choice);
            let at = model.entries.iter().position(|(other, _)| *other == id);
            assert_eq!(stream.delete(id), at.is_some());
            if let Some(at) = at {
                model.entries.remove(at);
                model.max_deleted_id = model.max_deleted_id.max(id);
            }
        }
        Step::TrimLen(choice) => {
            let most = choice % (model.entries.len() + 2);
            let gone = model.entries.len().saturating_sub(most);
            assert_eq!(stream.trim(&Trim { rest: Rest::Len(most), is_approximate: false, limit: 0 }), gone);
            model.entries.drain(..gone);
        }
        Step::TrimFrom(choice) => {
            let id = some_id(model, choice);
            let gone = model.entries.partition_point(|(other, _)| *other < id);
            assert_eq!(stream.trim(&Trim { rest: Rest::From(id), is_approximate: false, limit: 0 }), gone);
            model.entries.drain(..gone);
        }
        Step::TrimAbout(choice) => {
            let most = choice % (model.entries.len() + 2);
            let gone = stream.trim(&Trim { rest: Rest::Len(most), is_approximate: true, limit: 150 });
            assert!(gone <= 150 && model.entries.len() - gone >= most.min(model.entries.len()));
            model.entries.drain(..gone);
        }
    }
}

fn owned<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<(StreamId, Vec<Vec<u8>>)> {
    let fields = |entry: Entry<'_>| entry.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]).collect();
    entries.map(|entry| (entry.id, fields(entry))).collect()
}

fn check(stream: &Stream, model: &Model, choices: (usize, usize)) {
    assert_eq!(stream.len(), model.entries.len());
    assert_eq!((stream.last_id, stream.max_deleted_id), (model.last_id, model.max_deleted_id));
    assert_eq!(stream.first_id(), model.entries.first().map_or(StreamId::MIN, |(id, _)| *id));
    assert_eq!(stream.last_entry_id(), model.entries.last().map_or(StreamId::MIN, |(id, _)| *id));
    assert_eq!(owned(stream.range(StreamId::MIN, StreamId::MAX)), model.entries);
    let (start, end) = (some_id(model, choices.0), some_id(model, choices.1));
    let mut wanted: Vec<_> = model.entries.iter().filter(|(id, _)| (start..=end).contains(id)).cloned().collect();
    assert_eq!(owned(stream.range(start, end)), wanted);
    wanted.reverse();
    assert_eq!(owned(stream.range_reversed(start, end)), wanted);
    assert_eq!(stream.get(start).is_some(), model.entries.iter().any(|(id, _)| *id == start));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn a_stream_holds_what_a_sorted_list_would(
        steps in prop::collection::vec(step(), 0..400),
        choices in prop::collection::vec(any::<(usize, usize)>(), 1..8),
    ) {
        let (mut stream, mut model) = (Stream::default(), Model::default());
        let check_each = steps.len() / choices.len() + 1;
        for (number, step) in steps.into_iter().enumerate() {
            take(&mut stream, &mut model, step);
            if number % check_each == 0 {
                check(&stream, &model, choices[number / check_each]);
            }
        }
        check(&stream, &model, choices[0]);
        check(&stream.clone(), &model, choices[0]);
    }
}

#[test]
fn lag_is_known_unless_a_gap_lies_ahead() {
    let mut stream = Stream::default();
    let id = |ms| StreamId { ms, seq: 0 };
    (1..=5).for_each(|ms| stream.push(BlockLimits::of(4096, 100), id(ms), [b"f".as_slice(), b"v"].into_iter()));
    let group = |last, read| Group::new(id(last), read);
    assert_eq!(stream.lag(&group(0, None)), Some(5));
    assert_eq!(stream.lag(&group(1, None)), Some(4));
    assert_eq!(stream.lag(&group(2, None)), None);
    assert_eq!(stream.lag(&group(2, Some(2))), Some(3));
    assert_eq!(stream.lag(&group(5, None)), Some(0));
    assert!(stream.delete(id(3)));
    assert_eq!(stream.lag(&group(2, Some(2))), None);
    assert_eq!(stream.lag(&group(3, Some(3))), None);
    assert_eq!(stream.lag(&group(4, Some(4))), Some(1));
    assert_eq!(stream.entries_read_at(id(4), Some(2)), Some(3));
    assert_eq!(stream.entries_read_at(id(2), Some(1)), None);
}

#[test]
fn ids_go_on_where_the_clock_went_back_and_end_at_the_greatest() {
    let mut stream = Stream::default();
    assert_eq!(stream.next_id(7), Some(StreamId { ms: 7, seq: 0 }));
    stream.push(BlockLimits::of(4096, 100), StreamId { ms: 9, seq: 3 }, [b"f".as_slice(), b"v"].into_iter());
    assert_eq!(stream.next_id(7), Some(StreamId { ms: 9, seq: 4 }));
    assert_eq!(stream.next_id(10), Some(StreamId { ms: 10, seq: 0 }));
    stream.push(BlockLimits::of(4096, 100), StreamId::MAX, [b"f".as_slice(), b"v"].into_iter());
    assert_eq!(stream.next_id(10), None);
}

#[test]
fn counts_at_their_edges_are_counts_or_unknown() {
    let added = |entries_added: u64| {
        let mut stream = Stream { entries_added, ..Stream::default() };
        stream.push(BlockLimits::of(4096, 100), StreamId { ms: 1, seq: 0 }, [b"f".as_slice(), b"v"].into_iter());
        stream.push(BlockLimits::of(4096, 100), StreamId { ms: 2, seq: 0 }, [b"f".as_slice(), b"v"].into_iter());
        stream
    };
    let (first, last, most) = (StreamId { ms: 1, seq: 0 }, StreamId { ms: 2, seq: 0 }, i64::MAX);
    for (before, of_first, of_last) in [
        (0, Some(1), Some(2)),
        (most as u64 - 2, Some(most - 1), Some(most)),
        (most as u64 - 1, Some(most), None),
        (most as u64, None, None),
        (u64::MAX - 1, None, None),
        (u64::MAX, None, None),
    ] {
        let stream = added(before);
        assert_eq!(stream.entries_added, before.saturating_add(2));
        assert_eq!((stream.entries_up_to(first), stream.entries_up_to(last)), (of_first, of_last), "{before}");
        assert_eq!(stream.entries_read_at(first, Some(most)), None);
        assert_eq!(stream.entries_read_at(first, Some(most - 1)), Some(most));
        let group = Group::new(first, Some(most));
        let lag = i128::from(stream.entries_added) - i128::from(most);
        assert_eq!(stream.lag(&group), i64::try_from(lag).ok(), "{before}");
    }
    // A client may claim that fewer were added than there are.
    let mut stream = added(0);
    stream.entries_added = 1;
    assert_eq!(stream.entries_up_to(first), None);
}
