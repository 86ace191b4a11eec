//! The 80-bit floats of INCRBYFLOAT.
//!
//! Redis on x86-64 computes in `long double`, a sign, 15 bits of exponent and 64 of mantissa, and prints with `%.17Lf`
//! without trailing zeros: that is why 0.1 + 0.2 is 0.3 there, and not 0.30000000000000004 as with doubles. Rust has no
//! such type, so this is a software implementation: parsing, adding and printing are exact, then rounded once to the
//! nearest, ties to even, as the processor and the C library do. Results equal Redis's to the last digit. Only the time
//! differs: about a microsecond for numbers of usual length, less than a millisecond for the longest.
//!
//! Text is accepted as by `strtold`, if all of it parses, without spaces: `1`, `-.5`, `3.0e3`, `0x1.8p1`, `inf`; but
//! not `nan`, and no value that is too large, or too small to differ from zero.

use crate::base::narrowing::{low_u8, low_u32, low_u64};
use std::cmp::Ordering;
use std::fmt;

/// A float of 80 bits: mantissa x 2^exponent, or infinite.
///
/// Invariants: the mantissa's top bit is set unless the exponent is [`EXPONENT_MIN`]; the exponent is in its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// The value of `inf`.
    Infinite,
    /// A number.
    Finite {
        /// Whether it is below zero.
        is_negative: bool,
        /// An integer of 64 bits.
        mantissa: u64,
        /// The power of two by which it is multiplied.
        exponent: i32,
    },
}

const MANTISSA_BITS: i32 = u64::BITS as i32;
/// The exponent of the smallest numbers above zero, where precision runs out.
const EXPONENT_MIN: i32 = -16_445;
/// The exponent of the largest numbers.
const EXPONENT_MAX: i32 = 16_320;
/// A number above 10^this, or below 10^-this, is out of range whatever its digits.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;
/// Redis reads floats into a buffer of this size, and accepts no longer ones.
const TEXT_LEN_MAX: usize = 5 * 1024;

impl From<i64> for Extended {
    fn from(value: i64) -> Self {
        let magnitude = u128::from(value.unsigned_abs());
        Self::rounded(value < 0, magnitude, 0).expect("every i64 is in range")
    }
}

impl From<f64> for Extended {
    fn from(value: f64) -> Self {
        const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
        const BIAS: i32 = f64::MAX_EXP - 1 + FRACTION_BITS as i32;
        if value.is_infinite() {
            return Self::Infinite;
        }
        let bits = value.to_bits();
        let exponent = ((bits >> FRACTION_BITS) & 0x7ff) as i32;
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << FRACTION_BITS };
        let float = Self::rounded(value.is_sign_negative(), mantissa.into(), exponent.max(1) - BIAS);
        float.expect("every double is in range")
    }
}

impl Extended {
    /// Parses a number; `None` if the text is none or is out of range.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_LEN_MAX {
            return None;
        }
        let (is_negative, magnitude) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        match magnitude {
            _ if is_infinity(magnitude) => Some(Self::Infinite),
            [b'0', b'x' | b'X', rest @ ..] => Literal::scan(rest, 16, b'p')?.hexadecimal(is_negative),
            _ => Literal::scan(magnitude, 10, b'e')?.decimal(is_negative),
        }
    }

    /// The sum; `None` if it would be NaN or infinite.
    pub fn plus(self, other: Self) -> Option<Self> {
        match (self, other) {
            (
                Self::Finite { is_negative, mantissa, exponent },
                Self::Finite { is_negative: other_is_negative, mantissa: other_mantissa, exponent: other_exponent },
            ) => {
                let (high, low) =
                    ((is_negative, mantissa, exponent), (other_is_negative, other_mantissa, other_exponent));
                if exponent >= other_exponent { sum_of(high, low) } else { sum_of(low, high) }
            }
            _ => None,
        }
    }

    /// The nearest double: infinite if it is out of their range; `None` for infinity, whose sign is lost.
    pub fn to_double(self) -> Option<f64> {
        let Self::Finite { is_negative, mantissa, exponent } = self else { return None };
        // In two steps, both of which are in range, so that the smallest numbers are correct, too.
        let half = exponent / 2;
        let magnitude = mantissa as f64 * f64::powi(2.0, half.max(-1000)) * f64::powi(2.0, exponent - half.max(-1000));
        Some(if is_negative { -magnitude } else { magnitude })
    }

    /// A thousand times the number, rounded up to an integer; `None` if it is out of range.
    pub fn ceil_of_thousandfold(self) -> Option<i64> {
        let Self::Finite { is_negative, mantissa, exponent } = self else { return None };
        let product = i128::from(mantissa) * if is_negative { -1000 } else { 1000 };
        let ceil = match exponent {
            _ if product == 0 => 0,
            // The product has 74 bits at most: shifted by more than 53 places to the left, it is out of range in any
            // case.
            0..=53 => product << exponent,
            54.. => return None,
            // And shifted so far to the right, only its sign is left.
            ..-100 => i128::from(!is_negative),
            _ => -(-product >> -exponent),
        };
        i64::try_from(ceil).ok()
    }

    /// The number as a double; infinite if too large.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Infinite => f64::INFINITY,
            Self::Finite { is_negative, mantissa, exponent } => {
                let magnitude = mantissa as f64 * 2f64.powi(exponent);
                if is_negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The nearest float to magnitude x 2^exponent, ties to even; `None` if it is out of range.
    fn rounded(is_negative: bool, magnitude: u128, exponent: i32) -> Option<Self> {
        let bits = (u128::BITS - magnitude.leading_zeros()) as i32;
        let excess = (bits - MANTISSA_BITS).max(EXPONENT_MIN - exponent);
        let (mantissa, exponent) = match u64::try_from(shift_right_rounding(magnitude, excess)) {
            Ok(mantissa) => (mantissa, exponent + excess),
            // Rounding up carried into the next power of two.
            Err(_) => (1 << (MANTISSA_BITS - 1), exponent + excess + 1),
        };
        let exponent = if mantissa == 0 { EXPONENT_MIN } else { exponent };
        (exponent <= EXPONENT_MAX).then_some(Self::Finite { is_negative, mantissa, exponent })
    }

    fn is_zero(self) -> bool {
        matches!(self, Self::Finite { mantissa: 0, .. })
    }
}

fn is_infinity(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity")
}

/// Adds two numbers (sign, mantissa, exponent), the first of which has the higher exponent.
fn sum_of(high: (bool, u64, i32), low: (bool, u64, i32)) -> Option<Extended> {
    /// Room below the mantissas for the bits that decide the rounding, and one bit above for the carry.
    const SPARE_BITS: i32 = MANTISSA_BITS - 1;
    let a = u128::from(high.1) << SPARE_BITS;
    let b = shift_right_jamming(u128::from(low.1) << SPARE_BITS, (high.2 - low.2) as u32);
    let (is_negative, magnitude) = match (high.0 == low.0, a >= b) {
        (true, _) => (high.0, a + b),
        (false, true) => (high.0, a - b),
        (false, false) => (low.0, b - a),
    };
    Extended::rounded(is_negative, magnitude, high.2 - SPARE_BITS)
}

/// Shifts right; lost bits are recorded in the lowest bit, so that a later rounding is still exact.
fn shift_right_jamming(value: u128, shift: u32) -> u128 {
    match value.checked_shr(shift) {
        Some(shifted) => shifted | u128::from(shifted << shift != value),
        None => u128::from(value != 0),
    }
}

/// Shifts right, rounded to the nearest, ties to even; shifts left if `shift` is negative.
fn shift_right_rounding(value: u128, shift: i32) -> u128 {
    match shift {
        ..=0 => value << -shift,
        1..=128 => {
            let kept = value.checked_shr(shift as u32).unwrap_or(0);
            let lost = value - kept.checked_shl(shift as u32).unwrap_or(0);
            match lost.cmp(&(1 << (shift - 1))) {
                Ordering::Less => kept,
                Ordering::Equal => kept + (kept & 1),
                Ordering::Greater => kept + 1,
            }
        }
        _ => 0,
    }
}

/// Prints as `%.17Lf`, without zeros at the end of the fraction.
impl fmt::Display for Extended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Finite { is_negative, mantissa, exponent } = *self else { return f.write_str("inf") };
        let text = if exponent >= 0 { integer_text(mantissa, exponent as u32) } else { text_of(mantissa, -exponent) };
        let sign = if is_negative && text != "0" { "-" } else { "" };
        write!(f, "{sign}{text}")
    }
}

/// The digits of mantissa x 2^exponent.
fn integer_text(mantissa: u64, exponent: u32) -> String {
    let mut value = Natural(vec![mantissa]);
    value.shift_left(exponent);
    value.into_decimal()
}

/// The digits of mantissa / 2^shift, with at most 17 after the point.
fn text_of(mantissa: u64, shift: i32) -> String {
    const FRACTION_DIGITS: usize = 17;
    const SCALE: u128 = 10u128.pow(low_u32(FRACTION_DIGITS as u64));
    let scaled = shift_right_rounding(u128::from(mantissa) * SCALE, shift);
    let (whole, fraction) = (scaled / SCALE, scaled % SCALE);
    let digits = format!("{whole}.{fraction:0FRACTION_DIGITS$}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number as written: digits, how many of them follow the point, and an exponent.
#[derive(Debug)]
struct Literal {
    digits: Vec<u8>,
    fraction_len: i64,
    exponent: i64,
}

impl Literal {
    /// Parses `digits [. digits] [marker [sign] digits]`, all of `text`.
    fn scan(text: &[u8], radix: u32, marker: u8) -> Option<Self> {
        let (significand, exponent) = split_at_byte(text, |byte| byte.eq_ignore_ascii_case(&marker));
        let (whole, fraction) = split_at_byte(significand, |&byte| byte == b'.');
        let fraction = fraction.unwrap_or_default();
        let digit = |&byte: &u8| char::from(byte).to_digit(radix).map(|digit| low_u8(digit.into()));
        let digits: Vec<u8> = whole.iter().chain(fraction).map(digit).collect::<Option<_>>()?;
        if digits.is_empty() {
            return None;
        }
        let exponent = exponent.map_or(Some(0), scan_exponent)?;
        Some(Self { digits, fraction_len: fraction.len() as i64, exponent })
    }

    fn decimal(self, is_negative: bool) -> Option<Extended> {
        let digits = self.significant_digits();
        let exponent = self.exponent - self.fraction_len;
        if digits.is_empty() {
            return Some(zero(is_negative));
        }
        if (digits.len() as i64 + exponent).abs() > DECIMAL_EXPONENT_MAX {
            return None;
        }
        let mut numerator = Natural::from_digits(digits, 10);
        let mut denominator = Natural(vec![1]);
        let scaled = if exponent < 0 { &mut denominator } else { &mut numerator };
        let power = u32::try_from(exponent.unsigned_abs()).expect("the number of digits bounds it");
        scaled.multiply_by_power_of_ten(power);
        nearest(is_negative, numerator, denominator, 0)
    }

    fn hexadecimal(self, is_negative: bool) -> Option<Extended> {
        const BITS: i64 = 4;
        let digits = self.significant_digits();
        if digits.is_empty() {
            return Some(zero(is_negative));
        }
        let exponent = i32::try_from(self.exponent - BITS * self.fraction_len).ok()?;
        nearest(is_negative, Natural::from_digits(digits, 16), Natural(vec![1]), exponent)
    }

    fn significant_digits(&self) -> &[u8] {
        let zeros = self.digits.iter().take_while(|&&digit| digit == 0).count();
        &self.digits[zeros..]
    }
}

fn split_at_byte(text: &[u8], is_separator: impl FnMut(&u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(is_separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// An exponent; one that is out of any range becomes one that still is.
fn scan_exponent(text: &[u8]) -> Option<i64> {
    const MAX: i64 = 1_000_000;
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(sign * digits.iter().fold(0, |value, digit| (value * 10 + i64::from(digit - b'0')).min(MAX)))
}

fn zero(is_negative: bool) -> Extended {
    Extended::Finite { is_negative, mantissa: 0, exponent: EXPONENT_MIN }
}

/// The float nearest to numerator / denominator x 2^exponent; `None` if that is out of range, or zero.
fn nearest(is_negative: bool, mut numerator: Natural, mut denominator: Natural, exponent: i32) -> Option<Extended> {
    /// The mantissa's, two for the rounding, and one that records all that follow.
    const BITS: i32 = MANTISSA_BITS + 3;
    // Brought to 1 <= numerator / denominator < 2, so that each step of the division yields one bit.
    let mut top = numerator.bits() as i32 - denominator.bits() as i32;
    let smaller = if top >= 0 { &mut denominator } else { &mut numerator };
    smaller.shift_left(top.unsigned_abs());
    if numerator < denominator {
        numerator.shift_left(1);
        top -= 1;
    }
    let mut quotient: u128 = 0;
    for _ in 1..BITS {
        let bit = numerator >= denominator;
        if bit {
            numerator.subtract(&denominator);
        }
        numerator.shift_left(1);
        quotient = quotient << 1 | u128::from(bit);
    }
    quotient = quotient << 1 | u128::from(!numerator.is_zero());
    Extended::rounded(is_negative, quotient, exponent + top - (BITS - 1)).filter(|float| !float.is_zero())
}

/// An integer of any size, its lowest 64 bits first, without zeros at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Natural(Vec<u64>);

impl Natural {
    fn from_digits(digits: &[u8], radix: u64) -> Self {
        /// So many digits fit in a limb, in either radix.
        const CHUNK: usize = 15;
        let mut natural = Self(Vec::new());
        for chunk in digits.chunks(CHUNK) {
            let value = chunk.iter().fold(0, |value, &digit| value * radix + u64::from(digit));
            natural.multiply_add(radix.pow(low_u32(chunk.len() as u64)), value);
        }
        natural
    }

    fn multiply_by_power_of_ten(&mut self, mut exponent: u32) {
        const STEP: u32 = 19;
        while exponent > 0 {
            let step = exponent.min(STEP);
            self.multiply_add(10u64.pow(step), 0);
            exponent -= step;
        }
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = low_u64(carry);
            carry >>= u64::BITS;
        }
        if carry > 0 {
            self.0.push(low_u64(carry));
        }
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1 << (bits % u64::BITS), 0);
        if !self.is_zero() && bits >= u64::BITS {
            self.0.splice(..0, std::iter::repeat_n(0, (bits / u64::BITS) as usize));
        }
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let (difference, below) = limb.overflowing_sub(other.0.get(index).copied().unwrap_or(0));
            let (difference, below_again) = difference.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (difference, below || below_again);
        }
        debug_assert!(!borrow, "the caller compared the two");
        self.trim();
    }

    /// Divides by a number, and returns the remainder.
    fn divide(&mut self, divisor: u64) -> u64 {
        let mut remainder = 0;
        for limb in self.0.iter_mut().rev() {
            let value = remainder << u64::BITS | u128::from(*limb);
            *limb = low_u64(value / u128::from(divisor));
            remainder = value % u128::from(divisor);
        }
        self.trim();
        low_u64(remainder)
    }

    fn into_decimal(mut self) -> String {
        const CHUNK_DIGITS: usize = 19;
        const CHUNK: u64 = 10u64.pow(low_u32(CHUNK_DIGITS as u64));
        let mut chunks = Vec::new();
        while !self.is_zero() {
            chunks.push(self.divide(CHUNK));
        }
        let digits: String = chunks.iter().rev().map(|chunk| format!("{chunk:0CHUNK_DIGITS$}")).collect();
        match digits.trim_start_matches('0') {
            "" => "0".to_owned(),
            digits => digits.to_owned(),
        }
    }

    fn bits(&self) -> u32 {
        self.0
            .last()
            .map_or(0, |top| u32::try_from(self.0.len()).expect("digits are bounded") * u64::BITS - top.leading_zeros())
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Extended {
        Extended::parse(text.as_bytes()).expect("the test writes numbers")
    }

    fn sum(a: &str, b: &str) -> Option<String> {
        Some(parse(a).plus(parse(b))?.to_string())
    }

    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.1", "4.1"),
            ("0", "-0", "0"),
            ("-1", "1", "0"),
            ("-1", "0.5", "-0.5"),
            ("1e-30", "-2e-30", "0"),
            ("0x10", "0x.8p1", "17"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("1e-4950", "1.5", "1.5"),
            ("17179869184", "0.00000001", "17179869184.00000000931322575"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn what_strtold_refuses_is_no_number() {
        for text in [
            "",
            " 1",
            "1 ",
            "+",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "0x",
            "0x.",
            "0xp1",
            "1.2.3",
            "1,5",
            "nan",
            "-nan",
            "infin",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "0x1p20000",
            "1e99999999999999999999",
            "--1",
            "1_0",
            "\u{661}",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in ["0", "-0", "0e99999999999", "1.", ".5", "+1", "0X1P-3", "Inf", "-INFINITY", "1e4932", "1e-4950"] {
            assert!(Extended::parse(text.as_bytes()).is_some(), "{text:?}");
        }
        assert_eq!(Extended::parse(&[b'1'; TEXT_LEN_MAX]), None);
    }

    #[test]
    fn infinite_sums_are_refused() {
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
        assert_eq!(sum("1e4932", "1e4932"), None);
    }

    proptest! {
        #[test]
        fn a_double_is_kept_both_ways(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(Extended::from(value).to_double(), Some(value));
        }

        #[test]
        fn integers_of_64_bits_are_kept(value: i64) {
            let text = value.to_string();
            prop_assert_eq!(Extended::from(value).to_string(), text.as_str());
            prop_assert_eq!(parse(&text), Extended::from(value));
        }

        #[test]
        fn ten_decimals_survive_reading_and_printing(value in -30f64..30.0) {
            let text = format!("{value:.10}");
            let expected = text.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(parse(&text).to_string(), if expected == "-0" { "0" } else { expected });
        }
    }
}
