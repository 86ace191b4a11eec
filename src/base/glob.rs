//! Patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that stands for itself.
//!
//! Byte by byte, with the rules of Redis's `stringmatchlen`, its oddities included: a class that does not close ends
//! with the pattern, the bounds of a range are signed bytes in either order, an empty text matches no pattern that has
//! a byte. Redis gives up on a pattern with a thousand stars; this does not.
//!
//! # Cost
//! Only the last star is remembered: an earlier one never has to take more, because what follows the last star could
//! then only start later. So the cost is at most pattern x text, never exponential.

/// Whether `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_in(pattern, text, Case::Sensitive)
}

/// Whether `text` matches `pattern`, ASCII letters being equal in either case.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_in(pattern, text, Case::Insensitive)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Sensitive,
    Insensitive,
}

impl Case {
    fn fold(self, byte: u8) -> u8 {
        if self == Self::Insensitive { byte.to_ascii_lowercase() } else { byte }
    }

    fn are_equal(self, a: u8, b: u8) -> bool {
        self.fold(a) == self.fold(b)
    }
}

fn matches_in(mut pattern: &[u8], mut text: &[u8], case: Case) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    // What follows the last star, and the text from which it was last tried.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            if rest.is_empty() {
                return true;
            }
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        let Some((&byte, text_rest)) = text.split_first() else { return pattern.is_empty() };
        if let Some(pattern_rest) = match_one(pattern, byte, case) {
            (pattern, text) = (pattern_rest, text_rest);
            continue;
        }
        let Some((after_star, [_, tried @ ..])) = retry else { return false };
        retry = Some((after_star, tried));
        (pattern, text) = (after_star, tried);
    }
}

/// Matches one byte with the first element of the pattern, which is no star, and returns the rest of the pattern.
fn match_one(pattern: &[u8], byte: u8, case: Case) -> Option<&[u8]> {
    let (is_match, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', b'^', class @ ..] => {
            let (is_member, rest) = match_class(class, byte, case);
            (!is_member, rest)
        }
        [b'[', class @ ..] => match_class(class, byte, case),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (case.are_equal(*literal, byte), rest),
    };
    is_match.then_some(rest)
}

/// Whether a class has `byte`, and the pattern after the class.
fn match_class(mut class: &[u8], byte: u8, case: Case) -> (bool, &[u8]) {
    let mut is_member = false;
    loop {
        let (is_match, rest) = match class {
            [] => return (is_member, class),
            // An escaped byte in a class keeps its case, in Redis too.
            [b'\\', literal, rest @ ..] => (*literal == byte, rest),
            [b']', rest @ ..] => return (is_member, rest),
            [start, b'-', end, rest @ ..] => (is_in_range(*start, *end, byte, case), rest),
            [literal, rest @ ..] => (case.are_equal(*literal, byte), rest),
        };
        is_member |= is_match;
        class = rest;
    }
}

fn is_in_range(start: u8, end: u8, byte: u8, case: Case) -> bool {
    let signed = |byte: u8| case.fold(byte) as i8;
    let (first, last) = if start as i8 <= end as i8 { (start, end) } else { (end, start) };
    (signed(first)..=signed(last)).contains(&signed(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "a", true),
            ("*", "", false),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*a", "a", true),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("?", "", false),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("[a-c]", "b", true),
            ("[c-a]", "b", true),
            ("[a-c]", "d", false),
            ("[]", "]", false),
            ("[abc", "c", true),
            ("[^", "x", true),
            ("[", "[", false),
            ("[a-]", "]", true),
            ("[a-]", "^", true),
            ("[a-]", "-", false),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("**a**", "bab", true),
            ("*.txt", "a.txt.txt", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXcb", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn case_counts_only_where_it_should() {
        assert!(matches_ignoring_case(b"MAX*", b"maxmemory"));
        assert!(matches_ignoring_case(b"[A-C]x", b"bX"));
        assert!(!matches_ignoring_case(b"[\\A]", b"a"));
        assert!(!matches(b"MAX*", b"maxmemory"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = [b"a*".repeat(500), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &[b'a'; 50_000]));
    }

    /// The rules as Redis writes them: a star tries every suffix.
    fn naive(pattern: &[u8], text: &[u8], case: Case) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|start| naive(rest, &text[start..], case)),
            (_, []) => false,
            (_, [byte, text_rest @ ..]) => {
                match_one(pattern, *byte, case).is_some_and(|rest| naive(rest, text_rest, case))
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn remembering_the_last_star_is_enough(pattern in "[ab*?\\[\\]^\\\\-]{0,8}", text in "[abAB^\\]]{1,8}") {
            for case in [Case::Sensitive, Case::Insensitive] {
                prop_assert_eq!(
                    matches_in(pattern.as_bytes(), text.as_bytes(), case),
                    naive(pattern.as_bytes(), text.as_bytes(), case)
                );
            }
        }
    }
}
