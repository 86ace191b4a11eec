//! Transactions that append to lists and read them, judged by Elle's definitions.
//!
//! Every element is appended once, so the longest list read of a key is the order of its versions. From it follow the
//! edges between transactions: a write before another write (ww), a read of a write (wr), and a write after a read
//! (rw); real time adds an edge from each transaction to those that began after its end. A cycle of these is an
//! anomaly, named by the edges it needs (Kingsbury and Alvaro, "Elle", VLDB 2020, after Adya): G0 is ww alone, G1c has
//! wr, G-single one rw, G2 more; a `-realtime` one needs the clock. G1a is a read of an aborted transaction, G1b one of
//! a transaction's half.
//!
//! The checker is the crate `adya`, Elle without a JVM. It is young, so it is tested itself: with a history written by
//! hand for each anomaly, and by a comparison with trying every order.

use crate::history::{CLIENTS, End, Participant, Recorded, in_order_of_time, on_every_client, some_order_is_accepted};
use crate::scenario::{Running, Scenario, Verdict, atomic, must_be_found, never, relaxed};
use adya::history::{History, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{Opts, Report, Valid, Workload, check};
use harness::{Client, Value, request, script_of};
use std::collections::BTreeMap;
use std::time::Duration;

const KEYS: [Key; 4] = ["list:0", "list:1", "list:2", "list:3"];
const TRANSACTIONS_PER_CLIENT: usize = 20;
const OPERATIONS_MAX: usize = 4;

type Key = &'static str;

/// A part of a transaction, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operation {
    Append(Key, i64),
    Read(Key, Vec<i64>),
}

use Operation::*;

impl Operation {
    fn key(&self) -> Key {
        match self {
            Append(key, _) | Read(key, _) => key,
        }
    }

    fn words(&self) -> Vec<String> {
        match self {
            Append(key, element) => vec!["RPUSH".to_owned(), (*key).to_owned(), element.to_string()],
            Read(key, _) => ["LRANGE", key, "0", "-1"].map(str::to_owned).to_vec(),
        }
    }

    /// Records the server's reply.
    fn note(&mut self, reply: &Value) {
        match self {
            Append(..) => assert!(reply.integer() > 0),
            Read(_, elements) => *elements = reply.elements().iter().map(|e| e.text().parse().unwrap()).collect(),
        }
    }

    fn ask(&mut self, client: &mut Client) {
        let reply = client.value(&self.words());
        self.note(&reply);
    }
}

/// Operations that are executed completely or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Transaction {
    is_committed: bool,
    operations: Vec<Operation>,
}

/// How clients make a transaction of several operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    /// MULTI and EXEC, or a script.
    Block,
    /// Not at all: one command after another. The checker must find this.
    None,
}

/// The requests of one client, with elements that no other appends.
struct Appender {
    participant: Participant,
    isolation: Isolation,
    appended: i64,
}

impl Appender {
    fn play(mut self) -> Vec<Recorded<Transaction>> {
        (0..TRANSACTIONS_PER_CLIENT).map(|_| self.transact()).collect()
    }

    fn transact(&mut self) -> Recorded<Transaction> {
        let operations = self.choose();
        let (kind, watched) = (self.participant.random.u32(..10), KEYS[self.participant.random.usize(..KEYS.len())]);
        let isolation = self.isolation;
        self.participant.record(|client| match (isolation, kind) {
            (Isolation::None, _) => one_by_one(client, operations),
            (Isolation::Block, 0) => discard(client, operations),
            (Isolation::Block, 1..4) => optimistic(client, watched, operations),
            (Isolation::Block, 4..7) => script(client, operations),
            (Isolation::Block, _) if operations.len() == 1 => one_by_one(client, operations),
            (Isolation::Block, _) => block(client, operations),
        })
    }

    fn choose(&mut self) -> Vec<Operation> {
        let amount = self.participant.random.usize(1..=OPERATIONS_MAX);
        (0..amount).map(|_| self.choose_one()).collect()
    }

    fn choose_one(&mut self) -> Operation {
        let key = KEYS[self.participant.random.usize(..KEYS.len())];
        if self.participant.random.bool() {
            return Read(key, Vec::new());
        }
        self.appended += 1;
        Append(key, self.participant.number as i64 * 1_000_000 + self.appended)
    }
}

fn one_by_one(client: &mut Client, mut operations: Vec<Operation>) -> Transaction {
    operations.iter_mut().for_each(|operation| operation.ask(client));
    Transaction { is_committed: true, operations }
}

/// The operations as a script, which declares none of its keys.
fn script(client: &mut Client, mut operations: Vec<Operation>) -> Transaction {
    let words = script_of(&operations.iter().map(Operation::words).collect::<Vec<_>>());
    let reply = client.value(&words);
    operations.iter_mut().zip(reply.elements()).for_each(|(operation, reply)| operation.note(reply));
    Transaction { is_committed: true, operations }
}

/// MULTI, the operations, and `end`; returns the reply to the end.
fn queue(client: &mut Client, operations: &[Operation], end: &str) -> Value {
    let mut bytes = request(&["MULTI"]);
    operations.iter().for_each(|operation| bytes.extend(request(&operation.words())));
    bytes.extend(request(&[end]));
    client.send(&bytes);
    let mut replies = client.values(operations.len() + 2);
    let reply = replies.pop().expect("the end has a reply");
    replies.iter().for_each(|reply| assert!(matches!(reply, Value::Simple(_)), "OK or QUEUED, not {reply:?}"));
    reply
}

fn block(client: &mut Client, mut operations: Vec<Operation>) -> Transaction {
    let reply = queue(client, &operations, "EXEC");
    let is_committed = !reply.is_null();
    if is_committed {
        assert_eq!(reply.elements().len(), operations.len());
        operations.iter_mut().zip(reply.elements()).for_each(|(operation, reply)| operation.note(reply));
    }
    Transaction { is_committed, operations }
}

fn discard(client: &mut Client, operations: Vec<Operation>) -> Transaction {
    assert_eq!(queue(client, &operations, "DISCARD"), Value::Simple(b"OK".to_vec()));
    Transaction { is_committed: false, operations }
}

/// Reads a key before the block, which is executed only if the key has not changed since.
fn optimistic(client: &mut Client, watched: Key, operations: Vec<Operation>) -> Transaction {
    client.expect(&format!("WATCH {watched}"), "+OK\r\n");
    let mut read = Read(watched, Vec::new());
    read.ask(client);
    let Transaction { is_committed, mut operations } = block(client, operations);
    operations.insert(0, read);
    Transaction { is_committed, operations }
}

/// One history of all clients, with a final read of every key when all are done.
fn record(running: &Running, seed: u64, isolation: Isolation) -> Vec<Recorded<Transaction>> {
    running.empty();
    let histories =
        on_every_client(running, CLIENTS, seed, |participant| Appender { participant, isolation, appended: 0 }.play());
    let mut history: Vec<_> = histories.into_iter().flatten().collect();
    let after_ns = history.iter().map(|recorded| recorded.returned_ns).max().expect("clients did something") + 1;
    let look = one_by_one(&mut running.client(), KEYS.map(|key| Read(key, Vec::new())).to_vec());
    history.push(Recorded { client: CLIENTS, invoked_ns: after_ns, returned_ns: after_ns, what: look });
    history
}

/// The history in the checker's terms.
fn ops(history: &[Recorded<Transaction>]) -> History {
    let mut interner = Interner::default();
    let ends = in_order_of_time(history).into_iter().zip(0..);
    let ops = ends.map(|((index, end), position)| {
        let Recorded { client, invoked_ns, returned_ns, what: transaction } = &history[index];
        let (kind, time_ns) = match end {
            End::Invoked => (OpType::Invoke, invoked_ns),
            End::Returned if transaction.is_committed => (OpType::Ok, returned_ns),
            End::Returned => (OpType::Fail, returned_ns),
        };
        let parts = transaction.operations.iter().map(|operation| part(operation, kind, &mut interner));
        let value = parts.collect();
        Op { index: position, kind, process: Some(*client as i64), value, time: Some(*time_ns as i64) }
    });
    let ops = ops.collect();
    History::from_ops(ops, interner)
}

fn part(operation: &Operation, kind: OpType, interner: &mut Interner) -> Mop {
    let key = Scalar::Str(operation.key().to_owned());
    let key = interner.intern(key);
    match operation {
        Append(_, element) => Mop::Append { key, value: interner.intern(Scalar::Int(*element)) },
        Read(..) if kind != OpType::Ok => Mop::Read { key, value: ReadValue::Nil },
        Read(_, elements) => {
            let elements = elements.iter().map(|element| interner.intern(Scalar::Int(*element)));
            Mop::Read { key, value: ReadValue::List(elements.collect()) }
        }
    }
}

fn report(history: &[Recorded<Transaction>]) -> Report {
    // The search for the smallest cycle of each kind may take this long; a cycle is reported in any case.
    let options = Opts { timeout: Duration::from_secs(10), ..Opts::default() };
    assert_eq!(options.models, ["strict-serializable"]);
    check(&ops(history), Workload::ListAppend, &options)
}

fn judge(history: &[Recorded<Transaction>]) -> Verdict {
    let report = report(history);
    let first = report.anomalies.values().flatten().next();
    let first = first.map(|anomaly| anomaly.explanation.as_str()).unwrap_or_default();
    match report.valid {
        Valid::True => Verdict::Clean,
        Valid::False => Verdict::Anomaly(format!("{:?}, not {:?}: {first}", report.anomaly_types, report.not)),
        Valid::Unknown => Verdict::Undecided(format!("{:?}: {first}", report.anomaly_types)),
    }
}

fn record_and_judge(isolation: Isolation) -> impl Fn(&Running, u64) -> Verdict {
    move |running, seed| judge(&record(running, seed, isolation))
}

#[test]
fn blocks_are_strictly_serializable() {
    never(&atomic(), record_and_judge(Isolation::Block));
}

#[test]
fn a_real_redis_passes() {
    never(&[Scenario::Redis], record_and_judge(Isolation::Block));
}

#[test]
fn blocks_are_seen_torn_when_relaxed() {
    must_be_found(&relaxed(), record_and_judge(Isolation::Block));
}

#[test]
fn commands_outside_of_a_block_are_seen_torn_everywhere() {
    must_be_found(&[&[Scenario::Redis], &atomic()[..]].concat(), record_and_judge(Isolation::None));
}

/// A history written by hand, one line per transaction: when it began and ended, `-` if it was aborted, and its
/// operations, `x+1` for an append and `x=1,2` for a read.
fn by_hand(lines: &str) -> Vec<Recorded<Transaction>> {
    let transaction = |(client, line): (usize, &str)| {
        let mut words = line.split_whitespace().peekable();
        let mut time = || words.next().unwrap().parse().unwrap();
        let (invoked_ns, returned_ns) = (time(), time());
        let is_committed = words.next_if_eq(&"-").is_none();
        let what = Transaction { is_committed, operations: words.map(operation).collect() };
        Recorded { client, invoked_ns, returned_ns, what }
    };
    lines.trim().lines().enumerate().map(transaction).collect()
}

fn operation(word: &str) -> Operation {
    let key = |name: &str| if name == "x" { KEYS[0] } else { KEYS[1] };
    match word.split_once('+') {
        Some((name, element)) => Append(key(name), element.parse().unwrap()),
        None => {
            let (name, elements) = word.split_once('=').unwrap();
            Read(key(name), elements.split(',').filter(|e| !e.is_empty()).map(|e| e.parse().unwrap()).collect())
        }
    }
}

#[track_caller]
fn assert_found(anomaly: &str, lines: &str) {
    let report = report(&by_hand(lines));
    assert_eq!(report.valid, Valid::False, "{:?}", report.anomaly_types);
    assert!(report.anomaly_types.iter().any(|found| found == anomaly), "{:?}", report.anomaly_types);
}

#[test]
fn writes_interleaved_are_g0() {
    assert_found("G0", "0 9 x+1 y+1\n 0 9 x+2 y+2\n 10 11 x=1,2 y=2,1");
}

#[test]
fn a_read_of_an_aborted_write_is_g1a() {
    assert_found("G1a", "0 9 - x+1\n 0 9 x=1");
}

#[test]
fn a_read_of_half_a_transaction_is_g1b() {
    assert_found("G1b", "0 9 x+1 x+2\n 0 9 x=1\n 10 11 x=1,2");
}

#[test]
fn reading_each_other_is_g1c() {
    assert_found("G1c", "0 9 x+1 y=1\n 0 9 y+1 x=1");
}

#[test]
fn seeing_one_of_two_writes_is_g_single() {
    assert_found("G-single-item", "0 9 x+1 y+1\n 0 9 x=1 y=\n 10 11 x=1 y=1");
}

#[test]
fn not_seeing_each_other_is_g2() {
    assert_found("G2-item", "0 9 x= y+1\n 0 9 y= x+1\n 10 11 x=1 y=1");
}

#[test]
fn two_appends_after_the_same_read_are_a_lost_update() {
    assert_found("lost-update", "0 9 x= x+1\n 0 9 x= x+2\n 10 11 x=1,2");
}

#[test]
fn a_transaction_that_does_not_see_its_own_append_is_internal() {
    assert_found("internal", "0 9 x+1 x=\n 10 11 x=1");
}

#[test]
fn lists_that_do_not_begin_alike_are_an_incompatible_order() {
    assert_found("incompatible-order", "0 9 x+1\n 0 9 x+2\n 10 11 x=1,2\n 10 11 x=2,1");
}

#[test]
fn a_stale_read_is_found_by_the_clock_alone() {
    assert_found("G-single-item-realtime", "0 1 x+1\n 2 3 x=\n 10 11 x=1");
}

#[test]
fn writes_out_of_real_time_are_g0_realtime() {
    assert_found("G0-realtime", "0 1 x+1\n 2 3 x+2\n 10 11 x=2,1");
}

#[test]
fn what_some_order_explains_is_clean() {
    for lines in [
        "0 9 x+1 y+1\n 0 9 x+2 y+2\n 10 11 x=1,2 y=1,2",
        "0 9 - x+1\n 0 9 x=\n 10 11 y+1 x=",
        "0 9 x+1 x+2\n 0 9 x=\n 0 9 x=1,2",
        "0 9 x+1\n 2 3 x=\n 10 11 x=1",
        "0 9 x+1\n 2 3 x=1\n 4 5 x+2\n 10 11 x=1,2",
        "0 1 x+1 y=\n 2 3 y+1 x=1",
    ] {
        assert_eq!(judge(&by_hand(lines)), Verdict::Clean, "{lines}");
    }
}

/// A database without isolation, and what its clients recorded.
#[derive(Default)]
struct Simulation {
    lists: BTreeMap<Key, Vec<i64>>,
    history: Vec<Recorded<Transaction>>,
    appended: i64,
}

impl Simulation {
    /// A few transactions of a few operations over two keys, and a final read. Half of the simulations execute the
    /// transactions one after another, half in pieces; aborted ones sometimes leave what they appended.
    fn run(random: &mut fastrand::Rng) -> Vec<Recorded<Transaction>> {
        let mut simulation = Self::default();
        let amount = random.usize(2..5);
        let mut turns: Vec<usize> = (0..amount).flat_map(|client| vec![client; random.usize(1..4)]).collect();
        if random.bool() {
            random.shuffle(&mut turns);
        }
        (0..amount).for_each(|client| simulation.begin(client, random));
        turns.iter().zip(1..).for_each(|(client, turn)| simulation.execute(*client, 10 * turn, random));
        simulation.look(10 * turns.len() as u64 + 100);
        simulation.history
    }

    fn begin(&mut self, client: usize, random: &mut fastrand::Rng) {
        let what = Transaction { is_committed: random.u32(..8) > 0, operations: Vec::new() };
        self.history.push(Recorded { client, invoked_ns: u64::MAX, returned_ns: 0, what });
    }

    fn execute(&mut self, client: usize, now_ns: u64, random: &mut fastrand::Rng) {
        let recorded = &mut self.history[client];
        recorded.invoked_ns = recorded.invoked_ns.min(now_ns - random.u64(..10));
        recorded.returned_ns = now_ns + random.u64(..30);
        let key = KEYS[random.usize(..2)];
        let list = self.lists.entry(key).or_default();
        if random.bool() {
            recorded.what.operations.push(Read(key, list.clone()));
            return;
        }
        self.appended += 1;
        recorded.what.operations.push(Append(key, self.appended));
        if recorded.what.is_committed || random.u32(..4) == 0 {
            list.push(self.appended);
        }
    }

    fn look(&mut self, now_ns: u64) {
        let read = |key: &Key| Read(key, self.lists.get(key).cloned().unwrap_or_default());
        let what = Transaction { is_committed: true, operations: KEYS[..2].iter().map(read).collect() };
        self.history.push(Recorded { client: self.history.len(), invoked_ns: now_ns, returned_ns: now_ns, what });
    }
}

/// Whether each transaction, executed whole and in this order, would have read what it read.
fn explains(order: &[&Transaction]) -> bool {
    let mut lists: BTreeMap<Key, Vec<i64>> = BTreeMap::new();
    order.iter().flat_map(|transaction| &transaction.operations).all(|operation| {
        let list = lists.entry(operation.key()).or_default();
        match operation {
            Append(_, element) => list.push(*element),
            Read(_, elements) => return list == elements,
        }
        true
    })
}

#[test]
fn the_checker_says_what_trying_every_order_says() {
    const HISTORIES: usize = 5_000;
    let mut random = fastrand::Rng::with_seed(harness::seed());
    let mut clean = 0;
    for _ in 0..HISTORIES {
        let history = Simulation::run(&mut random);
        let mut committed = history.clone();
        committed.retain(|recorded| recorded.what.is_committed);
        let expected = some_order_is_accepted(&committed, explains);
        let report = report(&history);
        // There is nothing to compare in a history without concurrent transactions: Elle calls that unknown.
        let is_clean = report.valid == Valid::True || report.anomaly_types == ["empty-transaction-graph"];
        assert_eq!(is_clean, expected, "{:?}: {history:#?}", report.anomaly_types);
        clean += usize::from(expected);
    }
    assert!((HISTORIES / 10..HISTORIES * 9 / 10).contains(&clean), "both verdicts are compared, {clean} clean");
}
