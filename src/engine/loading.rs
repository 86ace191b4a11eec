//! The session of a connection that comes before the data is loaded: commands over the data are refused until then.

use super::quantum::Quantum;
use super::{Accepts, LogView, Session};
use crate::commands::{CommandId, Context, Transaction};
use crate::keyspace::{LogPosition, Tracking};
use crate::resp::{Args, Output, Reply};
use crate::stats::slow_log::Slow;

/// A session without an engine. It runs nothing; a transaction that was begun waits for the engine's session.
///
/// Invariant: a command flagged `loading` is handled by the connection, or begun as a transaction.
#[derive(Debug, Default)]
pub struct LoadingSession {
    begun: Option<Box<Transaction>>,
    /// Nothing is read, so nothing follows from it.
    tracking: Tracking,
    quantum: Quantum,
    slow: Vec<Slow>,
}

impl LoadingSession {
    /// The transaction that waits for the engine.
    pub fn into_begun(self) -> Option<Box<Transaction>> {
        self.begun
    }
}

impl Session for LoadingSession {
    const IS_LOADING: bool = true;

    fn accepts(&self) -> Accepts {
        if self.quantum.is_over() { Accepts::AfterFlush } else { Accepts::Now }
    }

    fn submit(&mut self, _id: CommandId, _args: Args<'_>, _context: Context, _out: &mut Output) {
        unreachable!("commands over the data are refused while it is loaded");
    }

    fn reply_locally(&mut self, resp3: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        let start = out.len();
        write(&mut Reply::new(out, resp3));
        if self.quantum.is_muted() {
            self.quantum.drop_reply(out, start);
        }
    }

    fn tracking(&mut self) -> &mut Tracking {
        &mut self.tracking
    }

    fn set_muted(&mut self, is_muted: bool) {
        self.quantum.set_muted(is_muted);
    }

    fn note_spent(&mut self, ticks: u64) {
        self.quantum.note_spent(ticks);
    }

    fn note_sent(&mut self, bytes: usize) {
        self.quantum.note_replied(bytes);
    }

    fn slow(&mut self) -> &mut Vec<Slow> {
        &mut self.slow
    }

    fn is_batchable(&self, _id: CommandId, _args: Args<'_>) -> bool {
        true
    }

    fn take_turn(&mut self) -> bool {
        !self.quantum.is_muted()
    }

    fn accepted(&self) -> u64 {
        0
    }

    fn replied(&self) -> u64 {
        0
    }

    fn begin(&mut self, transaction: Box<Transaction>) {
        self.begun = Some(transaction);
    }

    fn take_finished(&mut self) -> Option<Box<Transaction>> {
        None
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn log(&self) -> LogView<'_> {
        LogView(&[])
    }

    fn written(&self) -> Vec<LogPosition> {
        Vec::new()
    }

    fn note_written(&mut self, _log_positions: &[LogPosition]) {}

    async fn flush(&mut self) {
        self.quantum.flush().await;
    }

    fn collect(&mut self, _out: &mut Output) {}

    fn is_waiting(&self) -> bool {
        self.begun.is_some()
    }

    fn has_room(&self) -> bool {
        true
    }

    async fn wait(&mut self) {
        std::future::pending().await
    }
}

#[test]
fn a_command_that_runs_while_loading_needs_no_data_or_waits_for_it() {
    use crate::commands::{COMMANDS, Flags, Request};
    let early = COMMANDS.iter().filter(|row| row.flags.has(Flags::LOADING));
    let submitted = early.filter(|row| row.request != Request::Local && !row.may_defer());
    assert_eq!(submitted.map(|row| row.name).collect::<Vec<_>>(), [""; 0]);
}
