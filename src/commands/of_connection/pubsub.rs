//! Rows of commands that run in the connection: messages to channels.

use crate::commands::documentation::arguments;
use crate::commands::flag_sets::{PUBSUB, SUBSCRIBE, SUBSCRIBE_SHARD};
use crate::commands::lookup::container;
use crate::commands::row::{Channels, Command, Flags, Group, Keys, Row, Run};
use crate::keyspace::Store;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 15] {
    [
        Run::Connection.row(Command {
            name: "publish",
            arity: 3,
            flags: PUBSUB.and(Flags::FAST).and(Flags::PUBLISHES),
            since: "2.0.0",
            syntax: "channel message",
            arguments: arguments![string("channel"), string("message")],
            complexity: "O(N + M), N = subscribers of the channel, M = patterns of all connections",
            summary: "Sends a message to all subscribers of a channel.",
            channels: Channels::Published,
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "subscribe",
            arity: -2,
            flags: SUBSCRIBE,
            since: "2.0.0",
            syntax: "channel [channel ...]",
            arguments: arguments![string("channel").repeated()],
            complexity: "O(N), N = channels",
            summary: "Listens to channels.",
            channels: Channels::Subscribed,
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "unsubscribe",
            arity: -1,
            flags: SUBSCRIBE,
            since: "2.0.0",
            syntax: "[channel [channel ...]]",
            arguments: arguments![string("channel").repeated().optional()],
            complexity: "O(N), N = channels",
            summary: "Listens to channels no more.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "psubscribe",
            arity: -2,
            flags: SUBSCRIBE,
            since: "2.0.0",
            syntax: "pattern [pattern ...]",
            arguments: arguments![pattern("pattern").repeated()],
            complexity: "O(N), N = patterns",
            summary: "Listens to all channels that match patterns.",
            channels: Channels::Patterns,
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "punsubscribe",
            arity: -1,
            flags: SUBSCRIBE,
            since: "2.0.0",
            syntax: "[pattern [pattern ...]]",
            arguments: arguments![pattern("pattern").repeated().optional()],
            complexity: "O(N), N = patterns",
            summary: "Listens no more to channels that match patterns.",
            ..Command::of(Group::PubSub)
        }),
        Run::Plain(container).row(Command {
            name: "pubsub",
            since: "2.8.0",
            summary: "Commands about channels.",
            ..Command::container_of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "spublish",
            arity: 3,
            flags: PUBSUB.and(Flags::FAST).and(Flags::NOT_KEYS).and(Flags::PUBLISHES),
            keys: Keys::ONE,
            since: "7.0.0",
            syntax: "shardchannel message",
            arguments: arguments![string("shardchannel"), string("message")],
            complexity: "O(N), N = subscribers of the channel",
            summary: "Sends a message to all subscribers of a shard channel.",
            channels: Channels::Published,
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "ssubscribe",
            arity: -2,
            flags: SUBSCRIBE_SHARD,
            keys: Keys::ALL,
            since: "7.0.0",
            syntax: "shardchannel [shardchannel ...]",
            arguments: arguments![string("shardchannel").repeated()],
            complexity: "O(N), N = channels",
            summary: "Listens to shard channels.",
            channels: Channels::Subscribed,
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "sunsubscribe",
            arity: -1,
            flags: SUBSCRIBE_SHARD,
            keys: Keys::ALL,
            since: "7.0.0",
            syntax: "[shardchannel [shardchannel ...]]",
            arguments: arguments![string("shardchannel").repeated().optional()],
            complexity: "O(N), N = channels",
            summary: "Listens to shard channels no more.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "pubsub|channels",
            arity: -2,
            flags: PUBSUB,
            since: "2.8.0",
            syntax: "[pattern]",
            arguments: arguments![pattern("pattern").optional()],
            complexity: "O(N), N = channels that have subscribers",
            summary: "The channels that have subscribers.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "pubsub|numpat",
            arity: 2,
            flags: PUBSUB,
            since: "2.8.0",
            complexity: "O(1)",
            summary: "How many patterns have subscribers.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "pubsub|numsub",
            arity: -2,
            flags: PUBSUB,
            since: "2.8.0",
            syntax: "[channel [channel ...]]",
            arguments: arguments![string("channel").repeated().optional()],
            complexity: "O(N), N = channels named",
            summary: "How many subscribers channels have.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "pubsub|shardchannels",
            arity: -2,
            flags: PUBSUB,
            since: "7.0.0",
            syntax: "[pattern]",
            arguments: arguments![pattern("pattern").optional()],
            complexity: "O(N), N = shard channels that have subscribers",
            summary: "The shard channels that have subscribers.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command {
            name: "pubsub|shardnumsub",
            arity: -2,
            flags: PUBSUB,
            since: "7.0.0",
            syntax: "[shardchannel [shardchannel ...]]",
            arguments: arguments![string("shardchannel").repeated().optional()],
            complexity: "O(N), N = shard channels named",
            summary: "How many subscribers shard channels have.",
            ..Command::of(Group::PubSub)
        }),
        Run::Connection.row(Command { name: "pubsub|help", since: "6.2.0", ..Command::help_of(Group::PubSub) }),
    ]
}
