//! Server processes: started fresh for each trial on a free port in a temporary folder, killed with their handle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use loadgen::resp::{Client, Value};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tempfile::TempDir;

use crate::base::interrupt::Interrupt;
use crate::plan::catalog::Server;

const START_LIMIT: Duration = Duration::from_secs(20);
const REPLY_LIMIT: Duration = Duration::from_secs(5);
const LOG_TAIL_LINES: usize = 12;

/// The hidden subcommand under which this executable becomes the program of a child.
pub const CHILD_COMMAND: &str = "child";

/// A child process that ends when this value is dropped, and with this process however that ends. It has a process
/// group of its own, so that a Ctrl-C on the terminal reaches the lab first and the children are ended in order.
#[derive(Debug)]
pub(crate) struct OwnedChild(pub Child);

/// What a server is started with besides its own arguments.
#[derive(Debug, Clone, Copy)]
pub struct Extra<'a> {
    /// Flags, which follow the arguments.
    pub flags: &'a [String],
    /// Variables of its environment.
    pub environment: &'a BTreeMap<String, String>,
}

/// A server that has answered PING.
#[derive(Debug)]
pub struct RunningServer {
    child: OwnedChild,
    name: String,
    address: SocketAddr,
    log: PathBuf,
    // Removed after the process above is gone: fields drop in the order of their declaration.
    _folder: TempDir,
}

impl RunningServer {
    /// Starts `server` and waits until it answers. Its output goes to `log`.
    pub(crate) fn start(server: &Server, extra: Extra, log: &Path, interrupt: &Interrupt) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("shardrace-trial-").tempdir().context("no temporary folder")?;
        let address = free_address()?;
        let child = spawn(server, extra, address, folder.path(), log)?;
        let (name, log) = (server.name.clone(), log.to_path_buf());
        let mut running = Self { child, name, address, log, _folder: folder };
        running.wait_for_pong(interrupt)?;
        Ok(running)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Fails, with the log's tail, when the server is no longer running.
    pub(crate) fn ensure_alive(&mut self) -> Result<()> {
        let status = self.child.0.try_wait().with_context(|| format!("cannot wait for {}", self.name))?;
        let Some(status) = status else { return Ok(()) };
        bail!("the server {} on {} ended ({status}); {}", self.name, self.address, tail_of(&self.log))
    }

    /// The number of keys, if the server reports it.
    pub(crate) fn key_count(&self) -> Option<i64> {
        match self.ask(&[b"DBSIZE"])? {
            Value::Integer(count) => Some(count),
            _ => None,
        }
    }

    /// INFO as a table; empty if the server does not report it.
    pub(crate) fn info(&self) -> BTreeMap<String, String> {
        self.ask(&[b"INFO"]).map(fields).unwrap_or_default()
    }

    /// The stages of requests, if the server reports them: see [`crate::measuring::stages`].
    pub(crate) fn stages(&self) -> BTreeMap<String, String> {
        let mut stages = self.ask(&[b"INFO", b"stages"]).map(fields).unwrap_or_default();
        // Some servers reply all sections if they do not know one.
        stages.retain(|field, _| crate::measuring::stages::is_stage(field));
        stages
    }

    /// Resets the stages of a server that has them.
    pub(crate) fn forget_stages(&self) -> Result<()> {
        if self.stages().is_empty() {
            return Ok(());
        }
        let reply = self.ask(&[b"CONFIG", b"RESETSTAT"]);
        ensure!(reply == Some(Value::Simple("OK".to_owned())), "{} refuses CONFIG RESETSTAT: {reply:?}", self.name);
        Ok(())
    }

    fn wait_for_pong(&mut self, interrupt: &Interrupt) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while Instant::now() < end {
            self.ensure_alive()?;
            if self.pings() {
                return Ok(());
            }
            interrupt.sleep(Duration::from_millis(20))?;
        }
        bail!("{} on {} did not answer PING within {START_LIMIT:?}; {}", self.name, self.address, tail_of(&self.log))
    }

    fn pings(&self) -> bool {
        self.ask(&[b"PING"]).is_some_and(|reply| reply == Value::Simple("PONG".to_owned()))
    }

    /// The reply to a command, on a connection of its own. `None` without a reply: other code checks whether the server
    /// is alive.
    fn ask(&self, command: &[&[u8]]) -> Option<Value> {
        Client::connect(&self.address.to_string(), REPLY_LIMIT).and_then(|mut client| client.call(command)).ok()
    }
}

/// The lines `name:value` of an INFO.
fn fields(info: Value) -> BTreeMap<String, String> {
    let text = info.text().unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

impl OwnedChild {
    /// Spawns `program`, through [`become_program`]; `adjust` sets its folder and output.
    pub(crate) fn spawn(
        program: &Path,
        arguments: impl IntoIterator<Item = String>,
        adjust: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Self> {
        // Names this executable even after a build has replaced its file.
        let mut command = Command::new("/proc/self/exe");
        command.arg(CHILD_COMMAND).arg(std::process::id().to_string()).arg(program).args(arguments);
        let child = adjust(&mut command).process_group(0).stdin(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("cannot start a process for {}", program.display()))?))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("Linux process ids fit in 32 bits")
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Both fail only if the process has already been reaped, as wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Replaces this process, a fresh child of `parent`, by `program`, which the kernel kills when `parent` dies: a killed
/// lab leaves no server running. Returns only if that fails.
pub fn become_program(parent: i32, program: &Path, arguments: &[String]) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie this process to its parent")?;
    // The parent may have died before the kernel was asked.
    ensure!(getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent), "the parent has died");
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// The last lines of a log, as the end of an error message.
pub(crate) fn tail_of(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    if tail.is_empty() {
        return format!("its log {} is empty", log.display());
    }
    format!("its log {} ends:\n  {}", log.display(), tail.join("\n  "))
}

fn spawn(server: &Server, extra: Extra, address: SocketAddr, folder: &Path, log: &Path) -> Result<OwnedChild> {
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let errors = output.try_clone().with_context(|| format!("cannot share {}", log.display()))?;
    let (port, folder_text) = (address.port().to_string(), folder.display().to_string());
    let arguments = server.arguments.iter().chain(extra.flags);
    let filled = arguments.map(|word| word.replace("{port}", &port).replace("{dir}", &folder_text));
    OwnedChild::spawn(&server.program.path, filled, |command| {
        command.envs(extra.environment).current_dir(folder).stdout(output).stderr(errors)
    })
}

/// The kernel picks an unused port. Another process could take it before the server binds it; the server then ends and
/// its log says so.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
    listener.local_addr().context("no address of a bound listener")
}
