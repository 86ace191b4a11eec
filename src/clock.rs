//! The clock: the system's, or one that a test winds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// Unix time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1000
    }

    /// Unix time in microseconds.
    pub fn now_us(&self) -> u64 {
        match self {
            Self::System => {
                SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock stands after 1970").as_micros() as u64
            }
            Self::Manual(now_us) => now_us.load(Ordering::Relaxed),
        }
    }
}
