//! Random scripts: commands, conversions, errors and the libraries, against a real redis-server. Replies are equal.

use super::harness::{Client, RedisOracle, Server};
use super::{parts, setup};

/// Scripts of a run, and of a long one: three runs, one for each engine.
const SCRIPTS: usize = 7_000;
const SCRIPTS_OF_SOAK: usize = 170_000;
/// Scripts that are sent at once.
const TOGETHER: usize = 50;

/// Keys that scripts use.
const KEYS: [&str; 9] = ["s", "n", "l", "h", "z", "set", "none", "{t}1", "{t}2"];

/// The second field is the keys that the script declares, if it names them by KEYS: it may be proved to touch no
/// others.
struct Maker(fastrand::Rng, Option<Vec<&'static str>>);

impl Maker {
    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.0.usize(..choices.len())]
    }

    fn number(&mut self) -> String {
        match self.0.u8(..8) {
            0 => self
                .of(&["0", "-0", "1", "-1", "2^31", "-2^31", "2^32", "2^53", "2^63", "-2^63", "1e15", "1e-5"])
                .into(),
            1 => format!("{}.5", self.0.i32(-1000..1000)),
            2 => format!("{}/8", self.0.i64(-1_000_000..1_000_000)),
            _ => self.0.i32(-300..300).to_string(),
        }
    }

    fn text(&mut self) -> String {
        let pieces =
            ["a", "B", "7", " ", "-", ".", "\\0", "\\255", "\\n", "\\\"", "%", "{", "[", "/", "\\\\", "\\195\\164"];
        let count = self.0.usize(..6);
        let text: String = (0..count).map(|_| self.of(&pieces)).collect();
        format!("\"{text}\"")
    }

    fn key(&mut self) -> String {
        let name = self.of(&KEYS);
        self.named(name)
    }

    fn named(&mut self, name: &'static str) -> String {
        let Some(declared) = &mut self.1 else { return format!("'{name}'") };
        let position = declared.iter().position(|other| *other == name).unwrap_or_else(|| {
            declared.push(name);
            declared.len() - 1
        });
        format!("KEYS[{}]", position + 1)
    }

    /// An expression that has a value.
    fn value(&mut self, depth: u8) -> String {
        if depth == 0 {
            return match self.0.u8(..6) {
                0 => self.of(&["true", "false", "nil", "cjson.null", "{}"]).into(),
                1 | 2 => self.text(),
                _ => self.number(),
            };
        }
        let inner = |maker: &mut Self| maker.value(depth - 1);
        match self.0.u8(..22) {
            0 => format!("{{{}, {}, {}}}", inner(self), inner(self), inner(self)),
            1 => format!("{{x = {}, [3] = {}}}", inner(self), inner(self)),
            2 => format!("{{ok = {}}}", inner(self)),
            3 => format!("{{err = {}}}", inner(self)),
            4 => format!("{{map = {{a = {}}}}}", inner(self)),
            5 => format!("{{double = {}}}", self.of(&["0.5", "3", "1e20", "-2.25"])),
            6 => format!("cjson.encode({})", inner(self)),
            7 => format!("cjson.decode(cjson.encode({}))", inner(self)),
            8 => format!("cjson.decode({})", self.json()),
            9 => format!("cmsgpack.pack({}, {})", inner(self), inner(self)),
            10 => format!("{{cmsgpack.unpack(cmsgpack.pack({}))}}", inner(self)),
            11 => format!("cmsgpack.unpack({})", self.text()),
            12 => format!("struct.pack('{}', {}, {})", self.format(), self.number(), self.number()),
            13 => format!("{{struct.unpack('{}', {} .. '12345678')}}", self.format(), self.text()),
            14 => {
                let operation = self.of(&["band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror"]);
                format!("bit.{operation}({}, {})", self.number(), self.number())
            }
            15 => format!("bit.tohex({}, {})", self.number(), self.0.i32(-9..9)),
            16 => format!("tostring({})", self.number()),
            17 => format!("{{string.find({}, {})}}", self.text(), self.pattern()),
            18 => format!("{{string.gsub({}, {}, '<%0>')}}", self.text(), self.pattern()),
            19 => format!("select(2, pcall(redis.call, {}))", self.command()),
            20 => format!("redis.pcall({})", self.command()),
            _ => format!("redis.call({})", self.command()),
        }
    }

    fn json(&mut self) -> String {
        let pieces = ["{", "}", "[", "]", ",", ":", "1", "-2.5e3", "\"a\"", "null", "true", " ", "x", "\"\\\\u00e4\""];
        let count = self.0.usize(1..7);
        let text: String = (0..count).map(|_| self.of(&pieces)).collect();
        format!("'{text}'")
    }

    fn format(&mut self) -> String {
        let pieces = ["<", ">", "b", "B", "h", "H", "i", "I3", "l", "L", "f", "d", "x", "!4", "!", "s", "c2"];
        let count = self.0.usize(1..4);
        (0..count).map(|_| self.of(&pieces)).collect()
    }

    fn pattern(&mut self) -> String {
        let pieces =
            ["a", "%d", "%s", "%w", ".", "*", "+", "-", "?", "(", ")", "[a-z]", "^", "$", "%b{}", "%f[%w]", "%%"];
        let count = self.0.usize(1..5);
        let text: String = (0..count).map(|_| self.of(&pieces)).collect();
        format!("'{text}'")
    }

    fn command(&mut self) -> String {
        let key = self.key();
        match self.0.u8(..22) {
            0 => format!("'set', {key}, {}", self.text()),
            1 => format!("'get', {key}"),
            2 => format!("'incrby', {}, {}", self.named("n"), self.0.i32(-100..100)),
            3 => format!("'append', {}, {}", self.named("s"), self.text()),
            4 => format!("'rpush', {}, {}, {}", self.named("l"), self.text(), self.0.i32(-9..9)),
            5 => format!("'lrange', {key}, 0, -1"),
            6 => format!("'lpop', {}", self.named("l")),
            7 => format!("'hset', {}, {}, {}", self.named("h"), self.text(), self.text()),
            8 => format!("'hget', {key}, {}", self.text()),
            9 => format!("'zadd', {}, {}, {}", self.named("z"), self.0.i32(-9..9), self.text()),
            10 => format!("'zrange', {key}, 0, -1, 'withscores'"),
            11 => format!("'type', {key}"),
            12 => format!("'del', {key}"),
            13 => format!("'mget', {key}, {}", self.key()),
            14 => format!("'exists', {key}, {}", self.key()),
            15 => format!("'strlen', {key}"),
            16 => format!("'hlen', {key}"),
            17 => format!("'rename', {key}, {}", self.key()),
            18 => "'dbsize'".into(),
            19 => format!("'expire', {key}, 1000"),
            // No BLPOP: 7.0 refuses blocking commands in scripts, 7.2 and ours let them reply at once.
            20 => self.of(&["'nosuch'", "'get'", "'multi'", "'ping'", "'echo', 'x'"]).into(),
            _ => format!(
                "'lmove', {}, {}, {}, 'left'",
                self.named("l"),
                self.named("l2"),
                self.of(&["'left'", "'right'", "'none'"])
            ),
        }
    }

    /// A request that runs a script.
    fn request(&mut self) -> Vec<String> {
        self.1 = self.0.bool().then(Vec::new);
        let protocol = if self.0.u8(..4) == 0 { "redis.setresp(3) " } else { "" };
        let before = if self.0.bool() { format!("local a = {} ", self.value(2)) } else { String::new() };
        // A table without `err` ends redis-server 7.0.15.
        let error = if self.0.bool() { self.text() } else { format!("{{err = {}}}", self.text()) };
        let raised = if self.0.u8(..16) == 0 { format!("if a then error({error}) end ") } else { String::new() };
        let raised = if before.is_empty() { String::new() } else { raised };
        let mut script = format!("{protocol}{before}{raised}return {}", self.value(2));
        // A call by another name is never proved, and has the same effect.
        if self.0.u8(..4) == 0 {
            script = format!("local called = redis.call {}", script.replace("redis.call(", "called("));
        }
        let declared = self.1.take().unwrap_or_default();
        let count = declared.len().to_string();
        ["EVAL", &script, &count].into_iter().chain(declared).map(str::to_owned).collect()
    }
}

/// Addresses differ between servers.
fn is_comparable(reply: &str) -> bool {
    !reply.contains(": 0x")
}

fn compare(engine: &str) {
    let seed = parts::seed_or(20_261_124);
    let mut maker = Maker(fastrand::Rng::with_seed(seed), None);
    let (server, oracle) = (Server::start(setup(engine), &[]), RedisOracle::start());
    let connect: [fn(std::net::SocketAddr) -> Client; 2] = [Client::connect, Client::connect_resp3];
    let is_soak = std::env::var("SOAK").is_ok_and(|text| text != "0");
    let scripts = if is_soak { SCRIPTS_OF_SOAK } else { SCRIPTS };
    for (number, connect) in (0..scripts / TOGETHER).zip(connect.into_iter().cycle()) {
        let (mut ours, mut theirs) = (connect(server.address()), connect(oracle.address()));
        let requests: Vec<Vec<String>> = (0..TOGETHER).map(|_| maker.request()).collect();
        let (got, wanted) = (ours.pipeline(&requests), theirs.pipeline(&requests));
        for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            let (got, wanted) = (format!("{got:?}"), format!("{wanted:?}"));
            if is_comparable(&wanted) {
                let before: Vec<&String> = requests[..index].iter().rev().take(10).map(|request| &request[1]).collect();
                let script = &requests[index][1];
                assert_eq!(got, wanted, "{engine}, seed {seed}, script {number}/{index}:\n{script}\nafter {before:#?}");
            }
        }
    }
}

#[test]
fn random_scripts_on_the_mutex_engine_reply_as_on_redis() {
    compare("mutex");
}

#[test]
fn random_scripts_on_the_dashmap_engine_reply_as_on_redis() {
    compare("dashmap");
}

#[test]
fn random_scripts_on_the_actor_engine_reply_as_on_redis() {
    compare("actor");
}
