//! SORT: orders, patterns over keys of any shard, and what is stored.

use harness::{EVERY_ENGINE, Server, Value, check_same_as_redis, check_script, on_every_engine, seed};
use std::time::Instant;

#[test]
fn lists_and_sets_are_sorted() {
    check_script(
        r#"
        RPUSH l 3 10 2 1.5 -4 1e1
        :6
        SORT l
        *6 | $2 | -4 | $3 | 1.5 | $1 | 2 | $1 | 3 | $2 | 10 | $3 | 1e1
        SORT l DESC
        *6 | $3 | 1e1 | $2 | 10 | $1 | 3 | $1 | 2 | $3 | 1.5 | $2 | -4
        SORT l alpha
        *6 | $2 | -4 | $3 | 1.5 | $2 | 10 | $3 | 1e1 | $1 | 2 | $1 | 3
        SORT l LIMIT 1 2
        *2 | $3 | 1.5 | $1 | 2
        SORT l LIMIT -5 2
        *2 | $2 | -4 | $3 | 1.5
        SORT l LIMIT 4 -1
        *2 | $2 | 10 | $3 | 1e1
        SORT l LIMIT 9 9
        *0
        SORT l LIMIT 0 0
        *0
        SORT l LIMIT 9223372036854775807 9223372036854775807
        *0
        SORT l BY nosort
        *6 | $1 | 3 | $2 | 10 | $1 | 2 | $3 | 1.5 | $2 | -4 | $3 | 1e1
        SORT l BY nosort BY w_*
        *6 | $1 | 3 | $2 | 10 | $1 | 2 | $3 | 1.5 | $2 | -4 | $3 | 1e1
        SORT l BY w_* BY nosort
        *6 | $1 | 3 | $2 | 10 | $1 | 2 | $3 | 1.5 | $2 | -4 | $3 | 1e1
        SORT l BY nosort DESC LIMIT 0 2
        *2 | $3 | 1e1 | $2 | -4
        SORT l BY nosort LIMIT 1 2
        *2 | $2 | 10 | $1 | 2
        SORT_RO l LIMIT 0 1
        *1 | $2 | -4
        SORT none
        *0
        SADD s 3 1 2
        :3
        SORT s
        *3 | $1 | 1 | $1 | 2 | $1 | 3
        SORT s GET # GET #
        *6 | $1 | 1 | $1 | 1 | $1 | 2 | $1 | 2 | $1 | 3 | $1 | 3
        RPUSH odd "" " 1" 0x10 inf -inf
        :5
        SORT odd
        *5 | $4 | -inf | $0 | | $2 | \x201 | $4 | 0x10 | $3 | inf
        RPUSH bad 1 x
        :2
        SORT bad
        -ERR One or more scores can't be converted into double
        SORT bad STORE d
        -ERR One or more scores can't be converted into double
        RPUSH nan nan
        :1
        SORT nan
        -ERR One or more scores can't be converted into double
        SET string v
        +OK
        SORT string
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HSET hash f v
        :1
        SORT hash
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SORT string BOGUS
        -ERR syntax error
        SORT l LIMIT 1
        -ERR syntax error
        SORT l LIMIT 1 x
        -ERR value is not an integer or out of range
        SORT l BY
        -ERR syntax error
        SORT l GET
        -ERR syntax error
        SORT l STORE
        -ERR syntax error
        SORT_RO l STORE d
        -ERR syntax error
        SORT
        -ERR wrong number of arguments for 'sort' command
        "#,
    );
}

#[test]
fn patterns_reach_keys_of_every_shard() {
    check_script(
        r#"
        RPUSH ids 1 2 3 4
        :4
        MSET w_1 30 w_2 10 w_3 20 name_1 one name_2 two name_4 four
        +OK
        HSET h_1 weight 1 name eins
        :2
        HSET h_2 weight 3 name zwei
        :2
        HSET h_3 weight 2
        :1
        SORT ids BY w_*
        *4 | $1 | 4 | $1 | 2 | $1 | 3 | $1 | 1
        SORT ids BY w_* GET name_*
        *4 | $4 | four | $3 | two | $-1 | $3 | one
        SORT ids BY h_*->weight DESC GET # GET h_*->name GET name_*
        *12 | $1 | 2 | $4 | zwei | $3 | two | $1 | 3 | $-1 | $-1 | $1 | 1 | $4 | eins | $3 | one | $1 | 4 | $-1 | $4 | four
        SORT ids BY name_* ALPHA
        *4 | $1 | 3 | $1 | 4 | $1 | 1 | $1 | 2
        SORT ids BY name_* ALPHA DESC LIMIT 0 2
        *2 | $1 | 2 | $1 | 1
        SORT ids BY name_*
        -ERR One or more scores can't be converted into double
        SORT ids BY nosort GET w_*
        *4 | $2 | 30 | $2 | 10 | $2 | 20 | $-1
        SORT_RO ids BY w_* GET #
        *4 | $1 | 4 | $1 | 2 | $1 | 3 | $1 | 1
        SORT ids GET constant GET w_*->
        *8 | $-1 | $-1 | $-1 | $-1 | $-1 | $-1 | $-1 | $-1
        # A field of a string, and a hash as a string: nothing.
        SORT ids GET w_*->weight GET h_*
        *8 | $-1 | $-1 | $-1 | $-1 | $-1 | $-1 | $-1 | $-1
        SORT none BY w_* GET name_*
        *0
        MULTI
        +OK
        SET w_4 100
        +QUEUED
        SORT ids BY w_*
        +QUEUED
        EXEC
        *2 | +OK | *4 | $1 | 2 | $1 | 3 | $1 | 1 | $1 | 4
        PEXPIREAT w_1 1
        :1
        SORT ids BY w_*
        *4 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4
        COMMAND GETKEYS SORT ids BY w_* GET STORE LIMIT store 1 STORE a STORE b
        *2 | $3 | ids | $1 | b
        COMMAND GETKEYS SORT ids GET #
        *1 | $3 | ids
        COMMAND GETKEYS SORT_RO ids BY w_*
        *1 | $3 | ids
        "#,
    );
}

#[test]
fn a_sorted_set_that_was_sorted_is_kept_as_a_large_one() {
    for command in ["SORT", "SORT_RO"] {
        check_script(&format!(
            r#"
            ZADD z 2 1 1 2
            :2
            {command} z
            *2 | $1 | 1 | $1 | 2
            OBJECT ENCODING z
            $8 | skiplist
            ZRANGE z 0 -1
            *2 | $1 | 2 | $1 | 1
            ZADD z 3 3
            :1
            ZSCORE z 3
            $1 | 3
            "#
        ));
    }
}

#[test]
fn what_is_sorted_is_stored_as_a_list() {
    check_script(
        r#"
        RPUSH l 3 1 2
        :3
        SORT l STORE d
        :3
        LRANGE d 0 -1
        *3 | $1 | 1 | $1 | 2 | $1 | 3
        MSET w_1 9 w_2 8 w_3 7
        +OK
        SET d2 string EX 1000
        +OK
        SORT l BY w_* GET # GET name_* STORE d2
        :6
        LRANGE d2 0 -1
        *6 | $1 | 3 | $0 | | $1 | 2 | $0 | | $1 | 1 | $0 |
        TTL d2
        :-1
        SORT l DESC STORE l
        :3
        LRANGE l 0 -1
        *3 | $1 | 3 | $1 | 2 | $1 | 1
        SADD s c a b
        :3
        # A set without an order is stored in one.
        SORT s BY nosort STORE d
        :3
        LRANGE d 0 -1
        *3 | $1 | a | $1 | b | $1 | c
        SORT s BY nosort DESC STORE d
        :3
        LRANGE d 0 -1
        *3 | $1 | c | $1 | b | $1 | a
        SORT none STORE d
        :0
        EXISTS d
        :0
        SORT l LIMIT 5 1 STORE none
        :0
        SORT l STORE x STORE y
        :3
        EXISTS x
        :0
        "#,
    );
}

#[test]
fn random_sorts_are_those_of_redis() {
    let mut random = fastrand::Rng::with_seed(seed());
    let words = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut requests = Vec::new();
    for _ in 0..1_500 {
        let element = random.u32(..12);
        requests.push(words(match random.u32(..12) {
            0 => format!("RPUSH list:{} {element}", random.u32(..3)),
            1 => format!("SADD set:{} {element}", random.u32(..3)),
            // Weights that differ: as texts, equal ones come in any order.
            2 => format!("SET w_{element} {}{element}", random.u32(1..9)),
            3 => format!("HSET h_{element} f {}{element}", random.u32(1..9)),
            4 => format!("LPOP list:{}", random.u32(..3)),
            5 => format!("LRANGE stored:{} 0 -1", random.u32(..3)),
            _ => {
                let mut request = format!("SORT {}:{}", ["list", "set"][random.usize(..2)], random.u32(..3));
                request += ["", " BY w_*", " BY h_*->f"][random.usize(..3)];
                request += ["", " DESC", " ASC"][random.usize(..3)];
                if random.bool() {
                    request += &format!(" LIMIT {} {}", random.i32(-2..8), random.i32(-2..8));
                }
                request += ["", " GET #", " GET w_*", " GET h_*->f GET #"][random.usize(..4)];
                if random.u32(..4) == 0 {
                    request += &format!(" STORE stored:{}", random.u32(..3));
                }
                request
            }
        }));
    }
    check_same_as_redis(&requests);
}

#[test]
fn what_was_stored_is_there_after_a_crash() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendfsync", "always"]);
        let mut client = server.client();
        client.call(&["RPUSH", "ids", "1", "2", "3"]);
        client.call(&["MSET", "w_1", "3", "w_2", "2", "w_3", "1"]);
        client.expect("SORT ids BY w_* GET # STORE d", ":3\r\n");
        client.expect("SORT none STORE gone", ":0\r\n");
        client.call(&["SET", "w_1", "0"]);
        let server = server.kill().start(setup, &[]);
        server.client().expect("LRANGE d 0 -1", "*3\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n1\r\n");
    }
}

#[test]
fn a_sort_by_patterns_sees_all_weights_of_one_moment() {
    const ROUNDS: usize = 300;
    on_every_engine(|server| {
        let mut client = server.client();
        client.call(&["RPUSH", "ids", "1", "2", "3", "4"]);
        client.call(&["MSET", "w_1", "0", "w_2", "0", "w_3", "0", "w_4", "0"]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = server.client();
                for round in 0..ROUNDS {
                    let weight = round.to_string();
                    writer.call(&["MSET", "w_1", &weight, "w_2", &weight, "w_3", &weight, "w_4", &weight]);
                }
            });
            for _ in 0..ROUNDS {
                let weights = client.value(&["SORT", "ids", "BY", "nosort", "GET", "w_*"]).byte_strings();
                assert!(weights.iter().all(|weight| *weight == weights[0]), "{weights:?}");
            }
        });
        assert_eq!(client.value(&["EXISTS", "ids"]), Value::Integer(1));
    });
}

#[test]
fn without_an_order_the_limits_count_from_the_end_that_the_direction_says() {
    check_script(
        r"
        RPUSH l a b c d
        :4
        ZADD z 1 a 2 b 3 c 4 d
        :4
        SORT l BY nosort DESC LIMIT 1 2
        *2 | $1 | c | $1 | b
        SORT z BY nosort LIMIT 1 2
        *2 | $1 | b | $1 | c
        SORT z BY nosort DESC LIMIT 1 2
        *2 | $1 | c | $1 | b
        SORT z BY nosort DESC LIMIT 3 9 GET # GET none_*
        *2 | $1 | a | $-1
        SORT l BY nosort LIMIT 4 1
        *0
        SORT l BY nosort DESC LIMIT 9 9
        *0
        SORT z BY nosort DESC LIMIT 4 -1
        *0
        SORT z BY nosort LIMIT 2 0
        *0
        SORT z BY nosort LIMIT 2 -1 STORE d
        :2
        LRANGE d 0 -1
        *2 | $1 | c | $1 | d
        ",
    );
}

#[test]
fn without_an_order_a_few_elements_of_many_take_little_time() {
    const ELEMENTS: usize = 100_000;
    on_every_engine(|server| {
        let mut client = server.client();
        for thousand in 0..ELEMENTS / 1000 {
            let names: Vec<String> = (0..1000).map(|number| format!("e{}", 1000 * thousand + number)).collect();
            let list = ["RPUSH", "l"].into_iter().chain(names.iter().map(String::as_str));
            let set = ["ZADD", "z"].into_iter().chain(names.iter().flat_map(|name| ["0", name.as_str()]));
            client.pipeline(&[list.collect::<Vec<_>>(), set.collect()]);
        }
        let mut took = |times: usize, request: &[&str]| {
            let began = Instant::now();
            client.pipeline(&vec![request.to_vec(); times]);
            began.elapsed()
        };
        for key in ["l", "z"] {
            let all = took(4, &["SORT", key, "BY", "nosort", "LIMIT", "1", "1000000", "STORE", "d"]);
            let one = took(40, &["SORT", key, "BY", "nosort", "DESC", "LIMIT", "1", "1"]);
            assert!(one < all, "{key}: {one:?}, all {all:?}");
        }
    });
}
