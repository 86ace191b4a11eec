//! How the threads of a run sent and received.

use std::fmt;

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
