//! Periodic checks while a server runs: memory, and connections that idle or read no replies.

use crate::base::allocator;
use crate::base::clock::uptime_ms;
use crate::config::{Directive, OutputLimit};
use crate::state::client_list::Client;
use crate::state::{Server, Totals};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the housekeeping runs.
pub(super) const HOUSEKEEPING: Duration = Duration::from_millis(100);

/// Measures the memory in use, more often the nearer the limit is.
pub(super) async fn measure_memory(server: Arc<Server>) {
    loop {
        server.instance.pressure.next_look(server.look_at_memory()).await;
    }
}

/// Updates the coarse clock, and ends connections that idle or read no replies.
pub(super) async fn keep_house(server: Arc<Server>) {
    const LOOKS_PER_SECOND: u64 = 10;
    let mut before = Totals::default();
    for look in 0u64.. {
        tokio::time::sleep(HOUSEKEEPING).await;
        let now_ms = uptime_ms();
        server.coarse_uptime_ms.store(now_ms, Ordering::Relaxed);
        server.pubsub.trim_tracking();
        server.look_at_clients();
        if !look.is_multiple_of(LOOKS_PER_SECOND) {
            continue;
        }
        server.links.close_unused();
        let totals = server.traffic();
        let (limits, timeout_s) = (server.config.output_limits(), server.config.number(Directive::Timeout));
        for client in server.clients.list() {
            let limit = match () {
                () if client.is_replica() => limits.slave,
                () if client.is_listening() => limits.pubsub,
                () => limits.normal,
            };
            if is_over_soft_limit(&client, limit, now_ms) {
                client.report_output_limit(client.output_bytes.load(Ordering::Relaxed));
                server.stats.over_limit.fetch_add(1, Ordering::Relaxed);
                client.shut_down(Shutdown::Both);
            }
            let idle_ms = now_ms.saturating_sub(client.last_seen_ms.load(Ordering::Relaxed));
            if timeout_s > 0 && client.may_idle_out() && idle_ms > timeout_s * 1000 {
                tracing::debug!("Closing idle client: id={} addr={}", client.id, client.address);
                client.shut_down(Shutdown::Both);
            }
        }
        let stats = &server.stats;
        for (rate, now, before) in [
            (&stats.ops_per_sec, totals.commands, before.commands),
            (&stats.input_per_sec, totals.input_bytes, before.input_bytes),
            (&stats.output_per_sec, totals.output_bytes, before.output_bytes),
            (&stats.master_per_sec, totals.master_bytes, before.master_bytes),
            (&stats.replica_per_sec, totals.replica_bytes, before.replica_bytes),
        ] {
            rate.store(now.saturating_sub(before), Ordering::Relaxed);
        }
        before = totals;
        // The peak is the highest measurement.
        allocator::used();
    }
}

/// Whether a connection's unread replies and messages have exceeded the soft limit for too long.
fn is_over_soft_limit(client: &Client, limit: OutputLimit, now_ms: u64) -> bool {
    let is_over = client.unread_bytes() > limit.soft_max();
    let since_ms = client.output_over_since_ms.load(Ordering::Relaxed);
    if !is_over || since_ms == 0 {
        client.output_over_since_ms.store(if is_over { now_ms } else { 0 }, Ordering::Relaxed);
        return false;
    }
    now_ms.saturating_sub(since_ms) > limit.soft_seconds.saturating_mul(1000)
}
