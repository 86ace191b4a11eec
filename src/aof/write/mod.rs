//! The log of a running server: owners append to segments, log threads write and sync them, and a rewrite replaces what
//! led to the present keys by a base.

mod announced;
mod base;
mod buffered_file;
mod control;
mod feed;
mod group_commit;
mod pending_commits;
mod rewrite;
mod segment;

pub use base::KeyPayloads;
#[cfg(test)]
pub use base::{Base, Records};
pub use buffered_file::append_buffered;
pub use control::LogControl;
pub use feed::{Fed, Feed, Piece as FedPiece};
pub use pending_commits::PendingCommits;
pub use rewrite::{FILES_PER_SEGMENT, Rewrite, Rewriter};
#[cfg(test)]
pub use segment::FileEnd;
pub use segment::{EPOCH, LogThread, Opened, Segment, SegmentMetrics};
