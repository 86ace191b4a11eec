//! One run of a world: what the seed chooses, the faults, and the checks at the end.

use super::client::{Client, Lost};
use super::load::{self, Counts, Shared, Tools};
use super::network::{Host, Quality, address_of};
use super::world::{CLIENTS, Plan, World};
use fastrand::Rng;
use harness::Value;
use shardrace::internals::base::Network;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

pub const NODES: usize = 3;

/// The faults of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    /// None: a good network with delays, and delayed tasks.
    None,
    /// Links are cut, slow and partitioned; replicas crash. Nothing may be lost.
    Links,
    /// As `Links`, and FAILOVER. Nothing may be lost.
    Failover,
    /// As `Links`, and the master crashes. What it has not synced may be lost.
    Crash,
    /// As `Links`, and replicas are promoted while the master cannot be reached.
    Promotion,
}

/// The log of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    None,
    /// Acknowledged operations are on the disk.
    Always,
    Everysec,
}

/// What a seed chooses.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub engine: &'static str,
    pub shards: u8,
    /// Whether connections run batches in place: one thread is the place of all.
    pub in_place: bool,
    pub log: Log,
    pub faults: Faults,
    pub lasts_ms: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// A hash of all bytes that have arrived, and when.
    pub trace: u64,
    pub bytes: u64,
    pub digest: String,
    pub counts: Counts,
    pub violations: Vec<String>,
    pub took_ms: u64,
    pub happened: Vec<String>,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, engine, shards, in_place, log, faults, .. } = self;
        write!(f, "SEED={seed} ({engine}, {shards} shards, in place {in_place}, log {log:?}, faults {faults:?})")
    }
}

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let faults = [Faults::None, Faults::Links, Faults::Failover, Faults::Crash, Faults::Promotion];
        let logs = [Log::None, Log::None, Log::Always, Log::Everysec];
        Self {
            seed,
            // In turn, so that a few seeds cover all of them.
            engine: ["actor", "mutex", "dashmap"][(seed % 3) as usize],
            shards: [7, 2, 1][(seed / 3 % 3) as usize],
            in_place: seed.is_multiple_of(3) && seed / 9 % 2 == 1,
            faults: faults[random.usize(..faults.len())],
            log: logs[random.usize(..logs.len())],
            lasts_ms: random.u64(1500..4000),
        }
    }

    /// Runs it, in empty directories.
    pub fn run(&self, dirs: Vec<PathBuf>) -> Outcome {
        let mut random = Rng::with_seed(self.seed ^ 0x5eed);
        let delay_ms = [(0, 1), (0, 5), (1, 30)][random.usize(..3)];
        let plan = Plan {
            seed: random.u64(..),
            quality: Quality { delay_ms, rate: 100_000, is_parted: false },
            dirs,
            directives: self.directives(&mut random),
        };
        Life { scenario: self, world: World::new(plan), shared: Shared::new(1), random, happened: Vec::new() }.run()
    }

    fn directives(&self, random: &mut Rng) -> Vec<(String, String)> {
        let shards = self.shards.to_string();
        let backlog = if random.bool() { "1mb" } else { "16kb" };
        [
            ("engine", self.engine),
            ("shards", &*shards),
            ("placement", if self.in_place { "pinned" } else { "scheduler" }),
            ("local", if self.in_place { "inline" } else { "mailbox" }),
            ("appendonly", if self.log == Log::None { "no" } else { "yes" }),
            ("appendfsync", if self.log == Log::Always { "always" } else { "everysec" }),
            ("protected-mode", "no"),
            ("enable-debug-command", "yes"),
            ("repl-diskless-sync-delay", "0"),
            ("repl-timeout", "5"),
            ("repl-ping-replica-period", "1"),
            ("repl-backlog-size", backlog),
            ("slowlog-log-slower-than", "-1"),
            ("stages-sample", "0"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

struct Life<'a> {
    scenario: &'a Scenario,
    world: World,
    shared: Shared,
    random: Rng,
    happened: Vec<String>,
}

impl Life<'_> {
    fn run(mut self) -> Outcome {
        self.begin();
        let tools = self.tools();
        self.world.clients.block_on(async { load::start(&tools, &[1, 2, 3]) });
        let end_ms = self.world.now_ms + self.scenario.lasts_ms;
        while self.world.now_ms < end_ms {
            let pause_ms = self.random.u64(20..400);
            self.world.run_for(pause_ms);
            if self.scenario.faults != Faults::None {
                self.hurt();
            }
        }
        self.heal();
        let digest = self.end(tools);
        let (trace, bytes) = self.world.net.trace();
        let facts = self.shared.facts();
        Outcome {
            trace,
            bytes,
            digest,
            counts: facts.counts,
            violations: facts.violations.clone(),
            took_ms: self.world.now_ms,
            happened: self.happened.clone(),
        }
    }

    fn tools(&mut self) -> Tools {
        Tools {
            network: self.world.net.of_host(CLIENTS),
            shared: self.shared.clone(),
            seed: self.random.u64(..),
            think_ms: [1, 5, 30][self.random.usize(..3)],
            replicas: NODES - 1,
        }
    }

    fn begin(&mut self) {
        for index in 0..NODES {
            if index > 0 {
                self.world.nodes[index].set("replicaof", &format!("{} 6379", address_of(1)));
            }
            self.start(index);
            let pause_ms = self.random.u64(0..200);
            self.world.run_for(pause_ms);
        }
    }

    fn start(&mut self, index: usize) {
        self.world.start(index);
        let node = &self.world.nodes[index];
        self.shared.facts().incarnations.insert(node.host, node.incarnation);
    }

    fn note(&mut self, what: String) {
        tracing::info!("{} ms: {what}", self.world.now_ms);
        self.happened.push(format!("{} ms: {what}", self.world.now_ms));
    }

    fn master(&self) -> usize {
        usize::from(self.shared.facts().master) - 1
    }

    /// Injects a fault.
    fn hurt(&mut self) {
        let hosts = self.any_pair();
        match self.random.u8(..12) {
            0..3 => {
                let bytes = self.random.u64(..4000);
                self.note(format!("the link of {hosts:?} is cut after {bytes} bytes"));
                self.world.net.cut_after(hosts, bytes);
            }
            3..5 => {
                let rate = self.random.usize(1..200);
                self.note(format!("the link of {hosts:?} takes {rate} bytes in a millisecond"));
                self.world.net.set_quality(hosts, Quality { delay_ms: (0, 50), rate, is_parted: false });
            }
            5..7 => {
                self.note(format!("{hosts:?} are parted"));
                self.world.net.set_quality(hosts, Quality { delay_ms: (0, 5), rate: 1000, is_parted: true });
            }
            7..9 => {
                self.note("all links are healed".into());
                self.world.net.heal_all();
            }
            9 => self.crash_replica(),
            _ => match self.scenario.faults {
                Faults::Failover => self.fail_over(),
                Faults::Promotion => self.promote(),
                Faults::Crash => self.crash_master(),
                _ => {}
            },
        }
    }

    /// Two servers, or a server and the clients.
    fn any_pair(&mut self) -> (Host, Host) {
        let one = self.random.u8(1..=NODES as u8);
        let other = self.random.u8(1..=NODES as u8);
        if one == other { (one, CLIENTS) } else { (one, other) }
    }

    fn crash_replica(&mut self) {
        let master = self.master();
        let index = (master + self.random.usize(1..NODES)) % NODES;
        self.crash(index);
        let of = format!("{} 6379", address_of(master as Host + 1));
        self.world.nodes[index].set("replicaof", &of);
        self.start(index);
    }

    /// Kills a server and starts it again; returns whether its host lost power.
    fn crash(&mut self, index: usize) -> bool {
        let loses_power = self.random.bool();
        self.note(format!("{} {}", index + 1, if loses_power { "loses its power" } else { "is killed" }));
        self.world.crash(index, loses_power);
        let pause_ms = self.random.u64(1..500);
        self.world.run_for(pause_ms);
        self.note(format!("{} starts", index + 1));
        loses_power
    }

    /// The master crashes and comes back with the contents of its log; its replicas must notice.
    fn crash_master(&mut self) {
        let master = self.master();
        let loses_power = self.crash(master);
        {
            let mut facts = self.shared.facts();
            match self.scenario.log {
                // Replicas may have what was neither on its disk nor acknowledged.
                Log::Always => facts.rewind(),
                Log::Everysec if !loses_power => facts.rewind(),
                Log::None | Log::Everysec => facts.begin_era(),
            }
        }
        self.world.nodes[master].unset("replicaof");
        self.start(master);
    }

    /// FAILOVER to a replica; clients follow when the roles have changed.
    fn fail_over(&mut self) {
        let master = self.master();
        let target = (master + self.random.usize(1..NODES)) % NODES;
        let network = self.world.net.of_host(CLIENTS);
        let (from, to) = (master as Host + 1, target as Host + 1);
        self.note(format!("FAILOVER from {from} to {to}"));
        let asked = self.world.wait("FAILOVER", 20_000, {
            let network = Arc::clone(&network);
            async move {
                let mut client = Client::connect(&network, from).await?;
                let to = address_of(to);
                client.call(&["FAILOVER", "TO", &to, "6379", "TIMEOUT", "3000"]).await
            }
        });
        if !matches!(asked, Ok(Value::Simple(_))) {
            return self.note(format!("it does not: {asked:?}"));
        }
        // Until it has succeeded or failed; links may be partitioned for a while.
        for look in 0..400 {
            self.world.run_for(250);
            if look == 4 {
                self.note("it is not over: all links are healed".into());
                self.world.net.heal_all();
            }
            let network = Arc::clone(&network);
            let (old, new) = self.world.wait("INFO", 20_000, async move {
                let old = info(&network, from, &["role", "master_failover_state"]).await;
                (old, info(&network, to, &["role"]).await)
            });
            let (Ok(old), Ok(new)) = (old, new) else { continue };
            match (&*old[0], &*old[1], &*new[0]) {
                ("slave", _, "master") => {
                    self.note("it is done".into());
                    self.shared.facts().master = to;
                    let other = NODES - (master + target);
                    self.follow(other, to);
                    return;
                }
                ("master", "no-failover", _) => return self.note("it was given up".into()),
                _ => {}
            }
        }
        panic!("FAILOVER is not over");
    }

    /// Promotes a replica, whatever the master does; the others follow it later.
    fn promote(&mut self) {
        let master = self.master();
        let target = (master + self.random.usize(1..NODES)) % NODES;
        let to = target as Host + 1;
        self.note(format!("{to} is promoted"));
        self.world.net.heal((to, CLIENTS));
        if !self.command(target, &["REPLICAOF", "NO", "ONE"]) {
            return;
        }
        {
            let mut facts = self.shared.facts();
            facts.master = to;
            facts.begin_era();
        }
        for index in (0..NODES).filter(|&index| index != target) {
            let pause_ms = self.random.u64(0..300);
            self.world.run_for(pause_ms);
            self.follow(index, to);
        }
    }

    /// Sends a server REPLICAOF, which is repeated at the end.
    fn follow(&mut self, index: usize, master: Host) {
        self.note(format!("{} follows {master}", index + 1));
        self.command(index, &["REPLICAOF", &address_of(master), "6379"]);
    }

    /// Whether a server has done something.
    fn command(&mut self, index: usize, words: &[&str]) -> bool {
        let network = self.world.net.of_host(CLIENTS);
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let host = index as Host + 1;
        let done = self.world.wait("a command", 60_000, async move {
            let words: Vec<&str> = words.iter().map(|word| &**word).collect();
            Client::connect(&network, host).await?.call(&words).await
        });
        match done {
            Ok(Value::Simple(_)) => true,
            other => {
                self.note(format!("{host} does not: {other:?}"));
                false
            }
        }
    }

    fn heal(&mut self) {
        self.note("everything is healed".into());
        self.world.net.heal_all();
        let pause_ms = self.random.u64(100..1000);
        self.world.run_for(pause_ms);
    }

    /// Waits, after the clients have stopped, until all servers follow one master and have the same data; returns its
    /// digest.
    fn end(&mut self, tools: Tools) -> String {
        let master = self.master();
        self.shared.facts().is_over = true;
        self.world.run_for(100);
        for index in (0..NODES).filter(|&index| index != master) {
            while !self.command(index, &["REPLICAOF", &address_of(master as Host + 1), "6379"]) {
                self.world.run_for(1000);
            }
        }
        let network = self.world.net.of_host(CLIENTS);
        let (shared, of) = (self.shared.clone(), master as Host + 1);
        self.world.wait("all data is the same everywhere", 120_000, async move {
            loop {
                match same_everywhere(&network, of).await {
                    Ok(Some(digest)) => {
                        match load::missing(tools.clone(), of).await {
                            Ok(None) => {}
                            Ok(Some(missing)) => shared.facts().violations.push(missing),
                            Err(Lost) => continue,
                        }
                        return digest;
                    }
                    _ => sleep(Duration::from_millis(100)).await,
                }
            }
        })
    }
}

/// Fields of one INFO.
async fn info(network: &Arc<dyn Network>, host: Host, fields: &[&str]) -> Result<Vec<String>, Lost> {
    let text = Client::connect(network, host).await?.call(&["INFO", "replication"]).await?;
    let text = String::from_utf8(text.bytes().to_vec()).unwrap();
    let value = |field: &&str| text.lines().find_map(|line| line.strip_prefix(*field)?.strip_prefix(':'));
    Ok(fields.iter().map(|field| value(field).unwrap_or_default().to_owned()).collect())
}

/// The digest of the data and the number of keys, if the replicas are linked and have caught up with the master. The
/// digest leaves out keys that are due; the number does not.
async fn same_everywhere(network: &Arc<dyn Network>, master: Host) -> Result<Option<String>, Lost> {
    let mut digests = Vec::new();
    for host in 1..=NODES as Host {
        if host != master && info(network, host, &["master_link_status"]).await? != ["up"] {
            return Ok(None);
        }
        let mut client = Client::connect(network, host).await?;
        let (digest, keys) = (client.call(&["DEBUG", "DIGEST"]).await?, client.call(&["DBSIZE"]).await?);
        digests.push(match (digest, keys) {
            (Value::Simple(digest), Value::Integer(keys)) => {
                format!("{} of {keys} keys", String::from_utf8(digest).unwrap())
            }
            _ => return Ok(None),
        });
    }
    Ok(digests.windows(2).all(|two| two[0] == two[1]).then(|| digests.remove(0)))
}
