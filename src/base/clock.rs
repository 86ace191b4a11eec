//! The clocks. The time of day comes from the system's clock, which can be set forward or back, or from one that a test
//! sets. Durations are measured by a clock that cannot be set: the runtime's, which stands still and leaps when a test
//! has paused it.

use crate::base::narrowing::clamped_u64;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, timeout};

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time since the first call, on a clock that only goes forward.
pub fn uptime() -> Duration {
    ORIGIN.elapsed()
}

/// [`uptime`] in milliseconds.
pub fn uptime_ms() -> u64 {
    milliseconds(uptime())
}

/// A duration in milliseconds, clamped to the largest number.
pub fn milliseconds(duration: Duration) -> u64 {
    clamped_u64(duration.as_millis())
}

/// How often [`within`] looks at its limit.
const LOOK: Duration = Duration::from_secs(1);

/// Runs something for as long as `limit` returns, which may change meanwhile; `None` if that was not long enough.
pub async fn within<T>(limit: impl Fn() -> Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let begin = Instant::now();
    loop {
        let left = limit().saturating_sub(begin.elapsed());
        match timeout(left.min(LOOK), &mut work).await {
            Ok(done) => return Some(done),
            Err(_) if begin.elapsed() >= limit() => return None,
            Err(_) => {}
        }
    }
}

/// A source of time.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The operating system.
    #[default]
    System,
    /// Microseconds set by a test.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Unix time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1000
    }

    /// Unix time in microseconds; 0 if the clock is before 1970.
    pub fn now_us(&self) -> u64 {
        match self {
            Self::System => unix_us(SystemTime::now()),
            Self::Manual(now_us) => now_us.load(Ordering::Relaxed),
        }
    }
}

fn unix_us(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    clamped_u64(since.as_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_stands_at_the_beginning_of_1970() {
        assert_eq!(unix_us(UNIX_EPOCH - Duration::from_secs(3600)), 0);
        assert_eq!(unix_us(UNIX_EPOCH + Duration::from_millis(7)), 7000);
    }
}
