//! Errors of the environment, with the address or path where they happened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run, or a comparison, ended early. Every message names its place; the binary prints it
/// and exits with 1.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Flags that are well-formed one by one, but not together.
    #[error("{0}")]
    Config(String),
    /// Replies that contradict the model of `--verify`.
    #[error("{0}")]
    Mismatch(String),
    /// Ctrl-C, before anything was measured or after all of it was written.
    #[error("interrupted")]
    Interrupted,
    /// The target accepts no connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// host:port
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Reading or writing a socket failed.
    #[error("connection to {address} failed: {source}")]
    Connection {
        /// host:port
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The target closed a connection that was in use.
    #[error("{address} closed the connection")]
    Closed {
        /// host:port
        address: String,
    },
    /// The target sent bytes that are no reply to the request.
    #[error("{address} sent no valid reply: {detail}")]
    Protocol {
        /// host:port
        address: String,
        /// What came instead.
        detail: String,
    },
    /// Requests are outstanding and nothing comes.
    #[error("{address} sent no reply for {seconds} s with {outstanding} requests outstanding")]
    Silent {
        /// host:port
        address: String,
        /// How long the generator waited.
        seconds: f64,
        /// Requests without a reply, on the thread that noticed.
        outstanding: u64,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file can be read, but has the wrong contents.
    #[error("{}: {detail}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The machine refuses something the generator needs (a thread, a timer, an epoll instance).
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn connect(address: &str, source: io::Error) -> Self {
        Error::Connect { address: address.to_owned(), source }
    }

    pub(crate) fn connection(address: &str, source: io::Error) -> Self {
        Error::Connection { address: address.to_owned(), source }
    }

    pub(crate) fn closed(address: &str) -> Self {
        Error::Closed { address: address.to_owned() }
    }

    pub(crate) fn protocol(address: &str, detail: String) -> Self {
        Error::Protocol { address: address.to_owned(), detail }
    }

    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Error::File { path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, detail: impl Into<String>) -> Self {
        Error::Format { path: path.to_owned(), detail: detail.into() }
    }

    pub(crate) fn system(what: &'static str, source: io::Error) -> Self {
        Error::System { what, source }
    }
}

/// The error of a flag whose value is not accepted.
pub(crate) fn invalid<T>(flag: &str, value: impl fmt::Display, why: impl fmt::Display) -> Result<T, Error> {
    Err(Error::Config(format!("invalid value '{value}' for '{flag}': {why}")))
}
