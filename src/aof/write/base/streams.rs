//! The effects that make a stream whose DUMP is longer than a record holds.
//!
//! ```text
//! XADD key id field value …                                     each entry
//! XTRIM key MINID = id | XTRIM key MAXLEN = 0                   what stood before the first, where something did
//! XGROUP CREATE key group last-id ENTRIESREAD n                 each group
//! XCLAIM key group consumer 0 id … TIME ms RETRYCOUNT n FORCE JUSTID SEEN ms [ACTIVE ms]
//! XCLAIM key group consumer 0 SEEN ms [ACTIVE ms]               each consumer that has nothing pending
//! XDEL key id …                                                 what is pending and was deleted
//! XSETID key last-id ENTRIESADDED n MAXDELETEDID id
//! ```
//!
//! An entry that is gone but still pending is added, claimed, and removed again, the way it was removed at first:
//! trimmed entries are before the first entry, and entries deleted by name are not above the greatest deleted ID. The
//! stream's blocks may be divided differently than before.

use crate::keyspace::Stream;
use crate::keyspace::values::stream::{ENTRY_BYTES_MAX, Entry, Group, Pending, StreamId};
use std::collections::BTreeSet;

/// An entry in the place of one that is gone: XADD needs a field.
const GONE: [&[u8]; 2] = [b"", b""];

/// No ID is longer.
const ID_LEN: usize = 41;

/// Receives the words of an effect.
pub type Emit<'a> = dyn FnMut(&[&[u8]]) -> Result<(), String> + 'a;

/// Passes the effects that make a stream to `emit`; a list of IDs in them is at most about `piece_len` bytes long. The
/// error is that of `emit`, or says why commands cannot make the stream.
pub fn emit_stream(key: &[u8], stream: &Stream, piece_len: usize, emit: &mut Emit<'_>) -> Result<(), String> {
    let gone = Gone::of(stream);
    if let Some(reason) = misfit(stream, &gone) {
        return Err(format!("the stream of the key {} is longer than a record, and {reason}", key.escape_ascii()));
    }
    let writer = &mut Writer { key, piece_len, emit };
    writer.entries(stream, &gone)?;
    for (name, group) in &stream.groups {
        writer.group(name, group)?;
    }
    writer.take_away(stream, &gone)?;
    writer.past(stream)
}

/// Entries that are pending but no longer in the stream.
struct Gone {
    trimmed: BTreeSet<StreamId>,
    deleted: BTreeSet<StreamId>,
}

impl Gone {
    fn of(stream: &Stream) -> Self {
        let pending = stream.groups.values().flat_map(|group| group.pending_from(StreamId::MIN)).map(|(id, _)| id);
        let gone: BTreeSet<StreamId> = pending.filter(|&id| stream.get(id).is_none()).collect();
        let (trimmed, deleted) = gone.into_iter().partition(|&id| stream.is_empty() || id < stream.first_id());
        Self { trimmed, deleted }
    }
}

/// What XADD and XSETID refuse: only a forged RESTORE payload has it.
fn misfit(stream: &Stream, gone: &Gone) -> Option<&'static str> {
    let mut entries = stream.range(StreamId::MIN, StreamId::MAX);
    let is_unfit = |entry: Entry<'_>| {
        let bytes: usize = entry.fields().map(|(name, value)| name.len() + value.len()).sum();
        entry.id == StreamId::MIN || entry.fields().len() == 0 || bytes > ENTRY_BYTES_MAX
    };
    let gone_last = gone.trimmed.last().max(gone.deleted.last()).copied();
    if entries.any(is_unfit) || gone.trimmed.contains(&StreamId::MIN) {
        Some("XADD adds no such entries as it has")
    } else if gone.deleted.last().is_some_and(|last| *last > stream.max_deleted_id) || gone_last > Some(stream.last_id)
    {
        Some("what is pending in it never was in it")
    } else if stream.last_id < stream.max_deleted_id
        || i64::try_from(stream.entries_added).map_or(true, |added| added < stream.len() as i64)
    {
        Some("what it says of its past does not fit its entries")
    } else {
        None
    }
}

struct Writer<'a, 't> {
    key: &'a [u8],
    piece_len: usize,
    emit: &'a mut Emit<'t>,
}

impl Writer<'_, '_> {
    /// Adds all entries in the order of their IDs, with those that are gone among them, and never more than there were.
    fn entries(&mut self, stream: &Stream, gone: &Gone) -> Result<(), String> {
        self.trimmed(stream, gone)?;
        let mut deleted = gone.deleted.iter().peekable();
        for entry in stream.range(StreamId::MIN, StreamId::MAX) {
            while let Some(&id) = deleted.next_if(|id| **id < entry.id) {
                self.entry(id, &GONE)?;
            }
            let words: Vec<&[u8]> = entry.fields().flat_map(|(name, value)| [name, value]).collect();
            self.entry(entry.id, &words)?;
        }
        deleted.try_for_each(|&id| self.entry(id, &GONE))
    }

    fn trimmed(&mut self, stream: &Stream, gone: &Gone) -> Result<(), String> {
        gone.trimmed.iter().try_for_each(|&id| self.entry(id, &GONE))?;
        // The key is there, though it may have no entries.
        match stream.is_empty() && gone.trimmed.is_empty() {
            true => self.entry(StreamId { ms: 0, seq: 1 }, &GONE),
            false => Ok(()),
        }
    }

    fn entry(&mut self, id: StreamId, words: &[&[u8]]) -> Result<(), String> {
        (self.emit)(&[&[b"XADD".as_slice(), self.key, id.to_string().as_bytes()], words].concat())
    }

    fn group(&mut self, name: &[u8], group: &Group) -> Result<(), String> {
        let (last_id, read) = (group.last_id.to_string(), group.entries_read.unwrap_or(-1).to_string());
        let [last_id, read] = [&last_id, &read].map(String::as_bytes);
        (self.emit)(&[b"XGROUP", b"CREATE", self.key, name, last_id, b"ENTRIESREAD", read])?;
        for (consumer, times) in group.consumers() {
            let (seen, active) = (times.seen_ms.to_string(), times.active_ms.map(|active| active.to_string()));
            let mut seen_words = vec![b"SEEN".as_slice(), seen.as_bytes()];
            seen_words.extend(active.iter().flat_map(|active| [b"ACTIVE".as_slice(), active.as_bytes()]));
            let head = [b"XCLAIM".as_slice(), self.key, name, &**consumer, b"0"];
            let pending: Vec<_> = group.pending_of(consumer, StreamId::MIN).collect();
            if pending.is_empty() {
                (self.emit)(&[&head[..], &seen_words].concat())?;
            }
            let are_alike = |(_, one): &(StreamId, &Pending), (_, other): &(StreamId, &Pending)| one == other;
            for alike in pending.chunk_by(are_alike) {
                self.claim(&head, alike, &seen_words)?;
            }
        }
        Ok(())
    }

    /// Claims entries that were delivered to a consumer at one time and equally often.
    fn claim(&mut self, head: &[&[u8]], alike: &[(StreamId, &Pending)], seen: &[&[u8]]) -> Result<(), String> {
        let Pending { delivered_ms, deliveries, .. } = alike[0].1;
        let (time, count) = (delivered_ms.to_string(), (*deliveries as i64).to_string());
        let tail = [b"TIME".as_slice(), time.as_bytes(), b"RETRYCOUNT", count.as_bytes(), b"FORCE", b"JUSTID"];
        self.over(head, alike.iter().map(|(id, _)| *id), &[&tail[..], seen].concat())
    }

    fn take_away(&mut self, stream: &Stream, gone: &Gone) -> Result<(), String> {
        let first = stream.first_id().to_string();
        if stream.is_empty() {
            // The deleted ones of an empty stream count as trimmed.
            (self.emit)(&[b"XTRIM", self.key, b"MAXLEN", b"=", b"0"])?;
        } else if !gone.trimmed.is_empty() {
            (self.emit)(&[b"XTRIM", self.key, b"MINID", b"=", first.as_bytes()])?;
        }
        self.over(&[b"XDEL", self.key], gone.deleted.iter().copied(), &[])
    }

    fn past(&mut self, stream: &Stream) -> Result<(), String> {
        let numbers = [stream.last_id.to_string(), stream.entries_added.to_string(), stream.max_deleted_id.to_string()];
        let [last_id, added, max_deleted] = [0, 1, 2].map(|at| numbers[at].as_bytes());
        (self.emit)(&[b"XSETID", self.key, last_id, b"ENTRIESADDED", added, b"MAXDELETEDID", max_deleted])
    }

    /// Sends one command over IDs, or several if there are many.
    fn over(&mut self, head: &[&[u8]], ids: impl Iterator<Item = StreamId>, tail: &[&[u8]]) -> Result<(), String> {
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        for some in ids.chunks((self.piece_len / ID_LEN).max(1)) {
            let some: Vec<&[u8]> = some.iter().map(String::as_bytes).collect();
            (self.emit)(&[head, &some, tail].concat())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::values::stream::BlockLimits;

    const TWO: StreamId = StreamId { ms: 2, seq: 0 };

    /// The effects of a stream with the entry 2-0 after a change, or why there are none.
    fn told(change: impl FnOnce(&mut Stream)) -> Result<Vec<String>, String> {
        let (mut stream, mut effects) = (Stream::default(), Vec::new());
        stream.push(BlockLimits::of(4096, 100), TWO, [b"f".as_slice(), b"v"].into_iter());
        change(&mut stream);
        emit_stream(b"k", &stream, 2 * ID_LEN, &mut |effect| {
            effects.push(effect.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "));
            Ok(())
        })?;
        Ok(effects)
    }

    fn pending(ids: &[u64]) -> Group {
        let mut group = Group::new(TWO, Some(1));
        group.add_consumer(b"c", 5);
        ids.iter().for_each(|&ms| group.assign(StreamId { ms, seq: 0 }, b"c", 7, 1));
        group
    }

    #[test]
    fn what_is_pending_and_gone_is_added_claimed_and_taken_away_as_it_went() {
        let effects = told(|stream| {
            stream.push(BlockLimits::of(4096, 100), StreamId { ms: 3, seq: 0 }, [b"f".as_slice(), b"v"].into_iter());
            stream.push(BlockLimits::of(4096, 100), StreamId { ms: 4, seq: 0 }, [b"f".as_slice(), b"v"].into_iter());
            assert!(stream.delete(StreamId { ms: 3, seq: 0 }));
            stream.entries_added = 9;
            stream.groups.insert(b"g".as_slice().into(), pending(&[1, 2, 3]));
        });
        let wanted = [
            "XADD k 1-0  ",
            "XADD k 2-0 f v",
            "XADD k 3-0  ",
            "XADD k 4-0 f v",
            "XGROUP CREATE k g 2-0 ENTRIESREAD 1",
            "XCLAIM k g c 0 1-0 2-0 TIME 7 RETRYCOUNT 1 FORCE JUSTID SEEN 5",
            "XCLAIM k g c 0 3-0 TIME 7 RETRYCOUNT 1 FORCE JUSTID SEEN 5",
            "XTRIM k MINID = 2-0",
            "XDEL k 3-0",
            "XSETID k 4-0 ENTRIESADDED 9 MAXDELETEDID 3-0",
        ];
        assert_eq!(effects, Ok(wanted.map(String::from).to_vec()));
    }

    #[test]
    fn a_stream_that_commands_cannot_make_is_refused_by_the_name_of_its_key() {
        type Change = fn(&mut Stream);
        let changes: [(&str, Change); 8] = [
            ("past", |stream| stream.entries_added = 0),
            ("past", |stream| stream.entries_added = 1 << 63),
            ("past", |stream| stream.max_deleted_id = StreamId { ms: 9, seq: 0 }),
            ("never was", |stream| _ = stream.groups.insert(b"g".as_slice().into(), pending(&[3]))),
            ("never was", |stream| {
                stream.trim(&crate::keyspace::values::stream::Trim {
                    rest: crate::keyspace::values::stream::Rest::Len(0),
                    is_approximate: false,
                    limit: 0,
                });
                stream.groups.insert(b"g".as_slice().into(), pending(&[3]));
            }),
            ("no such entries", |stream| _ = stream.groups.insert(b"g".as_slice().into(), pending(&[0]))),
            ("no such entries", |stream| {
                stream.push(BlockLimits::of(4096, 100), StreamId { ms: 3, seq: 0 }, std::iter::empty())
            }),
            ("", |stream| stream.entries_added = 1),
        ];
        for (reason, change) in changes {
            match told(change) {
                Err(said) => assert!(!reason.is_empty() && said.contains(reason) && said.contains("key k"), "{said}"),
                Ok(effects) => assert!(reason.is_empty(), "{reason}: {effects:?}"),
            }
        }
    }
}
