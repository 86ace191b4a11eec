//! The figures of an engine.

use crate::aof::{Segment, SegmentMetrics};
use crate::base::narrowing::whole_u64;
use crate::keyspace::{KeyspaceStats, NodeTable, Table};
use hdrhistogram::Histogram;
use std::sync::Arc;

/// One owner of data: a shard actor, or the whole of a shared table.
#[derive(Debug, Clone, Default)]
pub struct ShardMetrics {
    /// Keys it holds.
    pub keys: u64,
    /// Keys that expire.
    pub expires: u64,
    /// Commands it has run.
    pub commands: u64,
    /// Batches that wait for it.
    pub queue_depth: u64,
    /// The most commands that came in one batch.
    pub largest_batch: u64,
    /// Turns it has taken.
    pub turns: u64,
    /// Batches it has served.
    pub batches: u64,
    /// Those of them that connections have run in place.
    pub in_place: u64,
}

/// A distribution of times, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct LatencySummary {
    /// How many were recorded.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

impl LatencySummary {
    /// The summary of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// One database, over all shards.
#[derive(Debug, Clone, Copy, Default)]
pub struct DatabaseMetrics {
    /// Keys in it.
    pub keys: u64,
    /// Keys that expire.
    pub expires: u64,
    /// The sum of their deadlines, in milliseconds.
    pub deadlines_ms: f64,
}

impl DatabaseMetrics {
    /// The figures of a table.
    pub fn of(table: &NodeTable) -> Self {
        let deadlines = table.deadlines();
        Self { keys: table.len() as u64, expires: deadlines.len() as u64, deadlines_ms: deadlines.sum() }
    }

    /// The mean time to live of its expiring keys in milliseconds; 0 if there are none.
    pub fn mean_ttl_ms(&self, now_ms: u64) -> u64 {
        let mean_ms = self.deadlines_ms / self.expires.max(1) as f64;
        whole_u64((mean_ms - now_ms as f64).max(0.0))
    }
}

/// Figures of an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineMetrics {
    /// The engine's name.
    pub engine: &'static str,
    /// One per owner of data.
    pub shards: Vec<ShardMetrics>,
    /// One per database, without empty ones at the end.
    pub databases: Vec<DatabaseMetrics>,
    /// Into how many locked parts a shared table is divided; 0 if the owners are `shards`.
    pub map_shards: usize,
    /// Hits, misses and expired keys of all shards.
    pub keyspace: KeyspaceStats,
    /// How late the oldest expired key was removed at the last look, in milliseconds.
    pub expire_lag_ms: u64,
    /// How long connections waited for the lock, if they had to (mutex): `count` is contended acquisitions.
    pub lock_waits: Option<LatencySummary>,
    /// Acquisitions of the lock that did not wait.
    pub lock_free: u64,
    /// One per segment of the log; empty without a log.
    pub segments: Vec<SegmentMetrics>,
}

/// The figures of the segments; empty without a log.
pub fn log_metrics(segments: &[Arc<Segment>]) -> Vec<SegmentMetrics> {
    segments.iter().filter(|segment| segment.is_on()).map(|segment| segment.metrics()).collect()
}

impl EngineMetrics {
    /// Sums a figure over the shards.
    pub fn total(&self, figure: impl Fn(&ShardMetrics) -> u64) -> u64 {
        self.shards.iter().map(figure).sum()
    }
}
