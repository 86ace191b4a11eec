//! The requests of a batch, parsed before the lock is taken.

use super::super::connection::LIMITS;
use super::super::load::Batch;
use crate::commands::{CommandId, find_of};
use crate::resp::{Args, RequestParser, Span, Step};
use std::ops::Range;
use std::sync::Arc;

/// A parsed batch.
#[derive(Debug)]
pub struct Requests {
    bytes: Arc<[u8]>,
    requests: Vec<One>,
    spans: Vec<Span>,
}

#[derive(Debug)]
struct One {
    id: CommandId,
    start: usize,
    spans: Range<usize>,
}

impl Default for Requests {
    fn default() -> Self {
        Self { bytes: Arc::from([]), requests: Vec::new(), spans: Vec::new() }
    }
}

impl Requests {
    /// Replaces the requests by those of another batch, without copying them.
    pub fn take(&mut self, parser: &mut RequestParser, batch: &Batch) {
        self.bytes = Arc::clone(&batch.bytes);
        self.requests.clear();
        self.spans.clear();
        let mut start = 0;
        while let Step::Request(len) = parser.parse(&self.bytes[start..], LIMITS).expect("requests are well formed") {
            let args = parser.args(&self.bytes[start..]);
            let id = find_of(args).expect("requests are well formed").expect("their commands are known");
            let first = self.spans.len();
            self.spans.extend(args.spans());
            self.requests.push(One { id, start, spans: first..self.spans.len() });
            start += len;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// A range of the requests, with their arguments.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = (CommandId, Args<'_>)> + Clone {
        self.requests[range]
            .iter()
            .map(|one| (one.id, Args::new(&self.bytes[one.start..], &self.spans[one.spans.clone()])))
    }

    /// The ranges of requests that run together: all in one, or each alone.
    pub fn ranges(&self, is_by_read: bool) -> impl Iterator<Item = Range<usize>> + use<> {
        let (len, step) = (self.len(), if is_by_read { self.len().max(1) } else { 1 });
        (0..len).step_by(step).map(move |start| start..(start + step).min(len))
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_batch_are_found_with_their_arguments() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2\r\nxy\r\n";
        let mut requests = Requests::default();
        let batch = Batch { bytes: bytes.to_vec().into(), requests: 2 };
        (0..2).for_each(|_| requests.take(&mut RequestParser::default(), &batch));
        let words: Vec<Vec<&[u8]>> = requests.range(0..2).map(|(_, args)| args.iter().collect()).collect();
        assert_eq!(words, [vec![&b"GET"[..], b"a"], vec![&b"SET"[..], b"b", b"xy"]]);
        assert!(requests.ranges(true).eq(std::iter::once(0..2)));
        assert_eq!(requests.ranges(false).collect::<Vec<_>>(), [0..1, 1..2]);
    }
}
