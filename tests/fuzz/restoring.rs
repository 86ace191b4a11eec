//! The mutation fuzzer of RESTORE.

use super::coherence::{TYPES, judge, questions, type_of};
use super::corpus::{corpus, payload};
use super::image::Image;
use super::mutation::{KINDS, STREAM_3, mutated};
use super::{Request, SETUPS, at_least, caught, request, shown};
use harness::generator::families::FAMILIES;
use harness::generator::parts::{seed_or, without_parts};
use harness::generator::requests::Generator;
use harness::{Server, Setup, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Payloads between two images.
const BATCH: usize = 120;
/// Batches per server; everything that it has logged is read again after each.
const BATCHES_PER_SERVER: usize = 2;
/// Random commands for restored keys.
const COMMANDS: usize = 8;
/// By how much a batch may make the address space grow. The payloads have a few hundred bytes each.
const GROWTH_MAX: u64 = 1 << 30;
/// The types of hashes whose fields may expire, which are refused in words of their own.
const HASHES_WITH_DEADLINES: [u8; 3] = [22, 24, 25];
const NO_DEADLINES_OF_FIELDS: &[u8] = b"fields that expire are not supported: see HPERSIST";
/// The time limit for reducing a failure.
const BUDGET: Duration = Duration::from_secs(60);

/// Changes replies on their way: a planted bug.
pub type Tamper = fn(&Request, &mut Value);

/// A restored value, and the commands for it.
#[derive(Debug, Clone)]
struct Case {
    key: Vec<u8>,
    value: Vec<u8>,
    commands: Vec<Request>,
}

/// Runs as long as requested; returns the numbers of the types of accepted payloads.
pub fn run(seed: u64, at_least: Duration, tamper: Option<Tamper>) -> Result<BTreeSet<u8>, String> {
    let (start, corpus) = (Instant::now(), corpus());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut generators = generators(seed);
    let mut taken = BTreeSet::new();
    let (mut sent, mut restored) = (0, 0);
    // redis-server's dumps differ from run to run, so a type may be left out of the first round.
    let lacks = |taken: &BTreeSet<u8>| KINDS.into_iter().chain([STREAM_3]).any(|kind| !taken.contains(&kind));
    while sent == 0 || start.elapsed() < at_least || (tamper.is_none() && lacks(&taken) && start.elapsed() < BUDGET) {
        for setup in SETUPS {
            let server = start_server(setup);
            for _ in 0..BATCHES_PER_SERVER {
                let cases: Vec<Case> = (0..BATCH).map(|at| case(at, &corpus, &mut generators, &mut random)).collect();
                sent += cases.len();
                match caught(|| check(&server, &cases, tamper)) {
                    Ok(kinds) => {
                        restored += kinds.len();
                        taken.extend(kinds);
                    }
                    Err(reason) if tamper.is_some() => return Err(reason),
                    Err(reason) => return Err(smaller(setup, cases, reason, seed)),
                }
            }
        }
    }
    println!("{sent} payloads, {restored} of them taken");
    Ok(taken)
}

/// Generators of commands, by the type that they are for.
type Generators = BTreeMap<&'static str, Generator>;

fn generators(seed: u64) -> Generators {
    let of = |name: &'static str| FAMILIES.iter().filter(move |family| family.name == name);
    TYPES.iter().map(|(kind, family)| (*kind, Generator::over(seed, of(family)))).collect()
}

fn start_server(setup: Setup) -> Server {
    Server::start(setup, &["--enable-debug-command", "yes"])
}

fn case(at: usize, corpus: &[Vec<u8>], generators: &mut Generators, random: &mut fastrand::Rng) -> Case {
    let mut pick = || corpus[random.usize(..corpus.len())].clone();
    let (whole, other) = (pick(), pick());
    let value = if random.u32(..12) == 0 { whole } else { mutated(&whole, &other, random) };
    let kind = value.first().map_or("none", |kind| type_of(*kind));
    let key = format!("{kind}:fuzz:{at}").into_bytes();
    let Some(generator) = generators.get_mut(kind) else {
        return Case { key, value, commands: Vec::new() };
    };
    // Every key of its kind becomes this one.
    let own = |word: Vec<u8>| {
        let name = word.strip_prefix(b"{tag}".as_slice()).unwrap_or(&word);
        if name.starts_with(format!("{kind}:").as_bytes()) { key.clone() } else { word }
    };
    let commands = (0..COMMANDS).map(|_| generator.alone(0).into_iter().map(own).collect()).collect();
    Case { key, value, commands }
}

/// Restores, reads, changes, reads again; then the data must be the same after it was saved and loaded. Returns the
/// numbers of the types of accepted payloads.
fn check(server: &Server, cases: &[Case], tamper: Option<Tamper>) -> Result<Vec<u8>, String> {
    let mut client = server.client();
    client.expect("FLUSHALL", "+OK\r\n");
    let before = addresses_max(server);
    let restore = |case: &Case| request(&[b"RESTORE", &case.key, b"0", &payload(&case.value), b"REPLACE"]);
    let mut ask = |requests: &[Request]| {
        let mut replies = client.pipeline(requests);
        if let Some(tamper) = tamper {
            requests.iter().zip(&mut replies).for_each(|(request, reply)| tamper(request, reply));
        }
        replies
    };
    let replies = ask(&cases.iter().map(restore).collect::<Vec<_>>());
    let mut kept = Vec::new();
    for (case, reply) in cases.iter().zip(replies) {
        match reply {
            Value::Simple(_) => kept.push(case),
            Value::Error(text) if text == b"ERR Bad data format" => {}
            Value::Error(text)
                if case.value.first().is_some_and(|kind| HASHES_WITH_DEADLINES.contains(kind))
                    && text.ends_with(NO_DEADLINES_OF_FIELDS) => {}
            reply => return Err(format!("RESTORE {} replies {reply:?}", case.value.escape_ascii())),
        }
    }
    let mut are_coherent = |cases: &[&Case], when: &str| {
        for case in cases {
            let kind = type_of(case.value[0]);
            if ask(&[request(&[b"EXISTS", &case.key])])[0] == Value::Integer(1) {
                let replies = ask(&questions(kind, &case.key));
                judge(kind, &replies)
                    .map_err(|reason| format!("{}, {when}: {reason}: {replies:?}", case.key.escape_ascii()))?;
            }
        }
        Ok::<(), String>(())
    };
    are_coherent(&kept, "restored")?;
    let commands: Vec<Request> = kept.iter().flat_map(|case| case.commands.clone()).collect();
    client.pipeline(&commands);
    let image = Image::of(&mut client);
    client.expect("DEBUG RELOAD", "+OK\r\n");
    let reloaded = Image::of(&mut client).in_a_snapshot();
    reloaded.same_as(&image.clone().in_a_snapshot(), "after DEBUG RELOAD")?;
    client.expect("DEBUG LOADAOF", "+OK\r\n");
    Image::of(&mut client).same_as(&image, "after DEBUG LOADAOF")?;
    let grown = addresses_max(server).saturating_sub(before);
    if grown > GROWTH_MAX {
        return Err(format!("the address space grew by {grown} bytes"));
    }
    Ok(kept.iter().map(|case| case.value[0]).collect())
}

/// The most addresses that a server had at a time, in bytes: including those that it never touched.
fn addresses_max(server: &Server) -> u64 {
    let id = i32::try_from(server.info_number("process_id")).expect("process ids are short");
    let process = procfs::process::Process::new(id).expect("the server is running");
    process.status().expect("a process has a status").vmpeak.expect("a process has memory") * 1024
}

/// The failure with as few payloads as still lead to it.
fn smaller(setup: Setup, cases: Vec<Case>, reason: String, seed: u64) -> String {
    let (start, mut left, mut reason) = (Instant::now(), cases, reason);
    without_parts(&mut left, &mut || start.elapsed() > BUDGET, |cases, left| {
        let Err(found) = caught(|| check(&start_server(setup), &cases, None)) else { return false };
        (*left, reason) = (cases, found);
        true
    });
    let of_case = |case: &Case| {
        let restore = format!("RESTORE {} 0 \"{}\"", case.key.escape_ascii(), payload(&case.value).escape_ascii());
        [restore].into_iter().chain(case.commands.iter().map(shown)).collect::<Vec<_>>().join("\n")
    };
    let cases: Vec<String> = left.iter().map(of_case).collect();
    format!("SEED={seed} {setup:?}\n{}\n{reason}", cases.join("\n"))
}

#[test]
fn what_a_changed_payload_restores_fits_together_and_comes_back() {
    const OF_MAKE_TEST: u64 = 20_261_123;
    let taken = run(seed_or(OF_MAKE_TEST), at_least(), None).unwrap_or_else(|failure| panic!("{failure}"));
    for kind in KINDS.into_iter().chain([STREAM_3]) {
        assert!(taken.contains(&kind), "nothing of type {kind} was taken");
    }
}
