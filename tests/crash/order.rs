//! No reply before its fsync, as the operating system sees it: strace shows when a record was written, when an fsync
//! that covers it was done, and when a reply was sent that acknowledges or shows it.
//!
//! Every write carries a token, which strace shows in the request, in the log and in the reply to each reader.

use harness::server::{arguments, binary};
use harness::{
    Client, Data, EVERY_ENGINE, Server, Setup, another_batching, other_placements, request, seed, wait_until,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The order of replies in a trace.
#[derive(Debug, Default)]
struct Order {
    /// Replies to writes.
    acknowledged: usize,
    /// Replies that acknowledged or showed a write before an fsync that covers it in every segment.
    violations: Vec<String>,
    /// fsyncs of segments during the writes.
    fsyncs: usize,
}

/// Starts a server under strace, which writes to this file.
fn start_traced(setup: Setup, flags: &[&str], trace: &Path) -> Server {
    let version = Command::new("strace").arg("-V").output();
    assert!(version.is_ok_and(|output| output.status.success()), "the test needs strace: install the package strace");
    let data = Data::new();
    let mut command = Command::new("strace");
    // -D: the server is the child, and strace the grandchild, so that killing the child kills the server.
    command.args(["-D", "-f", "-q", "-y", "-s", "100000"]);
    command.args(["-e", "trace=recvfrom,sendto,pwrite64,fsync,fdatasync", "-o"]);
    command.arg(trace).arg(binary()).args(arguments(&data, setup)).args(flags).env_remove("RUST_LOG");
    // If ptrace is not permitted strace says so on stderr, and the panic repeats it.
    Server::spawn(&mut command, data, setup)
}

/// A power loss must not take a level of the path to the log.
#[test]
fn every_level_of_a_directory_that_a_start_makes_is_synced_before_the_server_serves() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, base) = (dir.path().join("trace"), dir.path().canonicalize().unwrap());
    let path = base.join("a/b/c");
    let flags = ["--dir", path.to_str().unwrap()];
    let server = start_traced(EVERY_ENGINE[0], &flags, &trace);
    server.stop();
    assert!(path.join("appendonlydir").is_dir(), "it was made elsewhere");
    let text = || std::fs::read_to_string(&trace).unwrap();
    wait_until("strace has written everything", || text().contains("exited with"));
    for level in [&base, &base.join("a"), &base.join("a/b"), &path] {
        let wanted = format!("<{}>", level.display());
        let is_sync = |line: &str| line.contains("fsync(") && line.contains(&wanted);
        assert!(text().lines().any(is_sync), "{} is not synced: {}", level.display(), text());
    }
}

/// Writes and reads over so many connections, and checks what the server did.
fn order_of(setup: Setup, flags: &[&str], clients: usize, writes: usize) -> Order {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let server = start_traced(setup, flags, &trace);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let mut connection = server.client();
            scope.spawn(move || (0..writes).for_each(|write| take_step(&mut connection, client, clients, write)));
        }
    });
    assert!(server.stop().0.success());
    let is_whole = || std::fs::read_to_string(&trace).is_ok_and(|text| text.contains("+++ exited with 0 +++"));
    wait_until("strace has written everything", is_whole);
    let order = Reader::read(&String::from_utf8_lossy(&std::fs::read(&trace).unwrap()));
    assert_eq!(order.acknowledged, clients * writes, "the trace shows every reply");
    order
}

/// A write with a token, of some kind, and a read of others' writes.
fn take_step(connection: &mut Client, client: usize, clients: usize, write: usize) {
    let token = format!("<{client}.{write}>");
    let group = |name: &str| (0..4).map(|number| format!("{name}{number}:{client}")).collect::<Vec<_>>();
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let requests: Vec<Vec<String>> = match write % 5 {
        0 => {
            let pairs = group("mset").into_iter().flat_map(|key| [key, token.clone()]);
            vec![["MSET".to_owned()].into_iter().chain(pairs).collect()]
        }
        1 => {
            let sets = group("multi").into_iter().map(|key| words(format!("SET {key} {token}")));
            [vec!["MULTI".to_owned()]].into_iter().chain(sets).chain([vec!["EXEC".to_owned()]]).collect()
        }
        _ => vec![words(format!("SET key:{client} {token}"))],
    };
    connection.send(&requests.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
    connection.values(requests.len());
    if write.is_multiple_of(3) {
        connection.call(&["GET", &format!("key:{}", (client + 1) % clients)]);
    }
}

/// Reads a trace, line by line.
#[derive(Default)]
struct Reader {
    /// Calls that have not returned, by thread: the beginning, and the tokens that they sync.
    open: BTreeMap<String, (String, BTreeSet<String>)>,
    /// Where each token was written and not synced, by segment.
    dirty: BTreeMap<String, BTreeSet<String>>,
    /// The line at which a token was synced in a segment; `None` until then.
    synced: BTreeMap<String, BTreeMap<String, Option<usize>>>,
    /// The token that a connection's reply will acknowledge.
    asked: BTreeMap<String, String>,
    /// The last line at which the reply to a token was sent.
    replied: BTreeMap<String, usize>,
    /// Tokens that were shown to others, and at which line.
    shown: Vec<(String, usize)>,
    /// Lines at which an fsync of a segment was done.
    fsyncs: Vec<usize>,
}

impl Reader {
    fn read(trace: &str) -> Order {
        let mut reader = Self::default();
        for (number, line) in trace.lines().enumerate() {
            let (thread, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim_start();
            if let Some((_, end)) = rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
                let (begun, syncs) = reader.open.remove(thread).unwrap_or_else(|| panic!("nothing to resume: {line}"));
                reader.end(number, &begun, end, syncs);
            } else if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
                let syncs = reader.begin(number, begun);
                reader.open.insert(thread.to_owned(), (begun.to_owned(), syncs));
            } else {
                let syncs = reader.begin(number, rest);
                reader.end(number, rest, rest, syncs);
            }
        }
        reader.judge()
    }

    /// Begins a call; returns the tokens that it syncs if it succeeds.
    fn begin(&mut self, number: usize, call: &str) -> BTreeSet<String> {
        let file = file_of(call);
        if is_call(call, &["fsync", "fdatasync"]) {
            return self.dirty.get(file).cloned().unwrap_or_default();
        }
        if is_call(call, &["sendto"]) {
            if let Some(token) = self.asked.get(file) {
                self.replied.insert(token.clone(), number);
            }
            self.shown.extend(tokens_of(call).map(|token| (token, number)));
        }
        BTreeSet::new()
    }

    /// Ends a call that began so.
    fn end(&mut self, number: usize, begun: &str, end: &str, syncs: BTreeSet<String>) {
        let file = file_of(begun).to_owned();
        if is_call(begun, &["recvfrom"]) {
            if let Some(token) = tokens_of(end).next() {
                self.asked.insert(file, token);
            } else if end.contains("GET") {
                self.asked.remove(&file);
            }
        } else if is_call(begun, &["pwrite64"]) && file.contains(".aof") {
            for token in tokens_of(begun) {
                self.dirty.entry(file.clone()).or_default().insert(token.clone());
                self.synced.entry(token).or_default().entry(file.clone()).or_insert(None);
            }
        } else if is_call(begun, &["fsync", "fdatasync"]) && file.contains(".aof") && end.ends_with("= 0") {
            self.fsyncs.push(number);
            for token in syncs {
                self.synced.get_mut(&token).unwrap().get_mut(&file).unwrap().get_or_insert(number);
                self.dirty.get_mut(&file).unwrap().remove(&token);
            }
        }
    }

    fn judge(self) -> Order {
        let is_synced = |token: &String, at: usize| {
            let segments = self.synced.get(token);
            segments.is_some_and(|segments| segments.values().all(|synced| synced.is_some_and(|line| line < at)))
        };
        let replies = self.replied.iter().map(|(token, at)| (token, *at, "acknowledged"));
        let shown = self.shown.iter().map(|(token, at)| (token, *at, "shown"));
        let violations = replies.chain(shown).filter(|(token, at, _)| !is_synced(token, *at));
        let (first, last) = (self.replied.values().min(), self.replied.values().max());
        let in_between =
            |line: &&usize| first.is_some_and(|first| *line > first) && last.is_some_and(|last| *line < last);
        Order {
            acknowledged: self.replied.len(),
            violations: violations.map(|(token, at, how)| format!("{token} {how} at line {at}")).collect(),
            fsyncs: self.fsyncs.iter().filter(in_between).count(),
        }
    }
}

fn is_call(call: &str, names: &[&str]) -> bool {
    call.split_once('(').is_some_and(|(name, _)| names.contains(&name))
}

/// The first argument, a file or a socket: `7</tmp/x/chain-1.segment-0.aof>`.
fn file_of(call: &str) -> &str {
    let arguments = call.split_once('(').map_or("", |(_, arguments)| arguments);
    arguments.split([',', ')', ' ']).next().unwrap_or_default()
}

/// The tokens in a piece of a trace: `<3.14>`. Files are in such brackets, too, but numbers are not.
fn tokens_of(text: &str) -> impl Iterator<Item = String> {
    let is_token = |piece: &&str| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        piece.split_once('.').is_some_and(|(client, write)| number(client) && number(write))
    };
    let pieces = text.split('<').skip(1).filter_map(|piece| piece.split_once('>')).map(|(piece, _)| piece);
    pieces.filter(is_token).map(str::to_owned).collect::<BTreeSet<_>>().into_iter()
}

const ALWAYS: [&str; 2] = ["--appendfsync", "always"];

#[test]
fn under_always_no_reply_is_sent_before_its_fsync() {
    for setup in EVERY_ENGINE {
        for (clients, writes) in [(1, 60), (50, 12)] {
            let order = order_of(setup, &ALWAYS, clients, writes);
            let Order { acknowledged, violations, fsyncs } = &order;
            println!(
                "{setup:?}, {clients} clients: {fsyncs} fsyncs for {acknowledged} writes, {:.2} for each",
                *fsyncs as f64 / *acknowledged as f64
            );
            assert!(violations.is_empty(), "{setup:?}, {clients} clients: {violations:?}");
            assert!(*fsyncs > 0, "{setup:?}: no fsync was seen");
            // Seven logs have seven clients each: a quick disk has synced before the next one comes.
            let has_many_logs = setup.engine == "actor" && setup.shards > 2;
            if clients > 1 && !has_many_logs {
                assert!(*fsyncs < *acknowledged / 2, "{setup:?}: clients do not share fsyncs: {fsyncs}");
            }
        }
    }
}

#[test]
fn under_always_no_reply_is_sent_before_its_fsync_however_the_commands_of_a_read_run() {
    let batching = another_batching(seed());
    println!("{}", batching.join(" "));
    for setup in EVERY_ENGINE {
        let order = order_of(setup, &[&ALWAYS[..], &batching].concat(), 20, 10);
        assert!(order.violations.is_empty() && order.fsyncs > 0, "{setup:?}, {batching:?}: {order:?}");
    }
}

#[test]
fn under_always_no_reply_is_sent_before_its_fsync_wherever_shards_run() {
    for (setup, placement) in other_placements() {
        let order = order_of(setup, &[&ALWAYS[..], &placement].concat(), 20, 10);
        assert!(order.violations.is_empty() && order.fsyncs > 0, "{setup:?}, {placement:?}: {order:?}");
    }
}

#[test]
fn the_trace_shows_replies_that_do_not_wait_for_an_fsync() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[4]] {
        let order = order_of(setup, &["--appendfsync", "everysec"], 4, 30);
        println!("{setup:?}: {} violations in {} writes", order.violations.len(), order.acknowledged);
        assert!(order.violations.len() > 60, "{setup:?}: {order:?}");
    }
}
