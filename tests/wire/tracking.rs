//! CLIENT TRACKING: who is told of which changes, when, and in which words; and that no client keeps a value that has
//! changed.

use super::conversation::{Pace, check_conversation};
use harness::{
    Client, EVERY_ENGINE, Embedded, Value, effort, on_every_engine, request, script_of, seed, wait_until, words,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

const INVALIDATE: &str = ">2\r\n$10\r\ninvalidate\r\n";

fn invalidated(keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
    format!("{INVALIDATE}*{}\r\n{keys}", keys.matches('$').count())
}

#[test]
fn who_has_read_a_key_is_told_of_its_next_change_as_by_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        c CLIENT TRACKING ON
        d CLIENT TRACKING ON
        c GET k
        a SET k 1
        a SET k 2
        c GET k
        d MGET k l m
        a DEL k m
        c STRLEN k
        c SET k 3
        c HGETALL h
        a HSET h f v
        a HSET h f v
        d HGETALL h
        a HDEL h nosuch
        a HDEL h f
        c EXISTS s t u
        a RPUSH s x
        a RENAME s t
        c LRANGE t 0 -1
        a LPUSHX nosuch x
        a LPOP t
        c TYPE z
        a ZADD z 1 x
        c ZSCORE z x
        a ZADD z 1 x
        a ZADD z 2 x
        c OBJECT ENCODING z
        a EXPIRE z 1000
        c TTL z
        a PERSIST z
        c TOUCH z
        a ZREM z x
        c GETDEL z
        c SET e 1 PX 1
        c XREAD STREAMS x 0
        a XADD x 1-1 f v
        c SORT_RO z2
        a ZADD z2 1 x
        c SINTERCARD 2 i1 i2
        a SADD i2 x
        a SADD i1 x
        c DUMP i1
        a COPY i1 i3 REPLACE
        a MOVE i1 1
        c CLIENT TRACKING OFF
        d GET k
        c GET k
        a SET k 4
    "#,
    );
}

#[test]
fn options_of_tracking_are_those_of_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        c CLIENT TRACKING
        c CLIENT TRACKING MAYBE
        c CLIENT TRACKING ON NOSUCH
        c CLIENT TRACKING ON REDIRECT
        c CLIENT TRACKING ON PREFIX
        c CLIENT TRACKING ON PREFIX a
        c CLIENT TRACKING ON REDIRECT x
        c CLIENT TRACKING ON REDIRECT 0
        c CLIENT TRACKING ON REDIRECT 99999
        c CLIENT TRACKING ON REDIRECT @a REDIRECT @b
        c CLIENT TRACKING ON BCAST OPTIN
        c CLIENT TRACKING ON BCAST OPTOUT
        c CLIENT TRACKING ON OPTIN OPTOUT
        c CLIENT TRACKING ON BCAST PREFIX ab PREFIX a
        c CLIENT TRACKINGINFO
        a CLIENT TRACKINGINFO
        c CLIENT GETREDIR
        c CLIENT CACHING YES
        c CLIENT CACHING
        c CLIENT TRACKING ON OPTIN
        c CLIENT TRACKINGINFO
        c CLIENT GETREDIR
        c CLIENT TRACKING ON OPTOUT
        c CLIENT TRACKING ON BCAST
        c CLIENT CACHING NO
        c CLIENT CACHING MAYBE
        c CLIENT CACHING YES
        c CLIENT TRACKINGINFO
        c CLIENT TRACKING OFF
        c CLIENT TRACKING ON OPTOUT NOLOOP
        c CLIENT TRACKING ON OPTIN
        c CLIENT CACHING YES
        c CLIENT CACHING NO
        c CLIENT TRACKINGINFO
        c CLIENT TRACKING OFF BCAST
        c CLIENT CACHING NO
        c CLIENT TRACKING ON BCAST
        c CLIENT TRACKINGINFO
        c CLIENT TRACKING ON
        c CLIENT TRACKING ON BCAST PREFIX a
        c CLIENT TRACKING OFF
        c CLIENT TRACKING ON BCAST PREFIX ab PREFIX x
        c CLIENT TRACKING ON BCAST PREFIX abc
        c CLIENT TRACKING ON BCAST PREFIX a
        c CLIENT TRACKING ON BCAST PREFIX ac
        c CLIENT TRACKINGINFO
        c CLIENT TRACKING off
        c CLIENT TRACKINGINFO
        c client tracking on noloop
        c CLIENT TRACKINGINFO
        c RESET
        c CLIENT TRACKINGINFO
    "#,
    );
}

#[test]
fn prefixes_and_own_changes_are_told_as_by_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        c CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:
        d CLIENT TRACKING ON BCAST NOLOOP
        a SET a:1 1
        a MSET a:1{t} 1 b:1{t} 2 c:1{t} 3
        c SET a:2 1
        d SET a:2 2
        d MULTI
        d SET a:3{t} 1
        d SET b:3{t} 1
        d SET a:3{t} 2
        d EXEC
        a MULTI
        a INCR b:2{t}
        a INCR a:2{t}
        a INCR a:1{t}
        a EXEC
        a DEL a:1 nosuch
        c CLIENT TRACKING ON BCAST PREFIX c:
        a SET c:1 1
        c CLIENT TRACKING OFF
        d CLIENT TRACKING OFF
        c CLIENT TRACKING ON NOLOOP
        c GET k
        c SET k 1
        a SET k 2
        c GET k
        a SET k 3
        c GET k
        c EVAL "redis.call('set', KEYS[1], 1)" 1 k
        c GET k
        c MULTI
        c SET k 4
        c EXEC
        a SET k 5
    "#,
    );
}

#[test]
fn what_is_to_be_remembered_can_be_chosen_for_each_request_as_in_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        c CLIENT TRACKING ON OPTIN
        d CLIENT TRACKING ON OPTOUT
        c GET k
        d GET k
        a SET k 1
        c CLIENT CACHING YES
        c GET k
        d CLIENT CACHING NO
        d GET k
        a SET k 2
        c CLIENT CACHING YES
        c MULTI
        c GET k
        c GET l
        c EXEC
        c GET m
        a MSET k 3 m 3
        a SET l 3
        d CLIENT CACHING NO
        d MULTI
        d GET k
        d EXEC
        d GET m
        a SET k 4
        a SET m 4
        c CLIENT CACHING YES
        c GETRANGE k 0 1 2
        c GET k
        a SET k 5
        c CLIENT CACHING YES
        c CLIENT GETNAME
        c GET k
        a SET k 6
        c EVAL "return redis.call('get', KEYS[1])" 1 k
        a SET k 7
        c CLIENT CACHING YES
        c EVAL "return redis.call('get', KEYS[1])" 2 k l
        a SET l 8
        a SET k 8
    "#,
    );
}

#[test]
fn messages_can_be_redirected_to_a_subscriber_as_in_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        b SUBSCRIBE __redis__:invalidate
        a CLIENT TRACKING ON REDIRECT @b
        a GET k
        c SET k 1
        a GET k
        a SET k 2
        c CLIENT TRACKING ON REDIRECT @d
        c MGET k l
        a SET k 3
        a SET l 3
        c CLIENT TRACKING ON REDIRECT @b
        c GET k
        a GET k
        a SET k 4
        c CLIENT TRACKING OFF
        c CLIENT TRACKING ON BCAST REDIRECT @b
        a MSET x{t} 1 y{t} 2
        c CLIENT TRACKING OFF
        b UNSUBSCRIBE __redis__:invalidate
        a GET k
        c SET k 5
        b SUBSCRIBE other
        a GET k
        c SET k 6
        b RESET
        a GET k
        c SET k 7
        a CLIENT TRACKING ON
        a GET k
        c SET k 8
        a GET k
        a HELLO 3
        c SET k 9
        a GET k
        a HELLO 2
        c SET k 10
    "#,
    );
}

#[test]
fn a_flush_is_told_to_every_tracking_client_once_as_by_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        b SUBSCRIBE __redis__:invalidate
        a CLIENT TRACKING ON REDIRECT @b
        c CLIENT TRACKING ON
        d CLIENT TRACKING ON BCAST PREFIX x
        c GET k
        a FLUSHALL
        a SET k 1
        c GET k
        c FLUSHDB
        a SET k 2
        c GET k
        c MULTI
        c SET k 3
        c FLUSHDB ASYNC
        c GET k
        c EXEC
        a SET k 4
        a SELECT 1
        c GET k
        a SET k 5
        a EVAL "redis.call('flushall')" 0
    "#,
    );
}

#[test]
fn what_blocks_publishes_or_runs_in_scripts_is_told_after_the_reply_as_by_redis() {
    check_conversation(
        Pace::ReplyFirst,
        r#"
        c CLIENT TRACKING ON
        c LRANGE l 0 -1
        c RPUSH l a
        c LRANGE l 0 -1
        c BLPOP l 1
        c GET n
        c INCR n
        c EVAL "redis.call('get', KEYS[1]); redis.call('set', KEYS[1], 5); return redis.call('incr', KEYS[1])" 1 n
        c EVAL_RO "return redis.call('get', KEYS[1])" 1 n
        a MSET n 1 m 1
        c SUBSCRIBE ch
        c GET n
        a MULTI
        a PUBLISH ch hello
        a SET n 2
        a EXEC
        c UNSUBSCRIBE ch
        c MULTI
        c GET n
        c INCR n
        c GET n
        c INCR n
        c EXEC
        a INCR n
    "#,
    );
}

#[test]
fn a_key_that_expires_is_told_of() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let (mut reader, mut other) = (Client::connect_resp3(server.address()), server.client());
        reader.expect("CLIENT TRACKING ON NOLOOP", "+OK\r\n");
        other.expect("SET k 1 PX 20", "+OK\r\n");
        reader.expect("EXISTS k", ":1\r\n");
        assert_eq!(String::from_utf8(reader.reply()).unwrap(), invalidated(&["k"]));
        other.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        reader.expect("SET k 1 PX 20", "+OK\r\n");
        reader.expect("EXISTS k", ":1\r\n");
        wait_until("the key is due", || other.value(&["EXISTS", "k"]).integer() == 0);
        assert_eq!(String::from_utf8(reader.reply()).unwrap(), invalidated(&["k"]));
        other.expect("DEBUG SET-ACTIVE-EXPIRE 1", "+OK\r\n");
    }
}

#[test]
fn a_connection_is_told_when_the_one_that_gets_its_messages_has_gone() {
    on_every_engine(|server| {
        let (mut reader, mut target) = (Client::connect_resp3(server.address()), server.client());
        let id = target.value(&["CLIENT", "ID"]).integer();
        reader.expect(&format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK\r\n");
        reader.expect("CLIENT GETREDIR", &format!(":{id}\r\n"));
        reader.expect("GET k", "_\r\n");
        let list = server.client().value(&["CLIENT", "LIST"]).text();
        assert!(list.contains(&format!(" redir={id} ")) && list.contains(" flags=t "), "{list}");
        target.expect("QUIT", "+OK\r\n");
        server.client().expect("SET k 1", "+OK\r\n");
        let lost = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n");
        assert_eq!(String::from_utf8(reader.reply()).unwrap(), lost);
        let info = reader.value(&["CLIENT", "TRACKINGINFO"]);
        assert_eq!(info.field("flags").unwrap().byte_strings(), [b"on".to_vec(), b"broken_redirect".to_vec()]);
        let list = server.client().value(&["CLIENT", "LIST"]).text();
        assert!(list.contains(" flags=tR "), "{list}");
        reader.expect("CLIENT TRACKING ON", "+OK\r\n");
        reader.expect("GET k", "$1\r\n1\r\n");
        server.client().expect("SET k 2", "+OK\r\n");
        assert_eq!(String::from_utf8(reader.reply()).unwrap(), invalidated(&["k"]));
    });
}

#[test]
fn a_connection_that_never_subscribed_gets_what_is_redirected_to_it() {
    on_every_engine(|server| {
        let (mut reader, mut writer) = (server.client(), server.client());
        let mut target = Client::connect_resp3(server.address());
        let id = target.value(&["CLIENT", "ID"]).integer();
        reader.expect(&format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK\r\n");
        reader.expect("GET k", "$-1\r\n");
        writer.expect("SET k 1", "+OK\r\n");
        // It is idle all the time.
        assert_eq!(String::from_utf8(target.reply()).unwrap(), invalidated(&["k"]));
        // In RESP2 it gets nothing, however much there would be.
        target.value(&["HELLO", "2"]);
        for _ in 0..3 {
            reader.expect("GET k", "$1\r\n1\r\n");
            writer.expect("SET k 1", "+OK\r\n");
        }
        target.expect("PING", "+PONG\r\n");
        target.value(&["HELLO", "3"]);
        reader.expect("GET k", "$1\r\n1\r\n");
        writer.expect("SET k 2", "+OK\r\n");
        assert_eq!(String::from_utf8(target.reply()).unwrap(), invalidated(&["k"]));
    });
}

#[test]
fn tracked_keys_are_counted_and_bounded_and_forgotten_with_the_last_client() {
    on_every_engine(|server| {
        let figures = || {
            ["tracking_clients", "tracking_total_keys", "tracking_total_items", "tracking_total_prefixes"]
                .map(|name| server.info_number(name))
        };
        let (mut one, mut other) = (Client::connect_resp3(server.address()), Client::connect_resp3(server.address()));
        one.expect("CLIENT TRACKING ON", "+OK\r\n");
        other.expect("CLIENT TRACKING ON", "+OK\r\n");
        let keys: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
        let request_of = |count: usize| [&["MGET".to_owned()], &keys[..count]].concat();
        one.value(&request_of(200));
        other.value(&request_of(100));
        assert_eq!(figures(), [2, 200, 300, 0]);
        server.client().expect("CONFIG SET tracking-table-max-keys 150", "+OK\r\n");
        assert_eq!(figures()[1], 150);
        let told = (0..50).map(|_| one.value_of_next().elements()[1].byte_strings()).collect::<Vec<_>>();
        assert!(told.iter().all(|told| told.len() == 1), "{told:?}");
        one.expect("CLIENT TRACKING OFF", "+OK\r\n");
        drop(other);
        wait_until("nothing is tracked", || figures() == [0; 4]);
        // A third, without others before it.
        one.expect("CLIENT TRACKING ON BCAST PREFIX a PREFIX b", "+OK\r\n");
        assert_eq!(figures(), [1, 0, 0, 2]);
        drop(one);
        wait_until("nothing is tracked", || figures() == [0; 4]);
    });
}

#[test]
fn pipelined_requests_are_remembered_or_not_each_by_itself() {
    on_every_engine(|server| {
        let (mut reader, mut writer) = (Client::connect_resp3(server.address()), server.client());
        let lines = [
            "CLIENT TRACKING ON OPTOUT",
            "GET a",
            "GET b",
            "CLIENT CACHING NO",
            "GET c",
            "GET d",
            "MGET e f g",
            "CLIENT CACHING NO",
            "MGET h i j",
            r#"EVAL "return redis.call('get','k')" 0"#,
            "CLIENT CACHING NO",
            r#"EVAL "return redis.call('get','l')" 0"#,
            r#"EVAL "return redis.call('get','m')" 0"#,
            "CLIENT TRACKING OFF",
            "GET n",
            "CLIENT TRACKING ON",
            "GET o",
        ];
        // What was read before the OFF is forgotten with it.
        let read = |reader: &mut Client, count: usize| {
            let requests: Vec<Vec<Vec<u8>>> = lines[..count].iter().map(|line| words(line)).collect();
            for value in reader.pipeline(&requests) {
                assert!(!matches!(value, Value::Error(_) | Value::Push(_)), "{value:?}");
            }
        };
        let mut told = |reader: &mut Client| {
            ('a'..='o').for_each(|key| writer.expect(&format!("INCR {key}"), ":1\r\n"));
            writer.expect("FLUSHALL", "+OK\r\n");
            let mut told = Vec::new();
            loop {
                match reader.value_of_next().elements()[1].clone() {
                    Value::Null => return told.join(" "),
                    keys => told.extend(keys.byte_strings().into_iter().map(|key| String::from_utf8(key).unwrap())),
                }
            }
        };
        read(&mut reader, 13);
        assert_eq!(told(&mut reader), "a b d e f g k m", "{:?}", server.setup());
        reader.expect("RESET", "+RESET\r\n");
        reader.value(&["HELLO", "3"]);
        read(&mut reader, lines.len());
        assert_eq!(told(&mut reader), "o", "{:?}", server.setup());
    });
}

/// A client that keeps what it has read until it is told of a change.
struct Cache {
    client: Client,
    /// Whether it is not told of its own changes, and must drop what it changes itself.
    spares_own: bool,
    kept: HashMap<String, Value>,
}

impl Cache {
    fn of(address: SocketAddr, options: &str) -> Self {
        let mut client = Client::connect_resp3(address);
        client.expect(&format!("CLIENT TRACKING ON {options}"), "+OK\r\n");
        Self { client, spares_own: options.contains("NOLOOP"), kept: HashMap::new() }
    }

    /// The next reply: messages before it are obeyed.
    fn next(&mut self) -> Value {
        loop {
            let value = self.client.value_of_next();
            let Value::Push(parts) = value else { return value };
            match &parts[1] {
                Value::Null => self.kept.clear(),
                keys => keys.byte_strings().into_iter().for_each(|key| {
                    self.kept.remove(&String::from_utf8(key).unwrap());
                }),
            }
        }
    }

    /// Reads some keys that it does not keep in one of many ways, several requests at once, and keeps the values. Some
    /// of them it changes in the same transaction.
    fn read(&mut self, random: &mut fastrand::Rng) {
        let mut wanted: Vec<String> = KEYS.map(|number| format!("k{number}")).collect();
        wanted.retain(|key| !self.kept.contains_key(key));
        random.shuffle(&mut wanted);
        let mut asked = Vec::new();
        let mut bytes = request(&["PING"]);
        for keys in wanted.chunks(random.usize(1..5)).take(random.usize(1..8)) {
            let mget = ["MGET".to_owned()].into_iter().chain(keys.iter().cloned()).collect::<Vec<_>>();
            let word = |word: &str| vec![word.to_owned()];
            let (requests, at) = match random.u8(0..8) {
                0 => (vec![script_of(&[mget])], 0),
                1 => (vec![word("MULTI"), mget, word("EXEC")], 2),
                2 => {
                    let set = ["SET", &keys[0], "own"].map(str::to_owned).to_vec();
                    (vec![word("MULTI"), mget, set, word("EXEC")], 3)
                }
                _ => (vec![mget], 0),
            };
            requests.iter().for_each(|words| bytes.extend(request(words)));
            asked.push((requests.len(), at, keys.to_vec()));
        }
        self.client.send(&bytes);
        assert_eq!(self.next(), Value::Simple("PONG".into()));
        for (count, at, keys) in asked {
            let value = (0..count).map(|_| self.next()).nth(at).expect("a request has a reply");
            // Those of a transaction and of a script are within another array.
            let values = match &value.elements()[0] {
                Value::Array(values) => values.clone(),
                _ => value.elements().to_vec(),
            };
            assert_eq!(values.len(), keys.len());
            let has_changed = usize::from(self.spares_own && at == 3);
            self.kept.extend(keys.into_iter().zip(values).skip(has_changed));
        }
    }

    /// Checks that what it keeps is what there is, when nothing changes any more.
    fn check(&mut self, truth: &mut Client, told: &str) {
        self.client.send(&request(&["PING"]));
        assert_eq!(self.next(), Value::Simple("PONG".into()));
        for (key, value) in &self.kept {
            assert_eq!(&truth.value(&["GET", key]), value, "{key} {told}");
        }
    }
}

/// The numbers of the keys.
const KEYS: std::ops::Range<u8> = 0..48;

fn key(random: &mut fastrand::Rng) -> String {
    format!("k{}", random.u8(KEYS))
}

fn change(random: &mut fastrand::Rng, number: usize) -> Vec<Vec<String>> {
    let (one, other) = (key(random), key(random));
    let value = number.to_string();
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let set = words(&["SET", &one, &value]);
    match random.u8(0..16) {
        0 => vec![words(&["DEL", &one, &other])],
        1 => vec![words(&["MSET", &one, &value, &other, &value])],
        2 => vec![words(&["SET", &one, &value, "PX", "2"])],
        3 => vec![words(&["RENAME", &one, &other])],
        4 => vec![script_of(&[set, words(&["SET", &other, &value])])],
        5 => vec![words(&["MULTI"]), set, words(&["DEL", &other]), words(&["EXEC"])],
        6 => vec![words(&["COPY", &one, &other, "REPLACE"])],
        7 if number.is_multiple_of(50) => vec![words(&["FLUSHALL"])],
        8 if number.is_multiple_of(50) => vec![words(&["SWAPDB", "0", "1"])],
        _ => vec![set],
    }
}

/// Readers keep what they have read, in each mode, while others change it; in the end none keeps what is not there.
fn check_caches(server: &Embedded, rounds: usize, seed: u64) {
    let is_over = AtomicBool::new(false);
    let address = server.address();
    let options = ["", "NOLOOP", "BCAST", "BCAST PREFIX k1 PREFIX k2", "OPTOUT"];
    let told = |options: &str| format!("{options}: {:?}, SEED={seed}", server.setup());
    let mut caches: Vec<Cache> = std::thread::scope(|scope| {
        let readers: Vec<_> = (options.iter().enumerate())
            .map(|(number, options)| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed + number as u64);
                    let mut cache = Cache::of(address, options);
                    while !is_over.load(Ordering::Relaxed) {
                        cache.read(&mut random);
                    }
                    cache
                })
            })
            .collect();
        let writers: Vec<_> = (0..2u64)
            .map(|number| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed + 100 + number);
                    let mut client = Client::connect(address);
                    let numbers: Vec<usize> = (0..rounds).collect();
                    for some in numbers.chunks(10) {
                        let requests: Vec<_> = some.iter().flat_map(|number| change(&mut random, *number)).collect();
                        client.pipeline(&requests);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let mut truth = Client::connect_resp3(address);
    // What has a deadline has passed it; reading removes it.
    std::thread::sleep(std::time::Duration::from_millis(5));
    KEYS.for_each(|number| _ = truth.value(&["GET", &format!("k{number}")]));
    for (cache, options) in caches.iter_mut().zip(options) {
        if options.contains("PREFIX") {
            // Of others it is not told.
            cache.kept.retain(|key, _| key.starts_with("k1") || key.starts_with("k2"));
        }
        cache.check(&mut truth, &told(options));
    }
}

#[test]
fn no_client_keeps_what_has_changed() {
    let seed = seed();
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &[]);
        for round in 0..effort("TRACKING_ROUNDS", 6) as u64 {
            check_caches(&server, 600, seed + 1000 * round);
        }
    }
}
