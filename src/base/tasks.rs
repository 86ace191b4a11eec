//! What runs at the same time: tasks of the runtime, and threads beside it.
//!
//! It is a seam: a server's tasks and threads are the machine's, or tasks that a test's scheduler runs when it chooses.
//! Then everything runs on the one thread of the test's runtime, so the outcome depends only on what the test chooses.

use super::affinity;
use super::network::Stream;
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// How a server runs several things at once.
#[derive(Debug, Clone, Default)]
pub enum Tasks {
    /// As tasks of the runtime, on all of its threads, and as threads of the operating system.
    #[default]
    System,
    /// The same, but with one runtime for each worker thread: tasks stay on the thread that they were spawned on, or
    /// for.
    Pinned(Arc<[Handle]>),
    /// As tasks of a scheduler, threads among them.
    Other(Arc<dyn Scheduler>),
}

/// Whether a turn may wait, because its thread has nothing else to do.
#[derive(Debug, Clone, Copy)]
pub struct MayWait(pub bool);

/// What comes after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Another one.
    More,
    /// The thread ends.
    Last,
}

/// The time between two turns of a task that replaces a thread.
const BETWEEN_TURNS: Duration = Duration::from_millis(5);

/// Runs tasks on one thread.
pub trait Scheduler: Debug + Send + Sync {
    /// Runs a task; the name is that of its kind.
    fn spawn(&self, name: &'static str, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

impl Tasks {
    /// Runs a task until it ends.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::System | Self::Pinned(_) => drop(tokio::spawn(task)),
            Self::Other(scheduler) => scheduler.spawn(name, Box::pin(task)),
        }
    }

    /// Runs a task until it ends, on the thread of a place where each place has one.
    pub fn spawn_at(&self, place: usize, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Pinned(runtimes) => drop(runtimes[place].spawn(task)),
            Self::System | Self::Other(_) => self.spawn(name, task),
        }
    }

    /// How many places there are: threads with a runtime of their own, or one place for everything.
    pub fn places(&self) -> usize {
        match self {
            Self::Pinned(runtimes) => runtimes.len(),
            Self::System | Self::Other(_) => 1,
        }
    }

    /// How many threads run tasks.
    pub fn threads(&self) -> usize {
        match self {
            Self::Pinned(runtimes) => runtimes.len(),
            Self::System | Self::Other(_) => Handle::current().metrics().num_workers(),
        }
    }

    /// Moves a connection to the network of a place, which wakes whatever waits for it there.
    pub fn take_to(&self, place: usize, stream: Stream) -> io::Result<Stream> {
        match self {
            Self::Pinned(runtimes) => {
                let _entered = runtimes[place].enter();
                stream.registered_here()
            }
            Self::System | Self::Other(_) => Ok(stream),
        }
    }

    /// Does some work on its own thread. It is an error if no thread can be started.
    pub fn spawn_thread(&self, name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        match self {
            Self::System | Self::Pinned(_) => {
                std::thread::Builder::new().name(name.into()).spawn(affinity::beside(work)).map(drop)
            }
            Self::Other(scheduler) => {
                scheduler.spawn(name, Box::pin(async move { work() }));
                Ok(())
            }
        }
    }

    /// Takes turns on its own thread until one is the last; a turn waits only if it may. It is an error if no thread
    /// can be started.
    pub fn spawn_turns(
        &self,
        name: &'static str,
        mut turn: impl FnMut(MayWait) -> Turn + Send + 'static,
    ) -> io::Result<()> {
        match self {
            Self::System | Self::Pinned(_) => {
                self.spawn_thread(name, move || while turn(MayWait(true)) == Turn::More {})
            }
            Self::Other(scheduler) => {
                scheduler.spawn(
                    name,
                    Box::pin(async move {
                        while turn(MayWait(false)) == Turn::More {
                            tokio::time::sleep(BETWEEN_TURNS).await;
                        }
                    }),
                );
                Ok(())
            }
        }
    }

    /// Whether everything runs on one thread, in the order of a scheduler.
    pub fn is_scheduled(&self) -> bool {
        matches!(self, Self::Other(_))
    }
}
