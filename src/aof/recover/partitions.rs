//! Replays the records of one segment by several owners side by side.
//!
//! The keys of the segment are divided among the owners by their hashes, as the table is into segments, so that the
//! owners' tables are joined without looking at a key. Every owner goes through all records and applies the effects on
//! its own keys, in the order of the log. Skipping another owner's record costs a tenth of applying it, so no thread
//! sorts records and no queue carries them.
//!
//! All owners stop at effects that concern keys of several owners, or no key; each finds the same position. That record
//! is applied over all of them, and they continue after it.

use super::progress::Progress;
use super::replay::{Concern, Refusal, Replay, Share, Unfit};
use crate::aof::format::{ControlRecord, Frame, decode_again};
use crate::base::parallel::in_parallel;
use crate::keyspace::{Databases, MultiShardView};

/// More owners would mostly skip the records of others.
const OWNERS_MAX: usize = 16;
/// Bytes replayed between two progress updates.
const PROGRESS_STEP: usize = 1 << 18;

/// How many owners each of `shards` segments is divided among, so that this many threads have work.
pub fn owners(threads: usize, shards: usize) -> usize {
    (threads / shards).clamp(1, OWNERS_MAX)
}

/// How far a segment has been replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Where the next record is.
    pub position: usize,
    /// How many records precede it.
    pub records: u64,
    /// How many records were replayed.
    pub replayed: u64,
    /// The last epoch.
    pub epoch: u64,
}

impl Cursor {
    /// Moves on after a record that one shard has alone.
    pub fn pass_record(&mut self, len: usize) {
        self.position += len;
        self.records += 1;
        self.replayed += 1;
    }

    /// Moves on after a control record.
    pub fn pass_control(&mut self, record: ControlRecord, len: usize) {
        self.position += len;
        match record {
            ControlRecord::Epoch(epoch, _) => self.epoch = self.epoch.max(epoch),
            // The records of the base were counted as keys.
            ControlRecord::Base(records) => self.records = records,
            ControlRecord::Synced(_) | ControlRecord::GoesOn(_) => {}
        }
    }
}

/// One segment of a chain, to be replayed.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Whole records, up to where the segment is cut.
    pub bytes: &'a [u8],
    /// Its shard, out of how many.
    pub shard: (usize, usize),
    /// Receives the progress.
    pub progress: &'a Progress,
}

/// Where a record that cannot be replayed is, and why.
pub type Fault = (usize, Refusal);

/// What was replayed.
#[derive(Debug)]
pub struct Done {
    /// Where it stopped.
    pub at: Cursor,
    /// How many changes were left out.
    pub left_out: u64,
    /// The skipped effects, with the positions of their records, in order.
    pub unfit: Vec<(usize, Unfit)>,
}

/// Replays, side by side, what `partitions` (the stores of the owners) can replay, starting at `from` and as strictly
/// as `like`.
pub fn replay(run: Run<'_>, from: Cursor, like: &Replay, partitions: &mut [Databases]) -> Result<Done, Fault> {
    let owners = partitions.len();
    let owned = partitions.iter_mut().enumerate().collect();
    let stops =
        in_parallel(owned, |(owner, store)| replay_share(run, from, like.for_share(), Share { owner, owners }, store));
    // The first of several faults, as if one owner had replayed everything.
    let fault = stops.iter().filter_map(|stop| stop.as_ref().err()).min_by_key(|(position, _)| *position);
    if let Some(fault) = fault {
        return Err(fault.clone());
    }
    let stops: Vec<Done> = stops.into_iter().flatten().collect();
    let at = stops[0].at;
    let are_agreed = stops.iter().all(|stop| stop.at == at) || run.progress.is_given_up();
    assert!(are_agreed, "all owners stop at the same record: {stops:?}");
    let left_out = stops.iter().map(|stop| stop.left_out).sum();
    let mut unfit: Vec<(usize, Unfit)> = stops.into_iter().flat_map(|stop| stop.unfit).collect();
    unfit.sort();
    Ok(Done { at, left_out, unfit })
}

/// The work of one owner.
fn replay_share(
    run: Run<'_>,
    from: Cursor,
    mut replay: Replay,
    share: Share,
    store: &mut Databases,
) -> Result<Done, Fault> {
    let (shard, shards) = run.shard;
    let index = shard * share.owners + share.owner;
    let mut unfit = Vec::new();
    let mut at = from;
    let mut steps = Steps::new(from.position);
    while !run.progress.is_given_up() {
        match decode_again(&run.bytes[at.position..]) {
            Frame::Record(payload, len) => {
                let concern = replay.concern(payload, share);
                if concern == Concern::Together {
                    break;
                }
                if concern != Concern::None {
                    let lent = MultiShardView::of_divided(shards, share.owners, [(index, &mut *store)]);
                    let own = (concern == Concern::Some).then_some(share);
                    replay.apply(payload, lent, own).map_err(|refusal| (at.position, refusal))?;
                    unfit.extend(replay.unfit.drain(..).map(|unfit| (at.position, unfit)));
                }
                at.pass_record(len);
            }
            Frame::Control(record, len) => at.pass_control(record, len),
            Frame::CrossShard(..) | Frame::End => break,
            Frame::Broken => unreachable!("a segment is replayed up to the end of its whole records"),
        }
        // One owner reports for all: they are about equally far.
        if share.owner == 0 {
            steps.report(at.position, run.progress);
        }
    }
    if share.owner == 0 {
        steps.end(at.position, run.progress);
    }
    Ok(Done { at, left_out: replay.left_out, unfit })
}

/// Reports replayed bytes, many at a time.
#[derive(Debug)]
pub struct Steps {
    reported: usize,
}

impl Steps {
    /// Starts at this position.
    pub fn new(position: usize) -> Self {
        Self { reported: position }
    }

    /// Reports progress, if there is enough of it.
    pub fn report(&mut self, position: usize, progress: &Progress) {
        if position - self.reported >= PROGRESS_STEP {
            self.end(position, progress);
        }
    }

    /// Reports the rest.
    pub fn end(&mut self, position: usize, progress: &Progress) {
        progress.add((position - self.reported) as u64);
        self.reported = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::format::{FsyncPolicy, Salt, frame_control_onto, frame_onto};
    use crate::aof::write::LogControl;
    use crate::keyspace::{Effects, NodeTable, Table, hash_of};

    const SALT: Salt = Salt(5);
    const OWNERS: usize = 3;

    fn record(log: &mut Vec<u8>, commands: &[&str]) {
        let mut effects = Effects::new(true);
        commands.iter().for_each(|command| effects.add(command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        frame_onto(log, SALT, effects.payload());
    }

    #[test]
    fn owners_replay_their_own_keys_and_stop_where_several_are_concerned() {
        for stop in ["MSET a 1 <far> 2", "RENAME a <far>", "FLUSHALL", "SWAPDB 0 1", "MOVE a 1", "COPY a a DB 1"] {
            // The keys are divided differently in every process.
            let owner_of = |key: &str| NodeTable::owner_of(hash_of(key.as_bytes()), OWNERS);
            let far = (0..).map(|number| format!("far:{number}")).find(|key| owner_of(key) != owner_of("a"));
            let stop = stop.replace("<far>", &far.expect("some key is another's"));
            let mut log = Vec::new();
            (0..50).for_each(|number| record(&mut log, &[&format!("SET key:{number} 1")]));
            // Of several effects each has one owner.
            record(&mut log, &["SET a 1", "SELECT 1", "SET b 2", "SET c 3", "SELECT 0", "HSET d e f"]);
            frame_control_onto(&mut log, SALT, ControlRecord::Epoch(9, FsyncPolicy::No));
            let end = log.len();
            record(&mut log, &["SET x 1", &stop]);
            record(&mut log, &["SET y 1"]);

            let mut partitions = Databases::of_shard(&std::sync::Arc::default(), 16, 0, 1).split(OWNERS);
            let progress = Progress::new("log".into(), log.len() as u64, &LogControl::new(FsyncPolicy::No));
            let run = Run { bytes: &log, shard: (0, 1), progress: &progress };
            let from = Cursor { position: 0, records: 0, replayed: 0, epoch: 0 };
            let done = replay(run, from, &Replay::new(), &mut partitions).expect("nothing is wrong");
            assert_eq!(done.at, Cursor { position: end, records: 51, replayed: 51, epoch: 9 }, "{stop}");
            assert_eq!((done.left_out, done.unfit), (0, Vec::new()), "{stop}");
            assert!(partitions.iter().all(|partition| partition.keys() > 0), "every owner has a share");
            let keys = |number: usize| {
                partitions.iter().filter_map(|partition| partition.tables().get(number)).map(Table::len).sum()
            };
            assert_eq!((keys(0), keys(1)), (52usize, 2usize), "{stop}");
        }
    }

    #[test]
    fn threads_have_work_where_there_are_fewer_segments() {
        assert_eq!(
            [(2, 1), (2, 2), (1, 3), (8, 3), (500, 1)].map(|(threads, shards)| owners(threads, shards)),
            [2, 1, 1, 2, OWNERS_MAX]
        );
    }
}
