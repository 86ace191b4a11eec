//! Effects as commands that a replica runs.
//!
//! An effect is a command already. What is added is implied by the bounds of a record: the database, and that several
//! effects take effect together. Parts that only the log needs are changed.

use super::floats;
use crate::aof::for_each_effect;
use crate::base::planted::is_planted;
use crate::resp::{Args, Span};

/// Turns effects into the bytes of a stream.
#[derive(Debug, Default)]
pub struct Encoder {
    out: Vec<u8>,
    /// The database that the stream has selected; none at a position where a replica may begin to read.
    selected: Option<usize>,
    /// Whether the stream is inside MULTI, and where that begins in `out`.
    is_inside: bool,
    spans: Vec<Span>,
}

impl Encoder {
    /// Whether the stream is inside MULTI.
    pub fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// How many bytes were encoded and not taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// The memory of the buffer that it keeps.
    pub fn memory(&self) -> usize {
        self.out.capacity()
    }

    /// Frees the buffer. Everything that was encoded has been taken.
    pub fn free_buffer(&mut self) {
        assert!(self.out.is_empty(), "what is encoded is taken at once");
        self.out = Vec::new();
    }

    /// Takes the encoded bytes.
    pub fn take(&mut self, into: impl FnOnce(&[u8])) {
        const KEPT: usize = 1024 * 1024;
        if !self.out.is_empty() {
            into(&self.out);
            self.out.clear();
            self.out.shrink_to(KEPT);
        }
    }

    /// Opens a MULTI that stays open.
    pub fn open(&mut self) {
        if !self.is_inside && !is_planted("NoMulti") {
            self.is_inside = true;
            append(&mut self.out, [b"MULTI".as_slice()]);
        }
    }

    /// Closes it.
    pub fn close(&mut self) {
        if self.is_inside {
            self.is_inside = false;
            append(&mut self.out, [b"EXEC".as_slice()]);
        }
    }

    /// Marks a position where a replica may begin to read: it has selected no database.
    pub fn forget_database(&mut self) {
        self.selected = None;
    }

    /// Appends a command that belongs to no database.
    pub fn command<'a>(&mut self, words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>) {
        append(&mut self.out, words);
    }

    /// Appends the effects of a record, which take effect together.
    pub fn record(&mut self, payload: &[u8]) {
        let mut spans = std::mem::take(&mut self.spans);
        let has_several = !self.is_inside && has_several(payload, &mut spans);
        if has_several {
            append(&mut self.out, [b"MULTI".as_slice()]);
        }
        let mut database = 0;
        let read = for_each_effect(payload, &mut spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            match selected(args) {
                Some(number) => database = number,
                None => self.effect(database, args),
            }
        });
        read.expect("an owner pushes whole effects");
        if has_several {
            append(&mut self.out, [b"EXEC".as_slice()]);
        }
        self.spans = spans;
    }

    fn effect(&mut self, database: usize, args: Args<'_>) {
        if self.selected != Some(database) {
            self.selected = Some(database);
            append(&mut self.out, [b"SELECT".as_slice(), itoa::Buffer::new().format(database).as_bytes()]);
        }
        match floats::rewritten(args) {
            Some(words) => append(&mut self.out, words.iter().map(AsRef::as_ref)),
            None if args.is(0, "XCLAIM") => append(&mut self.out, claim(args)),
            None if args.is(0, "LREM") => append(&mut self.out, removal(args)),
            None => append_as_it_is(&mut self.out, args),
        }
    }
}

/// The database that an effect selects, if it does.
fn selected(args: Args<'_>) -> Option<usize> {
    let number = (args.len() == 2 && args.is(0, "SELECT")).then(|| &args[1])?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Whether a payload has several effects, not counting SELECT.
fn has_several(payload: &[u8], spans: &mut Vec<Span>) -> bool {
    let mut count = 0;
    let counted = for_each_effect(payload, spans, |bytes, spans| {
        count += usize::from(selected(Args::new(bytes, spans)).is_none());
    });
    counted.expect("an owner pushes whole effects");
    count > 1
}

/// When a consumer was seen and active is only for the log: Redis records that itself. What is left of an XCLAIM
/// without entries is that the consumer exists.
fn claim(args: Args<'_>) -> Vec<&[u8]> {
    const FIRST_OPTION: usize = 5;
    let words: Vec<&[u8]> = args.iter().collect();
    let is_seen = |word: &&[u8]| word.eq_ignore_ascii_case(b"SEEN");
    let end = words.iter().skip(FIRST_OPTION).position(is_seen).map_or(words.len(), |at| FIRST_OPTION + at);
    match words[..end] {
        [_, key, group, consumer, _] => vec![b"XGROUP", b"CREATECONSUMER", key, group, consumer],
        _ => words[..end].to_vec(),
    }
}

/// Redis 8 and Valkey 9 refuse the least count of LREM, which removes from the end of a list whatever there is.
fn removal(args: Args<'_>) -> impl ExactSizeIterator<Item = &[u8]> {
    const LEAST: &[u8] = b"-9223372036854775808";
    const NEXT: &[u8] = b"-9223372036854775807";
    args.iter().enumerate().map(|(place, word)| if place == 2 && word == LEAST { NEXT } else { word })
}

/// Appends a command as a client sends it.
fn append<'a>(out: &mut Vec<u8>, words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>) {
    let words = words.into_iter();
    append_number(out, b'*', words.len());
    words.for_each(|word| append_word(out, word));
}

/// Appends an effect.
fn append_as_it_is(out: &mut Vec<u8>, args: Args<'_>) {
    append_number(out, b'*', args.len());
    args.iter().for_each(|word| append_word(out, word));
}

fn append_word(out: &mut Vec<u8>, word: &[u8]) {
    append_number(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn append_number(out: &mut Vec<u8>, sign: u8, number: usize) {
    out.push(sign);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Effects;

    fn stream(encoder: &mut Encoder) -> String {
        let mut text = String::new();
        encoder.take(|bytes| text = String::from_utf8(bytes.to_vec()).expect("words"));
        let words = text.split("\r\n").filter(|word| !word.starts_with('$'));
        let words: Vec<&str> = words.map(|word| if word.starts_with('*') { "|" } else { word }).collect();
        words.join(" ").trim_start_matches("| ").trim_end().to_owned()
    }

    fn payload(effects: &[(usize, &str)]) -> Vec<u8> {
        let mut told = Effects::new(true);
        for (database, line) in effects {
            told.select(*database);
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            told.add(words);
        }
        told.payload().to_vec()
    }

    #[test]
    fn a_record_of_several_effects_is_a_transaction_and_databases_are_selected_when_they_change() {
        let mut encoder = Encoder::default();
        encoder.record(&payload(&[(0, "SET a 1")]));
        encoder.record(&payload(&[(0, "SET b 1")]));
        encoder.record(&payload(&[(3, "DEL a")]));
        encoder.record(&payload(&[(0, "SET a 1"), (2, "SET b 2")]));
        encoder.record(&payload(&[(2, "SET b 3")]));
        let wanted = "SELECT 0 | SET a 1 | SET b 1 | SELECT 3 | DEL a | MULTI | SELECT 0 | SET a 1 | SELECT 2 | SET b 2 | \
                      EXEC | SET b 3";
        assert_eq!(stream(&mut encoder), wanted);
        encoder.open();
        encoder.record(&payload(&[(2, "SET a 1"), (2, "SET b 2")]));
        encoder.close();
        encoder.close();
        assert_eq!(stream(&mut encoder), "MULTI | SET a 1 | SET b 2 | EXEC");
    }

    #[test]
    fn a_claim_says_what_a_replica_understands() {
        let mut encoder = Encoder::default();
        for (effect, wanted) in [
            ("XCLAIM k g c 0 SEEN 7", "XGROUP CREATECONSUMER k g c"),
            ("XCLAIM k g c 0 SEEN 7 ACTIVE 6", "XGROUP CREATECONSUMER k g c"),
            (
                "XCLAIM k g SEEN 0 1-0 TIME 7 RETRYCOUNT 1 FORCE JUSTID SEEN 7 ACTIVE 7",
                "XCLAIM k g SEEN 0 1-0 TIME 7 RETRYCOUNT 1 FORCE JUSTID",
            ),
        ] {
            encoder.record(&payload(&[(0, effect)]));
            assert_eq!(stream(&mut encoder).trim_start_matches("SELECT 0 | "), wanted);
        }
    }

    #[test]
    fn the_least_count_of_lrem_is_one_that_newer_replicas_take() {
        let mut encoder = Encoder::default();
        for (effect, wanted) in [
            ("LREM k -9223372036854775808 v", "LREM k -9223372036854775807 v"),
            ("lrem k -9223372036854775808 -9223372036854775808", "lrem k -9223372036854775807 -9223372036854775808"),
            ("LREM k 2 v", "LREM k 2 v"),
        ] {
            encoder.record(&payload(&[(0, effect)]));
            assert_eq!(stream(&mut encoder).trim_start_matches("SELECT 0 | "), wanted);
        }
    }
}
