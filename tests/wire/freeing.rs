//! Large values that are freed on a thread of their own: when, and how they are counted.

use harness::{Client, EVERY_ENGINE, Server, on_every_process, wait_until};

/// A collection of this many members is freed on another thread, if it is to be; a small one never is.
const LARGE: usize = 200;

fn fill(client: &mut Client, key: &str, members: usize) {
    let members: Vec<String> = (0..members).map(|number| format!("member:{number}")).collect();
    let words: Vec<&str> = ["SADD", key].into_iter().chain(members.iter().map(String::as_str)).collect();
    client.value(&words);
}

/// How many objects were freed on another thread, once none waits for that.
fn freed(server: &Server) -> u64 {
    wait_until("all is freed", || server.info_number("lazyfree_pending_objects") == 0);
    server.info_number("lazyfreed_objects")
}

/// What the lines change, after a large set at `k`, a small one at `small` and another large one at `other` are made.
fn freed_by(server: &Server, client: &mut Client, lines: &[&str]) -> u64 {
    client.expect("FLUSHALL SYNC", "+OK\r\n");
    fill(client, "k", LARGE);
    fill(client, "small", 3);
    fill(client, "other", LARGE);
    let before = freed(server);
    for line in lines {
        let reply = client.call(&line.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with(b"-"), "{line}: {}", String::from_utf8_lossy(&reply));
    }
    freed(server) - before
}

#[test]
fn unlink_and_async_free_large_values_on_another_thread_and_others_where_the_configuration_says_so() {
    const KEYS: u64 = 3;
    on_every_process(|server| {
        let client = &mut server.client();
        for (lines, count) in [
            (&["UNLINK k"][..], 1),
            (&["UNLINK k small other missing"], 2),
            (&["FLUSHALL ASYNC"], KEYS),
            (&["FLUSHDB ASYNC"], KEYS),
            (&["FLUSHALL SYNC"], 0),
        ] {
            assert_eq!(freed_by(server, client, lines), count, "{lines:?}");
        }
        for (directive, lines, count) in [
            ("lazyfree-lazy-user-del", &["DEL k small"][..], 1),
            ("lazyfree-lazy-user-flush", &["FLUSHALL"], KEYS),
            ("lazyfree-lazy-user-flush", &["FLUSHDB"], KEYS),
            ("lazyfree-lazy-server-del", &["SET k v"], 1),
            ("lazyfree-lazy-server-del", &["RENAME small k"], 1),
            ("lazyfree-lazy-server-del", &["COPY small k REPLACE"], 1),
            ("lazyfree-lazy-server-del", &["SINTERSTORE k missing small"], 1),
            ("lazyfree-lazy-server-del", &["SUNIONSTORE k other small"], 1),
            ("lazyfree-lazy-server-del", &["SPOP k 1000"], 1),
            ("lazyfree-lazy-expire", &["PEXPIRE k -1"], 1),
        ] {
            for (value, expected) in [("no", 0), ("yes", count), ("no", 0)] {
                client.expect(&format!("CONFIG SET {directive} {value}"), "+OK\r\n");
                assert_eq!(freed_by(server, client, lines), expected, "{directive} {value}: {lines:?}");
            }
        }
        for (value, expected) in [("no", 0), ("yes", 1)] {
            client.expect(&format!("CONFIG SET lazyfree-lazy-expire {value}"), "+OK\r\n");
            let before = server.info_number("lazyfreed_objects");
            freed_by(server, client, &["PEXPIRE k 1"]);
            wait_until("it has expired", || server.client().call(&["DBSIZE"]) == b":2\r\n");
            assert_eq!(freed(server) - before, expected, "lazyfree-lazy-expire {value}");
        }
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert_eq!(freed(server), 0);
    });
}

#[test]
fn what_is_freed_on_another_thread_is_free() {
    const MEMBERS: usize = 50_000;
    for setup in EVERY_ENGINE {
        let server = &Server::start(setup, &["--appendonly", "no"]);
        let client = &mut server.client();
        fill(client, "k", MEMBERS);
        client.value(&["UNLINK", "k"]);
        freed(server);
        let before = server.info_number("used_memory");
        for _ in 0..5 {
            fill(client, "k", MEMBERS);
            let full = server.info_number("used_memory");
            assert!(full > before + MEMBERS as u64 * 10, "{before} bytes, {full} with the set");
            client.value(&["UNLINK", "k"]);
        }
        freed(server);
        // As much as one of the five would leave.
        let is_back = || server.info_number("used_memory") < before + MEMBERS as u64 * 10;
        wait_until("the memory is there again", is_back);
    }
}
