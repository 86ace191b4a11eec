//! What a command adds to the log: effects, not intentions.
//!
//! A command that changed something is logged as it was asked, unless it says otherwise: a time to live becomes a point
//! in time, a random member becomes the member that was chosen. Replaying gives the same state on any day.

use crate::resp::Args;

/// The longest effect, in bytes as it is encoded: positions in it have 32 bits.
pub const EFFECT_LEN_MAX: usize = u32::MAX as usize;

/// Bytes of words that one effect is told over: with a word and a key of the greatest length it is still no longer than
/// [`EFFECT_LEN_MAX`]. Tests have short words.
const PIECE_LEN: usize = if cfg!(test) { 64 } else { 1 << 30 };

/// What a count or a length takes in an effect.
const NUMBER: usize = size_of::<u32>();

/// The effects of the command that is running, encoded as the payload of a log record.
///
/// ```text
/// effect: argument count u32 | (length u32 | bytes) for each argument     (little endian)
/// ```
/// A payload begins in database 0; the effect `SELECT n` says that those behind it concern another. What is told of the
/// stream of a master is in [`super::StreamPlace`].
#[derive(Debug, Default)]
pub struct Effects {
    is_logged: bool,
    is_told: bool,
    /// The database that the running command changes.
    database: usize,
    /// The database that the payload has selected: number 0 where it begins.
    told_database: usize,
    payload: Vec<u8>,
}

impl Effects {
    /// Effects that go to a log, or are not kept at all.
    pub fn new(is_logged: bool) -> Self {
        Self { is_logged, ..Self::default() }
    }

    /// Says whether the effects to come go to a log.
    #[inline]
    pub fn set_logged(&mut self, is_logged: bool) {
        self.is_logged = is_logged;
    }

    /// Says which database the effects to come concern.
    #[inline]
    pub fn select(&mut self, database: usize) {
        self.database = database;
    }

    /// Whether effects are kept: work that only the log needs can be left out otherwise.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Tells an effect in place of the command's own arguments; several stand in the order in which they were told.
    pub fn tell<'a>(&mut self, arguments: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>) {
        self.is_told = true;
        self.add(arguments);
    }

    /// Tells an effect over words, each of which it would have alone, too: `head`, the words, `tail`. There may be any
    /// number of words: what is too long for one effect is told as several, and nothing where there are none.
    pub fn tell_over<'a>(&mut self, head: &[&'a [u8]], words: impl Iterator<Item = &'a [u8]>, tail: &[&'a [u8]]) {
        let mut piece = head.to_vec();
        let mut len = 0;
        for word in words {
            if len > 0 && len + word.len() > PIECE_LEN {
                piece.extend_from_slice(tail);
                self.tell(piece.iter().copied());
                piece.truncate(head.len());
                len = 0;
            }
            piece.push(word);
            len += NUMBER + word.len();
        }
        if len > 0 {
            piece.extend_from_slice(tail);
            self.tell(piece);
        }
    }

    /// Leaves the running command's own arguments out: somebody else logs it.
    pub fn leave_out_own(&mut self) {
        self.is_told = true;
    }

    /// Adds an effect beside the command's own: a key that expired.
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

    /// Ends a command that made `changes`: its arguments are its effect, unless it told another.
    pub fn end_command(&mut self, changes: u64, args: Args<'_>) {
        if changes > 0 && !self.is_told {
            self.add(args.iter());
        }
        self.is_told = false;
    }

    /// Ends what was told outside of a command: somebody who waited was served.
    pub fn end_serving(&mut self) {
        self.is_told = false;
    }

    /// The payload so far; empty when there is nothing to log.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Forgets the payload, which has been logged.
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
        let mut told = Effects::new(true);
        told.tell_over(&[b"XCLAIM", b"key"], words.iter().map(Vec::as_slice), &[b"FORCE"]);
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
        assert_eq!(told.payload(), wanted.payload());
        let mut nothing = Effects::new(true);
        nothing.tell_over(&[b"SREM", b"key"], std::iter::empty(), &[]);
        assert!(nothing.payload().is_empty(), "an effect needs a word");
    }
}
