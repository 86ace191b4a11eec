//! ZADD and ZINCRBY.

use crate::commands::arguments::is;
use crate::commands::double::double;
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{Class, Keyspace, SortedSet, Store};
use crate::resp::{Args, DoubleText, Reply};

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]: O(M * log N), M = members given
pub fn zadd<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (options, rest) = ScoreOptions::parse(args.from(2), |options, word| options.set(word));
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    options.check(rest.len() / 2)?;
    let scores = rest.iter().step_by(2).map(double).collect::<Result<Vec<_>, _>>()?;
    let members = rest.iter().skip(1).step_by(2);
    if options.is_increment {
        return increment(keyspace, &args[1], &rest[1], scores[0], options, reply);
    }
    add_elements(keyspace, &args[1], scores, members, options, reply)
}

/// ZINCRBY key increment member: O(log N)
///
/// In Redis it is a form of ZADD, whose options it takes for options, too: then the increment or the member is missing.
pub fn zincrby<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (_, rest) = ScoreOptions::parse(args.from(2), ScoreOptions::set);
    if rest.len() != 2 {
        return Err(CommandError::Syntax);
    }
    increment(keyspace, &args[1], &args[3], double(&args[2])?, ScoreOptions::default(), reply)
}

/// The conditions for changing scores, and the form of the reply.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScoreOptions {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    counts_changes: bool,
    is_increment: bool,
}

impl ScoreOptions {
    /// Parses options with `set`, as far as it accepts them; also returns the arguments after them.
    pub fn parse<'a>(args: Args<'a>, set: impl Fn(&mut Self, &[u8]) -> bool) -> (Self, Args<'a>) {
        let mut options = Self::default();
        let len = args.iter().take_while(|word| set(&mut options, word)).count();
        (options, args.from(len))
    }

    /// Parses the options of GEOADD; false for any other word.
    pub fn set_existence(&mut self, word: &[u8]) -> bool {
        match word {
            _ if is(word, "NX") => self.only_new = true,
            _ if is(word, "XX") => self.only_old = true,
            _ if is(word, "CH") => self.counts_changes = true,
            _ => return false,
        }
        true
    }

    fn set(&mut self, word: &[u8]) -> bool {
        match word {
            _ if is(word, "GT") => self.only_greater = true,
            _ if is(word, "LT") => self.only_less = true,
            _ if is(word, "INCR") => self.is_increment = true,
            _ => return self.set_existence(word),
        }
        true
    }

    /// Whether both existing and new members are excluded.
    pub fn excludes_all(self) -> bool {
        self.only_new && self.only_old
    }

    fn check(self, elements: usize) -> Result<(), CommandError> {
        let Self { only_new, only_greater, only_less, .. } = self;
        if self.excludes_all() {
            return Err(CommandError::Text("ERR XX and NX options at the same time are not compatible"));
        }
        if (only_new && (only_greater || only_less)) || (only_greater && only_less) {
            return Err(CommandError::Text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.is_increment && elements > 1 {
            return Err(CommandError::Text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// Whether a member may get a score, given its old one.
    fn allow(self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.only_old,
            Some(old) => !self.only_new && (!self.only_greater || new > old) && (!self.only_less || new < old),
        }
    }
}

/// Sets the scores of members according to the options, and replies how many are new, or changed.
pub fn add_elements<'m, S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    scores: Vec<f64>,
    members: impl Iterator<Item = &'m [u8]>,
    options: ScoreOptions,
    reply: &mut Reply<'_>,
) -> Outcome {
    let limits = keyspace.settings().limits::<SortedSet>();
    let Some(set) = set_of(keyspace, key, options)? else {
        reply.integer(0);
        return Ok(());
    };
    set.expect(limits, scores.len());
    let (mut added, mut updated) = (0, 0);
    for (score, member) in scores.into_iter().zip(members) {
        let old = set.score(member);
        if options.allow(old, score) && old != Some(score) {
            set.insert(limits, member, score);
            *(if old.is_none() { &mut added } else { &mut updated }) += 1;
        }
    }
    keyspace.note_change(key, added + updated);
    if added + updated > 0 {
        keyspace.notify(Class::ZSET, "zadd", key);
    }
    reply.count(if options.counts_changes { added + updated } else { added });
    Ok(())
}

/// The sorted set of a key, created if there is none, unless only existing members may change.
fn set_of<'k, S: Store>(
    keyspace: &'k mut Keyspace<S>,
    key: &[u8],
    options: ScoreOptions,
) -> Result<Option<&'k mut SortedSet>, CommandError> {
    if options.only_old { keyspace.collection_mut(key) } else { keyspace.collection_or_new(key).map(Some) }
}

/// Adds to the score of a member, and replies the result.
fn increment<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    member: &[u8],
    increment: f64,
    options: ScoreOptions,
    reply: &mut Reply<'_>,
) -> Outcome {
    // Nothing fails after a sorted set had to be created: a new member has the increment as its score.
    let limits = keyspace.settings().limits::<SortedSet>();
    let Some(set) = set_of(keyspace, key, options)? else {
        reply.null();
        return Ok(());
    };
    let old = set.score(member);
    if old.is_some() && options.only_new {
        reply.null();
        return Ok(());
    }
    let score = old.map_or(increment, |old| old + increment);
    if score.is_nan() {
        return Err(CommandError::Text("ERR resulting score is not a number (NaN)"));
    }
    if !options.allow(old, score) {
        reply.null();
        return Ok(());
    }
    if old != Some(score) {
        set.insert(limits, member, score);
        keyspace.note_change(key, 1);
        keyspace.notify(Class::ZSET, "zincr", key);
        keyspace.effects.record([b"ZADD", key, &DoubleText::shortest(score), member]);
    }
    reply.double(score);
    Ok(())
}
