//! The settings of a server that CONFIG SET and DEBUG change while its commands run.
//!
//! Commands know no configuration; the settings they need are here, and their keyspace refers to them. Each command
//! reads them again. Replay never refuses what was accepted once: see `Keyspace::string_len_max`.

use super::encoding_limits::EncodingLimits;
use super::usage::Eviction;
use super::values::collection::Collection;
use super::values::stream::BlockLimits;
use crate::base::clock::uptime_ms;
use crate::base::limits::{LEN_MAX, Limit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The settings of one server.
#[derive(Debug)]
pub struct Settings {
    /// How large small collections may become.
    pub encodings: EncodingLimits,
    /// Which keys are evicted first when memory is short.
    pub eviction: Eviction,
    /// The longest string a command may make, in bytes: `proto-max-bulk-len`.
    pub string_len_max: Limit,
    /// The longest HyperLogLog in the sparse encoding, in bytes: `hll-sparse-max-bytes`.
    pub hll_sparse_len_max: Limit,
    /// Bytes of a block of a stream: `stream-node-max-bytes`; 0 for no limit.
    pub stream_node_bytes_max: Limit,
    /// Entries of a block of a stream: `stream-node-max-entries`; 0 for no limit.
    pub stream_node_entries_max: Limit,
    /// Whether the server is a node of a cluster, which has one database: `cluster-enabled`.
    pub is_cluster: AtomicBool,
    /// Whether a request, or a script, may name keys of one slot only: `cluster-allow-cross-slot no` in a cluster.
    pub refuses_cross_slot: AtomicBool,
    /// Whether commands hold locks of their keys, at which threads wait: the mutex and dashmap engines.
    pub has_locks: AtomicBool,
    /// Whether keys whose time has come are removed though no command reads them: DEBUG SET-ACTIVE-EXPIRE.
    pub expires_actively: AtomicBool,
    /// Whether some connection has CLIENT TRACKING, so that changes are reported to it.
    pub is_tracked: AtomicBool,
    /// Whether RESTORE accepts payloads with any checksum: DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub trusts_payloads: AtomicBool,
    /// What is freed on a thread of its own, besides what UNLINK and ASYNC remove.
    pub freed_later: FreedLater,
    /// Until when, by [`uptime_ms`], keys whose time has come stay where they are, though clients do not see them:
    /// CLIENT PAUSE. 0 for no pause.
    pub frozen_until_ms: AtomicU64,
    /// Whether the role of the server is changing. Then keys whose time has come stay, too, and none is evicted: what
    /// is removed before the stream has all changes would be missing from it.
    pub is_switching: AtomicBool,
    /// Whether a replica is about to take over. It must have all of the stream, so nothing is added to it meanwhile.
    pub is_failing_over: AtomicBool,
}

/// Whether large values that are removed in these ways are freed on a thread of their own, or at once.
#[derive(Debug, Default)]
pub struct FreedLater {
    /// By DEL: `lazyfree-lazy-user-del`.
    pub deleted: AtomicBool,
    /// By FLUSHALL and FLUSHDB: `lazyfree-lazy-user-flush`.
    pub flushed: AtomicBool,
    /// By a command that puts something else in their place: `lazyfree-lazy-server-del`.
    pub replaced: AtomicBool,
    /// Because their time has come: `lazyfree-lazy-expire`.
    pub expired: AtomicBool,
    /// By a full synchronization: `replica-lazy-flush`.
    pub synchronized: AtomicBool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            encodings: EncodingLimits::default(),
            eviction: Eviction::default(),
            string_len_max: Limit::new(LEN_MAX as u64),
            hll_sparse_len_max: Limit::new(3000),
            stream_node_bytes_max: Limit::new(4096),
            stream_node_entries_max: Limit::new(100),
            is_cluster: AtomicBool::new(false),
            refuses_cross_slot: AtomicBool::new(false),
            has_locks: AtomicBool::new(false),
            expires_actively: AtomicBool::new(true),
            is_tracked: AtomicBool::new(false),
            trusts_payloads: AtomicBool::new(false),
            freed_later: FreedLater::default(),
            frozen_until_ms: AtomicU64::new(0),
            is_switching: AtomicBool::new(false),
            is_failing_over: AtomicBool::new(false),
        }
    }
}

impl Settings {
    /// Whether some connection has CLIENT TRACKING. A thread with exclusive access to a key sees it if the key was read
    /// by such a connection.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        self.is_tracked.load(Ordering::Relaxed)
    }

    /// How large small collections of a type may become now.
    #[inline]
    pub fn limits<C: Collection>(&self) -> C::Limits {
        C::limits(self)
    }

    /// Whether CLIENT PAUSE, FAILOVER, or a change of the role, keeps expired keys now.
    pub fn is_frozen(&self) -> bool {
        self.is_changing_role() || self.is_paused()
    }

    /// Whether the role is changing, or about to be handed over.
    pub fn is_changing_role(&self) -> bool {
        self.is_switching.load(Ordering::Acquire) || self.is_failing_over.load(Ordering::Acquire)
    }

    fn is_paused(&self) -> bool {
        let until_ms = self.frozen_until_ms.load(Ordering::Relaxed);
        until_ms > 0 && until_ms > uptime_ms()
    }

    /// Whether the server is a node of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.is_cluster.load(Ordering::Relaxed)
    }

    /// Whether keys of several slots are refused.
    pub fn refuses_cross_slot(&self) -> bool {
        self.refuses_cross_slot.load(Ordering::Relaxed)
    }

    /// Whether commands hold locks of their keys.
    pub fn has_locks(&self) -> bool {
        self.has_locks.load(Ordering::Relaxed)
    }

    /// Whether the checksum of a payload is ignored.
    pub fn trusts_payloads(&self) -> bool {
        self.trusts_payloads.load(Ordering::Relaxed)
    }

    /// How full the blocks of streams may be.
    pub fn block_limits(&self) -> BlockLimits {
        BlockLimits::of(self.stream_node_bytes_max.get(), self.stream_node_entries_max.get())
    }
}
