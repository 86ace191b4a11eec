//! Finds a command by its name.

use super::row::{Command, Subcommands};
use super::table::{COMMANDS, COUNT, CommandId, command};
use super::{Outcome, Services};
use crate::base::narrowing::{low_u8, size};
use crate::resp::{Args, CommandError, Reply, quoted};

/// Slots of the hash table; a power of two, several times the number of commands so that most chains have length one.
const SLOTS: usize = 1024;

/// The longest name that its ends are all of.
const ENDS_MAX: usize = 16;

/// The bit that makes a letter lower case.
const CASE: u64 = 0x20;

/// A name of the table, in lower case, as words that a request's is compared with.
#[derive(Clone, Copy)]
struct Named {
    /// Its ends; see [`ends`].
    head: u64,
    tail: u64,
    /// [`CASE`] of those bytes in them that are letters.
    head_case: u64,
    tail_case: u64,
    len: usize,
    id: CommandId,
}

impl Named {
    const NONE: Self = Self { head: 0, tail: 0, head_case: 0, tail_case: 0, len: usize::MAX, id: CommandId(u16::MAX) };

    const fn new(id: CommandId, name: &[u8]) -> Self {
        let (head, tail) = ends(name);
        Self { head, tail, head_case: case_of(head), tail_case: case_of(tail), len: name.len(), id }
    }

    const fn is_none(&self) -> bool {
        self.len == usize::MAX
    }

    /// Whether it is as long as a name and has its ends, in any case.
    #[inline]
    fn has_ends(&self, len: usize, (head, tail): (u64, u64)) -> bool {
        self.len == len && (head | self.head_case) == self.head && (tail | self.tail_case) == self.tail
    }

    /// Whether it is a name, in any case.
    fn is(&self, name: &[u8], ends: (u64, u64)) -> bool {
        self.has_ends(name.len(), ends)
            && (name.len() <= ENDS_MAX || command(self.id).name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// [`CASE`] of each byte that is a letter.
const fn case_of(word: u64) -> u64 {
    let (mut case, mut shift) = (0, 0);
    while shift < u64::BITS {
        if (low_u8(word >> shift)).is_ascii_lowercase() {
            case |= CASE << shift;
        }
        shift += 8;
    }
    case
}

/// The first and the last eight bytes of a name; of a shorter one all bytes, some of them twice.
#[inline]
const fn ends(name: &[u8]) -> (u64, u64) {
    if let (Some(head), Some(tail)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
    }
    if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return (u32::from_le_bytes(*head) as u64, u32::from_le_bytes(*tail) as u64);
    }
    match *name {
        [a, b, c] => (u32::from_le_bytes([a, b, c, 0]) as u64, 0),
        [a, b] => (u16::from_le_bytes([a, b]) as u64, 0),
        [a] => (a as u64, 0),
        _ => (0, 0),
    }
}

static NAMES: [Named; SLOTS] = {
    // Commands before subcommands, which are looked for more rarely.
    put_names(put_names([Named::NONE; SLOTS], false), true)
};

const fn put_names(mut names: [Named; SLOTS], are_subcommands: bool) -> [Named; SLOTS] {
    let mut index = 0;
    while index < COUNT {
        let row = &COMMANDS[index];
        if row.is_subcommand == are_subcommands {
            let name = row.name.as_bytes();
            let mut slot = slot_of(ends(name), name.len());
            while !names[slot].is_none() {
                slot = (slot + 1) % SLOTS;
            }
            names[slot] = Named::new(CommandId::of_index(index), name);
        }
        index += 1;
    }
    names
}

/// The command of this name, in any case. A subcommand is not a command of its own.
#[inline]
pub fn find(name: &[u8]) -> Option<CommandId> {
    find_row(name).filter(|&id| !command(id).is_subcommand)
}

/// The row of this name; also finds subcommands, `container|name`.
#[inline]
pub fn find_row(name: &[u8]) -> Option<CommandId> {
    let ends = ends(name);
    let slot = slot_of(ends, name.len());
    let named = &NAMES[slot];
    // Nearly every name that is asked for is short, and has its slot for itself.
    if name.len() <= ENDS_MAX && named.has_ends(name.len(), ends) { Some(named.id) } else { search(name, ends, slot) }
}

/// Finds a name at `slot`, or after it.
#[cold]
#[inline(never)]
fn search(name: &[u8], ends: (u64, u64), mut slot: usize) -> Option<CommandId> {
    loop {
        let named = &NAMES[slot];
        if named.is(name, ends) {
            return Some(named.id);
        }
        if named.is_none() {
            return None;
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The command that a request runs: for a container over the keyspace, the subcommand that the request names.
#[inline]
pub fn find_of(args: Args<'_>) -> Result<Option<CommandId>, CommandError> {
    running(find(&args[0]), args)
}

/// The same, when the command of the request's name is known.
#[inline]
pub fn running(named: Option<CommandId>, args: Args<'_>) -> Result<Option<CommandId>, CommandError> {
    match named {
        Some(id) if command(id).subcommands == Subcommands::Keyspace => subcommand(id, args).map(Some),
        named => Ok(named),
    }
}

/// The subcommand `name` of `container`.
pub fn find_subcommand(container: &Command, name: &[u8]) -> Option<CommandId> {
    find_row(&[container.name.as_bytes(), b"|", name].concat())
}

/// Mixes the ends of a name, in lower case, and its length.
#[inline]
const fn slot_of((head, tail): (u64, u64), len: usize) -> usize {
    const LOWER_CASE: u64 = 0x2020_2020_2020_2020;
    // Found by trying: with it all commands but three are in the slot to which their names lead.
    const MULTIPLIER: u64 = 0x2aa3_e074_30de_fb65;
    let mixed = ((head | LOWER_CASE) ^ (tail | LOWER_CASE).rotate_left(29) ^ len as u64).wrapping_mul(MULTIPLIER);
    size(mixed >> 48) % SLOTS
}

/// The subcommand that the arguments of a container name; any other command itself.
pub fn subcommand(id: CommandId, args: Args<'_>) -> Result<CommandId, CommandError> {
    let container = command(id);
    let Some(name) = args.get(1).filter(|_| container.subcommands != Subcommands::None) else {
        return Ok(id);
    };
    let found = find_subcommand(container, name).ok_or_else(|| unknown_subcommand(container.name, name))?;
    match command(found).accepts(args.len()) {
        true => Ok(found),
        false => Err(CommandError::Arity(command(found).name.into())),
    }
}

/// The command or subcommand that a request names, whether or not its arguments are right. `named` is the command of
/// its name.
pub fn named_in_full(named: Option<CommandId>, args: Args<'_>) -> Option<CommandId> {
    let container = command(named?);
    match args.get(1).filter(|_| container.subcommands != Subcommands::None) {
        Some(name) => find_subcommand(container, name),
        None => named,
    }
}

fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
    let name = quoted(name, 128);
    CommandError::Owned(format!("ERR unknown subcommand '{name}'. Try {} HELP.", container.to_uppercase()))
}

/// A container without a subcommand: its arity prevents such requests.
pub fn container(_services: &Services, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    Err(CommandError::Arity(String::from_utf8_lossy(&args[0]).to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command;

    #[test]
    fn every_command_is_found_in_any_case() {
        for row in COMMANDS {
            for name in [row.name.to_owned(), row.name.to_uppercase()] {
                assert_eq!(find_row(name.as_bytes()).map(|id| command(id).name), Some(row.name));
            }
        }
    }

    #[test]
    fn a_name_with_another_byte_is_found_only_if_the_table_has_it() {
        let known: std::collections::HashSet<&str> = COMMANDS.iter().map(|row| row.name).collect();
        for row in COMMANDS {
            for index in 0..row.name.len() {
                for byte in 0..=u8::MAX {
                    let mut name = row.name.as_bytes().to_vec();
                    name[index] = byte;
                    let lower = String::from_utf8_lossy(&name).to_ascii_lowercase();
                    assert_eq!(find_row(&name).is_some(), known.contains(&lower[..]), "{name:?}");
                }
            }
        }
    }

    #[test]
    fn nearly_every_command_is_where_its_name_leads() {
        let commands = COMMANDS.iter().filter(|row| !row.is_subcommand);
        let elsewhere = commands.map(|row| row.name).filter(|name| {
            let ends = ends(name.as_bytes());
            !NAMES[slot_of(ends, name.len())].has_ends(name.len(), ends)
        });
        let elsewhere: Vec<&str> = elsewhere.collect();
        assert!(elsewhere.len() <= 3, "{elsewhere:?}");
    }

    #[test]
    fn what_is_no_command_is_not_found() {
        for name in ["", "x", "gett", "get ", "g\0t", "averyveryverylongnameofnothing", "client|nothing", "client|id"] {
            assert_eq!(find(name.as_bytes()), None);
        }
    }
}
