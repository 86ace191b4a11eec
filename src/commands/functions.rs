//! FUNCTION and FCALL: libraries of functions, and calling them.
//!
//! Commands that change the libraries run over all shards, as scripts do: they have a place in the order of all
//! commands, and in a transaction. Libraries are on the disk before they can be called.
//!
//! So a replica that is killed may find later libraries than data when it starts again: the log's last records are
//! gone. Until it has come to where the libraries were written it applies some changes of them a second time. Then each
//! succeeds, as it did on the master, and whatever stands against it is of later and comes again.

use super::access;
use super::arguments::integer;
use super::flag_sets::{BESIDE_SCRIPTS, LIBRARIES, SCRIPT, SCRIPT_READ, STATUS_OF_SCRIPTS};
use super::introspection::help;
use super::lookup::container;
use super::row::{Command, Flags, Group, Keys, Output, Policies, Request, Row, Run, ScriptArgument};
use super::scripting::{self, Called};
use super::{Outcome, Services, services};
use crate::base::glob;
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::{Keyspace, Store};
use crate::rdb;
use crate::resp::{Args, CommandError, Reply, quoted};
use crate::scripting::busy;
use crate::scripting::{Libraries, Library, Program};

/// The arguments of FCALL and FCALL_RO.
const CALL: &[Argument] = arguments![
    string("function"),
    integer("numkeys"),
    key("key", 0).repeated().optional(),
    string("arg").repeated().optional(),
];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 12] {
    [
        Run::Plain(help).row(Command { name: "function|help", since: "7.0.0", ..Command::help_of(Group::Scripting) }),
        Run::Plain(container).row(Command {
            name: "function",
            since: "7.0.0",
            summary: "Commands about libraries of functions.",
            ..Command::container_of(Group::Scripting)
        }),
        Run::Keyspace(fcall).row(Command {
            name: "fcall",
            arity: -3,
            flags: SCRIPT,
            keys: Keys::SCRIPT,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
            arguments: CALL,
            complexity: "as the function does",
            summary: "Calls a function of a library, as one step.",
            access: Some(access::READ_UPDATE),
            script: Some(ScriptArgument::Function),
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(fcall_ro).row(Command {
            name: "fcall_ro",
            arity: -3,
            flags: SCRIPT_READ,
            keys: Keys::SCRIPT,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
            arguments: CALL,
            complexity: "as the function does",
            summary: "Calls a function that writes nothing.",
            script: Some(ScriptArgument::Function),
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(delete).row(Command {
            name: "function|delete",
            arity: 3,
            flags: LIBRARIES,
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "library-name",
            arguments: arguments![string("library-name")],
            complexity: "O(N), N = functions of the library",
            summary: "Removes a library with its functions.",
            policies: Some(Policies::SHARDS_SUCCEED),
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(flush).row(Command {
            name: "function|flush",
            arity: -2,
            flags: LIBRARIES,
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "[ASYNC | SYNC]",
            arguments: arguments![
                one_of("flush-type", arguments![token("async", "ASYNC"), token("sync", "SYNC")]).optional()
            ],
            complexity: "O(N), N = functions",
            summary: "Removes all libraries.",
            policies: Some(Policies::SHARDS_SUCCEED),
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(load).row(Command {
            name: "function|load",
            arity: -3,
            flags: LIBRARIES.and(Flags::DENYOOM),
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "[REPLACE] function-code",
            arguments: arguments![token("replace", "REPLACE").optional(), string("function-code")],
            complexity: "O(N), N = bytes of the library",
            summary: "Adds a library, which registers its functions.",
            policies: Some(Policies::SHARDS_SUCCEED),
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(restore).row(Command {
            name: "function|restore",
            arity: -3,
            flags: LIBRARIES.and(Flags::DENYOOM),
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
            arguments: arguments![
                string("serialized-value"),
                one_of(
                    "policy",
                    arguments![token("flush", "FLUSH"), token("append", "APPEND"), token("replace", "REPLACE"),],
                )
                .optional(),
            ],
            complexity: "O(N), N = bytes of the libraries",
            summary: "Adds the libraries of a payload of FUNCTION DUMP.",
            policies: Some(Policies::SHARDS_SUCCEED),
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(dump).row(Command {
            name: "function|dump",
            arity: 2,
            flags: STATUS_OF_SCRIPTS,
            since: "7.0.0",
            complexity: "O(N), N = bytes of the libraries",
            summary: "All libraries as a payload for FUNCTION RESTORE.",
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(list).row(Command {
            name: "function|list",
            arity: -2,
            flags: STATUS_OF_SCRIPTS,
            output: Output::Unordered,
            since: "7.0.0",
            syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
            arguments: arguments![
                string("library-name-pattern").after("LIBRARYNAME").optional(),
                token("withcode", "WITHCODE").optional(),
            ],
            complexity: "O(N), N = functions",
            summary: "The libraries and their functions.",
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(stats).row(Command {
            name: "function|stats",
            arity: 2,
            flags: BESIDE_SCRIPTS.and(Flags::AFTER_REPLIES),
            output: Output::Varies,
            since: "7.0.0",
            complexity: "O(1)",
            summary: "The function that runs, and how many there are.",
            policies: Some(Policies::SHARDS_SPECIAL),
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(kill).row(Command {
            name: "function|kill",
            arity: 2,
            flags: BESIDE_SCRIPTS,
            since: "7.0.0",
            complexity: "O(1)",
            summary: "Ends the function that runs, unless it has written.",
            policies: Some(Policies::ONE_SHARD_SUCCEEDS),
            ..Command::of(Group::Scripting)
        }),
    ]
}

/// FCALL function numkeys [key [key ...]] [arg [arg ...]]: depends on the function
pub fn fcall<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call(keyspace, args, reply, false)
}

/// FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]: depends on the function
pub fn fcall_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call(keyspace, args, reply, true)
}

fn call<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, is_read_only: bool) -> Outcome {
    let (library, place) =
        services(keyspace).scripting.functions.get(&args[1]).ok_or(CommandError::Text("ERR Function not found"))?;
    let keys = integer(&args[2]).map_err(|_| CommandError::Text("ERR Bad number of keys provided"))?;
    let keys = scripting::keys_counted(keys, args)?;
    let called = Called { flags: library.functions[place].flags, is_read_only };
    scripting::run_program(keyspace, Program::Function(&library, place, args), called, (keys, args), reply)
}

/// FUNCTION LOAD [REPLACE] function-code: O(N), N = bytes of the library
pub fn load<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options = args.from(2).to(args.len() - 3);
    if let Some(option) = options.iter().find(|option| !option.eq_ignore_ascii_case(b"REPLACE")) {
        return Err(CommandError::Owned(format!("ERR Unknown option given: {}", quoted(option, usize::MAX))));
    }
    let (source, replaces) = (&args[args.len() - 1], !options.is_empty());
    let scripting = &services(keyspace).scripting;
    let name = Library::name_of(source).map_err(CommandError::Owned)?;
    let is_again = is_applied_again(keyspace);
    if !replaces && !is_again {
        scripting.functions.libraries().must_lack(&name).map_err(CommandError::Owned)?;
    }
    let library = Library::load(scripting, source, is_limited(keyspace)).map_err(CommandError::Owned)?;
    change(keyspace, |libraries| {
        if is_again {
            libraries.make_way(&library);
        }
        libraries.add(library, replaces)
    })?;
    reply.bulk(name.as_bytes());
    Ok(())
}

/// FUNCTION DELETE library-name: O(N), N = functions of the library
pub fn delete<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const NOT_FOUND: &str = "ERR Library not found";
    let name = std::str::from_utf8(&args[2]).map_err(|_| CommandError::Text(NOT_FOUND))?;
    let is_again = is_applied_again(keyspace);
    change(keyspace, |libraries| if libraries.remove(name) || is_again { Ok(()) } else { Err(NOT_FOUND.into()) })?;
    reply.ok();
    Ok(())
}

/// FUNCTION FLUSH [ASYNC | SYNC]: O(N), N = functions
pub fn flush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 3)?;
    if args.len() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
        return Err(CommandError::Text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    change(keyspace, |libraries| {
        *libraries = Libraries::default();
        Ok(())
    })?;
    reply.ok();
    Ok(())
}

/// FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]: O(N), N = bytes of the libraries
pub fn restore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 4)?;
    let has = |policy: &str| args.len() == 4 && args.is(3, policy);
    if args.len() == 4 && !has("APPEND") && !has("REPLACE") && !has("FLUSH") {
        return Err(CommandError::Text(
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
        ));
    }
    let sources = rdb::undump_functions(&args[2], keyspace.settings()).map_err(CommandError::Text)?;
    let (scripting, sources) = (&services(keyspace).scripting, sources.iter().map(AsRef::as_ref));
    let restored = Libraries::of(scripting, sources, is_limited(keyspace)).map_err(CommandError::Owned)?;
    let is_again = is_applied_again(keyspace);
    change(keyspace, |libraries| {
        if has("FLUSH") {
            *libraries = Libraries::default();
        } else if is_again {
            restored.iter().for_each(|library| libraries.make_way(library));
        }
        libraries.join(restored, has("REPLACE"))
    })?;
    reply.ok();
    Ok(())
}

/// Whether the libraries may have this change already: see above.
fn is_applied_again<S: Store>(keyspace: &Keyspace<S>) -> bool {
    services(keyspace).host().is_some_and(|host| host.may_have_later_functions())
}

/// Whether the time of a library to register its functions is limited: where the master has loaded it, that was in
/// time.
fn is_limited<S: Store>(keyspace: &Keyspace<S>) -> bool {
    !keyspace.turn.was_accepted_before()
}

fn must_have_at_most(args: Args<'_>, len: usize) -> Outcome {
    if args.len() <= len {
        return Ok(());
    }
    let name = quoted(&args[1], 128);
    let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP.");
    Err(CommandError::Owned(text))
}

/// Changes the libraries, and writes them beside the log if there is one. That waits for the disk, and so does this
/// thread: no command sees a library that the next start may lack. Counts as a change of the data: a snapshot has the
/// libraries.
fn change<S: Store>(keyspace: &mut Keyspace<S>, change: impl FnOnce(&mut Libraries) -> Result<(), String>) -> Outcome {
    let services = services(keyspace);
    let keep = |libraries: &Libraries| services.host().map_or(Ok(()), |host| host.keep_functions(libraries));
    services.scripting.functions.change(change, keep).map_err(CommandError::Owned)?;
    keyspace.stats.note_unwatched_change(1);
    // The log does not have the libraries, and replicas are told of them elsewhere.
    keyspace.effects.leave_out_own();
    Ok(())
}

/// FUNCTION DUMP: O(N), N = bytes of the libraries
pub fn dump(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let libraries = services.scripting.functions.libraries();
    reply.bulk(&rdb::dump_functions(libraries.sources()));
    Ok(())
}

/// FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]: O(N), N = functions
pub fn list(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (mut has_code, mut pattern) = (false, None);
    let mut position = 2;
    while position < args.len() {
        if !has_code && args.is(position, "WITHCODE") {
            has_code = true;
        } else if pattern.is_none() && args.is(position, "LIBRARYNAME") {
            position += 1;
            pattern = Some(args.get(position).ok_or(CommandError::Text("ERR library name argument was not given"))?);
        } else {
            let shown = quoted(&args[position], usize::MAX);
            return Err(CommandError::Owned(format!("ERR Unknown argument {shown}")));
        }
        position += 1;
    }
    let libraries = services.scripting.functions.libraries();
    let pattern = pattern.map(<[u8]>::to_ascii_lowercase);
    let matches = |name: &str, pattern: &Vec<u8>| glob::matches(pattern, name.to_ascii_lowercase().as_bytes());
    let is_wanted = |name: &str| pattern.as_ref().is_none_or(|pattern| matches(name, pattern));
    let wanted: Vec<_> = libraries.iter().filter(|library| is_wanted(&library.name)).collect();
    reply.array(wanted.len());
    wanted.into_iter().for_each(|library| write_library(library, has_code, reply));
    Ok(())
}

fn write_library(library: &Library, has_code: bool, reply: &mut Reply<'_>) {
    reply.map(if has_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.simple(name));
    }
    if has_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.source);
    }
}

/// FUNCTION STATS: O(1)
pub fn stats(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let busy = &services.scripting.busy;
    if busy.is_busy() && busy.runs_script() {
        return Err(CommandError::Text(busy::BUSY));
    }
    reply.map(2);
    reply.bulk(b"running_script");
    match busy.running_function() {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.request.len());
            running.request.iter().for_each(|argument| reply.bulk(argument));
            reply.bulk(b"duration_ms");
            reply.count(running.elapsed().as_millis() as usize);
        }
    }
    let (libraries, functions, _) = services.scripting.functions.libraries().size();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.count(libraries);
    reply.bulk(b"functions_count");
    reply.count(functions);
    Ok(())
}

/// FUNCTION KILL: O(1)
pub fn kill(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    services.scripting.busy.kill(true).map_err(CommandError::Text)?;
    services.scripting.busy.wait_for_killed();
    reply.ok();
    Ok(())
}
