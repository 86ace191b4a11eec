//! Clients that do not read their replies: bounded, then disconnected, without slowing others.

use harness::{
    Client, EVERY_BATCHING, EVERY_ENGINE, Endpoint, Server, Setup, Value, effort, on_every_engine, request, wait_until,
    words,
};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const MB: u64 = 1 << 20;

fn set_megabyte(server: &Server) {
    let value = "v".repeat(MB as usize);
    assert_eq!(server.client().call(&["SET", "big", &value]), b"+OK\r\n");
}

/// Requests far more than it will read, until the server accepts no more.
fn ask_without_reading(server: &Server, replies: usize) -> Client {
    let client = server.client();
    client.stream().set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let requests = request(&["GET", "big"]).repeat(replies);
    // The server stops reading or closes: either ends this.
    let _ = client.stream().write_all(&requests);
    client
}

#[test]
fn a_client_over_the_hard_limit_is_disconnected() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--client-output-buffer-limit", "normal 8mb 0 0", "--appendonly", "no"]);
        let value = "v".repeat(20 * MB as usize);
        server.client().call(&["SET", "big", &value]);
        let mut slow = ask_without_reading(&server, 1);
        wait_until("the limit is seen", || server.info_number("client_output_buffer_limit_disconnections") == 1);
        server.wait_for_log("overcoming of output buffer limits");
        assert!(slow.until_closed().len() < 20 * MB as usize, "{setup:?}");
        wait_until("it is gone", || server.info_number("connected_clients") == 1);
    }
}

#[test]
fn a_client_over_the_soft_limit_for_too_long_is_disconnected() {
    for setup in EVERY_ENGINE {
        let limit = "normal 64mb 1mb 1";
        let server = Server::start(setup, &["--client-output-buffer-limit", limit, "--appendonly", "no"]);
        let value = "v".repeat(30 * MB as usize);
        server.client().call(&["SET", "big", &value]);
        let start = Instant::now();
        let _slow = ask_without_reading(&server, 1);
        wait_until("the limit is seen", || server.info_number("client_output_buffer_limit_disconnections") == 1);
        assert!(start.elapsed() >= Duration::from_secs(1), "{setup:?}: it had a second");
        wait_until("it is gone", || server.info_number("connected_clients") == 1);
    }
}

#[test]
fn what_comes_while_a_client_reads_nothing_counts_for_the_soft_limit() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let limit = "normal 0 20mb 1";
        let server = Server::start(setup, &["--client-output-buffer-limit", limit, "--appendonly", "no"]);
        let mut other = server.client();
        other.call(&["SET", "small", &"v".repeat(50_000)]);
        other.call(&["SET", "big", &"v".repeat(64 * MB as usize)]);
        let mut slow = server.client();
        slow.expect("CLIENT SETNAME slow", "+OK\r\n");
        let unread = |other: &mut Client| {
            let list = other.value(&["CLIENT", "LIST"]).text();
            let line = list.lines().find(|line| line.contains("name=slow"))?.to_owned();
            line.split_once(" obl=")?.1.split(' ').next()?.parse::<u64>().ok()
        };
        // Until the socket takes no more.
        while unread(&mut other).is_some_and(|unread| unread == 0) {
            slow.send(b"GET small\r\n");
            std::thread::sleep(Duration::from_millis(1));
        }
        slow.send(b"GET big\r\n");
        wait_until("it is gone", || unread(&mut other).is_none());
        assert_eq!(server.info_number("client_output_buffer_limit_disconnections"), 1);
    }
}

#[test]
fn a_client_that_has_ceased_to_read_is_idle() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--appendonly", "no"]);
        set_megabyte(&server);
        let mut slow = server.client();
        slow.send(&request(&["GET", "big"]).repeat(100));
        std::thread::sleep(Duration::from_millis(300));
        server.client().expect("CONFIG SET timeout 1", "+OK\r\n");
        wait_until("it is gone", || server.info_number("connected_clients") == 1);
    }
}

#[test]
fn a_client_that_reads_in_time_is_never_disconnected() {
    for setup in EVERY_ENGINE {
        let limit = "normal 32mb 8mb 1";
        let server = Server::start(setup, &["--client-output-buffer-limit", limit, "--appendonly", "no"]);
        set_megabyte(&server);
        let mut client = server.client();
        for _ in 0..100 {
            assert_eq!(client.value(&["GET", "big"]).bytes().len() as u64, MB);
        }
        assert_eq!(server.info_number("client_output_buffer_limit_disconnections"), 0, "{setup:?}");
    }
}

#[test]
fn clients_that_do_not_read_take_bounded_memory_and_slow_nobody() {
    const SLOW: usize = 4;
    const HARD_MB: u64 = 32;
    for setup in EVERY_ENGINE {
        let limit = format!("normal {HARD_MB}mb 0 0");
        let server = Server::start(setup, &["--client-output-buffer-limit", &limit, "--appendonly", "no"]);
        set_megabyte(&server);
        let before = server.resident_bytes();
        let _slow: Vec<Client> = (0..SLOW).map(|_| ask_without_reading(&server, 2_000)).collect();
        let (mut largest, mut slowest) = (0, Duration::ZERO);
        let mut client = server.client();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            let asked = Instant::now();
            // Waiting for clients that never read would take for ever: the client gives up then, which bounds a request
            // whatever else the machine does.
            client.expect("SET k v", "+OK\r\n");
            client.expect("GET k", "$1\r\nv\r\n");
            slowest = slowest.max(asked.elapsed());
            largest = largest.max(server.resident_bytes());
        }
        let grown = (largest - before) / MB;
        println!("{setup:?}: {grown} MB for {SLOW} slow readers, slowest request {slowest:?}");
        // Each may reach its limit, and as much again while a buffer grows.
        assert!(grown < 2 * HARD_MB * SLOW as u64 + 64, "{setup:?}: {grown} MB");
    }
}

#[test]
fn clients_that_do_not_read_take_little_memory_though_nothing_limits_their_output() {
    const SLOW: u64 = 4;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let keys = set_megabytes_everywhere(&server);
        let before = server.resident_bytes();
        let requests: Vec<u8> = keys.iter().cycle().take(2_000).flat_map(|key| request(&["GET", key])).collect();
        let slow: Vec<Client> = (0..SLOW).map(|_| send_without_reading(&server, &requests)).collect();
        server.assert_serving();
        std::thread::sleep(Duration::from_millis(500));
        let grown = (server.peak_resident_bytes() - before) / MB;
        println!("{setup:?}: {grown} MB for {SLOW} slow readers");
        // For each: the unsent bytes, and for each shard a buffer and one more reply.
        let bound = SLOW * 2 * (setup.shards.max(1) as u64 + 1) + 16;
        assert!(grown < bound, "{setup:?}: {grown} MB for {SLOW} slow readers, of {bound}");
        drop(slow);
        wait_until("they are gone", || server.info_number("connected_clients") == 1);
        server.assert_serving();
    }
}

/// What a connection replies to by itself neither runs far ahead of a reply that is to come, nor is it kept where
/// nobody listens.
#[test]
fn replies_that_need_no_keys_take_little_memory_after_one_that_is_awaited() {
    for setup in EVERY_ENGINE {
        for first in ["WAIT 1 300\r\nGET a\r\n", "CLIENT REPLY OFF\r\n"] {
            let server = Server::start(setup, &["--appendonly", "no"]);
            server.client().call(&["COMMAND", "DOCS"]);
            let before = server.resident_bytes();
            let slow = send_without_reading(&server, &[first.as_bytes(), &b"COMMAND DOCS\r\n".repeat(2_000)].concat());
            std::thread::sleep(Duration::from_secs(1));
            server.assert_serving();
            let grown = (server.peak_resident_bytes() - before) / MB;
            println!("{setup:?}: {grown} MB after {first:?}");
            assert!(grown < 32, "{setup:?}: {grown} MB after {first:?}");
            drop(slow);
        }
    }
}

/// What is dropped takes as long to make as what is read. A client that reads all at once fills no output.
#[test]
fn a_pipeline_with_large_replies_lets_others_have_their_turn_whether_they_are_read_or_not_wanted() {
    const REQUESTS: usize = 1000;
    for engine in ["mutex", "dashmap", "actor"] {
        let server = Server::start(Setup { engine, shards: 1, threads: 1 }, &["--appendonly", "no"]);
        let elements: Vec<String> = (0..20_000).map(|element| element.to_string()).collect();
        let mut other = server.client();
        other.call(&[&["RPUSH", "list"][..], &elements.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        for (costly, first) in ["COMMAND DOCS", "LRANGE list 0 -1"]
            .into_iter()
            .flat_map(|costly| [(costly, "CLIENT REPLY OFF"), (costly, "PING")])
        {
            other.call(&["DEL", "ended"]);
            let busy = server.client();
            let requests = format!("{costly}\r\n").repeat(REQUESTS);
            let mut reading = busy.stream().try_clone().unwrap();
            let reader = std::thread::spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
            busy.stream().write_all(format!("{first}\r\n{requests}INCR ended\r\n").as_bytes()).unwrap();
            let mut turns = 0;
            while other.call(&["EXISTS", "ended"]) == b":0\r\n" {
                turns += 1;
            }
            println!("{engine}: {turns} turns during {REQUESTS} times {costly} after {first}");
            assert!(turns >= 20, "{engine}: {turns} turns during {REQUESTS} times {costly} after {first}");
            busy.stream().shutdown(std::net::Shutdown::Both).unwrap();
            reader.join().unwrap().ok();
        }
    }
}

/// Replies of few bytes end no turn, but time does.
#[test]
fn a_pipeline_of_slow_commands_lets_others_have_their_turn() {
    for engine in ["mutex", "dashmap", "actor"] {
        let server = Server::start(Setup { engine, shards: 1, threads: 1 }, &["--appendonly", "no"]);
        let mut other = server.client();
        other.expect("SETBIT bits 100000000 1", ":0\r\n");
        let mut subscribers: Vec<Client> = (0..800).map(|_| server.client()).collect();
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.value(&["SUBSCRIBE", "channel"]).elements()[2].integer(), 1);
        }
        for (slow, requests) in [("BITCOUNT bits", 1500), ("PUBLISH channel m", 5000)] {
            other.call(&["DEL", "ended"]);
            let mut busy = server.client();
            busy.send(format!("{}INCR ended\r\n", format!("{slow}\r\n").repeat(requests)).as_bytes());
            let mut turns = 0;
            while other.call(&["EXISTS", "ended"]) == b":0\r\n" {
                turns += 1;
            }
            println!("{engine}: {turns} turns during {requests} times {slow}");
            assert!(turns >= 5, "{engine}: {turns} turns during {requests} times {slow}");
            (0..=requests).for_each(|_| drop(busy.reply()));
        }
    }
}

/// The shards of a thread may each run a batch before the others' turn.
#[test]
fn slow_commands_of_many_shards_let_others_have_their_turn_as_soon() {
    let server = Server::start(Setup { engine: "actor", shards: 8, threads: 1 }, &["--appendonly", "no"]);
    let mut other = server.client();
    let keys = 0..32;
    keys.clone().for_each(|key| other.expect(&format!("SETBIT bits:{key} 50000000 1"), ":0\r\n"));
    let mut busy = server.client();
    let start = Instant::now();
    let slow: String = keys.cycle().take(4000).map(|key| format!("BITCOUNT bits:{key}\r\n")).collect();
    busy.send(format!("{slow}INCR ended\r\n").as_bytes());
    let mut turns = 0;
    while other.call(&["EXISTS", "ended"]) == b":0\r\n" {
        turns += 1;
    }
    let took = start.elapsed();
    println!("{turns} turns in {took:?}");
    assert!(took / (turns + 1) < Duration::from_millis(60), "{turns} turns in {took:?}");
}

/// Keys of strings of one megabyte, on all shards.
fn set_megabytes_everywhere(server: &Endpoint) -> Vec<String> {
    let value = "v".repeat(MB as usize);
    let mut client = server.client();
    let keys: Vec<String> = (0..6).map(|key| format!("big{key}")).collect();
    keys.iter().for_each(|key| _ = client.call(&["SET", key, &value]));
    keys
}

fn send_without_reading(server: &Endpoint, requests: &[u8]) -> Client {
    let client = server.client();
    client.stream().set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // The server stops reading: that ends it.
    let _ = client.stream().write_all(requests);
    client
}

#[test]
fn pipelined_large_replies_take_no_more_memory_than_what_is_on_its_way() {
    const REPLIES: usize = 300;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let keys = set_megabytes_everywhere(&server);
        let before = server.resident_bytes();
        let mut client = server.client();
        let requests: Vec<u8> = keys.iter().cycle().take(REPLIES).flat_map(|key| request(&["GET", key])).collect();
        client.send(&requests);
        skip(&client, REPLIES as u64 * bulk_len(1));
        let grown = (server.peak_resident_bytes() - before) / MB;
        println!("{setup:?}: {grown} MB for replies of {REPLIES} MB");
        assert!(grown < REPLIES as u64 / 6, "{setup:?}: {grown} MB for replies of {REPLIES} MB");
        client.expect("PING", "+PONG\r\n");
    }
}

#[test]
fn what_is_asked_after_replies_that_wait_to_be_read_runs_in_order_and_in_one_step() {
    const ROUNDS: usize = 40;
    let relaxed: [&[&str]; 2] = [&["--appendonly", "no"], &["--appendonly", "no", "--multi-key", "relaxed"]];
    for (setup, flags) in EVERY_ENGINE.into_iter().flat_map(|setup| relaxed.map(|flags| (setup, flags))) {
        let server = Server::start(setup, flags);
        let keys = set_megabytes_everywhere(&server);
        let (mut requests, mut wanted) = (Vec::new(), Vec::new());
        let mut ask = |line: String, reply: String| {
            requests.extend(request(&words(&line)));
            wanted.push(reply);
        };
        for round in 0..ROUNDS {
            let numbers = format!("[{round}, {round}, {round}]");
            ask(format!("GET {}", keys[round % keys.len()]), format!("{MB} bytes"));
            ask("INCR a".into(), format!("{}", 2 * round + 1));
            ask(format!("MSET x {round} y {round} z {round}"), "OK".into());
            (1..3).for_each(|more| ask(format!("GET {}", keys[(round + more) % keys.len()]), format!("{MB} bytes")));
            ask("MGET x y z".into(), numbers.clone());
            ask("MULTI".into(), "OK".into());
            ask("INCR a".into(), "QUEUED".into());
            ask("MGET x y z".into(), "QUEUED".into());
            ask("EXEC".into(), format!("[{}, {numbers}]", 2 * round + 2));
            ask(format!("LPUSH list {round}"), "1".into());
            ask(format!("GET {}", keys[(round + 3) % keys.len()]), format!("{MB} bytes"));
            ask("RPOPLPUSH list other".into(), round.to_string());
            ask("BLPOP other 0".into(), format!("[other, {round}]"));
        }
        let mut client = server.client();
        let mut writer = client.stream().try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&requests).unwrap());
            std::thread::sleep(Duration::from_millis(200));
            for (index, wanted) in wanted.iter().enumerate() {
                assert_eq!(&short(&client.value_of_next()), wanted, "{setup:?} {flags:?}: reply {index}");
            }
        });
    }
}

/// A reply for humans, without its large parts.
fn short(value: &Value) -> String {
    match value {
        Value::Array(elements) => format!("[{}]", elements.iter().map(short).collect::<Vec<_>>().join(", ")),
        Value::Integer(number) => number.to_string(),
        other if other.bytes().len() as u64 >= MB => format!("{} bytes", other.bytes().len()),
        other => other.text(),
    }
}

#[test]
fn a_client_that_goes_while_its_replies_wait_leaves_nothing() {
    on_every_engine(|server| {
        let keys = set_megabytes_everywhere(server);
        let gets: Vec<u8> = keys.iter().cycle().take(60).flat_map(|key| request(&["GET", key])).collect();
        for last in ["BLPOP list 0", "MGET a b c", "SET written 1"] {
            let slow = send_without_reading(server, &[&gets[..], &request(&words(last))].concat());
            std::thread::sleep(Duration::from_millis(100));
            drop(slow);
        }
        wait_until("they are gone", || server.info_number("connected_clients") == 1);
        let mut client = server.client();
        client.expect("LPUSH list element", ":1\r\n");
        client.expect("LRANGE list 0 -1", "*1\r\n$7\r\nelement\r\n");
        server.assert_serving();
    });
}

#[test]
fn a_client_that_starts_to_read_late_gets_every_reply_in_order() {
    const REPLIES: usize = 3_000;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        let value = "v".repeat(10_000);
        client.call(&["SET", "k", &value]);
        let requests: Vec<u8> = (0..REPLIES)
            .flat_map(|index| [request(&["GET", "k"]), request(&["ECHO", &index.to_string()])].concat())
            .collect();
        let mut writer = client.stream().try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&requests).unwrap());
            std::thread::sleep(Duration::from_millis(300));
            let replies = client.values(2 * REPLIES);
            for (index, pair) in replies.chunks(2).enumerate() {
                assert_eq!(pair[0].bytes().len(), 10_000, "{setup:?}: reply {index}");
                assert_eq!(pair[1].text(), index.to_string(), "{setup:?}");
            }
        });
    }
}

/// The most bytes of requests that a client of the server has waiting.
fn held(server: &Server) -> u64 {
    let list = server.client().value(&["CLIENT", "LIST"]).text();
    let held = list.lines().filter_map(|line| line.split_once(" qbuf=")?.1.split(' ').next()?.parse::<u64>().ok());
    held.max().unwrap_or(0)
}

/// 26 MB of requests whose replies are as large: more than the sockets hold of either.
fn long_pipeline() -> (Vec<u8>, Vec<u8>) {
    let key = "k".repeat(100);
    let requests = request(&["GET", &key]).repeat(200_000);
    let replies = format!("$100\r\n{}\r\n", "v".repeat(100)).repeat(200_000);
    (requests, replies.into_bytes())
}

#[test]
fn a_client_may_write_all_of_a_long_pipeline_before_it_reads() {
    for (setup, batching) in EVERY_ENGINE.into_iter().flat_map(|setup| EVERY_BATCHING.map(|batching| (setup, batching)))
    {
        println!("on {setup:?} with {batching:?}");
        let server = Server::start(setup, &[&batching[..], &["--appendonly", "no"]].concat());
        let mut client = server.client();
        client.call(&["SET", &"k".repeat(100), &"v".repeat(100)]);
        let (requests, replies) = long_pipeline();
        client.stream().set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        client.send(&requests);
        let mut read = vec![0; replies.len()];
        client.stream().read_exact(&mut read).unwrap();
        assert!(read == replies, "{setup:?}: other replies");
        client.expect("PING", "+PONG\r\n");
    }
}

#[test]
fn a_pipeline_over_the_query_limit_waits_until_its_client_reads_and_stays() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--appendonly", "no", "--client-query-buffer-limit", "1mb"]);
        let mut client = server.client();
        client.call(&["SET", &"k".repeat(100), &"v".repeat(100)]);
        let (requests, replies) = long_pipeline();
        let mut writer = client.stream().try_clone().unwrap();
        let (has_written, written) = std::sync::mpsc::channel();
        let sending = std::thread::spawn(move || {
            writer.write_all(&requests).unwrap();
            has_written.send(()).unwrap();
        });
        wait_until("as much is held as may be", || held(&server) == MB);
        assert!(written.try_recv().is_err(), "{setup:?}: the sockets hold all of it, so that nothing is tested");
        // In pieces, so that the server goes on and stops many times.
        for expected in replies.chunks(64 * 1024) {
            let mut read = vec![0; expected.len()];
            client.stream().read_exact(&mut read).unwrap();
            assert!(read == expected, "{setup:?}: other replies");
        }
        sending.join().unwrap();
        client.expect("PING", "+PONG\r\n");
    }
}

/// Reads and drops so many bytes of replies.
fn skip(client: &Client, bytes: u64) {
    let read = std::io::copy(&mut client.stream().take(bytes), &mut std::io::sink());
    assert_eq!(read.expect("the replies come"), bytes);
}

/// A string of so many megabytes, made by the server.
fn set_megabytes(client: &mut Client, key: &str, megabytes: u64) {
    let last = (megabytes * MB - 1).to_string();
    assert_eq!(client.value(&["SETRANGE", key, &last, "v"]).integer() as u64, megabytes * MB);
}

/// The length of a bulk string of so many megabytes, as sent.
fn bulk_len(megabytes: u64) -> u64 {
    let len = megabytes * MB;
    len + len.to_string().len() as u64 + 5
}

/// The processor time of a reply of so many megabytes, per megabyte: the best of several, after a first one that
/// allocates its memory from the operating system.
fn cost_of_megabyte(server: &Server, megabytes: u64) -> Duration {
    const REPLIES: usize = 5;
    let mut client = server.client();
    set_megabytes(&mut client, "large", megabytes);
    let costs = (0..REPLIES).map(|_| {
        let before = server.cpu_time();
        client.send(&request(&["GET", "large"]));
        skip(&client, bulk_len(megabytes));
        server.cpu_time() - before
    });
    costs.min().expect("there are some") / u32::try_from(megabytes).unwrap()
}

#[test]
fn a_byte_of_a_large_reply_costs_no_more_than_one_of_a_smaller() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let (small, large) = (cost_of_megabyte(&server, 16), cost_of_megabyte(&server, 240));
        println!("{setup:?}: {small:?} for a megabyte of 16, {large:?} for one of 240");
        // A smaller part of the larger one is in the cache.
        assert!(large < 3 * small, "{setup:?}: {large:?} against {small:?}");
    }
}

#[test]
fn the_replies_of_a_transaction_take_memory_once_and_none_if_they_share_it_with_the_value() {
    const REPLIES: u64 = 96;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--client-output-buffer-limit", "normal 0 0 0", "--appendonly", "no"]);
        set_megabyte(&server);
        let before = server.resident_bytes();
        let mut client = server.client();
        let mut grown_by = |read: &str| {
            client.expect("MULTI", "+OK\r\n");
            for _ in 0..REPLIES {
                client.expect(read, "+QUEUED\r\n");
            }
            client.send(&request(&["EXEC"]));
            skip(&client, 5 + REPLIES * bulk_len(1));
            let grown = (server.peak_resident_bytes() - before) / MB;
            println!("{setup:?}: {grown} MB for {REPLIES} MB of replies to {read}");
            grown
        };
        assert!(grown_by("GET big") < 8, "{setup:?}: a shared value is not copied");
        let grown = grown_by("GETRANGE big 0 -1");
        assert!(grown >= REPLIES / 2, "{setup:?}: the test sees memory");
        assert!(grown < REPLIES * 3 / 2, "{setup:?}: {grown} MB for replies of {REPLIES} MB");
        client.expect("PING", "+PONG\r\n");
    }
}

#[test]
fn a_transaction_over_the_output_limit_is_one_step_and_its_replies_take_no_more_memory() {
    const LIMIT_MB: u64 = 4;
    const REPLIES: u64 = 100;
    for setup in EVERY_ENGINE {
        let limit = format!("normal {LIMIT_MB}mb 0 0");
        let server = Server::start(setup, &["--client-output-buffer-limit", &limit, "--appendonly", "no"]);
        set_megabyte(&server);
        let mut other = server.client();
        other.call(&["SUBSCRIBE", "c"]);
        let before = server.resident_bytes();
        let mut client = server.client();
        let mut queue = |line: &str| client.send(&request(&words(line)));
        queue("MULTI");
        queue("SET first 1");
        (0..REPLIES).for_each(|_| queue("GET big"));
        queue("PUBLISH c message");
        queue("CONFIG SET slowlog-max-len 77");
        queue("SET last 1");
        queue("EXEC");
        let replies = client.until_closed();
        assert!(replies.ends_with(b"+QUEUED\r\n"), "{setup:?}: {} bytes", replies.len());
        let grown = (server.peak_resident_bytes() - before) / MB;
        println!("{setup:?}: {grown} MB for replies over {LIMIT_MB} MB");
        assert!(grown < LIMIT_MB + 16, "{setup:?}: {grown} MB for replies over {LIMIT_MB} MB");
        assert_eq!(other.values(1)[0].elements()[2].bytes(), b"message", "{setup:?}");
        let mut client = server.client();
        client.expect("MGET first last", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
        assert_eq!(client.value(&["CONFIG", "GET", "slowlog-max-len"]).elements()[1].text(), "77", "{setup:?}");
        server.wait_for_log("overcoming of output buffer limits");
        assert_eq!(server.info_number("client_output_buffer_limit_disconnections"), 1, "{setup:?}");
    }
}

#[test]
fn a_request_that_has_begun_is_parsed_after_those_that_wait_for_room() {
    for setup in EVERY_ENGINE {
        for batching in EVERY_BATCHING {
            let server = Server::start(setup, &batching);
            set_megabyte(&server);
            let mut client = server.client();
            let gets = request(&["GET", "big"]).repeat(5);
            for (begun, rest) in [
                ("*2\r\n$4\r\nECHO\r\n$10\r\n01234", "56789\r\n"),
                ("*2\r\n$4\r\nECHO\r\n$10", "\r\n0123456789\r\n"),
                ("ECHO 01234", "56789\r\n"),
            ] {
                client.send(&[&gets, begun.as_bytes()].concat());
                skip(&client, bulk_len(1));
                client.send(rest.as_bytes());
                skip(&client, 4 * bulk_len(1));
                assert_eq!(client.reply(), b"$10\r\n0123456789\r\n", "{setup:?} with {batching:?}: {begun}");
            }
            client.send(&[&gets[..], b"*1\r\nnonsense\r\n"].concat());
            skip(&client, 5 * bulk_len(1));
            let error = "-ERR Protocol error: expected '$', got 'n'\r\n";
            assert_eq!(String::from_utf8_lossy(&client.until_closed()), error, "{setup:?} with {batching:?}");
        }
    }
}

#[test]
fn large_and_small_replies_of_a_transaction_keep_their_places() {
    on_every_engine(|server| {
        let mut client = server.client();
        let values: Vec<String> = [3, 200_000, 70_000, 2_000_000, 0].iter().map(|len| "v".repeat(*len)).collect();
        for (index, value) in values.iter().enumerate() {
            client.call(&["SET", &format!("k{index}"), value]);
        }
        client.expect("MULTI", "+OK\r\n");
        let mut wanted = Vec::new();
        for round in 0..4 {
            for (index, value) in values.iter().enumerate() {
                for _ in 0..=round {
                    client.call(&["GET", &format!("k{index}")]);
                    wanted.push(value.clone());
                }
                if (round + index) % 2 == 0 {
                    client.call(&["ECHO", &format!("{round} {index}")]);
                    wanted.push(format!("{round} {index}"));
                }
            }
        }
        let replies = client.value(&["EXEC"]);
        let lens = |texts: &[String]| texts.iter().map(String::len).collect::<Vec<_>>();
        let texts: Vec<String> = replies.elements().iter().map(Value::text).collect();
        assert!(texts == wanted, "{:?} instead of {:?}", lens(&texts), lens(&wanted));
        // If they are muted, they are not sent.
        client.send(&request(&["CLIENT", "REPLY", "OFF"]));
        for line in ["MULTI", "GET k3", "ECHO x", "INCR n", "GET k1", "EXEC"] {
            client.send(&request(&words(line)));
        }
        client.expect("CLIENT REPLY ON", "+OK\r\n");
        client.expect("GET n", "$1\r\n1\r\n");
    });
}

#[test]
fn large_replies_of_several_shards_keep_their_places() {
    const KEYS: usize = 12;
    on_every_engine(|server| {
        let mut client = server.client();
        let value = |key: usize| key.to_string().repeat([1, 1_000, 80_000, 1_200_000][key % 4]);
        for key in 0..KEYS {
            client.call(&["SET", &key.to_string(), &value(key)]);
        }
        let mut requests = Vec::new();
        let mut wanted = Vec::new();
        for key in 0..KEYS {
            requests.extend([request(&["GET", &key.to_string()]), request(&["ECHO", "here"])].concat());
            wanted.extend([value(key), "here".to_owned()]);
        }
        client.send(&requests);
        let texts: Vec<String> = client.values(wanted.len()).iter().map(Value::text).collect();
        assert!(texts == wanted, "{:?}", texts.iter().map(String::len).collect::<Vec<_>>());
        let all: Vec<String> = ["MGET".to_owned()].into_iter().chain((0..KEYS).map(|key| key.to_string())).collect();
        let texts: Vec<String> = client.value(&all).elements().iter().map(Value::text).collect();
        assert!(texts == (0..KEYS).map(value).collect::<Vec<_>>());
    });
}

#[test]
fn a_part_of_a_reply_over_the_output_limit_closes_the_connection_alone() {
    // The parts come back together if one thread does everything.
    let together = Setup { engine: "actor", shards: 4, threads: 1 };
    for setup in EVERY_ENGINE.into_iter().chain([together]) {
        let server = Server::start(setup, &["--client-output-buffer-limit", "normal 1mb 0 0", "--appendonly", "no"]);
        let value = "v".repeat(2 * MB as usize);
        let keys: Vec<String> = (0..8).map(|key| key.to_string()).collect();
        keys.iter().for_each(|key| _ = server.client().call(&["SET", key, &value]));
        let mut client = server.client();
        let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        client.send(&request(&mget));
        assert!(client.until_closed().len() < 2 * MB as usize, "{setup:?}");
        server.assert_serving();
    }
}

#[test]
fn a_reply_over_the_output_limit_of_a_command_that_may_wait_closes_the_connection() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--client-output-buffer-limit", "normal 1mb 0 0", "--appendonly", "no"]);
        let element = "e".repeat(2 * MB as usize);
        server.client().call(&["RPUSH", "list", "small", &element]);
        let mut client = server.client();
        client.expect("BLPOP list 0", "*2\r\n$4\r\nlist\r\n$5\r\nsmall\r\n");
        client.send(&request(&["BLPOP", "list", "0"]));
        assert_eq!(client.until_closed(), b"", "{setup:?}");
        server.wait_for_log("overcoming of output buffer limits");
        server.assert_serving();
    }
}

#[test]
fn an_output_limit_holds_for_all_that_runs_after_it_was_set() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--client-output-buffer-limit", "normal 1mb 0 0", "--appendonly", "no"]);
        let mut client = server.client();
        set_megabytes(&mut client, "large", 4);
        client.expect("CONFIG SET client-output-buffer-limit \"normal 0 0 0\"", "+OK\r\n");
        client.send(&request(&["GET", "large"]));
        skip(&client, bulk_len(4));
        client.expect("CONFIG SET client-output-buffer-limit \"normal 1mb 0 0\"", "+OK\r\n");
        client.send(&request(&["GET", "large"]));
        assert!(client.until_closed().len() < 4 * MB as usize, "{setup:?}");
    }
}

#[test]
fn a_small_reply_is_within_the_lowest_limit_and_a_large_one_is_not() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.call(&["SET", "small", &"v".repeat(10_000)]);
        client.call(&["SET", "large", &"v".repeat(100_000)]);
        let set = "CONFIG SET client-output-buffer-limit";
        client.expect(&format!("{set} \"normal 1 1 1 pubsub 1 1 1\""), "+OK\r\n");
        client.expect("PING", "+PONG\r\n");
        let mut other = server.client();
        assert_eq!(other.value(&["GET", "small"]).bytes().len(), 10_000);
        let mut subscriber = server.client();
        assert_eq!(subscriber.value(&["SUBSCRIBE", "c"]).elements().len(), 3);
        other.expect("PUBLISH c message", ":1\r\n");
        assert_eq!(subscriber.values(1)[0].elements()[2].bytes(), b"message");
        other.send(&request(&["GET", "large"]));
        assert!(other.until_closed().len() < 100_000);
        client.expect(&format!("{set} \"normal 0 0 0\""), "+OK\r\n");
        assert_eq!(client.value(&["GET", "large"]).bytes().len(), 100_000);
    });
}

/// In its long form they add up to more than 4 GB, which takes that much memory.
#[test]
fn large_replies_are_sent_whole_whatever_they_add_up_to() {
    let megabytes = effort("LARGE_REPLY_MB", 17).min(850) as u64;
    for setup in EVERY_ENGINE {
        let flags = ["--client-output-buffer-limit", "normal 0 0 0", "--proto-max-bulk-len", "1gb"];
        let server = Server::start(setup, &[&flags[..], &["--appendonly", "no"]].concat());
        let mut client = server.client();
        set_megabytes(&mut client, "large", megabytes);
        client.send(&request(&["GET", "large"]).repeat(5));
        skip(&client, 5 * bulk_len(megabytes));
        client.expect("PING", "+PONG\r\n");
        client.expect("MULTI", "+OK\r\n");
        for _ in 0..5 {
            client.expect("GET large", "+QUEUED\r\n");
        }
        client.expect("PING", "+QUEUED\r\n");
        client.send(&request(&["EXEC"]));
        skip(&client, 4 + 5 * bulk_len(megabytes) + 7);
        client.expect("PING", "+PONG\r\n");
        println!("{setup:?}: at most {} MB", server.peak_resident_bytes() / MB);
    }
}
