//! `maxmemory-clients`: what connections take together is bounded, and those that take most are closed.

use harness::{Client, EVERY_ENGINE, Server, Value, on_every_process, request, wait_until};
use std::time::Duration;

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

fn limit(server: &Server, bytes: usize) {
    let reply = server.client().call(&["CONFIG", "SET", "maxmemory-clients", &bytes.to_string()]);
    assert_eq!(reply, b"+OK\r\n");
}

fn named(server: &Server, name: &str) -> Client {
    let mut client = server.client();
    client.expect(&format!("CLIENT SETNAME {name}"), "+OK\r\n");
    client
}

/// A field of a client's line in CLIENT LIST; none if it is gone.
fn field(server: &Server, name: &str, field: &str) -> Option<u64> {
    field_by(&mut server.client(), name, field)
}

fn field_by(client: &mut Client, name: &str, field: &str) -> Option<u64> {
    let list = client.value(&["CLIENT", "LIST"]).text();
    let line = list.lines().find(|line| line.contains(&format!(" name={name} ")))?;
    let value = line.split(' ').find_map(|word| word.strip_prefix(&format!("{field}=")));
    Some(value.expect("the field").parse().expect("a number"))
}

fn is_there(server: &Server, name: &str) -> bool {
    field(server, name, "id").is_some()
}

fn evicted(server: &Server) -> u64 {
    server.info_number("evicted_clients")
}

/// Sends a request but for its end.
fn send_most_of(client: &mut Client, bytes: usize) {
    client.send(format!("*2\r\n$3\r\nGET\r\n${bytes}\r\n").as_bytes());
    client.send_if_open(&vec![b'v'; bytes - 1]);
}

/// Does something again and again until the connection is closed, and fails if it is not.
fn until_evicted(server: &Server, what: &str, mut client: Client, step: impl Fn(usize) -> Vec<u8>) {
    let before = evicted(server);
    for turn in 0..100_000 {
        client.send_if_open(&step(turn));
        if client.values_if_open(1).is_none() {
            assert_eq!(evicted(server), before + 1, "{what}");
            return;
        }
    }
    panic!("{what}: it is still there");
}

#[test]
fn a_request_that_is_too_large_for_all_ends_its_client_and_does_not_run() {
    on_every_process(|server| {
        limit(server, 3 * MB);
        let mut client = named(server, "large");
        client.expect(&format!("SET small {}", "v".repeat(MB)), "+OK\r\n");
        client.send_if_open(&request(&["SET", "large", &"v".repeat(3 * MB)]));
        assert_eq!(client.until_closed(), b"");
        assert!(!is_there(server, "large"));
        assert_eq!(server.client().value(&["EXISTS", "small", "large"]), Value::Integer(1));
        assert_eq!(evicted(server), 1);
        server.client().expect("CONFIG RESETSTAT", "+OK\r\n");
        assert_eq!(evicted(server), 0);
    });
}

#[test]
fn whatever_a_client_takes_counts() {
    on_every_process(|server| {
        limit(server, 200 * KB);
        let queue = |turn| request(&["SET".into(), format!("k{turn}"), "v".repeat(10 * KB)]);
        let mut client = server.client();
        client.expect("MULTI", "+OK\r\n");
        until_evicted(server, "MULTI", client, queue);
        for word in ["WATCH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
            let step = |turn| request(&[word.into(), format!("name-{turn:050}")]);
            until_evicted(server, word, server.client(), step);
        }
        let tracked = |turn: usize| {
            let name = format!("{turn:0100}");
            request(&[
                "CLIENT",
                "TRACKING",
                "ON",
                "BCAST",
                "PREFIX",
                &format!("a{name}"),
                "PREFIX",
                &format!("b{name}"),
            ])
        };
        until_evicted(server, "CLIENT TRACKING", server.client(), tracked);
        server.assert_serving();
    });
}

#[test]
fn what_is_given_back_counts_no_more() {
    on_every_process(|server| {
        limit(server, 200 * KB);
        let mut client = named(server, "client");
        let at_first = field(server, "client", "tot-mem").unwrap();
        for (take, give) in [("WATCH", "UNWATCH"), ("SUBSCRIBE", "UNSUBSCRIBE"), ("PSUBSCRIBE", "PUNSUBSCRIBE")] {
            for _ in 0..5 {
                let names: Vec<String> = (0..500).map(|name| format!("name-{name:050}")).collect();
                let take: Vec<String> = std::iter::once(take.into()).chain(names).collect();
                client.send(&request(&take));
                client.values(if give == "UNWATCH" { 1 } else { 500 });
                // A reply may be here before it is noted as sent.
                wait_until(give, || {
                    let taken = field(server, "client", "tot-mem").unwrap() - at_first;
                    (500 * 55..500 * 200).contains(&(taken as usize))
                });
                client.send(&request(&[give]));
                client.values(if give == "UNWATCH" { 1 } else { 500 });
                wait_until(give, || field(server, "client", "tot-mem") == Some(at_first));
            }
        }
        for _ in 0..20 {
            client.expect("MULTI", "+OK\r\n");
            client.expect(&format!("SET k {}", "v".repeat(50 * KB)), "+QUEUED\r\n");
            client.expect("DISCARD", "+OK\r\n");
        }
        assert_eq!(evicted(server), 0);
    });
}

#[test]
fn replies_and_messages_that_are_not_read_count() {
    on_every_process(|server| {
        limit(server, 3 * MB);
        server.client().expect("SETRANGE k 20000000 v", ":20000001\r\n");
        let mut reader = named(server, "reader");
        reader.send(&request(&["GET", "k"]));
        wait_until("the reader is gone", || !is_there(server, "reader"));
        let mut subscriber = named(server, "subscriber");
        subscriber.send(&request(&["SUBSCRIBE", "c"]));
        subscriber.values(1);
        let mut publisher = named(server, "publisher");
        let message = "m".repeat(100 * KB);
        wait_until("the subscriber is gone", || {
            publisher.call(&["PUBLISH", "c", &message]);
            !is_there(server, "subscriber")
        });
        assert!(is_there(server, "publisher"));
        assert_eq!(evicted(server), 2);
        assert_eq!(server.info_number("client_output_buffer_limit_disconnections"), 0);
    });
}

#[test]
fn those_that_take_most_go_first_and_no_more_than_must() {
    on_every_process(|server| {
        // With no limit nothing is counted, and nobody goes.
        let clients: Vec<Client> = (0..10)
            .map(|number| {
                let mut client = named(server, &format!("client-{number}"));
                send_most_of(&mut client, 100 * KB * (number + 1));
                client
            })
            .collect();
        let all_sent = || {
            (0..10).all(|number| {
                let sent = field(server, &format!("client-{number}"), "qbuf").unwrap() as usize;
                sent + KB > 100 * KB * (number + 1)
            })
        };
        wait_until("all are there", all_sent);
        let left =
            || -> Vec<usize> { (0..10).filter(|number| is_there(server, &format!("client-{number}"))).collect() };
        // Without the three largest it is 2,800 KB, and what ten connections take besides.
        limit(server, 3200 * KB);
        assert_eq!(left(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(evicted(server), 3);
        limit(server, 400 * KB);
        assert_eq!(left(), [0, 1]);
        limit(server, 0);
        assert_eq!(evicted(server), 8);
        drop(clients);
    });
}

#[test]
fn a_client_with_no_evict_stays_and_goes_when_it_says_otherwise() {
    on_every_process(|server| {
        limit(server, MB);
        let [mut stays, mut control] = ["stays", "control"].map(|name| {
            let mut client = named(server, name);
            client.expect("CLIENT NO-EVICT ON", "+OK\r\n");
            client
        });
        send_most_of(&mut stays, 2 * MB);
        wait_until("it is there", || field_by(&mut control, "stays", "tot-mem") > Some(2 * MB as u64));
        // It counts: others go.
        wait_until("another goes", || {
            let mut other = server.client();
            other.send_if_open(b"PING\r\n");
            std::thread::sleep(Duration::from_millis(10));
            other.values_if_open(2).is_none()
        });
        stays.send(b"v\r\n");
        assert_eq!(stays.reply(), b"$-1\r\n");
        stays.expect("CLIENT NO-EVICT OFF", "+OK\r\n");
        stays.send_if_open(&request(&["GET", &"v".repeat(2 * MB)]));
        assert_eq!(stays.until_closed(), b"");
    });
}

#[test]
fn a_percentage_is_one_of_maxmemory_and_the_least_is_128_kilobytes() {
    on_every_process(|server| {
        let mut client = server.client();
        let mut set = |name: &str, value: &str, shown: &str| {
            client.expect(&format!("CONFIG SET {name} {value}"), "+OK\r\n");
            let reply = format!("*2\r\n${}\r\n{name}\r\n${}\r\n{shown}\r\n", name.len(), shown.len());
            client.expect(&format!("CONFIG GET {name}"), &reply);
        };
        let is_taken = |bytes: usize| {
            let mut client = server.client();
            client.send_if_open(&request(&["ECHO", &"v".repeat(bytes)]));
            client.values_if_open(1).is_some()
        };
        set("maxmemory-clients", "10%", "10%");
        assert!(is_taken(20 * MB), "there is no maxmemory");
        set("maxmemory", "100mb", "104857600");
        assert!(is_taken(9 * MB) && !is_taken(11 * MB));
        set("maxmemory", "200mb", "209715200");
        assert!(is_taken(11 * MB));
        set("maxmemory-clients", "2mb", "2097152");
        assert!(!is_taken(3 * MB));
        set("maxmemory-clients", "1", "1");
        assert!(is_taken(64 * KB) && !is_taken(128 * KB));
        set("maxmemory-clients", "0", "0");
        assert!(is_taken(20 * MB));
    });
}

#[test]
fn what_is_counted_is_what_the_connections_say() {
    on_every_process(|server| {
        limit(server, 10 * MB);
        // Each ends while it takes something, by itself, by CLIENT KILL, or because it takes too much.
        for turn in 0..60 {
            let mut client = server.client();
            client.send(&request(&["CLIENT", "ID"]));
            let id = client.value_of_next().integer();
            send_most_of(&mut client, [MB, 20 * MB][turn % 2]);
            if turn % 3 == 0 {
                server.client().call(&["CLIENT", "KILL", "ID", &id.to_string()]);
            }
            if turn % 10 == 0 {
                limit(server, 0);
                limit(server, 10 * MB);
            }
        }
        wait_until("all have ended", || server.info_number("connected_clients") <= 1);
        let listed = |server: &Server| -> u64 {
            let list = server.client().value(&["CLIENT", "LIST", "TYPE", "normal"]).text();
            list.lines()
                .map(|line| line.split_once(" tot-mem=").unwrap().1.split(' ').next().unwrap())
                .map(|it| it.parse::<u64>().unwrap())
                .sum()
        };
        assert!(server.info_number("mem_clients_normal").abs_diff(listed(server)) < 64 * KB as u64);
        // If some that are gone were still counted, these would be too many.
        let mut clients: Vec<Client> = (0..9).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| send_most_of(client, MB));
        wait_until("all are there", || listed(server) > 9 * MB as u64);
        clients.iter_mut().for_each(|client| {
            client.send(b"v\r\n");
            assert_eq!(client.reply(), b"$-1\r\n");
        });
    });
}

#[test]
fn a_replica_is_not_counted_and_the_log_says_who_went() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--maxmemory-clients", "4mb", "--repl-diskless-sync-delay", "0"]);
        let mut replica = server.client();
        replica.send(b"PSYNC ? -1\r\n");
        wait_until("it is a replica", || server.info_number("connected_slaves") == 1);
        for key in 0..30 {
            server.client().call(&["SET", &format!("k{key}"), &"v".repeat(MB)]);
        }
        wait_until("it lags", || server.info_number("mem_clients_slaves") > 10 * MB as u64);
        // The housekeeping has looked at it.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(server.info_number("evicted_clients"), 0);
        let mut client = server.client();
        client.expect("CLIENT SETNAME hungry", "+OK\r\n");
        client.send_if_open(&request(&["SET", "k", &"v".repeat(6 * MB)]));
        assert_eq!(client.until_closed(), b"");
        server.wait_for_log("Evicting client: id=");
        assert!(server.log().lines().any(|line| line.contains("Evicting client: ") && line.contains("name=hungry")));
        assert_eq!(server.info_number("connected_slaves"), 1);
    }
}
