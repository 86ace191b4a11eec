#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod channel;
mod home;
mod port;
mod reorder;
mod replies;
mod sequencer;
mod shard;
mod timeline;
mod tokio_channel;
mod yielding;

pub use channel::{Channels, Closed, FlumeChannels, FlumeReceiver, Receiver, ReplyQueue, Sender, TrySendError};
pub use home::Home;
pub use port::{Port, PortClosed};
pub use reorder::ReorderBuffer;
pub use replies::LockFreeReplyQueue;
pub use sequencer::{Placement, Sequencer};
pub use shard::{Envelope, Mailbox, Router, Shard, TurnLimit, run_shard, run_shard_at_home};
pub use timeline::{NO_MOMENT, Timeline};
pub use tokio_channel::{TokioChannels, TokioReceiver};
pub use yielding::yield_now;
