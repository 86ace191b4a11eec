//! Splits the stream of a master into groups: commands that take effect together.
//!
//! Everything that one read returns is one group, so a replica that lags catches up in large steps, and its readers see
//! only prefixes of the stream. A transaction of the master is never split, and an unknown command ends the stream: a
//! command left out once would be missing for ever.

use crate::base::limits::LEN_MAX;
use crate::commands::{self, Command, Context, Flags, InStream, Request, Transaction};
use crate::resp::{Args, Limits, RequestParser, Step, parse_u64, quoted};
use std::fmt;

/// Bytes of arguments at which a group ends, unless a transaction is open.
const GROUP_BYTES: usize = 1 << 20;
/// Commands at which a group ends.
const GROUP_COMMANDS: usize = 4096;

/// Why the stream cannot be followed further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Commands that take effect together.
#[derive(Debug)]
pub struct Group {
    /// The commands; `None` if there was nothing to run.
    pub transaction: Option<Box<Transaction>>,
    /// Its bytes in the stream.
    pub bytes: Vec<u8>,
    /// The offset of the stream after it.
    pub end: u64,
    /// The database selected after it.
    pub database: u16,
    /// Whether the master requests an acknowledgement when it has taken effect.
    pub wants_acknowledgement: bool,
}

/// Splits the stream.
///
/// Invariants: `unread` begins with the first byte that was not returned, at the offset `given`; `unread[taken..]`
/// begins with the first byte of a command, at the offset `end`. While `is_in_multi` holds, what is in `group` has not
/// ended.
#[derive(Debug)]
pub struct StreamReader {
    parser: RequestParser,
    unread: Vec<u8>,
    taken: usize,
    group: Box<Transaction>,
    context: Context,
    databases: usize,
    is_in_multi: bool,
    wants_acknowledgement: bool,
    end: u64,
    /// The offset after the last returned group.
    given: u64,
    /// An offset between two commands that no group passes.
    boundary: Option<u64>,
}

impl StreamReader {
    /// A reader of a stream from this offset on, with this selected database; `databases` is how many there are.
    pub fn new(offset: u64, database: u16, databases: usize) -> Self {
        let context = Context { database, ..Context::default() };
        Self {
            parser: RequestParser::default(),
            unread: Vec::new(),
            taken: 0,
            group: Box::new(Transaction::of_master(context, databases)),
            context,
            databases,
            is_in_multi: false,
            wants_acknowledgement: false,
            end: offset,
            given: offset,
            boundary: None,
        }
    }

    /// The same reader, of which a group ends at this offset, where an earlier reader of the stream ended one.
    pub fn with_boundary(self, boundary: Option<u64>) -> Self {
        Self { boundary, ..self }
    }

    /// The buffer for the next bytes of the stream.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.unread
    }

    /// How many bytes wait, and the offset after them.
    pub fn waiting(&self) -> (usize, u64) {
        (self.unread.len(), self.given + self.unread.len() as u64)
    }

    /// The next group of what was read; `None` if more must be read first.
    pub fn next_group(&mut self) -> Result<Option<Group>, Refusal> {
        let limits = Limits { bulk_len_max: LEN_MAX, authenticated: true };
        while self.is_in_multi || !(self.is_full() || self.is_at_boundary()) {
            let unread = &self.unread[self.taken..];
            let step = self.parser.parse(unread, limits);
            let len = match step.map_err(|error| Refusal(format!("Protocol error: {error}")))? {
                Step::Incomplete => break,
                Step::Nothing(len) => len,
                Step::Request(len) => {
                    let unread = std::mem::take(&mut self.unread);
                    let parser = std::mem::take(&mut self.parser);
                    let taken = self.accept(parser.args(&unread[self.taken..]));
                    (self.unread, self.parser) = (unread, parser);
                    taken?;
                    len
                }
            };
            self.taken += len;
            self.end += len as u64;
        }
        if self.is_in_multi || self.end == self.given {
            return Ok(None);
        }
        self.given = self.end;
        Ok(Some(self.end_group()))
    }

    fn is_full(&self) -> bool {
        self.group.byte_len() >= GROUP_BYTES || self.group.len() >= GROUP_COMMANDS
    }

    fn is_at_boundary(&self) -> bool {
        self.boundary == Some(self.end) && self.end > self.given
    }

    fn end_group(&mut self) -> Group {
        let next = Box::new(Transaction::of_master(self.context, self.databases));
        let group = std::mem::replace(&mut self.group, next);
        let rest = self.unread.split_off(std::mem::take(&mut self.taken));
        let bytes = std::mem::replace(&mut self.unread, rest);
        Group {
            bytes,
            transaction: Some(group).filter(|group| !group.is_empty()),
            end: self.end,
            database: self.context.database,
            wants_acknowledgement: std::mem::take(&mut self.wants_acknowledgement),
        }
    }

    fn accept(&mut self, args: Args<'_>) -> Result<(), Refusal> {
        if args.is(0, "REPLCONF") {
            return self.accept_question(args);
        }
        let found = commands::find_of(args).map_err(|error| not_known(args, &error.to_string()))?;
        let Some(id) = found else { return self.accept_foreign(args) };
        let command = commands::command(id);
        if !command.accepts(args.len()) {
            return Err(not_known(args, "it has another number of arguments"));
        }
        match command.in_stream {
            InStream::Nothing => Ok(()),
            InStream::Begins if !self.is_in_multi => {
                self.is_in_multi = true;
                Ok(())
            }
            InStream::Ends if self.is_in_multi => {
                self.is_in_multi = false;
                Ok(())
            }
            InStream::Begins | InStream::Ends => Err(not_known(args, "it stands at no place for it")),
            InStream::Selects => self.select(id, args),
            InStream::Effect if commands::publishes(id) || is_effect(command, args) => self.queue(id, args),
            InStream::Effect => Err(not_known(args, "it is none that changes data")),
        }
    }

    /// Accepts a command that has no row.
    fn accept_foreign(&mut self, args: Args<'_>) -> Result<(), Refusal> {
        match commands::foreign::translated(args) {
            Ok(Some(words)) => self.accept(words.args()),
            Ok(None) => Err(not_known(args, "there is no such command here")),
            Err(reason) => Err(not_known(args, reason)),
        }
    }

    fn accept_question(&mut self, args: Args<'_>) -> Result<(), Refusal> {
        match args.is(1, "GETACK") {
            true => {
                self.wants_acknowledgement = true;
                Ok(())
            }
            false => Err(not_known(args, "it is no question for a replica")),
        }
    }

    fn select(&mut self, id: commands::CommandId, args: Args<'_>) -> Result<(), Refusal> {
        let number = args.get(1).and_then(parse_u64).and_then(|number| u16::try_from(number).ok());
        let number = number.ok_or_else(|| not_known(args, "it names no database"))?;
        self.must_have(number.into())?;
        self.context.database = number;
        self.queue(id, args)
    }

    fn must_have(&self, database: usize) -> Result<(), Refusal> {
        match database < self.databases {
            true => Ok(()),
            false => Err(Refusal(format!(
                "the master uses database {database}, and `databases` allows for {} only",
                self.databases
            ))),
        }
    }

    fn queue(&mut self, id: commands::CommandId, args: Args<'_>) -> Result<(), Refusal> {
        commands::highest_database(id, args).map_or(Ok(()), |database| self.must_have(database))?;
        match self.group.queue(id, args) {
            true => Ok(()),
            false => Err(Refusal("a transaction of the master is larger than what is run as one here".into())),
        }
    }
}

/// Whether a command may be in a stream: it changes data, and is an effect, not a script that may do anything.
fn is_effect(command: &Command, args: Args<'_>) -> bool {
    let changes = command.flags.has(Flags::WRITE) || command.flags.has(Flags::CACHES);
    changes && command.request != Request::Local && !command.flags.has(Flags::SCRIPT) && command.keys.have_values(args)
}

fn not_known(args: Args<'_>, reason: &str) -> Refusal {
    const SHOWN: usize = 128;
    let words = args.iter().take(4).map(|word| format!("'{}'", quoted(word, SHOWN))).collect::<Vec<_>>();
    let rest = if args.len() > words.len() { " …" } else { "" };
    Refusal(format!("the master has sent {}{rest}, which cannot be applied: {reason}", words.join(" ")))
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn encoded(lines: &[&str]) -> Vec<u8> {
        let encode = |line: &&str| {
            let words: Vec<&str> = line.split(' ').collect();
            let words_as_bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
            format!("*{}\r\n", words.len()) + &words_as_bulks.collect::<String>()
        };
        lines.iter().map(encode).collect::<String>().into_bytes()
    }

    fn groups(reader: &mut StreamReader, bytes: &[u8]) -> Result<Vec<(usize, u64)>, Refusal> {
        reader.buffer().extend_from_slice(bytes);
        let mut groups = Vec::new();
        while let Some(group) = reader.next_group()? {
            groups.push((group.transaction.map_or(0, |transaction| transaction.len()), group.end));
        }
        Ok(groups)
    }

    #[test]
    fn what_was_read_is_one_group_and_its_end_is_that_of_the_last_whole_command() {
        let bytes = encoded(&["SELECT 3", "SET a 1", "PING", "DEL a"]);
        for cut in 0..bytes.len() {
            let mut reader = StreamReader::new(100, 0, 16);
            let mut all = groups(&mut reader, &bytes[..cut]).unwrap();
            all.extend(groups(&mut reader, &bytes[cut..]).unwrap());
            assert_eq!(all.iter().map(|(commands, _)| commands).sum::<usize>(), 3, "cut at {cut}");
            assert_eq!(all.last().unwrap().1, 100 + bytes.len() as u64, "cut at {cut}");
        }
    }

    #[test]
    fn a_transaction_is_not_divided_wherever_the_reads_end() {
        let bytes = encoded(&["MULTI", "SET a 1", "SELECT 2", "SET b 1", "EXEC"]);
        for cut in 1..bytes.len() {
            let mut reader = StreamReader::new(0, 0, 16);
            assert_eq!(groups(&mut reader, &bytes[..cut]).unwrap(), [], "cut at {cut}");
            assert_eq!(groups(&mut reader, &bytes[cut..]).unwrap(), [(3, bytes.len() as u64)], "cut at {cut}");
        }
    }

    #[test]
    fn a_group_without_end_is_bounded() {
        let bytes = encoded(&["SET a 1"]).repeat(3 * GROUP_COMMANDS);
        let all = groups(&mut StreamReader::new(0, 0, 16), &bytes).unwrap();
        assert_eq!(all.iter().map(|(commands, _)| *commands).collect::<Vec<_>>(), [GROUP_COMMANDS; 3]);
    }

    #[test]
    fn a_group_ends_where_one_ended_before_however_much_was_read() {
        let before = encoded(&["SET a 1", "MULTI", "DEL b", "EXEC", "PING"]);
        let bytes = [&before[..], &encoded(&["SET c 1", "SET d 1"])].concat();
        let end = before.len() as u64;
        let with_boundary = |offset| StreamReader::new(offset, 0, 16).with_boundary(Some(end));
        assert_eq!(groups(&mut with_boundary(0), &bytes).unwrap(), [(2, end), (2, bytes.len() as u64)]);
        let of_later = groups(&mut with_boundary(end), &bytes[before.len()..]).unwrap();
        assert_eq!(of_later, [(2, bytes.len() as u64)], "it begins there");
    }

    #[test]
    fn the_master_is_told_only_after_what_it_asked_for() {
        let mut reader = StreamReader::new(0, 0, 16);
        reader.buffer().extend_from_slice(&encoded(&["SET a 1", "REPLCONF GETACK *"]));
        let group = reader.next_group().unwrap().unwrap();
        assert!(group.wants_acknowledgement);
        reader.buffer().extend_from_slice(&encoded(&["SET a 1"]));
        assert!(!reader.next_group().unwrap().unwrap().wants_acknowledgement);
    }

    #[test]
    fn what_is_not_understood_ends_the_stream() {
        for (line, reason) in [
            ("NOSUCH a b", "there is no such command here"),
            ("GET a", "it is none that changes data"),
            ("EVAL x 0", "it is none that changes data"),
            ("EXEC", "it stands at no place for it"),
            ("SET a", "it has another number of arguments"),
            ("SELECT 16", "`databases` allows for 16 only"),
            ("MOVE a 16", "`databases` allows for 16 only"),
            ("CONFIG SET a b", "it is none that changes data"),
            ("REPLCONF ACK 1", "it is no question for a replica"),
            ("HSETEX h EX 10 FIELDS 1 f v", "fields that expire are not supported here"),
        ] {
            let refusal = groups(&mut StreamReader::new(0, 0, 16), &encoded(&[line])).unwrap_err().0;
            assert!(refusal.contains(reason), "{line}: {refusal}");
        }
        let garbage = groups(&mut StreamReader::new(0, 0, 16), b"*1\r\nx\r\n").unwrap_err().0;
        assert!(garbage.contains("expected '$'"), "{garbage}");
    }

    #[test]
    fn fields_that_do_not_expire_are_set() {
        let bytes = encoded(&["HSETEX h KEEPTTL FIELDS 2 f 1 g 2"]);
        let mut reader = StreamReader::new(0, 0, 16);
        reader.buffer().extend_from_slice(&bytes);
        let transaction = reader.next_group().unwrap().unwrap().transaction.unwrap();
        let words: Vec<&[u8]> = transaction.commands().next().unwrap().1.iter().collect();
        assert_eq!(words, [b"HSET".as_slice(), b"h", b"f", b"1", b"g", b"2"]);
    }
}
