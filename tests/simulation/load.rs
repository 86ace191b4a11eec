//! The clients of a world, and what they may observe.
//!
//! | client | what it does | what is checked |
//! |---|---|---|
//! | writer | numbers its operations; each sets some of its keys to its number: one by SET, several by MSET or in MULTI | see `reader` |
//! | copier | reads a key of a writer, then sets its own key to that value | see `reader` |
//! | bank | moves amounts between accounts in MULTI | see `reader` |
//! | mess | anything else, on keys of its own | the digests at the end are the same |
//! | reader | reads all of this in one transaction, on any server | the keys of a writer are a prefix of its operations, no shorter than this reader or WAIT has seen on that server; a copy is no newer than its source; the accounts add up to 0 |
//!
//! When a writer loses its connection, or a request fails, it continues as a new incarnation, with other keys: nobody
//! knows whether the last request took effect.

use super::client::{Client, Lost};
use super::network::Host;
use fastrand::Rng;
use harness::Value;
use shardrace::internals::base::Network;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::sleep;

pub const WRITERS: usize = 2;
const KEYS: usize = 5;
const ACCOUNTS: usize = 4;

/// The facts that all clients share.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Facts>>);

#[derive(Default)]
pub struct Facts {
    pub master: Host,
    /// How often data may have been lost: by a promotion, or by the crash of a master without a log.
    pub era: u64,
    /// How often a replica may have lost something that it has shown. Readers then forget what they have seen.
    rewinds: u64,
    /// How often each server was started.
    pub incarnations: BTreeMap<Host, u64>,
    pub is_over: bool,
    writers: [Writer; WRITERS],
    pub counts: Counts,
    pub violations: Vec<String>,
}

/// What was done, and what was observed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    pub failed: u64,
    pub copies: u64,
    pub transfers: u64,
    pub reads: u64,
    pub waits: u64,
    /// WAITs that all replicas confirmed.
    pub waited: u64,
    /// Reads that were older than what had been acknowledged: replicas lag.
    pub behind: u64,
}

#[derive(Debug, Default, Clone)]
struct Writer {
    /// It is part of the names of its keys.
    incarnation: u64,
    /// For each operation, the keys that it set.
    operations: Vec<u8>,
    acknowledged: usize,
    /// For each server, its incarnation and how many operations WAIT has confirmed there.
    floors: BTreeMap<Host, (u64, usize)>,
}

impl Shared {
    pub fn new(master: Host) -> Self {
        Self(Arc::new(Mutex::new(Facts { master, ..Facts::default() })))
    }

    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap()
    }
}

impl Facts {
    /// Data may be lost from here on.
    pub fn begin_era(&mut self) {
        self.era += 1;
        self.rewind();
        self.writers.iter_mut().for_each(|writer| writer.floors.clear());
    }

    /// Replicas may lose operations that they have shown and that were not acknowledged.
    pub fn rewind(&mut self) {
        self.rewinds += 1;
    }

    fn acknowledge(&mut self, writer: usize, number: usize) {
        self.counts.writes += 1;
        self.writers[writer].acknowledged = number;
    }

    fn violation(&mut self, what: String) {
        self.violations.push(what);
    }
}

fn key_of(writer: usize, incarnation: u64, key: usize) -> String {
    format!("w{writer}.{incarnation}.{key}")
}

fn copy_of(writer: usize, incarnation: u64, key: usize) -> String {
    format!("c{writer}.{incarnation}.{key}")
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// What a client needs.
#[derive(Clone)]
pub struct Tools {
    pub network: Arc<dyn Network>,
    pub shared: Shared,
    pub seed: u64,
    /// The longest pause between two operations of a client.
    pub think_ms: u64,
    /// How many replicas WAIT is asked for; 0 for no WAIT.
    pub replicas: usize,
}

impl Tools {
    fn is_over(&self) -> bool {
        self.shared.facts().is_over
    }

    async fn think(&self, random: &mut Rng) {
        sleep(Duration::from_millis(random.u64(0..=self.think_ms))).await;
    }
}

/// Starts all clients on the current runtime.
pub fn start(tools: &Tools, nodes: &[Host]) {
    let mut random = Rng::with_seed(tools.seed);
    for writer in 0..WRITERS {
        tokio::spawn(write(tools.clone(), writer, random.fork()));
        tokio::spawn(copy(tools.clone(), writer, random.fork()));
    }
    for _ in 0..2 {
        tokio::spawn(transfer(tools.clone(), random.fork()));
        tokio::spawn(mess(tools.clone(), random.fork()));
    }
    for &host in nodes {
        tokio::spawn(read(tools.clone(), host, random.fork()));
        tokio::spawn(read(tools.clone(), host, random.fork()));
    }
}

async fn write(tools: Tools, writer: usize, mut random: Rng) {
    while !tools.is_over() {
        let (host, era) = {
            let mut facts = tools.shared.facts();
            let Writer { incarnation, .. } = facts.writers[writer];
            facts.writers[writer] = Writer { incarnation: incarnation + 1, ..Writer::default() };
            (facts.master, facts.era)
        };
        // The next incarnation begins with other keys.
        let _: Result<(), Lost> = write_to(&tools, writer, host, era, &mut random).await;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Runs numbered operations until one fails, or until another server takes the writes.
async fn write_to(tools: &Tools, writer: usize, host: Host, era: u64, random: &mut Rng) -> Result<(), Lost> {
    let mut client = Client::connect(&tools.network, host).await?;
    loop {
        tools.think(random).await;
        let (number, incarnation, mask) = {
            let mut facts = tools.shared.facts();
            if facts.is_over || facts.master != host || facts.era != era {
                return Ok(());
            }
            let mask = if random.bool() { 1 << random.usize(..KEYS) } else { random.u8(1..1 << KEYS) };
            let state = &mut facts.writers[writer];
            state.operations.push(mask);
            (state.operations.len(), state.incarnation, mask)
        };
        let keys: Vec<String> =
            (0..KEYS).filter(|key| mask >> key & 1 == 1).map(|key| key_of(writer, incarnation, key)).collect();
        let is_done = set(&mut client, &keys, number, random).await;
        if !matches!(is_done, Ok(true)) {
            tools.shared.facts().counts.failed += 1;
            return Err(Lost);
        }
        tools.shared.facts().acknowledge(writer, number);
        if tools.replicas > 0 && random.u8(..8) == 0 {
            wait(tools, &mut client, writer, number, era).await?;
        }
    }
}

async fn set(client: &mut Client, keys: &[String], number: usize, random: &mut Rng) -> Result<bool, Lost> {
    let number = number.to_string();
    if let [key] = keys {
        return Ok(client.call(&["SET", key, &number]).await? == Value::Simple(b"OK".to_vec()));
    }
    if random.bool() {
        let pairs: Vec<&str> = keys.iter().flat_map(|key| [&**key, &*number]).collect();
        let request = [vec!["MSET"], pairs].concat();
        return Ok(client.call(&request).await? == Value::Simple(b"OK".to_vec()));
    }
    let sets = keys.iter().map(|key| words(&format!("SET {key} {number}")));
    let requests: Vec<Vec<String>> = [words("MULTI")].into_iter().chain(sets).chain([words("EXEC")]).collect();
    let replies = client.pipeline(&requests).await?;
    Ok(matches!(replies.last(), Some(Value::Array(_))))
}

/// Asks WAIT; what it confirms must stay visible on the replicas from now on.
async fn wait(tools: &Tools, client: &mut Client, writer: usize, number: usize, era: u64) -> Result<(), Lost> {
    let wanted = tools.replicas.to_string();
    let before = tools.shared.facts().incarnations.clone();
    let reply = client.call(&["WAIT", &wanted, "300"]).await?;
    let mut facts = tools.shared.facts();
    facts.counts.waits += 1;
    let Value::Integer(count) = reply else { return Err(Lost) };
    if count as usize >= tools.replicas && facts.era == era && facts.incarnations == before {
        facts.counts.waited += 1;
        let floors = before.into_iter().map(|(host, incarnation)| (host, (incarnation, number)));
        facts.writers[writer].floors.extend(floors);
    }
    Ok(())
}

/// Copies a writer's value to another key: an effect that depends on another client's.
async fn copy(tools: Tools, writer: usize, mut random: Rng) {
    while !tools.is_over() {
        let host = tools.shared.facts().master;
        let _: Result<(), Lost> = copy_at(&tools, writer, host, &mut random).await;
        sleep(Duration::from_millis(20)).await;
    }
}

async fn copy_at(tools: &Tools, writer: usize, host: Host, random: &mut Rng) -> Result<(), Lost> {
    let mut client = Client::connect(&tools.network, host).await?;
    loop {
        tools.think(random).await;
        let incarnation = {
            let facts = tools.shared.facts();
            if facts.is_over || facts.master != host {
                return Ok(());
            }
            facts.writers[writer].incarnation
        };
        let key = random.usize(..KEYS);
        let Value::Bulk(seen) = client.call(&["GET", &key_of(writer, incarnation, key)]).await? else { continue };
        let seen = String::from_utf8(seen).unwrap();
        match client.call(&["SET", &copy_of(writer, incarnation, key), &seen]).await? {
            Value::Simple(_) => tools.shared.facts().counts.copies += 1,
            _ => return Err(Lost),
        }
    }
}

async fn transfer(tools: Tools, mut random: Rng) {
    while !tools.is_over() {
        let host = tools.shared.facts().master;
        let _: Result<(), Lost> = transfer_at(&tools, host, &mut random).await;
        sleep(Duration::from_millis(20)).await;
    }
}

async fn transfer_at(tools: &Tools, host: Host, random: &mut Rng) -> Result<(), Lost> {
    let mut client = Client::connect(&tools.network, host).await?;
    loop {
        tools.think(random).await;
        if tools.is_over() || tools.shared.facts().master != host {
            return Ok(());
        }
        let (from, to, amount) = (random.usize(..ACCOUNTS), random.usize(..ACCOUNTS), random.u32(1..100));
        let requests = [
            words("MULTI"),
            words(&format!("DECRBY account{from} {amount}")),
            words(&format!("INCRBY account{to} {amount}")),
            words("EXEC"),
        ];
        match client.pipeline(&requests).await?.last() {
            Some(Value::Array(_)) => tools.shared.facts().counts.transfers += 1,
            _ => return Err(Lost),
        }
    }
}

async fn mess(tools: Tools, mut random: Rng) {
    while !tools.is_over() {
        let host = tools.shared.facts().master;
        let _: Result<(), Lost> = mess_at(&tools, host, &mut random).await;
        sleep(Duration::from_millis(20)).await;
    }
}

async fn mess_at(tools: &Tools, host: Host, random: &mut Rng) -> Result<(), Lost> {
    const FORMS: [&str; 31] = [
        "SET m:? !",
        "SET m:? ! PX %",
        "DEL m:? m:!",
        "APPEND m:? x",
        "RPUSH l:? ! %",
        "LPOP l:?",
        "RPOPLPUSH l:? l:!",
        "SADD s:? ! %",
        "SUNIONSTORE s:? s:! s:0",
        "SPOP s:?",
        "HSET h:? ! %",
        "HINCRBYFLOAT h:? ! 0.1",
        "ZADD z:? % !",
        "ZUNIONSTORE z:? 2 z:! z:0",
        "XADD x:? * f !",
        "PEXPIRE h:? %",
        // What the master keeps in time, late replicas keep, too.
        "PEXPIRE m:? %",
        "PEXPIRE l:? % GT",
        "GETEX m:? PX %",
        "GETEX m:? PERSIST",
        "PERSIST m:?",
        "PERSIST h:?",
        "PERSIST l:?",
        "PEXPIRE m:? 100000000",
        "COPY m:? m:! REPLACE",
        "RENAME m:? m:!",
        "EVAL \"redis.call('set',KEYS[1],1,'PX',ARGV[1])return redis.call('persist',KEYS[1])\" 1 m:? %",
        "RENAME l:? l:!",
        "SETRANGE m:? % yy",
        "SETRANGE m:? 2000 !",
        "SET m:? PAD",
    ];
    let mut client = Client::connect(&tools.network, host).await?;
    loop {
        tools.think(random).await;
        if tools.is_over() || tools.shared.facts().master != host {
            return Ok(());
        }
        let requests: Vec<Vec<String>> = (0..random.usize(1..6))
            .map(|_| {
                let form = FORMS[random.usize(..FORMS.len())];
                let form = form.replace('?', &random.u8(..6).to_string()).replace('!', &random.u8(..6).to_string());
                let form = form.replace("PAD", &"p".repeat(random.usize(..3000)));
                words(&form.replace('%', &random.u8(1..200).to_string()))
            })
            .collect();
        client.pipeline(&requests).await?;
    }
}

/// What a reader has seen on a server.
#[derive(Default)]
struct Memory {
    rewinds: u64,
    incarnation: u64,
    /// The writer's incarnation, and how many of its operations the reader has seen.
    seen: [(u64, usize); WRITERS],
}

async fn read(tools: Tools, host: Host, mut random: Rng) {
    let mut memory = Memory::default();
    while !tools.is_over() {
        if let Ok(mut client) = Client::connect(&tools.network, host).await {
            while !tools.is_over() {
                let done = match random.u8(..3) {
                    0 => read_key(&tools, host, &mut client, &mut memory, &mut random).await,
                    _ => read_once(&tools, host, &mut client, &mut memory, &mut random).await,
                };
                if done.is_err() {
                    break;
                }
                tools.think(&mut random).await;
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Reads everything in one transaction, and checks it.
async fn read_once(
    tools: &Tools,
    host: Host,
    client: &mut Client,
    memory: &mut Memory,
    random: &mut Rng,
) -> Result<(), Lost> {
    let (before, rewinds, incarnation) = {
        let facts = tools.shared.facts();
        (facts.writers.clone(), facts.rewinds, facts.incarnations.get(&host).copied().unwrap_or(0))
    };
    let mut keys = Vec::new();
    for (writer, Writer { incarnation, .. }) in before.iter().enumerate() {
        keys.extend((0..KEYS).map(|key| key_of(writer, *incarnation, key)));
        keys.extend((0..KEYS).map(|key| copy_of(writer, *incarnation, key)));
    }
    keys.extend((0..ACCOUNTS).map(|account| format!("account{account}")));
    let Some(values) = numbers_of(client, &keys, random).await? else { return Err(Lost) };
    let mut facts = tools.shared.facts();
    facts.counts.reads += 1;
    if memory.rewinds != rewinds || memory.incarnation != incarnation {
        *memory = Memory { rewinds, incarnation, ..Memory::default() };
    }
    let is_of_one_time = facts.rewinds == rewinds && facts.incarnations.get(&host) == Some(&incarnation);
    let (of_writers, accounts) = values.split_at(2 * KEYS * WRITERS);
    let mut found = Vec::new();
    let sum: i64 = accounts.iter().sum();
    if sum != 0 {
        found.push(format!("the accounts sum up to {sum}: {accounts:?}"));
    }
    for (writer, values) in of_writers.chunks(2 * KEYS).enumerate() {
        let (own, copies) = values.split_at(KEYS);
        if let Some(key) = (0..KEYS).find(|&key| copies[key] > own[key]) {
            found.push(format!("writer {writer}: a copy is newer than key {key}: {copies:?} of {own:?}"));
        }
        let operations = match facts.writers[writer].incarnation == before[writer].incarnation {
            true => &facts.writers[writer].operations,
            // The last one was sent after this was asked; what was seen of those before it is judged.
            false => continue,
        };
        let done = own.iter().copied().max().unwrap_or(0) as usize;
        if let Some(key) = (0..KEYS).find(|&key| last_of(operations, done, key) != own[key]) {
            found.push(format!("writer {writer}: key {key} is not as after {done} operations: {own:?}"));
        }
        if !is_of_one_time {
            continue;
        }
        let (seen_incarnation, seen) = memory.seen[writer];
        if rewinds == 0 && seen_incarnation == before[writer].incarnation && done < seen {
            found.push(format!("writer {writer}: {done} operations, and {seen} were seen before"));
        }
        memory.seen[writer] = (before[writer].incarnation, done);
        if let Some((of, floor)) = before[writer].floors.get(&host)
            && *of == incarnation
            && done < *floor
        {
            found.push(format!("writer {writer}: {done} operations, and WAIT has said that {floor} are here"));
        }
        facts.counts.behind += u64::from(done < before[writer].acknowledged);
    }
    for what in found {
        facts.violation(format!("host {host}: {what}"));
    }
    Ok(())
}

/// Reads one key. Such a read goes to one shard, and takes another way than one over several.
async fn read_key(
    tools: &Tools,
    host: Host,
    client: &mut Client,
    memory: &mut Memory,
    random: &mut Rng,
) -> Result<(), Lost> {
    let (writer, key) = (random.usize(..WRITERS), random.usize(..KEYS));
    let (before, rewinds, server) = {
        let facts = tools.shared.facts();
        (facts.writers[writer].clone(), facts.rewinds, facts.incarnations.get(&host).copied().unwrap_or(0))
    };
    let value = match client.call(&["GET", &key_of(writer, before.incarnation, key)]).await? {
        Value::Bulk(bytes) => std::str::from_utf8(&bytes).unwrap().parse().unwrap(),
        Value::NullBulk => 0i64,
        _ => return Err(Lost),
    };
    let mut facts = tools.shared.facts();
    facts.counts.reads += 1;
    if facts.rewinds != rewinds || facts.incarnations.get(&host) != Some(&server) {
        return Ok(());
    }
    let seen = match memory.seen[writer] {
        (incarnation, seen) if rewinds == 0 && incarnation == before.incarnation && memory.incarnation == server => {
            seen
        }
        _ => 0,
    };
    let floor = before.floors.get(&host).filter(|(of, _)| *of == server).map_or(0, |(_, floor)| *floor);
    for (least, why) in [(seen, "were seen before"), (floor, "are here, WAIT has said")] {
        let least_value = last_of(&before.operations, least, key);
        if value < least_value {
            facts
                .violation(format!("host {host}: writer {writer}: key {key} is {value}, and {least} operations {why}"));
        }
    }
    Ok(())
}

/// The value of a key after this many operations.
fn last_of(operations: &[u8], done: usize, key: usize) -> i64 {
    let is_set = |mask: &u8| mask >> key & 1 == 1;
    operations.iter().take(done).rposition(is_set).map_or(0, |at| at as i64 + 1)
}

async fn numbers_of(client: &mut Client, keys: &[String], random: &mut Rng) -> Result<Option<Vec<i64>>, Lost> {
    let value = if random.bool() {
        let request: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(|key| &**key)).collect();
        client.call(&request).await?
    } else {
        let gets = keys.iter().map(|key| words(&format!("GET {key}")));
        let requests: Vec<Vec<String>> = [words("MULTI")].into_iter().chain(gets).chain([words("EXEC")]).collect();
        client.pipeline(&requests).await?.pop().unwrap()
    };
    let Value::Array(elements) = value else { return Ok(None) };
    let number = |element: &Value| match element {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).unwrap().parse().unwrap(),
        _ => 0,
    };
    Ok(Some(elements.iter().map(number).collect()))
}

/// Returns the acknowledged operations that are missing, if nothing may be lost.
pub async fn missing(tools: Tools, host: Host) -> Result<Option<String>, Lost> {
    let writers = tools.shared.facts().writers.clone();
    let mut client = Client::connect(&tools.network, host).await?;
    for (writer, Writer { incarnation, operations, acknowledged, .. }) in writers.into_iter().enumerate() {
        let keys: Vec<String> = (0..KEYS).map(|key| key_of(writer, incarnation, key)).collect();
        let random = &mut Rng::with_seed(0);
        let own = numbers_of(&mut client, &keys, random).await?.ok_or(Lost)?;
        let done = own.iter().copied().max().unwrap_or(0) as usize;
        if done < acknowledged || (0..KEYS).any(|key| last_of(&operations, done, key) != own[key]) {
            return Ok(Some(format!("writer {writer}: {own:?}, and {acknowledged} operations were acknowledged")));
        }
    }
    Ok(None)
}
