//! A command of a workload file, compiled: what stays the same is encoded beforehand, what changes
//! is filled in with a copy each.

use rand::Rng;
use rand::rngs::SmallRng;

use super::encoder::KEY_DIGITS_MAX;
use crate::mirror::unverifiable;
use crate::resp::encode_request;
use crate::values::{Values, scale};

/// A compiled command.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// What follows the last piece.
    tail: Vec<u8>,
    /// The first word, in capitals.
    pub(crate) word: String,
    /// Why --verify is refused, if it is.
    pub(crate) unverifiable: Option<String>,
}

/// What stays the same, and then something that changes.
#[derive(Clone, Debug)]
enum Piece {
    /// A number within a word. By its digits: all since the last piece, up to the number.
    Number { heads: Vec<Vec<u8>>, number: Number },
    /// A value, as an argument of its own.
    Data { before: Vec<u8> },
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Key,
    Random { minimum: u64, span: u64 },
}

/// The places of a word, with its placeholder between them.
struct Word<'a> {
    before: &'a str,
    placeholder: Placeholder,
    after: &'a str,
}

enum Placeholder {
    Key,
    Number(Number),
    Data,
}

impl Template {
    /// Compiles a command; the error says what is wrong with it.
    pub(crate) fn compile(text: &str, key_prefix: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some(first) = words.first().filter(|word| !word.contains("__")) else {
            return Err(format!("{text:?} begins with no command"));
        };
        let mut literal = format!("*{}\r\n", words.len()).into_bytes();
        let mut pieces = Vec::new();
        for word in &words {
            match parse_word(word)? {
                None => append_bulk(&mut literal, word.as_bytes()),
                Some(Word { placeholder: Placeholder::Data, before: "", after: "" }) => {
                    pieces.push(Piece::Data { before: std::mem::take(&mut literal) });
                }
                Some(Word { placeholder: Placeholder::Data, .. }) => {
                    return Err(format!("in {text:?}, __data__ is a word of its own"));
                }
                Some(Word { before, placeholder: Placeholder::Key, after }) => {
                    let before = format!("{before}{key_prefix}");
                    let heads = heads(&literal, &before, after);
                    pieces.push(Piece::Number { heads, number: Number::Key });
                    literal = format!("{after}\r\n").into_bytes();
                }
                Some(Word { before, placeholder: Placeholder::Number(number), after }) => {
                    pieces.push(Piece::Number { heads: heads(&literal, before, after), number });
                    literal = format!("{after}\r\n").into_bytes();
                }
            }
        }
        Ok(Self { pieces, tail: literal, word: first.to_ascii_uppercase(), unverifiable: unverifiable(text) })
    }

    /// Appends the command for this key.
    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>, key: u64, values: &Values, rng: &mut SmallRng) {
        for piece in &self.pieces {
            match piece {
                Piece::Number { heads, number } => {
                    let mut buffer = itoa::Buffer::new();
                    let digits = buffer.format(number.draw(key, rng)).as_bytes();
                    out.extend_from_slice(&heads[digits.len()]);
                    out.extend_from_slice(digits);
                }
                Piece::Data { before } => {
                    out.extend_from_slice(before);
                    values.append(out, rng);
                }
            }
        }
        out.extend_from_slice(&self.tail);
    }
}

impl Number {
    #[inline]
    fn draw(self, key: u64, rng: &mut SmallRng) -> u64 {
        match self {
            Self::Key => key,
            Self::Random { minimum, span } => minimum + scale(rng.next_u64(), span),
        }
    }
}

fn append_bulk(out: &mut Vec<u8>, word: &[u8]) {
    let mut request = Vec::new();
    encode_request(&mut request, &[word]);
    // Without the line that says that it is one argument.
    out.extend_from_slice(&request[4..]);
}

fn heads(literal: &[u8], before: &str, after: &str) -> Vec<Vec<u8>> {
    let head = |digits: usize| {
        let length = before.len() + digits + after.len();
        [literal, format!("${length}\r\n{before}").as_bytes()].concat()
    };
    (0..=KEY_DIGITS_MAX).map(head).collect()
}

/// None for a word without a placeholder.
fn parse_word(word: &str) -> Result<Option<Word<'_>>, String> {
    let Some((before, rest)) = word.split_once("__") else {
        return Ok(None);
    };
    let Some((name, after)) = rest.split_once("__") else {
        return Err(format!("{word:?} has a placeholder without an end"));
    };
    if after.contains("__") {
        return Err(format!("{word:?} has more than one placeholder"));
    }
    let placeholder = match name {
        "key" => Placeholder::Key,
        "number" => Placeholder::Number(Number::Key),
        "data" => Placeholder::Data,
        _ => Placeholder::Number(parse_random(name).ok_or_else(|| {
            format!("{word:?} has the unknown placeholder __{name}__: there are key, number, data, random:MIN:MAX")
        })?),
    };
    Ok(Some(Word { before, placeholder, after }))
}

fn parse_random(name: &str) -> Option<Number> {
    let (minimum, maximum) = name.strip_prefix("random:")?.split_once(':')?;
    let (minimum, maximum): (u64, u64) = (minimum.parse().ok()?, maximum.parse().ok()?);
    let span = maximum.checked_sub(minimum)?.checked_add(1)?;
    Some(Number::Random { minimum, span })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::values::ValueSizes;

    fn encoded(text: &str, key: u64) -> String {
        let mut rng = SmallRng::seed_from_u64(3);
        let values = Values::new(&ValueSizes::Fixed(2), 3);
        let mut out = Vec::new();
        Template::compile(text, "k:").expect("valid").append(&mut out, key, &values, &mut rng);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn placeholders_are_filled_in_and_lengths_fit() {
        assert_eq!(encoded("PING", 1), "*1\r\n$4\r\nPING\r\n");
        assert_eq!(encoded("get __key__", 120), "*2\r\n$3\r\nget\r\n$5\r\nk:120\r\n");
        assert_eq!(
            encoded("ZADD board:{__number__}:x 7 p__key__ EX", 12),
            "*5\r\n$4\r\nZADD\r\n$12\r\nboard:{12}:x\r\n$1\r\n7\r\n$5\r\npk:12\r\n$2\r\nEX\r\n"
        );
        assert_eq!(encoded("X __random:7:7__", 1), "*2\r\n$1\r\nX\r\n$1\r\n7\r\n");
        let set = encoded("SET __key__ __data__ EX 60", 5);
        assert!(set.starts_with("*5\r\n$3\r\nSET\r\n$3\r\nk:5\r\n$2\r\n"), "{set}");
        assert!(set.ends_with("\r\n$2\r\nEX\r\n$2\r\n60\r\n"), "{set}");
    }

    #[test]
    fn random_numbers_cover_their_range() {
        let mut seen: Vec<String> = Vec::new();
        let mut rng = SmallRng::seed_from_u64(3);
        let values = Values::new(&ValueSizes::Fixed(2), 3);
        let template = Template::compile("X __random:9:11__", "").expect("valid");
        for _ in 0..200 {
            let mut out = Vec::new();
            template.append(&mut out, 0, &values, &mut rng);
            seen.push(String::from_utf8(out).expect("ASCII"));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["$1\r\n9", "$2\r\n10", "$2\r\n11"].map(|end| format!("*2\r\n$1\r\nX\r\n{end}\r\n")));
    }

    #[test]
    fn what_is_no_command_is_refused_with_the_reason() {
        for (text, what) in [
            ("", "begins with no command"),
            ("__key__ x", "begins with no command"),
            ("GET __key", "without an end"),
            ("GET __key____number__", "more than one placeholder"),
            ("GET x__data__", "a word of its own"),
            ("GET __nothing__", "unknown placeholder __nothing__"),
            ("GET __random:5:4__", "unknown placeholder"),
            ("GET __random:0:18446744073709551615__", "unknown placeholder"),
        ] {
            let error = Template::compile(text, "k").expect_err(text);
            assert!(error.contains(what), "{text:?}: {error}");
        }
    }
}
