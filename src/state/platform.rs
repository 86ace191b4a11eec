//! What a server stands on.

use crate::aof::{Disk, SystemDisk};
use crate::base::clock::Clock;
use crate::base::network::{Network, SystemNetwork};
use crate::base::tasks::Tasks;
use crate::config::boot_id;
use crate::config::logging::LogFile;
use std::sync::Arc;

/// What a server stands on: the seams through which tests bring clocks that are set, lost power, and a network and a
/// scheduler of their own. Random numbers come from the thread that draws them: a test that has a server on one thread
/// seeds that.
#[derive(Debug, Clone)]
pub struct Platform {
    /// What the time is. How long things take is measured by the clock of the runtime.
    pub clock: Clock,
    /// The file that its log lines go to, where they go to one.
    pub log_file: Option<LogFile>,
    /// Where its log lives.
    pub disk: Arc<dyn Disk>,
    /// Names this boot of the operating system; empty where it has no name.
    pub boot: String,
    /// Where connections come from, and where its master is.
    pub network: Arc<dyn Network>,
    /// How several things run at once.
    pub tasks: Tasks,
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
        }
    }
}
