//! The use of the machine by the server and the generator during a trial, from /proc.
//!
//! The two processes are sampled separately: a generator that shares the machine must never be counted as the server.
//! Counters only grow, so the use over a window is the difference of two readings, interpolated at the window's ends.

use anyhow::{Context, Result};
use procfs::process::Process;
use procfs::{CurrentSI, KernelStats, WithCurrentSystemInfo};
use serde::{Deserialize, Serialize};

/// One reading of all counters, in seconds of CPU time since each began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in seconds since 1970.
    pub unix_s: f64,
    /// Time that all cores were busy with anything at all, stolen time included.
    pub machine_busy_s: f64,
    /// Time that all cores were idle; 0 in runs that did not record it.
    #[serde(default)]
    pub machine_idle_s: f64,
    /// Time that the hypervisor stole.
    pub stolen_s: f64,
    /// The server's user and system time.
    pub server_cpu_s: f64,
    /// The server's resident memory.
    pub server_rss_bytes: u64,
    /// The generator's user and system time.
    pub generator_cpu_s: f64,
    /// The generator's resident memory.
    #[serde(default)]
    pub generator_rss_bytes: u64,
}

/// Cores in use on average over a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// By the server.
    pub server_cores: f64,
    /// By the generator.
    pub generator_cores: f64,
    /// By everything else, including the hypervisor's other guests.
    pub foreign_cores: f64,
    /// The part of it used by the hypervisor's other guests.
    pub stolen_cores: f64,
    /// By all together, as the kernel counts; `None` in runs that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cores: Option<f64>,
    /// Cores, including idle ones, by how fast the kernel's counters grow; 0 in runs that did not record them.
    #[serde(default)]
    pub machine_cores: f64,
    /// The server's largest resident memory among the samples of the window.
    pub server_rss_bytes_max: u64,
    /// The generator's.
    #[serde(default)]
    pub generator_rss_bytes_max: u64,
}

impl Sample {
    /// Reads every counter now.
    pub(crate) fn take(server_pid: i32, generator_pid: i32) -> Result<Self> {
        let unix_s = unix_seconds();
        let (machine_busy_s, machine_idle_s, stolen_s) = machine_times()?;
        let (server_cpu_s, server_rss_bytes) = process_use(server_pid)?;
        let (generator_cpu_s, generator_rss_bytes) = process_use(generator_pid)?;
        Ok(Self {
            unix_s,
            machine_busy_s,
            machine_idle_s,
            stolen_s,
            server_cpu_s,
            server_rss_bytes,
            generator_cpu_s,
            generator_rss_bytes,
        })
    }
}

/// Averages over `[start, end]` (seconds since 1970), or over the sampled part of it. `None` with fewer than two
/// samples or a window outside of them.
pub(crate) fn usage(samples: &[Sample], start: f64, end: f64) -> Option<Usage> {
    let (first, last) = (samples.first()?, samples.last()?);
    let (start, end) = (start.max(first.unix_s), end.min(last.unix_s));
    let seconds = end - start;
    if seconds <= 0.0 {
        return None;
    }
    let cores = |counter: fn(&Sample) -> f64| (at(samples, end, counter) - at(samples, start, counter)) / seconds;
    let (server_cores, generator_cores) = (cores(|s| s.server_cpu_s), cores(|s| s.generator_cpu_s));
    let inside = samples.iter().filter(|sample| (start..=end).contains(&sample.unix_s));
    let largest = |memory: fn(&Sample) -> u64| inside.clone().map(memory).max().unwrap_or(memory(last));
    let busy_cores = cores(|s| s.machine_busy_s);
    let machine_cores = cores(|s| s.machine_busy_s + s.machine_idle_s);
    Some(Usage {
        server_cores,
        generator_cores,
        machine_cores: if first.machine_idle_s > 0.0 { machine_cores } else { 0.0 },
        foreign_cores: (busy_cores - server_cores - generator_cores).max(0.0),
        busy_cores: Some(busy_cores),
        stolen_cores: cores(|s| s.stolen_s),
        server_rss_bytes_max: largest(|sample| sample.server_rss_bytes),
        generator_rss_bytes_max: largest(|sample| sample.generator_rss_bytes),
    })
}

/// The server's resident memory now.
pub(crate) fn resident_bytes(pid: i32) -> Result<u64> {
    Ok(process_use(pid)?.1)
}

/// The server's largest resident memory since it started.
pub(crate) fn peak_resident_bytes(pid: i32) -> Result<u64> {
    let status = Process::new(pid).and_then(|process| process.status());
    let status = status.with_context(|| format!("cannot read /proc/{pid}/status"))?;
    Ok(status.vmhwm.unwrap_or(0) * 1024)
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
}

/// Time of all cores that was busy, idle, and stolen.
fn machine_times() -> Result<(f64, f64, f64)> {
    let total = KernelStats::current().context("cannot read /proc/stat")?.total;
    let stolen = total.steal.unwrap_or(0);
    // Guest time is part of user time already.
    let busy = [total.user, total.nice, total.system, total.irq.unwrap_or(0), total.softirq.unwrap_or(0), stolen];
    let idle = total.idle + total.iowait.unwrap_or(0);
    Ok((seconds(busy.iter().sum()), seconds(idle), seconds(stolen)))
}

fn process_use(pid: i32) -> Result<(f64, u64)> {
    let stat = Process::new(pid).and_then(|process| process.stat());
    let stat = stat.with_context(|| format!("cannot read /proc/{pid}/stat"))?;
    Ok((seconds(stat.utime + stat.stime), stat.rss_bytes().get()))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

/// The counter at `time`, on the line between the samples around it.
fn at(samples: &[Sample], time: f64, counter: fn(&Sample) -> f64) -> f64 {
    let later = samples.partition_point(|sample| sample.unix_s < time).clamp(1, samples.len() - 1);
    let (before, after) = (&samples[later - 1], &samples[later]);
    let share = (time - before.unix_s) / (after.unix_s - before.unix_s).max(1e-9);
    counter(before) + (counter(after) - counter(before)) * share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server uses 0.5 cores, the generator 0.75, others 0.25, from second 100 on.
    fn steady() -> Vec<Sample> {
        let sample = |i: u32| {
            let t = f64::from(i) * 0.1;
            Sample {
                unix_s: 100.0 + t,
                machine_busy_s: 7.0 + 1.5 * t,
                machine_idle_s: 50.0 + 2.5 * t,
                stolen_s: 0.0,
                server_cpu_s: 3.0 + 0.5 * t,
                server_rss_bytes: u64::from(i),
                generator_rss_bytes: 1000 - u64::from(i),
                generator_cpu_s: 0.75 * t,
            }
        };
        (0..=50).map(sample).collect()
    }

    #[test]
    fn use_over_a_window_between_samples_is_interpolated() {
        let usage = usage(&steady(), 101.23, 103.77).unwrap();
        for (found, expected) in [(usage.server_cores, 0.5), (usage.generator_cores, 0.75), (usage.foreign_cores, 0.25)]
        {
            assert!((found - expected).abs() < 1e-6, "{usage:?}");
        }
        assert_eq!((usage.server_rss_bytes_max, usage.generator_rss_bytes_max), (37, 987));
        assert!((usage.machine_cores - 4.0).abs() < 1e-6, "{usage:?}");
    }

    #[test]
    fn a_window_that_was_not_sampled_has_no_use() {
        assert_eq!(usage(&steady(), 200.0, 201.0), None);
        assert_eq!(usage(&steady()[..1], 100.0, 101.0), None);
    }

    #[test]
    fn this_process_can_be_sampled() {
        let own = i32::try_from(std::process::id()).unwrap();
        let sample = Sample::take(own, own).unwrap();
        assert!(sample.server_rss_bytes > 0 && sample.machine_busy_s > 0.0 && sample.machine_idle_s > 0.0);
        assert!(peak_resident_bytes(own).unwrap() >= sample.server_rss_bytes / 2);
    }
}
