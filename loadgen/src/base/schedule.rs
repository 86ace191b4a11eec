//! When the requests of an open loop are due.
//!
//! Request k of the run is due at `start + k / rate`, whatever the target does: its *intended
//! start*. Thread i of T takes the requests `i, i + T, i + 2T, …`, and hands them to its
//! connections in turn, so each connection has a fixed schedule of its own as well.

/// The intended starts of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start_ns: u64,
    thread: u64,
    threads: u64,
    period_ns: f64,
}

impl Schedule {
    /// Thread `thread` of `threads`, together sending `rate` requests a second from `start_ns` on.
    pub fn new(start_ns: u64, rate: f64, thread: usize, threads: usize) -> Self {
        Self { start_ns, thread: thread as u64, threads: threads as u64, period_ns: 1e9 / rate }
    }

    /// When this thread's request number `index` is due.
    #[inline]
    pub fn intended_start_ns(&self, index: u64) -> u64 {
        let number = index * self.threads + self.thread;
        self.start_ns + (number as f64 * self.period_ns) as u64
    }

    /// How many of this thread's requests are due before `end_ns`.
    pub fn due_before(&self, end_ns: u64) -> u64 {
        let numbers = ((end_ns.saturating_sub(self.start_ns)) as f64 / self.period_ns).ceil() as u64;
        share_of(numbers, self.thread, self.threads)
    }
}

/// How many of the numbers `0..total` are `index` modulo `count`: the share of one of several.
pub fn share_of(total: u64, index: u64, count: u64) -> u64 {
    total / count + u64::from(index < total % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_keep_the_rate() {
        let threads: Vec<_> = (0..3).map(|thread| Schedule::new(1000, 1e6, thread, 3)).collect();
        let mut due: Vec<u64> = (0..9).map(|n| threads[n % 3].intended_start_ns(n as u64 / 3)).collect();
        assert_eq!(due, (0..9).map(|n| 1000 + n * 1000).collect::<Vec<_>>());
        due.dedup();
        assert_eq!(due.len(), 9);
    }

    #[test]
    fn what_is_due_before_an_end_is_counted_exactly() {
        for (seconds, rate, expected) in [(1, 1000.0, 1000), (2, 333.0, 666), (1, 0.5, 1)] {
            let end = 77 + seconds * 1_000_000_000;
            let due: u64 = (0..4).map(|thread| Schedule::new(77, rate, thread, 4).due_before(end)).sum();
            assert_eq!(due, expected);
        }
    }

    #[test]
    fn shares_add_up_to_the_total() {
        for (total, count) in [(10, 3), (2, 5), (0, 1), (1_000_003, 7)] {
            assert_eq!((0..count).map(|index| share_of(total, index, count)).sum::<u64>(), total);
        }
    }
}
