//! MULTI, EXEC, DISCARD, WATCH and UNWATCH: all or nothing, over keys on any shards, on every engine.

use harness::{
    Client, EVERY_ENGINE, Embedded, RedisOracle, Server, Value, check_flow, check_script, effort, on_every_engine,
    on_every_process, request, seed, wait_until,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const OK: &[u8] = b"+OK\r\n";
const QUEUED: &[u8] = b"+QUEUED\r\n";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Sends lines in one write, and takes as many replies.
fn pipeline(client: &mut Client, lines: &[&str]) -> Vec<Value> {
    client.pipeline(&lines.iter().map(|line| words(line)).collect::<Vec<_>>())
}

#[test]
fn a_transaction_begins_queues_and_runs_in_order() {
    check_script(
        r#"
        MULTI
        +OK
        SET a 1
        +QUEUED
        INCR a
        +QUEUED
        GET a
        +QUEUED
        MGET a b c d
        +QUEUED
        RPUSH l x y
        +QUEUED
        LRANGE l 0 -1
        +QUEUED
        EXEC
        *6 | +OK | :2 | $1 | 2 | *4 | $1 | 2 | $-1 | $-1 | $-1 | :2 | *2 | $1 | x | $1 | y
        GET a
        $1 | 2
        MULTI
        +OK
        EXEC
        *0
        MULTI
        +OK
        SET a 3
        +QUEUED
        DISCARD
        +OK
        GET a
        $1 | 2
        EXEC
        -ERR EXEC without MULTI
        "#,
    );
}

#[test]
fn what_is_no_part_of_a_transaction_is_told_and_does_not_break_it() {
    check_script(
        r#"
        EXEC
        -ERR EXEC without MULTI
        DISCARD
        -ERR DISCARD without MULTI
        UNWATCH
        +OK
        MULTI
        +OK
        MULTI
        -ERR MULTI calls can not be nested
        WATCH a
        -ERR WATCH inside MULTI is not allowed
        SET a 1
        +QUEUED
        UNWATCH
        +QUEUED
        EXEC
        *2 | +OK | +OK
        WATCH
        -ERR wrong number of arguments for 'watch' command
        MULTI x
        -ERR wrong number of arguments for 'multi' command
        DISCARD x
        -ERR wrong number of arguments for 'discard' command
        EXEC x
        -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
        MULTI
        +OK
        SET a 2
        +QUEUED
        EXEC x
        -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
        EXEC
        -ERR EXEC without MULTI
        GET a
        $1 | 1
        "#,
    );
}

#[test]
fn an_error_while_queueing_aborts_the_transaction() {
    let refused = [
        ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'\\x20"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("HSET h f", "-ERR wrong number of arguments for 'hset' command"),
        ("BLPOP l", "-ERR wrong number of arguments for 'blpop' command"),
        ("WATCH", "-ERR wrong number of arguments for 'watch' command"),
        ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
        ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client\\x7csetname' command"),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config\\x7cget' command"),
        ("COMMAND COUNT x", "-ERR wrong number of arguments for 'command\\x7ccount' command"),
    ];
    let scripts = refused.map(|(request, error)| {
        format!(
            "MULTI\n+OK\nSET k v\n+QUEUED\n{request}\n{error}\nSET k w\n+QUEUED\nEXEC\n-EXECABORT Transaction \
             discarded because of previous errors.\nGET k\n$-1\nEXEC\n-ERR EXEC without MULTI\n"
        )
    });
    check_script(&scripts.concat());
}

#[test]
fn an_error_while_running_leaves_the_rest_applied() {
    check_script(
        r#"
        MULTI
        +OK
        SET a x
        +QUEUED
        LPUSH a 1
        +QUEUED
        INCR a
        +QUEUED
        MSET b 1 c
        +QUEUED
        MSETNX b 1 c
        +QUEUED
        HSET h f v g
        +QUEUED
        RENAME nosuch a
        +QUEUED
        SET d y
        +QUEUED
        EXEC
        *8 | +OK | -WRONGTYPE Operation against a key holding the wrong kind of value | -ERR value is not an integer or out of range | -ERR wrong number of arguments for 'mset' command | -ERR wrong number of arguments for 'msetnx' command | -ERR wrong number of arguments for 'hset' command | -ERR no such key | +OK
        MGET a b c d
        *4 | $1 | x | $-1 | $-1 | $1 | y
        "#,
    );
}

#[test]
fn commands_of_the_connection_and_over_all_keys_run_in_their_places() {
    check_script(
        r#"
        MULTI
        +OK
        PING
        +QUEUED
        ECHO hi
        +QUEUED
        PING hello
        +QUEUED
        CLIENT SETNAME bob
        +QUEUED
        CLIENT GETNAME
        +QUEUED
        CONFIG GET maxclients
        +QUEUED
        SELECT 0
        +QUEUED
        SELECT 99
        +QUEUED
        SELECT x
        +QUEUED
        AUTH x
        +QUEUED
        HELLO 9
        +QUEUED
        DBSIZE
        +QUEUED
        MSET a 1 b 2 c 3 d 4 e 5
        +QUEUED
        DBSIZE
        +QUEUED
        DEL a b c d
        +QUEUED
        KEYS *
        +QUEUED
        RANDOMKEY
        +QUEUED
        FLUSHALL
        +QUEUED
        DBSIZE
        +QUEUED
        FLUSHALL NOW
        +QUEUED
        EXEC
        *20 | +PONG | $2 | hi | $5 | hello | +OK | $3 | bob | *2 | $10 | maxclients | $5 | 10000 | +OK | -ERR DB index is out of range | -ERR value is not an integer or out of range | -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct? | -NOPROTO unsupported protocol version | :0 | +OK | :5 | :4 | *1 | $1 | e | $1 | e | +OK | :0 | -ERR syntax error
        CLIENT GETNAME
        $3 | bob
        CLIENT SETNAME ""
        +OK
        "#,
    );
}

#[test]
fn a_key_named_twice_in_one_command_is_what_it_is_in_redis() {
    let script = "MSET a 1 b 2 a 3\n+OK\nMGET a b a x x a\n*6 | $1 | 3 | $1 | 2 | $1 | 3 | $-1 | $-1 | $1 | 3
        EXISTS a a b x a\n:4\nTOUCH a a b x\n:3\nDEL a a x\n:1\nUNLINK b b b\n:1
        MSETNX a 1 b 2 a 3 c 4\n:1\nMGET a b c\n*3 | $1 | 3 | $1 | 2 | $1 | 4\nMSETNX d 1 d 2 a 1\n:0\nEXISTS d\n:0
        RENAME a a\n+OK\nRENAMENX a a\n:0\nCOPY a a\n-ERR source and destination objects are the same
        DEL a b c\n:3\nSADD s 1 2\n:2\nSADD t 2 3\n:2
        SINTER s s t s\n*1 | $1 | 2\nSUNION t s t\n*3 | $1 | 1 | $1 | 2 | $1 | 3\nSDIFF s t t\n*1 | $1 | 1
        SDIFF s s\n*0\nSINTERCARD 3 s t s\n:1\nSUNIONSTORE s t s t\n:3\nSMEMBERS s\n*3 | $1 | 1 | $1 | 2 | $1 | 3
        SDIFFSTORE t s t t\n:1\nSMEMBERS t\n*1 | $1 | 1\nSMOVE t t 1\n:1\nSCARD t\n:1
        SINTERSTORE s s s t\n:1\nSDIFFSTORE s t t\n:0\nEXISTS s\n:0
        RPUSH l 1 2 3 4\n:4\nLMOVE l l LEFT RIGHT\n$1 | 1\nBRPOPLPUSH l l 0\n$1 | 1
        LMPOP 3 x l l LEFT COUNT 3\n*2 | $1 | l | *3 | $1 | 1 | $1 | 2 | $1 | 3
        BLPOP x x l l x 0\n*2 | $1 | l | $1 | 4\nBLMPOP 0.001 3 l l x LEFT\n*-1\nBRPOP l l 0.001\n*-1
        WATCH a b a\n+OK\nMULTI\n+OK\nMSET a 1 b 1 a 2\n+QUEUED\nDEL a b a\n+QUEUED\nEXEC\n*2 | +OK | :2\n";
    check_script(script);
}

#[test]
fn scan_and_info_inside_a_transaction_see_what_it_did() {
    on_every_engine(|server| {
        let mut client = server.client();
        let replies =
            pipeline(&mut client, &["MULTI", "SET {k}1 v", "SCAN 0 COUNT 1000", "INFO", "COMMAND COUNT", "EXEC"]);
        let replies = replies[5].elements();
        assert_eq!(replies[1].elements().len(), 2);
        assert!(replies[2].text().contains("redis_version"));
        assert!(replies[3].integer() > 50);
    });
}

#[test]
fn blocking_commands_inside_a_transaction_do_not_block() {
    check_script(
        r#"
        MULTI
        +OK
        BLPOP l 0
        +QUEUED
        BRPOP l m n 0
        +QUEUED
        BLMOVE l m LEFT RIGHT 0
        +QUEUED
        BRPOPLPUSH l m 0
        +QUEUED
        BLMPOP 0 1 l LEFT
        +QUEUED
        RPUSH l a b c d e
        +QUEUED
        BLPOP x l 0
        +QUEUED
        BRPOP x l 1
        +QUEUED
        BLMOVE l m LEFT RIGHT 0
        +QUEUED
        BRPOPLPUSH l m 0
        +QUEUED
        BLMPOP 0 2 x l LEFT COUNT 5
        +QUEUED
        BLPOP l x
        +QUEUED
        BLPOP l -1
        +QUEUED
        EXEC
        *13 | *-1 | *-1 | $-1 | $-1 | *-1 | :5 | *2 | $1 | l | $1 | a | *2 | $1 | l | $1 | e | $1 | b | $1 | d | *2 | $1 | l | *1 | $1 | c | -ERR timeout is not a float or out of range | -ERR timeout is negative
        LRANGE m 0 -1
        *2 | $1 | d | $1 | b
        "#,
    );
}

#[test]
fn reset_ends_a_transaction_and_its_watches() {
    check_script(
        r#"
        WATCH a
        +OK
        SET a 1
        +OK
        MULTI
        +OK
        SET a 2
        +QUEUED
        RESET
        +RESET
        EXEC
        -ERR EXEC without MULTI
        MULTI
        +OK
        GET a
        +QUEUED
        EXEC
        *1 | $1 | 1
        "#,
    );
}

#[test]
fn quit_inside_a_transaction_closes_and_runs_nothing() {
    on_every_engine(|server| {
        let mut client = server.client();
        let requests: Vec<u8> = ["MULTI", "SET a 1", "QUIT", "EXEC"].iter().flat_map(|l| request(&words(l))).collect();
        client.send(&requests);
        assert_eq!(client.until_closed(), b"+OK\r\n+QUEUED\r\n+OK\r\n");
        assert!(server.client().value(&["GET", "a"]).is_null());
    });
}

#[test]
fn hello_inside_a_transaction_chooses_the_protocol_of_what_follows() {
    let lines = [
        "MULTI",
        "HSET h f v",
        "HGETALL h",
        "HELLO 3",
        "HGETALL h",
        "GET nosuch",
        "HELLO 2",
        "GET nosuch",
        "HELLO 3 SETNAME me",
        "GET nosuch",
        "HELLO 2 SETNAME \"a b\"",
        "GET nosuch",
        "EXEC",
    ];
    let replies = |client: &mut Client| {
        let mut replies = pipeline(client, &lines).pop().unwrap().elements().to_vec();
        // They contain the version of the server and the number of the connection.
        replies.retain(|reply| !matches!(reply, Value::Map(fields) | Value::Array(fields) if fields.len() == 14));
        replies
    };
    let wanted = replies(&mut RedisOracle::start().client());
    assert_eq!(wanted.len(), 8);
    for setup in EVERY_ENGINE {
        for multi_key in ["atomic", "relaxed"] {
            let server = Embedded::start(setup, &["--multi-key", multi_key]);
            assert_eq!(replies(&mut server.client()), wanted, "{setup:?}, {multi_key}");
        }
    }
}

#[test]
fn exec_before_authentication_is_refused_as_redis_does() {
    let replies = |client: &mut Client| pipeline(client, &["MULTI", "EXEC", "WATCH a", "DISCARD", "AUTH pw", "EXEC"]);
    let oracle = RedisOracle::start();
    oracle.client().call(&["CONFIG", "SET", "requirepass", "pw"]);
    let wanted = replies(&mut oracle.client());
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--requirepass", "pw"]);
        assert_eq!(replies(&mut server.client()), wanted, "{setup:?}");
    }
}

#[test]
fn changes_by_others_break_a_watch() {
    // The initial value, what the other connection does, whether the watch of k breaks.
    let cases = [
        ("DEL k", "SET k v", true),
        ("SET k v", "SET k v", true),
        ("SET k v", "DEL k", true),
        ("SET k v", "UNLINK x k", true),
        ("SET k v", "GETDEL k", true),
        ("SET k v", "EXPIRE k 100", true),
        ("SET k v EX 100", "PERSIST k", true),
        ("SET k v", "PERSIST k", false),
        ("SET k v", "EXPIRE k 100 XX", false),
        ("SET k v", "EXPIRE k -1", true),
        ("SET k v", "GETEX k", false),
        ("SET k v", "GETEX k EX 100", true),
        ("SET k v", "FLUSHALL", true),
        ("SET k v", "FLUSHDB", true),
        ("DEL k", "FLUSHALL", false),
        ("SET k v", "FLUSHALL NOW", false),
        ("SET x v", "RENAME x k", true),
        ("SET k v", "RENAME k x", true),
        ("SET k v", "RENAME k k", false),
        ("MSET k v x w", "RENAMENX x k", false),
        ("MSET k v x w", "COPY x k", false),
        ("MSET k v x w", "COPY x k REPLACE", true),
        ("SET k v", "COPY k x", false),
        ("SET k v", "GET k", false),
        ("SET k v", "TOUCH k", false),
        ("SET k v", "APPEND k x", true),
        ("SET k v", "APPEND k \"\"", true),
        ("SET k v", "SETRANGE k 0 \"\"", false),
        ("SET k v", "SETRANGE k 0 v", true),
        ("SET k v", "SETNX k v", false),
        ("SET k v", "SET k w NX", false),
        ("SET k v", "INCR k", false),
        ("SET k 1", "INCRBY k 0", true),
        ("DEL k", "DEL k", false),
        ("DEL k", "MSET a 1 b 2 k 3 c 4", true),
        ("DEL k", "MSET a 1 b 2 c 4", false),
        ("SET a v", "MSETNX a 1 k 2", false),
        ("SADD k a", "SADD k a", false),
        ("SADD k a", "SREM k b", false),
        ("SADD k a", "SREM k a", true),
        ("SADD k a", "SPOP k", true),
        ("SADD k a", "SMEMBERS k", false),
        ("SADD x a", "SMOVE x k a", true),
        ("SADD x a", "SMOVE x k b", false),
        ("SADD x a", "SINTERSTORE k x y", false),
        ("SADD x a", "SUNIONSTORE k x y", true),
        ("SADD k a", "SINTERSTORE k x y", true),
        ("HSET k f v", "HSET k f v", true),
        ("HSET k f v", "HSETNX k f v", false),
        ("HSET k f v", "HDEL k g", false),
        ("HSET k f v", "HDEL k f", true),
        ("RPUSH k a b", "LPOP k", true),
        ("RPUSH k a b", "LPOP k 0", false),
        ("RPUSH k a b", "LSET k 0 a", true),
        ("RPUSH k a b", "LRANGE k 0 -1", false),
        ("RPUSH k a", "LMOVE k k LEFT LEFT", true),
        ("RPUSH x a", "LMOVE x k LEFT LEFT", true),
        ("RPUSH k a", "LMOVE k x LEFT LEFT", true),
        ("RPUSH k a", "BLPOP x y k 0", true),
        ("RPUSH k a", "BLMOVE k x LEFT LEFT 0", true),
        ("RPUSH x a", "BRPOPLPUSH x k 0", true),
        ("DEL k", "LPUSHX k a", false),
        ("SET k v", "LPUSH k a", false),
        ("DEL k", "RPUSH {k}x a", false),
    ];
    let broken = |clients: &mut [Client; 2], before: &str, change: &str| {
        let [watcher, other] = clients;
        other.call(&["FLUSHALL"]);
        other.call(&harness::words(before));
        assert_eq!(watcher.call(&["WATCH", "k"]), OK);
        other.call(&harness::words(change));
        assert_eq!(watcher.call(&["MULTI"]), OK);
        assert_eq!(watcher.call(&["SET", "mark", "1"]), QUEUED);
        let is_broken = watcher.value(&["EXEC"]).is_null();
        assert_eq!(other.value(&["EXISTS", "mark"]).integer(), i64::from(!is_broken), "{before}, {change}");
        is_broken
    };
    let oracle = RedisOracle::start();
    let mut clients = [oracle.client(), oracle.client()];
    for (before, change, wanted) in cases {
        assert_eq!(broken(&mut clients, before, change), wanted, "the test is wrong: {before}, {change}");
    }
    on_every_engine(|server| {
        let mut clients = [server.client(), server.client()];
        for (before, change, wanted) in cases {
            assert_eq!(broken(&mut clients, before, change), wanted, "{before}, {change}");
        }
    });
}

#[test]
fn watches_end_with_exec_discard_and_unwatch() {
    check_flow(
        r"
        w: WATCH a
        +OK
        o: SET a 1
        +OK
        w: UNWATCH
        +OK
        w: MULTI
        +OK
        w: GET a
        +QUEUED
        w: EXEC
        *1 | $1 | 1
        # EXEC that was aborted has cleared them.
        w: WATCH a b
        +OK
        o: SET b 1
        +OK
        w: MULTI
        +OK
        w: EXEC
        *-1
        w: MULTI
        +OK
        w: EXEC
        *0
        # So has EXEC that ran.
        w: WATCH a
        +OK
        w: MULTI
        +OK
        w: EXEC
        *0
        o: SET a 2
        +OK
        w: MULTI
        +OK
        w: EXEC
        *0
        w: WATCH a
        +OK
        o: SET a 3
        +OK
        w: MULTI
        +OK
        w: DISCARD
        +OK
        w: MULTI
        +OK
        w: EXEC
        *0
        # An EXEC or a DISCARD outside of a transaction clears nothing.
        w: WATCH a
        +OK
        o: SET a 4
        +OK
        w: EXEC
        -ERR EXEC without MULTI
        w: DISCARD
        -ERR DISCARD without MULTI
        w: MULTI
        +OK
        w: UNWATCH
        +QUEUED
        w: EXEC
        *-1
        # EXECABORT clears them.
        w: WATCH a
        +OK
        o: SET a 5
        +OK
        w: MULTI
        +OK
        w: NOSUCH
        -ERR unknown command 'NOSUCH', with args beginning with:\x20
        w: EXEC
        -EXECABORT Transaction discarded because of previous errors.
        w: MULTI
        +OK
        w: EXEC
        *0
        ",
    );
}

#[test]
fn a_watch_sees_its_own_connection_and_every_key_of_several_calls() {
    check_flow(
        r"
        w: WATCH a
        +OK
        w: SET a 1
        +OK
        w: MULTI
        +OK
        w: EXEC
        *-1
        w: WATCH a a a
        +OK
        w: WATCH b a c
        +OK
        w: WATCH d
        +OK
        o: MSET e 1 f 2 g 3 h 4
        +OK
        w: MULTI
        +OK
        w: SET e 2
        +QUEUED
        w: SET f 3
        +QUEUED
        w: EXEC
        *2 | +OK | +OK
        w: WATCH a a a
        +OK
        w: WATCH b a c
        +OK
        w: WATCH d
        +OK
        o: SET d 1
        +OK
        w: MULTI
        +OK
        w: SET e 4
        +QUEUED
        w: EXEC
        *-1
        o: MGET e f
        *2 | $1 | 2 | $1 | 3
        # What is queued changes a watched key only when it runs.
        w: WATCH a
        +OK
        w: MULTI
        +OK
        w: SET a 9
        +QUEUED
        w: EXEC
        *1 | +OK
        # Two watch, the first to run breaks the other's.
        w: WATCH a
        +OK
        v: WATCH a
        +OK
        w: MULTI
        +OK
        v: MULTI
        +OK
        w: INCR a
        +QUEUED
        v: INCR a
        +QUEUED
        w: EXEC
        *1 | :10
        v: EXEC
        *-1
        ",
    );
}

#[test]
fn a_watch_sees_expiry_and_not_that_of_a_key_that_was_over() {
    check_flow(
        r"
        o: SET a 1 PX 300
        +OK
        w: WATCH a
        +OK
        w: (sleeps 350)
        w: MULTI
        +OK
        w: SET other 1
        +QUEUED
        w: EXEC
        *-1
        o: SET b 1
        +OK
        w: WATCH b
        +OK
        o: PEXPIRE b 20
        :1
        # Long enough for those who look for keys that have expired.
        w: (sleeps 250)
        w: MULTI
        +OK
        w: EXEC
        *-1
        o: SET c 1 PX 1
        +OK
        w: (sleeps 10)
        w: WATCH c
        +OK
        w: (sleeps 150)
        w: MULTI
        +OK
        w: EXEC
        *0
        o: SET d 1 PX 1
        +OK
        w: (sleeps 10)
        w: WATCH d
        +OK
        o: SET d 2
        +OK
        w: MULTI
        +OK
        w: EXEC
        *-1
        o: EXISTS other
        :0
        ",
    );
}

#[test]
fn a_watch_looks_at_expired_keys_that_a_pause_keeps_and_removes_none() {
    check_flow(
        r"
        o: SET k v PX 300
        +OK
        o: SET l v PX 1500
        +OK
        o: CLIENT PAUSE 60000 WRITE
        +OK
        w: (sleeps 450)
        w: WATCH k
        +OK
        o: DBSIZE
        :2
        w: MULTI
        +OK
        w: GET k
        +QUEUED
        w: EXEC
        *1 | $-1
        w: WATCH l
        +OK
        w: (sleeps 1300)
        w: MULTI
        +OK
        w: GET l
        +QUEUED
        w: EXEC
        *-1
        o: DBSIZE
        :2
        o: CLIENT UNPAUSE
        +OK
        ",
    );
}

#[test]
fn a_watched_list_that_a_waiting_client_empties_has_changed() {
    check_flow(
        r"
        w: WATCH l
        +OK
        b: BLPOP x l y 0
        (waits)
        o: RPUSH l 1
        :1
        b:
        *2 | $1 | l | $1 | 1
        w: MULTI
        +OK
        w: EXEC
        *-1
        w: WATCH m
        +OK
        b: BLMOVE l m LEFT RIGHT 0
        (waits)
        o: RPUSH l 1
        :1
        b:
        $1 | 1
        w: MULTI
        +OK
        w: EXEC
        *-1
        ",
    );
}

/// Under `relaxed`, too, a transaction with a watch is one step with the look at it.
#[test]
fn a_counter_under_watch_counts_every_transaction_that_ran_under_relaxed() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--multi-key", "relaxed", "--appendonly", "no"]);
        let address = server.address();
        let count = move || {
            let mut client = Client::connect(address);
            let mut ran = 0;
            for _ in 0..effort("WATCH_ROUNDS", 1500) {
                client.send(b"WATCH c\r\nGET c\r\n");
                let value = &client.values(2)[1];
                let value = if value.is_null() { 0 } else { value.text().parse::<u64>().unwrap() };
                client.send(format!("MULTI\r\nSET c {}\r\nEXEC\r\n", value + 1).as_bytes());
                ran += u64::from(!client.values(3)[2].is_null());
            }
            ran
        };
        let counting: Vec<_> = (0..4).map(|_| std::thread::spawn(count)).collect();
        let ran: u64 = counting.into_iter().map(|thread| thread.join().unwrap()).sum();
        server.client().expect("GET c", &format!("${}\r\n{ran}\r\n", ran.to_string().len()));
    }
}

/// Under `relaxed` commands over several keys are split, and watched keys may be on other parts.
#[test]
fn relaxed_flushes_and_transactions_work_while_keys_are_watched() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--multi-key", "relaxed", "--appendonly", "no"]);
        let (mut watcher, mut other) = (server.client(), server.client());
        watcher.expect("MSET a 1 b 2 c 3", "+OK\r\n");
        watcher.expect("WATCH a b c d e f g", "+OK\r\n");
        other.expect("FLUSHALL", "+OK\r\n");
        let replies = pipeline(&mut watcher, &["MULTI", "MSET a 1 b", "EXEC", "MULTI", "MSET a 1 b", "DBSIZE", "EXEC"]);
        assert!(replies[2].is_null(), "{setup:?}: {:?}", replies[2]);
        assert_eq!(replies[6].elements()[1], Value::Integer(0), "{setup:?}");
        server.assert_serving();
    }
}

#[test]
fn a_transaction_over_many_keys_is_seen_whole_or_not_at_all() {
    const KEYS: usize = 40;
    let rounds = effort("TRANSACTION_ROUNDS", 150);
    on_every_engine(|server| {
        let is_over = AtomicBool::new(false);
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key}")).collect();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (keys, is_over) = (&keys, &is_over);
                scope.spawn(move || {
                    let mut client = server.client();
                    for round in 0..rounds {
                        let value = format!("{writer}:{round}");
                        let sets = keys.iter().map(|key| vec!["SET", key, &value]);
                        let requests: Vec<_> = [vec!["MULTI"]].into_iter().chain(sets).chain([vec!["EXEC"]]).collect();
                        assert_eq!(client.pipeline(&requests).pop().unwrap().elements().len(), KEYS);
                    }
                    is_over.store(true, Ordering::SeqCst);
                });
            }
            let mut reader = server.client();
            let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
            while !is_over.load(Ordering::SeqCst) {
                let mut replies =
                    reader.pipeline(&[vec!["MULTI"], mget.clone(), vec!["DBSIZE"], vec!["EXEC"], mget.clone()]);
                let alone = replies.pop().unwrap();
                let inside = replies.pop().unwrap();
                for values in [&alone, &inside.elements()[0]] {
                    assert!(values.elements().windows(2).all(|pair| pair[0] == pair[1]), "torn: {values:?}");
                }
                assert!(matches!(inside.elements()[1], Value::Integer(0 | 40)));
            }
        });
    });
}

/// A transfer with WATCH: the sum stays, and the loser of a race tries again.
#[test]
fn optimistic_transfers_lose_nothing() {
    const ACCOUNTS: usize = 7;
    const CLIENTS: usize = 4;
    let transfers = effort("TRANSFERS", 60);
    let seed = seed();
    on_every_engine(|server| {
        let mut client = server.client();
        (0..ACCOUNTS).for_each(|account| client.expect(&format!("SET account:{account} 100"), "+OK\r\n"));
        std::thread::scope(|scope| {
            for connection in 0..CLIENTS {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(connection as u64));
                    let mut client = server.client();
                    let mut left = transfers;
                    while left > 0 {
                        let from = format!("account:{}", random.usize(..ACCOUNTS));
                        let to = format!("account:{}", random.usize(..ACCOUNTS));
                        client.expect(&format!("WATCH {from} {to}"), "+OK\r\n");
                        let read =
                            |client: &mut Client, key: &str| client.value(&["GET", key]).text().parse::<i64>().unwrap();
                        let (have, other) = (read(&mut client, &from), read(&mut client, &to));
                        if from == to {
                            client.expect("UNWATCH", "+OK\r\n");
                            continue;
                        }
                        let lines = [format!("SET {from} {}", have - 1), format!("SET {to} {}", other + 1)];
                        let done = pipeline(&mut client, &["MULTI", &lines[0], &lines[1], "EXEC"]).pop().unwrap();
                        left -= usize::from(!done.is_null());
                    }
                });
            }
        });
        let sum: i64 = (0..ACCOUNTS)
            .map(|account| client.value(&["GET", &format!("account:{account}")]).text().parse::<i64>().unwrap())
            .sum();
        assert_eq!(sum, 100 * ACCOUNTS as i64);
    });
}

#[test]
fn transactions_and_other_commands_of_a_pipeline_keep_their_order() {
    const BLOCKS: usize = 400;
    let seed = seed();
    let oracle = RedisOracle::start();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut requests: Vec<Vec<String>> = Vec::new();
    let mut push = |line: String| requests.push(line.split(' ').map(str::to_owned).collect());
    for block in 0..BLOCKS {
        (0..random.usize(..4)).for_each(|step| push(format!("INCRBY n:{} {step}", random.usize(..20))));
        match random.usize(..6) {
            0 => push(format!("LMOVE l:{} l:{} LEFT RIGHT", random.usize(..5), random.usize(..5))),
            1 => push(format!("BLPOP l:{} l:{} 0.001", random.usize(..5), random.usize(..5))),
            2 => push(format!("MGET n:{} n:{} n:{}", random.usize(..20), random.usize(..20), random.usize(..20))),
            _ => {}
        }
        if random.bool() {
            push(format!("WATCH n:{}", random.usize(..20)));
            push(format!("INCR n:{}", random.usize(..20)));
        }
        push("MULTI".into());
        for _ in 0..random.usize(..5) {
            push(format!("INCR n:{}", random.usize(..20)));
            push(format!("RPUSH l:{} {block}", random.usize(..5)));
            push("PING".into());
        }
        push(if random.usize(..8) == 0 { "DISCARD" } else { "EXEC" }.into());
        push(format!("ECHO {block}"));
    }
    let wanted = oracle.client().pipeline(&requests);
    on_every_engine(|server| {
        let replies = server.client().pipeline(&requests);
        for (position, (reply, wanted)) in replies.iter().zip(&wanted).enumerate() {
            assert_eq!(reply, wanted, "SEED={seed}, request {position}: {:?}", requests[position]);
        }
    });
}

#[test]
fn a_transaction_after_a_slow_batch_replies_after_it() {
    on_every_engine(|server| {
        let mut client = server.client();
        let members: Vec<String> = (0..20_000).map(|member| member.to_string()).collect();
        let sadd: Vec<&str> = ["SADD", "s"].into_iter().chain(members.iter().map(String::as_str)).collect();
        client.call(&sadd);
        let slow = vec![vec!["SMEMBERS", "s"]; 20];
        let transaction = [vec!["MULTI"], vec!["SET", "a", "1"], vec!["SCARD", "s"], vec!["GET", "a"], vec!["EXEC"]];
        let replies = client.pipeline(&[slow.as_slice(), &transaction, &[vec!["PING"]]].concat());
        assert!(replies[..20].iter().all(|reply| reply.elements().len() == 20_000));
        let wanted = [Value::Simple(b"OK".to_vec()), Value::Integer(20_000), Value::Bulk(b"1".to_vec())];
        assert_eq!(replies[24].elements(), wanted);
        assert_eq!(replies[25], Value::Simple(b"PONG".to_vec()));
    });
}

#[test]
fn who_goes_away_before_exec_leaves_nothing_and_after_it_all() {
    const KEYS: usize = 20;
    on_every_engine(|server| {
        let queue: Vec<u8> = (0..KEYS).flat_map(|key| request(&["SET", &format!("key:{key}"), "v"])).collect();
        let exists: Vec<String> =
            std::iter::once("EXISTS".into()).chain((0..KEYS).map(|key| format!("key:{key}"))).collect();
        let mut observer = server.client();
        for round in 0..20 {
            let mut client = server.client();
            client.send(&[&request(&["MULTI"]), queue.as_slice()].concat());
            // Some wait for their replies, some do not.
            if round % 2 == 0 {
                client.values(1 + KEYS);
            }
            drop(client);
            assert_eq!(observer.value(&exists).integer(), 0);
        }
        wait_until("they are gone", || server.info_number("connected_clients") == 2);
        assert_eq!(observer.value(&exists).integer(), 0);
        for _ in 0..20 {
            let mut client = server.client();
            client.send(&[&request(&["MULTI"]), queue.as_slice(), &request(&["EXEC"])].concat());
            drop(client);
            wait_until("it is done, or gone", || {
                let count = observer.value(&exists).integer();
                assert!(count == 0 || count == KEYS as i64, "a part: {count}");
                count == KEYS as i64 || server.info_number("connected_clients") == 2
            });
            observer.expect("FLUSHALL", "+OK\r\n");
        }
    });
}

/// Clients that send a command over several shards and disconnect: it runs as a whole, or not at all.
#[test]
fn who_goes_away_in_the_middle_of_a_command_over_many_shards_leaves_all_or_nothing() {
    const KEYS: usize = 20;
    let seed = seed();
    on_every_engine(|server| {
        let mut random = fastrand::Rng::with_seed(seed);
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key}")).collect();
        let mset = || keys.iter().flat_map(|key| [key.as_str(), "v"]);
        let named = |name: &'static str| [name].into_iter();
        let exists: Vec<&str> = named("EXISTS").chain(keys.iter().map(String::as_str)).collect();
        let mut observer = server.client();
        let mut send_and_go = |observer: &mut Client, bytes: &[u8]| {
            let mut client = server.client();
            // Some of them disconnect before their request is complete.
            let is_cut = random.bool();
            client.send(&bytes[..bytes.len() - if is_cut { random.usize(1..bytes.len()) } else { 0 }]);
            drop(client);
            wait_until("it is gone", || {
                let is_gone = server.info_number("connected_clients") == 2;
                let count = observer.value(&exists).integer() as usize;
                assert!([0, KEYS].contains(&count), "SEED={seed}: a part: {count}");
                is_gone
            });
            is_cut
        };
        for _ in 0..12 {
            let is_cut = send_and_go(&mut observer, &request(&named("MSETNX").chain(mset()).collect::<Vec<_>>()));
            assert!(!is_cut || observer.value(&["DBSIZE"]).integer() == 0, "SEED={seed}: a part of a request ran");
            observer.call(&named("MSET").chain(mset()).collect::<Vec<_>>());
            send_and_go(
                &mut observer,
                &request(&named("DEL").chain(keys.iter().map(String::as_str)).collect::<Vec<_>>()),
            );
            observer.expect("FLUSHALL", "+OK\r\n");
        }
        // An element that moves from one to another is always in one of them.
        observer.expect("RPUSH a element", ":1\r\n");
        observer.expect("SET text v", "+OK\r\n");
        for round in 0..30 {
            let mut client = server.client();
            client.send(&request(&["LMOVE", ["a", "b", "c"][round % 3], ["b", "c", "a"][round % 3], "LEFT", "LEFT"]));
            client.send(&request(&["RENAME", ["text", "other"][round % 2], ["other", "text"][round % 2]]));
            drop(client);
            for _ in 0..5 {
                let lines = ["MULTI", "LLEN a", "LLEN b", "LLEN c", "EXISTS text other", "EXEC"];
                let counts = pipeline(&mut observer, &lines).pop().unwrap();
                let counts: Vec<i64> = counts.elements().iter().map(Value::integer).collect();
                assert_eq!((counts[..3].iter().sum::<i64>(), counts[3]), (1, 1), "{counts:?}");
            }
            wait_until("it is gone", || server.info_number("connected_clients") == 2);
        }
    });
}

#[test]
fn a_half_closed_client_gets_the_reply_to_its_exec() {
    on_every_engine(|server| {
        let mut client = server.client();
        let lines = ["MULTI", "SET a 1", "SET b 2", "SET c 3", "EXEC", "MGET a b c"];
        client.send(&lines.iter().flat_map(|line| request(&words(line))).collect::<Vec<u8>>());
        client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        let wanted = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n+OK\r\n+OK\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n";
        assert_eq!(client.until_closed().escape_ascii().to_string(), wanted.escape_ascii().to_string());
    });
}

#[test]
fn a_transaction_that_is_too_long_is_refused_and_takes_no_memory_for_ever() {
    const MOST: usize = 500_000;
    // One of them is sufficient: the connection does this, which is the same for all.
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[4]] {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        let before = server.info_number("used_memory");
        client.expect("MULTI", "+OK\r\n");
        let thousand = request(&["PING"]).repeat(1_000);
        for _ in 0..MOST / 1_000 {
            client.send(&thousand);
            assert!(client.values(1_000).iter().all(|reply| *reply == Value::Simple(b"QUEUED".to_vec())));
        }
        assert!(server.info_number("used_memory") > before + 10_000_000, "the test sees memory");
        let refused = Value::of(&client.call(&["PING"]));
        assert_eq!(refused, Value::Error(b"ERR Transaction is too large".to_vec()));
        assert_eq!(client.call(&["PING"]), QUEUED);
        let aborted = Value::of(&client.call(&["EXEC"]));
        assert_eq!(aborted.text(), "EXECABORT Transaction discarded because of previous errors.");
        wait_until("the memory is back", || server.info_number("used_memory") < before + 10_000_000);
        client.expect("PING", "+PONG\r\n");
        // The largest permitted number runs.
        client.expect("MULTI", "+OK\r\n");
        let incr = request(&["INCR", "n"]).repeat(1_000);
        for _ in 0..100 {
            client.send(&incr);
            client.values(1_000);
        }
        assert_eq!(client.value(&["EXEC"]).elements().len(), 100_000);
        client.expect("GET n", "$6\r\n100000\r\n");
    }
}

#[test]
fn a_trim_that_removes_nothing_breaks_a_watch_as_in_redis() {
    check_script(
        r#"
        RPUSH l a b
        :2
        WATCH l
        +OK
        LTRIM l 0 -1
        +OK
        MULTI
        +OK
        EXEC
        *-1
        "#,
    );
}

#[test]
fn keys_that_a_client_watched_or_waited_for_take_no_memory_once_it_has_gone() {
    const KEYS: usize = 30_000;
    let named = |first: &str, last: Option<&str>| {
        let keys = (0..KEYS).map(|number| format!("{first}:{number:0100}"));
        request(&std::iter::once(first.to_owned()).chain(keys).chain(last.map(str::to_owned)).collect::<Vec<_>>())
    };
    on_every_process(|server| {
        let used = || server.info_number("used_memory");
        // The buffers that connections and shards keep are there before.
        let mut reader = server.client();
        reader.send(&named("EXISTS", None));
        assert_eq!(reader.reply(), b":0\r\n");
        drop(reader);
        let before = used();
        let is_free = || used() < before + 2_000_000;
        let mut watcher = server.client();
        watcher.send(&named("WATCH", None));
        assert_eq!(watcher.reply(), OK);
        assert!(used() > before + 4_000_000, "the test sees memory");
        drop(watcher);
        wait_until("the memory of watched keys is back", is_free);
        let mut waiter = server.client();
        waiter.send(&named("BLPOP", Some("0.01")));
        assert!(Value::of(&waiter.reply()).is_null());
        wait_until("the memory of awaited keys is back", is_free);
    });
}

#[test]
fn a_second_watch_of_many_keys_takes_about_as_long_as_the_first() {
    const KEYS: usize = 40_000;
    on_every_engine(|server| {
        let mut client = server.client();
        let mut watch = |name: char| {
            let keys = (0..KEYS).map(|number| format!("{name}{number}"));
            let request = request(&std::iter::once("WATCH".to_owned()).chain(keys).collect::<Vec<_>>());
            let began = Instant::now();
            client.send(&request);
            assert_eq!(client.reply(), OK);
            began.elapsed()
        };
        let (first, second) = (watch('a'), watch('b'));
        assert!(second < 10 * first + Duration::from_secs(1), "{first:?}, {second:?}");
    });
}
