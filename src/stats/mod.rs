//! What is counted and timed: calls of commands, stages of a read, what took long.

pub mod calls;
pub mod histogram;
pub mod latency;
pub mod slow_log;
pub mod stages;
