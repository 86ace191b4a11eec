//! Delays the tasks of a server as the seed says: a task that is ready may have to yield to others first, or to sleep
//! for some milliseconds, as on a machine with few and busy threads. So a task may rely on its own order alone.

use fastrand::Rng;
use shardrace::internals::base::Scheduler;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Delays the tasks of a server, each kind in its own manner.
pub struct Restless {
    random: Mutex<Rng>,
    kinds: Mutex<BTreeMap<&'static str, Manner>>,
}

/// How often a task is delayed, of 256 times that it is ready.
#[derive(Debug, Clone, Copy)]
struct Manner {
    yields: u8,
    naps: u8,
    nap_ms_max: u64,
}

impl Restless {
    pub fn new(seed: u64) -> Self {
        Self { random: Mutex::new(Rng::with_seed(seed)), kinds: Mutex::default() }
    }

    /// Some kinds are never delayed and some often: a fault that needs one slow kind among fast ones is found as well.
    fn manner_of(&self, name: &'static str) -> Manner {
        let random = &mut self.random.lock().unwrap();
        *self.kinds.lock().unwrap().entry(name).or_insert_with(|| match random.u8(..4) {
            0 => Manner { yields: 0, naps: 0, nap_ms_max: 1 },
            1 => Manner { yields: 32, naps: 2, nap_ms_max: 5 },
            2 => Manner { yields: 64, naps: 16, nap_ms_max: 3 },
            _ => Manner { yields: 16, naps: 24, nap_ms_max: 20 },
        })
    }
}

impl fmt::Debug for Restless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Restless")
    }
}

impl Scheduler for Restless {
    fn spawn(&self, name: &'static str, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let manner = self.manner_of(name);
        let random = self.random.lock().unwrap().fork();
        tokio::spawn(Kept { task, manner, random, nap: None });
    }
}

/// A task that is delayed at times.
struct Kept {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    manner: Manner,
    random: Rng,
    nap: Option<Pin<Box<Sleep>>>,
}

impl Future for Kept {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(nap) = &mut this.nap {
            ready!(nap.as_mut().poll(context));
            this.nap = None;
            return this.task.as_mut().poll(context);
        }
        if this.random.u8(..) < this.manner.yields {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.random.u8(..) < this.manner.naps {
            let mut nap = Box::pin(sleep(Duration::from_millis(this.random.u64(1..=this.manner.nap_ms_max))));
            if nap.as_mut().poll(context).is_pending() {
                this.nap = Some(nap);
                return Poll::Pending;
            }
        }
        this.task.as_mut().poll(context)
    }
}
