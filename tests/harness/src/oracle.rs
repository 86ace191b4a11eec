//! A real redis-server, whose replies are right by definition.

use super::{Client, DEADLINE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ATTEMPTS: usize = 20;
const REPLICA_LOG: &str = "replica.log";
const PROGRAM: &str = "redis-server";

/// A running redis-server, without persistence. Dropping it kills it.
pub struct RedisOracle {
    child: Child,
    program: String,
    flags: Vec<String>,
    address: SocketAddr,
    dir: TempDir,
}

impl RedisOracle {
    /// Starts one.
    ///
    /// # Panics
    /// If there is no redis-server: a test without its oracle has not passed.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more flags.
    pub fn start_with(flags: &[&str]) -> Self {
        Self::start_from(flags, None)
    }

    /// Starts one that loads a snapshot.
    pub fn start_with_snapshot(snapshot: &std::path::Path) -> Self {
        Self::start_from(&[], Some(snapshot))
    }

    /// Starts a replica, which panics if it is sent an invalid command: redis-server, or the program in
    /// `REPLICA_SERVER`.
    pub fn start_replica(flags: &[&str]) -> Self {
        let program = std::env::var("REPLICA_SERVER").unwrap_or_else(|_| PROGRAM.into());
        Self::start_replica_of(&program, flags)
    }

    /// The same with a server other than redis-server.
    pub fn start_replica_of(program: &str, flags: &[&str]) -> Self {
        let debugging = ["--enable-debug-command", "yes", "--logfile", REPLICA_LOG];
        let all = [&debugging, &["--propagation-error-behavior", "panic"][..], flags].concat();
        Self::start_program(program, &all, None)
    }

    /// Ends it in order, with a snapshot, and starts it again at its address from that. `meanwhile` runs in between.
    pub fn start_again(&mut self, meanwhile: impl FnOnce()) {
        self.client().send(b"SHUTDOWN SAVE\r\n");
        let start = Instant::now();
        while self.child.try_wait().expect("the child is ours").is_none() {
            assert!(start.elapsed() < DEADLINE, "{} does not end", self.program);
            std::thread::sleep(Duration::from_millis(2));
        }
        meanwhile();
        self.child = spawn(&self.program, &self.flags, self.address, self.dir.path());
        assert!(self.answers(), "{} does not start again: {}", self.program, self.replica_log());
    }

    /// The last log lines of a replica.
    pub fn replica_log(&self) -> String {
        const SHOWN: usize = 4000;
        let log = std::fs::read(self.dir.path().join(REPLICA_LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(SHOWN)..]).into_owned()
    }

    /// How many log lines of a replica, of all its starts, have a text.
    pub fn replica_logged(&self, text: &str) -> usize {
        let log = std::fs::read(self.dir.path().join(REPLICA_LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(text)).count()
    }

    /// Starts a master, which may be a server other than redis-server.
    pub fn start_master(program: &str, flags: &[&str]) -> Self {
        Self::start_program(program, flags, None)
    }

    fn start_from(flags: &[&str], snapshot: Option<&std::path::Path>) -> Self {
        Self::start_program(PROGRAM, flags, snapshot)
    }

    fn start_program(program: &str, flags: &[&str], snapshot: Option<&std::path::Path>) -> Self {
        for _ in 0..ATTEMPTS {
            if let Some(oracle) = Self::try_start(program, flags, snapshot) {
                return oracle;
            }
        }
        panic!("redis-server found no free port in {ATTEMPTS} attempts");
    }

    /// `None` if another process has the port.
    fn try_start(program: &str, flags: &[&str], snapshot: Option<&std::path::Path>) -> Option<Self> {
        let dir = TempDir::new().expect("a temporary directory");
        if let Some(snapshot) = snapshot {
            std::fs::copy(snapshot, dir.path().join("dump.rdb")).expect("there is a snapshot");
        }
        // redis-server cannot choose a port and report it. These are below those that the system assigns itself.
        let address = SocketAddr::from(([127, 0, 0, 1], fastrand::u16(12_000..32_000)));
        TcpListener::bind(address).ok()?;
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let child = spawn(program, &flags, address, dir.path());
        let mut oracle = Self { child, program: program.into(), flags, address, dir };
        oracle.answers().then_some(oracle)
    }

    /// Waits until it answers; whether it does, and not another process.
    fn answers(&mut self) -> bool {
        let start = Instant::now();
        while self.child.try_wait().expect("the child is ours").is_none() {
            if TcpStream::connect(self.address).is_ok() {
                return self.is_the_one_that_answers();
            }
            assert!(start.elapsed() < DEADLINE, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Another process that has taken the port meanwhile may be any server, and end at any time.
    fn is_the_one_that_answers(&self) -> bool {
        let mut answer = String::new();
        let asked = TcpStream::connect(self.address).and_then(|mut stream| {
            stream.set_read_timeout(Some(DEADLINE))?;
            stream.write_all(b"INFO server\r\nQUIT\r\n")?;
            stream.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.contains(&format!("process_id:{}\r\n", self.child.id()))
    }

    /// Its directory.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

fn spawn(program: &str, flags: &[String], address: SocketAddr, dir: &std::path::Path) -> Child {
    let mut command = Command::new(program);
    command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no"]).args(flags).arg("--dir").arg(dir);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.expect("redis-server is missing: make test installs it")
}

impl Drop for RedisOracle {
    fn drop(&mut self) {
        // It may have found its port in use and ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
