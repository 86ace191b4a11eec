//! MIGRATE: keys that move to another server, and what others may do to them meanwhile.

use harness::{Client, Data, EVERY_ENGINE, Embedded, RedisOracle, Server, Setup, Value, on_every_engine, wait_until};
use std::net::TcpListener;
use std::time::{Duration, Instant};

const LONG: &str = "20000";

fn other() -> Embedded {
    Embedded::start(Setup { engine: "actor", shards: 2, threads: 1 }, &[])
}

/// The words of a MIGRATE to a port of this machine.
fn migrate<'a>(port: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    ["MIGRATE", "127.0.0.1", port].into_iter().chain(rest.iter().copied()).collect()
}

/// A target that replies what the test wants.
struct Target {
    listener: TcpListener,
    port: String,
}

impl Target {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port().to_string();
        Self { listener, port }
    }

    /// The next connection, after its SELECT.
    fn accept(&self) -> Client {
        let (stream, _) = self.listener.accept().expect("the server connects");
        let mut connection = Client::over(stream);
        assert_eq!(words(&connection.value_of_next())[0], "SELECT");
        connection.send(b"+OK\r\n");
        connection
    }
}

/// Begins to move keys to a target, without waiting for the reply.
fn begin(client: &mut Client, target: &Target, rest: &[&str]) {
    client.send(&harness::request(&migrate(&target.port, rest)));
}

fn words(request: &Value) -> Vec<String> {
    request.elements().iter().map(Value::text).collect()
}

/// The words of a RESTORE but for its payload.
fn restore_of(connection: &mut Client) -> Vec<String> {
    let request = connection.value_of_next();
    let mut words: Vec<String> =
        request.elements().iter().map(|word| String::from_utf8_lossy(word.bytes()).into_owned()).collect();
    if words.len() > 3 {
        words.remove(3);
    }
    words
}

#[test]
fn keys_of_every_type_move_with_their_time_to_live_and_are_gone_here() {
    on_every_engine(|server| {
        let target = other();
        let port = target.address().port().to_string();
        let (client, there) = (&mut server.client(), &mut target.client());
        let lines = [
            "SET string value",
            "RPUSH list a b c",
            "SADD set 1 2 3",
            "SADD words a b c",
            "HSET hash f v",
            "ZADD sorted 1 a 2 b",
            "XADD stream 1-1 f v",
            "PFADD counter a b c",
            "SET mortal v PX 100000",
        ];
        let keys: Vec<&str> = lines.iter().map(|line| line.split(' ').nth(1).expect("it has a key")).collect();
        lines.iter().for_each(|line| drop(client.call(&line.split(' ').collect::<Vec<_>>())));
        let dumps: Vec<Value> = keys.iter().map(|key| client.value(&["DUMP", key])).collect();
        let mut request = migrate(&port, &["", "9", LONG, "KEYS", "missing"]);
        request.extend(&keys);
        assert_eq!(client.call(&request), b"+OK\r\n");
        client.expect("DBSIZE", ":0\r\n");
        there.expect("SELECT 9", "+OK\r\n");
        for (key, dump) in keys.iter().zip(&dumps) {
            assert_eq!(there.value(&["DUMP", key]), *dump, "{key}");
        }
        let ttl = there.value(&["PTTL", "mortal"]).integer();
        assert!((1..=100_000).contains(&ttl), "{ttl}");
        // Again: nothing is left.
        assert_eq!(client.call(&request), b"+NOKEY\r\n");
        assert_eq!(client.call(&migrate(&port, &["string", "9", LONG])), b"+NOKEY\r\n");
    });
}

#[test]
fn large_values_and_many_keys_move_also_to_another_database_of_the_same_server() {
    const ELEMENTS: usize = 20_000;
    const KEYS: usize = 3000;
    on_every_engine(|server| {
        let port = server.address().port().to_string();
        let client = &mut server.client();
        let elements: Vec<String> = (0..ELEMENTS).map(|element| format!("element:{element}")).collect();
        let words: Vec<&str> = ["RPUSH", "list"].into_iter().chain(elements.iter().map(String::as_str)).collect();
        client.value(&words);
        client.value(&["SET", "string", &"x".repeat(5_000_000)]);
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key}")).collect();
        keys.iter().for_each(|key| client.expect(&format!("SET {key} v"), "+OK\r\n"));
        let read = |client: &mut Client| {
            (
                client.value(&["LRANGE", "list", "0", "-1"]),
                client.value(&["GET", "string"]),
                client.value(&["GET", "key:9"]),
            )
        };
        let before = read(client);
        let mut request = migrate(&port, &["", "7", LONG, "KEYS", "list", "string"]);
        request.extend(keys.iter().map(String::as_str));
        assert_eq!(client.call(&request), b"+OK\r\n");
        client.expect("DBSIZE", ":0\r\n");
        client.expect("SELECT 7", "+OK\r\n");
        client.expect("DBSIZE", &format!(":{}\r\n", KEYS + 2));
        assert!(read(client) == before, "the values are the same");
    });
}

#[test]
fn keys_move_to_redis_and_back() {
    let redis = RedisOracle::start();
    on_every_engine(|server| {
        let (client, there) = (&mut server.client(), &mut redis.client());
        let ports = [server.address(), redis.address()].map(|address| address.port().to_string());
        client.expect("RPUSH list a b c", ":3\r\n");
        client.expect("SET string v PX 100000", "+OK\r\n");
        let before = client.value(&["PTTL", "string"]).integer();
        // What redis-server of 7.0 does not know how to read would be an error.
        assert_eq!(client.call(&migrate(&ports[1], &["", "3", LONG, "KEYS", "list", "string"])), b"+OK\r\n");
        there.expect("SELECT 3", "+OK\r\n");
        there.expect("LRANGE list 0 -1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
        client.expect("DBSIZE", ":0\r\n");
        assert_eq!(there.call(&migrate(&ports[0], &["", "0", LONG, "KEYS", "list", "string"])), b"+OK\r\n");
        there.expect("DBSIZE", ":0\r\n");
        client.expect("LRANGE list 0 -1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
        let after = client.value(&["PTTL", "string"]).integer();
        assert!(after > 0 && after <= before, "{before} {after}");
    });
}

#[test]
fn copy_leaves_the_keys_and_replace_overwrites_what_the_target_has() {
    on_every_engine(|server| {
        let target = other();
        let port = target.address().port().to_string();
        let (client, there) = (&mut server.client(), &mut target.client());
        client.expect("MSET a 1 b 2 c 3", "+OK\r\n");
        there.expect("SET b other", "+OK\r\n");
        let busy = b"-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n";
        assert_eq!(client.call(&migrate(&port, &["b", "0", LONG, "COPY"])), busy);
        assert_eq!(client.call(&migrate(&port, &["a", "0", LONG, "copy"])), b"+OK\r\n");
        client.expect("MGET a b c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
        there.expect("MGET a b c", "*3\r\n$1\r\n1\r\n$5\r\nother\r\n$-1\r\n");
        // Those that the target takes are moved, whatever becomes of the others.
        assert_eq!(client.call(&migrate(&port, &["", "0", LONG, "KEYS", "c", "b"])), busy);
        client.expect("MGET a b c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
        assert_eq!(client.call(&migrate(&port, &["", "0", LONG, "REPLACE", "KEYS", "a", "b"])), b"+OK\r\n");
        client.expect("EXISTS a b c", ":0\r\n");
        there.expect("MGET a b c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    });
}

#[test]
fn requests_that_cannot_be_done_are_refused_as_redis_does() {
    on_every_engine(|server| {
        let client = &mut server.client();
        client.expect("SET k v", "+OK\r\n");
        for (words, error) in [
            ("MIGRATE h 1 k 0", "ERR wrong number of arguments for 'migrate' command"),
            ("MIGRATE h 1 k 0 10 NONSENSE", "ERR syntax error"),
            ("MIGRATE h 1 k 0 10 AUTH", "ERR syntax error"),
            ("MIGRATE h 1 k 0 10 AUTH2 user", "ERR syntax error"),
            ("MIGRATE h 1 k x 10", "ERR value is not an integer or out of range"),
            ("MIGRATE h 1 k 0 x", "ERR value is not an integer or out of range"),
            (
                "MIGRATE h 1 k 0 10 KEYS a",
                "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
            ),
            ("MIGRATE 127.0.0.1 0 k 0 1000", "IOERR error or timeout connecting to the client"),
            ("MIGRATE 127.0.0.1 nonsense k 0 1000", "IOERR error or timeout connecting to the client"),
        ] {
            client.expect(words, &format!("-{error}\r\n"));
        }
        // Nobody connects where there is nothing to send.
        client.expect("MIGRATE h 1 missing 0 10", "+NOKEY\r\n");
        let refusal = "MIGRATE in a transaction or a script is not supported: its keys would wait for another server";
        client.expect("MULTI", "+OK\r\n");
        client.expect("MIGRATE h 1 k 0 10", "+QUEUED\r\n");
        client.expect("EXEC", &format!("*1\r\n-ERR {refusal}\r\n"));
        let reply = client.call(&["EVAL", "return redis.call('MIGRATE', 'h', '1', KEYS[1], '0', '10')", "1", "k"]);
        assert!(String::from_utf8_lossy(&reply).starts_with(&format!("-ERR {refusal}")), "{reply:?}");
        client.expect("GET k", "$1\r\nv\r\n");
    });
}

#[test]
fn others_are_served_while_the_target_is_silent_and_the_keys_stay_if_it_does_not_reply() {
    on_every_engine(|server| {
        let (client, another) = (&mut server.client(), &mut server.client());
        client.expect("SET k v", "+OK\r\n");
        let target = Target::new();
        let begun = Instant::now();
        begin(client, &target, &["k", "0", "2000"]);
        let mut connection = target.accept();
        assert_eq!(restore_of(&mut connection), ["RESTORE", "k", "0"]);
        another.expect("GET k", "$1\r\nv\r\n");
        another.expect("SET other v", "+OK\r\n");
        assert_eq!(client.reply(), b"-IOERR error or timeout reading to target instance\r\n");
        assert!(begun.elapsed() >= Duration::from_secs(2));
        another.expect("GET k", "$1\r\nv\r\n");
        // A connection of which the end is unknown is not used again.
        assert_eq!(server.info_number("migrate_cached_sockets"), 0);
    });
}

#[test]
fn what_may_change_a_key_waits_until_it_is_gone_and_nothing_else_does() {
    on_every_engine(|server| {
        let client = &mut server.client();
        let target = Target::new();
        client.expect("MSET k 1 other 2", "+OK\r\n");
        begin(client, &target, &["k", "0", LONG]);
        let mut connection = target.accept();
        restore_of(&mut connection);
        let waiting = [
            ("INCR k", ":1\r\n"),
            ("COPY other k DB 3", ":1\r\n"),
            ("MSET a 1 k 1", "+OK\r\n"),
            ("EVAL redis.call('DEL',KEYS[1]);return(1) 1 k", ":1\r\n"),
            ("EVAL redis.call('DEL','k');return(1) 0", ":1\r\n"),
            ("SWAPDB 4 5", "+OK\r\n"),
        ];
        let mut waiters: Vec<Client> = waiting.iter().map(|_| server.client()).collect();
        for (waiter, (line, _)) in waiters.iter_mut().zip(waiting) {
            waiter.send(&harness::request(&line.split(' ').collect::<Vec<_>>()));
        }
        let mut in_multi = server.client();
        in_multi.expect("MULTI", "+OK\r\n");
        in_multi.expect("SET b 1", "+QUEUED\r\n");
        in_multi.expect("DEL k", "+QUEUED\r\n");
        in_multi.send(b"EXEC\r\n");
        let another = &mut server.client();
        another.expect("MGET k a b other", "*4\r\n$1\r\n1\r\n$-1\r\n$-1\r\n$1\r\n2\r\n");
        another.expect("INCR other", ":3\r\n");
        let incr = another.call(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "other"]);
        assert_eq!(incr, b":4\r\n");
        let get = another.call(&["EVAL_RO", "return redis.call('GET', 'k')", "0"]);
        assert_eq!(get, b"$1\r\n1\r\n");
        assert!(waiters.iter_mut().all(Client::is_silent) && in_multi.is_silent());
        another.expect("EXISTS k", ":1\r\n");
        connection.send(b"+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        // In any order: INCR finds what another has set, or nothing.
        for (waiter, (line, reply)) in waiters.iter_mut().zip(waiting) {
            let got = waiter.reply();
            assert!(line.starts_with("INCR") || got == reply.as_bytes(), "{line}: {}", String::from_utf8_lossy(&got));
            assert!(!got.starts_with(b"-ERR"), "{line}: {}", String::from_utf8_lossy(&got));
        }
        assert!(in_multi.reply().starts_with(b"*2\r\n+OK\r\n"));
    });
}

#[test]
fn of_two_requests_for_a_key_the_second_waits_and_finds_it_gone() {
    on_every_engine(|server| {
        let (client, second) = (&mut server.client(), &mut server.client());
        let target = Target::new();
        client.expect("MSET a 1 b 2", "+OK\r\n");
        begin(client, &target, &["", "0", LONG, "KEYS", "a", "b"]);
        let mut connection = target.accept();
        for key in ["a", "b"] {
            assert_eq!(restore_of(&mut connection), ["RESTORE", key, "0"]);
        }
        begin(second, &target, &["", "0", LONG, "KEYS", "b", "c"]);
        assert!(second.is_silent());
        connection.send(b"+OK\r\n+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(second.reply(), b"+NOKEY\r\n");
    });
}

#[test]
fn a_key_that_expires_while_it_is_sent_is_removed_there_and_the_others_are_sent_again() {
    on_every_engine(|server| {
        let (client, another) = (&mut server.client(), &mut server.client());
        let target = Target::new();
        client.expect("SET stays 1", "+OK\r\n");
        client.expect("SET goes 2 PX 2000", "+OK\r\n");
        begin(client, &target, &["", "0", LONG, "KEYS", "goes", "stays"]);
        let mut connection = target.accept();
        let restored = restore_of(&mut connection);
        assert_eq!(restored[..2], ["RESTORE", "goes"]);
        assert!((1..=2000).contains(&restored[2].parse::<i64>().expect("a time to live")), "{restored:?}");
        assert_eq!(restore_of(&mut connection), ["RESTORE", "stays", "0"]);
        wait_until("it has expired", || another.value(&["EXISTS", "goes"]).integer() == 0);
        connection.send(b"+OK\r\n+OK\r\n");
        assert_eq!(restore_of(&mut connection), ["RESTORE", "stays", "0", "REPLACE"]);
        assert_eq!(words(&connection.value_of_next()), ["DEL", "goes"]);
        connection.send(b"+OK\r\n:1\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        client.expect("EXISTS goes stays", ":0\r\n");
    });
}

#[test]
fn keys_stay_if_the_server_follows_another_before_the_target_has_replied() {
    on_every_engine(|server| {
        let (client, another) = (&mut server.client(), &mut server.client());
        let target = Target::new();
        client.expect("SET k v", "+OK\r\n");
        begin(client, &target, &["k", "0", LONG]);
        let mut connection = target.accept();
        restore_of(&mut connection);
        another.expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        connection.send(b"+OK\r\n");
        assert_eq!(client.reply(), b"-READONLY You can't write against a read only replica.\r\n");
        another.expect("REPLICAOF NO ONE", "+OK\r\n");
        another.expect("GET k", "$1\r\nv\r\n");
    });
}

#[test]
fn a_key_that_is_copied_may_change_meanwhile() {
    on_every_engine(|server| {
        let (client, another) = (&mut server.client(), &mut server.client());
        let target = Target::new();
        client.expect("SET k 1", "+OK\r\n");
        begin(client, &target, &["k", "0", LONG, "COPY"]);
        let mut connection = target.accept();
        restore_of(&mut connection);
        another.expect("INCR k", ":2\r\n");
        connection.send(b"+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        another.expect("GET k", "$1\r\n2\r\n");
    });
}

#[test]
fn a_client_that_leaves_while_the_target_is_silent_leaves_its_keys() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("SET k v", "+OK\r\n");
        let target = Target::new();
        begin(&mut client, &target, &["k", "0", LONG]);
        let mut connection = target.accept();
        restore_of(&mut connection);
        drop(client);
        assert!(connection.is_closed(), "the connection to the target ends with the client's");
        server.client().expect("GET k", "$1\r\nv\r\n");
    });
}

#[test]
fn keys_are_not_removed_while_clients_are_paused() {
    on_every_engine(|server| {
        let (client, another) = (&mut server.client(), &mut server.client());
        client.expect("SET k v", "+OK\r\n");
        let target = Target::new();
        begin(client, &target, &["k", "0", LONG]);
        let mut connection = target.accept();
        restore_of(&mut connection);
        another.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        connection.send(b"+OK\r\n");
        assert!(client.is_silent());
        another.expect("EXISTS k", ":1\r\n");
        another.expect("CLIENT UNPAUSE", "+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        another.expect("EXISTS k", ":0\r\n");
    });
}

#[test]
fn a_connection_to_a_target_is_used_again_and_made_anew_when_the_target_has_closed_it() {
    on_every_engine(|server| {
        let client = &mut server.client();
        let target = Target::new();
        client.expect("MSET a 1 b 2 c 3", "+OK\r\n");
        begin(client, &target, &["a", "0", LONG]);
        let mut connection = target.accept();
        restore_of(&mut connection);
        connection.send(b"+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(server.info_number("migrate_cached_sockets"), 1);
        // The database is selected there.
        begin(client, &target, &["b", "0", LONG]);
        assert_eq!(restore_of(&mut connection), ["RESTORE", "b", "0"]);
        connection.send(b"+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        drop(connection);
        begin(client, &target, &["c", "0", LONG]);
        let mut connection = target.accept();
        assert_eq!(restore_of(&mut connection), ["RESTORE", "c", "0"]);
        connection.send(b"+OK\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        // One that nobody uses is closed, on every engine by the same code: it takes ten seconds.
        if server.setup().engine != "actor" {
            return;
        }
        wait_until("it is closed", || server.info_number("migrate_cached_sockets") == 0);
        assert!(connection.is_closed());
    });
}

#[test]
fn the_password_of_the_target_is_sent_and_shown_to_nobody() {
    on_every_engine(|server| {
        let target = other();
        let port = target.address().port().to_string();
        let (client, there) = (&mut server.client(), &mut target.client());
        there.expect("ACL SETUSER mover on >secret ~* +@all", "+OK\r\n");
        there.expect("CONFIG SET requirepass word", "+OK\r\n");
        client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        client.expect("MSET a 1 b 2 c 3", "+OK\r\n");
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let refused = "-ERR Target instance replied with error: ";
        let reply = client.call(&migrate(&port, &["a", "0", LONG]));
        assert_eq!(String::from_utf8_lossy(&reply), format!("{refused}NOAUTH Authentication required.\r\n"));
        let reply = client.call(&migrate(&port, &["a", "0", LONG, "AUTH", "wrongword"]));
        assert!(String::from_utf8_lossy(&reply).starts_with(&format!("{refused}WRONGPASS ")), "{reply:?}");
        client.expect("EXISTS a b c", ":3\r\n");
        assert_eq!(client.call(&migrate(&port, &["a", "0", LONG, "AUTH", "word"])), b"+OK\r\n");
        assert_eq!(client.call(&migrate(&port, &["b", "0", LONG, "AUTH2", "mover", "secret"])), b"+OK\r\n");
        // The password is asked for again, though there is a connection.
        there.expect("CONFIG SET requirepass other", "+OK\r\n");
        let reply = client.call(&migrate(&port, &["c", "0", LONG, "AUTH", "word"]));
        assert!(String::from_utf8_lossy(&reply).starts_with(&format!("{refused}WRONGPASS ")), "{reply:?}");
        there.expect("MGET a b c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
        let shown: String = (0..6).map(|_| String::from_utf8_lossy(&monitor.reply()).into_owned()).collect();
        assert!(shown.contains("\"AUTH2\" \"(redacted)\" \"(redacted)\""), "{shown}");
        let slow = String::from_utf8_lossy(&client.call(&["SLOWLOG", "GET", "100"])).into_owned();
        assert!(slow.contains("(redacted)"), "{slow}");
        for text in [shown, slow] {
            assert!(!text.contains("word\"") && !text.contains("secret") && !text.contains("wrongword"), "{text}");
        }
    });
}

#[test]
fn what_has_moved_is_gone_after_a_restart_and_its_event_is_told() {
    for setup in EVERY_ENGINE {
        let target = other();
        let port = target.address().port().to_string();
        let data = Data::new();
        let server =
            data.start(setup, &["--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "KEA"]);
        let (client, listener) = (&mut server.client(), &mut server.client());
        client.expect("MSET a 1 b 2", "+OK\r\n");
        listener.expect("SUBSCRIBE __keyevent@0__:del", "*3\r\n$9\r\nsubscribe\r\n$18\r\n__keyevent@0__:del\r\n:1\r\n");
        assert_eq!(client.call(&migrate(&port, &["a", "0", LONG])), b"+OK\r\n");
        assert_eq!(words(&listener.value_of_next())[2], "a");
        let data = server.kill();
        let server: Server = data.start(setup, &["--appendonly", "yes"]);
        server.client().expect("MGET a b", "*2\r\n$-1\r\n$1\r\n2\r\n");
    }
}

#[test]
fn many_clients_move_keys_that_others_change_and_no_change_is_lost() {
    const KEYS: usize = 10;
    const CHANGES: usize = 100;
    on_every_engine(|server| {
        let target = other();
        let port = target.address().port().to_string();
        std::thread::scope(|scope| {
            for key in 0..KEYS {
                let (mut here, mut mover) = (server.client(), server.client());
                let port = &port;
                // A mover of this key, and one of the one before it.
                let keys = [key, (key + KEYS - 1) % KEYS].map(|key| key.to_string());
                scope.spawn(move || (0..CHANGES).for_each(|_| drop(here.call(&["RPUSH", &key.to_string(), "x"]))));
                scope.spawn(move || {
                    for _ in 0..CHANGES / 4 {
                        for key in &keys {
                            // Lists that are there already are not overwritten.
                            let reply = mover.call(&migrate(port, &[key, "0", LONG]));
                            let reply = String::from_utf8_lossy(&reply).into_owned();
                            let is_known = reply == "+OK\r\n" || reply == "+NOKEY\r\n" || reply.contains("BUSYKEY");
                            assert!(is_known, "{reply}");
                        }
                    }
                });
            }
        });
        let (mut here, mut there) = (server.client(), target.client());
        for key in (0..KEYS).map(|key| key.to_string()) {
            let lengths = [&mut here, &mut there].map(|client| client.value(&["LLEN", &key]).integer());
            assert_eq!(lengths.iter().sum::<i64>(), CHANGES as i64, "{key}: {lengths:?}");
        }
    });
}
