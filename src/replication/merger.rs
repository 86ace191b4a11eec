//! The merger: turns the feed of all owners of keys into one stream with no effect before its cause.
//!
//! Records of one owner, a *lane*, keep their order, and in the feed a change precedes all changes made after seeing
//! it. A record over several lanes comes once from each of them, when each reaches it, and is in the stream once:
//!
//! ```text
//! feed:    a1   J(a)  c1   a2   b1   J(b)  c2        J is over a and b; a2 has seen J, b1 has not
//! stream:  a1   MULTI c1   b1   J    a2   EXEC  c2
//! ```
//!
//! A lane that has reached it waits, together with its later records, until the last lane has. Changes that other lanes
//! push meanwhile may have seen the waiting ones, so they are inside one MULTI together. Invariant: at any position of
//! the stream outside of MULTI a replica holds a consistent cut: each change, and everything that its client could have
//! seen.
//!
//! If such records overlap without an end, MULTI stays open. To close it, a *barrier* is put into all lanes at one
//! point in the order of all commands. When the barrier has come from all of them, exactly the changes before it have
//! been emitted.

use super::encode_effects::Encoder;
use crate::aof::{CrossShardRecord, Fed, FedPiece, Frame, decode_again};
use crate::base::planted::is_planted;
use std::collections::{HashMap, VecDeque};

/// Puts the pieces of a feed in order.
#[derive(Debug)]
pub struct Merger {
    lanes: Vec<Lane>,
    /// The groups that have come from some of their lanes, but not from all.
    open: HashMap<GroupId, Group>,
    /// How many lanes wait.
    waiting: usize,
    /// Bytes held back by them.
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
    CrossShard(u64),
    Barrier(u64),
}

/// A record or a barrier of several lanes.
#[derive(Debug, Default)]
struct Group {
    arrived: Vec<usize>,
    lanes: usize,
    /// Its changes; empty for a barrier.
    effects: Vec<u8>,
}

/// An item of a lane.
#[derive(Debug)]
enum Item {
    /// A record of its own.
    Record(Box<[u8]>),
    /// Its part of a group.
    Part(GroupId),
}

impl Item {
    /// The memory that it takes, roughly.
    fn len(&self) -> usize {
        size_of::<Self>() + if let Self::Record(payload) = self { payload.len() } else { 0 }
    }
}

/// Receives the merged stream.
pub trait Merged {
    /// Bytes of the stream.
    fn append(&mut self, bytes: &[u8]);
    /// A barrier has come from all lanes: exactly the changes before it were appended.
    fn pass(&mut self, barrier: u64);
}

/// How many bytes are held back at most, and how many were pushed at once.
const HELD_MAX: usize = 256 * 1024 * 1024;
/// How many bytes are appended at once.
const APPENDED_AT_ONCE: usize = 256 * 1024;

impl Merger {
    /// A merger for this many lanes.
    pub fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            open: HashMap::new(),
            waiting: 0,
            held_bytes: 0,
            encoder: Encoder::default(),
        }
    }

    /// Whether the stream is inside of MULTI: no replica can begin at its end.
    pub fn is_inside(&self) -> bool {
        self.encoder.is_inside()
    }

    /// Whether everything pushed is in the stream, outside of MULTI.
    pub fn is_settled(&self) -> bool {
        self.waiting == 0
    }

    /// Whether too much is held back: an owner of keys has stood still for long.
    pub fn holds_too_much(&self) -> bool {
        self.held_bytes > HELD_MAX
    }

    /// The memory of what is held back, and of its buffer.
    pub fn memory(&self) -> usize {
        self.held_bytes + self.encoder.memory()
    }

    /// Frees the buffer.
    pub fn free_buffers(&mut self) {
        self.encoder.free_buffer();
    }

    /// Merges what was pushed.
    pub fn take_in(&mut self, fed: &Fed, merged: &mut impl Merged) {
        let mut rest = &fed.bytes[..];
        for piece in &fed.pieces {
            let bytes = rest.split_off(..piece.len()).expect("pieces are as long as their bytes");
            match *piece {
                FedPiece::Records { lane, .. } => self.records(lane, bytes, merged),
                FedPiece::CrossShard { .. } => self.cross_shard_at_once(bytes, merged),
                FedPiece::Barrier { lane, number } => self.barrier(lane, number, merged),
                FedPiece::Free { .. } => self.encoder.record(bytes),
            }
            self.append_if_large(merged);
        }
        self.encoder.take(|bytes| merged.append(bytes));
    }

    fn append_if_large(&mut self, merged: &mut impl Merged) {
        if self.encoder.len() >= APPENDED_AT_ONCE {
            self.encoder.take(|bytes| merged.append(bytes));
        }
    }

    /// Emits a command that belongs to no database; false if the stream has no position for it now.
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
                Frame::CrossShard(payload, len) => {
                    self.cross_shard(&[lane], payload, merged);
                    len
                }
                Frame::Control(_, len) => len,
                Frame::Broken => unreachable!("an owner pushes whole records"),
            };
            bytes = &bytes[len..];
            self.append_if_large(merged);
        }
    }

    /// A record that all of its lanes have reached, because they stood still.
    fn cross_shard_at_once(&mut self, bytes: &[u8], merged: &mut impl Merged) {
        let Frame::CrossShard(payload, _) = decode_again(bytes) else { unreachable!("an owner pushes whole records") };
        let record = CrossShardRecord::parse(payload).expect("an owner pushes whole records");
        let lanes: Vec<usize> = record.participants.iter().map(|&(lane, _)| lane).collect();
        self.cross_shard(&lanes, payload, merged);
    }

    fn cross_shard(&mut self, lanes: &[usize], payload: &[u8], merged: &mut impl Merged) {
        let record = CrossShardRecord::parse(payload).expect("an owner pushes whole records");
        let id = GroupId::CrossShard(record.number);
        let group = self.open.entry(id).or_default();
        if group.lanes == 0 {
            group.lanes = record.participants.len();
            group.effects = record.effects.to_vec();
            if is_planted("FirstCopy") {
                self.encoder.record(&std::mem::take(&mut group.effects));
            }
        }
        lanes.iter().for_each(|&lane| self.bring(lane, Item::Part(id), merged));
    }

    fn barrier(&mut self, lane: usize, number: u64, merged: &mut impl Merged) {
        let id = GroupId::Barrier(number);
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

    /// Merges an item of a lane, and all items that it releases.
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

    /// Records that a lane has reached its part; true if it is the last.
    fn arrive(&mut self, lane: usize, id: GroupId) -> bool {
        let group = self.open.get_mut(&id).expect("it is open until its last part comes");
        group.arrived.push(lane);
        self.lanes[lane].is_waiting = true;
        self.waiting += 1;
        group.arrived.len() == group.lanes
    }

    /// All lanes of a group have reached it: its changes are emitted, and they continue.
    fn complete(&mut self, id: GroupId, group: &Group, merged: &mut impl Merged) {
        for &lane in &group.arrived {
            self.lanes[lane].is_waiting = false;
            self.waiting -= 1;
        }
        match id {
            GroupId::Barrier(number) => {
                self.encoder.close();
                self.encoder.take(|bytes| merged.append(bytes));
                self.encoder.forget_database();
                merged.pass(number);
            }
            GroupId::CrossShard(_) => {
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

    /// The next item that a lane has held back, once it waits no more.
    fn next_held(&mut self, lane: usize) -> Option<(usize, Item)> {
        let Lane { is_waiting, held } = &mut self.lanes[lane];
        let item = if *is_waiting { None } else { held.pop_front() }?;
        self.held_bytes -= item.len();
        Some((lane, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::{Salt, cross_shard_payload, frame_cross_shard_onto, frame_onto};
    use crate::keyspace::Effects;
    use fastrand::Rng;
    use std::collections::{BTreeMap, BTreeSet};

    const LANES: usize = 4;
    const CLIENTS: usize = 5;

    /// How many operations of each lane a client has seen.
    type Seen = [usize; LANES];

    fn both(one: Seen, other: Seen) -> Seen {
        std::array::from_fn(|lane| one[lane].max(other[lane]))
    }

    /// An operation: its lanes, and what its client had seen. A barrier is one over all lanes that no client waits for.
    struct Operation {
        lanes: Vec<usize>,
        client: Option<usize>,
        seen: Seen,
        /// The lanes that it has not taken effect on.
        left: usize,
    }

    /// Owners with a mailbox each, and clients that wait for each reply.
    struct Owners {
        random: Rng,
        operations: Vec<Operation>,
        mailboxes: [VecDeque<usize>; LANES],
        /// The operations that have taken effect on each lane, in order, and what was seen by then.
        done: [Vec<usize>; LANES],
        states: [Seen; LANES],
        clients: [Seen; CLIENTS],
        is_waiting: [bool; CLIENTS],
        /// What had taken effect on each lane when it reached a barrier.
        at_barriers: BTreeMap<usize, BTreeSet<usize>>,
        fed: Fed,
    }

    impl Owners {
        fn new(seed: u64) -> Self {
            Self {
                random: Rng::with_seed(seed),
                operations: Vec::new(),
                mailboxes: Default::default(),
                done: Default::default(),
                states: Default::default(),
                clients: Default::default(),
                is_waiting: Default::default(),
                at_barriers: BTreeMap::new(),
                fed: Fed::default(),
            }
        }

        /// An idle client sends an operation.
        fn ask(&mut self) {
            let idle: Vec<usize> = (0..CLIENTS).filter(|&client| !self.is_waiting[client]).collect();
            let Some(&client) = self.random.choice(&idle) else { return };
            let mut lanes: Vec<usize> = (0..LANES).collect();
            self.random.shuffle(&mut lanes);
            let count = if self.random.bool() { 1 } else { self.random.usize(1..=LANES) };
            lanes.truncate(count);
            lanes.sort_unstable();
            self.post(Operation { client: Some(client), seen: self.clients[client], left: lanes.len(), lanes });
            self.is_waiting[client] = true;
        }

        /// Requests a barrier.
        fn barrier(&mut self) {
            self.post(Operation { client: None, seen: Seen::default(), left: LANES, lanes: (0..LANES).collect() });
        }

        fn post(&mut self, operation: Operation) {
            operation.lanes.iter().for_each(|&lane| self.mailboxes[lane].push_back(self.operations.len()));
            self.operations.push(operation);
        }

        /// An owner runs its next operation.
        fn act(&mut self) {
            let lane = self.random.usize(..LANES);
            let Some(id) = self.mailboxes[lane].pop_front() else { return };
            let operation = &mut self.operations[id];
            operation.left -= 1;
            let Some(client) = operation.client else {
                self.fed.pieces.push(FedPiece::Barrier { lane, number: id as u64 });
                self.at_barriers.entry(id).or_default().extend(&self.done[lane]);
                return;
            };
            self.states[lane] = both(self.states[lane], operation.seen);
            self.done[lane].push(id);
            self.states[lane][lane] = self.done[lane].len();
            push(&mut self.fed, lane, id, &operation.lanes);
            // The client has its reply once all parts are done.
            self.clients[client] = both(self.clients[client], self.states[lane]);
            self.is_waiting[client] = operation.left > 0;
        }

        /// Whether a replica with these operations has, for each of them, everything its client had seen, and
        /// everything done before it on its lanes.
        fn is_cut(&self, emitted: &BTreeSet<usize>) -> bool {
            let has_first = |lane: usize, count: usize| self.done[lane][..count].iter().all(|id| emitted.contains(id));
            emitted.iter().all(|id| {
                let Operation { lanes, seen, .. } = &self.operations[*id];
                let place = |lane: usize| self.done[lane].iter().position(|done| done == id);
                (0..LANES).all(|lane| has_first(lane, seen[lane]))
                    && lanes.iter().all(|&lane| place(lane).is_none_or(|before| has_first(lane, before)))
            })
        }
    }

    fn effects(id: usize) -> Vec<u8> {
        let mut effects = Effects::new(true);
        effects.add([b"DO".as_slice(), id.to_string().as_bytes()]);
        effects.payload().to_vec()
    }

    fn push(fed: &mut Fed, lane: usize, id: usize, lanes: &[usize]) {
        let before = fed.bytes.len();
        match lanes {
            [_] => frame_onto(&mut fed.bytes, Salt(1), &effects(id)),
            _ => {
                let participants: Vec<_> = lanes.iter().map(|&lane| (lane, 0)).collect();
                let payload = cross_shard_payload(id as u64, &participants, &effects(id));
                frame_cross_shard_onto(&mut fed.bytes, Salt(1), &payload);
            }
        }
        fed.pieces.push(FedPiece::Records { lane, len: fed.bytes.len() - before });
    }

    /// Reads the stream like a replica: which operations it has after each command outside of MULTI.
    #[derive(Default)]
    struct Replica {
        emitted: BTreeSet<usize>,
        inside: Option<Vec<usize>>,
        prefixes: Vec<BTreeSet<usize>>,
        barriers: Vec<(u64, BTreeSet<usize>)>,
        windows: usize,
    }

    impl Merged for Replica {
        fn append(&mut self, bytes: &[u8]) {
            let text = std::str::from_utf8(bytes).expect("words");
            let mut words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
            while let Some(word) = words.next() {
                match word {
                    "MULTI" => {
                        assert!(self.inside.is_none(), "one within another");
                        self.inside = Some(Vec::new());
                        self.windows += 1;
                    }
                    "EXEC" => self.emitted.extend(self.inside.take().expect("it was opened")),
                    "DO" => {
                        let id: usize = words.next().and_then(|word| word.parse().ok()).expect("a number");
                        let is_new = !self.emitted.contains(&id)
                            && self.inside.as_ref().is_none_or(|inside| !inside.contains(&id));
                        assert!(is_new, "{id} comes twice");
                        match &mut self.inside {
                            Some(inside) => inside.push(id),
                            None => _ = self.emitted.insert(id),
                        }
                    }
                    _ => {}
                }
                if self.inside.is_none() {
                    self.prefixes.push(self.emitted.clone());
                }
            }
        }

        fn pass(&mut self, barrier: u64) {
            assert!(self.inside.is_none(), "a barrier is a place to begin at");
            self.barriers.push((barrier, self.emitted.clone()));
        }
    }

    /// Merges what random owners do, and returns how often the stream was inside of MULTI.
    fn check(seed: u64) -> usize {
        let mut owners = Owners::new(seed);
        let mut merger = Merger::new(LANES);
        let mut replica = Replica::default();
        for step in 0..400 {
            match owners.random.u8(..30) {
                0 if step < 300 => owners.barrier(),
                1..=10 if step < 300 => owners.ask(),
                _ => owners.act(),
            }
            if owners.random.u8(..4) == 0 {
                merger.take_in(&owners.fed, &mut replica);
                owners.fed.clear();
            }
        }
        while owners.mailboxes.iter().any(|mailbox| !mailbox.is_empty()) {
            owners.act();
        }
        merger.take_in(&owners.fed, &mut replica);
        assert!(merger.is_settled() && !merger.is_inside() && merger.held_bytes == 0, "seed {seed}");
        let is_change = |id: &usize| owners.operations[*id].client.is_some();
        assert_eq!(replica.emitted, (0..owners.operations.len()).filter(is_change).collect(), "seed {seed}");
        for prefix in &replica.prefixes {
            assert!(owners.is_cut(prefix), "seed {seed}: {prefix:?}");
        }
        let passed: BTreeMap<usize, BTreeSet<usize>> =
            replica.barriers.into_iter().map(|(number, emitted)| (number as usize, emitted)).collect();
        assert_eq!(passed, owners.at_barriers, "seed {seed}: a barrier stands where the lanes had it");
        replica.windows
    }

    #[test]
    fn a_replica_has_each_change_with_all_that_its_maker_had_seen_wherever_it_stops_outside_of_multi() {
        let first = fastrand::u64(..1 << 40);
        println!("seeds from {first}");
        let windows: usize = (first..first + 300).map(check).sum();
        assert!(windows > 300, "{windows} is too few to have tried anything");
    }
}
