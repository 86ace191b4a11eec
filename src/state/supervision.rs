//! `supervised`: notifies the process that started the server when it is ready.
//!
//! systemd receives a datagram (`READY=1`) on the socket that `NOTIFY_SOCKET` names; for upstart the process stops
//! itself, and upstart lets it continue.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The supervisor to notify.
#[derive(Debug)]
pub enum Supervisor {
    /// None.
    None,
    /// systemd, on the socket at this address.
    Systemd(SocketAddr),
    /// upstart.
    Upstart,
}

impl Supervisor {
    /// The supervisor that a value of the directive `supervised` and the environment name; `None` if it is not there.
    pub fn find(mode: &str) -> Self {
        let is_asked = |name: &str| mode == name || mode == "auto";
        if is_asked("upstart") && std::env::var_os("UPSTART_JOB").is_some() {
            return Self::Upstart;
        }
        if is_asked("systemd")
            && let Some(name) = std::env::var_os("NOTIFY_SOCKET")
        {
            return match address(&name) {
                Ok(address) => Self::Systemd(address),
                Err(error) => {
                    tracing::warn!("systemd supervision requested, but NOTIFY_SOCKET is no address: {error}");
                    Self::None
                }
            };
        }
        match mode {
            "systemd" => tracing::warn!("systemd supervision requested, but NOTIFY_SOCKET not found"),
            "upstart" => tracing::warn!("upstart supervision requested, but UPSTART_JOB not found"),
            _ => {}
        }
        Self::None
    }

    /// Its name in INFO.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "no",
            Self::Systemd(_) => "systemd",
            Self::Upstart => "upstart",
        }
    }

    /// Notifies that the data is loaded.
    pub fn loading(&self) {
        self.notify("STATUS=Redis is loading...\n");
    }

    /// Notifies that the server accepts commands.
    pub fn ready(&self) {
        if let Self::Upstart = self {
            tracing::info!("supervised by upstart, will stop to signal readiness");
            let stopped = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
            stopped.unwrap_or_else(|error| tracing::warn!("Can't stop to signal readiness: {error}"));
        }
        self.notify("STATUS=Ready to accept connections\nREADY=1\n");
    }

    /// Notifies that the server ends.
    pub fn stopping(&self) {
        self.notify("STOPPING=1\n");
    }

    fn notify(&self, message: &str) {
        let Self::Systemd(address) = self else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(message.as_bytes(), address));
        if let Err(error) = sent {
            tracing::warn!("Can't send notification to systemd: {error}");
        }
    }
}

/// A path, or, after an `@`, a name that is in no file system.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        Some((b'/', _)) => SocketAddr::from_pathname(name),
        _ => Err(io::Error::other(format!("{name:?} is neither a path nor an abstract name"))),
    }
}
