//! The clocks. What the time is says the system's, which somebody may set, forward or back, or one that a test winds;
//! how long things take is measured by one that nobody sets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The earliest time there is, in microseconds: what a clock before 1970 is taken for. Not 0: the log is replayed then.
const EARLIEST_US: u64 = 1000;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time since the first call, on a clock that only goes forward.
pub fn uptime() -> Duration {
    ORIGIN.elapsed()
}

/// [`uptime`] in milliseconds.
pub fn uptime_ms() -> u64 {
    milliseconds(uptime())
}

/// A duration in milliseconds; one that is too long for a number is the longest that there is.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Where the time comes from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The operating system.
    #[default]
    System,
    /// Microseconds that somebody sets.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Unix time in milliseconds; at least 1.
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1000
    }

    /// Unix time in microseconds; that of the earliest time where the clock stands before 1970.
    pub fn now_us(&self) -> u64 {
        let now_us = match self {
            Self::System => unix_us(SystemTime::now()),
            Self::Manual(now_us) => now_us.load(Ordering::Relaxed),
        };
        now_us.max(EARLIEST_US)
    }
}

fn unix_us(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_stands_at_the_earliest_time() {
        assert_eq!(unix_us(UNIX_EPOCH - Duration::from_secs(3600)), 0);
        assert_eq!(unix_us(UNIX_EPOCH + Duration::from_millis(7)), 7000);
        // Never 0, by which a keyspace knows that the log is replayed.
        assert_eq!(Clock::Manual(Arc::default()).now_ms(), 1);
    }
}
