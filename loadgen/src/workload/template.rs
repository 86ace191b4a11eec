//! A compiled command of a workload file: constant parts are encoded beforehand, variable parts are filled in with a
//! copy each.

use rand::Rng;
use rand::rngs::SmallRng;

use super::key_names::{KEY_DIGITS_MAX, KeyNames, key_endings};
use super::values::Values;
use super::verifiable::unverifiable;
use crate::base::random::scale;
use crate::resp::encode_request;

/// A compiled command.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// What follows the last piece.
    tail: Vec<u8>,
    /// By member: what follows the digits of a key. Empty if a key is on its own.
    endings: Vec<Vec<u8>>,
    /// Whether it takes several keys, which are drawn for it alone.
    pub(crate) takes_several: bool,
    /// The first word, in capitals.
    pub(crate) word: String,
    /// Why --verify is refused, if it is.
    pub(crate) unverifiable: Option<String>,
}

/// A constant part, followed by a variable one.
#[derive(Clone, Debug)]
enum Piece {
    /// A number within a word. By its digits: all since the last piece, up to the number.
    Number { heads: Vec<Vec<u8>>, number: Number },
    /// A key within a word, likewise.
    Key { heads: Vec<Vec<u8>> },
    /// Keys, as arguments of their own, each followed by a value if wanted.
    Keys { before: Vec<u8>, heads: Vec<Vec<u8>>, with_values: bool },
    /// A value, as an argument of its own.
    Data { before: Vec<u8> },
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Tag,
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
    Keys,
    Pairs,
    Number(Number),
    Data,
}

/// The values drawn for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    /// The key: a member of a tag. If a key is on its own, its number and 0.
    pub(crate) tag: u64,
    pub(crate) member: usize,
    /// If the command takes several keys, their tags.
    pub(crate) tags: &'a [u64],
}

impl Template {
    /// Compiles a command; the error says why it is invalid.
    pub(crate) fn compile(text: &str, names: KeyNames<'_>) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some(first) = words.first().filter(|word| !word.contains("__")) else {
            return Err(format!("{text:?} begins with no command"));
        };
        let takes_several = check_several(text, &words, names.keys_per_tag)?;
        let endings = key_endings(names.keys_per_tag);
        let opening = if names.keys_per_tag == 1 { names.prefix.to_owned() } else { format!("{}{{", names.prefix) };
        let mut literal = format!("*{}\r\n", arguments(&words, names.keys_per_tag)).into_bytes();
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
                    let heads = heads(&literal, &format!("{before}{opening}"), endings[0].len() + after.len());
                    pieces.push(Piece::Key { heads });
                    literal = format!("{after}\r\n").into_bytes();
                }
                Some(Word { placeholder: placeholder @ (Placeholder::Keys | Placeholder::Pairs), .. }) => {
                    let before = std::mem::take(&mut literal);
                    let heads = heads(b"", &opening, endings[0].len());
                    let with_values = matches!(placeholder, Placeholder::Pairs);
                    pieces.push(Piece::Keys { before, heads, with_values });
                }
                Some(Word { before, placeholder: Placeholder::Number(number), after }) => {
                    pieces.push(Piece::Number { heads: heads(&literal, before, after.len()), number });
                    literal = format!("{after}\r\n").into_bytes();
                }
            }
        }
        Ok(Self {
            pieces,
            tail: literal,
            endings,
            takes_several,
            word: first.to_ascii_uppercase(),
            unverifiable: unverifiable(text),
        })
    }

    /// Appends the command with the drawn values.
    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>, chosen: Chosen<'_>, values: &Values, rng: &mut SmallRng) {
        for piece in &self.pieces {
            match piece {
                Piece::Number { heads, number } => append_number(out, heads, number.draw(chosen.tag, rng)),
                Piece::Key { heads } => {
                    append_number(out, heads, chosen.tag);
                    out.extend_from_slice(&self.endings[chosen.member]);
                }
                Piece::Keys { before, heads, with_values } => {
                    out.extend_from_slice(before);
                    for (ending, &tag) in self.endings.iter().zip(chosen.tags) {
                        append_number(out, heads, tag);
                        out.extend_from_slice(ending);
                        out.extend_from_slice(b"\r\n");
                        if *with_values {
                            values.append(out, rng);
                        }
                    }
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
    fn draw(self, tag: u64, rng: &mut SmallRng) -> u64 {
        match self {
            Self::Tag => tag,
            Self::Random { minimum, span } => minimum + scale(rng.next_u64(), span),
        }
    }
}

/// Appends a number after the head of its length.
#[inline]
fn append_number(out: &mut Vec<u8>, heads: &[Vec<u8>], number: u64) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    out.extend_from_slice(&heads[digits.len()]);
    out.extend_from_slice(digits);
}

const KEYS: &str = "__keys__";
const PAIRS: &str = "__pairs__";

/// Whether a command takes several keys; an error if it cannot.
fn check_several(text: &str, words: &[&str], keys_per_tag: usize) -> Result<bool, String> {
    let lists = words.iter().filter(|word| [KEYS, PAIRS].contains(word)).count();
    if lists == 0 {
        return Ok(false);
    }
    let one_key = |word: &&str| word.contains("__key__") || word.contains("__number__");
    if lists > 1 || words.iter().any(one_key) {
        return Err(format!("{text:?} has several keys, and then nothing else with a key in it"));
    }
    if keys_per_tag == 1 {
        return Err(format!("{text:?} takes several keys: say how many with keys-per-command, 2 or more"));
    }
    Ok(true)
}

/// The number of arguments of a command, including its name.
fn arguments(words: &[&str], keys_per_tag: usize) -> usize {
    let of = |word: &&str| match *word {
        KEYS => keys_per_tag,
        PAIRS => 2 * keys_per_tag,
        _ => 1,
    };
    words.iter().map(of).sum()
}

fn append_bulk(out: &mut Vec<u8>, word: &[u8]) {
    let mut request = Vec::new();
    encode_request(&mut request, &[word]);
    // Without the line that says that it is one argument.
    out.extend_from_slice(&request[4..]);
}

/// What comes before a number, by its digits; `after` bytes follow it in the same word.
fn heads(literal: &[u8], before: &str, after: usize) -> Vec<Vec<u8>> {
    let head = |digits: usize| {
        let length = before.len() + digits + after;
        [literal, format!("${length}\r\n{before}").as_bytes()].concat()
    };
    (0..=KEY_DIGITS_MAX).map(head).collect()
}

/// `None` for a word without a placeholder.
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
        "keys" | "pairs" if word != format!("__{name}__") => {
            return Err(format!("in {word:?}, __{name}__ is to be a word of its own"));
        }
        "keys" => Placeholder::Keys,
        "pairs" => Placeholder::Pairs,
        "number" => Placeholder::Number(Number::Tag),
        "data" => Placeholder::Data,
        _ => Placeholder::Number(parse_random(name).ok_or_else(|| {
            format!("{word:?} has the unknown placeholder __{name}__: there are key, keys, pairs, number, data, random:MIN:MAX")
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
    use crate::workload::values::ValueSizes;

    fn encoded(text: &str, key: u64) -> String {
        let mut rng = SmallRng::seed_from_u64(3);
        let values = Values::new(&ValueSizes::Fixed(2), 3);
        let mut out = Vec::new();
        let chosen = Chosen { tag: key, member: 0, tags: &[] };
        Template::compile(text, alone("k:")).expect("valid").append(&mut out, chosen, &values, &mut rng);
        String::from_utf8(out).expect("ASCII")
    }

    fn alone(prefix: &str) -> KeyNames<'_> {
        KeyNames { prefix, keys_per_tag: 1 }
    }

    #[test]
    fn several_keys_are_members_of_their_tags_in_turn() {
        let names = KeyNames { prefix: "k", keys_per_tag: 3 };
        let values = Values::new(&ValueSizes::Fixed(0), 3);
        let encoded = |text: &str| {
            let (mut out, mut rng) = (Vec::new(), SmallRng::seed_from_u64(3));
            let chosen = Chosen { tag: 12, member: 2, tags: &[5, 5, 120] };
            Template::compile(text, names).expect("valid").append(&mut out, chosen, &values, &mut rng);
            String::from_utf8(out).expect("ASCII")
        };
        assert_eq!(encoded("MGET __keys__"), "*4\r\n$4\r\nMGET\r\n$6\r\nk{5}:0\r\n$6\r\nk{5}:1\r\n$8\r\nk{120}:2\r\n");
        assert_eq!(
            encoded("MSET __pairs__"),
            "*7\r\n$4\r\nMSET\r\n$6\r\nk{5}:0\r\n$0\r\n\r\n$6\r\nk{5}:1\r\n$0\r\n\r\n$8\r\nk{120}:2\r\n$0\r\n\r\n"
        );
        assert_eq!(
            encoded("BITOP AND __keys__ x"),
            "*6\r\n$5\r\nBITOP\r\n$3\r\nAND\r\n$6\r\nk{5}:0\r\n$6\r\nk{5}:1\r\n$8\r\nk{120}:2\r\n$1\r\nx\r\n"
        );
        assert_eq!(encoded("GET a:__key__:b"), "*2\r\n$3\r\nGET\r\n$11\r\na:k{12}:2:b\r\n");
        for (text, what) in [
            ("MGET __keys__ __keys__", "nothing else with a key"),
            ("SINTERSTORE __key__ __keys__", "nothing else with a key"),
            ("MGET x__keys__", "a word of its own"),
        ] {
            let error = Template::compile(text, names).expect_err(text);
            assert!(error.contains(what), "{text:?}: {error}");
        }
        assert!(Template::compile("MGET __keys__", alone("k")).is_err_and(|why| why.contains("keys-per-command")));
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
        let template = Template::compile("X __random:9:11__", alone("")).expect("valid");
        for _ in 0..200 {
            let mut out = Vec::new();
            template.append(&mut out, Chosen { tag: 0, member: 0, tags: &[] }, &values, &mut rng);
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
            let error = Template::compile(text, alone("k")).expect_err(text);
            assert!(error.contains(what), "{text:?}: {error}");
        }
    }
}
