//! Bugs that are planted to show that the tests find them.
//!
//! Only a build with the feature `planted-cost` has any. There SHARDRACE_PLANTED_BUG names the one that the process
//! has; tests set it for a process of their own (`replication::tests`, `tests/wire/planted.rs`). Its name is
//! a word at the place that has it, and in the test that finds it, which fails where the two differ.
//! SHARDRACE_PLANTED_GLOBAL names a value that the servers of the process share (`tests/wire/several.rs`).

use std::sync::LazyLock;

/// Whether this process has the bug. It has none without the feature, and then this costs nothing.
#[inline]
pub fn is_planted(bug: &str) -> bool {
    static PLANTED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("SHARDRACE_PLANTED_BUG").ok());
    cfg!(feature = "planted-cost") && PLANTED.as_deref() == Some(bug)
}

/// Whether the servers of this process share a value that each should have for itself: `scripts` or `channels`.
pub fn is_global(name: &str) -> bool {
    cfg!(feature = "planted-cost")
        && std::env::var_os("SHARDRACE_PLANTED_GLOBAL").is_some_and(|planted| planted == name)
}
