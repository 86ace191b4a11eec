//! Reads a log at the start, by running the commands in it, and opens it for appending.

mod import_log;
mod partitions;
mod progress;
mod recovery;
mod replay;
mod segment_replay;

pub use import_log::{begin_import, remove_import};
pub use progress::Progress;
pub use recovery::{Log, PassedOver, RecordName, Recovered, recover, rehearse_noting};
#[cfg(test)]
pub use replay::Replay;
pub use replay::{GAP, without_effects};
