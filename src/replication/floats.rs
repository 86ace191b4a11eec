//! Numbers in effects, written so that every replica reads them.
//!
//! A command that repeats exactly is logged as it was requested, and so are its numbers: `0x10`, `+1`, ` 5`. Valkey 9.1
//! reads fewer forms than `strtod` does. Forms that all replicas read stay unchanged.

use crate::commands::double::{parse_bound, parse_double};
use crate::resp::{Args, DoubleText};
use std::borrow::Cow;
use std::ops::Range;

/// The words of an effect, if some must be rewritten; `None` if it stays unchanged.
pub fn rewritten(args: Args<'_>) -> Option<Vec<Cow<'_, [u8]>>> {
    let is_of_score = matches!(args[0].first(), Some(b'Z' | b'z' | b'G' | b'g'));
    let places = if is_of_score { places_of(args) } else { None }?;
    // A bound that is too large counts as infinite here.
    let is_endless = |text: &[u8]| places.are_bounds && parse_bound(text).is_some_and(f64::is_infinite);
    let is_odd = |at: usize| {
        let text = args.get(at).map(without_bracket);
        text.is_some_and(|text| !is_plain(text) || is_endless(text))
    };
    if !places.clone().all().any(is_odd) {
        return None;
    }
    let mut words: Vec<Cow<'_, [u8]>> = args.iter().map(Cow::Borrowed).collect();
    for at in places.clone().all().filter(|&at| is_odd(at)) {
        if let Some(text) = plain(&args[at], places.are_bounds) {
            words[at] = Cow::Owned(text);
        }
    }
    Some(words)
}

/// The positions of numbers in `range`: the first `of_step` of every `step`.
#[derive(Debug, Clone)]
struct Places {
    range: Range<usize>,
    step: usize,
    /// How many of each step are numbers.
    of_step: usize,
    are_bounds: bool,
}

impl Places {
    fn some(range: Range<usize>) -> Self {
        Self { range, step: 1, of_step: 1, are_bounds: false }
    }

    fn all(self) -> impl Iterator<Item = usize> + Clone {
        let Self { range, step, of_step, .. } = self;
        range.clone().filter(move |at| (at - range.start) % step < of_step)
    }
}

fn places_of(args: Args<'_>) -> Option<Places> {
    let len = args.len();
    let name = args[0].to_ascii_uppercase();
    match &name[..] {
        b"ZADD" => Some(Places { step: 2, ..Places::some(first_after_options(args)..len) }),
        b"GEOADD" => Some(Places { step: 3, of_step: 2, ..Places::some(first_after_options(args)..len) }),
        b"ZINCRBY" => Some(Places::some(2..3)),
        b"ZREMRANGEBYSCORE" => Some(Places { are_bounds: true, ..Places::some(2..4) }),
        b"ZRANGESTORE" if (5..len).any(|at| args.is(at, "BYSCORE")) => {
            Some(Places { are_bounds: true, ..Places::some(3..5) })
        }
        b"ZUNIONSTORE" | b"ZINTERSTORE" => weights(args),
        b"GEORADIUS" => Some(Places::some(2..5)),
        b"GEORADIUSBYMEMBER" => Some(Places::some(3..4)),
        b"GEOSEARCHSTORE" => shapes(args),
        _ => None,
    }
}

/// Where the elements of ZADD and GEOADD begin.
fn first_after_options(args: Args<'_>) -> usize {
    let is_option = |at: &usize| ["NX", "XX", "GT", "LT", "CH", "INCR"].iter().any(|option| args.is(*at, option));
    2 + (2..args.len()).take_while(is_option).count()
}

/// After the first WEIGHTS to the end: the rest are words, among which WEIGHTS may occur again.
fn weights(args: Args<'_>) -> Option<Places> {
    let keys: usize = std::str::from_utf8(&args[2]).ok()?.parse().ok()?;
    let first = (3 + keys..args.len()).find(|&at| args.is(at, "WEIGHTS"))? + 1;
    Some(Places::some(first..args.len()))
}

/// After FROMLONLAT, BYRADIUS and BYBOX. The arguments in between are words, which do not parse as numbers; a member is
/// one of them only if it is alone.
fn shapes(args: Args<'_>) -> Option<Places> {
    let mut at = 3;
    let mut range: Option<Range<usize>> = None;
    while at < args.len() {
        let numbers = match () {
            () if args.is(at, "FROMMEMBER") => {
                at += 2;
                continue;
            }
            () if args.is(at, "FROMLONLAT") || args.is(at, "BYBOX") => 2,
            () if args.is(at, "BYRADIUS") => 1,
            () => 0,
        };
        if numbers > 0 {
            let from = range.map_or(at + 1, |range| range.start);
            range = Some(from..at + 1 + numbers);
        }
        at += 1 + numbers;
    }
    range.map(Places::some)
}

fn without_bracket(word: &[u8]) -> &[u8] {
    word.strip_prefix(b"(").unwrap_or(word)
}

/// Whether every replica reads it: `-12.5e-3`, `inf`, `-inf`.
fn is_plain(word: &[u8]) -> bool {
    let magnitude = word.strip_prefix(b"-").unwrap_or(word);
    if magnitude == b"inf" {
        return true;
    }
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(magnitude);
    let mut rest = &magnitude[whole..];
    if let [b'.', fraction @ ..] = rest {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = &fraction[len..];
    }
    if let [b'e', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let len = digits(exponent);
        rest = if len == 0 { rest } else { &exponent[len..] };
    }
    whole > 0 && rest.is_empty()
}

/// A number in plain form; `None` if it is none, like the words between numbers.
fn plain(word: &[u8], is_bound: bool) -> Option<Vec<u8>> {
    let text = without_bracket(word);
    let bracket = &word[..word.len() - text.len()];
    let value = if is_bound { parse_bound(text) } else { parse_double(word) }?;
    Some([bracket, &DoubleText::precise(value)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Span;

    fn rewrite(line: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let span = |word: &str| {
            let start = bytes.len();
            bytes.extend_from_slice(word.as_bytes());
            Span::new(start, word.len())
        };
        let spans: Vec<Span> = line.split(' ').map(span).collect();
        let words = rewritten(Args::new(&bytes, &spans))?;
        Some(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn numbers_that_not_all_read_are_written_plainly_and_members_stay() {
        for (line, wanted) in [
            ("ZADD k NX CH 0x10 0x10 +1 +1 2 m", "ZADD k NX CH 16 0x10 1 +1 2 m"),
            ("zadd k Infinity inf -.5 a", "zadd k inf inf -0.5 a"),
            ("ZINCRBY k 0x1.8p1 0x10", "ZINCRBY k 3 0x10"),
            ("GEOADD k XX +1 0x2 +1 1.5 2.5 0x2", "GEOADD k XX 1 2 +1 1.5 2.5 0x2"),
            ("ZREMRANGEBYSCORE k (0x10 1e400", "ZREMRANGEBYSCORE k (16 inf"),
            ("ZRANGESTORE +1 +2 +3 (+4 BYSCORE LIMIT 0 +5", "ZRANGESTORE +1 +2 3 (4 BYSCORE LIMIT 0 +5"),
            (
                "ZUNIONSTORE d 2 WEIGHTS +1 WEIGHTS +1 0x2 AGGREGATE SUM weights 0x3 4",
                "ZUNIONSTORE d 2 WEIGHTS +1 WEIGHTS 1 2 AGGREGATE SUM weights 3 4",
            ),
            ("GEORADIUS k +1 +2 +3 m STORE +4", "GEORADIUS k 1 2 3 m STORE +4"),
            ("GEORADIUSBYMEMBER k +1 +2 m STORE +4", "GEORADIUSBYMEMBER k +1 2 m STORE +4"),
            ("GEOSEARCHSTORE d s FROMMEMBER +1 BYRADIUS +2 m", "GEOSEARCHSTORE d s FROMMEMBER +1 BYRADIUS 2 m"),
            (
                "GEOSEARCHSTORE d s FROMLONLAT +1 2 BYBOX 3 +4 m ASC",
                "GEOSEARCHSTORE d s FROMLONLAT 1 2 BYBOX 3 4 m ASC",
            ),
        ] {
            assert_eq!(rewrite(line).as_deref(), Some(wanted), "{line}");
        }
        for line in [
            "ZADD k 1 +1 -2.5e-3 0x1 inf +2",
            "ZRANGESTORE d s [+1 [+2 BYLEX",
            "ZRANGESTORE d s -1 +5",
            "ZREM k +1",
            "SET k +1",
            "ZUNIONSTORE d 1 +1",
        ] {
            assert_eq!(rewrite(line), None, "{line}");
        }
    }
}
