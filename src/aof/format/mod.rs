//! What is in the files of a log, and which files are a log's: records, the segments that hold them, the manifest that
//! names the segments, and the write buffers before them.

mod beginning;
mod fsync_policy;
mod logical_segment;
mod manifest;
pub mod orphans;
mod record;
mod segment_scan;
pub mod write_buffer;

pub use beginning::{beginning, note_beginning, remove_beginning};
pub use fsync_policy::FsyncPolicy;
pub use logical_segment::LogicalSegment;
pub use manifest::{Chain, FILE_NAME as MANIFEST, Known, Layout, Manifest, SegmentFiles, TAKEOVER};
pub use record::{
    BEGIN_LEN, CommandRecord, ControlRecord, CrossShardRecord, Frame, Header, Participant, SEGMENT_HEADER, Salt,
    cross_shard_payload, decode, decode_again, decode_header, for_each_effect, frame_control_onto,
    frame_cross_shard_onto, frame_onto, framed_len, segment_header,
};
pub use segment_scan::{Scan, consistent_cut};
