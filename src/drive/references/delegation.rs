//! Delegation: one thread, on its own core, owns the keyspace and runs the batches of all connections.
//!
//! Roghanchi, Eriksson, Basu: ffwd: delegation is (much) faster than you think (SOSP 2017); Lozi, David, Thomas,
//! Lawall, Muller: Remote Core Locking (USENIX ATC 2012).
//!
//! It differs from them in four ways. ffwd has one cache line of requests for each client and one of replies for a
//! group of clients, with a bit that toggles, so a client costs the server few transfers; here each connection has a
//! slot with an uncontended mutex. A connection that waits lets the others of its thread run, where their clients spin;
//! so a thread has as many batches in flight as connections. An RCL server that blocks passes its work to another
//! thread; this one does not. A batch of commands is one request; theirs are single operations.

use super::super::connection::{Client, Replies};
use super::super::load::Batch;
use super::super::options::Options;
use super::super::processes::pin;
use super::combining::Slots;
use super::keyspace::Owned;
use crate::resp::RequestParser;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// After this many rounds over empty slots the server yields its core.
const IDLE_LOOKS: usize = 1000;

/// State that the clients and the server share.
#[derive(Debug)]
pub struct Delegation {
    slots: Slots,
    has_ended: AtomicBool,
}

impl Delegation {
    /// Slots for this many connections.
    pub fn new(slots: usize) -> Self {
        Self { slots: Slots::new(slots), has_ended: AtomicBool::new(false) }
    }

    /// Starts the server, on the first core.
    pub fn start(self: &Arc<Self>, options: &Options) -> Result<JoinHandle<()>, String> {
        let (shared, is_by_read, pins) = (Arc::clone(self), options.is_by_read(), !options.no_pinning);
        let mut owned = Owned::new(options);
        let serve = move || {
            if pins {
                pin(0);
            }
            let mut idle = 0;
            while !shared.has_ended.load(Ordering::Relaxed) {
                idle = if shared.slots.serve_all(&mut owned, is_by_read) > 0 { 0 } else { idle + 1 };
                std::hint::spin_loop();
                if idle >= IDLE_LOOKS {
                    idle = 0;
                    thread::yield_now();
                }
            }
        };
        thread::Builder::new()
            .name("owner".into())
            .spawn(serve)
            .map_err(|error| format!("can't start a thread: {error}"))
    }

    /// Makes clients.
    pub fn begin(self: &Arc<Self>, _options: &Options) -> impl FnMut() -> Delegated + use<> {
        let shared = Arc::clone(self);
        move || Delegated { slot: shared.slots.take(), shared: Arc::clone(&shared), parser: RequestParser::default() }
    }

    /// Ends the server.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// A client.
pub struct Delegated {
    shared: Arc<Delegation>,
    slot: usize,
    parser: RequestParser,
}

impl Client for Delegated {
    async fn call(&mut self, batch: &Batch, replies: &mut Replies) {
        let slot = self.shared.slots.at(self.slot);
        slot.ask(&mut self.parser, batch);
        actors::yield_now().await;
        while !slot.is_done() {
            std::hint::spin_loop();
            actors::yield_now().await;
        }
        slot.take_replies(replies.out.buffer());
        replies.drop_all();
    }
}
