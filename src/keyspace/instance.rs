//! The state of one server that commands need.
//!
//! Commands know no server, and a process may run several. So each server has one instance, which its stores refer to.

use super::settings::Settings;
use crate::base::freeing::Freeing;
use crate::base::pressure::Pressure;
use crate::stats::command_stats::Calls;
use crate::stats::stage_latency::Stages;
use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// What the keyspaces of one server share, and no other server does.
#[derive(Default)]
pub struct Instance {
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
    /// State that higher rooms keep for this server, created at first use.
    ///
    /// # Panics
    /// If it was created as another type before.
    pub fn services<T: Default + Send + Sync + 'static>(&self) -> &T {
        let services = self.services.get_or_init(|| Box::new(T::default()));
        services.downcast_ref().expect("one room keeps services, of one type")
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("settings", &self.settings).finish_non_exhaustive()
    }
}
