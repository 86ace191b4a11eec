//! The command table: the rows of all families, one after another.

use super::row::{Command, CommandFn, PlainFn, Request, Row, Run, Subcommands};
use super::{
    bitfield, bits, blocking, cluster, debug, expiry, functions, geo, hashes, hyperloglog, introspection, keys, lcs,
    list_edits, lists, memory, modules, object, of_connection, saving, scan, scripting, sets, sort, sorted_sets,
    streams, strings, transaction, transfer,
};
use crate::base::narrowing::low_u16;
use crate::keyspace::{Databases, Keyspace, Store};
use crate::resp::{Args, Reply};
use std::marker::PhantomData;

/// A row of the table, by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommandId(pub u16);

/// The row of a command.
#[inline]
pub fn command(id: CommandId) -> &'static Command {
    &COMMANDS[usize::from(id.0)]
}

impl CommandId {
    /// The command of the row at this position.
    pub const fn of_index(index: usize) -> Self {
        const { assert!(COUNT <= crate::stats::command_stats::ROWS_MAX) };
        Self(low_u16(index as u64))
    }
}

/// The functions of the commands over the keyspace, for one engine's store.
#[derive(Debug)]
pub struct Functions<S>(PhantomData<S>);

impl<S: Store> Functions<S> {
    /// By the numbers of the rows.
    const ALL: [CommandFn<S>; COUNT] = {
        let rows = all::<S>();
        let mut functions: [CommandFn<S>; COUNT] = [runs_elsewhere::<S>; COUNT];
        let mut index = 0;
        while index < COUNT {
            if let Run::Keyspace(function) = rows[index].run {
                functions[index] = function;
            }
            index += 1;
        }
        functions
    };

    /// The function of a command over the keyspace.
    #[inline]
    pub fn get(id: CommandId) -> CommandFn<S> {
        Self::ALL[usize::from(id.0)]
    }
}

fn runs_elsewhere<S: Store>(_: &mut Keyspace<S>, args: Args<'_>, _: &mut Reply<'_>) -> super::Outcome {
    unreachable!("{:?} does not run over the keyspace", args.get(0))
}

/// The function of a command that only needs its arguments; `None` if it needs its connection, or keys.
pub fn plain_function(id: CommandId) -> Option<PlainFn> {
    PLAIN[usize::from(id.0)]
}

/// Every command, including subcommands.
pub static COMMANDS: &[Command] = &ALL;

static ALL: [Command; COUNT] = {
    let rows = all::<Databases>();
    let mut commands = [Command::NONE; COUNT];
    let mut index = 0;
    while index < COUNT {
        commands[index] = rows[index].command;
        index += 1;
    }
    mark_subcommands(&mut commands);
    index = 0;
    while index < COUNT {
        commands[index].is_ordinary = commands[index].asks_nothing();
        index += 1;
    }
    commands
};

/// Records which rows are subcommands (`container|name`), and of which commands.
const fn mark_subcommands(commands: &mut [Command; COUNT]) {
    let mut index = 0;
    while index < COUNT {
        if let Some(len) = container_len(commands[index].name) {
            commands[index].is_subcommand = true;
            let mut container = 0;
            while !is_container(commands[container].name, commands[index].name, len) {
                container += 1;
            }
            if !matches!(commands[index].request, Request::Local) {
                commands[container].subcommands = Subcommands::Keyspace;
            } else if matches!(commands[container].subcommands, Subcommands::None) {
                commands[container].subcommands = Subcommands::Local;
            }
        }
        index += 1;
    }
}

/// The length of the container's name in a subcommand's name.
const fn container_len(name: &str) -> Option<usize> {
    let mut index = 0;
    while index < name.len() {
        if name.as_bytes()[index] == b'|' {
            return Some(index);
        }
        index += 1;
    }
    None
}

const fn is_container(name: &str, subcommand: &str, len: usize) -> bool {
    let mut index = 0;
    while index < name.len() && index < len && name.as_bytes()[index] == subcommand.as_bytes()[index] {
        index += 1;
    }
    index == len && name.len() == len
}

static PLAIN: [Option<PlainFn>; COUNT] = {
    let rows = all::<Databases>();
    let mut functions: [Option<PlainFn>; COUNT] = [None; COUNT];
    let mut index = 0;
    while index < COUNT {
        if let Run::Plain(function) = rows[index].run {
            functions[index] = Some(function);
        }
        index += 1;
    }
    functions
};

/// How many rows there are.
pub const COUNT: usize = count();

/// Copies the rows of a family to their place.
const fn put<S: Store, const N: usize>(all: &mut [Row<S>; COUNT], at: usize, rows: &[Row<S>; N]) -> usize {
    let mut index = 0;
    while index < N {
        all[at + index] = rows[index];
        index += 1;
    }
    at + N
}

macro_rules! families {
    ($( $family:ident $(:: $inner:ident)?, )*) => {
        const fn count() -> usize {
            0 $( + $family $(:: $inner)? ::rows::<Databases>().len() )*
        }

        const fn all<S: Store>() -> [Row<S>; COUNT] {
            let mut all = [Row::NONE; COUNT];
            let mut at = 0;
            $( at = put(&mut all, at, &$family $(:: $inner)? ::rows()); )*
            assert!(at == COUNT);
            all
        }
    };
}

families! {
    of_connection::connections,
    introspection,
    of_connection::acl,
    of_connection::administration,
    memory,
    modules,
    object,
    streams,
    hyperloglog,
    saving,
    of_connection::waiting,
    of_connection::replication,
    of_connection::following,
    of_connection::transactions,
    of_connection::pubsub,
    of_connection::cluster,
    transaction,
    blocking,
    debug,
    strings,
    lcs,
    bits,
    bitfield,
    keys,
    transfer,
    scan,
    expiry,
    sort,
    lists,
    list_edits,
    sets,
    hashes,
    sorted_sets,
    geo,
    cluster,
    scripting,
    functions,
}

#[cfg(test)]
mod tests {
    use super::super::row::{Flags, Pending};
    use super::*;

    #[test]
    fn what_runs_over_the_keyspace_is_what_the_request_says() {
        for row in all::<Databases>() {
            let is_local = matches!(row.command.request, Request::Local);
            assert_eq!(matches!(row.run, Run::Keyspace(_)), !is_local, "{}", row.command.name);
        }
    }

    #[test]
    fn a_command_blocks_where_it_waits_at_its_keys_and_nowhere_else() {
        for row in COMMANDS {
            let waits_at_keys = matches!(row.pending, Pending::AtKeys(_));
            assert_eq!(row.flags.has(Flags::BLOCKING), waits_at_keys, "{}", row.name);
        }
    }

    #[test]
    fn names_are_told_apart_from_subcommands() {
        let named = |name: &str| COMMANDS.iter().find(|row| row.name == name).expect("it is a command");
        assert!(named("client|id").is_subcommand && !named("client").is_subcommand);
        assert!(["get", "set", "lpush", "hset", "zadd"].iter().all(|name| named(name).is_ordinary));
        for name in ["mget", "blpop", "xread", "eval", "exec", "publish", "debug", "object", "client", "scan", "sort"] {
            assert!(!named(name).is_ordinary, "{name}");
        }
        assert_eq!(named("client").subcommands, Subcommands::Local);
        assert_eq!(named("object").subcommands, Subcommands::Keyspace);
        assert_eq!((named("get").subcommands, named("client|id").subcommands), (Subcommands::None, Subcommands::None));
    }
}
