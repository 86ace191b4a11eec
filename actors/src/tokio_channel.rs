//! Tokio's bounded channels as mailboxes, to compare with flume's.
//!
//! A sender takes a permit of a semaphore, and puts its value into a list of blocks without a lock; flume locks a mutex
//! around a ring buffer. The way back is the same.

use crate::channel::{Channels, Closed, Receiver, Sender, TrySendError};
use crate::replies::LockFreeReplyQueue;
use tokio::sync::mpsc;

/// Bounded tokio mailboxes and lock-free reply queues.
#[derive(Debug, Clone, Copy)]
pub struct TokioChannels;

impl Channels for TokioChannels {
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = TokioReceiver<T>;
    type ReplyQueue<T: Send + 'static> = LockFreeReplyQueue<T>;

    fn bounded<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (sender, TokioReceiver(receiver))
    }
}

impl<T: Send + 'static> Sender<T> for mpsc::Sender<T> {
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        mpsc::Sender::try_send(self, value).map_err(|error| match error {
            mpsc::error::TrySendError::Full(value) => TrySendError::Full(value),
            mpsc::error::TrySendError::Closed(value) => TrySendError::Closed(value),
        })
    }

    async fn send(&self, value: T) -> Result<(), Closed<T>> {
        mpsc::Sender::send(self, value).await.map_err(|mpsc::error::SendError(value)| Closed(value))
    }

    /// Senders that wait for room have a value each, which is not counted.
    fn len(&self) -> usize {
        self.max_capacity() - self.capacity()
    }
}

/// The receiver of a tokio channel. Dropping it drops queued values.
#[derive(Debug)]
pub struct TokioReceiver<T>(mpsc::Receiver<T>);

impl<T: Send + 'static> Receiver<T> for TokioReceiver<T> {
    fn try_recv(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }

    async fn recv(&mut self) -> Option<T> {
        self.0.recv().await
    }
}
