//! The append-only file: what changed, in order, on disk.
//!
//! `appendonlydir/` holds a manifest and chains of segments. A chain is what one layout (engine and shard count) wrote,
//! one segment file per owner of data; starting with another layout begins a new chain behind the old ones.

mod control;
mod disk;
mod joints;
mod lock;
mod manifest;
mod record;
mod recovery;
mod scan;
mod segment;

pub use control::{FsyncPolicy, LogControl};
pub use disk::{Disk, LogFile, SystemDisk};
pub use joints::Joints;
pub use lock::DirLock;
pub use manifest::{Layout, Manifest};
pub use record::{Frame, Note, Salt, decode, frame_joint_onto, frame_note_onto, frame_onto, joint_payload};
pub use recovery::{Log, Recovered, recover};
pub use scan::Scan;
pub use segment::{EPOCH, LogThread, Segment, SegmentMetrics};
