//! The configuration: files and command lines in Redis's form, CONFIG, and where the server listens.

use harness::server::{arguments, binary};
use harness::{
    Client, Data, EVERY_ENGINE, Embedded, Ended, RedisOracle, Server, Setup, Value, check_script, on_every_engine,
    on_every_process, run_to_its_end, wait_until,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const STOCK: [&str; 2] = [include_str!("stock/redis-7.0-debian.conf"), include_str!("stock/redis-7.2.conf")];

/// Writes a config file into the directory, and returns its path.
fn file(data: &Data, name: &str, text: &str) -> String {
    let path = data.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A server with a config file, which the flags of the harness override.
fn start_with(data: &Data, setup: Setup, text: &str, flags: &[&str]) -> Server {
    let path = file(data, "server.conf", text);
    let mut command = Command::new(binary());
    command.arg(path).args(arguments(data, setup)).args(flags).env_remove("RUST_LOG").current_dir(data.path());
    Server::spawn(&mut command, data.clone(), setup)
}

fn refused_with(text: &str) -> Ended {
    let data = Data::new();
    let path = file(&data, "server.conf", text);
    run_to_its_end(Command::new(binary()).arg(path).args(arguments(&data, EVERY_ENGINE[0])).current_dir(data.path()))
}

fn config(client: &mut Client, name: &str) -> String {
    client.value(&["CONFIG", "GET", name]).elements()[1].text()
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// Every parameter with its value.
fn all(client: &mut Client) -> BTreeMap<String, String> {
    let reply = client.value(&["CONFIG", "GET", "*"]);
    reply.elements().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
}

#[test]
fn a_stock_redis_conf_starts_and_warns_once_of_each_directive_without_effect() {
    for (setup, text) in EVERY_ENGINE.into_iter().flat_map(|setup| STOCK.map(|text| (setup, text))) {
        let data = Data::new();
        let pid_file = data.path().join("server.pid");
        // Debian's says `daemonize yes`.
        let flags = ["--logfile", "", "--daemonize", "no", "--pidfile", pid_file.to_str().unwrap()];
        let server = start_with(&data, setup, text, &flags);
        let mut client = server.client();
        client.expect("SET k v", "+OK\r\n");
        let log = server.log();
        let warned: Vec<&str> = log
            .lines()
            .filter_map(|line| line.split_once("' has no effect: "))
            .map(|(start, _)| start.rsplit('\'').next().unwrap())
            .collect();
        assert_eq!(warned.len(), warned.iter().collect::<BTreeSet<_>>().len(), "{warned:?}");
        for name in ["set-proc-title", "dynamic-hz", "appendfilename"] {
            assert!(warned.contains(&name), "{name} is not in {warned:?}");
        }
        for name in ["port", "bind", "save", "hz", "appendonly", "timeout", "replica-priority", "loglevel"] {
            assert!(!warned.contains(&name), "{name} is in {warned:?}");
        }
        // Directives with an effect have it.
        for (name, value) in [
            ("appendonly", "no"),
            ("tcp-backlog", "511"),
            ("bind", "127.0.0.1 -::1"),
            ("protected-mode", "yes"),
            ("tcp-keepalive", "300"),
        ] {
            assert_eq!(config(&mut client, name), value, "{name}");
        }
        assert!(config(&mut client, "client-output-buffer-limit").contains("slave 268435456 67108864 60"));
        // Those without an effect show the value that holds.
        assert_eq!(config(&mut client, "dynamic-hz"), "no");
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), format!("{}\n", server.pid()));
        server.stop();
        assert!(!pid_file.exists());
    }
}

#[test]
fn directives_that_somebody_relies_on_end_the_start_with_the_reason() {
    for (line, reason) in [
        ("tls-key-file-pass secret", "'tls-key-file-pass' can't be honoured: Keys that are encrypted"),
        ("replicaof 127.0.0.1 x", "Invalid master port"),
        ("slaveof 127.0.0.1", "wrong number of arguments"),
        ("loadmodule /usr/lib/x.so", "'loadmodule' can't be honoured: There are no modules"),
        ("aof-load-truncated no", "'aof-load-truncated' can't be honoured"),
        ("hz 10 20", "wrong number of arguments"),
        ("rdbcompression perhaps", "argument must be 'yes' or 'no'"),
        ("io-threads 0", "argument must be between 1 and 128 inclusive"),
        ("include /no/such/file.conf", "can't read config file /no/such/file.conf"),
        ("include server.conf", "server.conf includes itself"),
        ("dbfilename a/b", "dbfilename can't be a path, just a filename"),
        ("appenddirname a/b", "appenddirname can't be a path, just a dirname"),
        ("appenddirname \"\"", "appenddirname can't be empty"),
        ("unixsocketperm 778", "octal"),
    ] {
        let ended = refused_with(&format!("# first\n{line}\n"));
        assert_eq!(ended.status.code(), Some(1), "{line}: {ended:?}");
        assert!(
            ended.stderr.contains("server.conf, line 2") && ended.stderr.contains(reason),
            "{line}: {}",
            ended.stderr
        );
    }
    // The last value given counts.
    let data = Data::new();
    start_with(&data, EVERY_ENGINE[0], "tls-port 6380\ndaemonize yes\n", &["--tls-port", "0", "--daemonize", "no"]);
}

#[test]
fn the_score_of_the_process_for_the_kernel_follows_the_configuration_and_the_role() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--oom-score-adj", "yes", "--oom-score-adj-values", "10", "20", "30"]);
        let mut client = server.client();
        let path = format!("/proc/{}/oom_score_adj", server.pid());
        let score = || -> i64 { std::fs::read_to_string(&path).unwrap().trim().parse().unwrap() };
        let base = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse::<i64>().unwrap();
        // Who is not root may only raise it above what it was, and it ends at 1000.
        let above = |more: i64| (base + more).min(1000);
        assert_eq!(score(), above(10));
        client.expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        assert_eq!(score(), above(20));
        client.expect("REPLICAOF NO ONE", "+OK\r\n");
        assert_eq!(score(), above(10));
        assert_eq!(client.call(&["CONFIG", "SET", "oom-score-adj-values", "15  20 30"]), b"+OK\r\n");
        assert_eq!((score(), config(&mut client, "oom-score-adj-values")), (above(15), "15 20 30".into()));
        let values = format!("{} 20 30", above(7));
        let set = ["CONFIG", "SET", "oom-score-adj-values", &values, "oom-score-adj", "absolute"];
        assert_eq!(client.call(&set), b"+OK\r\n");
        assert_eq!(score(), above(7));
        client.expect("CONFIG SET oom-score-adj no", "+OK\r\n");
        assert_eq!(score(), base, "what it was before");
        assert_eq!(client.call(&["CONFIG", "SET", "oom-score-adj-values", "900 2000 0"]), b"+OK\r\n");
        assert_eq!(score(), base);
        // What cannot be set leaves all as it was: this port is taken.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let refused = client.value(&["CONFIG", "SET", "oom-score-adj", "yes", "port", &port]).text();
        assert!(refused.contains("'port') - Unable to listen on this port"), "{refused}");
        assert_eq!((score(), config(&mut client, "oom-score-adj")), (base, "no".into()));
        for (value, reason) in [
            ("-2001 0 0", "Invalid oom-score-adj-values, elements must be between -2000 and 2000."),
            ("1 2 x", "Invalid oom-score-adj-values, elements must be between -2000 and 2000."),
            ("1 2", "wrong number of arguments"),
        ] {
            let refused = client.value(&["CONFIG", "SET", "oom-score-adj-values", value]).text();
            assert!(refused.ends_with(reason), "{refused}");
        }
    }
}

#[test]
fn a_command_by_another_name_is_called_by_that_one_alone() {
    let lines = "rename-command FLUSHDB \"Badger\"\nrename-command config \"\"\nrename-command GET fetch\n";
    for setup in EVERY_ENGINE {
        let (data, flags) = (Data::new(), ["--rename-command", "EVAL", "run", "--rename-command", "TYPE ''"]);
        let server = start_with(&data, setup, lines, &flags);
        let mut client = server.client();
        client.expect("SET {a}k v", "+OK\r\n");
        client.expect("SET {b}k w", "+OK\r\n");
        client.expect("FETCH {a}k", "$1\r\nv\r\n");
        for (name, rest) in [("get", "{a}k"), ("FLUSHDB", "ASYNC"), ("CONFIG", "GET"), ("type", "{a}k")] {
            let wanted = format!("-ERR unknown command '{name}', with args beginning with: '{rest}' \r\n");
            client.expect(&format!("{name} {rest}"), &wanted);
        }
        // Among others of one read, which are gathered.
        let others = ["SET {a}k v", "FETCH {a}k", "fetch {b}k", "PING", "SET {b}k w", "Fetch {b}k"];
        let others: Vec<Vec<&str>> = others.iter().map(|line| line.split(' ').collect()).collect();
        let replies: Vec<String> = client.pipeline(&others).iter().map(Value::text).collect();
        assert_eq!(replies, ["OK", "v", "w", "PONG", "OK", "w"]);
        client.send(b"fetch {a}k\r\nFETCH \"{b}k\"\r\n");
        assert_eq!(client.values(2).iter().map(Value::text).collect::<Vec<_>>(), ["v", "w"]);
        // Errors and figures have the own name, as in Redis.
        client.expect("FETCH", "-ERR wrong number of arguments for 'get' command\r\n");
        let stats = client.value(&["INFO", "commandstats"]).text();
        assert!(stats.contains("cmdstat_get:calls=6,") && !stats.contains("fetch"), "{stats}");
        assert!(stats.contains("rejected_calls=1,"), "{stats}");
        // In transactions and scripts, and what a script may ask.
        client.expect("MULTI", "+OK\r\n");
        client.expect("FETCH {a}k", "+QUEUED\r\n");
        client.expect("GET {a}k", "-ERR unknown command 'GET', with args beginning with: '{a}k' \r\n");
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("FETCH {a}k", "+QUEUED\r\n");
        assert_eq!(client.call(&["RUN", "return redis.call('fetch', KEYS[1])", "1", "{b}k"]), b"+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n$1\r\nv\r\n$1\r\nw\r\n");
        for (script, wanted) in [
            ("return redis.call('FETCH', KEYS[1])", "w"),
            ("return redis.call('fetch', ARGV[1])", "v"),
            ("return redis.pcall('get', KEYS[1]).err", "ERR Unknown Redis command called from script"),
            ("return tostring(redis.acl_check_cmd('fetch', 'x'))", "true"),
        ] {
            let got = client.value(&["run", script, "1", "{b}k", "{a}k"]).text();
            assert!(got.starts_with(wanted), "{setup:?}: {script}: {got}");
        }
        let refused = client.value(&["run", "return redis.acl_check_cmd('get', 'x')", "0"]).text();
        assert!(refused.contains("Invalid command passed to redis.acl_check_cmd()"), "{refused}");
        // What clients learn of it: the own name, and nothing of what no client can call.
        let known = client.value(&["COMMAND", "INFO", "fetch", "get", "config", "config|get", "set"]);
        let names = known.elements().iter().map(|info| (!info.is_null()).then(|| info.elements()[0].text()));
        assert_eq!(names.collect::<Vec<_>>(), [Some("get".into()), None, None, None, Some("set".into())]);
        let listed = client.value(&["COMMAND", "LIST"]);
        let is_listed = |name: &&&str| listed.elements().iter().any(|one| one.text() == **name);
        let named = ["get", "flushdb", "fetch", "config", "config|get", "type"];
        assert_eq!(named.iter().filter(is_listed).collect::<Vec<_>>(), [&"get", &"flushdb"]);
        client.expect("COMMAND GETKEYS fetch key", "*1\r\n$3\r\nkey\r\n");
        client.expect("COMMAND GETKEYS get key", "-ERR Invalid command specified\r\n");
        client.expect("ACL DRYRUN default fetch key", "+OK\r\n");
        client.expect("ACL DRYRUN default get key", "-ERR Command 'get' not found\r\n");
        // Rules have the own names, whatever clients say.
        client.expect("ACL SETUSER worker on nopass ~* +@all -get", "+OK\r\n");
        client.expect("AUTH worker x", "+OK\r\n");
        client.expect("FETCH key", "-NOPERM User worker has no permissions to run the 'get' command\r\n");
        client.expect("AUTH default x", "+OK\r\n");
        // While replies are off, an unknown command turns nothing on.
        client.send(b"CLIENT REPLY OFF\r\nfetch {a}k\r\nget {a}k\r\nCLIENT REPLY ON\r\n");
        assert_eq!(client.value_of_next().text(), "OK");
        client.expect("BADGER", "+OK\r\n");
        client.expect("DBSIZE", ":0\r\n");
        server.assert_serving();
        server.stop();
    }
}

#[test]
fn the_log_and_replicas_have_the_own_names_of_commands() {
    let data = Data::new();
    let lines = "rename-command SET put\nrename-command MULTI begin\n";
    let server = start_with(&data, EVERY_ENGINE[2], lines, &["--appendonly", "yes"]);
    let replica = Server::start(EVERY_ENGINE[0], &[]);
    let port = server.address().port().to_string();
    assert_eq!(replica.client().call(&["REPLICAOF", "127.0.0.1", &port]), b"+OK\r\n");
    wait_until("the link", || replica.info()["master_link_status"] == "up");
    let mut client = server.client();
    client.expect("PUT {a}k v", "+OK\r\n");
    client.expect("BEGIN", "+OK\r\n");
    client.expect("put {a}k w", "+QUEUED\r\n");
    client.expect("put {b}k w", "+QUEUED\r\n");
    client.expect("EXEC", "*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(client.call(&["EVAL", "return redis.call('put', KEYS[1], 'x')", "1", "{c}k"]), b"+OK\r\n");
    wait_until("the replica", || replica.client().call(&["GET", "{c}k"]) == b"$1\r\nx\r\n");
    replica.client().expect("GET {b}k", "$1\r\nw\r\n");
    let (_, data, _) = server.stop();
    // Another start may name its commands as it likes.
    let server = data.start(EVERY_ENGINE[2], &["--appendonly", "yes"]);
    server.client().expect("MGET {a}k {b}k {c}k", "*3\r\n$1\r\nw\r\n$1\r\nw\r\n$1\r\nx\r\n");
}

#[test]
fn a_rewritten_file_keeps_the_names_of_commands() {
    let data = Data::new();
    let server = start_with(&data, EVERY_ENGINE[0], "rename-command flushdb badger\n", &[]);
    server.client().expect("CONFIG REWRITE", "+OK\r\n");
    server.stop();
    let text = std::fs::read_to_string(data.path().join("server.conf")).unwrap();
    assert!(text.contains("rename-command flushdb badger\n"), "{text}");
    for (line, reason) in [
        ("rename-command nosuch x", "rename-command nosuch \"x\": No such command in rename-command"),
        ("rename-command get set", "rename-command get \"set\": Target command name already exists"),
        ("rename-command get", "wrong number of arguments"),
        ("rename-command get a b", "wrong number of arguments"),
    ] {
        let ended = refused_with(&format!("{line}\n"));
        assert_eq!(ended.status.code(), Some(1), "{line}");
        assert!(ended.stderr.contains(reason), "{line}: {}", ended.stderr);
    }
}

#[test]
fn secrets_of_directives_without_effect_are_not_logged() {
    let data = Data::new();
    let server = start_with(&data, EVERY_ENGINE[0], "server_cpulist hidden-word\n", &[]);
    let log = server.log();
    assert!(log.contains("server.conf, line 1: 'server_cpulist' has no effect: "), "{log}");
    assert!(!log.contains("hidden-word"), "{log}");
}

#[test]
fn files_are_included_where_they_are_named_by_name_or_pattern() {
    let data = Data::new();
    std::fs::create_dir(data.path().join("conf.d")).unwrap();
    for (name, text) in
        [("conf.d/b.conf", "hz 30\n"), ("conf.d/a.conf", "hz 20\ntimeout 7\n"), ("conf.d/.x.conf", "hz 99\n")]
    {
        file(&data, name, text);
    }
    file(&data, "one.conf", "maxclients 50\n");
    let text = "maxclients 40\ninclude one.conf\ninclude conf.d/*.conf\ninclude conf.d/nothing-*.conf\ntimeout 8\n";
    let server = start_with(&data, EVERY_ENGINE[0], text, &[]);
    let mut client = server.client();
    for (name, value) in [("maxclients", "50"), ("hz", "30"), ("timeout", "8")] {
        assert_eq!(config(&mut client, name), value, "{name}");
    }
}

#[test]
fn command_lines_are_those_of_redis() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let flags = [
            "--save",
            "",
            "--loglevel",
            "warning",
            "--bind",
            "127.0.0.1",
            "-::1",
            "--protected-mode",
            "no",
            "--HZ",
            "20",
            "--timeout=9",
            "--maxclients 60",
            "--client-output-buffer-limit",
            "pubsub",
            "1mb",
            "1mb",
            "5",
            "--requirepass",
            "--secret",
        ];
        let mut command = Command::new(binary());
        command.args(arguments(&data, setup)).args(flags).env_remove("RUST_LOG").current_dir(data.path());
        // At this level it does not log where it listens.
        command.args(["--unixsocket", "s.sock"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let path = data.path().join("s.sock");
        wait_until("it listens", || UnixStream::connect(&path).is_ok());
        let ask = |request: &str| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(format!("AUTH --secret\r\n{request}\r\nQUIT\r\n").as_bytes()).unwrap();
            let mut replies = String::new();
            stream.read_to_string(&mut replies).unwrap();
            replies
        };
        for (name, value) in [
            ("bind", "127.0.0.1 -::1"),
            ("hz", "20"),
            ("timeout", "9"),
            ("maxclients", "60"),
            ("protected-mode", "no"),
            ("loglevel", "warning"),
        ] {
            let replies = ask(&format!("CONFIG GET {name}"));
            assert!(replies.contains(&format!("\r\n{value}\r\n")), "{name}: {replies:?}");
        }
        assert!(ask("CONFIG GET client-output-buffer-limit").contains("pubsub 1048576 1048576 5"));
        child.kill().unwrap();
        let mut log = String::new();
        child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        child.wait().unwrap();
        assert!(!log.contains("Ready"), "{log}");
    }
}

#[test]
fn the_standard_input_is_a_config_file() {
    let data = Data::new();
    let mut command = Command::new(binary());
    command.args(arguments(&data, EVERY_ENGINE[0])).args(["--timeout", "5", "-"]).current_dir(data.path());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hz 44\ntimeout 6\nnosuch 1\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("standard input, line 3: 'nosuch 1': unknown directive 'nosuch'"), "{stderr}");
}

#[test]
fn every_parameter_of_redis_is_known_and_takes_the_value_that_it_has() {
    let oracle = RedisOracle::start();
    let of_redis = all(&mut oracle.client());
    // Parameters that only 7.2 has.
    let newer = [
        "set-max-listpack-entries",
        "set-max-listpack-value",
        "cluster-announce-human-nodename",
        "locale-collate",
        "enable-protected-configs",
        "tracking-table-max-keys",
        "latency-tracking-info-percentiles",
    ];
    on_every_engine(|server| {
        let mut client = server.client();
        let of_ours = all(&mut client);
        // 7.2 hides one that 7.0 shows.
        let shown = of_redis.keys().map(String::as_str).filter(|name| *name != "aof-disable-auto-gc");
        let wanted = shown.chain(newer);
        let missing: Vec<&str> = wanted.filter(|name| !of_ours.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for (name, value) in of_ours {
            assert_eq!(client.value(&["CONFIG", "SET", &name, &value]), ok(), "{name}");
            assert_eq!(config(&mut client, &name), value, "{name}");
        }
        server.assert_serving();
    });
}

#[test]
fn what_cannot_be_set_is_refused_with_the_reason() {
    check_script(
        r#"
        !CONFIG SET dynamic-hz yes
        -ERR CONFIG SET failed (possibly related to argument 'dynamic-hz') - can't set immutable config: `hz` is the same for any number of connections
        !CONFIG SET dynamic-hz no
        +OK
        !CONFIG SET timeout 5 maxmemory-clients 200% hz 0
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100
        !CONFIG SET maxmemory-clients lots
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a memory or percent value
        !CONFIG SET daemonize yes appendfilename x
        -ERR CONFIG SET failed (possibly related to argument 'daemonize') - can't set immutable config
        CONFIG SET Dir /nowhere
        -ERR CONFIG SET failed (possibly related to argument 'Dir') - can't set protected config
        CONFIG SET dbfilename other.rdb
        -ERR CONFIG SET failed (possibly related to argument 'dbfilename') - can't set protected config
        CONFIG SET timeout 5 nosuch 1 dir /nowhere
        -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
        CONFIG SET timeout 5 databases 3 nosuch 1
        -ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config
        CONFIG GET timeout
        *2 | $7 | timeout | $1 | 0
        !CONFIG SET loglevel loud
        -ERR CONFIG SET failed (possibly related to argument 'loglevel') - argument(s) must be one of the following: debug, verbose, notice, warning, nothing
        !CONFIG SET include x
        -ERR Unknown option or number of arguments for CONFIG SET - 'include'
        "#,
    );
}

#[test]
fn the_level_of_the_log_changes_while_the_server_runs() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET loglevel warning", "+OK\r\n");
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("it is rewritten", || server.info_number("aof_rewrites") == 1);
        assert!(!server.log().contains("rewriting"), "{}", server.log());
        client.expect("CONFIG SET loglevel notice", "+OK\r\n");
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        server.wait_for_log("rewriting");
    });
}

#[test]
fn protected_directives_change_for_those_who_may() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--enable-protected-configs", "local", "--appendonly", "no"]);
        let mut client = server.client();
        let elsewhere = Data::new();
        let dir = elsewhere.path().to_str().unwrap();
        client.expect("SET k v", "+OK\r\n");
        assert_eq!(client.value(&["CONFIG", "SET", "dir", dir, "dbfilename", "other.rdb"]), ok());
        client.expect("SAVE", "+OK\r\n");
        assert!(elsewhere.path().join("other.rdb").exists());
        assert_eq!(config(&mut client, "dir"), dir);
        let failed = "-ERR CONFIG SET failed (possibly related to argument 'dir') - ";
        client.expect("CONFIG SET dir /no/such/place", &format!("{failed}No such file or directory\r\n"));
        let with_log = Embedded::start(setup, &["--enable-protected-configs", "yes"]);
        let stays = "the log is in the directory of the start, and stays there";
        let refusal = format!("{failed}{stays}\r\n");
        assert_eq!(with_log.client().call(&["CONFIG", "SET", "dir", dir]), refusal.as_bytes());
    }
}

#[test]
fn a_rewritten_config_file_keeps_the_lines_of_redis_and_starts_again() {
    for text in STOCK {
        let data = Data::new();
        let server = start_with(&data, EVERY_ENGINE[0], text, &["--logfile", "", "--pidfile", "", "--daemonize", "no"]);
        let mut client = server.client();
        client.expect("CONFIG SET client-output-buffer-limit \"pubsub 1mb 1mb 7\" hz 33", "+OK\r\n");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        server.stop();
        let after = std::fs::read_to_string(data.path().join("server.conf")).unwrap();
        for line in [
            "rdbcompression yes",
            "set-proc-title yes",
            "hz 33",
            "bind 127.0.0.1 -::1",
            "oom-score-adj-values 0 200 800",
        ] {
            assert!(after.lines().any(|other| other == line), "{line} is not in {after}");
        }
        let limits = after.lines().filter(|line| line.starts_with("client-output-buffer-limit ")).collect::<Vec<_>>();
        assert!(matches!(limits[..], [line] if line.ends_with("pubsub 1048576 1048576 7")), "{limits:?}");
        let again =
            start_with(&data, EVERY_ENGINE[0], &after, &["--logfile", "", "--pidfile", "", "--daemonize", "no"]);
        assert_eq!(config(&mut again.client(), "hz"), "33");
    }
}

/// An address of this machine other than loopback. No packet is sent.
pub fn own_address() -> std::net::IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("198.51.100.1:9").expect("a machine with a network: the test connects from another address of it");
    socket.local_addr().unwrap().ip()
}

#[test]
fn protected_mode_refuses_connections_from_elsewhere_until_there_is_a_password_or_it_is_off() {
    let own = own_address().to_string();
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--bind", "127.0.0.1", &own]);
        let mut local = server.client();
        let elsewhere = SocketAddr::new(own.parse().unwrap(), server.address().port());
        let greeting = || {
            let mut stream = TcpStream::connect(elsewhere).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let denied = greeting();
        assert!(
            denied.starts_with("-DENIED Redis is running in protected mode because protected mode is enabled and no")
        );
        assert!(
            denied.ends_with("start accepting connections from the outside.\r\n") && denied.len() > 900,
            "{denied}"
        );
        assert_eq!(server.info_number("rejected_connections"), 1);
        for line in ["CONFIG SET protected-mode no", "CONFIG SET protected-mode yes requirepass secret"] {
            local.expect(line, "+OK\r\n");
            assert_eq!(greeting(), "", "{line}");
        }
        local.expect("CONFIG SET requirepass \"\"", "+OK\r\n");
        assert_eq!(greeting(), denied);
        let open = Server::start(setup, &["--bind", "127.0.0.1", &own, "--protected-mode", "no"]);
        Client::connect(SocketAddr::new(own.parse().unwrap(), open.address().port())).expect("PING", "+PONG\r\n");
    }
}

#[test]
fn the_server_listens_at_several_addresses() {
    for setup in EVERY_ENGINE {
        for (bind, reached) in [
            (&["127.0.0.1", "::1"] as &[&str], &["127.0.0.1", "::1"] as &[&str]),
            (&["127.0.0.1", "-::1"], &["127.0.0.1", "::1"]),
            (&["localhost"], &["127.0.0.1"]),
            (&["127.0.0.1 127.0.0.2"], &["127.0.0.1", "127.0.0.2"]),
            // No machine has this address.
            (&["127.0.0.1", "-203.0.113.99"], &["127.0.0.1"]),
            (&["*", "-::*"], &["127.0.0.1", "127.0.0.3", "::1"]),
        ] {
            let flags: Vec<&str> = ["--bind"].iter().chain(bind).copied().collect();
            let server = Server::start(setup, &flags);
            for address in reached {
                let address = SocketAddr::new(address.parse().unwrap(), server.address().port());
                Client::connect(address).expect("PING", "+PONG\r\n");
            }
            assert_eq!(config(&mut server.client(), "bind"), bind.join(" "));
        }
    }
    let data = Data::new();
    let ended = run_to_its_end(Command::new(binary()).args(arguments(&data, EVERY_ENGINE[0])).args([
        "--bind",
        "127.0.0.1",
        "203.0.113.99",
    ]));
    assert!(ended.stderr.contains("can't listen on 203.0.113.99"), "{ended:?}");
}

#[test]
fn the_addresses_and_the_port_change_while_the_server_runs() {
    on_every_engine(|server| {
        let mut client = server.client();
        let port = server.address().port();
        let reaches =
            |address: &str, port: u16| TcpStream::connect(SocketAddr::new(address.parse().unwrap(), port)).is_ok();
        // A connection that waits to be accepted at an address that stays is not lost.
        let mut waits = Client::connect(SocketAddr::new("127.0.0.1".parse().unwrap(), port));
        client.expect("CONFIG SET bind \"127.0.0.1 127.0.0.2\"", "+OK\r\n");
        waits.expect("PING", "+PONG\r\n");
        assert!(reaches("127.0.0.1", port) && reaches("127.0.0.2", port));
        // All addresses are not free while it listens at two of them, and the other way round.
        wait_until("it listens at all", || client.value(&["CONFIG", "SET", "bind", "*"]) == Value::Simple("OK".into()));
        assert!(reaches("127.0.0.3", port));
        wait_until("it listens at one", || {
            client.value(&["CONFIG", "SET", "bind", "127.0.0.2"]) == Value::Simple("OK".into())
        });
        // A process that another test is just starting holds a copy of the listener until it executes.
        wait_until("the other address is given up", || !reaches("127.0.0.1", port));
        assert!(reaches("127.0.0.2", port));
        let failed = "-ERR CONFIG SET failed (possibly related to argument";
        let reply = format!("{failed} 'bind') - Failed to bind to specified addresses.\r\n");
        client.expect("CONFIG SET bind 203.0.113.99 hz 77", &reply);
        assert_eq!(config(&mut client, "hz"), "10");
        assert!(reaches("127.0.0.2", port), "it listens as before");
        // Another process has that port.
        let taken = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let other = taken.local_addr().unwrap().port();
        let reply = format!("{failed} 'port') - Unable to listen on this port. Check server logs.\r\n");
        client.expect(&format!("CONFIG SET port {other}"), &reply);
        assert!(reaches("127.0.0.2", port));
        drop(taken);
        let moves = ["CONFIG", "SET", "port", &other.to_string(), "bind", "127.0.0.1"];
        wait_until("the port is free", || client.value(&moves) == Value::Simple("OK".into()));
        assert!(reaches("127.0.0.1", other));
        wait_until("the old port is given up", || !reaches("127.0.0.2", port));
        assert_eq!(config(&mut client, "port"), other.to_string());
        assert!(client.value(&["INFO", "server"]).text().contains(&format!("tcp_port:{other}\r\n")));
        client.expect("PING", "+PONG\r\n");
    });
}

#[test]
fn a_unix_socket_serves_and_its_file_goes_with_the_server() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let path = data.path().join("server.sock");
        let name = path.to_str().unwrap();
        // A socket left by a server is replaced, and nothing else.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let server = data.start(setup, &["--port", &free, "--unixsocket", name, "--unixsocketperm", "700"]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let value = "v".repeat(3 << 20);
        let mut stream = UnixStream::connect(&path).unwrap();
        let requests = format!("SET k v\r\nCLIENT LIST\r\nSET big {value}\r\nGET big\r\nQUIT\r\n");
        // Inline requests are short.
        let requests = requests.replace(
            &format!("SET big {value}\r\n"),
            &format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n{value}\r\n", value.len()),
        );
        stream.write_all(requests.as_bytes()).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        assert!(
            replies.contains(&format!(" addr={name}:0 laddr={name}:0 ")) && replies.contains(" flags=U "),
            "{replies:.300}"
        );
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"PING\r\nMULTI\r\nGET k\r\nEXEC\r\nQUIT\r\n").unwrap();
        for wanted in ["PING", "MULTI", "GET\" \"k", "EXEC"] {
            let line = String::from_utf8(monitor.reply()).unwrap();
            assert!(line.ends_with(&format!(" [0 unix:{name}] \"{wanted}\"\r\n")), "{line}");
        }
        assert!(replies.ends_with(&format!("${}\r\n{value}\r\n+OK\r\n", value.len())));
        server.client().expect("GET k", "$1\r\nv\r\n");
        let other = data.start_refused(setup, &["--appendonly", "no", "--unixsocket", name]);
        assert!(other.stderr.contains(&format!("can't listen on {name}")), "{other:?}");
        server.stop();
        assert!(!path.exists());
        // Any other file stays.
        std::fs::write(&path, "mine").unwrap();
        let refused = data.start_refused(setup, &["--unixsocket", name]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}

#[test]
fn port_0_ends_tcp_where_there_is_a_unix_socket_and_is_told_of_where_there_is_none() {
    let request = |path: &std::path::Path, line: &str| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        replies
    };
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let path = data.path().join("server.sock");
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let server = data.start(setup, &["--port", &free, "--unixsocket", path.to_str().unwrap()]);
        let port = server.address().port();
        server.client().expect("CONFIG SET port 0", "+OK\r\n");
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{setup:?}");
        server.wait_for_log(&format!("CONFIG SET port 0: now listening unix on {}", path.display()));
        assert!(request(&path, "INFO server").contains("tcp_port:0\r\n"), "{setup:?}");
        assert_eq!(request(&path, "CONFIG SET bind 127.0.0.2"), "+OK\r\n+OK\r\n");
        assert!(request(&path, "INFO server").contains("tcp_port:0\r\n"), "{setup:?}: other addresses open no port");
        let back = format!("CONFIG SET port {port} bind 127.0.0.1");
        wait_until("the port is free", || request(&path, &back) == "+OK\r\n+OK\r\n");
        server.client().expect("PING", "+PONG\r\n");
        // Without another way in the system chooses one.
        drop(server);
        let server = data.start(setup, &["--port", &free]);
        server.client().expect("CONFIG SET port 0", "+OK\r\n");
        server.wait_for_log("CONFIG SET port 0: now listening tcp on 127.0.0.1:");
    }
}

#[test]
fn a_file_may_begin_with_a_byte_order_mark_and_end_its_lines_as_windows_does() {
    let data = Data::new();
    let server = start_with(&data, EVERY_ENGINE[0], "\u{feff}maxclients 50\r\nrequirepass \"a b\"\r\n", &[]);
    let mut client = server.client();
    client.expect("AUTH \"a b\"", "+OK\r\n");
    assert_eq!(config(&mut client, "maxclients"), "50");
    client.expect("CONFIG SET maxclients 51", "+OK\r\n");
    client.expect("CONFIG REWRITE", "+OK\r\n");
    let text = std::fs::read_to_string(data.path().join("server.conf")).unwrap();
    assert_eq!(text.matches("maxclients").count(), 1, "{text}");
    assert!(text.starts_with("maxclients 51\nrequirepass "), "{text}");
}

/// Those of its stock file that Redis 7 does not have.
#[test]
fn directives_of_valkey_are_known() {
    let data = Data::new();
    let text = "tcp-keepalive-probes 3\nhide-user-data-from-log yes\nrdb-version-check strict\n\
                dual-channel-replication-enabled no\nextended-redis-compatibility no\nprimaryauth secret\n\
                commandlog-execution-slower-than 20000\ncommandlog-slow-execution-max-len 64\n\
                commandlog-request-larger-than 1048576\ncommandlog-large-request-max-len 128\n\
                commandlog-reply-larger-than -1\ncommandlog-large-reply-max-len 0\n";
    let server = start_with(&data, EVERY_ENGINE[0], text, &[]);
    let mut client = server.client();
    for (name, value) in [("slowlog-log-slower-than", "20000"), ("slowlog-max-len", "64"), ("masterauth", "secret")] {
        assert_eq!(config(&mut client, name), value);
    }
    let log = server.log();
    let warned = log.lines().filter(|line| line.contains("has no effect")).count();
    assert!(warned == 4 && log.contains("'commandlog-request-larger-than' has no effect"), "{log}");
}

#[test]
fn comments_may_be_in_any_encoding_and_values_are_utf_8() {
    let data = Data::new();
    std::fs::write(data.path().join("latin.conf"), b"# f\xfcr uns\nmaxclients 50\n").unwrap();
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = data.start(setup, &["latin.conf"]);
        let mut client = server.client();
        let refusal = "ERR CONFIG SET failed (possibly related to argument 'requirepass') - argument must be UTF-8";
        let set = client.value(&[b"CONFIG".as_slice(), b"SET", b"requirepass", b"p\xe4ss"]);
        assert_eq!(set.text(), refusal);
        client.expect("CONFIG SET maxclients 51", "+OK\r\n");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        server.stop();
        let after = std::fs::read(data.path().join("latin.conf")).unwrap();
        assert!(after.starts_with(b"# f\xfcr uns\nmaxclients 51\n"), "{}", after.escape_ascii());
    }
    std::fs::write(data.path().join("latin.conf"), b"requirepass p\xe4ss\n").unwrap();
    let ended = data.start_refused(EVERY_ENGINE[0], &["latin.conf"]);
    assert!(ended.stderr.contains("latin.conf, line 1: ") && ended.stderr.contains("it is not UTF-8"), "{ended:?}");
}

#[test]
fn a_server_that_makes_no_snapshots_makes_none_after_config_rewrite() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let data = Data::new();
        file(&data, "server.conf", "appendonly no\n");
        let server = data.start(setup, &["server.conf"]);
        let mut client = server.client();
        assert_eq!(config(&mut client, "save"), "3600 1 300 100 60 10000");
        client.expect("CONFIG SET save ''", "+OK\r\n");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        server.stop();
        assert_eq!(config(&mut data.start(setup, &["server.conf"]).client(), "save"), "");
    }
}

#[test]
fn files_that_include_each_other_are_named_once() {
    let data = Data::new();
    file(&data, "a.conf", "include b.conf\n");
    file(&data, "b.conf", "include a.conf\n");
    let ended = run_to_its_end(Command::new(binary()).arg("a.conf").current_dir(data.path()));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("b.conf, line 1: 'include a.conf': a.conf includes itself"), "{ended:?}");
    assert_eq!(ended.stderr.matches("b.conf, line 1").count(), 1, "{ended:?}");
}

#[test]
fn the_help_lists_the_subcommands_and_no_directive_without_effect() {
    let help = run_to_its_end(Command::new(binary()).arg("--help"));
    for text in ["check-aof", "import", "--bind", "--protected-mode", "[CONFIG FILE]"] {
        assert!(help.stdout.contains(text), "{text} is not in the help: {}", help.stdout);
    }
    assert!(!help.stdout.contains("--dynamic-hz"), "{}", help.stdout);
}

#[test]
fn subcommands_have_a_help_of_their_own() {
    for (subcommand, word) in [("check-aof", "--fix"), ("import", "PATH --dir DIR")] {
        let help = run_to_its_end(Command::new(binary()).args([subcommand, "--help"]));
        assert!(help.status.success() && help.stdout.contains(word) && help.stderr.is_empty(), "{help:?}");
    }
}

#[test]
fn every_container_explains_its_subcommands() {
    let oracle = RedisOracle::start();
    let names = ["CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "OBJECT", "PUBSUB", "SLOWLOG", "XGROUP", "XINFO"];
    let lines = |client: &mut Client, name: &str| {
        let reply = client.value(&[name, "HELP"]);
        reply.elements().iter().map(Value::text).collect::<Vec<_>>()
    };
    on_every_engine(|server| {
        for name in names {
            let (ours, of_redis) = (lines(&mut server.client(), name), lines(&mut oracle.client(), name));
            assert_eq!(ours[0], of_redis[0], "{name}");
            // As of 7.2; 7.0 said "Prints".
            assert_eq!(ours[ours.len() - 2..], ["HELP", "    Print this help."], "{name}");
            let is_told = |word: &str| ours.iter().any(|line| line.split(' ').next() == Some(word));
            assert!(ours.len() >= 4 && is_told("HELP"), "{name}: {ours:?}");
        }
    });
}
