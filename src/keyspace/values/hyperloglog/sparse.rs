//! The sparse encoding: runs of registers of equal rank, in order.
//!
//! ```text
//! 00xxxxxx           ZERO   x+1 registers are 0                (1 to 64)
//! 01xxxxxx yyyyyyyy  XZERO  xy+1 registers are 0, high bits first (1 to 16384)
//! 1vvvvvxx           VAL    x+1 registers are v+1              (1 to 4 registers, ranks 1 to 32)
//! ```
//!
//! A well-formed one covers every register, and no more. Changes have the same result as Redis's, byte for byte: an
//! opcode is split if one of its registers changes, and equal ranks are joined again nearby.
//!
//! SETRANGE can leave a string that ends within an XZERO. Redis takes the byte that C puts after a string, a zero, for
//! the missing one, and keeps the length of the string as if that byte were a part of it: a change there loses its last
//! byte. Every such step is imitated here, so that a damaged string stays damaged in the same way. One is not: in Redis
//! the lost byte replaces that zero and is read as a part of the last opcode from then on, though GET, DUMP and the log
//! do not show it. Here it is gone.

use super::{Corrupt, HEADER_LEN, REGISTERS};
use crate::base::narrowing::low_u8;
use std::fmt::Write;
use std::ops::Range;

/// The opcodes of a string with all registers 0.
pub const EMPTY: [u8; 2] = [XZERO | 0x3f, 0xff];

const XZERO: u8 = 0x40;
const VAL: u8 = 0x80;
const ZERO_LEN_MAX: usize = 64;
const VAL_LEN_MAX: usize = 4;
/// Higher ranks need the dense encoding.
const RANK_MAX: u8 = 32;
/// How many opcodes are checked for ranks to join.
const JOINED_MAX: usize = 5;

/// The result of raising a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// It was as high already.
    No,
    /// It is higher now.
    Yes,
    /// The encoding cannot hold it, or would get too long: nothing has changed.
    DoesNotFit,
}

/// An opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The rank of each of its registers; 0 in ZERO and XZERO.
    rank: u8,
    /// How many registers it has.
    registers: usize,
    /// How many bytes it takes.
    width: usize,
}

impl Run {
    /// The opcode at the start of `bytes`, or nothing at their end. `next` is the byte after the last one.
    fn decode(bytes: &[u8], next: u8) -> Option<Self> {
        let (&byte, rest) = bytes.split_first()?;
        if byte & VAL != 0 {
            return Some(Self { rank: (byte >> 2 & 0x1f) + 1, registers: usize::from(byte & 3) + 1, width: 1 });
        }
        if byte & XZERO == 0 {
            return Some(Self { rank: 0, registers: usize::from(byte) + 1, width: 1 });
        }
        let low = rest.first().copied().unwrap_or(next);
        Some(Self { rank: 0, registers: (usize::from(byte & 0x3f) << 8 | usize::from(low)) + 1, width: 2 })
    }

    /// Appends the opcode for some registers of a rank; nothing for no registers.
    fn encode(rank: u8, registers: usize, out: &mut Vec<u8>) {
        let low = registers.wrapping_sub(1) as u64;
        match (rank, registers) {
            (_, 0) => {}
            (0, ..=ZERO_LEN_MAX) => out.push(low_u8(low)),
            (0, _) => out.extend_from_slice(&[XZERO | low_u8(low >> 8), low_u8(low)]),
            (rank, _) => out.push(VAL | (rank - 1) << 2 | low_u8(low)),
        }
    }
}

/// Visits runs of registers with their rank; an error if they are not exactly all registers.
pub fn for_each_run(mut opcodes: &[u8], mut visit: impl FnMut(Range<usize>, u8)) -> Result<(), Corrupt> {
    let mut first = 0;
    while let Some(run) = Run::decode(opcodes, 0) {
        let end = first + run.registers;
        if end > REGISTERS {
            return Err(Corrupt);
        }
        visit(first..end, run.rank);
        first = end;
        opcodes = opcodes.get(run.width..).unwrap_or_default();
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// A string that is being changed.
#[derive(Debug)]
pub struct Changing<'a> {
    /// All of it, with its header.
    pub bytes: &'a mut Vec<u8>,
    /// The byte after it: it completes an XZERO that has only its first byte.
    pub byte_after: u8,
}

/// The opcode of a register.
struct Found {
    at: usize,
    /// Where the opcode before it is, or itself if there is none.
    before: usize,
    /// Its first register.
    first: usize,
    run: Run,
}

impl Changing<'_> {
    /// Raises a register to `rank`, if it is lower. O(N), N = bytes
    pub fn raise(&mut self, index: usize, rank: u8, len_max: usize) -> Result<Raised, Corrupt> {
        if rank > RANK_MAX {
            return Ok(Raised::DoesNotFit);
        }
        let Found { at, before, first, run } = self.find(index)?;
        if run.rank >= rank {
            return Ok(Raised::No);
        }
        let mut opcodes = Vec::with_capacity(5);
        Run::encode(run.rank, index - first, &mut opcodes);
        Run::encode(rank, 1, &mut opcodes);
        Run::encode(run.rank, first + run.registers - 1 - index, &mut opcodes);
        if opcodes.len() > run.width && self.bytes.len() + opcodes.len() - run.width > len_max {
            return Ok(Raised::DoesNotFit);
        }
        self.replace(at, run.width, opcodes);
        self.join_equal_ranks(before);
        Ok(Raised::Yes)
    }

    fn find(&self, index: usize) -> Result<Found, Corrupt> {
        let (mut at, mut before, mut first) = (HEADER_LEN, HEADER_LEN, 0);
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let run = Run::decode(rest, self.byte_after).ok_or(Corrupt)?;
            if index < first + run.registers {
                return Ok(Found { at, before, first, run });
            }
            before = at;
            at += run.width;
            first += run.registers;
        }
    }

    /// Replaces one opcode by others. If that one included the byte after the string, their last byte takes the place
    /// of that byte.
    fn replace(&mut self, at: usize, width: usize, opcodes: Vec<u8>) {
        if at + width <= self.bytes.len() {
            // If the length stays and nothing is split, Redis changes the opcode in place.
            if (width, opcodes.len()) != (1, 1) {
                self.byte_after = 0;
            }
            self.bytes.splice(at..at + width, opcodes);
            return;
        }
        self.bytes.truncate(at);
        self.bytes.extend_from_slice(&opcodes);
        self.byte_after = self.bytes.pop().expect("a register that is raised has an opcode");
    }

    /// Joins neighbours of equal rank, from the opcode at `at` on, as far as Redis looks.
    fn join_equal_ranks(&mut self, mut at: usize) {
        for _ in 0..JOINED_MAX {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let Some(run) = Run::decode(rest, self.byte_after) else { return };
            let next = rest.get(1).filter(|byte| run.rank > 0 && **byte & VAL != 0);
            let next = next.and_then(|byte| Run::decode(&[*byte], 0));
            match next.filter(|next| next.rank == run.rank && next.registers + run.registers <= VAL_LEN_MAX) {
                Some(next) => {
                    self.bytes[at + 1] =
                        VAL | (run.rank - 1) << 2 | low_u8((run.registers + next.registers - 1) as u64);
                    self.bytes.remove(at);
                    self.byte_after = 0;
                }
                None => at += run.width,
            }
        }
    }
}

/// The opcodes in words: `z:n`, `Z:n`, `v:rank,n`.
pub fn decoded(mut opcodes: &[u8]) -> String {
    let mut text = String::new();
    while let Some(run) = Run::decode(opcodes, 0) {
        let separator = if text.is_empty() { "" } else { " " };
        let written = match run {
            Run { rank: 0, registers, width: 1 } => write!(text, "{separator}z:{registers}"),
            Run { rank: 0, registers, .. } => write!(text, "{separator}Z:{registers}"),
            Run { rank, registers, .. } => write!(text, "{separator}v:{rank},{registers}"),
        };
        written.expect("writing to memory does not fail");
        opcodes = opcodes.get(run.width..).unwrap_or_default();
    }
    text
}
