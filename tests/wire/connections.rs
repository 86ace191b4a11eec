//! Connections: how many, how long, and what each knows of itself.

use crate::harness::{Client, EVERY_ENGINE, Server, Value, check_script, on_every_engine, request, wait_until};
use std::time::{Duration, Instant};

#[test]
fn the_connection_above_maxclients_is_told_so() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--maxclients", "3"]);
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
        // One that goes makes room for one that comes.
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
        let server = Server::start(setup, &["--timeout", "1"]);
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
        // In one burst, each reply is in the protocol of its moment.
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
        let server = Server::start(setup, &["--requirepass", "secret"]);
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
        // A connection that has not authenticated may always go.
        let mut client = server.client();
        client.send(b"QUIT\r\n");
        assert_eq!(client.until_closed(), b"+OK\r\n");
        // A password that is taken away lets everybody in who comes.
        let mut admin = server.client();
        admin.expect("AUTH secret", "+OK\r\n");
        admin.expect("CONFIG SET requirepass \"\"", "+OK\r\n");
        server.client().expect("GET k", "$-1\r\n");
    }
}
