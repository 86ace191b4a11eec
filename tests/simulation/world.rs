//! A world: servers and clients on one thread, with a network, clocks and schedules that a seed chooses.
//!
//! Each server is the production server on its own runtime, whose time is paused. A world advances in steps: bytes that
//! are due arrive, then each host runs until it is idle and its clock has advanced by the length of the step. A crash
//! drops a runtime with everything in it.

use super::network::{Host, Net, PORT, Quality, address_of};
use super::scheduler::Restless;
use super::simulated::SimDisk;
use fastrand::Rng;
use shardrace::Config;
use shardrace::internals::base::{Clock, Randomness, Tasks};
use shardrace::internals::server::{self, Platform};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, RngSeed, Runtime};
use tokio::time::sleep;

/// The longest step.
const STEP_MS: u64 = 10;
/// The time at which clocks begin: 2026.
const BEGIN_MS: u64 = 1_767_225_600_000;
/// The host that all clients are on.
pub const CLIENTS: Host = 100;

type Serving = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A host with a server.
pub struct Node {
    pub host: Host,
    /// How often it was started.
    pub incarnation: u64,
    dir: PathBuf,
    directives: Vec<(String, String)>,
    clock: Arc<AtomicU64>,
    skew_ms: u64,
    disk: SimDisk,
    /// How often it has lost power.
    boot: u64,
    running: Option<(Runtime, Serving)>,
}

impl Node {
    /// Changes a directive for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.directives.retain(|(other, _)| other != name);
        self.directives.push((name.to_owned(), value.to_owned()));
    }

    pub fn unset(&mut self, name: &str) {
        self.directives.retain(|(other, _)| other != name);
    }

    fn config(&self) -> Config {
        let dir = self.dir.display().to_string();
        let address = address_of(self.host);
        let port = PORT.to_string();
        let fixed = [("bind", &*address), ("port", &*port), ("dir", &*dir), ("save", ""), ("threads", "1")];
        let own = self.directives.iter().map(|(name, value)| (&**name, &**value));
        fixed.into_iter().chain(own).fold(Config::default(), |config, (name, value)| config.with(name, value).unwrap())
    }
}

/// The hosts, the network between them, and the time.
pub struct World {
    pub net: Net,
    pub random: Rng,
    pub nodes: Vec<Node>,
    pub clients: Runtime,
    pub now_ms: u64,
}

/// The parameters of a world.
pub struct Plan {
    pub seed: u64,
    pub quality: Quality,
    /// The directories of the nodes.
    pub dirs: Vec<PathBuf>,
    pub directives: Vec<(String, String)>,
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut random = Rng::with_seed(plan.seed);
        let net = Net::new(random.u64(..), plan.quality);
        let clients = runtime(random.u64(..));
        let mut node = |(index, dir): (usize, &PathBuf)| Node {
            host: index as Host + 1,
            incarnation: 0,
            dir: dir.clone(),
            directives: plan.directives.clone(),
            clock: Arc::new(AtomicU64::new(0)),
            skew_ms: random.u64(..2000),
            disk: SimDisk::default(),
            boot: 0,
            running: None,
        };
        let nodes = plan.dirs.iter().enumerate().map(&mut node).collect();
        Self { net, random, nodes, clients, now_ms: 0 }
    }

    /// Starts the server of a node.
    pub fn start(&mut self, index: usize) {
        let [seed, schedule, draws] = std::array::from_fn(|_| self.random.u64(..));
        let node = &mut self.nodes[index];
        node.incarnation += 1;
        node.clock.store((BEGIN_MS + node.skew_ms + self.now_ms) * 1000, Ordering::Relaxed);
        let platform = Platform {
            clock: Clock::Manual(Arc::clone(&node.clock)),
            boot: format!("boot-{}", node.boot),
            disk: Arc::new(node.disk.clone()),
            network: self.net.of_host(node.host),
            tasks: Tasks::Other(Arc::new(Restless::new(schedule))),
            randomness: Randomness::seeded(draws),
            ..Platform::default()
        };
        let runtime = runtime(seed);
        let serving: Serving = Box::pin(server::run_within(node.config(), platform));
        node.running = Some((runtime, serving));
    }

    /// Kills a server, or takes the power from its host.
    pub fn crash(&mut self, index: usize, loses_power: bool) {
        let node = &mut self.nodes[index];
        self.net.crash(node.host);
        if let Some((runtime, serving)) = node.running.take() {
            let _within = runtime.enter();
            drop(serving);
        }
        // Tasks that still hold the old disk write to that one.
        if loses_power {
            node.disk = node.disk.after_power_loss(&mut self.random);
            node.boot += 1;
        } else {
            node.disk = node.disk.after_kill();
        }
    }

    /// Advances the time by one step, at most `most_ms`.
    pub fn step(&mut self, most_ms: u64) {
        let step_ms = self.net.advance(self.now_ms, most_ms.clamp(1, STEP_MS));
        let mut order: Vec<usize> = (0..=self.nodes.len()).collect();
        self.random.shuffle(&mut order);
        let step = Duration::from_millis(step_ms);
        for index in order {
            let Some(node) = self.nodes.get_mut(index) else {
                self.clients.block_on(async { sleep(step).await });
                continue;
            };
            node.clock.store((BEGIN_MS + node.skew_ms + self.now_ms) * 1000, Ordering::Relaxed);
            if let Some((runtime, serving)) = &mut node.running {
                let ended = runtime.block_on(async {
                    tokio::select! {
                        biased;
                        ended = serving => Some(ended),
                        () = sleep(step) => None,
                    }
                });
                if let Some(ended) = ended {
                    panic!("the server of host {} has ended: {ended:?}", node.host);
                }
            }
        }
        self.now_ms += step_ms;
    }

    pub fn run_for(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.step(end_ms - self.now_ms);
        }
    }

    /// Runs a client's work to its end, which must come within `most_ms`.
    pub fn wait<T: Send + 'static>(
        &mut self,
        what: &str,
        most_ms: u64,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let work = self.clients.spawn(work);
        let end_ms = self.now_ms + most_ms;
        while !work.is_finished() {
            assert!(self.now_ms < end_ms, "{what}: not within {most_ms} ms");
            self.step(STEP_MS);
        }
        self.clients.block_on(work).unwrap()
    }
}

/// A runtime with paused time, and random choices by the seed.
fn runtime(seed: u64) -> Runtime {
    let seed = RngSeed::from_bytes(&seed.to_le_bytes());
    Builder::new_current_thread().enable_all().start_paused(true).rng_seed(seed).build().unwrap()
}
