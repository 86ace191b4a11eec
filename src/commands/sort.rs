//! SORT and SORT_RO: the elements of a list, a set or a sorted set, perhaps in an order that other keys define.
//!
//! A pattern of BY or GET names a key for each element, whose shard is not known beforehand: such a request runs over
//! all shards together. Keys are only read until the result is known, so elements are sorted in place, without a copy.

use super::access;
use super::arguments::{integer, is};
use super::flag_sets::{READ, WRITE};
use super::float::Extended;
use super::lookup::find;
use super::row::{Accessed, Categories, Command, Group, KeyFinder, Keys, OptionKeys, Request, Row, Run, as_range};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::commands::documentation::{Argument, arguments, without_last};
use crate::keyspace::{
    Class, Collection, Element, End, Hash, Keyspace, KeyspaceStats, List, NewValue, Object, Permissions, Store, Value,
};
use crate::resp::{Args, Reply};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// The arguments of SORT; those of SORT_RO are all but the destination.
const ARGUMENTS: &[Argument] = arguments![
    key("key", 0),
    pattern("by-pattern").of_key(1).shown("pattern").after("BY").optional(),
    block("limit", arguments![integer("offset"), integer("count")]).after("LIMIT").optional(),
    pattern("get-pattern").of_key(1).shown("pattern").after("GET").repeated_with_token().optional(),
    one_of("order", arguments![token("asc", "ASC"), token("desc", "DESC")]).optional(),
    token("sorting", "ALPHA").optional(),
    key("destination", 2).after("STORE").optional(),
];

/// The first argument is a key, STORE names another, and patterns name any.
const KEYS: Keys = Keys {
    options: OptionKeys::Found(&KeyFinder {
        named: |args| as_range(store_position(args)),
        may_be_any: reads_by_pattern,
        notes: &[BY_PATTERN, STORED],
    }),
    ..Keys::ONE
};

/// The first argument is a key, and patterns name any.
const KEYS_RO: Keys = Keys {
    options: OptionKeys::Found(&KeyFinder { named: |_| 0..0, may_be_any: reads_by_pattern, notes: &[BY_PATTERN] }),
    ..Keys::ONE
};

const BY_PATTERN: (&str, Accessed) = (
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key \
     we sort",
    Accessed::AsFirst,
);
const STORED: (&str, Accessed) = (
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument \
     array",
    Accessed::AsRest,
);

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 2] {
    [
        Run::Keyspace(sort).row(Command {
            name: "sort",
            arity: -2,
            flags: WRITE,
            keys: KEYS,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]",
            arguments: ARGUMENTS,
            complexity: "O(N + M log M), N = elements, M = elements replied",
            summary: "The elements of a list or a set in order, or stores them as a list. Patterns need all shards.",
            access: Some(access::COPY),
            categories: Categories::DANGEROUS.and(Categories::OF_SORT),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(sort_ro).row(Command {
            name: "sort_ro",
            arity: -2,
            flags: READ,
            keys: KEYS_RO,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
            arguments: without_last(ARGUMENTS),
            complexity: "O(N + M log M), N = elements, M = elements replied",
            summary: "The elements of a list or a set in order. Patterns need all shards.",
            categories: Categories::DANGEROUS.and(Categories::OF_SORT),
            ..Command::of(Group::Generic)
        }),
    ]
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]:
/// O(N + M log M), N = elements, M = elements replied
pub fn sort<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options = Options::parse(args, true, Limits::of(keyspace, args))?;
    let Some(destination) = options.store else { return reply_sorted(keyspace, &args[1], &options, reply) };
    let mut lookups = Lookups::new(keyspace);
    let result = sorted(keyspace, &args[1], &options, &mut lookups)?;
    let result: Vec<Vec<u8>> = result.into_iter().map(|element| element.unwrap_or_default().into_owned()).collect();
    lookups.report(keyspace);
    let len = result.len();
    store(keyspace, destination, &result);
    reply.count(len);
    Ok(())
}

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]:
/// O(N + M log M), N = elements, M = elements replied
pub fn sort_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options = Options::parse(args, false, Limits::of(keyspace, args))?;
    reply_sorted(keyspace, &args[1], &options, reply)
}

/// Whether patterns are allowed: they may name any key.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Whether keys may be of any slot.
    any_slot: bool,
    /// Whether the user may read all keys.
    any_key: bool,
}

impl Limits {
    const NONE: Self = Self { any_slot: true, any_key: true };

    fn of<S: Store>(keyspace: &Keyspace<S>, args: Args<'_>) -> Self {
        let permissions = keyspace.turn.caller.permissions.as_deref();
        let permit =
            |permissions: &dyn Permissions| find(&args[0]).is_some_and(|id| permissions.permit_all_keys(id.0, args));
        Self {
            any_slot: !keyspace.settings().refuses_cross_slot() || keyspace.turn.was_accepted_before(),
            any_key: permissions.is_none_or(permit),
        }
    }
}

/// Whether a request reads keys that its elements name.
fn reads_by_pattern(args: Args<'_>) -> bool {
    let patterns = Options::parse(args, true, Limits::NONE).map(|options| {
        let by = options.by.is_some_and(|pattern| pattern.names_keys());
        by || options.get.iter().any(|pattern| pattern.names_keys())
    });
    // Any shard can reply with the error of an invalid request.
    patterns.unwrap_or(false)
}

/// The position of the key that a request stores to.
fn store_position(args: Args<'_>) -> Option<usize> {
    let mut found = None;
    let mut position = 2;
    while position < args.len() {
        position += match args.get(position) {
            Some(word) if is(word, "LIMIT") => 3,
            Some(word) if is(word, "BY") || is(word, "GET") => 2,
            Some(word) if is(word, "STORE") && position + 1 < args.len() => {
                found = Some(position + 1);
                2
            }
            _ => 1,
        };
    }
    found
}

#[derive(Debug, Default)]
struct Options<'a> {
    is_descending: bool,
    is_alpha: bool,
    offset: i64,
    /// The most elements; negative for all.
    count: Option<i64>,
    by: Option<Pattern<'a>>,
    /// Whether a BY has named no keys, even if another follows: nothing is sorted then.
    keeps_order: bool,
    get: Vec<Pattern<'a>>,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, may_store: bool, limits: Limits) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = args.from(2).iter();
        while let Some(word) = words.next() {
            match word {
                _ if is(word, "ASC") => options.is_descending = false,
                _ if is(word, "DESC") => options.is_descending = true,
                _ if is(word, "ALPHA") => options.is_alpha = true,
                _ if is(word, "LIMIT") && words.len() >= 2 => {
                    let mut number = || integer(words.next().ok_or(CommandError::Syntax)?);
                    (options.offset, options.count) = (number()?, Some(number()?));
                }
                _ if is(word, "STORE") && may_store => options.store = Some(words.next().ok_or(CommandError::Syntax)?),
                _ if is(word, "BY") => {
                    let pattern = Pattern(words.next().ok_or(CommandError::Syntax)?);
                    if pattern.names_keys() && !limits.any_slot {
                        return Err(CommandError::Text("ERR BY option of SORT denied in Cluster mode."));
                    }
                    if pattern.names_keys() && !limits.any_key {
                        return Err(CommandError::Text(
                            "ERR BY option of SORT denied due to insufficient ACL permissions.",
                        ));
                    }
                    options.keeps_order |= !pattern.names_keys();
                    options.by = Some(pattern);
                }
                _ if is(word, "GET") => {
                    let pattern = Pattern(words.next().ok_or(CommandError::Syntax)?);
                    if !limits.any_slot {
                        return Err(CommandError::Text("ERR GET option of SORT denied in Cluster mode."));
                    }
                    if !limits.any_key {
                        return Err(CommandError::Text(
                            "ERR GET option of SORT denied due to insufficient ACL permissions.",
                        ));
                    }
                    options.get.push(pattern);
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    /// The part of `len` elements that LIMIT selects.
    fn limits(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = self.count.and_then(|count| usize::try_from(count).ok()).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

/// A pattern that names a key, or a field of a hash, for an element: the element replaces the first `*`, and `->`
/// precedes a field.
#[derive(Debug, Clone, Copy)]
struct Pattern<'a>(&'a [u8]);

impl<'a> Pattern<'a> {
    /// Whether it names different keys for different elements.
    fn names_keys(self) -> bool {
        self.0.contains(&b'*')
    }

    /// The template of the pattern; `None` if it has no place for an element.
    fn template(self) -> Option<Template<'a>> {
        let star = self.0.iter().position(|&byte| byte == b'*')?;
        let (before, after) = (&self.0[..star], &self.0[star + 1..]);
        let arrow = after.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < after.len());
        Some(match arrow {
            Some(arrow) => Template { before, after: &after[..arrow], field: Some(&after[arrow + 2..]) },
            None => Template { before, after, field: None },
        })
    }

    /// The value that it names for an element; `None` if there is no such string or field.
    fn look_up<'v, S: Store>(
        self,
        keyspace: &'v Keyspace<S>,
        element: &Cow<'v, [u8]>,
        lookups: &mut Lookups,
    ) -> Option<Cow<'v, [u8]>> {
        if self.0 == b"#" {
            return Some(element.clone());
        }
        let Template { before, after, field } = self.template()?;
        let key = [before, element, after].concat();
        let value = keyspace.look(&key);
        lookups.note(key, value.is_some());
        match (value?, field) {
            (Value::Object(object), Some(field)) => Hash::of(object)?.get(field).map(text_of),
            (Value::Text(text), None) => Some(Cow::Borrowed(text)),
            (Value::Integer(integer), None) => Some(text_of(Element::Integer(integer))),
            _ => None,
        }
    }
}

/// What looking for the keys that elements name has found. It is reported after the last of them: values are borrowed
/// before.
#[derive(Debug)]
struct Lookups {
    stats: KeyspaceStats,
    /// The missing keys, if anybody wants to know them.
    missed: Option<Vec<Vec<u8>>>,
}

impl Lookups {
    fn new<S: Store>(keyspace: &Keyspace<S>) -> Self {
        Self { stats: KeyspaceStats::default(), missed: keyspace.notices.wants(Class::KEY_MISS).then(Vec::new) }
    }

    fn note(&mut self, key: Vec<u8>, is_found: bool) {
        if is_found {
            self.stats.hits += 1;
            return;
        }
        self.stats.misses += 1;
        if let Some(missed) = &mut self.missed {
            missed.push(key);
        }
    }

    fn report<S: Store>(self, keyspace: &mut Keyspace<S>) {
        keyspace.stats.add(self.stats);
        self.missed.iter().flatten().for_each(|key| keyspace.notify(Class::KEY_MISS, "keymiss", key));
    }
}

/// What a key has before and after the element, and the field of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Template<'a> {
    before: &'a [u8],
    after: &'a [u8],
    field: Option<&'a [u8]>,
}

fn reply_sorted<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    options: &Options<'_>,
    reply: &mut Reply<'_>,
) -> Outcome {
    let mut lookups = Lookups::new(keyspace);
    let result = sorted(keyspace, key, options, &mut lookups)?;
    reply.array(result.len());
    result.iter().for_each(|element| reply.bulk_or_null(element.as_deref()));
    drop(result);
    lookups.report(keyspace);
    Ok(())
}

/// The result of the request: elements in their order, or the results of GET for each.
fn sorted<'v, S: Store>(
    keyspace: &'v mut Keyspace<S>,
    key: &[u8],
    options: &Options<'_>,
    lookups: &mut Lookups,
) -> Result<Vec<Option<Cow<'v, [u8]>>>, CommandError> {
    // An expired key is removed; then all keys are only read.
    keyspace.read(key);
    keyspace.enlarge_sorted_set(key);
    let keyspace = &*keyspace;
    let source = keyspace.look(key);
    let elements = source.map_or(0, |value| value.elements());
    let visited = match source {
        Some(Value::Object(Object::Set(_))) => elements,
        _ if options.keeps_order => options.limits(elements).len(),
        _ => elements,
    };
    lengthy::run(visited, || sorted_elements(keyspace, source, options, lookups))
}

fn sorted_elements<'v, S: Store>(
    keyspace: &'v Keyspace<S>,
    source: Option<Value<'v>>,
    options: &Options<'_>,
    lookups: &mut Lookups,
) -> Result<Vec<Option<Cow<'v, [u8]>>>, CommandError> {
    let must_repeat = options.store.is_some() || keyspace.turn.caller.is_in_script;
    let is_set = matches!(source, Some(Value::Object(Object::Set(_))));
    let is_in_order = options.keeps_order && !(is_set && must_repeat);
    let mut elements = elements_of(source, options, is_in_order)?;
    if !is_in_order {
        match options.keeps_order {
            // A set has no order of its own: a stored result, or one for a script, must be the same each time.
            true => sort_by_text(&mut elements, options.is_descending),
            false => sort_elements(keyspace, &mut elements, options.by, options, lookups)?,
        }
        let limits = options.limits(elements.len());
        elements.truncate(limits.end);
        elements.drain(..limits.start);
    }
    if options.get.is_empty() {
        return Ok(elements.into_iter().map(Some).collect());
    }
    let gets = elements.iter().flat_map(|element| options.get.iter().map(move |pattern| (pattern, element)));
    Ok(gets.map(|(pattern, element)| pattern.look_up(keyspace, element, lookups)).collect())
}

/// The elements of a key, in its own order: those that the request replies with, in the direction that it asks for, if
/// it `is_in_order`, otherwise all.
fn elements_of<'v>(
    value: Option<Value<'v>>,
    options: &Options<'_>,
    is_in_order: bool,
) -> Result<Vec<Cow<'v, [u8]>>, CommandError> {
    let chosen = |len| if is_in_order { options.limits(len) } else { 0..len };
    let is_reversed = is_in_order && options.is_descending;
    match value {
        None => Ok(Vec::new()),
        Some(Value::Object(Object::List(list))) => {
            let Range { start, end } = chosen(list.len());
            Ok(match is_reversed {
                true => list.range_back(list.len() - end..list.len() - start).map(text_of).collect(),
                false => list.range(start..end).map(text_of).collect(),
            })
        }
        Some(Value::Object(Object::Set(set))) => {
            let chosen = chosen(set.len());
            Ok(set.iter().skip(chosen.start).take(chosen.len()).map(text_of).collect())
        }
        Some(Value::Object(Object::SortedSet(set))) => {
            let Range { start, end } = chosen(set.len());
            let member = |(member, _)| text_of(member);
            Ok(match is_reversed {
                true => set.range(set.len() - end..set.len() - start).rev().map(member).collect(),
                false => set.range(start..end).map(member).collect(),
            })
        }
        Some(_) => Err(CommandError::WrongType),
    }
}

fn text_of(element: Element<'_>) -> Cow<'_, [u8]> {
    match element {
        Element::Bytes(bytes) => Cow::Borrowed(bytes),
        Element::Integer(_) => Cow::Owned(element.to_vec()),
    }
}

/// Sorts elements by themselves or by a pattern, as texts or as numbers. Elements that compare equal as texts keep
/// their order.
fn sort_elements<'v, S: Store>(
    keyspace: &'v Keyspace<S>,
    elements: &mut [Cow<'v, [u8]>],
    by: Option<Pattern<'_>>,
    options: &Options<'_>,
    lookups: &mut Lookups,
) -> Outcome {
    let is_descending = options.is_descending;
    match (by, options.is_alpha) {
        (None, true) => sort_by_text(elements, is_descending),
        (Some(pattern), true) => {
            let weight = |element: &Cow<'v, [u8]>| {
                let text = pattern.look_up(keyspace, element, lookups).map(Cow::into_owned);
                (text, ())
            };
            sort_by_weights(elements, weight, is_descending, |(a, ()), (b, ()), _| a.cmp(b));
        }
        (by, false) => {
            let mut is_wrong = false;
            let weight = |element: &Cow<'v, [u8]>| {
                let text = match by {
                    None => Some(element.clone()),
                    Some(pattern) => pattern.look_up(keyspace, element, lookups),
                };
                let score = text.map_or(Some(0.0), |text| score_of(&text));
                is_wrong |= score.is_none();
                score.unwrap_or(0.0)
            };
            let by_score = |a: &f64, b: &f64, (x, y): (&[u8], &[u8])| {
                a.partial_cmp(b).map_or(Ordering::Equal, |order| order.then_with(|| x.cmp(y)))
            };
            sort_by_weights(elements, weight, is_descending, by_score);
            if is_wrong {
                return Err(CommandError::Text("ERR One or more scores can't be converted into double"));
            }
        }
    }
    Ok(())
}

fn sort_by_text(elements: &mut [Cow<'_, [u8]>], is_descending: bool) {
    elements.sort_unstable();
    if is_descending {
        elements.reverse();
    }
}

/// Sorts elements by a weight that is computed once for each.
fn sort_by_weights<'e, W>(
    elements: &mut [Cow<'e, [u8]>],
    weight: impl FnMut(&Cow<'e, [u8]>) -> W,
    is_descending: bool,
    compare: impl Fn(&W, &W, (&[u8], &[u8])) -> Ordering,
) {
    let weights: Vec<W> = elements.iter().map(weight).collect();
    let mut weighted: Vec<(W, Cow<'_, [u8]>)> =
        weights.into_iter().zip(elements.iter_mut().map(std::mem::take)).collect();
    weighted.sort_by(|(a, x), (b, y)| {
        let order = compare(a, b, (x, y));
        if is_descending { order.reverse() } else { order }
    });
    elements.iter_mut().zip(weighted).for_each(|(element, (_, sorted))| *element = sorted);
}

/// A number as C's `strtod` parses it: spaces before it are skipped, an empty text is zero, and it ends at a NUL.
fn score_of(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let spaces = text[..end].iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let text = &text[spaces..end];
    if text.is_empty() {
        // Spaces alone are no number, and remain unparsed.
        return (spaces == 0).then_some(0.0);
    }
    if text.iter().any(|byte| matches!(byte, b'x' | b'X')) {
        return Extended::parse(text).map(Extended::to_f64).filter(|score| score.is_finite());
    }
    let words = std::str::from_utf8(text).ok()?;
    let score: f64 = words.parse().ok().filter(|score: &f64| !score.is_nan())?;
    let is_infinity = words.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    // A value that is too large, or too small to be exact, is out of range.
    let has_digits =
        text.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| (b'1'..=b'9').contains(byte));
    let is_in_range = if has_digits { score.is_normal() } else { true };
    (is_infinity || is_in_range).then_some(score)
}

/// Stores a list, replacing the destination. The elements are logged: the keys that they were chosen by may be on other
/// shards.
fn store<S: Store>(keyspace: &mut Keyspace<S>, destination: &[u8], result: &[Vec<u8>]) {
    if result.is_empty() {
        if keyspace.remove_stored(destination) {
            keyspace.note_change(destination, 1);
            keyspace.notify(Class::GENERIC, "del", destination);
            keyspace.effects.record([b"DEL".as_slice(), destination]);
        }
        return;
    }
    let limits = keyspace.settings().limits::<List>();
    let mut list = List::default();
    list.prepare(limits, result.iter().map(Vec::as_slice));
    result.iter().for_each(|element| list.push(limits, element, End::Tail));
    keyspace.set(destination, NewValue::Object(list.into_object()), None);
    // After the change, which logs it if the destination had expired.
    if keyspace.effects.is_logged() {
        keyspace.effects.record([b"DEL".as_slice(), destination]);
        keyspace.effects.record_over(&[b"RPUSH", destination], result.iter().map(Vec::as_slice), &[]);
    }
    let len = result.len();
    keyspace.note_change(destination, len);
    keyspace.notify(Class::LIST, "sortstore", destination);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_taken_apart_as_redis_does() {
        for (pattern, wanted) in [
            ("w_*", Some(("w_", "", None))),
            ("*", Some(("", "", None))),
            ("w_*_x->f", Some(("w_", "_x", Some("f")))),
            ("w->*->f->g", Some(("w->", "", Some("f->g")))),
            ("w_*->", Some(("w_", "->", None))),
            ("a*b*", Some(("a", "b*", None))),
            ("nothing->f", None),
        ] {
            let wanted = wanted.map(|(before, after, field): (&str, &str, Option<&'static str>)| Template {
                before: before.as_bytes(),
                after: after.as_bytes(),
                field: field.map(str::as_bytes),
            });
            assert_eq!(Pattern(pattern.as_bytes()).template(), wanted, "{pattern}");
        }
    }

    #[test]
    fn scores_are_read_as_strtod_reads_them() {
        for (text, wanted) in [
            ("1.5", Some(1.5)),
            (" \t-1", Some(-1.0)),
            ("", Some(0.0)),
            ("1\0x", Some(1.0)),
            ("0x10", Some(16.0)),
            ("-0x1p-1", Some(-0.5)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0e999", Some(0.0)),
            ("nan", None),
            ("1 ", None),
            (" ", None),
            ("x", None),
            ("1e400", None),
            ("1e-400", None),
            ("1_0", None),
        ] {
            assert_eq!(score_of(text.as_bytes()), wanted, "{text:?}");
        }
    }

    #[test]
    fn limits_stay_within_the_elements() {
        let limits = |offset, count| Options { offset, count: Some(count), ..Options::default() }.limits(10);
        assert_eq!(limits(0, -1), 0..10);
        assert_eq!(limits(-5, 3), 0..3);
        assert_eq!(limits(8, 9), 8..10);
        assert_eq!(limits(i64::MAX, i64::MAX), 10..10);
        assert_eq!(limits(3, 0), 3..3);
    }
}
