//! What a command adds to the log: its effects, not its request.
//!
//! A command that changed data is logged as it was requested, unless it adds other effects: a time to live becomes a
//! point in time, a random member becomes the member that was chosen. Replay results in the same state on any day.

use crate::resp::Args;

/// The longest effect, in encoded bytes: positions in it have 32 bits.
pub const EFFECT_LEN_MAX: usize = u32::MAX as usize;

/// Bytes of words per effect: even with a word and a key of the greatest length it is not longer than
/// [`EFFECT_LEN_MAX`]. Tests have short words.
const PIECE_LEN: usize = if cfg!(test) { 64 } else { 1 << 30 };

/// The size of a count or a length in an effect.
const NUMBER: usize = size_of::<u32>();

/// The effects of the command that is running, encoded as the payload of a log record.
///
/// ```text
/// effect: argument count u32 | (length u32 | bytes) for each argument     (little endian)
/// ```
/// A payload begins in database 0; the effect `SELECT n` says that the effects after it concern another. Positions in
/// the stream of a master are described in [`super::StreamPlace`].
#[derive(Debug, Default)]
pub struct Effects {
    is_logged: bool,
    is_recorded: bool,
    /// The database that the running command changes.
    database: usize,
    /// The database that the payload has selected: number 0 at its beginning.
    told_database: usize,
    payload: Vec<u8>,
}

impl Effects {
    /// Effects for a log, or effects that are dropped.
    pub fn new(is_logged: bool) -> Self {
        Self { is_logged, ..Self::default() }
    }

    /// Sets whether later effects go to a log.
    #[inline]
    pub fn set_logged(&mut self, is_logged: bool) {
        self.is_logged = is_logged;
    }

    /// Sets the database that later effects concern.
    #[inline]
    pub fn select(&mut self, database: usize) {
        self.database = database;
    }

    /// Whether effects are kept: if not, work that only the log needs can be left out.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Adds an effect that replaces the command's own arguments; several keep their order.
    pub fn record<'a>(&mut self, arguments: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>) {
        self.is_recorded = true;
        self.add(arguments);
    }

    /// Adds an effect over words that could also be one effect each: `head`, the words, `tail`. There may be any number
    /// of words: too many for one effect become several, and none adds no effect.
    pub fn record_over<'a>(&mut self, head: &[&'a [u8]], words: impl Iterator<Item = &'a [u8]>, tail: &[&'a [u8]]) {
        let mut piece = head.to_vec();
        let mut len = 0;
        for word in words {
            if len > 0 && len + word.len() > PIECE_LEN {
                piece.extend_from_slice(tail);
                self.record(piece.iter().copied());
                piece.truncate(head.len());
                len = 0;
            }
            piece.push(word);
            len += NUMBER + word.len();
        }
        if len > 0 {
            piece.extend_from_slice(tail);
            self.record(piece);
        }
    }

    /// Leaves the running command's own arguments out, because another record has them.
    pub fn leave_out_own(&mut self) {
        self.is_recorded = true;
    }

    /// Adds an effect besides the command's own: a key that expired.
    pub fn add<'a>(&mut self, arguments: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>) {
        if !self.is_logged {
            return;
        }
        if self.database != self.told_database {
            self.told_database = self.database;
            let number = itoa::Buffer::new().format(self.database).to_owned();
            self.append([b"SELECT".as_slice(), number.as_bytes()].into_iter());
        }
        self.append(arguments.into_iter());
    }

    fn append<'a>(&mut self, arguments: impl ExactSizeIterator<Item = &'a [u8]>) {
        let start = self.payload.len();
        self.payload.extend_from_slice(&encoded(arguments.len()));
        for argument in arguments {
            self.payload.extend_from_slice(&encoded(argument.len()));
            self.payload.extend_from_slice(argument);
        }
        assert!(
            self.payload.len() - start <= EFFECT_LEN_MAX,
            "the query buffer bounds requests, pieces bound the rest"
        );
    }

    /// Ends a command that made `changes`: its arguments are its effect, unless it added others.
    pub fn end_command(&mut self, changes: u64, args: Args<'_>) {
        if changes > 0 && !self.is_recorded {
            self.add(args.iter());
        }
        self.is_recorded = false;
    }

    /// Ends a command that was refused before it ran.
    pub fn end_refused(&mut self) {
        self.is_recorded = false;
    }

    /// Ends effects outside of a command: a waiter was served.
    pub fn end_serving(&mut self) {
        self.is_recorded = false;
    }

    /// The payload so far; empty if there is nothing to log.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Drops the payload, which has been logged.
    pub fn clear(&mut self) {
        const KEPT: usize = 64 * 1024;
        self.told_database = 0;
        self.payload.clear();
        self.payload.shrink_to(KEPT);
    }
}

/// A count or a length in an effect.
fn encoded(number: usize) -> [u8; NUMBER] {
    u32::try_from(number).expect("it is of a part of an effect, which has no more than 4 GB").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_one_effect_is_told_as_several_with_every_word_once() {
        let words: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number; usize::from(number)]).collect();
        let mut recorded = Effects::new(true);
        recorded.record_over(&[b"XCLAIM", b"key"], words.iter().map(Vec::as_slice), &[b"FORCE"]);
        let mut wanted = Effects::new(true);
        let (mut piece, mut len) = (Vec::new(), 0);
        let end = |wanted: &mut Effects, piece: &mut Vec<&[u8]>| {
            let effect = [&[b"XCLAIM".as_slice(), b"key"], &piece[..], &[b"FORCE"]].concat();
            wanted.add(effect);
            piece.clear();
        };
        for word in &words {
            if !piece.is_empty() && len + word.len() > PIECE_LEN {
                end(&mut wanted, &mut piece);
                len = 0;
            }
            piece.push(word.as_slice());
            len += word.len() + NUMBER;
        }
        end(&mut wanted, &mut piece);
        assert_eq!(recorded.payload(), wanted.payload());
        let mut nothing = Effects::new(true);
        nothing.record_over(&[b"SREM", b"key"], std::iter::empty(), &[]);
        assert!(nothing.payload().is_empty(), "an effect needs a word");
    }
}
