//! A connection that shows every byte.

use super::{Value, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long anything may take before the test fails. Generous: the machine is shared.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A script that runs commands without declaring their keys, and returns their replies.
pub fn script_of(commands: &[Vec<String>]) -> Vec<String> {
    const SCRIPT: &str = "local replies, at = {}, 1
                          while ARGV[at] do
                              local words = {}
                              for word = 1, tonumber(ARGV[at]) do words[word] = ARGV[at + word] end
                              replies[#replies + 1] = redis.call(unpack(words))
                              at = at + #words + 1
                          end
                          return replies";
    let words = commands.iter().flat_map(|words| [vec![words.len().to_string()], words.clone()].concat());
    ["EVAL", SCRIPT, "0"].map(str::to_owned).into_iter().chain(words).collect()
}

/// The bytes of a request.
pub fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A raw connection.
pub struct Client {
    stream: TcpStream,
    /// Bytes that were received but not read yet.
    held: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect_timeout(&address, DEADLINE).unwrap_or_else(|e| panic!("{address}: {e}")))
    }

    /// Connects, unless nothing listens there.
    pub fn connect_if_open(address: SocketAddr) -> Option<Self> {
        TcpStream::connect_timeout(&address, DEADLINE).ok().map(Self::of)
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { stream, held: Vec::new() }
    }

    /// Connects and speaks RESP3.
    pub fn connect_resp3(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        let hello = client.value(&["HELLO", "3"]);
        assert_eq!(hello.field("proto"), Some(&Value::Integer(3)));
        client
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes the bytes");
    }

    /// Sends bytes to a server that reads nothing meanwhile, and waits until they are in its socket. What is sent on
    /// several connections gets there in another order where a processor leaves its packets for later.
    pub fn send_to_the_socket(&mut self, bytes: &[u8]) {
        self.send(bytes);
        let (local, peer) = (self.stream.local_addr(), self.stream.peer_addr());
        let ends = (peer.expect("it is connected"), local.expect("it is connected"));
        wait_until("the server's socket has what was sent", || {
            let mut sockets = procfs::net::tcp().expect("the system's table of sockets").into_iter();
            sockets.any(|socket| (socket.local_address, socket.remote_address) == ends && socket.rx_queue > 0)
        });
    }

    /// Sends bytes; a server that has closed the connection is fine.
    pub fn send_if_open(&mut self, bytes: &[u8]) {
        // The server's reaction shows in its replies.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends many bytes while reading what comes back, so that neither side blocks the other.
    pub fn send_and_hold(&mut self, bytes: &[u8]) {
        let mut writer = self.stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || writer.write_all(bytes));
            while !sent.is_finished() {
                self.stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                self.try_fill();
            }
            sent.join().unwrap().expect("the server takes the bytes");
        });
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
    }

    /// The next reply, byte for byte.
    pub fn reply(&mut self) -> Vec<u8> {
        let start = Instant::now();
        loop {
            if let Some((_, len)) = Value::parse(&self.held) {
                return self.held.drain(..len).collect();
            }
            assert!(start.elapsed() < DEADLINE, "no whole reply: {:?}", self.held.escape_ascii().to_string());
            self.fill();
        }
    }

    /// The next reply, parsed.
    pub fn value_of_next(&mut self) -> Value {
        Value::of(&self.reply())
    }

    /// The next replies, parsed.
    pub fn values(&mut self, count: usize) -> Vec<Value> {
        let mut values = Vec::with_capacity(count);
        let mut start = 0;
        while values.len() < count {
            match Value::parse(&self.held[start..]) {
                Some((value, len)) => {
                    values.push(value);
                    start += len;
                }
                None => {
                    self.held.drain(..start);
                    start = 0;
                    self.fill();
                }
            }
        }
        self.held.drain(..start);
        values
    }

    /// The reply to a request, byte for byte.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Vec<u8> {
        self.send(&request(arguments));
        self.reply()
    }

    /// The reply to a request, parsed.
    pub fn value<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        Value::of(&self.call(arguments))
    }

    /// The replies to requests that are sent all at once.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, requests: &[Vec<A>]) -> Vec<Value> {
        let bytes: Vec<u8> = requests.iter().flat_map(|arguments| request(arguments)).collect();
        self.send_and_hold(&bytes);
        self.values(requests.len())
    }

    /// Checks the reply to a request written as words.
    #[track_caller]
    pub fn expect(&mut self, line: &str, reply: &str) {
        let got = self.call(&super::words(line));
        assert_eq!(got.escape_ascii().to_string(), reply.as_bytes().escape_ascii().to_string(), "reply to {line}");
    }

    /// Everything that comes until the server closes the connection.
    pub fn until_closed(&mut self) -> Vec<u8> {
        let start = Instant::now();
        while self.try_fill() {
            assert!(start.elapsed() < DEADLINE, "the connection is still open");
        }
        std::mem::take(&mut self.held)
    }

    /// Whether the server has closed the connection, without waiting for it.
    pub fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let is_open = self.try_fill();
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        !is_open
    }

    /// Whether nothing unexpected has come.
    pub fn is_silent(&mut self) -> bool {
        !self.is_closed() && self.held.is_empty()
    }

    fn fill(&mut self) {
        let before = self.held.len();
        let is_open = self.try_fill();
        assert!(is_open, "the connection is closed after {:?}", self.held.escape_ascii().to_string());
        assert!(
            self.held.len() > before,
            "no bytes within {DEADLINE:?} after {:?}",
            self.held.escape_ascii().to_string()
        );
    }

    /// Reads once; false at the end of the stream. A timeout returns true with nothing read. A signal does not end the
    /// wait: if another test stops its server (SIGSTOP) this process receives SIGCHLD, and some kernels interrupt reads
    /// then.
    fn try_fill(&mut self) -> bool {
        let mut buffer = [0; 256 * 1024];
        loop {
            return match self.stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(len) => {
                    self.held.extend_from_slice(&buffer[..len]);
                    true
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => true,
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => false,
                Err(error) => panic!("reading: {error}"),
            };
        }
    }
}

impl Client {
    /// A connection over an existing socket.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { stream, held: Vec::new() }
    }

    /// The next replies, unless the server closes the connection first.
    pub fn values_if_open(&mut self, count: usize) -> Option<Vec<Value>> {
        let start = Instant::now();
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            assert!(start.elapsed() < DEADLINE, "{} of {count} replies within {DEADLINE:?}", values.len());
            match Value::parse(&self.held) {
                Some((value, len)) => {
                    self.held.drain(..len);
                    values.push(value);
                }
                None if self.try_fill() => {}
                None => return None,
            }
        }
        Some(values)
    }

    /// The next reply, or what had come when the server closed the connection.
    pub fn until_closed_or_reply(&mut self) -> Vec<u8> {
        while Value::parse(&self.held).is_none() && self.try_fill() {}
        std::mem::take(&mut self.held)
    }
}
