//! What a server uses of the world: clock, disk, network, tasks, randomness.

use crate::aof::{Disk, SystemDisk};
use crate::base::clock::Clock;
use crate::base::network::{Network, SystemNetwork};
use crate::base::randomness::Randomness;
use crate::base::tasks::Tasks;
use crate::config::boot_id;
use crate::config::logging::LogFile;
use std::sync::Arc;

/// What a server uses of the world: the seams through which tests bring clocks that they set, a disk that loses power,
/// a network and a scheduler of their own, and random numbers that follow from a seed.
#[derive(Debug, Clone)]
pub struct Platform {
    /// The time of day. Durations are measured by the clock of the runtime.
    pub clock: Clock,
    /// The file for its log lines, if they go to one.
    pub log_file: Option<LogFile>,
    /// The disk of its log.
    pub disk: Arc<dyn Disk>,
    /// Names this boot of the operating system; empty if it has no name.
    pub boot: String,
    /// Where connections come from, and where its master is.
    pub network: Arc<dyn Network>,
    /// How several things run at once.
    pub tasks: Tasks,
    /// Where random numbers come from. What draws often has a generator of its own, drawn here.
    pub randomness: Randomness,
}

impl Default for Platform {
    /// The machine.
    fn default() -> Self {
        Self {
            clock: Clock::System,
            log_file: None,
            disk: Arc::new(SystemDisk),
            boot: boot_id(),
            network: Arc::new(SystemNetwork),
            tasks: Tasks::System,
            randomness: Randomness::System,
        }
    }
}
