//! CLIENT, CONFIG, INFO and STATS: what the server reports about its connections, its configuration and itself.

use harness::{
    Client, EVERY_ENGINE, Embedded, Value, check_script, on_every_engine, on_every_process, request, wait_until,
};
use std::collections::HashMap;
use std::time::Duration;

/// The fields of a line of CLIENT LIST.
fn fields(line: &str) -> HashMap<&str, &str> {
    line.split_whitespace().map(|field| field.split_once('=').expect("name=value")).collect()
}

#[test]
fn client_list_shows_every_connection_and_what_it_does() {
    on_every_engine(|server| {
        let mut first = server.client();
        let mut second = Client::connect_resp3(server.address());
        let id = |client: &mut Client| client.value(&["CLIENT", "ID"]).integer();
        let (first_id, second_id) = (id(&mut first), id(&mut second));
        assert!(second_id > first_id);
        first.expect("CLIENT SETNAME first", "+OK\r\n");
        first.expect("CLIENT SETINFO LIB-NAME tests", "+OK\r\n");
        first.expect("CLIENT SETINFO LIB-VER 1.2", "+OK\r\n");
        first.expect("CLIENT NO-TOUCH on", "+OK\r\n");
        first.expect("GET k", "$-1\r\n");
        let list = second.value(&["CLIENT", "LIST"]).text();
        assert_eq!(list.lines().count(), 2, "{list}");
        let lines: Vec<HashMap<&str, &str>> = list.lines().map(fields).collect();
        let wanted = [
            ("id", first_id.to_string()),
            ("addr", first.stream().local_addr().unwrap().to_string()),
            ("laddr", server.address().to_string()),
            ("name", "first".into()),
            ("lib-name", "tests".into()),
            ("lib-ver", "1.2".into()),
            ("cmd", "get".into()),
            ("resp", "2".into()),
            ("db", "0".into()),
            ("flags", "T".into()),
        ];
        for (field, value) in wanted {
            assert_eq!(lines[0].get(field), Some(&value.as_str()), "{field} of {list}");
        }
        assert_eq!(lines[1]["id"], second_id.to_string());
        assert_eq!(lines[1]["resp"], "3");
        assert_eq!(lines[1]["cmd"], "client|list");
        let info = second.value(&["CLIENT", "INFO"]).text();
        assert_eq!(fields(info.trim())["id"], second_id.to_string());
        // In the order of the request, again for each time that it names one.
        let (one, two) = (first_id.to_string(), second_id.to_string());
        let listed = second.value(&["CLIENT", "LIST", "ID", &two, "999999", &one, "0", &two, "-1"]).text();
        let listed: Vec<&str> = listed.lines().map(|line| fields(line)["id"]).collect();
        assert_eq!(listed, [&two, &one, &two]);
        let normal = second.value(&["CLIENT", "LIST", "TYPE", "normal"]).text();
        assert_eq!(normal.lines().count(), 2);
        drop(first);
        wait_until("the first is gone", || second.value(&["CLIENT", "LIST"]).text().lines().count() == 1);
    });
}

#[test]
fn client_list_shows_what_is_queued_and_the_request_that_asks() {
    on_every_engine(|server| {
        let (mut client, mut other) = (server.client(), server.client());
        let line_of = |client: &mut Client, id: i64| client.value(&["CLIENT", "LIST", "ID", &id.to_string()]).text();
        let id = client.value(&["CLIENT", "ID"]).integer();
        let info = client.value(&["CLIENT", "INFO"]).text();
        let of_info = fields(info.trim());
        // *2 $6 CLIENT $4 INFO, each with its line end.
        for (field, value) in [("qbuf", "26"), ("argv-mem", "10"), ("multi", "-1"), ("multi-mem", "0"), ("flags", "N")]
        {
            assert_eq!(of_info[field], value, "{field} of {info}");
        }
        client.expect("MULTI", "+OK\r\n");
        assert_eq!(fields(line_of(&mut other, id).trim())["multi"], "0");
        client.expect("SET k v", "+QUEUED\r\n");
        client.expect("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n");
        client.expect("DISCARD", "+OK\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET k v", "+QUEUED\r\n");
        client.expect("GET k", "+QUEUED\r\n");
        let line = line_of(&mut other, id);
        let of_line = fields(line.trim());
        for (field, value) in [("qbuf", "0"), ("multi", "2"), ("multi-mem", "9"), ("flags", "x"), ("cmd", "get")] {
            assert_eq!(of_line[field], value, "{field} of {line}");
        }
        client.expect("EXEC", "*2\r\n+OK\r\n$1\r\nv\r\n");
        assert_eq!(fields(line_of(&mut other, id).trim())["multi"], "-1");
        client.expect("MULTI", "+OK\r\n");
        client.expect("RESET", "+RESET\r\n");
        assert_eq!(fields(line_of(&mut other, id).trim())["multi"], "-1");
    });
}

/// What a line of CLIENT LIST says about the last request.
fn about_request(line: &str) -> String {
    let of_line = fields(line.trim());
    format!("{} {} {}", of_line["cmd"], of_line["flags"], of_line["multi"])
}

/// What CLIENT LIST says of a connection after each of some requests, and CLIENT INFO in a transaction of three.
fn commands_shown(mut client: Client, mut other: Client) -> Vec<String> {
    const REQUESTS: &str = "NOSUCH|GET|CLIENT NOSUCH|CLIENT|CONFIG GET|SUBSCRIBE a|GET a|RESET|OBJECT HELP|AUTH x|MULTI|\
        GET a|NOSUCH|DISCARD|EXEC|MULTI|SELECT 1|EXEC x|EXEC|MULTI|CLIENT INFO|CLIENT ID|OBJECT HELP";
    let id = client.value(&["CLIENT", "ID"]).integer().to_string();
    let mut of_list = || about_request(&other.value(&["CLIENT", "LIST", "ID", &id]).text());
    let mut shown = Vec::new();
    for request in REQUESTS.split('|') {
        client.call(&harness::words(request));
        shown.push(format!("{request}: {}", of_list()));
    }
    let replies = client.value(&["EXEC"]);
    shown.extend([about_request(&replies.elements()[0].text()), of_list()]);
    shown
}

#[test]
fn the_command_of_a_connection_is_what_its_last_request_named_and_exec_while_that_runs() {
    let oracle = harness::RedisOracle::start();
    let theirs = commands_shown(oracle.client(), oracle.client());
    assert!(theirs.contains(&"exec x 3".to_owned()), "{theirs:?}");
    on_every_engine(|server| assert_eq!(commands_shown(server.client(), server.client()), theirs));
}

#[test]
fn commands_of_a_connection_with_no_touch_are_no_uses_of_their_keys() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("MSET a v b v", "+OK\r\n");
        client.expect("RPUSH list x", ":1\r\n");
        client.expect("CLIENT NO-TOUCH on", "+OK\r\n");
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        let idle = |client: &mut Client, key: &str| client.value(&["OBJECT", "IDLETIME", key]).integer();
        client.expect("GET a", "$1\r\nv\r\n");
        client.expect("MGET a b", "*2\r\n$1\r\nv\r\n$1\r\nv\r\n");
        client.expect("RPUSH list y", ":2\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("GET a", "+QUEUED\r\n");
        client.expect("EXEC", "*1\r\n$1\r\nv\r\n");
        for key in ["a", "b", "list"] {
            assert!(idle(&mut client, key) >= 2, "{key}");
        }
        client.expect("TOUCH b", ":1\r\n");
        assert!(idle(&mut client, "b") < 2, "TOUCH is a use");
        assert!(idle(&mut client, "a") >= 2, "and of its key alone");
        // In a transaction it includes the command itself.
        client.expect("MULTI", "+OK\r\n");
        client.expect("CLIENT NO-TOUCH off", "+QUEUED\r\n");
        client.expect("GET a", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n+OK\r\n$1\r\nv\r\n");
        assert!(idle(&mut client, "a") < 2);
        client.expect("LLEN list", ":2\r\n");
        assert!(idle(&mut client, "list") < 2);
    });
}

#[test]
fn touch_in_a_pipeline_of_a_connection_with_no_touch_is_a_use_of_its_own_key_alone() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("MSET a v b v", "+OK\r\n");
        client.expect("CLIENT NO-TOUCH on", "+OK\r\n");
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        client.pipeline(&[vec!["TOUCH", "a"], vec!["GET", "b"], vec!["GET", "b"]]);
        assert!(client.value(&["OBJECT", "IDLETIME", "a"]).integer() < 2);
        assert!(client.value(&["OBJECT", "IDLETIME", "b"]).integer() >= 2);
    });
}

#[test]
fn client_list_has_the_fields_of_redis() {
    let oracle = harness::RedisOracle::start();
    let names = |client: &mut Client| -> Vec<String> {
        let info = client.value(&["CLIENT", "INFO"]).text();
        let names = info.split_whitespace().map(|field| field.split('=').next().unwrap().to_owned());
        names.collect()
    };
    let theirs = names(&mut oracle.client());
    let server = Embedded::start(EVERY_ENGINE[0], &[]);
    let ours = names(&mut server.client());
    let missing: Vec<&String> = theirs.iter().filter(|name| !ours.contains(name)).collect();
    assert!(missing.is_empty(), "CLIENT INFO lacks {missing:?}");
}

#[test]
fn client_list_shows_a_broken_watch_until_the_transaction_is_over() {
    on_every_engine(|server| {
        let (mut client, mut other) = (server.client(), server.client());
        let id = client.value(&["CLIENT", "ID"]).integer().to_string();
        let mut flags = |client: &mut Client, request: &str, wanted: &str| {
            client.call(&harness::words(request));
            let line = other.value(&["CLIENT", "LIST", "ID", &id]).text();
            assert_eq!(fields(line.trim_end())["flags"], wanted, "after {request}");
        };
        let mut writer = server.client();
        flags(&mut client, "WATCH a b", "N");
        flags(&mut writer, "SET c 1", "N");
        flags(&mut writer, "SET b 1", "d");
        flags(&mut client, "MULTI", "xd");
        flags(&mut client, "EXEC", "N");
        flags(&mut client, "WATCH a", "N");
        flags(&mut writer, "SET a 2", "d");
        flags(&mut client, "UNWATCH", "N");
    });
}

/// A field of a client's line.
fn field(admin: &mut Client, id: &str, name: &str) -> String {
    let line = admin.value(&["CLIENT", "LIST", "ID", id]).text();
    fields(line.trim_end())[name].to_owned()
}

#[test]
fn client_list_shows_a_connection_that_is_closed_when_it_has_its_replies() {
    on_every_engine(|server| {
        let mut admin = server.client();
        admin.call(&["SET", "k", &"v".repeat(64 << 10)]);
        let mut client = server.client();
        let id = client.value(&["CLIENT", "ID"]).integer().to_string();
        admin.expect("CONFIG RESETSTAT", "+OK\r\n");
        // One at a time: of a connection with too many replies that wait, no more requests are read, QUIT neither.
        for sent in 1.. {
            client.send(&request(&["GET", "k"]));
            let calls = format!("cmdstat_get:calls={sent},");
            wait_until("it has its reply", || admin.value(&["INFO", "commandstats"]).text().contains(&calls));
            let mut waits = || {
                std::thread::sleep(Duration::from_millis(10));
                field(&mut admin, &id, "omem") != "0"
            };
            // What the socket has room for is there only for a moment.
            if (0..5).all(|_| waits()) {
                break;
            }
        }
        let mut field = |name: &str| field(&mut admin, &id, name);
        assert_eq!(field("flags"), "N");
        client.send(&request(&["QUIT"]));
        wait_until("it is to be closed", || field("flags") == "c");
    });
}

#[test]
fn the_totals_of_info_do_not_go_back_when_a_client_is_killed() {
    on_every_engine(|server| {
        let mut admin = server.client();
        let input_bytes = |info: Value| {
            let info = info.text();
            let number = info.lines().find_map(|line| line.strip_prefix("total_net_input_bytes:"));
            number.expect("the field").parse::<u64>().expect("a number")
        };
        let value = "v".repeat(100_000);
        for round in 0..20 {
            let mut client = server.client();
            let id = client.value(&["CLIENT", "ID"]).integer().to_string();
            client.expect(&format!("SET k {value}"), "+OK\r\n");
            let before = input_bytes(admin.value(&["INFO", "stats"]));
            // In one write, so that the connection's task has no time to end in between.
            admin.send(&[request(&["CLIENT", "KILL", "ID", &id]), request(&["INFO", "stats"])].concat());
            assert_eq!(admin.value_of_next().integer(), 1);
            let after = input_bytes(admin.value_of_next());
            assert!(after >= before, "round {round}: {after} after {before}");
        }
    });
}

#[test]
fn info_counts_the_commands_of_transactions_and_scripts_and_not_what_is_refused() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mut ran = |requests: &[&str]| {
            let before = server.info_number("total_commands_processed");
            for line in requests {
                client.call(&harness::words(line));
            }
            // The INFO above is one itself, and what its connection begins with.
            server.info_number("total_commands_processed") - before
        };
        let none = ran(&[]);
        assert_eq!(ran(&["SET a 1", "GET a", "GET"]) - none, 2);
        assert_eq!(ran(&["NOSUCH", "CLIENT NOSUCH"]) - none, 0);
        assert_eq!(ran(&["MULTI", "SET a 1", "INCR a", "EXEC"]) - none, 4);
        assert_eq!(ran(&["EVAL \"redis.call('get', 'a') return redis.call('incr', 'a')\" 0"]) - none, 3);
        assert_eq!(ran(&["MSET a 1 b 2 c 3", "DEL a b c", "LPUSH a"]) - none, 2);
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert!(server.info_number("total_commands_processed") < 10);
    });
}

#[test]
fn config_get_and_set_follow_redis() {
    check_script(
        r#"
        CONFIG GET nosuch
        *0
        CONFIG GET maxclients
        *2 | $10 | maxclients | $5 | 10000
        CONFIG GET maxclient?
        *2 | $10 | maxclients | $5 | 10000
        CONFIG GET MaxClients
        *2 | $10 | MaxClients | $5 | 10000
        CONFIG SET maxclients 500
        +OK
        CONFIG GET maxclients
        *2 | $10 | maxclients | $3 | 500
        CONFIG SET maxclients 10000 timeout 7
        +OK
        CONFIG GET timeout
        *2 | $7 | timeout | $1 | 7
        CONFIG SET timeout 0
        +OK
        CONFIG SET maxclients x
        -ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer
        CONFIG SET timeout -1
        -ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and 2147483647 inclusive
        CONFIG SET timeout 5 maxclients x
        -ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer
        CONFIG GET timeout
        *2 | $7 | timeout | $1 | 0
        CONFIG SET timeout 1 timeout 2
        -ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter
        CONFIG SET appendfsync sometimes
        -ERR CONFIG SET failed (possibly related to argument 'appendfsync') - argument(s) must be one of the following: everysec, always, no
        CONFIG SET nosuch 1
        -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
        CONFIG SET port
        -ERR wrong number of arguments for 'config\x7cset' command
        CONFIG SET timeout 5 hz
        -ERR syntax error
        CONFIG GET
        -ERR wrong number of arguments for 'config\x7cget' command
        CONFIG NOSUCH
        -ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.
        CONFIG
        -ERR wrong number of arguments for 'config' command
        CONFIG SET proto-max-bulk-len 1mb
        +OK
        CONFIG GET proto-max-bulk-len
        *2 | $18 | proto-max-bulk-len | $7 | 1048576
        CONFIG SET proto-max-bulk-len 512mb
        +OK
        CONFIG SET zset-max-listpack-value 1kb
        +OK
        CONFIG GET zset-max-ziplist-value
        *2 | $22 | zset-max-ziplist-value | $4 | 1024
        CONFIG SET zset-max-ziplist-value 64b
        +OK
        CONFIG GET zset-max-listpack-value
        *2 | $23 | zset-max-listpack-value | $2 | 64
        CONFIG SET hz 0
        +OK
        CONFIG GET hz
        *2 | $2 | hz | $1 | 1
        CONFIG SET hz 501
        +OK
        CONFIG GET hz
        *2 | $2 | hz | $3 | 500
        CONFIG SET hz -1
        -ERR CONFIG SET failed (possibly related to argument 'hz') - argument must be between 0 and 2147483647 inclusive
        CONFIG SET hz x
        -ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer
        CONFIG SET hz 10
        +OK
        CONFIG SET maxmemory foo
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value
        CONFIG SET proto-max-bulk-len -1
        -ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - argument must be a memory value
        CONFIG SET repl-backlog-size 1kbb
        -ERR CONFIG SET failed (possibly related to argument 'repl-backlog-size') - argument must be a memory value
        CONFIG SET latency-tracking-info-percentiles 101
        -ERR CONFIG SET failed (possibly related to argument 'latency-tracking-info-percentiles') - latency-tracking-info-percentiles parameters should sit between [0.0,100.0]
        CONFIG SET Lua-Time-Limit -1
        -ERR CONFIG SET failed (possibly related to argument 'lua-time-limit') - argument must be between 0 and 9223372036854775807 inclusive
        # Another name of a parameter is another parameter.
        CONFIG SET hash-max-ziplist-entries 5 hash-max-listpack-entries 6
        +OK
        CONFIG GET hash-max-ziplist-entries
        *2 | $24 | hash-max-ziplist-entries | $1 | 6
        CONFIG SET hash-max-listpack-entries 511 hash-max-ziplist-entries 512
        +OK
        CONFIG GET hash-max-listpack-entries
        *2 | $25 | hash-max-listpack-entries | $3 | 512
        CONFIG SET hash-max-ziplist-entries 5 HASH-max-ziplist-entries 6
        -ERR CONFIG SET failed (possibly related to argument 'HASH-max-ziplist-entries') - duplicate parameter
        CONFIG SET databases 3
        -ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config
        CONFIG SET save ""
        +OK
        CONFIG RESETSTAT
        +OK
        CONFIG RESETSTAT x
        -ERR wrong number of arguments for 'config\x7cresetstat' command
        "#,
    );
}

#[test]
fn config_get_replies_what_clients_ask_first() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
        client.expect("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n");
        client.expect("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n16\r\n");
        let engine = server.setup().engine;
        let reply = format!("*2\r\n$6\r\nengine\r\n${}\r\n{engine}\r\n", engine.len());
        client.expect("CONFIG GET engine", &reply);
        let all = client.value(&["CONFIG", "GET", "*"]);
        assert!(all.elements().len() > 40, "{all:?}");
        let both = client.value(&["CONFIG", "GET", "append*", "appendonly", "hz"]);
        let mut names: Vec<String> = both.elements().iter().step_by(2).map(Value::text).collect();
        names.sort();
        assert_eq!(names, ["appenddirname", "appendfilename", "appendfsync", "appendonly", "hz"]);
    });
}

#[test]
fn info_has_its_sections_and_counts() {
    on_every_process(|server| {
        let mut client = server.client();
        client.call(&["MSET", "a", "1", "b", "2", "c", "3"]);
        client.call(&["EXPIRE", "a", "1000"]);
        client.pipeline(&[vec!["GET", "a"], vec!["GET", "b"], vec!["GET", "missing"]]);
        let text = client.value(&["INFO"]).text();
        for section in ["Server", "Clients", "Memory", "Persistence", "Stats", "Engine", "Keyspace"] {
            assert!(text.contains(&format!("# {section}\r\n")), "{section} in {text}");
        }
        let info = server.info();
        let setup = server.setup();
        assert_eq!(info["engine"], setup.engine);
        assert_eq!(info["tcp_port"], server.address().port().to_string());
        assert_eq!(info["loading"], "0");
        assert_eq!(info["aof_enabled"], "1");
        assert!(info["db0"].starts_with("keys=3,expires=1,avg_ttl="), "{}", info["db0"]);
        assert_eq!(info["keyspace_hits"], "2");
        assert_eq!(info["keyspace_misses"], "1");
        assert_eq!(info["run_id"].len(), 40);
        assert!(info["redis_version"].starts_with("7.2."), "{info:?}");
        assert!(server.info_number("used_memory") > 100_000);
        assert!(server.info_number("total_commands_processed") >= 5);
        if setup.engine == "actor" {
            assert_eq!(info["shards"], setup.shards.to_string());
            let keys: u64 =
                (0..setup.shards).map(|shard| fields_of_shard(&info[&format!("shard{shard}")])["keys"]).sum();
            assert_eq!(keys, 3);
        }
        let only = client.value(&["INFO", "keyspace"]).text();
        assert!(only.starts_with("# Keyspace\r\n") && !only.contains("# Server"), "{only}");
        let two = client.value(&["INFO", "SERVER", "clients"]).text();
        assert!(two.contains("# Server") && two.contains("# Clients") && !two.contains("# Stats"), "{two}");
        assert_eq!(client.value(&["INFO", "nosuch"]).text(), "");
    });
}

fn fields_of_shard(line: &str) -> HashMap<&str, u64> {
    let fields = line.split(',').map(|field| field.split_once('=').expect("name=value"));
    fields.map(|(name, value)| (name, value.parse().expect("a number"))).collect()
}

#[test]
fn resetstat_starts_the_counts_anew() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.call(&["SET", "k", "v"]);
        client.pipeline(&vec![vec!["GET", "k"]; 50]);
        client.pipeline(&vec![vec!["GET", "missing"]; 50]);
        assert!(server.info_number("keyspace_hits") >= 50);
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert_eq!(server.info_number("keyspace_hits"), 0);
        assert_eq!(server.info_number("keyspace_misses"), 0);
        assert!(server.info_number("total_commands_processed") < 50);
        client.expect("GET k", "$1\r\nv\r\n");
        assert_eq!(server.info_number("keyspace_hits"), 1);
    });
}

#[test]
fn stats_gives_the_engine_s_figures_in_one_reply() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.pipeline(&vec![vec!["INCR", "n"]; 100]);
        let stats = client.value(&["STATS"]);
        assert_eq!(stats.field("engine").unwrap().text(), server.setup().engine);
        let commands: u64 = stats.field("engine_commands").unwrap().text().parse().unwrap();
        assert!(commands >= 100, "{stats:?}");
        match server.setup().engine {
            "mutex" => assert!(stats.field("lock_acquired_free").is_some(), "{stats:?}"),
            "actor" => assert!(stats.field("shard0").unwrap().text().contains("queue_depth="), "{stats:?}"),
            _ => assert_eq!(stats.field("map_shards").unwrap().text(), server.setup().shards.to_string()),
        }
    });
}

#[test]
fn time_is_the_time() {
    on_every_engine(|server| {
        let time = server.client().value(&["TIME"]).byte_strings();
        let number = |index: usize| String::from_utf8(time[index].clone()).unwrap().parse::<u64>().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(number(0)) <= 5);
        assert!(number(1) < 1_000_000);
    });
}
