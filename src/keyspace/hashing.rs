//! The hash of the tables: seeded per process, so that no client can choose keys that collide.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

static SEED: OnceLock<ahash::RandomState> = OnceLock::new();

#[inline]
fn seeded() -> &'static ahash::RandomState {
    SEED.get_or_init(ahash::RandomState::new)
}

/// Chooses the seed, where nothing has been hashed yet: for tests whose failures are to come again in another process.
pub fn choose_seed(seed: u64) {
    // What has been hashed keeps its seed.
    _ = SEED.set(ahash::RandomState::with_seeds(seed, 0, 0, 0));
}

/// The hash of a key in this process. Routing to shards uses another hash, which is stable across restarts.
#[inline]
pub fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = seeded().build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Builds the process's hasher without taking space in every collection.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessHash;

impl BuildHasher for ProcessHash {
    type Hasher = ahash::AHasher;

    fn build_hasher(&self) -> Self::Hasher {
        seeded().build_hasher()
    }
}
