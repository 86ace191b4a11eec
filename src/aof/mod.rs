//! The append-only file: what changed, in order, on disk.
//!
//! `appendonlydir/` holds a manifest and chains of segments. A chain is what one layout (engine and shard count) wrote,
//! one segment per owner of data; starting with another layout begins a new chain after the old ones. A segment is one
//! or several files: a rewrite puts a base, which has every key once, in the place of the records that led to it.

mod announced;
mod base;
mod control;
mod disk;
#[cfg(test)]
mod faults;
mod feed;
mod group_commit;
mod inspect;
mod lock;
mod logical_segment;
mod manifest;
mod mapping;
mod orphans;
mod partitions;
mod pending_commits;
mod progress;
mod record;
mod recovery;
mod repair;
mod replay;
mod rewrite;
mod segment;
mod segment_replay;
mod segment_scan;
#[cfg(test)]
mod simulated;
mod unfinished;
mod write_buffer;

pub use base::KeyPayloads;
pub use control::{FsyncPolicy, LogControl};
pub use disk::{Disk, LogFile, SystemDisk, replace};
pub use feed::{Fed, Feed, Piece as FedPiece};
pub use inspect::{InspectedChain, InspectedSegment, Inspection, Piece, find_unfit, read_back, rehearse};
pub use lock::DirLock;
pub use manifest::{Chain, FILE_NAME as MANIFEST, Layout, Manifest, TAKEOVER};
pub use mapping::{Input, MappedFile, Mapping};
pub use pending_commits::PendingCommits;
pub use progress::Progress;
pub use record::{
    CommandRecord, ControlRecord, CrossShardRecord, Frame, Salt, cross_shard_payload, decode, decode_again,
    for_each_effect, frame_control_onto, frame_cross_shard_onto, frame_onto,
};
pub use recovery::{Log, Recovered, recover};
pub use repair::Plan;
pub use rewrite::{FILES_PER_SEGMENT, Rewrite, Rewriter};
pub use segment::{EPOCH, LogThread, Segment, SegmentMetrics};
pub use segment_scan::Scan;
pub use unfinished::{begin_import, remove_beginning, remove_import};
pub use write_buffer::settle;

/// A time in Unix milliseconds, for humans.
pub fn time_text(ms: u64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok();
    let text = time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok());
    text.unwrap_or_else(|| format!("{ms} ms"))
}
