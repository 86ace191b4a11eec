//! One node that owns all slots, as used by clients of a cluster.

use std::time::{Duration, Instant};

use harness::{Client, Data, EVERY_ENGINE, Embedded, Endpoint, RedisOracle, Server, Setup, Value, request, words};

const CLUSTER: [&str; 2] = ["--cluster-enabled", "yes"];

fn on_every_cluster(flags: &[&str], test: impl Fn(&Embedded)) {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        test(&Embedded::start(setup, &[&CLUSTER, flags].concat()));
    }
}

const DISABLED: &str = "-ERR This instance has cluster support disabled\r\n";

#[test]
fn without_cluster_enabled_all_of_it_is_refused_with_the_text_of_redis() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &[]);
        let mut client = server.client();
        for line in [
            "CLUSTER INFO",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CLUSTER NODES",
            "CLUSTER MYID",
            "CLUSTER MYSHARDID",
            "CLUSTER KEYSLOT a",
            "CLUSTER COUNTKEYSINSLOT 1",
            "CLUSTER GETKEYSINSLOT 1 1",
            "CLUSTER LINKS",
            "CLUSTER REPLICAS x",
            "CLUSTER HELP",
            "READONLY",
            "READWRITE",
            "ASKING",
        ] {
            client.expect(line, DISABLED);
        }
        client.expect("CLUSTER", "-ERR wrong number of arguments for 'cluster' command\r\n");
        client.expect("CLUSTER KEYSLOT", "-ERR wrong number of arguments for 'cluster|keyslot' command\r\n");
        client.expect("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.\r\n");
        client.expect("SELECT 1", "+OK\r\n");
        let info = server.info();
        assert_eq!((&*info["cluster_enabled"], &*info["redis_mode"]), ("0", "standalone"));
        // The option alone has no effect.
        let server = Embedded::start(setup, &["--cluster-allow-cross-slot", "no"]);
        server.client().expect("MSET a 1 b 2", "+OK\r\n");
    }
}

#[test]
fn what_is_flagged_no_cluster_does_not_run_in_one() {
    const LIBRARY: &str = "#!lua name=lib
        redis.register_function{function_name='alone', callback=function() return 1 end, flags={'no-cluster'}}
        redis.register_function('anywhere', function() return 1 end)";
    let requests = [
        &["EVAL", "#!lua flags=no-cluster\nreturn 1", "0"][..],
        &["EVAL", "#!lua flags=no-writes,no-cluster\nreturn 1", "0"],
        &["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
        &["EVAL", "return 1", "0"],
        &["FUNCTION", "LOAD", LIBRARY],
        &["FCALL", "alone", "0"],
        &["FCALL", "anywhere", "0"],
    ];
    let replies = |mut client: Client| requests.map(|request| client.call(request).escape_ascii().to_string());
    for flags in [&CLUSTER[..], &[]] {
        let wanted = replies(RedisOracle::start_with(flags).client());
        assert_eq!(wanted[5].starts_with("-ERR Can not run script on cluster"), !flags.is_empty(), "{wanted:?}");
        for setup in EVERY_ENGINE {
            assert_eq!(replies(Embedded::start(setup, flags).client()), wanted, "{setup:?} with {flags:?}");
        }
    }
}

#[test]
fn a_node_owns_all_slots_and_says_where_it_is() {
    on_every_cluster(&[], |server| {
        let mut client = server.client();
        let port = i64::from(server.address().port());
        let id = client.value(&["CLUSTER", "MYID"]).text();
        assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        let shard = client.value(&["CLUSTER", "MYSHARDID"]).text();
        assert!(shard.len() == 40 && shard != id, "{shard}");
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let slots = |details| {
            let node = Value::Array(vec![bulk("127.0.0.1"), Value::Integer(port), bulk(&id), details]);
            Value::Array(vec![Value::Array(vec![Value::Integer(0), Value::Integer(16383), node])])
        };
        assert_eq!(client.value(&["CLUSTER", "SLOTS"]), slots(Value::Array(Vec::new())));
        let line = format!("{id} 127.0.0.1:{port}@0 myself,master - 0 0 1 connected 0-16383\n");
        assert_eq!(client.value(&["CLUSTER", "NODES"]), bulk(&line));
        let info = client.value(&["CLUSTER", "INFO"]).text();
        for line in ["cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:1", "cluster_size:1"] {
            assert!(info.contains(&format!("{line}\r\n")), "{info}");
        }
        assert_eq!(client.value(&["CLUSTER", "LINKS"]), Value::Array(Vec::new()));
        assert_eq!(client.value(&["CLUSTER", "REPLICAS", &id]), Value::Array(Vec::new()));
        client.expect("CLUSTER SLAVES nobody", "-ERR Unknown node nobody\r\n");
        client.expect("CLUSTER KEYSLOT foo", ":12182\r\n");
        client.expect("CLUSTER KEYSLOT {user1000}.following", ":3443\r\n");
        for line in ["READONLY", "READWRITE", "ASKING"] {
            client.expect(line, "+OK\r\n");
        }
        for (line, flags) in [("READONLY", "r"), ("READWRITE", "N"), ("READONLY", "r"), ("RESET", "N")] {
            client.call(&[line]);
            let shown = client.value(&["CLIENT", "INFO"]).text();
            assert!(shown.contains(&format!(" flags={flags} ")), "{line}: {shown}");
        }
        client.expect("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.\r\n");
        assert!(client.value(&["CLUSTER", "HELP"]).elements().len() > 20);
        let info = server.info();
        assert_eq!((&*info["cluster_enabled"], &*info["redis_mode"]), ("1", "cluster"));
        assert!(client.value(&["INFO", "cluster"]).text().starts_with("# Cluster\r\ncluster_enabled:1\r\n"));

        let mut client = Client::connect_resp3(server.address());
        assert_eq!(client.value(&["HELLO"]).field("mode"), Some(&bulk("cluster")));
        assert_eq!(client.value(&["CLUSTER", "SLOTS"]), slots(Value::Map(Vec::new())));
        let shards = client.value(&["CLUSTER", "SHARDS"]);
        let [Value::Map(_)] = shards.elements() else { panic!("{shards:?}") };
        let shard = &shards.elements()[0];
        assert_eq!(shard.field("slots"), Some(&Value::Array(vec![Value::Integer(0), Value::Integer(16383)])));
        let node = &shard.field("nodes").unwrap().elements()[0];
        let wanted =
            [("id", &*id), ("ip", "127.0.0.1"), ("endpoint", "127.0.0.1"), ("role", "master"), ("health", "online")];
        for (field, value) in wanted {
            assert_eq!(node.field(field), Some(&bulk(value)), "{field}");
        }
        assert_eq!(node.field("port"), Some(&Value::Integer(port)));
        client.value(&["CONFIG", "SET", "cluster-announce-ip", "10.1.2.3", "cluster-announce-port", "7000"]);
        assert!(client.value(&["CLUSTER", "NODES"]).text().contains(" 10.1.2.3:7000@0 myself,master "));
    });
}

#[test]
fn the_keys_of_a_slot_are_counted_and_named_wherever_they_are() {
    on_every_cluster(&[], |server| {
        let mut client = server.client();
        for key in 0..50 {
            client.value(&["SET", &format!("{{tag}}:{key}"), "v"]);
            client.value(&["SET", &format!("other:{key}"), "v"]);
        }
        client.expect("PEXPIRE {tag}:0 1", ":1\r\n");
        std::thread::sleep(std::time::Duration::from_millis(5));
        let slot = client.value(&["CLUSTER", "KEYSLOT", "tag"]).integer().to_string();
        let others = (0..50).filter(|key| {
            server.client().value(&["CLUSTER", "KEYSLOT", &format!("other:{key}")]).integer().to_string() == slot
        });
        let count = 49 + others.count() as i64;
        assert_eq!(client.value(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), Value::Integer(count));
        let keys = client.value(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).byte_strings();
        assert_eq!(keys.len() as i64, count);
        assert_eq!(client.value(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]).elements().len(), 10);
        assert!(keys.iter().filter(|key| key.starts_with(b"{tag}:")).count() == 49);
        client.expect("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot\r\n");
        client.expect("CLUSTER COUNTKEYSINSLOT -1", "-ERR Invalid slot\r\n");
        client.expect("CLUSTER COUNTKEYSINSLOT x", "-ERR value is not an integer or out of range\r\n");
        client.expect("CLUSTER GETKEYSINSLOT 16384 1", "-ERR Invalid slot or number of keys\r\n");
        client.expect("CLUSTER GETKEYSINSLOT 1 -1", "-ERR Invalid slot or number of keys\r\n");
        client.expect("CLUSTER GETKEYSINSLOT 1 x", "-ERR value is not an integer or out of range\r\n");
    });
}

#[test]
fn a_cluster_has_one_database() {
    on_every_cluster(&[], |server| {
        let mut client = server.client();
        client.expect("SELECT 0", "+OK\r\n");
        client.expect("SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n");
        client.expect("SELECT 99", "-ERR SELECT is not allowed in cluster mode\r\n");
        client.expect("SELECT x", "-ERR value is not an integer or out of range\r\n");
        client.expect("SET k v", "+OK\r\n");
        client.expect("MOVE k 1", "-ERR MOVE is not allowed in cluster mode\r\n");
        client.expect("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode\r\n");
        client.expect("COPY k l DB 1", "-ERR DB index is out of range\r\n");
        client.expect("COPY k l", ":1\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("SELECT 1", "+QUEUED\r\n");
        client.expect("SET in v", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n-ERR SELECT is not allowed in cluster mode\r\n+OK\r\n");
        client.expect("GET in", "$1\r\nv\r\n");
    });
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("SELECT 1", "+OK\r\n");
        client.expect("SET k v", "+OK\r\n");
        let (_, data, _) = server.stop();
        let refused = data.start_refused(setup, &CLUSTER);
        assert!(
            refused.stderr.contains("You can't have keys in a DB different than DB 0 when in Cluster mode"),
            "{refused:?}"
        );
        data.start(setup, &[]).client().expect("DBSIZE", ":0\r\n");
    }
}

const CROSSING: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";

#[test]
fn keys_of_several_slots_are_refused_where_the_option_says_so_and_taken_otherwise() {
    on_every_cluster(&[], |server| {
        server.client().expect("MSET a 1 b 2", "+OK\r\n");
        server.client().expect("MGET a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    });
    on_every_cluster(&["--cluster-allow-cross-slot", "no"], |server| {
        let mut client = server.client();
        for line in [
            "MSET a 1 b 2",
            "MGET a b",
            "DEL a b",
            "RENAME a b",
            "SUNIONSTORE {x}1 {x}2 y",
            "ZUNIONSTORE d 1 e",
            "BLPOP a b 1",
            "XREAD STREAMS a b 0 0",
            "PFCOUNT a b",
            "WATCH a b",
            "SSUBSCRIBE a b",
        ] {
            client.expect(line, CROSSING);
        }
        for (line, reply) in [
            ("MSET {x}a 1 {x}b 2", "+OK\r\n"),
            ("SET a 1", "+OK\r\n"),
            ("DEL {x}a {x}b a{x}", ":2\r\n"),
            ("RENAME a a", "+OK\r\n"),
            ("PING", "+PONG\r\n"),
            ("DBSIZE", ":1\r\n"),
        ] {
            client.expect(line, reply);
        }
        // A transaction has one slot, too.
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET a 2", "+QUEUED\r\n");
        client.expect("SET b 2", "+QUEUED\r\n");
        client.expect("EXEC", CROSSING);
        client.expect("EXEC", "-ERR EXEC without MULTI\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("MSET a 1 b 2", CROSSING);
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET {x}a 2", "+QUEUED\r\n");
        client.expect("INCR x", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n+OK\r\n:1\r\n");
        client.expect("GET a", "$1\r\n1\r\n");
    });
}

/// The real server has all slots, too, and refuses keys of several slots.
fn redis_with_all_slots() -> RedisOracle {
    let redis = RedisOracle::start_with(&CLUSTER);
    let mut client = redis.client();
    client.expect("CLUSTER ADDSLOTSRANGE 0 16383", "+OK\r\n");
    let is_up = |client: &mut Client| client.value(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_up(&mut client) {
        assert!(Instant::now() < deadline, "the cluster has not come up");
        std::thread::sleep(Duration::from_millis(50));
    }
    redis
}

#[test]
fn a_script_that_declares_flags_has_one_slot_unless_they_allow_several() {
    const FLAG: &str = "flags=allow-cross-slot-keys";
    const LIBRARY: &str = "#!lua name=lib
        local function both() redis.call('set', 'a', 1) return redis.call('get', 'b') end
        redis.register_function('plain', both)
        redis.register_function{function_name='free', callback=both, flags={'allow-cross-slot-keys'}}";
    let both = "redis.call('set', 'a', 1) return redis.call('get', 'b')";
    let in_one = "return redis.call('mset', 'a', 1, 'b', 2)";
    let of_tag = "redis.call('set', '{x}a', 1) return redis.call('mget', '{x}b', 'x')";
    let declared = |flags: &str, body: &str| format!("#!lua {flags}\n{body}");
    let (refused, refused_in_one) = ("do not hash to the same slot", "a non local key in a cluster node");
    let eval = |script: String, keys: &str| [vec![b"EVAL".to_vec(), script.into_bytes()], words(keys)].concat();
    let requests = [
        (eval(declared("", both), "0"), refused),
        (eval(declared("flags=no-cluster,allow-cross-slot-keys", both), "0"), "Can not run script on cluster"),
        (eval(declared(FLAG, both), "0"), "$-1"),
        (eval(both.into(), "0"), "$-1"),
        // The declared keys have a slot.
        (eval(declared("", "return redis.call('get', 'b')"), "1 a"), refused),
        (eval(declared("", "return redis.pcall('get', 'b')"), "1 a"), refused),
        (eval(declared(FLAG, "return redis.call('get', 'b')"), "1 a"), "$-1"),
        (eval(declared("", "return redis.call('get', KEYS[1])"), "1 b"), "$-1"),
        (eval(declared(FLAG, "return 1"), "2 a b"), CROSSING),
        (eval(declared("", of_tag), "0"), "*2"),
        (eval(declared("", of_tag), "1 {x}c"), "*2"),
        // A command of several slots would be for several nodes, whatever the flags.
        (eval(declared("", in_one), "0"), refused_in_one),
        (eval(declared(FLAG, in_one), "0"), refused_in_one),
        (eval(in_one.into(), "0"), refused_in_one),
        // The name of a shard's channel has a slot, too.
        (eval(declared("", "redis.call('get', 'a') return redis.call('spublish', 'b', 1)"), "0"), refused),
        (eval(declared("", "redis.call('get', 'a') return redis.call('publish', 'b', 1)"), "0"), ":0"),
        (["FUNCTION", "LOAD", LIBRARY].map(|word| word.as_bytes().to_vec()).to_vec(), "lib"),
        (words("FCALL plain 0"), refused),
        (words("FCALL plain 1 a"), refused),
        (words("FCALL plain 1 b"), refused),
        (words("FCALL free 0"), "$-1"),
        (words("GET a"), "$1"),
    ];
    let replies =
        |mut client: Client| requests.each_ref().map(|(request, _)| String::from_utf8(client.call(request)).unwrap());
    let wanted = replies(redis_with_all_slots().client());
    for ((request, part), reply) in requests.iter().zip(&wanted) {
        assert!(reply.contains(part), "{}: {reply}", request.join(&b' ').escape_ascii());
    }
    on_every_cluster(&["--cluster-allow-cross-slot", "no"], |server| assert_eq!(replies(server.client()), wanted));
    on_every_cluster(&[], |server| {
        let replies = replies(server.client());
        let refusals = replies.iter().filter(|reply| reply.starts_with('-'));
        // With the default only `no-cluster` is refused.
        assert_eq!(refusals.count(), 1, "{replies:?}");
    });
}

/// The first requests of a client of a cluster, which also work while the log is read: see `tests/crash/loading.rs`.
#[test]
fn what_clients_send_first_in_one_pipeline_has_its_replies_in_order() {
    let setup: Setup = EVERY_ENGINE[4];
    let server = Data::new().start(setup, &CLUSTER);
    let mut client = server.client();
    for line in ["HELLO 3", "READONLY", "CLUSTER SLOTS", "SET a 1", "CLUSTER COUNTKEYSINSLOT 15495", "GET a"] {
        client.send(&request(&words(line)));
    }
    let replies = client.values(6);
    assert_eq!(replies[4], Value::Integer(1));
    assert_eq!(replies[5], Value::Bulk(b"1".to_vec()));
}

#[test]
fn what_would_change_the_cluster_is_refused_in_words() {
    on_every_cluster(&[], |server| {
        let mut client = server.client();
        let id = client.value(&["CLUSTER", "MYID"]).text();
        for (line, reason) in [
            ("MEET 127.0.0.1 7000", "This node is a cluster by itself: it has no bus to meet others by"),
            ("MEET 127.0.0.1 x", "Invalid base port specified: x"),
            ("MEET 127.0.0.1 7000 y", "Invalid bus port specified: y"),
            ("ADDSLOTS 5 6", "Slot 5 is already busy"),
            ("ADDSLOTS 5 16384", "Invalid or out of range slot"),
            ("ADDSLOTSRANGE 7 9", "Slot 7 is already busy"),
            ("ADDSLOTSRANGE 9 7", "start slot number 9 is greater than end slot number 7"),
            ("ADDSLOTSRANGE 1 2 3", "wrong number of arguments for 'cluster|addslotsrange' command"),
            ("DELSLOTS 1", "This node is the only one: it keeps all slots"),
            ("DELSLOTSRANGE 1 2", "This node is the only one: it keeps all slots"),
            ("FLUSHSLOTS", "This node is the only one: it keeps all slots"),
            ("FORGET nobody", "Unknown node nobody"),
            (&format!("FORGET {id}"), "I tried hard but I can't forget myself..."),
            ("REPLICATE nobody", "Unknown node nobody"),
            (&format!("REPLICATE {id}"), "Can't replicate myself"),
            ("COUNT-FAILURE-REPORTS nobody", "Unknown node nobody"),
            ("FAILOVER", "You should send CLUSTER FAILOVER to a replica"),
            ("FAILOVER FORCE", "You should send CLUSTER FAILOVER to a replica"),
            ("FAILOVER NOW", "syntax error"),
            ("SETSLOT 3 IMPORTING x", "I'm already the owner of hash slot 3"),
            ("SETSLOT 3 MIGRATING x", "I don't know about node x"),
            ("SETSLOT 3 NODE x", "Unknown node x"),
            ("SETSLOT x STABLE", "Invalid or out of range slot"),
            ("SETSLOT 3 NOWHERE", "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"),
            ("SET-CONFIG-EPOCH 3", "Node config epoch is already non-zero"),
            ("SET-CONFIG-EPOCH -3", "Invalid config epoch specified: -3"),
            ("RESET", "This node is the only one: it keeps all slots"),
            ("RESET ALL", "syntax error"),
        ] {
            client.expect(&format!("CLUSTER {line}"), &format!("-ERR {reason}\r\n"));
        }
        for (line, reply) in [
            (format!("COUNT-FAILURE-REPORTS {id}"), ":0"),
            (format!("SETSLOT 3 NODE {id}"), "+OK"),
            ("SETSLOT 3 STABLE".to_owned(), "+OK"),
            ("BUMPEPOCH".to_owned(), "+STILL 1"),
            ("SAVECONFIG".to_owned(), "+OK"),
        ] {
            client.expect(&format!("CLUSTER {line}"), &format!("{reply}\r\n"));
        }
        client.expect("SET a 1", "+OK\r\n");
        client.expect("CLUSTER RESET HARD", "-ERR CLUSTER RESET can't be called with master nodes containing keys\r\n");
        client.expect("CLUSTER FLUSHSLOTS", "-ERR DB must be empty to perform CLUSTER FLUSHSLOTS.\r\n");
    });
}

#[test]
fn a_node_keeps_its_name_over_restarts() {
    for setup in EVERY_ENGINE {
        let flags = [&CLUSTER[..], &["--appendonly", "no", "--save", ""]].concat();
        let names =
            |server: &Endpoint| ["MYID", "MYSHARDID"].map(|what| server.client().value(&["CLUSTER", what]).text());
        let server = Server::start(setup, &flags);
        let before = names(&server);
        let server = server.kill().start(setup, &flags);
        assert_eq!(names(&server), before, "{setup:?}");
        assert_ne!(names(&Embedded::start(setup, &flags))[0], before[0], "{setup:?}");
        let data = server.kill();
        std::fs::write(data.path().join("shardrace.node"), "not a name").unwrap();
        let ended = data.start_refused(setup, &CLUSTER);
        assert!(ended.stderr.contains("shardrace.node is not the name of a node"), "{}", ended.stderr);
    }
}

#[test]
fn sort_names_no_other_keys_where_keys_of_several_slots_are_refused() {
    const REQUESTS: [&str; 7] = [
        "RPUSH list 2 1",
        "SORT list BY w_*",
        "SORT_RO list BY w_* NOSUCH",
        "SORT list BY nosort",
        "SORT list GET #",
        "SORT_RO list GET",
        "SORT list STORE list GET v_*",
    ];
    let replies = |mut client: Client| REQUESTS.map(|line| String::from_utf8(client.call(&words(line))).unwrap());
    let wanted = replies(redis_with_all_slots().client());
    assert_eq!(wanted[1], "-ERR BY option of SORT denied in Cluster mode.\r\n");
    assert_eq!(wanted[4], "-ERR GET option of SORT denied in Cluster mode.\r\n");
    on_every_cluster(&["--cluster-allow-cross-slot", "no"], |server| assert_eq!(replies(server.client()), wanted));
    on_every_cluster(&[], |server| {
        let replies = replies(server.client());
        assert!(replies[1].starts_with('*') && replies[4].starts_with('*'), "{replies:?}");
    });
}
