//! `maxmemory-clients`: what connections may take together. Those that take most are ended while it is more.

use super::Server;
use super::client_list::Client;
use crate::base::clock::uptime_ms;
use crate::config::logging::Seldom;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often it is logged that too much is taken by connections that stay.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// What connections take together, while that has a limit. Each is counted as it last said, so nobody adds them up.
///
/// Invariant: `counted` is the sum of the clients' `counted_bytes`, but for what is being changed.
#[derive(Debug, Default)]
pub(crate) struct ClientMemory {
    /// The bytes at which it is too much; 0 for none.
    max: AtomicU64,
    counted: AtomicU64,
    /// When a log line last said that it is too much, and none is left that may be ended.
    in_vain: Seldom,
    /// Held by the one that ends connections.
    ending: Mutex<()>,
}

impl ClientMemory {
    fn has_limit(&self) -> bool {
        self.max.load(Ordering::Relaxed) > 0
    }

    fn is_over(&self) -> bool {
        self.has_limit() && self.counted.load(Ordering::Relaxed) >= self.max.load(Ordering::Relaxed)
    }

    /// Counts a connection anew.
    fn count(&self, client: &Client) {
        self.set(client, if client.is_replica() { 0 } else { client.memory() });
        // Afterwards: it may be ended at any time, and is not counted then.
        if client.is_killed.load(Ordering::Acquire) {
            self.forget(client);
        }
    }

    /// Counts a connection no more: it has ended.
    pub(super) fn forget(&self, client: &Client) {
        self.set(client, 0);
    }

    fn set(&self, client: &Client, bytes: u64) {
        // Ordered: code that counts a connection after it was forgotten sees that it is killed.
        let before = client.counted_bytes.swap(bytes, Ordering::AcqRel);
        if bytes != before {
            // It wraps, as the difference does.
            self.counted.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}

fn is_evictable(client: &Client) -> bool {
    !client.is_replica() && !client.no_evict.load(Ordering::Relaxed)
}

impl Server {
    /// Sets what connections may take together, and ends some if it is more.
    pub(super) fn limit_clients(&self, bytes_max: Option<u64>) {
        self.client_memory.max.store(bytes_max.unwrap_or(0), Ordering::Relaxed);
        self.look_at_clients();
    }

    /// Counts what a connection takes; if all take too much, some are ended, maybe this one.
    #[inline]
    pub fn note_memory(&self, client: &Client) {
        if self.client_memory.has_limit() {
            self.client_memory.count(client);
            // One that stays would look in vain each time. What it takes is seen by the housekeeping.
            if self.client_memory.is_over() && is_evictable(client) {
                self.evict_clients();
            }
        }
    }

    /// Counts all connections anew, also what others have sent them, and ends some if they take too much.
    pub(crate) fn look_at_clients(&self) {
        if self.client_memory.has_limit() {
            // Under the lock of the list: none of them is removed meanwhile, and counted afterwards.
            self.clients.for_each(|client| self.client_memory.count(client));
            self.evict_clients();
        }
    }

    /// Ends connections while all take too much, those first that take most: O(N log N) then, N = connections.
    pub fn evict_clients(&self) {
        let _ending = self.client_memory.ending.lock();
        if !self.client_memory.is_over() {
            return;
        }
        let now_ms = uptime_ms();
        let mut clients = self.clients.list();
        clients.retain(|client| is_evictable(client));
        clients.sort_by_cached_key(|client| Reverse(client.memory()));
        for client in clients {
            tracing::info!("Evicting client: {}", client.describe(now_ms, None));
            self.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            self.end_client(&client);
            if !self.client_memory.is_over() {
                return;
            }
        }
        let warn = || tracing::warn!("Over client maxmemory after evicting all evictable clients");
        self.client_memory.in_vain.come(WARN_EVERY, warn);
    }

    /// Ends a connection: it is gone for all others from now on, and its task will notice. What is pushed next is not
    /// for it.
    pub fn end_client(&self, client: &Client) {
        self.clients.kill(client.id);
        client.is_killed.store(true, Ordering::Release);
        self.client_memory.forget(client);
        client.leave_queue();
        if let Some(taker) = client.taker.lock().as_ref() {
            _ = taker.give_up();
        }
        client.shut_down(Shutdown::Both);
    }
}
