//! Real Sentinels monitor our servers and real ones together.

use super::{ENGINES, MASTER, assert_same};
use harness::{Client, DEADLINE, Data, RedisOracle, Server, Setup, Value, effort, request, seed, wait_until_within};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long Sentinels may take: they repeat a failed vote after ten seconds, and check roles every ten seconds.
const LIMIT: Duration = Duration::from_secs(90);

fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    wait_until_within(LIMIT, what, condition);
}

/// A Sentinel: redis-sentinel, or the server that `SENTINEL_SERVER` names, such as a valkey-server. Dropping it kills
/// it.
struct Sentinel {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

fn command(config: &Path) -> Command {
    let Ok(program) = std::env::var("SENTINEL_SERVER") else {
        let mut command = Command::new("redis-sentinel");
        command.arg(config);
        return command;
    };
    println!("SENTINEL_SERVER={program}");
    let mut command = Command::new(program);
    command.arg(config).arg("--sentinel");
    command
}

impl Sentinel {
    /// Starts one that monitors a master; two must agree that it is down.
    fn of(master: SocketAddr) -> Self {
        let dir = TempDir::new().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], fastrand::u16(12_000..32_000)));
        drop(TcpListener::bind(address).expect("the port is free"));
        // A Sentinel pings once a second. With one second it takes a master for lost that has just replied, and
        // promotes the one that has come back.
        let config = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor m 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds m 3000\nsentinel failover-timeout m 5000\nsentinel parallel-syncs m 1\n",
            address.port(),
            dir.path().display(),
            master.port()
        );
        let path = dir.path().join("sentinel.conf");
        std::fs::write(&path, config).unwrap();
        let child = command(&path).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let sentinel = Self { child: child.expect("make test-tools installs it"), address, _dir: dir };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < DEADLINE, "the Sentinel does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        sentinel
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The port of the current master.
    fn master(&self) -> u16 {
        let address = self.client().value(&["SENTINEL", "get-master-addr-by-name", "m"]);
        address.elements()[1].text().parse().unwrap()
    }

    fn count(&self, what: &str) -> usize {
        self.client().value(&["SENTINEL", what, "m"]).elements().len()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One of our servers with a config file: Sentinel sends CONFIG REWRITE.
fn start_ours(data: &Data, setup: Setup, lines: &str) -> Server {
    let path = data.path().join("server.conf");
    if !path.exists() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let all = format!("port {port}\nrepl-diskless-sync-delay 0\nenable-debug-command yes\n{lines}");
        std::fs::write(&path, all).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let port = text.lines().find_map(|line| line.strip_prefix("port ")).expect("the port is kept").to_owned();
    data.start(setup, &[path.to_str().unwrap(), "--port", &port])
}

/// A reply on a new connection; `None` if a Sentinel closes that meanwhile. Each of the three closes all connections of
/// a server when it changes the server's master, even if another has done so already.
fn value_if_open(address: SocketAddr, arguments: &[&str]) -> Option<Value> {
    let mut client = Client::connect_if_open(address)?;
    client.send_if_open(&request(arguments));
    client.values_if_open(1)?.pop()
}

fn is_replica_of(address: SocketAddr, port: u16) -> bool {
    let Some(info) = value_if_open(address, &["INFO", "replication"]) else { return false };
    let lines = ["role:slave".to_owned(), format!("master_port:{port}"), "master_link_status:up".to_owned()];
    lines.iter().all(|line| info.text().lines().any(|other| other == line))
}

/// Waits until a server has the same data as another, which gets no writes meanwhile.
fn wait_for_same(address: SocketAddr, other: SocketAddr) {
    let digest = |address| value_if_open(address, &["DEBUG", "DIGEST"]).map(|digest| digest.text());
    wait_for("the data is the same", || digest(address).is_some_and(|one| digest(other) == Some(one)));
}

#[test]
fn three_sentinels_fail_over_between_servers_of_ours_and_real_ones_and_back() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let (first_data, second_data) = (Data::new(), Data::new());
        let first = start_ours(&first_data, setup, "");
        let first_port = first.address().port();
        let second = start_ours(&second_data, setup, &format!("replicaof 127.0.0.1 {first_port}\n"));
        // Sentinel promotes it only if it can promote no other.
        let real = RedisOracle::start_with(&[&MASTER[..], &["--replica-priority", "200"]].concat());
        super::follow(&mut real.client(), first.address());
        let mut client = first.client();
        client.expect("SET before failover", "+OK\r\n");
        for replica in [&mut second.client(), &mut real.client()] {
            assert_same(&mut client, replica);
        }
        let sentinels = [(); 3].map(|()| Sentinel::of(first.address()));
        wait_for("the sentinels know each other and the replicas", || {
            sentinels.iter().all(|sentinel| sentinel.count("replicas") == 2 && sentinel.count("sentinels") == 2)
        });
        first.kill();
        let second_port = second.address().port();
        wait_for("the sentinels agree on another master", || sentinels.iter().all(|one| one.master() == second_port));
        let promoted = second.address();
        let is = |address, arguments: &[&str], text: &str| {
            value_if_open(address, arguments).is_some_and(|value| value.text() == text)
        };
        wait_for("it takes writes", || is(promoted, &["SET", "after", "failover"], "OK"));
        wait_for("it has what was written before", || is(promoted, &["GET", "before"], "failover"));
        wait_for("the real one follows it", || is_replica_of(real.address(), second_port));
        assert!(!std::fs::read_to_string(second_data.path().join("server.conf")).unwrap().contains("replicaof"));
        // The old master comes back as a master; Sentinel makes it a replica.
        let again = start_ours(&first_data, setup, "");
        assert_eq!(again.address().port(), first_port);
        wait_for("the one that was master follows, too", || is_replica_of(again.address(), second_port));
        for replica in [again.address(), real.address()] {
            wait_for_same(replica, promoted);
            wait_for("it has what was written after", || is(replica, &["GET", "after"], "failover"));
        }
        let path = first_data.path().join("server.conf");
        let is_kept =
            || std::fs::read_to_string(&path).unwrap().contains(&format!("replicaof 127.0.0.1 {second_port}"));
        wait_for("its file says whom it follows", is_kept);
    }
}

/// The numbers that a client has written.
#[derive(Default)]
struct Written {
    /// Those that WAIT confirmed on the replica.
    acknowledged: Vec<u64>,
    /// Those that were acknowledged and not confirmed.
    replied: Vec<u64>,
    next: u64,
}

impl Written {
    /// Writes until the connection ends. `has_acknowledged` is set when the first of these writes is acknowledged.
    fn write(&mut self, address: SocketAddr, has_acknowledged: &AtomicBool) {
        let Some(mut client) = Client::connect_if_open(address) else { return };
        loop {
            let (number, key) = (self.next, format!("key:{}", self.next));
            self.next += 1;
            let wait = request(&["WAIT", "1", "1000"]);
            client.send_if_open(&[request(&["SET", &key, &number.to_string()]), wait].concat());
            let Some(reply) = client.values_if_open(1) else { return };
            let is_written = reply[0].text() == "OK";
            match client.values_if_open(1) {
                Some(count) if is_written && count[0] != Value::Integer(0) => {
                    self.acknowledged.push(number);
                    has_acknowledged.store(true, Ordering::Relaxed);
                }
                Some(_) if is_written => self.replied.push(number),
                Some(_) => {}
                None => {
                    self.replied.extend(is_written.then_some(number));
                    return;
                }
            }
        }
    }
}

/// The numbers that a server lacks.
fn lost(address: SocketAddr, numbers: &[u64]) -> Vec<u64> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let keys: Vec<String> = numbers.iter().map(|number| format!("key:{number}")).collect();
    let arguments: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
    let mut found = None;
    wait_for("it shows what it has", || {
        found = value_if_open(address, &arguments);
        found.is_some()
    });
    let found = found.expect("it was waited for");
    let is_lost = |(number, value): (&u64, &Value)| {
        let is_there = *value != Value::NullBulk && value.text() == number.to_string();
        (!is_there).then_some(*number)
    };
    numbers.iter().zip(found.elements()).filter_map(is_lost).collect()
}

/// In general WAIT guarantees nothing: Sentinel may promote another replica than the one that confirmed. With one
/// replica it does guarantee it. `KILLS` is how often the master is killed.
#[test]
fn what_the_only_replica_has_acknowledged_survives_each_kill_of_the_master() {
    const LINES: &str = "min-replicas-to-write 1\nmin-replicas-max-lag 10\n";
    let mut random = fastrand::Rng::with_seed(seed());
    let data = [Data::new(), Data::new()];
    let first = start_ours(&data[0], ENGINES[random.usize(..3)], LINES);
    let follow = format!("{LINES}replicaof 127.0.0.1 {}\n", first.address().port());
    let second = start_ours(&data[1], ENGINES[random.usize(..3)], &follow);
    let addresses = [first.address(), second.address()];
    let mut servers = [Some(first), Some(second)];
    let sentinels = [(); 3].map(|()| Sentinel::of(addresses[0]));
    wait_for("the sentinels know each other and the replica", || {
        sentinels.iter().all(|sentinel| sentinel.count("replicas") == 1 && sentinel.count("sentinels") == 2)
    });
    let (mut written, mut master) = (Written::default(), 0);
    for kill in 1..=effort("KILLS", 1) {
        let (address, other) = (addresses[master], 1 - master);
        wait_for("the replica follows", || is_replica_of(addresses[other], address.port()));
        // min-replicas-to-write refuses writes while no replica acknowledges.
        wait_for("writes are taken", || value_if_open(address, &["SET", "a", "b"]).is_some_and(|it| it.text() == "OK"));
        let killed = servers[master].take().expect("it runs");
        let has_acknowledged = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| written.write(address, &has_acknowledged));
            wait_for("a write is acknowledged", || has_acknowledged.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(random.u64(200..1500)));
            killed.kill();
        });
        let promoted = addresses[other];
        wait_for("the sentinels agree", || sentinels.iter().all(|sentinel| sentinel.master() == promoted.port()));
        wait_for("it is the master", || {
            value_if_open(promoted, &["ROLE"]).is_some_and(|role| role.elements()[0].text() == "master")
        });
        assert_eq!(lost(promoted, &written.acknowledged), [0_u64; 0], "of {}", written.acknowledged.len());
        let lost_of_others = lost(promoted, &written.replied);
        println!(
            "kill {kill}: {} writes that the replica had acknowledged are there; lost are {} of {} that were replied before",
            written.acknowledged.len(),
            lost_of_others.len(),
            written.replied.len()
        );
        written.replied.retain(|number| !lost_of_others.contains(number));
        servers[master] = Some(start_ours(&data[master], ENGINES[random.usize(..3)], ""));
        master = other;
    }
}
