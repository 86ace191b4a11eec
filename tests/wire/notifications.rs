//! Keyspace notifications: the same commands cause the same events as on redis-server, in the same order.

use harness::{
    Client, EVERY_ENGINE, Embedded, RedisOracle, Server, Value, check_script, on_every_engine, on_every_process,
    request, words,
};
use std::net::SocketAddr;
use std::time::Duration;

/// The messages of a subscriber: each as its channel and payload.
fn messages(listener: &mut Client) -> Vec<String> {
    listener.send(&request(&["PING", "all"]));
    let mut messages = Vec::new();
    loop {
        let value = Value::of(&listener.reply());
        match value.elements() {
            [_, mark] if mark.bytes() == b"all" => return messages,
            [.., channel, payload] => messages.push(format!("{} {}", channel.text(), payload.text())),
            _ => panic!("{value:?}"),
        }
    }
}

/// Runs commands; returns the events of each. `SLEEP` waits for keys to expire, `WAIT` begins a command that waits on
/// another connection, `SERVE` is one that serves it.
fn events(address: SocketAddr, classes: &str, script: &str) -> Vec<String> {
    let mut listener = Client::connect(address);
    listener.call(&["PSUBSCRIBE", "__key*@*"]);
    let mut client = Client::connect(address);
    client.call(&["FLUSHALL"]);
    client.call(&["CONFIG", "SET", "notify-keyspace-events", classes]);
    let mut waiting: Option<Client> = None;
    let mut told = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line == "SLEEP" {
            std::thread::sleep(Duration::from_millis(60));
            continue;
        }
        let reply = match (line.strip_prefix("WAIT "), line.strip_prefix("SERVE ")) {
            (Some(line), _) => {
                let other = waiting.insert(Client::connect(address));
                other.send(&request(&words(line)));
                while !client.value(&["CLIENT", "LIST"]).text().contains(" flags=b ") {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Vec::new()
            }
            (_, Some(line)) => {
                let mut reply = client.call(&words(line));
                // The waiting client has been served when it has its reply.
                reply.extend(waiting.take().expect("somebody waits").reply());
                reply
            }
            _ => client.call(&words(line)),
        };
        let is_random = line.starts_with("SPOP") || line.starts_with("SINTER ");
        let reply = if is_random { "some".to_owned() } else { reply.escape_ascii().to_string() };
        told.push(format!("{line} -> {reply}\n    {}", messages(&mut listener).join("\n    ")));
    }
    client.call(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    told
}

#[track_caller]
fn check_events(classes: &str, script: &str) {
    let oracle = RedisOracle::start();
    let wanted = events(oracle.address(), classes, script);
    assert!(wanted.iter().any(|line| line.contains("__key")), "redis-server tells of nothing");
    on_every_engine(|server| {
        for (got, wanted) in events(server.address(), classes, script).iter().zip(&wanted) {
            assert_eq!(got, wanted, "on {:?}", server.setup());
        }
    });
}

#[test]
fn events_of_strings_and_keys_are_those_of_redis() {
    check_events(
        "KEAmn",
        r#"
        SET a 1
        SET a 2
        SET a 3 XX GET
        SET a 4 NX
        SET a 4 EX 100
        SET a 5 KEEPTTL
        SET missing 1 XX
        SETNX a 1
        SETNX b 1
        SETEX a 100 v
        PSETEX a 100000 v
        GETSET a 1
        GETSET new1 1
        GET a
        GET missing
        MGET a missing b missing
        EXISTS a missing missing
        TOUCH missing a
        TYPE missing
        TTL missing
        STRLEN missing
        GETRANGE missing 0 1
        INCR a
        INCR new2
        DECRBY a 3
        INCRBY a x
        INCRBYFLOAT a 0.5
        INCRBYFLOAT new3 1
        APPEND a x
        APPEND new4 x
        SETRANGE a 3 xyz
        SETRANGE a 3 ""
        SETRANGE new5 3 xyz
        SETRANGE new6 3 ""
        MSET a 1 m1 2 m2 3 m1 4
        MSETNX a 1 m9 2
        MSETNX m7 1 m8 2
        GETDEL m7
        GETDEL missing
        GETEX a
        GETEX a EX 100
        GETEX a PERSIST
        GETEX a PERSIST
        GETEX a PXAT 1
        GETEX missing EX 100
        SET a 1
        EXPIRE a 100
        EXPIRE a 100 NX
        PERSIST a
        PERSIST a
        PEXPIREAT a 1
        EXPIRE missing 1
        SET a 1
        EXPIRE a -1
        SET a 1
        RESTORE restored 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb"
        RESTORE restored 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE
        RESTORE restored 1 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE ABSTTL
        RENAME a b
        RENAME b b
        RENAME missing b
        RENAMENX b c
        SET a 1
        RENAMENX a c
        RENAME a c
        COPY c d
        COPY c d
        COPY c d REPLACE
        COPY missing e
        DEL c d missing
        UNLINK b new1 missing new2
        SET moved 1
        MOVE moved 3
        MOVE moved 3
        SELECT 3
        COPY moved moved DB 0
        SET k v EX 100
        DEL k
        SWAPDB 0 3
        SELECT 0
        MOVE missing 3
        FLUSHALL
        DBSIZE
        "#,
    );
}

#[test]
fn events_of_lists_sets_and_hashes_are_those_of_redis() {
    check_events(
        "KEAmn",
        r#"
        LPUSH l a b c
        RPUSH l d
        RPUSHX l e
        LPUSHX missing e
        LSET l 0 x
        LSET l 100 x
        LPOP l
        RPOP l 2
        LPOP l 0
        LPOP missing
        LMOVE l l LEFT RIGHT
        LMOVE l l2 LEFT RIGHT
        RPOPLPUSH l l2
        RPOPLPUSH missing l2
        LMOVE l2 l3 RIGHT LEFT
        LMPOP 2 missing l2 LEFT COUNT 10
        LMPOP 1 missing LEFT
        LRANGE missing 0 1
        LLEN missing
        LINDEX missing 0
        RPUSH e a b a c a
        LINSERT e BEFORE b x
        LINSERT e AFTER nosuch x
        LINSERT missing BEFORE b x
        LREM e 1 a
        LREM e 0 nosuch
        LREM missing 0 a
        LPOS e c
        LPOS missing c
        LTRIM e 0 -1
        LTRIM e 1 -1
        LTRIM missing 0 -1
        LREM e -2 a
        LTRIM e 5 0
        RPUSH e a a
        LREM e 0 a
        LSET missing 0 a
        BLPOP l3 0
        SADD s a b c
        SADD s a
        SADD s
        SREM s nosuch
        SREM s a nosuch
        SMOVE s s2 b
        SMOVE s s2 nosuch
        SADD s b
        SMOVE s s2 b
        SMOVE s s2 c
        SMOVE missing s2 c
        SPOP s2
        SPOP s2 0
        SPOP s2 5
        SPOP missing
        SADD s a b c d
        SPOP s 2
        SADD s 1 2
        SADD t 2 3
        SINTER s missing
        SISMEMBER missing a
        SMISMEMBER missing a
        SSCAN missing 0
        HSCAN missing 0
        OBJECT ENCODING t
        OBJECT ENCODING missing
        SREM missing a
        SADD l a
        SRANDMEMBER missing
        SINTERSTORE d s t
        SINTERSTORE d s t
        SUNIONSTORE u s t
        SDIFFSTORE v t s
        SINTERSTORE d s missing
        SUNIONSTORE d missing nothing
        SINTERCARD 2 s missing
        SREM t 2 3
        HSET h a 1 b 2
        HSET h a 1
        HSETNX h a 1
        HSETNX h c 1
        HSETNX h2 c 1
        HMSET h a 2
        HINCRBY h a 3
        HINCRBY h3 a 3
        HINCRBY h a x
        HINCRBYFLOAT h a 0.5
        HINCRBYFLOAT h4 a 3
        HINCRBYFLOAT h a x
        HSTRLEN missing a
        HRANDFIELD missing
        HRANDFIELD missing 2
        HMGET missing a b
        HGET missing a
        HGETALL missing
        HDEL h nosuch
        HDEL h a nosuch
        HDEL h b c
        SET l v
        LPUSH l x
        LPUSH w a
        RENAME w s
        "#,
    );
}

#[test]
fn events_of_bits_hyperloglogs_and_sorted_lists_are_those_of_redis() {
    check_events(
        "KEAmn",
        r#"
        SETBIT b 7 1
        SETBIT b 7 0
        GETBIT missing 1
        BITCOUNT missing
        BITFIELD b SET u8 0 255 GET u8 0
        BITFIELD b GET u8 0
        BITOP NOT c b
        BITOP AND c missing missing
        BITOP OR c b c
        PFADD h a b
        PFADD h a
        PFADD h2 c
        PFCOUNT missing
        PFMERGE h3 h h2
        RPUSH l 3 1 2
        SORT l STORE sorted
        SORT l STORE sorted
        SORT missing STORE sorted
        "#,
    );
}

#[test]
fn events_of_sorted_sets_and_places_are_those_of_redis() {
    check_events(
        "KEA",
        r#"
        ZADD z 1 a 2 b 3 c 4 d 5 e
        ZADD z 1 a
        ZADD z XX GT CH 9 a
        ZADD z NX 1 new
        ZADD z INCR 2 a
        ZADD z XX INCR 2 nope
        ZADD nope XX 1 a
        ZINCRBY z 1 b
        ZINCRBY z 0 b
        ZREM z nope
        ZREM z a
        ZPOPMIN z
        ZPOPMAX z 1
        ZPOPMAX nope
        ZMPOP 2 nope z MIN COUNT 1
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f
        ZREMRANGEBYRANK z 0 0
        ZREMRANGEBYSCORE z 2 2
        ZREMRANGEBYSCORE z 100 200
        ZADD l 0 a 0 b 0 c
        ZREMRANGEBYLEX l [a [b
        ZUNIONSTORE u 2 z l
        ZINTERSTORE i 2 z u
        ZDIFFSTORE d 2 z l
        ZDIFFSTORE d 2 z z
        ZDIFFSTORE d 2 z z
        ZRANGESTORE r z 0 1
        ZRANGESTORE r z 50 60
        BZPOPMIN z 1
        BZPOPMAX nope z 1
        BZMPOP 1 1 u MAX
        ZREMRANGEBYRANK u 0 -1
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        GEOADD g CH 13.361389 38.115556 Palermo
        GEOSEARCHSTORE near g FROMMEMBER Palermo BYRADIUS 500 km
        GEORADIUS g 15 37 200 km STORE stored
        GEORADIUSBYMEMBER g Palermo 1 m STOREDIST distances
        GEORADIUS g 0 0 1 m STORE stored
        ZINTERSTORE near 2 nope nope
        "#,
    );
}

#[test]
fn events_of_streams_are_those_of_redis() {
    check_events(
        "KEAmn",
        r#"
        XADD s 1-1 a b
        XADD s 1-2 a b
        XADD s 1-1 a b
        XADD missing NOMKSTREAM 1-1 a b
        XADD s MAXLEN = 2 1-3 a b
        XTRIM s MAXLEN = 5
        XTRIM s MAXLEN = 1
        XDEL s 1-3 9-9
        XDEL s 1-3
        XSETID s 5-5
        XLEN missing
        XGROUP CREATE s g $
        XGROUP CREATE t g $ MKSTREAM
        XGROUP SETID s g 0
        XGROUP CREATECONSUMER s g c
        XGROUP CREATECONSUMER s g c
        XGROUP DELCONSUMER s g c
        XGROUP DELCONSUMER s g c
        XADD s 6-6 a b
        XREADGROUP GROUP g d STREAMS s >
        XREADGROUP GROUP g d STREAMS s >
        XCLAIM s g e 0 6-6
        XAUTOCLAIM s g f 0 0
        XACK s g 6-6
        XGROUP DESTROY s g
        XGROUP DESTROY s g
        "#,
    );
}

#[test]
fn keys_that_expire_and_clients_that_are_served_make_the_events_of_redis() {
    check_events(
        "KEAmn",
        r#"
        SET a 1 PX 20
        SLEEP
        GET a
        SET a 1 PX 20
        SLEEP
        SET a 2
        MSET a 1 b 2 c 3
        PEXPIRE a 20
        SLEEP
        EXISTS a b c
        PEXPIRE b 20
        SLEEP
        MSET b 1 c 2
        WAIT BLPOP k 0
        SERVE RPUSH k x y
        DEL k
        WAIT BRPOP nothing k 0
        SERVE LPUSH k z
        WAIT BLMOVE k dest LEFT RIGHT 0
        SERVE LPUSH k z
        WAIT BLMPOP 0 1 k LEFT COUNT 2
        SERVE RPUSH k 1 2 3
        "#,
    );
}

#[test]
fn the_events_of_a_transaction_come_in_order_and_together() {
    check_events(
        "EA",
        r#"
        MULTI
        SET a 1
        LPUSH l x y
        RENAME a b
        RPOP l
        DEL b nothing
        MSET p 1 q 2 r 3 s 4
        EXPIRE p 100
        GET a
        EXEC
        MULTI
        SET a 1
        DISCARD
        "#,
    );
    // No events of other commands come in between, whether transactions have a rendezvous on a shard or not, nor any
    // message.
    on_every_engine(|server| {
        const EACH: usize = 40;
        const TALK: usize = 2000;
        const KEYS: [[&str; 4]; 5] =
            [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"], ["c0"; 4], ["d0"; 4], ["e0"; 4]];
        let mut listener = server.client();
        listener.call(&["PSUBSCRIBE", "__keyevent@0__:*"]);
        server.client().expect("CONFIG SET notify-keyspace-events E$", "+OK\r\n");
        std::thread::scope(|scope| {
            let mut talker = server.client();
            scope.spawn(move || {
                let talk = ["PUBLISH", "__keyevent@0__:talk", "talk"].map(str::to_owned).to_vec();
                (0..TALK / 10).for_each(|_| drop(talker.pipeline(&vec![talk.clone(); 10])));
            });
            for keys in KEYS {
                let mut client = server.client();
                scope.spawn(move || {
                    for _ in 0..EACH {
                        client.send(&request(&["MULTI"]));
                        keys.iter().for_each(|key| client.send(&request(&["INCR", key])));
                        client.send(&request(&["EXEC"]));
                        client.values(2 + keys.len());
                    }
                });
            }
        });
        let count = KEYS.as_flattened().len() * EACH;
        let mut seen: Vec<String> = listener.values(count + TALK).iter().map(|m| m.elements()[3].text()).collect();
        let mut place = 0;
        seen.retain(|said| {
            assert!(
                said != "talk" || place % 4 == 0,
                "{:?}: a message within transaction {}",
                server.setup(),
                place / 4
            );
            place += usize::from(said != "talk");
            said != "talk"
        });
        for (index, together) in seen.chunks(4).enumerate() {
            let of_one = KEYS.iter().any(|keys| together == keys);
            assert!(of_one, "{:?}: transaction {index}: {together:?}", server.setup());
        }
    });
}

#[test]
fn the_events_of_scripts_come_in_the_order_of_redis() {
    check_events(
        "KEA",
        r##"
        EVAL "redis.call('set','a',1) redis.call('lpush','l','x','y') redis.call('rename','a','b') redis.call('rpop','l')" 0
        EVAL "redis.call('del','b','nothing') redis.call('mset','p',1,'q',2,'r',3,'s',4) redis.call('expire','p',100)" 0
        EVAL "for i = 1, 9 do redis.call('incr', KEYS[i % 3 + 1]) end return redis.call('get', KEYS[1])" 3 p q r
        EVAL "redis.call('set','a',1) redis.call('publish','__keyevent@0__:own','said') redis.call('append','a','x')" 0
        EVAL "redis.call('set','a',1) redis.call('lpush','l','z') redis.call('lpush','a','z')" 0
        EVAL "redis.pcall('lpush','a','z') redis.call('hset','h','f','v') error('late')" 0
        EVAL "redis.call('select',3) redis.call('set','there',1)" 0
        EVAL "redis.call('rpush','src',1,2,3) redis.call('sort','src','store','dst') redis.call('lmove','src','dst','left','left')" 0
        MULTI
        EVAL "redis.call('set','in',1) redis.call('del','in')" 0
        SET after 1
        EXEC
        FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('f', function(keys) redis.call('set', keys[1], 1) return redis.call('sadd', keys[2], 1) end)"
        FCALL f 2 one two
        "##,
    );
}

#[test]
fn the_events_of_a_pipeline_come_in_the_order_of_its_requests_whatever_shards_have_the_keys() {
    const KEYS: usize = 1000;
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET notify-keyspace-events KA", "+OK\r\n");
        let mut listener = server.client();
        listener.call(&["PSUBSCRIBE", "__keyspace@0__:*"]);
        let (mut requests, mut wanted) = (Vec::new(), Vec::new());
        for key in 0..KEYS {
            requests.push(words(&format!("SET {key} value")));
            wanted.push(format!("{key} set"));
            if key % 7 == 0 {
                requests.push(words(&format!("MSET m{key} 1 n{key} 2")));
                wanted.extend([format!("m{key} set"), format!("n{key} set")]);
            }
            if key % 11 == 0 {
                requests.extend(["MULTI", "INCR counter", &format!("DEL {key}"), "EXEC"].map(words));
                wanted.extend(["counter incrby".to_owned(), format!("{key} del")]);
            }
        }
        client.pipeline(&requests);
        let said = |message: &Value| {
            let [.., channel, payload] = message.elements() else { panic!("{message:?}") };
            format!("{} {}", channel.text().trim_start_matches("__keyspace@0__:"), payload.text())
        };
        let seen: Vec<String> = listener.values(wanted.len()).iter().map(said).collect();
        let first = (0..wanted.len()).find(|&index| seen[index] != wanted[index]);
        assert_eq!(first.map(|index| (index, &seen[index], &wanted[index])), None, "{:?}", server.setup());
    });
}

/// A client that listens to its own changes hears of them, however its connection ends afterwards.
#[test]
fn the_events_of_the_last_requests_are_told_before_the_connection_ends() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--notify-keyspace-events", "KEA"]);
        // The end of the input, QUIT, and a protocol error.
        for end in ["", "QUIT\r\n", "*1\r\nx\r\n"] {
            let mut client = Client::connect_resp3(server.address());
            client.send(format!("PSUBSCRIBE __key*\r\nSET a 1\r\n{end}").as_bytes());
            if end.is_empty() {
                client.stream().shutdown(std::net::Shutdown::Write).unwrap();
            }
            let said = String::from_utf8(client.until_closed()).unwrap();
            assert_eq!(said.matches("pmessage").count(), 2, "{setup:?}, {end:?}: {said}");
        }
    }
}

#[test]
fn only_the_classes_and_forms_that_are_chosen_are_told() {
    for classes in ["", "KE", "A", "Kg", "E$", "Kl", "Ex", "Kn", "Em", "KEh$"] {
        let script = "SET a 1 PX 10\nSLEEP\nGET a\nLPUSH l a\nRENAME l m\nHSET h a 1\nDEL m h";
        let oracle = RedisOracle::start();
        let wanted = events(oracle.address(), classes, script);
        let server = Embedded::start(EVERY_ENGINE[3], &["--notify-keyspace-events", "KEA"]);
        assert_eq!(events(server.address(), classes, script), wanted, "{classes}");
    }
}

#[test]
fn the_directive_is_checked_and_shown_as_in_redis() {
    check_script(
        r#"
        CONFIG GET notify-keyspace-events
        *2 | $22 | notify-keyspace-events | $0 |
        CONFIG SET notify-keyspace-events KEA
        +OK
        CONFIG GET notify-keyspace-events
        *2 | $22 | notify-keyspace-events | $3 | AKE
        CONFIG SET notify-keyspace-events mnEg$lshzxetdK
        +OK
        CONFIG GET notify-keyspace-events
        *2 | $22 | notify-keyspace-events | $4 | AKEm
        CONFIG SET notify-keyspace-events nxlE
        +OK
        CONFIG GET notify-keyspace-events
        *2 | $22 | notify-keyspace-events | $4 | lxnE
        CONFIG SET notify-keyspace-events KEQ
        -ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.
        CONFIG SET notify-keyspace-events ""
        +OK
        CONFIG SET client-output-buffer-limit "normal 268435456 33554432 60 pubsub 1mb 0 7"
        +OK
        CONFIG GET client-output-buffer-limit
        *2 | $26 | client-output-buffer-limit | $75 | normal 268435456 33554432 60 slave 268435456 67108864 60 pubsub 1048576 0 7
        CONFIG SET client-output-buffer-limit ""
        +OK
        CONFIG GET client-output-buffer-limit
        *2 | $26 | client-output-buffer-limit | $75 | normal 268435456 33554432 60 slave 268435456 67108864 60 pubsub 1048576 0 7
        CONFIG SET client-output-buffer-limit "foo 1 2 3"
        -ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Invalid client class specified in buffer limit configuration.
        CONFIG SET client-output-buffer-limit "pubsub 1 2"
        -ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Wrong number of arguments in buffer limit configuration.
        CONFIG SET client-output-buffer-limit "pubsub 1 2 x"
        -ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Error in hard, soft or soft_seconds setting in buffer limit configuration.
        "#,
    );
}

/// The events of a transaction for a subscriber, and its replies.
fn said_by_a_transaction(address: SocketAddr) -> (Vec<u8>, Vec<String>) {
    let (mut listener, mut client) = (Client::connect(address), Client::connect(address));
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    for request in [["PSUBSCRIBE", "__keyevent*"], ["SUBSCRIBE", "c"], ["SSUBSCRIBE", "s"]] {
        listener.call(&request);
    }
    for line in ["MULTI", "PUBLISH c 1", "SET a 1", "PUBLISH c 2", "SPUBLISH s 3", "LPUSH b x", "PUBLISH d 4", "DEL a"]
    {
        client.call(&words(line));
    }
    let reply = client.call(&["EXEC"]);
    let said = messages(&mut listener);
    client.call(&["DEL", "a", "b"]);
    client.call(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    (reply, said)
}

#[test]
fn what_a_transaction_publishes_stands_in_its_place_among_its_events() {
    let oracle = RedisOracle::start();
    let wanted = said_by_a_transaction(oracle.address());
    assert_eq!(wanted.1.len(), 6, "{wanted:?}");
    on_every_engine(|server| assert_eq!(said_by_a_transaction(server.address()), wanted));
}

#[test]
fn what_a_pipeline_of_reading_commands_misses_is_told_once_though_a_key_among_it_has_expired() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--enable-debug-command", "yes"]);
        let (mut client, mut listener) = (server.client(), server.client());
        client.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        client.expect("SET due 1 PX 1", "+OK\r\n");
        client.expect("CONFIG SET notify-keyspace-events Emx", "+OK\r\n");
        listener.call(&["PSUBSCRIBE", "__key*@*"]);
        std::thread::sleep(Duration::from_millis(60));
        client.pipeline(&[vec!["GET", "a"], vec!["MGET", "b", "due"], vec!["GET", "c"], vec!["GET", "d"]]);
        let mut told = messages(&mut listener);
        // The two keys of MGET may be of different shards.
        told.sort();
        let mut wanted = ["expired due", "keymiss due", "keymiss a", "keymiss b", "keymiss c", "keymiss d"]
            .map(|event| format!("__keyevent@0__:{event}"));
        wanted.sort();
        assert_eq!(told, wanted);
    }
}

#[test]
fn every_look_for_a_missing_key_is_told_as_in_redis() {
    on_every_process(|server| {
        let (mut client, mut listener) = (server.client(), server.client());
        client.expect("CONFIG SET notify-keyspace-events Em", "+OK\r\n");
        listener.call(&["PSUBSCRIBE", "__keyevent@*"]);
        client.expect("RPUSH {t}l 1 2", ":2\r\n");
        client.expect("SET {t}text v", "+OK\r\n");
        for (line, missed) in [
            ("XACK {t}a g 1-1", "{t}a"),
            ("XACK {t}a g x", "{t}a"),
            ("XCLAIM {t}a g c 0 1-1", "{t}a"),
            ("XAUTOCLAIM {t}a g c 0 0", "{t}a"),
            ("XAUTOCLAIM {t}a g c x 0", "{t}a"),
            ("XREAD STREAMS {t}a 0", "{t}a {t}a"),
            ("SORT {t}l BY {t}w* GET {t}o*", "{t}w1 {t}w2 {t}o1 {t}o2"),
            ("SORT_RO {t}l GET # GET {t}o*", "{t}o1 {t}o2"),
            ("SORT {t}l BY {t}w* STORE {t}to", "{t}w1 {t}w2"),
            ("ZUNION 2 {t}l {t}a", ""),
            ("ZUNION 3 {t}a {t}l {t}b", "{t}a"),
            ("ZINTERSTORE {t}to 2 {t}l {t}a", ""),
            ("PFCOUNT {t}text {t}a", ""),
            ("PFCOUNT {t}a {t}text {t}b", "{t}a"),
            ("PFMERGE {t}text {t}a", ""),
        ] {
            let before = server.info_number("keyspace_misses");
            client.call(&words(line));
            let told = messages(&mut listener);
            let wanted: Vec<String> =
                missed.split_whitespace().map(|key| format!("__keyevent@0__:keymiss {key}")).collect();
            assert_eq!(told, wanted, "{line}");
            assert_eq!(server.info_number("keyspace_misses") - before, wanted.len() as u64, "{line}");
        }
        client.expect("SADD {t}set m", ":1\r\n");
        let before = server.info_number("keyspace_hits");
        client.expect("SPOP {t}set 5", "*1\r\n$1\r\nm\r\n");
        assert_eq!(server.info_number("keyspace_hits") - before, 1, "SPOP of all members reads them");
    });
}

/// Commands that do not look for a key find it where nothing has removed it yet.
#[test]
fn a_key_whose_time_has_come_is_removed_as_what_it_is_for_the_command() {
    const PRESENT: &str = "SET {t}k v PX 1";
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--enable-debug-command", "yes", "--save", ""]);
        let (mut client, mut listener) = (server.client(), server.client());
        client.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        client.expect("CONFIG SET notify-keyspace-events Egx", "+OK\r\n");
        listener.call(&["PSUBSCRIBE", "__keyevent@*"]);
        for line in [
            "SINTERSTORE {t}k {t}none",
            "ZUNIONSTORE {t}k 1 {t}none",
            "ZRANGESTORE {t}k {t}none 0 -1",
            "SORT {t}none STORE {t}k",
            "BITOP AND {t}k {t}none",
        ] {
            client.expect(PRESENT, "+OK\r\n");
            std::thread::sleep(Duration::from_millis(5));
            messages(&mut listener);
            let before = server.info_number("rdb_changes_since_last_save");
            client.expect(line, ":0\r\n");
            assert_eq!(messages(&mut listener), ["__keyevent@0__:del {t}k"], "{line}");
            assert_eq!(server.info_number("rdb_changes_since_last_save") - before, 1, "{line}");
            client.expect("DBSIZE", ":0\r\n");
        }
        client.expect(PRESENT, "+OK\r\n");
        std::thread::sleep(Duration::from_millis(5));
        messages(&mut listener);
        client.expect("WATCH {t}k", "+OK\r\n");
        assert!(client.value(&["MEMORY", "USAGE", "{t}k"]).integer() > 0);
        client.expect("MULTI", "+OK\r\n");
        client.expect("PING", "+QUEUED\r\n");
        client.expect("EXEC", "*1\r\n+PONG\r\n");
        assert!(messages(&mut listener).is_empty());
        client.expect("DBSIZE", ":1\r\n");
        // One whose time comes after WATCH is another matter.
        client.expect("SET {t}k v PX 60", "+OK\r\n");
        client.expect("WATCH {t}k", "+OK\r\n");
        std::thread::sleep(Duration::from_millis(80));
        client.expect("MULTI", "+OK\r\n");
        client.expect("PING", "+QUEUED\r\n");
        client.expect("EXEC", "*-1\r\n");
    }
}
