//! Random commands with restarts between them.

use super::corpus::{corpus, payload};
use super::image::Image;
use super::more_families::MORE;
use super::{Request, SETUPS, at_least, caught, shown};
use harness::generator::families::FAMILIES;
use harness::generator::parts::{seed_or, without_parts};
use harness::generator::requests::{Generator, LINKS, name_of};
use harness::{Client, Data, Server, Setup, Value, request as bytes_of, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Requests between two restarts.
const REQUESTS_PER_ROUND: usize = 1_000;
/// Rounds from empty data to the next empty data: for each setup one that ends on the same engine and one that ends on
/// the next.
const ROUNDS: usize = 2 * SETUPS.len();
/// The most requests on one connection before it is the other's turn.
const REQUESTS_PER_TURN: usize = 150;
/// Requests in flight.
const PIPELINE: usize = 200;
/// What all values together may take: some of them have a megabyte.
const RESIDENT_MAX: u64 = 2 << 30;
/// The time limit for reducing a failure.
const BUDGET: Duration = Duration::from_secs(90);

/// What happens between the end of one server and the start of the next.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// SIGTERM.
    Stop,
    /// kill -9; all writes were synced before their replies.
    KillSynced,
    /// kill -9 after a WAITAOF.
    KillAwaited,
    /// kill -9 after the log was rewritten.
    KillRewritten,
}

const WAYS: [Way; 4] = [Way::KillAwaited, Way::Stop, Way::KillSynced, Way::KillRewritten];

/// A change between an image and the restart: a planted bug.
#[derive(Debug, Clone, Copy)]
pub enum Planted {
    Nothing,
    InTheServer(fn(&mut Client)),
    InTheFiles(fn(&Data)),
}

/// A request on one of the connections.
#[derive(Debug, Clone)]
struct Sent {
    link: usize,
    request: Request,
}

/// How often each command succeeded.
pub type Tally = BTreeMap<String, usize>;

/// Runs as long as requested.
pub fn run(seed: u64, at_least: Duration, planted: Planted) -> Result<Tally, String> {
    let start = Instant::now();
    let mut generator = Generator::over(seed, FAMILIES.iter().chain(MORE));
    let corpus = corpus();
    let mut tally = Tally::new();
    let mut chapters = 0;
    while chapters == 0 || start.elapsed() < at_least {
        let mut history = Vec::new();
        let outcome = chapter(&mut generator, &corpus, &mut history, &mut tally, chapters, planted);
        if let Err((round, reason)) = outcome {
            return Err(match planted {
                Planted::Nothing => smaller(round, history, reason, seed),
                _ => reason,
            });
        }
        chapters += 1;
    }
    println!("{} requests", chapters * ROUNDS * REQUESTS_PER_ROUND);
    Ok(tally)
}

/// Where a round begins, how it ends, and where the next begins.
#[derive(Debug, Clone, Copy)]
struct Round {
    setup: Setup,
    way: Way,
    next: Setup,
}

impl Round {
    fn new(chapter: usize, round: usize) -> Self {
        let setup = |round: usize| SETUPS[round / 2 % SETUPS.len()];
        // Other ways for the same setups in the next chapter.
        Self { setup: setup(round), way: WAYS[(round + chapter) % WAYS.len()], next: setup(round + 1) }
    }

    fn start(self, data: &Data, setup: Setup) -> Server {
        let policy = if matches!(self.way, Way::KillSynced) { "always" } else { "everysec" };
        // Rewrites are requested: an automatic one could meet data that was reloaded.
        let flags = ["--enable-debug-command", "yes", "--appendfsync", policy, "--auto-aof-rewrite-percentage", "0"];
        data.start(setup, &flags)
    }
}

fn chapter(
    generator: &mut Generator,
    corpus: &[Vec<u8>],
    history: &mut Vec<Sent>,
    tally: &mut Tally,
    chapter: usize,
    planted: Planted,
) -> Result<(), (Round, String)> {
    let mut data = Data::new();
    for number in 0..ROUNDS {
        let round = Round::new(chapter, number);
        let sent = requests_of_round(generator, corpus);
        history.extend_from_slice(&sent);
        data = caught(|| play_round(round, data, &sent, tally, planted)).map_err(|reason| (round, reason))?;
    }
    Ok(())
}

fn requests_of_round(generator: &mut Generator, corpus: &[Vec<u8>]) -> Vec<Sent> {
    generator.forget_connections();
    let mut sent = Vec::with_capacity(REQUESTS_PER_ROUND);
    while sent.len() < REQUESTS_PER_ROUND {
        let link = generator.source().below(LINKS);
        let turn = 1 + generator.source().below(REQUESTS_PER_TURN);
        sent.extend((0..turn).map(|_| Sent { link, request: next(generator, corpus, link) }));
    }
    sent
}

/// A random request; sometimes a RESTORE, whose payload no grammar makes.
fn next(generator: &mut Generator, corpus: &[Vec<u8>], link: usize) -> Request {
    const IN_A_HUNDRED: u32 = 2;
    let request = generator.alone(link);
    let source = generator.source();
    if name_of(&request) == "EXEC" || !source.chance(IN_A_HUNDRED) {
        return request;
    }
    let (key, value) = (source.key("any"), payload(&corpus[source.below(corpus.len())]));
    // Deadlines are far away, or over.
    let (ttls, options): (&[&str], _) = match source.below(3) {
        0 => (&["1", "33177117420000", "9223372036854775807"], "ABSTTL"),
        _ => (&["0", "0", "1000000000", "9223372036854775807"], "REPLACE"),
    };
    let (ttl, options) = (source.pick(ttls), options.into());
    let name: &[u8] = if source.chance(30) { b"RESTORE-ASKING" } else { b"RESTORE" };
    vec![name.to_vec(), key, ttl, value, options]
}

/// Sends requests, and compares all data after it was reloaded in every way.
fn play_round(round: Round, data: Data, sent: &[Sent], tally: &mut Tally, planted: Planted) -> Result<Data, String> {
    let server = round.start(&data, round.setup);
    let mut links = [Client::connect(server.address()), Client::connect_resp3(server.address())];
    play(&mut links, sent, tally)?;
    if matches!(round.way, Way::KillAwaited) {
        links.iter_mut().for_each(await_log);
    }
    // Queued commands are dropped, and connections no longer change anything.
    drop(links);
    let mut client = server.client();
    let image = Image::of(&mut client);
    client.expect("DEBUG LOADAOF", "+OK\r\n");
    Image::of(&mut client).same_as(&image, "after DEBUG LOADAOF")?;
    wait_for_rewriting(&mut client);
    client.expect("DEBUG RELOAD", "+OK\r\n");
    let snapshot = image.clone().in_a_snapshot();
    Image::of(&mut client).in_a_snapshot().same_as(&snapshot, "after DEBUG RELOAD")?;
    let resident = server.resident_bytes();
    if resident > RESIDENT_MAX {
        return Err(format!("{} keys take {resident} bytes", image.len()));
    }
    if matches!(round.way, Way::KillRewritten) {
        rewrite(&mut client);
    }
    if let Planted::InTheServer(change) = planted {
        change(&mut client);
    }
    drop(client);
    let data = match round.way {
        Way::Stop => {
            let (status, data, log) = server.stop();
            if !status.success() {
                return Err(format!("SIGTERM: {status}: {log}"));
            }
            data
        }
        _ => server.kill(),
    };
    if let Planted::InTheFiles(change) = planted {
        change(&data);
    }
    // Reloaded data is rewritten without what a snapshot does not keep.
    let again = Image::of(&mut round.start(&data, round.next).client());
    match round.way {
        Way::KillRewritten => again.in_a_snapshot().same_as(&snapshot, "after the log was rewritten")?,
        _ => again.same_as(&image, "after the restart")?,
    }
    Ok(data)
}

fn play(links: &mut [Client; LINKS], sent: &[Sent], tally: &mut Tally) -> Result<(), String> {
    let mut rest = sent;
    while let Some(first) = rest.first() {
        let together = rest.iter().take(PIPELINE).take_while(|sent| sent.link == first.link).count();
        let (now, later) = rest.split_at(together);
        let client = &mut links[first.link];
        let bytes: Vec<u8> = now.iter().flat_map(|sent| bytes_of(&sent.request)).collect();
        client.send_and_hold(&bytes);
        let replies = client.values_if_open(now.len()).ok_or("the server closed the connection")?;
        for (sent, reply) in now.iter().zip(replies) {
            if !matches!(reply, Value::Error(_)) && reply != Value::Simple(b"QUEUED".to_vec()) {
                *tally.entry(name_of(&sent.request)).or_default() += 1;
            }
        }
        rest = later;
    }
    Ok(())
}

/// Waits until what this connection has written is synced.
fn await_log(client: &mut Client) {
    client.call(&["DISCARD"]);
    wait_until("the log is synced", || match client.value(&["WAITAOF", "1", "0", "1000"]) {
        Value::Array(counts) => counts[0].integer() >= 1,
        other => panic!("WAITAOF replies {other:?}"),
    });
}

fn rewrite(client: &mut Client) {
    let reply = client.value(&["BGREWRITEAOF"]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    wait_for_rewriting(client);
}

fn wait_for_rewriting(client: &mut Client) {
    const IDLE: &str = "aof_rewrite_in_progress:0";
    wait_until("the log is rewritten", || client.value(&["INFO", "persistence"]).text().contains(IDLE));
}

/// The failure with as few requests as still lead to it on a new server.
fn smaller(round: Round, history: Vec<Sent>, reason: String, seed: u64) -> String {
    let (start, mut left, mut found) = (Instant::now(), history.clone(), None);
    let mut fails = |sent: Vec<Sent>, left: &mut Vec<Sent>| {
        let outcome = caught(|| play_round(round, Data::new(), &sent, &mut Tally::new(), Planted::Nothing));
        let Err(reason) = outcome else { return false };
        (*left, found) = (sent, Some(reason));
        true
    };
    // Mostly the last round is sufficient.
    let of_last = history[history.len().saturating_sub(REQUESTS_PER_ROUND + REQUESTS_PER_TURN)..].to_vec();
    if fails(of_last, &mut left) || fails(history, &mut left) {
        without_parts(&mut left, &mut || start.elapsed() > BUDGET, &mut fails);
    } else {
        left.clear();
    }
    let requests: String = left.iter().map(|sent| format!("{}> {}\n", sent.link + 2, shown(&sent.request))).collect();
    match found {
        Some(found) => format!("SEED={seed} {round:?} (2> in RESP2, 3> in RESP3)\n{requests}{found}"),
        None => format!("SEED={seed} {round:?}: not again on a new server\n{reason}"),
    }
}

/// Write commands that need not succeed, and why.
const NOT_AMONG_THEM: &[(&str, &str)] = &[("MIGRATE", "needs another server; tests/wire/migration.rs")];

#[test]
fn random_commands_are_all_there_after_every_restart_and_every_write_is_among_them() {
    const OF_MAKE_TEST: u64 = 20_261_123;
    let seed = seed_or(OF_MAKE_TEST);
    let tally = run(seed, at_least(), Planted::Nothing).unwrap_or_else(|failure| panic!("{failure}"));
    let writes = writes(&Server::start(SETUPS[0], &[]));
    let is_excused = |name: &str| NOT_AMONG_THEM.iter().any(|excuse| excuse.0 == name);
    let missing: Vec<&String> = writes.iter().filter(|name| !tally.contains_key(*name) && !is_excused(name)).collect();
    assert!(missing.is_empty(), "SEED={seed}: none of {missing:?} succeeded");
}

/// The commands that write, according to the table.
fn writes(server: &Server) -> BTreeSet<String> {
    let all = server.client().value(&["COMMAND"]);
    let is_write = |command: &&Value| command.elements()[2].elements().contains(&Value::Simple(b"write".to_vec()));
    all.elements().iter().filter(is_write).map(|command| command.elements()[0].text().to_uppercase()).collect()
}
