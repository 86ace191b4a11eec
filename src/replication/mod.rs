//! Replication: who is master of whom, and how far the one stream of changes has come.
//!
//! The stream is counted in bytes as Redis counts it. Its name and an offset say which data a server holds: two servers
//! at the same offset of the same stream hold the same keys.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long the name of a stream is, in hexadecimal digits.
const ID_LEN: usize = 40;

/// What a server knows about replication.
#[derive(Debug)]
pub struct Replication {
    role: Mutex<Role>,
    history: Mutex<History>,
    /// Where the stream ends: what INFO calls `master_repl_offset`.
    offset: AtomicU64,
}

/// Whether a server decides what is written, or follows one that does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// It decides.
    #[default]
    Master,
    /// It follows.
    Replica(Master),
}

/// The master that a replica follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// Its host, as it was given.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What the link to it does.
    pub link: LinkState,
}

/// What the link of a replica to its master does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It is to be connected.
    Connect,
    /// It is on its way: the two greet each other.
    Connecting,
    /// It takes all keys over.
    Sync,
    /// It follows the stream.
    Connected,
}

impl LinkState {
    /// The word of ROLE.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// Which stream the data belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The name of the stream that goes on here.
    pub id: String,
    /// The name of the stream that it was before this server was promoted; zeros where there was none.
    pub second_id: String,
    /// The first offset that is no longer of the second.
    pub second_offset: Option<u64>,
}

impl History {
    /// A stream of its own, with this name.
    pub fn new(id: String) -> Self {
        Self { id, second_id: "0".repeat(ID_LEN), second_offset: None }
    }
}

impl Replication {
    /// A master with a stream of this name, in which nothing has been written.
    pub fn new(id: String) -> Self {
        Self { role: Mutex::default(), history: Mutex::new(History::new(id)), offset: AtomicU64::new(0) }
    }

    /// Whether this server is master.
    pub fn role(&self) -> Role {
        self.role.lock().clone()
    }

    /// Makes this server a master, or a replica.
    pub fn set_role(&self, role: Role) {
        *self.role.lock() = role;
    }

    /// Which stream the data belongs to.
    pub fn history(&self) -> History {
        self.history.lock().clone()
    }

    /// Goes on in another stream.
    pub fn set_history(&self, history: History) {
        *self.history.lock() = history;
    }

    /// Where the stream ends.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::Acquire)
    }

    /// Says where the stream ends.
    pub fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Ordering::Release);
    }
}
