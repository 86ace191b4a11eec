//! DEBUG: digests of the data that equal Redis's, and data that is the same after it was saved and loaded.

use harness::{EVERY_ENGINE, Embedded, RedisOracle, Server, words};

/// Values of every type and encoding, in two databases.
fn fill(call: &mut dyn FnMut(&str)) {
    let many = |first: &str, item: &dyn Fn(usize) -> String, count: usize| {
        (0..count).fold(first.to_owned(), |line, index| format!("{line} {}", item(index)))
    };
    for line in [
        "FLUSHALL",
        "SELECT 0",
        "SET text hello",
        "SET number 12345",
        "SET expiring x PXAT 99999999999999",
        "SET \"\\x00\\xff\" \"\\r\\n\\x80\"",
        "APPEND grown 12",
        "RPUSH list a 1 -7 \"\" b",
        "SADD integers 1 2 300000",
        "SADD members a b 3",
        "HSET hash a 1 2 b",
        "ZADD zset 1.5 a -inf b 3 c 0.1 d 1e300 e",
        "GEOADD geo 13.361389 38.115556 Palermo",
        "XADD stream 1-1 a 1 b 2",
        "XADD stream 5-3 a 1",
        "XADD stream 7-0 other 1",
        "XDEL stream 5-3",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group alice COUNT 1 STREAMS stream >",
        "PFADD hll a b c",
    ] {
        call(line);
    }
    call(&many("RPUSH list:large", &|index| format!("{}element{index}", "x".repeat(index % 50)), 1500));
    call(&many("SADD set:large", &|index| format!("member{index}"), 600));
    call(&many("HSET hash:large", &|index| format!("field{index} {}", index * 7), 600));
    call(&many("ZADD zset:large", &|index| format!("{}.25 member{index}", index % 30), 600));
    call(&format!("SET long {}", "0123456789".repeat(5000)));
    call("SELECT 3");
    call("SET text other");
    call("SELECT 0");
}

const KEYS: &str = "DEBUG DIGEST-VALUE text number expiring grown list list:large integers members set:large hash \
                    hash:large zset zset:large geo stream hll long none";

#[test]
fn a_digest_is_redis_s() {
    let oracle = RedisOracle::start_with(&["--enable-debug-command", "yes"]);
    let mut theirs = oracle.client();
    fill(&mut |line| drop(theirs.call(&words(line))));
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let mut ours = server.client();
        fill(&mut |line| drop(ours.call(&words(line))));
        for request in [KEYS, "DEBUG DIGEST"] {
            assert_eq!(ours.value(&words(request)), theirs.value(&words(request)), "{request}");
        }
        ours.call(&["SET", "text", "changed"]);
        assert_ne!(ours.value(&["DEBUG", "DIGEST"]), theirs.value(&["DEBUG", "DIGEST"]));
    }
}

#[test]
fn data_is_the_same_after_it_was_saved_and_loaded() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        fill(&mut |line| drop(client.call(&words(line))));
        for reload in ["RELOAD", "LOADAOF"] {
            // In one read: earlier changes are included.
            let last: Vec<Vec<&str>> = ["INCR counter", "DEBUG DIGEST", "DEBUG reload", "DEBUG DIGEST", "GET counter"]
                .map(|line| line.split(' ').map(|word| if word == "reload" { reload } else { word }).collect())
                .into();
            let replies = client.pipeline(&last);
            assert_eq!(replies[2].text(), "OK", "{reload}");
            assert_eq!(replies[1], replies[3], "{reload}");
            assert_eq!(replies[0].integer().to_string(), replies[4].text());
        }
        client.expect("PTTL none", ":-2\r\n");
        client.expect("XLEN stream", ":2\r\n");
        client.expect("XACK stream group 1-1", ":1\r\n");
        client.call(&["SET", "soon", "x", "PX", "30"]);
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        harness::wait_until("the key expires though it was loaded", || {
            client.value(&["EXISTS", "soon"]).integer() == 0
        });
        client.expect("DEBUG RELOAD NOSAVE", "-ERR DEBUG RELOAD has no options here: it saves, flushes and loads\r\n");
        server.assert_serving();
    }
}

#[test]
fn a_reload_drops_the_keys_that_are_due() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        for database in ["3", "0"] {
            client.call(&["SELECT", database]);
            client.expect("SET stays 1", "+OK\r\n");
            client.expect("SET due 41 PX 1", "+OK\r\n");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.expect("DBSIZE", ":2\r\n");
        client.expect("DEBUG RELOAD", "+OK\r\n");
        for database in ["3", "0"] {
            client.call(&["SELECT", database]);
            client.expect("DBSIZE", ":1\r\n");
            // The log knows that it is a new key.
            client.expect("INCR due", ":1\r\n");
        }
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        client.expect("GET due", "$1\r\n1\r\n");
    }
}

#[test]
fn debug_object_describes_the_nodes_of_a_long_list_as_redis_does() {
    let server = Embedded::start(EVERY_ENGINE[0], &["--enable-debug-command", "yes"]);
    let oracle = RedisOracle::start_with(&["--enable-debug-command", "yes"]);
    let fields = [server.client(), oracle.client()].map(|mut client| {
        client.expect("CONFIG SET list-max-listpack-size 16", "+OK\r\n");
        (0..50).for_each(|number| drop(client.call(&["RPUSH", "list", &format!("element {number}")])));
        let described = client.value(&["DEBUG", "OBJECT", "list"]).text();
        described.split_once(" ql_nodes").expect("its nodes").1.to_owned()
    });
    assert_eq!(fields[0], fields[1]);
}

#[test]
fn without_a_log_there_is_none_to_load() {
    let server = Embedded::start(EVERY_ENGINE[0], &["--enable-debug-command", "yes", "--appendonly", "no"]);
    server.client().expect("DEBUG LOADAOF", "-ERR there is no log: appendonly is no\r\n");
    server.client().expect("DEBUG RELOAD", "+OK\r\n");
}

#[test]
fn elements_over_the_threshold_stand_alone() {
    let server = Embedded::start(EVERY_ENGINE[0], &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.expect("DEBUG QUICKLIST-PACKED-THRESHOLD 5b", "+OK\r\n");
    client.expect("RPUSH list short", ":1\r\n");
    client.expect("OBJECT ENCODING list", "$9\r\nquicklist\r\n");
    client.expect("RPUSH list 1 longer 22", ":4\r\n");
    client.expect("LINSERT list BEFORE longer \"as long\"", ":5\r\n");
    client.expect("LRANGE list 0 -1", "*5\r\n$5\r\nshort\r\n$1\r\n1\r\n$7\r\nas long\r\n$6\r\nlonger\r\n$2\r\n22\r\n");
    let refused = "-ERR argument must be a memory value bigger than 1 and smaller than 4gb\r\n";
    client.expect("DEBUG QUICKLIST-PACKED-THRESHOLD 4gb", refused);
    client.expect("DEBUG QUICKLIST-PACKED-THRESHOLD 0", "+OK\r\n");
    client.expect("RPUSH other short", ":1\r\n");
    client.expect("OBJECT ENCODING other", "$8\r\nlistpack\r\n");
}

#[test]
fn an_error_has_the_words_that_were_asked_for() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.expect("DEBUG ERROR \"ERR of this connection\"", "-ERR of this connection\r\n");
        client.expect("DEBUG ERROR \"two\\r\\nlines\"", "-two  lines\r\n");
    }
}

#[test]
fn the_allocator_tells_a_number_by_its_name() {
    let server = Embedded::start(EVERY_ENGINE[0], &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.expect("DEBUG MALLCTL arenas.page", ":4096\r\n");
    // Of 32 bits, and true or false.
    assert!(client.value(&["DEBUG", "MALLCTL", "arenas.nbins"]).integer() > 10);
    client.expect("DEBUG MALLCTL config.stats", ":1\r\n");
    for unknown in ["arenas.none", "", "arenas.page\0"] {
        let reply = client.value(&["DEBUG", "MALLCTL", unknown]);
        assert_eq!(reply.text(), "ERR No such file or directory", "{unknown:?}");
    }
}

#[test]
fn debug_object_has_the_length_that_a_file_has_and_a_clock_of_24_bits() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        for line in [
            "SET integer 1234",
            "SET text aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "RPUSH list a bb 3",
            "SADD set 1 2 3",
            "ZADD sorted 1 a 2.5 b",
            "HSET hash f v",
            "XADD stream 1-1 f v",
        ] {
            let words = words(line);
            client.call(&words);
            let dumped = client.value(&["DUMP".as_bytes(), &words[1]]).bytes().len();
            let object = client.value(&["DEBUG".as_bytes(), b"OBJECT", &words[1]]).text();
            let number = |name: &str| -> usize {
                let field = object.split(' ').find_map(|field| field.strip_prefix(name));
                field.unwrap().parse().unwrap()
            };
            assert_eq!(number("serializedlength:"), dumped - 11, "{line}: {object}");
            assert!(number("lru:") < 1 << 24, "{object}");
        }
    }
}

#[test]
fn keys_that_debug_populates_are_new_ones_and_are_kept() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.expect("SET key:1 own", "+OK\r\n");
        client.expect("DEBUG POPULATE 3", "+OK\r\n");
        client.expect("DEBUG POPULATE 2 short 4", "+OK\r\n");
        client.expect("DEBUG POPULATE 2 long 9", "+OK\r\n");
        client.expect("DEBUG POPULATE 0 none", "+OK\r\n");
        client.expect("SELECT 3", "+OK\r\n");
        client.expect("DEBUG POPULATE 1 other", "+OK\r\n");
        client.expect("SELECT 0", "+OK\r\n");
        let negative = "-ERR value is out of range, must be positive\r\n";
        for wrong in ["-1", "x", "1 a -1", "1 a x"] {
            client.expect(&format!("DEBUG POPULATE {wrong}"), negative);
        }
        let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
        client.expect("DEBUG POPULATE 1 a 9223372036854775807", too_long);
        let (_, data, _) = server.stop();
        let server = data.start(setup, &[]);
        let mut client = server.client();
        client.expect("DBSIZE", ":7\r\n");
        for (key, value) in [
            ("key:0", &b"value:0"[..]),
            ("key:1", b"own"),
            ("key:2", b"value:2"),
            ("short:1", b"valu"),
            ("long:0", b"value:0\0\0"),
        ] {
            assert_eq!(client.value(&["GET", key]).bytes(), value, "{setup:?}, {key}");
        }
        client.expect("SELECT 3", "+OK\r\n");
        client.expect("GET other:0", "$7\r\nvalue:0\r\n");
    }
}
