//! Adding entries and removing them: XADD, XDEL, XTRIM, XSETID.

use super::super::arguments::{integer, is};
use super::super::{CommandError, Outcome};
use super::{id, ids, write_id};
use crate::keyspace::values::stream::{BlockLimits, ChosenId, ENTRY_BYTES_MAX, Rest, StreamId, Trim};
use crate::keyspace::{Class, Keyspace, Store, Stream};
use crate::resp::{Args, Reply};

/// The options of XADD and XTRIM.
#[derive(Debug, Default)]
struct Options {
    trim: Option<Trim>,
    /// The position of the option of `trim`.
    trim_at: usize,
    /// LIMIT.
    limit: Option<i64>,
    /// NOMKSTREAM.
    only_existing: bool,
    /// The ID of XADD; `None` for the next one.
    id: Option<ChosenId>,
    /// The position of the ID, or where it should be.
    id_at: usize,
}

/// XADD key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]:
/// O(1), and O(N), N = entries trimmed
pub fn xadd<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options =
        Options::parse(args, true, keyspace.settings().limits::<Stream>(), keyspace.turn.was_accepted_before())?;
    let fields = args.from(options.id_at + 1);
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(CommandError::Arity("xadd".to_owned()));
    }
    if options.id == Some(ChosenId::Whole(StreamId::MIN)) {
        return Err(CommandError::Text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = &args[1];
    if options.only_existing && !keyspace.holds::<Stream>(key)? {
        reply.null();
        return Ok(());
    }
    let now_ms = keyspace.turn.now_ms();
    let is_small = fields.byte_len() <= ENTRY_BYTES_MAX;
    // An error leaves no empty stream, which the log would not know: a new stream refuses no ID except 0-0.
    if !is_small {
        let nothing = Stream::default();
        let stream = keyspace.collection_mut::<Stream>(key)?;
        new_id(stream.as_deref().unwrap_or(&nothing), options.id, now_ms)?;
        return Err(CommandError::Text("ERR Elements are too large to be stored"));
    }
    let limits = keyspace.settings().limits::<Stream>();
    let stream = keyspace.collection_or_new::<Stream>(key)?;
    let id = new_id(stream, options.id, now_ms)?;
    stream.push(limits, id, fields.iter());
    let trimmed = options.trim.as_ref().map_or(0, |trim| stream.trim(trim));
    let len = stream.len();
    write_id(id, reply);
    record_added(keyspace, args, &options, id, len);
    keyspace.note_change(key, 1);
    keyspace.notify(Class::STREAM, "xadd", key);
    if trimmed > 0 {
        keyspace.notify(Class::STREAM, "xtrim", key);
    }
    Ok(())
}

/// The ID of a new entry, above all earlier ones.
fn new_id(stream: &Stream, chosen: Option<ChosenId>, now_ms: u64) -> Result<StreamId, CommandError> {
    const TOO_SMALL: CommandError =
        CommandError::Text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    const EXHAUSTED: CommandError =
        CommandError::Text("ERR The stream has exhausted the last possible ID, unable to add more items");
    let last = stream.last_id;
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let id = match chosen {
        None => stream.next_id(now_ms).ok_or(EXHAUSTED)?,
        Some(ChosenId::Whole(id)) => id,
        Some(ChosenId::Time(ms)) if ms == last.ms => {
            let seq = last.seq.checked_add(1).ok_or(TOO_SMALL)?;
            StreamId { ms, seq }
        }
        Some(ChosenId::Time(ms)) => StreamId { ms, seq: 0 },
    };
    if id > last { Ok(id) } else { Err(TOO_SMALL) }
}

/// Adds the effect with the chosen ID, and with the length that approximate trimming left.
fn record_added<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, options: &Options, id: StreamId, len: usize) {
    if !keyspace.effects.is_logged() {
        return;
    }
    let (id, len) = (id.to_string(), len.to_string());
    let mut effect: Vec<&[u8]> = vec![b"XADD", &args[1]];
    match &options.trim {
        Some(trim) if trim.is_approximate => effect.extend([b"MAXLEN".as_slice(), b"=", len.as_bytes()]),
        Some(_) => effect.extend([&args[options.trim_at], b"=", &args[options.threshold_at(args)]]),
        None => {}
    }
    effect.push(id.as_bytes());
    effect.extend(args.from(options.id_at + 1).iter());
    keyspace.effects.record(effect);
}

/// XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]: O(N), N = entries trimmed
pub fn xtrim<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options =
        Options::parse(args, false, keyspace.settings().limits::<Stream>(), keyspace.turn.was_accepted_before())?;
    let trim = options.trim.expect("XTRIM without a threshold is refused");
    let key = &args[1];
    let Some(stream) = keyspace.collection_mut::<Stream>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let gone = stream.trim(&trim);
    let len = stream.len();
    if gone > 0 && trim.is_approximate {
        keyspace.effects.record([b"XTRIM", key, b"MAXLEN", b"=", len.to_string().as_bytes()]);
    }
    reply.count(gone);
    if gone > 0 {
        keyspace.note_change(key, gone);
        keyspace.notify(Class::STREAM, "xtrim", key);
    }
    Ok(())
}

impl Options {
    fn parse(args: Args<'_>, is_add: bool, limits: BlockLimits, was_accepted: bool) -> Result<Self, CommandError> {
        let mut options = Self { id_at: args.len(), ..Self::default() };
        let mut at = 2;
        while let Some(option) = args.get(at) {
            let has_more = at + 1 < args.len();
            if is_add && option == b"*" {
                options.id_at = at;
                break;
            } else if has_more && (is(option, "MAXLEN") || is(option, "MINID")) {
                at = options.parse_threshold(args, at)?;
            } else if has_more && is(option, "LIMIT") {
                options.parse_limit(&args[at + 1])?;
                at += 2;
            } else if is_add && is(option, "NOMKSTREAM") {
                options.only_existing = true;
                at += 1;
            } else if is_add {
                options.id = Some(StreamId::parse_chosen(option).ok_or(super::INVALID_ID)?);
                options.id_at = at;
                break;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        options.check(is_add, was_accepted)?;
        options.set_limit(limits, was_accepted);
        Ok(options)
    }

    /// Parses MAXLEN or MINID at a position, and returns where the next option is.
    fn parse_threshold(&mut self, args: Args<'_>, at: usize) -> Result<usize, CommandError> {
        if self.trim.is_some() {
            return Err(CommandError::Text(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        self.trim_at = at;
        let threshold_at = self.threshold_at(args);
        let is_approximate = threshold_at > at + 1 && &args[at + 1] == b"~";
        let threshold = &args[threshold_at];
        let rest = if args.is(at, "MAXLEN") {
            let most = usize::try_from(integer(threshold)?);
            Rest::Len(most.map_err(|_| CommandError::Text("ERR The MAXLEN argument must be >= 0."))?)
        } else {
            Rest::From(id(threshold)?)
        };
        self.trim = Some(Trim { rest, is_approximate, limit: 0 });
        Ok(threshold_at + 1)
    }

    /// The position after MAXLEN or MINID, and `=` or `~`.
    fn threshold_at(&self, args: Args<'_>) -> usize {
        let has_sign = self.trim_at + 2 < args.len() && matches!(&args[self.trim_at + 1], b"=" | b"~");
        self.trim_at + 1 + usize::from(has_sign)
    }

    fn parse_limit(&mut self, argument: &[u8]) -> Result<(), CommandError> {
        let limit = integer(argument)?;
        if limit < 0 {
            return Err(CommandError::Text("ERR The LIMIT argument must be >= 0."));
        }
        self.limit = Some(limit);
        Ok(())
    }

    /// A Redis writes `=` in the place of `~` to its log and its replicas, and leaves LIMIT where it is.
    fn check(&self, is_add: bool, was_accepted: bool) -> Outcome {
        let text = match (&self.trim, self.limit) {
            (None, Some(1..)) => "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            (None, _) if !is_add => "ERR syntax error, XTRIM must be called with a trimming strategy",
            (trim, Some(_)) if !was_accepted && !trim.is_some_and(|trim| trim.is_approximate) => {
                "ERR syntax error, LIMIT cannot be used without the special ~ option"
            }
            _ => return Ok(()),
        };
        Err(CommandError::Text(text))
    }

    /// Approximate trimming stops after 100 blocks, unless the client sets a limit.
    fn set_limit(&mut self, limits: BlockLimits, was_accepted: bool) {
        const WITHOUT_BLOCKS: usize = 10_000;
        const MOST: usize = 1_000_000;
        let Some(trim) = self.trim.as_mut().filter(|trim| trim.is_approximate && !was_accepted) else { return };
        trim.limit = match (self.limit, limits.entries) {
            (Some(limit), _) => usize::try_from(limit).expect("LIMIT is not negative"),
            (None, 0) => WITHOUT_BLOCKS,
            (None, entries) => entries.saturating_mul(100).min(MOST),
        };
    }
}

/// XDEL key id [id ...]: O(M log N), M = IDs, N = blocks of 100 entries
pub fn xdel<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let Some(stream) = keyspace.collection_mut::<Stream>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let deleted = ids(args.from(2))?.into_iter().filter(|&id| stream.delete(id)).count();
    reply.count(deleted);
    if deleted > 0 {
        keyspace.note_change(key, deleted);
        keyspace.notify(Class::STREAM, "xdel", key);
    }
    Ok(())
}

/// XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]: O(1)
pub fn xsetid<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let last_id = id(&args[2])?;
    let past = Past::parse(args, last_id)?;
    // A master of version 7.0 does not check that.
    let may_go_back = keyspace.turn.was_accepted_before();
    let stream = keyspace.collection_mut::<Stream>(&args[1])?.ok_or(CommandError::NoSuchKey)?;
    let refuse = |text| Err(CommandError::Text(text));
    if last_id < stream.max_deleted_id && !may_go_back {
        return refuse("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
    }
    if last_id < stream.last_entry_id() {
        return refuse("ERR The ID specified in XSETID is smaller than the target stream top item");
    }
    if !stream.is_empty() && past.entries_added.is_some_and(|added| added < stream.len() as u64) {
        return refuse("ERR The entries_added specified in XSETID is smaller than the target stream length");
    }
    stream.last_id = last_id;
    stream.entries_added = past.entries_added.unwrap_or(stream.entries_added);
    if past.max_deleted_id != StreamId::MIN {
        stream.max_deleted_id = past.max_deleted_id;
    }
    reply.ok();
    keyspace.stats.note_unwatched_change(1);
    keyspace.notify(Class::STREAM, "xsetid", &args[1]);
    Ok(())
}

/// [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
#[derive(Debug, Default)]
struct Past {
    entries_added: Option<u64>,
    max_deleted_id: StreamId,
}

impl Past {
    fn parse(args: Args<'_>, last_id: StreamId) -> Result<Self, CommandError> {
        let mut past = Self::default();
        for at in (3..args.len()).step_by(2) {
            let value = args.get(at + 1).ok_or(CommandError::Syntax)?;
            if args.is(at, "ENTRIESADDED") {
                let added = u64::try_from(integer(value)?);
                past.entries_added = Some(added.map_err(|_| CommandError::Text("ERR entries_added must be positive"))?);
            } else if args.is(at, "MAXDELETEDID") {
                past.max_deleted_id = id(value)?;
                if last_id < past.max_deleted_id {
                    return Err(CommandError::Text(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    ));
                }
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(past)
    }
}
