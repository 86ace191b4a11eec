//! The sparse encoding: runs of registers of equal rank, in order.
//!
//! ```text
//! 00xxxxxx           ZERO   x+1 registers are 0                (1 to 64)
//! 01xxxxxx yyyyyyyy  XZERO  xy+1 registers are 0, high bits first (1 to 16384)
//! 1vvvvvxx           VAL    x+1 registers are v+1              (1 to 4 registers, ranks 1 to 32)
//! ```
//!
//! A well-formed one covers every register, and nothing beyond. What is changed comes out as Redis's own changes do,
//! byte for byte: an opcode is split where a register of it changes, and equal ranks are joined again nearby.

use super::{Corrupt, HEADER_LEN, REGISTERS};
use std::fmt::Write;
use std::ops::Range;

/// The opcodes of one where all registers are 0.
pub const EMPTY: [u8; 2] = [XZERO | 0x3f, 0xff];

const XZERO: u8 = 0x40;
const VAL: u8 = 0x80;
const ZERO_LEN_MAX: usize = 64;
const VAL_LEN_MAX: usize = 4;
/// Higher ranks are for the dense encoding.
const RANK_MAX: u8 = 32;
/// Opcodes that are looked at for ranks to join.
const JOINED_MAX: usize = 5;

/// What became of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// It was as high before.
    No,
    /// It is higher now.
    Yes,
    /// The encoding cannot hold it, or would get too long: nothing has changed.
    DoesNotFit,
}

/// An opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Of each of its registers; 0 in ZERO and XZERO.
    rank: u8,
    /// How many registers.
    registers: usize,
    /// How many bytes.
    width: usize,
}

impl Run {
    /// The opcode at the start of `bytes`.
    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        match *bytes {
            [byte, ..] if byte & VAL != 0 => {
                Ok(Self { rank: (byte >> 2 & 0x1f) + 1, registers: usize::from(byte & 3) + 1, width: 1 })
            }
            [byte, low, ..] if byte & XZERO != 0 => {
                let registers = (usize::from(byte & 0x3f) << 8 | usize::from(low)) + 1;
                Ok(Self { rank: 0, registers, width: 2 })
            }
            [byte, ..] if byte & XZERO == 0 => Ok(Self { rank: 0, registers: usize::from(byte) + 1, width: 1 }),
            _ => Err(Corrupt),
        }
    }

    /// Appends the opcode for some registers of a rank; none for none.
    fn encode(rank: u8, registers: usize, out: &mut Vec<u8>) {
        let low = registers.wrapping_sub(1);
        match (rank, registers) {
            (_, 0) => {}
            (0, ..=ZERO_LEN_MAX) => out.push(low as u8),
            (0, _) => out.extend_from_slice(&[XZERO | (low >> 8) as u8, low as u8]),
            (rank, _) => out.push(VAL | (rank - 1) << 2 | low as u8),
        }
    }
}

/// Visits runs of registers with their rank; an error where they are not all registers.
pub fn for_each_run(mut opcodes: &[u8], mut visit: impl FnMut(Range<usize>, u8)) -> Result<(), Corrupt> {
    let mut first = 0;
    while !opcodes.is_empty() {
        let run = Run::decode(opcodes)?;
        let end = first + run.registers;
        if end > REGISTERS {
            return Err(Corrupt);
        }
        visit(first..end, run.rank);
        first = end;
        opcodes = &opcodes[run.width..];
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Raises a register of a whole string to `rank`, if it is lower. O(N), N = bytes
pub fn raise(bytes: &mut Vec<u8>, index: usize, rank: u8, len_max: usize) -> Result<Raised, Corrupt> {
    if rank > RANK_MAX {
        return Ok(Raised::DoesNotFit);
    }
    let Found { at, before, first, run } = find(bytes, index)?;
    if run.rank >= rank {
        return Ok(Raised::No);
    }
    let mut opcodes = Vec::with_capacity(5);
    Run::encode(run.rank, index - first, &mut opcodes);
    Run::encode(rank, 1, &mut opcodes);
    Run::encode(run.rank, first + run.registers - 1 - index, &mut opcodes);
    if opcodes.len() > run.width && bytes.len() + opcodes.len() - run.width > len_max {
        return Ok(Raised::DoesNotFit);
    }
    bytes.splice(at..at + run.width, opcodes);
    join_equal_ranks(bytes, before);
    Ok(Raised::Yes)
}

/// The opcode of a register.
struct Found {
    at: usize,
    /// Where the opcode before it stands, or it itself where there is none.
    before: usize,
    /// Its first register.
    first: usize,
    run: Run,
}

fn find(bytes: &[u8], index: usize) -> Result<Found, Corrupt> {
    let (mut at, mut before, mut first) = (HEADER_LEN, HEADER_LEN, 0);
    loop {
        let run = Run::decode(&bytes[at..])?;
        if index < first + run.registers {
            return Ok(Found { at, before, first, run });
        }
        before = at;
        at += run.width;
        first += run.registers;
    }
}

/// Joins neighbours of equal rank, from the opcode at `at` on, as far as Redis looks.
fn join_equal_ranks(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_MAX {
        let Some(run) = bytes.get(at..).and_then(|rest| Run::decode(rest).ok()) else { return };
        let next = bytes.get(at + 1).filter(|byte| run.rank > 0 && **byte & VAL != 0);
        let next = next.and_then(|byte| Run::decode(&[*byte]).ok());
        match next.filter(|next| next.rank == run.rank && next.registers + run.registers <= VAL_LEN_MAX) {
            Some(next) => {
                bytes[at + 1] = VAL | (run.rank - 1) << 2 | (run.registers + next.registers - 1) as u8;
                bytes.remove(at);
            }
            None => at += run.width,
        }
    }
}

/// The opcodes in words: `z:n`, `Z:n`, `v:rank,n`.
pub fn decoded(mut opcodes: &[u8]) -> String {
    let mut text = String::new();
    while let Ok(run) = Run::decode(opcodes) {
        let separator = if text.is_empty() { "" } else { " " };
        let written = match run {
            Run { rank: 0, registers, width: 1 } => write!(text, "{separator}z:{registers}"),
            Run { rank: 0, registers, .. } => write!(text, "{separator}Z:{registers}"),
            Run { rank, registers, .. } => write!(text, "{separator}v:{rank},{registers}"),
        };
        written.expect("writing to memory does not fail");
        opcodes = &opcodes[run.width..];
    }
    text
}
