//! The reply scanner against itself (any split equals one feed), against any bytes, and against
//! `redis-protocol` as an oracle. proptest prints the seed of a failure.

use loadgen::resp::{ReplyKind, ReplyRun, ReplyScanner, ScanError, Scanned};
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode as decode2;
use redis_protocol::resp2::encode::extend_encode as encode2;
use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::decode::complete::decode as decode3;
use redis_protocol::resp3::encode::complete::extend_encode as encode3;
use redis_protocol::resp3::types::OwnedFrame as Frame3;

/// Where each reply ends in the whole stream, and its kind; and the error that ended it, if any.
type Trace = (Vec<(usize, ReplyKind)>, Option<ScanError>);

fn scan_in_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Trace {
    let mut scanner = ReplyScanner::new();
    let (mut replies, mut base) = (Vec::new(), 0);
    for piece in pieces {
        let mut at = 0;
        loop {
            match scanner.scan(&piece[at..]) {
                Ok(Scanned::Reply { kind, length }) => {
                    assert!(length <= piece.len() - at);
                    at += length;
                    replies.push((base + at, kind));
                }
                Ok(Scanned::Incomplete) => break,
                Err(error) => return (replies, Some(error)),
            }
        }
        base += piece.len();
    }
    (replies, None)
}

/// The same, with replies that are alike taken together, up to as many as `most` says.
fn scan_in_runs<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, most: u64) -> Trace {
    let mut scanner = ReplyScanner::new();
    let (mut replies, mut base) = (Vec::new(), 0);
    for piece in pieces {
        let mut at = 0;
        loop {
            match scanner.scan_run(&piece[at..], most) {
                Ok(Some(ReplyRun { kind, count, length })) => {
                    assert!((1..=most).contains(&count) && length <= piece.len() - at);
                    // All but the first lie in this piece whole, so they are as long as the last.
                    let each = length / count as usize;
                    at += length;
                    replies.extend((0..count as usize).rev().map(|after| (base + at - after * each, kind)));
                }
                Ok(None) => break,
                Err(error) => return (replies, Some(error)),
            }
        }
        base += piece.len();
    }
    (replies, None)
}

fn line() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 :'_.-]{0,20}"
}

fn frame2() -> impl Strategy<Value = Frame2> {
    let leaf = prop_oneof![
        line().prop_map(|text| Frame2::SimpleString(text.into_bytes())),
        line().prop_map(Frame2::Error),
        any::<i64>().prop_map(Frame2::Integer),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Frame2::BulkString),
        Just(Frame2::Null),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| prop::collection::vec(inner, 0..6).prop_map(Frame2::Array))
}

fn frame3() -> impl Strategy<Value = Frame3> {
    let attributes = || None;
    let leaf = prop_oneof![
        line().prop_map(move |text| Frame3::SimpleString { data: text.into_bytes(), attributes: attributes() }),
        line().prop_map(move |data| Frame3::SimpleError { data, attributes: attributes() }),
        any::<i64>().prop_map(move |data| Frame3::Number { data, attributes: attributes() }),
        (-1e9..1e9).prop_map(move |data| Frame3::Double { data, attributes: attributes() }),
        any::<bool>().prop_map(move |data| Frame3::Boolean { data, attributes: attributes() }),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(move |data| Frame3::BlobString { data, attributes: attributes() }),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(move |data| Frame3::BlobError { data, attributes: attributes() }),
        "-?[1-9][0-9]{0,30}"
            .prop_map(move |digits| Frame3::BigNumber { data: digits.into_bytes(), attributes: attributes() }),
        Just(Frame3::Null),
    ];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(move |data| Frame3::Array { data, attributes: attributes() }),
            prop::collection::vec((line(), inner), 0..6).prop_map(move |pairs| Frame3::Map {
                data: pairs
                    .into_iter()
                    .map(|(key, value)| {
                        (Frame3::SimpleString { data: key.into_bytes(), attributes: attributes() }, value)
                    })
                    .collect(),
                attributes: attributes(),
            }),
        ]
    })
}

fn bytes2(frame: &Frame2) -> Vec<u8> {
    let mut bytes = bytes::BytesMut::new();
    encode2(&mut bytes, &frame.clone().into_bytes_frame(), false).expect("encodable");
    bytes.to_vec()
}

fn bytes3(frame: &Frame3) -> Vec<u8> {
    let mut bytes = bytes::BytesMut::new();
    encode3(&mut bytes, &frame.clone().into_bytes_frame(), false).expect("encodable");
    bytes.to_vec()
}

/// Bytes that look like RESP more often than random ones do.
fn resp_like() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"+OK\r\n".to_vec()),
        Just(b"$-1\r\n".to_vec()),
        prop::sample::select(b"+-:$*_#,(=!~>%|".to_vec()).prop_map(|byte| vec![byte]),
        (0..40_u32).prop_map(|number| number.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_split_at_every_byte_equals_one_feed(frames in prop::collection::vec(frame3(), 1..4)) {
        let stream: Vec<u8> = frames.iter().flat_map(bytes3).collect();
        let whole = scan_in_pieces([&stream[..]]);
        prop_assert_eq!(scan_in_pieces(stream.chunks(1)), whole.clone());
        for cut in 0..=stream.len() {
            let (left, right) = stream.split_at(cut);
            prop_assert_eq!(scan_in_pieces([left, right]), whole.clone(), "cut at {}", cut);
        }
    }

    #[test]
    fn replies_end_where_redis_protocol_says_in_resp2(frames in prop::collection::vec(frame2(), 1..5)) {
        let stream: Vec<u8> = frames.iter().flat_map(bytes2).collect();
        let mut end = 0;
        let mut ends = Vec::new();
        while let Some((_, length)) = decode2(&bytes::Bytes::copy_from_slice(&stream[end..])).expect("valid") {
            end += length;
            ends.push(end);
        }
        let (replies, error) = scan_in_pieces([&stream[..]]);
        prop_assert_eq!(error, None);
        prop_assert_eq!(replies.iter().map(|(end, _)| *end).collect::<Vec<_>>(), ends);
        prop_assert_eq!(replies.len(), frames.len());
    }

    #[test]
    fn replies_end_where_redis_protocol_says_in_resp3(frame in frame3()) {
        let stream = bytes3(&frame);
        let (_, length) = decode3(&stream).expect("valid").expect("complete");
        let (replies, error) = scan_in_pieces([&stream[..]]);
        prop_assert_eq!(error, None);
        prop_assert_eq!(replies.len(), 1);
        prop_assert_eq!(replies[0].0, length);
    }

    #[test]
    fn a_truncated_reply_is_incomplete_and_no_error(frame in frame3(), cut in any::<prop::sample::Index>()) {
        let stream = bytes3(&frame);
        let cut = cut.index(stream.len());
        prop_assert_eq!(scan_in_pieces([&stream[..cut]]), (vec![], None));
    }

    #[test]
    fn replies_taken_together_are_those_taken_one_by_one(
        frames in prop::collection::vec((frame2(), 1_usize..9), 1..5), most in 1_u64..20, size in 1_usize..200,
    ) {
        let repeated = |(frame, times): &(Frame2, usize)| bytes2(frame).repeat(*times);
        let stream: Vec<u8> = frames.iter().flat_map(repeated).collect();
        let one_by_one = scan_in_pieces([&stream[..]]);
        prop_assert_eq!(scan_in_runs([&stream[..]], most), one_by_one.clone());
        prop_assert_eq!(scan_in_runs(stream.chunks(size), most), one_by_one);
    }

    #[test]
    fn replies_alike_come_as_one_run(times in 1_u64..50, most in 1_u64..50, length in 0_usize..2000) {
        for reply in ["+OK\r\n".to_owned(), "$-1\r\n".to_owned(), format!("${length}\r\n{}\r\n", "x".repeat(length))] {
            let run = ReplyScanner::new().scan_run(reply.repeat(times as usize).as_bytes(), most);
            prop_assert_eq!(run.map(|run| run.map(|run| run.count)), Ok(Some(times.min(most))));
        }
    }

    #[test]
    fn any_bytes_are_scanned_the_same_however_they_are_split(stream in resp_like(), size in 1_usize..5) {
        let whole = scan_in_pieces([&stream[..]]);
        prop_assert_eq!(scan_in_pieces(stream.chunks(size)), whole.clone());
        prop_assert_eq!(scan_in_runs([&stream[..]], 9), whole);
    }

    #[test]
    fn what_both_accept_has_the_same_length(stream in resp_like()) {
        let (replies, _) = scan_in_pieces([&stream[..]]);
        if let (Some((end, _)), Ok(Some((_, length)))) = (replies.first(), decode2(&bytes::Bytes::copy_from_slice(&stream))) {
            prop_assert_eq!(*end, length);
        }
    }
}
