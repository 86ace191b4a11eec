//! The databases: SELECT, MOVE, COPY DB, SWAPDB, and their isolation.

use harness::{Client, EVERY_ENGINE, Embedded, RedisOracle, Server, check_script, on_every_engine};

#[test]
fn databases_keep_their_keys_apart() {
    check_script(
        r#"
        SET k zero
        +OK
        SELECT 3
        +OK
        GET k
        $-1
        SET k three
        +OK
        MSET a 1 b 2 c 3 d 4
        +OK
        DBSIZE
        :5
        SELECT 0
        +OK
        DBSIZE
        :1
        KEYS *
        *1 | $1 | k
        GET k
        $4 | zero
        RANDOMKEY
        $1 | k
        SELECT 3
        +OK
        FLUSHDB
        +OK
        SELECT 0
        +OK
        EXISTS k
        :1
        SELECT 15
        +OK
        SET k fifteen
        +OK
        SELECT 16
        -ERR DB index is out of range
        GET k
        $7 | fifteen
        FLUSHALL
        +OK
        SELECT 0
        +OK
        DBSIZE
        :0
        "#,
    );
}

#[test]
fn move_and_copy_take_a_key_to_another_database() {
    check_script(
        r#"
        SET k v PXAT 33177117420123
        +OK
        MOVE k 1
        :1
        MOVE k 1
        :0
        GET k
        $-1
        SET k w
        +OK
        MOVE k 1
        :0
        MOVE k 0
        -ERR source and destination objects are the same
        MOVE k 16
        -ERR DB index is out of range
        MOVE k -1
        -ERR DB index is out of range
        MOVE k x
        -ERR value is not an integer or out of range
        MOVE nope 1
        :0
        COPY k k
        -ERR source and destination objects are the same
        COPY k k DB 1
        :0
        COPY k l DB 1
        :1
        COPY k k DB 1 REPLACE
        :1
        COPY k m DB 16
        -ERR DB index is out of range
        COPY k m DB 99999999999
        -ERR value is out of range, value must between -2147483648 and 2147483647
        RPUSH list a b
        :2
        MOVE list 2
        :1
        SELECT 1
        +OK
        MGET k l
        *2 | $1 | w | $1 | w
        PEXPIRETIME k
        :-1
        SELECT 2
        +OK
        LRANGE list 0 -1
        *2 | $1 | a | $1 | b
        "#,
    );
}

#[test]
fn swapdb_exchanges_two_databases() {
    check_script(
        r#"
        MSET a 1 b 2 c 3
        +OK
        PEXPIREAT a 33177117420123
        :1
        SELECT 5
        +OK
        RPUSH l x
        :1
        SWAPDB 0 5
        +OK
        KEYS *
        *3 | $1 | a | $1 | b | $1 | c
        PEXPIRETIME a
        :33177117420123
        SELECT 0
        +OK
        KEYS *
        *1 | $1 | l
        WATCH l
        +OK
        SWAPDB 0 0
        +OK
        LRANGE l 0 -1
        *1 | $1 | x
        MULTI
        +OK
        LLEN l
        +QUEUED
        EXEC
        *1 | :1
        SWAPDB 5 0
        +OK
        DBSIZE
        :3
        SWAPDB x 0
        -ERR invalid first DB index
        SWAPDB 0 x
        -ERR invalid second DB index
        SWAPDB 0 16
        -ERR DB index is out of range
        SWAPDB 0 99999999999
        -ERR invalid second DB index
        "#,
    );
}

#[test]
fn a_transaction_goes_through_databases() {
    check_script(
        r#"
        SELECT 2
        +OK
        MULTI
        +OK
        SET k two
        +QUEUED
        SELECT 4
        +QUEUED
        SET k four
        +QUEUED
        SELECT 99
        +QUEUED
        MOVE k 6
        +QUEUED
        SWAPDB 2 7
        +QUEUED
        DBSIZE
        +QUEUED
        EXEC
        *7 | +OK | +OK | +OK | -ERR DB index is out of range | :1 | +OK | :0
        DBSIZE
        :0
        SELECT 6
        +OK
        GET k
        $4 | four
        SELECT 7
        +OK
        GET k
        $3 | two
        "#,
    );
}

/// Runs lines of several clients, `1: SET k v`, on every engine and on redis-server, and compares all replies.
fn check_dialogue(lines: &[&str]) {
    let oracle = RedisOracle::start();
    let wanted = dialogue(|| oracle.client(), lines);
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &[]);
        assert_eq!(dialogue(|| server.client(), lines), wanted);
    }
}

/// A line that ends in `...` is sent without reading its reply, which `N: reply` reads.
fn dialogue(connect: impl Fn() -> Client, lines: &[&str]) -> Vec<String> {
    let mut clients: Vec<Client> = (0..3).map(|_| connect()).collect();
    let mut replies = Vec::new();
    for line in lines {
        let (number, request) = line.split_once(": ").unwrap();
        let client = &mut clients[number.parse::<usize>().unwrap()];
        let words: Vec<&str> = request.split(' ').collect();
        match words.as_slice() {
            ["reply"] => replies.push(client.reply()),
            [words @ .., "..."] => {
                client.send(&harness::request(words));
                assert!(client.is_silent(), "{line}");
                continue;
            }
            words => replies.push(client.call(words)),
        }
    }
    replies.into_iter().map(|reply| reply.escape_ascii().to_string()).collect()
}

#[test]
fn a_watch_is_on_the_key_of_its_database() {
    check_dialogue(&[
        // A key of the same name in another database is a different key.
        "0: WATCH k",
        "1: SELECT 1",
        "1: SET k v",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
        // The key of the database in which it was watched.
        "0: WATCH k",
        "0: SELECT 2",
        "1: SELECT 0",
        "1: SET k v",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
        // MOVE changes both databases.
        "0: SELECT 3",
        "0: WATCH k",
        "1: MOVE k 3",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
        // SWAPDB changes keys that exist before or after.
        "0: WATCH k",
        "1: SWAPDB 3 4",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
        "0: WATCH k",
        "1: SWAPDB 3 4",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
        "0: WATCH nope",
        "1: SWAPDB 3 4",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
        // FLUSHALL from another database.
        "0: SELECT 4",
        "0: WATCH k",
        "1: FLUSHALL",
        "0: MULTI",
        "0: PING",
        "0: EXEC",
    ]);
}

#[test]
fn who_waits_is_served_by_move_and_swapdb() {
    check_dialogue(&[
        "0: SELECT 1",
        "0: BLPOP k 0 ...",
        "1: RPUSH k a",
        "1: MOVE k 1",
        "0: reply",
        "0: BLPOP k 0 ...",
        "1: SELECT 2",
        "1: RPUSH k b c",
        "1: SWAPDB 1 2",
        "0: reply",
        "1: DBSIZE",
        "0: DBSIZE",
        "0: BLPOP k 0",
        "0: BLMOVE k l LEFT RIGHT 0 ...",
        "1: SELECT 3",
        "1: RPUSH k d",
        "1: COPY k k DB 1",
        "0: reply",
        "0: LRANGE l 0 -1",
        "1: LRANGE k 0 -1",
    ]);
}

#[test]
fn databases_outlive_the_server_and_another_engine() {
    for (setup, next) in EVERY_ENGINE.into_iter().zip(EVERY_ENGINE.into_iter().cycle().skip(1)) {
        println!("{setup:?}, then {next:?}");
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        for line in ["SET a zero", "SELECT 3", "SET a three", "SELECT 9", "SET b nine", "SET c nine"] {
            client.expect(line, "+OK\r\n");
        }
        client.expect("MOVE b 10", ":1\r\n");
        client.expect("COPY c d DB 11", ":1\r\n");
        client.expect("SWAPDB 9 3", "+OK\r\n");
        client.expect("SET e nine PX 1", "+OK\r\n");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let data = server.kill();
        let server = data.start(next, &[]);
        let mut client = server.client();
        for (database, key, value) in
            [(0, "a", "zero"), (9, "a", "three"), (3, "c", "nine"), (10, "b", "nine"), (11, "d", "nine")]
        {
            client.expect(&format!("SELECT {database}"), "+OK\r\n");
            client.expect(&format!("GET {key}"), &format!("${}\r\n{value}\r\n", value.len()));
            client.expect("DBSIZE", ":1\r\n");
        }
        let info = server.info();
        assert_eq!(info["db11"], "keys=1,expires=0,avg_ttl=0");
        assert_eq!(info.keys().filter(|field| field.starts_with("db") && field.len() < 5).count(), 5);
    }
}

#[test]
fn a_key_expires_in_any_database() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("SELECT 7", "+OK\r\n");
        client.expect("SET k v PX 20", "+OK\r\n");
        client.expect("SELECT 0", "+OK\r\n");
        harness::wait_until("the key is gone", || server.info_number("expired_keys") == 1);
    });
}

#[test]
fn the_log_of_more_databases_than_there_are_is_refused() {
    for setup in EVERY_ENGINE {
        for lines in
            [&["SELECT 9", "SET k v"][..], &["SET k v", "COPY k c DB 9"], &["SET k v", "MOVE k 9"], &["SWAPDB 0 9"]]
        {
            let server = Server::start(setup, &[]);
            let mut client = server.client();
            lines.iter().for_each(|line| drop(client.call(&harness::words(line))));
            let data = server.kill();
            let ended = data.start_refused(setup, &["--databases", "2"]);
            assert!(ended.stderr.contains("is of database 9; `databases` allows for 2 only"), "{}", ended.stderr);
            assert!(!ended.stderr.contains("--salvage"), "nothing is wrong with the log: {}", ended.stderr);
            drop(data.start(setup, &[]));
        }
    }
}
