//! Applying what the log says to the data.

use super::record::for_each_effect;
use crate::commands::{self, Flags};
use crate::keyspace::{Effects, Joint, Keyspace, Segmented, hash_of};
use crate::resp::{Args, Reply, Span, parse_u64};

/// Runs logged effects over keyspaces in which nothing expires: expiry is in the log.
pub struct Replay {
    spans: Vec<Span>,
    replies: Vec<u8>,
    /// Whether something is missing on which what is replayed may depend.
    pub has_gap: bool,
    /// Effects that failed for it.
    pub left_out: u64,
}

/// The payload of a record that changes nothing. It stands where a part of a segment was taken away and it got its joint
/// records back, so that every later start replays them as the first did.
pub const GAP: &[u8] = b"";

impl Replay {
    /// Where nothing is missing.
    pub fn new() -> Self {
        Self { spans: Vec::new(), replies: Vec::new(), has_gap: false, left_out: 0 }
    }

    /// Where something may be missing from the beginning.
    #[cfg(test)]
    pub fn tolerant() -> Self {
        Self { has_gap: true, ..Self::new() }
    }

    /// What in a record concerns an owner who has a share of the keys.
    pub fn concern(&mut self, effects: &[u8], share: Share) -> Concern {
        let (mut own, mut others, mut together) = (false, false, false);
        let read = for_each_effect(effects, &mut self.spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            match owner_of(args, share.owners) {
                _ if is_select(args) => {}
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

    /// Applies the effects of one record; of several that concern one owner each, those of `own`. The error says what is
    /// wrong with it.
    pub fn apply(&mut self, effects: &[u8], store: Joint<'_>, own: Option<Share>) -> Result<(), String> {
        let Self { spans, replies, has_gap, left_out } = self;
        let is_own =
            |args: Args<'_>| own.is_none_or(|own| is_select(args) || owner_of(args, own.owners) == Some(own.owner));
        // The clock stands at 0 and no effect is random: the same log gives the same state on any day.
        let mut keyspace = Keyspace::new(store, 0, fastrand::Rng::with_seed(0), Effects::new(false));
        keyspace.select(0);
        let mut outcome = Ok(());
        for_each_effect(effects, spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            if outcome.is_err() || !is_own(args) {
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

/// Who replays: one of several owners, among whom keys are divided by their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which one.
    pub owner: usize,
    /// Out of how many.
    pub owners: usize,
}

/// What in a record concerns one of several owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// Nothing: all of it concerns others.
    None,
    /// Some effects; each other concerns one of the others.
    Some,
    /// All.
    All,
    /// Some effect concerns several at once, or nobody knows whom.
    Together,
}

/// The owner of all keys of an effect; none where they are of several, or it may concern more than its keys.
fn owner_of(args: Args<'_>, owners: usize) -> Option<usize> {
    let command = commands::command(commands::find_of(args).ok()??);
    if command.flags.has(Flags::CROSSES) || !command.accepts(args.len()) || command.needs_all(args) {
        return None;
    }
    let mut owned = command.keys.positions(args).map(|position| Segmented::owner_of(hash_of(&args[position]), owners));
    let owner = owned.next()?;
    owned.all(|other| other == owner).then_some(owner)
}

/// Whether an effect says which database those behind it concern.
fn is_select(args: Args<'_>) -> bool {
    args.get(0) == Some(b"SELECT")
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
    if is_select(args) {
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
