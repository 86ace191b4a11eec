//! Keyspace notifications: the events of keys that commands report to subscribers; and among them, in their places, the
//! messages that a transaction publishes, and what connections with CLIENT TRACKING must know.
//!
//! A command reports an event where it happens, `keyspace.notify(Class::LIST, "lpush", key)`; the engine publishes the
//! events when the command's changes are logged, before any other command can touch its keys. The letters are those of
//! Redis's `notify-keyspace-events`.

use crate::base::narrowing::low_u16;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A set of classes of events, and of the two forms in which they are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Class(u32);

impl Class {
    /// None.
    pub const NONE: Self = Self(0);
    /// `K`: published to `__keyspace@db__:key`.
    pub const KEYSPACE: Self = Self(1);
    /// `E`: published to `__keyevent@db__:event`.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: del, expire, rename and others that do not depend on the type.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 5);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: Self = Self(1 << 7);
    /// `x`: a key's time has come.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: a key was evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 10);
    /// `m`: a reading command found no key. Not in `A`.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// `d`: types of modules. There are none, but the letter is accepted.
    pub const MODULE: Self = Self(1 << 12);
    /// `n`: a key is new. Not in `A`.
    pub const NEW: Self = Self(1 << 13);

    /// The forms: without one of them nothing is published.
    const FORMS: Self = Self(Self::KEYSPACE.0 | Self::KEYEVENT.0);
    /// The meaning of `A`: every class except key misses and new keys.
    const ALL: Self = Self((1 << 13) - 1 - Self::FORMS.0 - Self::KEY_MISS.0);

    /// The letters in the order in which Redis prints them. Those of `A` come first.
    const LETTERS: [(char, Self); 14] = [
        ('g', Self::GENERIC),
        ('$', Self::STRING),
        ('l', Self::LIST),
        ('s', Self::SET),
        ('h', Self::HASH),
        ('z', Self::ZSET),
        ('x', Self::EXPIRED),
        ('e', Self::EVICTED),
        ('t', Self::STREAM),
        ('d', Self::MODULE),
        ('n', Self::NEW),
        ('K', Self::KEYSPACE),
        ('E', Self::KEYEVENT),
        ('m', Self::KEY_MISS),
    ];

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have something in common.
    #[inline]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set as a number.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these [`bits`](Self::bits).
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The set without classes that are never published: without a form, all of them.
    pub const fn published(self) -> Self {
        if self.meets(Self::FORMS) { self } else { Self::NONE }
    }

    /// The set that letters name; none if a letter is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        text.chars().try_fold(Self::NONE, |classes, letter| {
            let class = match letter {
                'A' => Self::ALL,
                _ => Self::LETTERS.iter().find(|(known, _)| *known == letter)?.1,
            };
            Some(classes.and(class))
        })
    }
}

/// As Redis prints it: with `A` where possible, and then without `n`.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_all = self.has(Self::ALL);
        if is_all {
            f.write_str("A")?;
        }
        let is_told = |class: Self| !(is_all && Self::ALL.and(Self::NEW).has(class));
        let letters = Self::LETTERS.iter().filter(|(_, class)| self.has(*class) && is_told(*class));
        letters.map(|(letter, _)| letter.to_string()).try_for_each(|letter| f.write_str(&letter))
    }
}

/// The events and messages of the running commands that were not published yet.
///
/// Invariant: `keys` holds the keys, and the channels followed by their messages, in the order of the notices.
#[derive(Debug, Default)]
pub struct Notices {
    wanted: Class,
    keys: Vec<u8>,
    notices: Vec<Kept>,
}

/// A notice, without its key.
#[derive(Debug)]
struct Kept {
    about: About,
    end: usize,
}

#[derive(Debug)]
enum About {
    Key { database: u16, event: &'static str },
    Channel { name_len: usize, is_shard: bool, receivers: Arc<AtomicUsize> },
    Read { reader: u32 },
    Changed { by: u32 },
    Flushed,
}

/// An event or a message.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// An event of a key.
    Event {
        /// The database of the key.
        database: u16,
        /// The name of the event.
        event: &'static str,
        /// The key.
        key: &'a [u8],
    },
    /// A message.
    Message {
        /// The channel.
        channel: &'a [u8],
        /// Whether it is a shard channel.
        is_shard: bool,
        /// The message.
        message: &'a [u8],
        /// Where to store the number of receivers.
        receivers: &'a AtomicUsize,
    },
    /// A connection with CLIENT TRACKING has read a key.
    Read {
        /// Its number.
        reader: u32,
        /// The key.
        key: &'a [u8],
    },
    /// A key has changed, while a connection has CLIENT TRACKING.
    Changed {
        /// The number of the one that changed it; 0 for one without CLIENT TRACKING, and for the server.
        by: u32,
        /// The key.
        key: &'a [u8],
    },
    /// All keys have changed.
    Flushed,
}

impl Notices {
    /// Memory for keys, in bytes, that is kept from one command to the next.
    const KEPT: usize = 16 * 1024;

    /// Sets which classes are kept.
    #[inline]
    pub fn set_wanted(&mut self, wanted: Class) {
        self.wanted = wanted;
    }

    /// Whether notices of a class are kept.
    #[inline]
    pub fn wants(&self, class: Class) -> bool {
        self.wanted.meets(class)
    }

    /// Keeps a notice: O(length of the key).
    #[cold]
    pub fn push(&mut self, database: usize, event: &'static str, key: &[u8]) {
        self.keys.extend_from_slice(key);
        let about = About::Key { database: low_u16(database as u64), event };
        self.notices.push(Kept { about, end: self.keys.len() });
    }

    /// Keeps a message; returns where the number of receivers will be stored. O(length)
    pub fn push_message(&mut self, channel: &[u8], is_shard: bool, message: &[u8]) -> Arc<AtomicUsize> {
        let receivers = Arc::<AtomicUsize>::default();
        self.keys.extend_from_slice(channel);
        self.keys.extend_from_slice(message);
        let about = About::Channel { name_len: channel.len(), is_shard, receivers: Arc::clone(&receivers) };
        self.notices.push(Kept { about, end: self.keys.len() });
        receivers
    }

    /// Keeps what a connection with CLIENT TRACKING has read. O(length)
    pub fn push_read(&mut self, reader: u32, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.notices.push(Kept { about: About::Read { reader }, end: self.keys.len() });
    }

    /// Keeps a change, for those with CLIENT TRACKING. O(length)
    pub fn push_change(&mut self, by: u32, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.notices.push(Kept { about: About::Changed { by }, end: self.keys.len() });
    }

    /// Keeps for them that all keys have changed.
    pub fn push_flushed(&mut self) {
        self.notices.push(Kept { about: About::Flushed, end: self.keys.len() });
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.notices.len()
    }

    /// How many events and messages there are, up to two.
    pub fn for_subscribers(&self) -> usize {
        let is_told = |kept: &&Kept| matches!(kept.about, About::Key { .. } | About::Channel { .. });
        self.notices.iter().filter(is_told).take(2).count()
    }

    /// The notices, in order.
    pub fn iter(&self) -> impl Iterator<Item = Notice<'_>> {
        let mut start = 0;
        self.notices.iter().map(move |Kept { about, end }| {
            let text = &self.keys[start..*end];
            start = *end;
            match about {
                About::Key { database, event } => Notice::Event { database: *database, event, key: text },
                About::Channel { name_len, is_shard, receivers } => {
                    let (channel, message) = text.split_at(*name_len);
                    Notice::Message { channel, is_shard: *is_shard, message, receivers }
                }
                About::Read { reader } => Notice::Read { reader: *reader, key: text },
                About::Changed { by } => Notice::Changed { by: *by, key: text },
                About::Flushed => Notice::Flushed,
            }
        })
    }

    /// Drops all but the first `len`: those of a command that runs again.
    pub fn truncate(&mut self, len: usize) {
        self.notices.truncate(len);
        self.keys.truncate(self.notices.last().map_or(0, |last| last.end));
    }

    /// Drops them after they were published.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.keys.shrink_to(Self::KEPT);
        self.notices.clear();
        self.notices.shrink_to(Self::KEPT / size_of::<Kept>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_printed_as_redis_prints_them() {
        for (given, printed) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKEmn", "AKEm"),
            ("nmEK", "nKEm"),
            ("Kx$l", "$lxK"),
            ("g$lshzxetd", "A"),
            ("g$lshzxetdK", "AK"),
            ("g$lshzxet", "g$lshzxet"),
            ("KKEE", "KE"),
        ] {
            assert_eq!(Class::parse(given).expect("the letters are known").to_string(), printed, "{given}");
        }
        assert_eq!(Class::parse("KEQ"), None);
        assert_eq!(Class::parse("K E"), None);
    }

    #[test]
    fn nothing_is_published_without_a_form() {
        assert_eq!(Class::parse("A").expect("known").published(), Class::NONE);
        assert!(Class::parse("KA").expect("known").published().meets(Class::LIST));
    }

    #[test]
    fn notices_come_out_in_order_and_only_those_that_are_wanted() {
        let mut notices = Notices::default();
        assert!(!notices.wants(Class::LIST));
        notices.set_wanted(Class::LIST.and(Class::KEYSPACE));
        assert!(notices.wants(Class::LIST) && !notices.wants(Class::SET));
        notices.push(0, "lpush", b"a");
        notices.push(15, "del", b"");
        notices.push(0, "lpop", b"bc");
        notices.push_message(b"chan", true, b"nel");
        notices.push_read(7, b"e");
        notices.push_change(8, b"fg");
        notices.push_flushed();
        let told: Vec<_> = notices
            .iter()
            .map(|notice| match notice {
                Notice::Event { database, event, key } => (usize::from(database), event, key, &b""[..]),
                Notice::Message { channel, is_shard, message, receivers } => (
                    receivers.fetch_add(3, std::sync::atomic::Ordering::Relaxed),
                    ["", "shard"][usize::from(is_shard)],
                    channel,
                    message,
                ),
                Notice::Read { reader: number, key } => (number as usize, "read", key, &b""[..]),
                Notice::Changed { by: number, key } => (number as usize, "changed", key, &b""[..]),
                Notice::Flushed => (0, "flushed", &b""[..], &b""[..]),
            })
            .collect();
        let wanted: [(usize, &str, &[u8], &[u8]); 7] = [
            (0, "lpush", b"a", b""),
            (15, "del", b"", b""),
            (0, "lpop", b"bc", b""),
            (0, "shard", b"chan", b"nel"),
            (7, "read", b"e", b""),
            (8, "changed", b"fg", b""),
            (0, "flushed", b"", b""),
        ];
        assert_eq!(told, wanted);
        notices.truncate(1);
        notices.push(0, "lset", b"d");
        let keys: Vec<_> =
            notices.iter().map(|notice| matches!(notice, Notice::Event { key: b"a" | b"d", .. })).collect();
        assert_eq!(keys, [true, true]);
        notices.clear();
        assert!(notices.is_empty() && notices.iter().next().is_none());
    }
}
