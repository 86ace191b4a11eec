//! BLPOP and the like: waiting clients are served in order, exactly once, on any shards; and waiting is cheap.

use harness::{
    Client, Data, EVERY_ENGINE, Endpoint, Server, Value, check_flow, check_flow_of_7_2, check_script, effort,
    on_every_engine, request, seed, wait_until,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};

fn text(value: &str) -> Value {
    Value::Bulk(value.as_bytes().to_vec())
}

/// Waiting clients, in order.
fn waiting(server: &Endpoint, count: usize, request_of: impl Fn(usize) -> String) -> Vec<Client> {
    (0..count)
        .map(|index| {
            let mut client = server.client();
            let id = client.value(&["CLIENT", "ID"]).integer();
            client.send(&request(&harness::words(&request_of(index))));
            wait_for_wait(server, id);
            client
        })
        .collect()
}

fn wait_for_wait(server: &Endpoint, id: i64) {
    let mut admin = server.client();
    wait_until("it waits", || admin.value(&["CLIENT", "LIST", "ID", &id.to_string()]).text().contains(" flags=b "));
}

fn waiters(server: &Endpoint) -> usize {
    let list = server.client().value(&["CLIENT", "LIST"]).text();
    list.lines().filter(|line| line.contains(" flags=b ")).count()
}

#[test]
fn a_push_right_after_client_kill_is_not_for_the_one_killed() {
    on_every_engine(|server| {
        let mut admin = server.client();
        for round in 0..10 {
            let mut killed = server.client();
            let id = killed.value(&["CLIENT", "ID"]).integer();
            killed.send(&request(&harness::words("BLPOP list 0")));
            wait_for_wait(server, id);
            let kill = format!("CLIENT KILL ID {id}");
            let requests = [&kill[..], "RPUSH list x", "LLEN list", "DEL list"].map(harness::words);
            // In one write, so that they are read together.
            admin.send(&requests.iter().flat_map(|words| request(words)).collect::<Vec<u8>>());
            let replies: Vec<i64> = admin.values(requests.len()).iter().map(Value::integer).collect();
            assert_eq!(replies, [1, 1, 1, 1], "round {round}");
            assert!(killed.is_closed());
        }
    });
}

/// The element is there when the client is asked to wait no longer, because both are of one connection.
#[test]
fn client_unblock_after_a_push_of_the_same_pipeline_finds_that_nobody_waits() {
    on_every_engine(|server| {
        let mut admin = server.client();
        for round in 0..20 {
            let mut blocked = server.client();
            let id = blocked.value(&["CLIENT", "ID"]).integer();
            blocked.send(&request(&harness::words("BLPOP list 0")));
            wait_for_wait(server, id);
            let replies = admin.pipeline(
                &["RPUSH list x".to_owned(), format!("CLIENT UNBLOCK {id}")].map(|line| harness::words(&line)),
            );
            assert_eq!(replies, [Value::Integer(1), Value::Integer(0)], "round {round}");
            assert_eq!(blocked.value_of_next(), Value::Array(vec![text("list"), text("x")]), "round {round}");
        }
    });
}

/// The shard is busy with a script when a client that has just asked for an element is killed.
#[test]
fn what_is_pushed_after_client_kill_is_not_for_a_wait_that_was_on_its_way() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let (mut killed, mut busy, mut admin) = (server.client(), server.client(), server.client());
        let id = killed.value(&["CLIENT", "ID"]).integer();
        let script = "local n = 0 for i = 1, 2e7 do n = n + i end return redis.call('EXISTS', KEYS[1])";
        busy.send(&request(&["EVAL", script, "1", "{list}"]));
        killed.send(&request(&harness::words("BLPOP {list}x 0")));
        // Both are on their way.
        std::thread::sleep(Duration::from_millis(50));
        let lines = [format!("CLIENT KILL ID {id}"), "RPUSH {list}x x".to_owned(), "LLEN {list}x".to_owned()];
        let replies = admin.pipeline(&lines.map(|line| harness::words(&line)));
        assert_eq!(replies.iter().map(Value::integer).collect::<Vec<_>>(), [1, 1, 1], "{setup:?}");
        assert!(killed.is_closed());
    }
}

#[test]
fn timeouts_are_read_as_redis_reads_them() {
    let bad = "-ERR timeout is not a float or out of range";
    let mut script = String::new();
    for (timeout, reply) in [
        ("-1", "-ERR timeout is negative"),
        ("-0.01", "-ERR timeout is negative"),
        ("-inf", "-ERR timeout is negative"),
        ("nan", bad),
        ("x", bad),
        ("\"\"", bad),
        ("\" 1\"", bad),
        ("\"1 \"", bad),
        ("0x", bad),
        ("1_0", bad),
        ("0.001abc", bad),
        ("1e-9999", bad),
        ("1e99999", bad),
        ("0.001", "*-1"),
        ("+.001", "*-1"),
        ("1e-3", "*-1"),
        ("1.e-3", "*-1"),
        ("0x1p-9", "*-1"),
        ("0.000000001", "*-1"),
    ] {
        script += &format!("BLPOP l {timeout}\n{reply}\nBRPOP l m {timeout}\n{reply}\n");
        script += &format!("BLMOVE l m LEFT RIGHT {timeout}\n{reply}\nBRPOPLPUSH l m {timeout}\n{reply}\n");
        script += &format!("BLMPOP {timeout} 2 l m RIGHT\n{reply}\n");
    }
    // Redis 7.2 replies this; 7.0 computes on, and finds them negative.
    for timeout in ["inf", "infinity", "1e400", "9223372036854776", "9223372036854775", "9000000000000000000000"] {
        script += &format!("!BLPOP l {timeout}\n-ERR timeout is out of range\n");
    }
    check_script(&script);
}

#[test]
fn what_is_wrong_with_a_blocking_command_is_told_at_once() {
    check_script(
        r#"
        BLPOP l
        -ERR wrong number of arguments for 'blpop' command
        BRPOP
        -ERR wrong number of arguments for 'brpop' command
        BLMPOP 1 1 l
        -ERR wrong number of arguments for 'blmpop' command
        BRPOPLPUSH l m
        -ERR wrong number of arguments for 'brpoplpush' command
        BLMOVE l m LEFT RIGHT
        -ERR wrong number of arguments for 'blmove' command
        BLMOVE l m UP DOWN x
        -ERR syntax error
        BLMOVE l m LEFT DOWN 0
        -ERR syntax error
        BLMPOP 0 0 l LEFT
        -ERR numkeys should be greater than 0
        BLMPOP 0 x l LEFT
        -ERR numkeys should be greater than 0
        BLMPOP 0 2 l LEFT
        -ERR syntax error
        BLMPOP 0 9223372036854775807 l LEFT
        -ERR syntax error
        BLMPOP 0 1 l UP
        -ERR syntax error
        BLMPOP 0 1 l LEFT COUNT
        -ERR syntax error
        BLMPOP 0 1 l LEFT COUNT 0
        -ERR count should be greater than 0
        BLMPOP 0 1 l LEFT COUNT x
        -ERR count should be greater than 0
        BLMPOP 0 1 l LEFT COUNT 1 COUNT 2
        -ERR syntax error
        BLMPOP 0 1 l LEFT LIMIT 1
        -ERR syntax error
        BLMPOP 0 1 l LEFT COUNT 0 x
        -ERR count should be greater than 0
        BLMPOP 0 1 l LEFT COUNT 1 x
        -ERR syntax error
        BLMPOP x 0 l LEFT
        -ERR numkeys should be greater than 0
        BLMPOP -1 1 l UP
        -ERR syntax error
        BLMPOP -1 1 l LEFT COUNT 1
        -ERR timeout is negative
        SET s v
        +OK
        RPUSH l a
        :1
        BLPOP s l 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BLPOP x s l 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BLMPOP 0 3 x s l LEFT
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BLMOVE s l LEFT LEFT 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BLMOVE l s LEFT LEFT 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BRPOPLPUSH l s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BRPOPLPUSH s s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BLMOVE x s LEFT LEFT 0.001
        *-1
        LRANGE l 0 -1
        *1 | $1 | a
        BLPOP l s 0
        *2 | $1 | l | $1 | a
        "#,
    );
}

#[test]
fn the_first_list_in_argument_order_serves_at_once() {
    check_script(
        r#"
        RPUSH a 1 2 3 4 5 6 7 8 9
        :9
        RPUSH b x y
        :2
        BLPOP c b a 0
        *2 | $1 | b | $1 | x
        BRPOP d e a b 0
        *2 | $1 | a | $1 | 9
        BLPOP a a 0
        *2 | $1 | a | $1 | 1
        BLMPOP 0 3 c a b LEFT COUNT 2
        *2 | $1 | a | *2 | $1 | 2 | $1 | 3
        BLMPOP 0 3 c b a RIGHT COUNT 9
        *2 | $1 | b | *1 | $1 | y
        EXISTS b
        :0
        BLMOVE a b RIGHT LEFT 0
        $1 | 8
        BRPOPLPUSH a b 0
        $1 | 7
        BLMOVE a a LEFT RIGHT 0
        $1 | 4
        LRANGE a 0 -1
        *3 | $1 | 5 | $1 | 6 | $1 | 4
        LRANGE b 0 -1
        *2 | $1 | 7 | $1 | 8
        BLPOP x y x y 0.001
        *-1
        BLMPOP 0.001 2 x x LEFT
        *-1
        "#,
    );
}

#[test]
fn an_element_moved_within_its_list_keeps_the_time_to_live() {
    check_script(
        r#"
        RPUSH l a
        :1
        EXPIREAT l 33177117420
        :1
        BLMOVE l l LEFT RIGHT 0
        $1 | a
        EXPIRETIME l
        :33177117420
        BRPOPLPUSH l l 0
        $1 | a
        LMOVE l l LEFT LEFT
        $1 | a
        EXPIRETIME l
        :33177117420
        BLMOVE l m LEFT LEFT 0
        $1 | a
        EXPIRETIME m
        :-1
        EXISTS l
        :0
        "#,
    );
}

#[test]
fn who_waits_is_served_in_order_of_arrival() {
    check_flow(
        r"
        a: BLPOP x y z 0
        (waits)
        b: BRPOP y x 0
        (waits)
        c: BLMPOP 0 2 z x LEFT COUNT 2
        (waits)
        d: BLPOP x x x 0
        (waits)
        p: RPUSH x 1 2 3 4 5
        :5
        a:
        *2 | $1 | x | $1 | 1
        b:
        *2 | $1 | x | $1 | 5
        c:
        *2 | $1 | x | *2 | $1 | 2 | $1 | 3
        d:
        *2 | $1 | x | $1 | 4
        p: EXISTS x y z
        :0
        # Each by the key that comes.
        a: BLPOP x y 0
        (waits)
        b: BLPOP y z 0
        (waits)
        c: BLPOP z x 0
        (waits)
        p: RPUSH z 1
        :1
        b:
        *2 | $1 | z | $1 | 1
        p: LPUSH x 2
        :1
        a:
        *2 | $1 | x | $1 | 2
        p: RPUSH y 3
        :1
        p: RPUSH z 4
        :1
        c:
        *2 | $1 | z | $1 | 4
        p: LLEN y
        :1
        ",
    );
}

#[test]
fn a_transaction_serves_after_exec_what_it_left() {
    check_flow(
        r"
        a: BLPOP x 0
        (waits)
        p: MULTI
        +OK
        p: RPUSH x 1
        +QUEUED
        p: DEL x
        +QUEUED
        p: EXEC
        *2 | :1 | :1
        p: MULTI
        +OK
        p: RPUSH x 1
        +QUEUED
        p: SET x v
        +QUEUED
        p: EXEC
        *2 | :1 | +OK
        p: MULTI
        +OK
        p: DEL x
        +QUEUED
        p: RPUSH x 1 2
        +QUEUED
        p: LPOP x
        +QUEUED
        p: LLEN x
        +QUEUED
        p: EXEC
        *4 | :1 | :2 | $1 | 1 | :1
        a:
        *2 | $1 | x | $1 | 2
        ",
    );
}

#[test]
fn of_keys_that_a_step_filled_the_first_argument_serves_each_who_waits() {
    check_flow_of_7_2(
        r#"
        # Of several keys that one transaction filled, the first of the arguments serves.
        a: BLPOP b a c 0
        (waits)
        p: MULTI
        +OK
        p: RPUSH a 1
        +QUEUED
        p: RPUSH b 2
        +QUEUED
        p: RPUSH c 3
        +QUEUED
        p: EXEC
        *3 | :1 | :1 | :1
        a:
        *2 | $1 | b | $1 | 2
        p: EXISTS a b c
        :2
        p: FLUSHALL
        +OK
        a: BLPOP a b c 0
        (waits)
        p: MULTI
        +OK
        p: RPUSH c 3
        +QUEUED
        p: RPUSH b 2
        +QUEUED
        p: DEL c
        +QUEUED
        p: RPUSH a 1
        +QUEUED
        p: EXEC
        *4 | :1 | :1 | :1 | :1
        a:
        *2 | $1 | a | $1 | 1
        p: FLUSHALL
        +OK
        # The line of the key that was filled first comes first; its clients take what they named first.
        a: BLPOP one two 0
        (waits)
        b: BLMPOP 0 2 three two LEFT COUNT 5
        (waits)
        p: MULTI
        +OK
        p: RPUSH two 2
        +QUEUED
        p: RPUSH three 3 4
        +QUEUED
        p: RPUSH one 1
        +QUEUED
        p: EXEC
        *3 | :1 | :2 | :1
        a:
        *2 | $3 | one | $1 | 1
        b:
        *2 | $5 | three | *2 | $1 | 3 | $1 | 4
        p: EXISTS one two three
        :1
        p: FLUSHALL
        +OK
        # Scripts are steps, too, and a key that holds something else is passed over.
        a: BZPOPMIN string one two 0
        (waits)
        b: BZMPOP 0 2 three two MIN
        (waits)
        p: EVAL "redis.call('set', 'string', 1) for i, key in ipairs({'two', 'three', 'one'}) do redis.call('zadd', key, i, 'm' .. i) end" 0
        $-1
        a:
        *3 | $3 | one | $2 | m3 | $1 | 3
        b:
        *2 | $5 | three | *1 | *2 | $2 | m2 | $1 | 2
        p: FLUSHALL
        +OK
        a: BRPOP list one two 0
        (waits)
        p: MULTI
        +OK
        p: RPUSH two 2
        +QUEUED
        p: RPUSH one 1
        +QUEUED
        p: DEL one
        +QUEUED
        p: ZADD list 1 m
        +QUEUED
        p: EXEC
        *4 | :1 | :1 | :1 | :1
        a:
        *2 | $3 | two | $1 | 2
        "#,
    );
}

#[test]
fn a_reader_of_several_streams_gets_what_one_step_added_in_argument_order() {
    check_flow_of_7_2(
        r"
        a: XREAD BLOCK 0 STREAMS one two 0 0
        (waits)
        p: MULTI
        +OK
        p: XADD two 2-0 f v
        +QUEUED
        p: XADD one 1-0 f v
        +QUEUED
        p: EXEC
        *2 | $3 | 2-0 | $3 | 1-0
        a:
        *2 | *2 | $3 | one | *1 | *2 | $3 | 1-0 | *2 | $1 | f | $1 | v | *2 | $3 | two | *1 | *2 | $3 | 2-0 | *2 | $1 | f | $1 | v
        ",
    );
}

#[test]
fn whatever_makes_a_list_serves() {
    check_flow(
        r"
        p: RPUSH l 1 2 3 4 5
        :5
        a: BLPOP x 0
        (waits)
        p: LMOVE l x LEFT RIGHT
        $1 | 1
        a:
        *2 | $1 | x | $1 | 1
        a: BLPOP x 0
        (waits)
        p: RPOPLPUSH l x
        $1 | 5
        a:
        *2 | $1 | x | $1 | 5
        a: BLPOP x 0
        (waits)
        p: BLMOVE l x LEFT LEFT 0
        $1 | 2
        a:
        *2 | $1 | x | $1 | 2
        a: BLPOP x 0
        (waits)
        p: COPY l x
        :1
        a:
        *2 | $1 | x | $1 | 3
        p: DEL x
        :1
        a: BLPOP x 0
        (waits)
        p: RENAME l x
        +OK
        a:
        *2 | $1 | x | $1 | 3
        p: LRANGE x 0 -1
        *1 | $1 | 4
        # A value of another type does not, nor does it end the wait.
        p: DEL x
        :1
        a: BLPOP x 0
        (waits)
        p: SET x v
        +OK
        p: DEL x
        :1
        p: SADD x m
        :1
        p: RPUSH x 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        p: DEL x
        :1
        p: RPUSHX x 1
        :0
        p: RPUSH x 7
        :1
        a:
        *2 | $1 | x | $1 | 7
        ",
    );
}

#[test]
fn elements_move_along_a_chain_of_those_who_wait() {
    check_flow(
        r"
        one: BLMOVE a b LEFT RIGHT 0
        (waits)
        two: BRPOPLPUSH b c 0
        (waits)
        three: BLMOVE c d RIGHT LEFT 0
        (waits)
        four: BLPOP x d 0
        (waits)
        p: RPUSH a v
        :1
        one:
        $1 | v
        two:
        $1 | v
        three:
        $1 | v
        four:
        *2 | $1 | d | $1 | v
        p: EXISTS a b c d
        :0
        # In a circle: each once, and it stays where nobody waits.
        one: BLMOVE a b LEFT RIGHT 0
        (waits)
        two: BLMOVE b a LEFT RIGHT 0
        (waits)
        p: RPUSH a v
        :1
        one:
        $1 | v
        two:
        $1 | v
        p: LRANGE a 0 -1
        *1 | $1 | v
        # To itself.
        p: DEL a
        :1
        one: BLMOVE a a LEFT RIGHT 0
        (waits)
        two: BLPOP a 0
        (waits)
        p: RPUSH a 1 2
        :2
        one:
        $1 | 1
        two:
        *2 | $1 | a | $1 | 2
        p: LRANGE a 0 -1
        *1 | $1 | 1
        ",
    );
}

#[test]
fn a_destination_of_the_wrong_type_leaves_the_element_where_it_was() {
    for destination in ["d", "e", "f", "g", "{s}d"] {
        check_flow_of_wrong_destination(destination);
    }
}

fn check_flow_of_wrong_destination(destination: &str) {
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    check_flow(&format!(
        "p: SET {destination} v\n+OK\na: BLMOVE s {destination} LEFT RIGHT 0\n(waits)\nb: BRPOPLPUSH s {destination} 0\n\
         (waits)\nc: BLPOP s 0\n(waits)\np: RPUSH s 1\n:1\na:\n{wrong}\nb:\n{wrong}\nc:\n*2 | $1 | s | $1 | 1\n\
         p: GET {destination}\n$1 | v\np: EXISTS s\n:0\na: BLMOVE s {destination} LEFT RIGHT 0\n(waits)\n\
         p: RPUSH s 1\n:1\na:\n{wrong}\np: LRANGE s 0 -1\n*1 | $1 | 1\n"
    ));
}

#[test]
fn who_goes_away_or_times_out_leaves_the_turn_to_the_next() {
    check_flow(
        r"
        a: BLPOP x 0
        (waits)
        b: BLPOP x y 0.05
        (waits)
        c: BLMOVE x y LEFT LEFT 0
        (waits)
        d: BLPOP x 0
        (waits)
        a: (closes)
        b:
        *-1
        p: RPUSH x 1 2
        :2
        c:
        $1 | 1
        d:
        *2 | $1 | x | $1 | 2
        p: LRANGE y 0 -1
        *1 | $1 | 1
        b: PING
        +PONG
        p: RPUSH x 3
        :1
        p: LRANGE x 0 -1
        *1 | $1 | 3
        ",
    );
}

#[test]
fn client_unblock_ends_a_wait_as_a_timeout_or_with_an_error() {
    check_flow(
        r"
        p: CLIENT UNBLOCK 999999
        :0
        p: CLIENT UNBLOCK x
        -ERR value is not an integer or out of range
        p: CLIENT UNBLOCK 1 FOO
        -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
        p: CLIENT UNBLOCK -1 ERROR
        :0
        p: CLIENT UNBLOCK 1 ERROR x
        -ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.
        p: CLIENT UNBLOCK
        -ERR wrong number of arguments for 'client\x7cunblock' command
        p: CLIENT UNBLOCK {p}
        :0
        a: BLPOP x y 0
        (waits)
        p: CLIENT UNBLOCK {a}
        :1
        a:
        *-1
        p: CLIENT UNBLOCK {a}
        :0
        a: BLMOVE x y LEFT RIGHT 100
        (waits)
        p: CLIENT UNBLOCK {a} timeout
        :1
        a:
        *-1
        a: BLMPOP 0 2 x y LEFT
        (waits)
        b: BRPOP x 0
        (waits)
        p: CLIENT UNBLOCK {a} ERROR
        :1
        a:
        -UNBLOCKED client unblocked via CLIENT UNBLOCK
        a: PING
        +PONG
        p: RPUSH x 1
        :1
        b:
        *2 | $1 | x | $1 | 1
        ",
    );
}

#[test]
fn what_is_pipelined_after_a_wait_runs_after_it() {
    on_every_engine(|server| {
        let mut client = server.client();
        let id = client.value(&["CLIENT", "ID"]).integer();
        let lines =
            ["SET k 1", "BLPOP l 0", "GET k", "BLPOP l m 0.01", "MULTI", "INCR k", "EXEC", "BLPOP l 0", "INCR k"];
        client.send(&lines.iter().flat_map(|line| request(&harness::words(line))).collect::<Vec<_>>());
        assert_eq!(client.reply(), b"+OK\r\n");
        wait_for_wait(server, id);
        assert!(client.is_silent());
        let mut other = server.client();
        other.expect("SET k 5", "+OK\r\n");
        other.expect("RPUSH l a", ":1\r\n");
        assert_eq!(client.value_of_next(), Value::Array(vec![text("l"), text("a")]));
        assert_eq!(client.value_of_next(), text("5"));
        assert_eq!(client.value_of_next(), Value::NullArray);
        client.values(2);
        assert_eq!(client.value_of_next(), Value::Array(vec![Value::Integer(6)]));
        wait_for_wait(server, id);
        other.expect("RPUSH l b", ":1\r\n");
        assert_eq!(client.values(2), [Value::Array(vec![text("l"), text("b")]), Value::Integer(7)]);
    });
}

#[test]
fn waits_end_on_time() {
    on_every_engine(|server| {
        let start = Instant::now();
        let mut clients = waiting(server, 3, |index| format!("BLPOP a b c 0.{}", 3 - index));
        for (index, client) in clients.iter_mut().enumerate().rev() {
            assert_eq!(client.reply(), b"*-1\r\n");
            let least = Duration::from_millis(100 * (3 - index as u64));
            assert!(start.elapsed() >= least, "{:?} for {least:?}", start.elapsed());
        }
        assert!(start.elapsed() < Duration::from_secs(10));
    });
}

/// Takers of all kinds and pushers at the same time, on keys of several shards: every element is taken exactly once.
#[test]
fn every_element_has_exactly_one_taker() {
    const KEYS: usize = 9;
    const TAKERS: usize = 6;
    const PUSHERS: usize = 3;
    let elements = effort("BLOCKING_ELEMENTS", 400);
    let seed = seed();
    on_every_engine(|server| {
        let taken: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
            let takers: Vec<_> =
                (0..TAKERS).map(|taker| scope.spawn(move || take_all(server, seed, taker, KEYS))).collect();
            let pushers: Vec<_> = (0..PUSHERS)
                .map(|pusher| scope.spawn(move || push_all(server, seed, pusher, KEYS, elements)))
                .collect();
            pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
            wait_until("all is taken", || server.client().value(&["DBSIZE"]).integer() == 0);
            // One for each taker, which ends with it, and takes no other.
            let mut client = server.client();
            wait_until("all takers have ended", || {
                client.call(&["RPUSH", "key:0", "end"]);
                takers.iter().all(std::thread::ScopedJoinHandle::is_finished)
            });
            takers.into_iter().map(|taker| taker.join().unwrap()).collect()
        });
        let mut taken = taken.concat();
        taken.sort();
        let count = taken.len();
        taken.dedup();
        assert_eq!(taken.len(), count, "SEED={seed}: some were taken twice");
        assert_eq!(count, PUSHERS * elements, "SEED={seed}");
    });
}

fn take_all(server: &Endpoint, seed: u64, taker: usize, keys: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(taker as u64));
    let mut client = server.client();
    let mut taken = Vec::new();
    loop {
        let mut key = || format!("key:{}", random.usize(1..keys));
        let (one, other) = (key(), key());
        let own = format!("own:{taker}");
        // Some give up sometimes: the next one is served.
        let timeout = if random.bool() { "0" } else { "0.002" };
        let line = match taker % 4 {
            0 => format!("BLPOP {one} {other} key:0 {timeout}"),
            1 => format!("BLMPOP {timeout} 3 {one} {other} key:0 RIGHT COUNT 3"),
            2 => format!("BLMOVE {} {own} LEFT RIGHT 0.003", if random.usize(..4) == 0 { "key:0" } else { &one }),
            _ => format!("BRPOP {one} key:0 {other} {timeout}"),
        };
        let reply = client.value(&harness::words(&line));
        let elements = match reply {
            reply if reply.is_null() => continue,
            Value::Array(parts) => match &parts[1] {
                Value::Array(_) => parts[1].byte_strings(),
                element => vec![element.bytes().to_vec()],
            },
            element => {
                // It was moved, and exists.
                assert_eq!(client.value(&["LPOP", &own]), element, "SEED={seed}");
                vec![element.bytes().to_vec()]
            }
        };
        let is_over = elements.iter().any(|element| element == b"end");
        taken.extend(elements.into_iter().filter(|element| element != b"end"));
        if is_over {
            return taken;
        }
    }
}

fn push_all(server: &Endpoint, seed: u64, pusher: usize, keys: usize, elements: usize) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(1_000 + pusher as u64));
    let mut client = server.client();
    let mut number = 0;
    while number < elements {
        let mut push = |number: usize| {
            let key = format!("key:{}", random.usize(1..keys));
            vec![if random.bool() { "LPUSH" } else { "RPUSH" }.to_owned(), key, format!("{pusher}:{number}")]
        };
        if number % 3 == 0 && number + 3 <= elements {
            let pushes: Vec<Vec<String>> = (number..number + 3).map(&mut push).collect();
            let transaction = [&[vec!["MULTI".to_owned()]], pushes.as_slice(), &[vec!["EXEC".to_owned()]]].concat();
            assert_eq!(client.pipeline(&transaction).pop().unwrap().elements().len(), 3);
            number += 3;
        } else {
            client.call(&push(number));
            number += 1;
        }
    }
}

#[test]
fn two_keys_pushed_at_the_same_time_serve_one_element() {
    let rounds = effort("BLOCKING_ROUNDS", 60);
    on_every_engine(|server| {
        let (mut waiter, mut other) = (server.client(), server.client());
        for round in 0..rounds {
            let keys = [format!("a:{round}"), format!("b:{round}")];
            waiter.send(&request(&["BLPOP", &keys[0], &keys[1], "0"]));
            std::thread::scope(|scope| {
                for key in &keys {
                    scope.spawn(move || server.client().call(&["RPUSH", key, "v"]));
                }
            });
            let served = waiter.value_of_next().byte_strings();
            assert!(keys.iter().any(|key| key.as_bytes() == served[0]));
            let left = other.value(&["EXISTS", &keys[0], &keys[1]]).integer();
            assert_eq!(left, 1, "round {round}");
        }
    });
}

/// Clients that wait to move an element to a key of another shard take their turn in a round trip. Whatever happens to
/// them meanwhile, no other client waits while there is something to take, and nothing is lost.
#[test]
fn a_turn_is_not_lost_with_who_had_it() {
    let rounds = effort("BLOCKING_ROUNDS", 40);
    let seed = seed();
    on_every_engine(|server| {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut pusher, mut killer) = (server.client(), server.client());
        for round in 0..rounds {
            let source = format!("s:{round}");
            let mut movers: Vec<(Client, i64)> = (0..3)
                .map(|index| {
                    let mut client = server.client();
                    let id = client.value(&["CLIENT", "ID"]).integer();
                    client.send(&request(&["BLMOVE", &source, &format!("d:{round}:{index}"), "LEFT", "RIGHT", "0"]));
                    wait_for_wait(server, id);
                    (client, id)
                })
                .collect();
            let mut last = waiting(server, 1, |_| format!("BLPOP {source} 0")).pop().unwrap();
            pusher.send(&request(&["RPUSH", &source, "v"]));
            for (client, id) in movers.drain(..) {
                match random.usize(..3) {
                    0 => drop(client),
                    _ => drop(killer.call(&["CLIENT", "UNBLOCK", &id.to_string()])),
                }
            }
            pusher.reply();
            // Either an element was moved, or the last one has it.
            let is_moved = |client: &mut Client| {
                let destinations = (0..3).map(|index| format!("d:{round}:{index}"));
                client.value(&std::iter::once("EXISTS".to_owned()).chain(destinations).collect::<Vec<_>>()).integer()
                    == 1
            };
            let mut is_done = false;
            wait_until("it was taken", || {
                is_done = is_moved(&mut killer) || killer.value(&["EXISTS", &source]).integer() == 0;
                is_done
            });
            if !is_moved(&mut killer) {
                assert_eq!(last.value_of_next().byte_strings()[1], b"v", "SEED={seed}, round {round}");
            }
        }
    });
}

/// A client that is called to move an element may be served by a transaction over both keys before it runs.
#[test]
fn one_wait_moves_one_element() {
    let rounds = effort("BLOCKING_ROUNDS", 60);
    on_every_engine(|server| {
        let (mut mover, mut other, mut pusher) = (server.client(), server.client(), server.client());
        for round in 0..rounds {
            let (source, destination) = (format!("s:{round}"), format!("d:{round}"));
            mover.send(&request(&["BLMOVE", &source, &destination, "LEFT", "RIGHT", "0"]));
            let requests = |client: &mut Client, lines: &[Vec<&str>]| {
                client.send(&lines.iter().flat_map(|line| request(line)).collect::<Vec<_>>());
            };
            requests(&mut pusher, &[vec!["RPUSH", &source, "1", "2"], vec!["RPUSH", &source, "3"]]);
            requests(
                &mut other,
                &[vec!["MULTI"], vec!["RPUSH", &source, "4"], vec!["LLEN", &destination], vec!["EXEC"]],
            );
            mover.reply();
            pusher.values(2);
            other.values(4);
            let lengths = [&source, &destination].map(|key| other.value(&["LLEN", key]).integer());
            assert_eq!(lengths, [3, 1], "round {round}");
        }
    });
}

#[test]
fn a_thousand_who_wait_hold_up_nobody() {
    const WAITERS: usize = 1_000;
    on_every_engine(|server| {
        let mut clients: Vec<Client> = (0..WAITERS).map(|_| server.client()).collect();
        for (index, client) in clients.iter_mut().enumerate() {
            let keys = [format!("key:{}", index % 50), format!("other:{}", index % 7)];
            client.send(&request(&["BLPOP", &keys[0], &keys[1], "0"]));
        }
        wait_until("they wait", || waiters(server) == WAITERS);
        let mut client = server.client();
        let start = Instant::now();
        for round in 0..200 {
            client.expect(&format!("SET n {round}"), "+OK\r\n");
            client.expect(
                "MGET n key:1 other:1",
                &format!("*3\r\n${}\r\n{round}\r\n$-1\r\n$-1\r\n", round.to_string().len()),
            );
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        let elements: Vec<String> = (0..WAITERS / 50).map(|element| element.to_string()).collect();
        for key in 0..50 {
            let push: Vec<String> =
                ["RPUSH".to_owned(), format!("key:{key}")].into_iter().chain(elements.iter().cloned()).collect();
            assert_eq!(client.value(&push).integer(), elements.len() as i64);
        }
        let served: HashSet<Vec<Vec<u8>>> =
            clients.iter_mut().map(|client| client.value_of_next().byte_strings()).collect();
        assert_eq!(served.len(), WAITERS);
        client.expect("DBSIZE", ":1\r\n");
    });
}

#[test]
fn waits_that_timed_out_take_no_memory() {
    const CONNECTIONS: usize = 40;
    const WAITS: usize = 500;
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[4]] {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let wait_often = |waits: usize| {
            std::thread::scope(|scope| {
                for _ in 0..CONNECTIONS {
                    scope.spawn(|| {
                        let mut client = server.client();
                        client.send(&request(&["BLPOP", "{k}one", "{k}two", "three", "0.0001"]).repeat(waits));
                        assert!(client.values(waits).iter().all(Value::is_null));
                    });
                }
            });
        };
        wait_often(20);
        let before = server.resident_bytes();
        wait_often(WAITS);
        let after = server.resident_bytes();
        println!("{setup:?}: {before} bytes before, {after} after");
        assert!(after < before + 8_000_000, "{setup:?}: {before} bytes before, {after} after");
        server.client().expect("RPUSH three x", ":1\r\n");
        server.client().expect("LLEN three", ":1\r\n");
    }
}

#[test]
fn a_server_that_ends_does_not_wait_for_those_who_do() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut clients = waiting(&server, 20, |index| match index % 2 {
            0 => format!("BLPOP a:{index} b 0"),
            _ => format!("BLMOVE a:{index} c LEFT LEFT 1000"),
        });
        // One has sent many requests after its wait.
        let mut busy = server.client();
        busy.send(&request(&["BLPOP", "b", "0"]));
        busy.send(&request(&["SET", "k", &"v".repeat(3_000_000)]));
        let start = Instant::now();
        let (status, _, log) = server.stop();
        assert_eq!(status.code(), Some(0), "{setup:?}: {log}");
        assert!(start.elapsed() < Duration::from_secs(4), "{setup:?}: {:?}", start.elapsed());
        clients.iter_mut().for_each(|client| assert!(client.until_closed().is_empty()));
    }
}

#[test]
fn a_client_that_goes_with_much_sent_after_its_wait_is_missed() {
    on_every_engine(|server| {
        let mut gone = server.client();
        let id = gone.value(&["CLIENT", "ID"]).integer();
        gone.send(&request(&["BLPOP", "l", "0"]));
        wait_for_wait(server, id);
        gone.send(&request(&["SET", "k", &"v".repeat(3_000_000)]));
        drop(gone);
        wait_until("it is gone", || server.info_number("connected_clients") == 1);
        server.client().expect("RPUSH l x", ":1\r\n");
        server.client().expect("LLEN l", ":1\r\n");
        server.client().expect("EXISTS k", ":0\r\n");
    });
}

#[test]
fn a_client_that_sends_no_more_does_not_wait() {
    on_every_engine(|server| {
        let mut clients = waiting(server, 1, |_| "BLPOP l 0".into());
        clients[0].stream().shutdown(std::net::Shutdown::Write).unwrap();
        assert!(clients[0].until_closed().is_empty());
        server.client().expect("RPUSH l x", ":1\r\n");
        server.client().expect("LLEN l", ":1\r\n");
        // An existing element is served nevertheless.
        let mut client = server.client();
        client.send(&request(&["BLPOP", "l", "0"]));
        client.stream().shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.until_closed(), b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    });
}

#[test]
fn thousands_of_requests_after_a_wait_are_served_in_good_time() {
    const REQUESTS: usize = 20_000;
    on_every_engine(|server| {
        let mut client = server.client();
        let id = client.value(&["CLIENT", "ID"]).integer();
        client.send(&request(&["BLPOP", "first", "0"]));
        wait_for_wait(server, id);
        server.client().call(&words_of_push("l", REQUESTS));
        client.send_and_hold(&request(&["BLPOP", "l", "0"]).repeat(REQUESTS));
        let start = Instant::now();
        server.client().expect("RPUSH first x", ":1\r\n");
        let replies = client.values(1 + REQUESTS);
        assert!(replies.iter().all(|reply| reply.elements().len() == 2));
        println!("{:?}", start.elapsed());
    });
}

fn words_of_push(key: &str, elements: usize) -> Vec<String> {
    ["RPUSH".to_owned(), key.to_owned()].into_iter().chain((0..elements).map(|element| element.to_string())).collect()
}

#[test]
fn what_was_served_is_served_after_a_restart() {
    for policy in ["everysec", "always"] {
        for setup in EVERY_ENGINE {
            let flags = ["--appendfsync", policy];
            let server = Server::start(setup, &flags);
            let mut poppers = waiting(&server, 3, |index| format!("BLPOP none:{index} l 0"));
            let mut movers = waiting(&server, 3, |index| format!("BLMOVE m d:{index} LEFT RIGHT 0"));
            let mut client = server.client();
            client.expect("RPUSH l 1 2 3 4", ":4\r\n");
            client.expect("RPUSH m 1 2 3 4", ":4\r\n");
            poppers.iter_mut().chain(&mut movers).for_each(|waiter| drop(waiter.reply()));
            let data: Data = server.kill();
            let server = data.start(setup, &flags);
            let mut client = server.client();
            let what = format!("{setup:?}, {policy}");
            for (key, wanted) in [("l", "4"), ("m", "4"), ("d:0", "1"), ("d:1", "2"), ("d:2", "3")] {
                assert_eq!(
                    client.value(&["LRANGE", key, "0", "-1"]),
                    Value::Array(vec![text(wanted)]),
                    "{what}: {key}"
                );
            }
        }
    }
}

#[test]
fn info_counts_the_keys_that_connections_wait_for() {
    on_every_engine(|server| {
        let mut client = server.client();
        let counted =
            || (server.info_number("total_blocking_keys"), server.info_number("total_blocking_keys_on_nokey"));
        assert_eq!(counted(), (0, 0));
        let lists = waiting(server, 2, |_| "BLPOP stream other 0".to_owned());
        assert_eq!(counted(), (2, 0));
        client.call(&["XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM"]);
        let mut groups = waiting(server, 1, |_| "XREADGROUP GROUP group me BLOCK 0 STREAMS stream >".to_owned());
        assert_eq!(counted(), (2, 1), "a key is counted once");
        let mut elsewhere = server.client();
        elsewhere.call(&["SELECT", "1"]);
        let id = elsewhere.value(&["CLIENT", "ID"]).integer();
        elsewhere.send(&request(&["BRPOP", "other", "0"]));
        wait_for_wait(server, id);
        assert_eq!(counted(), (3, 1), "in each database");
        server.client().call(&["DEL", "stream"]);
        assert!(groups[0].reply().starts_with(b"-NOGROUP"));
        assert_eq!(counted(), (3, 0));
        drop((lists, elsewhere));
        wait_until("nobody waits", || counted() == (0, 0));
    });
}

#[test]
fn a_script_serves_who_waits_before_the_next_request_of_its_pipeline_runs() {
    on_every_engine(|server| {
        let mut client = server.client();
        for (wait, push, pop) in [
            ("BLPOP list 0", "return redis.call('rpush', 'list', 'x')", "return redis.call('lpop', 'list')"),
            ("BZPOPMIN set 0", "return redis.call('zadd', 'set', 1, 'x')", "return redis.call('zpopmin', 'set')[1]"),
        ] {
            let mut waiting = waiting(server, 1, |_| wait.to_owned());
            let replies = client.pipeline(&[vec!["EVAL", push, "0"], vec!["EVAL", pop, "0"]]);
            assert_eq!(replies, [Value::of(b":1\r\n"), Value::of(b"$-1\r\n")]);
            assert_eq!(waiting[0].value_of_next().elements()[1].text(), "x");
        }
    });
}
