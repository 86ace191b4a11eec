//! What the server reports about commands that it ran: INFO commandstats and errorstats, SLOWLOG, LATENCY.

use harness::{
    Client, EVERY_ENGINE, Embedded, RedisOracle, Value, on_every_engine, on_every_process, request, wait_until, words,
};

/// The lines of a section, without what depends on time.
fn section(client: &mut Client, name: &str) -> Vec<String> {
    let text = client.value(&["INFO", name]).text();
    let fields = |line: &str| line.split(',').filter(|field| !field.contains("usec")).collect::<Vec<_>>().join(",");
    let mut lines: Vec<String> =
        text.lines().filter(|line| line.contains("stat_")).map(fields).filter(|line| !line.contains("info")).collect();
    lines.sort();
    lines
}

#[test]
fn calls_and_errors_are_counted_as_redis_counts_them() {
    const REQUESTS: &str = "SET a 1|GET a|GET none|MSET a 1 b 2 c 3 d 4|MGET a b c d|DEL a b c d|LPUSH list x|GET list\
        |INCR list|SET|NOSUCH|CLIENT ID|CLIENT NOSUCH|XGROUP CREATECONSUMER s g c|OBJECT ENCODING list|BLPOP list 0\
        |MULTI|SET a 1|LPUSH a 1|EXEC|EXEC|MULTI|GET|EXEC|AUTH x|DBSIZE|RENAME a b|WAIT 0 0|XADD s 1 a b\
        |XGROUP CREATECONSUMER s g c|HELLO 9|BLPOP none 0.01|CONFIG GET port";
    let oracle = RedisOracle::start();
    let run = |client: &mut Client| {
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        for line in REQUESTS.split('|') {
            client.call(&words(line));
        }
        [section(client, "commandstats"), section(client, "errorstats")]
    };
    let expected = run(&mut oracle.client());
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &[]);
        assert_eq!(run(&mut server.client()), expected, "on {setup:?}");
        let mut client = server.client();
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert_eq!(section(&mut client, "errorstats"), Vec::<String>::new());
    }
}

#[test]
fn slow_commands_are_kept_with_their_arguments_and_their_connection() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CLIENT SETNAME me", "+OK\r\n");
        client.expect("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 4", "+OK\r\n");
        let long = "x".repeat(200);
        let requests = [
            vec!["SLOWLOG", "RESET"],
            vec!["SET", "a", "1"],
            vec!["MSET", "a", "1", "b", "2", "c", "3"],
            vec!["SET", "b", &long],
            vec!["LPUSH", "a", "x"],
            vec!["MULTI"],
            vec!["GET", "c"],
            vec!["EXEC"],
        ];
        requests.iter().for_each(|request| drop(client.call(request)));
        client.expect("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        let entries = client.value(&["SLOWLOG", "GET", "-1"]);
        let arguments = |index: usize| -> Vec<String> {
            entries.elements()[index].elements()[3].elements().iter().map(|argument| argument.text()).collect()
        };
        assert_eq!(entries.elements().len(), 4, "{entries:?}");
        assert_eq!(arguments(0), ["GET", "c"], "EXEC itself is no entry, nor is what turns the log off");
        assert_eq!(arguments(1), ["MULTI"]);
        assert_eq!(arguments(2), ["LPUSH", "a", "x"]);
        assert_eq!(arguments(3), ["SET", "b", &format!("{}... (72 more bytes)", "x".repeat(128))]);
        assert_eq!(entries.elements()[0].elements()[5].text(), "me");
        assert!(entries.elements()[0].elements()[4].text().starts_with("127.0.0.1:"));
        client.expect("SLOWLOG LEN", ":4\r\n");
        for count in ["-2", "x", "9223372036854775808"] {
            client.expect(&format!("SLOWLOG GET {count}"), "-ERR count should be greater than or equal to -1\r\n");
        }
        let refusal = "ERR unknown subcommand or wrong number of arguments for 'Get'. Try SLOWLOG HELP.";
        client.expect("SLOWLOG Get 1 2", &format!("-{refusal}\r\n"));
        client.expect("SLOWLOG RESET", "+OK\r\n");
        client.expect("SLOWLOG GET", "*0\r\n");
        client.expect("SET b 1", "+OK\r\n");
        client.expect("SLOWLOG LEN", ":0\r\n");
    });
}

#[test]
fn a_command_over_several_shards_is_one_call_and_one_entry_of_the_slow_log() {
    for (setup, multi_key) in EVERY_ENGINE.into_iter().flat_map(|setup| [(setup, "atomic"), (setup, "relaxed")]) {
        println!("on {setup:?}, {multi_key}");
        let server = Embedded::start(setup, &["--multi-key", multi_key]);
        let mut client = server.client();
        let keys: Vec<String> = (0..15).map(|number| format!("key:{number}")).collect();
        let pairs = keys.iter().flat_map(|key| [key.clone(), "v".to_owned()]);
        let line = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let requests = vec![
            [line("MSET"), pairs.collect()].concat(),
            [line("MGET"), keys.clone()].concat(),
            line("KEYS *"),
            line("DBSIZE"),
            [line("DEL"), keys].concat(),
        ];
        client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        client.expect("SLOWLOG RESET", "+OK\r\n");
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        // In one read: parts come home while other commands are under way.
        client.pipeline(&requests);
        client.expect("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        let sorted = |mut words: Vec<String>| {
            words[1..].sort();
            words
        };
        let entries = client.value(&["SLOWLOG", "GET", "-1"]);
        let of_entry = |entry: &Value| sorted(entry.elements()[3].elements().iter().map(Value::text).collect());
        let mut found: Vec<Vec<String>> = entries.elements().iter().map(of_entry).collect();
        // They run on no shard.
        found.retain(|words| !matches!(words[0].as_str(), "SLOWLOG" | "CONFIG"));
        found.sort();
        let mut expected: Vec<Vec<String>> = requests.into_iter().map(sorted).collect();
        expected.sort();
        assert_eq!(found, expected);
        for name in ["mset", "mget", "keys", "dbsize", "del"] {
            let stats = section(&mut client, "commandstats");
            let of_it = stats.iter().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            assert!(of_it.is_some_and(|line| line.contains(":calls=1,")), "{of_it:?}");
        }
    }
}

/// The entries of the slow log, the newest first: arguments, address and name.
fn slow_entries(mut client: Client) -> Vec<(Vec<String>, String, String)> {
    const SCRIPT: &str = "redis.call('set', KEYS[1], 'v') redis.pcall('incr', KEYS[1]) redis.call('publish', 'c', 'm') \
                          redis.call('select', 1) redis.pcall('nosuch') return redis.call('time')";
    client.expect("CLIENT SETNAME me", "+OK\r\n");
    client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
    client.expect("SLOWLOG RESET", "+OK\r\n");
    client.value(&["EVAL", SCRIPT, "1", "k"]);
    client.value(&["EVAL", "return redis.call('get', 'k')", "0"]);
    client.expect("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
    let entries = client.value(&["SLOWLOG", "GET", "-1"]);
    let of_entry = |entry: &Value| {
        let arguments = entry.elements()[3].elements().iter().map(Value::text).collect();
        let address = entry.elements()[4].text();
        let address = if address.starts_with("127.0.0.1:") { "mine".to_owned() } else { address };
        (arguments, address, entry.elements()[5].text())
    };
    entries.elements().iter().map(of_entry).collect()
}

#[test]
fn commands_that_a_script_calls_are_in_the_slow_log_before_it_as_those_of_nobody() {
    let oracle = RedisOracle::start();
    let mut theirs = slow_entries(oracle.client());
    assert!(theirs.iter().any(|(arguments, address, _)| arguments[0] == "incr" && address == "?:0"), "{theirs:?}");
    // Redis 7.2 has no address for them.
    theirs.iter_mut().filter(|(_, address, _)| address == "?:0").for_each(|(_, address, _)| address.clear());
    on_every_engine(|server| {
        assert_eq!(slow_entries(server.client()), theirs);
        let mut client = server.client();
        client.expect("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 5000", "+OK\r\n");
        client.value(&["EVAL", "for i = 1, 4321 do redis.call('set', KEYS[1], i) end", "1", "k"]);
        client.expect("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        let entries = client.value(&["SLOWLOG", "GET", "1001"]);
        let values: Vec<String> =
            entries.elements()[1..].iter().map(|entry| entry.elements()[3].elements()[2].text()).collect();
        assert_eq!(values, (3322..=4321).rev().map(|i| i.to_string()).collect::<Vec<_>>());
    });
}

#[test]
fn what_a_transaction_asks_about_scripts_is_in_the_slow_log_as_in_redis() {
    let slow = |mut client: Client| {
        for line in ["CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET", "MULTI", "SCRIPT EXISTS x", "SET k v"] {
            client.call(&words(line));
        }
        for line in ["FUNCTION LIST", "FUNCTION STATS", "FUNCTION DUMP", "EXEC"] {
            client.call(&words(line));
        }
        client.expect("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
        let entries = client.value(&["SLOWLOG", "GET", "-1"]);
        let arguments = |entry: &Value| entry.elements()[3].elements().iter().map(Value::text).collect();
        entries.elements().iter().map(arguments).collect::<Vec<Vec<String>>>()
    };
    let theirs = slow(RedisOracle::start().client());
    assert!(theirs.iter().any(|arguments| arguments[..] == ["FUNCTION", "STATS"]), "{theirs:?}");
    on_every_engine(|server| assert_eq!(slow(server.client()), theirs));
}

#[test]
fn a_client_served_by_a_transaction_is_in_the_slow_log_after_all_of_it() {
    on_every_engine(|server| {
        let (mut client, mut waiting) = (server.client(), server.client());
        client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        for _ in 0..20 {
            waiting.send(&request(&["BLPOP", "l", "0"]));
            wait_until("it waits", || server.info_number("blocked_clients") == 1);
            for line in ["MULTI", "LPUSH l x", "SLOWLOG RESET", "EXEC"] {
                client.call(&words(line));
            }
            assert_eq!(waiting.reply(), b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
            let entries = client.value(&["SLOWLOG", "GET", "1"]);
            let last: Vec<String> = entries.elements()[0].elements()[3].elements().iter().map(Value::text).collect();
            assert_eq!(last, ["BLPOP", "l", "0"]);
        }
    });
}

#[test]
fn what_took_long_is_told_by_the_latency_monitor() {
    let server = Embedded::start(EVERY_ENGINE[4], &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.expect("CONFIG SET latency-monitor-threshold 20", "+OK\r\n");
    client.expect("DEBUG SLEEP 0.001", "+OK\r\n");
    client.expect("LATENCY LATEST", "*0\r\n");
    client.expect("DEBUG SLEEP 0.05", "+OK\r\n");
    let latest = client.value(&["LATENCY", "LATEST"]);
    let event = latest.elements()[0].elements();
    assert_eq!(event[0].text(), "command");
    assert!((50..5000).contains(&event[2].integer()) && event[3].integer() >= event[2].integer(), "{event:?}");
    assert_eq!(client.value(&["LATENCY", "HISTORY", "command"]).elements().len(), 1);
    assert!(client.value(&["LATENCY", "DOCTOR"]).text().contains("command"));
    let graph = client.value(&["LATENCY", "GRAPH", "command"]).text();
    assert!(graph.starts_with("command - high ") && graph.contains(&"-".repeat(80)), "{graph}");
    client.expect("LATENCY GRAPH none", "-ERR No samples available for event 'none'\r\n");
    client.expect("LATENCY RESET none", ":0\r\n");
    client.expect("LATENCY RESET", ":1\r\n");
    client.expect("LATENCY HISTORY command", "*0\r\n");
}

#[test]
fn histograms_and_percentiles_show_how_long_commands_took() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        for value in ["1", "2", "3"] {
            client.call(&["SET", "key", value]);
        }
        client.call(&["CLIENT", "ID"]);
        let histogram = client.value(&["LATENCY", "HISTOGRAM", "set", "client", "nosuch"]);
        let calls = |name: &str| histogram.field(name).and_then(|row| row.field("calls")).map(|calls| calls.integer());
        assert_eq!((calls("set"), calls("client|id")), (Some(3), Some(1)), "{histogram:?}");
        let powers =
            histogram.field("set").and_then(|row| row.field("histogram_usec")).expect("a histogram").elements();
        assert_eq!(powers.last().expect("a bucket").integer(), 3, "the buckets are cumulative");
        client.expect("CONFIG SET latency-tracking-info-percentiles \"0.0 50.0 100.0\"", "+OK\r\n");
        client.expect(
            "CONFIG GET latency-tracking-info-percentiles",
            "*2\r\n$33\r\nlatency-tracking-info-percentiles\r\n$8\r\n0 50 100\r\n",
        );
        let info = client.value(&["INFO", "latencystats"]).text();
        let line = info.lines().find(|line| line.starts_with("latency_percentiles_usec_set:")).expect("its line");
        assert!(line.contains("p0=") && line.contains(",p50=") && line.contains(",p100="), "{line}");
    });
}

#[test]
fn named_histograms_come_in_the_order_of_their_names_and_have_the_bounds_of_redis() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        for number in 0..100 {
            client.call(&["SET", "key", &number.to_string()]);
        }
        client.call(&["CLIENT", "ID"]);
        client.call(&["GET", "key"]);
        let histograms = client.value(&["LATENCY", "HISTOGRAM", "client", "SET", "nosuch", "get", "client|id"]);
        let names: Vec<String> = histograms.elements().iter().step_by(2).map(Value::text).collect();
        assert_eq!(names, ["client|id", "set", "get", "client|id"]);
        let set = histograms.field("set").and_then(|row| row.field("histogram_usec")).expect("a histogram");
        for bound in set.elements().iter().step_by(2).map(Value::integer) {
            assert!((0..30).any(|doubled| ((1032_i64 << doubled) - 1) / 1000 == bound), "{bound} in {set:?}");
        }
    });
}

#[test]
fn memory_stats_has_the_fields_of_redis_in_its_order_and_their_sums_are_right() {
    let oracle = RedisOracle::start();
    let names = |stats: &Value| -> Vec<String> { stats.elements().iter().step_by(2).map(Value::text).collect() };
    let theirs = names(&oracle.client().value(&["MEMORY", "STATS"]));
    // Processes: the memory of an embedded server is that of all tests.
    on_every_process(|server| {
        let mut client = server.client();
        client.call(&["SET", "key", &"v".repeat(100_000)]);
        client.call(&["EVAL", "return 1", "0"]);
        let stats = client.value(&["MEMORY", "STATS"]);
        assert_eq!(names(&stats), theirs);
        let number = |name: &str| stats.field(name).expect("it is there").integer();
        let overhead: i64 = [
            "startup.allocated",
            "replication.backlog",
            "clients.slaves",
            "clients.normal",
            "cluster.links",
            "aof.buffer",
            "lua.caches",
            "functions.caches",
        ]
        .map(number)
        .iter()
        .sum();
        assert_eq!(number("overhead.total"), overhead);
        assert_eq!(number("overhead.total") + number("dataset.bytes"), number("total.allocated"));
        assert_eq!(number("keys.bytes-per-key"), number("total.allocated") - number("startup.allocated"));
        assert!(number("lua.caches") > 0 && number("total.allocated") <= number("peak.allocated"));
        for (name, larger, smaller) in [
            ("allocator-fragmentation", "allocator.active", "allocator.allocated"),
            ("allocator-rss", "allocator.resident", "allocator.active"),
        ] {
            assert_eq!(number(&format!("{name}.bytes")), number(larger) - number(smaller), "{name}");
            let ratio = stats.field(&format!("{name}.ratio")).expect("it is there").text();
            assert!(ratio.parse::<f64>().expect("a number") >= 1.0, "{name} {ratio}");
        }
        let percentage = stats.field("peak.percentage").expect("it is there").text();
        assert!((0.0..=100.0).contains(&percentage.parse::<f64>().expect("a number")), "{percentage}");
    });
}

#[test]
fn a_key_that_takes_long_to_expire_is_told_by_the_latency_monitor() {
    on_every_engine(|server| {
        const MEMBERS: usize = 400_000;
        let mut client = server.client();
        client.expect("CONFIG SET latency-monitor-threshold 1", "+OK\r\n");
        for start in (0..MEMBERS).step_by(10_000) {
            let members = (start..start + 10_000).map(|member| format!("member:{member}"));
            client.call(&["SADD".to_owned(), "large".to_owned()].into_iter().chain(members).collect::<Vec<_>>());
        }
        client.expect("PEXPIRE large 1", ":1\r\n");
        wait_until("it has expired", || server.info_number("expired_keys") == 1);
        let names = || -> Vec<String> {
            let latest = server.client().value(&["LATENCY", "LATEST"]);
            latest.elements().iter().map(|event| event.elements()[0].text()).collect()
        };
        wait_until("the event", || names().contains(&"expire-cycle".to_owned()));
        let graph = client.value(&["LATENCY", "GRAPH", "expire-cycle"]).text();
        assert!(graph.starts_with("expire-cycle - high "), "{graph}");
    });
}

#[test]
fn memory_malloc_stats_and_purge_speak_with_the_allocator() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("MEMORY PURGE", "+OK\r\n");
        let statistics = client.value(&["MEMORY", "MALLOC-STATS"]).text();
        assert_eq!(
            statistics.contains("jemalloc"),
            shardrace::internals::base::ALLOCATOR == "jemalloc",
            "{statistics}"
        );
    });
}

#[test]
fn memory_usage_grows_with_the_value() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("MEMORY USAGE none", "$-1\r\n");
        client.expect("MEMORY USAGE none SAMPLES", "-ERR syntax error\r\n");
        client.expect("MEMORY USAGE none SAMPLES x", "-ERR value is not an integer or out of range\r\n");
        client.call(&["SET", "text", &"x".repeat(10_000)]);
        let usage = |client: &mut Client, key: &str| client.value(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).integer();
        assert!((10_000..10_200).contains(&usage(&mut client, "text")));
        let elements: Vec<String> = (0..2000).map(|index| format!("{index:020}")).collect();
        for (add, key, each) in [("RPUSH", "list", 20..40), ("SADD", "set", 30..80)] {
            let mut request = vec![add, key];
            request.extend(elements.iter().map(String::as_str));
            client.call(&request);
            let per_element = usage(&mut client, key) / 2000;
            assert!(each.contains(&per_element), "{key}: {per_element}");
        }
        assert!(client.value(&["MEMORY", "DOCTOR"]).text().contains("resident"));
        let stats = client.value(&["MEMORY", "STATS"]);
        assert_eq!(stats.field("keys.count").map(|keys| keys.integer()), Some(3));
    });
}

/// The statistics of what a client has sent.
fn statistics_of(client: &mut Client, requests: &[&str]) -> [Vec<String>; 2] {
    client.expect("CONFIG RESETSTAT", "+OK\r\n");
    requests.iter().for_each(|line| drop(client.call(&words(line))));
    [section(client, "commandstats"), section(client, "errorstats")]
}

#[test]
fn what_every_shard_refuses_is_one_error_and_one_failed_call() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--shards", "4"]);
        let mut client = server.client();
        let [calls, errors] = statistics_of(&mut client, &["FLUSHDB X", "FLUSHALL X"]);
        for name in ["flushdb", "flushall"] {
            let of_it = calls.iter().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            assert!(
                of_it.is_some_and(|line| line.ends_with("rejected_calls=0,failed_calls=1")),
                "{setup:?}: {of_it:?}"
            );
        }
        assert_eq!(errors, ["errorstat_ERR:count=2"], "{setup:?}");
    }
}

#[test]
fn a_subcommand_with_wrong_arguments_is_a_rejected_call_of_it_and_one_that_does_not_exist_is_none() {
    const REQUESTS: [&str; 18] = [
        "XGROUP DESTROY a b c",
        "OBJECT FREQ",
        "CLIENT ID x",
        "SCRIPT LOAD",
        "XINFO STREAM",
        "COMMAND HELP x",
        "CONFIG GET",
        "CONFIG",
        "CONFIG NOSUCH",
        "XGROUP NOSUCH",
        "MULTI",
        "CONFIG GET",
        "DISCARD",
        "EVAL \"redis.pcall('XGROUP','CREATE')\" 0",
        "EVAL \"redis.pcall('XGROUP','NOSUCH')\" 0",
        "EVAL \"redis.pcall('GET')\" 0",
        "MSET a 1 b",
        "MSETNX a 1 b",
    ];
    let oracle = RedisOracle::start();
    let expected = statistics_of(&mut oracle.client(), &REQUESTS);
    let is_counted = |name: &str| expected[0].iter().any(|line| line.starts_with(&format!("cmdstat_{name}:")));
    assert!(is_counted("xgroup|destroy") && is_counted("mset"), "{expected:?}");
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &[]);
        assert_eq!(statistics_of(&mut server.client(), &REQUESTS), expected, "on {setup:?}");
    }
}

#[test]
fn an_error_code_that_is_too_long_is_counted_as_err() {
    on_every_engine(|server| {
        let mut client = server.client();
        let of_code = |len: usize| format!("EVAL \"return redis.error_reply('{} x')\" 0", "C".repeat(len));
        let [_, errors] = statistics_of(&mut client, &[&of_code(30), &of_code(31)]);
        assert_eq!(errors, [format!("errorstat_{}:count=1", "C".repeat(30)), "errorstat_ERR:count=1".into()]);
    });
}

#[test]
fn scan_with_a_type_looks_its_keys_up_and_bitop_none_after_one_of_another_type() {
    const REQUESTS: &str = "RPUSH list a|MSET a 1 b 2 c 3|SCAN 0 TYPE string COUNT 100|SCAN 0 TYPE hash MATCH a COUNT 100\
        |SCAN 0 COUNT 100|BITOP AND d a list b c|BITOP OR d a b none";
    let lookups = |client: &mut Client| {
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        let figure = |client: &mut Client, name: &str| {
            let text = client.value(&["INFO", "stats"]).text();
            text.lines().find(|line| line.starts_with(name)).map(ToOwned::to_owned)
        };
        REQUESTS
            .split('|')
            .map(|line| {
                client.call(&words(line));
                (line, figure(client, "keyspace_hits:"), figure(client, "keyspace_misses:"))
            })
            .collect::<Vec<_>>()
    };
    let oracle = RedisOracle::start();
    let expected = lookups(&mut oracle.client());
    on_every_engine(|server| assert_eq!(lookups(&mut server.client()), expected));
}
