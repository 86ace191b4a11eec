//! The registry: the subscribers of each name.
//!
//! A channel's subscribers are in one of [`STRIPES`] tables, each with a mutex of its own, chosen by the hash of the
//! channel. A message is put into the queues of all its subscribers under that mutex, so they all see the messages of
//! the channel in the same order, and none after they have gone.

use super::message::{Message, encode};
use super::subscriber::Limits;
use super::{Kind, Subscriber, TrackingTable};
use crate::base::glob;
use crate::base::narrowing::size;
use crate::keyspace::{Class, LogPosition, Notice, Notices, ProcessHash, hash_of};
use bytes::Bytes;
use indexmap::IndexMap;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

/// Tables of channels: publishers to different channels seldom contend.
const STRIPES: usize = 64;
/// Room for names that an empty table keeps.
const KEPT: usize = 64;

/// The subscribers of a name, by their numbers. Removing one is O(1).
type Subscribers = IndexMap<u64, Arc<Subscriber>, ProcessHash>;
type Names = HashMap<Arc<[u8]>, Subscribers, ProcessHash>;

/// How many names have subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Channels.
    pub channels: usize,
    /// Patterns.
    pub patterns: usize,
    /// Shard channels.
    pub shard_channels: usize,
}

/// The registry of all subscriptions.
///
/// Invariants: every name has a subscriber. Locks are taken in this order: `together`, a stripe's, the patterns', a
/// subscriber's.
#[derive(Debug)]
pub struct PubSub {
    channels: Space,
    shard_channels: Space,
    patterns: RwLock<Names>,
    /// The number of patterns, so that a server without any locks nothing for them.
    pattern_count: AtomicUsize,
    monitors: Mutex<Subscribers>,
    /// The number of monitors, checked for each request.
    monitor_count: AtomicUsize,
    queue_bytes_max: AtomicU64,
    /// The same for the lines of a monitor without a subscription.
    monitor_bytes_max: AtomicU64,
    notified: AtomicU32,
    /// Locked shared to publish one message or notice, and exclusively to publish several that belong together.
    together: RwLock<()>,
    last_id: AtomicU64,
    /// Passes messages on to replicas; unset before the data is loaded.
    forwarder: OnceLock<Forwarder>,
    tracking: TrackingTable,
}

/// Passes a message on: whether it is to a shard channel, the channel, the message.
type PassOn = dyn Fn(bool, &[u8], &[u8]) + Send + Sync;

/// Passes messages on.
pub struct Forwarder(pub Box<PassOn>);

impl std::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Forwarder")
    }
}

/// Channels of one name space.
#[derive(Debug)]
struct Space {
    stripes: Box<[Mutex<Names>]>,
    len: AtomicUsize,
}

impl Default for Space {
    fn default() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::default()).collect(), len: AtomicUsize::new(0) }
    }
}

impl Space {
    fn stripe(&self, name: &[u8]) -> &Mutex<Names> {
        // The tables use the low bits and the top seven.
        &self.stripes[size(hash_of(name) >> 32) % STRIPES]
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

impl Default for PubSub {
    fn default() -> Self {
        Self {
            channels: Space::default(),
            shard_channels: Space::default(),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
            monitors: Mutex::default(),
            monitor_count: AtomicUsize::new(0),
            queue_bytes_max: AtomicU64::new(u64::MAX),
            monitor_bytes_max: AtomicU64::new(u64::MAX),
            notified: AtomicU32::new(0),
            together: RwLock::default(),
            last_id: AtomicU64::new(0),
            forwarder: OnceLock::new(),
            tracking: TrackingTable::default(),
        }
    }
}

impl PubSub {
    /// Publishes a message to a channel and to the patterns that match it; returns how many received it. O(N + M), N =
    /// subscribers, M = patterns. The message is copied once for the channel and once for each pattern.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let _shared = self.together.read();
        self.pass_on(false, channel, message);
        self.publish_after(channel, message, &[])
    }

    /// Publishes a message to a shard channel; returns how many received it. O(N), N = subscribers.
    pub fn publish_to_shard(&self, channel: &[u8], message: &[u8]) -> usize {
        let _shared = self.together.read();
        self.pass_on(true, channel, message);
        self.publish_to_shard_after(channel, message, &[])
    }

    /// Sets what passes messages on. Events of keys are not passed on: each server with the keys publishes them, too.
    ///
    /// # Panics
    /// If it was set before.
    pub fn set_forwarder(&self, forwarder: Forwarder) {
        assert!(self.forwarder.set(forwarder).is_ok(), "a server has one forwarder");
    }

    fn pass_on(&self, is_shard: bool, channel: &[u8], message: &[u8]) {
        if let Some(Forwarder(pass_on)) = self.forwarder.get() {
            pass_on(is_shard, channel, message);
        }
    }

    fn publish_to_shard_after(&self, channel: &[u8], message: &[u8], log_positions: &[LogPosition]) -> usize {
        if self.shard_channels.len() == 0 {
            return 0;
        }
        let mut delivery = Delivery { log_positions, limits: self.limits(), receivers: 0, woken: Vec::new() };
        let stripe = self.shard_channels.stripe(channel).lock();
        delivery.give_to(stripe.get(channel), || encode(&[b"smessage", channel, message]));
        drop(stripe);
        delivery.end()
    }

    /// Publishes the events of commands, and the messages among them. The caller still has exclusive access to the
    /// keys: events of a key are in the order of its changes, and no other events come between those of one call. They
    /// are shown when the log has reached `log_positions`.
    pub fn publish_notices(&self, notices: &mut Notices, log_positions: &[LogPosition]) {
        match notices.for_subscribers() {
            0 => self.publish_each(notices, log_positions),
            1 => {
                let _shared = self.together.read();
                self.publish_each(notices, log_positions);
            }
            _ => {
                let _alone = self.together.write();
                self.publish_each(notices, log_positions);
            }
        }
        notices.clear();
    }

    fn publish_each(&self, notices: &Notices, log_positions: &[LogPosition]) {
        let mut channel = Vec::new();
        let mut tracking = None;
        for notice in notices.iter() {
            match notice {
                Notice::Event { database, event, key } => {
                    self.publish_event(database, event.as_bytes(), key, &mut channel, log_positions);
                }
                Notice::Message { channel, is_shard, message, receivers } => {
                    self.pass_on(is_shard, channel, message);
                    let count = match is_shard {
                        true => self.publish_to_shard_after(channel, message, log_positions),
                        false => self.publish_after(channel, message, log_positions),
                    };
                    // Read when the command that published it has returned to its connection.
                    receivers.store(count, Ordering::Release);
                }
                Notice::Read { .. } | Notice::Changed { .. } | Notice::Flushed => {
                    tracking.get_or_insert_with(|| self.tracking.begin(log_positions, self.limits())).take(notice);
                }
            }
        }
        if let Some(tracking) = tracking {
            tracking.end();
        }
    }

    /// Publishes an event in the configured forms; `channel` is a buffer for their names.
    fn publish_event(
        &self,
        database: u16,
        event: &[u8],
        key: &[u8],
        channel: &mut Vec<u8>,
        log_positions: &[LogPosition],
    ) {
        let forms = self.notified();
        for (form, prefix, name, message) in
            [(Class::KEYSPACE, "__keyspace@", key, event), (Class::KEYEVENT, "__keyevent@", event, key)]
        {
            if forms.has(form) {
                channel.clear();
                channel.extend_from_slice(prefix.as_bytes());
                channel.extend_from_slice(itoa::Buffer::new().format(database).as_bytes());
                channel.extend_from_slice(b"__:");
                channel.extend_from_slice(name);
                self.publish_after(channel, message, log_positions);
            }
        }
    }

    fn publish_after(&self, channel: &[u8], message: &[u8], log_positions: &[LogPosition]) -> usize {
        if self.channels.len() == 0 && self.pattern_count() == 0 {
            return 0;
        }
        let mut delivery = Delivery { log_positions, limits: self.limits(), receivers: 0, woken: Vec::new() };
        // Held for the patterns, too: messages of a channel keep their order there.
        let stripe = self.channels.stripe(channel).lock();
        delivery.give_to(stripe.get(channel), || encode(&[b"message", channel, message]));
        if self.pattern_count() > 0 {
            for (pattern, subscribers) in self.patterns.read().iter() {
                if glob::matches(pattern, channel) {
                    delivery.give_to(Some(subscribers), || encode(&[b"pmessage", pattern, channel, message]));
                }
            }
        }
        drop(stripe);
        delivery.end()
    }

    /// What connections with CLIENT TRACKING track.
    pub fn tracking(&self) -> &TrackingTable {
        &self.tracking
    }

    /// Forgets some of the tracked keys if there are too many.
    pub fn trim_tracking(&self) {
        self.tracking.trim(self.limits());
    }

    fn limits(&self) -> Limits {
        Limits { subscribed: self.queue_bytes_max(), normal: self.monitor_bytes_max.load(Ordering::Relaxed) }
    }

    /// Whether there are monitors.
    #[inline]
    pub fn has_monitors(&self) -> bool {
        self.monitor_count.load(Ordering::Relaxed) > 0
    }

    /// Sends a line to the monitors. O(N), N = monitors
    pub fn show(&self, line: Bytes) {
        let (line, limits) = (Message::Published(line), self.limits());
        let monitors = self.monitors.lock();
        let woken = monitors.values().filter_map(|monitor| monitor.push(&line, &[], limits));
        let woken: Vec<Waker> = woken.collect();
        drop(monitors);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Makes a subscriber a monitor. O(1)
    pub(super) fn add_monitor(&self, subscriber: &Arc<Subscriber>) {
        let mut monitors = self.monitors.lock();
        monitors.insert(subscriber.id(), Arc::clone(subscriber));
        self.monitor_count.store(monitors.len(), Ordering::Relaxed);
    }

    /// Ends that. O(1)
    pub(super) fn remove_monitor(&self, id: u64) {
        let mut monitors = self.monitors.lock();
        monitors.swap_remove(&id);
        self.monitor_count.store(monitors.len(), Ordering::Relaxed);
    }

    /// Adds a subscriber to a name; returns the name as stored. O(1).
    pub(super) fn add(&self, kind: Kind, name: &[u8], subscriber: &Arc<Subscriber>) -> Arc<[u8]> {
        match self.space(kind) {
            Some(space) => add_to(&mut space.stripe(name).lock(), &space.len, name, subscriber),
            None => add_to(&mut self.patterns.write(), &self.pattern_count, name, subscriber),
        }
    }

    /// Removes a subscriber from a name: O(1). Concurrent publishers have finished, or do not see it.
    pub(super) fn remove(&self, kind: Kind, name: &[u8], id: u64) {
        match self.space(kind) {
            Some(space) => remove_from(&mut space.stripe(name).lock(), &space.len, name, id),
            None => remove_from(&mut self.patterns.write(), &self.pattern_count, name, id),
        }
    }

    /// The queue of a new subscriber.
    pub fn subscriber(&self) -> Arc<Subscriber> {
        Arc::new(Subscriber::new(self.next_id()))
    }

    /// The number of the next subscriber.
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn space(&self, kind: Kind) -> Option<&Space> {
        match kind {
            Kind::Channel => Some(&self.channels),
            Kind::ShardChannel => Some(&self.shard_channels),
            Kind::Pattern => None,
        }
    }

    /// How many names have subscribers.
    pub fn counts(&self) -> Counts {
        Counts {
            channels: self.channels.len(),
            patterns: self.pattern_count(),
            shard_channels: self.shard_channels.len(),
        }
    }

    fn pattern_count(&self) -> usize {
        self.pattern_count.load(Ordering::Relaxed)
    }

    /// How many subscribers a channel has, without patterns.
    pub fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.space(kind).and_then(|space| space.stripe(name).lock().get(name).map(Subscribers::len)).unwrap_or(0)
    }

    /// How many would receive a message: of a channel, including patterns. O(M), M = patterns
    pub fn receivers(&self, channel: &[u8], is_shard: bool) -> usize {
        if is_shard {
            return self.subscribers(Kind::ShardChannel, channel);
        }
        let by_pattern = match self.pattern_count() {
            0 => 0,
            _ => {
                let patterns = self.patterns.read();
                let matching = patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel));
                matching.map(|(_, subscribers)| subscribers.len()).sum()
            }
        };
        self.subscribers(Kind::Channel, channel) + by_pattern
    }

    /// The names of a kind that a subscriber has subscribed to. O(N), N = names of that kind.
    pub fn names_of(&self, kind: Kind, subscriber: &Subscriber) -> Vec<Arc<[u8]>> {
        let own = |names: &Names| -> Vec<Arc<[u8]>> {
            let own = names.iter().filter(|(_, subscribers)| subscribers.contains_key(&subscriber.id()));
            own.map(|(name, _)| Arc::clone(name)).collect()
        };
        match self.space(kind) {
            Some(space) => space.stripes.iter().flat_map(|stripe| own(&stripe.lock())).collect(),
            None => own(&self.patterns.read()),
        }
    }

    /// The channels that have subscribers and match a pattern, if one is given. O(N), N = channels.
    pub fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let stripes = self.space(kind).map(|space| &*space.stripes).unwrap_or_default();
        let mut names = Vec::new();
        for stripe in stripes {
            let stripe = stripe.lock();
            names.extend(
                stripe.keys().filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name))).cloned(),
            );
        }
        names
    }

    /// Bytes of messages at which a subscriber that does not read them is dropped.
    pub fn queue_bytes_max(&self) -> u64 {
        self.queue_bytes_max.load(Ordering::Relaxed)
    }

    /// Sets that limit, and the one of clients without a subscription, which is also that of monitors and of
    /// connections with CLIENT TRACKING. If those have none, the latter have that of subscribers: every queue has a
    /// bound.
    pub fn set_queue_bytes_max(&self, subscribed: u64, normal: u64) {
        self.queue_bytes_max.store(subscribed, Ordering::Relaxed);
        let monitored = if normal == u64::MAX { subscribed } else { normal };
        self.monitor_bytes_max.store(monitored, Ordering::Relaxed);
    }

    /// Which events of keys are published.
    #[inline]
    pub fn notified(&self) -> Class {
        Class::from_bits(self.notified.load(Ordering::Relaxed))
    }

    /// Sets which events of keys are published.
    pub fn set_notified(&self, classes: Class) {
        self.notified.store(classes.published().bits(), Ordering::Relaxed);
    }
}

fn add_to(names: &mut Names, len: &AtomicUsize, name: &[u8], subscriber: &Arc<Subscriber>) -> Arc<[u8]> {
    let kept = names.get_key_value(name).map(|(kept, _)| Arc::clone(kept));
    let kept = kept.unwrap_or_else(|| name.into());
    let subscribers = names.entry(Arc::clone(&kept)).or_insert_with(|| {
        len.fetch_add(1, Ordering::Relaxed);
        Subscribers::default()
    });
    subscribers.insert(subscriber.id(), Arc::clone(subscriber));
    kept
}

fn remove_from(names: &mut Names, len: &AtomicUsize, name: &[u8], id: u64) {
    let Some(subscribers) = names.get_mut(name) else { return };
    subscribers.swap_remove(&id);
    if subscribers.is_empty() {
        names.remove(name);
        len.fetch_sub(1, Ordering::Relaxed);
        if names.capacity() > KEPT.max(4 * names.len()) {
            names.shrink_to(2 * names.len());
        }
    } else if subscribers.capacity() > KEPT.max(4 * subscribers.len()) {
        subscribers.shrink_to(2 * subscribers.len());
    }
}

/// A message being delivered to queues. Connections are woken after the locks are released.
struct Delivery<'a> {
    log_positions: &'a [LogPosition],
    limits: Limits,
    receivers: usize,
    woken: Vec<Waker>,
}

impl Delivery<'_> {
    fn give_to(&mut self, subscribers: Option<&Subscribers>, encode: impl FnOnce() -> Message) {
        let Some(subscribers) = subscribers else { return };
        let message = encode();
        let wakers =
            subscribers.values().filter_map(|subscriber| subscriber.push(&message, self.log_positions, self.limits));
        self.woken.extend(wakers);
        self.receivers += subscribers.len();
    }

    fn end(self) -> usize {
        self.woken.into_iter().for_each(Waker::wake);
        self.receivers
    }
}

#[cfg(test)]
mod tests {
    use super::super::Subscription;
    use super::*;

    fn messages(subscription: &mut Subscription) -> String {
        let mut out = Vec::new();
        subscription.take_all_messages(true, &mut out);
        String::from_utf8(out).expect("the test's messages are text").replace("\r\n", " ")
    }

    #[test]
    fn a_message_goes_to_its_channel_and_to_the_patterns_that_match() {
        let pubsub = Arc::new(PubSub::default());
        let mut subscription = Subscription::new(Arc::clone(&pubsub), pubsub.subscriber());
        assert_eq!(pubsub.publish(b"news", b"1"), 0);
        subscription.add(Kind::Channel, b"news");
        subscription.add(Kind::Pattern, b"n*");
        subscription.add(Kind::Pattern, b"x*");
        subscription.add(Kind::ShardChannel, b"news");
        assert_eq!(pubsub.publish(b"news", b"2"), 2);
        assert_eq!(pubsub.publish(b"nothing", b"3"), 1);
        assert_eq!(pubsub.publish_to_shard(b"news", b"4"), 1);
        let wanted = ">3 $7 message $4 news $1 2 >4 $8 pmessage $2 n* $4 news $1 2 \
                      >4 $8 pmessage $2 n* $7 nothing $1 3 >3 $8 smessage $4 news $1 4 ";
        assert_eq!(messages(&mut subscription), wanted);
    }

    #[test]
    fn nothing_is_left_of_names_without_subscribers() {
        let pubsub = Arc::new(PubSub::default());
        let mut one = Subscription::new(Arc::clone(&pubsub), pubsub.subscriber());
        let mut other = Subscription::new(Arc::clone(&pubsub), pubsub.subscriber());
        for number in 0..10_000_u32 {
            Kind::ALL.iter().for_each(|&kind| one.add(kind, &number.to_le_bytes()));
        }
        other.add(Kind::Channel, b"kept");
        other.add(Kind::Channel, b"kept");
        assert_eq!(pubsub.counts(), Counts { channels: 10_001, patterns: 10_000, shard_channels: 10_000 });
        assert_eq!((one.count(Kind::Channel), one.count(Kind::ShardChannel)), (20_000, 10_000));
        drop(one);
        assert_eq!(pubsub.counts(), Counts { channels: 1, patterns: 0, shard_channels: 0 });
        let room = |space: &Space| space.stripes.iter().map(|stripe| stripe.lock().capacity()).sum::<usize>();
        assert!(room(&pubsub.channels) <= STRIPES * KEPT && room(&pubsub.shard_channels) <= STRIPES * KEPT);
        assert!(pubsub.patterns.read().capacity() <= KEPT);
        other.remove(Kind::Channel, b"kept");
        other.remove(Kind::Channel, b"kept");
        assert_eq!(pubsub.counts(), Counts { channels: 0, patterns: 0, shard_channels: 0 });
        assert_eq!(pubsub.publish(b"kept", b""), 0);
    }

    #[test]
    fn all_subscribers_of_a_channel_see_its_messages_in_one_order() {
        const PUBLISHERS: u32 = 4;
        const MESSAGES: u32 = 500;
        let pubsub = Arc::new(PubSub::default());
        let mut subscriptions: Vec<_> =
            (0..3).map(|_| Subscription::new(Arc::clone(&pubsub), pubsub.subscriber())).collect();
        subscriptions.iter_mut().for_each(|subscription| subscription.add(Kind::Channel, b"c"));
        std::thread::scope(|scope| {
            for publisher in 0..PUBLISHERS {
                let pubsub = &pubsub;
                scope.spawn(move || {
                    (0..MESSAGES)
                        .for_each(|n| assert_eq!(pubsub.publish(b"c", format!("{publisher}:{n}").as_bytes()), 3));
                });
            }
        });
        let seen: Vec<String> = subscriptions.iter_mut().map(messages).collect();
        assert!(seen.iter().all(|other| *other == seen[0]), "the same order everywhere");
        for publisher in 0..PUBLISHERS {
            let prefix = format!("{publisher}:");
            let numbers = seen[0].split(' ').filter_map(|word| word.strip_prefix(&prefix)?.parse::<u32>().ok());
            assert!(numbers.eq(0..MESSAGES), "the order of each publisher");
        }
    }

    #[test]
    fn notices_are_published_in_the_forms_that_are_asked_for() {
        let pubsub = Arc::new(PubSub::default());
        let mut subscription = Subscription::new(Arc::clone(&pubsub), pubsub.subscriber());
        subscription.add(Kind::Pattern, b"*");
        let mut notices = Notices::default();
        for (letters, wanted) in [
            ("KEA", vec!["__keyspace@0__:k", "set", "__keyevent@0__:set", "k"]),
            ("KA", vec!["__keyspace@0__:k", "set"]),
            ("EA", vec!["__keyevent@0__:set", "k"]),
        ] {
            pubsub.set_notified(Class::parse(letters).expect("known letters"));
            notices.set_wanted(pubsub.notified());
            assert!(notices.wants(Class::STRING));
            notices.push(0, "set", b"k");
            pubsub.publish_notices(&mut notices, &[]);
            let got = messages(&mut subscription);
            let words = got.split(' ').filter(|word| word.starts_with("__") || matches!(*word, "set" | "k"));
            assert_eq!(words.collect::<Vec<_>>(), wanted, "{letters}");
        }
    }
}
