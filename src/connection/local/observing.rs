//! SLOWLOG and LATENCY: the commands that took long.

use super::{LocalCall, LocalFn, graph};
use crate::commands::{COMMANDS, Outcome};
use crate::config::Directive;
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};
use crate::stats::command_stats::Figures;
use crate::stats::slow_log::Entry;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("slowlog|get", slowlog_get),
    ("slowlog|len", slowlog_len),
    ("slowlog|reset", slowlog_reset),
    ("slowlog|help", slowlog_help),
    ("latency|latest", latency_latest),
    ("latency|history", latency_history),
    ("latency|reset", latency_reset),
    ("latency|doctor", latency_doctor),
    ("latency|graph", latency_graph),
    ("latency|histogram", latency_histogram),
    ("latency|help", latency_help),
];

/// How many entries SLOWLOG GET replies without a count.
const COUNT: usize = 10;

/// SLOWLOG GET [count]: O(N), N = entries replied
fn slowlog_get(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let count = match (args.len(), args.get(2)) {
        (_, None) => COUNT,
        (3, Some(count)) => slowlog_count(count)?,
        _ => {
            let name = quoted(&args[1], 128);
            return Err(CommandError::Owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try SLOWLOG HELP."
            )));
        }
    };
    let entries = call.server.slow_log.newest(count);
    reply.array(entries.len());
    entries.iter().for_each(|entry| write_entry(entry, reply));
    Ok(())
}

fn slowlog_count(text: &[u8]) -> Result<usize, CommandError> {
    let count = match parse_i64(text) {
        Some(-1) => Some(usize::MAX),
        count => count.and_then(|count| usize::try_from(count).ok()),
    };
    count.ok_or(CommandError::Text("ERR count should be greater than or equal to -1"))
}

fn write_entry(entry: &Entry, reply: &mut Reply<'_>) {
    let Entry { id, at_s, us, arguments, client: (address, name) } = entry;
    reply.array(6);
    for number in [id, at_s, us] {
        reply.integer(*number as i64);
    }
    reply.array(arguments.len());
    arguments.iter().for_each(|argument| reply.bulk(argument));
    reply.bulk(address.as_bytes());
    reply.bulk(name.as_bytes());
}

/// SLOWLOG LEN: O(1)
fn slowlog_len(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(call.server.slow_log.len());
    Ok(())
}

/// SLOWLOG RESET: O(N), N = entries
fn slowlog_reset(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.server.slow_log.clear();
    reply.ok();
    Ok(())
}

/// SLOWLOG HELP: O(1)
fn slowlog_help(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: [&str; 12] = [
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
        "    Entries are made of:",
        "    id, timestamp, time in microseconds, arguments array, client IP and port,",
        "    client name",
        "LEN",
        "    Return the length of the slowlog.",
        "RESET",
        "    Reset the slowlog.",
        "HELP",
        "    Print this help.",
    ];
    write_help(&LINES, reply);
    Ok(())
}

fn write_help(lines: &[&str], reply: &mut Reply<'_>) {
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}

/// LATENCY LATEST: O(1)
fn latency_latest(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let events = call.server.latency.events();
    reply.array(events.len());
    for (name, event) in events {
        let last = event.samples.back().expect("an event has samples");
        reply.array(4);
        reply.bulk(name.as_bytes());
        for number in [last.at_s, last.ms, event.ms_max] {
            reply.integer(number as i64);
        }
    }
    Ok(())
}

/// LATENCY HISTORY event: O(1)
fn latency_history(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let samples = call.server.latency.history(&args[2]);
    reply.array(samples.len());
    for sample in samples {
        reply.array(2);
        reply.integer(sample.at_s as i64);
        reply.integer(sample.ms as i64);
    }
    Ok(())
}

/// LATENCY RESET [event [event ...]]: O(1)
fn latency_reset(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let names = args.from(2);
    let is_named = |name: &[u8]| names.is_empty() || names.iter().any(|wanted| wanted == name);
    reply.count(call.server.latency.reset(is_named));
    Ok(())
}

/// LATENCY DOCTOR: O(1)
fn latency_doctor(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let events = call.server.latency.events();
    let threshold = call.server.config.number(Directive::LatencyMonitorThreshold);
    let mut report = match (threshold, events.len()) {
        (0, 0) => {
            "The latency monitor is off: CONFIG SET latency-monitor-threshold <milliseconds> turns it on.\n".into()
        }
        (_, 0) => format!("Nothing has taken {threshold} ms or longer.\n"),
        _ => String::from("What took long:\n"),
    };
    for (name, event) in events {
        let sum: u64 = event.samples.iter().map(|sample| sample.ms).sum();
        let mean = sum / event.samples.len() as u64;
        let (count, most) = (event.samples.len(), event.ms_max);
        report.push_str(&format!("- {name}: in {count} seconds, {mean} ms on average, {most} ms at most.\n"));
    }
    if report.starts_with("What") {
        report.push_str("SLOWLOG GET shows which commands these were.\n");
    }
    reply.verbatim(&report);
    Ok(())
}

/// LATENCY GRAPH event: O(1)
fn latency_graph(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let event = call.server.latency.event(&args[2]).ok_or_else(|| {
        CommandError::Owned(format!("ERR No samples available for event '{}'", quoted(&args[2], usize::MAX)))
    })?;
    let now_s = call.server.clock.now_ms() / 1000;
    reply.verbatim(&graph::of_event(&quoted(&args[2], usize::MAX), &event, now_s));
    Ok(())
}

/// LATENCY HISTOGRAM [command [command ...]]: O(N), N = commands
fn latency_histogram(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let names = args.from(2);
    let has_durations = |figures: &Figures| figures.calls > 0 && !figures.histogram.is_empty();
    let of_all = call.server.instance.calls.of_all();
    let counted: Vec<(usize, Figures)> = of_all.filter(|(_, figures)| has_durations(figures)).collect();
    let meant_by = |name| counted.iter().filter(move |(id, _)| names_row(name, COMMANDS[*id].name));
    let shown: Vec<&(usize, Figures)> = match names.is_empty() {
        true => counted.iter().collect(),
        false => names.iter().flat_map(meant_by).collect(),
    };
    reply.map(shown.len());
    shown.into_iter().for_each(|(id, figures)| write_histogram(COMMANDS[*id].name, figures, reply));
    Ok(())
}

/// Whether a name is that of a command's row, or of the container that it belongs to.
fn names_row(wanted: &[u8], name: &str) -> bool {
    let container = name.split_once('|').map(|(container, _)| container);
    [Some(name), container].into_iter().flatten().any(|name| wanted.eq_ignore_ascii_case(name.as_bytes()))
}

fn write_histogram(name: &str, figures: &Figures, reply: &mut Reply<'_>) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"calls");
    reply.integer(figures.histogram.len() as i64);
    reply.bulk(b"histogram_usec");
    let bounds = figures.histogram.by_bounds();
    reply.map(bounds.len());
    for (us, count) in bounds {
        reply.integer(us as i64);
        reply.integer(count as i64);
    }
}

/// LATENCY HELP: O(1)
fn latency_help(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: [&str; 16] = [
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Return a human readable latency analysis report.",
        "GRAPH <event>",
        "    Return an ASCII latency graph for the <event> class.",
        "HISTORY <event>",
        "    Return time-latency samples for the <event> class.",
        "LATEST",
        "    Return the latest latency samples for all events.",
        "RESET [<event> ...]",
        "    Reset latency data of one or more <event> classes.",
        "    (default: reset all data for all event classes)",
        "HISTOGRAM [COMMAND ...]",
        "    Return a cumulative distribution of commands in histogram format.",
        "HELP",
        "    Print this help.",
    ];
    write_help(&LINES, reply);
    Ok(())
}
