//! Whether the server is a master or a replica, and what that means for requests.

use super::node_id;
use super::server::Server;
use crate::base::clock::uptime_ms;
use crate::commands::READONLY;
use crate::config::Directive;
use crate::keyspace::{BECAME_REPLICA, DueKeys};
use crate::replication::{Failover, LinkState, Role};
use crate::resp::CommandError;
use std::io;

impl Server {
    /// Whether there is a master.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.due_keys.get() != DueKeys::Removed
    }

    /// Begins to follow a master.
    pub fn follow(&self, host: String, port: u16) {
        let of_master = format!("{host} {port}");
        self.switch(|| self.replication.follow(host, port, uptime_ms()), of_master);
        self.refuse_waiting();
    }

    /// Becomes a master.
    pub fn promote(&self) {
        self.switch(|| self.replication.promote(node_id::random(&self.instance.randomness)), String::new());
    }

    /// Begins to hand the role over to a replica: commands that may write wait until that is over.
    pub fn begin_failover(&self, running: &mut Option<Failover>, failover: Failover) {
        self.pause.begin_failover();
        self.replication.set_quiet(true);
        *running = Some(failover);
        self.replication.coordinate();
    }

    /// Follows the replica that takes over, unless the failover has been ended meanwhile. The replica must have the
    /// stream up to `end`, if that is given.
    pub fn hand_over(&self, (host, port): (String, u16), end: Option<u64>) {
        if let Some(running) = &mut *self.replication.failover_guard() {
            running.target = Some((host.clone(), port));
            (running.is_in_progress, running.end) = (true, end);
            self.follow(host, port);
        }
    }

    /// Ends the failover if the replica has taken over.
    pub fn end_failover(&self) {
        let mut running = self.replication.failover_guard();
        if running.take_if(|failover| failover.is_in_progress).is_some() {
            self.let_writes_go_on();
        }
    }

    /// Ends the failover without a change: this server stays master.
    pub fn abort_failover(&self, reason: &str) {
        let mut running = self.replication.failover_guard();
        let Some(Failover { target, is_in_progress, .. }) = running.take() else { return };
        // Before clients can see that it has ended.
        if is_in_progress && self.is_replica() {
            self.promote();
        }
        self.let_writes_go_on();
        let target = target.map_or("any replica".to_owned(), |(host, port)| format!("{host}:{port}"));
        tracing::info!("FAILOVER to {target} aborted: {reason}");
    }

    fn let_writes_go_on(&self) {
        self.replication.set_quiet(false);
        self.pause.end_failover();
    }

    /// Changes the role. Commands that may write wait meanwhile, and while a group of the last master is still being
    /// applied.
    fn switch(&self, change: impl FnOnce() -> bool, replicaof: String) {
        self.pause.begin_switch();
        let is_applying = change();
        let value = (Directive::Replicaof as usize, replicaof);
        self.config.set(&[value]).expect("a host and a port, or nothing, are a valid value");
        self.apply_role();
        self.apply_oom_score().unwrap_or_else(|error| tracing::warn!("oom-score-adj: {error}"));
        self.look_at_replicas();
        self.replication.rouse_waiting();
        self.instance.pressure.look_again();
        if self.replication.is_to_be_fed() || self.replication.is_logged_place_outdated() {
            // The coordinator ends the switch.
            self.replication.coordinate();
        } else if !is_applying {
            self.pause.end_switch();
        }
    }

    /// Sets the score of the process for the kernel, if it is the server's.
    pub fn apply_oom_score(&self) -> io::Result<()> {
        self.oom_score.apply(self.config.oom_scores(), self.is_replica())
    }

    /// Applies the role, and the configuration for replicas.
    pub(super) fn apply_role(&self) {
        let _change = self.role_change.lock();
        let is_read_only = self.config.is_on(Directive::ReplicaReadOnly);
        let due_keys = match self.replication.role() {
            Role::Master => DueKeys::Removed,
            Role::Replica(_) if is_read_only => DueKeys::Kept,
            Role::Replica(_) => DueKeys::KeptUntilWritten,
        };
        let was_replica = self.due_keys.replace(due_keys) != DueKeys::Removed;
        let is_replica = due_keys != DueKeys::Removed;
        if was_replica != is_replica {
            // Requests must be checked for whether a replica may run them.
            self.log_control.look_at_all_while(is_replica);
        }
    }

    /// Refuses connections that wait for keys, as Redis does whenever a server follows another. With nothing to take
    /// they would wait for ever, and a reader would wait for an entry that the new master may lack.
    fn refuse_waiting(&self) {
        for client in self.clients.list() {
            if let Some(taker) = &*client.taker.lock() {
                // Its wait may be over.
                _ = taker.refuse(BECAME_REPLICA);
            }
        }
    }

    /// Why clients may write nothing, whatever the state of the log: only the master writes.
    pub fn refuses_to_be_written(&self) -> Option<CommandError> {
        (self.due_keys.get() == DueKeys::Kept).then_some(CommandError::Text(READONLY))
    }

    /// Why clients may not read the data: the master may have other data by now.
    pub fn refuses_as_stale(&self) -> Option<CommandError> {
        const TEXT: &str = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
        if !self.is_replica() || self.config.is_on(Directive::ReplicaServeStaleData) {
            return None;
        }
        let is_stale = self.replication.link().is_some_and(|link| link != LinkState::Connected);
        is_stale.then_some(CommandError::Text(TEXT))
    }
}
