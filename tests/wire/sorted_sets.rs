//! The sorted set commands.

use harness::{Client, RedisOracle, Value, check_same_as_redis, check_script, on_every_engine, request, wait_until};

#[test]
fn zadd_gives_members_scores_as_its_options_say() {
    check_script(
        r#"
        ZADD z 1 a 2 b 3 c
        :3
        ZADD z 1 a 5 b 4 d
        :1
        ZADD z CH 1 a 6 b 5 e
        :2
        ZADD z NX 100 a 7 f
        :1
        ZADD z XX CH 2 a 8 g
        :1
        ZADD z GT CH 1 a 9 b
        :1
        ZADD z LT CH 1 a 10 b
        :1
        ZADD z GT 3 new
        :1
        ZADD z XX GT 3 newer
        :0
        ZADD z INCR 2.5 a
        $3 | 3.5
        ZADD z NX INCR 1 a
        $-1
        ZADD z XX INCR 1 missing
        $-1
        ZADD z GT INCR -1 a
        $-1
        ZADD z LT INCR -1 a
        $3 | 2.5
        ZADD z NX INCR 4 h
        $1 | 4
        ZADD missing XX 1 a
        :0
        ZADD missing XX INCR 1 a
        $-1
        EXISTS missing
        :0
        ZRANGE z 0 -1 WITHSCORES
        *16 | $1 | a | $3 | 2.5 | $1 | c | $1 | 3 | $3 | new | $1 | 3 | $1 | d | $1 | 4 | $1 | h | $1 | 4 | $1 | e | $1 | 5 | $1 | f | $1 | 7 | $1 | b | $1 | 9
        "#,
    );
    check_script(
        r#"
        ZADD z nx XX 1 a
        -ERR XX and NX options at the same time are not compatible
        ZADD z GT LT 1 a
        -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z NX GT 1 a
        -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z INCR 1 a 2 b
        -ERR INCR option supports a single increment-element pair
        ZADD z 1 a 2
        -ERR syntax error
        ZADD z NX CH INCR
        -ERR syntax error
        ZADD z 1
        -ERR wrong number of arguments for 'zadd' command
        ZADD z x a
        -ERR value is not a valid float
        ZADD z 1 a nan b
        -ERR value is not a valid float
        EXISTS z
        :0
        ZADD z " 1" a
        -ERR value is not a valid float
        ZADD z 1e400 a
        -ERR value is not a valid float
        ZADD z 0x10 a -inf b +inf c 1e3 d .5 e
        :5
        ZRANGE z 0 -1 WITHSCORES
        *10 | $1 | b | $4 | -inf | $1 | e | $3 | 0.5 | $1 | a | $2 | 16 | $1 | d | $4 | 1000 | $1 | c | $3 | inf
        ZINCRBY z -inf c
        -ERR resulting score is not a number (NaN)
        ZADD z INCR inf b
        -ERR resulting score is not a number (NaN)
        ZINCRBY z 1 b
        $4 | -inf
        ZINCRBY z 2.25 new
        $4 | 2.25
        ZINCRBY z x new
        -ERR value is not a valid float
        ZINCRBY z xx new
        -ERR syntax error
        ZINCRBY z INCR GT
        -ERR syntax error
        ZINCRBY z 1
        -ERR wrong number of arguments for 'zincrby' command
        SET s v
        +OK
        ZADD s 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ZADD s x a
        -ERR value is not a valid float
        ZINCRBY s 1 a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ZCARD s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        TYPE z
        +zset
        "#,
    );
}

#[test]
fn members_have_scores_and_ranks() {
    check_script(
        r#"
        ZADD z 1 a 2 b 2 c 3 d
        :4
        ZCARD z
        :4
        ZSCORE z b
        $1 | 2
        ZSCORE z x
        $-1
        ZSCORE missing x
        $-1
        ZMSCORE z a x d
        *3 | $1 | 1 | $-1 | $1 | 3
        ZMSCORE missing a b
        *2 | $-1 | $-1
        ZRANK z a
        :0
        ZRANK z c
        :2
        ZREVRANK z c
        :1
        ZRANK z x
        $-1
        ZREVRANK missing x
        $-1
        !ZRANK z c WITHSCORE
        *2 | :2 | $1 | 2
        !ZREVRANK z d withscore
        *2 | :0 | $1 | 3
        !ZRANK z x WITHSCORE
        *-1
        !ZREVRANK missing x WITHSCORE
        *-1
        !ZRANK z c WITHSCORES
        -ERR syntax error
        !ZRANK z c WITHSCORE x
        -ERR wrong number of arguments for 'zrank' command
        ZREM z a x d
        :2
        ZREM z x
        :0
        ZREM missing x
        :0
        ZREM z b c
        :2
        EXISTS z
        :0
        ZCARD z
        :0
        "#,
    );
}

#[test]
fn sort_takes_sorted_sets() {
    check_script(
        r#"
        ZADD {t}z 3 1 2 30 1 4
        :3
        SORT {t}z
        *3 | $1 | 1 | $1 | 4 | $2 | 30
        SORT {t}z BY nosort DESC LIMIT 0 2
        *2 | $1 | 1 | $2 | 30
        SORT {t}z ALPHA DESC STORE {t}d
        :3
        LRANGE {t}d 0 -1
        *3 | $1 | 4 | $2 | 30 | $1 | 1
        "#,
    );
}

#[test]
fn scores_are_printed_with_the_shortest_digits() {
    check_script(
        r#"
        !ZADD z 0.1 a -0.3 b 1e-7 c 1e20 d 123456789.123456789 e -0 f 3 g 1e18 h
        :8
        !ZRANGE z 0 -1 WITHSCORES
        *16 | $1 | b | $4 | -0.3 | $1 | f | $1 | 0 | $1 | c | $4 | 1e-7 | $1 | a | $3 | 0.1 | $1 | g | $1 | 3 | $1 | e | $21 | 1.2345678912345679e+8 | $1 | h | $19 | 1000000000000000000 | $1 | d | $5 | 1e+20
        !ZINCRBY z 0.2 a
        $19 | 0.30000000000000004
        "#,
    );
}

#[test]
fn ranges_by_rank() {
    check_script(
        r#"
        ZADD z 1 a 2 b 3 c 4 d
        :4
        ZRANGE z 0 -1
        *4 | $1 | a | $1 | b | $1 | c | $1 | d
        ZRANGE z 1 2 WITHSCORES
        *4 | $1 | b | $1 | 2 | $1 | c | $1 | 3
        ZRANGE z 0 1 REV
        *2 | $1 | d | $1 | c
        ZREVRANGE z 1 -1 WITHSCORES
        *6 | $1 | c | $1 | 3 | $1 | b | $1 | 2 | $1 | a | $1 | 1
        ZRANGE z -2 -1
        *2 | $1 | c | $1 | d
        ZRANGE z 3 1
        *0
        ZRANGE z 4 10
        *0
        ZRANGE z -100 -50
        *0
        ZRANGE z -9223372036854775808 9223372036854775807
        *4 | $1 | a | $1 | b | $1 | c | $1 | d
        ZRANGE missing 0 -1
        *0
        ZRANGE z x 1
        -ERR value is not an integer or out of range
        ZRANGE z 0 1 LIMIT 0 1
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGE z 0 1 LIMIT 0 -1
        *2 | $1 | a | $1 | b
        ZRANGE z 0 1 LIMIT 0
        -ERR syntax error
        ZRANGE z 0 1 LIMIT x 1 BYSCORE
        -ERR value is not an integer or out of range
        ZRANGE z 0 1 BOGUS
        -ERR syntax error
        ZREVRANGE z 0 1 REV
        -ERR syntax error
        ZREVRANGE z 0 1 LIMIT 0 1
        -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGE z 0 1 BYSCORE BYLEX
        -ERR syntax error
        SET s v
        +OK
        ZRANGE s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANGE s x 1
        -ERR value is not an integer or out of range
        ZREMRANGEBYRANK z 1 -2
        :2
        ZRANGE z 0 -1
        *2 | $1 | a | $1 | d
        ZREMRANGEBYRANK z 5 6
        :0
        ZREMRANGEBYRANK z 0 -1
        :2
        EXISTS z
        :0
        ZREMRANGEBYRANK z 0 -1
        :0
        ZREMRANGEBYRANK z 0 x
        -ERR value is not an integer or out of range
        "#,
    );
}

#[test]
fn ranges_by_score() {
    check_script(
        r#"
        ZADD z -inf low 1 a 2 b 2 c 3 d inf high
        :6
        ZRANGEBYSCORE z 1 2
        *3 | $1 | a | $1 | b | $1 | c
        ZRANGEBYSCORE z (1 (3
        *2 | $1 | b | $1 | c
        ZRANGEBYSCORE z -inf +inf WITHSCORES
        *12 | $3 | low | $4 | -inf | $1 | a | $1 | 1 | $1 | b | $1 | 2 | $1 | c | $1 | 2 | $1 | d | $1 | 3 | $4 | high | $3 | inf
        ZRANGEBYSCORE z (-inf (inf LIMIT 1 2
        *2 | $1 | b | $1 | c
        ZRANGEBYSCORE z -inf inf LIMIT 4 -1
        *2 | $1 | d | $4 | high
        ZRANGEBYSCORE z -inf inf LIMIT -1 2
        *0
        ZRANGEBYSCORE z -inf inf LIMIT 0 0
        *0
        ZRANGEBYSCORE z -inf inf LIMIT 100 1
        *0
        ZREVRANGEBYSCORE z 2 1
        *3 | $1 | c | $1 | b | $1 | a
        ZREVRANGEBYSCORE z inf -inf LIMIT 1 2 WITHSCORES
        *4 | $1 | d | $1 | 3 | $1 | c | $1 | 2
        ZREVRANGEBYSCORE z 1 2
        *0
        ZRANGE z 1 2 BYSCORE
        *3 | $1 | a | $1 | b | $1 | c
        ZRANGE z 2 1 BYSCORE REV LIMIT 1 1 WITHSCORES
        *2 | $1 | b | $1 | 2
        ZRANGEBYSCORE z 3 1
        *0
        ZRANGEBYSCORE z (2 2
        *0
        ZRANGEBYSCORE z "" 1
        *1 | $1 | a
        ZRANGEBYSCORE z " 1" 1e0
        *1 | $1 | a
        ZRANGEBYSCORE z ( 1
        *1 | $1 | a
        ZRANGEBYSCORE z 3 1e400
        *2 | $1 | d | $4 | high
        ZRANGEBYSCORE z x 1
        -ERR min or max is not a float
        ZRANGEBYSCORE z 1 nan
        -ERR min or max is not a float
        ZRANGEBYSCORE z 1 "2 "
        -ERR min or max is not a float
        ZRANGEBYSCORE z 1 ((2
        -ERR min or max is not a float
        ZRANGEBYSCORE z 1 2 REV
        -ERR syntax error
        ZCOUNT z 1 2
        :3
        ZCOUNT z (1 (2
        :0
        ZCOUNT z 2 1
        :0
        ZCOUNT missing 1 2
        :0
        ZCOUNT z 1 x
        -ERR min or max is not a float
        ZREMRANGEBYSCORE z (1 2
        :2
        ZREMRANGEBYSCORE z 5 6
        :0
        ZREMRANGEBYSCORE z -inf inf
        :4
        EXISTS z
        :0
        ZREMRANGEBYSCORE z x inf
        -ERR min or max is not a float
        "#,
    );
}

#[test]
fn ranges_by_member() {
    check_script(
        r#"
        ZADD z 0 a 0 b 0 c 0 d 0 e
        :5
        ZRANGEBYLEX z - +
        *5 | $1 | a | $1 | b | $1 | c | $1 | d | $1 | e
        ZRANGEBYLEX z [b (d
        *2 | $1 | b | $1 | c
        ZRANGEBYLEX z (b [d
        *2 | $1 | c | $1 | d
        ZRANGEBYLEX z - [c LIMIT 1 1
        *1 | $1 | b
        ZREVRANGEBYLEX z + -
        *5 | $1 | e | $1 | d | $1 | c | $1 | b | $1 | a
        ZREVRANGEBYLEX z (d [b LIMIT 0 1
        *1 | $1 | c
        ZRANGE z [b [c BYLEX
        *2 | $1 | b | $1 | c
        ZRANGE z [c [b BYLEX REV
        *2 | $1 | c | $1 | b
        ZRANGEBYLEX z + -
        *0
        ZRANGEBYLEX z [c (c
        *0
        ZRANGEBYLEX z [aa [bb
        *1 | $1 | b
        ZRANGEBYLEX z [ (b
        *1 | $1 | a
        ZRANGEBYLEX z b c
        -ERR min or max not valid string range item
        ZRANGEBYLEX z -x +
        -ERR min or max not valid string range item
        ZRANGEBYLEX z "" +
        -ERR min or max not valid string range item
        ZRANGEBYLEX z - + WITHSCORES
        -ERR syntax error, WITHSCORES not supported in combination with BYLEX
        ZLEXCOUNT z - +
        :5
        ZLEXCOUNT z [b (d
        :2
        ZLEXCOUNT z + -
        :0
        ZLEXCOUNT missing - +
        :0
        ZLEXCOUNT z x +
        -ERR min or max not valid string range item
        ZREMRANGEBYLEX z [b (d
        :2
        ZREMRANGEBYLEX z - +
        :3
        EXISTS z
        :0
        ZREMRANGEBYLEX z - x
        -ERR min or max not valid string range item
        "#,
    );
}

#[test]
fn a_range_is_stored() {
    check_script(
        r#"
        ZADD {t}z 1 a 2 b 3 c
        :3
        ZRANGESTORE {t}d {t}z 0 1
        :2
        ZRANGE {t}d 0 -1 WITHSCORES
        *4 | $1 | a | $1 | 1 | $1 | b | $1 | 2
        ZRANGESTORE {t}d {t}z 3 2 BYSCORE REV LIMIT 0 1
        :1
        ZRANGE {t}d 0 -1 WITHSCORES
        *2 | $1 | c | $1 | 3
        ZRANGESTORE {t}d {t}missing 0 -1
        :0
        EXISTS {t}d
        :0
        SET {t}d v
        +OK
        ZRANGESTORE {t}d {t}z 5 6
        :0
        EXISTS {t}d
        :0
        ZRANGESTORE {t}z {t}z 1 1
        :1
        ZRANGE {t}z 0 -1
        *1 | $1 | b
        ZRANGESTORE {t}d {t}z 0 1 WITHSCORES
        -ERR syntax error
        SET {t}s v
        +OK
        ZRANGESTORE {t}d {t}s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn pops_take_from_the_ends() {
    check_script(
        r#"
        ZADD {t}z 1 a 2 b 3 c 4 d 5 e 6 f
        :6
        ZPOPMIN {t}z
        *2 | $1 | a | $1 | 1
        ZPOPMAX {t}z
        *2 | $1 | f | $1 | 6
        ZPOPMIN {t}z 2
        *4 | $1 | b | $1 | 2 | $1 | c | $1 | 3
        ZPOPMAX {t}z 0
        *0
        ZPOPMAX {t}z 100
        *4 | $1 | e | $1 | 5 | $1 | d | $1 | 4
        EXISTS {t}z
        :0
        ZPOPMIN {t}z
        *0
        ZPOPMAX {t}z 2
        *0
        ZPOPMIN {t}z -1
        -ERR value is out of range, must be positive
        ZPOPMIN {t}z x
        -ERR value is out of range, must be positive
        ZPOPMIN {t}z 1 2
        -ERR syntax error
        ZADD {t}z 1 a 2 b 3 c
        :3
        ZMPOP 2 {t}missing {t}z MIN
        *2 | $4 | {t}z | *1 | *2 | $1 | a | $1 | 1
        ZMPOP 1 {t}z MAX COUNT 5
        *2 | $4 | {t}z | *2 | *2 | $1 | c | $1 | 3 | *2 | $1 | b | $1 | 2
        ZMPOP 1 {t}z MAX
        *-1
        ZMPOP 0 {t}z MAX
        -ERR numkeys should be greater than 0
        ZMPOP x {t}z MAX
        -ERR numkeys should be greater than 0
        ZMPOP 1 {t}z LEFT
        -ERR syntax error
        ZMPOP 2 {t}z MAX
        -ERR syntax error
        ZMPOP 1 {t}z MAX COUNT
        -ERR syntax error
        ZMPOP 1 {t}z MAX COUNT 0
        -ERR count should be greater than 0
        ZMPOP 1 {t}z MAX COUNT 1 COUNT 2
        -ERR syntax error
        SET {t}s v
        +OK
        ZPOPMIN {t}s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ZMPOP 2 {t}missing {t}s MIN
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BZPOPMIN {t}missing {t}s 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BZPOPMIN {t}missing 0.01
        *-1
        BZMPOP 0.01 1 {t}missing MIN
        *-1
        ZADD {t}z 1 a 2 b 3 c
        :3
        BZPOPMIN {t}missing {t}z 1
        *3 | $4 | {t}z | $1 | a | $1 | 1
        BZPOPMAX {t}z 0
        *3 | $4 | {t}z | $1 | c | $1 | 3
        BZMPOP 1 1 {t}z MAX COUNT 10
        *2 | $4 | {t}z | *1 | *2 | $1 | b | $1 | 2
        BZPOPMIN {t}z x
        -ERR timeout is not a float or out of range
        BZMPOP 1 0 {t}z MIN
        -ERR numkeys should be greater than 0
        BZMPOP -1 1 {t}z MIN
        -ERR timeout is negative
        MULTI
        +OK
        BZPOPMIN {t}z 0
        +QUEUED
        EXEC
        *1 | *-1
        "#,
    );
}

#[test]
fn who_waits_for_a_sorted_set_is_served_and_a_list_is_for_others() {
    on_every_engine(|server| {
        let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
        let mut pusher = server.client();
        let waiting = |pusher: &mut Client, count: usize| {
            wait_until("clients wait", || {
                pusher.value(&["INFO", "clients"]).text().contains(&format!("blocked_clients:{count}\r\n"))
            });
        };
        one.send(&request(&["BLPOP", "k", "0"]));
        waiting(&mut pusher, 1);
        two.send(&request(&["BZPOPMAX", "other", "k", "0"]));
        waiting(&mut pusher, 2);
        other.send(&request(&["BZMPOP", "0", "1", "k", "MIN", "COUNT", "2"]));
        waiting(&mut pusher, 3);
        assert_eq!(pusher.value(&["ZADD", "k", "1", "a", "2", "b", "3", "c", "4", "d"]), Value::Integer(4));
        assert_eq!(two.reply(), b"*3\r\n$1\r\nk\r\n$1\r\nd\r\n$1\r\n4\r\n");
        assert_eq!(other.reply(), b"*2\r\n$1\r\nk\r\n*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
        assert_eq!(pusher.value(&["ZRANGE", "k", "0", "-1"]).byte_strings(), [b"c"]);
        pusher.call(&["DEL", "k"]);
        pusher.call(&["RPUSH", "k", "element"]);
        assert_eq!(one.reply(), b"*2\r\n$1\r\nk\r\n$7\r\nelement\r\n");
    });
}

#[test]
fn sorted_sets_are_combined() {
    check_script(
        r#"
        ZADD {t}a 1 x 2 y 3 z
        :3
        ZADD {t}b 10 y 20 z 30 w
        :3
        SADD {t}s y w q
        :3
        ZUNION 2 {t}a {t}b WITHSCORES
        *8 | $1 | x | $1 | 1 | $1 | y | $2 | 12 | $1 | z | $2 | 23 | $1 | w | $2 | 30
        ZUNION 2 {t}a {t}s WEIGHTS 2 -1 AGGREGATE MIN WITHSCORES
        *10 | $1 | q | $2 | -1 | $1 | w | $2 | -1 | $1 | y | $2 | -1 | $1 | x | $1 | 2 | $1 | z | $1 | 6
        ZINTER 2 {t}a {t}b
        *2 | $1 | y | $1 | z
        ZINTER 3 {t}a {t}b {t}s AGGREGATE MAX WITHSCORES
        *2 | $1 | y | $2 | 10
        ZINTER 2 {t}a {t}missing
        *0
        ZDIFF 2 {t}a {t}b WITHSCORES
        *2 | $1 | x | $1 | 1
        ZDIFF 3 {t}b {t}missing {t}s
        *1 | $1 | z
        ZDIFF 1 {t}missing
        *0
        ZUNIONSTORE {t}d 2 {t}a {t}b WEIGHTS 1 0.5 AGGREGATE SUM
        :4
        ZRANGE {t}d 0 -1 WITHSCORES
        *8 | $1 | x | $1 | 1 | $1 | y | $1 | 7 | $1 | z | $2 | 13 | $1 | w | $2 | 15
        ZINTERSTORE {t}d 2 {t}a {t}s
        :1
        ZRANGE {t}d 0 -1 WITHSCORES
        *2 | $1 | y | $1 | 3
        ZDIFFSTORE {t}d 2 {t}a {t}a
        :0
        EXISTS {t}d
        :0
        ZUNIONSTORE {t}a 1 {t}a WEIGHTS 3
        :3
        ZRANGE {t}a 0 -1 WITHSCORES
        *6 | $1 | x | $1 | 3 | $1 | y | $1 | 6 | $1 | z | $1 | 9
        ZINTERCARD 2 {t}a {t}b
        :2
        ZINTERCARD 2 {t}a {t}b LIMIT 1
        :1
        ZINTERCARD 2 {t}a {t}b LIMIT 0
        :2
        ZINTERCARD 2 {t}a {t}b LIMIT -1
        -ERR LIMIT can't be negative
        ZINTERCARD 1 {t}a LIMIT
        -ERR syntax error
        ZINTERCARD 3 {t}a {t}b
        -ERR syntax error
        ZADD {t}i inf m
        :1
        ZADD {t}j -inf m
        :1
        ZUNION 2 {t}i {t}j WITHSCORES
        *2 | $1 | m | $1 | 0
        ZINTER 2 {t}i {t}j WEIGHTS 0 1 WITHSCORES
        *2 | $1 | m | $4 | -inf
        ZADD {t}eleven 11 m
        :1
        ZADD {t}nought 0 m 1 other
        :2
        ZINTER 2 {t}eleven {t}nought WEIGHTS 1 inf WITHSCORES
        *2 | $1 | m | $1 | 0
        ZINTER 2 {t}nought {t}eleven WEIGHTS inf 1 AGGREGATE MIN WITHSCORES
        *2 | $1 | m | $2 | 11
        ZINTER 2 {t}eleven {t}nought WEIGHTS -1 inf AGGREGATE MAX WITHSCORES
        *2 | $1 | m | $3 | -11
        ZUNION 2 {t}eleven {t}nought WEIGHTS 1 inf WITHSCORES
        *4 | $1 | m | $2 | 11 | $5 | other | $3 | inf
        ZUNION 0 {t}a
        -ERR at least 1 input key is needed for 'zunion' command
        ZUNIONSTORE {t}d 0 {t}a
        -ERR at least 1 input key is needed for 'zunionstore' command
        ZINTERCARD -1 {t}a
        -ERR at least 1 input key is needed for 'zintercard' command
        ZDIFF x {t}a
        -ERR value is not an integer or out of range
        ZUNION 3 {t}a {t}b
        -ERR syntax error
        ZUNION 2 {t}a {t}b WEIGHTS 1
        -ERR syntax error
        ZUNION 2 {t}a {t}b WEIGHTS 1 x
        -ERR weight value is not a float
        ZUNION 2 {t}a {t}b AGGREGATE AVG
        -ERR syntax error
        ZUNIONSTORE {t}d 1 {t}a WITHSCORES
        -ERR syntax error
        ZDIFF 1 {t}a WEIGHTS 1
        -ERR syntax error
        SET {t}str v
        +OK
        ZUNION 2 {t}a {t}str BOGUS
        -WRONGTYPE Operation against a key holding the wrong kind of value
        RPUSH {t}list v
        :1
        ZINTER 2 {t}list {t}a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ZUNIONSTORE {t}str 1 {t}missing
        :0
        EXISTS {t}str
        :0
        "#,
    );
}

#[test]
fn random_members_and_pages() {
    check_script(
        r#"
        ZADD z 1 a
        :1
        ZRANDMEMBER z
        $1 | a
        ZRANDMEMBER z 5
        *1 | $1 | a
        ZRANDMEMBER z -3
        *3 | $1 | a | $1 | a | $1 | a
        ZRANDMEMBER z -2 WITHSCORES
        *4 | $1 | a | $1 | 1 | $1 | a | $1 | 1
        ZRANDMEMBER z 0
        *0
        ZRANDMEMBER missing
        $-1
        ZRANDMEMBER missing 2
        *0
        ZRANDMEMBER z x
        -ERR value is not an integer or out of range
        ZRANDMEMBER z 1 SCORES
        -ERR syntax error
        ZRANDMEMBER z -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        ZRANDMEMBER z 9223372036854775807 WITHSCORES
        -ERR value is out of range
        ZSCAN z 0
        *2 | $1 | 0 | *2 | $1 | a | $1 | 1
        ZSCAN z 0 MATCH b* COUNT 5
        *2 | $1 | 0 | *0
        ZSCAN missing 0
        *2 | $1 | 0 | *0
        ZSCAN missing 0 COUNT
        *2 | $1 | 0 | *0
        ZSCAN z x
        -ERR invalid cursor
        ZSCAN z 0 COUNT 0
        -ERR syntax error
        ZSCAN z 0 COUNT x
        -ERR value is not an integer or out of range
        ZSCAN z 0 TYPE zset
        -ERR syntax error
        SET s v
        +OK
        ZSCAN s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        ZSCAN s x
        -ERR invalid cursor
        "#,
    );
}

#[test]
fn what_a_command_may_add_decides_the_encoding_as_in_redis() {
    check_script(
        r#"
        CONFIG SET zset-max-listpack-entries 3
        +OK
        ZADD z 1 a 1 a 1 a
        :1
        OBJECT ENCODING z
        $8 | listpack
        ZADD z XX 1 a 1 a 1 a 1 a
        :0
        !OBJECT ENCODING z
        $8 | skiplist
        ZADD new 1 a 2 a 3 a 4 a
        :1
        !OBJECT ENCODING new
        $8 | skiplist
        ZRANGE new 0 -1 WITHSCORES
        *2 | $1 | a | $1 | 4
        ZRANGESTORE ranks z 0 5
        :1
        OBJECT ENCODING ranks
        $8 | listpack
        ZRANGESTORE scores z 0 5 BYSCORE
        :1
        !OBJECT ENCODING scores
        $8 | skiplist
        ZRANGESTORE members z - + BYLEX
        :1
        !OBJECT ENCODING members
        $8 | skiplist
        CONFIG SET zset-max-listpack-entries 128
        +OK
        "#,
    );
}

#[test]
fn a_sorted_set_grows_from_a_listpack_to_a_skip_list() {
    check_script(
        r#"
        CONFIG SET zset-max-listpack-entries 3 zset-max-ziplist-value 5
        +OK
        CONFIG GET zset-max-listpack-value
        *2 | $23 | zset-max-listpack-value | $1 | 5
        ZADD z 3 c 1 12345 2 b
        :3
        OBJECT ENCODING z
        $8 | listpack
        ZADD z 5 c
        :0
        OBJECT ENCODING z
        $8 | listpack
        ZADD z 4 d
        :1
        OBJECT ENCODING z
        $8 | skiplist
        ZRANGE z 0 -1 WITHSCORES
        *8 | $5 | 12345 | $1 | 1 | $1 | b | $1 | 2 | $1 | d | $1 | 4 | $1 | c | $1 | 5
        ZREM z d
        :1
        OBJECT ENCODING z
        $8 | skiplist
        ZADD long 1 123456
        :1
        OBJECT ENCODING long
        $8 | skiplist
        ZADD y 0.5 a
        :1
        ZADD y 1024 b 0.25 c 3 d
        :3
        OBJECT ENCODING y
        $8 | skiplist
        COPY y x
        :1
        ZINCRBY y 1 a
        $3 | 1.5
        ZRANGE x 0 -1 WITHSCORES
        *8 | $1 | c | $4 | 0.25 | $1 | a | $3 | 0.5 | $1 | d | $1 | 3 | $1 | b | $4 | 1024
        ZSCAN y 0 MATCH b
        *2 | $1 | 0 | *2 | $1 | b | $4 | 1024
        CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64
        +OK
        "#,
    );
}

#[test]
fn a_large_sorted_set_answers_like_a_small_one() {
    on_every_engine(|server| {
        let mut client = server.client();
        for n in 0..1000_u32 {
            let (score, member) = ((n * 7919 % 1000).to_string(), format!("member:{n}"));
            client.call(&["ZADD", "z", &score, &member]);
        }
        assert_eq!(client.value(&["ZCARD", "z"]), Value::Integer(1000));
        assert_eq!(client.value(&["ZCOUNT", "z", "(10", "20"]), Value::Integer(10));
        let member = client.value(&["ZRANGE", "z", "123", "123"]).byte_strings().remove(0);
        let member = String::from_utf8(member).unwrap();
        assert_eq!(client.value(&["ZRANK", "z", &member]), Value::Integer(123));
        assert_eq!(client.value(&["ZSCORE", "z", &member]).text(), "123");
        assert_eq!(client.value(&["ZREVRANGE", "z", "876", "876"]).byte_strings(), [member.into_bytes()]);
        let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
        loop {
            let page = client.value(&["ZSCAN", "z", &cursor, "COUNT", "50", "MATCH", "member:*"]);
            seen.extend(page.elements()[1].byte_strings().chunks(2).map(|pair| pair[0].clone()));
            cursor = page.elements()[0].text();
            if cursor == "0" {
                break;
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
        let random = client.value(&["ZRANDMEMBER", "z", "900"]).byte_strings();
        let distinct: std::collections::HashSet<_> = random.iter().collect();
        assert_eq!(distinct.len(), 900);
        assert_eq!(client.value(&["ZREMRANGEBYSCORE", "z", "1", "998"]), Value::Integer(998));
        assert_eq!(client.value(&["ZPOPMAX", "z"]).byte_strings()[1], b"999");
    });
}

#[test]
fn a_zero_keeps_its_sign_in_a_union_that_is_too_long_for_a_listpack() {
    let long = "x".repeat(65);
    let lines = [
        vec!["ZADD", "{t}long", "-5", "9", "-5", &long],
        vec!["ZUNIONSTORE", "{t}long", "1", "{t}long", "WEIGHTS", "0"],
        vec!["ZRANGE", "{t}long", "0", "-1", "WITHSCORES"],
        vec!["ZADD", "{t}short", "-5", "9"],
        vec!["ZUNIONSTORE", "{t}short", "1", "{t}short", "WEIGHTS", "0"],
        vec!["ZRANGE", "{t}short", "0", "-1", "WITHSCORES"],
    ];
    let requests: Vec<Vec<Vec<u8>>> =
        lines.iter().map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect()).collect();
    check_same_as_redis(&requests);
}

#[test]
fn a_zero_keeps_its_sign_in_a_dump_of_what_is_too_long_for_a_listpack() {
    let oracle = RedisOracle::start();
    let long = "x".repeat(65);
    let mut theirs = oracle.client();
    theirs.value(&["ZADD", "key", "1", &long, "-0", "9"]);
    let payload = theirs.value(&["DUMP", "key"]).bytes().to_vec();
    let shown = theirs.value(&["ZRANGE", "key", "0", "-1", "WITHSCORES"]).byte_strings();
    assert_eq!(shown[1], b"-0");
    on_every_engine(|server| {
        let mut client = server.client();
        assert_eq!(client.call(&[b"RESTORE".as_slice(), b"key", b"0", &payload]), b"+OK\r\n");
        assert_eq!(client.value(&["ZRANGE", "key", "0", "-1", "WITHSCORES"]).byte_strings(), shown);
    });
}
