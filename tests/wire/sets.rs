//! The set commands.

use harness::{Value, check_script, on_every_engine};
use std::collections::HashSet;

#[test]
fn members_are_added_found_and_removed() {
    check_script(
        r#"
        SADD s a b c a
        :3
        SADD s a d
        :1
        SCARD s
        :4
        SCARD missing
        :0
        SISMEMBER s a
        :1
        SISMEMBER s z
        :0
        SISMEMBER missing a
        :0
        SMISMEMBER s a z d a
        *4 | :1 | :0 | :1 | :1
        SMISMEMBER missing a b
        *2 | :0 | :0
        SMEMBERS s
        *4 | $1 | a | $1 | b | $1 | c | $1 | d
        SMEMBERS missing
        *0
        SREM s a z
        :1
        SREM missing a
        :0
        SREM s b c d
        :3
        EXISTS s
        :0
        SADD ints 1 2 3
        :3
        SADD ints 01
        :1
        SISMEMBER ints 1
        :1
        SREM ints 01
        :1
        SMEMBERS ints
        *3 | $1 | 1 | $1 | 2 | $1 | 3
        SADD bin "" "\x00" "\xff\xfe"
        :3
        SISMEMBER bin ""
        :1
        SMEMBERS bin
        *3 | $0 | | $1 | \x00 | $2 | \xff\xfe
        SADD s
        -ERR wrong number of arguments for 'sadd' command
        SMISMEMBER s
        -ERR wrong number of arguments for 'smismember' command
        SET k v
        +OK
        SADD k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SREM k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMEMBERS k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SISMEMBER k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMISMEMBER k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SCARD k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn random_members_with_a_determined_outcome() {
    check_script(
        r#"
        SADD s a b c
        :3
        SRANDMEMBER s 3
        *3 | $1 | a | $1 | b | $1 | c
        SRANDMEMBER s 100
        *3 | $1 | a | $1 | b | $1 | c
        SRANDMEMBER s 0
        *0
        SRANDMEMBER missing
        $-1
        SRANDMEMBER missing 3
        *0
        SRANDMEMBER missing -3
        *0
        SRANDMEMBER s x
        -ERR value is not an integer or out of range
        SRANDMEMBER s 1 2
        -ERR syntax error
        SADD one m
        :1
        SRANDMEMBER one
        $1 | m
        SRANDMEMBER one -3
        *3 | $1 | m | $1 | m | $1 | m
        SPOP one
        $1 | m
        EXISTS one
        :0
        SPOP one
        $-1
        SPOP one 3
        *0
        SPOP s 0
        *0
        SPOP s -1
        -ERR value is out of range, must be positive
        SPOP s x
        -ERR value is out of range, must be positive
        SPOP s 1 2
        -ERR syntax error
        SPOP s 5
        *3 | $1 | a | $1 | b | $1 | c
        EXISTS s
        :0
        SET k v
        +OK
        SPOP k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SPOP k 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SRANDMEMBER k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn random_draws_are_members_and_reach_all_of_them() {
    on_every_engine(|server| {
        let mut client = server.client();
        let members: HashSet<Vec<u8>> = (0..30).map(|index| format!("member:{index}").into_bytes()).collect();
        let mut add = vec![b"SADD".to_vec(), b"s".to_vec()];
        add.extend(members.iter().cloned());
        client.call(&add);

        let draws = client.value(&["SRANDMEMBER", "s", "-3000"]).byte_strings();
        assert_eq!(draws.len(), 3000);
        assert_eq!(draws.into_iter().collect::<HashSet<_>>(), members, "3000 draws reach all of 30 members");
        let distinct = client.value(&["SRANDMEMBER", "s", "20"]).byte_strings();
        assert_eq!(distinct.iter().collect::<HashSet<_>>().len(), 20, "a positive count never repeats");
        assert_eq!(client.value(&["SCARD", "s"]), Value::Integer(30), "a draw takes nothing away");

        let mut taken = HashSet::new();
        for _ in 0..10 {
            assert!(taken.insert(client.value(&["SPOP", "s"]).bytes().to_vec()), "what is popped is gone");
        }
        taken.extend(client.value(&["SPOP", "s", "15"]).byte_strings());
        assert_eq!(client.value(&["SCARD", "s"]), Value::Integer(5));
        taken.extend(client.value(&["SMEMBERS", "s"]).byte_strings());
        assert_eq!(taken, members);
    });
}

#[test]
fn a_member_moves_to_another_set() {
    check_script(
        r#"
        SADD a 1 2
        :2
        SADD b 2
        :1
        SMOVE a b 1
        :1
        SMEMBERS b
        *2 | $1 | 1 | $1 | 2
        SMOVE a b 9
        :0
        SMOVE a a 2
        :1
        SMOVE a a 9
        :0
        SCARD a
        :1
        # A member that the destination has is taken away all the same.
        SMOVE a b 2
        :1
        EXISTS a
        :0
        SCARD b
        :2
        SMOVE b new 1
        :1
        SMEMBERS new
        *1 | $1 | 1
        SMOVE none b 1
        :0
        SET s v
        +OK
        SMOVE none s 1
        :0
        SMOVE s b 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMOVE b s 2
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMOVE b s 9
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMOVE s s v
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMOVE a b
        -ERR wrong number of arguments for 'smove' command
        "#,
    );
}

#[test]
fn sets_are_combined() {
    check_script(
        r#"
        SADD a 1 2 3 4
        :4
        SADD b 2 4 6
        :3
        SADD c 4 5
        :2
        SINTER a b
        *2 | $1 | 2 | $1 | 4
        SINTER a b c
        *1 | $1 | 4
        SINTER a
        *4 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4
        SINTER a a
        *4 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4
        SINTER a none
        *0
        SUNION a b none c
        *6 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4 | $1 | 5 | $1 | 6
        SUNION none
        *0
        SDIFF a b none
        *2 | $1 | 1 | $1 | 3
        SDIFF a a
        *0
        SDIFF none a
        *0
        SDIFF a
        *4 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4
        SINTERCARD 2 a b
        :2
        SINTERCARD 2 a b LIMIT 1
        :1
        SINTERCARD 2 a b limit 0
        :2
        SINTERCARD 2 a b LIMIT 1 LIMIT 9
        :2
        SINTERCARD 2 a none
        :0
        SET s v
        +OK
        SINTER none s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SUNION a s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SDIFF none s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SINTERCARD 2 none s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SINTERCARD 0 a
        -ERR numkeys should be greater than 0
        SINTERCARD -1 a
        -ERR numkeys should be greater than 0
        SINTERCARD x a
        -ERR numkeys should be greater than 0
        SINTERCARD 3 a b
        -ERR Number of keys can't be greater than number of args
        SINTERCARD 9223372036854775807 a
        -ERR Number of keys can't be greater than number of args
        SINTERCARD 1 a b
        -ERR syntax error
        SINTERCARD 1 a LIMIT
        -ERR syntax error
        SINTERCARD 1 a LIMIT -1
        -ERR LIMIT can't be negative
        SINTERCARD 1 a LIMIT x
        -ERR LIMIT can't be negative
        SINTERCARD 1 a LIMIT 1 x
        -ERR syntax error
        SINTERCARD 1
        -ERR wrong number of arguments for 'sintercard' command
        SINTER
        -ERR wrong number of arguments for 'sinter' command
        "#,
    );
}

#[test]
fn a_combination_is_stored_whatever_the_destination_held() {
    check_script(
        r#"
        SADD a 1 2 3
        :3
        SADD b 2 3 4
        :3
        SET d string EX 1000
        +OK
        SINTERSTORE d a b
        :2
        SMEMBERS d
        *2 | $1 | 2 | $1 | 3
        TTL d
        :-1
        SUNIONSTORE d a b
        :4
        SDIFFSTORE d a b
        :1
        SMEMBERS d
        *1 | $1 | 1
        # The destination may be one of the sets.
        SUNIONSTORE a a b
        :4
        SDIFFSTORE a a b
        :1
        # Nothing to store removes it.
        SDIFFSTORE a a a
        :0
        EXISTS a
        :0
        SET d string
        +OK
        SINTERSTORE d b none
        :0
        EXISTS d
        :0
        SUNIONSTORE d none
        :0
        SET s v
        +OK
        SINTERSTORE d b s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SUNIONSTORE d s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SDIFFSTORE d none s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        EXISTS d
        :0
        SINTERSTORE d
        -ERR wrong number of arguments for 'sinterstore' command
        "#,
    );
}

#[test]
fn a_small_set_is_scanned_in_one_page() {
    check_script(
        r#"
        SADD ints 3 1 2
        :3
        SSCAN ints 0
        *2 | $1 | 0 | *3 | $1 | 1 | $1 | 2 | $1 | 3
        SSCAN ints 0 MATCH [13] COUNT 1
        *2 | $1 | 0 | *2 | $1 | 1 | $1 | 3
        SADD one member
        :1
        SSCAN one 0 COUNT 100
        *2 | $1 | 0 | *1 | $6 | member
        SSCAN one 0 MATCH x*
        *2 | $1 | 0 | *0
        SSCAN missing 0
        *2 | $1 | 0 | *0
        SSCAN one -
        -ERR invalid cursor
        SSCAN one 0 COUNT
        -ERR syntax error
        SSCAN one
        -ERR wrong number of arguments for 'sscan' command
        SET s v
        +OK
        SSCAN s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SMEMBERS ints
        *3 | $1 | 1 | $1 | 2 | $1 | 3
        SRANDMEMBER ints -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        SRANDMEMBER ints 9223372036854775808
        -ERR value is not an integer or out of range
        SPOP ints -1
        -ERR value is out of range, must be positive
        SPOP ints 9223372036854775808
        -ERR value is out of range, must be positive
        SPOP ints 9223372036854775807
        *3 | $1 | 1 | $1 | 2 | $1 | 3
        "#,
    );
}

#[test]
fn every_member_of_a_large_set_is_scanned_once_popped_once_and_drawn() {
    on_every_engine(|server| {
        let client = &mut server.client();
        client.call(&["DEL", "s"]);
        let members: Vec<String> = (0..2_000).map(|n| format!("member:{n}")).collect();
        let add: Vec<&str> = ["SADD", "s"].into_iter().chain(members.iter().map(String::as_str)).collect();
        client.call(&add);
        let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
        loop {
            let page = client.value(&["SSCAN", "s", &cursor, "COUNT", "50"]);
            let Value::Array(page) = page else { panic!("a page is an array") };
            let [Value::Bulk(next), Value::Array(found)] = &page[..] else { panic!("a cursor and members: {page:?}") };
            seen.extend(found.iter().cloned());
            cursor = String::from_utf8(next.clone()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        let mut wanted: Vec<Value> = members.iter().map(|member| Value::Bulk(member.clone().into_bytes())).collect();
        wanted.sort();
        seen.sort();
        assert_eq!(seen, wanted);
        let mut popped = Vec::new();
        for count in [1, 100, 1_500, 1_000] {
            let Value::Array(members) = client.value(&["SPOP", "s", &count.to_string()]) else { panic!("members") };
            popped.extend(members);
        }
        popped.sort();
        assert_eq!(popped, wanted);
        assert_eq!(client.call(&["EXISTS", "s"]), b":0\r\n");
    });
}
