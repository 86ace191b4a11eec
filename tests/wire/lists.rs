//! The list commands.

use harness::{Value, check_script, on_every_engine};

#[test]
fn pushes_grow_a_list_at_its_ends() {
    check_script(
        r#"
        RPUSH l a b c
        :3
        LPUSH l 1 2
        :5
        LRANGE l 0 -1
        *5 | $1 | 2 | $1 | 1 | $1 | a | $1 | b | $1 | c
        LPUSHX l 3
        :6
        RPUSHX l d e
        :8
        LPUSHX missing x
        :0
        RPUSHX missing x
        :0
        EXISTS missing
        :0
        LLEN l
        :8
        LLEN missing
        :0
        RPUSH l
        -ERR wrong number of arguments for 'rpush' command
        SET s v
        +OK
        RPUSH s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LPUSHX s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LLEN s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LRANGE s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        RPUSH bin "\x00\r\n" "" 12345
        :3
        LRANGE bin 0 -1
        *3 | $3 | \x00\r\n | $0 | | $5 | 12345
        "#,
    );
}

#[test]
fn pops_take_from_the_ends_and_remove_an_empty_list() {
    check_script(
        r#"
        RPUSH l a b c d e f
        :6
        LPOP l
        $1 | a
        RPOP l
        $1 | f
        LPOP l 2
        *2 | $1 | b | $1 | c
        RPOP l 100
        *2 | $1 | e | $1 | d
        EXISTS l
        :0
        LPOP l
        $-1
        LPOP l 2
        *-1
        RPOP l 0
        *-1
        RPUSH l a
        :1
        LPOP l 0
        *0
        RPOP l -1
        -ERR value is out of range, must be positive
        LPOP l x
        -ERR value is out of range, must be positive
        LPOP l 1 2
        -ERR wrong number of arguments for 'lpop' command
        SET s v
        +OK
        LPOP s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LPOP s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LPOP s -1
        -ERR value is out of range, must be positive
        LPOP l 1
        *1 | $1 | a
        TYPE l
        +none
        "#,
    );
}

#[test]
fn lrange_lindex_lset_count_from_both_ends() {
    check_script(
        r#"
        RPUSH l a b c d e
        :5
        LRANGE l 1 2
        *2 | $1 | b | $1 | c
        LRANGE l -2 -1
        *2 | $1 | d | $1 | e
        LRANGE l -100 100
        *5 | $1 | a | $1 | b | $1 | c | $1 | d | $1 | e
        LRANGE l 3 1
        *0
        LRANGE l 5 10
        *0
        LRANGE l -100 -50
        *0
        LRANGE l -9223372036854775808 9223372036854775807
        *5 | $1 | a | $1 | b | $1 | c | $1 | d | $1 | e
        LRANGE missing 0 -1
        *0
        LRANGE l x 1
        -ERR value is not an integer or out of range
        LRANGE l 0 9223372036854775808
        -ERR value is not an integer or out of range
        LINDEX l 0
        $1 | a
        LINDEX l -1
        $1 | e
        LINDEX l 5
        $-1
        LINDEX l -6
        $-1
        LINDEX l x
        -ERR value is not an integer or out of range
        LINDEX missing 0
        $-1
        LINDEX missing x
        $-1
        LSET l 0 A
        +OK
        LSET l -1 E
        +OK
        LRANGE l 0 -1
        *5 | $1 | A | $1 | b | $1 | c | $1 | d | $1 | E
        LSET l 5 x
        -ERR index out of range
        LSET l -6 x
        -ERR index out of range
        LSET missing 0 x
        -ERR no such key
        LSET l x x
        -ERR value is not an integer or out of range
        SET s v
        +OK
        LINDEX s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LSET s 0 x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn a_long_list_keeps_its_order() {
    on_every_engine(|server| {
        let mut client = server.client();
        let elements: Vec<String> = (0..50_000).map(|index| format!("element {index}")).collect();
        for chunk in elements.chunks(5_000) {
            let mut push = vec!["RPUSH", "long"];
            push.extend(chunk.iter().map(String::as_str));
            client.call(&push);
        }
        let all = client.value(&["LRANGE", "long", "0", "-1"]);
        assert!(all.byte_strings().iter().eq(elements.iter().map(String::as_bytes)), "the order of the pushes");
        let middle = client.value(&["LRANGE", "long", "24990", "25009"]);
        assert_eq!(
            middle.byte_strings(),
            elements[24_990..=25_009].iter().map(|e| e.clone().into_bytes()).collect::<Vec<_>>()
        );
        assert_eq!(client.value(&["LINDEX", "long", "-25000"]), Value::Bulk(b"element 25000".to_vec()));
    });
}

#[test]
fn an_element_moves_from_an_end_to_an_end() {
    check_script(
        r#"
        RPUSH a 1 2 3 4
        :4
        RPOPLPUSH a b
        $1 | 4
        LMOVE a b LEFT RIGHT
        $1 | 1
        LMOVE a b right left
        $1 | 3
        LRANGE b 0 -1
        *3 | $1 | 3 | $1 | 4 | $1 | 1
        LMOVE a b LEFT LEFT
        $1 | 2
        EXISTS a
        :0
        RPOPLPUSH a b
        $-1
        LMOVE a a LEFT RIGHT
        $-1
        # A list that is its own destination turns.
        RPOPLPUSH b b
        $1 | 1
        LMOVE b b LEFT RIGHT
        $1 | 1
        LMOVE b b LEFT LEFT
        $1 | 2
        LRANGE b 0 -1
        *4 | $1 | 2 | $1 | 3 | $1 | 4 | $1 | 1
        RPUSH one e
        :1
        EXPIRE one 1000
        :1
        LMOVE one one LEFT RIGHT
        $1 | e
        TTL one
        :1000
        LMOVE a b UP LEFT
        -ERR syntax error
        LMOVE a b LEFT UP
        -ERR syntax error
        LMOVE a b LEFT
        -ERR wrong number of arguments for 'lmove' command
        SET s v
        +OK
        RPOPLPUSH s b
        -WRONGTYPE Operation against a key holding the wrong kind of value
        RPOPLPUSH b s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LLEN b
        :4
        # A source that does not exist is found out before the type of the destination.
        RPOPLPUSH none s
        $-1
        RPOPLPUSH s s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn lmpop_takes_from_the_first_list_that_exists() {
    check_script(
        r#"
        RPUSH b 1 2 3 4 5
        :5
        LMPOP 1 none LEFT
        *-1
        LMPOP 2 none b LEFT
        *2 | $1 | b | *1 | $1 | 1
        LMPOP 3 none b none RIGHT COUNT 2
        *2 | $1 | b | *2 | $1 | 5 | $1 | 4
        lmpop 1 b left count 100
        *2 | $1 | b | *2 | $1 | 2 | $1 | 3
        EXISTS b
        :0
        SET s v
        +OK
        RPUSH c x y
        :2
        LMPOP 2 s c LEFT
        -WRONGTYPE Operation against a key holding the wrong kind of value
        LMPOP 2 c s LEFT
        *2 | $1 | c | *1 | $1 | x
        LMPOP 0 c LEFT
        -ERR numkeys should be greater than 0
        LMPOP -1 c LEFT
        -ERR numkeys should be greater than 0
        LMPOP x c LEFT
        -ERR numkeys should be greater than 0
        LMPOP "" c LEFT
        -ERR numkeys should be greater than 0
        LMPOP 9223372036854775808 c LEFT
        -ERR numkeys should be greater than 0
        LMPOP 2 c d
        -ERR syntax error
        LMPOP 2 c LEFT
        -ERR syntax error
        LMPOP 2 none LEFT LEFT
        *-1
        LMPOP 1 c d LEFT
        -ERR syntax error
        LMPOP 3 c LEFT
        -ERR syntax error
        !LMPOP 9223372036854775807 c LEFT
        -ERR syntax error
        LMPOP 4611686018427387904 c LEFT
        -ERR syntax error
        LMPOP 1 c UP
        -ERR syntax error
        LMPOP 1 c LEFT COUNT
        -ERR syntax error
        LMPOP 1 c LEFT MANY 1
        -ERR syntax error
        LMPOP 1 c LEFT COUNT 0
        -ERR count should be greater than 0
        LMPOP 1 c LEFT COUNT -1
        -ERR count should be greater than 0
        LMPOP 1 c LEFT COUNT x
        -ERR count should be greater than 0
        LMPOP 1 c LEFT COUNT 0 x
        -ERR count should be greater than 0
        LMPOP 1 c LEFT COUNT 1 COUNT 1
        -ERR syntax error
        LMPOP 1 c
        -ERR wrong number of arguments for 'lmpop' command
        LLEN c
        :1
        "#,
    );
}

#[test]
fn linsert_adds_beside_the_first_that_is_equal() {
    check_script(
        r#"
        RPUSH l a b c b
        :4
        LINSERT l BEFORE b x
        :5
        LINSERT l after b y
        :6
        LRANGE l 0 -1
        *6 | $1 | a | $1 | x | $1 | b | $1 | y | $1 | c | $1 | b
        LINSERT l BEFORE missing z
        :-1
        LINSERT missing BEFORE a z
        :0
        LINSERT l BESIDE a z
        -ERR syntax error
        LINSERT l BEFORE a
        -ERR wrong number of arguments for 'linsert' command
        RPUSH n 1 2 3
        :3
        LINSERT n AFTER 3 4
        :4
        LINSERT n BEFORE 01 0
        :-1
        LRANGE n 0 -1
        *4 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4
        SET s v
        +OK
        LINSERT s BEFORE a b
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn lrem_removes_from_the_side_that_its_sign_says() {
    check_script(
        r#"
        RPUSH l a b a c a b a
        :7
        LREM l 2 a
        :2
        LRANGE l 0 -1
        *5 | $1 | b | $1 | c | $1 | a | $1 | b | $1 | a
        LREM l -1 a
        :1
        LREM l -9223372036854775808 b
        :2
        LRANGE l 0 -1
        *2 | $1 | c | $1 | a
        LREM l 0 x
        :0
        LREM l 0 c
        :1
        LREM l 0 a
        :1
        EXISTS l
        :0
        LREM missing 1 a
        :0
        LREM missing x a
        -ERR value is not an integer or out of range
        LREM missing 9223372036854775808 a
        -ERR value is not an integer or out of range
        SET s v
        +OK
        LREM s 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn ltrim_keeps_a_range_and_removes_a_list_that_has_none() {
    check_script(
        r#"
        RPUSH l a b c d e f
        :6
        LTRIM l 1 -2
        +OK
        LRANGE l 0 -1
        *4 | $1 | b | $1 | c | $1 | d | $1 | e
        LTRIM l -100 100
        +OK
        LLEN l
        :4
        LTRIM l -9223372036854775808 9223372036854775807
        +OK
        LTRIM l -2 -1
        +OK
        LRANGE l 0 -1
        *2 | $1 | d | $1 | e
        LTRIM l 5 9
        +OK
        EXISTS l
        :0
        LTRIM missing 0 1
        +OK
        LTRIM missing a 1
        -ERR value is not an integer or out of range
        RPUSH l a b
        :2
        LTRIM l 1 0
        +OK
        EXISTS l
        :0
        SET s v
        +OK
        LTRIM s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn lpos_finds_by_rank_count_and_maxlen() {
    check_script(
        r#"
        RPUSH l a b c 1 2 3 c c
        :8
        LPOS l c
        :2
        LPOS l x
        $-1
        LPOS l c RANK 2
        :6
        LPOS l c RANK -1
        :7
        LPOS l c RANK 4
        $-1
        LPOS l c COUNT 2
        *2 | :2 | :6
        LPOS l c COUNT 0
        *3 | :2 | :6 | :7
        LPOS l c COUNT 0 RANK -2
        *2 | :6 | :2
        LPOS l c COUNT 0 MAXLEN 3
        *1 | :2
        LPOS l c MAXLEN 2
        $-1
        LPOS l c RANK -1 MAXLEN 1
        :7
        LPOS l 2 COUNT 9223372036854775807 MAXLEN 9223372036854775807
        *1 | :4
        LPOS l c RANK 9223372036854775807 COUNT 1
        *0
        LPOS l x COUNT 1
        *0
        LPOS missing c
        $-1
        LPOS missing c COUNT 1
        *0
        LPOS l c RANK 0
        -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
        !LPOS l c RANK -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        LPOS l c RANK x
        -ERR value is not an integer or out of range
        LPOS l c COUNT -1
        -ERR COUNT can't be negative
        LPOS l c COUNT x
        -ERR COUNT can't be negative
        LPOS l c MAXLEN -1
        -ERR MAXLEN can't be negative
        LPOS l c RANK
        -ERR syntax error
        LPOS l c WHATEVER 1
        -ERR syntax error
        SET s v
        +OK
        LPOS s c
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn a_large_list_is_edited_like_a_small_one() {
    on_every_engine(|server| {
        let client = &mut server.client();
        let oracle = harness::RedisOracle::start();
        let mut redis = oracle.client();
        let element = |n: usize| if n.is_multiple_of(50) { "x".repeat(9_000) } else { format!("{}", n % 97) };
        let mut both = |arguments: &[&str]| {
            let (one, other) = (client.call(arguments), redis.call(arguments));
            assert_eq!(
                one.escape_ascii().to_string(),
                other.escape_ascii().to_string(),
                "{:.200}",
                arguments.join(" ")
            );
        };
        both(&["DEL", "l"]);
        for n in 0..3_000 {
            both(&[if n % 3 == 0 { "LPUSH" } else { "RPUSH" }, "l", &element(n)]);
        }
        for n in 0..200 {
            both(&["LINSERT", "l", if n % 2 == 0 { "BEFORE" } else { "AFTER" }, &element(n), &"y".repeat(n)]);
            both(&["LSET", "l", &(n * 7).to_string(), &element(n)]);
            both(&["LPOS", "l", &element(n), "COUNT", "0", "RANK", if n % 2 == 0 { "1" } else { "-2" }]);
        }
        for n in 0..97 {
            both(&["LREM", "l", ["0", "3", "-3"][n % 3], &element(n)]);
            both(&["LRANGE", "l", &(n * 11).to_string(), &(n * 13).to_string()]);
        }
        both(&["LRANGE", "l", "0", "-1"]);
        both(&["LTRIM", "l", "100", "-101"]);
        both(&["LRANGE", "l", "0", "-1"]);
        both(&["RPOP", "l", "50"]);
        both(&["LPOP", "l", "100000"]);
    });
}
