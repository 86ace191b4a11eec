//! The JSON of a run, format `shardrace-loadgen/1`. Latencies are in microseconds.

use hdrhistogram::Histogram;
use serde_json::{Map, Value as Json, json};

use crate::config::Config;
use crate::outcome::Outcome;
use crate::record::{CommandStats, value_at_percentile};
use crate::report::hdr::HdrPaths;
use crate::workload::CommandKind;

/// The whole result of a run.
pub fn to_json(config: &Config, outcome: &Outcome) -> Json {
    let files = config.hdr_file_prefix.as_deref().map(HdrPaths::from_prefix);
    let commands: Map<String, Json> = CommandKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), stats(outcome, &outcome.commands[kind as usize])))
        .collect();
    let series: Vec<Json> = outcome
        .series
        .iter()
        .map(|second| {
            json!({
                "t_s": second.end_s,
                "ops": second.requests,
                "p50_us": micros(second.p50_ns),
                "p99_us": micros(second.p99_ns),
            })
        })
        .collect();
    json!({
        "format": "shardrace-loadgen/1",
        "config": config.to_json(),
        "target": { "host": config.server, "port": config.port },
        "started_unix_ms": outcome.started_unix_ms(),
        "duration_s": outcome.duration.as_secs_f64(),
        "totals": stats(outcome, &outcome.totals()),
        "commands": commands,
        "generator": {
            "cpu_user_s": outcome.cpu_user.as_secs_f64(),
            "cpu_system_s": outcome.cpu_system.as_secs_f64(),
            "cpu_us_per_op": outcome.cpu_us_per_op(),
            "threads": config.threads,
        },
        "series": series,
        "files": {
            "hlog": files.as_ref().map(|files| &files.latency_log),
            "hgrm": files.as_ref().map(|files| &files.latency_distribution),
        },
    })
}

fn stats(outcome: &Outcome, stats: &CommandStats) -> Json {
    json!({
        "requests": stats.requests,
        "errors": stats.errors,
        "hits": stats.hits,
        "misses": stats.misses,
        "ops_per_sec": outcome.per_second(stats.requests),
        "bytes_sent": stats.bytes_sent,
        "bytes_received": stats.bytes_received,
        "latency_us": percentiles(stats.latency()),
        "service_us": percentiles(&stats.service),
    })
}

fn percentiles(histogram: &Histogram<u64>) -> Json {
    let at = |percentile| micros(value_at_percentile(histogram, percentile));
    json!({
        "mean": histogram.mean() / 1e3,
        "stdev": histogram.stdev() / 1e3,
        "min": micros(histogram.min()),
        "p50": at(50.0),
        "p90": at(90.0),
        "p95": at(95.0),
        "p99": at(99.0),
        "p99.9": at(99.9),
        "p99.99": at(99.99),
        "max": micros(histogram.max()),
    })
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
