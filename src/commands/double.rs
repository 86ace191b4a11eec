//! Doubles as Redis reads them.

use super::CommandError;
use super::float::Extended;

/// A double other than NaN; the whole argument must parse.
pub fn double(argument: &[u8]) -> Result<f64, CommandError> {
    parse_double(argument).ok_or(CommandError::NotFloat)
}

/// The result of C's `strtod` for a whole text: `1`, `-.5`, `3e3`, `0x1.8p1`, `inf`; `None` if it is too large, or too
/// small to differ from zero.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    in_range(text, read(text)?)
}

/// A bound of a range of scores. Redis parses it less strictly: spaces before it are skipped, a value out of range is
/// infinite or zero, and an empty text is zero.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    match &text[..end] {
        [] => Some(0.0),
        text => read(&text[text.iter().take_while(|byte| is_space(byte)).count()..]),
    }
}

/// The number; infinite or zero if it is out of range.
fn read(text: &[u8]) -> Option<f64> {
    if let [b'0', b'x' | b'X', ..] = magnitude(text) {
        return Extended::parse(text)?.to_double();
    }
    // Rust's grammar is strtod's, except for hexadecimal digits and what may follow NaN.
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

fn in_range(text: &[u8], value: f64) -> Option<f64> {
    let magnitude = magnitude(text);
    let is_infinity = magnitude.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'i'));
    let mut significand = magnitude.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'));
    let is_too_small = value == 0.0 && significand.any(|digit| (b'1'..=b'9').contains(digit));
    (value.is_finite() != is_infinity && !is_too_small).then_some(value)
}

fn magnitude(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', magnitude @ ..] => magnitude,
        magnitude => magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtod_reads_them() {
        for (text, value) in [
            ("1", 1.0),
            ("-.5", -0.5),
            ("+1.", 1.0),
            ("3e3", 3000.0),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8", 0.5),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e999", 0.0),
            ("5e-324", 5e-324),
            ("0x1p-1074", 5e-324),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["", " 1", "1 ", "nan", "-nan", "1e400", "-1e400", "1e-400", "0x", "0x1p9999", "1e", ".", "1_0"] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_read_with_less_care() {
        for (text, value) in [
            ("", Some(0.0)),
            (" \t1", Some(1.0)),
            ("1e400", Some(f64::INFINITY)),
            ("-1e400", Some(f64::NEG_INFINITY)),
            ("1e-400", Some(0.0)),
            ("1\0x", Some(1.0)),
            ("\0", Some(0.0)),
            (" ", None),
            ("1 ", None),
            ("nan", None),
            ("x", None),
        ] {
            assert_eq!(parse_bound(text.as_bytes()), value, "{text:?}");
        }
    }
}
