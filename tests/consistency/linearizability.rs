//! Linearizability: is there one order of all commands that explains every reply and keeps real time?
//!
//! The checker is `todc-utils`: Wing and Gong's search with Lowe's memory of states, the algorithm of Go's porcupine.
//! It was taken because it needs nothing but Cargo; porcupine would bring a second language, its packages and its proxy
//! into `make test`. Porcupine is faster on long histories; these are short and many. The crate itself is tested: below
//! it is compared with trying every order.
//!
//! Histories of single keys are checked key by key (linearizability is local); those of several keys as one object.

use crate::history::{CLIENTS, End, Recorded, in_order_of_time, on_every_client, some_order_is_accepted};
use crate::scenario::{Running, Scenario, Verdict, atomic, must_be_found, never, relaxed};
use harness::{Client, Value, request};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, resume_unwind};
use std::time::Duration;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// How many steps a check may take, sixty times the most of 4,000 checks. Steps and not seconds: a busy machine must
/// not change a verdict.
const STEPS_MAX: usize = 2_000_000;

/// Clients pause between requests; otherwise all of them are always active and too many orders are possible.
const PAUSE_US_MAX: u64 = 500;

const NUMBERS: [Key; 4] = ["number:0", "number:1", "number:2", "number:3"];
const LISTS: [Key; 3] = ["list:0", "list:1", "list:2"];

type Key = &'static str;

/// A command of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Command {
    Set(Key, i64),
    Get(Key),
    GetSet(Key, i64),
    IncrBy(Key, i64),
    Del(Vec<Key>),
    Exists(Vec<Key>),
    MSet(Vec<(Key, i64)>),
    MSetNx(Vec<(Key, i64)>),
    MGet(Vec<Key>),
    Rename(Key, Key),
    Copy(Key, Key),
    RPush(Key, i64),
    LPop(Key),
    LRange(Key),
    RPopLPush(Key, Key),
    /// MULTI, the commands, EXEC.
    Block(Vec<Command>),
    /// One script that runs the commands.
    Script(Naming, Vec<Command>),
    /// The commands one by one, recorded as if they were a script: what the checker must find.
    Split(Vec<Command>),
}

use Command::*;

/// How a script names the keys that it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// By `KEYS`, so that it is proved to touch no others: the actor engine lends their shards to it alone.
    Declared,
    /// By `ARGV`. Nothing is declared, so all shards are lent.
    Arguments,
    /// In its text, without declaring them.
    Literal,
}

impl Naming {
    /// An EVAL that runs the commands. Its reply is that of EXEC: the error of a command is one of the elements.
    fn eval(self, commands: &[Command]) -> Vec<String> {
        let (mut keys, mut arguments) = (Vec::new(), Vec::new());
        let mut expression = |word: &String| match self {
            Self::Declared if is_key(word) => {
                keys.push(word.clone());
                format!("KEYS[{}]", keys.len())
            }
            Self::Literal => format!("'{word}'"),
            _ => {
                arguments.push(word.clone());
                format!("ARGV[{}]", arguments.len())
            }
        };
        let mut call = |command: &Command| {
            let words = command.words();
            let rest: String = words[1..].iter().map(|word| format!(", {}", expression(word))).collect();
            format!("redis.pcall('{}'{rest})", words[0])
        };
        let calls: Vec<String> = commands.iter().map(&mut call).collect();
        let script = format!("return {{{}}}", calls.join(", "));
        [vec!["EVAL".to_owned(), script, keys.len().to_string()], keys, arguments].concat()
    }
}

fn is_key(word: &str) -> bool {
    NUMBERS.contains(&word) || LISTS.contains(&word)
}

impl Command {
    /// The words of the request, if it is one.
    fn words(&self) -> Vec<String> {
        let words = |name: &str, rest: &[&dyn ToString]| {
            std::iter::once(name.to_owned()).chain(rest.iter().map(|word| word.to_string())).collect()
        };
        let keys = |name: &str, keys: &[Key]| [&[name], keys].concat().into_iter().map(str::to_owned).collect();
        let pairs = |name: &str, pairs: &[(Key, i64)]| {
            let rest = pairs.iter().flat_map(|(key, value)| [(*key).to_owned(), value.to_string()]);
            std::iter::once(name.to_owned()).chain(rest).collect()
        };
        match self {
            Set(key, value) => words("SET", &[key, value]),
            Get(key) => words("GET", &[key]),
            GetSet(key, value) => words("GETSET", &[key, value]),
            IncrBy(key, by) => words("INCRBY", &[key, by]),
            Del(names) => keys("DEL", names),
            Exists(names) => keys("EXISTS", names),
            MSet(values) => pairs("MSET", values),
            MSetNx(values) => pairs("MSETNX", values),
            MGet(names) => keys("MGET", names),
            Rename(from, to) => words("RENAME", &[from, to]),
            Copy(from, to) => words("COPY", &[from, to]),
            RPush(key, value) => words("RPUSH", &[key, value]),
            LPop(key) => words("LPOP", &[key]),
            LRange(key) => words("LRANGE", &[key, &0, &-1]),
            RPopLPush(from, to) => words("RPOPLPUSH", &[from, to]),
            Script(naming, commands) => naming.eval(commands),
            Block(_) | Split(_) => panic!("{self:?} is several requests"),
        }
    }

    /// Sends it to a server.
    fn ask(&self, client: &mut Client) -> Value {
        match self {
            Block(commands) => {
                let mut bytes = request(&["MULTI"]);
                commands.iter().for_each(|command| bytes.extend(request(&command.words())));
                bytes.extend(request(&["EXEC"]));
                client.send(&bytes);
                client.values(commands.len() + 2).pop().expect("EXEC replies")
            }
            Split(commands) => Value::Array(commands.iter().map(|command| command.ask(client)).collect()),
            _ => client.value(&self.words()),
        }
    }

    /// Redis's reply, and the change: the specification.
    fn run(&self, keyspace: &mut Keyspace) -> Value {
        match self {
            Set(key, value) => keyspace.set(key, *value),
            Get(key) => keyspace.number(key),
            GetSet(key, value) => {
                let old = keyspace.number(key);
                keyspace.set(key, *value);
                old
            }
            IncrBy(key, by) => keyspace.increase(key, *by),
            Del(keys) => count(keys.iter().filter(|key| keyspace.0.remove(**key).is_some()).count()),
            Exists(keys) => count(keys.iter().filter(|key| keyspace.0.contains_key(**key)).count()),
            MSet(pairs) => keyspace.set_all(pairs),
            MSetNx(pairs) if pairs.iter().any(|(key, _)| keyspace.0.contains_key(key)) => Value::Integer(0),
            MSetNx(pairs) => {
                keyspace.set_all(pairs);
                Value::Integer(1)
            }
            MGet(keys) => Value::Array(keys.iter().map(|key| keyspace.number(key)).collect()),
            Rename(from, to) => keyspace.rename(from, to),
            Copy(from, to) => keyspace.copy(from, to),
            RPush(key, value) => keyspace.push(key, *value),
            LPop(key) => keyspace.pop(key, Vec::remove, 0),
            LRange(key) => Value::Array(keyspace.list(key).iter().map(|value| bulk(*value)).collect()),
            RPopLPush(from, to) => keyspace.move_last(from, to),
            Block(commands) | Script(_, commands) | Split(commands) => {
                Value::Array(commands.iter().map(|command| command.run(keyspace)).collect())
            }
        }
    }

    fn is_read(&self) -> bool {
        match self {
            Get(_) | Exists(_) | MGet(_) | LRange(_) => true,
            Block(commands) | Script(_, commands) | Split(commands) => commands.iter().all(Self::is_read),
            _ => false,
        }
    }

    /// The key of a command that has one.
    fn only_key(&self) -> Key {
        match self {
            Set(key, _) | Get(key) | GetSet(key, _) | IncrBy(key, _) | RPush(key, _) | LPop(key) | LRange(key) => key,
            Del(keys) | Exists(keys) if keys.len() == 1 => keys[0],
            other => panic!("{other:?} has several keys"),
        }
    }
}

fn bulk(value: i64) -> Value {
    Value::Bulk(value.to_string().into_bytes())
}

fn count(amount: usize) -> Value {
    Value::Integer(amount as i64)
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Datum {
    Number(i64),
    /// Not empty.
    List(Vec<i64>),
}

/// The specification's data. Clients keep numbers and lists under different keys, so that no type is ever wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Keyspace(BTreeMap<Key, Datum>);

impl Keyspace {
    fn set(&mut self, key: Key, value: i64) -> Value {
        self.0.insert(key, Datum::Number(value));
        ok()
    }

    fn set_all(&mut self, pairs: &[(Key, i64)]) -> Value {
        pairs.iter().for_each(|(key, value)| drop(self.set(key, *value)));
        ok()
    }

    fn number(&self, key: Key) -> Value {
        match self.0.get(key) {
            Some(Datum::Number(value)) => bulk(*value),
            _ => Value::NullBulk,
        }
    }

    fn increase(&mut self, key: Key, by: i64) -> Value {
        let Datum::Number(value) = self.0.entry(key).or_insert(Datum::Number(0)) else { panic!("{key} is a list") };
        *value += by;
        Value::Integer(*value)
    }

    fn rename(&mut self, from: Key, to: Key) -> Value {
        let Some(datum) = self.0.remove(from) else { return Value::Error(b"ERR no such key".to_vec()) };
        self.0.insert(to, datum);
        ok()
    }

    fn copy(&mut self, from: Key, to: Key) -> Value {
        match self.0.get(from).cloned() {
            Some(datum) if !self.0.contains_key(to) => {
                self.0.insert(to, datum);
                Value::Integer(1)
            }
            _ => Value::Integer(0),
        }
    }

    fn list(&self, key: Key) -> &[i64] {
        match self.0.get(key) {
            Some(Datum::List(values)) => values,
            _ => &[],
        }
    }

    fn push(&mut self, key: Key, value: i64) -> Value {
        let values = [self.list(key), &[value]].concat();
        let len = count(values.len());
        self.0.insert(key, Datum::List(values));
        len
    }

    fn pop(&mut self, key: Key, take: impl Fn(&mut Vec<i64>, usize) -> i64, index: usize) -> Value {
        let mut values = self.list(key).to_vec();
        if values.is_empty() {
            return Value::NullBulk;
        }
        let value = take(&mut values, index);
        self.0.remove(key);
        if !values.is_empty() {
            self.0.insert(key, Datum::List(values));
        }
        bulk(value)
    }

    fn move_last(&mut self, from: Key, to: Key) -> Value {
        let Some(&last) = self.list(from).last() else { return Value::NullBulk };
        let index = self.list(from).len() - 1;
        let moved = self.pop(from, Vec::remove, index);
        self.0.insert(to, Datum::List([&[last], self.list(to)].concat()));
        moved
    }
}

/// A command with the reply that the client got.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exchange {
    command: Command,
    reply: Value,
}

/// The specification, for the checker.
struct Redis;

impl Specification for Redis {
    type State = Keyspace;
    type Operation = Exchange;

    fn init() -> Keyspace {
        Keyspace::default()
    }

    fn apply(exchange: &Exchange, state: &Keyspace) -> (bool, Keyspace) {
        take_step();
        let mut next = state.clone();
        let reply = exchange.command.run(&mut next);
        (reply == exchange.reply, next)
    }
}

thread_local! {
    static STEPS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Thrown from a check that takes too many steps: the checker cannot be stopped otherwise.
struct GaveUp;

fn take_step() {
    match STEPS_LEFT.get().checked_sub(1) {
        Some(left) => STEPS_LEFT.set(left),
        None => resume_unwind(Box::new(GaveUp)),
    }
}

/// The history without reads that add no information: a read that was active during all of another with the same reply
/// can be directly beside it in any order. With many readers that is most of the checker's work.
fn without_repeated_reads(history: &[Recorded<Exchange>]) -> Vec<Recorded<Exchange>> {
    let mut kept: Vec<&Recorded<Exchange>> = Vec::new();
    let mut by_length: Vec<_> = history.iter().collect();
    by_length.sort_by_key(|recorded| recorded.returned_ns - recorded.invoked_ns);
    for outer in by_length {
        let tells_the_same = |inner: &&Recorded<Exchange>| {
            (outer.invoked_ns..=outer.returned_ns).contains(&inner.invoked_ns)
                && inner.returned_ns <= outer.returned_ns
                && inner.what == outer.what
        };
        if !(outer.what.command.is_read() && kept.iter().any(tells_the_same)) {
            kept.push(outer);
        }
    }
    kept.into_iter().cloned().collect()
}

fn judge(history: &[Recorded<Exchange>]) -> Verdict {
    let history = &without_repeated_reads(history);
    let actions = in_order_of_time(history).into_iter().map(|(index, end)| {
        let exchange = history[index].what.clone();
        (index, if end == End::Invoked { Action::Call(exchange) } else { Action::Response(exchange) })
    });
    let actions = History::from_actions(actions.collect());
    STEPS_LEFT.set(STEPS_MAX);
    match catch_unwind(|| WGLChecker::<Redis>::is_linearizable(actions)) {
        Ok(true) => Verdict::Clean,
        Ok(false) => Verdict::Anomaly(format!("not linearizable:\n{}", shown(history))),
        Err(thrown) if thrown.is::<GaveUp>() => Verdict::Undecided(format!("no verdict in {STEPS_MAX} steps")),
        Err(panic) => resume_unwind(panic),
    }
}

fn shown(history: &[Recorded<Exchange>]) -> String {
    let mut sorted: Vec<_> = history.iter().collect();
    sorted.sort_by_key(|recorded| recorded.invoked_ns);
    let line = |recorded: &&Recorded<Exchange>| {
        let Recorded { client, invoked_ns, returned_ns, what: Exchange { command, reply } } = recorded;
        format!("  {invoked_ns:>12} .. {returned_ns:>12} client {client:>2}: {command:?} -> {reply:?}\n")
    };
    sorted.iter().map(line).collect()
}

/// Judges each key separately.
fn judge_by_key(history: Vec<Recorded<Exchange>>) -> Verdict {
    let mut by_key: BTreeMap<Key, Vec<Recorded<Exchange>>> = BTreeMap::new();
    for recorded in history {
        by_key.entry(recorded.what.command.only_key()).or_default().push(recorded);
    }
    by_key.values().map(|history| judge(history)).find(|verdict| *verdict != Verdict::Clean).unwrap_or(Verdict::Clean)
}

/// Chooses a client's next command.
type Choose = fn(&mut fastrand::Rng) -> Command;

/// The commands of the clients of a history: few clients write and the others read. A write's reply says almost nothing
/// about its place in the order, and each concurrent write doubles the orders that the checker must try.
#[derive(Clone, Copy)]
struct Mix {
    writers: usize,
    write: Choose,
    read: Choose,
}

const OVER_ONE_KEY: Mix = Mix { writers: CLIENTS, write: over_one_key, read: over_one_key };
const OF_INDEPENDENT_PARTS: Mix = Mix { writers: 4, write: write_independent_parts, read: read_all };
const OF_DEPENDENT_PARTS: Mix = Mix { writers: 6, write: write_dependent_parts, read: read_all };
const IN_BLOCKS: Mix = Mix { writers: 6, write: write_in_block, read: read_in_block };
const IN_SCRIPTS: Mix = Mix { writers: 6, write: write_in_script, read: read_in_script };
const IN_SCRIPTS_AMONG_OTHERS: Mix = Mix { writers: 6, write: write_in_any_way, read: read_in_any_way };
const IN_SPLIT_SCRIPTS: Mix = Mix { writers: 6, write: |random| Split(parts(random)), read: read_in_script };

impl Mix {
    fn next(&self, client: usize, random: &mut fastrand::Rng) -> Command {
        if client < self.writers { (self.write)(random) } else { (self.read)(random) }
    }
}

/// A number that scripts return as it is: theirs are doubles.
fn value(random: &mut fastrand::Rng) -> i64 {
    random.i64(0..1_000_000_000)
}

fn some_of(random: &mut fastrand::Rng, keys: &[Key]) -> Vec<Key> {
    let amount = random.usize(2..=keys.len());
    random.choose_multiple(keys.iter().copied(), amount)
}

fn pairs(random: &mut fastrand::Rng) -> Vec<(Key, i64)> {
    some_of(random, &NUMBERS).into_iter().map(|key| (key, value(random))).collect()
}

fn over_one_key(random: &mut fastrand::Rng) -> Command {
    let (number, list) = (NUMBERS[random.usize(..NUMBERS.len())], LISTS[random.usize(..LISTS.len())]);
    match random.u32(..20) {
        0..3 => Set(number, value(random)),
        3..6 => Get(number),
        6..8 => GetSet(number, value(random)),
        8..11 => IncrBy(number, random.i64(1..100)),
        11 => Del(vec![number]),
        12 => Exists(vec![list]),
        13..16 => RPush(list, value(random)),
        16..18 => LPop(list),
        _ => LRange(list),
    }
}

/// Commands whose parts on different shards are independent.
fn write_independent_parts(random: &mut fastrand::Rng) -> Command {
    match random.u32(..8) {
        0..5 => MSet(pairs(random)),
        5..7 => Del(some_of(random, &NUMBERS)),
        _ => Set(NUMBERS[random.usize(..NUMBERS.len())], value(random)),
    }
}

/// Commands for which a shard must know the data of another.
fn write_dependent_parts(random: &mut fastrand::Rng) -> Command {
    let numbers = random.choose_multiple(NUMBERS, 2);
    let lists = random.choose_multiple(LISTS, 2);
    match random.u32(..8) {
        0 => MSetNx(pairs(random)),
        1 => Rename(numbers[0], numbers[1]),
        2 => Copy(numbers[0], numbers[1]),
        3 => Set(numbers[0], value(random)),
        4 => RPush(lists[0], value(random)),
        _ => RPopLPush(lists[0], lists[1]),
    }
}

fn read_all(random: &mut fastrand::Rng) -> Command {
    match random.u32(..8) {
        0 => Exists([&NUMBERS[..], &LISTS].concat()),
        1 => LRange(LISTS[random.usize(..LISTS.len())]),
        _ => MGet(NUMBERS.to_vec()),
    }
}

/// Commands that are executed together.
fn parts(random: &mut fastrand::Rng) -> Vec<Command> {
    let part = |random: &mut fastrand::Rng| match random.u32(..4) {
        0 => over_one_key(random),
        1 => write_independent_parts(random),
        2 => write_dependent_parts(random),
        _ => read_all(random),
    };
    (0..random.usize(2..5)).map(|_| part(random)).collect()
}

/// Reads of all that there is.
fn looks() -> Vec<Command> {
    NUMBERS.map(Get).into_iter().chain(LISTS.map(LRange)).collect()
}

fn write_in_block(random: &mut fastrand::Rng) -> Command {
    Block(parts(random))
}

fn read_in_block(_: &mut fastrand::Rng) -> Command {
    Block(looks())
}

fn naming(random: &mut fastrand::Rng) -> Naming {
    [Naming::Declared, Naming::Arguments, Naming::Literal][random.usize(..3)]
}

fn write_in_script(random: &mut fastrand::Rng) -> Command {
    Script(naming(random), parts(random))
}

fn read_in_script(random: &mut fastrand::Rng) -> Command {
    Script(naming(random), looks())
}

fn write_in_any_way(random: &mut fastrand::Rng) -> Command {
    match random.u32(..4) {
        0 => write_in_block(random),
        1 => write_dependent_parts(random),
        _ => write_in_script(random),
    }
}

fn read_in_any_way(random: &mut fastrand::Rng) -> Command {
    match random.u32(..4) {
        0 => read_in_block(random),
        1 => read_all(random),
        _ => read_in_script(random),
    }
}

/// One history of all clients.
fn record(running: &Running, seed: u64, requests_per_client: usize, mix: Mix) -> Vec<Recorded<Exchange>> {
    running.empty();
    let histories = on_every_client(running, CLIENTS, seed, |mut participant| {
        let call = |_| {
            let command = mix.next(participant.number, &mut participant.random);
            std::thread::sleep(Duration::from_micros(participant.random.u64(..PAUSE_US_MAX)));
            participant.record(|client| Exchange { reply: command.ask(client), command: command.clone() })
        };
        (0..requests_per_client).map(call).collect::<Vec<_>>()
    });
    histories.into_iter().flatten().collect()
}

fn record_and_judge(mix: Mix) -> impl Fn(&Running, u64) -> Verdict {
    move |running, seed| judge(&record(running, seed, 8, mix))
}

#[test]
fn commands_over_one_key_are_linearizable() {
    never(&atomic(), |running, seed| judge_by_key(record(running, seed, 40, OVER_ONE_KEY)));
}

#[test]
fn commands_of_independent_parts_are_linearizable() {
    never(&atomic(), record_and_judge(OF_INDEPENDENT_PARTS));
}

#[test]
fn commands_of_dependent_parts_are_linearizable() {
    never(&atomic(), record_and_judge(OF_DEPENDENT_PARTS));
}

#[test]
fn blocks_are_linearizable() {
    never(&atomic(), record_and_judge(IN_BLOCKS));
}

#[test]
fn scripts_are_linearizable_among_blocks_and_commands() {
    never(&atomic(), record_and_judge(IN_SCRIPTS_AMONG_OTHERS));
}

/// `--multi-key relaxed` does not loosen them.
#[test]
fn scripts_are_linearizable_though_commands_are_relaxed() {
    never(&relaxed(), record_and_judge(IN_SCRIPTS));
}

/// Otherwise the form of scripts with declared keys would test what the others test.
#[test]
fn scripts_are_proved_by_the_form_that_names_their_keys() {
    let mut random = fastrand::Rng::with_seed(harness::seed());
    for naming in [Naming::Declared, Naming::Arguments, Naming::Literal] {
        let commands = parts(&mut random);
        let script = naming.eval(&commands).swap_remove(1);
        let calls = shardrace::internals::scripting::static_calls(script.as_bytes()).expect("it keeps to plain forms");
        for (call, command) in calls.iter().zip(&commands) {
            let are_keys: Vec<bool> = command.words().iter().map(|word| is_key(word)).collect();
            assert_eq!(call.are_keys == are_keys, naming == Naming::Declared, "{script}");
        }
    }
}

#[test]
fn scripts_that_a_client_splits_are_seen_torn() {
    must_be_found(&atomic(), record_and_judge(IN_SPLIT_SCRIPTS));
}

#[test]
fn a_real_redis_passes() {
    never(&[Scenario::Redis], |running, seed| judge_by_key(record(running, seed, 40, OVER_ONE_KEY)));
    for mix in [OF_INDEPENDENT_PARTS, OF_DEPENDENT_PARTS, IN_BLOCKS, IN_SCRIPTS_AMONG_OTHERS] {
        never(&[Scenario::Redis], record_and_judge(mix));
    }
}

#[test]
fn commands_of_independent_parts_are_seen_torn_when_relaxed() {
    must_be_found(&relaxed(), record_and_judge(OF_INDEPENDENT_PARTS));
}

#[test]
fn blocks_are_seen_torn_when_relaxed() {
    must_be_found(&relaxed(), record_and_judge(IN_BLOCKS));
}

/// A history written by hand: each exchange with its times of invocation and return.
fn by_hand(exchanges: &[(u64, u64, Command, Value)]) -> Vec<Recorded<Exchange>> {
    let recorded = exchanges.iter().enumerate().map(|(client, (invoked_ns, returned_ns, command, reply))| Recorded {
        client,
        invoked_ns: *invoked_ns,
        returned_ns: *returned_ns,
        what: Exchange { command: command.clone(), reply: reply.clone() },
    });
    recorded.collect()
}

#[test]
fn a_read_may_see_a_concurrent_write_or_not_but_never_lose_it_again() {
    let [one, two] = [NUMBERS[0], NUMBERS[1]];
    let write = (0, 100, MSet(vec![(one, 1), (two, 2)]), ok());
    let read = |invoked_ns, reply: [Value; 2]| {
        (invoked_ns, invoked_ns + 10, MGet(vec![one, two]), Value::Array(reply.to_vec()))
    };
    let (before, after) = ([Value::NullBulk, Value::NullBulk], [bulk(1), bulk(2)]);
    let judge = |exchanges: &[_]| judge(&by_hand(exchanges)) == Verdict::Clean;
    assert!(judge(&[write.clone(), read(10, before.clone()), read(30, after.clone())]));
    assert!(!judge(&[write.clone(), read(10, after), read(30, before.clone())]), "a stale read");
    assert!(!judge(&[write.clone(), read(200, before)]), "a lost write");
    assert!(!judge(&[write, read(10, [bulk(1), Value::NullBulk])]), "a torn write");
}

#[test]
fn a_check_that_takes_too_long_has_no_verdict() {
    let mut exchanges: Vec<_> = (0..40).map(|value| (0, 100, Set(NUMBERS[0], value), ok())).collect();
    exchanges.push((200, 210, Get(NUMBERS[0]), bulk(-1)));
    assert!(matches!(judge(&by_hand(&exchanges)), Verdict::Undecided(_)));
}

/// Random times and replies. Half of the histories were executed in an order that keeps real time; the others may be.
fn random_history(random: &mut fastrand::Rng) -> Vec<Recorded<Exchange>> {
    let mut history = Vec::new();
    for client in 0..random.usize(1..7) {
        let command =
            [over_one_key, write_independent_parts, write_dependent_parts, read_all][random.usize(..4)](random);
        let invoked_ns = random.u64(..20);
        let returned_ns = invoked_ns + random.u64(..10);
        history.push(Recorded { client, invoked_ns, returned_ns, what: Exchange { command, reply: Value::Null } });
    }
    let keeps_time = random.bool();
    history.sort_by_cached_key(|recorded| {
        if keeps_time { random.u64(recorded.invoked_ns..=recorded.returned_ns) } else { random.u64(..30) }
    });
    let mut keyspace = Keyspace::default();
    history.iter_mut().for_each(|recorded| recorded.what.reply = recorded.what.command.run(&mut keyspace));
    history
}

fn explains(order: &[&Exchange]) -> bool {
    let mut keyspace = Keyspace::default();
    order.iter().all(|exchange| exchange.command.run(&mut keyspace) == exchange.reply)
}

#[test]
fn the_checker_says_what_trying_every_order_says() {
    let mut random = fastrand::Rng::with_seed(harness::seed());
    let mut clean = 0;
    const HISTORIES: usize = 5_000;
    for _ in 0..HISTORIES {
        let history = random_history(&mut random);
        let expected = some_order_is_accepted(&history, explains);
        assert_eq!(judge(&history) == Verdict::Clean, expected, "{}", shown(&history));
        clean += usize::from(expected);
    }
    assert!((HISTORIES / 4..HISTORIES * 19 / 20).contains(&clean), "both verdicts are compared, {clean} clean");
}
