//! Clients that do not read their replies: bounded, then disconnected, and slowing nobody.

use crate::harness::{Client, EVERY_ENGINE, Server, request, wait_until};
use std::io::Write;
use std::time::{Duration, Instant};

const MB: u64 = 1 << 20;

fn set_megabyte(server: &Server) {
    let value = "v".repeat(MB as usize);
    assert_eq!(server.client().call(&["SET", "big", &value]), b"+OK\r\n");
}

/// Asks for far more than it will read, until the server takes no more requests.
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
            // Whoever waits for those who never read waits for ever: the client gives up then, which bounds a request
            // whatever else the machine does.
            client.expect("SET k v", "+OK\r\n");
            client.expect("GET k", "$1\r\nv\r\n");
            slowest = slowest.max(asked.elapsed());
            largest = largest.max(server.resident_bytes());
        }
        let grown = (largest - before) / MB;
        println!("{setup:?}: {grown} MB for {SLOW} slow readers, slowest request {slowest:?}");
        // Each may hold its limit, and as much again while a buffer grows.
        assert!(grown < 2 * HARD_MB * SLOW as u64 + 64, "{setup:?}: {grown} MB");
    }
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
