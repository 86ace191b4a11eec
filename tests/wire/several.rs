//! Several servers in one process: each is a value, and nothing of one is visible in another.

use harness::{Client, Value, request, wait_until};
use shardrace::{Config, Server};
use std::collections::HashMap;

const ENGINES: [&str; 3] = ["mutex", "dashmap", "actor"];
const SERVERS: usize = 10;

/// A script that differs for each server.
fn script_of(server: usize) -> String {
    format!("return redis.call('incrby', KEYS[1], {})", server + 1)
}

/// A library with one function, which only this server has.
fn library_of(server: usize) -> String {
    format!("#!lua name=library{server}\nredis.register_function('function{server}', function() return {server} end)")
}

/// The settings of a server, all different.
struct Asked {
    sets: usize,
    errors: usize,
    saves: usize,
    evals: usize,
}

impl Asked {
    fn of(server: usize) -> Self {
        Self { sets: 100 + 50 * server, errors: 1 + server, saves: server % 4, evals: 10 + server }
    }
}

fn start(server: usize) -> Server {
    let config = Config::ephemeral().with("engine", ENGINES[server % ENGINES.len()]).unwrap();
    let config = config.with("threads", "2").unwrap().with("enable-debug-command", "yes").unwrap();
    // One is a node of a cluster.
    let config = config.with("cluster-enabled", if server == 9 { "yes" } else { "no" }).unwrap();
    Server::start(config).expect("it starts beside others")
}

/// Without jemalloc nothing is evicted.
fn policy(server: usize) -> &'static str {
    match (cfg!(feature = "jemalloc"), server.is_multiple_of(2)) {
        (false, _) => "noeviction",
        (true, true) => "allkeys-lfu",
        (true, false) => "allkeys-lru",
    }
}

/// Whether a server publishes the events of its keys.
fn has_events(server: usize) -> bool {
    server.is_multiple_of(2)
}

/// Whether the key of this name is changed there.
fn changes_tracked(server: usize) -> bool {
    server.is_multiple_of(3)
}

/// Connections to a server that receive what others do not.
struct Listeners {
    /// To a channel, and to the events of a key.
    subscriber: Client,
    /// Has read the key `tracked`, with CLIENT TRACKING.
    reader: Client,
}

impl Listeners {
    fn of(server: &Server, number: usize) -> Self {
        let mut subscriber = Client::connect(server.address());
        subscriber.value(&["SUBSCRIBE", "news"]);
        subscriber.value(&["PSUBSCRIBE", "__keyspace@0__:quiet"]);
        let mut reader = Client::connect_resp3(server.address());
        reader.expect(&format!("CLIENT SETNAME reader{number}"), "+OK\r\n");
        reader.expect("CLIENT TRACKING ON", "+OK\r\n");
        reader.expect("GET tracked", "_\r\n");
        Self { subscriber, reader }
    }

    /// Whether they have received what belongs to their own server, and nothing else.
    fn assert_own(&mut self, number: usize) {
        let Self { subscriber, reader } = self;
        let mut wanted = vec![format!("message news {number}")];
        if has_events(number) {
            wanted.push("pmessage __keyspace@0__:quiet __keyspace@0__:quiet append".to_owned());
        }
        wanted.push("pong ".to_owned());
        subscriber.send(&request(&["PING"]));
        for wanted in wanted {
            let words: Vec<String> = subscriber.value_of_next().elements().iter().map(Value::text).collect();
            assert_eq!(words.join(" "), wanted, "subscriber of server {number}");
        }
        reader.send(&request(&["PING"]));
        if changes_tracked(number) {
            let message = reader.value_of_next();
            let [kind, keys] = message.elements() else { panic!("server {number}: {message:?}") };
            assert_eq!((kind.text(), keys.elements()[0].text()), ("invalidate".into(), "tracked".into()));
        }
        assert_eq!(reader.reply(), b"+PONG\r\n", "reader of server {number}");
    }
}

/// Sets everything that CONFIG SET can set, to different values for each.
fn configure(client: &mut Client, server: usize) {
    for (directive, value) in [
        ("hash-max-listpack-entries", (server + 1).to_string()),
        ("list-max-listpack-size", (server + 1).to_string()),
        ("proto-max-bulk-len", format!("{}mb", server + 1)),
        ("maxmemory-policy", policy(server).to_owned()),
        ("slowlog-log-slower-than", if server == 3 { "0" } else { "-1" }.to_owned()),
        ("stages-sample", if server.is_multiple_of(2) { "1" } else { "0" }.to_owned()),
        ("stream-node-max-entries", (server + 1).to_string()),
        ("notify-keyspace-events", if has_events(server) { "KEA" } else { "" }.to_owned()),
    ] {
        assert_eq!(client.value(&["CONFIG", "SET", directive, &value]).text(), "OK", "{directive}");
    }
    client.expect("CONFIG RESETSTAT", "+OK\r\n");
}

/// Runs a server's requests, while others run theirs.
fn load(server: &Server, number: usize) {
    let mut client = Client::connect(server.address());
    let asked = Asked::of(number);
    for index in 0..asked.sets {
        client.expect(&format!("SET key:{} {number}", index % 50), "+OK\r\n");
    }
    for _ in 0..asked.errors {
        let reply = client.call(&["LPUSH", "key:0", "x"]);
        assert!(reply.starts_with(b"-WRONGTYPE"));
    }
    let script = script_of(number);
    for _ in 0..asked.evals {
        client.value(&["EVAL", &script, "1", "{sum}"]).integer();
    }
    client.value(&["FUNCTION", "LOAD", &library_of(number)]);
    for _ in 0..asked.saves {
        client.expect("SAVE", "+OK\r\n");
    }
    for field in 0..=number {
        client.value(&["HSET", "small", &field.to_string(), "v"]).integer();
        client.value(&["HSET", "large", &field.to_string(), "v"]).integer();
    }
    client.value(&["HSET", "large", "one more", "v"]).integer();
    client.expect(&format!("PUBLISH news {number}"), ":1\r\n");
    client.expect("APPEND quiet x", ":1\r\n");
    if changes_tracked(number) {
        client.expect("APPEND tracked x", ":1\r\n");
    }
    client.expect(&format!("ACL SETUSER user{number}"), "+OK\r\n");
}

fn info(client: &mut Client) -> HashMap<String, String> {
    let text = client.value(&["INFO", "everything"]).text().to_owned();
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Whether a server has exactly the results of its requests.
fn assert_own(server: &Server, number: usize) {
    let mut client = Client::connect(server.address());
    let asked = Asked::of(number);
    let fields = info(&mut client);
    let field = |name: &str| fields.get(name).map_or("none", String::as_str);
    let of = |name: &str, part: &str| {
        let parts = field(name).split(',').filter_map(|part| part.split_once('='));
        parts.into_iter().find(|(name, _)| *name == part).map_or("none", |(_, value)| value).to_owned()
    };
    let number_of = |count: usize| count.to_string();
    for (found, wanted) in [
        (of("cmdstat_set", "calls"), number_of(asked.sets)),
        (of("cmdstat_lpush", "failed_calls"), number_of(asked.errors)),
        (of("errorstat_WRONGTYPE", "count"), number_of(asked.errors)),
        (of("cmdstat_eval", "calls"), number_of(asked.evals)),
        (of("cmdstat_save", "calls"), if asked.saves == 0 { "none".into() } else { number_of(asked.saves) }),
        (field("rdb_saves").to_owned(), number_of(asked.saves)),
        (field("number_of_cached_scripts").to_owned(), "1".to_owned()),
        (field("number_of_libraries").to_owned(), "1".to_owned()),
        (field("pubsub_channels").to_owned(), "1".to_owned()),
        (field("pubsub_patterns").to_owned(), "1".to_owned()),
        (field("tracking_clients").to_owned(), "1".to_owned()),
        (field("redis_mode").to_owned(), if number == 9 { "cluster" } else { "standalone" }.to_owned()),
    ] {
        assert_eq!(found, wanted, "server {number}: {fields:#?}");
    }
    let list = client.value(&["CLIENT", "LIST"]).text();
    let names: Vec<&str> = list.split([' ', '\n']).filter(|word| word.starts_with("name=reader")).collect();
    assert_eq!(names, [format!("name=reader{number}")]);
    let users: Vec<String> = client.value(&["ACL", "USERS"]).elements().iter().map(Value::text).collect();
    assert_eq!(users, ["default".to_owned(), format!("user{number}")]);
    let reads = of("stage_execute", "count").parse::<usize>().unwrap_or(0);
    assert_eq!(reads > 0, number.is_multiple_of(2), "server {number}: {reads} reads were watched");
    let slow = client.value(&["SLOWLOG", "LEN"]).integer();
    assert_eq!(slow > 0, number == 3, "server {number}: {slow} were slow");
    assert_eq!(client.value(&["GET", "{sum}"]).text(), ((number + 1) * asked.evals).to_string());
    // Limits, by their effects.
    assert_eq!(client.value(&["OBJECT", "ENCODING", "small"]).text(), "listpack", "server {number}");
    assert_eq!(client.value(&["OBJECT", "ENCODING", "large"]).text(), "hashtable", "server {number}");
    let own_max = (number + 1) << 20;
    client.value(&["SETRANGE", "string", &(own_max - 1).to_string(), "x"]).integer();
    let reply = client.call(&["SETRANGE", "string", &own_max.to_string(), "x"]);
    assert!(reply.starts_with(b"-ERR string exceeds maximum"), "server {number}: {}", reply.escape_ascii());
    client.expect("DEL string", ":1\r\n");
    let counts = client.call(&["OBJECT", "FREQ", "key:1"]).starts_with(b":");
    assert_eq!(counts, policy(number).ends_with("lfu"), "server {number} goes by another's policy");
    let is_refused = client.call(&["SWAPDB", "0", "0"]).starts_with(b"-ERR SWAPDB is not allowed in cluster");
    assert_eq!(is_refused, number == 9, "server {number}");
    for other in 0..SERVERS {
        let reply = client.call(&["FCALL", &format!("function{other}"), "0"]);
        let wanted = if other == number { format!(":{other}\r\n") } else { "-ERR Function not found\r\n".into() };
        assert_eq!(String::from_utf8_lossy(&reply), wanted, "server {number}");
    }
}

fn shas(server: &Server) -> Vec<bool> {
    let mut client = Client::connect(server.address());
    let known = |number: usize, client: &mut Client| {
        let sha = sha_of(&script_of(number));
        client.value(&["SCRIPT", "EXISTS", &sha]).elements()[0].integer() == 1
    };
    (0..SERVERS).map(|number| known(number, &mut client)).collect()
}

fn sha_of(script: &str) -> String {
    String::from_utf8(shardrace::internals::scripting::sha_of(script.as_bytes()).to_vec()).unwrap()
}

#[test]
fn ten_servers_of_three_engines_in_one_process_see_nothing_of_each_other() {
    let servers: Vec<Server> = (0..SERVERS).map(start).collect();
    for (number, server) in servers.iter().enumerate() {
        configure(&mut Client::connect(server.address()), number);
    }
    let mut listeners: Vec<Listeners> =
        servers.iter().enumerate().map(|(number, server)| Listeners::of(server, number)).collect();
    std::thread::scope(|scope| {
        for (number, server) in servers.iter().enumerate() {
            scope.spawn(move || load(server, number));
        }
    });
    for (number, server) in servers.iter().enumerate() {
        assert_own(server, number);
        let known: Vec<usize> = (0..SERVERS).filter(|&other| shas(server)[other]).collect();
        assert_eq!(known, [number], "scripts that server {number} knows");
        listeners[number].assert_own(number);
    }
    let names_of = |server: &Server| {
        ["run_id", "master_replid"].map(|name| info(&mut Client::connect(server.address()))[name].clone())
    };
    let names: std::collections::HashSet<String> = servers.iter().flat_map(names_of).collect();
    assert_eq!(names.len(), 2 * SERVERS, "each has names of its own");
    // Some end, the others continue.
    let (ending, staying): (Vec<_>, Vec<_>) = servers.into_iter().enumerate().partition(|(number, _)| number % 2 == 1);
    for (_, server) in ending {
        server.stop();
        server.wait().unwrap();
    }
    for (number, server) in staying {
        let mut client = Client::connect(server.address());
        assert_eq!(client.value(&["GET", "key:1"]).text(), number.to_string());
    }
}

/// The test above, in processes whose servers share their scripts or their channels, as if those were global.
#[cfg(feature = "planted-cost")]
#[test]
fn a_planted_global_is_found_by_the_test_of_ten_servers() {
    let run = |planted: Option<&str>| {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "several::ten_servers_of_three_engines_in_one_process_see_nothing_of_each_other"]);
        let planted = planted.map(|name| ("SHARDRACE_PLANTED_GLOBAL", name));
        harness::run_to_its_end(test.env_remove("SHARDRACE_PLANTED_GLOBAL").envs(planted))
    };
    for (planted, seen) in [("scripts", r#""number_of_cached_scripts": "10""#), ("channels", "reply to PUBLISH news")] {
        let run = run(Some(planted));
        assert!(!run.status.success(), "{run:?}");
        assert!(run.stdout.contains(seen) || run.stderr.contains(seen), "{run:?}");
    }
    assert!(run(None).status.success());
}

#[test]
fn what_holds_up_one_server_holds_up_no_other() {
    let servers: Vec<Server> = ENGINES
        .into_iter()
        .map(|engine| Server::start(Config::ephemeral().with("engine", engine).unwrap()).unwrap())
        .collect();
    for (number, server) in servers.iter().enumerate() {
        let mut client = Client::connect(server.address());
        client.expect("SET key value", "+OK\r\n");
        let others = || servers.iter().enumerate().filter(move |(other, _)| *other != number);
        // A pause.
        client.expect("CLIENT PAUSE 60000 WRITE", "+OK\r\n");
        for (_, other) in others() {
            Client::connect(other.address()).expect("SET key value", "+OK\r\n");
        }
        client.expect("CLIENT UNPAUSE", "+OK\r\n");
        // Memory.
        #[cfg(feature = "jemalloc")]
        {
            client.expect("CONFIG SET maxmemory 1", "+OK\r\n");
            wait_until("memory is short", || client.call(&["SET", "key", "value"]).starts_with(b"-OOM"));
            for (_, other) in others() {
                Client::connect(other.address()).expect("SET key value", "+OK\r\n");
            }
            client.expect("CONFIG SET maxmemory 0", "+OK\r\n");
        }
        // A script that never ends.
        client.expect("CONFIG SET busy-reply-threshold 50", "+OK\r\n");
        let mut looping = Client::connect(server.address());
        looping.send(&request(&["EVAL", "while true do end", "0"]));
        // Commands that need no data do not wait for a lock until then.
        wait_until("the script is busy", || client.call(&["PING"]).starts_with(b"-BUSY"));
        for (_, other) in others() {
            let mut other = Client::connect(other.address());
            other.expect("GET key", "$5\r\nvalue\r\n");
            assert!(other.call(&["SCRIPT", "KILL"]).starts_with(b"-NOTBUSY"));
        }
        client.expect("SCRIPT KILL", "+OK\r\n");
        assert!(matches!(looping.value_of_next(), Value::Error(_)));
    }
}
