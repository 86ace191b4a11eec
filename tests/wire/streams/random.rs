//! Random requests: the replies are those of redis-server, and a restart keeps everything.

use super::call;
use harness::{Client, EVERY_ENGINE, RedisOracle, Server, Setup, Value, effort, seed, words};

/// Requests on few streams whose replies depend only on the requests.
struct Generator {
    random: fastrand::Rng,
    /// The milliseconds of the IDs that are currently given out.
    ms: u64,
}

impl Generator {
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.random.usize(..words.len())]
    }

    fn key(&mut self) -> &'static str {
        self.pick(&["{t}a", "{t}b"])
    }

    fn id(&mut self) -> String {
        format!("{}-{}", (self.ms - self.random.u64(..100)).max(1), self.random.u32(..4))
    }

    fn bound(&mut self) -> String {
        match self.random.u32(..6) {
            0 => self.pick(&["-", "+"]).to_owned(),
            1 => format!("({}", self.id()),
            2 => (self.ms - self.random.u64(..100)).to_string(),
            _ => self.id(),
        }
    }

    fn value(&mut self) -> String {
        match self.random.u32(..8) {
            0 => "x".repeat(self.random.usize(1..600)),
            1 => format!("{}", self.random.i64(..) >> self.random.u32(..63)),
            _ => self.random.u32(..200).to_string(),
        }
    }

    fn fields(&mut self) -> String {
        match self.random.u32(..3) {
            0 => format!("{} {}", self.value(), self.value()),
            1 => format!("f {} g {}", self.value(), self.value()),
            _ => format!("f {}", self.value()),
        }
    }

    fn trim(&mut self) -> String {
        let sign = self.pick(&["", "= ", "~ "]);
        let threshold = match self.random.u32(..2) {
            0 => format!("MAXLEN {sign}{}", self.random.u32(..300)),
            _ => format!("MINID {sign}{}", self.id()),
        };
        let limit = if sign == "~ " && self.random.u32(..2) == 0 {
            format!(" LIMIT {}", self.random.u32(..150))
        } else {
            "".into()
        };
        threshold + &limit
    }

    fn request(&mut self) -> String {
        self.ms += self.random.u64(..2);
        let ms = self.ms;
        let key = self.key();
        let group = self.pick(&["g", "h"]);
        let consumer = self.pick(&["alice", "bob"]);
        match self.random.u32(..100) {
            0..30 => format!("XADD {key} {ms}-* {}", self.fields()),
            30..34 => format!("XADD {key} {} {ms}-* {}", self.trim(), self.fields()),
            34..36 => format!("XTRIM {key} {}", self.trim()),
            36..46 => format!("XDEL {key} {} {}", self.id(), self.id()),
            46..50 => format!("XRANGE {key} {} {} COUNT {}", self.bound(), self.bound(), self.random.u32(..9)),
            50..54 => format!("XREVRANGE {key} {} {} COUNT {}", self.bound(), self.bound(), self.random.u32(..9)),
            54..64 => format!(
                "XREADGROUP GROUP {group} {consumer} COUNT {} {}STREAMS {{t}}a {{t}}b > >",
                self.random.u32(..7),
                self.pick(&["", "", "NOACK "])
            ),
            64..68 => {
                format!(
                    "XREADGROUP GROUP {group} {consumer} COUNT {} STREAMS {key} {}",
                    self.random.u32(..7),
                    self.id()
                )
            }
            68..72 => format!("XREAD COUNT {} STREAMS {{t}}a {{t}}b {} {}", self.random.u32(..7), self.id(), self.id()),
            72..76 => format!("XACK {key} {group} {} {}", self.id(), self.id()),
            76..79 => format!(
                "XCLAIM {key} {group} {consumer} 0 {} {} {}",
                self.id(),
                self.id(),
                self.pick(&["", "JUSTID", "FORCE", "RETRYCOUNT 5", "IDLE 5 FORCE", "LASTID 9-9"])
            ),
            79..82 => format!(
                "XAUTOCLAIM {key} {group} {consumer} 0 {} COUNT {}{}",
                self.bound(),
                self.random.u32(1..5),
                self.pick(&["", " JUSTID"])
            ),
            82..85 => format!("XPENDING {key} {group}"),
            85..88 => format!("~XPENDING {key} {group} {} {} {}", self.bound(), self.bound(), self.random.u32(..9)),
            88..92 => format!("XINFO GROUPS {key}"),
            92..94 => format!("@XINFO STREAM {key}"),
            94 => format!("XGROUP SETID {key} {group} {} ENTRIESREAD {}", self.id(), self.random.i32(-1..9)),
            95 => format!("XGROUP DESTROY {key} {group}"),
            96 => format!("XREAD COUNT 3 STREAMS {key} {}", self.id()),
            // Above IDs deleted by name: 7.0 does not check that yet.
            97 => format!("XSETID {key} {ms}-1000 ENTRIESADDED {}", self.random.u32(..2000)),
            98 => format!("XLEN {key}"),
            _ => format!("COPY {key} {} REPLACE", self.key()),
        }
    }

    /// The groups with their consumers: 7.0 creates a consumer that receives nothing later than 7.2 does.
    fn prepare() -> Vec<String> {
        let mut requests = Vec::new();
        for (key, group) in [("{t}a", "g"), ("{t}a", "h"), ("{t}b", "g"), ("{t}b", "h")] {
            requests.push(format!("XGROUP CREATE {key} {group} 0 MKSTREAM"));
            for consumer in ["alice", "bob"] {
                requests.push(format!("XGROUP CREATECONSUMER {key} {group} {consumer}"));
            }
        }
        requests
    }
}

/// As [`call`]; for a request that begins with `@` the nodes of the radix tree are left out.
fn comparable(client: &mut Client, line: &str) -> String {
    match line.strip_prefix('@') {
        None => call(client, line).escape_ascii().to_string(),
        Some(line) => match client.value(&words(line)) {
            Value::Array(mut fields) if fields.len() > 5 => {
                fields[5] = Value::Integer(0);
                format!("{:?}", Value::Array(fields))
            }
            other => format!("{other:?}"),
        },
    }
}

#[test]
fn random_requests_get_redis_s_replies_and_a_restart_keeps_all() {
    let rounds = effort("STREAM_ROUNDS", 2);
    let mut generator = Generator { random: fastrand::Rng::with_seed(seed()), ms: 1_000 };
    let oracle = RedisOracle::start();
    for _ in 0..rounds {
        let mut requests = Generator::prepare();
        for number in 0..2_500 {
            requests.push(generator.request());
            if number % 150 == 0 {
                requests.extend(Generator::prepare());
            }
        }
        let mut theirs = oracle.client();
        theirs.call(&["FLUSHALL"]);
        let wanted: Vec<String> = requests.iter().map(|line| comparable(&mut theirs, line)).collect();
        for setup in EVERY_ENGINE {
            let server = Server::start(setup, &[]);
            let mut ours = server.client();
            for (line, wanted) in requests.iter().zip(&wanted) {
                assert_eq!(&comparable(&mut ours, line), wanted, "{setup:?}: {line}");
            }
            check_restart(server, setup);
        }
    }
}

/// The state of the streams is the same after kill -9 and a restart.
fn check_restart(server: Server, setup: Setup) {
    let mut client = server.client();
    // So that each consumer was seen when it received something.
    Generator::prepare().iter().for_each(|line| drop(call(&mut client, line)));
    for key in ["{t}a", "{t}b"] {
        for (group, consumer) in [("g", "alice"), ("g", "bob"), ("h", "alice"), ("h", "bob")] {
            client.call(&["XADD", key, "*", "f", "v"]);
            client.call(&["XREADGROUP", "GROUP", group, consumer, "STREAMS", key, ">"]);
        }
    }
    let before = infos(&mut client);
    let server = server.kill().start(setup, &[]);
    assert_eq!(infos(&mut server.client()), before, "{setup:?}");
}

fn infos(client: &mut Client) -> Vec<String> {
    let full = |key| client.value(&["XINFO", "STREAM", key, "FULL", "COUNT", "0"]);
    // Blocks without entries, which Redis has too, may be removed in between.
    ["{t}a", "{t}b"]
        .map(full)
        .iter()
        .map(|info| format!("{:?} {:?}", &info.elements()[..2], &info.elements()[6..]))
        .collect()
}
