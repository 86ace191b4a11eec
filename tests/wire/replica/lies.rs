//! Masters that lie, disconnect, or fall silent.

use super::{ENGINES, REPLICA, info};
use harness::{Client, Server, Setup, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

const ID: &str = "0123456789abcdef0123456789abcdef01234567";
/// A snapshot without keys.
const EMPTY: &[u8] = b"REDIS0010\xff\0\0\0\0\0\0\0\0";

/// Plays a master.
struct Liar(TcpListener);

impl Liar {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn follow(&self, setup: Setup) -> Server {
        let port = self.0.local_addr().unwrap().port().to_string();
        Server::start(setup, &[&REPLICA[..], &["--replicaof", "127.0.0.1", &port]].concat())
    }

    /// Talks to a replica until it requests the stream; returns the request.
    fn accept(&self) -> (TcpStream, String) {
        let (stream, _) = self.0.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let words = request(&mut reader);
            if words[0] == "PSYNC" {
                return (stream, words[1..].join(" "));
            }
            (&stream).write_all(if words[0] == "PING" { b"+PONG\r\n" } else { b"+OK\r\n" }).unwrap();
        }
    }

    /// Sends a replica a snapshot without keys, and then these bytes.
    fn serve(&self, stream_bytes: &[u8]) -> TcpStream {
        let (mut stream, _) = self.accept();
        let answer = format!("+FULLRESYNC {ID} 0\r\n${}\r\n", EMPTY.len());
        stream.write_all(&[answer.as_bytes(), EMPTY, stream_bytes].concat()).unwrap();
        stream
    }
}

fn request(reader: &mut impl BufRead) -> Vec<String> {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the replica has gone");
        // A sign of life from the replica.
        if line.trim().is_empty() {
            continue;
        }
        let count: usize = line.trim()[1..].parse().unwrap();
        return (0..count)
            .map(|_| {
                line.clear();
                reader.read_line(&mut line).unwrap();
                let mut word = vec![0; line.trim()[1..].parse::<usize>().unwrap() + 2];
                reader.read_exact(&mut word).unwrap();
                String::from_utf8_lossy(&word[..word.len() - 2]).into_owned()
            })
            .collect();
    }
}

/// It serves its clients, and follows the next server that is a master.
#[track_caller]
fn assert_alive(server: &Server) {
    let mut client: Client = server.client();
    client.expect("PING", "+PONG\r\n");
    assert_eq!(info(&mut client)["master_link_status"], "down");
    client.expect("REPLICAOF NO ONE", "+OK\r\n");
    client.expect("SET key value", "+OK\r\n");
}

#[test]
fn a_stream_that_cannot_be_followed_ends_the_link_with_a_line_that_says_why() {
    for setup in ENGINES {
        for (stream, reason) in [
            (&b"*1\r\n$6\r\nNOSUCH\r\n"[..], "'NOSUCH', which cannot be applied: there is no such command here"),
            (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "it is none that changes data"),
            (
                b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\nb\r\n",
                "LPUSH 'a' of the master fails here: -WRONGTYPE",
            ),
            (b"*2\r\n$6\r\nSELECT\r\n$3\r\n999\r\n", "the master uses database 999"),
            (b"*1\r\n$4\r\nEXEC\r\n", "it stands at no place for it"),
            (b"*1\r\n!garbage\r\n", "Protocol error: expected '$', got '!'"),
            (b"\xff\xfe\x00garbage\r\n", "there is no such command here"),
        ] {
            let liar = Liar::new();
            let server = liar.follow(setup);
            let _stream = liar.serve(stream);
            server.wait_for_log("REPLICATION HAS ENDED");
            server.wait_for_log(reason);
            // It requests everything, since what it lacks is unknown.
            let (stream, asked) = liar.accept();
            assert_eq!(asked, "? -1");
            drop(stream);
            assert_alive(&server);
        }
    }
}

#[test]
fn the_pause_before_the_next_snapshot_grows_while_the_stream_after_it_is_refused() {
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let _links = [1, 2, 4].map(|pause_s| {
            let link = liar.serve(b"*1\r\n$6\r\nNOSUCH\r\n");
            server.wait_for_log(&format!("in {pause_s} s all of it is asked for again"));
            link
        });
    }
}

#[test]
fn a_stream_that_begins_where_none_can_is_refused() {
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let (mut stream, _) = liar.accept();
        let answer = format!("+FULLRESYNC {ID} {}\r\n${}\r\n", i64::MAX, EMPTY.len());
        stream.write_all(&[answer.as_bytes(), EMPTY, encoded("SET a b").as_bytes()].concat()).unwrap();
        server.wait_for_log("its offset is no number");
        assert_eq!(server.client().value(&["ROLE"]).elements()[0].text(), "slave");
        assert_alive(&server);
    }
}

#[test]
fn a_stream_that_a_redis_trims_to_a_limit_is_followed() {
    // A Redis rewrites MAXLEN ~ 1 LIMIT 100 so.
    let trims = [
        "XADD s 1-1 f v",
        "XADD s 2-1 f v",
        "XADD s MAXLEN = 2 LIMIT 100 3-1 f v",
        "XADD s MINID = 2-0 LIMIT 100 4-1 f v",
        "XTRIM s MAXLEN = 1 LIMIT 100",
    ];
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let _stream = liar.serve(&trims.map(encoded).concat().into_bytes());
        wait_until("the stream is trimmed", || {
            let reply = server.client().call(&["XRANGE", "s", "-", "+"]);
            reply == b"*1\r\n*2\r\n$3\r\n4-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
        });
        assert!(!server.log().contains("REPLICATION HAS ENDED"), "{setup:?}: {}", server.log());
    }
}

/// A request in RESP.
fn encoded(line: &str) -> String {
    let words = line.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", line.split(' ').count(), words.collect::<String>())
}

#[test]
fn a_replica_whose_master_has_not_answered_yet_is_in_the_handshake() {
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let (_stream, _) = liar.0.accept().unwrap();
        let mut client: Client = server.client();
        wait_until("the handshake", || client.value(&["ROLE"]).elements()[3].text() == "handshake");
        assert_eq!(info(&mut client)["master_link_status"], "down");
    }
}

#[test]
fn a_time_limit_that_is_set_while_a_master_says_nothing_ends_that_link() {
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let (_stream, _) = liar.0.accept().unwrap();
        let mut client: Client = server.client();
        wait_until("the handshake", || client.value(&["ROLE"]).elements()[3].text() == "handshake");
        client.expect("CONFIG SET repl-timeout 1", "+OK\r\n");
        server.wait_for_log("it is silent for longer than repl-timeout");
    }
}

#[test]
fn a_snapshot_that_is_none_leaves_the_data_as_it_was() {
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let mut client = server.client();
        client.expect("CONFIG SET replica-read-only no", "+OK\r\n");
        client.expect("SET own data", "+OK\r\n");
        let damaged = [b"REDIS0010\xfe\0\0\x01a", &[0xff; 9][..]].concat();
        let mut endless = b"REDIS0010".to_vec();
        endless.extend([0xfa; 100_000]);
        for (snapshot, reason) in [
            (&b"garbage"[..], "it is no RDB file"),
            (&damaged, "at byte"),
            (b"REDIS0099\xff", "RDB version 99"),
            (&endless, "at byte"),
        ] {
            let (mut stream, _) = liar.accept();
            let answer = format!("+FULLRESYNC {ID} 0\r\n${}\r\n", snapshot.len());
            stream.write_all(&[answer.as_bytes(), snapshot].concat()).unwrap();
            server.wait_for_log(reason);
            client.expect("GET own", "$4\r\ndata\r\n");
        }
        wait_until("what was received is removed", || {
            let names = std::fs::read_dir(server.data().path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().contains("sync")).count() == 0
        });
        assert_alive(&server);
    }
}

#[test]
fn answers_that_are_none_end_the_attempt_and_the_next_one_begins() {
    let setup = ENGINES[2];
    for (answer, reason) in [
        ("-ERR unknown command 'PSYNC'\r\n", "Unexpected reply to PSYNC from master"),
        ("+FULLRESYNC short 0\r\n", "Unexpected reply to PSYNC"),
        ("+CONTINUE\r\n", "it goes on with a stream that it was not asked for"),
        ("-NOMASTERLINK Can't SYNC while not connected with my master\r\n", "it has nothing to give just now"),
        (&format!("+FULLRESYNC {ID} 0\r\n-ERR out of disk\r\n"), "MASTER aborted replication with an error"),
        (&format!("+FULLRESYNC {ID} 0\r\nx\r\n"), "the first byte is not '$'"),
        (&"x".repeat(5000), "its line has no end"),
        (&format!("+FULLRESYNC {ID} 0\r\n$100\r\nabc"), "unexpected end of file"),
    ] {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let (mut stream, asked) = liar.accept();
        assert_eq!(asked, "? -1");
        stream.write_all(answer.as_bytes()).unwrap();
        drop(stream);
        server.wait_for_log(reason);
        drop(liar.accept());
        assert_alive(&server);
    }
}

#[test]
fn half_a_transaction_has_no_effect_and_a_master_that_says_nothing_else_takes_no_memory() {
    for setup in ENGINES {
        let liar = Liar::new();
        let server = liar.follow(setup);
        let half = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
        let stream = liar.serve(half);
        let mut client = server.client();
        wait_until("the link is up", || super::is_linked(&mut client));
        std::thread::sleep(std::time::Duration::from_millis(100));
        client.expect("EXISTS a", ":0\r\n");
        assert_eq!(info(&mut client)["slave_repl_offset"], "0");
        drop(stream);
        // It requests the transaction from its beginning.
        let (mut stream, asked) = liar.accept();
        assert_eq!(asked, format!("{ID} 1"));
        // Empty lines are signs of life: 20 MB of them have the same effect as one.
        let before = server.resident_bytes();
        let lines = vec![b'\n'; 1 << 20];
        (0..20).for_each(|_| stream.write_all(&lines).unwrap());
        let after = server.resident_bytes();
        assert!(after < before + (8 << 20), "{before} bytes, then {after}");
        stream.write_all(b"+CONTINUE\r\n").unwrap();
        stream.write_all(&[half.as_slice(), b"*1\r\n$4\r\nEXEC\r\n"].concat()).unwrap();
        wait_until("the transaction has taken effect", || client.call(&["EXISTS", "a"]) == b":1\r\n");
    }
}
