//! One segment while it is replayed.

use super::partitions::{self, Cursor, Run, Steps};
use super::progress::Progress;
use super::replay::{Concern, GAP, Refusal, Replay, Share, Unfit};
use crate::aof::disk::Disk;
use crate::aof::format::{
    CrossShardRecord, Frame, LogicalSegment, SEGMENT_HEADER, Salt, Scan, decode_again, frame_cross_shard_onto,
    frame_onto,
};
use crate::keyspace::{Databases, MultiShardView, StreamPlace};
use std::path::{Path, PathBuf};

/// From this many bytes before its next cross-shard record on, a segment is worth a thread.
pub const PARALLEL_MIN: usize = 1 << 20;
/// The same for several threads on one segment. Tests have short logs.
const SIDE_BY_SIDE_MIN: usize = if cfg!(test) { 64 } else { PARALLEL_MIN };
/// After this many bytes of records that concern one owner each, the owners replay what follows side by side. To start
/// and to stop that costs a few per cent of the time of this many bytes: where records concern several owners again and
/// again, little is lost. Tests have short logs.
const CALM: usize = if cfg!(test) { 64 } else { 1 << 18 };

/// The totals of all segments.
#[derive(Debug, Default)]
pub struct Totals {
    /// How many records.
    pub records: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Bytes that were cut off.
    pub cut: u64,
    /// The last epoch.
    pub epoch: u64,
    /// Whether data is missing that later records may depend on.
    pub has_gap: bool,
    /// Changes that were left out because of that.
    pub left_out: u64,
    /// The position of the data in the stream of a master, if the log has one.
    pub place: Option<StreamPlace>,
}

/// The end of a segment, where it continues.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    /// What its records are framed with.
    pub salt: Salt,
    /// The length of the file.
    pub len: usize,
    /// The length of the base and the increments before it.
    pub before: usize,
    /// The length of the base.
    pub base: usize,
    /// How many records there are.
    pub records: u64,
}

/// One segment while it is replayed.
pub struct SegmentReader {
    logical: LogicalSegment,
    /// The position in its own records.
    at: Cursor,
    /// Bytes before that in which no record concerned several owners.
    calm: usize,
    /// Where it ends, or is cut.
    pub end: usize,
    /// The cross-shard record that it has reached; none at its end.
    pub waiting: Option<Waiting>,
    /// The cross-shard records whose copies it has lost, framed.
    lost: Vec<u8>,
    /// Whether [`GAP`] precedes the last of them.
    has_noted_gap: bool,
    /// How many cross-shard records it has reached.
    transactions_seen: usize,
    /// Applies its records.
    pub replay: Replay,
    /// The skipped effects of its own records, with the position of each record.
    unfit: Vec<(usize, Unfit)>,
}

/// A cross-shard record that waits for all of its segments to reach it.
pub struct Waiting {
    path: PathBuf,
    at: usize,
    len: usize,
    /// Its number.
    pub number: u64,
    /// The shards whose segments have it.
    pub shards: Vec<usize>,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Waiting {
    /// What is wrong with it, for humans.
    pub fn describe(&self, reason: &str) -> String {
        describe_record(&self.path, self.at, reason)
    }

    /// Why it is not replayed, for humans.
    pub fn describe_refusal(&self, refusal: &Refusal) -> String {
        refusal.describe(&self.path, self.at)
    }

    /// The file that it is in, and the position there.
    pub fn place(&self) -> (PathBuf, usize) {
        (self.path.clone(), self.at)
    }
}

fn describe_record(path: &Path, at: usize, reason: &str) -> String {
    format!("{}: record at byte {at}: {reason}", path.display())
}

impl SegmentReader {
    /// The beginning of a segment.
    pub fn new(logical: LogicalSegment) -> Self {
        let scan = &logical.scan;
        Self {
            at: Cursor { position: SEGMENT_HEADER, records: 0, replayed: 0, epoch: 0 },
            calm: 0,
            end: scan.end,
            logical,
            waiting: None,
            lost: Vec::new(),
            has_noted_gap: false,
            transactions_seen: 0,
            replay: Replay::new(),
            unfit: Vec::new(),
        }
    }

    /// The scan of its bytes.
    pub fn scan(&self) -> &Scan {
        &self.logical.scan
    }

    fn describe(&self, position: usize, reason: &str) -> String {
        let (path, at) = self.logical.place(position);
        describe_record(path, at, reason)
    }

    fn refuse(&self, position: usize, refusal: &Refusal) -> String {
        let (path, at) = self.logical.place(position);
        refusal.describe(path, at)
    }

    /// The skipped effects of its own records: the position of the record, and its file with the position there.
    pub fn unfit(&self) -> impl Iterator<Item = (usize, (PathBuf, usize), &Unfit)> {
        self.unfit.iter().map(|(position, unfit)| {
            let (path, at) = self.logical.place(*position);
            (*position, (path.to_owned(), at), unfit)
        })
    }

    /// Where it is damaged, for humans.
    pub fn describe_damage(&self) -> String {
        let (path, at) = self.logical.place(self.scan().end);
        let what = if self.scan().end == self.logical.bytes.len() {
            format!("it is damaged: it ends at byte {at}, and more of it has been on the disk")
        } else {
            format!("the record at byte {at} is damaged and is not the last one")
        };
        format!(
            "{}: {what}. Refusing to start with a part of the data; `shardrace check-aof` tells what could be saved",
            path.display(),
        )
    }

    /// How many records were read.
    pub fn records(&self) -> u64 {
        self.at.records
    }

    /// How many bytes precede the next cross-shard record that it has not reached.
    pub fn len_to_cross_shard(&self) -> usize {
        let next = self.scan().transactions.get(self.transactions_seen).copied().unwrap_or(self.end);
        if self.waiting.is_some() { 0 } else { next.min(self.end).saturating_sub(self.at.position) }
    }

    /// Replays what this shard did alone, up to a cross-shard record or the end. `partitions` are the stores of its
    /// owners.
    pub fn replay_own(
        &mut self,
        shard: (usize, usize),
        partitions: &mut [Databases],
        progress: &Progress,
    ) -> Result<(), String> {
        let mut steps = Steps::new(self.at.position);
        while self.waiting.is_none() {
            if partitions.len() > 1 && self.calm >= CALM && self.len_to_cross_shard() >= SIDE_BY_SIDE_MIN {
                steps.end(self.at.position, progress);
                self.replay_side_by_side(shard, partitions, progress)?;
                steps = Steps::new(self.at.position);
            }
            progress.must_go_on()?;
            match decode_again(&self.logical.bytes[self.at.position..self.end]) {
                Frame::Record(payload, len) => {
                    // If the manifest cannot tell the files of segments apart, the first keys can.
                    if self.at.records == 0 && !self.replay.is_of_shard(payload, shard.0, shard.1) {
                        return Err(
                            self.describe(self.at.position, "has keys of another segment: it is the file of that")
                        );
                    }
                    self.replay.has_gap |= payload == GAP;
                    let divided = Share { owner: 0, owners: partitions.len() };
                    let is_calm = partitions.len() > 1 && self.replay.concern(payload, divided) != Concern::Together;
                    self.calm = if is_calm { self.calm + len } else { 0 };
                    let (index, shards) = shard;
                    let lent = (index * partitions.len()..).zip(&mut *partitions);
                    self.replay
                        .apply(payload, MultiShardView::of_divided(shards, divided.owners, lent), None)
                        .map_err(|refusal| self.refuse(self.at.position, &refusal))?;
                    self.unfit.extend(self.replay.unfit.drain(..).map(|unfit| (self.at.position, unfit)));
                    self.at.pass_record(len);
                }
                Frame::CrossShard(payload, len) => {
                    self.waiting = Some(self.cross_shard(payload, len, shard.1)?);
                    self.transactions_seen += 1;
                }
                Frame::Control(record, len) => self.at.pass_control(record, len),
                Frame::End => break,
                Frame::Broken => unreachable!("a segment is replayed up to the end of its whole records"),
            }
            steps.report(self.at.position, progress);
        }
        steps.end(self.at.position, progress);
        Ok(())
    }

    /// Replays what the owners can replay side by side.
    fn replay_side_by_side(
        &mut self,
        shard: (usize, usize),
        partitions: &mut [Databases],
        progress: &Progress,
    ) -> Result<(), String> {
        let run = Run { bytes: &self.logical.bytes[..self.end], shard, progress };
        let done = partitions::replay(run, self.at, &self.replay, partitions)
            .map_err(|(position, refusal)| self.refuse(position, &refusal))?;
        self.at = done.at;
        self.replay.left_out += done.left_out;
        self.unfit.extend(done.unfit);
        self.calm = 0;
        Ok(())
    }

    fn cross_shard(&self, payload: &[u8], len: usize, shards: usize) -> Result<Waiting, String> {
        let record = CrossShardRecord::parse(payload)
            .filter(|record| record.participants.iter().all(|&(shard, _)| shard < shards));
        let record = record.ok_or_else(|| self.describe(self.at.position, "is no record of shards that there are"))?;
        let (path, at) = self.logical.place(self.at.position);
        let shards = record.participants.iter().map(|&(shard, _)| shard).collect();
        Ok(Waiting { path: path.to_owned(), at, len, number: record.number, shards, payload: payload.to_vec() })
    }

    /// Moves on after a cross-shard record that was applied, and adds it here if this segment lost it.
    pub fn pass(&mut self, number: u64, payload: &[u8], has_gap: bool) {
        self.at.records += 1;
        match self.waiting.take_if(|waiting| waiting.number == number) {
            Some(waiting) => self.at.position += waiting.len,
            None => {
                let salt = self.logical.salt();
                // A gap may be found after the first copies were restored.
                if has_gap && !std::mem::replace(&mut self.has_noted_gap, true) {
                    frame_onto(&mut self.lost, salt, GAP);
                    self.at.records += 1;
                }
                frame_cross_shard_onto(&mut self.lost, salt, payload);
            }
        }
    }

    /// If the segment has reached this cross-shard record, ends the segment before it: the transaction cannot be
    /// restored, and no client has seen what follows it.
    pub fn end_before(&mut self, number: u64) {
        if self.waiting.take_if(|waiting| waiting.number == number).is_some() {
            self.end = self.at.position;
        }
    }

    /// Cuts off what was not replayed, and writes the lost copies that were restored.
    pub fn finish(self, disk: &dyn Disk, totals: &mut Totals) -> Result<Tail, String> {
        let describe = |error: std::io::Error| format!("can't mend {}: {error}", self.logical.path().display());
        let cut = self.logical.bytes.len() - self.end;
        totals.records += self.at.replayed;
        totals.bytes += self.end as u64;
        totals.epoch = totals.epoch.max(self.at.epoch);
        if cut > 0 {
            totals.cut += cut as u64;
            let why = if self.end < self.scan().end { "not in all segments" } else { "no whole record" };
            let (path, at) = self.logical.place(self.end);
            tracing::warn!("{}: the last {cut} bytes are {why}; cut at {at}", path.display());
        }
        let len = self.logical.mend(disk, self.end).map_err(describe)?;
        if !self.lost.is_empty() {
            let file = disk.append_to(self.logical.last_path()).map_err(describe)?;
            file.write_all(&self.lost).and_then(|()| file.sync()).map_err(describe)?;
        }
        let (before, base) = self.logical.before_last(self.end);
        Ok(Tail { salt: self.logical.salt(), len: len + self.lost.len(), before, base, records: self.at.records })
    }
}
