//! How the threads send and receive: io_uring if the kernel permits it, which takes less CPU, and epoll otherwise.

use std::io;
use std::thread;

use super::worker::check_io_uring;
use crate::base::Error;
use crate::cli::IoChoice;
use crate::config::Config;
use crate::record::Io;

/// The method for a run of this configuration, on this machine.
pub(super) fn choose(config: &Config) -> Result<Io, Error> {
    match config.io {
        // Connecting uses other calls, which gain nothing there.
        _ if config.connect_storm => Ok(Io::Epoll { refusal: None }),
        IoChoice::Epoll => Ok(Io::Epoll { refusal: None }),
        // At a rate it saves next to nothing (docs/results/generator-cost.md).
        IoChoice::Auto if config.rate.is_some() => Ok(Io::Epoll { refusal: None }),
        IoChoice::Auto => {
            Ok(io_uring_refusal().map_or(Io::IoUring, |refusal| Io::Epoll { refusal: Some(refusal.to_string()) }))
        }
        IoChoice::IoUring => match io_uring_refusal() {
            None => Ok(Io::IoUring),
            Some(source) => Err(Error::system("use io_uring, as --io asks for", source)),
        },
    }
}

/// Why io_uring cannot be used here: a kernel before 6.1, a container's filter, an administrator.
///
/// It is tried on a thread of its own: the kernel removes a ring a moment later, and interrupts the calls of the thread
/// that made it.
pub fn io_uring_refusal() -> Option<io::Error> {
    thread::spawn(check_io_uring).join().expect("errors are returned").err()
}
