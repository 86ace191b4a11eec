//! Libraries of functions: FUNCTION and FCALL, on every engine and beside redis-server.

use harness::{
    Client, Data, EVERY_ENGINE, Embedded, RedisOracle, Server, Value, check_same_as_redis, on_every_engine, request,
};
use std::time::{Duration, Instant};

fn words(arguments: &[&str]) -> Vec<Vec<u8>> {
    arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect()
}

/// A library with one function.
fn library(name: &str, function: &str, body: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('{function}', function(KEYS, ARGV)\n {body} \nend)")
}

#[test]
fn libraries_and_functions_reply_and_fail_as_in_redis() {
    let load = |source: &str| words(&["FUNCTION", "LOAD", "REPLACE", source]);
    let in_library = |body: &str| load(&format!("#!lua name=x\n{body}"));
    let calls = |body: &str| [load(&library("x", "f", body)), words(&["FCALL", "f", "1", "k", "a"])];
    let named = |arguments: &str| in_library(&format!("redis.register_function{{{arguments}}}"));
    let callback = "callback=function() return 1 end";
    let mut requests = vec![
        words(&["FUNCTION", "FLUSH"]),
        words(&["FUNCTION", "LOAD", &library("one", "f", "return {KEYS, ARGV}")]),
        words(&["FUNCTION", "LOAD", &library("one", "f", "return 2")]),
        words(&["FUNCTION", "LOAD", "#!lua name=one\nbroken("]),
        words(&["FUNCTION", "LOAD", &library("two", "F", "return 2")]),
        words(&["FUNCTION", "LOAD", "NOSUCH", "x"]),
        words(&["FUNCTION", "LOAD"]),
        words(&["FCALL", "f", "1", "k", "a"]),
        words(&["FCALL", "F", "0"]),
        words(&["FCALL", "nosuch", "x"]),
        words(&["FCALL", "f", "x"]),
        words(&["FCALL", "f", "-1", "k"]),
        words(&["FCALL", "f", "2", "k"]),
        words(&["FCALL_RO", "f", "0"]),
        words(&["FUNCTION", "LIST"]),
        words(&["FUNCTION", "LIST", "WITHCODE"]),
        words(&["FUNCTION", "LIST", "LIBRARYNAME", "O*"]),
        words(&["FUNCTION", "LIST", "LIBRARYNAME", "t*", "WITHCODE"]),
        words(&["FUNCTION", "LIST", "LIBRARYNAME"]),
        words(&["FUNCTION", "LIST", "WITHCODE", "WITHCODE"]),
        words(&["FUNCTION", "LIST", "x"]),
        words(&["FUNCTION", "STATS"]),
        words(&["FUNCTION", "KILL"]),
        words(&["FUNCTION", "NOSUCH"]),
        words(&["FUNCTION", "DELETE", "nosuch"]),
        words(&["FUNCTION", "DELETE", "one"]),
        words(&["FCALL", "f", "0"]),
        words(&["FUNCTION", "FLUSH", "x"]),
        words(&["FUNCTION", "FLUSH", "SYNC", "x"]),
        words(&["FUNCTION", "RESTORE", "x"]),
        words(&["FUNCTION", "RESTORE", "x", "NOSUCH"]),
        words(&["FUNCTION", "RESTORE", "x", "FLUSH", "x"]),
        words(&["FUNCTION", "FLUSH"]),
        words(&["COMMAND", "GETKEYS", "FCALL", "f", "1", "k", "a"]),
        load("return 1"),
        load("#!lua"),
        load("#!lua\nx"),
        load("#!lua name=a-b\nx"),
        load("#!lua name=\"quoted\"\nredis.register_function('q', function() return 1 end)"),
        load("#!LUA NAME=upper\nredis.register_function('u', function() return 1 end)"),
        load("#!lua name=x name=y\nx"),
        load("#!lua name=x y=z\nx"),
        load("#!js name=x\nx"),
        load("#! name=x\nx"),
        in_library("return ("),
        in_library("return 1"),
        in_library("redis.register_function()"),
        in_library("redis.register_function('f')"),
        in_library("redis.register_function('f', 1, 2)"),
        in_library("redis.register_function(nil, function() end)"),
        in_library("redis.register_function('f', 'x')"),
        in_library("redis.register_function('', function() end)"),
        in_library("redis.register_function('a b', function() end)"),
        in_library("redis.register_function('g', function() end) redis.register_function('g', function() end)"),
        in_library("return math.random()"),
        in_library("return redis.call('ping')"),
        in_library("return redis.setresp(3)"),
        in_library("return getmetatable(_G)"),
        in_library("x = 1"),
        in_library("error('x')"),
        in_library("redis.call = 1"),
        named(&format!("function_name='n', {callback}, description='what', flags={{'no-writes'}}")),
        words(&["FUNCTION", "LIST", "LIBRARYNAME", "x"]),
        named("function_name='n'"),
        named(callback),
        named(&format!("function_name={{}}, {callback}")),
        named(&format!("function_name='n', {callback}, description={{}}")),
        named("function_name='n', callback=1"),
        named(&format!("function_name=4, {callback}, description=5")),
        words(&["FUNCTION", "LIST", "LIBRARYNAME", "x"]),
        words(&["FCALL", "4", "0"]),
        named(&format!("function_name=4.5, {callback}")),
        named(&format!("function_name=true, {callback}")),
        named(&format!("function_name='n', {callback}, description=false")),
        named(&format!("function_name='n', {callback}, [4]='x'")),
        named(&format!("function_name='n', {callback}, [true]='x'")),
        named(&format!("function_name='n', {callback}, flags=1")),
        named(&format!("function_name='n', {callback}, flags={{'x'}}")),
        named(&format!("function_name='n', {callback}, flags={{{{}}}}")),
        named(&format!("function_name='n', {callback}, other=1")),
        named(&format!("function_name='n', {callback}, flags={{'no-writes', 'allow-stale', 'allow-oom'}}")),
        words(&["FUNCTION", "LIST", "LIBRARYNAME", "x"]),
        words(&["FCALL_RO", "n", "0"]),
        named("function_name='n', callback=function() return redis.call('set', 'k', 1) end, flags={'no-writes'}"),
        words(&["FCALL", "n", "0"]),
        words(&["FCALL_RO", "n", "0"]),
    ];
    for body in [
        "return redis.call('set', KEYS[1], ARGV[1])",
        "return redis.call('get', KEYS[1])",
        "return redis.call('nosuch')",
        "return redis.pcall('get')",
        "error('x')",
        "error({err='MY x'})",
        "local x = nil; return x.y",
        "return nosuch",
        "x = 1",
        "redis.register_function('h', function() end)",
        "return {redis.REDIS_VERSION_NUM > 0, type(string), type(cjson), type(redis.setresp)}",
        "redis.setresp(3) return true",
        "return math.floor(3.5)",
        "return {double=1.5}",
    ] {
        requests.extend(calls(body));
    }
    // The cases of Redis's tests.
    requests.push(in_library(
        "local lib = redis
         lib.register_function('f1', function() lib.redis = redis return {ok='OK'} end)
         lib.register_function('f2', function() lib.register_function('f1', function() end) end)
         lib.register_function('f3', function()
             local mt = getmetatable(_G)
             mt.__index['redis'] = 1
         end)",
    ));
    for name in ["f1", "f2", "f3"] {
        requests.push(words(&["FCALL", name, "0"]));
    }
    check_same_as_redis(&requests);
}

#[test]
fn libraries_go_from_redis_to_here_and_back() {
    let oracle = RedisOracle::start();
    on_every_engine(|server| {
        let (mut ours, mut theirs) = (server.client(), oracle.client());
        theirs.value(&["FUNCTION", "FLUSH"]);
        let body = format!("return '{}'", "long ".repeat(50));
        for (name, function) in [("one", "f"), ("two", "g")] {
            theirs.value(&["FUNCTION", "LOAD", &library(name, function, &body)]);
        }
        let restore = |from: &mut Client, to: &mut Client| {
            let payload = from.value(&["FUNCTION", "DUMP"]).bytes().to_vec();
            to.value(&[b"FUNCTION".as_slice(), b"RESTORE", &payload, b"FLUSH"])
        };
        assert_eq!(restore(&mut theirs, &mut ours).text(), "OK");
        for client in [&mut ours, &mut theirs] {
            assert!(client.value(&["FCALL", "g", "0"]).text().starts_with("long long"));
            assert_eq!(client.value(&["FUNCTION", "LIST"]).elements().len(), 2);
        }
        theirs.value(&["FUNCTION", "FLUSH"]);
        assert_eq!(restore(&mut ours, &mut theirs).text(), "OK");
        assert!(theirs.value(&["FCALL", "f", "0"]).text().starts_with("long long"));
        let payload = ours.value(&["FUNCTION", "DUMP"]).bytes().to_vec();
        let mut damaged = payload.clone();
        damaged[20] ^= 1;
        let refusal = ours.value(&[b"FUNCTION".as_slice(), b"RESTORE", &damaged, b"REPLACE"]);
        assert_eq!(refusal.text(), "ERR DUMP payload version or checksum are wrong");
        let refusal = ours.value(&[b"FUNCTION".as_slice(), b"RESTORE", &payload]);
        assert_eq!(refusal.text(), "ERR Library one already exists");
        ours.value(&["FUNCTION", "DELETE", "one"]);
        ours.value(&["FUNCTION", "LOAD", &library("three", "F", "return 3")]);
        let refusal = ours.value(&[b"FUNCTION".as_slice(), b"RESTORE", &payload, b"REPLACE"]);
        assert_eq!(refusal.text(), "ERR Function f already exists");
        assert_eq!(ours.value(&["FCALL", "f", "0"]).integer(), 3, "nothing has changed");
    });
}

#[test]
fn libraries_are_there_after_a_kill_and_after_the_log_was_rewritten() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let data = Data::new();
        let flags = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = data.start(setup, &flags);
        let mut client = server.client();
        for number in 0..3 {
            let (name, function) = (format!("lib{number}"), format!("f{number}"));
            let body = "return redis.call('incr', KEYS[1])";
            assert_eq!(client.value(&["FUNCTION", "LOAD", &library(&name, &function, body)]).text(), name);
        }
        assert_eq!(client.value(&["FUNCTION", "DELETE", "lib1"]).text(), "OK");
        assert_eq!(client.value(&["FCALL", "f0", "1", "counter"]).integer(), 1);
        let data = server.kill();
        let server = data.start(setup, &flags);
        let mut client = server.client();
        assert_eq!(client.value(&["FCALL", "f2", "1", "counter"]).integer(), 2);
        assert_eq!(client.value(&["FCALL", "f1", "1", "counter"]).text(), "ERR Function not found");
        client.value(&["BGREWRITEAOF"]);
        harness::wait_until("the log is rewritten", || server.info_number("aof_rewrite_in_progress") == 0);
        let data = server.kill();
        let server = data.start(setup, &flags);
        let mut client = server.client();
        assert_eq!(client.value(&["FCALL", "f0", "1", "counter"]).integer(), 3);
        client.expect("FUNCTION FLUSH", "+OK\r\n");
        let data = server.kill();
        let names = std::fs::read_dir(data.path().join("appendonlydir")).unwrap();
        let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|name| name.starts_with("functions-")), "{names:?}");
        let server = data.start(setup, &flags);
        assert_eq!(server.client().value(&["FUNCTION", "LIST"]).elements().len(), 0);
    }
}

#[test]
fn a_start_without_the_file_of_libraries_is_refused() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let server = data.start(setup, &["--appendonly", "yes"]);
        server.client().value(&["FUNCTION", "LOAD", &library("lib", "f", "return 1")]);
        let data = server.kill();
        let path = data.path().join("appendonlydir/functions-1.rdb");
        let whole = std::fs::read(&path).unwrap();
        let damaged = [&whole[..10], b"x", &whole[11..]].concat();
        for damage in [Some(damaged.as_slice()), None] {
            match damage {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let ended = data.start_refused(setup, &["--appendonly", "yes"]);
            assert!(ended.stderr.contains("functions-1.rdb: "), "{setup:?}: {ended:?}");
        }
        std::fs::write(&path, whole).unwrap();
        let server = data.start(setup, &["--appendonly", "yes"]);
        assert_eq!(server.client().value(&["FCALL", "f", "0"]).integer(), 1);
    }
}

#[test]
fn libraries_are_in_snapshots_and_a_log_that_begins_while_the_server_runs_has_them() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let data = Data::new();
        let server = data.start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        client.value(&["FUNCTION", "LOAD", &library("lib", "f", "return redis.call('incr', 'n')")]);
        client.value(&["FCALL", "f", "0"]);
        client.expect("SAVE", "+OK\r\n");
        let data = server.kill();
        let server = data.start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        assert_eq!(client.value(&["FCALL", "f", "0"]).integer(), 2);
        client.expect("CONFIG SET appendonly yes", "+OK\r\n");
        harness::wait_until("the log has begun", || server.log().contains("has begun"));
        let data = server.kill();
        let server = data.start(setup, &["--appendonly", "yes"]);
        assert_eq!(server.client().value(&["FCALL", "f", "0"]).integer(), 3);
    }
}

#[test]
fn redis_loads_the_libraries_of_our_snapshots() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--dbfilename", "snapshot.rdb"]);
        let mut ours = server.client();
        for number in 0..3 {
            let body = format!("return redis.call('incrby', KEYS[1], {number}) -- {}", "long ".repeat(number * 100));
            ours.value(&["FUNCTION", "LOAD", &library(&format!("lib{number}"), &format!("f{number}"), &body)]);
        }
        ours.value(&["FCALL", "f2", "1", "counter"]);
        ours.expect("SAVE", "+OK\r\n");
        let oracle = RedisOracle::start_with_snapshot(&server.data().path().join("snapshot.rdb"));
        let mut theirs = oracle.client();
        let codes = |client: &mut Client| {
            let list = client.value(&["FUNCTION", "LIST", "WITHCODE"]);
            let code = |library: &Value| library.field("library_code").unwrap().text();
            let mut codes: Vec<String> = list.elements().iter().map(code).collect();
            codes.sort_unstable();
            codes
        };
        assert_eq!(codes(&mut theirs).len(), 3);
        assert_eq!(codes(&mut theirs), codes(&mut ours));
        assert_eq!(theirs.value(&["FCALL", "f2", "1", "counter"]).integer(), 4);
    }
}

#[test]
fn a_transaction_loads_a_library_before_it_calls_it() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("MULTI", "+OK\r\n");
        client.value(&["FUNCTION", "LOAD", &library("lib", "f", "return 7")]);
        client.value(&["FCALL", "f", "0"]);
        client.value(&["FUNCTION", "DELETE", "lib"]);
        client.value(&["FCALL", "f", "0"]);
        client.value(&["SCRIPT", "LOAD", "return 8"]);
        client.value(&["EVALSHA", "c2db959528781f82a78b455e9842f46a02a43b61", "0"]);
        let replies = client.value(&["EXEC"]);
        let replies = replies.elements();
        assert_eq!((replies[0].text().as_str(), replies[1].integer()), ("lib", 7));
        assert_eq!(replies[3].text(), "ERR Function not found");
        assert_eq!(replies[5].integer(), 8);
    });
}

#[test]
fn functions_of_every_thread_are_those_that_were_loaded_last() {
    on_every_engine(|server| {
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for round in 0..5_i64 {
            let source = library("lib", "f", &format!("return {round}"));
            clients[0].value(&["FUNCTION", "LOAD", "REPLACE", &source]);
            for client in &mut clients {
                assert_eq!(client.value(&["FCALL", "f", "0"]).integer(), round);
            }
        }
    });
}

#[test]
fn function_kill_ends_functions_and_script_kill_scripts() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--busy-reply-threshold", "200"]);
        let mut other = server.client();
        other.value(&["FUNCTION", "LOAD", &library("lib", "f", "while true do end")]);
        const FUNCTION_BUSY: &str =
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
        const SCRIPT_BUSY: &str =
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
        let cases = [
            (&["FCALL", "f", "0"][..], FUNCTION_BUSY, "SCRIPT", "FUNCTION"),
            (&["EVAL", "while true do end", "0"], SCRIPT_BUSY, "FUNCTION", "SCRIPT"),
        ];
        for (call, busy, wrong, right) in cases {
            let mut looping = server.client();
            looping.send(&request(call));
            std::thread::sleep(std::time::Duration::from_millis(250));
            harness::wait_until("others are told", || server.client().value(&["PING"]).text() == busy);
            let stats = other.value(&["FUNCTION", "STATS"]);
            match right {
                "FUNCTION" => {
                    let running = stats.field("running_script").unwrap();
                    assert_eq!(running.field("name").unwrap().text(), "f");
                    assert_eq!(running.field("command").unwrap().elements().len(), 3);
                    assert!(running.field("duration_ms").unwrap().integer() >= 200);
                }
                _ => assert_eq!(stats.text(), SCRIPT_BUSY),
            }
            assert_eq!(other.value(&[wrong, "KILL"]).text(), busy);
            assert_eq!(other.value(&[right, "KILL"]).text(), "OK");
            let reply = looping.value_of_next().text();
            assert!(reply.starts_with(&format!("ERR Script killed by user with {right} KILL... ")), "{reply}");
            assert!(other.value(&["FUNCTION", "STATS"]).field("running_script").is_some_and(Value::is_null));
        }
    }
}

#[test]
fn a_library_that_does_not_end_is_not_loaded_and_memory_that_is_short_refuses_one() {
    on_every_engine(|server| {
        let mut client = server.client();
        let reply = client.value(&["FUNCTION", "LOAD", "#!lua name=x\nwhile true do end"]).text();
        assert!(reply.contains("FUNCTION LOAD timeout"), "{reply}");
        client.value(&["FUNCTION", "LOAD", &library("lib", "f", "return redis.call('set', 'k', 1)")]);
        let payload = client.value(&["FUNCTION", "DUMP"]).bytes().to_vec();
        client.expect("CONFIG SET maxmemory 1", "+OK\r\n");
        let refusal = "OOM command not allowed when used memory > 'maxmemory'.";
        let source = library("other", "g", "return 1");
        assert_eq!(client.value(&["FUNCTION", "LOAD", &source]).text(), refusal);
        let restore = [b"FUNCTION".as_slice(), b"RESTORE", &payload, b"REPLACE"];
        assert_eq!(client.value(&restore).text(), refusal);
        assert_eq!(client.value(&["FCALL", "f", "0"]).text(), refusal);
        client.expect("CONFIG SET maxmemory 0", "+OK\r\n");
        assert_eq!(client.value(&["FCALL", "f", "0"]).text(), "OK");
    });
}

#[test]
fn a_library_has_the_same_time_whether_it_is_loaded_or_restored_and_whatever_takes_it() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.expect("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK\r\n");
        let source = format!("{} --while true do end", library("lib", "f", "return 1"));
        client.value(&["FUNCTION", "LOAD", &source]);
        let mut endless = client.value(&["FUNCTION", "DUMP"]).bytes().to_vec();
        client.expect("FUNCTION FLUSH", "+OK\r\n");
        let comment = endless.windows(2).position(|bytes| bytes == b"--").unwrap();
        endless[comment..comment + 2].copy_from_slice(b"  ");
        let reply = client.value(&[b"FUNCTION".as_slice(), b"RESTORE", &endless]).text();
        assert!(reply.contains("FUNCTION LOAD timeout"), "{reply}");
        // A pattern that takes as many steps as there are ways to divide the text.
        let pattern = "local found = ('a'):rep(3000):find(('a*'):rep(20) .. 'b')";
        let source = format!("{}\n{pattern}", library("lib", "f", "return 1"));
        let reply = client.value(&["FUNCTION", "LOAD", &source]).text();
        assert!(reply.contains("FUNCTION LOAD timeout"), "{reply}");
        // Few instructions, of which each takes long.
        for long in
            ["local s = ('a'):rep(5e7) while true do s:upper() end", "while true do local s = ('a'):rep(5e7) end"]
        {
            let began = Instant::now();
            let reply = client.value(&["FUNCTION", "LOAD", &format!("{}\n{long}", library("lib", "f", "return 1"))]);
            assert!(reply.text().contains("FUNCTION LOAD timeout"), "{}", reply.text());
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
        let reply = client.value(&["FUNCTION", "LOAD", &library("lib", &"f".repeat(1 << 17), "return 1")]).text();
        assert!(reply.contains("function names and descriptions have at most 65536 bytes"), "{reply}");
        assert!(client.value(&["FUNCTION", "LIST"]).elements().is_empty());
        assert_eq!(client.value(&["FUNCTION", "KILL"]).text(), "NOTBUSY No scripts in execution right now.");
        server.assert_serving();
    }
}

/// Rust's references into Lua are on a stack of 8,000 places.
#[test]
fn there_may_be_more_functions_than_the_stack_of_lua_has_places() {
    let server = Embedded::start(EVERY_ENGINE[0], &["--threads", "1", "--appendonly", "no"]);
    let mut client = server.client();
    let register = |number: usize| format!("redis.register_function('f{number}', function() return {number} end)\n");
    for library in 0..3 {
        let functions = (0..3000).map(|number| register(library * 3000 + number)).collect::<String>();
        let source = format!("#!lua name=library{library}\n{functions}");
        assert_eq!(client.value(&["FUNCTION", "LOAD", &source]).text(), format!("library{library}"));
    }
    let calls: Vec<Vec<String>> =
        (0..9000).map(|number| ["FCALL".into(), format!("f{number}"), "0".into()].to_vec()).collect();
    for (number, value) in client.pipeline(&calls).iter().enumerate() {
        assert_eq!(*value, Value::of(format!(":{number}\r\n").as_bytes()));
    }
}

#[test]
fn a_change_of_the_libraries_is_one_change_of_the_data_and_is_in_the_next_snapshot() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--appendonly", "no", "--save", "3600 1000"]);
        let mut client = server.client();
        let mut changes = 0;
        let source = library("lib", "f", "return 1");
        let load = ["FUNCTION", "LOAD", "REPLACE", &source].map(|word| word.as_bytes().to_vec()).to_vec();
        client.value(&load);
        let payload = client.value(&["FUNCTION", "DUMP"]).bytes().to_vec();
        let restore = vec![b"FUNCTION".to_vec(), b"RESTORE".to_vec(), payload, b"REPLACE".to_vec()];
        client.expect("SAVE", "+OK\r\n");
        for request in [load.clone(), restore, harness::words("FUNCTION DELETE lib"), harness::words("FUNCTION FLUSH")]
        {
            assert!(!client.call(&request).starts_with(b"-"));
            changes += 1;
            assert_eq!(server.info_number("rdb_changes_since_last_save"), changes, "{:?}", request[1].escape_ascii());
        }
        client.expect("FUNCTION DELETE none", "-ERR Library not found\r\n");
        assert_eq!(server.info_number("rdb_changes_since_last_save"), changes);
        client.expect("CONFIG SET save \"1 5\"", "+OK\r\n");
        client.value(&load);
        harness::wait_until("the save point", || server.info_number("rdb_changes_since_last_save") == 0);
    }
}
