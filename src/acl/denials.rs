//! What was denied: the entries of ACL LOG, and the counts of INFO.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Entries that may be the same as a new one: the latest.
const COMPARED: usize = 10;
/// Milliseconds after which a repetition is another entry.
const SAME_MS: u64 = 60_000;

/// What was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A login.
    Auth,
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
}

impl Reason {
    /// The word in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
        }
    }
}

/// Where it was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Outside of transactions and scripts.
    Toplevel,
    /// In a transaction.
    Multi,
    /// In a script.
    Lua,
}

impl Place {
    /// The word in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toplevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// An entry of ACL LOG.
#[derive(Debug, Clone)]
pub struct Entry {
    /// How often it happened.
    pub count: u64,
    /// What was denied.
    pub reason: Reason,
    /// Where.
    pub place: Place,
    /// The name of the command, the key or the channel.
    pub object: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
    /// The line of CLIENT LIST of the client to which it happened last.
    pub client: String,
    /// Its number.
    pub id: u64,
    /// When it happened first.
    pub created_ms: u64,
    /// When it happened last.
    pub updated_ms: u64,
}

impl Entry {
    /// What happens for the first time.
    pub fn new(reason: Reason, place: Place, object: &[u8], user: &[u8], client: String, now_ms: u64) -> Self {
        let (object, user) = (object.to_vec(), user.to_vec());
        Self { count: 1, reason, place, object, user, client, id: 0, created_ms: now_ms, updated_ms: now_ms }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.place == other.place
            && self.updated_ms.abs_diff(other.updated_ms) <= SAME_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The log and the counts of denials. The log is bounded by `acllog-max-len`.
#[derive(Debug, Default)]
pub struct Denials {
    entries: Mutex<VecDeque<Entry>>,
    len_max: AtomicUsize,
    next_id: AtomicU64,
    counts: [AtomicU64; 4],
}

impl Denials {
    /// Sets how many entries there are at most.
    pub fn set_len_max(&self, len_max: usize) {
        self.len_max.store(len_max, Ordering::Relaxed);
    }

    /// Records a denial: with an entry that is the same but for the time, if there is one.
    pub fn note(&self, mut entry: Entry) {
        self.counts[entry.reason as usize].fetch_add(1, Ordering::Relaxed);
        let mut entries = self.entries.lock();
        if let Some(place) = entries.iter().take(COMPARED).position(|known| known.is_same(&entry))
            && let Some(known) = entries.remove(place)
        {
            let (count, id, created_ms) = (known.count + 1, known.id, known.created_ms);
            entries.push_front(Entry { count, id, created_ms, ..entry });
            return;
        }
        entry.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        entries.push_front(entry);
        entries.truncate(self.len_max.load(Ordering::Relaxed));
    }

    /// The latest entries, the last first.
    pub fn latest(&self, most: usize) -> Vec<Entry> {
        self.entries.lock().iter().take(most).cloned().collect()
    }

    /// Forgets the entries.
    pub fn reset(&self) {
        self.entries.lock().clear();
    }

    /// How often something was denied since the start.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }
}
