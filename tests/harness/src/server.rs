//! One of our servers, in this process or as one of its own.

use super::{Client, DEADLINE, Value, wait_until};
use shardrace::Config;
use shardrace::internals::aof::{DirLock, Manifest, Scan, SystemDisk, settle};
use shardrace::internals::base::has_ended;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, Once};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An engine with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    pub engine: &'static str,
    pub shards: usize,
    pub threads: usize,
}

/// Every engine; the actor engine with one shard, with as many as threads, and with more.
pub const EVERY_ENGINE: [Setup; 5] = [
    Setup { engine: "mutex", shards: 1, threads: 3 },
    Setup { engine: "dashmap", shards: 8, threads: 3 },
    Setup { engine: "actor", shards: 1, threads: 1 },
    Setup { engine: "actor", shards: 2, threads: 2 },
    Setup { engine: "actor", shards: 7, threads: 3 },
];

/// How servers run the commands of a read. Each engine has to behave the same with all of them.
pub const EVERY_BATCHING: [[&str; 4]; 4] = [
    ["--batching", "read", "--prefetch", "yes"],
    ["--batching", "command", "--prefetch", "no"],
    ["--batching", "read", "--prefetch", "no"],
    ["--batching", "command", "--prefetch", "yes"],
];

/// Where connections and shards of the actor engine run, and how commands get from one to the other on one thread. It
/// has to behave the same with all of them.
pub const EVERY_PLACEMENT: [[&str; 4]; 3] = [
    ["--placement", "scheduler", "--local", "mailbox"],
    ["--placement", "pinned", "--local", "mailbox"],
    ["--placement", "pinned", "--local", "inline"],
];

/// The actor engine with each placement that is not the default: with as many shards as threads, and with more.
pub fn other_placements() -> impl Iterator<Item = (Setup, [&'static str; 4])> {
    let setups = EVERY_ENGINE.into_iter().filter(|setup| setup.engine == "actor" && setup.shards > 1);
    setups.flat_map(|setup| EVERY_PLACEMENT[1..].iter().map(move |&placement| (setup, placement)))
}

/// Where they run if a test does not say: by default. `PLACEMENT` from 0 to 2 chooses one of these for all.
fn placement_by_environment(setup: Setup) -> Option<[&'static str; 4]> {
    let number = std::env::var("PLACEMENT").ok()?.parse::<usize>().ok()?;
    (setup.engine == "actor").then(|| EVERY_PLACEMENT[number % EVERY_PLACEMENT.len()])
}

/// How a server runs them if a test does not say: by default. `BATCHING` from 0 to 3 chooses one of these for all; with
/// SOAK the servers alternate.
fn batching_by_environment() -> Option<[&'static str; 4]> {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let next = || STARTED.fetch_add(1, Ordering::Relaxed);
    let number = read("BATCHING").or_else(|| (read("SOAK").unwrap_or(0) > 0).then(next))?;
    Some(EVERY_BATCHING[number % EVERY_BATCHING.len()])
}

/// Another one than the default, chosen by the seed: long tests also run with it.
pub fn another_batching(seed: u64) -> [&'static str; 4] {
    EVERY_BATCHING[1 + (seed % (EVERY_BATCHING.len() as u64 - 1)) as usize]
}

/// Runs a test on a fresh server of every engine, in this process.
pub fn on_every_engine(test: impl Fn(&Embedded)) {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        test(&Embedded::start(setup, &[]));
    }
}

/// The same with a process for each server: for tests of its log lines, its signals, its memory, its end.
pub fn on_every_process(test: impl Fn(&Server)) {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        test(&Server::start(setup, &[]));
    }
}

/// Runs a test for each engine, side by side: waits of seconds are shared.
pub fn on_every_engine_at_once(test: impl Fn(Setup) + Sync) {
    std::thread::scope(|scope| {
        let test = &test;
        let threads = EVERY_ENGINE.map(|setup| scope.spawn(move || test(setup)));
        threads.into_iter().for_each(|thread| thread.join().expect("the test has said why"));
    });
}

/// A directory with the data of a server that is not running.
#[derive(Clone)]
pub struct Data(Arc<TempDir>);

impl Default for Data {
    fn default() -> Self {
        Self::new()
    }
}

impl Data {
    /// An empty one.
    pub fn new() -> Self {
        Self(Arc::new(TempDir::new().expect("a temporary directory")))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The files of the log, sorted by name.
    pub fn log_files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path().join("appendonlydir")).expect("the log's directory");
        let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// Writes into the files what a killed server has left in their buffers, as a start does. A running server does
    /// that itself.
    pub fn settled(&self) -> Self {
        let dir = self.path().join("appendonlydir");
        if let (Ok(_lock), Ok(manifest)) = (DirLock::take_existing(&dir), Manifest::read(&SystemDisk, &dir)) {
            settle(&SystemDisk, &dir, &manifest).expect("nothing is wrong with the files");
        }
        self.clone()
    }

    /// The segments of the log that hold records of data, sorted by name: for a running server, those that it has
    /// passed to the file system.
    pub fn segments(&self) -> Vec<PathBuf> {
        self.settled();
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "aof");
        let has_records =
            |path: &PathBuf| Scan::of(&std::fs::read(path).unwrap(), path).is_ok_and(|scan| scan.records > 0);
        self.log_files().into_iter().filter(|path| is_segment(path) && has_records(path)).collect()
    }

    /// A copy of everything, elsewhere.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        std::fs::create_dir(copy.path().join("appendonlydir")).unwrap();
        for file in self.log_files() {
            std::fs::copy(&file, copy.path().join("appendonlydir").join(file.file_name().unwrap())).unwrap();
        }
        copy
    }

    /// Makes the current boot of the machine look different from the one in which the log was written.
    pub fn pretend_to_reboot(&self) {
        let dir = self.path().join("appendonlydir");
        let mut manifest = Manifest::read(&SystemDisk, &dir).expect("there is a log");
        manifest.boot = "another".into();
        manifest.write(&SystemDisk, &dir).expect("there is room");
    }

    /// Starts a server with this data.
    pub fn start(&self, setup: Setup, flags: &[&str]) -> Server {
        Server::start_in(self.clone(), setup, flags)
    }

    /// Starts a server that is expected to refuse.
    pub fn start_refused(&self, setup: Setup, flags: &[&str]) -> Ended {
        run_to_its_end(&mut command(self, setup, flags))
    }
}

/// A config file precedes all flags.
fn command(data: &Data, setup: Setup, flags: &[&str]) -> Command {
    let (file, flags) = flags.split_at(flags.first().is_some_and(|first| !first.starts_with('-')).into());
    let mut command = Command::new(binary());
    command.args(file).args(arguments(data, setup)).args(flags);
    command.env_remove("RUST_LOG").current_dir(data.path());
    command
}

/// The server's binary: cargo names it, and builds it beside the directory of the test programs.
pub fn binary() -> &'static str {
    static BINARY: LazyLock<String> = LazyLock::new(|| {
        let beside = || {
            let test = std::env::current_exe().expect("a test has a path");
            let built = test.ancestors().nth(2).expect("it is in `deps`").join("shardrace");
            built.into_os_string().into_string().expect("it has a plain name")
        };
        std::env::var("CARGO_BIN_EXE_shardrace").unwrap_or_else(|_| beside())
    });
    &BINARY
}

/// The arguments for a server of this setup with this data: flags, each followed by its value.
pub fn arguments(data: &Data, setup: Setup) -> Vec<String> {
    let dir = data.path().to_str().expect("temporary directories have plain names");
    let (shards, threads) = (setup.shards.to_string(), setup.threads.to_string());
    let shape = ["--port", "0", "--engine", setup.engine, "--shards", &shards, "--threads", &threads, "--dir", dir];
    let (batching, placement) = (batching_by_environment(), placement_by_environment(setup));
    for flags in batching.iter().chain(&placement) {
        println!("{}", flags.join(" "));
    }
    let chosen = batching.iter().chain(&placement).flatten();
    shape.iter().chain(chosen).map(|&argument| argument.to_owned()).collect()
}

/// The result of a process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command that ends on its own; kills it and fails if it does not.
pub fn run_to_its_end(command: &mut Command) -> Ended {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            pipe.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let status = wait_for(&mut child);
    // Not before the pipes are read: a killed child closes them.
    if status.is_none() {
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let status = status.unwrap_or_else(|| panic!("{command:?} is still running: {stdout}{stderr}"));
    Ended { status, stdout, stderr }
}

fn wait_for(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// The lines a server has logged so far.
#[derive(Default)]
struct Log {
    lines: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Default)]
struct Lines {
    text: String,
    is_at_end: bool,
}

impl Log {
    fn collect(&self, stderr: impl Read) {
        for line in BufReader::new(stderr).split(b'\n') {
            let Ok(line) = line else { break };
            let mut lines = self.lines.lock().unwrap();
            lines.text.push_str(&String::from_utf8_lossy(&line));
            lines.text.push('\n');
            self.grown.notify_all();
        }
        self.lines.lock().unwrap().is_at_end = true;
        self.grown.notify_all();
    }

    /// Waits for something in the log; `None` if the log ends without it.
    fn wait_for<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut lines = self.lines.lock().unwrap();
        let start = Instant::now();
        loop {
            if let Some(found) = find(&lines.text) {
                return Some(found);
            }
            if lines.is_at_end || start.elapsed() > DEADLINE {
                return None;
            }
            lines = self.grown.wait_timeout(lines, Duration::from_millis(100)).unwrap().0;
        }
    }
}

/// A server that runs, however it does.
pub struct Endpoint {
    setup: Setup,
    address: SocketAddr,
    data: Data,
    is_alone: bool,
}

impl Endpoint {
    /// The engine with its shape.
    pub fn setup(&self) -> Setup {
        self.setup
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its directory.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The fields of INFO. Those of the memory of its process are left out where it shares that with other servers.
    pub fn info(&self) -> HashMap<String, String> {
        let text = self.client().value(&["INFO"]).text();
        let is_of_memory =
            |name: &str| ["used_memory", "mem_", "allocator_"].iter().any(|start| name.starts_with(start));
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let fields = fields.filter(|(name, _)| self.is_alone || !is_of_memory(name));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// A number of INFO.
    pub fn info_number(&self, field: &str) -> u64 {
        let info = self.info();
        let value = info.get(field).unwrap_or_else(|| panic!("INFO has no {field}: {info:?}"));
        value.parse().unwrap_or_else(|_| panic!("{field} is no number: {value}"))
    }

    /// Checks that it is alive and replies.
    pub fn assert_serving(&self) {
        assert_eq!(self.client().value(&["PING"]), Value::Simple(b"PONG".to_vec()), "{:?}", self.setup);
    }
}

/// A server in this process, with the settings of one that is a process. Dropping it ends it, and fails if a thread of
/// a server has panicked: a process would have ended.
pub struct Embedded {
    /// Ends before its directory is removed.
    server: Option<shardrace::Server>,
    endpoint: Endpoint,
}

/// How many threads of servers in this process have panicked. Those of a server have names, and those of tests have
/// that of their test, which has a module, or none.
fn panics_of_servers() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The binary is not ended by it, either.
            if has_ended(panic.payload()) {
                return;
            }
            report(panic);
            if std::thread::current().name().is_some_and(|name| name != "main" && !name.contains("::")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
        }));
    });
    &PANICS
}

impl Embedded {
    /// Starts one with a fresh directory. Each flag has one value.
    pub fn start(setup: Setup, flags: &[&str]) -> Self {
        panics_of_servers();
        let data = Data::new();
        let mut arguments = arguments(&data, setup);
        arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
        let config = arguments.chunks(2).fold(Config::default(), |config, flag| {
            let directive = flag[0].strip_prefix("--").expect("a flag and its value");
            config.with(directive, &flag[1]).expect("the settings are valid")
        });
        let server = shardrace::Server::start(config).unwrap_or_else(|error| panic!("{setup:?}: {error}"));
        Self { endpoint: Endpoint { setup, address: server.address(), data, is_alone: false }, server: Some(server) }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let server = self.server.take().expect("it is dropped once");
        server.stop();
        let ended = server.wait();
        if !std::thread::panicking() {
            assert_eq!(ended, Ok(()), "{:?}", self.setup());
            let panics = panics_of_servers().load(Ordering::SeqCst);
            assert_eq!(panics, 0, "a server of this process has panicked, this one or one before: see the output");
        }
    }
}

impl Deref for Embedded {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// A server that is a process. Dropping it kills it, and fails if it had died on its own.
pub struct Server {
    child: Child,
    log: Arc<Log>,
    endpoint: Endpoint,
}

impl Deref for Server {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Server {
    /// Starts one with a fresh directory.
    pub fn start(setup: Setup, flags: &[&str]) -> Self {
        Self::start_in(Data::new(), setup, flags)
    }

    fn start_in(data: Data, setup: Setup, flags: &[&str]) -> Self {
        Self::spawn(&mut command(&data, setup, flags), data, setup)
    }

    /// Starts one by a command that becomes the server, with this data.
    pub fn spawn(command: &mut Command, data: Data, setup: Setup) -> Self {
        Self::try_spawn(command, data, setup)
            .unwrap_or_else(|log| panic!("{setup:?}, {command:?} did not start: {log}"))
    }

    /// [`spawn`](Self::spawn), or its log if it does not start.
    pub fn try_spawn(command: &mut Command, data: Data, setup: Setup) -> Result<Self, String> {
        Self::spawn_until("Ready to accept connections tcp on ", command, data, setup)
    }

    /// Starts one, and waits until it logs this text followed by its port; or returns its log if it ends.
    pub fn spawn_until(text: &str, command: &mut Command, data: Data, setup: Setup) -> Result<Self, String> {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary was built");
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().unwrap();
        let collecting = Arc::clone(&log);
        std::thread::spawn(move || collecting.collect(stderr));
        let port = log.wait_for(|log| port_in(log, text));
        let Some(port) = port else {
            // It may have ended on its own.
            let _ = child.kill();
            child.wait().expect("the child is ours");
            return Err(log.lines.lock().unwrap().text.clone());
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let endpoint = Endpoint { setup, address, data, is_alone: true };
        Ok(Self { child, log, endpoint })
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.log.lines.lock().unwrap().text.clone()
    }

    /// Waits for a line of the log.
    pub fn wait_for_log(&self, text: &str) {
        let found = self.log.wait_for(|log| log.contains(text).then_some(()));
        assert!(found.is_some(), "{text:?} is not in the log: {}", self.log());
    }

    /// Memory of the process in use, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let process = procfs::process::Process::new(self.child.id() as i32).expect("the server is running");
        process.status().expect("a process has a status").vmrss.expect("a process has memory") * 1024
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that the process has had in use so far, in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        let process = procfs::process::Process::new(self.child.id() as i32).expect("the server is running");
        process.status().expect("a process has a status").vmhwm.expect("a process has memory") * 1024
    }

    /// The processor time of all its threads so far.
    pub fn cpu_time(&self) -> Duration {
        let process = procfs::process::Process::new(self.child.id() as i32).expect("the server is running");
        let threads = process.tasks().expect("a process has threads").flatten();
        // A thread that has ended meanwhile is not one of those that serve.
        let times = threads.filter_map(|thread| {
            std::fs::read_to_string(format!("/proc/{}/task/{}/schedstat", thread.pid, thread.tid)).ok()
        });
        let first = |text: String| text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("a number");
        Duration::from_nanos(times.map(first).sum())
    }

    /// Sends a signal by its name, only to this process.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().expect("kill exists");
        assert!(status.success());
    }

    /// Stops the process, all threads of it, until the signal CONT: a signal takes effect some time after it is sent.
    pub fn pause(&self) {
        self.signal("STOP");
        wait_until("each thread has stopped", || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
            threads.map(|thread| thread.expect("it is stopped, or will be").path().join("stat")).all(|path| {
                // The state follows the name, which is in parentheses.
                let stat = std::fs::read_to_string(path).unwrap_or_default();
                stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
            })
        });
    }

    /// From now on none of its writes makes a file longer than this: a full disk for each file.
    pub fn limit_files(&self, bytes: u64) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        rlimit::prlimit(pid, rlimit::Resource::FSIZE, Some((bytes, rlimit::INFINITY)), None)
            .expect("the server is ours");
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_none()
    }

    /// kill -9: data that the operating system does not have is lost.
    pub fn kill(mut self) -> Data {
        assert!(self.is_running(), "the server died by itself: {}", self.log());
        self.child.kill().expect("the child is ours");
        self.child.wait().expect("the child is ours");
        self.endpoint.data.clone()
    }

    /// Waits until it has ended on its own.
    pub fn wait_for_end(mut self) -> (ExitStatus, Data, String) {
        let status = wait_for(&mut self.child).unwrap_or_else(|| panic!("still running: {}", self.log()));
        self.log.wait_for(|_| None::<()>);
        (status, self.endpoint.data.clone(), self.log())
    }

    /// SIGTERM, and the end that follows.
    pub fn stop(self) -> (ExitStatus, Data, String) {
        self.signal("TERM");
        self.wait_for_end()
    }
}

fn port_in(log: &str, text: &str) -> Option<u16> {
    let line = log.lines().find(|line| line.contains(text))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.try_wait().expect("the child is ours");
        if ended.is_none() {
            self.child.kill().expect("the child is ours");
            self.child.wait().expect("the child is ours");
        }
        if std::thread::panicking() {
            println!("{:?} logged:\n{}", self.setup(), self.log());
        }
    }
}
