//! How the threads send and receive: io_uring if the kernel permits it, which takes less CPU, and epoll otherwise.

use std::fmt;
use std::io;
use std::thread;

use clap::ValueEnum;

use crate::Error;
use crate::config::Config;
use crate::worker::check_io_uring;

/// What `--io` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoChoice {
    /// For a closed loop io_uring, where the kernel has it and allows it; epoll elsewhere.
    Auto,
    /// epoll.
    Epoll,
    /// io_uring, or an error.
    #[value(name = "io_uring")]
    IoUring,
}

impl IoChoice {
    /// As `--io` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// What a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    /// A wait, a read and a write are a system call each.
    Epoll {
        /// Why not io_uring, if it was asked about.
        refusal: Option<String>,
    },
    /// One system call handles a thread's outgoing and incoming bytes together.
    IoUring,
}

impl Io {
    /// The method for a run of this configuration, on this machine.
    pub(crate) fn choose(config: &Config) -> Result<Self, Error> {
        match config.io {
            // Connecting uses other calls, which gain nothing there.
            _ if config.connect_storm => Ok(Self::Epoll { refusal: None }),
            IoChoice::Epoll => Ok(Self::Epoll { refusal: None }),
            // At a rate it saves next to nothing (docs/results/generator-cost.md).
            IoChoice::Auto if config.rate.is_some() => Ok(Self::Epoll { refusal: None }),
            IoChoice::Auto => {
                Ok(io_uring_refusal()
                    .map_or(Self::IoUring, |refusal| Self::Epoll { refusal: Some(refusal.to_string()) }))
            }
            IoChoice::IoUring => match io_uring_refusal() {
                None => Ok(Self::IoUring),
                Some(source) => Err(Error::system("use io_uring, as --io asks for", source)),
            },
        }
    }

    /// As `--io` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll { .. } => "epoll",
            Self::IoUring => "io_uring",
        }
    }

    /// Why it is not io_uring, if that was considered.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Epoll { refusal } => refusal.as_deref(),
            Self::IoUring => None,
        }
    }
}

impl fmt::Display for Io {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal() {
            Some(refusal) => write!(out, "{} (no io_uring: {refusal})", self.name()),
            None => out.write_str(self.name()),
        }
    }
}

/// Why io_uring cannot be used here: a kernel before 6.1, a container's filter, an administrator.
///
/// It is tried on a thread of its own: the kernel removes a ring a moment later, and interrupts the calls of the thread
/// that made it.
pub fn io_uring_refusal() -> Option<io::Error> {
    thread::spawn(check_io_uring).join().expect("errors are returned").err()
}
