//! The request of a connection that waits for entries: XREAD, XREADGROUP.

use super::id::StreamId;
use crate::keyspace::Bytes;

/// A request to read from streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The streams, by key, and where to start.
    pub streams: Vec<(Bytes, ReadingFrom)>,
    /// Entries of each stream at most.
    pub most: usize,
    /// The group that it reads for, if any.
    pub group: Option<GroupReading>,
}

/// A consumer that reads for its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReading {
    /// The group's name.
    pub group: Bytes,
    /// The consumer's name.
    pub consumer: Bytes,
    /// Whether what is read counts as acknowledged.
    pub is_acknowledged: bool,
}

/// Where reading a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingFrom {
    /// After an ID; for a consumer: its pending entries after this ID.
    After(StreamId),
    /// With the entries that its group was not given yet.
    New,
}
