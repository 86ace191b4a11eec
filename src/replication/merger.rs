//! The merger: from the feed of all owners of keys to one stream with no effect before its cause.
//!
//! Records of one owner, a *lane*, keep their order, and the feed has whatever was seen before whatever was done then. A
//! record over several lanes comes once from each of them, as each gets to it, and stands in the stream once:
//!
//! ```text
//! feed:    a1   J(a)  c1   a2   b1   J(b)  c2        J is over a and b; a2 has seen J, b1 has not
//! stream:  a1   MULTI c1   b1   J    a2   EXEC  c2
//! ```
//!
//! A lane that has got to it waits, with what comes after, until the last has. What other lanes push meanwhile may have
//! seen what waits, so it stands inside one MULTI with it. Invariant: at any position of the stream outside of MULTI a
//! replica holds a consistent cut: with each change, all that whoever made it could have seen.
//!
//! Where such records overlap without an end MULTI stays open; whoever wants it closed has a *mark* put into all lanes at
//! one point of the order of all commands. When it has come from all of them, what was emitted is what stands before it.

use super::encode::Encoder;
use crate::aof::{Fed, FedPiece, Frame, JointRecord, decode_again};
use std::collections::{HashMap, VecDeque};

/// Puts the pieces of a feed in order.
#[derive(Debug)]
pub struct Merger {
    lanes: Vec<Lane>,
    /// The groups that have come from some of their lanes, and not from all.
    open: HashMap<GroupId, Group>,
    /// How many lanes wait.
    waiting: usize,
    /// Bytes that they hold back.
    held_bytes: usize,
    encoder: Encoder,
}

#[derive(Debug, Default)]
struct Lane {
    is_waiting: bool,
    held: VecDeque<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum GroupId {
    Joint(u64),
    Mark(u64),
}

/// What comes from several lanes.
#[derive(Debug, Default)]
struct Group {
    arrived: Vec<usize>,
    lanes: usize,
    /// What it changed; nothing where it is a mark.
    effects: Vec<u8>,
}

/// What a lane brings.
#[derive(Debug)]
enum Item {
    /// A record of its own.
    Record(Box<[u8]>),
    /// Its part of something.
    Part(GroupId),
}

impl Item {
    /// Bytes that it takes in memory, about.
    fn len(&self) -> usize {
        size_of::<Self>() + if let Self::Record(payload) = self { payload.len() } else { 0 }
    }
}

/// Told of what is merged.
pub trait Merged {
    /// Bytes of the stream.
    fn append(&mut self, bytes: &[u8]);
    /// A mark has come from all lanes: what was appended is what stands before it.
    fn pass(&mut self, mark: u64);
}

/// Bytes that are held back at most, and what was pushed at once.
const HELD_MAX: usize = 256 * 1024 * 1024;
/// Bytes that are appended at once.
const APPENDED_AT_ONCE: usize = 256 * 1024;

impl Merger {
    /// One for so many lanes.
    pub fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            open: HashMap::new(),
            waiting: 0,
            held_bytes: 0,
            encoder: Encoder::default(),
        }
    }

    /// Whether the stream stands inside of MULTI: its end is no place to begin at.
    pub fn is_inside(&self) -> bool {
        self.encoder.is_inside()
    }

    /// Whether all that was taken in is in the stream, outside of MULTI.
    pub fn is_settled(&self) -> bool {
        self.waiting == 0
    }

    /// Whether more is held back than may be: an owner of keys has stood still for long.
    pub fn holds_too_much(&self) -> bool {
        self.held_bytes > HELD_MAX
    }

    /// Takes in what was pushed.
    pub fn take_in(&mut self, fed: &Fed, merged: &mut impl Merged) {
        let mut rest = &fed.bytes[..];
        for piece in &fed.pieces {
            let bytes = rest.split_off(..piece.len()).expect("pieces are as long as their bytes");
            match *piece {
                FedPiece::Records { lane, .. } => self.records(lane, bytes, merged),
                FedPiece::Joint { .. } => self.joint_at_once(bytes, merged),
                FedPiece::Mark { lane, number } => self.mark(lane, number, merged),
                FedPiece::Free { .. } => self.encoder.record(bytes),
            }
            if self.encoder.len() >= APPENDED_AT_ONCE {
                self.encoder.take(|bytes| merged.append(bytes));
            }
        }
        self.encoder.take(|bytes| merged.append(bytes));
    }

    /// Emits a command of no database; false where the stream is no place for it.
    pub fn emit(&mut self, words: &[&[u8]], merged: &mut impl Merged) -> bool {
        if self.is_inside() {
            return false;
        }
        self.encoder.command(words.iter().copied());
        self.encoder.take(|bytes| merged.append(bytes));
        true
    }

    fn records(&mut self, lane: usize, mut bytes: &[u8], merged: &mut impl Merged) {
        loop {
            let len = match decode_again(bytes) {
                Frame::End => return,
                Frame::Record(payload, len) => {
                    self.record(lane, payload);
                    len
                }
                Frame::Joint(payload, len) => {
                    self.joint(&[lane], payload, merged);
                    len
                }
                Frame::Note(_, len) => len,
                Frame::Broken => unreachable!("an owner pushes whole records"),
            };
            bytes = &bytes[len..];
        }
    }

    /// A record that all of its lanes have got to: they stood still.
    fn joint_at_once(&mut self, bytes: &[u8], merged: &mut impl Merged) {
        let Frame::Joint(payload, _) = decode_again(bytes) else { unreachable!("an owner pushes whole records") };
        let record = JointRecord::parse(payload).expect("an owner pushes whole records");
        let lanes: Vec<usize> = record.participants.iter().map(|&(lane, _)| lane).collect();
        self.joint(&lanes, payload, merged);
    }

    fn joint(&mut self, lanes: &[usize], payload: &[u8], merged: &mut impl Merged) {
        let record = JointRecord::parse(payload).expect("an owner pushes whole records");
        let id = GroupId::Joint(record.number);
        let group = self.open.entry(id).or_default();
        if group.lanes == 0 {
            group.lanes = record.participants.len();
            group.effects = record.effects.to_vec();
        }
        lanes.iter().for_each(|&lane| self.bring(lane, Item::Part(id), merged));
    }

    fn mark(&mut self, lane: usize, number: u64, merged: &mut impl Merged) {
        let id = GroupId::Mark(number);
        self.open.entry(id).or_default().lanes = self.lanes.len();
        self.bring(lane, Item::Part(id), merged);
    }

    fn record(&mut self, lane: usize, payload: &[u8]) {
        match self.lanes[lane].is_waiting {
            true => self.hold(lane, Item::Record(payload.into())),
            false => self.emit_record(payload),
        }
    }

    fn hold(&mut self, lane: usize, item: Item) {
        self.held_bytes += item.len();
        self.lanes[lane].held.push_back(item);
    }

    fn emit_record(&mut self, payload: &[u8]) {
        if self.waiting > 0 {
            self.encoder.open();
        }
        self.encoder.record(payload);
    }

    /// Takes in what a lane brings, and all that it lets go on.
    fn bring(&mut self, lane: usize, item: Item, merged: &mut impl Merged) {
        if self.lanes[lane].is_waiting {
            return self.hold(lane, item);
        }
        let mut ready = VecDeque::from([(lane, item)]);
        while let Some((lane, item)) = ready.pop_front() {
            match item {
                Item::Record(payload) => self.emit_record(&payload),
                Item::Part(id) => {
                    if !self.arrive(lane, id) {
                        continue;
                    }
                    let group = self.open.remove(&id).expect("it was just there");
                    self.complete(id, &group, merged);
                    ready.extend(group.arrived.iter().filter_map(|&lane| self.next_held(lane)));
                    continue;
                }
            }
            ready.extend(self.next_held(lane));
        }
        if self.waiting == 0 {
            self.encoder.close();
        }
    }

    /// Notes that a lane has got to its part; true where it is the last.
    fn arrive(&mut self, lane: usize, id: GroupId) -> bool {
        let group = self.open.get_mut(&id).expect("it is open until its last part comes");
        group.arrived.push(lane);
        self.lanes[lane].is_waiting = true;
        self.waiting += 1;
        group.arrived.len() == group.lanes
    }

    /// All lanes of a group have got to it: what it changed is emitted, and they go on.
    fn complete(&mut self, id: GroupId, group: &Group, merged: &mut impl Merged) {
        for &lane in &group.arrived {
            self.lanes[lane].is_waiting = false;
            self.waiting -= 1;
        }
        match id {
            GroupId::Mark(number) => {
                self.encoder.close();
                self.encoder.take(|bytes| merged.append(bytes));
                self.encoder.forget_database();
                merged.pass(number);
            }
            GroupId::Joint(_) => {
                let holds = |lane: &usize| !self.lanes[*lane].held.is_empty();
                if self.waiting > 0 || group.arrived.iter().any(holds) {
                    self.encoder.open();
                }
                self.encoder.record(&group.effects);
            }
        }
        if group.arrived.iter().any(|&lane| !self.lanes[lane].held.is_empty()) {
            self.encoder.open();
        }
    }

    /// The next that a lane has held back, where it waits no more.
    fn next_held(&mut self, lane: usize) -> Option<(usize, Item)> {
        let Lane { is_waiting, held } = &mut self.lanes[lane];
        let item = if *is_waiting { None } else { held.pop_front() }?;
        self.held_bytes -= item.len();
        Some((lane, item))
    }
}
