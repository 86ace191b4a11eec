//! Modifies bytes slightly.

use std::ops::Range;

/// Numbers at which values may overflow: of 6, 14, 31, 32, 63 and 64 bits.
const EDGES: [u64; 16] = [
    0,
    1,
    63,
    64,
    127,
    128,
    0x3fff,
    0x4000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Bytes with a meaning in one of the formats.
const MARKS: [u8; 20] =
    [0, 1, 2, 3, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0x82, 0xbf, 0xc0, 0xc2, 0xc3, 0xe0, 0xf0, 0xf1, 0xf4, 0xfe, 0xff];

/// The types of values, by their numbers in a payload.
pub const KINDS: [u8; 18] = [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
/// The type of streams of Redis 7.2.
pub const STREAM_3: u8 = 21;

/// A value with some changes; `other` provides a part.
pub fn mutated(value: &[u8], other: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = value.to_vec();
    for _ in 0..[1, 1, 1, 2, 2, 3, 5][random.usize(..7)] {
        mutate(&mut bytes, other, random);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut fastrand::Rng) {
    let edge = EDGES[random.usize(..EDGES.len())];
    let at = place(bytes, random);
    match random.u32(..16) {
        0..3 => change(bytes, at, |byte, random| *byte ^= 1 << random.u32(..8), random),
        3..6 => change(bytes, at, |byte, random| *byte = MARKS[random.usize(..MARKS.len())], random),
        6 => change(bytes, at, |byte, random| *byte = byte.wrapping_add([1, 255][random.usize(..2)]), random),
        // A length, in all of its encodings, in the place of a length of one byte.
        7..9 => replace(bytes, at..at + 1, &length_in_some_way(edge, random)),
        9 => replace(bytes, at..at + 4, &(edge as u32).to_le_bytes()),
        10 => replace(bytes, at..at + 8, &edge.to_le_bytes()),
        11 => bytes.truncate(at),
        12 => {
            let more: Vec<u8> = (0..random.usize(1..9)).map(|_| random.u8(..)).collect();
            replace(bytes, at..at, &more);
        }
        13 => {
            let part = part(bytes, random);
            let twice = bytes[part.clone()].to_vec();
            replace(bytes, part.end..part.end, &twice);
        }
        14 => replace(bytes, part(bytes, random), &[]),
        _ if random.bool() => {
            let part = part(bytes, random);
            let lent = other[self::part(other, random)].to_vec();
            replace(bytes, part, &lent);
        }
        _ => change(bytes, 0, |kind, random| *kind = [&KINDS[..], &[STREAM_3]].concat()[random.usize(..19)], random),
    }
}

/// The position of a change: often near the beginning or the end, where the counts are.
fn place(bytes: &[u8], random: &mut fastrand::Rng) -> usize {
    let len = bytes.len();
    match random.u32(..4) {
        0 => random.usize(..len.clamp(1, 24)),
        1 => len.saturating_sub(random.usize(..24)).min(len.saturating_sub(1)),
        _ => random.usize(..len.max(1)),
    }
}

fn part(bytes: &[u8], random: &mut fastrand::Rng) -> Range<usize> {
    let start = place(bytes, random).min(bytes.len());
    let most = if random.bool() { 24 } else { bytes.len() };
    start..(start + random.usize(..most.max(1))).min(bytes.len())
}

fn change(bytes: &mut [u8], at: usize, how: impl FnOnce(&mut u8, &mut fastrand::Rng), random: &mut fastrand::Rng) {
    if let Some(byte) = bytes.get_mut(at) {
        how(byte, random);
    }
}

fn replace(bytes: &mut Vec<u8>, range: Range<usize>, by: &[u8]) {
    let end = range.end.min(bytes.len());
    bytes.splice(range.start.min(end)..end, by.iter().copied());
}

fn length_in_some_way(length: u64, random: &mut fastrand::Rng) -> Vec<u8> {
    match random.u32(..4) {
        0 => vec![length as u8 & 0x3f],
        1 => vec![0x40 | (length >> 8) as u8 & 0x3f, length as u8],
        2 => [&[0x80], &(length as u32).to_be_bytes()[..]].concat(),
        _ => [&[0x81], &length.to_be_bytes()[..]].concat(),
    }
}
