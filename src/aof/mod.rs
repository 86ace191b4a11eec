//! The append-only file: what changed, in order, on disk.
//!
//! `appendonlydir/` holds a manifest and chains of segments. A chain is what one layout (engine and shard count) wrote,
//! one segment file per owner of data; starting with another layout begins a new chain behind the old ones.

mod manifest;
mod record;
mod recovery;
mod segment;

pub use manifest::{Layout, Manifest};
pub use record::{Frame, Salt, decode, frame_onto, joint_payload};
pub use recovery::{Recovered, recover};
pub use segment::{FsyncPolicy, LogThread, Segment, SegmentMetrics, SharedPolicy};
