//! From registers to a count: the improved raw estimator of Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches" (arXiv:1702.01284, algorithm 6), in the doubles and the order of operations that Redis uses,
//! so that counts are equal to the last digit.

use super::{RANK_MAX, REGISTERS};
use crate::base::narrowing::whole_u64;

/// The values that six bits can have, including ranks that no hash has.
pub const RANKS: usize = 64;
/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// About how many elements led to registers of which `histogram[rank]` have each rank.
pub fn cardinality(histogram: &[u32; RANKS]) -> u64 {
    let m = REGISTERS as f64;
    let top = usize::from(RANK_MAX);
    let mut z = m * tau((m - f64::from(histogram[top])) / m);
    for registers in histogram[1..top].iter().rev() {
        z = (z + f64::from(*registers)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    let estimate = (ALPHA * m * m / z).round();
    // Ranks that no hash has may lead to a division by zero; C turns the infinity into the lowest integer.
    if estimate < i64::MAX as f64 { whole_u64(estimate) } else { i64::MIN.cast_unsigned() }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        let before = z;
        x *= x;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        let before = z;
        x = x.sqrt();
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
