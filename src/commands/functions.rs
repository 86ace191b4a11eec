//! FUNCTION and FCALL: libraries of functions, and calling them.
//!
//! What changes the libraries runs over all shards, as a script does: it has a place in the order of all commands, and in
//! a transaction. They are on the disk before anybody calls them.

use super::Outcome;
use super::arguments::integer;
use super::scripting::{self, Called};
use super::server::LocalCall;
use crate::base::glob;
use crate::keyspace::{Keyspace, Store};
use crate::rdb;
use crate::resp::{Args, CommandError, Reply, quoted};
use crate::scripting::{FUNCTIONS, Libraries, Library, Program, busy};

/// FCALL function numkeys [key [key ...]] [arg [arg ...]]: as the function does
pub fn fcall<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call(keyspace, args, reply, false)
}

/// FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]: as the function does
pub fn fcall_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call(keyspace, args, reply, true)
}

fn call<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, is_read_only: bool) -> Outcome {
    let (library, place) = FUNCTIONS.get(&args[1]).ok_or(CommandError::Text("ERR Function not found"))?;
    let keys = integer(&args[2]).map_err(|_| CommandError::Text("ERR Bad number of keys provided"))?;
    let keys = scripting::keys_counted(keys, args)?;
    let called = Called { flags: library.functions[place].flags, is_read_only };
    scripting::run_program(keyspace, Program::Function(&library, place, args), called, (keys, args), reply)
}

/// FUNCTION LOAD [REPLACE] function-code: O(N), N = bytes of the library
pub fn load<S: Store>(_keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options = args.from(2).to(args.len() - 3);
    if let Some(option) = options.iter().find(|option| !option.eq_ignore_ascii_case(b"REPLACE")) {
        return Err(CommandError::Owned(format!("ERR Unknown option given: {}", quoted(option, usize::MAX))));
    }
    let library = Library::load(&args[args.len() - 1], true).map_err(CommandError::Owned)?;
    let name = library.name.clone();
    change(|libraries| libraries.add(library, !options.is_empty()))?;
    reply.bulk(name.as_bytes());
    Ok(())
}

/// FUNCTION DELETE library-name: O(N), N = functions of the library
pub fn delete<S: Store>(_keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const NOT_FOUND: &str = "ERR Library not found";
    let name = std::str::from_utf8(&args[2]).map_err(|_| CommandError::Text(NOT_FOUND))?;
    change(|libraries| if libraries.remove(name) { Ok(()) } else { Err(NOT_FOUND.into()) })?;
    reply.ok();
    Ok(())
}

/// FUNCTION FLUSH [ASYNC | SYNC]: O(N), N = functions
pub fn flush<S: Store>(_keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 3)?;
    if args.len() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
        return Err(CommandError::Text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    change(|libraries| {
        *libraries = Libraries::default();
        Ok(())
    })?;
    reply.ok();
    Ok(())
}

/// FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]: O(N), N = bytes of the libraries
pub fn restore<S: Store>(_keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 4)?;
    let has = |policy: &str| args.len() == 4 && args.is(3, policy);
    if args.len() == 4 && !has("APPEND") && !has("REPLACE") && !has("FLUSH") {
        return Err(CommandError::Text(
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
        ));
    }
    let sources = rdb::undump_functions(&args[2]).map_err(CommandError::Text)?;
    let restored = Libraries::of(sources.iter().map(AsRef::as_ref)).map_err(CommandError::Owned)?;
    change(|libraries| match has("FLUSH") {
        true => {
            *libraries = restored;
            Ok(())
        }
        false => libraries.join(restored, has("REPLACE")),
    })?;
    reply.ok();
    Ok(())
}

fn must_have_at_most(args: Args<'_>, len: usize) -> Outcome {
    if args.len() <= len {
        return Ok(());
    }
    let name = quoted(&args[1], 128);
    let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP.");
    Err(CommandError::Owned(text))
}

/// Changes the libraries, and keeps them beside the log where there is one. The thread that does waits for the disk, and
/// so does this one: nobody sees a library that the next start may not have.
fn change(change: impl FnOnce(&mut Libraries) -> Result<(), String>) -> Outcome {
    let keep = |libraries: &Libraries| {
        let Some(rewriter) = scripting::server().and_then(|server| server.rewriting.rewriter()) else { return Ok(()) };
        let kept = std::thread::scope(|scope| scope.spawn(|| rewriter.keep_functions(libraries)).join());
        kept.expect("writing a file does not panic").map_err(|error| {
            let dir = rewriter.dir().display();
            tracing::error!("Can't write the libraries of functions in {dir}: {error}");
            format!("MISCONF Errors writing the libraries of functions: {error}")
        })
    };
    FUNCTIONS.change(change, keep).map_err(CommandError::Owned)
}

/// FUNCTION DUMP: O(N), N = bytes of the libraries
pub fn dump(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let libraries = FUNCTIONS.libraries();
    reply.bulk(&rdb::dump_functions(libraries.sources()));
    Ok(())
}

/// FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]: O(N), N = functions
pub fn list(_call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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
    let libraries = FUNCTIONS.libraries();
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
pub fn stats(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if busy::is_busy() && busy::runs_script() {
        return Err(CommandError::Text(busy::BUSY));
    }
    reply.map(2);
    reply.bulk(b"running_script");
    match busy::running_function() {
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
    let (libraries, functions, _) = FUNCTIONS.libraries().size();
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
pub fn kill(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    busy::kill(true).map_err(CommandError::Text)?;
    reply.ok();
    Ok(())
}
