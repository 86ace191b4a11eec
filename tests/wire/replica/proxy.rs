//! A network between a replica and its master, which can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Passes on what comes, until it is told to cut.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    /// Bytes of the master that still come through; negative for no end.
    left: AtomicI64,
    links: Mutex<Vec<TcpStream>>,
    accepted: AtomicUsize,
    /// Whether nothing is passed on, though links stay as they are.
    is_silent: AtomicBool,
    has_ended: AtomicBool,
}

impl Proxy {
    /// One in front of a server.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target,
            left: AtomicI64::new(-1),
            links: Mutex::default(),
            accepted: AtomicUsize::new(0),
            is_silent: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.has_ended.load(Ordering::Relaxed) {
                    break;
                }
                accepting.link(stream.unwrap());
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often somebody has connected.
    pub fn links(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Cuts all links when so many bytes more of the master have come through.
    pub fn cut_after(&self, bytes: i64) {
        self.shared.left.store(bytes, Ordering::Relaxed);
    }

    /// Cuts all links now.
    pub fn cut(&self) {
        for link in self.shared.links.lock().unwrap().drain(..) {
            // It may be cut already.
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Passes nothing on for a while, or goes on.
    pub fn set_silent(&self, is_silent: bool) {
        self.shared.is_silent.store(is_silent, Ordering::Relaxed);
    }
}

impl Shared {
    fn link(self: &Arc<Self>, replica: TcpStream) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let Ok(master) = TcpStream::connect(self.target) else { return };
        self.links.lock().unwrap().extend([replica.try_clone().unwrap(), master.try_clone().unwrap()]);
        let (to_master, to_replica) = (master.try_clone().unwrap(), replica.try_clone().unwrap());
        let (here, there) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || here.pass(replica, to_master, false));
        std::thread::spawn(move || there.pass(master, to_replica, true));
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_of_master: bool) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            while self.is_silent.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let passed = if is_of_master { self.take(len) } else { len };
            if to.write_all(&buffer[..passed]).is_err() || passed < len {
                break;
            }
        }
        // The other end may have been first.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// How many of these bytes come through.
    fn take(&self, len: usize) -> usize {
        let left = self.left.load(Ordering::Relaxed);
        if left < 0 {
            return len;
        }
        let passed = left.min(len as i64);
        // At the end the next link has no end again.
        let next = if passed < len as i64 { -1 } else { left - passed };
        self.left.store(next, Ordering::Relaxed);
        passed as usize
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}
