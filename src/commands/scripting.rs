//! Scripts: EVAL and the like, which run over the whole keyspace, and SCRIPT, which manages the known scripts.
//!
//! The commands that a script calls are looked up in the table and run like those queued for EXEC: the same functions,
//! the same effects, one record for all of them.

use super::access;
use super::arguments::integer;
use super::flag_sets::{ABOUT_SCRIPTS, BESIDE_SCRIPTS, SCRIPT, SCRIPT_READ, STATUS_OF_SCRIPTS};
use super::introspection::help;
use super::keys::database_number;
use super::lookup::{container, find, named_in_full, subcommand};
use super::row::{Command, Flags, Group, InScript, Keys, Policies, ReadingOptions, Request, Row, Run, ScriptArgument};
use super::{CommandId, Context, Outcome, READONLY, Services, command, publishes, run_one, services};
use crate::base::routing::slot_of;
use crate::base::worker;
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::{Instance, Keyspace, Store};
use crate::resp::{Args, CommandError, Reply, quoted};
use crate::scripting::busy::Watchdog;
use crate::scripting::{
    self, Calls, Finished, Libraries, Program, Script, ScriptFlags, Scripting, Sha, StaticCall, sha_of,
};
use crate::stats::command_stats::Calls as Counts;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The arguments of EVAL and EVAL_RO.
const OF_SOURCE: &[Argument] = arguments![
    string("script"),
    integer("numkeys"),
    key("key", 0).repeated().optional(),
    string("arg").repeated().optional(),
];
/// The arguments of EVALSHA and EVALSHA_RO.
const OF_SHA: &[Argument] = arguments![
    string("sha1"),
    integer("numkeys"),
    key("key", 0).repeated().optional(),
    string("arg").repeated().optional(),
];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 11] {
    [
        Run::Plain(help).row(Command { name: "script|help", since: "5.0.0", ..Command::help_of(Group::Scripting) }),
        Run::Plain(container).row(Command {
            name: "script",
            since: "2.6.0",
            summary: "Commands about scripts.",
            ..Command::container_of(Group::Scripting)
        }),
        Run::Keyspace(eval).row(Command {
            name: "eval",
            arity: -3,
            flags: SCRIPT,
            keys: Keys::SCRIPT,
            request: Request::MultiShardView,
            since: "2.6.0",
            syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
            arguments: OF_SOURCE,
            complexity: "as the script does",
            summary: "Runs a script of Lua, as one step.",
            access: Some(access::READ_UPDATE),
            script: Some(ScriptArgument::Source),
            touches_named_keys_only: source_is_proved,
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(evalsha).row(Command {
            name: "evalsha",
            arity: -3,
            flags: SCRIPT,
            keys: Keys::SCRIPT,
            request: Request::MultiShardView,
            since: "2.6.0",
            syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            arguments: OF_SHA,
            complexity: "as the script does",
            summary: "Runs a script that is known, by the SHA1 of its source.",
            access: Some(access::READ_UPDATE),
            script: Some(ScriptArgument::Sha),
            touches_named_keys_only: sha_is_proved,
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(eval_ro).row(Command {
            name: "eval_ro",
            arity: -3,
            flags: SCRIPT_READ,
            keys: Keys::SCRIPT,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
            arguments: OF_SOURCE,
            complexity: "as the script does",
            summary: "Runs a script that writes nothing.",
            script: Some(ScriptArgument::Source),
            touches_named_keys_only: source_is_proved,
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(evalsha_ro).row(Command {
            name: "evalsha_ro",
            arity: -3,
            flags: SCRIPT_READ,
            keys: Keys::SCRIPT,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            arguments: OF_SHA,
            complexity: "as the script does",
            summary: "Runs a script that is known and writes nothing.",
            script: Some(ScriptArgument::Sha),
            touches_named_keys_only: sha_is_proved,
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(flush).row(Command {
            name: "script|flush",
            arity: -2,
            flags: ABOUT_SCRIPTS,
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "2.6.0",
            syntax: "[ASYNC | SYNC]",
            arguments: arguments![
                one_of("flush-type", arguments![token("async", "ASYNC"), token("sync", "SYNC")])
                    .since("6.2.0")
                    .optional()
            ],
            complexity: "O(N), N = scripts",
            summary: "Forgets all scripts.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Scripting)
        }),
        Run::Keyspace(load).row(Command {
            name: "script|load",
            arity: 3,
            flags: ABOUT_SCRIPTS.and(Flags::STALE),
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "2.6.0",
            syntax: "script",
            arguments: arguments![string("script")],
            complexity: "O(N), N = bytes of the script",
            summary: "Makes a script known, without running it.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(exists).row(Command {
            name: "script|exists",
            arity: -3,
            flags: STATUS_OF_SCRIPTS,
            since: "2.6.0",
            syntax: "sha1 [sha1 ...]",
            arguments: arguments![string("sha1").repeated()],
            complexity: "O(N), N = scripts named",
            summary: "Which scripts are known.",
            policies: Some(Policies::SHARDS_AGREE),
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(debug).row(Command {
            name: "script|debug",
            arity: 3,
            flags: Flags::NOSCRIPT,
            since: "3.2.0",
            syntax: "<YES | SYNC | NO>",
            arguments: arguments![one_of(
                "mode",
                arguments![token("yes", "YES"), token("sync", "SYNC"), token("no", "NO")]
            )],
            complexity: "O(1)",
            summary: "Whether scripts are debugged: there is no debugger, so NO alone is accepted.",
            ..Command::of(Group::Scripting)
        }),
        Run::Plain(kill).row(Command {
            name: "script|kill",
            arity: 2,
            flags: BESIDE_SCRIPTS,
            since: "2.6.0",
            complexity: "O(1)",
            summary: "Ends the script that runs, unless it has written.",
            policies: Some(Policies::ONE_SHARD_SUCCEEDS),
            ..Command::of(Group::Scripting)
        }),
    ]
}

/// EVAL script numkeys [key [key ...]] [arg [arg ...]]: depends on the script
pub fn eval<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    run(keyspace, args, reply, By::Source, false)
}

/// EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]: depends on the script
pub fn eval_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    run(keyspace, args, reply, By::Source, true)
}

/// EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]: depends on the script
pub fn evalsha<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    run(keyspace, args, reply, By::Sha, false)
}

/// EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]: depends on the script
pub fn evalsha_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    run(keyspace, args, reply, By::Sha, true)
}

/// How a script is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Source,
    Sha,
}

const NO_SCRIPT: CommandError = CommandError::Text("NOSCRIPT No matching script. Please use EVAL.");
const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// The error for a program that has declared what it may do.
const OUT_OF_MEMORY_AT_ONCE: &str =
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";

fn run<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: By,
    is_read_only: bool,
) -> Outcome {
    let sha = match by {
        By::Sha => Some(sha_named(&args[1]).ok_or(NO_SCRIPT)?),
        By::Source => None,
    };
    let keys = keys_counted(integer(&args[2])?, args)?;
    let scripting = &services(keyspace).scripting;
    let script = match sha {
        Some(sha) => scripting.scripts.get(&sha).ok_or(NO_SCRIPT)?,
        None => script_of(scripting, &args[1])?,
    };
    let called = Called { flags: script.flags, is_read_only };
    run_program(keyspace, Program::Script(&script), called, (keys, args), reply)
}

/// How many keys follow, according to a request.
pub fn keys_counted(count: i64, args: Args<'_>) -> Result<usize, CommandError> {
    if count < 0 {
        return Err(CommandError::Text("ERR Number of keys can't be negative"));
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= args.len() - 3);
    count.ok_or(CommandError::Text("ERR Number of keys can't be greater than number of args"))
}

/// The flags that a program declares, and whether it was called as read-only.
#[derive(Debug, Clone, Copy)]
pub struct Called {
    /// The flags that it declares.
    pub flags: ScriptFlags,
    /// Whether it was called as read-only.
    pub is_read_only: bool,
}

/// Runs scripts. If they hold locks, the tasks of this thread stay with it until a script is busy, whatever commands
/// the script calls: until then a request is not refused, and would block another thread at these locks.
pub fn keeping_tasks<R>(holds_locks: bool, run: impl FnOnce() -> R) -> R {
    if holds_locks { worker::keep_tasks(run) } else { run() }
}

/// Runs a script or a function, with the keys and arguments that follow the third word of its request.
pub fn run_program<S: Store>(
    keyspace: &mut Keyspace<S>,
    program: Program<'_>,
    Called { flags, is_read_only }: Called,
    (keys, args): (usize, Args<'_>),
    reply: &mut Reply<'_>,
) -> Outcome {
    let services = Arc::clone(services(keyspace));
    must_be_allowed(keyspace, &services, flags, is_read_only)?;
    let database = keyspace.store.selected();
    let began_at = keyspace.timing.began_at();
    let slow_before = keyspace.timing.slow().len();
    let is_short = is_short(keyspace, &services) && !flags.allow_oom;
    let arguments = args.from(3);
    let slots = Slots::of(keyspace, flags, arguments.to(keys));
    let mut calls = ScriptCommands {
        keyspace,
        writes: !(is_read_only || (flags.is_declared && flags.no_writes)),
        has_written: false,
        is_short,
        slots,
        is_stale: flags.is_declared
            && flags.allow_stale
            && services.host().is_some_and(|host| host.refuses_as_stale().is_some()),
        local: None,
        slow_before,
        services: &services,
        monitored_on: services.host().filter(|host| host.has_monitors()),
        time_us: None,
    };
    calls.keyspace.turn.caller.is_in_script = true;
    let finished = keeping_tasks(calls.keyspace.settings().has_locks(), || {
        scripting::run(&services.scripting, program, arguments.to(keys), arguments.from(keys), &mut calls, reply)
    });
    keyspace.turn.caller.is_in_script = false;
    keyspace.select(database);
    keyspace.timing.start_at(began_at);
    // The effects of its commands are logged.
    keyspace.effects.leave_out_own();
    match finished.map_err(CommandError::Owned)? {
        Finished::Replied => Ok(()),
        Finished::Failed { error, is_counted: false } => Err(CommandError::Owned(error)),
        Finished::Failed { error, is_counted: true } => Err(CommandError::Counted(error)),
    }
}

/// The name of a script as given by a client, in any case.
fn sha_named(name: &[u8]) -> Option<Sha> {
    let mut sha = Sha::try_from(name).ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

/// A script by its source, known from now on if it is valid.
fn script_of(scripting: &Arc<Scripting>, body: &[u8]) -> Result<Arc<Script>, CommandError> {
    let sha = sha_of(body);
    if let Some(script) = scripting.scripts.get(&sha) {
        return Ok(script);
    }
    let script = Arc::new(Script::parse(sha, body).map_err(CommandError::Owned)?);
    scripting::check(scripting, &script).map_err(CommandError::Owned)?;
    scripting.scripts.add_evaled(&script);
    Ok(script)
}

/// Whether a request runs a script, or a function, that declares that it writes nothing.
pub fn declares_that_it_writes_nothing(scripting: &Scripting, id: CommandId, args: Args<'_>) -> bool {
    let is_ro = command(id).flags.has(Flags::READONLY);
    !is_ro && declared_flags(scripting, id, args).is_some_and(|flags| flags.no_writes)
}

/// Whether a request runs a script, or a function, that declares flags, but not that it writes nothing.
pub fn declares_that_it_writes(scripting: &Scripting, id: CommandId, args: Args<'_>) -> bool {
    declared_flags(scripting, id, args).is_some_and(|flags| !flags.no_writes)
}

/// Whether a request runs a script, or a function, that declares flags, but not that it may run on stale data.
pub fn declares_that_it_runs_fresh(scripting: &Scripting, id: CommandId, args: Args<'_>) -> bool {
    declared_flags(scripting, id, args).is_some_and(|flags| !flags.allow_stale)
}

/// Whether a request runs a script, or a function, that declares flags, but not that it needs no memory.
pub fn declares_that_it_needs_memory(scripting: &Scripting, id: CommandId, args: Args<'_>) -> bool {
    declared_flags(scripting, id, args).is_some_and(|flags| !flags.no_writes && !flags.allow_oom)
}

/// The flags that the script, or the function, of a request declares, if any.
fn declared_flags(scripting: &Scripting, id: CommandId, args: Args<'_>) -> Option<ScriptFlags> {
    let flags = match command(id).script? {
        ScriptArgument::Source => ScriptFlags::of(&args[1]),
        ScriptArgument::Sha => {
            sha_named(&args[1]).and_then(|sha| scripting.scripts.get(&sha)).map(|script| script.flags)
        }
        ScriptArgument::Function => {
            scripting.functions.get(&args[1]).map(|(library, place)| library.functions[place].flags)
        }
    };
    flags.filter(|flags| flags.is_declared)
}

/// Whether the script that a request brings is proved to touch only the keys that it declares.
///
/// The proof only decides what a script is lent: that each key is covered is checked again whenever a command is
/// called.
fn source_is_proved(args: Args<'_>, instance: &Instance) -> bool {
    // Longer scripts are not even hashed.
    let Some(source) = args.get(1).filter(|source| source.len() <= scripting::PROVABLE_MAX) else { return false };
    let sha = sha_of(source);
    let is_new_proved = || Script::parse(sha, source).is_ok_and(|script| is_proved(&script));
    Services::of(instance).scripting.scripts.look(&sha, is_proved).unwrap_or_else(is_new_proved)
}

/// The same of the script that a request names by its SHA1. Equal hashes mean equal sources, and the proof depends on
/// the source alone, so an answer stays true after the script is forgotten.
fn sha_is_proved(args: Args<'_>, instance: &Instance) -> bool {
    let Some(word) = args.get(1) else { return false };
    let (last, was_proved) = LAST_LOOKED_AT.get();
    if last.as_slice() == word {
        return was_proved;
    }
    let look = |sha| Some((sha, Services::of(instance).scripting.scripts.look(&sha, is_proved)?));
    let found = sha_named(word).and_then(look);
    found.inspect(|found| LAST_LOOKED_AT.set(*found)).is_some_and(|(_, is_proved)| is_proved)
}

fn is_proved(script: &Script) -> bool {
    script.is_proved(calls_over_declared_keys)
}

thread_local! {
    /// The script that this thread last looked at, and whether it is proved. It is often the next: the requests of a
    /// read ask repeatedly.
    static LAST_LOOKED_AT: Cell<(Sha, bool)> = const { Cell::new(([0; 40], false)) };
}

/// Whether each command that a source calls is one over keys that are declared in the source.
fn calls_over_declared_keys(source: &[u8]) -> bool {
    scripting::static_calls(source).is_some_and(|calls| calls.iter().all(is_over_declared_keys))
}

fn is_over_declared_keys(call: &StaticCall<'_>) -> bool {
    // It may be the other name of a command: the proof is one for all servers.
    let Some(id) = find(call.name) else { return false };
    let row = command(id);
    if row.in_script == InScript::Time {
        return true;
    }
    let is_of_shards = matches!(row.request, Request::OneShard | Request::MultiShard | Request::MultiShardView);
    let is_plain = is_of_shards && !row.flags.has(Flags::CROSSES) && !row.flags.has(Flags::NOSCRIPT);
    match row.keys.fixed_positions(call.are_keys.len(), call.is_open) {
        Some(mut positions) => is_plain && positions.all(|position| call.are_keys[position]),
        None => false,
    }
}

/// Refuses a script whose declared flags rule out running now.
fn must_be_allowed<S: Store>(
    keyspace: &Keyspace<S>,
    services: &Services,
    flags: ScriptFlags,
    is_read_only: bool,
) -> Outcome {
    if !flags.is_declared {
        return services.host().and_then(|host| host.refuses_as_stale()).map_or(Ok(()), Err);
    }
    if flags.no_cluster && keyspace.settings().is_cluster() {
        return Err(CommandError::Text("ERR Can not run script on cluster, 'no-cluster' flag is set."));
    }
    if flags.no_writes {
        return Ok(());
    }
    if keyspace.turn.due_keys.only_master_writes() {
        return Err(CommandError::Text("READONLY Can not run script with write flag on readonly replica."));
    }
    if let Some(error) = services.host().and_then(|host| host.refuses_scripts()) {
        return Err(error);
    }
    if is_read_only {
        return Err(CommandError::Text("ERR Can not execute a script with write flag using *_ro command."));
    }
    match is_short(keyspace, services) && !flags.allow_oom {
        true => Err(CommandError::Text(OUT_OF_MEMORY_AT_ONCE)),
        false => Ok(()),
    }
}

/// Whether memory is short, and was when the script was accepted.
fn is_short<S: Store>(keyspace: &Keyspace<S>, services: &Services) -> bool {
    !keyspace.instance().pressure.is_free() && services.was_short()
}

/// What scripts need of the server that runs them: commands know no server.
pub trait Host: Send + Sync {
    /// Unix time in microseconds.
    fn now_us(&self) -> u64;
    /// Why all writes are refused now.
    fn refuses_writes(&self) -> Option<CommandError>;
    /// The same error, for a script that may write.
    fn refuses_scripts(&self) -> Option<CommandError>;
    /// Why the data may not be shown: it may be stale.
    fn refuses_as_stale(&self) -> Option<CommandError>;
    /// Records that a script has run for too long, or that such a script has ended.
    fn note_busy(&self, is_busy: bool);
    /// Whether there are monitors.
    fn has_monitors(&self) -> bool;
    /// Shows monitors a command, with its client (`who`) and its database.
    fn show(&self, who: &str, database: usize, id: CommandId, args: Args<'_>);
    /// How many connections are subscribed to a channel.
    fn receivers(&self, channel: &[u8], is_shard: bool) -> usize;
    /// Whether messages are also sent to replicas. That does not change while a script has all keys.
    fn passes_messages_on(&self) -> bool;
    /// A connection for the commands of one script that need one; `None` if there can be none.
    fn connection(self: Arc<Self>) -> Option<Box<dyn Local>>;
    /// Whether the libraries may be of a later moment than the data: a change of them that comes from the master may be
    /// among them already.
    fn may_have_later_functions(&self) -> bool;
    /// Writes libraries of functions beside the log if there is one, and waits for the disk.
    fn keep_functions(&self, libraries: &Libraries) -> Result<(), String>;
}

/// Runs commands that need a connection.
pub trait Local {
    /// Runs a command.
    fn run(&mut self, named: CommandId, context: Context, args: Args<'_>, reply: &mut Reply<'_>);
}

type Refusal = Cow<'static, str>;

/// How many slow commands of one script are reported at least, of those that it has called last.
const SLOW_MAX: usize = 1000;

/// The commands that a script calls, over the keyspace that it runs in.
struct ScriptCommands<'a, S> {
    keyspace: &'a mut Keyspace<S>,
    /// Whether it may write.
    writes: bool,
    has_written: bool,
    /// Whether memory was short when it began.
    is_short: bool,
    /// The slots of its keys, where a request may not name keys of several slots.
    slots: Option<Slots>,
    /// Whether it runs though the data may be old.
    is_stale: bool,
    services: &'a Services,
    /// State for commands that run in a connection.
    local: Option<Box<dyn Local>>,
    /// How many commands before it took long and wait to be reported.
    slow_before: usize,
    /// The server whose monitors see its commands.
    monitored_on: Option<Arc<dyn Host>>,
    /// What TIME replies, in microseconds, once it has been called.
    time_us: Option<u64>,
}

impl<S: Store> Calls for ScriptCommands<'_, S> {
    fn call(&mut self, args: Args<'_>, is_resp3: bool, watchdog: &Watchdog, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let names = self.services.names();
        if names.are_own() {
            return self.call_named(find(&args[0]), args, is_resp3, watchdog, out);
        }
        match names.with_own_name(args) {
            Some((id, words)) => self.call_named(Some(id), words.args(), is_resp3, watchdog, out),
            None => self.call_named(names.find(&args[0]), args, is_resp3, watchdog, out),
        }
    }

    fn check(&self, args: Args<'_>) -> Option<bool> {
        let names = self.services.names();
        let permits = |id: CommandId, args: Args<'_>| {
            let permissions = self.keyspace.turn.caller.permissions.as_ref();
            permissions.is_none_or(|permissions| permissions.permit(id.0, args))
        };
        match names.with_own_name(args) {
            Some((id, words)) => named_in_full(Some(id), words.args()).map(|id| permits(id, words.args())),
            None => named_in_full(Some(names.find(&args[0])?), args).map(|id| permits(id, args)),
        }
    }
}

impl<S: Store> ScriptCommands<'_, S> {
    /// Calls the command of the request's name.
    #[inline]
    fn call_named(
        &mut self,
        named: Option<CommandId>,
        args: Args<'_>,
        is_resp3: bool,
        watchdog: &Watchdog,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        const UNKNOWN: &str = "ERR Unknown Redis command called from script";
        let named = named.ok_or(UNKNOWN).inspect_err(|_| count(self.counts(), ""))?;
        let id =
            runnable(named, args).map_err(|text| refused(self.counts(), named_in_full(Some(named), args), text))?;
        let allowed = self.must_be_allowed(id, args, watchdog);
        allowed.map_err(|text| refused(self.counts(), Some(id), text))?;
        let reply = &mut Reply::new(out, is_resp3);
        if command(id).request == Request::Local {
            let called = self.call_local(named, id, args, watchdog.is_busy(), reply);
            // SELECT is shown with the database that it selects.
            self.show(id, args);
            return called;
        }
        self.show(id, args);
        let slow = self.keyspace.timing.slow().len();
        // What the script did since its last command is not this one's time.
        self.keyspace.timing.start();
        let has_replied = run_one(id, self.keyspace, args, reply, true);
        self.keep_slow(slow);
        debug_assert!(has_replied, "without a waiter nothing waits");
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.keyspace.instance().calls
    }

    /// Reports the commands from the `first` slow one on as those of a script. If it has called many, the oldest are
    /// forgotten.
    #[inline]
    fn keep_slow(&mut self, first: usize) {
        let slow = self.keyspace.timing.slow();
        slow[first..].iter_mut().for_each(|slow| slow.is_of_script = true);
        if slow.len() >= self.slow_before + 2 * SLOW_MAX {
            slow.drain(self.slow_before..self.slow_before + SLOW_MAX);
        }
    }

    /// Shows monitors a command.
    fn show(&self, id: CommandId, args: Args<'_>) {
        if let Some(host) = &self.monitored_on {
            host.show("lua", self.keyspace.store.selected(), id, args);
        }
    }

    fn must_be_allowed(&mut self, id: CommandId, args: Args<'_>, watchdog: &Watchdog) -> Result<(), Refusal> {
        let row = command(id);
        if row.flags.has(Flags::NOSCRIPT)
            && !(row.flags.has(Flags::PROTECTED) && self.services.lets_scripts_debug.load(Ordering::Relaxed))
        {
            return Err("This Redis command is not allowed from script".into());
        }
        if let Some(permissions) = &self.keyspace.turn.caller.permissions
            && let Some(reason) = permissions.refuses_called(id.0, args)
        {
            return Err(format!("ACL failure in script: {reason}").into());
        }
        if !self.writes && (row.is_write() || publishes(id)) {
            return Err("Write commands are not allowed from read-only scripts.".into());
        }
        if row.keys.streams_from > 0 && ReadingOptions::of(args).block_at.is_some() {
            let name = quoted(&args[0], usize::MAX);
            return Err(format!("{name} command is not allowed with BLOCK option from scripts").into());
        }
        if self.is_stale && !row.flags.has(Flags::STALE) {
            return Err("Can not execute the command on a stale replica".into());
        }
        let is_write = row.flags.has(Flags::WRITE);
        if is_write && !self.has_written {
            self.must_find_room_and_disk(row.flags.has(Flags::DENYOOM))?;
            watchdog.note_written().map_err(|reason| format!("-{reason}"))?;
            self.has_written = true;
        }
        if let Some(slots) = &mut self.slots {
            slots.must_allow(row, args)?;
        }
        let mut keys = row.keys.positions(args).filter(|_| row.request != Request::Local);
        if !keys.all(|position| self.keyspace.store.covers(&args[position])) {
            return Err("Script attempted to access a key of a shard that it was not lent".into());
        }
        Ok(())
    }

    /// The first write of a script may be refused; later ones are not, because the script would be half done.
    fn must_find_room_and_disk(&self, needs_memory: bool) -> Result<(), Refusal> {
        // As its keyspace was told: if the server has become a replica since, commands of the same EXEC have written.
        if self.keyspace.turn.due_keys.only_master_writes() {
            return Err(format!("-{READONLY}").into());
        }
        if let Some(error) = self.services.host().and_then(|host| host.refuses_writes()) {
            return Err(format!("-{error}").into());
        }
        if needs_memory && self.is_short { Err(format!("-{OUT_OF_MEMORY}").into()) } else { Ok(()) }
    }

    /// Runs a command that needs no data. Its changes to its connection last for this script.
    fn call_local(
        &mut self,
        named: CommandId,
        id: CommandId,
        args: Args<'_>,
        is_busy: bool,
        reply: &mut Reply<'_>,
    ) -> Result<(), Refusal> {
        let row = command(id);
        let own = match row.in_script {
            InScript::Select => self.select(args, reply),
            InScript::Time => {
                write_time(self.time_us(is_busy), reply);
                Ok(())
            }
            _ if publishes(id) => self.publish(row.flags.has(Flags::NOT_KEYS), args, reply),
            _ => return self.call_of_connection(named, id, args, reply),
        };
        let calls = self.counts();
        calls.note_run(id.0, 0, true, own.is_err());
        let is_slow = calls.is_slow(0);
        if let Err(error) = own {
            calls.note_error(&error);
            reply.error(error);
        }
        if is_slow {
            let before = self.keyspace.timing.slow().len();
            self.keyspace.timing.note_slow(super::slow(id, args, 0));
            self.keep_slow(before);
        }
        Ok(())
    }

    /// The time of the script in microseconds. The clock is read when the script first asks, because most never do; and
    /// each time it asks when it is busy: it may wait for a time. Keys do not expire then either.
    fn time_us(&mut self, is_busy: bool) -> u64 {
        let told = self.time_us.filter(|_| !is_busy);
        let read = || {
            // The keyspace's time may be later: the clock can have been set back since.
            let least_us = self.time_us.unwrap_or(self.keyspace.turn.now_ms() * 1000);
            self.services.host().map_or(0, |host| host.now_us()).max(least_us)
        };
        *self.time_us.insert(told.unwrap_or_else(read))
    }

    fn select(&mut self, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
        if integer(&args[1])? != 0 {
            super::cluster::must_have_databases(self.keyspace.settings(), "SELECT")?;
        }
        self.keyspace.select(database_number(&args[1], self.keyspace.store.databases())?);
        reply.ok();
        Ok(())
    }

    /// Sends a message, in its place among the changes of the script.
    fn publish(&mut self, is_shard: bool, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
        let host = self.services.host();
        let receivers = host.as_ref().map_or(0, |host| host.receivers(&args[1], is_shard));
        // It is sent when the script has ended; connections subscribed now receive it. If there are none, it need not
        // take memory until then.
        if receivers > 0 || host.is_some_and(|host| host.passes_messages_on()) {
            self.keyspace.notices.push_message(&args[1], is_shard, &args[2]);
        }
        reply.count(receivers);
        Ok(())
    }

    fn call_of_connection(
        &mut self,
        named: CommandId,
        id: CommandId,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Refusal> {
        const NOT_HERE: &str = "ERR This Redis command is not allowed from script";
        if command(id).in_script == InScript::QueriesOwners {
            return Err(refused(self.counts(), Some(id), "This command is not supported from script"));
        }
        let connection = match &mut self.local {
            Some(connection) => connection,
            none => none.insert(self.services.host().and_then(|host| host.connection()).ok_or(NOT_HERE)?),
        };
        let database = super::keys::database_id(self.keyspace.store.selected());
        let context = Context { resp3: reply.is_resp3(), no_touch: false, database };
        connection.run(named, context, args, reply);
        Ok(())
    }
}

/// The slots that the commands of a script have keys of: each command those of one, as a request has.
struct Slots {
    /// Whether all commands must have the same one: the script declares flags, and this permission is not among them.
    must_agree: bool,
    /// The first one: that of the keys which the request declares, otherwise of the first command that has a key.
    first: Option<usize>,
}

impl Slots {
    fn of<S: Store>(keyspace: &Keyspace<S>, flags: ScriptFlags, declared: Args<'_>) -> Option<Self> {
        let is_checked = keyspace.settings().refuses_cross_slot() && !keyspace.turn.was_accepted_before();
        is_checked.then(|| Self {
            must_agree: flags.is_declared && !flags.allow_cross_slot_keys,
            first: declared.get(0).map(slot_of),
        })
    }

    #[cold]
    fn must_allow(&mut self, row: &Command, args: Args<'_>) -> Result<(), Refusal> {
        let mut slots = row.keys.positions(args).map(|position| slot_of(&args[position]));
        let Some(slot) = slots.next() else { return Ok(()) };
        if slots.any(|other| other != slot) {
            return Err("Script attempted to access a non local key in a cluster node".into());
        }
        match self.must_agree && *self.first.get_or_insert(slot) != slot {
            true => Err("Script attempted to access keys that do not hash to the same slot".into()),
            false => Ok(()),
        }
    }
}

/// The command, or the subcommand, that a script calls.
fn runnable(named: CommandId, args: Args<'_>) -> Result<CommandId, &'static str> {
    const ARITY: &str = "Wrong number of args calling Redis command from script";
    let id = subcommand(named, args).map_err(|error| match error {
        CommandError::Arity(_) => ARITY,
        _ => "Unknown Redis command called from script",
    })?;
    if command(id).accepts(args.len()) { Ok(id) } else { Err(ARITY) }
}

fn count(calls: &Counts, text: &str) {
    let code = text.strip_prefix('-').and_then(|text| text.split(' ').next());
    calls.note_error_text(code.unwrap_or("ERR"));
}

/// Counts a refusal, and returns its error for the script.
fn refused(calls: &Counts, id: Option<CommandId>, text: impl Into<Refusal>) -> Refusal {
    let text = text.into();
    if let Some(id) = id {
        calls.note_rejected(id.0);
    }
    count(calls, &text);
    match text.strip_prefix('-') {
        Some(whole) => whole.to_owned().into(),
        None => format!("ERR {text}").into(),
    }
}

/// Writes a time as TIME replies it: seconds, and the microseconds after them.
fn write_time(now_us: u64, reply: &mut Reply<'_>) {
    const SECOND_US: u64 = 1_000_000;
    reply.array(2);
    reply.bulk((now_us / SECOND_US).to_string().as_bytes());
    reply.bulk((now_us % SECOND_US).to_string().as_bytes());
}

/// SCRIPT LOAD script: O(N), N = bytes of the script
pub fn load<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let sha = sha_of(&args[2]);
    let script = Script::parse(sha, &args[2]).map_err(CommandError::Owned)?;
    let scripting = &services(keyspace).scripting;
    if !scripting.scripts.has(&sha) {
        scripting::check(scripting, &script).map_err(CommandError::Owned)?;
    }
    scripting.scripts.add_loaded(script);
    reply.bulk(&sha);
    Ok(())
}

/// SCRIPT EXISTS sha1 [sha1 ...]: O(N), N = scripts named
pub fn exists(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let names = args.from(2);
    reply.array(names.len());
    names.iter().for_each(|name| reply.flag(sha_named(name).is_some_and(|sha| services.scripting.scripts.has(&sha))));
    Ok(())
}

/// SCRIPT FLUSH [ASYNC | SYNC]: O(N), N = scripts
pub fn flush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_right = args.len() == 2 || (args.len() == 3 && (args.is(2, "SYNC") || args.is(2, "ASYNC")));
    if !is_right {
        return Err(CommandError::Text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    services(keyspace).scripting.scripts.flush();
    reply.ok();
    Ok(())
}

/// SCRIPT DEBUG mode: O(1)
pub fn debug(_services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.is(2, "NO") {
        reply.ok();
        return Ok(());
    }
    Err(CommandError::Text(match args.is(2, "YES") || args.is(2, "SYNC") {
        true => "ERR there is no debugger for scripts here",
        false => "ERR Use SCRIPT DEBUG YES/SYNC/NO",
    }))
}

/// SCRIPT KILL: O(1)
pub fn kill(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    services.scripting.busy.kill(false).map_err(CommandError::Text)?;
    services.scripting.busy.wait_for_killed();
    reply.ok();
    Ok(())
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::routing::shard_of;
    use crate::keyspace::{Databases, Effects};
    use crate::resp::OwnedArgs;

    fn words(words: &[&str]) -> OwnedArgs {
        words.iter().collect()
    }

    #[test]
    fn a_key_of_a_shard_that_was_not_lent_is_an_error_in_words_and_what_was_written_stays() {
        let key = "key";
        let foreign =
            (0..).map(|number| format!("k{number}")).find(|other| shard_of(other.as_bytes(), 2) != 0).unwrap();
        let own = (0..).map(|number| format!("k{number}")).find(|other| shard_of(other.as_bytes(), 2) == 0).unwrap();
        let databases = Databases::of_shard(&Arc::default(), 16, 0, 2);
        let mut keyspace = Keyspace::new(databases, 1, fastrand::Rng::with_seed(1), Effects::new(true));
        let mut run = |call: &str, keys: [&str; 2]| {
            let script = format!("redis.call('set', KEYS[1], 1) return {call}");
            let words = words(&["EVAL", &script, "2", keys[0], keys[1]]);
            let mut out = Vec::new();
            let outcome = eval(&mut keyspace, words.args(), &mut Reply::new(&mut out, false));
            (outcome.map_err(|error| error.to_string()), String::from_utf8(out).unwrap())
        };
        let refused = "ERR Script attempted to access a key of a shard that it was not lent script: ";
        for call in ["redis.call('get', KEYS[2])", "redis.call('rename', KEYS[1], KEYS[2])"] {
            let (outcome, out) = run(call, [&own, &foreign]);
            assert!(outcome.unwrap_err().starts_with(refused), "{call}");
            assert_eq!(out, "");
        }
        let (outcome, out) = run("redis.pcall('set', KEYS[2], 2).err", [&own, &foreign]);
        assert!(outcome.is_ok() && out.contains("that it was not lent"), "{out}");
        assert_eq!(run("redis.call('get', KEYS[1])", [&own, key]).1, "$1\r\n1\r\n");
        let effects = String::from_utf8_lossy(keyspace.effects.payload()).to_uppercase();
        assert!(effects.contains("SET") && !effects.contains("EVAL"), "{effects}");
    }

    #[test]
    fn scripts_are_proved_by_the_keys_that_their_commands_have() {
        let is_proved = |script: &str| source_is_proved(words(&["eval", script, "0"]).args(), &Instance::default());
        for script in [
            "return 1",
            "return redis.call('get', KEYS[1])",
            "#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])",
            "return redis.call('mset', KEYS[1], ARGV[1], KEYS[2], ARGV[2])",
            "return redis.call('zadd', KEYS[1], unpack(ARGV))",
            "return redis.call('rename', KEYS[1], KEYS[2])",
            "return redis.call('time')",
        ] {
            assert!(is_proved(script), "{script}");
        }
        for script in [
            "return redis.call('get', ARGV[1])",
            "return redis.call('mset', KEYS[1], ARGV[1], ARGV[2], ARGV[2])",
            "return redis.call('del', KEYS[1], unpack(ARGV))",
            "return redis.call('rename', KEYS[1], unpack(ARGV))",
            "return redis.call('get', unpack(ARGV))",
            "return redis.call('sort', KEYS[1])",
            "return redis.call('zunionstore', KEYS[1], 1, KEYS[2])",
            "return redis.call('xread', 'streams', KEYS[1], 0)",
            "return redis.call('object', 'encoding', KEYS[1])",
            "return redis.call('copy', KEYS[1], KEYS[2])",
            "return redis.call('move', KEYS[1], 1)",
            "redis.call('select', 1) return redis.call('get', KEYS[1])",
            "return redis.call('publish', KEYS[1], 1)",
            "return redis.call('keys', KEYS[1])",
            "return redis.call('scan', 0)",
            "return redis.call('dbsize')",
            "return redis.call('randomkey')",
            "return redis.call('flushall')",
            "return redis.call('debug', 'object', KEYS[1])",
            "return redis.call('nosuch', KEYS[1])",
            "#!lua flags=nosuch\nreturn 1",
        ] {
            assert!(!is_proved(script), "{script}");
        }
    }
}
