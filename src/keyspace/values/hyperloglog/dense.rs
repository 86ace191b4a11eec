//! The dense encoding: six bits for each register, lowest bits first; four registers take three bytes.

use super::REGISTERS;
use crate::base::narrowing::low_u8;

const RANK_BITS: usize = 6;
const RANK_MASK: u32 = (1 << RANK_BITS) - 1;
/// Bytes of the registers.
pub const LEN: usize = REGISTERS * RANK_BITS / 8;

/// Registers that fill whole bytes together, and these bytes.
const GROUP: usize = 4;
const GROUP_LEN: usize = 3;

/// Raises a register to `rank` if it is lower, and returns whether it was.
pub fn raise(registers: &mut [u8], index: usize, rank: u8) -> bool {
    let (group, shift) = (&mut registers[index / GROUP * GROUP_LEN..][..GROUP_LEN], index % GROUP * RANK_BITS);
    let bits = u32::from_le_bytes([group[0], group[1], group[2], 0]);
    let is_higher = u32::from(rank) > bits >> shift & RANK_MASK;
    if is_higher {
        let changed = bits & !(RANK_MASK << shift) | u32::from(rank) << shift;
        group.copy_from_slice(&changed.to_le_bytes()[..GROUP_LEN]);
    }
    is_higher
}

/// Visits each register with its index.
pub fn for_each(registers: &[u8], mut visit: impl FnMut(usize, u8)) {
    let (groups, _) = registers.as_chunks::<GROUP_LEN>();
    for (number, group) in groups.iter().enumerate() {
        let bits = u32::from_le_bytes([group[0], group[1], group[2], 0]);
        (0..GROUP)
            .for_each(|place| visit(number * GROUP + place, low_u8((bits >> (place * RANK_BITS) & RANK_MASK).into())));
    }
}

/// Checks that registers keep their values, and do not change others.
pub fn self_test(random: &mut fastrand::Rng) -> Result<(), String> {
    const CYCLES: usize = 10;
    for _ in 0..CYCLES {
        let wanted: Vec<u8> = (0..REGISTERS).map(|_| random.u8(..=low_u8(RANK_MASK.into()))).collect();
        let mut registers = vec![0; LEN];
        wanted.iter().enumerate().for_each(|(index, rank)| _ = raise(&mut registers, index, *rank));
        let mut wrong = None;
        for_each(&registers, |index, rank| {
            if rank != wanted[index] {
                wrong = Some(format!("Register {index} should be {} but is {rank}", wanted[index]));
            }
        });
        wrong.map_or(Ok(()), Err)?;
    }
    Ok(())
}
