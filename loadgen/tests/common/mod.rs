//! A stub server whose behaviour is known exactly, and a way to run the binary that cannot hang.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loadgen::resp::{ReplyScanner, Scanned};

const RUN_TIME_MAX: Duration = Duration::from_secs(60);

/// The ways of `--io` that this machine has. Where one is refused, the test says so and does without.
pub fn ways() -> Vec<&'static str> {
    match loadgen::io_uring_refusal() {
        None => vec!["epoll", "io_uring"],
        Some(refusal) => {
            println!("io_uring is refused here, and not tested: {refusal}");
            vec!["epoll"]
        }
    }
}

/// Flags, and the way.
pub fn by<'a>(io: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [flags, &["--io", io]].concat()
}

/// What the stub does; the default answers like a server with an empty keyspace.
#[derive(Clone, Default)]
pub struct Behaviour {
    /// Once this many requests were read, no connection gets a reply for this long.
    pub stall: Option<(u64, Duration)>,
    /// Every reply is late by this much.
    pub delay: Duration,
    /// Those on the first connection are late by this much more.
    pub delay_first: Duration,
    /// After this many requests the connection is closed.
    pub close_after: Option<u64>,
    /// Sent instead of any reply to the commands of a load.
    pub reply: Option<&'static [u8]>,
    /// Requests are read and never answered.
    pub silent: bool,
    /// This SET, counted from 1, is answered and not kept.
    pub lost_set: Option<u64>,
    /// Replies are written byte by byte.
    pub bytewise: bool,
}

/// What the stub saw.
#[derive(Default)]
pub struct Seen {
    /// Requests by command name.
    pub counts: HashMap<String, u64>,
    /// The requests themselves, other than those of a load.
    pub control: Vec<Vec<String>>,
    /// Keys that were SET or read.
    pub keys: HashSet<String>,
    /// The keys of each MSET and MGET.
    pub together: Vec<Vec<String>>,
    stored: HashMap<String, String>,
    requests: u64,
    stalled_until: Option<Instant>,
}

impl Seen {
    fn store(&mut self, pairs: &[String]) {
        for pair in pairs.chunks(2) {
            self.keys.insert(pair[0].clone());
            self.stored.insert(pair[0].clone(), pair[1].clone());
        }
        if pairs.len() > 2 {
            self.together.push(pairs.iter().step_by(2).cloned().collect());
        }
    }

    fn look_up(&mut self, key: &str) -> String {
        self.keys.insert(key.to_owned());
        let value = self.stored.get(key);
        value.map_or("$-1\r\n".to_owned(), |value| format!("${}\r\n{value}\r\n", value.len()))
    }
}

/// A server on a free port of 127.0.0.1. Its threads end with the test's process.
pub struct Stub {
    pub port: u16,
    seen: Arc<Mutex<Seen>>,
}

impl Stub {
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (mut behaviour, seen) = (behaviour.clone(), Arc::clone(&shared));
                if number == 0 {
                    behaviour.delay += behaviour.delay_first;
                }
                thread::spawn(move || serve(stream, &behaviour, &seen));
            }
        });
        Self { port, seen }
    }

    pub fn count(&self, command: &str) -> u64 {
        self.seen.lock().unwrap().counts.get(command).copied().unwrap_or(0)
    }

    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }
}

/// Ends when the client goes away, whichever way it does.
fn serve(stream: TcpStream, behaviour: &Behaviour, seen: &Mutex<Seen>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let request = read_request(&mut reader)?;
        let (reply, wait_until) = answer(request, behaviour, &mut seen.lock().unwrap())?;
        if let Some(until) = wait_until {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        thread::sleep(behaviour.delay);
        if behaviour.silent {
            continue;
        }
        if behaviour.bytewise {
            reply.iter().try_for_each(|byte| writer.write_all(&[*byte])).ok()?;
        } else {
            writer.write_all(&reply).ok()?;
        }
    }
}

/// The reply, and until when it is held back; none when the connection is to be closed.
fn answer(request: Vec<String>, behaviour: &Behaviour, seen: &mut Seen) -> Option<(Vec<u8>, Option<Instant>)> {
    *seen.counts.entry(request[0].clone()).or_default() += 1;
    let reply = match request[0].as_str() {
        "SET" | "MSET" => {
            if behaviour.lost_set != Some(seen.counts[&request[0]]) {
                seen.store(&request[1..]);
            }
            b"+OK\r\n".to_vec()
        }
        "DEL" => {
            let deleted = request[1..].iter().filter(|key| seen.stored.remove(*key).is_some()).count();
            format!(":{deleted}\r\n").into_bytes()
        }
        "GET" => seen.look_up(&request[1]).into_bytes(),
        "MGET" => {
            seen.together.push(request[1..].to_vec());
            let values: String = request[1..].iter().map(|key| seen.look_up(key)).collect();
            format!("*{}\r\n{values}", request.len() - 1).into_bytes()
        }
        _ => {
            seen.control.push(request);
            return Some((b"+OK\r\n".to_vec(), None));
        }
    };
    seen.requests += 1;
    if behaviour.close_after.is_some_and(|requests| seen.requests > requests) {
        return None;
    }
    if let Some((requests, length)) = behaviour.stall
        && seen.requests == requests
    {
        seen.stalled_until = Some(Instant::now() + length);
    }
    Some((behaviour.reply.map_or(reply, <[u8]>::to_vec), seen.stalled_until))
}

fn read_request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = read_number(reader, '*')?;
    (0..count)
        .map(|_| {
            let mut argument = vec![0; read_number(reader, '$')? + 2];
            reader.read_exact(&mut argument).ok()?;
            argument.truncate(argument.len() - 2);
            String::from_utf8(argument).ok()
        })
        .collect()
}

fn read_number(reader: &mut impl BufRead, prefix: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.strip_prefix(prefix)?.trim_end().parse().ok()
}

/// Runs the binary; one that is not done in a minute hangs, and fails the test.
pub fn loadgen(arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > RUN_TIME_MAX {
            child.kill().expect("our child");
            panic!("loadgen {arguments:?} hangs");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child")
}

/// Runs the binary against the stub and returns its JSON, which also must be a success.
pub fn measure(stub: &Stub, arguments: &[&str]) -> serde_json::Value {
    measure_at(stub.port, arguments)
}

/// Runs the binary against the stub, expects exit code 1, and returns what it said.
pub fn failure(stub: &Stub, arguments: &[&str]) -> String {
    let output = loadgen(&[&["-p", &stub.port.to_string()], arguments].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Stands between the generator and a server, and changes one reply: the `nth` to `command`, counted
/// from 1, where it is one that [`changed`] finds something to change in; otherwise the first after it.
///
/// It takes one connection at a time, which waits for each reply before it sends again.
pub fn tampering(server: u16, command: &'static str, nth: u64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        let mut left = nth;
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", server)).expect("a server");
            tamper(client, server, command, &mut left);
        }
    });
    port
}

/// Ends when one of the two goes away.
fn tamper(mut client: TcpStream, mut server: TcpStream, command: &str, left: &mut u64) -> Option<()> {
    let (mut replies, mut scanner) = (vec![0; 1 << 20], ReplyScanner::new());
    loop {
        // A request is an array of bulk strings, which ends where the scanner says.
        let request = one(&mut client, &mut replies, &mut scanner)?;
        let name = format!("\n{command}\r\n");
        let is_it = request.windows(name.len()).take(20).any(|window| window == name.as_bytes());
        server.write_all(&request).ok()?;
        let mut reply = one(&mut server, &mut replies, &mut scanner)?;
        if is_it && *left > 0 {
            *left -= 1;
            if *left == 0 && !change(&mut reply) {
                *left = 1;
            }
        }
        client.write_all(&reply).ok()?;
    }
}

/// One request or reply; nothing may follow it.
fn one(from: &mut TcpStream, buffer: &mut [u8], scanner: &mut ReplyScanner) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let length = from.read(buffer).ok().filter(|length| *length > 0)?;
        all.extend_from_slice(&buffer[..length]);
        if let Scanned::Reply { length: whole, .. } = scanner.scan(&buffer[..length]).ok()? {
            assert_eq!(whole, length, "one at a time");
            return Some(all);
        }
    }
}

/// Changes the last digit or letter of a reply, other than those of its lengths; says whether it has any.
fn change(reply: &mut [u8]) -> bool {
    let last = reply.len() - 3;
    let line = reply[..last].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if matches!(reply[line], b'$' | b'*' | b'%' | b'~') || !reply[last].is_ascii_alphanumeric() {
        return false;
    }
    reply[last] = if reply[last] == b'1' { b'2' } else { b'1' };
    true
}

/// A redis-server of our own on a free port, ended with the test.
pub struct Redis {
    pub port: u16,
    child: std::process::Child,
    _directory: tempfile::TempDir,
}

impl Redis {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (make test-tools)");
        let began = Instant::now();
        while !is_served_by(port, child.id()) {
            if child.try_wait().expect("the child is ours").is_some() {
                // Another test took the port meanwhile.
                return Self::start();
            }
            assert!(began.elapsed() < Duration::from_secs(20), "redis-server does not accept on port {port}");
            thread::sleep(Duration::from_millis(10));
        }
        Self { port, child, _directory: directory }
    }
}

/// Whether it is this process that answers there.
fn is_served_by(port: u16, process: u32) -> bool {
    let answer = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"INFO server\r\nQUIT\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    answer().is_ok_and(|answer: String| answer.contains(&format!("process_id:{process}\r")))
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the binary against any port of this host and returns its JSON, which also must be a success.
pub fn measure_at(port: u16, arguments: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("out.json");
    let port = port.to_string();
    let file_name = file.to_str().expect("UTF-8");
    let output = loadgen(&[&["-p", &port, "--json-out-file", file_name], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_str(&std::fs::read_to_string(&file).expect("written")).expect("JSON")
}
