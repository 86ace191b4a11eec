//! Publish and subscribe: the subscribers of channels, and how messages reach them.
//!
//! It is beside the engines, which all share it: a channel holds no key. [`PubSub`] is the registry; a connection that
//! subscribes gets a [`Subscription`] (its channels and patterns) and a [`Subscriber`] (its bounded queue, which
//! publishers fill). docs/adr/0008 says why it is built this way. The [`TrackingTable`] says which connections with
//! CLIENT TRACKING have read which keys; their messages go through the same queues.

mod message;
mod registry;
mod subscriber;
mod subscription;
mod tracking;

pub use registry::{Forwarder, PubSub};
pub use subscriber::Subscriber;
pub use subscription::Subscription;
pub use tracking::{Redirection, Tracker, TrackingTable, Wishes};

/// The kinds of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A shard channel: a separate name space, which patterns do not reach.
    ShardChannel,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];
}
