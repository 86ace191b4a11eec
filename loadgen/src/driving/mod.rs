//! A run: connections, threads, and the event loop of each.

mod connect;
mod event_loop;
mod io;
mod prefill;
mod ramp;
mod run;
mod storm;
mod worker;

pub use io::io_uring_refusal;
pub use ramp::run_ramp;
pub use run::{Observer, run};
