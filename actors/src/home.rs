//! Where a shard's state lies while its mailbox is empty, if ports may run batches in place.
//!
//! Ownership passes by message here, too: the home is a queue of one. A port takes the state out, runs a batch, and
//! puts the state back; a port that finds none sends the batch to the mailbox. The shard's task takes the state before
//! it takes anything out of its mailbox, and keeps it until it has served everything there.
//!
//! So a batch in place is no new kind of schedule. It runs while the mailbox is empty and nothing that was in it is
//! unfinished, exactly as if it had been sent and the shard had served it at once, in a turn of its own. What is in the
//! mailbox comes first: a part of a group that is placed, and that another shard may have run already, or a rendezvous.

use crate::channel::{Channels, FlumeChannels, Receiver};
use crate::replies::Replies;
use crate::shard::{Envelope, Mailbox, Shard};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The place of one shard's state.
///
/// Invariant: there is one state, so a queue of one never refuses it.
pub struct Home<S: Shard, C: Channels = FlumeChannels>(Arc<Replies<Box<S>, C>>);

impl<S: Shard, C: Channels> Clone for Home<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Shard, C: Channels> Home<S, C> {
    /// A home without a state: [`run_shard_at_home`](crate::run_shard_at_home) brings it.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Replies::new(1)))
    }

    pub(crate) fn take(&self) -> Option<Box<S>> {
        self.0.pop()
    }

    /// Puts the state back. The task of the shard does that; a port uses [`give_back`](Self::give_back).
    pub(crate) fn put(&self, state: Box<S>) {
        self.0.push_quietly(state);
    }

    /// Puts the state back, and wakes the task if it has looked for the state meanwhile: on another thread, since a
    /// port does not wait while it has the state.
    pub(crate) fn give_back(&self, state: Box<S>) {
        self.0.push(state);
    }

    /// Waits until something is in the mailbox, and takes it and the state; or the state alone when the mailbox is
    /// closed.
    ///
    /// Nothing is taken out of the mailbox while the state is away: a port that then put it back would not see what was
    /// taken.
    pub(crate) async fn next(&self, mailbox: &mut Mailbox<S, C>) -> (Box<S>, Option<Envelope<S, C>>) {
        let mut next = pin!(mailbox.recv());
        poll_fn(|context| {
            let Some(state) = self.take().or_else(|| self.0.register_and_pop(context.waker())) else {
                return Poll::Pending;
            };
            match next.as_mut().poll(context) {
                Poll::Ready(envelope) => Poll::Ready((state, envelope)),
                Poll::Pending => {
                    self.put(state);
                    Poll::Pending
                }
            }
        })
        .await
    }
}
