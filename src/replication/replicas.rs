//! The attached replicas, for INFO, ROLE, WAIT and the housekeeping.

use super::pipe::Outlet;
use super::stream::{Cursor, Gauge};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use tokio::sync::Notify;

/// The state of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// It waits for a snapshot to begin.
    WaitsForSnapshot = 0,
    /// It is sent a snapshot.
    TakesSnapshot = 1,
    /// It is sent the stream.
    Online = 2,
    /// It has received the snapshot, and needs no more.
    HasSnapshot = 3,
}

impl Phase {
    /// The state in INFO.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitsForSnapshot => "wait_bgsave",
            Self::TakesSnapshot => "send_bulk",
            Self::Online => "online",
            Self::HasSnapshot => "rdb_transmitted",
        }
    }
}

/// The contents of a snapshot without keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Nothing.
    Nothing,
    /// The libraries of functions.
    Functions,
}

/// What a connection has said about itself by REPLCONF before it requests the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Introduction {
    /// The port that it listens on; 0 if not given.
    pub port: u16,
    /// The address that it is reached by, if given.
    pub address: Option<String>,
    /// Whether it accepts a snapshot of unknown length.
    pub takes_eof: bool,
    /// Whether it continues when the name of the stream changes.
    pub takes_new_id: bool,
    /// Whether it wants a snapshot and no stream.
    pub wants_snapshot_alone: bool,
    /// The contents that it wants of a snapshot, if not all.
    pub filter: Option<Filter>,
}

/// A replica.
#[derive(Debug)]
pub struct Replica {
    /// The number of its connection.
    pub client: u64,
    /// What it said about itself, with the address of its connection if it gave none.
    pub introduction: Introduction,
    /// Whether it used SYNC: it never acknowledges anything.
    pub is_silent: bool,
    phase: AtomicU8,
    acknowledged: AtomicU64,
    has_acknowledged: AtomicBool,
    /// The offset that it reports as on its disk.
    synced: AtomicU64,
    /// How much of the stream it has been sent, once it is online.
    gauge: OnceLock<Gauge>,
    /// When it was last heard of, by [`uptime_ms`](crate::base::clock::uptime_ms).
    heard_ms: AtomicU64,
    /// Since when it has waited for a snapshot.
    waits_since_ms: u64,
    is_begun: AtomicBool,
    start: Mutex<Option<Start>>,
    /// Whether there is no snapshot for it.
    has_failed: AtomicBool,
    wakeup: Notify,
}

/// Where the stream continues for a replica that has what came before.
#[derive(Debug)]
pub struct Continuation {
    /// The name of the stream when the cursor was made: it may have another, or other data, by now.
    pub id: String,
    /// The cursor of the replica.
    pub cursor: Cursor,
}

/// The beginning of a full synchronization.
#[derive(Debug)]
pub struct Start {
    /// The name of the stream.
    pub id: String,
    /// The cursor of the snapshot in the stream.
    pub cursor: Cursor,
    /// The source of the snapshot.
    pub snapshot: Outlet,
}

impl Replica {
    /// A replica that requests the stream.
    pub fn new(client: u64, introduction: Introduction, is_silent: bool, now_ms: u64) -> Self {
        Self {
            client,
            introduction,
            is_silent,
            phase: AtomicU8::new(Phase::WaitsForSnapshot as u8),
            acknowledged: AtomicU64::new(0),
            has_acknowledged: AtomicBool::new(false),
            synced: AtomicU64::new(0),
            gauge: OnceLock::new(),
            heard_ms: AtomicU64::new(now_ms),
            waits_since_ms: now_ms,
            is_begun: AtomicBool::new(false),
            start: Mutex::default(),
            has_failed: AtomicBool::new(false),
            wakeup: Notify::new(),
        }
    }

    /// Its state.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WaitsForSnapshot,
            1 => Phase::TakesSnapshot,
            2 => Phase::Online,
            _ => Phase::HasSnapshot,
        }
    }

    /// Sets its state.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The offset up to which it has everything.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// The offset up to which everything is on its disk.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Records its acknowledgement. The offset never goes back.
    pub fn acknowledge(&self, offset: u64, synced: Option<u64>, now_ms: u64) {
        self.acknowledged.fetch_max(offset, Ordering::AcqRel);
        if let Some(synced) = synced {
            self.synced.fetch_max(synced, Ordering::AcqRel);
        }
        self.has_acknowledged.store(true, Ordering::Release);
        self.hear(now_ms);
    }

    /// Whether it has acknowledged anything.
    pub fn has_acknowledged(&self) -> bool {
        self.has_acknowledged.load(Ordering::Acquire)
    }

    /// Records a sign of life.
    pub fn hear(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Ordering::Release);
    }

    /// Sets the cursor from which it is sent the stream.
    pub fn follow(&self, cursor: &Cursor) {
        // It is sent one stream only.
        _ = self.gauge.set(cursor.gauge());
    }

    /// How many bytes must still be sent to it.
    pub fn lag(&self) -> u64 {
        self.gauge.get().map_or(0, Gauge::lag)
    }

    /// Milliseconds since it was heard of.
    pub fn silence_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.heard_ms.load(Ordering::Acquire))
    }

    /// The same in whole seconds, as Redis counts it: replicas acknowledge about once a second.
    pub fn lag_s(&self, now_ms: u64) -> u64 {
        self.silence_ms(now_ms) / 1000
    }

    /// For how many milliseconds it has waited for a snapshot.
    pub fn waited_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.waits_since_ms)
    }

    /// Begins a full synchronization.
    pub fn begin(&self, start: Start) {
        self.is_begun.store(true, Ordering::Release);
        *self.start.lock() = Some(start);
        self.wakeup.notify_one();
    }

    /// Whether its full synchronization has begun.
    pub fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// Records that there is no snapshot for it.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
        self.wakeup.notify_one();
    }

    /// Whether there is no snapshot for it.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// The beginning of its synchronization, once.
    pub fn take_start(&self) -> Option<Start> {
        self.start.lock().take()
    }

    /// Waits until it begins or fails.
    pub async fn begun(&self) {
        self.wakeup.notified().await;
    }
}
