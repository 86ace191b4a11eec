//! The position of the data in the stream of a master, as the log of a replica records it: with each group that it has
//! applied, in the same record, so that the replayed data and the position are of the same moment.
//!
//! ```text
//! POSITION id offset database      the data is that of the stream of this name up to there
//! POSITION - offset 0              no longer: the data was changed here after that offset
//! ```
//! Several segments have such effects. The furthest counts; of two at one offset, the one that says that the stream has
//! ended, since the stream never goes back while a log is the same.

use super::effects::Effects;
use crate::resp::{Args, parse_u64};

/// A position in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPlace {
    /// The name of the stream; none if the data does not belong to a stream any more.
    pub id: Option<String>,
    /// How many bytes of it have taken effect.
    pub offset: u64,
    /// The database selected at this position.
    pub database: u16,
}

const NAME: &[u8] = b"POSITION";
const NONE: &[u8] = b"-";

impl StreamPlace {
    /// Whether an effect is a stream place.
    pub fn is_effect(args: Args<'_>) -> bool {
        args.len() == 4 && &args[0] == NAME
    }

    /// The stream place of an effect.
    pub fn of_effect(args: Args<'_>) -> Option<Self> {
        let id = match &args[1] {
            NONE => None,
            id => Some(String::from_utf8(id.to_vec()).ok()?),
        };
        let database = u16::try_from(parse_u64(&args[3])?).ok()?;
        Some(Self { id, offset: parse_u64(&args[2])?, database })
    }

    /// The data belongs to no stream after this offset.
    pub fn none_at(offset: u64) -> Self {
        Self { id: None, offset, database: 0 }
    }

    /// Adds the effect.
    pub fn record(&self, effects: &mut Effects) {
        let id = self.id.as_ref().map_or(NONE, String::as_bytes);
        let (mut offset, mut database) = (itoa::Buffer::new(), itoa::Buffer::new());
        let numbers = [offset.format(self.offset).as_bytes(), database.format(self.database).as_bytes()];
        effects.add([NAME, id, numbers[0], numbers[1]]);
    }

    /// The payload of a record with only this effect.
    pub fn payload(&self) -> Vec<u8> {
        let mut effects = Effects::new(true);
        self.record(&mut effects);
        effects.payload().to_vec()
    }

    /// The later of two, which counts.
    pub fn later(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if (other.offset, other.id.is_none()) > (self.offset, self.id.is_none()) => other,
            _ => self,
        }
    }
}
