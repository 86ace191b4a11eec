//! A ramp for humans, as CSV and as JSON.

use std::io::{self, Write};

use comfy_table::CellAlignment;
use serde_json::{Value as Json, json};

use super::plain_table;
use crate::config::{Config, Ramp};
use crate::record::{RampOutcome, Step, value_at_percentile};

/// A row for each step in the order of rates, and the knee.
pub fn print_ramp(out: &mut dyn Write, config: &Config, ramp: &RampOutcome) -> io::Result<()> {
    let mut table = plain_table();
    table.set_header(["ops/s asked", "ops/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", ""]);
    let mut steps: Vec<_> = ramp.steps.iter().collect();
    steps.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    for step in steps {
        let mut row = vec![format!("{:.0}", step.rate), format!("{:.0}", step.achieved())];
        row.extend([50.0, 99.0, 99.9, 100.0].map(|percentile| format!("{:.3}", step.latency_ms(percentile))));
        let faults = step.outcome.faults().into_iter().map(|fault| format!("INVALID: {fault}"));
        row.push(step.failures.iter().cloned().chain(faults).collect::<Vec<_>>().join("; "));
        table.add_row(row);
    }
    for column in table.column_iter_mut().take(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")?;
    match (ramp.found, &config.ramp) {
        (Some(found), Some(Ramp::FindKnee(knee))) => {
            let rate = |rate: Option<f64>| rate.map_or("no rate".to_owned(), |rate| format!("{rate:.0} ops/s"));
            writeln!(
                out,
                "p99 <= {} ms: {} holds, {} fails{}{}",
                knee.p99_limit_ms,
                rate(found.holds),
                rate(found.fails),
                if found.generator_bound { "; there it was the generator that could not keep up" } else { "" },
                found.lag_p99_ms.map_or(String::new(), |lag_ms| format!(
                    "; of the limit, the generator's own lag was {:.0} % ({lag_ms:.3} ms) at the rate that holds",
                    lag_ms / knee.p99_limit_ms * 100.0
                )),
            )
        }
        _ => Ok(()),
    }
}

/// A header, and a row for each step in the order they were run.
pub fn write_ramp_csv(out: &mut dyn Write, ramp: &RampOutcome) -> io::Result<()> {
    writeln!(out, "step,rate,ops_per_sec,errors,unsent,p50_us,p99_us,p99.9_us,max_us,holds,valid")?;
    for (number, step) in (1..).zip(&ramp.steps) {
        let us = |percentile| format!("{:.3}", step.latency_ms(percentile) * 1e3);
        writeln!(
            out,
            "{number},{},{:.1},{},{},{},{},{},{},{},{}",
            step.rate,
            step.achieved(),
            step.outcome.totals().errors,
            step.outcome.unsent,
            us(50.0),
            us(99.0),
            us(99.9),
            us(100.0),
            step.failures.is_empty(),
            step.outcome.faults().is_empty(),
        )?;
    }
    Ok(())
}

/// The steps, and the knee, as JSON of the format `shardrace-loadgen-ramp/1`.
pub fn ramp_to_json(config: &Config, ramp: &RampOutcome) -> Json {
    let steps: Vec<Json> = ramp.steps.iter().map(step_to_json).collect();
    json!({
        "format": "shardrace-loadgen-ramp/1",
        "config": config.to_json(),
        "interrupted": ramp.is_interrupted,
        "steps": steps,
        "knee": ramp.found.map(|found| json!({
            "holds": found.holds,
            "fails": found.fails,
            "generator_bound": found.generator_bound,
            "lag_p99_us": found.lag_p99_ms.map(|ms| ms * 1e3),
        })),
    })
}

fn step_to_json(step: &Step) -> Json {
    let totals = step.outcome.totals();
    let us = |percentile| step.latency_ms(percentile) * 1e3;
    json!({
        "rate": step.rate,
        "ops_per_sec": step.achieved(),
        "requests": totals.requests,
        "errors": totals.errors,
        "hits": totals.hits,
        "misses": totals.misses,
        "hit_ratio": totals.hit_ratio(),
        "unsent": step.outcome.unsent,
        "latency_us": { "p50": us(50.0), "p90": us(90.0), "p99": us(99.0), "p99.9": us(99.9), "max": us(100.0) },
        "lag_p99_us": step.lag_p99_ms() * 1e3,
        "service_p99_us": value_at_percentile(&totals.service, 99.0) as f64 / 1e3,
        "failures": step.failures,
        "faults": step.outcome.faults(),
    })
}
