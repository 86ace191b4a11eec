//! Scans a segment file: what it holds, and how far it can be trusted.

use super::fsync_policy::FsyncPolicy;
use super::record::{ControlRecord, Frame, Header, SEGMENT_HEADER, Salt, decode, decode_header};
use std::path::Path;

/// The result of scanning a whole segment, before any of it is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// What its records are framed with; `None` where the file ends within its header.
    pub salt: Option<Salt>,
    /// The position of the first frame that is not a whole record, or the end.
    pub end: usize,
    /// How many records precede it, without control records.
    pub records: u64,
    /// How many bytes of the file are known to have been synced.
    pub synced: u64,
    /// Whether whole records follow `end`.
    pub has_more: bool,
    /// The positions of the cross-shard records.
    pub transactions: Vec<usize>,
    /// The epochs that have ended, with their policies and the positions after them.
    pub epochs: Vec<(u64, FsyncPolicy, usize)>,
    /// Where the base at its beginning ends; 0 without one.
    pub base_end: usize,
    /// The increment that follows, if the last record names one.
    pub goes_on: Option<u64>,
}

impl Scan {
    /// Scans the bytes of the file at `path`. The error says what it begins with instead of a header.
    pub fn of(bytes: &[u8], path: &Path) -> Result<Self, String> {
        let salt = match decode_header(bytes) {
            Header::Whole(salt) => salt,
            Header::Torn => {
                return Ok(Self::at(None, 0));
            }
            Header::Foreign => return Err(format!("{}: its header is damaged or of another format", path.display())),
        };
        let mut scan = Self::at(Some(salt), SEGMENT_HEADER);
        loop {
            let goes_on = scan.goes_on.take();
            let len = match decode(&bytes[scan.end..], salt) {
                Frame::Record(_, len) => {
                    scan.records += 1;
                    len
                }
                Frame::CrossShard(_, len) => {
                    scan.records += 1;
                    scan.transactions.push(scan.end);
                    len
                }
                Frame::Control(ControlRecord::Epoch(epoch, policy), len) => {
                    scan.epochs.push((epoch, policy, scan.end + len));
                    len
                }
                Frame::Control(ControlRecord::Synced(position), len) => {
                    // No cut is made directly after the end of an epoch: it says nothing about what follows.
                    if let Some((.., end)) = scan.epochs.last_mut().filter(|(.., end)| *end == scan.end) {
                        *end += len;
                    }
                    scan.synced = scan.synced.max(position);
                    len
                }
                Frame::Control(ControlRecord::GoesOn(increment), len) => {
                    scan.goes_on = Some(increment);
                    len
                }
                Frame::Control(ControlRecord::Base(records), len) => {
                    scan.records = records;
                    scan.base_end = scan.end + len;
                    len
                }
                Frame::End | Frame::Broken => {
                    scan.goes_on = goes_on;
                    break;
                }
            };
            scan.end += len;
        }
        scan.find_later_records(bytes, salt);
        Ok(scan)
    }

    /// A scan that has not reached the first record.
    fn at(salt: Option<Salt>, end: usize) -> Self {
        Self {
            salt,
            end,
            records: 0,
            synced: 0,
            has_more: false,
            transactions: Vec::new(),
            epochs: Vec::new(),
            base_end: 0,
            goes_on: None,
        }
    }

    /// Of no file.
    pub fn of_nothing() -> Self {
        Self::at(None, 0)
    }

    /// Continues with the scan of the next file, whose first record is `shift` bytes further on here than in it.
    pub fn go_on_with(&mut self, next: Self, shift: usize) {
        // Counts that start at a base say nothing about the records before it.
        self.records += next.records;
        self.end = next.end + shift;
        self.synced = self.synced.max(next.synced.saturating_add(shift as u64));
        self.has_more = next.has_more;
        self.transactions.extend(next.transactions.iter().map(|position| position + shift));
        self.epochs.extend(next.epochs.iter().map(|&(epoch, policy, end)| (epoch, policy, end + shift)));
        self.goes_on = next.goes_on;
    }

    /// Looks for records after the first broken one: they distinguish damage from a torn end.
    fn find_later_records(&mut self, bytes: &[u8], salt: Salt) {
        let mut position = self.end + 1;
        // No record begins with only zeros, and there may be many zeros.
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        while position < bytes.len() - zeros {
            let Some((record, len)) = next(&bytes[position..], salt) else {
                position += 1;
                continue;
            };
            self.has_more = true;
            if let Some(ControlRecord::Synced(synced)) = record {
                self.synced = self.synced.max(synced);
            }
            position += len;
        }
    }

    /// How much of the file is padding: only zeros, after the last record.
    pub fn padding(&self, bytes: &[u8]) -> usize {
        let after = &bytes[self.end..];
        if self.salt.is_some() && after.iter().all(|byte| *byte == 0) { after.len() } else { 0 }
    }

    /// Whether the bytes at `end` were damaged on the disk, or changed by hand: they are neither a torn end nor what a
    /// power loss leaves of a tail that was not synced.
    pub fn is_damaged(&self, may_have_lost_power: bool) -> bool {
        (self.end as u64) < self.synced || (self.has_more && !may_have_lost_power)
    }
}

/// The length of the record at the start, and its content if it is a control record; `None` if there is no whole
/// record.
fn next(bytes: &[u8], salt: Salt) -> Option<(Option<ControlRecord>, usize)> {
    match decode(bytes, salt) {
        Frame::Record(_, len) | Frame::CrossShard(_, len) => Some((None, len)),
        Frame::Control(record, len) => Some((Some(record), len)),
        Frame::End | Frame::Broken => None,
    }
}

/// Where to cut the segments of a chain after a power loss: after the last epoch that all of them have. `None` if
/// nothing needs to be cut: one segment is consistent wherever it ends, and under `always` each holds everything
/// acknowledged.
pub fn consistent_cut(scans: &[Scan]) -> Option<Vec<usize>> {
    if scans.len() < 2 {
        return None;
    }
    let is_in_all = |epoch: u64| scans.iter().all(|scan| scan.epochs.iter().any(|(number, ..)| *number == epoch));
    let last = scans[0].epochs.iter().rev().find(|(epoch, ..)| is_in_all(*epoch));
    match last {
        Some((_, FsyncPolicy::Always, _)) => None,
        Some((epoch, ..)) => Some(scans.iter().map(|scan| end_of_epoch(scan, *epoch)).collect()),
        None => Some(scans.iter().map(|scan| scan.end.min(SEGMENT_HEADER).max(scan.base_end)).collect()),
    }
}

fn end_of_epoch(scan: &Scan, epoch: u64) -> usize {
    let found = scan.epochs.iter().find(|(number, ..)| *number == epoch);
    found.expect("the epoch is in all segments").2
}

#[cfg(test)]
mod tests {
    use super::super::record::{frame_control_onto, frame_onto, segment_header};
    use super::*;

    const SALT: Salt = Salt(77);

    fn segment(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = segment_header(SALT).to_vec();
        write(&mut bytes);
        bytes
    }

    fn scan(bytes: &[u8]) -> Scan {
        Scan::of(bytes, Path::new("x")).expect("the header is whole")
    }

    fn epoch(bytes: &mut Vec<u8>, number: u64, policy: FsyncPolicy) {
        frame_control_onto(bytes, SALT, ControlRecord::Epoch(number, policy));
    }

    #[test]
    fn a_torn_end_is_no_damage_and_a_hole_is_unless_power_was_lost_before_it_was_synced() {
        let mut first_end = 0;
        let bytes = segment(|bytes| {
            frame_onto(bytes, SALT, b"first");
            first_end = bytes.len();
            frame_onto(bytes, SALT, b"second");
            frame_onto(bytes, SALT, b"third");
        });
        let torn = scan(&bytes[..first_end + 3]);
        assert_eq!((torn.end, torn.is_damaged(false), torn.is_damaged(true)), (first_end, false, false));
        let mut zeros = bytes[..first_end].to_vec();
        zeros.extend([0; 5000]);
        assert_eq!((scan(&zeros).end, scan(&zeros).is_damaged(false)), (first_end, false));
        let mut hole = bytes.clone();
        hole[first_end..first_end + 18].fill(0);
        assert_eq!((scan(&hole).is_damaged(false), scan(&hole).is_damaged(true)), (true, false));
        frame_control_onto(&mut hole, SALT, ControlRecord::Synced(first_end as u64 + 1));
        assert!(scan(&hole).is_damaged(true), "it had been synced");
    }

    #[test]
    fn zeros_after_the_last_record_are_padding_and_those_after_a_torn_one_are_not() {
        let mut first_end = 0;
        let bytes = segment(|bytes| {
            frame_onto(bytes, SALT, b"first\0\0");
            first_end = bytes.len();
            frame_onto(bytes, SALT, b"second");
        });
        let padding_of = |bytes: &[u8]| scan(bytes).padding(bytes);
        assert_eq!(padding_of(&bytes), 0);
        let padded = [&bytes[..], &[0; 5000]].concat();
        assert_eq!((padding_of(&padded), scan(&padded).end, scan(&padded).has_more), (5000, bytes.len(), false));
        for torn in first_end + 1..bytes.len() {
            let torn = [&bytes[..torn], &[0; 5000]].concat();
            assert_eq!((padding_of(&torn), scan(&torn).end), (0, first_end));
        }
        // A record is found that follows zeros and ends with zeros.
        let mut hole = [&bytes[..], &[0; 50]].concat();
        frame_onto(&mut hole, SALT, b"\0\0\0");
        assert!(scan(&hole).has_more && padding_of(&hole) == 0);
    }

    #[test]
    fn the_cut_is_after_the_last_epoch_that_all_segments_have() {
        let one = segment(|bytes| (1..=3).for_each(|number| epoch(bytes, number, FsyncPolicy::Everysec)));
        let other = segment(|bytes| {
            epoch(bytes, 1, FsyncPolicy::Everysec);
            frame_onto(bytes, SALT, b"first");
            epoch(bytes, 2, FsyncPolicy::Everysec);
            frame_onto(bytes, SALT, b"second");
        });
        let scans = [scan(&one), scan(&other)];
        let ends = [scans[0].epochs[1].2, scans[1].epochs[1].2];
        assert_eq!(consistent_cut(&scans), Some(ends.to_vec()));
        assert_eq!(consistent_cut(&scans[..1]), None, "one segment needs no other");
        let none = scan(&segment(|_| {}));
        assert_eq!(consistent_cut(&[scans[0].clone(), none]), Some(vec![SEGMENT_HEADER; 2]));
    }

    #[test]
    fn a_record_of_what_was_synced_is_not_cut_from_the_epoch_that_it_follows() {
        let bytes = segment(|bytes| {
            epoch(bytes, 1, FsyncPolicy::Everysec);
            frame_control_onto(bytes, SALT, ControlRecord::Synced(16));
        });
        assert_eq!(scan(&bytes).epochs[0].2, bytes.len());
        assert_eq!(consistent_cut(&[scan(&bytes), scan(&bytes)]), Some(vec![bytes.len(); 2]));
    }

    #[test]
    fn under_always_nothing_is_cut() {
        let one = segment(|bytes| epoch(bytes, 1, FsyncPolicy::Always));
        let other = segment(|bytes| {
            epoch(bytes, 1, FsyncPolicy::Always);
            frame_onto(bytes, SALT, b"acknowledged");
        });
        assert_eq!(consistent_cut(&[scan(&one), scan(&other)]), None);
    }
}
