//! LCS: the longest common subsequence of two strings, by the textbook's dynamic programming.
//!
//! Cell (i, j) is the length for the first i bytes of one string and the first j of the other. Only two rows of lengths
//! are kept, and one bit for each cell with the direction of the walk back: 1/32 of the memory that Redis needs. The
//! limit is Redis's nevertheless.

use super::arguments::{integer, is};
use super::flag_sets::READ;
use super::row::{Command, Group, Keys, Request, Row, Run};
use super::text::text_of;
use super::{CommandError, Outcome};
use crate::commands::documentation::arguments;
use crate::keyspace::{Keyspace, Store};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 1] {
    [Run::Keyspace(lcs).row(Command {
        name: "lcs",
        arity: -3,
        flags: READ,
        keys: Keys::TWO,
        request: Request::MultiShardView,
        since: "7.0.0",
        syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        arguments: arguments![
            key("key1", 0),
            key("key2", 0),
            token("len", "LEN").optional(),
            token("idx", "IDX").optional(),
            integer("min-match-len").after("MINMATCHLEN").optional(),
            token("withmatchlen", "WITHMATCHLEN").optional(),
        ],
        complexity: "O(N * M), N, M = lengths of the strings",
        summary: "The longest common subsequence of two strings.",
        ..Command::of(Group::String)
    })]
}

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]: O(N * M), N, M = lengths
pub fn lcs<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let len_max = keyspace.settings().string_len_max.get();
    let keys = [&args[1], &args[2]];
    // Expired keys are removed first, because that changes the store; then it is only read.
    keys.iter().for_each(|key| _ = keyspace.read(key));
    let values = keys.map(|key| keyspace.look(key));
    let [mut a_digits, mut b_digits] = [itoa::Buffer::new(), itoa::Buffer::new()];
    let not_strings = |_| CommandError::Text("ERR The specified keys must contain string values");
    let a = values[0].map_or(Ok(&[][..]), |value| text_of(value, &mut a_digits)).map_err(not_strings)?;
    let b = values[1].map_or(Ok(&[][..]), |value| text_of(value, &mut b_digits)).map_err(not_strings)?;
    let options = Options::parse(args.from(3))?;
    check_size(len_max, a, b)?;
    match options {
        Options { is_len: true, .. } => reply.count(length(a, b, &mut Ways::none())),
        Options { is_idx: true, .. } => reply_matches(a, b, &options, reply),
        _ => reply.bulk(&subsequence(a, b)),
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Options {
    is_len: bool,
    is_idx: bool,
    match_len_min: i64,
    with_match_len: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            match word {
                _ if is(word, "IDX") => options.is_idx = true,
                _ if is(word, "LEN") => options.is_len = true,
                _ if is(word, "WITHMATCHLEN") => options.with_match_len = true,
                _ if is(word, "MINMATCHLEN") => {
                    options.match_len_min = integer(words.next().ok_or(CommandError::Syntax)?)?;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        if options.is_len && options.is_idx {
            const TEXT: &str = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(CommandError::Text(TEXT));
        }
        Ok(options)
    }
}

/// Refuses strings for which Redis's table, of 32 bits for each cell, would be too large.
fn check_size(len_max: usize, a: &[u8], b: &[u8]) -> Outcome {
    const TEXT: &str = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    let cells = (a.len() as u64 + 1).checked_mul(b.len() as u64 + 1);
    let bytes = cells.and_then(|cells| cells.checked_mul(size_of::<u32>() as u64));
    let fits = bytes.is_some_and(|bytes| bytes <= len_max as u64);
    fits.then_some(()).ok_or(CommandError::Text(TEXT))
}

/// For each cell, whether the walk back continues with one byte less of the first string; otherwise with one byte less
/// of the second.
struct Ways {
    bits: Vec<u64>,
    columns: usize,
    is_kept: bool,
}

impl Ways {
    fn none() -> Self {
        Self { bits: Vec::new(), columns: 0, is_kept: false }
    }

    fn of(a: &[u8], b: &[u8]) -> Self {
        let bits = vec![0; (a.len() * b.len()).div_ceil(u64::BITS as usize)];
        Self { bits, columns: b.len(), is_kept: true }
    }

    fn note_up(&mut self, row: usize, column: usize) {
        if self.is_kept {
            let cell = row * self.columns + column;
            self.bits[cell / 64] |= 1 << (cell % 64);
        }
    }

    fn is_up(&self, row: usize, column: usize) -> bool {
        let cell = row * self.columns + column;
        self.bits[cell / 64] >> (cell % 64) & 1 == 1
    }
}

/// The length of the subsequence; records the ways back to it.
fn length(a: &[u8], b: &[u8], ways: &mut Ways) -> usize {
    let mut above = vec![0u32; b.len() + 1];
    let mut row = above.clone();
    for (i, &from_a) in a.iter().enumerate() {
        for (j, &from_b) in b.iter().enumerate() {
            let (up, left) = (above[j + 1], row[j]);
            row[j + 1] = if from_a == from_b { above[j] + 1 } else { up.max(left) };
            if up > left {
                ways.note_up(i, j);
            }
        }
        std::mem::swap(&mut above, &mut row);
    }
    above[b.len()] as usize
}

/// Bytes that are contiguous in both strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Match {
    a_start: usize,
    b_start: usize,
    len: usize,
}

/// The parts of the subsequence, the last one first.
fn matches(a: &[u8], b: &[u8], ways: &Ways) -> Vec<Match> {
    let mut matches: Vec<Match> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            match matches.last_mut().filter(|last| last.a_start == i && last.b_start == j) {
                Some(last) => *last = Match { a_start: i - 1, b_start: j - 1, len: last.len + 1 },
                None => matches.push(Match { a_start: i - 1, b_start: j - 1, len: 1 }),
            }
            (i, j) = (i - 1, j - 1);
        } else if ways.is_up(i - 1, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    matches
}

fn subsequence(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut ways = Ways::of(a, b);
    length(a, b, &mut ways);
    let matches = matches(a, b, &ways);
    matches.iter().rev().flat_map(|part| &a[part.a_start..][..part.len]).copied().collect()
}

fn reply_matches(a: &[u8], b: &[u8], options: &Options, reply: &mut Reply<'_>) {
    let mut ways = Ways::of(a, b);
    let len = length(a, b, &mut ways);
    let mut matches = matches(a, b, &ways);
    matches.retain(|part| part.len as i64 >= options.match_len_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for part in matches {
        reply.array(2 + usize::from(options.with_match_len));
        for start in [part.a_start, part.b_start] {
            reply.array(2);
            reply.count(start);
            reply.count(start + part.len - 1);
        }
        if options.with_match_len {
            reply.count(part.len);
        }
    }
    reply.bulk(b"len");
    reply.count(len);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
        let mut rest = whole.iter();
        part.iter().all(|byte| rest.any(|other| other == byte))
    }

    /// Tries every subsequence.
    fn naive_length(a: &[u8], b: &[u8]) -> usize {
        let chosen = |set: u32| -> Vec<u8> { (0..a.len()).filter(|i| set >> i & 1 == 1).map(|i| a[i]).collect() };
        (0..1u32 << a.len())
            .map(chosen)
            .filter(|part| is_subsequence(part, b))
            .map(|part| part.len())
            .max()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn the_subsequence_is_common_and_none_is_longer(
            a in proptest::collection::vec(0..4u8, 0..10),
            b in proptest::collection::vec(0..4u8, 0..30),
        ) {
            let common = subsequence(&a, &b);
            prop_assert!(is_subsequence(&common, &a) && is_subsequence(&common, &b));
            prop_assert_eq!(common.len(), naive_length(&a, &b));
            prop_assert_eq!(length(&a, &b, &mut Ways::none()), common.len());
        }
    }
}
