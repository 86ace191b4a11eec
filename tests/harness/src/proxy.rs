//! A network between a replica and its master, which can be interrupted.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Listens for a replica, and forwards what it and its master send, until it must cut the link.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    master: SocketAddr,
    /// Bytes from the master after which the link is cut; 0 for never.
    left: AtomicU64,
    cuts: AtomicU64,
    accepted: AtomicUsize,
    /// Whether nothing from the master is forwarded, though links stay open.
    is_stalled: AtomicBool,
    has_ended: AtomicBool,
    links: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy in front of a server.
    pub fn to(master: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            master,
            left: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            accepted: AtomicUsize::new(0),
            is_stalled: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            links: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for replica in listener.incoming() {
                if accepting.has_ended.load(Ordering::SeqCst) {
                    break;
                }
                accepting.link(replica.unwrap());
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there were.
    pub fn links(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Cuts the current link, or the next one, after so many bytes from the master.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.left.store(bytes.max(1), Ordering::SeqCst);
    }

    /// How many links were cut so.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Cuts all links now.
    pub fn cut(&self) {
        self.shared.links.lock().unwrap().drain(..).for_each(|link| close(&link));
    }

    /// Forwards nothing from the master any more, but keeps the link.
    pub fn stall(&self) {
        self.shared.is_stalled.store(true, Ordering::SeqCst);
    }

    /// Forwards bytes from the master again.
    pub fn resume(&self) {
        self.shared.is_stalled.store(false, Ordering::SeqCst);
    }
}

impl Shared {
    fn link(self: &Arc<Self>, replica: TcpStream) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        let Ok(master) = TcpStream::connect(self.master) else { return };
        let (to_master, to_replica) = (master.try_clone().unwrap(), replica.try_clone().unwrap());
        self.links.lock().unwrap().extend([replica.try_clone().unwrap(), master.try_clone().unwrap()]);
        let shared = Arc::clone(self);
        std::thread::spawn(move || pass(master, to_replica, |len| shared.take(len)));
        std::thread::spawn(move || pass(replica, to_master, |len| (len, true)));
    }

    /// How many of so many bytes from the master pass, if some may; and whether the link continues.
    fn take(&self, len: usize) -> (usize, bool) {
        while self.is_stalled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let left = self.left.load(Ordering::SeqCst);
        let passed = if left == 0 { len } else { len.min(left as usize) };
        self.left.store(left.saturating_sub(passed as u64), Ordering::SeqCst);
        let goes_on = left == 0 || left > passed as u64;
        self.cuts.fetch_add(u64::from(!goes_on), Ordering::SeqCst);
        (passed, goes_on)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        self.resume();
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Forwards what comes, as much of it as permitted, until the link must end.
fn pass(mut from: TcpStream, mut to: TcpStream, allowed: impl Fn(usize) -> (usize, bool)) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let (passed, goes_on) = allowed(len);
        if to.write_all(&buffer[..passed]).is_err() || !goes_on {
            break;
        }
    }
    close(&from);
    close(&to);
}

/// A closed link stays closed.
fn close(link: &TcpStream) {
    let _ = link.shutdown(Shutdown::Both);
}
