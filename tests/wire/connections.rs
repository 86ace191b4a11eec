//! Connections: how many, how long, and their own state.

use harness::server::{arguments, binary};
use harness::{
    Client, Data, EVERY_ENGINE, Embedded, Endpoint, RedisOracle, Server, Setup, Value, check_script, on_every_engine,
    on_every_process, other_placements, request, run_to_its_end, wait_until, words,
};
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

#[test]
fn the_connection_above_maxclients_is_told_so() {
    let pinned = other_placements().map(|(setup, placement)| (setup, placement.to_vec()));
    for (setup, placement) in EVERY_ENGINE.into_iter().map(|setup| (setup, vec![])).chain(pinned) {
        println!("{setup:?} {placement:?}");
        let server = Embedded::start(setup, &[&["--maxclients", "3"], &placement[..]].concat());
        let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.expect("PING", "+PONG\r\n"));
        for _ in 0..20 {
            let words = server.client().until_closed();
            assert_eq!(words.escape_ascii().to_string(), "-ERR max number of clients reached\\r\\n", "{setup:?}");
        }
        assert_eq!(
            Value::of(&clients[0].call(&["INFO", "stats"])).text().matches("rejected_connections:20\r\n").count(),
            1
        );
        // A closed connection makes room for a new one.
        drop(clients.pop());
        wait_until("there is room", || {
            let mut client = server.client();
            client.send_if_open(&request(&["PING"]));
            client.until_closed_or_reply() == b"+PONG\r\n"
        });
        // The limit can be raised while the server runs.
        clients[0].expect("CONFIG SET maxclients 100", "+OK\r\n");
        let mut more: Vec<Client> = (0..50).map(|_| server.client()).collect();
        more.iter_mut().for_each(|client| client.expect("PING", "+PONG\r\n"));
    }
}

#[test]
fn ten_thousand_idle_connections_are_held_and_others_served() {
    const IDLE: usize = 10_000;
    const FILES: u64 = IDLE as u64 + 1_000;
    let limit = rlimit::increase_nofile_limit(FILES).expect("the limit on open files can be read");
    assert!(
        limit >= FILES,
        "this machine allows {limit} open files: the test needs {FILES}; raise the hard limit (ulimit -Hn)"
    );
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = Server::start(setup, &["--maxclients", "10100"]);
        let before = server.resident_bytes();
        let idle: Vec<std::net::TcpStream> = (0..IDLE)
            .map(|index| std::net::TcpStream::connect(server.address()).unwrap_or_else(|e| panic!("{index}: {e}")))
            .collect();
        wait_until("all are accepted", || server.info_number("connected_clients") == IDLE as u64 + 1);
        let per_connection = server.resident_bytes().saturating_sub(before) / IDLE as u64;
        println!("{setup:?}: {per_connection} bytes for each idle connection");
        assert!(per_connection < 16 * 1024, "{setup:?}: {per_connection} bytes for each idle connection");
        let mut client = server.client();
        let start = Instant::now();
        (0..200).for_each(|_| client.expect("PING", "+PONG\r\n"));
        assert!(start.elapsed() < Duration::from_secs(5), "200 PINGs took {:?}", start.elapsed());
        for stream in [&idle[0], &idle[IDLE / 2], &idle[IDLE - 1]] {
            let mut client = Client::over(stream.try_clone().unwrap());
            client.expect("SET k v", "+OK\r\n");
        }
        drop(idle);
        wait_until("all are gone", || server.info_number("connected_clients") == 2);
    }
}

#[test]
fn an_idle_connection_is_closed_after_its_timeout_and_a_busy_one_is_not() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--timeout", "1"]);
        let mut idle = server.client();
        let mut busy = server.client();
        let start = Instant::now();
        while !idle.is_closed() {
            busy.expect("PING", "+PONG\r\n");
            assert!(start.elapsed() < Duration::from_secs(20), "{setup:?}: the idle connection is open");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(start.elapsed() >= Duration::from_secs(1), "{setup:?}: it had a second");
        busy.expect("PING", "+PONG\r\n");
    }
}

#[test]
fn a_connection_that_waits_is_not_idle() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--timeout", "1"]);
        let waiting = [
            "BLPOP list 0",
            "BRPOP list:2 30",
            "BLMOVE list:3 list:4 LEFT RIGHT 0",
            "BZPOPMIN set 0",
            "XREAD BLOCK 0 STREAMS stream $",
            "WAIT 1 0",
            "WAITAOF 0 1 0",
            "MONITOR",
            "SUBSCRIBE channel",
            "PSUBSCRIBE channel*",
        ];
        let mut clients: Vec<Client> = waiting.map(|line| begin(&server, line)).into();
        let mut idle = [server.client(), server.client()];
        // It would be over for these, too, long before that.
        let start = Instant::now();
        while idle.iter_mut().any(|client| !client.is_closed()) || start.elapsed() < Duration::from_millis(3_500) {
            assert!(start.elapsed() < Duration::from_secs(20), "{setup:?}: the idle connections are open");
            std::thread::sleep(Duration::from_millis(50));
        }
        for (client, line) in clients.iter_mut().zip(waiting) {
            assert!(!client.is_closed(), "{setup:?}: {line}");
        }
        // A connection that has been served begins to idle then, not when it sent its request.
        server.client().expect("RPUSH list v", ":1\r\n");
        assert_eq!(clients[0].reply(), b"*2\r\n$4\r\nlist\r\n$1\r\nv\r\n", "{setup:?}");
        std::thread::sleep(Duration::from_millis(100));
        clients[0].expect("PING", "+PONG\r\n");
        let start = Instant::now();
        wait_until("it idles out as any other", || clients[0].is_closed());
        assert!(start.elapsed() >= Duration::from_secs(1), "{setup:?}: it had a second");
    }
}

/// A connection with a request in progress.
fn begin(server: &Endpoint, line: &str) -> Client {
    let mut client = server.client();
    client.send(&request(&words(line)));
    client
}

#[test]
fn http_closes_the_connection_and_runs_nothing_after_it() {
    let requests: [&[u8]; 9] = [
        b"POST / HTTP/1.1\r\nHost: localhost:6379\r\nContent-Length: 14\r\n\r\nSET evil 1\r\n\r\n",
        b"post / HTTP/1.1\r\n\r\nSET evil 1\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nSET evil 1\r\n",
        b"PUT / HTTP/1.1\r\nhost: localhost\r\n\r\nSET evil 1\r\n",
        b"Host:\r\nSET evil 1\r\n",
        b"*1\r\n$4\r\nPOST\r\nSET evil 1\r\n",
        b"MULTI\r\nSET evil 1\r\nPOST\r\nEXEC\r\n",
        b"SUBSCRIBE c\r\nPOST\r\nUNSUBSCRIBE\r\nSET evil 1\r\n",
        b"CLIENT REPLY OFF\r\nPOST\r\nSET evil 1\r\n",
    ];
    let oracle = RedisOracle::start();
    for request in requests {
        let mut client = oracle.client();
        client.send_if_open(request);
        client.until_closed();
        oracle.client().expect("EXISTS evil", ":0\r\n");
    }
    on_every_process(|server| {
        for request in requests {
            let mut client = server.client();
            client.send_if_open(request);
            client.until_closed();
            server.client().expect("EXISTS evil", ":0\r\n");
        }
        // Earlier requests were sent by another user, and get replies.
        let mut client = server.client();
        client.send(b"SET good 1\r\nPOST / HTTP/1.1\r\nSET evil 1\r\n");
        assert_eq!(client.until_closed(), b"+OK\r\n");
        server.client().expect("EXISTS good evil", ":1\r\n");
        // One line a minute: such a sender may send much of it.
        let log = server.log();
        assert_eq!(log.matches("Possible SECURITY ATTACK detected").count(), 1, "{log}");
        assert!(log.contains("Cross Protocol Scripting") && log.contains("Connection from 127.0.0.1:"), "{log}");
    });
}

#[test]
fn http_closes_a_connection_that_has_not_authenticated() {
    let server = Embedded::start(EVERY_ENGINE[0], &["--requirepass", "secret"]);
    let mut client = server.client();
    client.send(b"POST / HTTP/1.1\r\nAUTH secret\r\nSET k v\r\n");
    assert_eq!(client.until_closed(), b"");
}

#[test]
fn there_are_descriptors_for_every_connection_and_for_the_log_of_many_shards() {
    const LIMIT: u64 = 900;
    let setup = Setup { engine: "actor", shards: 64, threads: 2 };
    let data = Data::new();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -n {LIMIT} && exec \"$0\" \"$@\""), binary()]);
    command.args(arguments(&data, setup)).env_remove("RUST_LOG").current_dir(data.path());
    let server = Server::spawn(&mut command, data, setup);
    let mut first = server.client();
    let most: usize = first.value(&["CONFIG", "GET", "maxclients"]).elements()[1].text().parse().unwrap();
    assert!((200..LIMIT as usize).contains(&most), "{most} connections");
    first.expect(
        "CONFIG SET maxclients 10000",
        &format!(
            "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to \
             handle the specified number of clients, try with {most}\r\n"
        ),
    );
    let mut clients: Vec<Client> = (1..most).map(|_| server.client()).collect();
    let pid = server.pid();
    let descriptors = move || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let peak = std::thread::scope(|scope| {
        // Dropped when this ends, however it ends.
        let (running, stop) = mpsc::channel::<()>();
        let peak = scope.spawn(move || {
            let mut peak = 0;
            while stop.try_recv() == Err(TryRecvError::Empty) {
                peak = peak.max(descriptors());
            }
            peak
        });
        for (index, client) in clients.iter_mut().enumerate() {
            client.expect(&format!("SET key:{index} v"), "+OK\r\n");
        }
        let refused = server.client().until_closed();
        assert_eq!(refused, b"-ERR max number of clients reached\r\n");
        for rewrites in 1..=3 {
            // One may have to wait until the other is finished.
            let reply = first.value(&["BGREWRITEAOF"]);
            assert!(matches!(reply, Value::Simple(_)), "{reply:?}");
            let reply = first.value(&["BGSAVE", "SCHEDULE"]);
            assert!(matches!(reply, Value::Simple(_)), "{reply:?}");
            wait_for_field(&mut first, &format!("aof_rewrites:{rewrites}"));
            wait_for_field(&mut first, &format!("rdb_saves:{rewrites}"));
        }
        drop(running);
        peak.join().unwrap()
    });
    println!("{most} connections, {peak} descriptors at most of {LIMIT}");
    assert!(peak > most + 3 * setup.shards, "a rewriting was seen: {peak} descriptors with {most} connections");
    let info = first.value(&["INFO", "persistence"]).text();
    for field in ["aof_last_bgrewrite_status:ok", "rdb_last_bgsave_status:ok", "aof_last_write_status:ok"] {
        assert!(info.contains(field), "{info}");
    }
    for client in &mut clients {
        client.expect("PING", "+PONG\r\n");
    }
    let log = server.log();
    assert!(!log.contains("os error") && !log.contains("slower"), "{log}");
}

fn wait_for_field(client: &mut Client, field: &str) {
    wait_until(field, || client.value(&["INFO", "persistence"]).text().lines().any(|line| line == field));
}

#[test]
fn a_server_that_can_open_few_files_serves_few_clients() {
    for setup in EVERY_ENGINE.into_iter().filter(|setup| setup.shards < 3 || setup.engine == "dashmap") {
        let data = Data::new();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", binary()]).args(arguments(&data, setup));
        let mut server = Server::spawn(command.env_remove("RUST_LOG").current_dir(data.path()), data, setup);
        server.wait_for_log("The limit on open files is 64: maxclients has been reduced from 10000 to ");
        let mut first = server.client();
        let most: usize = first.value(&["CONFIG", "GET", "maxclients"]).elements()[1].text().parse().unwrap();
        assert!(most >= 16, "{setup:?}: {most} connections");
        let mut clients: Vec<Client> = (1..most).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.expect("SET k v", "+OK\r\n"));
        assert_eq!(server.client().until_closed(), b"-ERR max number of clients reached\r\n");
        let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
        assert_eq!(first.value(&["FUNCTION", "LOAD", library]).text(), "l");
        for rewrites in 1..=3 {
            first.value(&["BGREWRITEAOF"]);
            first.value(&["BGSAVE", "SCHEDULE"]);
            wait_for_field(&mut first, &format!("aof_rewrites:{rewrites}"));
            wait_for_field(&mut first, &format!("rdb_saves:{rewrites}"));
        }
        assert!(server.is_running() && !server.log().contains("os error"), "{}", server.log());
    }
}

#[test]
fn a_server_that_can_open_too_few_files_does_not_start() {
    let data = Data::new();
    let setup = Setup { engine: "actor", shards: 64, threads: 2 };
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 300 && exec \"$0\" \"$@\"", binary()]);
    let ended = run_to_its_end(command.args(arguments(&data, setup)).env_remove("RUST_LOG").current_dir(data.path()));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("the limit on open files is 300") && ended.stderr.contains("64 shards"), "{ended:?}");
}

#[test]
fn quit_answers_closes_and_runs_nothing_after_it() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.send(&[request(&["SET", "k", "v"]), request(&["QUIT"]), request(&["SET", "after", "v"])].concat());
        assert_eq!(client.until_closed(), b"+OK\r\n+OK\r\n");
        server.client().expect("EXISTS after", ":0\r\n");
    });
}

#[test]
fn connection_commands_reply_as_redis_does() {
    check_script(
        r#"
        PING
        +PONG
        PING hello
        $5 | hello
        PING a b
        -ERR wrong number of arguments for 'ping' command
        ECHO "a\x00b"
        $3 | a\x00b
        ECHO
        -ERR wrong number of arguments for 'echo' command
        SELECT 0
        +OK
        SELECT x
        -ERR value is not an integer or out of range
        SELECT 100
        -ERR DB index is out of range
        SELECT -1
        -ERR DB index is out of range
        SELECT 2147483648
        -ERR value is out of range, value must between -2147483648 and 2147483647
        SELECT -2147483649
        -ERR value is out of range, value must between -2147483648 and 2147483647
        CLIENT GETNAME
        $-1
        CLIENT SETNAME worker
        +OK
        CLIENT GETNAME
        $6 | worker
        CLIENT SETNAME "two words"
        -ERR Client names cannot contain spaces, newlines or special characters.
        CLIENT GETNAME
        $6 | worker
        CLIENT SETNAME ""
        +OK
        CLIENT GETNAME
        $-1
        CLIENT NOSUCH
        -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
        CLIENT
        -ERR wrong number of arguments for 'client' command
        CLIENT GETNAME x
        -ERR wrong number of arguments for 'client\x7cgetname' command
        CLIENT NO-EVICT on
        +OK
        CLIENT NO-EVICT off
        +OK
        CLIENT NO-EVICT maybe
        -ERR syntax error
        !CLIENT NO-TOUCH on
        +OK
        !CLIENT NO-TOUCH off
        +OK
        !CLIENT NO-TOUCH maybe
        -ERR syntax error
        !CLIENT SETINFO LIB-NAME shardrace-tests
        +OK
        !CLIENT SETINFO lib-ver 1.0
        +OK
        !CLIENT SETINFO lib-ver "1 0"
        -ERR lib-ver cannot contain spaces, newlines or special characters.
        !CLIENT SETINFO color blue
        -ERR Unrecognized option 'color'
        CLIENT LIST TYPE bogus
        -ERR Unknown client type 'bogus'
        CLIENT LIST ID x
        -ERR Invalid client ID
        CLIENT LIST ID 1 9223372036854775808
        -ERR Invalid client ID
        CLIENT LIST ID 0 -1
        $0 |
        CLIENT LIST ID
        -ERR syntax error
        CLIENT LIST BOGUS
        -ERR syntax error
        CLIENT LIST TYPE replica
        $0 |
        !CLIENT MAINT_NOTIFICATIONS on
        -ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.
        AUTH x
        -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        AUTH default x
        +OK
        AUTH nobody x
        -WRONGPASS invalid username-password pair or user is disabled.
        AUTH a b c
        -ERR syntax error
        HELLO 1
        -NOPROTO unsupported protocol version
        HELLO 4
        -NOPROTO unsupported protocol version
        HELLO x
        -ERR Protocol version is not an integer or out of range
        HELLO 2 BOGUS
        -ERR Syntax error in HELLO option 'BOGUS'
        HELLO 2 SETNAME
        -ERR Syntax error in HELLO option 'SETNAME'
        HELLO 2 AUTH default
        -ERR Syntax error in HELLO option 'AUTH'
        HELLO 2 SETNAME "a b"
        -ERR Client names cannot contain spaces, newlines or special characters.
        nosuch
        -ERR unknown command 'nosuch', with args beginning with:\x20
        nosuch a "b c"
        -ERR unknown command 'nosuch', with args beginning with: 'a' 'b c'\x20
        "#,
    );
}

#[test]
fn hello_switches_the_protocol_and_says_what_the_server_is() {
    on_every_engine(|server| {
        let mut client = server.client();
        let Value::Array(fields) = client.value(&["HELLO"]) else { panic!("RESP2 has no maps") };
        assert_eq!(fields.len(), 14);
        let hello = client.value(&["HELLO", "3", "SETNAME", "tester"]);
        assert!(matches!(hello, Value::Map(_)), "{hello:?}");
        assert_eq!(hello.field("server").unwrap().text(), "redis");
        assert_eq!(hello.field("proto"), Some(&Value::Integer(3)));
        assert_eq!(hello.field("mode").unwrap().text(), "standalone");
        assert_eq!(hello.field("role").unwrap().text(), "master");
        assert_eq!(hello.field("modules"), Some(&Value::Array(vec![])));
        assert_eq!(hello.field("id"), Some(&client.value(&["CLIENT", "ID"])));
        client.expect("CLIENT GETNAME", "$6\r\ntester\r\n");
        client.expect("GET missing", "_\r\n");
        client.expect("LPOP missing 1", "_\r\n");
        client.expect("HELLO 9", "-NOPROTO unsupported protocol version\r\n");
        client.expect("GET missing", "_\r\n");
        client.expect("RESET", "+RESET\r\n");
        client.expect("GET missing", "$-1\r\n");
        client.expect("CLIENT GETNAME", "$-1\r\n");
        // In one burst, each reply is in the protocol valid at its point.
        let burst = ["GET x\r\n", "HELLO 3\r\n", "GET x\r\n", "RESET\r\n", "GET x\r\n"].concat();
        client.send(burst.as_bytes());
        assert_eq!(client.reply(), b"$-1\r\n");
        client.reply();
        assert_eq!([client.reply(), client.reply(), client.reply()].concat(), b"_\r\n+RESET\r\n$-1\r\n");
    });
}

#[test]
fn resp3_has_its_own_forms() {
    on_every_engine(|server| {
        let mut client = Client::connect_resp3(server.address());
        client.expect("SADD s a", ":1\r\n");
        client.expect("SMEMBERS s", "~1\r\n$1\r\na\r\n");
        client.expect("SMEMBERS missing", "~0\r\n");
        client.expect("HSET h f v", ":1\r\n");
        client.expect("HGETALL h", "%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
        client.expect("HGETALL missing", "%0\r\n");
        client.expect("HGET h g", "_\r\n");
        client.expect("MGET a b", "*2\r\n_\r\n_\r\n");
        client.expect("CONFIG GET hz", "%1\r\n$2\r\nhz\r\n$2\r\n10\r\n");
        client.expect("SPOP s 1", "~1\r\n$1\r\na\r\n");
        assert!(client.call(&["INFO"]).starts_with(b"="), "a verbatim string");
        assert!(client.call(&["CLIENT", "LIST"]).starts_with(b"="), "a verbatim string");
        assert!(matches!(client.value(&["STATS"]), Value::Map(_)));
    });
}

#[test]
fn a_password_opens_the_server() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--requirepass", "secret"]);
        let mut client = server.client();
        for line in ["GET k", "PING", "INFO", "CLIENT ID", "CONFIG GET *", "COMMAND", "FLUSHALL", "KEYS *"] {
            client.expect(line, "-NOAUTH Authentication required.\r\n");
        }
        client.expect("nosuch", "-ERR unknown command 'nosuch', with args beginning with: \r\n");
        let refused = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                       <user> <pass> option can be used to authenticate the client and select the RESP protocol version \
                       at the same time\r\n";
        client.expect("HELLO 3", refused);
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
        client.expect("AUTH wrong", wrong);
        client.expect("AUTH default wrong", wrong);
        client.expect("AUTH somebody secret", wrong);
        client.expect("AUTH \"\"", wrong);
        client.expect("AUTH secre", wrong);
        client.expect("HELLO 3 AUTH default wrong", wrong);
        client.expect("GET k", "-NOAUTH Authentication required.\r\n");
        client.expect("AUTH secret", "+OK\r\n");
        client.expect("GET k", "$-1\r\n");
        client.expect("AUTH wrong", wrong);
        client.expect("GET k", "$-1\r\n");
        client.expect("RESET", "+RESET\r\n");
        client.expect("GET k", "-NOAUTH Authentication required.\r\n");

        let mut client = server.client();
        let hello = client.value(&["HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me"]);
        assert_eq!(hello.field("proto"), Some(&Value::Integer(3)));
        client.expect("CLIENT GETNAME", "$2\r\nme\r\n");
        let mut client = server.client();
        client.send(b"AUTH secret\r\nGET k\r\n");
        assert_eq!([client.reply(), client.reply()].concat(), b"+OK\r\n$-1\r\n");
        // A connection that has not authenticated may always QUIT.
        let mut client = server.client();
        client.send(b"QUIT\r\n");
        assert_eq!(client.until_closed(), b"+OK\r\n");
        // After the password is removed all connections are accepted, and until there is one again.
        let (mut admin, mut early) = (server.client(), server.client());
        early.expect("GET k", "-NOAUTH Authentication required.\r\n");
        admin.expect("AUTH secret", "+OK\r\n");
        admin.expect("CONFIG SET requirepass \"\"", "+OK\r\n");
        server.client().expect("GET k", "$-1\r\n");
        early.expect("GET k", "$-1\r\n");
        early.expect(&format!("DEL{}", " k".repeat(100)), ":0\r\n");
        admin.expect("CONFIG SET requirepass other", "+OK\r\n");
        early.expect("GET k", "-NOAUTH Authentication required.\r\n");
        admin.expect("GET k", "$-1\r\n");
    }
}
