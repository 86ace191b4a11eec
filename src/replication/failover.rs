//! FAILOVER: a master hands its role over to a replica that has all its data.
//!
//! ```text
//! none ── FAILOVER ──> waiting-for-sync ── a replica has all ──> failover-in-progress ── it takes over ──> none
//!                            └── ABORT, time is up ──────────────────────┴── ABORT, it refuses ──> none, and master
//! ```
//! Commands that may write wait until it is over. While it is in progress the server follows its replica, and requests
//! the stream from it with the word FAILOVER, which makes the replica a master.
//!
//! A write that was accepted before it began may still take effect between the look that finds a replica with all and
//! the change of the role. So the end of the stream is compared once more when nothing can be added to it: if it has
//! moved, the replica is not asked, and the server stays master.

use super::{Phase, Replica, Replication};
use crate::base::network::is_host;
use parking_lot::MutexGuard;
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
    /// The end of the stream that the replica must have for that; none if it is forced.
    pub end: Option<u64>,
}

/// A replica that has all of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Where it can be followed.
    pub address: (String, u16),
    /// The end of the stream that it has.
    pub end: u64,
}

impl Replication {
    /// The running failover.
    pub fn failover(&self) -> Option<Failover> {
        self.failover.lock().clone()
    }

    /// The same, which neither begins nor ends while the guard is held.
    pub fn failover_guard(&self) -> MutexGuard<'_, Option<Failover>> {
        self.failover.lock()
    }

    /// The state in INFO.
    pub fn failover_state(&self) -> &'static str {
        match self.failover() {
            None => "no-failover",
            Some(Failover { is_in_progress: false, .. }) => "waiting-for-sync",
            Some(_) => "failover-in-progress",
        }
    }

    /// Adds only changes to the stream while a failover runs, so that a replica with all of them is at its end.
    pub fn set_quiet(&self, is_quiet: bool) {
        self.is_quiet.store(is_quiet, Ordering::Release);
    }

    /// Whether a replica is about to take over that lacks the end of the stream. Nothing can be added to it any more.
    pub fn is_successor_late(&self) -> bool {
        self.failover().and_then(|failover| failover.end).is_some_and(|end| end != self.offset())
    }

    /// The replica with this address.
    pub fn replica_at(&self, host: &str, port: u16) -> Option<Arc<Replica>> {
        let is_it = |replica: &Arc<Replica>| {
            replica.introduction.port == port
                && host_of(replica).is_some_and(|address| address.eq_ignore_ascii_case(host))
        };
        self.replicas().into_iter().find(is_it)
    }

    /// A replica that has all of the stream, among all of them or the one at an address.
    pub fn replica_with_all(&self, target: Option<&(String, u16)>) -> Option<Successor> {
        let candidates = match target {
            Some((host, port)) => self.replica_at(host, *port).into_iter().collect(),
            None => self.replicas(),
        };
        let end = self.offset();
        let has_all = |replica: &Arc<Replica>| {
            replica.phase() == Phase::Online && self.has_merged_all() && replica.acknowledged() == end
        };
        let address = |replica: Arc<Replica>| Some((host_of(&replica)?.to_owned(), replica.introduction.port));
        let address = candidates.into_iter().filter(has_all).find_map(address)?;
        Some(Successor { address, end })
    }
}

/// The host at which a replica can be followed. One that is connected by a unix socket may have none.
fn host_of(replica: &Replica) -> Option<&str> {
    replica.introduction.address.as_deref().filter(|address| is_host(address))
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Introduction;
    use super::*;

    #[test]
    fn a_replica_does_not_take_over_if_something_was_added_to_the_stream_after_it_was_found_to_have_all() {
        let replication = Replication::new("own".into());
        let introduction = Introduction { address: Some("127.0.0.1".into()), port: 1, ..Introduction::default() };
        let attached = replication.attach(Arc::new(Replica::new(1, introduction, false, 0)));
        attached.replica.set_phase(Phase::Online);
        replication.set_fed(true);
        replication.stream.append(b"0123456789");
        assert_eq!(replication.replica_with_all(None), None);
        attached.replica.acknowledge(10, None, 0);
        let Successor { end, .. } = replication.replica_with_all(None).unwrap();
        let failover =
            |end| Some(Failover { target: None, until_ms: None, is_forced: false, is_in_progress: true, end });
        *replication.failover_guard() = failover(Some(end));
        assert!(!replication.is_successor_late());
        replication.stream.append(b"late");
        assert!(replication.is_successor_late());
        *replication.failover_guard() = failover(None);
        assert!(!replication.is_successor_late(), "it takes over whatever it lacks");
    }
}
