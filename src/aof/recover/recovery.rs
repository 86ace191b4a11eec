//! Recovery: reads the log at the start.
//!
//! Each chain is replayed in the layout that wrote it, each segment into a keyspace of its own; where the layout
//! changed, the nodes then move to the keyspaces of the next. A change over several shards is applied once, when all of
//! their segments have reached it, and restored in a segment that lost it with its tail. A torn tail is cut; damage
//! before the end is refused, because the records after it may depend on lost ones. Where power may have been lost, the
//! segments of a chain are cut at the last epoch that all of them have: the result is a state that existed.
//!
//! Segments are read and scanned in parallel. The records of single shards are replayed in parallel, too, as long as
//! several shards have much of that before their next transaction. With more threads than segments, the keys of each
//! segment are divided among several owners, which replay it side by side: see `partitions`.

use super::partitions::owners;
use super::progress::Progress;
use super::replay::{Replay, Unfit};
use super::segment_replay::{PARALLEL_MIN, SegmentReader, Tail, Totals, Waiting};
use crate::aof::disk::Disk;
use crate::aof::format::{
    Chain, ControlRecord, CrossShardRecord, FsyncPolicy, Known, Layout, LogicalSegment, Manifest, Participant, Salt,
    Scan, consistent_cut, frame_control_onto, orphans, segment_header, write_buffer,
};
use crate::aof::write::{LogControl, LogThread, Opened, PendingCommits, Segment, append_buffered};
use crate::base::parallel::{in_parallel, waiting_in_parallel};
use crate::base::routing::shard_of;
use crate::commands::Services;
use crate::keyspace::{Databases, Instance, MultiShardView, Settings, StreamPlace};
use crate::rdb::undump_functions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Where a log is, and the layout it gets.
#[derive(Debug)]
pub struct Log<'a> {
    /// The disk of its files.
    pub disk: &'a dyn Disk,
    /// Their directory.
    pub dir: &'a Path,
    /// How the data is divided from now on.
    pub layout: Layout,
    /// How many databases there are.
    pub databases: usize,
    /// How many threads replay.
    pub threads: usize,
    /// The current boot of the operating system; empty if it is not known.
    pub boot: String,
    /// Unix time in milliseconds.
    pub now_ms: u64,
    /// The control that its segments share.
    pub control: LogControl,
    /// The server that owns the data.
    pub instance: Arc<Instance>,
}

/// The result of recovery, for the engine.
pub struct Recovered {
    /// The data, one table per owner.
    pub stores: Vec<Databases>,
    /// The segment that each owner appends to.
    pub segments: Vec<Arc<Segment>>,
    /// Transactions over several segments.
    pub pending_commits: Arc<PendingCommits>,
    /// The log threads, to be ended.
    pub threads: Vec<LogThread>,
    /// The manifest of the log.
    pub manifest: Manifest,
    /// The position of the data in the stream of a master, if the log has one.
    pub place: Option<StreamPlace>,
}

/// A part of a record that cannot be replayed and was skipped.
#[derive(Debug)]
pub struct PassedOver {
    /// Which chain of the log; the oldest is 0.
    pub chain: usize,
    /// Which record of the chain.
    pub record: RecordName,
    /// The file that the record is in, or one of them.
    pub path: PathBuf,
    /// The position of the record's first byte there.
    pub at: usize,
    /// Which of its effects, and why.
    pub unfit: Unfit,
}

/// Identifies a record within a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordName {
    /// A record of one segment, by its position in the files joined.
    Own(usize, usize),
    /// A record of several segments, by its number.
    CrossShard(u64),
}

/// Reads the log, and opens it for appending.
pub fn recover(log: &Log<'_>) -> Result<Recovered, String> {
    let Log { disk, dir, .. } = *log;
    disk.make_dir(dir).map_err(|error| format!("can't create {}: {error}", dir.display()))?;
    let manifest = Manifest::read(disk, dir)?;
    let had_chains = !manifest.chains().is_empty();
    if !manifest.may_have_lost_power(&log.boot) {
        write_buffer::must_be_whole(disk, dir, &manifest)?;
    }
    let begun = begin(log, manifest, None)?;
    let manifest = &begun.manifest;
    load_functions(log, manifest)?;
    manifest.write(disk, dir).map_err(|error| format!("can't write the manifest of {}: {error}", dir.display()))?;
    if had_chains {
        orphans::remove(disk, dir, manifest);
    }
    begun.start(log)
}

/// Reads a log on a disk that takes no changes; nothing is appended to it, so it gets no threads. Effects that cannot
/// be replayed are skipped and recorded in `passed_over` if it is given; otherwise the log is refused.
pub fn rehearse_noting(log: &Log<'_>, passed_over: Option<&mut Vec<PassedOver>>) -> Result<Vec<Databases>, String> {
    let begun = begin(log, Manifest::read(log.disk, log.dir)?, passed_over)?;
    load_functions(log, &begun.manifest)?;
    begun.report();
    Ok(begun.stores)
}

/// Loads the libraries of functions that a manifest names.
fn load_functions(log: &Log<'_>, manifest: &Manifest) -> Result<(), String> {
    let Log { disk, dir, .. } = *log;
    let Some(path) = manifest.functions(dir) else { return Ok(()) };
    let describe =
        |reason: &str| format!("{}: {reason}. Refusing to start without the functions in it", path.display());
    let payload = disk.read(&path).map_err(|error| describe(&error.to_string()))?;
    let payload = payload.ok_or_else(|| describe("the manifest names it, and it is not there"))?;
    let sources = undump_functions(&payload, &Settings::default()).map_err(describe)?;
    Services::of(&log.instance)
        .scripting
        .load_functions(sources.iter().map(AsRef::as_ref))
        .map_err(|reason| describe(&reason))
}

/// Begins a log that no manifest names yet.
pub(super) fn recover_unnamed(log: &Log<'_>) -> Result<Recovered, String> {
    begin(log, Manifest::default(), None)?.start(log)
}

/// A log whose files, as the manifest names them, are all on the disk.
struct Begun {
    stores: Vec<Databases>,
    opened: Vec<Opened>,
    manifest: Manifest,
    totals: Totals,
    since: Instant,
}

fn begin(
    log: &Log<'_>,
    mut manifest: Manifest,
    mut passed_over: Option<&mut Vec<PassedOver>>,
) -> Result<Begun, String> {
    let since = Instant::now();
    let Log { disk, dir, .. } = *log;
    orphans::must_be_known(disk, dir, &manifest, None)?;
    let may_have_lost_power = manifest.may_have_lost_power(&log.boot);
    write_buffer::settle(disk, dir, &manifest)?;
    let mut totals = Totals::default();
    let mut stores = empty_stores(log, 1);
    let last = manifest.chains().len().saturating_sub(1);
    let mut tails = Vec::new();
    for (index, chain) in manifest.chains().to_vec().iter().enumerate() {
        stores = divide(stores, log, chain.layout.shards);
        // Every chain but the last was on the disk before the next began.
        let may_have_lost_power = may_have_lost_power && index == last;
        let passed = passed_over.is_some().then(Vec::new);
        let mut replay = ChainReplay { log, chain, may_have_lost_power, was_always: false, index, passed };
        (stores, tails) = replay.run(stores, &mut totals)?;
        if let (Some(all), Some(of_chain)) = (passed_over.as_deref_mut(), replay.passed) {
            all.extend(of_chain);
        }
        let known = tails.iter().map(|tail: &Tail| Known { salt: tail.salt, len: tail.len as u64 });
        manifest.note_known(index, known.collect());
    }
    stores = divide(stores, log, log.layout.shards);

    log.control.begin_epochs_after(totals.epoch);
    let epoch = log.control.next_epoch(log.now_ms);
    let mut tails: Vec<Option<Tail>> = tails.into_iter().map(Some).collect();
    if manifest.chains().last().is_none_or(|last| last.layout != log.layout) {
        manifest.chains().last().map_or(Ok(()), |last| sync_chain(log, last))?;
        tails = vec![None; log.layout.shards];
    }
    let chain = manifest.continue_as(&log.layout).clone();
    manifest.boot = log.boot.clone();
    // Drawn in order, for a seed to determine them; the segments are opened in any.
    let salt_of = |tail: Option<Tail>| tail.map_or_else(|| Salt::draw(&log.instance.randomness), |tail| tail.salt);
    let ends = tails.into_iter().map(|tail| (salt_of(tail), tail)).enumerate().collect();
    let opened = waiting_in_parallel(ends, |(index, (salt, tail))| open_segment(log, &chain, index, salt, tail, epoch));
    let opened = opened.into_iter().collect::<Result<Vec<_>, String>>()?;
    disk.sync_dir(dir).map_err(|error| format!("can't sync {}: {error}", dir.display()))?;
    let known = opened.iter().map(|opened| Known { salt: opened.salt, len: opened.len });
    manifest.note_known(manifest.chains().len() - 1, known.collect());
    Ok(Begun { stores, opened, manifest, totals, since })
}

impl Begun {
    /// Starts the log threads.
    fn start(self, log: &Log<'_>) -> Result<Recovered, String> {
        self.report();
        let Self { stores, opened, manifest, totals, .. } = self;
        let pending_commits = Arc::new(PendingCommits::default());
        let started =
            opened.into_iter().map(|opened| Segment::start(opened, log.control.clone(), Arc::clone(&pending_commits)));
        let (segments, threads): (Vec<_>, Vec<_>) = started.collect::<Result<_, _>>()?;
        pending_commits.begin(&segments);
        // If data is missing, it is not the state at any position.
        let place = totals.place.filter(|_| !totals.has_gap && totals.left_out == 0);
        Ok(Recovered { stores, segments, pending_commits, threads, manifest, place })
    }

    /// Logs what was read.
    fn report(&self) {
        let Self { stores, totals, since, .. } = self;
        if totals.left_out > 0 {
            tracing::warn!("{} changes depend on what the log has lost, and were left out", totals.left_out);
        }
        if totals.records > 0 || totals.cut > 0 {
            tracing::info!(
                "DB loaded from append only file: {:.3} seconds, {} records, {} keys, {} bytes, {} bytes cut",
                since.elapsed().as_secs_f64(),
                totals.records,
                stores.iter().map(Databases::keys).sum::<usize>(),
                totals.bytes,
                totals.cut,
            );
        }
    }
}

/// Syncs a chain that ends here. It gets no more appends, so no later fsync would cover what a kill has left in the
/// operating system's hands, while the records after it depend on it.
fn sync_chain(log: &Log<'_>, chain: &Chain) -> Result<(), String> {
    let synced = waiting_in_parallel((0..chain.layout.shards).collect(), |index| {
        chain.files(log.dir, index).all().try_for_each(|path| {
            let sync = log.disk.append_to(path).and_then(|file| file.sync());
            sync.map_err(|error| format!("can't sync {}: {error}", path.display()))
        })
    });
    synced.into_iter().collect()
}

fn empty_stores(log: &Log<'_>, count: usize) -> Vec<Databases> {
    (0..count).map(|index| Databases::of_shard(&log.instance, log.databases, index, count)).collect()
}

/// Moves every node to its owner among `shards`.
fn divide(stores: Vec<Databases>, log: &Log<'_>, shards: usize) -> Vec<Databases> {
    if stores.len() == shards {
        return stores;
    }
    let mut divided = empty_stores(log, shards);
    for store in stores {
        for (database, node) in store.into_nodes() {
            let target = &mut divided[shard_of(node.key(), shards)];
            target.insert_node(database, node);
        }
    }
    divided
}

/// The replay of the segments that one layout wrote.
struct ChainReplay<'a> {
    log: &'a Log<'a>,
    chain: &'a Chain,
    may_have_lost_power: bool,
    /// Whether the last epoch was under `appendfsync always`, where a kill may tear what was not acknowledged.
    was_always: bool,
    /// Its index among the chains of the log.
    index: usize,
    /// The skipped effects, if skipping is allowed.
    passed: Option<Vec<PassedOver>>,
}

impl ChainReplay<'_> {
    /// Replays the segments, each into the store of its owner.
    ///
    /// A change over several shards is in the segment of each. It is applied once, when every segment has reached it; a
    /// segment that ends before it has lost its copy with its tail.
    fn run(&mut self, stores: Vec<Databases>, totals: &mut Totals) -> Result<(Vec<Databases>, Vec<Tail>), String> {
        let shards = stores.len();
        let mut readers = self.open(shards)?;
        let owners = owners(self.log.threads, shards);
        let mut partitions: Vec<Databases> = stores.into_iter().flat_map(|store| store.split(owners)).collect();
        let total = readers.iter().map(|reader| reader.end as u64).sum();
        let name = format!("chain {} of the append only file", self.chain.number);
        let progress = Progress::new(name, total, &self.log.control);
        let mut replay = Replay::new();
        replay.has_gap = totals.has_gap;
        replay.passes_over = self.passed.is_some();
        readers.iter_mut().for_each(|reader| reader.replay.passes_over = replay.passes_over);
        loop {
            readers.iter_mut().for_each(|reader| reader.replay.has_gap |= replay.has_gap);
            replay_own_records(&mut readers, &mut partitions, &progress)?;
            replay.has_gap |= readers.iter().any(|reader| reader.replay.has_gap);
            let Some(waiting) = next_cross_shard(&readers)? else { break };
            let payload = waiting.payload.clone();
            let record = CrossShardRecord::parse(&payload).expect("it has been read before");
            if lost_what_it_saw(&readers, &record) && self.may_be_torn() {
                record.participants.iter().for_each(|&(shard, _)| readers[shard].end_before(record.number));
                continue;
            }
            replay.has_gap |= lost_what_it_saw(&readers, &record);
            let whole = MultiShardView::of_divided(shards, owners, partitions.iter_mut().enumerate());
            replay.apply(record.effects, whole, None).map_err(|refusal| waiting.describe_refusal(&refusal))?;
            if let Some(passed) = &mut self.passed {
                let (chain, record) = (self.index, RecordName::CrossShard(record.number));
                passed.extend(replay.unfit.drain(..).map(|unfit| {
                    let (path, at) = waiting.place();
                    PassedOver { chain, record, path, at, unfit }
                }));
            }
            totals.records += 1;
            let has_gap = replay.has_gap;
            record.participants.iter().for_each(|&(shard, _)| readers[shard].pass(record.number, &payload, has_gap));
        }
        let chain = self.index;
        if let Some(passed) = &mut self.passed {
            passed.extend(readers.iter().enumerate().flat_map(|(segment, reader)| {
                reader.unfit().map(move |(position, (path, at), unfit)| {
                    let record = RecordName::Own(segment, position);
                    PassedOver { chain, record, path, at, unfit: unfit.clone() }
                })
            }));
        }
        let places = readers.iter().map(|reader| &reader.replay).chain([&replay]).filter_map(Replay::place);
        totals.place = places.fold(totals.place.take(), |place, told| Some(told.later(place)));
        totals.has_gap = replay.has_gap;
        totals.left_out += replay.left_out + readers.iter().map(|reader| reader.replay.left_out).sum::<u64>();
        let tails = readers.into_iter().map(|reader| reader.finish(self.log.disk, totals));
        Ok((united(partitions, owners), tails.collect::<Result<_, _>>()?))
    }

    /// Whether a crash may have left some segments without records that others depend on: no client has seen those.
    /// Otherwise a part of the log was removed, and the rest is restored as far as possible.
    fn may_be_torn(&self) -> bool {
        self.may_have_lost_power || self.was_always
    }

    fn open(&mut self, count: usize) -> Result<Vec<SegmentReader>, String> {
        let files = (0..count).map(|index| self.chain.files(self.log.dir, index));
        let readers =
            in_parallel(files.collect(), |files| LogicalSegment::read(self.log.disk, &files).map(SegmentReader::new));
        let mut readers = readers.into_iter().collect::<Result<Vec<_>, String>>()?;
        let damaged = readers.iter().find(|reader| reader.scan().is_damaged(self.may_have_lost_power));
        if let Some(reader) = damaged {
            return Err(reader.describe_damage());
        }
        let last_policies = readers.iter().filter_map(|reader| reader.scan().epochs.last());
        self.was_always = { last_policies }.any(|(_, policy, _)| *policy == FsyncPolicy::Always);
        if self.may_have_lost_power {
            let scans: Vec<Scan> = readers.iter().map(|reader| reader.scan().clone()).collect();
            let cuts = consistent_cut(&scans).into_iter().flatten();
            readers.iter_mut().zip(cuts).for_each(|(reader, cut)| reader.end = cut);
        }
        Ok(readers)
    }
}

/// Replays what every shard did alone, up to its next cross-shard record or its end. `partitions` are the stores of
/// the owners of every shard.
fn replay_own_records(
    readers: &mut [SegmentReader],
    partitions: &mut [Databases],
    progress: &Progress,
) -> Result<(), String> {
    let shards = readers.len();
    let owners = partitions.len() / shards;
    let big = readers.iter().filter(|reader| reader.len_to_cross_shard() >= PARALLEL_MIN).count();
    let mut jobs = readers.iter_mut().zip(partitions.chunks_mut(owners)).enumerate();
    let replay = |(index, (reader, partitions)): (usize, (&mut SegmentReader, &mut [Databases]))| {
        reader.replay_own((index, shards), partitions, progress)
    };
    if big < 2 {
        return jobs.try_for_each(replay);
    }
    in_parallel(jobs.collect(), replay).into_iter().collect()
}

/// Joins the stores of the owners of each shard.
fn united(partitions: Vec<Databases>, owners: usize) -> Vec<Databases> {
    let mut stores: Vec<Databases> = Vec::with_capacity(partitions.len() / owners);
    for (index, partition) in partitions.into_iter().enumerate() {
        match stores.last_mut().filter(|_| !index.is_multiple_of(owners)) {
            Some(store) => store.unite(partition),
            None => stores.push(partition),
        }
    }
    stores
}

/// Whether a shard has lost more than its copy of a cross-shard record: records that the transaction may have seen.
fn lost_what_it_saw(readers: &[SegmentReader], record: &CrossShardRecord<'_>) -> bool {
    let has_lost = |&(shard, records): &Participant| {
        let reader = &readers[shard];
        reader.waiting.is_none() && reader.records() < records
    };
    record.participants.iter().any(has_lost)
}

/// A cross-shard record that some segments have reached, while the segments of all its other shards are at their ends.
fn next_cross_shard(readers: &[SegmentReader]) -> Result<Option<&Waiting>, String> {
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

/// Opens a segment for appending, with a new epoch at its end and all of it on the disk.
fn open_segment(
    log: &Log<'_>,
    chain: &Chain,
    index: usize,
    salt: Salt,
    tail: Option<Tail>,
    epoch: u64,
) -> Result<Opened, String> {
    let path = Chain::increment_path(log.dir, chain.number, index, chain.last);
    let describe = |error: std::io::Error| format!("can't open {} to append: {error}", path.display());
    let mut file = log.disk.append_to(&path).map_err(describe)?;
    let mut start = Vec::new();
    let Tail { len, before, base, records, .. } = tail.unwrap_or(Tail { salt, len: 0, before: 0, base: 0, records: 0 });
    if tail.is_none() {
        // An interrupted start may have left bytes here, which are no data.
        log.disk.cut(&path, 0).map_err(describe)?;
        file = log.disk.append_to(&path).map_err(describe)?;
        start.extend_from_slice(&segment_header(salt));
    }
    frame_control_onto(&mut start, salt, ControlRecord::Epoch(epoch, log.control.policy()));
    file.write_all(&start).and_then(|()| file.sync()).map_err(describe)?;
    let file = append_buffered(log.disk, &path, salt).map_err(describe)?;
    let (len, before, base) = ((len + start.len()) as u64, before as u64, base as u64);
    Ok(Opened { path: path.clone(), file, len, before, base, salt, records })
}
