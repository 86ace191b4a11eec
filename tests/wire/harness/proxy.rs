//! A link that can be cut: between a replica and its master.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Listens for a replica, and passes on what it and its master send, until it is told to cut the link.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    master: SocketAddr,
    /// Bytes from the master after which the link is cut; 0 for never.
    left: AtomicU64,
    cuts: AtomicU64,
    is_stalled: AtomicBool,
    links: Mutex<Vec<(TcpStream, TcpStream)>>,
}

impl Proxy {
    /// One in front of a server.
    pub fn to(master: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            master,
            left: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
            links: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for replica in listener.incoming().flatten() {
                accepting.begin(replica);
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the link that is, or comes, after so many bytes from the master.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.left.store(bytes.max(1), Ordering::SeqCst);
    }

    /// How often it was cut.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Passes nothing of what the master sends on any more, and keeps the link.
    pub fn stall(&self) {
        self.shared.is_stalled.store(true, Ordering::SeqCst);
    }

    /// Passes on again what the master sends.
    pub fn resume(&self) {
        self.shared.is_stalled.store(false, Ordering::SeqCst);
    }
}

impl Shared {
    fn begin(self: &Arc<Self>, replica: TcpStream) {
        let Ok(master) = TcpStream::connect(self.master) else { return };
        let (master_too, replica_too) = (master.try_clone().unwrap(), replica.try_clone().unwrap());
        self.links.lock().unwrap().push((master.try_clone().unwrap(), replica.try_clone().unwrap()));
        let shared = Arc::clone(self);
        std::thread::spawn(move || shared.pass_down(master, replica));
        std::thread::spawn(move || pass_up(replica_too, master_too));
    }

    fn pass_down(&self, mut master: TcpStream, mut replica: TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = master.read(&mut buffer) {
            while self.is_stalled.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let left = self.left.load(Ordering::SeqCst);
            let passed = if left > 0 { len.min(left as usize) } else { len };
            if replica.write_all(&buffer[..passed]).is_err() {
                break;
            }
            if left > 0 {
                self.left.store(left - passed as u64, Ordering::SeqCst);
                if left == passed as u64 {
                    self.cuts.fetch_add(1, Ordering::SeqCst);
                    break;
                }
            }
        }
        close(&master, &replica);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.resume();
        self.shared.links.lock().unwrap().iter().for_each(|(one, other)| close(one, other));
    }
}

fn pass_up(mut replica: TcpStream, mut master: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = replica.read(&mut buffer) {
        if master.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    close(&master, &replica);
}

/// What is closed already stays closed.
fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
