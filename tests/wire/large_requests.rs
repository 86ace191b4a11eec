//! Requests that are larger than one read: taken in without copies that are not needed, and without memory for what was
//! only announced.

use harness::{Client, EVERY_BATCHING, EVERY_ENGINE, RedisOracle, Server, effort, request, seed, wait_until, words};
use std::time::Duration;

const KB: usize = 1024;
const MB: u64 = 1 << 20;

/// A request with arguments of any size, most of them around the sizes at which the server reads differently.
fn random_request(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = match random.u8(..8) {
        0..=2 => random.usize(..100),
        3 => 16 * KB - 50 + random.usize(..100),
        4 => 32 * KB - 50 + random.usize(..100),
        5 => random.usize(..200 * KB),
        6 => 128 * KB - 50 + random.usize(..100),
        _ => random.usize(..1200 * KB),
    };
    let value: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
    let key = format!("key:{}", random.u8(..5)).into_bytes();
    let set = [&b"SET"[..], &key, &value];
    match random.u8(..16) {
        0..=4 => request(&set),
        14 => request(&set).repeat(random.usize(2..6)),
        15 => (0..random.usize(2..6))
            .flat_map(|extra| request(&[&set[..2], &[&value[extra.min(len)..]]].concat()))
            .collect(),
        5 => request(&[b"GETSET", &key[..], &value]),
        10..=11 => request(&[b"GET", &key[..]]).repeat(random.usize(1..6)),
        12 => [request(&[b"GETEX", &key[..]]), request(&[b"APPEND", &key[..], b"more"])].concat(),
        13 => [request(&[&set[..], &[b"GET"]].concat()), request(&[b"GETDEL", &key[..]])].concat(),
        6 => request(&[b"SETRANGE", &key[..], b"7", &value]),
        7 => request(&[b"ECHO", &value[..]]),
        8 => request(&[b"MSET", &key[..], &value, b"key:0", &value]),
        _ => [request(&[b"MULTI"]), request(&set), request(&[b"GET", &key[..]]), request(&[b"EXEC"])].concat(),
    }
}

/// Sends bytes in pieces, with pauses in between.
fn send_in_pieces(client: &mut Client, mut bytes: &[u8], random: &mut fastrand::Rng) {
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(1 + random.usize(..bytes.len()));
        client.send(piece);
        if random.bool() {
            std::thread::sleep(Duration::from_micros(random.u64(..1500)));
        }
        bytes = rest;
    }
}

fn replies_of(client: &mut Client, seed: u64, bursts: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cuts = fastrand::Rng::with_seed(seed + 1);
    let mut replies = Vec::new();
    for _ in 0..bursts {
        let requests: Vec<Vec<u8>> = (0..random.usize(1..4)).map(|_| random_request(&mut random)).collect();
        send_in_pieces(client, &[requests.concat(), request(&["PING"])].concat(), &mut cuts);
        loop {
            let reply = client.reply();
            if reply == b"+PONG\r\n" {
                break;
            }
            replies.push(reply);
        }
    }
    for key in 0..5 {
        replies.push(client.call(&["GET", &format!("key:{key}")]));
    }
    replies
}

#[test]
fn large_requests_have_redis_s_replies_however_they_are_cut() {
    let (seed, bursts) = (seed(), effort("LARGE_REQUESTS", 60));
    let wanted = replies_of(&mut RedisOracle::start().client(), seed, bursts);
    for setup in EVERY_ENGINE {
        for batching in EVERY_BATCHING {
            let server = Server::start(setup, &batching);
            let replies = replies_of(&mut server.client(), seed, bursts);
            assert_eq!(replies.len(), wanted.len());
            for (index, (reply, wanted)) in replies.iter().zip(&wanted).enumerate() {
                let head = |reply: &[u8]| String::from_utf8_lossy(&reply[..reply.len().min(40)]).into_owned();
                assert!(
                    reply == wanted,
                    "{setup:?} with {batching:?}: reply {index} is {:?} ({} bytes), not {:?} ({} bytes)",
                    head(reply),
                    reply.len(),
                    head(wanted),
                    wanted.len()
                );
            }
            // What was logged is what was sent.
            let flags = ["--appendonly", "yes"];
            let restarted = server.kill().start(setup, &flags);
            let mut client = restarted.client();
            for (key, wanted) in wanted[wanted.len() - 5..].iter().enumerate() {
                assert!(
                    client.call(&["GET", &format!("key:{key}")]) == *wanted,
                    "{setup:?}: key:{key} after a restart"
                );
            }
        }
    }
}

/// A SET of `len` bytes; `end` comes in the place of each line feed of the value's length, and of what follows the
/// value.
fn set_with_ends(key: &str, len: usize, line_end: u8, end: &[u8; 2]) -> Vec<u8> {
    let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${len}\r", key.len());
    [head.as_bytes(), &[line_end], &vec![b'v'; len], end].concat()
}

#[test]
fn a_large_value_is_replied_in_its_own_encoding_whatever_was_around_it() {
    const LEN: usize = 100 * KB;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        for (index, (line_end, end)) in [(b'\n', b"\r\n"), (b' ', b"\r\n"), (b'\n', b"\n\n")].into_iter().enumerate() {
            let key = format!("k{index}");
            let wanted = [format!("${LEN}\r\n").as_bytes(), &[b'v'; LEN], b"\r\n"].concat();
            // A large request that follows another one is read into a buffer of its own.
            for _ in 0..3 {
                client.send(&set_with_ends(&key, LEN, line_end, end));
                assert_eq!(client.reply(), b"+OK\r\n");
                assert!(client.call(&["GET", &key]) == wanted, "{setup:?}: {key}");
            }
        }
    }
}

#[test]
fn a_large_reply_stays_what_it_was_when_the_value_changes_before_it_is_read() {
    const LEN: usize = 12 << 20;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let (mut client, mut other) = (server.client(), server.client());
        for change in [&["SETRANGE", "k", "0", "changed"][..], &["SET", "k", "other"], &["DEL", "k"], &["FLUSHALL"]] {
            assert_eq!(client.call(&["SET", "k", &"v".repeat(LEN)]), b"+OK\r\n");
            // More than the sockets hold, so that some of it waits in the server.
            let hits = server.info_number("keyspace_hits");
            client.send(&request(&["GET", "k"]));
            wait_until("the GET has run", || server.info_number("keyspace_hits") > hits);
            other.call(change);
            let reply = client.value_of_next();
            let bytes = reply.bytes();
            assert!(bytes.len() == LEN && bytes.iter().all(|&byte| byte == b'v'), "{setup:?}: {change:?}");
        }
    }
}

#[test]
fn connections_that_sent_large_requests_and_wait_hold_no_buffers() {
    const CLIENTS: usize = 100;
    for setup in EVERY_ENGINE {
        // A log has buffers of its own.
        let server = &Server::start(setup, &["--appendonly", "no"]);
        let used = || server.info_number("used_memory");
        let value = "v".repeat(200 * KB);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
        let before = used();
        for client in &mut clients {
            assert_eq!(client.call(&["SET", "large", &value]), b"+OK\r\n");
        }
        // The value, and what two threads keep for reuse.
        let idle = used().saturating_sub(before);
        assert!(idle < 6 * MB, "{setup:?}: {CLIENTS} idle connections hold {idle} bytes");
        // One byte of the next request takes some memory, but little.
        clients.iter_mut().for_each(|client| client.send(b"*"));
        let list = |server: &Server| server.client().value(&["CLIENT", "LIST"]).text();
        wait_until("the bytes are read", || list(server).matches("qbuf=1 ").count() >= CLIENTS);
        let begun = used().saturating_sub(before);
        assert!(begun < 6 * MB + CLIENTS as u64 * 140 * KB as u64, "{CLIENTS} begun requests hold {begun} bytes");
        for client in &mut clients {
            client.send(b"1\r\n$4\r\nPING\r\n");
            assert_eq!(client.reply(), b"+PONG\r\n");
        }
        let after = used().saturating_sub(before);
        assert!(after < 6 * MB, "{CLIENTS} connections after a small request hold {after} bytes");
    }
}

/// It is read into a buffer that grows by steps, each of which stays a while with the allocator.
#[test]
fn a_very_large_value_takes_less_than_twice_its_size_while_it_comes() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no", "--save", ""]);
        let mut client = server.client();
        let before = server.peak_resident_bytes();
        assert_eq!(client.call(&["SET", "large", &"v".repeat(100 * MB as usize)]), b"+OK\r\n");
        let taken = server.peak_resident_bytes() - before;
        assert!(taken < 175 * MB, "{setup:?}: {taken} bytes for 100 MB");
    }
}

#[test]
fn a_large_reply_that_waits_takes_no_memory_however_the_value_came() {
    const VALUE_MB: u64 = 16;
    for setup in EVERY_ENGINE {
        let flags = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
        let server = Server::start(setup, &flags);
        let mut client = server.client();
        let value = "v".repeat((VALUE_MB * MB) as usize);
        client.send(&[request(&["SET", "set", &value]), request(&["SET", "in-a-pipeline", &value])].concat());
        (0..2).for_each(|_| assert_eq!(client.reply(), b"+OK\r\n"));
        assert_eq!(client.call(&["MSET", "with-others", &value, "small", "1"]), b"+OK\r\n");
        assert_eq!(
            client.call(&["EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", "by-script", &value]),
            b"+OK\r\n"
        );
        let dump = client.value(&["DUMP", "set"]);
        assert_eq!(client.call(&[b"RESTORE", &b"restored"[..], b"0", dump.bytes()]), b"+OK\r\n");
        let taken_by = |server: &Server, read: &str| {
            let (used, hits) = (server.info_number("used_memory"), server.info_number("keyspace_hits"));
            let mut client = server.client();
            client.send(&request(&words(read)));
            wait_until("the reading command has run", || server.info_number("keyspace_hits") > hits);
            let taken = server.info_number("used_memory").saturating_sub(used);
            println!("{setup:?}: {taken} bytes for the reply to {read}");
            assert!(client.value_of_next().text() == value, "{setup:?}: {read}");
            taken
        };
        let check = |server: &Server| {
            for key in ["set", "in-a-pipeline", "with-others", "by-script", "restored"] {
                let taken = taken_by(server, &format!("GET {key}"));
                assert!(taken < 4 * MB, "{setup:?}: a reply of {key} takes {taken} bytes");
            }
            assert!(taken_by(server, "GETRANGE set 0 -1") > VALUE_MB / 2 * MB, "{setup:?}: the test sees memory");
        };
        check(&server);
        let server = server.kill().start(setup, &flags);
        check(&server);
        assert_eq!(server.client().call(&["BGREWRITEAOF"]), b"+Background append only file rewriting started\r\n");
        wait_until("it is rewritten", || server.info_number("aof_rewrite_in_progress") == 0);
        let server = server.kill().start(setup, &flags);
        check(&server);
    }
}

/// As many as Redis permits: what one writes with them, its replicas and its log have to take in.
#[test]
fn a_request_may_have_more_than_a_million_arguments() {
    const ELEMENTS: usize = 1_100_000;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        let begin = format!("*{}\r\n$5\r\nRPUSH\r\n$4\r\nlist\r\n", ELEMENTS + 2);
        client.send(&[begin.as_bytes(), &b"$1\r\na\r\n".repeat(ELEMENTS)].concat());
        assert_eq!(client.value_of_next().integer(), ELEMENTS as i64, "{setup:?}");
        let server = server.kill().start(setup, &[]);
        assert_eq!(server.client().value(&["LLEN", "list"]).integer(), ELEMENTS as i64, "{setup:?}");
    }
}
