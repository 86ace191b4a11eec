//! Snapshots on their way to the disk: the queue and the thread between the owners of keys and the file, SAVE and
//! BGSAVE, and automatic snapshots.

pub mod save_points;
mod saves;
mod turn;
mod writer;

pub use save_points::{SavePoint, SavePoints};
pub use saves::{Begun, FileId, NotSaved, Refusal, Saves, name_aside};
pub use writer::{Backlog, SnapshotWriter, Target};
