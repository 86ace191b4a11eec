//! Finds a command by its name.

use super::row::{Command, Subcommands};
use super::table::{COMMANDS, CommandId, command};
use super::{Outcome, Services};
use crate::base::narrowing::size;
use crate::resp::{Args, CommandError, Reply, quoted};
use std::sync::LazyLock;

/// Slots of the hash table; a power of two, several times the number of commands so that most chains have length one.
const SLOTS: usize = 1024;

static SLOTS_BY_NAME: LazyLock<[u16; SLOTS]> = LazyLock::new(|| {
    let mut slots = [u16::MAX; SLOTS];
    for (index, command) in COMMANDS.iter().enumerate() {
        let mut slot = slot_of(command.name.as_bytes());
        while slots[slot] != u16::MAX {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = CommandId::of_index(index).0;
    }
    slots
});

/// The command of this name, in any case. A subcommand is not a command of its own.
#[inline]
pub fn find(name: &[u8]) -> Option<CommandId> {
    find_row(name).filter(|&id| !command(id).is_subcommand)
}

/// The row of this name; also finds subcommands, `container|name`.
#[inline]
pub fn find_row(name: &[u8]) -> Option<CommandId> {
    let slots = &*SLOTS_BY_NAME;
    let mut slot = slot_of(name);
    loop {
        let index = slots[slot];
        let command: &Command = COMMANDS.get(usize::from(index))?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(CommandId(index));
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The command that a request runs: for a container over the keyspace, the subcommand that the request names.
#[inline]
pub fn find_of(args: Args<'_>) -> Result<Option<CommandId>, CommandError> {
    match find(&args[0]) {
        Some(id) if command(id).subcommands == Subcommands::Keyspace => subcommand(id, args).map(Some),
        found => Ok(found),
    }
}

/// The subcommand `name` of `container`.
pub fn find_subcommand(container: &Command, name: &[u8]) -> Option<CommandId> {
    find_row(&[container.name.as_bytes(), b"|", name].concat())
}

/// Mixes the first and last eight bytes of the name, or four of a short one, in lower case.
#[inline]
fn slot_of(name: &[u8]) -> usize {
    const LOWER_CASE: u64 = 0x2020_2020_2020_2020;
    let (head, tail) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
            (Some(head), Some(tail)) => (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into()),
            _ => (name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
        },
    };
    let mixed = ((head | LOWER_CASE) ^ (tail | LOWER_CASE).rotate_left(29) ^ name.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
    fn what_is_no_command_is_not_found() {
        for name in ["", "x", "gett", "get ", "g\0t", "averyveryverylongnameofnothing", "client|nothing", "client|id"] {
            assert_eq!(find(name.as_bytes()), None);
        }
    }
}
