//! Recovery: reading the log back at the start.
//!
//! Each chain is replayed in the layout that wrote it, each segment into a keyspace of its own; where
//! the layout changed, the nodes then move to the keyspaces of the next. What was done over several shards is applied
//! once, when all of their segments have come to it, and given back to a segment that lost it. A torn tail is cut; damage
//! before the end is refused, because what follows it may depend on what is lost.

use super::manifest::{Layout, Manifest};
use super::record::{
    Frame, Header, JointRecord, SEGMENT_HEADER, Salt, decode, decode_header, for_each_effect, frame_joint_onto,
    frame_onto, holds_record, segment_header,
};
use super::segment::{LogThread, Segment, SharedPolicy};
use crate::commands;
use crate::keyspace::{Databases, Effects, Joint, Keyspace};
use crate::resp::{Args, Reply, parse_u64};
use crate::routing::shard_of;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What recovery gives the engine.
pub struct Recovered {
    /// The data, one table per owner.
    pub stores: Vec<Databases>,
    /// Where each owner appends.
    pub segments: Vec<Arc<Segment>>,
    /// What ends the log threads.
    pub threads: Vec<LogThread>,
}

/// Reads the log of `dir` into so many databases, and opens it for `layout` to append to.
pub fn recover(dir: &Path, layout: &Layout, databases: usize, policy: &SharedPolicy) -> Result<Recovered, String> {
    let start = Instant::now();
    std::fs::create_dir_all(dir).map_err(|error| format!("can't create {}: {error}", dir.display()))?;
    let mut manifest = Manifest::read(dir)?;
    let mut totals = Totals::default();
    let mut stores = empty_stores(databases, 1);
    for (number, chain) in manifest.chains() {
        stores = divide(stores, databases, chain.shards);
        replay_chain(dir, *number, &mut stores, &mut totals)?;
    }
    stores = divide(stores, databases, layout.shards);

    let chain = manifest.continue_as(layout);
    let opened = (0..layout.shards).map(|index| open_segment(dir, chain, index, policy));
    let (segments, threads) = opened.collect::<Result<Vec<_>, String>>()?.into_iter().unzip();
    manifest.write(dir).map_err(|error| format!("can't write the manifest of {}: {error}", dir.display()))?;
    if totals.records > 0 || totals.cut > 0 {
        tracing::info!(
            "DB loaded from append only file: {:.3} seconds, {} records, {} keys, {} bytes, {} bytes cut",
            start.elapsed().as_secs_f64(),
            totals.records,
            stores.iter().map(Databases::keys).sum::<usize>(),
            totals.bytes,
            totals.cut,
        );
    }
    Ok(Recovered { stores, segments, threads })
}

#[derive(Debug, Default)]
struct Totals {
    records: u64,
    bytes: u64,
    cut: u64,
}

fn empty_stores(databases: usize, count: usize) -> Vec<Databases> {
    (0..count).map(|index| Databases::of_part(databases, index, count)).collect()
}

/// Moves every node to the owner it has among `shards`.
fn divide(stores: Vec<Databases>, databases: usize, shards: usize) -> Vec<Databases> {
    if stores.len() == shards {
        return stores;
    }
    let mut divided = empty_stores(databases, shards);
    for store in stores {
        for (database, node) in store.into_nodes() {
            let target = &mut divided[shard_of(node.key(), shards)];
            target.insert_node(database, node);
        }
    }
    divided
}

/// Replays the segments of one chain, each into the store of its owner.
///
/// What was done over several shards stands in the segment of each. It is applied, once, when every segment has come to
/// it; a segment that ends before it has lost its copy with its tail, and gets it back.
///
/// It may have lost more with it, on which the rest of the log depends: then an effect that fails is left out, and told.
fn replay_chain(dir: &Path, chain: u32, stores: &mut [Databases], totals: &mut Totals) -> Result<(), String> {
    let paths = (0..stores.len()).map(|index| Manifest::segment_path(dir, chain, index));
    let mut readers = paths.map(SegmentReader::open).collect::<Result<Vec<_>, String>>()?;
    let mut replay = Replay::new();
    loop {
        for (index, reader) in readers.iter_mut().enumerate() {
            reader.replay_own(&mut replay, index, stores, totals)?;
        }
        let Some(waiting) = next_joint(&readers)? else { break };
        let payload = waiting.payload.clone();
        let record = JointRecord::parse(&payload).expect("it has been read before");
        replay.has_gap |= record.shards.iter().any(|&shard| readers[shard].waiting.is_none());
        replay.apply(record.effects, whole(stores)).map_err(|reason| waiting.describe(&reason))?;
        totals.records += 1;
        for &shard in &record.shards {
            readers[shard].pass(record.number, &payload);
        }
    }
    if replay.left_out > 0 {
        tracing::warn!("{} changes depend on what the log has lost, and were left out", replay.left_out);
    }
    readers.into_iter().try_for_each(|reader| reader.finish(totals))
}

/// All stores of a chain as one.
fn whole(stores: &mut [Databases]) -> Joint<'_> {
    Joint::new(stores.len(), stores.iter_mut().enumerate())
}

/// A joint record that some segments stand at, and every other of its shards has come to the end of its segment.
fn next_joint(readers: &[SegmentReader]) -> Result<Option<&Waiting>, String> {
    let standing = || readers.iter().filter_map(|reader| reader.waiting.as_ref());
    let is_next = |waiting: &&Waiting| {
        waiting
            .shards
            .iter()
            .all(|&shard| readers[shard].waiting.as_ref().is_none_or(|other| other.number == waiting.number))
    };
    match standing().find(is_next) {
        Some(waiting) => Ok(Some(waiting)),
        None => match standing().next() {
            Some(stuck) => Err(stuck.describe("stands in another order in another segment")),
            None => Ok(None),
        },
    }
}

/// One segment while it is replayed.
struct SegmentReader {
    path: PathBuf,
    /// Nothing where the file was never made, or was moved away.
    bytes: Vec<u8>,
    /// None where there is no whole header.
    salt: Option<Salt>,
    position: usize,
    /// The joint record that it stands at; none at its end.
    waiting: Option<Waiting>,
    /// Copies of joint records that it has lost, framed.
    lost: Vec<u8>,
}

/// A joint record that waits for every segment to come to it.
struct Waiting {
    path: PathBuf,
    at: usize,
    len: usize,
    number: u64,
    shards: Vec<usize>,
    payload: Vec<u8>,
}

impl Waiting {
    fn describe(&self, reason: &str) -> String {
        describe_record(&self.path, self.at, reason)
    }
}

fn describe_record(path: &Path, at: usize, reason: &str) -> String {
    format!("{}: record at byte {at}: {reason}", path.display())
}

impl SegmentReader {
    fn open(path: PathBuf) -> Result<Self, String> {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            // A crash between the manifest and the first segment leaves files out: they held nothing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(format!("can't read {}: {error}", path.display())),
        };
        let (salt, position) = match decode_header(&bytes) {
            Header::Whole(salt) => (Some(salt), SEGMENT_HEADER),
            Header::Torn => (None, 0),
            Header::Foreign => return Err(format!("{}: its header is damaged or of another format", path.display())),
        };
        Ok(Self { path, bytes, salt, position, waiting: None, lost: Vec::new() })
    }

    /// Replays what this shard did alone, up to a joint record or the end.
    fn replay_own(
        &mut self,
        replay: &mut Replay,
        index: usize,
        stores: &mut [Databases],
        totals: &mut Totals,
    ) -> Result<(), String> {
        let Some(salt) = self.salt else { return Ok(()) };
        while self.waiting.is_none() {
            match decode(&self.bytes[self.position..], salt) {
                Frame::Record(payload, len) => {
                    replay.has_gap |= payload == GAP;
                    let store = Joint::new(stores.len(), [(index, &mut stores_at(stores, index)[0])]);
                    replay
                        .apply(payload, store)
                        .map_err(|reason| describe_record(&self.path, self.position, &reason))?;
                    totals.records += 1;
                    totals.bytes += len as u64;
                    self.position += len;
                }
                Frame::Joint(payload, len) => self.waiting = Some(self.joint(payload, len, stores.len())?),
                Frame::Broken if holds_record(&self.bytes[self.position..], salt) => {
                    return Err(format!(
                        "{}: the record at byte {} is damaged and is not the last one. Refusing to start with a part \
                         of the data; move the file away to start without it",
                        self.path.display(),
                        self.position,
                    ));
                }
                Frame::End | Frame::Broken => break,
            }
        }
        Ok(())
    }

    fn joint(&self, payload: &[u8], len: usize, shards: usize) -> Result<Waiting, String> {
        let record = JointRecord::parse(payload).filter(|record| record.shards.iter().all(|&shard| shard < shards));
        let record = record
            .ok_or_else(|| describe_record(&self.path, self.position, "is no record of shards that there are"))?;
        let (path, payload) = (self.path.clone(), payload.to_vec());
        Ok(Waiting { path, at: self.position, len, number: record.number, shards: record.shards, payload })
    }

    /// Goes on behind a joint record that was applied, or notes that it was lost here.
    fn pass(&mut self, number: u64, payload: &[u8]) {
        match self.waiting.take_if(|waiting| waiting.number == number) {
            Some(waiting) => self.position += waiting.len,
            None => {
                // A segment without a header, or that was moved away, begins with its first joint record.
                let is_first = self.lost.is_empty();
                let salt = *self.salt.get_or_insert_with(|| {
                    let salt = Salt(fastrand::u32(..));
                    self.lost.extend_from_slice(&segment_header(salt));
                    salt
                });
                if is_first {
                    frame_onto(&mut self.lost, salt, GAP);
                }
                frame_joint_onto(&mut self.lost, salt, payload);
            }
        }
    }

    /// Cuts off a torn tail, and writes what was lost and restored.
    fn finish(self, totals: &mut Totals) -> Result<(), String> {
        let whole = self.position;
        let cut = self.bytes.len() - whole;
        if cut > 0 {
            totals.cut += cut as u64;
            tracing::warn!("{}: the last {cut} bytes are no whole record; cut at {whole}", self.path.display());
        }
        if cut == 0 && self.lost.is_empty() {
            return Ok(());
        }
        self.mend().map_err(|error| format!("can't mend {}: {error}", self.path.display()))
    }

    fn mend(&self) -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.set_len(self.position as u64)?;
        file.write_all(&self.lost)?;
        file.sync_all()?;
        let dir = self.path.parent().expect("a segment stands in a directory");
        File::open(dir)?.sync_all()
    }
}

fn stores_at(stores: &mut [Databases], index: usize) -> &mut [Databases] {
    &mut stores[index..=index]
}

/// Runs logged effects over keyspaces in which nothing expires: expiry is in the log.
struct Replay {
    spans: Vec<crate::resp::Span>,
    replies: Vec<u8>,
    /// Whether something is missing on which what is replayed may depend.
    has_gap: bool,
    /// Effects that failed for it.
    left_out: u64,
}

/// The payload of a record that changes nothing. It stands where a segment lost its tail and got a joint record back, so
/// that every later start replays it as the first did.
const GAP: &[u8] = b"";

impl Replay {
    fn new() -> Self {
        Self { spans: Vec::new(), replies: Vec::new(), has_gap: false, left_out: 0 }
    }

    fn apply(&mut self, effects: &[u8], store: Joint<'_>) -> Result<(), String> {
        let Self { spans, replies, has_gap, left_out } = self;
        // The clock stands at 0 and no effect is random: the same log gives the same state on any day.
        let mut keyspace = Keyspace::new(store, 0, fastrand::Rng::with_seed(0), Effects::new(false));
        keyspace.select(0);
        let mut outcome = Ok(());
        for_each_effect(effects, spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            if outcome.is_err() {
                return;
            }
            outcome = match apply_effect(&mut keyspace, args, replies) {
                Err(Misfit::Failed(_)) if *has_gap => {
                    *left_out += 1;
                    Ok(())
                }
                Err(Misfit::Failed(reason) | Misfit::Foreign(reason)) => Err(reason),
                Ok(()) => Ok(()),
            };
        })
        .ok_or("is no list of effects")?;
        outcome
    }
}

/// Why an effect was not applied.
enum Misfit {
    /// It is none.
    Foreign(String),
    /// The data is not what it was applied to first.
    Failed(String),
}

fn apply_effect(keyspace: &mut Keyspace<Joint<'_>>, args: Args<'_>, replies: &mut Vec<u8>) -> Result<(), Misfit> {
    let name = args.get(0).ok_or_else(|| Misfit::Foreign("holds an effect without a command".into()))?;
    if name == b"SELECT" {
        return select(keyspace, args).map_err(Misfit::Foreign);
    }
    let found = commands::find_of(args).map_err(|error| Misfit::Foreign(error.to_string()))?;
    let id = found.filter(|id| commands::command(*id).is_write());
    let id = id.filter(|id| commands::command(*id).accepts(args.len()));
    let describe = || Misfit::Foreign(format!("holds an effect that is no write: {}", String::from_utf8_lossy(name)));
    let id = id.ok_or_else(describe)?;
    replies.clear();
    commands::execute(id, keyspace, args, &mut Reply::new(replies, false));
    match replies.first() {
        Some(b'-') => Err(Misfit::Failed(format!("fails on replay: {}", String::from_utf8_lossy(replies).trim_end()))),
        _ => Ok(()),
    }
}

/// What follows concerns another database.
fn select(keyspace: &mut Keyspace<Joint<'_>>, args: Args<'_>) -> Result<(), String> {
    let number = args.get(1).and_then(parse_u64).ok_or("selects no database")?;
    if number >= keyspace.databases() as u64 {
        return Err(format!("is of database {number}; `databases` allows for {} only", keyspace.databases()));
    }
    keyspace.select(number as usize);
    Ok(())
}

fn open_segment(
    dir: &Path,
    chain: u32,
    index: usize,
    policy: &SharedPolicy,
) -> Result<(Arc<Segment>, LogThread), String> {
    let path = Manifest::segment_path(dir, chain, index);
    let describe = |error: std::io::Error| format!("can't open {} to append: {error}", path.display());
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(describe)?;
    let mut len = file.seek(std::io::SeekFrom::End(0)).map_err(describe)?;
    let salt = if len == 0 {
        let salt = Salt(fastrand::u32(..));
        file.write_all(&segment_header(salt)).and_then(|()| file.sync_all()).map_err(describe)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(describe)?;
        len = SEGMENT_HEADER as u64;
        salt
    } else {
        let mut header = [0; SEGMENT_HEADER];
        file.rewind().and_then(|()| file.read_exact(&mut header)).map_err(describe)?;
        match decode_header(&header) {
            Header::Whole(salt) => salt,
            Header::Torn | Header::Foreign => unreachable!("recovery reads the header of every segment first"),
        }
    };
    Ok(Segment::start(path, file, len, salt, policy.clone()))
}
