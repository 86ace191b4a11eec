//! The least a server of GET and SET can cost on one thread: the same parser, table and replies on an epoll loop and on
//! a ring, so that the difference is the kernel interface.
mod epoll;
mod resp;
mod uring;

use std::io;
use std::mem::size_of_val;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Clone, Debug)]
pub struct Options {
    pub io: String,
    pub port: u16,
    /// epoll: edge-triggered.
    pub edge: bool,
    /// epoll: replies leave after all ready connections were read, as in Redis, or at once.
    pub late: bool,
    /// epoll: after a round of fewer than `wait` events it sleeps so long, to find more at once.
    pub nap_usec: u32,
    /// ring: setup flags: plain, coop, single, defer
    pub setup: String,
    pub fixed: bool,
    pub ringfd: bool,
    pub sqarray: bool,
    pub bundle: bool,
    pub incremental: bool,
    pub buffers: u16,
    pub buffer_bytes: usize,
    /// ring: wait for so many completions, at most so many microseconds beyond the first.
    pub wait: usize,
    pub min_usec: u32,
    /// ring: sends complete with a message, or only on failure.
    pub skip: bool,
    /// ring: sends are submitted when so many are queued.
    pub flush: usize,
}

fn main() -> io::Result<()> {
    let mut options = Options {
        io: "epoll".into(),
        port: 7000,
        edge: false,
        late: false,
        nap_usec: 0,
        setup: "defer".into(),
        fixed: false,
        ringfd: false,
        sqarray: true,
        bundle: false,
        incremental: false,
        buffers: 1024,
        buffer_bytes: 4096,
        wait: 1,
        min_usec: 0,
        skip: true,
        flush: 1024,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word.as_str() {
            "--io" => options.io = value(),
            "--port" => options.port = value().parse().expect("a port"),
            "--edge" => options.edge = true,
            "--nap-usec" => options.nap_usec = value().parse().expect("a number"),
            "--late" => options.late = true,
            "--setup" => options.setup = value(),
            "--fixed" => options.fixed = true,
            "--ringfd" => options.ringfd = true,
            "--no-sqarray" => options.sqarray = false,
            "--bundle" => options.bundle = true,
            "--incremental" => options.incremental = true,
            "--buffers" => options.buffers = value().parse().expect("a number"),
            "--buffer-bytes" => options.buffer_bytes = value().parse().expect("a number"),
            "--wait" => options.wait = value().parse().expect("a number"),
            "--min-usec" => options.min_usec = value().parse().expect("a number"),
            "--no-skip" => options.skip = false,
            "--flush" => options.flush = value().parse().expect("a number"),
            _ => panic!("unknown: {word}"),
        }
    }
    let listener = listen(options.port)?;
    match options.io.as_str() {
        "epoll" => epoll::run(listener, &options),
        "uring" => uring::run(listener, &options),
        "features" => uring::features(),
        other => panic!("unknown: {other}"),
    }
}

pub fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn listen(port: u16) -> io::Result<i32> {
    unsafe {
        let fd = check(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0))?;
        let one = 1i32;
        let set = |level, name| {
            check(libc::setsockopt(fd, level, name, (&raw const one).cast(), size_of_val(&one) as u32))
        };
        set(libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
        // Accepted sockets inherit it.
        set(libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        check(libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as u32))?;
        check(libc::listen(fd, 511))?;
        Ok(fd)
    }
}
