//! The result for humans, on stdout.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;

use crate::config::{Config, Stop, Target};
use crate::record::{CommandStats, Io, Outcome, value_at_percentile};

/// One row per command, and what is needed to read them.
pub fn print_summary(out: &mut dyn Write, config: &Config, outcome: &Outcome) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} connections, {} threads, {}, pipeline {}, {}, {}",
        config.targets.iter().map(Target::address).collect::<Vec<_>>().join(", "),
        config.clients,
        config.threads,
        outcome.io.as_ref().map_or("unknown I/O".to_owned(), Io::to_string),
        config.pipeline,
        config.rate.map_or("closed loop".to_owned(), |rate| format!("open loop at {rate} ops/s in total")),
        match config.stop {
            Stop::Requests(requests) => format!("{requests} requests"),
            Stop::Time(time) => format!("{} s", time.as_secs_f64()),
        },
    )?;
    writeln!(out, "{}", rows(config, outcome))?;
    writeln!(
        out,
        "{:.3} s measured; generator CPU {:.2} us per request ({:.2} s user, {:.2} s system)",
        outcome.duration.as_secs_f64(),
        outcome.cpu_us_per_op(),
        outcome.cpu_user.as_secs_f64(),
        outcome.cpu_system.as_secs_f64(),
    )
}

/// A line for each command.
pub fn print_brief(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    for (name, stats) in outcome.by_name().filter(|(_, stats)| stats.requests > 0) {
        let p50 = millis(value_at_percentile(stats.latency(), 50.0));
        writeln!(out, "{name}: {:.2} requests per second, p50={p50} ms", outcome.per_second(stats.requests))?;
    }
    Ok(())
}

fn rows(config: &Config, outcome: &Outcome) -> Table {
    let mut table = plain_table();
    let mut header =
        vec!["".to_owned(), "requests".into(), "ops/s".into(), "hits".into(), "misses".into(), "hit %".into()];
    header.extend(["errors".into(), "KB/s".into(), "mean ms".into()]);
    header.extend(config.percentiles.iter().map(|percentile| format!("p{percentile} ms")));
    header.push("max ms".into());
    table.set_header(header);
    let totals = outcome.totals();
    let targets = outcome.targets.iter().map(|(address, stats)| (address.as_str(), stats));
    for (name, stats) in outcome.by_name().chain(targets).chain([("total", &totals)]) {
        if stats.requests == 0 && name != "total" {
            continue;
        }
        table.add_row(row(config, outcome, name, stats, stats.latency()));
        if config.rate.is_some() {
            table.add_row(row(config, outcome, "  service time", stats, &stats.service));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(
    config: &Config,
    outcome: &Outcome,
    name: &str,
    stats: &CommandStats,
    histogram: &Histogram<u64>,
) -> Vec<String> {
    let bytes = stats.bytes_sent + stats.bytes_received;
    let mut row = vec![
        name.to_owned(),
        stats.requests.to_string(),
        format!("{:.0}", outcome.per_second(stats.requests)),
        stats.hits.to_string(),
        stats.misses.to_string(),
        stats.hit_ratio().map_or("-".to_owned(), |ratio| format!("{:.2}", ratio * 100.0)),
        stats.errors.to_string(),
        format!("{:.0}", outcome.per_second(bytes) / 1000.0),
        format!("{:.3}", histogram.mean() / 1e6),
    ];
    row.extend(config.percentiles.iter().map(|&percentile| millis(value_at_percentile(histogram, percentile))));
    row.push(millis(histogram.max()));
    row
}

/// The latency distribution, in steps that halve what is left.
pub fn print_distribution(out: &mut dyn Write, histogram: &Histogram<u64>) -> io::Result<()> {
    writeln!(out, "\nlatency, all commands")?;
    for step in histogram.iter_quantiles(1) {
        let percentile = format!("{:.4}", step.quantile_iterated_to() * 100.0);
        writeln!(out, "  {percentile:>9} %  <= {:>12} ms", millis(step.value_iterated_to()))?;
    }
    Ok(())
}

pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

pub(crate) fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}
