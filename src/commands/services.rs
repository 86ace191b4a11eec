//! What commands need of the server that runs them: they know none.

use crate::keyspace::{Instance, Keyspace, Store};
use crate::snapshot::Saves;
use std::sync::Arc;

/// The services of one server to its commands.
#[derive(Debug, Default)]
pub struct Services {
    /// Its snapshots.
    pub saves: Arc<Saves>,
}

impl Services {
    /// Those of an instance.
    pub fn of(instance: &Instance) -> &Arc<Self> {
        instance.services()
    }
}

/// The services of the server that a keyspace belongs to.
pub fn services<S: Store>(keyspace: &Keyspace<S>) -> &Arc<Services> {
    Services::of(keyspace.instance())
}
