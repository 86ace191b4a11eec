//! The JSON of a run, format `shardrace-loadgen/1`. Latencies are in microseconds.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value as Json, json};

use crate::config::Config;
use crate::record::{CommandStats, Io, Outcome, Verified, value_at_percentile};
use crate::report::hdr::HdrPaths;
use crate::report::{Caveats, fairness};

/// The whole result of a run.
pub fn to_json(config: &Config, outcome: &Outcome) -> Json {
    let files = config.hdr_file_prefix.as_deref().map(HdrPaths::from_prefix);
    let (commands, series) = (commands(outcome), series(outcome));
    let faults = outcome.faults();
    let targets: Vec<Json> = outcome
        .targets
        .iter()
        .map(|(address, counted)| {
            let mut json = stats(outcome, counted);
            json["address"] = address.clone().into();
            json
        })
        .collect();
    json!({
        "format": "shardrace-loadgen/1",
        "config": config.to_json(),
        "valid": faults.is_empty(),
        "faults": faults,
        "interrupted": outcome.is_interrupted,
        "target": { "host": config.targets[0].host, "port": config.targets[0].port },
        "targets": targets,
        "connecting_s": outcome.connecting.as_secs_f64(),
        "unsent": outcome.unsent,
        "verified": outcome.verified.as_ref().map(verified_to_json),
        "started_unix_ms": outcome.started_unix_ms(),
        "duration_s": outcome.duration.as_secs_f64(),
        "totals": stats(outcome, &outcome.totals()),
        "commands": commands,
        "generator": {
            "cpu_user_s": outcome.cpu_user.as_secs_f64(),
            "cpu_system_s": outcome.cpu_system.as_secs_f64(),
            "cpu_us_per_op": outcome.cpu_us_per_op(),
            "threads": config.threads,
            "io": outcome.io.as_ref().map(Io::name),
            "io_uring_refused": outcome.io.as_ref().and_then(Io::refusal),
            "busy_max": outcome.health.busy_max,
            "waiting_for_cpu_max": outcome.health.waiting_max,
            "stolen_cores_max": outcome.health.stolen_max,
            "schedule_lag_us": config.rate.map(|_| percentiles(&outcome.health.lag)),
        },
        "connections": fairness::to_json(outcome),
        "slices_100ms": outcome.slices,
        "series": series,
        "files": files_json(files.as_ref()),
    })
}

/// Several runs as one: counts are added up, and other values are the worst of them.
pub(crate) fn merged_json(outcome: &Outcome, caveats: &Caveats, inputs: &[&Json], files: &HdrPaths) -> Json {
    let worst = |name: &str| inputs.iter().filter_map(|input| input["generator"][name].as_f64()).fold(0.0, f64::max);
    let threads: u64 = inputs.iter().filter_map(|input| input["generator"]["threads"].as_u64()).sum();
    json!({
        "format": "shardrace-loadgen/1",
        "config": inputs[0]["config"],
        "merged": inputs.iter().map(|input| &input["config"]).collect::<Vec<_>>(),
        "valid": caveats.faults.is_empty(),
        "faults": caveats.faults,
        "interrupted": caveats.is_interrupted,
        "target": inputs[0]["target"],
        "started_unix_ms": outcome.started_unix_ms(),
        "duration_s": outcome.duration.as_secs_f64(),
        "unsent": caveats.unsent,
        "verified": outcome.verified.as_ref().map(verified_to_json),
        "totals": stats(outcome, &outcome.totals()),
        "commands": commands(outcome),
        "generator": {
            "cpu_user_s": outcome.cpu_user.as_secs_f64(),
            "cpu_system_s": outcome.cpu_system.as_secs_f64(),
            "cpu_us_per_op": outcome.cpu_us_per_op(),
            "threads": threads,
            "busy_max": worst("busy_max"),
            "waiting_for_cpu_max": worst("waiting_for_cpu_max"),
            "stolen_cores_max": worst("stolen_cores_max"),
        },
        "series": series(outcome),
        "files": files_json(Some(files)),
    })
}

/// Anyone may have written the file: an implausible time counts as none.
pub(crate) fn seconds_of(json: &Json) -> Duration {
    const SECONDS_MAX: f64 = 1e9;
    let seconds = json.as_f64().filter(|seconds| (0.0..SECONDS_MAX).contains(seconds));
    Duration::from_secs_f64(seconds.unwrap_or(0.0))
}

fn verified_to_json(verified: &Verified) -> Json {
    json!({ "replies": verified.replies, "mismatches": verified.mismatches, "first": verified.first })
}

fn files_json(files: Option<&HdrPaths>) -> Json {
    json!({
            "hlog": files.map(|files| &files.latency_log),
            "total_hlog": files.map(|files| &files.latency_total),
            "service_hlog": files.map(|files| &files.service_log),
            "service_total_hlog": files.map(|files| &files.service_total),
            "csv": files.map(|files| &files.csv),
            "hgrm": files.map(|files| &files.latency_distribution),
    })
}

fn commands(outcome: &Outcome) -> Map<String, Json> {
    outcome.by_name().map(|(name, command)| (name.to_owned(), stats(outcome, command))).collect()
}

fn series(outcome: &Outcome) -> Vec<Json> {
    outcome
        .series
        .iter()
        .map(|second| {
            json!({
                "t_s": second.end_s,
                "ops": second.requests,
                "p50_us": micros(second.p50_ns),
                "p99_us": micros(second.p99_ns),
                "p99.9_us": micros(second.p999_ns),
                "max_us": micros(second.max_ns),
                "errors": second.errors,
                "hits": second.hits,
                "misses": second.misses,
            })
        })
        .collect()
}

fn stats(outcome: &Outcome, stats: &CommandStats) -> Json {
    json!({
        "requests": stats.requests,
        "errors": stats.errors,
        "hits": stats.hits,
        "misses": stats.misses,
        "hit_ratio": stats.hit_ratio(),
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
