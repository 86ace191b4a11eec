//! Sessions of the engines that run a command where it was read: in the connection task, under a lock.
//!
//! They pay for no channel and keep no reply waiting, so their part in a request is one call.

use super::Session;
use crate::aof::Segment;
use crate::commands::CommandId;
use crate::keyspace::Effects;
use crate::resp::{Args, Reply};
use std::sync::Arc;

/// What a session lends to the engine for the time of a command.
#[derive(Debug)]
pub struct Lent {
    /// Random numbers.
    pub random: fastrand::Rng,
    /// Room for the command's effects.
    pub effects: Effects,
    /// Unix time in milliseconds when the read began.
    pub now_ms: u64,
}

/// An engine that runs commands in the connection task.
pub trait InlineEngine: Send + Sync + 'static {
    /// Runs one command and logs what it changed.
    fn run(&self, id: CommandId, args: Args<'_>, reply: &mut Reply<'_>, lent: &mut Lent);
    /// Unix time in milliseconds.
    fn now_ms(&self) -> u64;
    /// Where changes are logged.
    fn segment(&self) -> Option<&Arc<Segment>>;
}

/// A session that has its replies at once.
pub struct InlineSession<E> {
    engine: Arc<E>,
    lent: Lent,
    is_new_read: bool,
}

impl<E: InlineEngine> InlineSession<E> {
    /// A session of `engine`.
    pub fn new(engine: Arc<E>, random: fastrand::Rng) -> Self {
        let effects = Effects::new(engine.segment().is_some());
        Self { engine, lent: Lent { random, effects, now_ms: 0 }, is_new_read: true }
    }
}

impl<E: InlineEngine> Session for InlineSession<E> {
    fn submit(&mut self, id: CommandId, args: Args<'_>, resp3: bool, out: &mut Vec<u8>) {
        if self.is_new_read {
            self.lent.now_ms = self.engine.now_ms();
            self.is_new_read = false;
        }
        self.engine.run(id, args, &mut Reply::new(out, resp3), &mut self.lent);
    }

    fn reply_here(&mut self, resp3: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        write(&mut Reply::new(out, resp3));
    }

    async fn flush(&mut self) {
        self.is_new_read = true;
        if let Some(segment) = self.engine.segment() {
            // Everything the replies show was appended before this.
            let lsn = segment.appended();
            segment.commit(lsn);
            segment.released(lsn).await;
        }
    }

    fn collect(&mut self, _out: &mut Vec<u8>) {}

    fn is_waiting(&self) -> bool {
        false
    }

    fn has_room(&self) -> bool {
        true
    }

    fn is_overflowed(&self) -> bool {
        false
    }

    async fn wait(&mut self) {}
}
