//! Replies while the log is read.

use super::process::Machine;
use super::tracking::Behaviour;
use harness::{EVERY_ENGINE, Server, Setup, Value, request, wait_until};
use std::time::Duration;

/// A machine with a log that holds `k`, and a server that has not read it yet.
fn loading(setup: Setup) -> (Machine, Server) {
    loading_with(setup, &["--enable-debug-command", "yes"])
}

/// The same with other flags; a snapshot holds `k`, too.
fn loading_with(setup: Setup, flags: &[&str]) -> (Machine, Server) {
    let machine = Machine::new(flags, Behaviour::default());
    let server = machine.start(setup);
    server.client().expect("SET k v", "+OK\r\n");
    if flags.contains(&"no") {
        server.client().expect("SAVE", "+OK\r\n");
    }
    drop(server.kill());
    std::fs::write(machine.places().hold(), "").unwrap();
    let text = "-LOADING is replied on tcp ";
    let server = Server::spawn_until(text, &mut machine.command(setup), machine.data.clone(), setup);
    (machine, server.unwrap_or_else(|log| panic!("{setup:?} did not start: {log}")))
}

fn let_go(machine: &Machine) {
    std::fs::remove_file(machine.places().hold()).unwrap();
}

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

#[test]
fn commands_over_the_data_are_refused_while_it_is_loaded_and_others_run() {
    for setup in EVERY_ENGINE {
        let (machine, server) = loading(setup);
        let mut client = server.client();
        for refused in
            ["GET k", "SET k w", "PING", "DBSIZE", "FLUSHALL", "BLPOP l 0", "WAIT 1 0", "WAITAOF 1 0 0", "SAVE"]
        {
            client.expect(refused, LOADING);
        }
        client.expect("ECHO x", "$1\r\nx\r\n");
        client.expect("SELECT 1", "+OK\r\n");
        client.expect("SELECT 0", "+OK\r\n");
        client.expect("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n");
        client.expect("CLIENT SETNAME early", "+OK\r\n");
        client.expect("PUBLISH channel message", ":0\r\n");
        client.expect("GET", "-ERR wrong number of arguments for 'get' command\r\n");
        client.expect("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n");
        client.expect("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n");
        client.expect("OBJECT FREQ k", LOADING);
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET k w", LOADING);
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("EXEC", "*0\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("ECHO x", "+QUEUED\r\n");
        client.expect("EXEC", "*1\r\n$1\r\nx\r\n");
        assert_eq!(server.info_number("loading"), 1);
        let info = server.info();
        for field in ["loading_total_bytes", "loading_loaded_bytes", "loading_loaded_perc", "loading_eta_seconds"] {
            assert!(info.contains_key(field), "{setup:?}: INFO has no {field}: {info:?}");
        }
        let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(now_s - server.info_number("loading_start_time") < 60);
        assert_eq!((&*info["async_loading"], &*info["aof_enabled"]), ("0", "1"));

        let_go(&machine);
        // The same connection continues when the data is loaded.
        wait_until("the log is read", || client.call(&["GET", "k"]) == b"$1\r\nv\r\n");
        client.expect("CLIENT GETNAME", "$5\r\nearly\r\n");
        let info = server.info();
        assert_eq!(info["loading"], "0");
        assert!(!info.contains_key("loading_start_time"), "{info:?}");
    }
}

#[test]
fn commands_over_the_data_are_refused_while_a_snapshot_is_loaded_and_others_run() {
    for setup in EVERY_ENGINE {
        let (machine, server) = loading_with(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        for refused in ["GET k", "SET k w", "PING", "DBSIZE", "SAVE", "BGSAVE"] {
            client.expect(refused, LOADING);
        }
        client.expect("ECHO x", "$1\r\nx\r\n");
        assert_eq!((server.info_number("loading"), server.info_number("aof_enabled")), (1, 0));
        let_go(&machine);
        wait_until("the snapshot is read", || client.call(&["GET", "k"]) == b"$1\r\nv\r\n");
        assert_eq!((server.info_number("loading"), server.info_number("rdb_last_load_keys_loaded")), (0, 1));
    }
}

/// Partial requests and waiting requests of a connection are not lost when the data is loaded.
#[test]
fn what_was_begun_while_loading_ends_when_the_data_is_there() {
    for setup in EVERY_ENGINE {
        let (machine, server) = loading(setup);
        let (mut half, mut watching, mut listening) = (server.client(), server.client(), server.client());
        let whole = request(&["GET", "k"]);
        half.send(&whole[..9]);
        // As in Redis, whose flags say so.
        watching.expect("WATCH k", "+OK\r\n");
        watching.expect("GET k", LOADING);
        watching.expect("MULTI", "+OK\r\n");
        watching.expect("ECHO early", "+QUEUED\r\n");
        watching.expect("EXEC", "*1\r\n$5\r\nearly\r\n");
        watching.expect("WATCH k", "+OK\r\n");
        let mut gone = server.client();
        gone.send(&request(&["WATCH", "k"]));
        drop(gone);
        // A command that needs the data waits for it inside EXEC, too.
        let mut debugging = server.client();
        for words in [&["MULTI"][..], &["DEBUG", "OBJECT", "k"], &["EXEC"]] {
            debugging.send(&request(words));
        }
        let mut breaking = server.client();
        for words in [&["WATCH", "k"][..], &["MULTI"], &["DEBUG", "OBJECT", "k"], &["EXEC"]] {
            breaking.send(&request(words));
        }
        listening.expect("SUBSCRIBE channel", "*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n");
        server.client().expect("PUBLISH channel one", ":1\r\n");
        assert!(half.is_silent());
        let_go(&machine);
        // Keys watched before were loaded since; keys watched from now on were not.
        wait_until("the log is read", || watching.call(&["GET", "k"]) == b"$1\r\nv\r\n");
        for replied in ["*-1\r\n", "*1\r\n$1\r\nv\r\n"] {
            watching.expect("MULTI", "+OK\r\n");
            watching.expect("GET k", "+QUEUED\r\n");
            watching.expect("EXEC", replied);
            watching.expect("WATCH k", "+OK\r\n");
        }
        assert_eq!(breaking.values(4)[3], Value::NullArray);
        assert!(debugging.values(3)[2].elements()[0].text().starts_with("Value at:"));
        half.send(&whole[9..]);
        assert_eq!(half.reply(), b"$1\r\nv\r\n");
        server.client().expect("PUBLISH channel two", ":1\r\n");
        let message = |text: &str| format!("*3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$3\r\n{text}\r\n").into_bytes();
        assert_eq!([listening.reply(), listening.reply()], [message("one"), message("two")]);
        wait_until("connections that are gone are counted no more", || server.info_number("connected_clients") == 6);
        let mut client = server.client();
        assert_eq!(client.value(&["GET", "k"]), Value::Bulk(b"v".to_vec()));
    }
}

#[test]
fn a_server_that_is_told_to_stop_while_it_loads_stops() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[2], EVERY_ENGINE[4]] {
        let (machine, server) = loading(setup);
        let mut client = server.client();
        client.expect("GET k", LOADING);
        let (status, ..) = server.stop();
        assert!(status.success(), "{setup:?}: {status:?}");
        assert!(client.is_closed());
        let_go(&machine);
        machine.start(setup).client().expect("GET k", "$1\r\nv\r\n");
    }
}

/// The machine may be busy: one of five starts is enough.
#[test]
fn what_is_loaded_at_once_is_loaded_before_the_first_reply() {
    for setup in EVERY_ENGINE {
        let is_unseen = || {
            let (machine, server) = loading(setup);
            let mut client = server.client();
            client.send(&request(&["GET", "k"]));
            std::thread::sleep(Duration::from_millis(20));
            let_go(&machine);
            client.reply() == b"$1\r\nv\r\n"
        };
        assert!((0..5).any(|_| is_unseen()), "{setup:?}");
    }
}
