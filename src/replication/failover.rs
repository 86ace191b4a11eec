//! FAILOVER: a master hands its role over to a replica that has all its data.
//!
//! ```text
//! none ── FAILOVER ──> waiting-for-sync ── a replica has all ──> failover-in-progress ── it takes over ──> none
//!                            └── ABORT, time is up ──────────────────────┴── ABORT, it refuses ──> none, and master
//! ```
//! Commands that may write wait until it is over. While it is in progress the server follows its replica, and requests
//! the stream from it with the word FAILOVER, which makes the replica a master.

use super::{Phase, Replica, Replication};
use crate::base::network::is_host;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A failover that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    /// The replica, once it is chosen.
    pub target: Option<(String, u16)>,
    /// When it times out, as uptime in milliseconds, if it has a timeout.
    pub until_ms: Option<u64>,
    /// Whether the replica takes over after the timeout even if it lacks data.
    pub is_forced: bool,
    /// Whether the replica is asked to take over.
    pub is_in_progress: bool,
}

impl Replication {
    /// The running failover.
    pub fn failover(&self) -> Option<Failover> {
        self.failover.lock().clone()
    }

    /// The state in INFO.
    pub fn failover_state(&self) -> &'static str {
        match self.failover() {
            None => "no-failover",
            Some(Failover { is_in_progress: false, .. }) => "waiting-for-sync",
            Some(_) => "failover-in-progress",
        }
    }

    /// Begins a failover, or continues it. Only changes are added to the stream meanwhile, so that a replica with all
    /// of them is at its end.
    pub fn set_failover(&self, failover: Failover) {
        self.is_quiet.store(true, Ordering::Release);
        *self.failover.lock() = Some(failover);
        self.coordinate();
    }

    /// Ends it, and returns its last state.
    pub fn end_failover(&self) -> Option<Failover> {
        let ended = self.failover.lock().take();
        if ended.is_some() {
            self.is_quiet.store(false, Ordering::Release);
        }
        ended
    }

    /// The replica with this address.
    pub fn replica_at(&self, host: &str, port: u16) -> Option<Arc<Replica>> {
        let is_it = |replica: &Arc<Replica>| {
            replica.introduction.port == port
                && host_of(replica).is_some_and(|address| address.eq_ignore_ascii_case(host))
        };
        self.replicas().into_iter().find(is_it)
    }

    /// A replica that has all of the stream, among all of them or the one at an address; with its address.
    pub fn replica_with_all(&self, target: Option<&(String, u16)>) -> Option<(String, u16)> {
        let candidates = match target {
            Some((host, port)) => self.replica_at(host, *port).into_iter().collect(),
            None => self.replicas(),
        };
        let has_all = |replica: &Arc<Replica>| {
            replica.phase() == Phase::Online && self.has_merged_all() && replica.acknowledged() == self.offset()
        };
        let address = |replica: Arc<Replica>| Some((host_of(&replica)?.to_owned(), replica.introduction.port));
        candidates.into_iter().filter(has_all).find_map(address)
    }
}

/// The host at which a replica can be followed. One that is connected by a unix socket may have none.
fn host_of(replica: &Replica) -> Option<&str> {
    replica.introduction.address.as_deref().filter(|address| is_host(address))
}
