//! Applies the log to the data.

use crate::aof::format::for_each_effect;
use crate::base::routing::shard_of;
use crate::commands::{self, CommandId, Flags};
use crate::keyspace::{Effects, Keyspace, MultiShardView, NodeTable, Store, StreamPlace, hash_of};
use crate::resp::{Args, Reply, Span, parse_u64};
use parking_lot::Mutex;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Runs logged effects over keyspaces in which no key expires: expiry is in the log.
pub struct Replay {
    spans: Vec<Span>,
    replies: Vec<u8>,
    /// Whether data is missing that the replayed records may depend on.
    pub has_gap: bool,
    /// Effects that failed because of that.
    pub left_out: u64,
    /// Whether effects that cannot be applied are skipped and recorded in `unfit`, instead of refused.
    pub passes_over: bool,
    /// Effects skipped since this was last taken.
    pub unfit: Vec<Unfit>,
    /// The position of the data in the stream of a master, as far as it is known.
    place: Arc<Mutex<Option<StreamPlace>>>,
}

/// A part of a record that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfit {
    /// Which of its effects; `None` for the whole record.
    pub effect: Option<usize>,
    /// What is wrong with it.
    pub reason: String,
}

/// Why a record is not replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Its content cannot be applied.
    Unfit(String),
    /// It needs this database, but there are only so many: the operator can change that.
    Database(usize, usize),
}

impl Refusal {
    /// What is wrong with the record at a position of a file, and what to do, for humans.
    pub fn describe(&self, path: &Path, at: usize) -> String {
        let place = format!("{}: record at byte {at}: {self}", path.display());
        match self {
            Self::Unfit(_) => {
                let dir = path.parent().unwrap_or(Path::new(".")).display();
                format!(
                    "{place}. `shardrace check-aof {dir} --salvage` leaves out what cannot be replayed, and says what"
                )
            }
            Self::Database(..) => place,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(reason) => f.write_str(reason),
            Self::Database(number, count) => {
                write!(f, "is of database {number}; `databases` allows for {count} only")
            }
        }
    }
}

/// The payload of a record that changes nothing. It marks where a part of a segment was removed and its cross-shard
/// records were restored, so that every later start replays them as the first did.
pub const GAP: &[u8] = b"";

impl Replay {
    /// A replay of a log with nothing missing.
    pub fn new() -> Self {
        let (spans, replies, unfit) = (Vec::new(), Vec::new(), Vec::new());
        Self { spans, replies, has_gap: false, left_out: 0, passes_over: false, unfit, place: Arc::default() }
    }

    /// A replay for an owner of some of the keys, as strict as this one.
    pub fn for_share(&self) -> Self {
        Self { has_gap: self.has_gap, passes_over: self.passes_over, place: Arc::clone(&self.place), ..Self::new() }
    }

    /// A replay of a log that may lack data from the beginning.
    #[cfg(test)]
    pub fn tolerant() -> Self {
        Self { has_gap: true, ..Self::new() }
    }

    /// The position of the data in the stream of a master, as far as it is known.
    pub fn place(&self) -> Option<StreamPlace> {
        self.place.lock().clone()
    }

    /// Which effects of a record concern the owner of a share of the keys.
    pub fn concern(&mut self, effects: &[u8], share: Share) -> Concern {
        let (mut own, mut others, mut together) = (false, false, false);
        let read = for_each_effect(effects, &mut self.spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            match owner_of(args, share.owners) {
                _ if is_select(args) || StreamPlace::is_effect(args) => {}
                Some(owner) if owner == share.owner => own = true,
                Some(_) => others = true,
                None => together = true,
            }
        });
        match (own, others) {
            _ if together || read.is_none() => Concern::Together,
            (true, false) => Concern::All,
            (true, true) => Concern::Some,
            (false, true) => Concern::None,
            (false, false) => Concern::Together,
        }
    }

    /// Whether the keys of a record belong to a shard; true for effects without keys.
    pub fn is_of_shard(&mut self, effects: &[u8], shard: usize, shards: usize) -> bool {
        let mut is_own = true;
        let read = for_each_effect(effects, &mut self.spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            let id = if is_select(args) { None } else { commands::find_of(args).ok().flatten() };
            let command = id.map(commands::command).filter(|command| command.accepts(args.len()));
            let mut keys = command.into_iter().flat_map(|command| command.keys.positions(args));
            is_own &= keys.all(|position| shard_of(&args[position], shards) == shard);
        });
        is_own || read.is_none()
    }

    /// Applies the effects of one record; if its effects concern one owner each, only those of `own`. The error says
    /// what is wrong with it.
    pub fn apply(&mut self, effects: &[u8], store: MultiShardView<'_>, own: Option<Share>) -> Result<(), Refusal> {
        let Self { spans, replies, has_gap, left_out, passes_over, unfit, place } = self;
        const NO_EFFECTS: &str = "is no list of effects";
        if *passes_over && for_each_effect(effects, spans, |_, _| {}).is_none() {
            unfit.push(Unfit { effect: None, reason: NO_EFFECTS.to_owned() });
            return Ok(());
        }
        let is_own =
            |args: Args<'_>| own.is_none_or(|own| is_select(args) || owner_of(args, own.owners) == Some(own.owner));
        let mut keyspace = Keyspace::of_replay(store);
        keyspace.select(0);
        let (mut outcome, mut next) = (Ok(()), 0);
        let read = for_each_effect(effects, spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            let effect = next;
            next += 1;
            if StreamPlace::is_effect(args) {
                let mut place = place.lock();
                *place = StreamPlace::of_effect(args).map(|told| told.later(place.take())).or(place.take());
                return;
            }
            if outcome.is_err() || !is_own(args) {
                return;
            }
            match apply_effect(&mut keyspace, args, replies) {
                Ok(()) => {}
                Err(Misfit::Failed(_)) if *has_gap => *left_out += 1,
                Err(Misfit::Failed(reason) | Misfit::Foreign(reason)) if *passes_over => {
                    unfit.push(Unfit { effect: Some(effect), reason });
                }
                Err(Misfit::Failed(reason) | Misfit::Foreign(reason)) => outcome = Err(Refusal::Unfit(reason)),
                Err(Misfit::Database(number)) => {
                    outcome = Err(Refusal::Database(number, keyspace.store.databases()));
                }
            }
        });
        read.ok_or_else(|| Refusal::Unfit(NO_EFFECTS.to_owned()))?;
        outcome
    }
}

/// The payload of a record without some of its effects. It stays a record, because others count the records before
/// them, and one that changes nothing is not [`GAP`], after which every failure would be skipped silently.
pub fn without_effects(payload: &[u8], is_left_out: impl Fn(usize) -> bool) -> Vec<u8> {
    let (mut rest, mut next) = (Vec::new(), 0);
    let read = for_each_effect(payload, &mut Vec::new(), |effect, _| {
        if !is_left_out(next) {
            rest.extend_from_slice(effect);
        }
        next += 1;
    });
    if read.is_none() || rest.is_empty() {
        let mut nothing = Effects::new(true);
        nothing.add([b"SELECT".as_slice(), b"0"]);
        return nothing.payload().to_vec();
    }
    rest
}

/// One of several owners that replay side by side; keys are divided among them by their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which one.
    pub owner: usize,
    /// Out of how many.
    pub owners: usize,
}

/// Which effects of a record concern one of several owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// Nothing: all of it concerns others.
    None,
    /// Some effects; each of the rest concerns one of the others.
    Some,
    /// All.
    All,
    /// Some effect concerns several owners at once, or an unknown one.
    Together,
}

/// The owner of all keys of an effect; `None` if they have several owners, or the effect may concern more than its
/// keys.
fn owner_of(args: Args<'_>, owners: usize) -> Option<usize> {
    let command = commands::command(commands::find_of(args).ok()??);
    if command.flags.has(Flags::CROSSES) || !command.accepts(args.len()) || command.may_concern_all(args) {
        return None;
    }
    let mut owned = command.keys.positions(args).map(|position| NodeTable::owner_of(hash_of(&args[position]), owners));
    let owner = owned.next()?;
    owned.all(|other| other == owner).then_some(owner)
}

/// Whether an effect selects the database of those after it.
fn is_select(args: Args<'_>) -> bool {
    args.get(0) == Some(b"SELECT")
}

/// Why an effect was not applied.
enum Misfit {
    /// It is not an effect.
    Foreign(String),
    /// The data differs from that which it was applied to first.
    Failed(String),
    /// It needs a database that does not exist.
    Database(usize),
}

fn apply_effect(
    keyspace: &mut Keyspace<MultiShardView<'_>>,
    args: Args<'_>,
    replies: &mut Vec<u8>,
) -> Result<(), Misfit> {
    let name = args.get(0).ok_or_else(|| Misfit::Foreign("holds an effect without a command".into()))?;
    if is_select(args) {
        return select(keyspace, args);
    }
    let found = commands::find_of(args).map_err(|error| Misfit::Foreign(error.to_string()))?;
    // The log has the effects of a script, not the script.
    let is_effect =
        |id: &CommandId| commands::command(*id).is_write() && !commands::command(*id).flags.has(Flags::SCRIPT);
    let id = found.filter(is_effect);
    let id = id.filter(|id| commands::command(*id).accepts(args.len()));
    let describe = || Misfit::Foreign(format!("holds an effect that is no write: {}", String::from_utf8_lossy(name)));
    let id = id.ok_or_else(describe)?;
    let highest = commands::highest_database(id, args).filter(|number| *number >= keyspace.store.databases());
    highest.map_or(Ok(()), |number| Err(Misfit::Database(number)))?;
    replies.clear();
    commands::execute(id, keyspace, args, &mut Reply::new(replies, false));
    match replies.strip_prefix(b"-") {
        Some(error) => {
            let error = String::from_utf8_lossy(error);
            let name = commands::command(id).name.to_uppercase().replace('|', " ");
            Err(Misfit::Failed(format!("{name} fails on replay: {}", error.trim_end())))
        }
        None => Ok(()),
    }
}

/// Selects the database of the effects that follow.
fn select(keyspace: &mut Keyspace<MultiShardView<'_>>, args: Args<'_>) -> Result<(), Misfit> {
    let number = args.get(1).and_then(parse_u64).and_then(|number| usize::try_from(number).ok());
    match number {
        Some(number) if number < keyspace.store.databases() => {
            keyspace.select(number);
            Ok(())
        }
        Some(number) => Err(Misfit::Database(number)),
        None => Err(Misfit::Foreign("selects no database".to_owned())),
    }
}
