//! Functions of C: the one that runs a script, those by which it calls commands, and [`Native`] ones, which are short
//! and called often.
//!
//! Through mlua, which runs each function of Rust inside one of its own and holds each value by a reference, a script
//! of one GET took a third more instructions (docs/adr/0021-lua.md). Two rules make them sound. What puts values on
//! Lua's stack may leave by `longjmp`, so the frames here own nothing that must be dropped. And a panic in what is run
//! for a script ends the process. What converts a reply panics only where the reply is none of ours; a release build
//! ends then, too.

#![allow(unsafe_code)]

use super::calls::{Answer, Kind, Shared};
use super::conversions::{self, write_plain};
use super::pacing;
use super::raising::{self, Outcome};
use super::stack::{Plain, Stack};
use crate::resp::{Args, Reply};
use mlua::ffi::{self, lua_CFunction, lua_State, lua_upvalueindex};
use mlua::{Function, IntoLuaMulti, LightUserData, Lua, Result, Table, Value};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The functions of `redis` that take commands.
pub fn add_calls(lua: &Lua, redis: &Table, shared: &Rc<Shared>) -> Result<()> {
    let address = kept(lua, shared);
    redis.raw_set("call", closure(lua, call, address)?)?;
    redis.raw_set("pcall", closure(lua, protected_call, address)?)?;
    redis.raw_set("acl_check_cmd", closure(lua, check, address)?)
}

/// The address of what the functions of a state share, which the state keeps.
fn kept(lua: &Lua, shared: &Rc<Shared>) -> LightUserData {
    let is_another = |kept: &Rc<Shared>| !Rc::ptr_eq(kept, shared);
    assert!(!lua.app_data_ref().is_some_and(|kept| is_another(&kept)), "its functions point at what it keeps");
    lua.set_app_data(Rc::clone(shared));
    LightUserData(Rc::as_ptr(shared).cast_mut().cast())
}

/// A function for scripts, as a function of C.
pub struct Native {
    /// Its name in errors.
    pub name: &'static str,
    /// Runs it, and returns how many results it has pushed.
    pub run: fn(Call<'_>) -> Outcome<c_int>,
}

/// A call of a [`Native`] function. Its frames own nothing that must be dropped where [`Stack`] may leave them.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The arguments.
    pub stack: Stack,
    /// What the functions of the state share.
    pub shared: &'a Shared,
    state: *mut lua_State,
}

/// Adds functions to a table.
pub fn add(lua: &Lua, table: &Table, functions: &'static [Native], shared: &Rc<Shared>) -> Result<()> {
    let address = kept(lua, shared);
    for native in functions {
        let its = LightUserData((&raw const *native).cast_mut().cast());
        table.raw_set(native.name, closure(lua, run_native, (its, address))?)?;
    }
    Ok(())
}

/// The own values of a [`Native`] function: itself, what it shares with others, and its values.
const ITSELF: c_int = lua_upvalueindex(1);
const SHARED: c_int = lua_upvalueindex(2);
const OWN: c_int = lua_upvalueindex(3);

impl Call<'_> {
    /// The index of one of the function's own values, of which 0 is the first.
    pub const fn own(place: c_int) -> c_int {
        OWN - place
    }

    /// Replaces all values of the stack by a function that has them for its own.
    pub fn push_closure(self, native: &'static Native) {
        // SAFETY: the state lives while its function runs; what this one shares is shared with the new one, which
        // keeps to the same rules; there is room for two more values than a function has arguments.
        unsafe {
            ffi::lua_pushvalue(self.state, SHARED);
            ffi::lua_insert(self.state, 1);
            ffi::lua_pushlightuserdata(self.state, (&raw const *native).cast_mut().cast());
            ffi::lua_insert(self.state, 1);
            ffi::lua_pushcclosure(self.state, run_native, ffi::lua_gettop(self.state));
        }
    }

    /// Pushes what the function has made ([`Shared::make`]).
    pub fn push_made(self) {
        // SAFETY: nothing else is made until it is on the stack.
        let made = unsafe { &*self.shared.made() };
        self.stack.push_text(made);
        self.note_made(made.len());
        self.shared.forget_large();
    }

    /// Records that this many bytes have been made for the script.
    pub fn note_made(self, bytes: usize) {
        if bytes >= pacing::LONG {
            // SAFETY: Lua runs this function.
            unsafe { pacing::look_soon(self.state) }
        }
    }
}

unsafe extern "C-unwind" fn run_native(state: *mut lua_State) -> c_int {
    /// A panic must not pass Lua's frames: in a function that cannot unwind it ends the process.
    unsafe extern "C" fn run(state: *mut lua_State) -> c_int {
        // SAFETY: `add` or `push_closure` made the function's own values. A native function lives for ever, and what
        // it shares as long as the state; its frames own nothing.
        let (native, call) = unsafe {
            let shared = &*ffi::lua_touserdata(state, SHARED).cast::<Shared>();
            let native = &*ffi::lua_touserdata(state, ITSELF).cast::<Native>();
            (native, Call { stack: Stack::new(state), shared, state })
        };
        (native.run)(call).unwrap_or_else(|failed| raising::raise(call.stack, call.shared, native.name, failed))
    }
    // SAFETY: Lua runs this with a state.
    unsafe { run(state) }
}

/// A function of C with values of its own.
fn closure(lua: &Lua, function: lua_CFunction, values: impl IntoLuaMulti) -> Result<Function> {
    // SAFETY: a protected call, which passes the values and nothing else; `function` keeps to Lua's rules for such.
    unsafe { lua.exec_raw(values, |state| ffi::lua_pushcclosure(state, function, ffi::lua_gettop(state))) }
}

unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua runs this with a state, and `add_calls` made it.
    unsafe { answered(state, Kind::Call) }
}

unsafe extern "C-unwind" fn protected_call(state: *mut lua_State) -> c_int {
    // SAFETY: as in `call`.
    unsafe { answered(state, Kind::ProtectedCall) }
}

unsafe extern "C-unwind" fn check(state: *mut lua_State) -> c_int {
    // SAFETY: as in `call`.
    unsafe { answered(state, Kind::Check) }
}

/// # Safety
/// Lua runs the function of C that calls this, which `add_calls` made.
unsafe fn answered(state: *mut lua_State, kind: Kind) -> c_int {
    // SAFETY: the state lives while its function runs, so what its first own value points at does; the frames of the
    // function own nothing. The arguments are read before they are removed.
    let (shared, stack) =
        unsafe { (&*ffi::lua_touserdata(state, lua_upvalueindex(1)).cast::<Shared>(), Stack::new(state)) };
    let answer = without_panic(|| shared.answer(kind, stack));
    stack.clear();
    // SAFETY: nothing writes the reply before the next call.
    let reply = unsafe { &*shared.reply() };
    match answer {
        Answer::Reply => {
            conversions::push_reply(stack, reply);
            if reply.len() >= pacing::LONG {
                // SAFETY: as above.
                unsafe { pacing::look_soon(state) }
            }
        }
        Answer::Yes => stack.push_boolean(true),
        Answer::No => stack.push_boolean(false),
        Answer::Error { is_counted, is_raised } => {
            raising::push_error(stack, reply, is_counted);
            if is_raised {
                // SAFETY: the error is on the stack, and the frames that are left own nothing.
                unsafe { ffi::lua_error(state) }
            }
        }
    }
    1
}

/// Runs what a script asks of Rust: a panic must not pass Lua's frames.
pub fn without_panic<R>(act: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| std::process::abort())
}

/// Runs programs in the sandbox.
pub struct Runner(Function);

/// A program to run, and where its reply is written if it is no table.
pub struct Run<'a, 'b> {
    /// `KEYS`, or the first argument of a function.
    pub keys: Args<'a>,
    /// `ARGV`, or the second argument of a function.
    pub arguments: Args<'a>,
    /// Whether it is a function, to be called with these.
    pub is_function: bool,
    /// Whether it must be given the environment of scripts again.
    pub needs_environment: bool,
    /// The protocol that the script has chosen for itself.
    pub shared: &'a Shared,
    /// Where its reply is written.
    pub reply: &'a mut Reply<'b>,
}

/// How a program has ended.
pub enum Ended {
    /// Its reply is written.
    Replied,
    /// It returned this table.
    Returned(Value),
    /// It failed with this error.
    Failed(Value),
}

/// The own values of the function of a [`Runner`].
const GLOBALS: c_int = lua_upvalueindex(1);
const ENVIRONMENT: c_int = lua_upvalueindex(2);
const HANDLED: c_int = lua_upvalueindex(3);
const KEYS: c_int = lua_upvalueindex(4);
const ARGV: c_int = lua_upvalueindex(5);

impl Runner {
    /// Runs programs in this environment, which falls back to these globals. `handled` turns an error into what clients
    /// see.
    pub fn new(lua: &Lua, globals: &Table, environment: &Table, handled: &Function) -> Result<Self> {
        Ok(Self(closure(lua, enter, (globals, environment, handled, "KEYS", "ARGV"))?))
    }

    /// Runs a program.
    pub fn run(&self, program: &Function, mut run: Run<'_, '_>) -> Result<Ended> {
        let address = LightUserData((&raw mut run).cast::<c_void>());
        Ok(match self.0.call::<(Option<bool>, Value)>((program, address))? {
            (None, _) => Ended::Replied,
            (Some(true), value) => Ended::Returned(value),
            (Some(false), value) => Ended::Failed(value),
        })
    }
}

/// The arguments are the function to run and the address of a [`Run`]. The results are none if the reply is written, or
/// whether it succeeded and a value.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    const FUNCTION: c_int = 1;
    const HANDLER: c_int = 2;
    const RESULT: c_int = 3;
    // SAFETY: `Runner::run` calls this with the address of what it owns; `Runner::new` made its own values; the frames
    // here own nothing.
    unsafe {
        let run = &mut *ffi::lua_touserdata(state, 2).cast::<Run<'_, '_>>();
        let stack = Stack::new(state);
        ffi::lua_settop(state, FUNCTION);
        ffi::lua_pushvalue(state, HANDLED);
        if run.needs_environment {
            ffi::lua_pushvalue(state, ENVIRONMENT);
            ffi::lua_setfenv(state, FUNCTION);
        }
        if !run.is_function {
            set_globals(state, stack, Some((run.keys, run.arguments)));
        }
        ffi::lua_pushvalue(state, FUNCTION);
        let mut arguments = 0;
        if run.is_function {
            push_list(stack, run.keys);
            push_list(stack, run.arguments);
            arguments = 2;
        }
        let status = ffi::lua_pcall(state, arguments, 1, HANDLER);
        if !run.is_function {
            set_globals(state, stack, None);
        }
        let value = stack.plain(RESULT);
        if status == ffi::LUA_OK && value != Plain::Table {
            without_panic(|| write_plain(value, run.shared.is_resp3.get(), run.reply));
            return 0;
        }
        stack.push_boolean(status == ffi::LUA_OK);
        ffi::lua_insert(state, RESULT);
        2
    }
}

/// Sets `KEYS` and `ARGV`, or removes them.
///
/// # Safety
/// In [`enter`].
unsafe fn set_globals(state: *mut lua_State, stack: Stack, lists: Option<(Args<'_>, Args<'_>)>) {
    for (name, list) in [(KEYS, lists.map(|(keys, _)| keys)), (ARGV, lists.map(|(_, arguments)| arguments))] {
        // SAFETY: by the contract.
        unsafe {
            ffi::lua_pushvalue(state, name);
            match list {
                Some(list) => push_list(stack, list),
                None => stack.push_nil(),
            }
            ffi::lua_rawset(state, GLOBALS);
        }
    }
}

fn push_list(stack: Stack, args: Args<'_>) {
    stack.push_table(args.len(), 0);
    for (position, arg) in (1..).zip(args.iter()) {
        stack.push_text(arg);
        stack.set_element(position);
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::resp::Span;
    use crate::scripting::busy::{Busy, Registered, Watchdog};
    use crate::scripting::calls::{Calls, with_calls};
    use mlua::Error;
    use std::borrow::Cow;
    use std::sync::Arc;

    /// Replies what it is given, as it is.
    struct Echo;

    impl Calls for Echo {
        fn call(
            &mut self,
            args: Args<'_>,
            _: bool,
            _: &Watchdog,
            out: &mut Vec<u8>,
        ) -> std::result::Result<(), Cow<'static, str>> {
            out.extend_from_slice(&args[0]);
            Ok(())
        }

        fn check(&self, args: Args<'_>) -> Option<bool> {
            (&args[0] == b"get").then_some(true)
        }
    }

    struct State {
        lua: Lua,
        runner: Runner,
        shared: Rc<Shared>,
    }

    impl State {
        fn new() -> Self {
            let lua = Lua::new();
            let shared = Rc::<Shared>::default();
            *shared.watchdog.borrow_mut() =
                Some(Watchdog::of_script(&Registered::new(&Arc::<Busy>::default()), [b'a'; 40]));
            add_calls(&lua, &lua.globals(), &shared).unwrap();
            let handled = lua.create_function(|_, error: Value| Ok(error)).unwrap();
            let runner = Runner::new(&lua, &lua.globals(), &lua.globals(), &handled).unwrap();
            Self { lua, runner, shared }
        }

        /// What a script replies to these arguments, or its error.
        fn run(&self, code: &str, arguments: &[&[u8]]) -> Result<String> {
            let (mut bytes, mut spans) = (Vec::new(), Vec::new());
            for argument in arguments {
                spans.push(Span::new(bytes.len(), argument.len()));
                bytes.extend_from_slice(argument);
            }
            let arguments = Args::new(&bytes, &spans);
            let mut out = Vec::new();
            let run = Run {
                keys: arguments.to(0),
                arguments,
                is_function: false,
                needs_environment: false,
                shared: &self.shared,
                reply: &mut Reply::new(&mut out, false),
            };
            let program = self.lua.load(code).into_function()?;
            let ended = with_calls(&mut Echo, || self.runner.run(&program, run))?;
            Ok(match ended {
                Ended::Replied => String::from_utf8(out).unwrap(),
                Ended::Returned(_) => "a table".into(),
                Ended::Failed(Value::Table(error)) => format!("-{}", error.raw_get::<String>("err")?),
                Ended::Failed(error) => format!("-{}", error.to_string()?),
            })
        }
    }

    #[test]
    fn a_call_raises_errors_and_a_protected_one_returns_them() {
        let state = State::new();
        let run = |code: &str, argument: &str| state.run(code, &[argument.as_bytes()]).unwrap();
        assert_eq!(run("return call(ARGV[1])", "$2\r\nhi\r\n"), "$2\r\nhi\r\n");
        assert_eq!(run("return call(ARGV[1])", "-WRONG kind\r\n"), "-WRONG kind");
        assert_eq!(run("return pcall(ARGV[1]).err", "-WRONG\r\n"), "$9\r\nERR WRONG\r\n");
        assert_eq!(run("return pcall(ARGV[1])", "-WRONG kind\r\n"), "a table");
        assert_eq!(run("return acl_check_cmd('get')", ""), ":1\r\n");
        assert_eq!(run("return acl_check_cmd('got')", ""), "-ERR Invalid command passed to redis.acl_check_cmd()");
        assert_eq!(
            run("return pcall({}).err", ""),
            "$63\r\nERR Lua redis lib command arguments must be strings or integers\r\n"
        );
        assert_eq!(run("return KEYS[1]", ""), "$-1\r\n");
    }

    #[test]
    fn memory_that_ends_while_values_are_made_is_an_error_and_the_state_goes_on() {
        let state = State::new();
        // Lua keeps equal texts once.
        let large = |letter| vec![letter; 1 << 20];
        let reply = |letter| [b"$1048576\r\n", &*large(letter), b"\r\n"].concat();
        let array = [&b"*3\r\n"[..], &reply(b'a'), &reply(b'b'), &reply(b'c')].concat();
        for _ in 0..3 {
            let limit = state.lua.used_memory() + (5 << 19);
            // The arguments of the script.
            state.lua.set_memory_limit(limit).unwrap();
            let failed = state.run("return 1", &[&large(b'a'), &large(b'b'), &large(b'c')]).unwrap_err();
            assert!(matches!(failed, Error::MemoryError(_)), "{failed}");
            state.lua.set_memory_limit(limit + array.len()).unwrap();
            assert_eq!(state.run("return call(ARGV[1])", &[&array]).unwrap(), "-not enough memory");
            assert_eq!(state.run("return call(ARGV[1])", &[b":7\r\n"]).unwrap(), ":7\r\n");
            state.lua.set_memory_limit(0).unwrap();
            state.lua.gc_collect().unwrap();
        }
    }

    #[test]
    fn nil_is_no_member_of_a_set_and_a_deep_reply_finds_room() {
        let state = State::new();
        let failed = state.run("return call(ARGV[1])", &[b"~1\r\n_\r\n"]).unwrap();
        assert!(failed.contains("index is nil"), "{failed}");
        let deep = "*1\r\n".repeat(500) + ":1\r\n";
        assert_eq!(state.run("return call(ARGV[1])", &[deep.as_bytes()]).unwrap(), "a table");
    }
}
