//! Snapshots on their way to the disk: the queue and the thread between the owners of keys and the file, SAVE and BGSAVE,
//! and when snapshots are made by themselves.

pub mod save_points;
mod saves;
mod spool;
mod turn;

pub use save_points::{SavePoint, SavePoints};
pub use saves::{Begun, FileId, NotSaved, Refusal, SAVES, Saves, Snapshot, name_aside};
pub use spool::{BACKLOG, Spool, Target};
pub use turn::{IMAGE, Turn};
