//! Pins threads to cores, and reads what the kernel counts for this process.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;

/// Pins this thread to one core: the `number`-th of those that the process may use, modulo how many these are.
pub fn pin(number: usize) {
    let cores = cores();
    if cores.is_empty() {
        return;
    }
    let mut only = CpuSet::new();
    only.set(cores[number % cores.len()]);
    // If the kernel refuses, it chooses the core itself.
    let _ = sched_setaffinity(None, &only);
}

/// The cores that the process may use. It is read once, at the start: a pinned thread sees only its own core.
fn cores() -> Vec<usize> {
    static CORES: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    let find = || {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
    };
    CORES.get_or_init(find).clone()
}

/// The kernel's counts, added up over all threads of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Context switches because a thread waited.
    pub voluntary: u64,
    /// Context switches because another thread had to run.
    pub involuntary: u64,
    /// Nanoseconds on a core.
    pub ran_ns: u64,
    /// Nanoseconds in which a thread was ready and waited for a core.
    pub kept_ns: u64,
}

impl Kernel {
    /// The counts of the present threads. They come from /proc, because getrusage lacks the time in the run queue.
    pub fn look() -> Self {
        cores();
        let mut sum = Self::default();
        for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let text = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            sum.add_status(&text("status"));
            sum.add_schedstat(&text("schedstat"));
        }
        sum
    }

    fn add_status(&mut self, status: &str) {
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        self.voluntary += value("voluntary_ctxt_switches:");
        self.involuntary += value("nonvoluntary_ctxt_switches:");
    }

    fn add_schedstat(&mut self, schedstat: &str) {
        let mut numbers = schedstat.split_whitespace().map(|text| text.parse::<u64>().unwrap_or(0));
        self.ran_ns += numbers.next().unwrap_or(0);
        self.kept_ns += numbers.next().unwrap_or(0);
    }

    /// The counts since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            kept_ns: self.kept_ns.saturating_sub(before.kept_ns),
        }
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_pinned_may_run_on_one_core_alone() {
        let seen = std::thread::spawn(|| {
            cores();
            pin(0);
            sched_getaffinity(None).map(|set| set.count()).unwrap_or(0)
        });
        assert_eq!(seen.join().unwrap(), 1);
    }

    #[test]
    fn counts_of_the_kernel_are_read_and_grow() {
        let mut sum = Kernel::default();
        sum.add_status("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n");
        sum.add_schedstat("1000 200 5\n");
        assert_eq!(sum, Kernel { voluntary: 12, involuntary: 3, ran_ns: 1000, kept_ns: 200 });
        // Threads of other tests may end meanwhile, and their counts with them.
        let grows = |_| {
            let before = Kernel::look();
            (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
            Kernel::look().since(&before).voluntary >= 5
        };
        assert!((0..1000).any(grows));
    }
}
