//! Publish and subscribe: what each connection sees, byte for byte as from redis-server, and what is left afterwards.

use super::conversation::{Pace, check_conversation};
use harness::{
    Client, EVERY_ENGINE, Embedded, Server, Value, on_every_engine, on_every_process, request, wait_until, words,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn channels_patterns_and_shard_channels_are_those_of_redis() {
    check_conversation(
        Pace::AtOnce,
        r#"
        b PUBLISH a nobody
        a SUBSCRIBE a b a
        b PUBLISH a hello
        b PUBLISH b "with \r\n and \x00"
        b PUBLISH a ""
        c SUBSCRIBE a
        c PSUBSCRIBE [a]* x[
        c GET k
        b PUBLISH a twice
        b PUBLISH abc once
        b PUBLISH "" empty
        b PUBSUB NUMSUB a b nosuch a
        b PUBSUB NUMSUB
        b PUBSUB NUMPAT
        b PUBSUB CHANNELS b*
        b PUBSUB CHANNELS nosuch
        a PSUBSCRIBE [a]*
        b PUBSUB NUMPAT
        a PUNSUBSCRIBE [a]* nosuch
        a UNSUBSCRIBE a nosuch
        b PUBLISH a "to c"
        a UNSUBSCRIBE
        b PUBLISH b nobody
        a UNSUBSCRIBE
        a PUNSUBSCRIBE
        a SUNSUBSCRIBE
        a SUNSUBSCRIBE x y
        a GET k
        a SSUBSCRIBE s t
        c SSUBSCRIBE s
        c SUBSCRIBE s
        b SPUBLISH s m
        b PUBLISH s m
        b PUBSUB SHARDNUMSUB s t u
        b PUBSUB SHARDCHANNELS t
        b PUBSUB CHANNELS s
        a SUNSUBSCRIBE s
        a SUNSUBSCRIBE
        c SUNSUBSCRIBE
        c PUNSUBSCRIBE x[
        c PUNSUBSCRIBE
        b PUBSUB
        b PUBSUB NOSUCH
        b PUBSUB CHANNELS a b
        b PUBSUB NUMPAT x
        b PUBLISH a
        b SUBSCRIBE
        b SPUBLISH a b c
        b COMMAND GETKEYS SSUBSCRIBE a
        "#,
    );
}

#[test]
fn a_subscriber_in_resp2_may_only_subscribe_ping_and_leave() {
    check_conversation(
        Pace::AtOnce,
        r#"
        a SUBSCRIBE x
        a GET k
        a get
        a NOSUCH k
        a CLIENT LIST
        a CLIENT NOSUCH
        a HELLO 3
        a EXEC
        a PUBLISH x y
        a PING
        a PING hello
        a PING a b
        a UNSUBSCRIBE x
        a GET k
        a PSUBSCRIBE p*
        a GET k
        b PUBLISH px hi
        a RESET
        a GET k
        b PUBLISH px hi
        b PUBSUB NUMPAT
        a SSUBSCRIBE s
        a GET k
        a SUNSUBSCRIBE
        a GET k
        c SUBSCRIBE x
        c HELLO 2
        c GET k
        b PUBLISH x hi
        c RESET
        c PING
        "#,
    );
}

#[test]
fn inside_multi_subscriptions_are_as_in_redis() {
    check_conversation(
        Pace::AtOnce,
        r#"
        a MULTI
        a SUBSCRIBE x y
        a PING
        a SSUBSCRIBE s
        a GET k
        b PUBLISH x "not yet"
        a EXEC
        b PUBLISH x now
        a UNSUBSCRIBE x y
        c SUBSCRIBE x
        c MULTI
        c PUBLISH z 1
        b PUBLISH x "between"
        c UNSUBSCRIBE x
        c PSUBSCRIBE p
        c EXEC
        b PUBLISH x gone
        b PUBLISH p here
        b MULTI
        b PUBLISH p 1
        b PUBLISH p 2
        b EXEC
        c MULTI
        c SUBSCRIBE
        c EXEC
        "#,
    );
}

/// From Redis 7.2 on, what a connection publishes to itself comes after the reply (7.0 sent it before).
#[test]
fn what_a_connection_causes_for_itself_follows_its_reply() {
    on_every_engine(|server| {
        let mut client = Client::connect_resp3(server.address());
        client.expect("SUBSCRIBE x", ">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n");
        let push = |text: &str| format!(">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n${}\r\n{text}\r\n", text.len());
        client.send(&[request(&["PUBLISH", "x", "1"]), request(&["PING"])].concat());
        assert_eq!(String::from_utf8(client.reply()).unwrap(), ":1\r\n");
        assert_eq!(String::from_utf8(client.reply()).unwrap(), push("1"));
        assert_eq!(String::from_utf8(client.reply()).unwrap(), "+PONG\r\n");
        for line in ["MULTI", "PUBLISH x 2", "SET k v", "PUBLISH x 3"] {
            client.call(&words(line));
        }
        client.expect("EXEC", "*3\r\n:1\r\n+OK\r\n:1\r\n");
        assert_eq!(String::from_utf8(client.reply()).unwrap(), push("2"));
        assert_eq!(String::from_utf8(client.reply()).unwrap(), push("3"));

        // Events of its own commands, many in one pipeline: never before their replies.
        server.client().expect("CONFIG SET notify-keyspace-events KA", "+OK\r\n");
        client.call(&["PSUBSCRIBE", "__keyspace@0__:*"]);
        const SETS: usize = 500;
        let sets = (0..SETS).flat_map(|n| request(&["SET", &format!("key:{n}"), "v"]));
        client.send_and_hold(&sets.collect::<Vec<_>>());
        let (mut replies, mut events) = (0, 0);
        for value in client.values(2 * SETS) {
            match value {
                Value::Push(_) => events += 1,
                reply => {
                    assert_eq!(reply, Value::Simple("OK".into()));
                    replies += 1;
                }
            }
            assert!(events <= replies, "an event came before its reply");
        }
        assert_eq!((replies, events), (SETS, SETS));
    });
}

#[test]
fn a_message_tells_of_what_has_happened() {
    const MESSAGES: usize = 200;
    on_every_engine(|server| {
        let mut listener = server.client();
        listener.call(&["SUBSCRIBE", "c"]);
        let mut publisher = server.client();
        let pipeline = (0..MESSAGES).flat_map(|n| {
            let (n, key) = (n.to_string(), format!("key:{}", n % 10));
            [request(&["SET", &key, &n]), request(&["PUBLISH", "c", &n])].concat()
        });
        let pipeline: Vec<u8> = pipeline.collect();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                publisher.send_and_hold(&pipeline);
                let replies = publisher.values(2 * MESSAGES);
                let wanted = [Value::Simple("OK".into()), Value::Integer(1)];
                assert!(replies.chunks(2).all(|pair| pair == wanted), "{replies:?}");
            });
            let mut reader = server.client();
            for n in 0..MESSAGES {
                let message = Value::of(&listener.reply());
                assert_eq!(message.elements()[2].text(), n.to_string());
                let stored: usize = reader.value(&["GET", &format!("key:{}", n % 10)]).text().parse().unwrap();
                assert!(stored >= n, "message {n} tells of what is still {stored}");
            }
        });
    });
}

#[test]
fn nothing_of_a_channel_follows_the_goodbye_to_it() {
    const ROUNDS: usize = 60;
    on_every_engine(|server| {
        let mut listener = Client::connect_resp3(server.address());
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let mut publisher = server.client();
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        publisher.pipeline(&vec![vec!["PUBLISH", "c", "m"]; 20]);
                    }
                });
            }
            let mut messages = 0;
            let mut read_to = |listener: &mut Client, word: &str, allowed: bool| loop {
                let value = Value::of(&listener.reply());
                match value.elements()[0].text() {
                    got if got == word => return,
                    got => {
                        assert!(allowed && got == "message", "{got} instead of {word}");
                        messages += 1;
                    }
                }
            };
            for round in 0..ROUNDS {
                listener.send(&request(&["SUBSCRIBE", "c"]));
                read_to(&mut listener, "subscribe", false);
                if round % 2 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                listener.send(&request(&["UNSUBSCRIBE", "c"]));
                read_to(&mut listener, "unsubscribe", true);
            }
            is_over.store(true, Ordering::Relaxed);
            println!("{messages} messages in {ROUNDS} rounds");
            assert!(messages > 0);
        });
    });
}

#[test]
fn a_thousand_subscribers_get_every_message_in_order() {
    const SUBSCRIBERS: usize = 1_000;
    const MESSAGES: usize = 20;
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[2], EVERY_ENGINE[4]] {
        let server = Embedded::start(setup, &[]);
        let mut subscribers: Vec<Client> = (0..SUBSCRIBERS).map(|_| server.client()).collect();
        for (index, subscriber) in subscribers.iter_mut().enumerate() {
            let words: [&str; 2] = if index % 10 == 0 { ["PSUBSCRIBE", "ne*"] } else { ["SUBSCRIBE", "news"] };
            subscriber.send(&request(&words));
        }
        subscribers.iter_mut().for_each(|subscriber| _ = subscriber.reply());
        let mut publisher = server.client();
        let publish: Vec<Vec<String>> =
            (0..MESSAGES).map(|n| vec!["PUBLISH".into(), "news".into(), n.to_string()]).collect();
        let counts = publisher.pipeline(&publish);
        assert!(counts.iter().all(|count| *count == Value::Integer(SUBSCRIBERS as i64)), "{setup:?}: {counts:?}");
        for subscriber in &mut subscribers {
            for (n, message) in subscriber.values(MESSAGES).iter().enumerate() {
                assert_eq!(message.elements().last().unwrap().text(), n.to_string(), "{setup:?}");
            }
        }
    }
}

#[test]
fn a_subscriber_that_does_not_read_is_dropped_and_nobody_waits_for_it() {
    const MESSAGE: usize = 50_000;
    const MESSAGES_MAX: usize = 2_000;
    for setup in EVERY_ENGINE {
        let limit = "pubsub 4mb 0 0";
        let server = Server::start(setup, &["--client-output-buffer-limit", limit, "--appendonly", "no"]);
        let mut slow = server.client();
        slow.call(&["SUBSCRIBE", "c"]);
        let mut quick = server.client();
        quick.call(&["SUBSCRIBE", "c"]);
        let mut publisher = server.client();
        let message = "m".repeat(MESSAGE);
        let mut slowest = Duration::ZERO;
        let mut published = 0;
        loop {
            let start = Instant::now();
            let receivers = publisher.value(&["PUBLISH", "c", &message]).integer();
            slowest = slowest.max(start.elapsed());
            assert_eq!(quick.values(1)[0].elements()[2].bytes().len(), MESSAGE, "{setup:?}");
            published += 1;
            if receivers == 1 {
                break;
            }
            assert!(published < MESSAGES_MAX, "{setup:?}: the slow one is still there");
        }
        println!("{setup:?}: dropped after {published} messages, slowest PUBLISH {slowest:?}");
        assert!(published * MESSAGE > 4_000_000, "{setup:?}: it may have 4 MB");
        assert!(slowest < Duration::from_secs(2), "{setup:?}: {slowest:?}");
        server.wait_for_log("overcoming of output buffer limits");
        assert_eq!(server.info_number("client_output_buffer_limit_disconnections"), 1, "{setup:?}");
        slow.until_closed();
        assert_eq!(publisher.value(&["PUBSUB", "NUMSUB", "c"]).elements()[1], Value::Integer(1));
    }
}

#[test]
fn a_subscriber_over_the_soft_limit_for_too_long_is_dropped_and_a_normal_client_is_not() {
    let server = Embedded::start(EVERY_ENGINE[3], &["--appendonly", "no"]);
    let mut publisher = server.client();
    publisher.expect("CONFIG SET client-output-buffer-limit \"pubsub 0 1mb 1\"", "+OK\r\n");
    let mut slow = server.client();
    slow.call(&["SUBSCRIBE", "c"]);
    let message = "m".repeat(1 << 20);
    let start = Instant::now();
    (0..20).for_each(|_| _ = publisher.call(&["PUBLISH", "c", &message]));
    wait_until("the limit is seen", || server.info_number("client_output_buffer_limit_disconnections") == 1);
    assert!(start.elapsed() >= Duration::from_secs(1), "it had a second");
    wait_until("it is gone", || server.info_number("pubsub_channels") == 0);
    let limits = publisher.value(&["CONFIG", "GET", "client-output-buffer-limit"]).elements()[1].text();
    assert!(limits.contains("normal 0 0 0") && limits.contains("pubsub 0 1048576 1"), "{limits}");
}

#[test]
fn a_message_is_kept_once_however_many_wait_for_it() {
    const SUBSCRIBERS: u64 = 30;
    const MESSAGES: u64 = 24;
    const MB: u64 = 1 << 20;
    for setup in [EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut slow: Vec<Client> = (0..SUBSCRIBERS).map(|_| server.client()).collect();
        slow.iter_mut().for_each(|client| _ = client.call(&["SUBSCRIBE", "c"]));
        let before = server.info_number("used_memory");
        let mut publisher = server.client();
        let message = "m".repeat(MB as usize);
        for _ in 0..MESSAGES {
            assert_eq!(publisher.value(&["PUBLISH", "c", &message]).integer(), SUBSCRIBERS as i64);
        }
        let grown = server.info_number("used_memory").saturating_sub(before) / MB;
        println!("{setup:?}: {grown} MB for {SUBSCRIBERS} subscribers with {MESSAGES} MB waiting for each");
        // Each copies what it is about to send: a bit more than a megabyte.
        assert!(grown < MESSAGES + 5 * SUBSCRIBERS, "{setup:?}: {grown} MB");
        let list = publisher.value(&["CLIENT", "LIST", "TYPE", "pubsub"]).text();
        assert_eq!(list.lines().count() as u64, SUBSCRIBERS);
        let bytes_of = |line: &str| fields(line)["omem"].parse::<u64>().unwrap();
        assert!(list.lines().all(|line| bytes_of(line) > 5 * MB), "{list}");
    }
}

/// The fields of a line of CLIENT LIST.
fn fields(line: &str) -> HashMap<&str, &str> {
    line.split_whitespace().map(|field| field.split_once('=').expect("name=value")).collect()
}

#[test]
fn client_list_and_info_tell_of_subscriptions() {
    on_every_engine(|server| {
        let mut client = Client::connect_resp3(server.address());
        client.send(&request(&["SUBSCRIBE", "a", "b", "c"]));
        client.send(&request(&["PSUBSCRIBE", "p*", "q*"]));
        client.send(&request(&["SSUBSCRIBE", "s"]));
        client.values(6);
        let info = client.value(&["CLIENT", "INFO"]).text();
        let own = fields(&info);
        assert_eq!((own["sub"], own["psub"], own["ssub"], own["flags"]), ("3", "2", "1", "P"), "{info}");
        let mut other = server.client();
        other.call(&["CLIENT", "SETNAME", "other"]);
        let listed = |client: &mut Client, kind: &str| {
            let list = client.value(&["CLIENT", "LIST", "TYPE", kind]).text();
            list.lines().map(|line| fields(line)["name"].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (listed(&mut other, "pubsub"), listed(&mut other, "normal")),
            (vec![String::new()], vec!["other".into()])
        );
        let numbers = |names: [&str; 3]| names.map(|name| server.info_number(name));
        let names = ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"];
        assert_eq!(numbers(names), [3, 2, 1]);
        client.send(&request(&["UNSUBSCRIBE"]));
        client.send(&request(&["PUNSUBSCRIBE"]));
        client.values(5);
        assert_eq!(numbers(names), [0, 0, 1]);
        client.call(&["SUNSUBSCRIBE"]);
        assert_eq!(numbers(names), [0, 0, 0]);
        let info = client.value(&["CLIENT", "INFO"]).text();
        assert_eq!(fields(&info)["flags"], "N");
        assert_eq!(listed(&mut other, "pubsub"), Vec::<String>::new());
    });
}

#[test]
fn a_transaction_that_subscribes_hears_what_it_publishes_after_that() {
    on_every_engine(|server| {
        let mut client = Client::connect_resp3(server.address());
        client.expect("MULTI", "+OK\r\n");
        for queued in ["SUBSCRIBE c", "PUBLISH c message", "SET k v"] {
            client.expect(queued, "+QUEUED\r\n");
        }
        client.send(&request(&["EXEC"]));
        let replies = client.values(2);
        let receivers = replies[0].elements()[1].integer();
        assert_eq!(receivers, 1, "the connection itself");
        assert_eq!(replies[1].elements()[2].text(), "message");
    });
}

#[test]
fn connections_that_end_in_any_state_leave_nothing_behind() {
    const NAMES: usize = 20_000;
    on_every_process(|server| {
        let mut publisher = server.client();
        publisher.expect("CONFIG SET client-output-buffer-limit \"pubsub 8mb 0 0\"", "+OK\r\n");
        let before = server.info_number("used_memory");
        {
            let names = |kind: &str| {
                let names = (0..NAMES).map(|n| format!("{kind}:{n}:{}", "x".repeat(50)));
                [kind.to_owned()].into_iter().chain(names).collect::<Vec<_>>()
            };
            let mut many = Client::connect_resp3(server.address());
            for kind in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
                many.send_and_hold(&request(&names(kind)));
                many.values(NAMES);
            }
            assert_eq!(server.info_number("pubsub_patterns"), NAMES as u64);
            let mut blocked = Client::connect_resp3(server.address());
            blocked.call(&["SUBSCRIBE", "c"]);
            blocked.send(&request(&["BLPOP", "nothing", "0"]));
            publisher.expect("PUBLISH c hello", ":1\r\n");
            assert_eq!(Value::of(&blocked.reply()).elements()[2].text(), "hello", "a waiting client gets messages");
            let mut in_multi = Client::connect_resp3(server.address());
            in_multi.call(&["SUBSCRIBE", "c"]);
            in_multi.call(&["MULTI"]);
            let mut half_closed = server.client();
            half_closed.call(&["SUBSCRIBE", "c"]);
            half_closed.stream().shutdown(std::net::Shutdown::Write).unwrap();
            let mut half_request = server.client();
            half_request.call(&["SUBSCRIBE", "c"]);
            half_request.send(b"*2\r\n$11\r\nUNSUBS");
            let mut quits = server.client();
            quits.call(&["SUBSCRIBE", "c"]);
            quits.send(&request(&["QUIT"]));
            let mut refused = server.client();
            refused.call(&["SUBSCRIBE", "c"]);
            refused.send(b"*x\r\n");
            let mut flooded = server.client();
            flooded.call(&["SUBSCRIBE", "c"]);
            let message = "m".repeat(100_000);
            publisher.pipeline(&vec![vec!["PUBLISH", "c", &message]; 300]);
            server.wait_for_log("overcoming of output buffer limits");
        }
        wait_until("all are gone", || {
            let counts = ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"];
            counts.iter().all(|name| server.info_number(name) == 0) && server.info_number("connected_clients") == 2
        });
        publisher.expect("PUBLISH c nobody", ":0\r\n");
        let after = server.info_number("used_memory");
        println!("{:?}: {before} bytes before, {after} after", server.setup());
        assert!(after < before + 4 * 1024 * 1024, "{:?}: {before} bytes before, {after} after", server.setup());
    });
}

#[test]
fn a_busy_subscriber_is_still_heard() {
    const COMMANDS: usize = 100;
    on_every_engine(|server| {
        let mut client = Client::connect_resp3(server.address());
        client.call(&["SUBSCRIBE", "c"]);
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut publisher = server.client();
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    publisher.pipeline(&vec![vec!["PUBLISH", "c", "m"]; 50]);
                }
            });
            let mut messages = 0;
            for n in 0..COMMANDS {
                client.send(&request(&["INCR", "n"]));
                loop {
                    match Value::of(&client.reply()) {
                        Value::Push(_) => messages += 1,
                        reply => {
                            assert_eq!(reply, Value::Integer(n as i64 + 1));
                            break;
                        }
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
            println!("{messages} messages between {COMMANDS} replies");
        });
    });
}
