//! Random scripts and functions: commands, conversions, errors and Lua's libraries, against a real redis-server.
//! Replies are equal, and so are all data and the libraries of functions, before and after a restart from the log.
//!
//! What a script says is made here; how it is called, alone and in transactions, in `calls`.

use super::differences::FROM_8_2;
use super::pair::{Difference, Pair, Tamper};
use super::run::Failure;
use super::shrink::shrink;
use super::{calls, redis_8, setup};
use harness::generator::parts;
use harness::generator::requests::{LINKS, Unit, name_of};
use harness::{EVERY_BATCHING, EVERY_PLACEMENT, RedisOracle, Setup};
use std::collections::VecDeque;

/// What is sent in a run, and in a long one: three runs, one for each engine. `SCRIPTS` sets another number.
const SCRIPTS: usize = 7_000;
const SCRIPTS_OF_SOAK: usize = 170_000;
/// Scripts of a run with other flags than the defaults.
const SHORT: usize = 1_000;
/// How many are sent before the data are compared, and our server starts again.
const SCRIPTS_PER_ROUND: usize = 500;
/// Rounds from an empty keyspace to the next.
const ROUNDS_PER_CHAPTER: usize = 2;
/// Scripts on one connection before it is the other's turn.
const SCRIPTS_PER_TURN: usize = 50;

/// Keys that scripts use.
pub const KEYS: [&str; 9] = ["s", "n", "l", "h", "z", "set", "none", "{t}1", "{t}2"];

/// Numbers at the edge. The last one differs in Redis 8.
const NUMBERS: &[&str] = &["0", "1", "-1", "2^31", "-2^31", "2^32", "2^53", "2^63", "-2^63", "1e15", "1e-5", "-0"];

/// Another deadline than this, the last argument of most calls, shows in the data alone.
pub const DEADLINE_S: &str = "1000";

/// Makes scripts, and what calls them.
pub struct Maker {
    pub random: fastrand::Rng,
    /// The keys that the script declares, if it names them by KEYS: it may be proved to touch no others.
    declared: Option<Vec<&'static str>>,
    numbers: &'static [&'static str],
    /// Scripts of late with the keys that they declare, for EVALSHA.
    pub recent: VecDeque<Script>,
    /// Libraries as FUNCTION DUMP has them.
    pub payloads: Vec<Vec<u8>>,
    /// Whether it makes libraries of functions, and what calls them.
    pub makes_libraries: bool,
}

/// A script and the keys that it declares.
pub type Script = (String, Vec<&'static str>);

impl Maker {
    fn new(seed: u64, numbers: &'static [&'static str], makes_libraries: bool) -> Self {
        let (random, recent, payloads) = (fastrand::Rng::with_seed(seed), VecDeque::new(), Vec::new());
        let mut maker = Self { random, declared: None, numbers, recent, payloads, makes_libraries };
        maker.payloads = calls::payloads(&mut maker);
        maker
    }

    pub fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.usize(..choices.len())]
    }

    fn number(&mut self) -> String {
        match self.random.u8(..8) {
            0 => self.of(self.numbers).into(),
            1 => format!("{}.5", self.random.i32(-1000..1000)),
            2 => format!("{}/8", self.random.i64(-1_000_000..1_000_000)),
            _ => self.random.i32(-300..300).to_string(),
        }
    }

    pub fn text(&mut self) -> String {
        let pieces =
            ["a", "B", "7", " ", "-", ".", "\\0", "\\255", "\\n", "\\\"", "%", "{", "[", "/", "\\\\", "\\195\\164"];
        let count = self.random.usize(..6);
        let text: String = (0..count).map(|_| self.of(&pieces)).collect();
        format!("\"{text}\"")
    }

    fn key(&mut self) -> String {
        let name = self.of(&KEYS);
        self.named(name)
    }

    fn named(&mut self, name: &'static str) -> String {
        let Some(declared) = &mut self.declared else { return format!("'{name}'") };
        let position = declared.iter().position(|other| *other == name).unwrap_or_else(|| {
            declared.push(name);
            declared.len() - 1
        });
        format!("KEYS[{}]", position + 1)
    }

    /// An expression that has a value.
    fn value(&mut self, depth: u8) -> String {
        if depth == 0 {
            return match self.random.u8(..6) {
                0 => self.of(&["true", "false", "nil", "cjson.null", "{}"]).into(),
                1 | 2 => self.text(),
                _ => self.number(),
            };
        }
        let inner = |maker: &mut Self| maker.value(depth - 1);
        match self.random.u8(..22) {
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
            15 => format!("bit.tohex({}, {})", self.number(), self.random.i32(-9..9)),
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
        let count = self.random.usize(1..7);
        let text: String = (0..count).map(|_| self.of(&pieces)).collect();
        format!("'{text}'")
    }

    fn format(&mut self) -> String {
        let pieces = ["<", ">", "b", "B", "h", "H", "i", "I3", "l", "L", "f", "d", "x", "!4", "!", "s", "c2"];
        let count = self.random.usize(1..4);
        (0..count).map(|_| self.of(&pieces)).collect()
    }

    fn pattern(&mut self) -> String {
        let pieces =
            ["a", "%d", "%s", "%w", ".", "*", "+", "-", "?", "(", ")", "[a-z]", "^", "$", "%b{}", "%f[%w]", "%%"];
        let count = self.random.usize(1..5);
        let text: String = (0..count).map(|_| self.of(&pieces)).collect();
        format!("'{text}'")
    }

    fn command(&mut self) -> String {
        let key = self.key();
        match self.random.u8(..32) {
            0 => format!("'set', {key}, {}", self.text()),
            1 => format!("'get', {key}"),
            2 => format!("'incrby', {}, {}", self.named("n"), self.random.i32(-100..100)),
            3 => format!("'append', {}, {}", self.named("s"), self.text()),
            4 => format!("'rpush', {}, {}, {}", self.named("l"), self.text(), self.random.i32(-9..9)),
            5 => format!("'lrange', {key}, 0, -1"),
            6 => format!("'lpop', {}", self.named("l")),
            7 => format!("'hset', {}, {}, {}", self.named("h"), self.text(), self.text()),
            8 => format!("'hget', {key}, {}", self.text()),
            9 => format!("'zadd', {}, {}, {}", self.named("z"), self.random.i32(-9..9), self.text()),
            10 => format!("'zrange', {key}, 0, -1, 'withscores'"),
            11 => format!("'type', {key}"),
            12 => format!("'del', {key}"),
            13 => format!("'mget', {key}, {}", self.key()),
            14 => format!("'exists', {key}, {}", self.key()),
            15 => format!("'strlen', {key}"),
            16 => format!("'hlen', {key}"),
            17 => format!("'rename', {key}, {}", self.key()),
            18 => "'dbsize'".into(),
            19 => format!("'expire', {key}, ARGV[1] or {DEADLINE_S}"),
            // No BLPOP: 7.0 refuses blocking commands in scripts, 7.2 and ours let them reply at once.
            20 => {
                let odd =
                    ["'nosuch'", "'get'", "'multi'", "'ping'", "'echo', 'x'", "'fcall', 'f1', 0", "'script', 'flush'"];
                self.of(&odd).into()
            }
            21 => format!("'sadd', {}, {}, {}", self.named("set"), self.text(), self.random.i32(-9..9)),
            22 => format!("'set', {key}, {}", self.argument()),
            23 => format!("'incrbyfloat', {}, {}", self.named("n"), self.argument()),
            24 => format!("'incrby', {}, {}", self.named("n"), self.argument()),
            25 => format!("'hincrbyfloat', {}, 'f', {}", self.named("h"), self.argument()),
            26 => format!("'zadd', {}, {}, {}", self.named("z"), self.argument(), self.argument()),
            27 => format!("'rpush', {}, {}, {}", self.named("l"), self.argument(), self.argument()),
            28 => format!("'lrange', {key}, {}, {}", self.argument(), self.argument()),
            // The caller stays where it was.
            29 => format!("'select', {}", self.random.u8(..3)),
            _ => format!(
                "'lmove', {}, {}, {}, 'left'",
                self.named("l"),
                self.named("l2"),
                self.of(&["'left'", "'right'", "'none'"])
            ),
        }
    }

    /// An argument of a command that is seldom a string: a number, or what is refused.
    ///
    /// Numbers have few digits, a fraction or not: 7.0 writes seventeen of them, 7.2 and ours as many as are needed.
    fn argument(&mut self) -> String {
        match self.random.u8(..16) {
            0 => self.of(&["true", "nil", "{}", "{1}", "cjson.null", "redis.call"]).into(),
            1 => self.of(&["1/0", "-1/0", "2^31", "-2^31", "2^53", "-0.5", "0.125", "1e3", "'1e3'", "' 1'"]).into(),
            2..5 => format!("{}.5", self.random.i32(-1000..1000)),
            5..8 => format!("{}/8", self.random.i32(-100_000..100_000)),
            8 => self.text(),
            _ => self.random.i32(-300..300).to_string(),
        }
    }

    /// A script without what its first line may declare.
    pub fn script(&mut self) -> Script {
        self.declared = self.random.bool().then(Vec::new);
        let protocol = if self.random.u8(..4) == 0 { "redis.setresp(3) " } else { "" };
        let before = if self.random.bool() { format!("local a = {} ", self.value(2)) } else { String::new() };
        // A table without `err` ends redis-server 7.0.15.
        let error = if self.random.bool() { self.text() } else { format!("{{err = {}}}", self.text()) };
        let raised = if self.random.u8(..16) == 0 { format!("if a then error({error}) end ") } else { String::new() };
        let raised = if before.is_empty() { String::new() } else { raised };
        let mut script = format!("{protocol}{before}{raised}return {}", self.value(2));
        // A call by another name is never proved, and has the same effect.
        if self.random.u8(..4) == 0 {
            script = format!("local called = redis.call {}", script.replace("redis.call(", "called("));
        }
        (script, self.declared.take().unwrap_or_default())
    }
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    setup: Setup,
    flags: &'static [&'static str],
    scripts: usize,
    tamper: Option<Tamper>,
    numbers: &'static [&'static str],
    makes_libraries: bool,
}

impl Plan {
    /// A whole run on an engine.
    fn of(engine: &str) -> Self {
        let is_soak = number("SOAK").unwrap_or(0) > 0;
        let scripts = number("SCRIPTS").unwrap_or(if is_soak { SCRIPTS_OF_SOAK } else { SCRIPTS });
        let (seed, setup) = (parts::seed_or(20_261_124), setup(engine));
        Self { seed, setup, flags: &[], scripts, tamper: None, numbers: NUMBERS, makes_libraries: true }
    }

    /// Runs it beside redis-server.
    fn run(self) -> Result<(), Box<Failure>> {
        self.run_on(Pair::start(self.setup, self.flags, self.tamper))
    }

    fn run_on(self, mut pair: Pair) -> Result<(), Box<Failure>> {
        let Self { seed, setup, flags, scripts, numbers, makes_libraries, .. } = self;
        println!("{scripts} scripts on {setup:?} {}", flags.join(" "));
        let mut maker = Maker::new(seed, numbers, makes_libraries);
        for _ in 0..scripts.div_ceil(SCRIPTS_PER_ROUND * ROUNDS_PER_CHAPTER) {
            let outcome = chapter(&mut pair, &mut maker);
            outcome.map_err(|(history, difference)| Box::new(Failure { seed, setup, history, difference }))?;
        }
        Ok(())
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn agrees(plan: Plan) {
    plan.run().unwrap_or_else(|failure| panic!("{failure}"));
}

/// Rounds of scripts from an empty keyspace on. After each the data are compared, and again when our server has been
/// killed and has started from its log.
fn chapter(pair: &mut Pair, maker: &mut Maker) -> Result<(), (Vec<Unit>, Difference)> {
    pair.clear();
    let mut history = Vec::new();
    for _ in 0..ROUNDS_PER_CHAPTER {
        let first = history.len();
        history.extend((0..SCRIPTS_PER_ROUND).map(|number| maker.unit(number / SCRIPTS_PER_TURN % LINKS)));
        let outcome = pair.play(&history[first..]).and_then(|()| pair.compare_data());
        history.push(Unit::RESTART);
        if let Err(mut difference) = outcome.and_then(|()| pair.play(&[Unit::RESTART])) {
            difference.units_sent = difference.units_sent.saturating_add(first);
            return Err(shrink(pair, &history, *difference));
        }
    }
    Ok(())
}

#[test]
fn random_scripts_on_the_mutex_engine_agree_with_redis() {
    agrees(Plan::of("mutex"));
}

#[test]
fn random_scripts_on_the_dashmap_engine_agree_with_redis() {
    agrees(Plan::of("dashmap"));
}

#[test]
fn random_scripts_on_the_actor_engine_agree_with_redis() {
    agrees(Plan::of("actor"));
}

/// A short run on each engine, each with another way to run the commands of a read than the default, by the seed.
#[test]
fn random_scripts_agree_with_redis_however_the_commands_of_a_read_run() {
    let others = &EVERY_BATCHING[1..];
    for (index, engine) in ["mutex", "dashmap", "actor"].into_iter().enumerate() {
        let plan = Plan::of(engine);
        let flags = &others[(plan.seed as usize + index) % others.len()];
        agrees(Plan { flags, scripts: SHORT, ..plan });
    }
}

/// A short run with each placement that is not the default.
#[test]
fn random_scripts_agree_with_redis_wherever_the_actor_engine_runs() {
    for flags in &EVERY_PLACEMENT[1..] {
        agrees(Plan { flags, scripts: SHORT, ..Plan::of("actor") });
    }
}

/// A short run with each number of shards that a whole run does not have: shards are the actor engine's, and those of
/// DashMap's table.
#[test]
fn random_scripts_agree_with_redis_on_any_number_of_shards() {
    for (engine, shards) in [("actor", 1), ("actor", 2), ("dashmap", 2)] {
        let plan = Plan::of(engine);
        let scripts = number("SCRIPTS").unwrap_or(SHORT);
        agrees(Plan { setup: Setup { shards, ..plan.setup }, scripts, ..plan });
    }
}

/// Without -0: 8.2 takes it where a command needs an integer and 7.2 refuses it, and a script that fails writes less.
/// Without functions: 8.2.3 dies of a FUNCTION FLUSH that removes some (signal 11, in `freeClient`).
#[test]
fn random_scripts_agree_with_redis_8() {
    let Some(program) = redis_8() else { return };
    let (_minus_zero, numbers) = NUMBERS.split_last().expect("there are some");
    for engine in ["mutex", "dashmap", "actor"] {
        let plan = Plan { numbers, makes_libraries: false, ..Plan::of(engine) };
        let oracle = |flags: &[&str]| RedisOracle::start_master(&program, flags);
        let pair = Pair::start_beside(oracle, FROM_8_2, plan.setup, plan.flags, plan.tamper);
        plan.run_on(pair).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A planted bug between the test and our server is found, and what leads to it is small.
fn find(tamper: Tamper) {
    let failure = Plan { tamper: Some(tamper), ..Plan::of("mutex") }.run().expect_err("the planted bug is found");
    println!("{failure}");
    assert!(failure.history.len() <= 12, "{failure}");
}

/// The reply is the same, so only the comparison of the data shows it.
#[test]
fn a_deadline_that_a_script_sets_wrongly_is_found() {
    find(|request| {
        let (last, words) = request.split_last().expect("it has a name");
        (last == DEADLINE_S.as_bytes()).then(|| [words, &[b"2000".to_vec()]].concat())
    });
}

#[test]
fn a_function_that_writes_where_it_may_only_read_is_found() {
    find(|request| (name_of(request) == "FCALL_RO").then(|| [&[b"FCALL".to_vec()], &request[1..]].concat()));
}

#[test]
fn a_library_that_replaces_another_unasked_is_found() {
    find(|request| {
        let is_load = name_of(request) == "FUNCTION" && request.len() == 3 && request[1].eq_ignore_ascii_case(b"LOAD");
        is_load.then(|| [&request[..2], &[b"REPLACE".to_vec()], &request[2..]].concat())
    });
}
