//! A server within another program.

use super::{Hooks, Platform, run_with};
use crate::config::{Config, TemporaryDir};
use crate::state::stopping::Stop;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A server that runs in this process, perhaps beside others: each has threads, data, settings, scripts and statistics
/// of its own, and sees nothing of the others.
///
/// Dropping it ends it.
///
/// ```
/// use shardrace::{Config, Server};
/// use std::io::{Read, Write};
///
/// let server = Server::start(Config::ephemeral())?;
/// let other = Server::start(Config::ephemeral().with("engine", "mutex")?)?;
///
/// let mut client = std::net::TcpStream::connect(server.address()).expect("it accepts connections");
/// client.write_all(b"SET key value\r\nGET key\r\n").expect("it reads them");
/// let mut replies = [0; 16];
/// client.read_exact(&mut replies).expect("it replies");
/// assert_eq!(&replies, b"+OK\r\n$5\r\nvalue\r\n");
///
/// server.stop();
/// server.wait()?;
/// assert_ne!(other.port(), 0);
/// # Ok::<(), String>(())
/// ```
///
/// It shares what belongs to the process: the allocator, and so the memory that `maxmemory` limits; the limit on open
/// files; the log lines, which are lost in a program without a subscriber to [`tracing`](https://docs.rs/tracing); and
/// the signals, which an embedded server does not handle, except SIGBUS: if a mapped file is shortened while it is
/// read, the process ends with a message that says so. A log that cannot be synced under `appendfsync always` ends the
/// process, too. A panic of one of its tasks, which is a bug of the server, does not: it is reported as the program's
/// own panics are, and clients may wait for a reply that never comes. The `shardrace` binary ends the process then; a
/// program that wants the same calls [`std::process::abort`] in its panic hook.
#[derive(Debug)]
pub struct Server {
    started: Started,
    thread: Option<JoinHandle<Result<(), String>>>,
    /// Removed when the server has ended.
    _dir: Option<TemporaryDir>,
}

/// The properties of a running server.
#[derive(Debug)]
struct Started {
    address: SocketAddr,
    stop: Arc<Stop>,
}

impl Server {
    /// Starts a server, and returns when it has loaded its data and serves. The error says why it does not.
    pub fn start(mut config: Config) -> Result<Self, String> {
        let dir = config.take_temporary_dir();
        let (started, when_started) = mpsc::channel();
        let is_ready = Box::new(move |server: &crate::state::Server| {
            let address = server.listening.addresses().first().copied();
            let address = address.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            // The starting thread waits for this.
            let _ = started.send(Started { address, stop: Arc::clone(&server.stop) });
        });
        let hooks = Hooks { handles_signals: false, is_listening: || Ok(()), is_ready };
        let run = move || run_with(config, Platform::default(), hooks);
        let thread = std::thread::Builder::new().name("shardrace".into()).spawn(run);
        let thread = thread.map_err(|error| format!("can't start a thread: {error}"))?;
        match when_started.recv() {
            Ok(started) => Ok(Self { started, thread: Some(thread), _dir: dir }),
            // It has ended.
            Err(_) => Err(end_of(thread).err().unwrap_or_else(|| "it was stopped before it served".into())),
        }
    }

    /// Where it accepts connections: the first address of `bind`. A server that only listens on a unix socket has port
    /// 0.
    pub fn address(&self) -> SocketAddr {
        self.started.address
    }

    /// Its TCP port; 0 if it has none.
    pub fn port(&self) -> u16 {
        self.started.address.port()
    }

    /// Makes it end, like SHUTDOWN: it replies to what it has read, makes a last snapshot if it has save points, and
    /// writes its log. Returns at once; see [`wait`](Self::wait).
    pub fn stop(&self) {
        self.started.stop.ask_for_owner();
    }

    /// Waits until it has ended, by [`stop`](Self::stop) or by SHUTDOWN. The error says what was lost.
    pub fn wait(mut self) -> Result<(), String> {
        self.thread.take().map_or(Ok(()), end_of)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop();
            // Callers that need the result use `wait`.
            let _ = end_of(thread);
        }
    }
}

fn end_of(thread: JoinHandle<Result<(), String>>) -> Result<(), String> {
    thread.join().unwrap_or_else(|_| Err("its thread has panicked".into()))
}
