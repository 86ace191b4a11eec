//! A bank: money moves between accounts on different shards, and the sum never changes.
//!
//! The simplest of the checkers: it knows nothing about orders and clocks, so it runs at full speed and reports
//! directly what is wrong. Money is moved by MULTI blocks under WATCH between any accounts, or by MSET between accounts
//! that no other client touches, so that no update can be lost. Auditors read all accounts, each in their own way.

use crate::history::{CLIENTS, Participant, on_every_client};
use crate::scenario::{Running, Scenario, Verdict, atomic, must_be_found, never, relaxed};
use harness::{Client, DEADLINE, Value, request};
use std::time::{Duration, Instant};

/// Half of the clients move money.
const TELLERS: usize = CLIENTS / 2;
/// Pairs of accounts that belong to one teller: so long an MSET takes long enough to be seen half done.
const PAIRS: usize = 8;
const ACCOUNTS: usize = 2 * TELLERS * PAIRS;
const BALANCE: i64 = 1_000;

/// Requests that a client sends at once, if it need not wait. With more of them fewer anomalies are found, because each
/// read of the socket goes to a shard as one batch.
const PIPELINE: usize = 4;

/// How long one attempt runs.
const SHIFT: Duration = Duration::from_millis(200);

fn account(number: usize) -> String {
    format!("account:{number}")
}

fn accounts() -> Vec<String> {
    (0..ACCOUNTS).map(account).collect()
}

/// How money is moved.
#[derive(Debug, Clone, Copy)]
enum Transfer {
    /// WATCH two accounts, GET both, and in a block SET both.
    Block,
    /// MSET of the teller's own accounts.
    MSet,
    /// GET both, SET both: the wrong way. The sum changes on every server.
    Careless,
}

/// How all balances are read.
#[derive(Debug, Clone, Copy)]
enum Audit {
    MGet,
    /// GETs in a block.
    Block,
    /// GETs, which count if nothing watched has changed before a following block.
    Watch,
}

/// The results of one client: how many, and what was wrong.
#[derive(Default)]
struct Shift {
    transfers: usize,
    audits: usize,
    wrong: Option<String>,
}

fn number(value: &Value) -> i64 {
    value.text().parse().expect("a balance is a number")
}

fn get(client: &mut Client, name: &str) -> i64 {
    number(&client.value(&["GET", name]))
}

/// A block of requests. Returns EXEC's reply.
fn block(client: &mut Client, requests: &[Vec<String>]) -> Value {
    let mut bytes = request(&["MULTI"]);
    requests.iter().for_each(|arguments| bytes.extend(request(arguments)));
    bytes.extend(request(&["EXEC"]));
    client.send(&bytes);
    client.values(requests.len() + 2).pop().expect("EXEC replies")
}

fn watch(client: &mut Client, names: &[String]) {
    let words: Vec<&str> = std::iter::once("WATCH").chain(names.iter().map(String::as_str)).collect();
    assert_eq!(client.value(&words), Value::Simple(b"OK".to_vec()));
}

fn set(name: &str, balance: i64) -> Vec<String> {
    vec!["SET".to_owned(), name.to_owned(), balance.to_string()]
}

/// Tellers pause between transfers, or no auditor would ever find all accounts unchanged under WATCH.
const PAUSE_US_MAX: u64 = 4_000;

/// Moves an amount between two accounts, unless another client did at the same time. Returns how many transfers were
/// made.
fn transfer_in_block(teller: &mut Participant, is_careful: bool) -> usize {
    let names: Vec<String> = teller.random.choose_multiple(0..ACCOUNTS, 2).into_iter().map(account).collect();
    let amount = teller.random.i64(1..100);
    std::thread::sleep(Duration::from_micros(teller.random.u64(..PAUSE_US_MAX)));
    let client = &mut teller.connection;
    if is_careful {
        watch(client, &names);
    }
    let (from, to) = (get(client, &names[0]) - amount, get(client, &names[1]) + amount);
    let requests = [set(&names[0], from), set(&names[1], to)];
    if is_careful {
        return usize::from(!block(client, &requests).is_null());
    }
    requests.iter().for_each(|arguments| drop(client.value(arguments)));
    1
}

/// The pairs of accounts that belong to one teller: their sums are constant.
fn pairs_of(teller: usize) -> impl Iterator<Item = (usize, usize)> {
    (teller * PAIRS..(teller + 1) * PAIRS).map(|number| (number, ACCOUNTS - 1 - number))
}

/// Moves amounts between the teller's own accounts.
fn transfer_by_mset(teller: &mut Participant) -> usize {
    let mset = |random: &mut fastrand::Rng| {
        let mut words = vec!["MSET".to_owned()];
        for (one, other) in pairs_of(teller.number) {
            let moved = random.i64(-BALANCE..BALANCE);
            words.extend([account(one), (BALANCE - moved).to_string(), account(other), (BALANCE + moved).to_string()]);
        }
        words
    };
    let requests: Vec<_> = (0..PIPELINE).map(|_| mset(&mut teller.random)).collect();
    teller.connection.pipeline(&requests).len()
}

/// The balances that an auditor saw, for each time it read them.
fn audit(client: &mut Client, audit: Audit) -> Vec<Vec<i64>> {
    let gets = || accounts().into_iter().map(|name| vec!["GET".to_owned(), name]).collect::<Vec<_>>();
    let balances = |reply: &Value| reply.elements().iter().map(number).collect();
    match audit {
        Audit::MGet => {
            let mget: Vec<String> = std::iter::once("MGET".to_owned()).chain(accounts()).collect();
            client.pipeline(&vec![mget; PIPELINE]).iter().map(balances).collect()
        }
        Audit::Block => vec![balances(&block(client, &gets()))],
        Audit::Watch => {
            watch(client, &accounts());
            let seen = client.pipeline(&gets()).iter().map(number).collect();
            let is_valid = !block(client, &[vec!["PING".to_owned()]]).is_null();
            if is_valid { vec![seen] } else { Vec::new() }
        }
    }
}

fn work(mut client: Participant, transfer: Transfer, way: Audit) -> Shift {
    let mut shift = Shift::default();
    let is_auditor = client.number >= TELLERS;
    let start = Instant::now();
    // On a busy machine an auditor under WATCH may find all accounts unchanged only when the tellers have stopped.
    let is_awaited = |shift: &Shift| is_auditor && shift.audits == 0 && start.elapsed() < DEADLINE;
    while (start.elapsed() < SHIFT || is_awaited(&shift)) && shift.wrong.is_none() {
        if !is_auditor {
            shift.transfers += match transfer {
                Transfer::Block => transfer_in_block(&mut client, true),
                Transfer::Careless => transfer_in_block(&mut client, false),
                Transfer::MSet => transfer_by_mset(&mut client),
            };
            continue;
        }
        let seen = audit(&mut client.connection, way);
        shift.audits += seen.len();
        shift.wrong = seen.iter().find_map(|balances| wrong(balances, transfer));
    }
    shift
}

/// What is wrong with the balances.
fn wrong(balances: &[i64], transfer: Transfer) -> Option<String> {
    let is_right = match transfer {
        Transfer::MSet => {
            (0..TELLERS).flat_map(pairs_of).all(|(one, other)| balances[one] + balances[other] == 2 * BALANCE)
        }
        Transfer::Block | Transfer::Careless => balances.iter().sum::<i64>() == BALANCE * ACCOUNTS as i64,
    };
    (!is_right).then(|| format!("{transfer:?} made of {} in all: {balances:?}", BALANCE * ACCOUNTS as i64))
}

/// One attempt: a day at the bank.
fn open(running: &Running, seed: u64, transfer: Transfer, way: Audit) -> Verdict {
    let mut manager = running.empty();
    let deposits = accounts().into_iter().flat_map(|name| [name, BALANCE.to_string()]);
    assert_eq!(manager.value(&std::iter::once("MSET".to_owned()).chain(deposits).collect::<Vec<_>>()).text(), "OK");
    let shifts = on_every_client(running, CLIENTS, seed, |client| work(client, transfer, way));
    let last = audit(&mut manager, Audit::MGet);
    let wrong = shifts.iter().find_map(|shift| shift.wrong.clone()).or_else(|| wrong(&last[0], transfer));
    let transfers: usize = shifts.iter().map(|shift| shift.transfers).sum();
    let audits: usize = shifts.iter().map(|shift| shift.audits).sum();
    match wrong {
        Some(wrong) => Verdict::Anomaly(format!("after {transfers} transfers and {audits} audits, {wrong}")),
        None if transfers == 0 || audits == 0 => Verdict::Undecided(format!("{transfers} transfers, {audits} audits")),
        None => Verdict::Clean,
    }
}

fn day(transfer: Transfer, way: Audit) -> impl Fn(&Running, u64) -> Verdict {
    move |running, seed| open(running, seed, transfer, way)
}

#[test]
fn the_sum_never_wavers_under_mset_and_mget() {
    never(&atomic(), day(Transfer::MSet, Audit::MGet));
}

#[test]
fn the_sum_never_wavers_under_blocks_and_mget() {
    never(&atomic(), day(Transfer::Block, Audit::MGet));
}

#[test]
fn the_sum_never_wavers_under_blocks_and_blocks() {
    never(&atomic(), day(Transfer::Block, Audit::Block));
}

#[test]
fn the_sum_never_wavers_under_blocks_and_watch() {
    never(&atomic(), day(Transfer::Block, Audit::Watch));
}

#[test]
fn a_real_redis_passes() {
    never(&[Scenario::Redis], day(Transfer::MSet, Audit::MGet));
    for way in [Audit::MGet, Audit::Block, Audit::Watch] {
        never(&[Scenario::Redis], day(Transfer::Block, way));
    }
}

#[test]
fn the_sum_wavers_under_mset_when_relaxed() {
    must_be_found(&relaxed(), day(Transfer::MSet, Audit::MGet));
}

#[test]
fn the_sum_wavers_under_blocks_when_relaxed() {
    must_be_found(&relaxed(), day(Transfer::Block, Audit::Block));
}

#[test]
fn the_sum_wavers_when_tellers_are_careless() {
    must_be_found(&[&[Scenario::Redis], &atomic()[..]].concat(), day(Transfer::Careless, Audit::MGet));
}
