//! Publish and subscribe. Channels hold no key, so these run in the connection.
//!
//! A connection runs them after all its earlier requests have their replies: what a message reports has happened, and
//! the messages that a connection's own commands cause come after their replies. A transaction sends its messages where
//! it runs, in their places among its changes, unless it also subscribes: then its connection sends them afterwards,
//! and receives none from before.

use super::{LocalCall, LocalFn};
use crate::commands::Outcome;
use crate::pubsub::{Kind, Subscription};
use crate::resp::{Args, CommandError, Reply, quoted};

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("publish", publish),
    ("subscribe", subscribe),
    ("unsubscribe", unsubscribe),
    ("psubscribe", psubscribe),
    ("punsubscribe", punsubscribe),
    ("spublish", spublish),
    ("ssubscribe", ssubscribe),
    ("sunsubscribe", sunsubscribe),
    ("pubsub|channels", channels),
    ("pubsub|numpat", numpat),
    ("pubsub|numsub", numsub),
    ("pubsub|shardchannels", shardchannels),
    ("pubsub|shardnumsub", shardnumsub),
    ("pubsub|help", help),
];

/// PUBLISH channel message: O(N + M), N = subscribers of the channel, M = patterns of all connections
fn publish(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(call.receivers.unwrap_or_else(|| call.server.pubsub.publish(&args[1], &args[2])));
    Ok(())
}

/// SPUBLISH shardchannel message: O(N), N = subscribers of the channel
fn spublish(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(call.receivers.unwrap_or_else(|| call.server.pubsub.publish_to_shard(&args[1], &args[2])));
    Ok(())
}

/// SUBSCRIBE channel [channel ...]: O(N), N = channels
fn subscribe(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen(call, Kind::Channel, args, reply);
    Ok(())
}

/// PSUBSCRIBE pattern [pattern ...]: O(N), N = patterns
fn psubscribe(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen(call, Kind::Pattern, args, reply);
    Ok(())
}

/// SSUBSCRIBE shardchannel [shardchannel ...]: O(N), N = channels
fn ssubscribe(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.is_in_exec {
        return Err(CommandError::Text("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    listen(call, Kind::ShardChannel, args, reply);
    Ok(())
}

/// UNSUBSCRIBE [channel [channel ...]]: O(N), N = channels
fn unsubscribe(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen_no_more(call, Kind::Channel, args, reply);
    Ok(())
}

/// PUNSUBSCRIBE [pattern [pattern ...]]: O(N), N = patterns
fn punsubscribe(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen_no_more(call, Kind::Pattern, args, reply);
    Ok(())
}

/// SUNSUBSCRIBE [shardchannel [shardchannel ...]]: O(N), N = channels
fn sunsubscribe(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    listen_no_more(call, Kind::ShardChannel, args, reply);
    Ok(())
}

fn listen(call: &mut LocalCall<'_>, kind: Kind, args: Args<'_>, reply: &mut Reply<'_>) {
    let word: &[u8] = match kind {
        Kind::Channel => b"subscribe",
        Kind::Pattern => b"psubscribe",
        Kind::ShardChannel => b"ssubscribe",
    };
    let subscription = call.subscription();
    for name in args.from(1).iter() {
        subscription.add(kind, name);
        confirm(word, Some(name), subscription.count(kind), reply);
    }
}

fn listen_no_more(call: &mut LocalCall<'_>, kind: Kind, args: Args<'_>, reply: &mut Reply<'_>) {
    let word: &[u8] = match kind {
        Kind::Channel => b"unsubscribe",
        Kind::Pattern => b"punsubscribe",
        Kind::ShardChannel => b"sunsubscribe",
    };
    let Some(subscription) = &mut call.state.subscription else {
        return confirm_nothing(word, args, reply);
    };
    let leave = |subscription: &mut Subscription, name: &[u8], reply: &mut Reply<'_>| {
        subscription.remove(kind, name);
        // Messages published before come first; inside EXEC, after its reply.
        if !call.is_in_exec {
            let resp3 = reply.is_resp3();
            subscription.take_all_messages(resp3, reply.buffer());
        }
        confirm(word, Some(name), subscription.count(kind), reply);
    };
    if args.len() > 1 {
        return args.from(1).iter().for_each(|name| leave(subscription, name, reply));
    }
    if subscription.last(kind).is_none() {
        return confirm(word, None, subscription.count(kind), reply);
    }
    while let Some(name) = subscription.last(kind) {
        leave(subscription, &name, reply);
    }
}

/// The replies to a connection that never subscribed.
fn confirm_nothing(word: &[u8], args: Args<'_>, reply: &mut Reply<'_>) {
    if args.len() == 1 {
        return confirm(word, None, 0, reply);
    }
    args.from(1).iter().for_each(|name| confirm(word, Some(name), 0, reply));
}

/// The reply of a subscribing command for each name, with the number of remaining subscriptions.
fn confirm(word: &[u8], name: Option<&[u8]>, count: usize, reply: &mut Reply<'_>) {
    reply.push(3);
    reply.bulk(word);
    reply.bulk_or_null(name);
    reply.count(count);
}

/// PUBSUB CHANNELS [pattern]: O(N), N = channels that have subscribers
fn channels(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    list(call, Kind::Channel, args, reply)
}

/// PUBSUB SHARDCHANNELS [pattern]: O(N), N = shard channels that have subscribers
fn shardchannels(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    list(call, Kind::ShardChannel, args, reply)
}

fn list(call: &mut LocalCall<'_>, kind: Kind, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() > 3 {
        let name = quoted(&args[1], 128);
        return Err(CommandError::Owned(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
        )));
    }
    let names = call.server.pubsub.names(kind, args.get(2));
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// PUBSUB NUMSUB [channel [channel ...]]: O(N), N = channels named
fn numsub(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    count(call, Kind::Channel, args, reply);
    Ok(())
}

/// PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]: O(N), N = shard channels named
fn shardnumsub(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    count(call, Kind::ShardChannel, args, reply);
    Ok(())
}

fn count(call: &mut LocalCall<'_>, kind: Kind, args: Args<'_>, reply: &mut Reply<'_>) {
    reply.array(2 * (args.len() - 2));
    for name in args.from(2).iter() {
        reply.bulk(name);
        reply.count(call.server.pubsub.subscribers(kind, name));
    }
}

/// PUBSUB NUMPAT: O(1)
fn numpat(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(call.server.pubsub.counts().patterns);
    Ok(())
}

/// PUBSUB HELP: O(1)
fn help(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: [&str; 13] = [
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    Return the currently active channels matching a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers for the specified channels, excluding",
        "    pattern subscriptions(default: no channels).",
        "SHARDCHANNELS [<pattern>]",
        "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Return the number of subscribers for the specified shard level channel(s)",
        "HELP",
    ];
    reply.array(LINES.len() + 1);
    LINES.iter().for_each(|line| reply.simple(line));
    reply.simple("    Print this help.");
    Ok(())
}
