//! What commands need of the server that runs them: they know no server.

use super::debug::OpenLog;
use super::renaming::Names;
use super::scripting::Host;
use crate::base::planted;
use crate::base::randomness::Randomness;
use crate::keyspace::{Instance, Keyspace, Store};
use crate::scripting::Scripting;
use crate::snapshot::Saves;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The services of one server to its commands.
pub struct Services {
    /// Where their random numbers come from.
    pub randomness: Randomness,
    /// Its scripts and functions.
    pub scripting: Arc<Scripting>,
    /// Its snapshots.
    pub saves: Arc<Saves>,
    /// Its log, for DEBUG LOADAOF.
    pub log: OpenLog,
    /// The names of its commands.
    names: OnceLock<Names>,
    /// Whether scripts may call DEBUG.
    pub(super) lets_scripts_debug: AtomicBool,
    /// Whether memory was short when a script was last accepted.
    is_short: AtomicBool,
    host: OnceLock<Weak<dyn Host>>,
}

/// The scripts and functions of a new server.
fn own_scripting(randomness: &Randomness) -> Arc<Scripting> {
    #[cfg(feature = "planted-cost")]
    if planted::is_global("scripts") {
        static PLANTED: OnceLock<Arc<Scripting>> = OnceLock::new();
        return Arc::clone(PLANTED.get_or_init(Arc::default));
    }
    Arc::new(Scripting::new(randomness.clone()))
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("scripting", &self.scripting)
            .field("saves", &self.saves)
            .finish_non_exhaustive()
    }
}

impl Services {
    /// The services of an instance.
    pub fn of(instance: &Instance) -> &Arc<Self> {
        instance.services(|instance| Arc::new(Self::new(instance)))
    }

    /// Those of a new server.
    fn new(instance: &Instance) -> Self {
        let scripting = own_scripting(&instance.randomness);
        Self {
            randomness: instance.randomness.clone(),
            saves: Arc::new(Saves::new(Arc::clone(&scripting))),
            scripting,
            log: OpenLog::default(),
            names: OnceLock::new(),
            lets_scripts_debug: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            host: OnceLock::new(),
        }
    }

    /// Makes the server available to scripts, which run commands about it.
    pub fn serve(&self, host: Weak<dyn Host>) {
        assert!(self.host.set(Weak::clone(&host)).is_ok(), "services have one server");
        let is_first = self.scripting.busy.listen(Box::new(move |is_busy| {
            if let Some(host) = host.upgrade() {
                host.note_busy(is_busy);
            }
        }));
        assert!(is_first || planted::is_global("scripts"), "scripts have one server");
    }

    /// The server; `None` if a log is replayed without one.
    pub fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.get().and_then(Weak::upgrade)
    }

    /// Gives commands other names. That is done once, before any is called.
    pub fn name_commands(&self, names: Names) {
        assert!(self.names.set(names).is_ok(), "commands are named before they are called");
    }

    /// The names of the commands.
    #[inline]
    pub fn names(&self) -> &Names {
        self.names.get_or_init(Names::default)
    }

    /// Records whether memory is short for a script that is accepted.
    pub fn note_memory(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Whether memory was short when a script was last accepted.
    pub(super) fn was_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }
}

/// The services of the server that a keyspace belongs to.
pub fn services<S: Store>(keyspace: &Keyspace<S>) -> &Arc<Services> {
    Services::of(keyspace.instance())
}
