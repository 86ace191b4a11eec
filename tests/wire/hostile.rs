//! Hostile bytes: an error in Redis's words or a closed connection; never a crash, a hang, an effect on another
//! connection, or memory allocated for announced lengths.

use harness::{
    Client, EVERY_ENGINE, Endpoint, RedisOracle, Server, Setup, Value, effort, on_every_engine, on_every_process,
    request, seed, wait_until,
};
use std::time::Duration;

const MB: u64 = 1 << 20;

/// Bytes that are no request, and Redis's message before it closes.
fn protocol_errors() -> Vec<(Vec<u8>, &'static str)> {
    let plain: [(&[u8], &str); 17] = [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*9223372036854775807\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n", "invalid bulk length"),
        (b"*2\r\n$4\r\nPING\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"SET \"a\r\n", "unbalanced quotes in request"),
        (b"SET 'a\r\n", "unbalanced quotes in request"),
        (b"SET \"a\"b\r\n", "unbalanced quotes in request"),
    ];
    let long = |start: &[u8], byte: u8| [start, vec![byte; 70_000].as_slice()].concat();
    let mut cases: Vec<(Vec<u8>, &str)> = plain.iter().map(|(bytes, text)| (bytes.to_vec(), *text)).collect();
    cases.push((long(b"", b'a'), "too big inline request"));
    cases.push((long(b"*", b'1'), "too big mbulk count string"));
    cases.push((long(b"*1\r\n$", b'1'), "too big bulk count string"));
    cases
}

/// Everything a server sends in reply to these bytes until it closes the connection. A server that closes with bytes
/// unread resets the connection, and the reset may overtake its last message.
fn last_words(mut client: Client, bytes: &[u8]) -> String {
    client.send_if_open(bytes);
    String::from_utf8_lossy(&client.until_closed()).into_owned()
}

#[test]
fn bytes_that_are_no_request_get_redis_s_words_and_a_closed_connection() {
    let oracle = RedisOracle::start();
    for (bytes, text) in protocol_errors() {
        let words = last_words(oracle.client(), &bytes);
        let wanted = format!("-ERR Protocol error: {text}\r\n");
        assert!(words == wanted || words.is_empty(), "redis-server says {words:?} to {}", bytes.escape_ascii());
    }
    on_every_engine(|server| {
        let mut bystander = server.client();
        for (bytes, text) in protocol_errors() {
            let words = last_words(server.client(), &bytes);
            assert_eq!(
                words,
                format!("-ERR Protocol error: {text}\r\n"),
                "to {}",
                bytes[..bytes.len().min(80)].escape_ascii()
            );
            bystander.expect("PING", "+PONG\r\n");
        }
    });
}

#[test]
fn requests_before_the_bad_bytes_are_answered_and_none_after() {
    on_every_engine(|server| {
        let stream =
            [request(&["SET", "k", "v"]), request(&["GET", "k"]), b"*1\r\n$-5\r\n".to_vec(), request(&["DEL", "k"])];
        let words = last_words(server.client(), &stream.concat());
        assert_eq!(words, "+OK\r\n$1\r\nv\r\n-ERR Protocol error: invalid bulk length\r\n");
        // Scripts over several shards begin when their read has been looked at.
        let script = request(&["EVAL", "return #KEYS", "2", "a", "b"]);
        let words = last_words(server.client(), &[script.repeat(2), b"*1\r\n$-5\r\n".to_vec()].concat());
        assert_eq!(words, ":2\r\n:2\r\n-ERR Protocol error: invalid bulk length\r\n");
        server.client().expect("EXISTS k", ":1\r\n");
    });
}

#[test]
fn nothing_is_asked_by_empty_lines_and_negative_counts() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.send(b"\r\n\n*0\r\n*-1\r\n*-2147483648\r\n   \r\nPING\r\n");
        assert_eq!(client.reply(), b"+PONG\r\n");
        assert!(client.is_silent());
    });
}

#[test]
fn random_bytes_hurt_nobody() {
    let seed = seed();
    on_every_engine(|server| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bystander = server.client();
        for round in 0..effort("HOSTILE_ROUNDS", 150) {
            let garbage = garbage(&mut random);
            let mut client = server.client();
            client.send_if_open(&garbage);
            // Nothing more will come: the server replies to what there was, and closes.
            client.stream().shutdown(std::net::Shutdown::Write).unwrap();
            client.until_closed();
            if round % 10 == 0 {
                bystander.expect("PING", "+PONG\r\n");
            }
        }
    });
}

/// Bytes that look like requests for a while.
fn garbage(random: &mut fastrand::Rng) -> Vec<u8> {
    const PIECES: [&[u8]; 18] = [
        b"*",
        b"$",
        b"\r\n",
        b"*3\r\n",
        b"$3\r\nSET\r\n",
        b"$1\r\nk\r\n",
        b"$5\r\nhello\r\n",
        b"GET k\r\n",
        b"-1\r\n",
        b"\"",
        b"'",
        b"\\x",
        b"1000000\r\n",
        b"$536870912\r\n",
        b"\x00",
        b"*1\r\n$4\r\nPING\r\n",
        b"\n",
        b" ",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.usize(1..40) {
        match random.u32(..4) {
            0 => (0..random.usize(..50)).for_each(|_| bytes.push(random.u8(..))),
            _ => bytes.extend_from_slice(PIECES[random.usize(..PIECES.len())]),
        }
    }
    bytes
}

#[test]
fn a_promised_length_takes_no_memory() {
    const PROMISES: usize = 50;
    on_every_process(|server| {
        server.assert_serving();
        let before = server.resident_bytes();
        let mut clients: Vec<Client> = (0..PROMISES).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send(b"*1048576\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nonly the beginning");
        }
        // Their bytes are read once all of them are counted.
        let list = |server: &Endpoint| server.client().value(&["CLIENT", "LIST"]).text();
        wait_until("the promises are read", || list(server).matches("qbuf=5").count() >= PROMISES);
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < 30 * MB, "{PROMISES} promises of 512 MB and a million arguments took {grown} bytes");
        drop(clients);
        server.assert_serving();
    });
}

#[test]
fn a_request_that_never_ends_is_cut_off_at_its_limit() {
    on_every_engine(|server| {
        let mut admin = server.client();
        admin.expect("CONFIG SET client-query-buffer-limit 1mb", "+OK\r\n");
        let mut client = server.client();
        client.send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
        for _ in 0..40 {
            client.send_if_open(&[b'x'; 100_000]);
        }
        assert!(client.until_closed().is_empty());
        admin.expect("PING", "+PONG\r\n");
    });
}

#[test]
fn what_a_client_sends_while_it_waits_is_cut_off_at_the_same_limit() {
    on_every_process(|server| {
        let mut admin = server.client();
        admin.expect("CONFIG SET client-query-buffer-limit 1mb", "+OK\r\n");
        let mut client = server.client();
        let address = client.stream().local_addr().unwrap();
        client.send(&request(&["BLPOP", "nothing", "0"]));
        wait_until("it waits", || server.info_number("blocked_clients") == 1);
        for _ in 0..40 {
            client.send_if_open(&request(&["PING", &"x".repeat(100_000)]));
        }
        assert!(client.until_closed().is_empty());
        server.wait_for_log("reached max query buffer length");
        assert!(server.log().contains(&format!(" addr={address} qbuf=")), "{}", server.log());
        admin.expect("PING", "+PONG\r\n");
    });
}

#[test]
fn what_came_while_a_client_waited_is_accepted_in_parts() {
    const REQUESTS: usize = 40_000;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        client.send(&request(&["BLPOP", "list", "0"]));
        wait_until("it waits", || server.info_number("blocked_clients") == 1);
        let get = request(&["GET", &"k".repeat(1_000)]);
        client.send(&get.repeat(REQUESTS));
        let waiting = |server: &Server| {
            let list = server.client().value(&["CLIENT", "LIST"]).text();
            list.split(' ')
                .filter_map(|field| field.strip_prefix("qbuf="))
                .any(|bytes| bytes.parse::<usize>().unwrap() == get.len() * REQUESTS)
        };
        wait_until("all has come", || waiting(&server));
        server.client().expect("RPUSH list x", ":1\r\n");
        let replies = client.values(1 + REQUESTS);
        assert!(replies[1..].iter().all(Value::is_null));
        if setup.engine == "actor" {
            let shards: Vec<String> =
                server.info().into_iter().filter(|(name, _)| name.starts_with("shard")).map(|(_, text)| text).collect();
            println!("{setup:?}: {shards:?}");
            let largest =
                shards.iter().flat_map(|text| text.split(',')).filter_map(|field| field.strip_prefix("largest_batch="));
            let largest: Vec<usize> = largest.map(|count| count.parse().unwrap()).collect();
            assert!(
                !largest.is_empty() && largest.iter().all(|&count| count * get.len() < 20_000_000),
                "{setup:?}: {largest:?}"
            );
        }
    }
}

#[test]
fn a_long_argument_is_refused_by_proto_max_bulk_len() {
    on_every_engine(|server| {
        server.client().expect("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n");
        let words = last_words(server.client(), b"*2\r\n$4\r\nECHO\r\n$1048577\r\n");
        assert_eq!(words, "-ERR Protocol error: invalid bulk length\r\n");
        let mut client = server.client();
        let value = "x".repeat(1 << 20);
        assert_eq!(client.value(&["ECHO", &value]).bytes().len(), 1 << 20);
    });
}

#[test]
fn a_connection_that_has_not_authenticated_may_ask_for_little() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--requirepass", "secret"]);
        let words = last_words(server.client(), b"*11\r\n");
        assert_eq!(words, "-ERR Protocol error: unauthenticated multibulk length\r\n");
        let words = last_words(server.client(), b"*1\r\n$16385\r\n");
        assert_eq!(words, "-ERR Protocol error: unauthenticated bulk length\r\n");
        let mut client = server.client();
        client.expect("AUTH secret", "+OK\r\n");
        let long = "x".repeat(20_000);
        assert_eq!(client.value(&["ECHO", &long]).bytes().len(), 20_000);
        // In one burst: what follows AUTH is judged by its result.
        let mut client = server.client();
        client.send(&[request(&["AUTH", "secret"]), request(&["ECHO", &long])].concat());
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(Value::of(&client.reply()).bytes().len(), 20_000);
    }
}

#[test]
fn a_request_of_a_million_arguments_is_served() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mut exists = vec!["EXISTS"; 1];
        exists.resize(1024 * 1024, "k");
        client.expect("SET k v", "+OK\r\n");
        client.send_and_hold(&request(&exists));
        assert_eq!(client.reply(), b":1048575\r\n");
    });
}

#[test]
fn a_command_in_more_parts_than_16_bits_count_is_served() {
    const KEYS: usize = (1 << 16) + 100;
    for setup in EVERY_ENGINE {
        // In the dashmap engine each key is then a part.
        let server = Server::start(setup, &["--multi-key", "relaxed"]);
        let mut client = server.client();
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key}")).collect();
        let over_all =
            |name: &'static str| [name].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>();
        client.send_and_hold(&request(
            &["MSET"].into_iter().chain(keys.iter().flat_map(|key| [&key[..]; 2])).collect::<Vec<_>>(),
        ));
        assert_eq!(client.reply(), b"+OK\r\n", "{setup:?}");
        client.send_and_hold(&request(&over_all("MGET")));
        let Value::Array(values) = Value::of(&client.reply()) else { panic!("{setup:?}: MGET replies an array") };
        assert_eq!(values.len(), KEYS, "{setup:?}");
        assert!(values.iter().zip(&keys).all(|(value, key)| value.bytes() == key.as_bytes()), "{setup:?}");
        client.send_and_hold(&request(&over_all("DEL")));
        assert_eq!(client.reply(), format!(":{KEYS}\r\n").as_bytes(), "{setup:?}");
    }
}

#[test]
fn half_a_request_and_a_closed_connection_leave_nothing_behind() {
    on_every_engine(|server| {
        for cut in 1..20 {
            let mut client = server.client();
            client.send(&request(&["SET", "half", "a request"])[..cut]);
        }
        wait_until("the connections are gone", || server.info_number("connected_clients") == 1);
        server.client().expect("EXISTS half", ":0\r\n");
    });
}

#[test]
fn a_client_that_sends_and_stops_sending_gets_all_its_replies() {
    on_every_engine(|server| {
        let mut client = server.client();
        let requests: Vec<u8> = (0..1_000).flat_map(|index| request(&["ECHO", &index.to_string()])).collect();
        client.send(&requests);
        client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        let replies = client.values(1_000);
        assert_eq!(replies.last().unwrap().bytes(), b"999");
        assert!(client.until_closed().is_empty());
    });
}

/// What waits, or is paused, does not run; what came before it has run.
#[test]
fn a_client_that_stops_sending_gets_the_replies_of_requests_before_one_that_waits() {
    on_every_engine(|server| {
        let mut admin = server.client();
        for _ in 0..100 {
            let mut client = server.client();
            client.send(b"SET a 1\r\nINCR a\r\nWAIT 1 100000\r\n");
            client.stream().shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(client.until_closed(), b"+OK\r\n:2\r\n");
        }
        admin.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        for _ in 0..100 {
            let mut client = server.client();
            client.send(b"GET a\r\nSET a 2\r\n");
            client.stream().shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(client.until_closed(), b"$1\r\n2\r\n");
        }
        admin.expect("CLIENT UNPAUSE", "+OK\r\n");
    });
}

#[test]
fn a_slow_sender_is_served_when_its_last_byte_comes() {
    let setup = Setup { engine: "actor", shards: 2, threads: 2 };
    let server = Server::start(setup, &[]);
    let mut client = server.client();
    for byte in request(&["SET", "slow", "sender"]) {
        client.send(&[byte]);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(client.reply(), b"+OK\r\n");
}
