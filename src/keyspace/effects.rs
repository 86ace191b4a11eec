//! What a command adds to the log: effects, not intentions.
//!
//! A command that changed something is logged as it was asked, unless it says otherwise: a time to live becomes a point
//! in time, a random member becomes the member that was chosen. Replaying gives the same state on any day.

use crate::resp::Args;

/// The effects of the command that is running, encoded as the payload of a log record.
///
/// ```text
/// effect: argument count u32 | (length u32 | bytes) for each argument     (little endian)
/// ```
/// A payload begins in database 0; the effect `SELECT n` says that those behind it concern another.
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
        self.payload.extend_from_slice(&(arguments.len() as u32).to_le_bytes());
        for argument in arguments {
            self.payload.extend_from_slice(&(argument.len() as u32).to_le_bytes());
            self.payload.extend_from_slice(argument);
        }
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
