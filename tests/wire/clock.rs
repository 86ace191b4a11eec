//! A clock that is set while the server runs: deadlines follow it, in both directions; durations do not.
//!
//! The server is this executable run again, with a clock that reads an offset from a file.

use harness::server::arguments;
use harness::{Client, Data, Server, Setup, Value, on_every_engine_at_once, request, wait_until};
use shardrace::Config;
use shardrace::internals::base::Clock;
use shardrace::internals::config::logging;
use shardrace::internals::server;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const ARGUMENTS: &str = "CLOCK_SERVER_ARGUMENTS";
const HOUR_S: i64 = 3600;
/// The time that a test may take on a busy machine, far less than the clock is set by.
const SLACK_S: i64 = 600;
/// So far before 1970 that the clock cannot represent it.
const BEFORE_1970_S: i64 = -100 * 365 * 24 * HOUR_S;
/// Two periods of the housekeeping: any mistake would show by then.
const TWO_LOOKS: Duration = Duration::from_millis(2_200);

fn offset_file(dir: &Path) -> PathBuf {
    dir.join("clock-offset")
}

/// A server whose clock can be set.
struct Wound {
    server: Server,
    data: Data,
}

impl Wound {
    fn start(data: Data, setup: Setup, flags: &[&str], offset_s: i64) -> Self {
        std::fs::write(offset_file(data.path()), offset_s.to_string()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "clock::server_process", "--ignored", "--nocapture", "--test-threads", "1"]);
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        command.env(ARGUMENTS, [arguments(&data, setup), flags].concat().join("\n")).env_remove("RUST_LOG");
        command.current_dir(data.path()).stdout(Stdio::null());
        let server = Server::spawn(&mut command, data.clone(), setup);
        Self { server, data }
    }

    /// Sets the clock to so many seconds from the right time, and waits until the server uses that.
    fn set_clock(&self, offset_s: i64) {
        // In one step: the server must not read half a number.
        let file = offset_file(self.data.path());
        let new = file.with_extension("new");
        std::fs::write(&new, offset_s.to_string()).unwrap();
        std::fs::rename(&new, &file).unwrap();
        let mut client = self.server.client();
        let wanted = || (now_s() + offset_s).max(0);
        wait_until("the clock is set", || (self.time_s(&mut client) - wanted()).abs() < SLACK_S);
    }

    fn time_s(&self, client: &mut Client) -> i64 {
        client.value(&["TIME"]).elements()[0].text().parse().unwrap()
    }
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// The server. Its clock is the system's plus the offset in the file; times before 1970 are 0.
#[test]
#[ignore = "it is the server that the other tests start, as a process of its own"]
fn server_process() {
    let arguments = std::env::var(ARGUMENTS).unwrap_or_else(|_| panic!("{ARGUMENTS} is not set: nothing to serve"));
    let config = Config::from_command_line(["shardrace"].into_iter().chain(arguments.lines()).map(Into::into)).unwrap();
    logging::start(&config).unwrap();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let file = offset_file(&std::env::current_dir().unwrap());
    let now_us = Arc::new(AtomicU64::new(0));
    let wind = {
        let now_us = Arc::clone(&now_us);
        move || {
            let offset_s: i64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
            let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
            now_us.store(u64::try_from(system + offset_s * 1_000_000).unwrap_or(0), Ordering::Relaxed);
        }
    };
    wind();
    std::thread::spawn(move || {
        loop {
            wind();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let platform = server::Platform { clock: Clock::Manual(now_us), ..server::Platform::default() };
    if let Err(reason) = server::run(config, platform) {
        eprintln!("Fatal: {reason}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn ttl_s(client: &mut Client, key: &str) -> i64 {
    client.value(&["TTL", key]).integer()
}

#[test]
fn deadlines_go_by_the_clock_as_it_is_set_forward_and_back() {
    on_every_engine_at_once(|setup| {
        let wound = Wound::start(Data::new(), setup, &["--appendonly", "no"], 0);
        let mut client = wound.server.client();
        client.expect("SET short v EX 1800", "+OK\r\n");
        client.expect("SET long v EX 7200", "+OK\r\n");
        client.expect("SET for-ever v", "+OK\r\n");
        wound.set_clock(HOUR_S);
        // No command reads the key: it is removed on its own.
        wait_until("a key whose deadline was stepped over is removed", || {
            client.value(&["DBSIZE"]) == Value::Integer(2)
        });
        let left = ttl_s(&mut client, "long");
        assert!((3600 - SLACK_S..=3600).contains(&left), "{setup:?}: {left} s are left of an hour");

        wound.set_clock(0);
        let left = ttl_s(&mut client, "long");
        assert!((7200 - SLACK_S..=7200).contains(&left), "{setup:?}: {left} s are left of two hours");
        client.expect("SET brief v PX 50", "+OK\r\n");
        wait_until("a deadline after the step back comes", || client.call(&["GET", "brief"]) == b"$-1\r\n");
        client.expect("SET brief v PX 50", "+OK\r\n");
        wait_until("it comes though nobody asks", || client.value(&["DBSIZE"]) == Value::Integer(2));
        // EXEC and the removal in the background get the time in other ways.
        let replies = client.pipeline(&[vec!["MULTI"], vec!["TTL", "long"], vec!["EXEC"]]);
        let left = replies[2].elements()[0].integer();
        assert!((7200 - SLACK_S..=7200).contains(&left), "{setup:?}: {left} s are left of two hours");
    });
}

#[test]
fn what_counts_up_from_the_time_does_not_go_back_with_the_clock() {
    on_every_engine_at_once(|setup| {
        let wound = Wound::start(Data::new(), setup, &["--appendonly", "no"], 0);
        let mut client = wound.server.client();
        let first = client.value(&["XADD", "s", "*", "f", "v"]).text();
        client.expect("XGROUP CREATE s g 0", "+OK\r\n");
        client.call(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"]);
        client.expect("SET k v", "+OK\r\n");
        wound.set_clock(-HOUR_S);
        let second = client.value(&["XADD", "s", "*", "f", "v"]).text();
        let parts =
            |id: &str| id.split_once('-').map(|(ms, seq)| (ms.parse::<u64>().unwrap(), seq.parse::<u64>().unwrap()));
        assert!(parts(&second) > parts(&first), "{setup:?}: {second} is not after {first}");
        // A use in the future does not count as long ago, nor does a delivery.
        client.expect("OBJECT IDLETIME k", ":0\r\n");
        let pending = client.value(&["XPENDING", "s", "g", "-", "+", "1"]);
        assert_eq!(pending.elements()[0].elements()[2], Value::Integer(0), "{setup:?}: {pending:?}");
        let consumers = client.value(&["XINFO", "CONSUMERS", "s", "g"]);
        let fields = consumers.elements()[0].elements();
        for field in ["idle", "inactive"] {
            let at = fields.iter().position(|name| *name == Value::Bulk(field.into())).unwrap();
            assert_eq!(fields[at + 1], Value::Integer(0), "{setup:?}: {field}");
        }
    });
}

#[test]
fn a_counter_of_uses_does_not_fade_when_the_clock_is_set_back() {
    on_every_engine_at_once(|setup| {
        if !cfg!(feature = "jemalloc") {
            return;
        }
        let wound = Wound::start(Data::new(), setup, &["--appendonly", "no", "--maxmemory-policy", "allkeys-lfu"], 0);
        let mut client = wound.server.client();
        client.expect("SET k v", "+OK\r\n");
        for _ in 0..200 {
            client.call(&["GET", "k"]);
        }
        let before = client.value(&["OBJECT", "FREQ", "k"]);
        wound.set_clock(-HOUR_S);
        assert_eq!(client.value(&["OBJECT", "FREQ", "k"]), before, "{setup:?}");
    });
}

#[test]
fn connections_do_not_notice_when_the_clock_is_set() {
    on_every_engine_at_once(|setup| {
        let wound = Wound::start(Data::new(), setup, &["--appendonly", "no", "--timeout", "1200"], 0);
        let mut client = wound.server.client();
        client.expect("CONFIG SET client-output-buffer-limit \"normal 0 1000 1200\"", "+OK\r\n");
        client.call(&["SET", "big", &"v".repeat(8 << 20)]);
        // A client that reads no replies, and has just exceeded the soft limit.
        let mut slow = wound.server.client();
        slow.expect("CLIENT SETNAME slow", "+OK\r\n");
        slow.send(&request(&["GET", "big"]).repeat(4));
        let mut idle = wound.server.client();
        idle.expect("CLIENT SETNAME idle", "+OK\r\n");
        let mut blocked = wound.server.client();
        blocked.send(&request(&["BLPOP", "list", "1200"]));
        let mut listening = wound.server.client();
        listening.call(&["SUBSCRIBE", "channel"]);
        std::thread::sleep(TWO_LOOKS);
        for offset_s in [HOUR_S, -HOUR_S, BEFORE_1970_S, 0] {
            wound.set_clock(offset_s);
            std::thread::sleep(TWO_LOOKS);
            let list = client.value(&["CLIENT", "LIST"]).text();
            assert!(list.contains("name=slow") && list.contains("name=idle"), "{setup:?}, {offset_s} s: {list}");
            for line in list.lines() {
                for field in [" age=", " idle="] {
                    let value = line.split_once(field).unwrap().1.split(' ').next().unwrap();
                    assert!(value.parse::<i64>().unwrap() < SLACK_S, "{setup:?}, {offset_s} s: {line}");
                }
            }
            assert!(blocked.is_silent(), "{setup:?}, {offset_s} s: it still waits");
            // Durations are not affected.
            let start = Instant::now();
            client.send(&[request(&["WAIT", "1", "300"]), request(&["BLPOP", "none", "0.3"])].concat());
            assert_eq!(client.values(2), [Value::Integer(0), Value::NullArray], "{setup:?}, {offset_s} s");
            client.expect("CLIENT PAUSE 300 WRITE", "+OK\r\n");
            client.expect("SET k v", "+OK\r\n");
            let took = start.elapsed();
            assert!(took >= Duration::from_millis(900), "{setup:?}, {offset_s} s: {took:?}");
        }
        // A pause keeps its length when the clock is set back.
        client.expect("CLIENT PAUSE 3000 WRITE", "+OK\r\n");
        wound.set_clock(-HOUR_S);
        client.expect("SET k v", "+OK\r\n");
        client.expect("RPUSH list v", ":1\r\n");
        assert_eq!(blocked.value_of_next(), Value::Array(["list", "v"].map(|text| Value::Bulk(text.into())).to_vec()));
        assert!(!listening.is_closed(), "{setup:?}");
        assert!(wound.server.info_number("uptime_in_seconds") < SLACK_S as u64, "{setup:?}");
        let (status, _, log) = wound.server.stop();
        assert_eq!(status.code(), Some(0), "{setup:?}: {log}");
    });
}

#[test]
fn a_log_is_written_and_read_whatever_the_clock_says() {
    on_every_engine_at_once(|setup| {
        let mut data = Data::new();
        // An epoch ends at each of these times; the numbers of epochs increase through all of them.
        for (run, offsets_s) in [[0, HOUR_S], [-HOUR_S, BEFORE_1970_S], [BEFORE_1970_S, HOUR_S]].into_iter().enumerate()
        {
            let wound = Wound::start(data, setup, &[], offsets_s[0]);
            let mut client = wound.server.client();
            assert_eq!(client.value(&["DBSIZE"]), Value::Integer(2 * 10 * run as i64), "{setup:?}, run {run}");
            for (half, offset_s) in offsets_s.into_iter().enumerate() {
                wound.set_clock(offset_s);
                for index in 0..10 {
                    client.expect(&format!("SET {run}:{half}:{index} v EX 1000000000"), "+OK\r\n");
                }
                std::thread::sleep(TWO_LOOKS);
            }
            let left = ttl_s(&mut client, &format!("{run}:1:0"));
            assert!((999_999_000..=1_000_000_000).contains(&left), "{setup:?}, run {run}: {left} s are left");
            if run == 1 {
                client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
                wait_until("the log is rewritten", || wound.server.info_number("aof_rewrites") == 1);
                client.expect("SAVE", "+OK\r\n");
            }
            data = match run {
                1 => wound.server.kill(),
                _ => wound.server.stop().1,
            };
        }
        let wound = Wound::start(data, setup, &[], 0);
        // The deadlines that were set in 1970 have passed in 2001.
        let mut client = wound.server.client();
        wait_until("what is due is removed", || client.value(&["DBSIZE"]) == Value::Integer(40));
    });
}

/// During replay the time is 0 as well, and the limits of clients do not apply.
#[test]
fn clients_are_held_to_their_limits_where_the_clock_stands_before_1970() {
    on_every_engine_at_once(|setup| {
        let wound = Wound::start(Data::new(), setup, &["--proto-max-bulk-len", "1mb"], BEFORE_1970_S);
        let mut client = wound.server.client();
        assert_eq!(wound.time_s(&mut client), 0, "{setup:?}");
        client.expect("SETRANGE long 2000000 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
        client.expect("XADD stream * field value", "$3\r\n0-1\r\n");
        client.expect(
            "XADD stream NOMKSTREAM MAXLEN 1 LIMIT 1 * f v",
            "-ERR syntax error, LIMIT cannot be used without the special ~ option\r\n",
        );
        client.expect("SET short v PX 100000", "+OK\r\n");
        client.expect("EXISTS short", ":1\r\n");
    });
}
