//! The decimal digits of a double, as Redis finds them since 7.2: by Grisu2.
//!
//! Source: F. Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers", PLDI 2010, section 5,
//! with the power of ten that fpconv chooses where several would do, which is what Redis has. The digits read back as
//! the same double. For some numbers there are fewer digits that do, or nearer ones; libraries print those, and Redis
//! does not.

use crate::base::narrowing::whole_i64;
use std::f64::consts::LOG10_2;

/// The most digits.
pub const DIGITS_MAX: usize = 17;

/// Digits in ASCII, without zeros around them, and the power of ten by which they are multiplied.
#[derive(Debug, Clone, Copy)]
pub struct Digits {
    bytes: [u8; DIGITS_MAX],
    len: usize,
    /// The power of ten of the last digit.
    pub scale: i32,
}

impl Digits {
    /// The digits of a finite number above zero.
    pub fn of(value: f64) -> Self {
        let Interval { lower, number, upper } = Interval::around(value);
        let (power, exponent) = power_for(upper.exponent);
        let (lower, number, upper) = (lower.times(power), number.times(power), upper.times(power));
        // The products may be off by one in the last bit: what is inside by as much is inside.
        let upper = Float { fraction: upper.fraction - 1, ..upper };
        let digits = Self { bytes: [0; DIGITS_MAX], len: 0, scale: -exponent };
        digits.generated(upper, upper.fraction - (lower.fraction + 1), upper.fraction - number.fraction)
    }

    /// The digits.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The digits of a number that is at most `width` below `upper`, as few as that takes; among these, those nearest
    /// to the number that is `distance` below `upper`.
    fn generated(mut self, upper: Float, mut width: u64, mut distance: u64) -> Self {
        let point = upper.exponent.unsigned_abs();
        let one = 1_u64 << point;
        let (mut whole, mut rest) = (upper.fraction >> point, upper.fraction & (one - 1));
        for position in (0..10).rev() {
            let unit = 10_u64.pow(position);
            self.push(whole / unit);
            whole %= unit;
            let left = (whole << point) + rest;
            if left <= width {
                self.scale += i32::try_from(position).expect("a power of ten below 2^32");
                self.round(width, left, unit << point, distance);
                return self;
            }
        }
        loop {
            rest *= 10;
            width *= 10;
            distance *= 10;
            self.scale -= 1;
            self.push(rest >> point);
            rest &= one - 1;
            if rest < width {
                self.round(width, rest, one, distance);
                return self;
            }
        }
    }

    /// Adds a digit, if it is not a zero before the others.
    fn push(&mut self, digit: u64) {
        if digit > 0 || self.len > 0 {
            self.bytes[self.len] = b'0' + u8::try_from(digit).expect("a digit is below ten");
            self.len += 1;
        }
    }

    /// Lowers the last digit while that leads nearer to the number. The digits are `left` below the upper end, one more
    /// in the last of them is a `unit`.
    fn round(&mut self, width: u64, mut left: u64, unit: u64, distance: u64) {
        while left < distance
            && width - left >= unit
            && (left + unit < distance || distance - left > left + unit - distance)
        {
            self.bytes[self.len - 1] -= 1;
            left += unit;
        }
    }
}

/// A fraction of 64 bits times a power of two.
#[derive(Debug, Clone, Copy)]
struct Float {
    fraction: u64,
    exponent: i32,
}

impl Float {
    /// The same number with the highest bit of the fraction set.
    fn normalized(self) -> Self {
        let shift = self.fraction.leading_zeros();
        Self { fraction: self.fraction << shift, exponent: self.exponent - shift.cast_signed() }
    }

    /// The product, rounded.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.fraction) * u128::from(other.fraction) + (1 << 63);
        let fraction = u64::try_from(product >> 64).expect("128 bits less 64");
        Self { fraction, exponent: self.exponent + other.exponent + 64 }
    }
}

/// A number, and how far it is to the middle between it and its neighbours: what lies within reads back as the number.
/// All have the same exponent.
struct Interval {
    lower: Float,
    number: Float,
    upper: Float,
}

impl Interval {
    fn around(value: f64) -> Self {
        const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
        const HIDDEN_BIT: u64 = 1 << FRACTION_BITS;
        const BIAS: i32 = f64::MAX_EXP - 1 + FRACTION_BITS.cast_signed();
        let bits = value.to_bits();
        let exponent = i32::try_from(bits >> FRACTION_BITS).expect("11 bits, and no sign");
        let (fraction, exponent) = match bits & (HIDDEN_BIT - 1) {
            fraction if exponent == 0 => (fraction, 1 - BIAS),
            fraction => (fraction | HIDDEN_BIT, exponent - BIAS),
        };
        let upper = Float { fraction: (fraction << 1) + 1, exponent: exponent - 1 }.normalized();
        // The neighbour below a power of two is nearer.
        let shift = if fraction == HIDDEN_BIT { 2 } else { 1 };
        let lower = Float { fraction: (fraction << shift) - 1, exponent: exponent - shift };
        let lower = Float {
            fraction: lower.fraction << (lower.exponent - upper.exponent).unsigned_abs(),
            exponent: upper.exponent,
        };
        Self { lower, number: Float { fraction, exponent }.normalized(), upper }
    }
}

/// The lowest power of ten in the table, and the distance from one to the next.
const FIRST_POWER: i32 = -348;
const STEP: i32 = 8;

/// A power of ten whose product with a number of this exponent has an exponent of -60 to -32, and which one it is.
fn power_for(exponent: i32) -> (Float, i32) {
    let count = i32::try_from(POWERS.len()).expect("some tens of powers");
    let guess = i32::try_from(whole_i64(-f64::from(exponent + count) * LOG10_2)).expect("some hundreds");
    let mut index = (guess - FIRST_POWER) / STEP;
    loop {
        let power = power_at(index);
        match exponent + power.exponent + 64 {
            ..-60 => index += 1,
            -60..=-32 => return (power, FIRST_POWER + index * STEP),
            _ => index -= 1,
        }
    }
}

fn power_at(index: i32) -> Float {
    /// The logarithm of ten to the base of two, times 2^16.
    const LOG_OF_10: i32 = 217_706;
    let exponent = (((FIRST_POWER + index * STEP) * LOG_OF_10) >> 16) - 63;
    let index = usize::try_from(index).expect("the table reaches as far as doubles do");
    Float { fraction: POWERS[index], exponent }
}

/// 10^-348, 10^-340, … 10^340 as fractions of 64 bits, rounded to the nearest.
const POWERS: [u64; 87] = [
    0xfa8f_d5a0_081c_0288,
    0xbaae_e17f_a23e_bf76,
    0x8b16_fb20_3055_ac76,
    0xcf42_894a_5dce_35ea,
    0x9a6b_b0aa_5565_3b2d,
    0xe61a_cf03_3d1a_45df,
    0xab70_fe17_c79a_c6ca,
    0xff77_b1fc_bebc_dc4f,
    0xbe56_91ef_416b_d60c,
    0x8dd0_1fad_907f_fc3c,
    0xd351_5c28_3155_9a83,
    0x9d71_ac8f_ada6_c9b5,
    0xea9c_2277_23ee_8bcb,
    0xaecc_4991_4078_536d,
    0x823c_1279_5db6_ce57,
    0xc210_9436_4dfb_5637,
    0x9096_ea6f_3848_984f,
    0xd774_85cb_2582_3ac7,
    0xa086_cfcd_97bf_97f4,
    0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e,
    0x84c8_d4df_d2c6_3f3b,
    0xc5dd_4427_1ad3_cdba,
    0x936b_9fce_bb25_c996,
    0xdbac_6c24_7d62_a584,
    0xa3ab_6658_0d5f_daf6,
    0xf3e2_f893_dec3_f126,
    0xb5b5_ada8_aaff_80b8,
    0x8762_5f05_6c7c_4a8b,
    0xc9bc_ff60_34c1_3053,
    0x964e_858c_91ba_2655,
    0xdff9_7724_7029_7ebd,
    0xa6df_bd9f_b8e5_b88f,
    0xf8a9_5fcf_8874_7d94,
    0xb944_7093_8fa8_9bcf,
    0x8a08_f0f8_bf0f_156b,
    0xcdb0_2555_6531_31b6,
    0x993f_e2c6_d07b_7fac,
    0xe45c_10c4_2a2b_3b06,
    0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e,
    0xbce5_0864_9211_1aeb,
    0x8cbc_cc09_6f50_88cc,
    0xd1b7_1758_e219_652c,
    0x9c40_0000_0000_0000,
    0xe8d4_a510_0000_0000,
    0xad78_ebc5_ac62_0000,
    0x813f_3978_f894_0984,
    0xc097_ce7b_c907_15b3,
    0x8f7e_32ce_7bea_5c70,
    0xd5d2_38a4_abe9_8068,
    0x9f4f_2726_179a_2245,
    0xed63_a231_d4c4_fb27,
    0xb0de_6538_8cc8_ada8,
    0x83c7_088e_1aab_65db,
    0xc45d_1df9_4271_1d9a,
    0x924d_692c_a61b_e758,
    0xda01_ee64_1a70_8dea,
    0xa26d_a399_9aef_774a,
    0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877,
    0x865b_8692_5b9b_c5c2,
    0xc835_53c5_c896_5d3d,
    0x952a_b45c_fa97_a0b3,
    0xde46_9fbd_99a0_5fe3,
    0xa59b_c234_db39_8c25,
    0xf6c6_9a72_a398_9f5c,
    0xb7dc_bf53_54e9_bece,
    0x88fc_f317_f222_41e2,
    0xcc20_ce9b_d35c_78a5,
    0x9816_5af3_7b21_53df,
    0xe2a0_b5dc_971f_303a,
    0xa8d9_d153_5ce3_b396,
    0xfb9b_7cd9_a4a7_443c,
    0xbb76_4c4c_a7a4_4410,
    0x8bab_8eef_b640_9c1a,
    0xd01f_ef10_a657_842c,
    0x9b10_a4e5_e991_3129,
    0xe710_9bfb_a19c_0c9d,
    0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85,
    0xbf21_e440_03ac_dd2d,
    0x8e67_9c2f_5e44_ff8f,
    0xd433_179d_9c8c_b841,
    0x9e19_db92_b4e3_1ba9,
    0xeb96_bf6e_badf_77d9,
    0xaf87_023b_9bf0_ee6b,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digits(value: f64) -> (String, i32) {
        let digits = Digits::of(value);
        (String::from_utf8(digits.as_slice().to_vec()).expect("digits are text"), digits.scale)
    }

    /// Where a library prints other ones: fewer, or nearer to the number. From redis-server 7.2.6.
    #[test]
    fn digits_are_those_of_redis_where_others_are_shorter_or_nearer() {
        for (value, wanted, scale) in [
            (280.020702, "28002070200000003", -14),
            (641.549239, "6415492389999999", -13),
            (0.3189968066208482, "31899680662084817", -17),
            (1626983080611305.8, "16269830806113057", -1),
            (1796623951.3759604, "17966239513759603", -7),
            (1.547182503134182e-78, "15471825031341819", -94),
            (165638852209817620000.0, "16563885220981762", 4),
        ] {
            assert_eq!(digits(value), (wanted.to_owned(), scale));
        }
    }

    #[test]
    fn the_ends_of_the_range_have_digits() {
        for (value, wanted, scale) in [
            (f64::from_bits(1), "5", -324),
            (f64::MIN_POSITIVE, "22250738585072014", -324),
            (f64::MAX, "17976931348623157", 292),
            (1e23, "9999999999999999", 7),
            (0.5, "5", -1),
        ] {
            assert_eq!(digits(value), (wanted.to_owned(), scale));
        }
    }

    proptest! {
        #[test]
        fn digits_read_back_and_have_no_zero_at_their_ends(bits in 1_u64..f64::INFINITY.to_bits()) {
            let (digits, scale) = digits(f64::from_bits(bits));
            prop_assert_eq!(format!("{digits}e{scale}").parse::<f64>().map(f64::to_bits), Ok(bits));
            prop_assert!(!digits.starts_with('0') && !digits.ends_with('0'));
        }
    }
}
