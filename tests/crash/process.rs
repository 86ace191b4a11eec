//! The server as a process on a disk that keeps a book: this test's executable run again as the production server, with
//! another disk for its log, and another name of the boot.

use super::book::{Loss, Places};
use super::tracking::{Behaviour, Failure, TrackingDisk};
use harness::server::arguments;
use harness::{Data, Server, Setup};
use shardrace::Config;
use shardrace::internals::config::logging;
use shardrace::internals::server;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The variable that makes the executable a server: its arguments, one per line.
const ARGUMENTS: &str = "CRASH_SERVER_ARGUMENTS";
const BOOT: &str = "CRASH_SERVER_BOOT";
const BEHAVIOUR: &str = "CRASH_SERVER_BEHAVIOUR";

/// A machine: a disk, and how often it was booted.
pub struct Machine {
    pub data: Data,
    pub boot: u64,
    pub behaviour: Behaviour,
    pub flags: Vec<String>,
}

impl Machine {
    /// A new one, with an empty disk.
    pub fn new(flags: &[&str], behaviour: Behaviour) -> Self {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let machine = Self { data: Data::new(), boot: 0, behaviour, flags };
        machine.places().begin();
        machine
    }

    pub fn places(&self) -> Places {
        let dir = self.data.path();
        Places { log: dir.join("appendonlydir"), book: dir.join("book") }
    }

    /// Starts a server on it.
    pub fn start(&self, setup: Setup) -> Server {
        Server::spawn(&mut self.command(setup), self.data.clone(), setup)
    }

    /// [`start`](Self::start), or the server's message if it refuses.
    pub fn try_start(&self, setup: Setup) -> Result<Server, String> {
        Server::try_spawn(&mut self.command(setup), self.data.clone(), setup)
    }

    /// A machine with a copy of the disk.
    pub fn copy(&self) -> Self {
        let copy =
            Self { data: self.data.copy(), boot: self.boot, behaviour: self.behaviour, flags: self.flags.clone() };
        copy.places().begin();
        copy
    }

    /// The command that starts a server on it.
    pub fn command(&self, setup: Setup) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let arguments = [arguments(&self.data, setup), self.flags.clone()].concat().join("\n");
        let Behaviour { sync_us, slow_ms, is_early, is_unmapped, fails_from } = self.behaviour;
        let (first, failure) = fails_from.map_or((0, 0), |(first, failure)| {
            (first, 1 + Failure::ALL.iter().position(|other| *other == failure).unwrap())
        });
        command.args(["--exact", "process::server_process", "--ignored", "--nocapture", "--test-threads", "1"]);
        command.env(ARGUMENTS, arguments).env(BOOT, format!("boot-{}", self.boot));
        let behaviour =
            format!("{sync_us} {slow_ms} {} {first} {failure} {}", u8::from(is_early), u8::from(is_unmapped));
        command.env(BEHAVIOUR, behaviour).env_remove("RUST_LOG");
        command.current_dir(self.data.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// The power fails, after the server was killed.
    pub fn lose_power(&mut self, random: &mut fastrand::Rng) {
        self.places().lose_power(Loss::Any, random);
        self.boot += 1;
    }
}

#[test]
#[ignore = "it is the server that the other tests start, as a process of its own"]
fn server_process() {
    let read = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: nothing to serve"));
    let arguments = read(ARGUMENTS);
    let config = match Config::from_command_line(["shardrace"].into_iter().chain(arguments.lines()).map(Into::into)) {
        Ok(config) => config,
        Err(_) => panic!("no command line of a server: {arguments}"),
    };
    logging::start(&config).unwrap();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let numbers: Vec<u64> = read(BEHAVIOUR).split(' ').map(|number| number.parse().unwrap()).collect();
    let fails_from = (numbers[4] as usize).checked_sub(1).map(|failure| (numbers[3], Failure::ALL[failure]));
    let (is_early, is_unmapped) = (numbers[2] == 1, numbers[5] == 1);
    let behaviour = Behaviour { sync_us: numbers[0], slow_ms: numbers[1], is_early, is_unmapped, fails_from };
    // The process was started in its data directory.
    let dir = std::env::current_dir().unwrap();
    let places = Places { log: dir.join("appendonlydir"), book: dir.join("book") };
    let disk = Arc::new(TrackingDisk::new(places, behaviour));
    if let Err(reason) = server::run(config, server::Platform { disk, boot: read(BOOT), ..server::Platform::default() })
    {
        eprintln!("Fatal: {reason}");
        std::process::exit(1);
    }
    std::process::exit(0);
}
