//! A thread's Lua: compiles scripts and runs them.
//!
//! Each thread has a Lua state of its own, made when it runs its first script. No script can see what another has left
//! in it: everything that a script can reach and that outlives it is immutable (`sandbox.lua`).

use super::busy::{Registered as OwnPlace, Watchdog};
use super::calls::{Calls, Shared, with_calls};
use super::conversions;
use super::functions::{self, Library, checked_name};
use super::libraries;
use super::natives::{self, Ended, Run, Runner};
use super::pacing;
use super::patterns;
use super::raising::{self, Location, OWN_CHUNK};
use super::script_cache::{Script, ScriptFlags, Sha};
use super::server_scripts::Scripting;
use super::table_functions;
use crate::resp::{Args, Reply, quoted};
use ahash::AHashMap;
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Error, FromLua, Function, IntoLua, Lua, LuaOptions, LuaString, MultiValue, Result, StdLib, Table, Value};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of memory that a state may have in use.
const MEMORY_MAX: usize = 256 * 1024 * 1024;
/// A state that has more than this in use after a script is dropped: the memory of a large script is freed at once.
const MEMORY_KEPT: usize = 16 * 1024 * 1024;
/// The collector starts again when memory reaches this percentage of what it left: twice Lua's default, since a state
/// is small.
const GC_PAUSE: i32 = 400;
/// How many compiled scripts a thread keeps though they are no longer known.
const STALE_MAX: usize = 512;

/// How a script ended.
#[derive(Debug)]
pub enum Finished {
    /// Its reply is written.
    Replied,
    /// It failed with this error, code included; nothing is written.
    Failed {
        /// The reply.
        error: String,
        /// Whether the counts of error replies include it already.
        is_counted: bool,
    },
}

/// What to run.
#[derive(Clone, Copy)]
pub enum Program<'a> {
    /// A script.
    Script(&'a Script),
    /// A function, by its place in its library, and the request that calls it.
    Function(&'a Library, usize, Args<'a>),
}

impl Program<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Script(script) => script.name(),
            Self::Function(library, place, _) => &library.functions[*place].name,
        }
    }
}

thread_local! {
    /// The interpreter of this thread's server.
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// Checks that a script compiles; the error says why it does not.
pub fn check(scripting: &Arc<Scripting>, script: &Script) -> std::result::Result<(), String> {
    with_interpreter(scripting, |interpreter| interpreter.compiled(script).map(drop))
}

/// Runs a library to find what it registers, for no longer than `most`.
pub fn registered(
    scripting: &Arc<Scripting>,
    library: &Library,
    most: Option<Duration>,
) -> std::result::Result<Vec<functions::Function>, String> {
    with_interpreter(scripting, |interpreter| Ok(interpreter.load(library, most)?.functions))
}

/// Runs a script or a function.
///
/// # Panics
/// Within a script, which cannot run another.
pub fn run(
    scripting: &Arc<Scripting>,
    program: Program<'_>,
    keys: Args<'_>,
    arguments: Args<'_>,
    calls: &mut dyn Calls,
    reply: &mut Reply<'_>,
) -> std::result::Result<Finished, String> {
    with_interpreter(scripting, |interpreter| {
        let function = match program {
            Program::Script(script) => interpreter.compiled(script)?,
            Program::Function(library, place, _) => interpreter.callback(library, place)?,
        };
        let start = reply.position();
        let finished = interpreter.run(program, &function, (keys, arguments), calls, reply);
        Ok(finished.unwrap_or_else(|error| {
            reply.truncate(start);
            interpreter.is_spoiled = true;
            let text = match error.downcast_ref::<raising::Raised>() {
                Some(raised) => raised.to_string(),
                None => format!("ERR Error running script {}, {}", program.name(), raising::without_trace(&error)),
            };
            Finished::Failed { error: quoted(text.as_bytes(), 200), is_counted: false }
        }))
    })
}

fn with_interpreter<R>(scripting: &Arc<Scripting>, act: impl FnOnce(&mut Interpreter) -> R) -> R {
    INTERPRETER.with(|slot| {
        let mut slot = slot.borrow_mut();
        let flushes = scripting.scripts.flushes();
        slot.take_if(|interpreter| interpreter.flushes != flushes || !Arc::ptr_eq(&interpreter.scripting, scripting));
        let interpreter =
            slot.get_or_insert_with(|| Interpreter::new(scripting, flushes).expect("the sandbox is a program of ours"));
        let acted = act(interpreter);
        // This thread may not run a script again for a long time.
        slot.take_if(|interpreter| interpreter.is_spoiled);
        acted
    })
}

struct Interpreter {
    /// Its server.
    scripting: Arc<Scripting>,
    /// Shows others what it runs.
    place: OwnPlace,
    lua: Lua,
    runner: Runner,
    /// Runs a library, which sees only what registers functions.
    load: Function,
    /// The environment of scripts.
    environment: Table,
    json: Rc<RefCell<libraries::JsonConfig>>,
    shared: Rc<Shared>,
    kept: Kept,
    compiled: AHashMap<Sha, Slot>,
    /// The script that ran last, which is often the next.
    last: Option<(Sha, Function)>,
    /// Lists of what libraries have registered, by the numbers of the libraries.
    callbacks: AHashMap<u64, Slot>,
    /// The number of changes of the libraries when removed ones were last dropped.
    changes: u64,
    /// What the library that is being loaded has registered.
    loading: Rc<RefCell<Option<Registered>>>,
    /// The number of flushes of all scripts when it was made.
    flushes: u64,
    /// Whether it must be dropped.
    is_spoiled: bool,
    /// Its part of [`Scripting::lua_bytes`].
    noted_bytes: usize,
    /// The names of chunks: Lua's parser does not keep the collector from them.
    _names: [LuaString; 3],
}

/// A place among the kept values.
type Slot = usize;

/// Values of Lua that are kept for long, in a table: Rust's references into a state are on a stack of 8,000 places.
struct Kept {
    table: Table,
    used: Slot,
    free: Vec<Slot>,
}

impl Kept {
    fn add(&mut self, value: impl IntoLua) -> Result<Slot> {
        let slot = self.free.pop().unwrap_or(self.used + 1);
        self.table.raw_set(slot, value)?;
        self.used = self.used.max(slot);
        Ok(slot)
    }

    fn get<V: FromLua>(&self, slot: Slot) -> Result<V> {
        self.table.raw_get(slot)
    }

    /// Frees the slots of those entries of a map for which `is_gone` returns true.
    fn free<K>(&mut self, slots: &mut AHashMap<K, Slot>, is_gone: impl Fn(&K) -> bool) {
        for (_, slot) in slots.extract_if(|key, _| is_gone(key)) {
            if self.table.raw_set(slot, Value::Nil).is_ok() {
                self.free.push(slot);
            }
        }
    }
}

/// What a library has registered: its functions, and a list of the same in Lua.
struct Registered {
    functions: Vec<functions::Function>,
    callbacks: Table,
}

/// The error when there is no memory to keep a value.
fn not_kept(error: Error) -> String {
    quoted(format!("ERR {}", raising::without_trace(&error)).as_bytes(), usize::MAX)
}

/// The names of the chunks of scripts and of libraries.
const SCRIPT_CHUNK: &str = "@user_script";
const LIBRARY_CHUNK: &str = "@user_function";

impl Interpreter {
    fn new(scripting: &Arc<Scripting>, flushes: u64) -> Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // A panic passes `xpcall` nevertheless: code that takes what it caught for a value continues with it.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
        let names =
            [lua.create_string(SCRIPT_CHUNK)?, lua.create_string(LIBRARY_CHUNK)?, lua.create_string(OWN_CHUNK)?];
        let shared: Rc<Shared> = Rc::default();
        let json = Rc::new(RefCell::new(libraries::JsonConfig::default()));
        let native = lua.create_table()?;
        native.raw_set("shown_error", lua.create_function(|lua, value: Value| raising::shown(lua, value))?)?;
        let watchdog = Rc::clone(&shared.watchdog);
        native.raw_set("end_if_killed", lua.create_function(move |_, ()| look(&watchdog))?)?;
        let watchdog = Rc::clone(&shared.watchdog);
        native.raw_set("is_killed", lua.create_function(move |_, ()| Ok(is_killed(&watchdog)))?)?;
        let its = Rc::clone(&shared);
        let note_set_environment = lua.create_function(move |_, ()| {
            its.has_set_environments.set(true);
            Ok(())
        })?;
        native.raw_set("note_set_environment", note_set_environment)?;
        native.raw_set("is_in_range", lua.create_function(|lua, values: MultiValue| is_in_range(lua, &values))?)?;
        patterns::register(&lua, &native, &shared)?;
        natives::add(&lua, &native, &pacing::FUNCTIONS, &shared)?;
        natives::add(&lua, &native, &table_functions::FUNCTIONS, &shared)?;
        libraries::register(&lua, &native, &json, &shared, &scripting.randomness)?;
        let redis = redis_table(&lua, &shared)?;
        natives::add_calls(&lua, &redis, &shared)?;
        native.raw_set("redis", &redis)?;
        let handled = lua.create_function(|lua, error: Value| handled(lua, error))?;
        native.raw_set("handled", &handled)?;
        let loading: Rc<RefCell<Option<Registered>>> = Rc::default();
        native.raw_set("loading", loading_table(&lua, &loading)?)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(OWN_CHUNK);
        let (load, globals, environment): (Function, Table, Table) = sandbox.call(native)?;
        let runner = Runner::new(&lua, &globals, &environment, &handled)?;
        let kept = Kept { table: lua.create_table()?, used: 0, free: Vec::new() };
        lua.set_memory_limit(MEMORY_MAX)?;
        pacing::begin(&lua, &shared)?;
        Ok(Self {
            scripting: Arc::clone(scripting),
            place: OwnPlace::new(&scripting.busy),
            lua,
            runner,
            load,
            environment,
            json,
            shared,
            kept,
            compiled: AHashMap::new(),
            last: None,
            callbacks: AHashMap::new(),
            changes: 0,
            loading,
            flushes,
            is_spoiled: false,
            noted_bytes: 0,
            _names: names,
        })
    }

    /// The function of a script, compiled if this thread has not seen it.
    fn compiled(&mut self, script: &Script) -> std::result::Result<Function, String> {
        if let Some((sha, function)) = &self.last
            && *sha == script.sha
        {
            return Ok(function.clone());
        }
        let function = self.compiled_once(script)?;
        self.last = Some((script.sha, function.clone()));
        Ok(function)
    }

    fn compiled_once(&mut self, script: &Script) -> std::result::Result<Function, String> {
        if let Some(&slot) = self.compiled.get(&script.sha) {
            return self.kept.get(slot).map_err(not_kept);
        }
        let function = self.chunk(script.code(), SCRIPT_CHUNK).map_err(|reason| {
            quoted(format!("ERR Error compiling script (new function): {reason}").as_bytes(), usize::MAX)
        })?;
        if self.compiled.len() > self.scripting.scripts.size().0 + STALE_MAX {
            let scripts = &self.scripting.scripts;
            self.kept.free(&mut self.compiled, |sha| !scripts.has(sha));
        }
        self.compiled.insert(script.sha, self.kept.add(&function).map_err(not_kept)?);
        Ok(function)
    }

    /// Compiles a program; the error says why that fails.
    fn chunk(&self, code: &[u8], name: &str) -> std::result::Result<Function, String> {
        // Bytecode is parsed as text, and therefore refused.
        let code: Cow<'_, [u8]> = if code.first() == Some(&27) { [b" ", code].concat().into() } else { code.into() };
        let chunk = self.lua.load(&*code).set_name(name).set_mode(ChunkMode::Text);
        chunk.set_environment(self.environment.clone()).into_function().map_err(|error| match error {
            Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    /// What a library has registered here, which has run in this thread or runs now.
    fn callback(&mut self, library: &Library, place: usize) -> std::result::Result<Function, String> {
        let callbacks: Table = match self.callbacks.get(&library.id) {
            Some(&slot) => self.kept.get(slot).map_err(not_kept)?,
            None => self.callbacks(library)?,
        };
        callbacks.raw_get(place + 1).map_err(not_kept)
    }

    fn callbacks(&mut self, library: &Library) -> std::result::Result<Table, String> {
        let changes = self.scripting.functions.changes();
        if self.changes != changes {
            self.changes = changes;
            let libraries = self.scripting.functions.libraries();
            self.kept.free(&mut self.callbacks, |id| !libraries.iter().any(|library| library.id == *id));
        }
        let Registered { functions, callbacks } = self.load(library, None)?;
        if functions != library.functions {
            return Err("ERR the library registers other functions than when it was loaded".into());
        }
        self.callbacks.insert(library.id, self.kept.add(&callbacks).map_err(not_kept)?);
        Ok(callbacks)
    }

    /// Runs a library, and returns what it registers. The error is a reply.
    fn load(&mut self, library: &Library, most: Option<Duration>) -> std::result::Result<Registered, String> {
        let shown = |text: String| quoted(text.as_bytes(), usize::MAX);
        let function = self
            .chunk(library.code(), LIBRARY_CHUNK)
            .map_err(|reason| shown(format!("ERR Error compiling function: {reason}")))?;
        let callbacks = self.lua.create_table().map_err(not_kept)?;
        *self.loading.borrow_mut() = Some(Registered { functions: Vec::new(), callbacks });
        // All that may take long looks at it, as in a script.
        *self.shared.watchdog.borrow_mut() = Some(Watchdog::of_library(&self.place, &library.name, most));
        let outcome = self.load.call::<(bool, Value)>(function);
        let ended = self.shared.end();
        *self.shared.watchdog.borrow_mut() = None;
        let registered = self.loading.borrow_mut().take().expect("it is being loaded");
        self.note_bytes();
        let failure = match outcome {
            Ok((true, _)) => return Ok(registered),
            Ok((false, Value::Table(error))) => match error.raw_get("err") {
                Ok(Value::String(text)) => text.to_string_lossy(),
                _ => "unknown error".into(),
            },
            Ok((false, error)) => error.to_string().unwrap_or_default(),
            Err(error) => {
                // It has ended within the sandbox itself, which may show what is for libraries.
                self.is_spoiled = true;
                ended.map_or_else(|| raising::without_trace(&error), str::to_owned)
            }
        };
        Err(shown(format!("ERR Error registering functions: {failure}")))
    }

    fn run(
        &mut self,
        program: Program<'_>,
        function: &Function,
        (keys, arguments): (Args<'_>, Args<'_>),
        calls: &mut dyn Calls,
        reply: &mut Reply<'_>,
    ) -> Result<Finished> {
        let shared = &*self.shared;
        *self.json.borrow_mut() = libraries::JsonConfig::default();
        shared.is_resp3.set(false);
        *shared.watchdog.borrow_mut() = Some(match program {
            Program::Script(script) => Watchdog::of_script(&self.place, script.sha),
            Program::Function(_, _, request) => Watchdog::of_function(&self.place, program.name(), request),
        });
        let is_function = matches!(program, Program::Function(..));
        let needs_environment = !is_function && shared.has_set_environments.get();
        let run = Run { keys, arguments, is_function, needs_environment, shared, reply: &mut *reply };
        let outcome = with_calls(calls, || self.runner.run(function, run));
        let finished = outcome.and_then(|ended| match ended {
            Ended::Replied => Ok(Finished::Replied),
            Ended::Returned(value) => match returned_error(&value)? {
                Some(finished) => Ok(finished),
                None => {
                    let look = || look(&shared.watchdog);
                    conversions::write(&value, shared.is_resp3.get(), reply, &look).map(|()| Finished::Replied)
                }
            },
            Ended::Failed(value) => failed(&self.lua, program.name(), &value),
        });
        *shared.watchdog.borrow_mut() = None;
        // What did not find room on Lua's stack.
        shared.forget_large();
        self.note_bytes();
        finished
    }

    fn note_bytes(&mut self) {
        let bytes = self.lua.used_memory();
        self.is_spoiled |= bytes > MEMORY_KEPT;
        self.scripting.note_lua_bytes(bytes, self.noted_bytes);
        self.noted_bytes = bytes;
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // An error means that the state has no memory left: what is shared lives longer than it.
        _ = pacing::end(&self.lua);
        self.scripting.note_lua_bytes(0, self.noted_bytes);
    }
}

/// Checks the time of the running script; the error ends it.
fn look(watchdog: &RefCell<Option<Watchdog>>) -> Result<()> {
    watchdog.borrow().as_ref().map_or(Ok(()), Watchdog::look).map_err(|reason| raising::reply(reason, false))
}

/// Whether the running script must end.
fn is_killed(watchdog: &RefCell<Option<Watchdog>>) -> bool {
    watchdog.borrow().as_ref().is_some_and(|watchdog| watchdog.end().is_some())
}

/// The error of a script as a table, with the place where it was raised.
fn handled(lua: &Lua, error: Value) -> Result<Value> {
    let table = match raising::shown(lua, error)? {
        Value::Table(table) => table,
        other => {
            let mut text = b"ERR ".to_vec();
            match &other {
                Value::Nil => text.extend_from_slice(b"nil"),
                Value::Boolean(value) => text.extend_from_slice(value.to_string().as_bytes()),
                other => match lua.coerce_string(other.clone())? {
                    Some(shown) => text.extend_from_slice(raising::without_own_place(&shown.as_bytes())),
                    None => text.extend_from_slice(raising::type_name(Some(other)).as_bytes()),
                },
            }
            match raising::table(lua, &text, false)? {
                Value::Table(table) => table,
                _ => unreachable!("it is a table"),
            }
        }
    };
    if let Some(Location { source, line, .. }) = raising::location(lua, 1, true) {
        table.raw_set("source", source)?;
        table.raw_set("line", line.map_or(-1, |line| line as i64))?;
    }
    Ok(Value::Table(table))
}

/// The reply of a script that has failed.
fn failed(lua: &Lua, name: &str, value: &Value) -> Result<Finished> {
    let Value::Table(table) = value else {
        let reason = match raising::shown(lua, value.clone())? {
            Value::String(text) => text.as_bytes().to_vec(),
            _ => b"execution failure".to_vec(),
        };
        let reason = quoted(&reason, 100);
        let error = format!("ERR Error running script {name}, {reason}");
        return Ok(Finished::Failed { error, is_counted: false });
    };
    let message = text_of(lua, &table.raw_get("err")?).unwrap_or_else(|| b"ERR unknown error".to_vec());
    let mut text = quoted(&message, usize::MAX);
    if let (Some(source), Some(line)) = (text_of(lua, &table.raw_get("source")?), text_of(lua, &table.raw_get("line")?))
    {
        let (source, line) = (quoted(&source, usize::MAX), quoted(&line, usize::MAX));
        text.push_str(&format!(" script: {name}, on {source}:{line}."));
    }
    Ok(Finished::Failed { error: text, is_counted: is_counted(table)? })
}

/// The error that a script returns, if it returns one: a failure like any other.
fn returned_error(value: &Value) -> Result<Option<Finished>> {
    let Value::Table(table) = value else { return Ok(None) };
    let Value::String(text) = table.raw_get("err")? else { return Ok(None) };
    let error = conversions::error_line(&text.as_bytes());
    Ok(Some(Finished::Failed { error, is_counted: is_counted(table)? }))
}

/// Whether the command that replied an error has counted it.
fn is_counted(error: &Table) -> Result<bool> {
    Ok(error.raw_get::<Value>("ignore_error_stats_update")? == Value::Boolean(true))
}

/// Whether `unpack` with these arguments has a result; an error if it has more than the stack of C has room for, or the
/// arguments are wrong.
fn is_in_range(lua: &Lua, values: &MultiValue) -> Result<bool> {
    /// Places that a function of C has on the stack, including its arguments: `LUAI_MAXCSTACK`.
    const PLACES: i64 = 8000;
    let Some(Value::Table(table)) = values.front() else {
        let reason = format!("table expected, got {}", raising::type_name(values.front()));
        return Err(raising::bad_argument(lua, 1, "unpack", &reason));
    };
    let first = raising::truncated(raising::number_or(lua, values.get(1), 2, "unpack", 1.0)?);
    let last = match values.get(2) {
        None | Some(Value::Nil) => table.raw_len() as i64,
        last => raising::truncated(raising::number(lua, last, 3, "unpack")?),
    };
    match last.checked_sub(first) {
        Some(distance) if distance < 0 => Ok(false),
        Some(distance) if distance < PLACES - values.len() as i64 => Ok(true),
        _ => Err(raising::error(lua, "too many results to unpack")),
    }
}

/// The part of the table `redis` that always exists.
fn common_table(lua: &Lua) -> Result<Table> {
    let redis = lua.create_table()?;
    for (name, value) in [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)] {
        redis.raw_set(name, value)?;
    }
    let number = crate::rdb::REDIS_VERSION
        .split('.')
        .fold(0, |number, part| number << 8 | part.parse::<i64>().expect("a version is numbers"));
    redis.raw_set("REDIS_VERSION", crate::rdb::REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", number)?;
    redis.raw_set("log", lua.create_function(|lua, values: MultiValue| log(lua, &values))?)?;
    Ok(redis)
}

/// The table `redis` of a library while it is loaded.
fn loading_table(lua: &Lua, loading: &Rc<RefCell<Option<Registered>>>) -> Result<Table> {
    let redis = common_table(lua)?;
    let loading = Rc::clone(loading);
    let register = lua.create_function(move |lua, values: MultiValue| register(lua, &values, &loading))?;
    redis.raw_set("register_function", register)?;
    Ok(redis)
}

/// `redis.register_function`
fn register(lua: &Lua, values: &MultiValue, loading: &RefCell<Option<Registered>>) -> Result<()> {
    let fails = |text: &str| raising::reply(format!("ERR {text}"), false);
    let mut loading = loading.borrow_mut();
    let Registered { functions, callbacks } =
        loading.as_mut().ok_or_else(|| fails("redis.register_function can only be called on FUNCTION LOAD command"))?;
    let registered = match values.len() {
        1 => named_arguments(lua, values.front()),
        2 => positional_arguments(lua, values),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let (name, mut function, callback) = registered.map_err(fails)?;
    if name.len() > NAME_MAX || function.description.as_ref().is_some_and(|text| text.len() > NAME_MAX) {
        return Err(fails("function names and descriptions have at most 65536 bytes"));
    }
    function.name = checked_name(&name).ok_or_else(|| fails(functions::BAD_NAME))?;
    if functions.iter().any(|other| other.name.eq_ignore_ascii_case(&function.name)) {
        return Err(fails("Function already exists in the library"));
    }
    functions.push(function);
    callbacks.raw_push(callback)
}

/// The most bytes of the name of a function, and of its description.
const NAME_MAX: usize = 1 << 16;

/// A function with its proposed name, which has not been checked; or an error.
type ToRegister = std::result::Result<(Vec<u8>, functions::Function, Function), &'static str>;

fn to_register(name: Vec<u8>, callback: Function, description: Option<Box<[u8]>>, flags: ScriptFlags) -> ToRegister {
    Ok((name, functions::Function { name: String::new(), description, flags }, callback))
}

fn positional_arguments(lua: &Lua, values: &MultiValue) -> ToRegister {
    let name = text_of(lua, &values[0]).ok_or("first argument to redis.register_function must be a string")?;
    match &values[1] {
        Value::Function(callback) => to_register(name, callback.clone(), None, ScriptFlags::declared()),
        _ => Err("second argument to redis.register_function must be a function"),
    }
}

/// Names and texts may be numbers, as everywhere in Lua.
fn named_arguments(lua: &Lua, value: Option<&Value>) -> ToRegister {
    let Some(Value::Table(table)) = value else {
        return Err("calling redis.register_function with a single argument is only applicable to Lua table \
                    (representing named arguments).");
    };
    let (mut name, mut callback, mut description, mut flags) = (None, None, None, ScriptFlags::declared());
    for pair in table.pairs::<Value, Value>() {
        const NOT_NAMED: &str = "named argument key given to redis.register_function is not a string";
        let (key, value) = pair.map_err(|_| NOT_NAMED)?;
        let key = text_of(lua, &key).ok_or(NOT_NAMED)?.to_ascii_lowercase();
        match (key.as_slice(), value) {
            (b"function_name", value) => {
                const NO_TEXT: &str = "function_name argument given to redis.register_function must be a string";
                name = Some(text_of(lua, &value).ok_or(NO_TEXT)?);
            }
            (b"description", value) => {
                const NO_TEXT: &str = "description argument given to redis.register_function must be a string";
                description = Some(text_of(lua, &value).ok_or(NO_TEXT)?.into());
            }
            (b"callback", Value::Function(function)) => callback = Some(function),
            (b"callback", _) => {
                return Err("callback argument given to redis.register_function must be a function");
            }
            (b"flags", Value::Table(names)) => flags = flags_of(&names)?,
            (b"flags", _) => {
                return Err("flags argument to redis.register_function must be a table representing function flags");
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    to_register(name, callback, description, flags)
}

fn flags_of(names: &Table) -> std::result::Result<ScriptFlags, &'static str> {
    const UNKNOWN: &str = "unknown flag given";
    let mut flags = ScriptFlags::declared();
    for place in 1.. {
        match names.raw_get(place).map_err(|_| UNKNOWN)? {
            Value::Nil => break,
            Value::String(name) if flags.set(&name.as_bytes().to_ascii_lowercase()) => {}
            _ => return Err(UNKNOWN),
        }
    }
    Ok(flags)
}

/// A value as a text, if it is one or a number.
fn text_of(lua: &Lua, value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            lua.coerce_string(value.clone()).ok()?.map(|text| text.as_bytes().to_vec())
        }
        _ => None,
    }
}

/// The table `redis`, without the functions that call commands.
fn redis_table(lua: &Lua, shared: &Rc<Shared>) -> Result<Table> {
    let redis = common_table(lua)?;
    for (name, value) in [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)] {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("sha1hex", lua.create_function(|lua, values: MultiValue| sha1hex(lua, &values))?)?;
    redis.raw_set("error_reply", lua.create_function(|lua, values: MultiValue| error_reply(lua, &values))?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, values: MultiValue| status_reply(lua, &values))?)?;
    redis.raw_set("set_repl", lua.create_function(|lua, values: MultiValue| set_repl(lua, &values))?)?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    let shared = Rc::clone(shared);
    let setresp = lua.create_function(move |lua, values: MultiValue| setresp(lua, &values, &shared.is_resp3))?;
    redis.raw_set("setresp", setresp)?;
    Ok(redis)
}

fn sha1hex(lua: &Lua, values: &MultiValue) -> Result<Value> {
    if values.len() != 1 {
        return Err(raising::reply("ERR wrong number of arguments", false));
    }
    let text = lua.coerce_string(values[0].clone())?;
    let sha = super::sha_of(&text.map(|text| text.as_bytes().to_vec()).unwrap_or_default());
    Ok(Value::String(lua.create_string(sha)?))
}

/// The only argument, which must be a text.
fn only_text(values: &MultiValue) -> Option<Vec<u8>> {
    match (values.len(), values.front()) {
        (1, Some(Value::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

const WRONG_ARGUMENTS: &[u8] = b"ERR wrong number or type of arguments";

fn error_reply(lua: &Lua, values: &MultiValue) -> Result<Value> {
    let Some(text) = only_text(values) else { return raising::table(lua, WRONG_ARGUMENTS, false) };
    let text: Vec<u8> = text.into_iter().take_while(|&byte| byte != 0).collect();
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    raising::table(lua, &text[..end], false)
}

fn status_reply(lua: &Lua, values: &MultiValue) -> Result<Value> {
    let Some(text) = only_text(values) else { return raising::table(lua, WRONG_ARGUMENTS, false) };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

fn log(lua: &Lua, values: &MultiValue) -> Result<()> {
    if values.len() < 2 {
        return Err(raising::reply("ERR redis.log() requires two arguments or more.", false));
    }
    let Some(level) = raising::number_of(lua, values.front())? else {
        return Err(raising::reply("ERR First argument must be a number (log level).", false));
    };
    let level = raising::truncated(level);
    if !(0..=3).contains(&level) {
        return Err(raising::reply("ERR Invalid debug level.", false));
    }
    let mut words = Vec::new();
    for value in values.iter().skip(1) {
        if let Value::String(_) | Value::Integer(_) | Value::Number(_) = value
            && let Some(text) = lua.coerce_string(value.clone())?
        {
            words.push(text.to_string_lossy());
        }
    }
    let text = words.join(" ");
    match level {
        0 | 1 => tracing::debug!("{text}"),
        2 => tracing::info!("{text}"),
        _ => tracing::warn!("{text}"),
    }
    Ok(())
}

/// A script's changes are always logged: memory and disk must not differ.
fn set_repl(lua: &Lua, values: &MultiValue) -> Result<()> {
    if values.len() != 1 {
        return Err(raising::reply("ERR redis.set_repl() requires one argument.", false));
    }
    let flags = raising::truncated(raising::number_of(lua, values.front())?.unwrap_or(0.0));
    match flags & !3 {
        0 => Ok(()),
        _ => Err(raising::reply(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            false,
        )),
    }
}

fn setresp(lua: &Lua, values: &MultiValue, is_resp3: &Cell<bool>) -> Result<()> {
    if values.len() != 1 {
        return Err(raising::reply("ERR redis.setresp() requires one argument.", false));
    }
    match raising::truncated(raising::number_of(lua, values.front())?.unwrap_or(0.0)) {
        2 => is_resp3.set(false),
        3 => is_resp3.set(true),
        _ => return Err(raising::reply("ERR RESP version must be 2 or 3.", false)),
    }
    Ok(())
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_forgets_what_it_has_compiled_when_all_scripts_are_forgotten() {
        let scripting = Arc::new(Scripting::default());
        let body = b"return 'of this test'";
        let script = Script::parse(crate::scripting::sha_of(body), body).unwrap();
        let is_compiled = || with_interpreter(&scripting, |interpreter| interpreter.compiled.contains_key(&script.sha));
        check(&scripting, &script).unwrap();
        assert!(is_compiled());
        scripting.scripts.flush();
        assert!(!is_compiled());
    }

    #[test]
    fn what_is_kept_takes_no_place_on_the_stack_and_slots_are_used_again() {
        let lua = Lua::new();
        let mut kept = Kept { table: lua.create_table().unwrap(), used: 0, free: Vec::new() };
        let mut slots: AHashMap<i64, Slot> = (0..20_000)
            .map(|value| (value, kept.add(lua.create_string(value.to_string()).unwrap()).unwrap()))
            .collect();
        kept.free(&mut slots, |value| value % 2 == 0);
        assert_eq!((slots.len(), kept.free.len()), (10_000, 10_000));
        (0..10_000).for_each(|value| _ = slots.insert(-1 - value, kept.add(-1 - value).unwrap()));
        assert_eq!(kept.used, 20_000);
        for (value, slot) in slots {
            assert_eq!(kept.get::<i64>(slot).unwrap(), value);
        }
    }
}
