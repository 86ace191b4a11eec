//! The hash of the tables: seeded per process, so that nobody outside can choose keys that collide.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

static SEED: LazyLock<ahash::RandomState> = LazyLock::new(ahash::RandomState::new);

/// The hash of a key in this process. Routing to shards uses another hash, which is stable across restarts.
#[inline]
pub fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = SEED.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Builds the process's hasher without taking room in every collection.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessHash;

impl BuildHasher for ProcessHash {
    type Hasher = ahash::AHasher;

    fn build_hasher(&self) -> Self::Hasher {
        SEED.build_hasher()
    }
}
