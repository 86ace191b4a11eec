//! What is counted during a run, and what came of it.

mod counts;
mod health;
mod io;
mod outcome;
mod ramp;

pub(crate) use counts::Recorder;
pub use counts::{CommandStats, Counted, INTERVAL, Interval, SLICE, Served, latency_histogram, value_at_percentile};
pub use health::Health;
pub(crate) use health::ThreadTime;
pub use io::Io;
pub use outcome::{Outcome, Second, Verified};
pub use ramp::{Found, RampOutcome, Step};
