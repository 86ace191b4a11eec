//! What clients did and which replies they got, and what must be left of it.

use super::model::{State, Step, apply, counted, key, mset_keys, next_step, transaction_keys};
use harness::{Client, Value, request, script_of};
use std::time::{Duration, Instant};

/// The longest pause of clients between two steps: the tests run at the same time.
const REST_US: u64 = 3000;

/// One client, since its keys were last compared.
#[derive(Debug)]
pub struct History {
    client: usize,
    /// The contents of its keys then.
    base: State,
    /// Their contents after all its steps.
    state: State,
    /// The steps that it has requested, in order.
    steps: Vec<Step>,
    /// When they were acknowledged; all but the last, or all.
    acknowledged: Vec<Instant>,
    /// When it saw how far others had counted.
    shown: Vec<(Instant, usize, u64)>,
    /// The number of the next step.
    number: u64,
    random: fastrand::Rng,
}

/// The promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Everything that was acknowledged or shown is there.
    All,
    /// Everything that was acknowledged or shown so long before the crash is there.
    Before(Duration),
    /// The data is a state that existed.
    Consistent,
}

/// How a promise is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Something promised is missing.
    Lost,
    /// Something atomic is there in part.
    Torn,
    /// Something is there without what preceded it.
    Reordered,
    /// Something that had been removed is there.
    Resurrected,
    /// The server does not start with the data.
    Refused,
}

/// A broken promise.
#[derive(Debug)]
pub struct Broken {
    pub kind: Kind,
    pub what: String,
}

impl History {
    pub fn new(client: usize, seed: u64) -> Self {
        Self {
            client,
            base: State::new(),
            state: State::new(),
            steps: Vec::new(),
            acknowledged: Vec::new(),
            shown: Vec::new(),
            number: 1,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Runs steps, one after another, until the server closes the connection.
    pub fn run(&mut self, connection: &mut Client, clients: usize) {
        loop {
            let looks = self.random.u8(..4) == 0;
            let step = if looks { self.look(connection, clients) } else { Some(self.next_step()) };
            let Some(step) = step else { return };
            let commands: Vec<Vec<u8>> = step.commands.iter().map(|words| request(words)).collect();
            // A step of several commands is a transaction or a script.
            let is_script = commands.len() > 1 && self.random.bool();
            let replies = if commands.len() > 1 && !is_script { commands.len() + 2 } else { 1 };
            let mut bytes = commands.concat();
            if is_script {
                bytes = request(&script_of(&step.commands));
            } else if replies > 1 {
                bytes = [request(&["MULTI"]), bytes, request(&["EXEC"])].concat();
            }
            step.commands.iter().for_each(|command| apply(&mut self.state, command));
            self.steps.push(step);
            connection.send_if_open(&bytes);
            let Some(values) = connection.values_if_open(replies) else { return };
            assert!(!values.iter().any(|value| matches!(value, Value::Error(_))), "{values:?}");
            self.acknowledged.push(Instant::now());
            std::thread::sleep(Duration::from_micros(self.random.u64(..REST_US)));
        }
    }

    fn next_step(&mut self) -> Step {
        self.number += 1;
        next_step(self.client, self.number, &self.state, &mut self.random)
    }

    /// Reads how far another client has counted, and records it.
    fn look(&mut self, connection: &mut Client, clients: usize) -> Option<Step> {
        let other = self.random.usize(..clients);
        connection.send_if_open(&request(&["GET", &key(other, "n")]));
        let count = match &connection.values_if_open(1)?[0] {
            Value::Bulk(text) => String::from_utf8_lossy(text).parse().expect("counters hold numbers"),
            Value::NullBulk => 0,
            value => panic!("{value:?}"),
        };
        self.shown.push((Instant::now(), other, count));
        // The number makes each value different, so that the client's progress can be recognized.
        self.number += 1;
        let command = ["SET".to_owned(), key(self.client, "saw"), format!("{}: {other} at {count}", self.number)];
        Some(Step { commands: vec![command.to_vec()], saw: Some((other, count)) })
    }

    /// How many steps were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Starts again with the data found.
    pub fn begin_with(&mut self, found: State) {
        (self.base, self.state) = (found.clone(), found);
        self.steps.clear();
        self.acknowledged.clear();
        self.shown.clear();
    }

    /// How many steps are left.
    fn left(&self, found: &State, floor: usize) -> Result<usize, Broken> {
        let mut state = self.base.clone();
        let mut left = (state == *found).then_some(0);
        for (index, step) in self.steps.iter().enumerate() {
            step.commands.iter().for_each(|command| apply(&mut state, command));
            if state == *found {
                left = Some(index + 1);
            }
        }
        match left {
            Some(left) if left >= floor => Ok(left),
            Some(left) => {
                let what = format!("client {}: {left} steps are left; {floor} were promised", self.client);
                Err(Broken { kind: Kind::Lost, what })
            }
            None => Err(self.no_prefix(found, floor)),
        }
    }

    /// What is wrong with a state that never existed.
    fn no_prefix(&self, found: &State, floor: usize) -> Broken {
        let what =
            |text: String| format!("client {}, {} steps, {floor} promised: {text}", self.client, self.steps.len());
        let broken = |kind, text: String| Broken { kind, what: what(text) };
        for group in [mset_keys(self.client), transaction_keys(self.client)] {
            let values: Vec<_> = group.iter().map(|key| found.get(key)).collect();
            if values.iter().any(|value| *value != values[0]) {
                return broken(Kind::Torn, format!("{values:?}"));
            }
        }
        // The states that may be left.
        let mut states = vec![self.base.clone()];
        for step in &self.steps {
            let mut state = states.last().expect("it begins with one").clone();
            step.commands.iter().for_each(|command| apply(&mut state, command));
            states.push(state);
        }
        if let Some((key, held)) =
            found.iter().find(|(key, _)| !states[floor..].iter().any(|state| state.contains_key(*key)))
        {
            return broken(Kind::Resurrected, format!("{key} holds {held:?}"));
        }
        let differences = |state: &State| {
            let keys = state.keys().chain(found.keys()).filter(|key| state.get(*key) != found.get(*key));
            keys.map(|key| format!("{key}: {:?}, found {:?}", state.get(key), found.get(key))).collect::<Vec<_>>()
        };
        let nearest = states.iter().enumerate().min_by_key(|(_, state)| differences(state).len());
        let (index, state) = nearest.expect("there is one");
        broken(Kind::Reordered, format!("nearest is after {index} steps, but {:?}", differences(state)))
    }
}

/// Checks the data of all clients after a crash at this time.
pub fn check(histories: &[History], found: &[State], promise: Promise, crashed: Instant) -> Result<(), Broken> {
    let is_promised = |at: &Instant| match promise {
        Promise::All => true,
        Promise::Before(time) => *at + time < crashed,
        Promise::Consistent => false,
    };
    for (history, state) in histories.iter().zip(found) {
        let floor = history.acknowledged.iter().filter(|at| is_promised(at)).count();
        let left = history.left(state, floor)?;
        let count_of = |client: usize| counted(&found[client], &key(client, "n"));
        for (other, count) in history.steps[..left].iter().filter_map(|step| step.saw) {
            if count_of(other) < count {
                let what = format!(
                    "client {} wrote after it saw {count} of client {other}, of which {} is left",
                    history.client,
                    count_of(other)
                );
                return Err(Broken { kind: Kind::Reordered, what });
            }
        }
        for (_, other, count) in history.shown.iter().filter(|(at, ..)| is_promised(at)) {
            if count_of(*other) < *count {
                let what = format!(
                    "client {} was shown {count} of client {other}, of which {} is left",
                    history.client,
                    count_of(*other)
                );
                return Err(Broken { kind: Kind::Lost, what });
            }
        }
    }
    Ok(())
}
