//! What memory is used for: the figures of INFO and of MEMORY STATS.

use super::Server;
use crate::base::allocator::{self, Memory};
use crate::engine::EngineMetrics;

/// Bytes in use, by what they are for.
#[derive(Debug, Clone, Copy)]
pub struct MemoryUse {
    /// The figures of the allocator.
    pub all: Memory,
    /// In use before there was data.
    pub startup: u64,
    /// What the backlog takes while no replica lags.
    pub backlog: u64,
    /// What is kept of the stream beyond that, for replicas that lag.
    pub replicas: u64,
    /// Connections and their buffers, but for replicas.
    pub clients: u64,
    /// The buffers of the log.
    pub log: u64,
    /// The sources of scripts.
    pub scripts: u64,
    /// Libraries of functions.
    pub functions: u64,
}

impl MemoryUse {
    /// What is in use now.
    pub fn of(server: &Server, metrics: &EngineMetrics) -> Self {
        let all = allocator::read();
        let kept = server.replication.stream.backlog();
        let scripting = &server.services.scripting;
        Self {
            all,
            startup: server.startup_memory,
            backlog: kept.memory - kept.lagging,
            replicas: kept.lagging,
            clients: server.clients.memory(),
            log: metrics.segments.iter().map(|segment| segment.buffered_bytes).sum(),
            scripts: scripting.scripts.size().1 as u64,
            functions: scripting.functions.libraries().size().2 as u64,
        }
    }

    /// All that is not data.
    pub fn overhead(&self) -> u64 {
        let Self { all: _, startup, backlog, replicas, clients, log, scripts, functions } = self;
        startup + backlog + replicas + clients + log + scripts + functions
    }

    /// The data, with the tables of keys.
    pub fn dataset(&self) -> u64 {
        self.all.allocated.saturating_sub(self.overhead())
    }

    /// What was added since the start.
    pub fn added(&self) -> u64 {
        self.all.allocated.saturating_sub(self.startup)
    }
}
