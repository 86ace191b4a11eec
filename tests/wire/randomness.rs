//! All that a server draws comes from its platform's randomness: it follows from a seed, and from nothing else.

use harness::{Client, Data, EVERY_ENGINE, Setup, Value, wait_until};
use shardrace::Config;
use shardrace::internals::aof::{Frame, Salt, decode};
use shardrace::internals::base::{Address, Connecting, Listener, Network, Randomness, SystemNetwork};
use shardrace::internals::server::{Platform, run_within};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Members of each collection, and keys beside them: so many that two equal draws are no accident.
const MEMBERS: usize = 300;

/// The machine's network, which reports the address of a listener.
#[derive(Debug)]
struct Reporting(Sender<SocketAddr>);

impl Network for Reporting {
    fn listen(&self, address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let listener = SystemNetwork.listen(address, backlog)?;
        if let Address::Ip(address) = listener.local_address()? {
            self.0.send(address).expect("the test waits for it");
        }
        Ok(listener)
    }

    fn listen_at_file(&self, path: &Arc<str>, mode: u32) -> io::Result<Listener> {
        SystemNetwork.listen_at_file(path, mode)
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16, source: &'a str) -> Connecting<'a> {
        SystemNetwork.connect(host, port, source)
    }
}

fn config(setup: Setup, data: &Data) -> Config {
    let (dir, shards) = (data.path().display().to_string(), setup.shards.to_string());
    [("engine", setup.engine), ("shards", &shards), ("threads", "1"), ("dir", &dir), ("appendonly", "yes")]
        .into_iter()
        .fold(Config::ephemeral(), |config, (name, value)| config.with(name, value).unwrap())
}

/// Starts a server on a thread of its own, whose `fastrand` has a seed, too.
fn start(
    setup: Setup,
    data: &Data,
    randomness: Randomness,
    thread_seed: u64,
) -> (Receiver<SocketAddr>, JoinHandle<()>) {
    let (config, (sender, addresses)) = (config(setup, data), channel());
    let platform = Platform { randomness, network: Arc::new(Reporting(sender)), ..Platform::default() };
    let run = move || {
        fastrand::seed(thread_seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run_within(config, platform)).expect("it ends in order");
    };
    (addresses, std::thread::spawn(run))
}

/// What a new server draws for the same requests, by where it shows.
fn drawn(setup: Setup, randomness: Randomness, thread_seed: u64) -> BTreeMap<String, String> {
    let data = Data::new();
    let (addresses, server) = start(setup, &data, randomness, thread_seed);
    let address = addresses.recv().expect("it listens");
    // A connection that comes while data is loaded may get its generator before the server's tasks get theirs.
    let mut early = Client::connect(address);
    wait_until("it has loaded its data", || early.value(&["DBSIZE"]) == Value::Integer(0));
    let mut client = Client::connect(address);
    let mut drawn = ask(&mut client);
    client.send(b"SHUTDOWN\r\n");
    server.join().unwrap();
    for (index, bytes) in data.log_files().into_iter().map(|path| std::fs::read(path).unwrap()).enumerate() {
        drawn.extend(drawn_in_log(&bytes).into_iter().map(|(what, text)| (format!("{what} in file {index}"), text)));
    }
    drawn
}

fn ask(client: &mut Client) -> BTreeMap<String, String> {
    for index in 0..MEMBERS {
        let member = index.to_string();
        client.value(&["SET", &format!("key:{member}"), "v"]);
        client.value(&["SADD", "set", &format!("member:{member}")]).integer();
        client.value(&["HSET", "hash", &format!("field:{member}"), "v"]).integer();
        client.value(&["ZADD", "sorted", &member, &format!("member:{member}")]).integer();
    }
    client.value(&["MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6"]);
    let requests = [
        "SRANDMEMBER set 9",
        "SPOP set 9",
        "HRANDFIELD hash 9",
        "ZRANDMEMBER sorted 9",
        "EVAL return{tostring(math.random()),redis.call('RANDOMKEY'),redis.call('SRANDMEMBER','set')} 0",
        "ACL GENPASS",
    ];
    let mut drawn: BTreeMap<String, String> = requests
        .iter()
        .map(|request| (request.to_string(), client.value(&request.split(' ').collect::<Vec<_>>())))
        .map(|(request, reply)| (request, format!("{reply:?}")))
        .collect();
    let keys: Vec<String> = (0..9).map(|_| client.value(&["RANDOMKEY"]).text()).collect();
    drawn.insert("RANDOMKEY".into(), keys.join(" "));
    let info = client.value(&["INFO", "server", "replication"]).text();
    for name in ["run_id", "master_replid"] {
        let line = info.lines().find(|line| line.starts_with(&format!("{name}:"))).expect("INFO shows it");
        drawn.insert(name.into(), line.into());
    }
    drawn
}

/// The salt of a segment, and the numbers of its records over several shards.
fn drawn_in_log(bytes: &[u8]) -> Vec<(String, String)> {
    if !bytes.starts_with(b"SRAOF") {
        return Vec::new();
    }
    let salt = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let (mut at, mut found) = (16, vec![("salt".to_owned(), salt.to_string())]);
    loop {
        at += match decode(&bytes[at..], Salt(salt)) {
            Frame::CrossShard(payload, len) => {
                let number = u64::from_le_bytes(payload[..8].try_into().unwrap());
                found.push((format!("number of record {}", found.len()), number.to_string()));
                len
            }
            Frame::Record(_, len) | Frame::Control(_, len) => len,
            Frame::End | Frame::Broken => return found,
        };
    }
}

#[test]
fn servers_of_one_seed_draw_the_same_whatever_seed_their_threads_have() {
    for setup in EVERY_ENGINE {
        let first = drawn(setup, Randomness::seeded(7), 1);
        assert_eq!(first, drawn(setup, Randomness::seeded(7), 2), "{setup:?}");
        let is_over_several = setup.engine == "actor" && setup.shards > 1;
        assert!(first.keys().any(|what| what.starts_with("salt")), "{setup:?}: there is a log");
        assert_eq!(first.keys().any(|what| what.starts_with("number")), is_over_several, "{setup:?}");
        must_differ(&first, &drawn(setup, Randomness::seeded(8), 1), setup);
    }
}

#[test]
fn servers_on_the_machine_draw_differently_whatever_seed_their_threads_have() {
    for setup in EVERY_ENGINE {
        must_differ(&drawn(setup, Randomness::System, 1), &drawn(setup, Randomness::System, 1), setup);
    }
}

fn must_differ(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>, setup: Setup) {
    assert!(first.keys().eq(second.keys()), "{setup:?}: {:?}, {:?}", first.keys(), second.keys());
    for (what, text) in first {
        assert_ne!(text, &second[what], "{setup:?}: {what}");
    }
}
