//! Shards as actors: each owns its state, and work travels to the state by message.
//!
//! A [`Shard`] is the only owner of something (a hash table, a counter map). A connection holds a [`Port`], which sends
//! *batches* of work to shards through bounded mailboxes and takes them back when they are done. Shards finish when
//! they finish; a [`ReorderBuffer`] turns results that arrive in any order back into request order.
//!
//! The crate moves `S::Batch` to the `S` that owns the shard, and knows nothing of what a batch says.
//!
//! # Trade-offs
//! - A message costs more than an uncontended lock: about a hundred nanoseconds each way, and a wake-up when the shard
//!   sleeps. It pays when work comes in batches, or when many threads want the same state.
//! - "No locks" means none of ours. A flume channel holds a short mutex inside; one message per batch makes it rare.
//! - Work over several shards is not atomic here. That is a protocol above this crate.
//!
//! # Invariants
//! - Every queue is bounded: mailboxes by their capacity, reply queues by the port's window.
//! - A shard never waits for a connection: a port has at most `window` batches in flight and its reply queue holds
//!   as many, so giving a batch back cannot fail for want of room.
//! - Batches of one port to one shard are executed in the order they were sent.

mod channel;
mod port;
mod reorder;
mod replies;
mod shard;
mod yielding;

pub use channel::{Channels, Closed, FlumeChannels, Receiver, Sender, TrySendError};
pub use port::{Port, PortClosed};
pub use reorder::ReorderBuffer;
pub use shard::{Envelope, Mailbox, Router, Shard, TurnLimit, run_shard};
pub use yielding::yield_now;
