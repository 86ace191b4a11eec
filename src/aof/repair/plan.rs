//! Repairs a log: decides what to keep of it, and puts that in the place of the old log.
//!
//! A repaired chain is written under a new number, and one rename of the manifest makes it the log: a crash leaves the
//! old log or the new one. The old files are kept in a directory beside it.

use super::inspect::{Dropped, InspectedChain, InspectedSegment, Inspection, Piece};
use crate::aof::disk::{Disk, SystemDisk};
use crate::aof::format::{
    Chain, ControlRecord, CrossShardRecord, Header, Known, MANIFEST, Manifest, SEGMENT_HEADER, Salt, Scan,
    consistent_cut, cross_shard_payload, decode_header, frame_control_onto, frame_cross_shard_onto, frame_onto,
    segment_header, write_buffer,
};
use crate::aof::recover::{GAP, PassedOver, RecordName, without_effects};
use crate::base::randomness::Randomness;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

/// The least size of a record in its file.
const RECORD_MIN: usize = 16;

/// What becomes of the chains of a log, oldest first.
#[derive(Debug)]
pub struct Plan {
    chains: Vec<Fate>,
    /// What it drops.
    pub dropped: Dropped,
    /// What it does, for the operator.
    pub actions: Vec<String>,
    /// The boot in which the repaired log claims to be written, if not the old one.
    boot: Option<String>,
}

/// What becomes of a chain.
#[derive(Debug)]
enum Fate {
    Kept,
    /// These bytes replace its segments.
    Rewritten(Vec<Vec<u8>>),
    Dropped,
}

impl Plan {
    /// Cuts what a server would cut. If a segment is damaged, cuts all segments at the last epoch before the damage
    /// that they have in common, and drops every later chain.
    pub fn fix(log: &Inspection) -> Self {
        let mut plan = Self::new();
        for (index, chain) in log.chains.iter().enumerate() {
            let scans: Option<Vec<Scan>> =
                chain.segments.iter().map(|segment| segment.scan.as_ref().ok().cloned()).collect();
            if chain.is_damaged() {
                let cuts = epoch_cut(chain, u64::MAX).map(|(_, cuts)| cuts);
                plan.rewrite(chain, &cuts.unwrap_or_else(|| empty_cut(chain)));
                plan.drop_rest(&log.chains[index + 1..]);
                return plan;
            }
            let of_epoch = scans.filter(|_| chain.may_have_lost_power).and_then(|scans| consistent_cut(&scans));
            plan.cut(chain, &of_epoch.unwrap_or_else(|| ends(chain)));
        }
        plan
    }

    /// Cuts all segments at the last epoch that ended at or before this time, in milliseconds. The error says why that
    /// epoch is unknown.
    pub fn truncate(log: &Inspection, to_ms: u64) -> Result<Self, String> {
        let begins = log.chains.iter().rposition(|chain| epoch_cut(chain, to_ms).is_some());
        let last = begins.ok_or("the log has no epoch that ended at that time or before")?;
        let mut plan = Self::new();
        if let Some(chain) = log.chains[..last].iter().find(|chain| chain.is_damaged()) {
            return Err(format!(
                "chain {} is damaged before that time: --fix or --salvage it first",
                chain.named.number
            ));
        }
        log.chains[..last].iter().for_each(|chain| plan.cut(chain, &ends(chain)));
        let chain = &log.chains[last];
        let goes_on = |segment: &InspectedSegment| {
            segment.scan.as_ref().is_ok_and(|scan| scan.epochs.iter().any(|(epoch, ..)| *epoch > to_ms))
        };
        let is_unclear =
            |segment: &&InspectedSegment| segment.is_damaged(chain.may_have_lost_power) && !goes_on(segment);
        if let Some(segment) = chain.segments.iter().find(is_unclear) {
            return Err(format!("{} is damaged before that time: --fix or --salvage it first", segment.path.display()));
        }
        let (epoch, cuts) = epoch_cut(chain, to_ms).expect("the chain was chosen for its epoch");
        plan.actions.push(format!(
            "cuts chain {} at the epoch that ended at {}",
            chain.named.number,
            super::time_text(epoch)
        ));
        if chain.is_damaged() {
            plan.rewrite(chain, &cuts);
        } else {
            plan.cut(chain, &cuts);
        }
        plan.drop_rest(&log.chains[last + 1..]);
        Ok(plan)
    }

    /// Keeps every whole record, also after damage. A replay leaves out what depends on lost records.
    pub fn salvage(log: &Inspection) -> Result<Self, String> {
        let mut plan = Self::new();
        for chain in &log.chains {
            if chain.is_damaged() {
                let segments = plan.salvage_chain(chain)?;
                plan.chains.push(Fate::Rewritten(segments));
            } else {
                plan.cut(chain, &ends(chain));
            }
        }
        // Otherwise a server would look for an epoch that all segments still have.
        plan.boot = Some(log.boot.clone());
        Ok(plan)
    }

    /// Leaves out effects that cannot be replayed: [`find_unfit`](super::find_unfit). The rest of their records stays.
    pub fn leave_out(log: &Inspection, passed_over: &[PassedOver]) -> Self {
        let mut plan = Self::new();
        for PassedOver { path, at, unfit, .. } in passed_over {
            plan.actions.push(format!("leaves out of the record at byte {at} of {}: {}", path.display(), unfit.reason));
        }
        for (index, chain) in log.chains.iter().enumerate() {
            let mut left_out: HashMap<RecordName, Vec<Option<usize>>> = HashMap::new();
            for PassedOver { record, unfit, .. } in passed_over.iter().filter(|passed| passed.chain == index) {
                left_out.entry(*record).or_default().push(unfit.effect);
            }
            let fate = match left_out.is_empty() {
                true => Fate::Kept,
                false => Fate::Rewritten(plan.without(chain, left_out)),
            };
            plan.chains.push(fate);
        }
        plan
    }

    /// The segments of a chain without some or all effects of some records.
    fn without(
        &mut self,
        chain: &InspectedChain,
        mut left_out: HashMap<RecordName, Vec<Option<usize>>>,
    ) -> Vec<Vec<u8>> {
        let mut transactions: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut segments = Vec::new();
        for (index, segment) in chain.segments.iter().enumerate() {
            let Some(salt) = segment.salt() else {
                segments.push(Vec::new());
                continue;
            };
            let mut out = segment_header(salt).to_vec();
            for (at, piece) in segment.pieces(0) {
                match piece {
                    Piece::Record(payload) => match left_out.remove(&RecordName::Own(index, at)) {
                        Some(effects) => frame_onto(&mut out, salt, &self.without_effects(payload, &effects)),
                        None => frame_onto(&mut out, salt, payload),
                    },
                    Piece::CrossShard(payload) => {
                        let record = CrossShardRecord::parse(payload).expect("it was replayed");
                        if let Some(effects) = left_out.remove(&RecordName::CrossShard(record.number)) {
                            let rest = self.without_effects(record.effects, &effects);
                            transactions
                                .insert(record.number, cross_shard_payload(record.number, &record.participants, &rest));
                        }
                        frame_cross_shard_onto(
                            &mut out,
                            salt,
                            transactions.get(&record.number).map_or(payload, Vec::as_slice),
                        );
                    }
                    // Positions have changed.
                    Piece::Control(ControlRecord::Synced(_), _) => {}
                    Piece::Control(_, frame) => out.extend_from_slice(frame),
                    // Bytes after a torn end are not part of the log.
                    Piece::Gap(_) => break,
                }
            }
            segments.push(out);
        }
        segments
    }

    fn without_effects(&mut self, payload: &[u8], effects: &[Option<usize>]) -> Vec<u8> {
        let is_left_out = |effect| effects.contains(&None) || effects.contains(&Some(effect));
        let rest = without_effects(payload, is_left_out);
        self.dropped.bytes += payload.len().saturating_sub(rest.len());
        self.dropped.add_effects(payload, is_left_out);
        rest
    }

    fn new() -> Self {
        Self { chains: Vec::new(), dropped: Dropped::default(), actions: Vec::new(), boot: None }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.chains.iter().all(|fate| matches!(fate, Fate::Kept))
    }

    /// Keeps what precedes the cut in each segment.
    fn cut(&mut self, chain: &InspectedChain, cuts: &[usize]) {
        let segments = || chain.segments.iter().zip(cuts);
        if segments().all(|(segment, cut)| segment.bytes.len() <= *cut) {
            return self.chains.push(Fate::Kept);
        }
        self.rewrite(chain, cuts);
    }

    /// Rewrites a chain with what precedes these cuts, even if that is all of it: it may be less than the manifest
    /// says.
    fn rewrite(&mut self, chain: &InspectedChain, cuts: &[usize]) {
        let segments = || chain.segments.iter().zip(cuts);
        for segment in &chain.segments {
            if let Err(reason) = &segment.scan {
                self.actions.push(format!("leaves a file out: {reason}"));
            } else if let Some((buffer, reason)) = &segment.damaged_buffer {
                self.actions.push(format!("goes on without what {} has lost: {reason}", buffer.display()));
            } else if segment.is_cut_short() {
                self.actions.push(format!("goes on without what {} has lost", segment.path.display()));
            }
        }
        for (segment, &cut) in segments().filter(|(segment, cut)| segment.bytes.len() > **cut) {
            let bytes = segment.bytes.len() - cut;
            self.actions.push(format!("cuts {bytes} bytes of {}, from byte {cut} on", segment.path.display()));
            self.dropped.add(segment, cut);
        }
        self.chains.push(Fate::Rewritten(segments().map(|(segment, cut)| segment.bytes[..*cut].to_vec()).collect()));
    }

    /// Drops chains that were written on top of a state that is lost.
    fn drop_rest(&mut self, chains: &[InspectedChain]) {
        for chain in chains {
            self.actions.push(format!("drops chain {}, which was written after that", chain.named.number));
            chain.segments.iter().for_each(|segment| self.dropped.add(segment, 0));
            self.chains.push(Fate::Dropped);
        }
    }

    fn salvage_chain(&mut self, chain: &InspectedChain) -> Result<Vec<Vec<u8>>, String> {
        let order = CrossShardOrder::of(chain)?;
        let segments = chain.segments.iter().enumerate();
        Ok(segments.map(|(index, segment)| self.salvage_segment(&order, index, segment)).collect())
    }

    /// The whole records of a segment, with an empty one where some are lost, and the copies of cross-shard records
    /// that other segments have kept.
    fn salvage_segment(&mut self, order: &CrossShardOrder<'_>, index: usize, segment: &InspectedSegment) -> Vec<u8> {
        let salt = segment.salt().unwrap_or_else(|| Salt::draw(&Randomness::System));
        let mut out = segment_header(salt).to_vec();
        let mut missing = order.missing_in(index, segment);
        let mut records = 0;
        let pieces: Vec<(usize, Piece<'_>)> = segment.pieces(0).collect();
        if let Err(reason) = &segment.scan {
            self.actions.push(format!("saves {} pieces of what is damaged: {reason}", pieces.len()));
        }
        if pieces.is_empty() {
            self.dropped.bytes += segment.bytes.len();
        }
        for (place, &(at, piece)) in pieces.iter().enumerate() {
            match piece {
                Piece::Record(payload) => frame_onto(&mut out, salt, payload),
                Piece::CrossShard(payload) => {
                    let rank = order.rank(payload);
                    while let Some(lost) = missing.pop_front_if(|lost| Some(lost.rank) < rank) {
                        frame_cross_shard_onto(&mut out, salt, lost.payload);
                        records += 1;
                    }
                    frame_cross_shard_onto(&mut out, salt, payload);
                }
                // Positions have changed.
                Piece::Control(ControlRecord::Synced(_), _) => continue,
                Piece::Control(record, frame) => {
                    if let ControlRecord::Base(before) = record {
                        records = before;
                    }
                    out.extend_from_slice(frame);
                    continue;
                }
                Piece::Gap(len) => {
                    let path = segment.path.display();
                    self.actions.push(format!("leaves out {len} bytes of {path} at byte {at}: no whole record"));
                    self.dropped.bytes += len;
                    // The most that may have been there, because other records count the records before theirs.
                    let lost_at_most = (len / RECORD_MIN).max(1) as u64;
                    (0..lost_at_most).for_each(|_| frame_onto(&mut out, salt, GAP));
                    records += lost_at_most;
                    let next = order.first_rank(&pieces[place..]);
                    while let Some(lost) = missing.pop_front_if(|lost| lost.rank < next && lost.before <= records) {
                        frame_cross_shard_onto(&mut out, salt, lost.payload);
                        records += 1;
                    }
                    continue;
                }
            }
            records += 1;
        }
        if let Some((buffer, reason)) = &segment.damaged_buffer {
            self.actions.push(format!("goes on without what {} has lost: {reason}", buffer.display()));
        }
        if segment.scan.is_err() || segment.is_cut_short() || segment.damaged_buffer.is_some() {
            frame_onto(&mut out, salt, GAP);
            records += 1;
        }
        for lost in missing {
            // Records before it are lost with its file.
            (records..lost.before).for_each(|_| frame_onto(&mut out, salt, GAP));
            records = records.max(lost.before) + 1;
            frame_cross_shard_onto(&mut out, salt, lost.payload);
        }
        out
    }

    /// Puts the repaired log in the place of the old one, keeps the old one beside it, and returns where. The caller
    /// has the lock of the directory.
    pub fn carry_out(&self, log: &Inspection, backup_name: &str) -> io::Result<PathBuf> {
        let dir = &log.dir;
        let backup = dir.join(backup_name);
        std::fs::create_dir(&backup)?;
        let segments = log.chains.iter().flat_map(|chain| &chain.segments);
        for (buffer, _) in segments.filter_map(|segment| segment.damaged_buffer.as_ref()) {
            std::fs::hard_link(buffer, backup.join(buffer.file_name().expect("files have names")))?;
        }
        write_buffer::settle(&SystemDisk, dir, &log.manifest).map_err(io::Error::other)?;
        std::fs::hard_link(dir.join(MANIFEST), backup.join(MANIFEST))?;
        for (index, (chain, fate)) in log.chains.iter().zip(&self.chains).enumerate() {
            // A server continues to write to the last chain.
            let is_written_to = index + 1 == log.chains.len() && matches!(fate, Fate::Kept);
            for path in chain.segments.iter().flat_map(|segment| &segment.paths).filter(|path| path.exists()) {
                let copy = backup.join(path.file_name().expect("files have names"));
                if is_written_to {
                    std::fs::copy(path, copy)?;
                } else {
                    std::fs::hard_link(path, copy)?;
                }
            }
        }
        if let Some(functions) = log.manifest.functions(dir).filter(|path| path.exists()) {
            std::fs::hard_link(&functions, backup.join(functions.file_name().expect("files have names")))?;
        }
        SystemDisk.sync_dir(&backup)?;

        let mut next = log.chains.iter().map(|chain| chain.named.number).max().unwrap_or(0);
        let mut chains: Vec<Chain> = Vec::new();
        let mut gone = Vec::new();
        for (chain, fate) in log.chains.iter().zip(&self.chains) {
            match fate {
                Fate::Kept => chains.push(chain.named.clone()),
                Fate::Rewritten(segments) => {
                    next += 1;
                    let known = write_chain(log, next, segments)?;
                    chains.push(Chain { known, ..Chain::new(next, chain.named.layout.clone()) });
                    gone.push(chain);
                }
                Fate::Dropped => gone.push(chain),
            }
        }
        SystemDisk.sync_dir(dir)?;
        let boot = self.boot.clone().unwrap_or_else(|| log.manifest.boot.clone());
        Manifest::of_chains(boot, chains).with_functions_of(&log.manifest).write(&SystemDisk, dir)?;
        let segments = gone.into_iter().flat_map(|chain| &chain.segments);
        let files = segments.flat_map(|segment| &segment.paths).filter(|path| path.exists());
        { files }.try_for_each(|path| SystemDisk.remove(path))?;
        SystemDisk.sync_dir(dir)?;
        Ok(backup)
    }
}

/// The end of the intact part of each segment.
fn ends(chain: &InspectedChain) -> Vec<usize> {
    chain.segments.iter().map(InspectedSegment::end).collect()
}

/// Writes the files of a repaired chain, and returns what the manifest must say about them.
fn write_chain(log: &Inspection, number: u32, segments: &[Vec<u8>]) -> io::Result<Vec<Known>> {
    let write = |(index, bytes): (usize, &Vec<u8>)| {
        let path = Manifest::segment_path(&log.dir, number, index);
        if path.exists() {
            // An interrupted repair left it.
            SystemDisk.remove(&path)?;
        }
        let fresh = Salt::draw(&Randomness::System);
        let (salt, bytes) = match decode_header(&bytes[..bytes.len().min(SEGMENT_HEADER)]) {
            Header::Whole(salt) => (salt, without_way_on(bytes, salt, &path)),
            // No part of it is left.
            Header::Torn | Header::Foreign => (fresh, segment_header(fresh).to_vec()),
        };
        let file = SystemDisk.append_to(&path)?;
        file.write_all(&bytes)?;
        file.sync()?;
        Ok(Known { salt, len: bytes.len() as u64 })
    };
    segments.iter().enumerate().map(write).collect()
}

/// What goes into one file, which is the last of its segment: if it says at its end that the segment goes on in
/// another, that is left out.
fn without_way_on(bytes: &[u8], salt: Salt, path: &Path) -> Vec<u8> {
    let scan = Scan::of(bytes, path).expect("its header is whole");
    let mut way_on = Vec::new();
    if let Some(increment) = scan.goes_on {
        frame_control_onto(&mut way_on, salt, ControlRecord::GoesOn(increment));
    }
    [&bytes[..scan.end - way_on.len()], &bytes[scan.end..]].concat()
}

/// The last epoch that all segments have and that is not later than `to_ms`, and where it ends in each. A single
/// segment is consistent wherever it ends, unless a time is given.
fn epoch_cut(chain: &InspectedChain, to_ms: u64) -> Option<(u64, Vec<usize>)> {
    if chain.segments.iter().any(InspectedSegment::has_broken_base) {
        return None;
    }
    let scans: Vec<&Scan> = chain.segments.iter().map(|segment| segment.scan.as_ref().ok()).collect::<Option<_>>()?;
    if let ([scan], u64::MAX) = (&scans[..], to_ms) {
        return Some((0, vec![scan.end]));
    }
    let end_in = |scan: &Scan, wanted: u64| {
        let found = scan.epochs.iter().find(|(epoch, ..)| *epoch == wanted);
        found.map(|(.., end)| *end)
    };
    let early = scans[0].epochs.iter().rev().map(|(epoch, ..)| *epoch).filter(|epoch| *epoch <= to_ms);
    { early }.find_map(|epoch| {
        let ends = scans.iter().map(|scan| end_in(scan, epoch)).collect::<Option<Vec<_>>>()?;
        Some((epoch, ends))
    })
}

/// Keeps only the beginning of each segment: a header, and its base if all bases are whole.
fn empty_cut(chain: &InspectedChain) -> Vec<usize> {
    let is_based = chain.segments.iter().all(|segment| !segment.has_broken_base() && segment.scan.is_ok());
    let base_end = |segment: &InspectedSegment| match &segment.scan {
        Ok(scan) if is_based => scan.base_end,
        _ => 0,
    };
    chain.segments.iter().map(|segment| segment.end().min(SEGMENT_HEADER).max(base_end(segment))).collect()
}

/// The cross-shard records of a chain in an order that agrees with that of every segment.
struct CrossShardOrder<'a> {
    ranks: HashMap<u64, usize>,
    records: BTreeMap<usize, (CrossShardRecord<'a>, &'a [u8])>,
}

/// A cross-shard record that a segment has lost.
struct LostCrossShardRecord<'a> {
    rank: usize,
    payload: &'a [u8],
    /// How many records stood before it at least.
    before: u64,
}

impl<'a> CrossShardOrder<'a> {
    fn of(chain: &'a InspectedChain) -> Result<Self, String> {
        let mut found = HashMap::new();
        let mut followers: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut waits_for: BTreeMap<u64, usize> = BTreeMap::new();
        for segment in &chain.segments {
            let mut before = None;
            for record in cross_shard_in(segment) {
                found.entry(record.0.number).or_insert(record.clone());
                *waits_for.entry(record.0.number).or_default() += usize::from(before.is_some());
                if let Some(before) = before.replace(record.0.number) {
                    followers.entry(before).or_default().push(record.0.number);
                }
            }
        }
        // Kahn's algorithm: a record gets its place when all records before it, in every segment, have theirs.
        let mut ready: VecDeque<u64> =
            waits_for.iter().filter(|(_, count)| **count == 0).map(|(record, _)| *record).collect();
        let mut ranks = HashMap::new();
        while let Some(number) = ready.pop_front() {
            ranks.insert(number, ranks.len());
            for next in followers.remove(&number).unwrap_or_default() {
                let count = waits_for.get_mut(&next).expect("it was counted above");
                *count -= 1;
                if *count == 0 {
                    ready.push_back(next);
                }
            }
        }
        if ranks.len() < found.len() {
            return Err(format!("chain {}: its segments hold transactions in different orders", chain.named.number));
        }
        let records = found.into_iter().map(|(number, record)| (ranks[&number], record)).collect();
        Ok(Self { ranks, records })
    }

    /// The rank of the first cross-shard record among the pieces; past all ranks if there is none.
    fn first_rank(&self, pieces: &[(usize, Piece<'_>)]) -> usize {
        let rank = |(_, piece): &(usize, Piece<'_>)| match piece {
            Piece::CrossShard(payload) => self.rank(payload),
            _ => None,
        };
        pieces.iter().find_map(rank).unwrap_or(usize::MAX)
    }

    fn rank(&self, payload: &[u8]) -> Option<usize> {
        CrossShardRecord::parse(payload).and_then(|record| self.ranks.get(&record.number).copied())
    }

    /// The records that this segment should hold but lacks, in order.
    fn missing_in(&self, index: usize, segment: &InspectedSegment) -> VecDeque<LostCrossShardRecord<'a>> {
        let held: BTreeSet<u64> = cross_shard_in(segment).map(|(record, _)| record.number).collect();
        let lost = self.records.iter().filter(|(_, (record, _))| !held.contains(&record.number));
        let lost = lost.filter_map(|(&rank, (record, payload))| {
            let (_, before) = record.participants.iter().find(|(shard, _)| *shard == index)?;
            Some(LostCrossShardRecord { rank, payload, before: *before })
        });
        lost.collect()
    }
}

fn cross_shard_in(segment: &InspectedSegment) -> impl Iterator<Item = (CrossShardRecord<'_>, &[u8])> {
    segment.pieces(0).filter_map(|(_, piece)| match piece {
        Piece::CrossShard(payload) => Some((CrossShardRecord::parse(payload)?, payload)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_ends_a_segment_does_not_say_that_it_goes_on() {
        let salt = Salt(7);
        let mut whole = segment_header(salt).to_vec();
        frame_onto(&mut whole, salt, b"a record");
        let wanted = whole.clone();
        frame_control_onto(&mut whole, salt, ControlRecord::GoesOn(2));
        assert_eq!(without_way_on(&whole, salt, Path::new("file")), wanted);
        assert_eq!(without_way_on(&wanted, salt, Path::new("file")), wanted);
        // Within the file it stays: more follows, and the rest of a torn record, too.
        frame_onto(&mut whole, salt, b"another");
        assert_eq!(without_way_on(&whole, salt, Path::new("file")), whole);
        let torn = [&wanted[..], b"torn"].concat();
        assert_eq!(without_way_on(&torn, salt, Path::new("file")), torn);
    }
}
