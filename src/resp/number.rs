//! Strict parsing of integers, as in Redis.

/// A decimal `i64` without sign tricks, spaces or leading zeros: the only form that Redis's `string2ll` accepts.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', rest @ ..] => {
            let magnitude = parse_u64(rest).filter(|&magnitude| magnitude != 0)?;
            0i64.checked_sub_unsigned(magnitude)
        }
        _ => parse_u64(text).and_then(|value| i64::try_from(value).ok()),
    }
}

/// A decimal `u64` without sign, spaces or leading zeros.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() <= 19 => {
            let mut value = u64::from(text[0] - b'0');
            for &digit in rest {
                let digit = digit.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            }
            Some(value)
        }
        _ => None,
    }
}

/// Bytes with a unit: 1k = 1000, 1kb = 1024.
pub fn parse_memory(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let digits = lower.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(lower.len());
    let unit: u64 = match &lower[digits..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    match &lower[..digits] {
        // As in Redis.
        "" => Some(0),
        number => number.parse::<u64>().ok()?.checked_mul(unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_of_an_integer_is_one() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999999",
            "1e3",
            "--1",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
    }
}
