//! The append-only file: what changed, in order, on disk.
//!
//! `appendonlydir/` holds a manifest and chains of segments. A chain is what one layout (engine and shard count) wrote,
//! one segment per owner of data; starting with another layout begins a new chain after the old ones. A segment is one
//! or several files: a rewrite puts a base, which has every key once, in the place of the records that led to it.

mod disk;
#[cfg(test)]
mod faults;
mod format;
mod recover;
mod repair;
mod write;

pub use disk::{DirLock, Disk, Input, LogFile, MappedFile, Mapping, SystemDisk, replace};
pub use format::write_buffer::settle;
pub use format::{
    Chain, CommandRecord, ControlRecord, CrossShardRecord, Frame, FsyncPolicy, Layout, MANIFEST, Manifest, Salt, Scan,
    TAKEOVER, cross_shard_payload, decode, decode_again, for_each_effect, frame_control_onto, frame_cross_shard_onto,
    frame_onto, remove_beginning,
};
pub use recover::{Log, Progress, Recovered, begin_import, recover, remove_import};
pub use repair::{
    InspectedChain, InspectedSegment, Inspection, Piece, Plan, find_unfit, read_back, rehearse, time_text,
};
pub use write::{
    EPOCH, FILES_PER_SEGMENT, Fed, FedPiece, Feed, KeyPayloads, LogControl, LogThread, PendingCommits, Rewrite,
    Rewriter, Segment, SegmentMetrics,
};
