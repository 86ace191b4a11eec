//! COMMAND: what clients and redis-cli read about the commands.

use harness::{Embedded, Endpoint, RedisOracle, Value, check_script, on_every_engine, run_to_its_end};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn getkeys_finds_the_keys_of_a_request() {
    check_script(
        r#"
        COMMAND GETKEYS GET k
        *1 | $1 | k
        COMMAND GETKEYS MGET a b c
        *3 | $1 | a | $1 | b | $1 | c
        COMMAND GETKEYS MSET a 1 b 2
        *2 | $1 | a | $1 | b
        COMMAND GETKEYS del a b
        *2 | $1 | a | $1 | b
        COMMAND GETKEYS georadius k 1 2 3 m store a storedist b
        *3 | $1 | k | $1 | a | $1 | b
        COMMAND GETKEYS georadius k 1 2 3 m store store storedist b
        *3 | $1 | k | $5 | store | $1 | b
        COMMAND GETKEYS georadiusbymember k m 2 m store a store b
        *2 | $1 | k | $1 | a
        COMMAND GETKEYS georadius k 1 2 3 m count 1 store
        *1 | $1 | k
        COMMAND GETKEYS RENAME a b
        *2 | $1 | a | $1 | b
        COMMAND GETKEYS SINTERSTORE d a b
        *3 | $1 | d | $1 | a | $1 | b
        COMMAND GETKEYS LMPOP 2 a b LEFT
        *2 | $1 | a | $1 | b
        COMMAND GETKEYS SINTERCARD 1 a
        *1 | $1 | a
        COMMAND GETKEYS LMPOP 0 a LEFT
        -ERR Invalid arguments specified for command
        COMMAND GETKEYS LMPOP -1 a LEFT
        -ERR Invalid arguments specified for command
        COMMAND GETKEYS LMPOP x a LEFT
        -ERR Invalid arguments specified for command
        COMMAND GETKEYS LMPOP 3 a LEFT
        -ERR Invalid arguments specified for command
        COMMAND GETKEYS SINTERCARD 9223372036854775808 a
        -ERR Invalid arguments specified for command
        # 7.0 wants an argument more.
        !COMMAND GETKEYS PING
        -ERR The command has no key arguments
        !COMMAND GETKEYS save
        -ERR The command has no key arguments
        COMMAND GETKEYS save a
        -ERR The command has no key arguments
        COMMAND GETKEYS debug a
        -ERR The command has no key arguments
        COMMAND GETKEYS script flush
        -ERR The command has no key arguments
        COMMAND GETKEYS function flush X
        -ERR The command has no key arguments
        COMMAND GETKEYS function delete a a
        -ERR The command has no key arguments
        COMMAND GETKEYSANDFLAGS cluster countkeysinslot a
        -ERR The command has no key arguments
        !COMMAND GETKEYS flushall
        -ERR The command has no key arguments
        COMMAND GETKEYS PFMERGE p
        -ERR Invalid arguments specified for command
        COMMAND GETKEYS PFMERGE p q
        *2 | $1 | p | $1 | q
        COMMAND GETKEYS EVAL x 0
        *0
        COMMAND GETKEYS SORT k
        *1 | $1 | k
        COMMAND GETKEYS NOSUCH x
        -ERR Invalid command specified
        !COMMAND GETKEYS GET
        -ERR Invalid number of arguments specified for command
        COMMAND GETKEYS
        -ERR wrong number of arguments for 'command\x7cgetkeys' command
        COMMAND NOSUCH
        -ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.
        COMMAND COUNT x
        -ERR wrong number of arguments for 'command\x7ccount' command
        COMMAND INFO nosuch
        *1 | $-1
        COMMAND DOCS nosuch
        *0
        COMMAND LIST FILTERBY
        -ERR syntax error
        COMMAND LIST FILTERBY BOGUS x
        -ERR syntax error
        COMMAND LIST FILTERBY MODULE none
        *0
        "#,
    );
}

#[test]
fn getkeysandflags_tells_what_becomes_of_each_key() {
    check_script(
        r#"
        COMMAND GETKEYSANDFLAGS SET k v
        *1 | *2 | $1 | k | *2 | +OW | +update
        COMMAND GETKEYSANDFLAGS SET k v EX 1 GET
        *1 | *2 | $1 | k | *3 | +RW | +access | +update
        COMMAND GETKEYSANDFLAGS LMOVE a b LEFT RIGHT
        *2 | *2 | $1 | a | *3 | +RW | +access | +delete | *2 | $1 | b | *2 | +RW | +insert
        COMMAND GETKEYSANDFLAGS SORT a LIMIT 0 store STORE b
        *2 | *2 | $1 | a | *2 | +RO | +access | *2 | $1 | b | *2 | +OW | +update
        COMMAND GETKEYSANDFLAGS ZUNIONSTORE d 2 a b
        *3 | *2 | $1 | d | *2 | +OW | +update | *2 | $1 | a | *2 | +RO | +access | *2 | $1 | b | *2 | +RO | +access
        COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 OVERFLOW SAT GET u8 1
        *1 | *2 | $1 | a | *2 | +RO | +access
        COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 INCRBY u8 0 1
        *1 | *2 | $1 | a | *3 | +RW | +access | +update
        COMMAND GETKEYSANDFLAGS XREAD STREAMS a b 0 0
        *2 | *2 | $1 | a | *2 | +RO | +access | *2 | $1 | b | *2 | +RO | +access
        COMMAND GETKEYSANDFLAGS OBJECT ENCODING a
        *1 | *2 | $1 | a | *1 | +RO
        COMMAND GETKEYSANDFLAGS GEORADIUS k 1 2 3 m storedist a STORE b
        *3 | *2 | $1 | k | *2 | +RO | +access | *2 | $1 | b | *2 | +OW | +update | *2 | $1 | a | *2 | +OW | +update
        COMMAND GETKEYSANDFLAGS LMPOP 0 a LEFT
        -ERR Invalid arguments specified for command
        COMMAND GETKEYSANDFLAGS NOSUCH a
        -ERR Invalid command specified
        "#,
    );
}

#[test]
fn the_lists_of_commands_agree_with_each_other() {
    on_every_engine(|server| {
        let mut client = server.client();
        let count = client.value(&["COMMAND", "COUNT"]).integer() as usize;
        let all = client.value(&["COMMAND"]);
        assert_eq!(all.elements().len(), count);
        let names: BTreeSet<String> = all.elements().iter().map(|row| row.elements()[0].text()).collect();
        assert_eq!(names.len(), count);
        let listed: BTreeSet<String> = client.value(&["COMMAND", "LIST"]).elements().iter().map(Value::text).collect();
        assert!(names.is_subset(&listed), "{names:?} {listed:?}");
        let docs = client.value(&["COMMAND", "DOCS"]);
        let documented: BTreeSet<String> = docs.elements().iter().step_by(2).map(Value::text).collect();
        assert_eq!(documented, names);
        let filtered = client.value(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "h*get*"]);
        let filtered: BTreeSet<String> = filtered.elements().iter().map(Value::text).collect();
        assert_eq!(filtered, ["hget", "hgetall", "hmget"].map(String::from).into());
    });
}

/// Commands that Redis 7.0 does not know.
const OURS: [&str; 2] = ["stats", "waitaof"];

/// Commands that accept more arguments since Redis 7.2.
const LONGER: [&str; 2] = ["zrank", "zrevrank"];

#[test]
fn arity_keys_and_flags_of_every_command_are_those_of_redis() {
    let oracle = RedisOracle::start();
    let server = Embedded::start(harness::EVERY_ENGINE[0], &[]);
    let mut ours = server.client();
    let mut theirs = oracle.client();
    let rows = ours.value(&["COMMAND"]);
    for row in rows.elements() {
        let name = row.elements()[0].text();
        if OURS.contains(&name.as_str()) {
            continue;
        }
        let reply = theirs.value(&["COMMAND", "INFO", &name]);
        let their_row = &reply.elements()[0];
        let part = |row: &Value, index: usize| row.elements()[index].clone();
        let arity = part(their_row, 1).integer();
        let arity = if LONGER.contains(&name.as_str()) { -arity } else { arity };
        assert_eq!(part(row, 1).integer(), arity, "arity of {name}");
        for (index, what) in [(3, "first key"), (4, "last key"), (5, "key step")] {
            assert_eq!(part(row, index), part(their_row, index), "{what} of {name}");
        }
        let flags = |row: &Value| -> BTreeSet<String> { part(row, 2).elements().iter().map(Value::text).collect() };
        const COMPARED: [&str; 10] = [
            "write",
            "readonly",
            "denyoom",
            "fast",
            "no_auth",
            "movablekeys",
            "loading",
            "allow_busy",
            "no_async_loading",
            "asking",
        ];
        for flag in COMPARED {
            // WATCH accesses keys, which a script holds here.
            if (flag, name.as_str()) == ("allow_busy", "watch") {
                continue;
            }
            assert_eq!(flags(row).contains(flag), flags(their_row).contains(flag), "flag {flag} of {name}");
        }
        assert_eq!(part(row, 6), part(their_row, 6), "categories of {name}");
        let output = |row: &Value| -> BTreeSet<String> {
            let tips = part(row, 7).elements().iter().map(Value::text).collect::<Vec<_>>();
            tips.into_iter().filter(|tip| tip.starts_with("nondeterministic")).collect()
        };
        assert_eq!(output(row), output(their_row), "how far the reply of {name} varies");
        let specifications =
            |row: &Value| part(row, 8).elements().iter().map(|one| one.field("flags").cloned()).collect();
        let (of_ours, of_theirs): (Vec<_>, Vec<_>) = (specifications(row), specifications(their_row));
        assert_eq!(of_ours, of_theirs, "what {name} does with its keys");
        if name.starts_with("sort") {
            assert_eq!(part(row, 8), part(their_row, 8), "the specifications of {name}");
        }
        assert_eq!(row.elements().len(), their_row.elements().len(), "parts of the row of {name}");
    }
}

/// Commands that 7.2 calls deprecated, and 7.0 does not yet.
const DEPRECATED_IN_7_2: [&str; 4] = ["psetex", "quit", "setex", "setnx"];

#[test]
fn docs_name_group_and_versions_as_redis_does() {
    let oracle = RedisOracle::start();
    let server = Embedded::start(harness::EVERY_ENGINE[0], &[]);
    let ours = server.client().value(&["COMMAND", "DOCS"]);
    let mut theirs = oracle.client();
    for pair in ours.elements().chunks_exact(2) {
        let name = pair[0].text();
        for field in ["summary", "since", "group", "complexity"] {
            assert!(!pair[1].field(field).unwrap_or_else(|| panic!("{name} has no {field}")).text().is_empty());
        }
        if OURS.contains(&name.as_str()) {
            continue;
        }
        let docs = theirs.value(&["COMMAND", "DOCS", &name]);
        let their_docs = &docs.elements()[1];
        for field in ["since", "group"] {
            assert_eq!(pair[1].field(field), their_docs.field(field), "{field} of {name}");
        }
        if !DEPRECATED_IN_7_2.contains(&name.as_str()) {
            let deprecated = |docs: &Value| docs.field("deprecated_since").map(Value::text);
            assert_eq!(deprecated(&pair[1]), deprecated(their_docs), "since when {name} is deprecated");
        }
    }
}

/// Commands whose arguments 7.2 describes in another structure than 7.0, with the difference.
const RESTRUCTURED: [(&str, &str); 18] = [
    ("bitop", "the operations are named"),
    ("client|kill", "SKIPME is YES or NO, USER and MAXAGE"),
    ("client|list", "IDs without a block"),
    ("command|getkeys", "described"),
    ("command|getkeysandflags", "described"),
    ("config|get", "parameters without a block"),
    ("geohash", "members may be left out"),
    ("geopos", "members may be left out"),
    ("georadius", "STORE and STOREDIST are one of two"),
    ("georadiusbymember", "STORE and STOREDIST are one of two"),
    ("hscan", "NOVALUES, of 7.4"),
    ("migrate", "a password is not optional in itself"),
    ("pfmerge", "sources may be left out"),
    ("psubscribe", "patterns without a block"),
    ("xinfo|stream", "FULL is a word of its block"),
    ("zrank", "WITHSCORE"),
    ("zrevrank", "WITHSCORE"),
    ("zscan", "NOSCORES, of Valkey"),
];

/// Commands with arguments that 7.2 has renamed.
const RENAMED: &[&str] = &[
    "acl|cat",
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitpos",
    "client|reply",
    "client|tracking",
    "client|unblock",
    "cluster|addslotsrange",
    "cluster|delslotsrange",
    "cluster|meet",
    "cluster|reset",
    "cluster|setslot",
    "config|set",
    "flushall",
    "flushdb",
    "function|flush",
    "geoadd",
    "georadius_ro",
    "georadiusbymember_ro",
    "geosearch",
    "geosearchstore",
    "hello",
    "hmset",
    "hset",
    "lcs",
    "mset",
    "msetnx",
    "script|flush",
    "shutdown",
    "sort",
    "sort_ro",
    "xadd",
    "xclaim",
    "xgroup|create",
    "xgroup|createconsumer",
    "xgroup|delconsumer",
    "xgroup|destroy",
    "xgroup|setid",
    "xinfo|consumers",
    "xreadgroup",
    "xsetid",
    "zadd",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrangestore",
    "zrevrangebylex",
    "zrevrangebyscore",
];

/// Arguments, without the names and the displayed texts unless `named`.
fn structure(arguments: &Value, named: bool) -> Vec<Vec<(String, String)>> {
    let fields = ["type", "token", "key_spec_index", "since", "deprecated_since", "flags"];
    let fields = fields.into_iter().chain(named.then_some("name"));
    let described = |argument: &Value| {
        let mut of_fields: Vec<(String, String)> = fields
            .clone()
            .filter_map(|field| Some((field.to_owned(), format!("{:?}", argument.field(field)?))))
            .collect();
        if let Some(parts) = argument.field("arguments") {
            of_fields.push(("parts".to_owned(), format!("{:?}", structure(parts, named))));
        }
        of_fields
    };
    arguments.elements().iter().map(described).collect()
}

#[test]
fn docs_describe_the_arguments_as_redis_does() {
    let oracle = RedisOracle::start();
    let server = Embedded::start(harness::EVERY_ENGINE[0], &[]);
    let (mut ours, mut theirs) = (server.client(), oracle.client());
    let (mut compared, mut other, mut renamed) = (0, Vec::new(), Vec::new());
    for name in ours.value(&["COMMAND", "LIST"]).elements().iter().map(Value::text) {
        let (docs, their_docs) = (ours.value(&["COMMAND", "DOCS", &name]), theirs.value(&["COMMAND", "DOCS", &name]));
        assert_eq!(docs.elements()[0].text(), name, "a subcommand is named as its row");
        let Some(their_docs) = their_docs.elements().get(1) else { continue };
        let arguments = |docs: &Value, named| docs.field("arguments").map(|arguments| structure(arguments, named));
        let docs = &docs.elements()[1];
        compared += 1;
        if arguments(docs, false) != arguments(their_docs, false) {
            other.push(name);
        } else if arguments(docs, true) != arguments(their_docs, true) {
            renamed.push(name);
        }
    }
    assert!(compared > 200, "{compared} commands");
    other.sort();
    renamed.sort();
    assert_eq!(other, RESTRUCTURED.map(|(name, _)| name), "the structure of the arguments");
    assert_eq!(renamed, RENAMED, "the names of the arguments");
}

#[test]
fn docs_show_each_argument_as_redis_7_2_does() {
    on_every_engine(|server| {
        let docs = server.client().value(&["COMMAND", "DOCS", "set"]);
        let arguments = docs.elements()[1].field("arguments").expect("SET has arguments").clone();
        let key = &arguments.elements()[0];
        let fields: Vec<String> = key.elements().iter().step_by(2).map(Value::text).collect();
        assert_eq!(fields, ["name", "type", "display_text", "key_spec_index"]);
        let expiration = arguments.elements().last().expect("it has several");
        assert_eq!(expiration.field("type").map(Value::text).as_deref(), Some("oneof"));
        assert!(expiration.field("display_text").is_none(), "a choice is shown by its parts");
        let seconds = &expiration.field("arguments").expect("a choice has parts").elements()[0];
        assert_eq!(seconds.field("token").map(Value::text).as_deref(), Some("EX"));
        for (name, version) in
            [("getset", "6.2.0"), ("slaveof", "5.0.0"), ("cluster|slots", "7.0.0"), ("cluster|slaves", "5.0.0")]
        {
            let docs = server.client().value(&["COMMAND", "DOCS", name]);
            let docs = &docs.elements()[1];
            let flag = docs.field("doc_flags").map(|flags| flags.elements()[0].text());
            assert_eq!(flag.as_deref(), Some("deprecated"), "{name}");
            assert_eq!(docs.field("deprecated_since").map(Value::text).as_deref(), Some(version), "{name}");
        }
        for name in ["debug", "pfdebug", "pfselftest", "replconf", "restore-asking"] {
            let docs = server.client().value(&["COMMAND", "DOCS", name]);
            let flags = docs.elements()[1].field("doc_flags").map(|flags| flags.elements()[0].text());
            assert_eq!(flags.as_deref(), Some("syscmd"), "{name}");
        }
    });
}

#[test]
fn help_lists_the_subcommands_of_every_container() {
    on_every_engine(|server| {
        let mut client = server.client();
        let listed = client.value(&["COMMAND", "LIST"]);
        let names: BTreeSet<String> = listed.elements().iter().map(Value::text).collect();
        for container in ["client", "command", "latency", "memory", "object", "pubsub", "slowlog", "xgroup", "xinfo"] {
            let help = client.value(&[container, "HELP"]);
            let lines: Vec<String> = help.elements().iter().map(Value::text).collect();
            let first =
                format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", container.to_uppercase());
            assert_eq!(lines[0], first);
            for name in names.iter().filter_map(|name| name.strip_prefix(&format!("{container}|"))) {
                let name = name.to_uppercase();
                let is_told = |line: &String| line.split([' ', '(']).next() == Some(&name);
                assert!(lines.iter().any(is_told), "{container} HELP says nothing of {name}");
            }
        }
    });
}

/// Runs the real redis-cli with these input lines.
fn redis_cli(server: &Endpoint, arguments: &[&str], input: &str) -> String {
    let file = server.data().path().join("redis-cli-input");
    std::fs::File::create(&file).unwrap().write_all(input.as_bytes()).unwrap();
    let port = server.address().port().to_string();
    let mut command = Command::new("sh");
    // `sh` for the redirection; a missing redis-cli fails the test by its name.
    command.args(["-c", "exec redis-cli -p \"$0\" \"$@\" < redis-cli-input", &port]).args(arguments);
    let ended = run_to_its_end(command.current_dir(server.data().path()).stdin(Stdio::null()));
    assert!(ended.status.success(), "redis-cli (make test installs it): {ended:?}");
    ended.stdout
}

#[test]
fn redis_cli_works() {
    on_every_engine(|server| {
        assert_eq!(
            redis_cli(server, &[], "SET k \"a b\"\nGET k\nnosuch\n"),
            "OK\na b\nERR unknown command 'nosuch', with args beginning with: \n\n"
        );
        assert_eq!(redis_cli(server, &["--no-raw", "HGETALL", "none"], ""), "(empty array)\n");
        assert_eq!(redis_cli(server, &["-3", "--no-raw", "HGETALL", "none"], ""), "(empty hash)\n");
        let docs = redis_cli(server, &["--no-raw", "COMMAND", "DOCS", "get"], "");
        assert!(docs.contains("\"summary\"") && docs.contains("\"string\""), "{docs}");
        let pipe = redis_cli(server, &["--pipe"], &"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\n1\r\n".repeat(1_000));
        assert!(pipe.contains("errors: 0, replies: 1000"), "{pipe}");
    });
}

#[test]
fn redis_cli_reads_the_docs_for_its_hints_when_it_is_used_by_hand() {
    on_every_engine(|server| {
        // `script` gives it a terminal; at its start it asks for COMMAND DOCS.
        let port = server.address().port();
        let ended = run_to_its_end(
            Command::new("sh")
                .args([
                    "-c",
                    &format!("printf 'SET k by-hand\\nGET k\\nquit\\n' | script -qec 'redis-cli -p {port}' /dev/null"),
                ])
                .env("TERM", "dumb")
                .current_dir(server.data().path()),
        );
        assert!(ended.status.success(), "{ended:?}");
        assert!(ended.stdout.contains("\"by-hand\""), "{ended:?}");
        let list = server.client().value(&["INFO", "stats"]).text();
        assert!(list.contains("total_commands_processed"), "{list}");
    });
}

/// The tips of a command about the nodes of a cluster.
fn policies_of(row: &Value) -> Vec<String> {
    let tips = row.elements()[7].elements().iter().map(Value::text);
    tips.filter(|tip| tip.contains("policy:")).collect()
}

#[test]
fn a_client_of_a_cluster_is_told_which_nodes_a_request_concerns_and_how_it_joins_their_replies() {
    const SUCCEED: [&str; 2] = ["request_policy:all_nodes", "response_policy:all_succeeded"];
    on_every_engine(|server| {
        let mut client = server.client();
        for (name, wanted) in [
            ("config|set", &SUCCEED[..]),
            ("script|flush", &SUCCEED),
            ("ping", &["request_policy:all_shards", "response_policy:all_succeeded"]),
            ("wait", &["request_policy:all_shards", "response_policy:agg_min"]),
            ("script|exists", &["request_policy:all_shards", "response_policy:agg_logical_and"]),
            ("slowlog|get", &["request_policy:all_nodes"]),
            ("del", &["request_policy:multi_shard", "response_policy:agg_sum"]),
            ("swapdb", &[]),
            ("get", &[]),
        ] {
            let rows = client.value(&["COMMAND", "INFO", name]);
            assert_eq!(policies_of(&rows.elements()[0]), wanted, "{name}");
        }
        let rows = client.value(&["COMMAND", "INFO", "waitaof"]);
        let categories: Vec<String> = rows.elements()[0].elements()[6].elements().iter().map(Value::text).collect();
        assert!(categories.contains(&"@connection".into()) && !categories.contains(&"@keyspace".into()));
    });
}
