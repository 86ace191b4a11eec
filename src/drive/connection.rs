//! A connection without a socket.

use super::load::Batch;
use crate::base::tsc;
use crate::commands::{Context, find_of};
use crate::engine::{Accepts, GATHERED_BYTES_MAX, Session};
use crate::keyspace::Instance;
use crate::resp::{Limits, Output, RequestParser, Step};
use crate::stats::stage_latency::Stage;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

/// What a parser accepts from an authenticated client.
pub const LIMITS: Limits = Limits { bulk_len_max: 512 * 1024 * 1024, authenticated: true };

/// Runs batches of requests, one after the other.
pub trait Client: Send + 'static {
    /// Runs a batch; when this returns, `replies` has taken all of its replies.
    fn call(&mut self, batch: &Batch, replies: &mut Replies) -> impl Future<Output = ()> + Send;

    /// The counts of the locks that it took, if it counts them itself.
    fn waits(&self) -> Waits {
        Waits::default()
    }
}

/// Takes replies in place of a socket, and drops them when a socket would send them.
#[derive(Debug, Default)]
pub struct Replies {
    /// Replies that it still holds.
    pub out: Output,
    /// Bytes dropped.
    pub bytes: u64,
    /// Whether to look for error replies: only before the measurement.
    pub looks_for_errors: bool,
    /// The first error reply.
    pub error: Option<String>,
}

impl Replies {
    /// Drops the replies that it holds.
    pub fn drop_all(&mut self) {
        while self.out.unsent() > 0 {
            let next = self.out.next(usize::MAX);
            let len = next.len();
            if self.looks_for_errors && self.error.is_none() {
                self.error = error_in(next);
            }
            self.bytes += len as u64;
            self.out.note_sent(len);
        }
        self.out.give_back_buffer(false);
    }
}

/// The first line that begins like an error. No line of a value begins so.
fn error_in(replies: &[u8]) -> Option<String> {
    let mut lines = replies.split(|&byte| byte == b'\n');
    lines.find(|line| line.starts_with(b"-")).map(|line| String::from_utf8_lossy(line).into_owned())
}

/// How locks were acquired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// How often a lock was free.
    pub free: u64,
    /// How often it was taken.
    pub count: u64,
    /// How many ticks were spent waiting.
    pub ticks: u64,
}

impl Waits {
    /// Takes a lock: first tries without waiting, then waits.
    #[inline]
    pub fn take<G>(&mut self, at_once: impl FnOnce() -> Option<G>, waiting: impl FnOnce() -> G) -> G {
        if let Some(guard) = at_once() {
            self.free += 1;
            return guard;
        }
        let start = tsc::now();
        let guard = waiting();
        self.count += 1;
        self.ticks += tsc::now().saturating_sub(start);
        guard
    }
}

impl std::ops::AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.free += other.free;
        self.count += other.count;
        self.ticks += other.ticks;
    }
}

/// A session of an engine, with what a connection does between its socket and the session.
pub struct Socketless<S> {
    session: S,
    parser: RequestParser,
    instance: Arc<Instance>,
}

impl<S: Session> Socketless<S> {
    /// A connection with this session.
    pub fn new(session: S, instance: Arc<Instance>) -> Self {
        Self { session, parser: RequestParser::default(), instance }
    }

    /// Accepts requests, as a connection does with the bytes of a read; returns how many bytes it took.
    fn accept(&mut self, input: &[u8], out: &mut Output) -> usize {
        let sampled = self.instance.stages.samples_next_read().then(|| {
            self.session.sample();
            tsc::now()
        });
        let mut consumed = 0;
        loop {
            match self.session.accepts() {
                Accepts::Now => {}
                Accepts::AfterGathered if self.session.run_gathered(input, out) => continue,
                Accepts::AfterGathered | Accepts::AfterFlush | Accepts::AfterReplies => break,
            }
            let Step::Request(len) = self.parser.parse(&input[consumed..], LIMITS).expect("requests are well formed")
            else {
                break;
            };
            if !self.accept_one(input, consumed..consumed + len, out) {
                break;
            }
            consumed += len;
        }
        self.session.run_gathered(input, out);
        if let Some(left) = self.session.take_left() {
            consumed = left.at;
        }
        if let Some(start) = sampled {
            let took = tsc::now().saturating_sub(start);
            self.instance.stages.note(Stage::Parse, took.saturating_sub(self.session.ticks_within()));
        }
        consumed
    }

    /// Returns false if the request must wait: there is no room for the replies of earlier ones.
    fn accept_one(&mut self, input: &[u8], place: Range<usize>, out: &mut Output) -> bool {
        let (len, is_last) = (place.len(), place.end == input.len());
        let args = self.parser.args(&input[place.start..]);
        let id = find_of(args).expect("requests are well formed").expect("their commands are known");
        let may_gather = len <= GATHERED_BYTES_MAX;
        if self.session.has_gathered() && !may_gather && !self.session.run_gathered(input, out) {
            return false;
        }
        let has_company = self.session.has_gathered() || !is_last;
        if !(has_company && may_gather && self.session.gather(id, args, Context::default(), place)) {
            self.session.submit(id, args, Context::default(), out);
        }
        true
    }

    /// Sends the accepted requests and takes their replies.
    async fn complete(&mut self, out: &mut Output) {
        self.session.flush().await;
        self.session.collect(out);
        while self.session.is_waiting() {
            if self.session.goes_on(true) {
                self.session.flush().await;
            } else {
                self.session.wait().await;
            }
            self.session.collect(out);
        }
        self.session.slow().clear();
        self.session.take_sampled();
    }
}

impl<S: Session> Client for Socketless<S> {
    async fn call(&mut self, batch: &Batch, replies: &mut Replies) {
        let mut rest = &batch.bytes[..];
        while !rest.is_empty() {
            let consumed = self.accept(rest, &mut replies.out);
            self.complete(&mut replies.out).await;
            replies.drop_all();
            rest = &rest[consumed..];
        }
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_among_replies() {
        assert_eq!(error_in(b"+OK\r\n$2\r\nxx\r\n:-1\r\n"), None);
        assert_eq!(error_in(b"+OK\r\n-ERR no\r\n").unwrap().trim(), "-ERR no");
    }

    #[test]
    fn a_lock_that_is_free_is_not_waited_for() {
        let mut waits = Waits::default();
        assert_eq!(waits.take(|| Some(1), || unreachable!()), 1);
        assert_eq!(waits.take(|| None, || 2), 2);
        assert_eq!((waits.free, waits.count), (1, 1));
    }
}
