//! Redis's RDB format: DUMP and RESTORE, to and from a real redis-server, and forged payloads.

use crc::{CRC_64_REDIS, Crc};
use harness::server::binary;
use harness::{
    Client, Data, EVERY_ENGINE, RedisOracle, Server, Setup, Value, check_script, on_every_engine, run_to_its_end,
    wait_until, words,
};

static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// Requests that create a key of every type in every encoding.
pub fn requests_for_every_type() -> Vec<Vec<Vec<u8>>> {
    let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut add = |command: &str, key: &str, arguments: Vec<String>| {
        let words = [command.to_owned(), key.to_owned()].into_iter().chain(arguments);
        requests.push(words.map(String::into_bytes).collect());
    };
    for (key, value) in [
        ("string:empty", String::new()),
        ("string:text", "text".into()),
        ("string:repeated", "abc".repeat(1000)),
        ("string:-1", "-1".into()),
        ("string:1000", "1000".into()),
        ("string:-100000", "-100000".into()),
        ("string:2147483648", "2147483648".into()),
        ("string:i64", i64::MIN.to_string()),
        ("string:no-integer", "007".into()),
    ] {
        add("SET", key, vec![value]);
    }
    let numbers = |count: i64, step: i64| (0..count).map(|n| (n * step - 3).to_string()).collect::<Vec<_>>();
    let texts = |count: usize, width: usize| (0..count).map(|n| format!("{n:0width$}x")).collect::<Vec<_>>();
    add("RPUSH", "list:small", ["a", "1", "", "-70000"].map(str::to_owned).to_vec());
    add("RPUSH", "list:large", texts(500, 100));
    add("RPUSH", "list:huge-elements", vec!["y".repeat(20_000), "1".into(), "z".repeat(100_000)]);
    add("SADD", "set:intset16", numbers(100, 7));
    add("SADD", "set:intset32", numbers(100, 70_000));
    add("SADD", "set:intset64", numbers(100, 1 << 50));
    add("SADD", "set:small", texts(10, 5));
    add("SADD", "set:large", texts(300, 5));
    add("SADD", "set:integers", numbers(1000, 3));
    let pairs = |count: usize, width: usize| -> Vec<String> {
        (0..count).flat_map(|n| [format!("field:{n}"), format!("{n:0width$}")]).collect()
    };
    add("HSET", "hash:small", pairs(20, 3));
    add("HSET", "hash:large", pairs(700, 3));
    add("HSET", "hash:long", pairs(3, 200));
    let scored = |count: usize| -> Vec<String> {
        (0..count).flat_map(|n| [format!("{}", n as f64 / 8.0 - 3.0), format!("member:{n}")]).collect()
    };
    add("ZADD", "zset:small", scored(20));
    add("ZADD", "zset:large", scored(300));
    add("ZADD", "zset:ends", ["-inf", "a", "+inf", "b", "0", "c", "1.5", "5"].map(str::to_owned).to_vec());
    for n in 1..250 {
        let mut words = vec![format!("{n}-{}", n % 3), "field".into(), n.to_string()];
        if n % 40 == 0 {
            words.extend(["other".to_owned(), "value".repeat(10)]);
        }
        add("XADD", "stream", words);
    }
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    add("XDEL", "stream", words("5-2 6-0 200-2"));
    add("XADD", "stream:empty", words("9-9 a b"));
    add("XDEL", "stream:empty", words("9-9"));
    for line in ["CREATE stream g1 0", "CREATE stream g2 100", "CREATECONSUMER stream g1 idle"] {
        let (subcommand, rest) = line.split_once(' ').unwrap();
        add("XGROUP", subcommand, words(rest));
    }
    add("XREADGROUP", "GROUP", words("g1 alice COUNT 20 STREAMS stream >"));
    add("XREADGROUP", "GROUP", words("g1 bob COUNT 7 STREAMS stream >"));
    add("XACK", "stream", words("g1 1-1 2-2 25-1"));
    requests
}

/// The replies of commands about a key, in an order that does not depend on the server.
fn described(client: &mut Client, key: &str) -> Vec<Value> {
    let mut reply = |words: &[&str]| client.value(words);
    let kind = reply(&["TYPE", key]).text();
    let sorted = |value: Value, each: usize| {
        let strings = value.byte_strings();
        let mut groups: Vec<Vec<Vec<u8>>> = strings.chunks(each).map(<[_]>::to_vec).collect();
        groups.sort();
        groups.into_iter().flatten().map(Value::Bulk).collect::<Vec<_>>()
    };
    match kind.as_str() {
        "string" => vec![reply(&["GET", key])],
        "list" => vec![reply(&["LRANGE", key, "0", "-1"])],
        "set" => sorted(reply(&["SMEMBERS", key]), 1),
        "hash" => sorted(reply(&["HGETALL", key]), 2),
        "zset" => vec![reply(&["ZRANGE", key, "0", "-1", "WITHSCORES"])],
        "stream" => {
            let mut parts = vec![
                reply(&["XRANGE", key, "-", "+"]),
                reply(&["XINFO", "STREAM", key]).field("max-deleted-entry-id").cloned().unwrap(),
                reply(&["XINFO", "STREAM", key]).field("entries-added").cloned().unwrap(),
                reply(&["XINFO", "STREAM", key]).field("last-generated-id").cloned().unwrap(),
                reply(&["XINFO", "GROUPS", key]),
            ];
            for group in ["g1", "g2"] {
                // If there is no such group, both reply the same error.
                parts.push(reply(&["XPENDING", key, group]));
                let consumers = reply(&["XINFO", "CONSUMERS", key, group]);
                if let Value::Array(consumers) = consumers {
                    parts.extend(consumers.iter().map(|consumer| consumer.field("name").cloned().unwrap()));
                    parts.extend(consumers.iter().map(|consumer| consumer.field("pending").cloned().unwrap()));
                }
            }
            parts
        }
        _ => panic!("{key} is of type {kind}"),
    }
}

fn keys(client: &mut Client) -> Vec<String> {
    let mut keys: Vec<String> =
        client.value(&["KEYS", "*"]).byte_strings().into_iter().map(|key| String::from_utf8(key).unwrap()).collect();
    keys.sort();
    keys
}

/// Checks that two servers hold the same keys.
pub fn assert_same_keys(one: &mut Client, other: &mut Client) {
    let names = keys(one);
    assert_eq!(names, keys(other));
    for key in &names {
        assert_eq!(described(one, key), described(other, key), "{key}");
    }
}

fn transfer(from: &mut Client, to: &mut Client) {
    for key in keys(from) {
        let payload = from.value(&["DUMP", &key]).bytes().to_vec();
        let reply = to.call(&[b"RESTORE".as_slice(), key.as_bytes(), b"0", &payload]);
        assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n", "RESTORE {key}");
    }
}

#[test]
fn every_type_goes_to_redis_and_comes_from_it() {
    let oracle = RedisOracle::start_with(&["--enable-debug-command", "yes"]);
    let requests = requests_for_every_type();
    oracle.client().pipeline(&requests);
    on_every_engine(|server| {
        let (mut ours, mut theirs) = (server.client(), oracle.client());
        transfer(&mut theirs, &mut ours);
        assert_same_keys(&mut ours, &mut theirs);
        ours.call(&["FLUSHALL"]);
        let errors = ours.pipeline(&requests).into_iter().filter(|reply| matches!(reply, Value::Error(_)));
        assert_eq!(errors.collect::<Vec<_>>(), []);
        theirs.expect("SELECT 1", "+OK\r\n");
        theirs.expect("FLUSHDB", "+OK\r\n");
        transfer(&mut ours, &mut theirs);
        assert_same_keys(&mut ours, &mut theirs);
        // Restored values can be changed.
        for client in [&mut ours, &mut theirs] {
            client.call(&["XADD", "stream", "300-1", "field", "v"]);
            client.call(&["XTRIM", "stream", "MAXLEN", "~", "120"]);
            client.call(&["RPUSH", "list:large", "more"]);
            client.call(&["HSET", "hash:small", "more", "1"]);
            client.call(&["ZADD", "zset:small", "2.5", "more"]);
            client.call(&["SADD", "set:intset16", "more"]);
        }
        assert_same_keys(&mut ours, &mut theirs);
        theirs.expect("DEBUG RELOAD", "+OK\r\n");
        theirs.expect("SELECT 1", "+OK\r\n");
        assert_same_keys(&mut ours, &mut theirs);
    });
}

#[test]
fn older_forms_are_read() {
    // As Redis 2.8, 5 and 6.2 dumped them.
    let with_crc = |value: &[u8], version: u8| {
        let payload = [value, &[version, 0]].concat();
        [&payload[..], &CRC64.checksum(&payload).to_le_bytes()].concat()
    };
    let ziplist = b"\x13\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\x01b\xff".to_vec();
    let ziplist = [&[ziplist.len() as u8][..], &(ziplist.len() as u32).to_le_bytes(), &ziplist[4..]].concat();
    let pairs = b"\x00\x00\x00\x00\x12\x00\x00\x00\x04\x00\x00\x01a\x03\xf2\x02\x01b\x03\xf3\xff".to_vec();
    let pairs = [&[pairs.len() as u8][..], &(pairs.len() as u32).to_le_bytes(), &pairs[4..]].concat();
    let cases: [(&[u8], &str, &[u8]); 9] = [
        (b"\x01\x02\x01a\xC0\x05", "LRANGE key 0 -1", b"*2\r\n$1\r\na\r\n$1\r\n5\r\n"),
        (&[&[10], &ziplist[..]].concat(), "LRANGE key 0 -1", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        (&[&[14, 1], &ziplist[..]].concat(), "LRANGE key 0 -1", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        (&[&[13], &ziplist[..]].concat(), "HGETALL key", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        (
            &[&[12], &pairs[..]].concat(),
            "ZRANGE key 0 -1 WITHSCORES",
            b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n",
        ),
        (
            b"\x03\x02\x01a\x031.5\x01b\xFE",
            "ZRANGE key 0 -1 WITHSCORES",
            b"*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$3\r\ninf\r\n",
        ),
        (b"\x09\x0B\x01\x03foo\x03\x00bar\xff", "HGETALL key", b"*2\r\n$3\r\nfoo\r\n$3\r\nbar\r\n"),
        (b"\x14\x0C\x0C\x00\x00\x00\x02\x00\x81a\x02\x05\x01\xff", "SMISMEMBER key a 5 b", b"*3\r\n:1\r\n:1\r\n:0\r\n"),
        (b"\x00\xC3\x06\x40\x64\x01aa\xE0\x59\x00", "STRLEN key", b":100\r\n"),
    ];
    on_every_engine(|server| {
        let mut client = server.client();
        for (value, request, wanted) in &cases {
            let payload = with_crc(value, 6);
            let reply = client.call(&[b"RESTORE".as_slice(), b"key", b"0", &payload, b"REPLACE"]);
            assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n", "{}", value.escape_ascii());
            client.expect(request, std::str::from_utf8(wanted).unwrap());
        }
    });
}

#[test]
fn dump_and_restore_reply_as_redis_does() {
    check_script(
        r#"
        DUMP nothing
        $-1
        SET number 10
        +OK
        DUMP number
        $13 | \x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb
        RESTORE other 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb"
        +OK
        GET other
        $2 | 10
        TTL other
        :-1
        RESTORE other 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb"
        -BUSYKEY Target key name already exists.
        RESTORE other x garbage
        -BUSYKEY Target key name already exists.
        RESTORE other 0 garbage REPLACE
        -ERR DUMP payload version or checksum are wrong
        RESTORE other x "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE
        -ERR value is not an integer or out of range
        RESTORE other -1 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE
        -ERR Invalid TTL value, must be >= 0
        RESTORE other 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbc" REPLACE
        -ERR DUMP payload version or checksum are wrong
        RESTORE other 100000 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE
        +OK
        TTL other
        :100
        RESTORE other 33177117420000 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE ABSTTL
        +OK
        PEXPIRETIME other
        :33177117420000
        RESTORE other 1 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" REPLACE ABSTTL
        +OK
        EXISTS other
        :0
        RESTORE other 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb" IDLETIME 1000
        +OK
        RESTORE other 0 x REPLACE IDLETIME -1
        -ERR Invalid IDLETIME value, must be >= 0
        RESTORE other 0 x REPLACE FREQ 256
        -ERR Invalid FREQ value, must be >= 0 and <= 255
        RESTORE other 0 x REPLACE FREQ x
        -ERR value is not an integer or out of range
        RESTORE other 0 x IDLETIME 1 FREQ 1
        -ERR syntax error
        RESTORE other 0 x IDLETIME
        -ERR syntax error
        RESTORE other 0 x nosuch
        -ERR syntax error
        RESTORE other 0
        -ERR wrong number of arguments for 'restore' command
        DUMP
        -ERR wrong number of arguments for 'dump' command
        GET other
        $2 | 10
        "#,
    );
}

#[test]
fn bad_payloads_with_a_right_checksum_are_refused_and_change_nothing() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("SET key kept", "+OK\r\n");
        let mut random = fastrand::Rng::with_seed(7);
        let mut bad: Vec<Vec<u8>> = [
            b"\x05\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF".as_slice(),
            b"\x02\x00",
            b"\xC8abc",
            b"\x07",
            b"\x10\x05abcde",
        ]
        .map(<[u8]>::to_vec)
        .to_vec();
        bad.extend((0..200).map(|_| (0..30).map(|_| random.u8(1..)).collect::<Vec<u8>>()));
        let requests: Vec<Vec<Vec<u8>>> = bad
            .iter()
            .map(|value| {
                [b"RESTORE".as_slice(), b"new", b"0", &with_crc(value), b"REPLACE"].map(<[u8]>::to_vec).to_vec()
            })
            .collect();
        for (reply, value) in client.pipeline(&requests).iter().zip(&bad) {
            let is_refused = *reply == Value::Error(b"ERR Bad data format".to_vec());
            assert!(is_refused || *reply == Value::Simple(b"OK".to_vec()), "{}: {reply:?}", value.escape_ascii());
        }
        for value in &bad[..5] {
            let reply = client.value(&[b"RESTORE".as_slice(), b"key", b"0", &with_crc(value), b"REPLACE"]);
            assert_eq!(reply, Value::Error(b"ERR Bad data format".to_vec()), "{}", value.escape_ascii());
        }
        client.expect("GET key", "$4\r\nkept\r\n");
        server.assert_serving();
    });
}

fn with_crc(value: &[u8]) -> Vec<u8> {
    let payload = [value, &[10, 0]].concat();
    [&payload[..], &CRC64.checksum(&payload).to_le_bytes()].concat()
}

/// Redis refuses them, too: the old forms by default, the counts of a stream if `sanitize-dump-payload` is yes.
#[test]
fn what_a_packed_value_says_of_itself_must_be_so() {
    let ziplist = |last: u8, before: u8| {
        [b"\x11\x00\x00\x00", &[last, 0, 0, 0][..], b"\x02\x00\x00\x01a", &[before], b"\x01b\xff"].concat()
    };
    let list = |ziplist: &[u8]| [&[14, 1, ziplist.len() as u8], ziplist].concat();
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--loglevel", "verbose"]);
        let mut client = server.client();
        let mut restore =
            |value: &[u8]| client.value(&[b"RESTORE".as_slice(), b"key", b"0", &with_crc(value), b"REPLACE"]);
        let refused = Value::Error(b"ERR Bad data format".to_vec());
        assert_eq!(restore(&list(&ziplist(13, 3))), Value::Simple(b"OK".to_vec()));
        // A length of the element before, the position of the last, and a single element without bytes.
        for bad in [list(&ziplist(13, 2)), list(&ziplist(10, 3)), b"\x12\x01\x01\x00".to_vec()] {
            assert_eq!(restore(&bad), refused, "{setup:?}: {}", bad.escape_ascii());
        }
        client.expect("LRANGE key 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
        for line in ["DEL key", "XADD key 1-1 f v", "XADD key 1-2 f v", "XDEL key 1-1"] {
            client.call(&words(line));
        }
        let Value::Bulk(dumped) = client.value(&["DUMP", "key"]) else { panic!("it is there") };
        let dumped = &dumped[..dumped.len() - 10];
        let (start, len) = (20, usize::from(dumped[19]));
        // How many live, how many are deleted; how many elements the last entry has.
        for at in [start + 6, start + 8, start + len - 3] {
            let mut bad = dumped.to_vec();
            bad[at] ^= 3;
            let reply = client.value(&[b"RESTORE".as_slice(), b"other", b"0", &with_crc(&bad)]);
            assert_eq!(reply, refused, "{setup:?}: byte {at} of {}", dumped.escape_ascii());
        }
        assert_eq!(client.value(&[b"RESTORE".as_slice(), b"other", b"0", &with_crc(dumped)]).text(), "OK");
        for reason in ["Ziplist", "Quicklist listpack", "Stream listpack"] {
            server.wait_for_log(&format!("{reason} integrity check failed"));
        }
    }
}

#[test]
fn payloads_with_a_wrong_checksum_are_taken_where_debug_says_so_and_can_be_replayed() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        let mut payload = with_crc(b"\x01\x01\x01a");
        *payload.last_mut().unwrap() ^= 1;
        let restore = [b"RESTORE".as_slice(), b"key", b"0", &payload, b"REPLACE"];
        let refused = "ERR DUMP payload version or checksum are wrong";
        assert_eq!(client.value(&restore).text(), refused);
        client.expect("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK\r\n");
        assert_eq!(client.value(&restore).text(), "OK");
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        client.expect("LRANGE key 0 -1", "*1\r\n$1\r\na\r\n");
        // Its contents are checked nevertheless.
        let empty = with_crc(b"\x01\x00");
        assert_eq!(client.value(&[b"RESTORE".as_slice(), b"other", b"0", &empty]).text(), "ERR Bad data format");
        client.expect("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0", "+OK\r\n");
        assert_eq!(client.value(&restore).text(), refused);
        for value in ["no", "clients", "yes"] {
            client.expect(&format!("CONFIG SET sanitize-dump-payload {value}"), "+OK\r\n");
        }
        let server = server.kill().start(setup, &[]);
        server.client().expect("LRANGE key 0 -1", "*1\r\n$1\r\na\r\n");
    }
}

#[test]
fn restored_keys_survive_a_kill_with_their_deadlines() {
    for setup in EVERY_ENGINE {
        let requests = requests_for_every_type();
        let source = Server::start(setup, &[]);
        let mut from = source.client();
        from.pipeline(&requests);
        let server = Server::start(setup, &[]);
        let mut to = server.client();
        transfer(&mut from, &mut to);
        let payload = from.value(&["DUMP", "list:small"]).bytes().to_vec();
        let words = [b"RESTORE".as_slice(), b"until", b"0", &payload, b"IDLETIME", b"1000"];
        assert_eq!(to.value(&words), Value::Simple(b"OK".to_vec()));
        let idle = to.value(&["OBJECT", "IDLETIME", "until"]).integer();
        assert!((1000..1100).contains(&idle), "{idle}");
        to.expect("DEL until", ":1\r\n");
        for (key, ttl) in [("until", "100000"), ("late", "1")] {
            let absolute: &[&[u8]] = if key == "late" { &[b"ABSTTL"] } else { &[] };
            let words = [b"RESTORE".as_slice(), key.as_bytes(), ttl.as_bytes(), &payload];
            assert_eq!(to.value(&[&words, absolute].concat()), Value::Simple(b"OK".to_vec()));
        }
        let deadline = to.value(&["PEXPIRETIME", "until"]);
        let server = server.kill().start(setup, &[]);
        let mut to = server.client();
        assert_eq!(to.value(&["PEXPIRETIME", "until"]), deadline);
        to.expect("EXISTS late", ":0\r\n");
        to.expect("DEL until", ":1\r\n");
        assert_same_keys(&mut from, &mut to);
    }
}

/// The output of an import, and the directory that it has made.
fn import(path: &std::path::Path, setup: Setup) -> (Data, String) {
    let data = Data::new();
    let mut command = std::process::Command::new(harness::server::binary());
    command.arg("import").arg(path).arg("--dir").arg(data.path());
    command.args(["--engine", setup.engine, "--shards", &setup.shards.to_string()]);
    let ended = run_to_its_end(&mut command);
    assert!(ended.status.success(), "{ended:?}");
    (data, ended.stdout)
}

/// Fills several databases of a server, with keys that expire.
pub fn fill(client: &mut Client) {
    for database in [0, 3, 15] {
        client.value(&["SELECT", &database.to_string()]);
        client.pipeline(&requests_for_every_type());
        client.expect("SET until v PXAT 33177117420000", "+OK\r\n");
        client.expect("PEXPIREAT hash:small 33177117430000", ":1\r\n");
    }
    client.expect("SELECT 7", "+OK\r\n");
    client.expect("SET late v PX 1", "+OK\r\n");
    client.expect("SELECT 0", "+OK\r\n");
}

pub fn assert_filled_alike(one: &mut Client, other: &mut Client) {
    for database in [0, 3, 15] {
        for client in [&mut *one, &mut *other] {
            client.value(&["SELECT", &database.to_string()]);
            client.expect("PEXPIRETIME until", ":33177117420000\r\n");
            client.expect("PEXPIRETIME hash:small", ":33177117430000\r\n");
        }
        assert_same_keys(one, other);
    }
    for client in [one, other] {
        client.expect("SELECT 7", "+OK\r\n");
        client.expect("EXISTS late", ":0\r\n");
    }
}

#[test]
fn a_snapshot_of_redis_is_imported() {
    let oracle = RedisOracle::start();
    let mut theirs = oracle.client();
    fill(&mut theirs);
    theirs.expect("SAVE", "+OK\r\n");
    for setup in EVERY_ENGINE {
        let (data, report) = import(&oracle.dir().join("dump.rdb"), setup);
        assert!(report.contains("snapshot of Redis 7.0.15 (RDB 10)"), "{report}");
        assert!(report.contains(" keys in 3 databases written to "), "{report}");
        assert_filled_alike(&mut data.start(setup, &[]).client(), &mut theirs);
    }
}

#[test]
fn a_log_of_redis_is_imported() {
    for preamble in ["yes", "no"] {
        // Under everysec an acknowledged write may wait for an fsync before it gets into the file.
        let log = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble];
        let oracle = RedisOracle::start_with(&log);
        let mut theirs = oracle.client();
        theirs.pipeline(&requests_for_every_type()[..10]);
        theirs.expect("SET gone v", "+OK\r\n");
        theirs.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("the rewrite", || {
            theirs
                .value(&["INFO", "persistence"])
                .text()
                .contains("aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0")
        });
        fill(&mut theirs);
        for line in [
            "DEL gone",
            "MULTI",
            "SPOP set:large 5",
            "INCRBYFLOAT string:1000 0.5",
            "EXEC",
            "RPOPLPUSH list:large list:small",
        ] {
            theirs.call(&words(line));
        }
        for setup in EVERY_ENGINE {
            let (data, report) = import(&oracle.dir().join("appendonlydir"), setup);
            assert!(report.contains("incr.aof: log, "), "{report}");
            assert!(!report.contains("left out"), "{report}");
            assert_filled_alike(&mut data.start(setup, &[]).client(), &mut theirs);
        }
        theirs.expect("SELECT 0", "+OK\r\n");
    }
}

#[test]
fn an_import_says_what_it_cannot_read_and_leaves_no_log() {
    let files = Data::new();
    let data = Data::new();
    let refused = |path: &std::path::Path| {
        let mut command = std::process::Command::new(harness::server::binary());
        let ended = run_to_its_end(command.arg("import").arg(path).arg("--dir").arg(data.path()));
        assert!(!ended.status.success() && !data.path().join("appendonlydir").exists(), "{ended:?}");
        ended.stderr
    };
    for (bytes, wanted) in [
        (b"REDIS0013\xFF".as_slice(), "RDB version 13; those of Redis up to 12"),
        (b"VALKEY081\xFF", "Valkey's RDB version 81; those of Redis up to 12 and that of Valkey, 80"),
        (b"REDIS0080\xFF", "it is of RDB version 80"),
        (b"REDIS0010\x00\x01a", "at byte 9: it is damaged, or ends"),
        (b"REDIS0010\xFE\x20\x00\x01a\x01b\xFF", "a database 32"),
        (b"REDIS0010\xFF\x01\x00\x00\x00\x00\x00\x00\x00", "its checksum is wrong"),
        (b"nonsense", "no command begins there"),
        (b"*1\r\n$6\r\nNOSUCH\r\n", "at byte 0: the command NOSUCH is not known here"),
    ] {
        let path = files.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        let said = refused(&path);
        assert!(said.contains(wanted), "{said}");
    }
    assert!(refused(&files.path().join("nothing")).contains("nothing: "));
    assert!(refused(files.path()).contains("no manifest"));
    let log = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n#TS:1\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
    std::fs::write(files.path().join("appendonly.aof"), log).unwrap();
    let setup = EVERY_ENGINE[0];
    let (data, report) = import(&files.path().join("appendonly.aof"), setup);
    assert!(report.contains("log, 1 commands; the last 35 bytes"), "{report}");
    data.start(setup, &[]).client().expect("GET a", "$1\r\n1\r\n");
    let mut command = std::process::Command::new(harness::server::binary());
    let again = run_to_its_end(command.arg("import").arg(files.path()).arg("--dir").arg(data.path()));
    assert!(again.stderr.contains("holds a log already"), "{again:?}");
}

/// It is refused because of its length, before its bytes are read: they need not exist.
#[test]
fn an_import_of_a_string_that_cannot_be_held_names_its_key_and_the_file() {
    let files = Data::new();
    let path = files.path().join("dump.rdb");
    let refused = |wanted: &str| {
        let data = Data::new();
        let mut command = std::process::Command::new(binary());
        let ended = run_to_its_end(command.arg("import").arg(&path).arg("--dir").arg(data.path()));
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains(&format!("{}: {wanted}", path.display())), "{ended:?}");
        assert!(!data.path().join("appendonlydir").exists());
    };
    for len in [1_u64 << 31, (1 << 32) + 5] {
        std::fs::write(&path, [b"REDIS0010\x00\x03big\x81".as_slice(), &len.to_be_bytes()].concat()).unwrap();
        refused(&format!("at byte 9: the value of the key big: a string of {len} bytes"));
        // In a log it is an argument.
        std::fs::write(&path, format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${len}\r\n")).unwrap();
        refused("at byte 0: invalid bulk length in SET of the key big");
    }
}

#[test]
fn redis_loads_what_save_and_bgsave_write() {
    for (setup, command) in EVERY_ENGINE.into_iter().zip(["SAVE", "BGSAVE", "SAVE", "BGSAVE", "BGSAVE"]) {
        println!("{command} on {setup:?}");
        let server = Server::start(setup, &["--dbfilename", "snapshot.rdb"]);
        let mut ours = server.client();
        fill(&mut ours);
        let started = ours.value(&["LASTSAVE"]).integer();
        assert!(server.info_number("rdb_changes_since_last_save") > 100);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let reply = if command == "SAVE" { "+OK\r\n" } else { "+Background saving started\r\n" };
        ours.expect(command, reply);
        // What follows the snapshot is not in it.
        ours.expect("SET behind v", "+OK\r\n");
        wait_until("the snapshot", || server.info_number("rdb_bgsave_in_progress") == 0);
        assert_eq!(server.info_number("rdb_changes_since_last_save"), 1);
        assert_eq!((server.info_number("rdb_saves"), server.info()["rdb_last_bgsave_status"].as_str()), (1, "ok"));
        assert!(ours.value(&["LASTSAVE"]).integer() >= started);
        let oracle = RedisOracle::start_with_snapshot(&server.data().path().join("snapshot.rdb"));
        let mut theirs = oracle.client();
        theirs.expect("EXISTS behind", ":0\r\n");
        ours.expect("DEL behind", ":1\r\n");
        assert_filled_alike(&mut ours, &mut theirs);
        let files = std::fs::read_dir(server.data().path()).unwrap().count();
        assert_eq!(files, 2, "the log and the snapshot");
    }
}

#[test]
fn snapshots_are_as_small_as_those_of_redis_unless_they_are_not_to_be_compressed() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        fill(&mut client);
        for user in 0..500 {
            let profile =
                format!(r#"{{"id":{user},"name":"user {user}","mail":"user{user}@example.com","active":true}}"#);
            client.value(&["SET", &format!("user:{user}"), &[&*profile; 5].join(",")]);
        }
        let file = server.data().path().join("dump.rdb");
        let mut size = |config: &str| {
            client.expect(config, "+OK\r\n");
            client.expect("SAVE", "+OK\r\n");
            std::fs::metadata(&file).unwrap().len()
        };
        let (plain, compressed) = (size("CONFIG SET rdbcompression no"), size("CONFIG SET rdbcompression yes"));
        let oracle = RedisOracle::start_with_snapshot(&file);
        let mut theirs = oracle.client();
        theirs.expect("SAVE", "+OK\r\n");
        let of_redis = std::fs::metadata(oracle.dir().join("dump.rdb")).unwrap().len();
        assert!(compressed * 2 < plain && compressed * 10 < of_redis * 11, "{plain}, {compressed}; Redis: {of_redis}");
        client.expect("DEBUG RELOAD", "+OK\r\n");
        assert_filled_alike(&mut client, &mut theirs);
    }
}

/// A Redis that loads it makes room for them at once, instead of rebuilding its table as it grows.
#[test]
fn a_snapshot_says_how_many_keys_follow_in_each_database() {
    on_every_engine(|server| {
        let mut client = server.client();
        for (database, count, expiring) in [(0, 300, 20), (5, 9, 0)] {
            client.call(&["SELECT", &database.to_string()]);
            let key = |n: usize| format!("key:{n}");
            (0..count).for_each(|n| assert_eq!(client.call(&["SET", &key(n), "v"]), b"+OK\r\n"));
            (0..expiring).for_each(|n| assert_eq!(client.call(&["EXPIRE", &key(n), "1000"]), b":1\r\n"));
        }
        for command in ["SAVE", "BGSAVE"] {
            client.value(&[command]);
            wait_until("the snapshot", || server.info_number("rdb_bgsave_in_progress") == 0);
            let snapshot = std::fs::read(server.data().path().join("dump.rdb")).unwrap();
            // A database is selected, and its hint has the numbers of keys and of those that expire: 300 takes two
            // bytes.
            let hints: [&[u8]; 2] = [&[0xFE, 0, 0xFB, 0x41, 0x2C, 20], &[0xFE, 5, 0xFB, 9, 0]];
            for hint in hints {
                let found = snapshot.windows(hint.len()).filter(|bytes| *bytes == hint).count();
                assert_eq!(found, 1, "{command} on {:?}: {hint:?}", server.setup());
            }
        }
    });
}

#[test]
fn a_snapshot_is_one_moment_of_all_shards() {
    on_every_engine(|server| {
        let mut client = server.client();
        (0..PAIRS).for_each(|pair| drop(write_pair(&mut client, pair, 0)));
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Round after round every pair is set to the round's number, both keys at once.
            scope.spawn(|| {
                let mut client = server.client();
                for write in PAIRS.. {
                    write_pair(&mut client, write % PAIRS, write / PAIRS);
                    if is_done.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for command in ["SAVE", "BGSAVE", "SAVE", "BGSAVE", "BGSAVE"] {
                client.value(&[command]);
                wait_until("the snapshot", || server.info_number("rdb_bgsave_in_progress") == 0);
                check_pairs(&std::fs::read(server.data().path().join("dump.rdb")).unwrap(), command);
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

const PAIRS: usize = 20_000;

fn write_pair(client: &mut Client, pair: usize, round: usize) -> Value {
    client.value(&["MSET", &format!("a:{pair}"), &round.to_string(), &format!("b:{pair}"), &round.to_string()])
}

/// At one moment the two keys of a pair are equal, and the rounds of the pairs decrease once, by one.
fn check_pairs(snapshot: &[u8], what: &str) {
    let mut rounds: [Vec<Option<String>>; 2] = [vec![None; PAIRS], vec![None; PAIRS]];
    let summary = shardrace::internals::rdb::read_file(
        snapshot,
        &shardrace::internals::keyspace::Settings::default(),
        &mut |key| {
            let name = String::from_utf8(key.key.to_vec()).unwrap();
            let (side, pair) = name.split_once(':').unwrap();
            let before =
                rounds[usize::from(side == "b")][pair.parse::<usize>().unwrap()].replace(format!("{:?}", key.value));
            assert_eq!(before, None, "{what}: {name} is there twice");
            Ok(())
        },
    );
    assert_eq!(summary.unwrap().keys, 2 * PAIRS as u64, "{what}");
    let [a, b] = rounds;
    assert!(a == b, "{what}: the keys of a pair differ");
    let changes = a.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes <= 1, "{what}: {changes} changes of the round");
}

#[test]
fn one_image_is_taken_at_a_time() {
    on_every_engine(|server| {
        let mut client = server.client();
        (0..PAIRS).for_each(|pair| drop(write_pair(&mut client, pair, 0)));
        let in_the_way = "-ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in \
                          order to schedule a BGSAVE whenever possible.\r\n";
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        // Until it has begun, snapshots may begin.
        wait_until("the rewriting", || client.call(&["BGSAVE"]) == in_the_way.as_bytes());
        let before = server.info_number("rdb_saves");
        client.expect("BGSAVE SCHEDULE", "+Background saving scheduled\r\n");
        wait_until("the snapshot", || server.info_number("rdb_saves") > before);
        assert_eq!(server.info_number("aof_rewrites"), 1);
        check_pairs(&std::fs::read(server.data().path().join("dump.rdb")).unwrap(), "BGSAVE SCHEDULE");
    });
}

#[test]
fn a_server_that_ends_leaves_nothing_of_a_snapshot_that_it_was_making() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[2], EVERY_ENGINE[4]] {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        (0..PAIRS).for_each(|pair| drop(write_pair(&mut client, pair, 0)));
        client.expect("BGSAVE", "+Background saving started\r\n");
        assert_eq!(server.info_number("rdb_bgsave_in_progress"), 1, "{setup:?}: it takes no time");
        let data = server.data().path().to_owned();
        let unfinished = || {
            let names =
                std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with("temp-")).collect::<Vec<_>>()
        };
        wait_until("its file is there", || unfinished().len() == 1);
        let (status, _data, log) = server.stop();
        assert!(status.success(), "{setup:?}: {status}: {log}");
        assert_eq!(unfinished(), [""; 0], "{setup:?}");
    }
}

#[test]
fn a_snapshot_that_cannot_be_written_is_an_error_and_the_old_one_stays() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("MULTI", "+OK\r\n");
        client.expect("SAVE", "-ERR Command not allowed inside a transaction\r\n");
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("BGSAVE nosuch", "-ERR syntax error\r\n");
        // A directory that is not empty cannot be replaced by a file.
        let target = server.data().path().join("dump.rdb");
        std::fs::create_dir_all(target.join("inside")).unwrap();
        client.expect("SET k v", "+OK\r\n");
        client.expect("SAVE", "-ERR\r\n");
        // As in Redis: the client has received the error, and writes continue.
        assert_eq!(server.info()["rdb_last_bgsave_status"], "ok");
        assert_eq!(server.info_number("rdb_changes_since_last_save"), 1);
        client.expect("BGSAVE", "+Background saving started\r\n");
        wait_until("the failure", || server.info()["rdb_last_bgsave_status"] == "err");
        assert!(target.join("inside").exists());
        std::fs::remove_dir_all(&target).unwrap();
        client.expect("MULTI", "+OK\r\n");
        client.expect("BGSAVE SCHEDULE", "+QUEUED\r\n");
        client.expect("EXEC", "*1\r\n+Background saving scheduled\r\n");
        wait_until("the snapshot", || server.info_number("rdb_saves") == 1);
        assert!(target.is_file());
        server.assert_serving();
    });
}

/// The texts of redis-server 7.0.15: a directory that accepts no file is noticed when the snapshot is being written.
#[test]
fn changes_are_counted_as_redis_counts_them() {
    const REQUESTS: [&str; 20] = [
        "RPUSH l a b c",
        "LMOVE l m LEFT RIGHT",
        "RPOPLPUSH l l",
        "BLMOVE l m LEFT RIGHT 0",
        "BLPOP l m 0",
        "RENAME l n",
        "RENAMENX n o",
        "COPY o p",
        "SADD s a b c",
        "SMOVE s t a",
        "SUNIONSTORE u s t",
        "MSET a 1 b 2 c 3",
        "DEL a b nosuch",
        "HSET h a 1 b 2",
        "HINCRBY h a 1",
        "ZADD z 1 a 2 b",
        "ZADD z 1 a",
        "EXPIRE z 100",
        "PERSIST z",
        "GETDEL c",
    ];
    let changes = |client: &mut Client| -> i64 {
        let info = client.value(&["INFO", "persistence"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.expect("its line").trim().parse().expect("a number")
    };
    let of_each = |client: &mut Client| -> Vec<(&str, i64)> {
        let mut before = changes(client);
        let mut count = |line: &'static str| {
            client.call(&words(line));
            let now = changes(client);
            (line, now - std::mem::replace(&mut before, now))
        };
        REQUESTS.into_iter().map(&mut count).collect()
    };
    let oracle = RedisOracle::start();
    let expected = of_each(&mut oracle.client());
    on_every_engine(|server| assert_eq!(of_each(&mut server.client()), expected));
}

#[test]
fn bgsave_begins_whatever_becomes_of_it_and_waits_in_a_transaction() {
    on_every_engine(|server| {
        let mut client = server.client();
        let in_exec = |client: &mut Client, replies: &str| {
            client.expect("MULTI", "+OK\r\n");
            client.expect("SET k v", "+QUEUED\r\n");
            client.expect("BGSAVE", "+QUEUED\r\n");
            client.expect("SET k w", "+QUEUED\r\n");
            client.expect("EXEC", replies);
        };
        let scheduled = "*3\r\n+OK\r\n+Background saving scheduled\r\n+OK\r\n";
        in_exec(&mut client, scheduled);
        wait_until("the snapshot", || server.info_number("rdb_saves") == 1);
        let info = server.info();
        assert_eq!((&*info["rdb_changes_since_last_save"], &*info["rdb_last_bgsave_status"]), ("0", "ok"));

        // No file can have the temporary name.
        let target = server.data().path().join(format!("temp-{}-dump.rdb", server.info_number("process_id")));
        std::fs::create_dir(&target).unwrap();
        client.expect("SET k x", "+OK\r\n");
        client.expect("BGSAVE", "+Background saving started\r\n");
        wait_until("it has failed", || server.info()["rdb_last_bgsave_status"] == "err");
        client.expect("SAVE", "-ERR\r\n");
        in_exec(&mut client, scheduled);
        assert_eq!(server.info_number("rdb_changes_since_last_save"), 3);
        std::fs::remove_dir(&target).unwrap();
        wait_until("the one before is over", || client.call(&["BGSAVE"]) == b"+Background saving started\r\n");
        wait_until("the snapshot", || server.info()["rdb_last_bgsave_status"] == "ok");
        assert_eq!(server.info_number("rdb_changes_since_last_save"), 0);
    });
}
