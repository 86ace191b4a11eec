//! Bugs that are planted to show that the tests find them.
//!
//! Only a build with the feature `planted-cost` has any. There SHARDRACE_PLANTED_BUG names the one that the process
//! has; tests set it for a process of their own (`replication::tests`, `tests/wire/planted.rs`).
//! SHARDRACE_PLANTED_GLOBAL names a value that the servers of the process share (`tests/wire/several.rs`).

/// A bug of replication, or of CLIENT TRACKING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The merger opens no MULTI while an owner's changes are held back.
    NoMulti,
    /// A record over several shards is emitted when the first of them has it.
    FirstCopy,
    /// A replica removes keys whose time has come.
    ReplicaExpires,
    /// The offset of a master does not count a PING.
    PingNotCounted,
    /// A replica acknowledges a group some milliseconds before it applies it.
    AcknowledgedEarly,
    /// The backlog has a byte less than it says.
    BacklogShort,
    /// A full synchronization begins while the snapshot of another is made.
    TwoSnapshots,
    /// Messages about what has changed do not wait for the replies to the requests that have read it.
    ToldBeforeReply,
    /// What was read is remembered after the changes that were made at the same time.
    RememberedLate,
}

/// Whether this process has the bug. It has none without the feature, and then this costs nothing.
#[cfg(not(feature = "planted-cost"))]
#[inline]
pub const fn is_planted(_bug: Bug) -> bool {
    false
}

/// Whether this process has the bug.
#[cfg(feature = "planted-cost")]
pub fn is_planted(bug: Bug) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("SHARDRACE_PLANTED_BUG").ok());
    PLANTED.as_deref().is_some_and(|name| name == format!("{bug:?}"))
}

/// Whether the servers of this process share a value that each should have for itself: `scripts` or `channels`.
pub fn is_global(name: &str) -> bool {
    cfg!(feature = "planted-cost")
        && std::env::var_os("SHARDRACE_PLANTED_GLOBAL").is_some_and(|planted| planted == name)
}
