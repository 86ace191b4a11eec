//! Applying what the log says to the data.

use super::record::for_each_effect;
use crate::commands;
use crate::keyspace::{Effects, Joint, Keyspace};
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

    /// Applies the effects of one record. The error says what is wrong with it.
    pub fn apply(&mut self, effects: &[u8], store: Joint<'_>) -> Result<(), String> {
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
