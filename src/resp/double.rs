//! Doubles as Redis prints them.
//!
//! Integers are printed as such up to 2^62, where every one of them is exact. Any other number has the digits and the
//! layout that Redis 7.2 has from fpconv: few digits that parse to the same double, plain if few zeros are needed, with
//! an exponent otherwise.

use super::grisu::Digits;
use crate::base::narrowing::whole_i64;
use std::io::Write;
use std::ops::Deref;

/// A double's digits, without an allocation.
#[derive(Debug, Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
}

impl DoubleText {
    /// The longest text: a sign, 17 digits, a point, and an exponent or the zeros of a number that has none.
    const LEN_MAX: usize = 32;

    /// The text of a number that is not NaN.
    pub fn shortest(value: f64) -> Self {
        const INTEGER_MAX: f64 = (1_u64 << 62) as f64;
        match Self::special(value) {
            Some(text) => text,
            None if value.abs() <= INTEGER_MAX && value.trunc() == value => {
                Self::with(|out| out.write_all(itoa::Buffer::new().format(whole_i64(value)).as_bytes()))
            }
            None => Self::with(|out| write_fpconv(value, out)),
        }
    }

    /// The text with 17 significant digits: C's `%.17g`.
    pub fn precise(value: f64) -> Self {
        match Self::special(value) {
            Some(text) => text,
            None => Self::with(|out| write_general(value, out)),
        }
    }

    /// Numbers with the same text in both forms.
    fn special(value: f64) -> Option<Self> {
        debug_assert!(!value.is_nan(), "no command replies NaN");
        if value.is_infinite() {
            return Some(Self::with(|out| out.write_all(if value > 0.0 { b"inf" } else { b"-inf" })));
        }
        if value == 0.0 {
            return Some(Self::with(|out| out.write_all(if value.is_sign_negative() { b"-0" } else { b"0" })));
        }
        None
    }

    fn with(write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>) -> Self {
        let mut bytes = [0; Self::LEN_MAX];
        let mut rest = &mut bytes[..];
        write(&mut rest).expect("LEN_MAX is the longest text");
        let len = Self::LEN_MAX - rest.len();
        Self { bytes, len }
    }
}

impl Deref for DoubleText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The parts of a number: 0.d1 d2 d3 ... x 10^(exponent + 1).
struct Decimal {
    is_negative: bool,
    digits: DoubleText,
    exponent: i32,
}

impl Decimal {
    /// Parses what Rust prints: `-d.ddde-x`.
    fn of(scientific: &[u8]) -> Self {
        let (is_negative, magnitude) = match scientific {
            [b'-', magnitude @ ..] => (true, magnitude),
            magnitude => (false, magnitude),
        };
        let at = magnitude.iter().position(|&byte| byte == b'e').expect("the format has an exponent");
        let exponent = std::str::from_utf8(&magnitude[at + 1..]).ok().and_then(|text| text.parse().ok());
        let digits = DoubleText::with(|out| {
            magnitude[..at].iter().filter(|&&byte| byte != b'.').try_for_each(|&digit| out.write_all(&[digit]))
        });
        Self { is_negative, digits, exponent: exponent.expect("the format has an exponent") }
    }

    fn without_trailing_zeros(mut self) -> Self {
        while self.digits.len > 1 && self.digits.ends_with(b"0") {
            self.digits.len -= 1;
        }
        self
    }
}

/// The layout of fpconv.
fn write_fpconv(value: f64, out: &mut &mut [u8]) -> std::io::Result<()> {
    let found = Digits::of(value.abs());
    let (digits, scale) = (found.as_slice(), found.scale);
    let len = i32::try_from(digits.len()).expect("a number has 17 digits at most");
    let exponent = scale + (len - 1);
    if value < 0.0 {
        out.write_all(b"-")?;
    }
    if scale >= 0 && exponent.abs() < len + 7 {
        out.write_all(digits)?;
        return write_zeros(scale, out);
    }
    if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        return write_fixed(digits, exponent, out);
    }
    write_mantissa(digits, out)?;
    write!(out, "e{exponent:+}")
}

/// The layout of C's `%g` with 17 digits.
fn write_general(value: f64, out: &mut &mut [u8]) -> std::io::Result<()> {
    const DIGITS: i32 = 17;
    let text = DoubleText::with(|out| write!(out, "{value:.16e}"));
    let Decimal { is_negative, digits, exponent } = Decimal::of(&text).without_trailing_zeros();
    if is_negative {
        out.write_all(b"-")?;
    }
    let len = i32::try_from(digits.len).expect("a number has 17 digits at most");
    match exponent {
        -4..0 => write_fixed(&digits, exponent, out),
        0..DIGITS if len <= exponent + 1 => {
            out.write_all(&digits)?;
            write_zeros(exponent + 1 - len, out)
        }
        0..DIGITS => write_fixed(&digits, exponent, out),
        _ => {
            write_mantissa(&digits, out)?;
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "e{sign}{:02}", exponent.abs())
        }
    }
}

/// Digits with a point among them, or zeros and a point before them.
fn write_fixed(digits: &[u8], exponent: i32, out: &mut &mut [u8]) -> std::io::Result<()> {
    match usize::try_from(exponent + 1) {
        Ok(whole @ 1..) => {
            out.write_all(&digits[..whole])?;
            out.write_all(b".")?;
            out.write_all(&digits[whole..])
        }
        _ => {
            out.write_all(b"0.")?;
            write_zeros(-(exponent + 1), out)?;
            out.write_all(digits)
        }
    }
}

fn write_mantissa(digits: &[u8], out: &mut &mut [u8]) -> std::io::Result<()> {
    out.write_all(&digits[..1])?;
    if digits.len() > 1 {
        out.write_all(b".")?;
    }
    out.write_all(&digits[1..])
}

fn write_zeros(count: i32, out: &mut &mut [u8]) -> std::io::Result<()> {
    (0..count).try_for_each(|_| out.write_all(b"0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shortest(value: f64) -> String {
        String::from_utf8(DoubleText::shortest(value).to_vec()).expect("digits are text")
    }

    fn precise(value: f64) -> String {
        String::from_utf8(DoubleText::precise(value).to_vec()).expect("digits are text")
    }

    #[test]
    fn numbers_are_printed_as_redis_prints_them() {
        for (value, short, long) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (-17.0, "-17", "-17"),
            (0.1, "0.1", "0.10000000000000001"),
            (-0.3, "-0.3", "-0.29999999999999999"),
            (3.5, "3.5", "3.5"),
            (1e-5, "0.00001", "1.0000000000000001e-05"),
            (1e-6, "0.000001", "9.9999999999999995e-07"),
            (1e-7, "1e-7", "9.9999999999999995e-08"),
            (1.5e-9, "1.5e-9", "1.5e-09"),
            (0.000123456789, "1.23456789e-4", "0.000123456789"),
            (123456789.125, "123456789.125", "123456789.125"),
            (123456.7890123, "1.234567890123e+5", "123456.7890123"),
            (4611686018427387904.0, "4611686018427387904", "4.6116860184273879e+18"),
            (1e18, "1000000000000000000", "1e+18"),
            (1e19, "1e+19", "1e+19"),
            (1e20, "1e+20", "1e+20"),
            (12345678901234567000.0, "12345678901234567000", "1.2345678901234567e+19"),
            (1e300, "1e+300", "1.0000000000000001e+300"),
            (-2.5e-300, "-2.5e-300", "-2.5e-300"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
            (5e-324, "5e-324", "4.9406564584124654e-324"),
            (f64::INFINITY, "inf", "inf"),
            (f64::NEG_INFINITY, "-inf", "-inf"),
        ] {
            assert_eq!((shortest(value).as_str(), precise(value).as_str()), (short, long));
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(shortest(value).parse::<f64>(), Ok(value));
            prop_assert_eq!(precise(value).parse::<f64>(), Ok(value));
        }
    }
}
