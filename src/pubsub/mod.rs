//! Publish and subscribe: who listens to which channel, and how a message gets there.
//!
//! It stands beside the engines, which all share it: a channel holds no key. [`PubSub`] is the registry; a connection
//! that subscribes gets a [`Subscription`] (what it listens to) and a [`Subscriber`] (its bounded queue, which
//! publishers fill). docs/adr/0008 says why it is built this way.

mod message;
mod registry;
mod subscriber;
mod subscription;

pub use registry::{Forwarder, PubSub};
pub use subscriber::Subscriber;
pub use subscription::Subscription;

/// What a subscription is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A shard channel: a name space of its own, which patterns do not reach.
    ShardChannel,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];
}
