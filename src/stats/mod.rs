//! Counters and times: calls of commands, stages of a read, slow commands.

pub mod command_stats;
pub mod histogram;
pub mod latency;
pub mod slow_log;
pub mod stage_latency;
