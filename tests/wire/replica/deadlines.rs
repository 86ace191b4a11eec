//! Replicas that are late while deadlines pass: in the end each has what its master has kept in time, and nothing that
//! the master has removed. Links stall, replicas are paused, cut off, started again and synchronized anew; so are
//! masters.
//!
//! Requests come from `load` and `near`. At the end every key is compared: its value, type and deadline. `SEED=n` runs
//! the world of that seed first; `SOAK=1 SOAK_SECONDS=n` runs each test for n seconds.

use super::load::{NEAR_MS, Request};
use super::*;
use std::sync::Mutex;
use std::time::Instant;

/// Connections that send requests at once.
const CONNECTIONS: u64 = 3;
/// How long requests are sent between two comparisons.
const STRETCH: Duration = Duration::from_millis(1200);
/// A backlog that counts towards `maxmemory`, so a small one.
const SMALL_BACKLOG: [&str; 2] = ["--repl-backlog-size", "1mb"];
/// How many bytes the data of a master with a limit may take.
const DATA_MAX: u64 = 3 << 20;
/// Requests for a key that are shown if it differs.
const SHOWN: usize = 60;

/// A server of either kind.
enum Node {
    Ours(Server),
    Redis(RedisOracle),
}

impl Node {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(server) => server.address(),
            Self::Redis(server) => server.address(),
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.address())
    }

    fn log(&self) -> String {
        match self {
            Self::Ours(server) => server.log(),
            Self::Redis(server) => server.replica_log(),
        }
    }

    /// Ends it, in order or not, and starts it again at its address; redis-server stays, since it has no log.
    fn start_again(self, in_order: bool, down: Duration, flags: &[&str]) -> Self {
        let Self::Ours(server) = self else { return self };
        let (setup, port) = (server.setup(), server.address().port().to_string());
        let data = if in_order { server.stop().1 } else { server.kill() };
        std::thread::sleep(down);
        Self::Ours(data.start(setup, &[flags, &["--port", &port]].concat()))
    }
}

/// A replica with its link, which can be stalled and cut.
struct Late {
    name: &'static str,
    proxy: Proxy,
    /// Absent while it is started again.
    node: Option<Node>,
    /// Whether it keeps its link and its process.
    is_only_slow: bool,
}

impl Late {
    fn ours(name: &'static str, master: SocketAddr, setup: Setup) -> Self {
        let proxy = Proxy::to(master);
        let server = replica_of(proxy.address(), setup, &["--repl-diskless-sync-delay", "0"]);
        Self { name, proxy, node: Some(Node::Ours(server)), is_only_slow: false }
    }

    fn redis(name: &'static str, master: SocketAddr) -> Self {
        let proxy = Proxy::to(master);
        let port = proxy.address().port().to_string();
        let server = RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &port]);
        Self { name, proxy, node: Some(Node::Redis(server)), is_only_slow: false }
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("it runs")
    }

    /// Makes it late in one way after another.
    fn disturb(&mut self, random: &mut fastrand::Rng, until: Instant) {
        while Instant::now() < until {
            match random.u8(..if self.is_only_slow { 14 } else { 20 }) {
                0..10 => self.stall(random),
                10..14 => self.pause(random),
                14..16 => self.proxy.cut(),
                16 => self.start_again(random),
                17 => self.begin_anew(),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(random.u64(..60)));
        }
    }

    fn stall(&self, random: &mut fastrand::Rng) {
        self.proxy.stall();
        std::thread::sleep(Duration::from_millis(random.u64(20..NEAR_MS + 200)));
        self.proxy.resume();
    }

    fn pause(&self, random: &mut fastrand::Rng) {
        let ms = random.u64(20..NEAR_MS + 200);
        assert_eq!(self.node().client().value(&["CLIENT", "PAUSE", &ms.to_string(), "WRITE"]).text(), "OK");
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn start_again(&mut self, random: &mut fastrand::Rng) {
        let port = self.proxy.address().port().to_string();
        let flags = [&REPLICA[..], &["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port]].concat();
        let node = self.node.take().expect("it runs");
        let down = Duration::from_millis(random.u64(..NEAR_MS));
        self.node = Some(node.start_again(random.bool(), down, &flags));
    }

    /// Takes a snapshot over, slowly.
    fn begin_anew(&self) {
        let mut client = self.node().client();
        assert_eq!(client.value(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
        follow(&mut client, self.proxy.address());
        std::thread::sleep(Duration::from_millis(3));
        self.proxy.stall();
        std::thread::sleep(Duration::from_millis(NEAR_MS / 2));
        self.proxy.resume();
    }
}

/// Requests that were sent together.
struct Sent {
    connection: u64,
    from_ms: u128,
    until_ms: u128,
    requests: Vec<Request>,
    replies: Vec<Value>,
}

/// A master with late replicas.
struct World {
    seed: u64,
    random: fastrand::Rng,
    /// Absent while it is started again.
    master: Option<Node>,
    master_flags: Vec<&'static str>,
    replicas: Vec<Late>,
    loads: Vec<Load>,
    sends_large: bool,
    begun: Instant,
    sent: Mutex<Vec<Sent>>,
}

impl World {
    fn new(seed: u64, master: Node, master_flags: Vec<&'static str>, replicas: Vec<Late>) -> Self {
        let payloads = payloads(&mut master.client());
        let load =
            |number| Load::with_near_deadlines(seed.wrapping_mul(CONNECTIONS).wrapping_add(number), payloads.clone());
        Self {
            seed,
            random: fastrand::Rng::with_seed(seed),
            loads: (0..CONNECTIONS).map(load).collect(),
            master: Some(master),
            master_flags,
            replicas,
            sends_large: false,
            begun: Instant::now(),
            sent: Mutex::default(),
        }
    }

    fn master(&self) -> &Node {
        self.master.as_ref().expect("it runs")
    }

    /// Lets it evict: there is memory for fewer large values than are written.
    fn limit_memory(&mut self) {
        let policies =
            ["allkeys-lru", "allkeys-random", "allkeys-lfu", "volatile-ttl", "volatile-lru", "volatile-random"];
        let policy = policies[self.random.usize(..policies.len())];
        println!("{policy}");
        let mut client = self.master().client();
        let used = number_of(&mut client, "used_memory");
        client.value(&["CONFIG", "SET", "maxmemory-policy", policy]);
        client.value(&["CONFIG", "SET", "maxmemory", &(used + DATA_MAX).to_string()]);
        self.sends_large = true;
    }

    /// Sends requests while all replicas are late.
    fn run(&mut self) {
        let until = Instant::now() + STRETCH;
        self.sent.lock().unwrap().clear();
        // Then only commands that meet an expired key remove it.
        let removes = if self.random.u8(..4) == 0 { "0" } else { "1" };
        self.master().client().value(&["DEBUG", "SET-ACTIVE-EXPIRE", removes]);
        let address = self.master().address();
        let (begun, sent, sends_large) = (self.begun, &self.sent, self.sends_large);
        let pauses = self.random.u8(..3) == 0;
        std::thread::scope(|scope| {
            if pauses {
                scope.spawn(move || pause_writes(address));
            }
            for late in &mut self.replicas {
                let mut random = self.random.fork();
                scope.spawn(move || late.disturb(&mut random, until));
            }
            for (connection, load) in (0..).zip(&mut self.loads) {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    while Instant::now() < until {
                        let requests = if sends_large { load.requests_with_large(40) } else { load.requests(40) };
                        let from_ms = begun.elapsed().as_millis();
                        let replies = client.pipeline(&requests);
                        let until_ms = begun.elapsed().as_millis();
                        sent.lock().unwrap().push(Sent { connection, from_ms, until_ms, requests, replies });
                        std::thread::sleep(Duration::from_millis(load.below(30) as u64));
                    }
                });
            }
        });
    }

    /// Ends the master, with deadlines pending, and starts it again.
    fn start_master_again(&mut self) {
        let (in_order, down) = (self.random.u8(..4) > 0, Duration::from_millis(self.random.u64(..NEAR_MS)));
        println!("the master ends, in order {in_order}, for {down:?}");
        let node = self.master.take().expect("it runs");
        self.master = Some(node.start_again(in_order, down, &self.master_flags));
    }

    /// Exchanges the master and its only replica, with deadlines pending; `spare` is the way to the replica.
    fn fail_over(&mut self, spare: &mut Proxy) {
        let mut old = self.master().client();
        let late = &mut self.replicas[0];
        let mut new = late.node().client();
        let port = spare.address().port().to_string();
        let request = ["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "20000"];
        wait_until("the master knows that the replica is online", || old.value(&request).text() == "OK");
        wait_until("the roles have changed", || {
            info(&mut old)["role"] == "slave" && info(&mut new)["role"] == "master"
        });
        std::mem::swap(&mut late.node, &mut self.master);
        std::mem::swap(&mut late.proxy, spare);
    }

    /// Waits until nothing is due any more, and compares all replicas with the master.
    fn compare(&self) {
        std::thread::sleep(Duration::from_millis(NEAR_MS));
        let mut master = self.master().client();
        master.value(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
        wait_until("the master has removed what is due", || {
            (0..16).all(|database| !has_due_keys(&mut master, database))
        });
        for late in &self.replicas {
            let mut replica = late.node().client();
            // Eviction may go on for a moment.
            let is_same = (0..50).any(|attempt| {
                std::thread::sleep(Duration::from_millis(10 * attempt));
                wait_for_sync(&mut master, &mut replica);
                first_difference(&mut master, &mut replica).is_none()
            });
            if !is_same && let Some((key, difference)) = first_difference(&mut master, &mut replica) {
                let (seed, name) = (self.seed, late.name);
                let (theirs, ours) = (self.master().log(), late.node().log());
                println!("master logged:\n{theirs}\n{name} logged:\n{ours}");
                panic!("SEED={seed} {name}: {difference}\n{}", self.history(&key));
            }
            let log = late.node().log();
            assert!(!log.contains("REPLICATION HAS ENDED"), "SEED={} {}: {log}", self.seed, late.name);
        }
    }

    /// The last requests that named a key, in about their order.
    fn history(&self, key: &[u8]) -> String {
        let sent = self.sent.lock().unwrap();
        let mut lines = Vec::new();
        for Sent { connection, from_ms, until_ms, requests, replies } in &*sent {
            for (words, reply) in requests.iter().zip(replies).filter(|(words, _)| words.iter().any(|word| word == key))
            {
                let words: Vec<String> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
                lines.push((
                    *from_ms,
                    format!("{connection}: {from_ms} to {until_ms} ms: {} -> {reply:?}", words.join(" ")),
                ));
            }
        }
        lines.sort();
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}

/// Lets deadlines come while the master may remove nothing.
fn pause_writes(master: SocketAddr) {
    std::thread::sleep(STRETCH / 3);
    let ms = (STRETCH / 3).as_millis().to_string();
    assert_eq!(Client::connect(master).value(&["CLIENT", "PAUSE", &ms, "WRITE"]).text(), "OK");
}

/// What RESTORE gets: a value of each type.
pub fn payloads(master: &mut Client) -> Vec<Vec<u8>> {
    let values = ["SET p 12", "RPUSH p a b", "SADD p 1 2 x", "ZADD p 1 a 2 b", "HSET p f v", "XADD p 1-1 f v"];
    let payload = |line| {
        master.value(&["DEL", "p"]);
        master.value(&words(line));
        master.value(&["DUMP", "p"]).bytes().to_vec()
    };
    let payloads = values.map(payload).to_vec();
    master.value(&["DEL", "p"]);
    payloads
}

fn number_of(client: &mut Client, field: &str) -> u64 {
    info(client)[field].parse().expect("it is a number")
}

/// DBSIZE counts keys that are due, and KEYS does not show them.
fn has_due_keys(client: &mut Client, database: usize) -> bool {
    client.value(&["SELECT", &database.to_string()]);
    let replies = client.pipeline(&[vec!["DBSIZE"], vec!["KEYS", "*"]]);
    replies[0].integer() != replies[1].elements().len() as i64
}

/// The first key that differs, with how. Keys that are hidden show in the number of keys.
fn first_difference(master: &mut Client, replica: &mut Client) -> Option<(Vec<u8>, String)> {
    for database in 0..16 {
        let [theirs, ours] = [&mut *master, &mut *replica].map(|client| {
            client.value(&["SELECT", &database.to_string()]);
            (client.value(&["DBSIZE"]).integer(), client.value(&["KEYS", "*"]).byte_strings())
        });
        if let Some((key, how)) = first_difference_of([theirs.1, ours.1].concat(), master, replica) {
            return Some((key, format!("database {database}: {how}")));
        }
        if theirs.0 != ours.0 {
            return Some((Vec::new(), format!("database {database} has {} keys and {} there", theirs.0, ours.0)));
        }
    }
    None
}

fn first_difference_of(mut keys: Vec<Vec<u8>>, master: &mut Client, replica: &mut Client) -> Option<(Vec<u8>, String)> {
    keys.sort();
    keys.dedup();
    keys.into_iter().find_map(|key| {
        let facts = [&mut *master, &mut *replica].map(|client| facts_of(client, &key));
        if facts[0] == facts[1] {
            return None;
        }
        // The digest of a sorted set depends on how a server prints scores.
        let words = [&mut *master, &mut *replica].map(|client| words_of(client, &key));
        (words[0] != words[1]).then(|| {
            let shown = words.map(|words| words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>());
            let how = format!("{}: master {:?}, replica {:?}", key.escape_ascii(), shown[0], shown[1]);
            (key, how)
        })
    })
}

/// The type, deadline and digest of a key, and the groups of a stream.
fn facts_of(client: &mut Client, key: &[u8]) -> (Vec<Value>, Option<String>) {
    let requests: [&[&[u8]]; 3] = [&[b"TYPE"], &[b"PEXPIRETIME"], &[b"DEBUG", b"DIGEST-VALUE"]];
    let facts = client.pipeline(&requests.map(|words| [words, &[key]].concat()));
    let groups = (facts[0].text() == "stream").then(|| groups_of(client, key));
    (facts, groups)
}

/// Runs worlds: so many, or with SOAK as many as there is time for. Each has its seed, which also chooses the engine.
fn in_worlds(count: u64, live: impl Fn(u64, Setup)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_soak = number("SOAK").unwrap_or(0) > 0;
    let length = Duration::from_secs(if is_soak { number("SOAK_SECONDS").unwrap_or(600) } else { 0 });
    let (first, begin) = (seed(), Instant::now());
    for world in (0..).take_while(|&world| world < count || begin.elapsed() < length) {
        let seed = first.wrapping_add(world);
        let setup = EVERY_ENGINE[(seed % EVERY_ENGINE.len() as u64) as usize];
        println!("SEED={seed} on {setup:?}");
        live(seed, setup);
    }
}

/// Another engine than this one.
fn other(setup: Setup, seed: u64) -> Setup {
    let others: Vec<Setup> = EVERY_ENGINE.into_iter().filter(|other| other.engine != setup.engine).collect();
    others[(seed % others.len() as u64) as usize]
}

#[test]
fn a_watch_on_a_replica_sees_expiry_and_not_the_removal_of_a_key_that_was_over() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let mut theirs = master.client();
        theirs.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        let replica = replica_of(master.address(), setup, &[]);
        let mut ours = replica.client();
        wait_for_sync(&mut theirs, &mut ours);
        theirs.expect("SET alive v PX 2000", "+OK\r\n");
        theirs.expect("SET over v PX 1", "+OK\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        let queue = |ours: &mut Client| {
            ours.expect("MULTI", "+OK\r\n");
            ours.expect("GET alive", "+QUEUED\r\n");
        };
        ours.expect("WATCH alive", "+OK\r\n");
        queue(&mut ours);
        std::thread::sleep(Duration::from_millis(2100));
        ours.expect("EXEC", "*-1\r\n");
        ours.expect("WATCH over", "+OK\r\n");
        theirs.expect("GET over", "$-1\r\n");
        wait_until("it is removed", || ours.value(&["DBSIZE"]) == Value::Integer(1));
        queue(&mut ours);
        ours.expect("EXEC", "*1\r\n$-1\r\n");
        ours.expect("WATCH over", "+OK\r\n");
        theirs.expect("SET over again", "+OK\r\n");
        wait_until("it is there again", || ours.call(&["GET", "over"]) == b"$5\r\nagain\r\n");
        queue(&mut ours);
        ours.expect("EXEC", "*-1\r\n");
    }
}

#[test]
fn a_snapshot_for_a_replica_has_keys_that_are_due_too() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let mut theirs = master.client();
        theirs.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        theirs.expect("SET due v PX 30", "+OK\r\n");
        theirs.expect("SET stays v", "+OK\r\n");
        std::thread::sleep(Duration::from_millis(60));
        let replica = replica_of(master.address(), setup, &[]);
        let mut ours = replica.client();
        wait_for_sync(&mut theirs, &mut ours);
        for client in [&mut theirs, &mut ours] {
            client.expect("DBSIZE", ":2\r\n");
        }
        theirs.expect("DEBUG SET-ACTIVE-EXPIRE 1", "+OK\r\n");
        wait_until("it is removed", || ours.value(&["DBSIZE"]) == Value::Integer(1));
    }
}

#[test]
fn replicas_that_are_late_end_with_what_our_master_has() {
    in_worlds(3, |seed, setup| {
        let appendonly = if seed.is_multiple_of(3) { "no" } else { "yes" };
        let flags = [&MASTER[..], &["--save", "", "--appendonly", appendonly]].concat();
        let master = Node::Ours(Server::start(setup, &flags));
        let ours = Late::ours("ours", master.address(), other(setup, seed));
        let replicas = vec![
            Late::redis("redis", master.address()),
            Late::ours("ours of ours", ours.node().address(), setup),
            ours,
        ];
        let mut world = World::new(seed, master, flags, replicas);
        for stretch in 0..2 {
            world.run();
            if stretch == 0 && appendonly == "yes" {
                world.start_master_again();
            }
            world.compare();
        }
        assert!(number_of(&mut world.master().client(), "expired_keys") > 10);
    });
}

#[test]
fn a_replica_of_ours_that_is_late_ends_with_what_redis_has() {
    in_worlds(2, |seed, setup| {
        let master = Node::Redis(master());
        let ours = Late::ours("ours", master.address(), setup);
        let replicas = vec![Late::redis("redis of ours", ours.node().address()), ours];
        let mut world = World::new(seed, master, Vec::new(), replicas);
        for _ in 0..2 {
            world.run();
            world.compare();
        }
        assert!(number_of(&mut world.master().client(), "expired_keys") > 10);
    });
}

#[test]
fn after_a_failover_both_have_what_was_kept_in_time() {
    in_worlds(1, |seed, setup| {
        let flags = [&MASTER[..], &["--save", "", "--appendonly", "yes"]].concat();
        let master = Node::Ours(Server::start(setup, &flags));
        let of_ours = |master| Late::ours("the other", master, other(setup, seed));
        let of_redis = |master| Late::redis("the other", master);
        let late = if seed.is_multiple_of(2) { of_ours(master.address()) } else { of_redis(master.address()) };
        let late = Late { is_only_slow: true, ..late };
        let mut spare = Proxy::to(late.node().address());
        // Each is known by the address of the proxy in front of it.
        for (node, proxy) in [(late.node(), &spare), (&master, &late.proxy)] {
            let port = proxy.address().port().to_string();
            assert_eq!(node.client().value(&["CONFIG", "SET", "replica-announce-port", &port]).text(), "OK");
        }
        // It has come under its own address; the next link has the other.
        wait_until("the first link is up", || is_linked(&mut late.node().client()));
        late.proxy.cut();
        let mut world = World::new(seed, master, flags, vec![late]);
        for _ in 0..3 {
            world.run();
            world.fail_over(&mut spare);
        }
        world.compare();
    });
}

#[test]
fn replicas_that_are_late_have_what_eviction_has_left() {
    in_worlds(1, |seed, setup| {
        let is_ours = !seed.is_multiple_of(4);
        let flags = [&MASTER[..], &["--save", "", "--appendonly", "no"], &SMALL_BACKLOG].concat();
        let master = if is_ours {
            Node::Ours(Server::start(setup, &flags))
        } else {
            Node::Redis(RedisOracle::start_with(&flags))
        };
        let replicas =
            vec![Late::ours("ours", master.address(), other(setup, seed)), Late::redis("redis", master.address())];
        let mut world = World::new(seed, master, flags, replicas);
        world.limit_memory();
        world.run();
        world.compare();
        assert!(number_of(&mut world.master().client(), "evicted_keys") > 0, "SEED={seed}");
    });
}
