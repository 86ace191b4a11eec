//! The requests of clients, and a naive model of their effects.

use harness::{Client, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of a group that is written in one command, or in one transaction.
pub const GROUP: usize = 7;
const REGISTERS: usize = 5;
/// Names of keys that hold a string, a list, or a set.
const KINDS: [(&str, &[&str]); 3] = [
    ("string", &["r0", "r1", "r2", "r3", "r4", "n", "saw", "g0", "g1", "g2", "g3", "g4", "g5", "g6"]),
    ("list", &["l0", "l1"]),
    ("set", &["s0", "s1", "s2"]),
];

/// A command as words.
pub type Words = Vec<String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Text(String),
    List(Vec<String>),
    Set(BTreeSet<String>),
}

/// The keys of one client.
pub type State = BTreeMap<String, Held>;

/// A request of a client: one command, or several as one transaction.
#[derive(Debug, Clone)]
pub struct Step {
    pub commands: Vec<Words>,
    /// What it had seen of another client before: that client, and how far it had counted.
    pub saw: Option<(usize, u64)>,
}

/// The name of a client's key.
pub fn key(client: usize, name: &str) -> String {
    format!("client:{client}:{name}")
}

/// The keys that a transaction of a client gives one value.
pub fn transaction_keys(client: usize) -> Vec<String> {
    (0..GROUP).map(|number| key(client, &format!("h{number}"))).collect()
}

/// The keys that an MSET of a client gives one value.
pub fn mset_keys(client: usize) -> Vec<String> {
    (0..GROUP).map(|number| key(client, &format!("g{number}"))).collect()
}

fn words(line: &str) -> Words {
    line.split(' ').map(str::to_owned).collect()
}

/// Step `number` of a client whose keys hold this state.
pub fn next_step(client: usize, number: u64, state: &State, random: &mut fastrand::Rng) -> Step {
    let register = |random: &mut fastrand::Rng| key(client, &format!("r{}", random.usize(..REGISTERS)));
    let of = |name: &str| key(client, name);
    let one = |line: String| vec![words(&line)];
    let commands = match random.u8(..14) {
        0..=1 => one(format!("SET {} {number}", register(random))),
        2 => one(format!("DEL {} {}", register(random), register(random))),
        3..=4 => one(format!("INCR {}", of("n"))),
        5 => one(format!("RPUSH {} {number}", of("l0"))),
        6 if state.contains_key(&of("l0")) => one(format!("LMOVE {} {} LEFT RIGHT", of("l0"), of("l1"))),
        7 if list_len(state, &of("l1")) > 8 => one(format!("DEL {} {}", of("l0"), of("l1"))),
        8 => {
            let pairs = mset_keys(client).into_iter().flat_map(|key| [key, number.to_string()]);
            vec![["MSET".to_owned()].into_iter().chain(pairs).collect()]
        }
        9..=10 => {
            let sets = transaction_keys(client).into_iter().map(|key| words(&format!("SET {key} {number}")));
            sets.chain([words(&format!("INCR {}", of("n")))]).collect()
        }
        11 => one(format!("SADD {} {number}", of("s0"))),
        12 => match random_member(state, &of("s0"), random) {
            Some(member) => one(format!("SMOVE {} {} {member}", of("s0"), of("s1"))),
            None => one(format!("SUNIONSTORE {} {} {}", of("s2"), of("s0"), of("s1"))),
        },
        13 => {
            let (from, to) = (register(random), register(random));
            match state.contains_key(&from) {
                true => one(format!("RENAME {from} {to}")),
                false => one(format!("UNLINK {} {} {to}", of("s0"), of("s1"))),
            }
        }
        _ => one(format!("SET {} {number}", register(random))),
    };
    Step { commands, saw: None }
}

fn list_len(state: &State, key: &str) -> usize {
    if let Some(Held::List(list)) = state.get(key) { list.len() } else { 0 }
}

fn random_member(state: &State, key: &str, random: &mut fastrand::Rng) -> Option<String> {
    let Some(Held::Set(set)) = state.get(key) else { return None };
    random.choice(set).cloned()
}

/// Applies a command to the state.
pub fn apply(state: &mut State, command: &[String]) {
    let args: Vec<&str> = command.iter().map(String::as_str).collect();
    match args[..] {
        ["SET", key, value] => set_text(state, key, value),
        ["MSET", ..] => args[1..].chunks(2).for_each(|pair| set_text(state, pair[0], pair[1])),
        ["DEL" | "UNLINK", ..] => args[1..].iter().for_each(|&key| drop(state.remove(key))),
        ["INCR", key] => {
            let next = counted(state, key) + 1;
            set_text(state, key, &next.to_string());
        }
        ["RPUSH", key, value] => push(state, key, value.to_owned()),
        ["LMOVE", from, to, "LEFT", "RIGHT"] => {
            let Some(Held::List(list)) = state.get_mut(from) else { panic!("{from} is no list") };
            let moved = list.remove(0);
            if list.is_empty() {
                state.remove(from);
            }
            push(state, to, moved);
        }
        ["SADD", key, member] => add(state, key, member.to_owned()),
        ["SMOVE", from, to, member] => {
            let Some(Held::Set(set)) = state.get_mut(from) else { panic!("{from} is no set") };
            assert!(set.remove(member));
            if set.is_empty() {
                state.remove(from);
            }
            add(state, to, member.to_owned());
        }
        ["SUNIONSTORE", to, ..] => {
            let sets = args[2..].iter().filter_map(|&key| state.get(key));
            let members = sets.flat_map(|held| if let Held::Set(set) = held { set.clone() } else { BTreeSet::new() });
            let union: BTreeSet<String> = members.collect();
            match union.is_empty() {
                true => drop(state.remove(to)),
                false => drop(state.insert(to.to_owned(), Held::Set(union))),
            }
        }
        ["RENAME", from, to] => {
            let held = state.remove(from).expect("what is renamed is there");
            state.insert(to.to_owned(), held);
        }
        _ => panic!("the model has no {args:?}"),
    }
}

fn set_text(state: &mut State, key: &str, value: &str) {
    state.insert(key.to_owned(), Held::Text(value.to_owned()));
}

fn push(state: &mut State, key: &str, value: String) {
    match state.entry(key.to_owned()).or_insert_with(|| Held::List(Vec::new())) {
        Held::List(list) => list.push(value),
        other => panic!("{key} holds {other:?}"),
    }
}

fn add(state: &mut State, key: &str, member: String) {
    match state.entry(key.to_owned()).or_insert_with(|| Held::Set(BTreeSet::new())) {
        Held::Set(set) => drop(set.insert(member)),
        other => panic!("{key} holds {other:?}"),
    }
}

/// The number in a counting key.
pub fn counted(state: &State, key: &str) -> u64 {
    match state.get(key) {
        Some(Held::Text(text)) => text.parse().expect("counters hold numbers"),
        Some(other) => panic!("{key} holds {other:?}"),
        None => 0,
    }
}

/// The keys of a client on the server.
pub fn read_state(connection: &mut Client, client: usize) -> State {
    let mut state = State::new();
    for (kind, names) in KINDS {
        let names = names.iter().map(|name| key(client, name));
        let names: Vec<String> =
            names.chain((kind == "string").then(|| transaction_keys(client)).into_iter().flatten()).collect();
        let requests = names.iter().map(|name| match kind {
            "string" => words(&format!("GET {name}")),
            "list" => words(&format!("LRANGE {name} 0 -1")),
            _ => words(&format!("SMEMBERS {name}")),
        });
        let values = connection.pipeline(&requests.collect::<Vec<_>>());
        for (name, value) in names.into_iter().zip(values) {
            let texts = || value.elements().iter().map(Value::text);
            let held = match (kind, &value) {
                ("string", Value::Bulk(_)) => Held::Text(value.text()),
                ("string", Value::NullBulk) => continue,
                ("list", Value::Array(elements)) if !elements.is_empty() => Held::List(texts().collect()),
                ("set", Value::Array(elements)) if !elements.is_empty() => Held::Set(texts().collect()),
                (_, Value::Array(_)) => continue,
                _ => panic!("{name}: {value:?}"),
            };
            state.insert(name, held);
        }
    }
    state
}
