//! The state of one server that commands need.
//!
//! Commands know no server, and a process may run several. So each server has one instance, which its stores refer to.

use super::settings::Settings;
use crate::base::freeing::Freeing;
use crate::base::pressure::Pressure;
use crate::base::randomness::Randomness;
use crate::stats::command_stats::Calls;
use crate::stats::stage_latency::Stages;
use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// What the keyspaces of one server share, and no other server does.
pub struct Instance {
    /// Where its random numbers come from.
    pub randomness: Randomness,
    /// The settings that CONFIG SET changes.
    pub settings: Settings,
    /// The statistics of each command.
    pub calls: Calls,
    /// Where the time of requests goes.
    pub stages: Stages,
    /// Frees what was removed.
    pub freeing: Freeing,
    /// How far memory is over the limit.
    pub pressure: Pressure,
    services: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Instance {
    /// The instance of a new server.
    pub fn new(randomness: Randomness) -> Self {
        Self {
            settings: Settings::default(),
            calls: Calls::default(),
            stages: Stages::new(&randomness),
            freeing: Freeing::default(),
            pressure: Pressure::default(),
            services: OnceLock::new(),
            randomness,
        }
    }

    /// State that higher rooms keep for this server, made at first use.
    ///
    /// # Panics
    /// If it was created as another type before.
    pub fn services<T: Send + Sync + 'static>(&self, make: impl FnOnce(&Self) -> T) -> &T {
        let services = self.services.get_or_init(|| Box::new(make(self)));
        services.downcast_ref().expect("one room keeps services, of one type")
    }
}

impl Default for Instance {
    /// One with the machine's randomness.
    fn default() -> Self {
        Self::new(Randomness::System)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("settings", &self.settings).finish_non_exhaustive()
    }
}
