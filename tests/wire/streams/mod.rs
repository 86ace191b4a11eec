//! The stream commands. Most are compared with redis-server, byte for byte, in RESP2 and RESP3: its replies are right.

mod random;
mod waiting;

use harness::{
    Client, EVERY_ENGINE, Embedded, RedisOracle, Server, Value, check_script, on_every_engine, on_every_process, words,
};
use std::time::Duration;

/// Runs requests on every engine and on redis-server: every reply is the same, in RESP2 and in RESP3. For a request
/// that begins with `~` times are left out.
fn check_as_redis(script: &str) {
    let lines: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let oracle = RedisOracle::start();
    let servers = EVERY_ENGINE.map(|setup| Embedded::start(setup, &[]));
    for is_resp3 in [false, true] {
        let connect = |address| if is_resp3 { Client::connect_resp3(address) } else { Client::connect(address) };
        let mut theirs = connect(oracle.address());
        theirs.call(&["FLUSHALL"]);
        let wanted: Vec<Vec<u8>> = lines.iter().map(|line| call(&mut theirs, line)).collect();
        for server in &servers {
            let mut ours = connect(server.address());
            ours.call(&["FLUSHALL"]);
            for (line, wanted) in lines.iter().zip(&wanted) {
                let got = call(&mut ours, line);
                let what = format!("{:?}, RESP3: {is_resp3}, {line}", server.setup());
                assert_eq!(got.escape_ascii().to_string(), wanted.escape_ascii().to_string(), "{what}");
            }
        }
    }
}

fn call(client: &mut Client, line: &str) -> Vec<u8> {
    match line.strip_prefix('~') {
        None => client.call(&words(line)),
        Some(line) => format!("{:?}", without_times(client.value(&words(line)))).into_bytes(),
    }
}

/// XPENDING's reply without the time since an entry was delivered.
fn without_times(value: Value) -> Value {
    match value {
        Value::Array(mut elements) => {
            if let [Value::Bulk(_), Value::Bulk(_), Value::Integer(idle), Value::Integer(_)] = &mut elements[..] {
                *idle = 0;
            }
            Value::Array(elements.into_iter().map(without_times).collect())
        }
        value => value,
    }
}

#[test]
fn xadd_takes_ids_that_grow_and_chooses_what_is_left_out() {
    check_as_redis(
        r#"
        XADD s 1-1 f v
        XADD s 1-1 f v
        XADD s 1-0 f v
        XADD s 0-0 f v
        XADD new 0-0 f v
        EXISTS new
        XADD s 1-* f v
        XADD s 1-* g w f v
        XADD s 5 f v
        XADD s 5-* f v
        XADD s 4-* f v
        XADD s 4 f v
        XADD zero 0-* f v
        XADD zero 0-* f v
        XADD s - f v
        XADD s + f v
        XADD s 01-002 f v
        XADD s " 7-+3" f v
        XADD s 8--01 f v
        XADD s -1 f v
        XADD s 1-1-1 f v
        XADD s abc f v
        XADD s "" f v
        XADD s 18446744073709551616 f v
        XADD s 9-18446744073709551616 f v
        XADD s 9-1 f
        XADD s 9-1 f v g
        XADD s 9-1
        XADD s * f
        XADD s NOMKSTREAM
        XADD s NOMKSTREAM 9-1 f
        XADD none NOMKSTREAM 9-1 f v
        XADD none NOMKSTREAM 0-0 f v
        EXISTS none
        XADD s nomkstream 9-1 f v
        XADD s NOMKSTREAM NOMKSTREAM 9-2 "" "" "\x00\r\n" "\xff"
        XRANGE s - +
        XADD max 18446744073709551615-18446744073709551614 f v
        XADD max * f v
        XADD max * f v
        XADD max 18446744073709551615-* f v
        XADD seq 3-18446744073709551615 f v
        XADD seq 4-* f v
        SET string v
        XADD string 1-1 f v
        XADD string 0-0 f v
        XADD string NOMKSTREAM 1-1 f v
        XLEN string
        XLEN s
        XLEN none
        TYPE s
        XADD
        XADD s 1-1
        "#,
    );
}

#[test]
fn ids_follow_the_clock() {
    on_every_engine(|server| {
        let mut client = server.client();
        let now_ms = |client: &mut Client| {
            let time = client.value(&["TIME"]);
            let part = |index: usize| time.elements()[index].text().parse::<u64>().unwrap();
            part(0) * 1000 + part(1) / 1000
        };
        let before = now_ms(&mut client);
        let ids: Vec<(u64, u64)> = (0..200).map(|_| id_of(&client.value(&["XADD", "s", "*", "f", "v"]))).collect();
        let after = now_ms(&mut client);
        assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
        assert!(ids[0].0 + 1 >= before && ids[199].0 <= after + 1, "{before} {ids:?} {after}");
        client.call(&["XADD", "future", "9999999999999-5", "f", "v"]);
        assert_eq!(id_of(&client.value(&["XADD", "future", "*", "f", "v"])), (9_999_999_999_999, 6));
    });
}

fn id_of(value: &Value) -> (u64, u64) {
    let text = value.text();
    let (ms, seq) = text.split_once('-').unwrap_or_else(|| panic!("{text} is no ID"));
    (ms.parse().unwrap(), seq.parse().unwrap())
}

#[test]
fn ranges_exclude_and_leave_out_as_they_are_asked() {
    check_as_redis(
        r#"
        XADD s 1-1 a 1
        XADD s 1-2 a 2 b 3
        XADD s 2-0 c 4
        XADD s 2-5 a 5
        XADD s 7-7 a 6
        XRANGE s - +
        XREVRANGE s + -
        XRANGE s 1 2
        XREVRANGE s 2 1
        XRANGE s 1-2 2-0
        XRANGE s (1-2 2-5
        XRANGE s 1-2 (2-5
        XRANGE s (1 (2
        XRANGE s (1-1 (1-2
        XREVRANGE s (7-7 (1-1
        XRANGE s 3 6
        XRANGE s 7 1
        XRANGE s - + COUNT 2
        XREVRANGE s + - COUNT 2
        XRANGE s - + COUNT 0
        XRANGE s - + COUNT -1
        XRANGE s - + COUNT -5
        XRANGE s - + COUNT 9223372036854775807
        XRANGE s - + COUNT 9223372036854775808
        XRANGE s - + COUNT 1 COUNT 3
        XRANGE s - + COUNT
        XRANGE s - + LIMIT 1
        XRANGE s + -
        XREVRANGE s - +
        XRANGE s (- +
        XRANGE s - (+
        XRANGE s (18446744073709551615-18446744073709551615 +
        XRANGE s - (0-0
        XRANGE s - (0
        XRANGE s (18446744073709551615 +
        XRANGE s ( +
        XRANGE s x +
        XRANGE s - y
        XREVRANGE s x y
        XRANGE none - +
        XRANGE none - + COUNT 0
        XRANGE none - x
        SET string v
        XRANGE string - +
        XREVRANGE string + -
        XRANGE string - + COUNT 0
        XDEL s 2-0
        XDEL s 2-0 1-1 9-9 1-1
        XDEL s 2-0 bad
        XDEL none bad
        XDEL none 1-1
        XDEL string 1-1
        XRANGE s - +
        XREVRANGE s + -
        XDEL s 1-2 2-5 7-7
        EXISTS s
        XLEN s
        TYPE s
        XRANGE s - +
        XADD s 7-7 a 1
        XADD s 7-8 a 1
        XINFO STREAM s
        "#,
    );
}

#[test]
fn trimming_leaves_what_redis_leaves() {
    let mut script = String::new();
    for number in 1..=350 {
        script += &format!("XADD s {number}-0 field {number} other {}\n", "x".repeat(number % 60));
        script += &format!("XADD exact MAXLEN 7 {number}-0 f v\n");
        script += &format!("XADD about MAXLEN ~ 120 {number}-0 f v{number}\n");
        script += &format!("XADD minid MINID ~ {} {number}-0 f v{number}\n", number / 2);
    }
    script += r#"
        XLEN about
        XLEN minid
        XINFO STREAM exact
        COPY s t
        COPY s u
        XTRIM s MAXLEN ~ 340
        XTRIM s MAXLEN ~ 300
        XLEN s
        XTRIM s MAXLEN ~ 100 LIMIT 30
        XTRIM s MAXLEN ~ 100 LIMIT 60
        XTRIM s MAXLEN ~ 100 LIMIT 0
        XTRIM s MAXLEN = 50
        XTRIM s MAXLEN 49
        XLEN s
        XTRIM s MINID ~ 345
        XTRIM s MINID 330-1
        XTRIM s MINID = 340
        XRANGE s - + COUNT 1
        XTRIM s MAXLEN 0
        XINFO STREAM s
        XTRIM t MINID ~ 200 LIMIT 1
        XTRIM t MINID ~ 200 LIMIT 100
        XTRIM t MINID ~ 200
        XLEN t
        XDEL u 1-0 2-0 3-0 101-0
        XTRIM u MAXLEN ~ 200
        XTRIM u MAXLEN 180
        XINFO STREAM exact
        XTRIM s
        XTRIM s MAXLEN
        XTRIM s MAXLEN x
        XTRIM s MAXLEN -1
        XTRIM s MAXLEN 9223372036854775807
        XTRIM s MAXLEN 9223372036854775808
        XTRIM s MAXLEN = -1
        XTRIM s MAXLEN ~
        XTRIM s MAXLEN =
        XTRIM s MAXLEN 1 LIMIT 1
        XTRIM s MAXLEN = 1 LIMIT 1
        XTRIM s MAXLEN = 1 LIMIT 0
        XTRIM s LIMIT 1
        XTRIM s LIMIT 0
        XTRIM s MAXLEN ~ 1 LIMIT -1
        XTRIM s MAXLEN ~ 1 LIMIT x
        XTRIM s MAXLEN ~ 1 LIMIT
        XTRIM s MAXLEN ~ 1 LIMIT 9223372036854775807
        XTRIM s MAXLEN 1 MINID 1
        XTRIM s MAXLEN 1 MAXLEN 1
        XTRIM s MINID x
        XTRIM s MINID -
        XTRIM s MINID ~ +
        XTRIM s NOMKSTREAM MAXLEN 1
        XTRIM s BOGUS 1
        XTRIM none MAXLEN 1
        XTRIM none MAXLEN x
        SET string v
        XTRIM string MAXLEN 1
        XADD s LIMIT 5 400-0 f v
        XADD s LIMIT 0 400-0 f v
        XADD s MAXLEN 5 LIMIT 5 400-0 f v
        XADD s MAXLEN 400-0 f v
        XADD s MAXLEN ~ 5 LIMIT 5 NOMKSTREAM 400-0 f v
        XADD s MAXLEN 0 401-0 f v
        XADD s MINID 500 402-0 f v
        XINFO STREAM s
    "#;
    check_as_redis(&script);
}

#[test]
fn groups_are_made_set_and_removed() {
    check_as_redis(
        r#"
        XGROUP CREATE s g $
        XGROUP CREATE s g $ MKSTREAM
        XGROUP CREATE s g 0 MKSTREAM
        XGROUP CREATE s h 5-5 ENTRIESREAD 3
        XGROUP CREATE s i 0 ENTRIESREAD -1
        XGROUP CREATE s j 0 ENTRIESREAD -2
        XGROUP CREATE s j 0 ENTRIESREAD x
        XGROUP CREATE s j 0 ENTRIESREAD 9223372036854775808
        XGROUP CREATE s j 0 ENTRIESREAD 9223372036854775807
        XGROUP CREATE s k 0 ENTRIESREAD
        XGROUP CREATE s k 0 BOGUS
        XGROUP CREATE s k -
        XGROUP CREATE s k x
        XGROUP CREATE none k x MKSTREAM
        EXISTS none
        XGROUP CREATE s k 0 MKSTREAM ENTRIESREAD 1 MKSTREAM
        XGROUP CREATE none k 0 ENTRIESREAD 1
        XGROUP CREATE s
        XGROUP
        XGROUP BOGUS s g
        XGROUP HELP x
        XINFO
        XINFO BOGUS
        XINFO STREAM
        XINFO GROUPS s
        XADD s 1-0 f v
        XADD s 6-0 f v
        XINFO GROUPS s
        XGROUP SETID s g 1-0
        XGROUP SETID s h $
        XGROUP SETID s h + ENTRIESREAD 2
        XGROUP SETID s i -
        XGROUP SETID s i 1-0 ENTRIESREAD 1
        XGROUP SETID s i 1-0 MKSTREAM
        XGROUP SETID s i 1-0 ENTRIESREAD 1 ENTRIESREAD 2
        XGROUP SETID s nogroup 0
        XGROUP SETID none g 0
        XGROUP SETID s i x
        XINFO GROUPS s
        XGROUP CREATECONSUMER s g alice
        XGROUP CREATECONSUMER s g alice
        XGROUP CREATECONSUMER s nogroup alice
        XGROUP CREATECONSUMER none g alice
        XGROUP CREATECONSUMER s g
        XGROUP DELCONSUMER s g bob
        XGROUP DELCONSUMER s g alice
        XGROUP DELCONSUMER s nogroup alice
        XGROUP DELCONSUMER none g alice
        XGROUP DESTROY s j
        XGROUP DESTROY s j
        XGROUP DESTROY none j
        XGROUP DESTROY s j k
        XGROUP create s "" 0
        SET string v
        XGROUP CREATE string g 0
        XGROUP CREATE string g 0 MKSTREAM
        XGROUP SETID string g 0
        XGROUP DESTROY string g
        XGROUP CREATECONSUMER string g c
        XINFO STREAM string
        XINFO GROUPS string
        XINFO CONSUMERS string g
        XINFO STREAM none
        XINFO GROUPS none
        XINFO CONSUMERS none g
        XINFO CONSUMERS s nogroup
        XINFO CONSUMERS s g
        XINFO STREAM s
        XINFO STREAM s FULL
        XINFO STREAM s FULL COUNT 1
        XINFO STREAM s FULL COUNT 0
        XINFO STREAM s FULL COUNT -1
        XINFO STREAM s FULL COUNT x
        XINFO STREAM s FULL COUNT
        XINFO STREAM s BOGUS
        XINFO STREAM s FULL BOGUS 1
        XINFO GROUPS s x
        XSETID s 5-0
        XSETID s 8-0
        XSETID s 9-0 ENTRIESADDED 1
        XSETID s 9-0 ENTRIESADDED 100 MAXDELETEDID 9-1
        XSETID s 9-0 ENTRIESADDED 100 MAXDELETEDID 4-0
        XSETID s 9-0 ENTRIESADDED -1
        XSETID s 9-0 ENTRIESADDED x
        XSETID s 9-0 ENTRIESADDED
        XSETID s 9-0 BOGUS 1
        XSETID s x
        XSETID s 9-0 MAXDELETEDID x
        XSETID s 9-0 ENTRIESADDED 9223372036854775807
        XSETID none 1-1
        XSETID string 1-1
        XADD s 10-0 f v
        XINFO STREAM s
        XINFO GROUPS s
        XDEL s 1-0 6-0 10-0
        XSETID s 10-0 ENTRIESADDED 0
        XINFO STREAM s
        XINFO GROUPS s
        "#,
    );
}

/// Redis has this since 7.4; replies and errors are those of redis-server 8.2.
#[test]
fn xread_gives_the_last_entry_for_a_plus() {
    check_script(
        r#"
        !XADD {t}a 1-0 f 1
        $3 | 1-0
        !XADD {t}a 2-0 f 2
        $3 | 2-0
        !XADD {t}b 0-1 g 3
        $3 | 0-1
        !XREAD STREAMS {t}a +
        *1 | *2 | $4 | {t}a | *1 | *2 | $3 | 2-0 | *2 | $1 | f | $1 | 2
        !XREAD COUNT 7 BLOCK 1 STREAMS {t}b {t}a + 2
        *1 | *2 | $4 | {t}b | *1 | *2 | $3 | 0-1 | *2 | $1 | g | $1 | 3
        !XREAD STREAMS {t}none +
        *-1
        !XREAD BLOCK 1 STREAMS {t}none +
        *-1
        # The last entry that is there.
        !XDEL {t}a 2-0
        :1
        !XREAD STREAMS {t}a +
        *1 | *2 | $4 | {t}a | *1 | *2 | $3 | 1-0 | *2 | $1 | f | $1 | 1
        !XDEL {t}a 1-0
        :1
        !XREAD STREAMS {t}a +
        *-1
        !XGROUP CREATE {t}b g 0
        +OK
        !XREADGROUP GROUP g c STREAMS {t}b +
        -ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.
        "#,
    );
}

#[test]
fn xread_and_xreadgroup_reply_what_is_new() {
    check_as_redis(
        r#"
        XADD {t}a 1-0 f 1
        XADD {t}a 2-0 f 2
        XADD {t}b 1-5 g 3
        XREAD STREAMS {t}a 0
        XREAD COUNT 1 STREAMS {t}a {t}b 0 0
        XREAD STREAMS {t}a {t}b {t}c 1-0 1-5 0
        XREAD COUNT 0 STREAMS {t}b 1
        XREAD COUNT -1 STREAMS {t}b 1
        XREAD STREAMS {t}a $
        XREAD STREAMS {t}none 0
        XREAD STREAMS {t}a 18446744073709551615-18446744073709551615
        XREAD BLOCK 1 STREAMS {t}a $
        XREAD BLOCK 1 COUNT 1 STREAMS {t}a {t}b $ $
        XREAD BLOCK 0 STREAMS {t}a 0
        XREAD BLOCK -1 STREAMS {t}a 0
        XREAD BLOCK x STREAMS {t}a 0
        XREAD BLOCK 9223372036854775808 STREAMS {t}a 0
        XREAD COUNT x STREAMS {t}a 0
        XREAD COUNT 9223372036854775808 STREAMS {t}a 0
        XREAD STREAMS {t}a >
        XREAD STREAMS {t}a x
        XREAD STREAMS {t}a -
        XREAD BOGUS {t}a 0
        XREAD COUNT 1 {t}a 0
        XREAD COUNT 1 STREAMS
        XREAD BLOCK STREAMS {t}a 0
        XREAD GROUP g c STREAMS {t}a 0
        XREAD NOACK STREAMS {t}a 0
        SET {t}string v
        XREAD STREAMS {t}string 0
        XREAD STREAMS {t}a {t}string 0 0
        XREAD STREAMS {t}a {t}string x 0
        XREADGROUP GROUP g alice STREAMS {t}a >
        XREADGROUP GROUP g alice STREAMS {t}none >
        XREADGROUP GROUP g alice STREAMS {t}string >
        XREADGROUP COUNT 1 NOACK BLOCK 1 STREAMS {t}a >
        XREADGROUP GROUP g NOACK STREAMS {t}a >
        XREADGROUP GROUP g alice {t}a {t}b >
        XGROUP CREATE {t}a g 0
        XGROUP CREATE {t}b g 0
        XREADGROUP GROUP g alice STREAMS {t}a $
        XREADGROUP GROUP g alice STREAMS {t}a x
        XREADGROUP GROUP g alice COUNT 1 STREAMS {t}a >
        XREADGROUP GROUP g bob STREAMS {t}a {t}b > >
        XREADGROUP GROUP g bob STREAMS {t}a {t}b > >
        XREADGROUP GROUP g bob BLOCK 1 STREAMS {t}a {t}b > >
        XREADGROUP GROUP g bob STREAMS {t}a {t}b > 0
        XREADGROUP GROUP g alice STREAMS {t}a 0
        XREADGROUP GROUP g alice STREAMS {t}a 1
        XREADGROUP GROUP g bob COUNT 1 STREAMS {t}a {t}b 0 0
        XREADGROUP GROUP g new STREAMS {t}a 0
        XREADGROUP GROUP g new STREAMS {t}a 18446744073709551615-18446744073709551615
        XPENDING {t}a g
        ~XPENDING {t}a g - + 10
        ~XPENDING {t}a g - + 10 alice
        ~XPENDING {t}a g IDLE 0 - + 10 bob
        XPENDING {t}a g IDLE 100000 - + 10
        XPENDING {t}a g - + 10 nobody
        XPENDING {t}a g - + 0
        XPENDING {t}a g - + -1
        ~XPENDING {t}a g (1-0 + 10
        ~XPENDING {t}a g - (2-0 10
        ~XPENDING {t}a g - + 9223372036854775807
        XPENDING {t}a g - + 9223372036854775808
        XPENDING {t}a g - +
        XPENDING {t}a g - + x
        XPENDING {t}a g x + 1
        XPENDING {t}a g - x 1
        XPENDING {t}a g IDLE x - + 1
        XPENDING {t}a g IDLE 1 - +
        XPENDING {t}a g IDLE 1 - + 1 alice extra
        XPENDING {t}a nogroup
        XPENDING {t}none g
        XPENDING {t}string g
        XPENDING {t}a g (18446744073709551615-18446744073709551615 + 1
        XDEL {t}a 1-0
        XREADGROUP GROUP g alice STREAMS {t}a 0
        XACK {t}a g 1-0 1-0 9-9
        XACK {t}a g bad
        XACK {t}a nogroup bad
        XACK {t}none g bad
        XACK {t}string g 1-0
        XACK {t}a g 2-0 bad
        XREADGROUP GROUP g alice STREAMS {t}a 0
        XADD {t}a 3-0 f 3
        XADD {t}a 4-0 f 4
        XREADGROUP GROUP g noack NOACK COUNT 1 STREAMS {t}a >
        XPENDING {t}a g
        XINFO GROUPS {t}a
        XGROUP SETID {t}a g 0
        XREADGROUP GROUP g carol STREAMS {t}a >
        XPENDING {t}a g
        XINFO GROUPS {t}a
        XGROUP DELCONSUMER {t}a g carol
        XPENDING {t}a g
        XINFO GROUPS {t}b
        XREADGROUP GROUP g d STREAMS {t}b {t}b > >
        "#,
    );
}

#[test]
fn claims_move_entries_between_consumers() {
    check_as_redis(
        r#"
        XADD s 1-0 f 1
        XADD s 2-0 f 2
        XADD s 3-0 f 3
        XADD s 4-0 f 4
        XADD s 5-0 f 5
        XGROUP CREATE s g 0
        XGROUP CREATECONSUMER s g alice
        XGROUP CREATECONSUMER s g bob
        XREADGROUP GROUP g alice COUNT 3 STREAMS s >
        XCLAIM s g bob 0 1-0
        XCLAIM s g bob 100000 2-0
        XCLAIM s g bob 0 4-0
        XCLAIM s g bob 0 4-0 FORCE
        XCLAIM s g bob 0 9-0 FORCE
        XCLAIM s g bob 0 2-0 3-0 JUSTID
        ~XPENDING s g - + 10
        XCLAIM s g alice 0 1-0 2-0 RETRYCOUNT 7 JUSTID
        XCLAIM s g alice 0 1-0 RETRYCOUNT 9223372036854775807
        XCLAIM s g alice 0 1-0
        ~XPENDING s g - + 10
        XCLAIM s g alice 0 2-0 RETRYCOUNT -1
        XCLAIM s g alice -5 2-0 IDLE 5000 JUSTID
        XCLAIM s g alice 4000 2-0 JUSTID
        XCLAIM s g alice 4000 2-0 JUSTID
        XCLAIM s g alice 0 2-0 IDLE -9223372036854775808 JUSTID
        XCLAIM s g alice 0 2-0 IDLE 9223372036854775807 JUSTID
        XCLAIM s g alice 0 2-0 TIME 1000 JUSTID
        XCLAIM s g alice 9223372036854775807 2-0 JUSTID
        XCLAIM s g alice 100000 2-0 TIME 9223372036854775807 JUSTID
        XCLAIM s g alice 100000 2-0 JUSTID
        XCLAIM s g alice 0 2-0 LASTID 4-0 JUSTID
        XINFO GROUPS s
        XCLAIM s g alice 0 2-0 LASTID 1-0 JUSTID
        XINFO GROUPS s
        XCLAIM s g alice x 2-0
        XCLAIM s g alice 9223372036854775808 2-0
        XCLAIM s g alice 0 2-0 IDLE x
        XCLAIM s g alice 0 2-0 TIME x
        XCLAIM s g alice 0 2-0 RETRYCOUNT x
        XCLAIM s g alice 0 2-0 LASTID x
        XCLAIM s g alice 0 2-0 BOGUS
        XCLAIM s g alice 0 2-0 IDLE
        XCLAIM s g alice 0 2-0 SEEN 5
        XCLAIM s g alice 0 2-0 ACTIVE 5
        XCLAIM s g alice 0 bad 2-0
        XCLAIM s g alice 0 JUSTID
        XCLAIM s nogroup alice x 2-0
        XCLAIM none g alice 0 2-0
        SET string v
        XCLAIM string g alice 0 2-0
        XDEL s 2-0
        XCLAIM s g bob 0 2-0 1-0 JUSTID
        XPENDING s g
        XAUTOCLAIM s g alice 0 0
        XAUTOCLAIM s g alice 0 - COUNT 1
        XAUTOCLAIM s g bob 0 (1-0 COUNT 1 JUSTID
        XAUTOCLAIM s g bob 0 + COUNT 1
        XAUTOCLAIM s g bob 100000 0
        XAUTOCLAIM s g bob 100000 0 COUNT 1
        XDEL s 3-0 4-0
        XAUTOCLAIM s g bob 0 0 COUNT 2
        XAUTOCLAIM s g bob 0 0 COUNT 2
        XPENDING s g
        XAUTOCLAIM s g bob 0 0 COUNT 0
        XAUTOCLAIM s g bob 0 0 COUNT -1
        XAUTOCLAIM s g bob 0 0 COUNT x
        XAUTOCLAIM s g bob 0 0 COUNT 1000000
        XAUTOCLAIM s g bob 0 0 COUNT 576460752303423487
        XAUTOCLAIM s g bob 0 0 COUNT 576460752303423488
        XAUTOCLAIM s g bob 0 0 COUNT 9223372036854775807
        XAUTOCLAIM s g bob 0 0 COUNT 9223372036854775808
        XAUTOCLAIM s g bob 0 0 COUNT
        XAUTOCLAIM s g bob 0 0 BOGUS
        XAUTOCLAIM s g bob x 0
        XAUTOCLAIM s g bob -1 0
        XAUTOCLAIM s g bob 9223372036854775808 0
        XAUTOCLAIM s g bob 0 x
        XAUTOCLAIM s g bob 0 (18446744073709551615-18446744073709551615
        XAUTOCLAIM s nogroup bob 0 0
        XAUTOCLAIM none g bob 0 0
        XAUTOCLAIM none g bob 0 x
        XAUTOCLAIM string g bob 0 0
        XINFO GROUPS s
        "#,
    );
}

#[test]
fn keys_of_stream_commands_are_found() {
    check_as_redis(
        r#"
        COMMAND GETKEYS XADD s * f v
        COMMAND GETKEYS XREAD STREAMS a b 0 0
        COMMAND GETKEYS XREAD COUNT 1 BLOCK 5 STREAMS a 0
        COMMAND GETKEYS XREAD COUNT STREAMS STREAMS STREAMS 0
        COMMAND GETKEYS XREADGROUP GROUP STREAMS c NOACK STREAMS a b > >
        COMMAND GETKEYS XREAD STREAMS a b 0
        COMMAND GETKEYS XREAD BOGUS STREAMS a 0
        COMMAND GETKEYS XGROUP CREATE s g $
        COMMAND GETKEYS XINFO STREAM s
        COMMAND GETKEYS XCLAIM s g c 0 1-1
        "#,
    );
}

/// Changes since 7.2: an error names the command, and requesting entries creates a consumer.
#[test]
fn replies_of_7_2_where_7_0_differs() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("XADD s 1-0 f v", "$3\r\n1-0\r\n");
        client.expect("XGROUP CREATE s g 0", "+OK\r\n");
        client.expect(
            "XREAD STREAMS a b 0",
            "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.\r\n",
        );
        client.expect(
            "XREADGROUP GROUP g c STREAMS a b >",
            "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.\r\n",
        );
        client.expect("XREAD BLOCK 9223372036854775807 STREAMS s 0", "-ERR timeout is out of range\r\n");
        client.expect("XADD end 3-18446744073709551615 f v", "$22\r\n3-18446744073709551615\r\n");
        let too_small = "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n";
        client.expect("XADD end 3-* f v", too_small);
        for (container, lines) in [("XGROUP", 17), ("XINFO", 9)] {
            let help = client.value(&[container, "HELP"]);
            assert_eq!(help.elements().len(), lines);
            let first = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
            assert_eq!(help.elements()[0].text(), first);
            assert_eq!(help.elements()[lines - 1].text(), "    Print this help.");
        }
        client.expect("XCLAIM s g new 0 9-9", "*0\r\n");
        client.expect("XAUTOCLAIM s g newer 0 0", "*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n");
        let consumers = client.value(&["XINFO", "CONSUMERS", "s", "g"]);
        let names: Vec<String> =
            consumers.elements().iter().map(|consumer| consumer.field("name").unwrap().text()).collect();
        assert_eq!(names, ["new", "newer"]);
        for consumer in consumers.elements() {
            assert_eq!(consumer.field("inactive"), Some(&Value::Integer(-1)));
            assert!((0..20_000).contains(&consumer.field("idle").unwrap().integer()));
        }
        client.call(&["XREADGROUP", "GROUP", "g", "new", "STREAMS", "s", ">"]);
        let full = client.value(&["XINFO", "STREAM", "s", "FULL"]);
        let group = &full.field("groups").unwrap().elements()[0];
        let times =
            |consumer: &Value| ["seen-time", "active-time"].map(|field| consumer.field(field).unwrap().integer());
        let [new, newer] = [0, 1].map(|at| times(&group.field("consumers").unwrap().elements()[at]));
        assert!(new[0] == new[1] && newer[0] <= new[0] && newer[1] == -1, "{new:?} {newer:?}");
        client.expect("XDEL s 1-0", ":1\r\n");
        client
            .expect("XSETID s 0-5", "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id\r\n");
    });
}

#[test]
fn asking_again_is_no_activity_after_a_restart_either() {
    let active = |client: &mut Client| {
        let consumers = client.value(&["XINFO", "STREAM", "s", "FULL"]).field("groups").unwrap().elements()[0].clone();
        consumers.field("consumers").unwrap().elements()[0].field("active-time").unwrap().integer()
    };
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("XADD s 1-0 f v", "$3\r\n1-0\r\n");
        client.expect("XGROUP CREATE s g 0", "+OK\r\n");
        client.call(&words("XREADGROUP GROUP g c STREAMS s >"));
        let before = active(&mut client);
        std::thread::sleep(Duration::from_millis(5));
        client.call(&words("XREADGROUP GROUP g c STREAMS s 0"));
        assert_eq!(active(&mut client), before, "{setup:?}");
        let server = server.kill().start(setup, &[]);
        assert_eq!(active(&mut server.client()), before, "{setup:?}, after the restart");
    }
}

#[test]
fn watches_see_entries_and_not_groups() {
    check_as_redis(
        r#"
        XADD s 1-0 f v
        WATCH s
        XGROUP CREATE s g 0
        XREADGROUP GROUP g c STREAMS s >
        XACK s g 1-0
        XGROUP DESTROY s g
        MULTI
        XLEN s
        EXEC
        WATCH s
        XADD s 2-0 f v
        MULTI
        XLEN s
        EXEC
        WATCH s
        XDEL s 2-0
        MULTI
        XLEN s
        EXEC
        WATCH s
        XTRIM s MAXLEN 5
        MULTI
        XTRIM s MAXLEN 0
        EXEC
        WATCH new
        XGROUP CREATE new g 0 MKSTREAM
        MULTI
        XLEN s
        EXEC
        "#,
    );
}

#[test]
fn blocks_are_as_large_as_the_configuration_says() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mut blocks = |limit: &str, value: &str| {
            client.expect(&format!("CONFIG SET {limit}"), "+OK\r\n");
            client.call(&["DEL", "s"]);
            (0..300).for_each(|_| drop(client.call(&["XADD", "s", "*", "f", value])));
            client.value(&["XINFO", "STREAM", "s"]).field("radix-tree-keys").unwrap().integer()
        };
        assert_eq!(blocks("stream-node-max-entries 100", "v"), 3);
        assert_eq!(blocks("stream-node-max-entries 10", "v"), 30);
        assert_eq!(blocks("stream-node-max-entries 0", "v"), 1);
        assert_eq!(blocks("stream-node-max-bytes 1024", &"x".repeat(400)), 150);
        assert_eq!(blocks("stream-node-max-bytes 0", &"x".repeat(400)), 1);
    });
}

#[test]
fn what_a_claim_and_a_history_count_as_changes_is_what_redis_counts() {
    on_every_process(|server| {
        let mut client = server.client();
        client.call(&["XADD", "s", "5-0", "f", "v"]);
        client.call(&["XGROUP", "CREATE", "s", "g", "0"]);
        client.call(&["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"]);
        for (line, changes) in [
            ("XCLAIM s g c 0 5-0 LASTID 9-0", 1),
            ("XCLAIM s g c 0 6-0 LASTID 10-0", 1),
            ("XCLAIM s g c 0 6-0 LASTID 10-0", 0),
            ("XREADGROUP GROUP g c STREAMS s 0", 1),
            ("XREADGROUP GROUP g c STREAMS s 7", 1),
            ("XREADGROUP GROUP g c STREAMS s >", 0),
        ] {
            let before = server.info_number("rdb_changes_since_last_save");
            client.call(&words(line));
            assert_eq!(server.info_number("rdb_changes_since_last_save") - before, changes, "{line}");
        }
    });
}
