//! Limits of the process that CONFIG SET or DEBUG changes while commands run.
//!
//! Commands know no server and no configuration; what they need of it stands here. A process has one server. While the
//! log is replayed nothing is refused that was accepted once: see `Keyspace::string_len_max`.

use crate::base::clock::uptime_ms;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The longest key or text, in bytes: what `proto-max-bulk-len` may be set to at most fits. What takes strings in from
/// elsewhere than requests refuses longer ones by this.
pub const LEN_MAX: usize = u32::MAX as usize / 2;

/// The longest string a command may make, in bytes: `proto-max-bulk-len`.
pub static STRING_LEN_MAX: Limit = Limit(AtomicUsize::new(LEN_MAX));

/// The longest HyperLogLog in the sparse encoding, in bytes: `hll-sparse-max-bytes`.
pub static HLL_SPARSE_LEN_MAX: Limit = Limit(AtomicUsize::new(3000));

/// Bytes of a block of a stream: `stream-node-max-bytes`; 0 for no limit.
pub static STREAM_NODE_BYTES_MAX: Limit = Limit(AtomicUsize::new(4096));

/// Entries of a block of a stream: `stream-node-max-entries`; 0 for no limit.
pub static STREAM_NODE_ENTRIES_MAX: Limit = Limit(AtomicUsize::new(100));

/// Bytes that one read takes in at most: `read-size`.
pub static READ_SIZE: Limit = Limit(AtomicUsize::new(64 * 1024));

/// Whether the server is a node of a cluster, which has one database: `cluster-enabled`.
pub static IS_CLUSTER: AtomicBool = AtomicBool::new(false);

/// Whether keys whose time has come are removed though nobody asks for them: DEBUG SET-ACTIVE-EXPIRE.
pub static EXPIRES_ACTIVELY: AtomicBool = AtomicBool::new(true);

/// Whether RESTORE takes payloads whatever their checksum is: DEBUG SET-SKIP-CHECKSUM-VALIDATION.
pub static TRUSTS_PAYLOADS: AtomicBool = AtomicBool::new(false);

/// Until when, by [`uptime_ms`], keys whose time has come stay where they are, though nobody sees them: CLIENT PAUSE. 0
/// for no pause.
pub static FROZEN_UNTIL_MS: AtomicU64 = AtomicU64::new(0);

/// Whether CLIENT PAUSE lets no key go now.
pub fn is_frozen() -> bool {
    let until_ms = FROZEN_UNTIL_MS.load(Ordering::Relaxed);
    until_ms > 0 && until_ms > uptime_ms()
}

/// A number that may change at any time; whoever reads it goes by what it was then.
#[derive(Debug)]
pub struct Limit(AtomicUsize);

impl Limit {
    /// A limit that is not the process's.
    pub fn new(limit: u64) -> Self {
        let new = Self(AtomicUsize::new(0));
        new.set(limit);
        new
    }

    /// The limit as it is now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it, for what begins from now on.
    pub fn set(&self, limit: u64) {
        self.0.store(usize::try_from(limit).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
