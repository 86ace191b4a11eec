//! The channels between ports and shards, behind small traits.
//!
//! Production uses flume mailboxes and lock-free reply queues. The traits exist so that schedules can be explored with
//! channels that the explorer instruments, and so that the lab can measure other channels.

use crate::replies::LockFreeReplyQueue;
use std::future::Future;
use std::task::Waker;

/// The other end of a channel is gone; holds the unsent value.
#[derive(Debug)]
pub struct Closed<T>(pub T);

/// Why a value could not be sent at once; returns the value.
#[derive(Debug)]
pub enum TrySendError<T> {
    /// The channel holds as many values as its capacity.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// A family of bounded channels: mailboxes (many senders, one receiver) to the shards, reply queues back to the
/// connections.
pub trait Channels: Send + Sync + 'static {
    /// The sending end of a mailbox.
    type Sender<T: Send + 'static>: Sender<T>;
    /// The receiving end of a mailbox.
    type Receiver<T: Send + 'static>: Receiver<T>;
    /// The queue back to a connection.
    type ReplyQueue<T: Send + 'static>: ReplyQueue<T>;
    /// A mailbox that holds at most `capacity` values; `capacity` is at least 1.
    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>);
}

/// The sending end of a mailbox.
pub trait Sender<T>: Clone + Send + Sync + 'static {
    /// Sends without waiting.
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>>;
    /// Waits for room, then sends.
    fn send(&self, value: T) -> impl Future<Output = Result<(), Closed<T>>> + Send;
    /// How many values wait in the channel: a gauge, possibly out of date. A value whose sending the caller knows of is
    /// counted until the receiver has taken it.
    fn len(&self) -> usize;
    /// Whether no value waits in the channel.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The receiving end of a mailbox.
pub trait Receiver<T>: Send + 'static {
    /// Takes a value if one is there.
    fn try_recv(&mut self) -> Option<T>;
    /// Waits for a value; `None` when every sender is gone and no value is left.
    fn recv(&mut self) -> impl Future<Output = Option<T>> + Send;
}

/// A bounded queue that many shards fill and one connection empties, with the connection's waker.
///
/// These are the single steps. The port uses them in the order that loses no wake-up: check, register, check again.
pub trait ReplyQueue<T>: Send + Sync + 'static {
    /// A queue that holds at most `capacity` values; `capacity` is at least 1.
    fn with_capacity(capacity: usize) -> Self;
    /// Adds a value, or returns it if the queue is full.
    fn push(&self, value: T) -> Result<(), T>;
    /// Takes the oldest value.
    fn pop(&self) -> Option<T>;
    /// Registers `waker`, replacing any earlier one.
    fn register(&self, waker: &Waker);
    /// Wakes and removes the registered waker. One that is being registered at the same time is seen, or is woken by
    /// its own registration.
    fn wake(&self);
}

/// Bounded flume mailboxes and lock-free reply queues.
#[derive(Debug, Clone, Copy)]
pub struct FlumeChannels;

impl Channels for FlumeChannels {
    type Sender<T: Send + 'static> = flume::Sender<T>;
    type Receiver<T: Send + 'static> = FlumeReceiver<T>;
    type ReplyQueue<T: Send + 'static> = LockFreeReplyQueue<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        assert!(capacity > 0, "a rendezvous channel would make a shard wait for a connection");
        let (sender, receiver) = flume::bounded(capacity);
        (sender, FlumeReceiver(receiver))
    }
}

impl<T: Send + 'static> Sender<T> for flume::Sender<T> {
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        flume::Sender::try_send(self, value).map_err(|error| match error {
            flume::TrySendError::Full(value) => TrySendError::Full(value),
            flume::TrySendError::Disconnected(value) => TrySendError::Closed(value),
        })
    }

    async fn send(&self, value: T) -> Result<(), Closed<T>> {
        self.send_async(value).await.map_err(|flume::SendError(value)| Closed(value))
    }

    fn len(&self) -> usize {
        flume::Sender::len(self)
    }
}

/// The one receiver of a flume channel.
///
/// Flume keeps queued values when its receiver is dropped, for as long as a sender lives. Dropping this drains the
/// channel first, so that values sent to a shard that is gone are not kept.
#[derive(Debug)]
pub struct FlumeReceiver<T>(flume::Receiver<T>);

impl<T: Send + 'static> Receiver<T> for FlumeReceiver<T> {
    fn try_recv(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }

    async fn recv(&mut self) -> Option<T> {
        // A new future each time: one kept across a value that was taken by `try_recv` may miss a wake-up.
        self.0.recv_async().await.ok()
    }
}

impl<T> Drop for FlumeReceiver<T> {
    fn drop(&mut self) {
        self.0.drain();
    }
}
