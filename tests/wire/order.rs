//! Reply order: a reply belongs to a request by its position alone.

use harness::{
    Client, EVERY_BATCHING, EVERY_ENGINE, Embedded, Endpoint, Server, Setup, Value, another_batching, effort,
    other_placements, request, seed,
};

const KEYS: usize = 300;
const LIST_LEN: usize = 3_000;
const SET_LEN: usize = 2_000;

/// The expected reply to a request.
enum Expected {
    Exactly(Vec<u8>),
    /// These elements in any order.
    Elements(Vec<Vec<u8>>),
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn array<T: AsRef<[u8]>>(elements: &[T]) -> Vec<u8> {
    [format!("*{}\r\n", elements.len()).into_bytes(), elements.iter().flat_map(|e| bulk(e.as_ref())).collect()].concat()
}

fn key(index: usize) -> String {
    format!("key:{index}")
}

fn value(index: usize) -> String {
    format!("value of {index}")
}

fn element(index: usize) -> String {
    format!("element {index}")
}

fn member(index: usize) -> String {
    format!("member {index}")
}

/// Keys that no test changes, and the longer ones.
fn fill(client: &mut Client) {
    let mut mset = vec!["MSET".to_owned()];
    (0..KEYS).for_each(|index| mset.extend([key(index), value(index)]));
    client.call(&mset);
    let mut push = vec!["RPUSH".to_owned(), "list".to_owned()];
    push.extend((0..LIST_LEN).map(element));
    client.call(&push);
    let mut add = vec!["SADD".to_owned(), "set".to_owned()];
    add.extend((0..SET_LEN).map(member));
    client.call(&add);
}

/// One connection's requests with the replies that they must get. Other connections change nothing that these read.
struct Script {
    random: fastrand::Rng,
    connection: usize,
    counter: i64,
    own_value: Option<String>,
}

impl Script {
    fn next(&mut self) -> (Vec<u8>, Expected) {
        let index = self.random.usize(..KEYS);
        let unique = self.random.u32(..);
        let exactly = |arguments: &[&str], reply: Vec<u8>| (request(arguments), Expected::Exactly(reply));
        match self.random.u32(..100) {
            0..15 => exactly(&["GET", &key(index)], bulk(value(index).as_bytes())),
            15..25 => exactly(&["ECHO", &unique.to_string()], bulk(unique.to_string().as_bytes())),
            25..30 => exactly(&["PING"], b"+PONG\r\n".to_vec()),
            30..35 => {
                (format!("PING {unique}\r\n").into_bytes(), Expected::Exactly(bulk(unique.to_string().as_bytes())))
            }
            35..40 => exactly(&["GET"], b"-ERR wrong number of arguments for 'get' command\r\n".to_vec()),
            40..45 => {
                let name = format!("nosuch{unique}");
                let reply = format!("-ERR unknown command '{name}', with args beginning with: 'x' \r\n");
                exactly(&[&name, "x"], reply.into_bytes())
            }
            45..50 => exactly(&["LPUSH", &key(index), "x"], wrong_type()),
            50..58 => {
                self.counter += 1;
                let name = format!("counter:{}", self.connection);
                exactly(&["INCR", &name], format!(":{}\r\n", self.counter).into_bytes())
            }
            58..62 => {
                self.own_value = Some(unique.to_string());
                exactly(&["SET", &format!("own:{}", self.connection), &unique.to_string()], b"+OK\r\n".to_vec())
            }
            62..66 => {
                let reply = self.own_value.as_ref().map_or(b"$-1\r\n".to_vec(), |value| bulk(value.as_bytes()));
                exactly(&["GET", &format!("own:{}", self.connection)], reply)
            }
            66..76 => self.mget(),
            76..80 => {
                let pattern = format!("key:{}*", index % 10);
                let wanted = (0..KEYS).map(key).filter(|key| key.starts_with(&pattern[..pattern.len() - 1]));
                let wanted = wanted.map(String::into_bytes).collect();
                (request(&["KEYS", &pattern]), Expected::Elements(wanted))
            }
            80..84 => {
                let wanted = (0..SET_LEN).map(|index| member(index).into_bytes()).collect();
                (request(&["SMEMBERS", "set"]), Expected::Elements(wanted))
            }
            84..90 => {
                let start = self.random.usize(..LIST_LEN);
                let reply = array(&(start..LIST_LEN).map(element).collect::<Vec<_>>());
                exactly(&["LRANGE", "list", &start.to_string(), "-1"], reply)
            }
            90..95 => {
                let names: Vec<String> = (0..index % 20 + 1).map(|step| key((index + step) % KEYS)).collect();
                let mut exists = vec!["EXISTS", "nosuchkey"];
                exists.extend(names.iter().map(String::as_str));
                exactly(&exists, format!(":{}\r\n", names.len()).into_bytes())
            }
            _ => exactly(&["SELECT", "x"], b"-ERR value is not an integer or out of range\r\n".to_vec()),
        }
    }

    fn mget(&mut self) -> (Vec<u8>, Expected) {
        let (mut mget, mut reply) = (vec!["MGET".to_owned()], Vec::new());
        for _ in 0..self.random.usize(1..30) {
            let index = self.random.usize(..KEYS);
            if self.random.u32(..10) == 0 {
                mget.push(format!("missing:{index}"));
                reply.extend_from_slice(b"$-1\r\n");
            } else {
                mget.push(key(index));
                reply.extend(bulk(value(index).as_bytes()));
            }
        }
        let head = format!("*{}\r\n", mget.len() - 1).into_bytes();
        (request(&mget), Expected::Exactly([head, reply].concat()))
    }
}

fn wrong_type() -> Vec<u8> {
    b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec()
}

fn check(reply: &[u8], expected: Expected, what: &str) {
    match expected {
        Expected::Exactly(wanted) => {
            assert_eq!(reply.escape_ascii().to_string(), wanted.escape_ascii().to_string(), "{what}");
        }
        Expected::Elements(mut wanted) => {
            let mut got = Value::of(reply).byte_strings();
            got.sort();
            wanted.sort();
            assert!(got == wanted, "{what}: {} elements for {}", got.len(), wanted.len());
        }
    }
}

/// Sends pipelines of random depth and checks every reply for its position.
fn run_connection(server: &Endpoint, seed: u64, connection: usize, requests: usize) {
    let mut client = server.client();
    let random = fastrand::Rng::with_seed(seed.wrapping_add(connection as u64));
    let mut script = Script { random, connection, counter: 0, own_value: None };
    let mut left = requests;
    while left > 0 {
        let depth = script.random.usize(1..=left.min(1_000));
        left -= depth;
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..depth {
            let (request, reply) = script.next();
            bytes.extend(request);
            expected.push(reply);
        }
        client.send_and_hold(&bytes);
        for (position, expected) in expected.into_iter().enumerate() {
            let what = format!("seed {seed}, connection {connection}, reply {position} of {depth}");
            check(&client.reply(), expected, &what);
        }
        assert!(client.is_silent(), "seed {seed}: no reply that nobody asked for");
    }
}

#[test]
fn replies_keep_request_order_when_shards_finish_out_of_order() {
    const CONNECTIONS: usize = 4;
    let seed = seed();
    let requests = effort("ORDER_REQUESTS", 2_500);
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--appendonly", "no"]);
        fill(&mut server.client());
        std::thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                let server = &server;
                scope.spawn(move || run_connection(server, seed, connection, requests));
            }
        });
    }
}

#[test]
fn replies_keep_request_order_however_the_commands_of_a_read_run() {
    const CONNECTIONS: usize = 4;
    let seed = seed();
    let batching = another_batching(seed);
    for setup in EVERY_ENGINE {
        println!("on {setup:?} with {batching:?}");
        let server = Embedded::start(setup, &[&batching[..], &["--appendonly", "no"]].concat());
        fill(&mut server.client());
        std::thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                let server = &server;
                scope.spawn(move || run_connection(server, seed, connection, effort("ORDER_REQUESTS", 600)));
            }
        });
    }
}

#[test]
fn replies_keep_request_order_wherever_connections_and_shards_run() {
    const CONNECTIONS: usize = 4;
    let seed = seed();
    for (setup, placement) in other_placements() {
        for batching in [EVERY_BATCHING[0], another_batching(seed)] {
            println!("on {setup:?} with {placement:?} and {batching:?}");
            let server = Embedded::start(setup, &[&placement[..], &batching, &["--appendonly", "no"]].concat());
            fill(&mut server.client());
            std::thread::scope(|scope| {
                for connection in 0..CONNECTIONS {
                    let server = &server;
                    scope.spawn(move || run_connection(server, seed, connection, effort("ORDER_REQUESTS", 600)));
                }
            });
        }
    }
}

#[test]
fn replies_keep_request_order_whatever_bounds_batches_and_carries_them() {
    const NARROW: &[&str] = &["--turn-batches", "1", "--reads-in-flight", "1", "--mailbox-capacity", "1"];
    const SMALL: &[&str] = &["--read-size", "4kb", "--stages-sample", "1"];
    let seed = seed();
    for setup in EVERY_ENGINE.into_iter().filter(|setup| setup.engine == "actor") {
        for flags in [&["--channel", "tokio"][..], NARROW, &[&["--channel", "tokio"], NARROW, SMALL].concat()] {
            let server = Embedded::start(setup, flags);
            fill(&mut server.client());
            run_connection(&server, seed, 0, effort("ORDER_REQUESTS", 300));
        }
    }
}

#[test]
fn replies_keep_request_order_when_each_waits_for_the_disk() {
    let seed = seed();
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--appendfsync", "always"]);
        fill(&mut server.client());
        run_connection(&server, seed, 0, effort("ORDER_REQUESTS", 1_000));
    }
}

#[test]
fn a_connection_sees_its_own_writes_through_a_pipeline() {
    harness::on_every_engine(|server| {
        let requests: Vec<Vec<String>> = (0..5_000)
            .map(|step| match step % 4 {
                0 => vec!["SET".into(), key(step % 17), step.to_string()],
                1 => vec!["GET".into(), key((step - 1) % 17)],
                2 => vec!["DEL".into(), key((step - 2) % 17)],
                _ => vec!["EXISTS".into(), key((step - 3) % 17)],
            })
            .collect();
        let replies = server.client().pipeline(&requests);
        for (step, reply) in replies.into_iter().enumerate() {
            let wanted = match step % 4 {
                0 => Value::Simple(b"OK".to_vec()),
                1 => Value::Bulk((step - 1).to_string().into_bytes()),
                2 => Value::Integer(1),
                _ => Value::Integer(0),
            };
            assert_eq!(reply, wanted, "step {step}");
        }
    });
}

#[test]
fn one_request_per_byte_group_gives_the_same_replies_as_one_burst() {
    harness::on_every_engine(|server| {
        let stream: Vec<u8> = [
            request(&["SET", "k", "v"]),
            b"GET k\r\n".to_vec(),
            request(&["MGET", "k", "x", "k"]),
            b"\r\n*0\r\n*-1\r\n".to_vec(),
            b"ECHO \"a b\"\n".to_vec(),
            request(&["LRANGE", "nolist", "0", "-1"]),
            request(&["PING"]),
        ]
        .concat();
        let wanted = b"+OK\r\n$1\r\nv\r\n*3\r\n$1\r\nv\r\n$-1\r\n$1\r\nv\r\n$3\r\na b\r\n*0\r\n+PONG\r\n";
        let receive = |client: &mut Client| (0..6).flat_map(|_| client.reply()).collect::<Vec<u8>>();
        let mut client = server.client();
        for cut in 0..=stream.len() {
            client.send(&stream[..cut]);
            // Without a pause the kernel would put both parts into one read.
            std::thread::sleep(std::time::Duration::from_micros(300));
            client.send(&stream[cut..]);
            assert_eq!(
                receive(&mut client).escape_ascii().to_string(),
                wanted.escape_ascii().to_string(),
                "cut at {cut}"
            );
        }
        stream.iter().for_each(|byte| client.send(&[*byte]));
        assert_eq!(receive(&mut client), wanted);
    });
}

/// On one thread, as in Redis: clients whose requests wait together are served in the order in which they sent them.
#[test]
#[cfg_attr(not(tokio_unstable), ignore = "tokio turns the order round: see .cargo/config.toml")]
fn connections_are_served_in_the_order_in_which_they_sent_something() {
    for setup in EVERY_ENGINE {
        let setup = Setup { threads: 1, ..setup };
        let server = Server::start(setup, &[]);
        let mut served = Vec::new();
        // On a busy machine epoll itself has them in another order now and then.
        let is_in_order = (0..3).any(|_| {
            served = served_of_those_that_wait(&server);
            served.is_sorted()
        });
        assert!(is_in_order, "{setup:?}: {served:?}");
    }
}

/// Twenty clients send their numbers one after the other to a server that is stopped: the numbers as it gets them.
fn served_of_those_that_wait(server: &Server) -> Vec<usize> {
    const CLIENTS: usize = 20;
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.expect("PING", "+PONG\r\n"));
    server.pause();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_to_the_socket(&request(&["RPUSH", "list", &number.to_string()]));
    }
    server.signal("CONT");
    clients.iter_mut().for_each(|client| _ = client.reply());
    let list = clients[0].value(&["LRANGE", "list", "0", "-1"]);
    let served: Vec<usize> = list.elements().iter().map(|number| number.text().parse().expect("a number")).collect();
    assert_eq!(served.len(), CLIENTS);
    clients[0].expect("DEL list", ":1\r\n");
    served
}

/// The first shard's replies fill its buffer, so some of the requests are left for later; the transaction on the other
/// shard is done before.
#[test]
fn a_transaction_on_one_shard_is_replied_after_what_another_shard_has_left_for_later() {
    for (batching, len, slow) in [("command", 70_000, 0), ("read", 1_200_000, 200)] {
        let setup = Setup { engine: "actor", shards: 2, threads: 2 };
        let server = Embedded::start(setup, &["--batching", batching]);
        let value = vec![b'a'; len];
        server.client().call(&[b"SET", b"a".as_slice(), &value]);
        let reads = [request(&["BITCOUNT", "a"]).repeat(slow), request(&["GET", "a"]).repeat(3)].concat();
        // One of the keys is on the other shard.
        for (key, round) in ["b", "c", "d", "e"].into_iter().flat_map(|key| (0..5).map(move |round| (key, round))) {
            let mut client = server.client();
            let transaction = ["WATCH", "MULTI", "INCR", "EXEC"].map(|name| match name {
                "WATCH" | "INCR" => request(&[name, key]),
                _ => request(&[name]),
            });
            client.send(&[reads.clone(), transaction.concat()].concat());
            (0..slow).for_each(|_| assert!(client.reply().starts_with(b":")));
            for _ in 0..3 {
                assert_eq!(client.reply().len(), bulk(&value).len(), "{batching} {key} {round}");
            }
            assert_eq!(client.reply(), b"+OK\r\n", "{batching} {key} {round}");
            assert_eq!(client.reply(), b"+OK\r\n");
            assert_eq!(client.reply(), b"+QUEUED\r\n");
            assert_eq!(client.reply(), format!("*1\r\n:{}\r\n", round + 1).as_bytes());
        }
    }
}
