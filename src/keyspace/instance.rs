//! What one server has for itself where commands look for it.
//!
//! Commands know no server, and a process may run several. So each server has one instance, which its stores lead to.

use super::settings::Settings;
use crate::base::pressure::Pressure;
use crate::stats::calls::Calls;
use crate::stats::stages::Stages;
use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// What the keyspaces of one server have in common, and those of no other.
#[derive(Default)]
pub struct Instance {
    /// What CONFIG SET changes.
    pub settings: Settings,
    /// What was asked of each command.
    pub calls: Calls,
    /// Where the time of requests goes.
    pub stages: Stages,
    /// How far memory is over the limit.
    pub pressure: Pressure,
    services: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Instance {
    /// What the rooms above keep for this server. It is made where somebody first asks for it.
    ///
    /// # Panics
    /// Where it is asked for as something else than before.
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
