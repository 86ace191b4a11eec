//! How often the time of a running script is looked at: a hook counts Lua's instructions.
//!
//! An instruction takes as long as it has bytes to handle: `s .. 'b'` copies a text, `table.insert(t, 1, x)` moves what
//! is in a table, `next` passes its vacant places. None handles more than the memory of its state. So the more of that
//! is in use, the fewer instructions are between two looks. Memory may grow within few instructions (`s = s .. s`):
//! then Lua's collector runs, and finalizes an object that is there for that.

#![allow(unsafe_code)]

use super::calls::Shared;
use super::natives::{Call, Native, without_panic};
use super::raising::{self, Outcome};
use super::stack::Stack;
use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{LightUserData, Lua, Result};
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The most instructions between two looks.
const INSTRUCTIONS_MAX: c_int = 1000;
/// The product of the instructions between two looks and the memory in use, in KB. Lua copies some gigabytes a second,
/// changes the case of a quarter of one, and every third instruction of a loop may be such: some tenths of a second.
const INSTRUCTIONS_KB: c_int = 256 * 1024;

/// By what that is multiplied where instructions are short: each time that they were, by two, up to this.
const FACTOR_MAX: c_int = 8;
/// Instructions between two looks are short if they take no longer than this.
const SHORT: Duration = Duration::from_millis(1);

/// How long instructions have taken.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    factor: c_int,
    looked: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { factor: 1, looked: None }
    }
}

impl Pace {
    /// The pace after the next look, at this time.
    fn next(self, now: Instant) -> Self {
        let is_short = self.looked.is_some_and(|looked| now.saturating_duration_since(looked) <= SHORT);
        let factor = if is_short { (2 * self.factor).min(FACTOR_MAX) } else { 1 };
        Self { factor, looked: Some(now) }
    }
}

/// What a function has made is long from this many bytes on: memory has grown, and is looked at soon.
pub const LONG: usize = 1 << 16;

/// What the sandbox calls.
pub static FUNCTIONS: [Native; 1] = [Native { name: "note_long_made", run: note_long_made }];

/// It has made a long text.
fn note_long_made(call: Call<'_>) -> Outcome<c_int> {
    call.note_made(LONG);
    Ok(0)
}

/// The key of the registry under which a state keeps the address of what its functions share: the address of this.
static KEY: u8 = 0;

fn key() -> *mut c_void {
    (&raw const KEY).cast_mut().cast()
}

/// Begins to look at the time of what runs in a state, and in its coroutines.
///
/// # Panics
/// If the state does not keep what is shared: see [`natives`](super::natives).
pub fn begin(lua: &Lua, shared: &Rc<Shared>) -> Result<()> {
    let is_kept = lua.app_data_ref::<Rc<Shared>>().is_some_and(|kept| Rc::ptr_eq(&kept, shared));
    assert!(is_kept, "the hook points at what the state keeps");
    let address = LightUserData(Rc::as_ptr(shared).cast_mut().cast());
    // SAFETY: a protected call, with one value on the stack and room for more. New coroutines inherit the hook.
    unsafe {
        lua.exec_raw(address, |state| {
            ffi::lua_pushlightuserdata(state, key());
            ffi::lua_insert(state, 1);
            ffi::lua_rawset(state, ffi::LUA_REGISTRYINDEX);
            ffi::lua_sethook(state, Some(look), ffi::LUA_MASKCOUNT, INSTRUCTIONS_MAX);
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_pushcfunction(state, collected);
            ffi::lua_setfield(state, 1, c"__gc".as_ptr());
            add_sentinel(state);
        })
    }
}

/// Ends that, before what is shared is dropped: the state finalizes its objects when it is closed.
pub fn end(lua: &Lua) -> Result<()> {
    // SAFETY: as in `begin`.
    unsafe {
        lua.exec_raw((), |state| {
            ffi::lua_pushlightuserdata(state, key());
            ffi::lua_pushnil(state);
            ffi::lua_rawset(state, ffi::LUA_REGISTRYINDEX);
        })
    }
}

/// Adds an object to which nothing refers, with the metatable at the first place of the stack: the next collection
/// finalizes it.
///
/// # Safety
/// In a protected call, or a function that Lua runs.
unsafe fn add_sentinel(state: *mut lua_State) {
    // SAFETY: there is room for two values; nothing is to be dropped where memory is short.
    unsafe {
        ffi::lua_newuserdata(state, 0);
        ffi::lua_pushvalue(state, 1);
        ffi::lua_setmetatable(state, -2);
        ffi::lua_pop(state, 1);
    }
}

/// The collector has run because memory has grown, in the coroutine that runs.
unsafe extern "C-unwind" fn collected(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with the object alone, which has a metatable.
    unsafe {
        look_soon(state);
        ffi::lua_getmetatable(state, 1);
        ffi::lua_replace(state, 1);
        add_sentinel(state);
    }
    0
}

/// Makes the next instruction look at the time, and at the memory: a function has made much of that.
///
/// # Safety
/// Lua runs a function of the state.
pub unsafe fn look_soon(state: *mut lua_State) {
    // SAFETY: the state lives. Lua allows this at any time. There is room for a value.
    unsafe {
        ffi::lua_sethook(state, Some(look), ffi::LUA_MASKCOUNT, 1);
        if let Some(shared) = shared_of(state) {
            shared.pace.take();
        }
    }
}

/// What the functions of a state share, if [`begin`] was called for it.
///
/// # Safety
/// Lua runs a function of the state, or a hook; what is returned is not used afterwards.
unsafe fn shared_of<'a>(state: *mut lua_State) -> Option<&'a Shared> {
    // SAFETY: there is room for a value, and nobody but `begin` puts something under this key.
    unsafe {
        ffi::lua_pushlightuserdata(state, key());
        ffi::lua_rawget(state, ffi::LUA_REGISTRYINDEX);
        let shared = ffi::lua_touserdata(state, -1).cast::<Shared>();
        ffi::lua_pop(state, 1);
        shared.as_ref()
    }
}

unsafe extern "C-unwind" fn look(state: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: Lua calls this with a state, and with room for some values. The frames here own nothing when the error is
    // raised.
    unsafe {
        let Some(shared) = shared_of(state) else {
            // Nobody has begun it.
            ffi::lua_sethook(state, None, 0, 0);
            return;
        };
        let now = Instant::now();
        let pace = shared.pace.get().next(now);
        shared.pace.set(pace);
        let memory_kb = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0);
        let instructions = (INSTRUCTIONS_KB / memory_kb.max(1)).clamp(1, INSTRUCTIONS_MAX) * pace.factor;
        ffi::lua_sethook(state, Some(look), ffi::LUA_MASKCOUNT, instructions.min(INSTRUCTIONS_MAX));
        if let Err(reason) = without_panic(|| shared.look_at(now)) {
            let stack = Stack::new(state);
            raising::push_error(stack, reason.as_bytes(), false);
            stack.raise()
        }
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::resp::{Args, Reply};
    use crate::scripting::busy::Watchdog;
    use crate::scripting::calls::Calls;
    use crate::scripting::interpreter::{Finished, Program, run};
    use crate::scripting::{Script, Scripting, sha_of};
    use std::borrow::Cow;
    use std::sync::Arc;

    /// What prepares something that takes long, and that. Where it does not fail by itself in the end, what follows
    /// does: it is of few instructions, so that nothing but the long call leads to a look.
    const CASES: [(&str, &str); 15] = [
        ("", "for i = 1, 1000 do end"),
        ("local t = {} for i = 1, 5000 do t[i] = i end", "table.sort(t)"),
        ("local t = {} for i = 1, 20000 do t[i] = i end t[20001] = {}", "table.concat(t)"),
        ("local t = {} for i = 1, 20000 do t[i] = i end", "table.insert(t, 1, 1)"),
        ("local s = string.rep('a', 200000)", "string.find(s, '^.-%z')"),
        (
            "local x = string.rep('x', 25000) local s = x .. 'y' .. string.rep(x, 80)",
            "s:find('^(x*)y' .. ('%1'):rep(80))",
        ),
        ("local s = string.rep('a', 200000) .. 'b'", "string.gsub(s, '.', { a = 'a', b = true })"),
        ("", "string.rep('a', 100000)"),
        ("local s = string.rep('a', 100000)", "redis.call('ECHO', s)"),
        ("local t = {} for i = 1, 100 do t[i] = string.rep('x', 65536) end", "do return t end"),
        ("local t = {} for i = 1, 2000 do t[i] = i end t[2001] = type", "cjson.encode(t)"),
        ("local s = '[' .. string.rep('1,', 2000)", "cjson.decode(s)"),
        ("local t = {} for i = 1, 2000 do t[i] = i end", "cmsgpack.pack(t)"),
        ("local s = string.rep(cmsgpack.pack(1), 2000)", "cmsgpack.unpack(s)"),
        ("local s = 'return 1 ' .. string.rep(' ', 70000) .. ' +'", "loadstring(s)"),
    ];

    /// A server that ends when a script calls a command, or does not.
    struct Ending<'a>(Option<&'a Scripting>);

    impl Calls for Ending<'_> {
        fn call(
            &mut self,
            _: Args<'_>,
            _: bool,
            _: &Watchdog,
            out: &mut Vec<u8>,
        ) -> std::result::Result<(), Cow<'static, str>> {
            self.0.inspect(|scripting| scripting.busy.end());
            out.extend_from_slice(b"+OK\r\n");
            Ok(())
        }

        fn check(&self, _: Args<'_>) -> Option<bool> {
            None
        }
    }

    /// With which error a call ends, where the server ends before it or does not.
    fn error_of(prepare: &str, call: &str, ends: bool) -> String {
        let scripting = Arc::new(Scripting::default());
        // After a collection neither the collector nor the count of instructions soon leads to a look.
        let body = format!("{prepare} collectgarbage() redis.call('PING') {call} error('went on')");
        let script = Script::parse(sha_of(body.as_bytes()), body.as_bytes()).unwrap();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, false);
        let mut calls = Ending(ends.then_some(&*scripting));
        let none = || Args::new(&[], &[]);
        match run(&scripting, Program::Script(&script), none(), none(), &mut calls, &mut reply).unwrap() {
            Finished::Failed { error, .. } => error,
            Finished::Replied => "no error".to_owned(),
        }
    }

    #[test]
    fn whatever_takes_long_looks_whether_the_script_must_end() {
        const ENDED: &str = "Script killed by user";
        for (prepare, call) in CASES {
            let by_itself = error_of(prepare, call, false);
            assert!(!by_itself.contains(ENDED), "{call} ends by itself with {by_itself:?}");
            let ended = error_of(prepare, call, true);
            assert!(ended.contains(ENDED), "{call} does not look, and ends with {ended:?}");
        }
    }
}
