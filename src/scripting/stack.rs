//! Lua's stack, by Lua's own functions of C.
//!
//! What every script and every command in it passes through is converted here; everything else goes through mlua, which
//! holds each value by a reference and makes each in a protected call.

#![allow(unsafe_code)]

use super::raising::OWN_CHUNK;
use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{FromLuaMulti, IntoLuaMulti, Lua, Result};
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr::{self, null_mut};

/// The stack of the function of C that Lua is running.
///
/// What puts a value on it may find no memory, and then leaves for the last protected call by `longjmp`.
#[derive(Clone, Copy)]
pub struct Stack(*mut lua_State);

/// A value of Lua, as far as commands know such values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Plain<'a> {
    /// A text.
    Text(&'a [u8]),
    /// A number.
    Number(f64),
    /// A truth value.
    Boolean(bool),
    /// A table.
    Table,
    /// Nil, a function, a coroutine.
    Other,
}

impl Stack {
    /// The stack of a state.
    ///
    /// # Safety
    /// It is used only while Lua runs the function that it is the stack of, and inside a protected call. Where values
    /// are put on it, or converted, or called, the frames up to that call own nothing that must be dropped. Texts that
    /// are read from it are used only while their values are on it.
    pub unsafe fn new(state: *mut lua_State) -> Self {
        Self(state)
    }

    /// How many values there are.
    pub fn len(self) -> c_int {
        // SAFETY: the state lives, by the contract of `new`.
        unsafe { ffi::lua_gettop(self.0) }
    }

    /// The value at an index, which is not converted.
    pub fn plain<'a>(self, index: c_int) -> Plain<'a> {
        // SAFETY: the state lives. A text is used while it is on the stack, by the contract of `new`; Lua does not move
        // it, and `lua_tolstring` makes nothing of what is a text.
        unsafe {
            match ffi::lua_type(self.0, index) {
                ffi::LUA_TSTRING => {
                    let mut len = 0;
                    let text = ffi::lua_tolstring(self.0, index, &raw mut len);
                    Plain::Text(std::slice::from_raw_parts(text.cast(), len))
                }
                ffi::LUA_TNUMBER => Plain::Number(ffi::lua_tonumber(self.0, index)),
                ffi::LUA_TBOOLEAN => Plain::Boolean(ffi::lua_toboolean(self.0, index) != 0),
                ffi::LUA_TTABLE => Plain::Table,
                _ => Plain::Other,
            }
        }
    }

    /// The value at an index as a text, which a number there becomes.
    pub fn text<'a>(self, index: c_int) -> Option<&'a [u8]> {
        let mut len = 0;
        // SAFETY: as in `plain`; what makes a text of a number may leave frames that own nothing.
        unsafe {
            let text = ffi::lua_tolstring(self.0, index, &raw mut len);
            (!text.is_null()).then(|| std::slice::from_raw_parts(text.cast(), len))
        }
    }

    /// The value at an index as a number, if it is one or a text of one.
    pub fn number(self, index: c_int) -> Option<f64> {
        // SAFETY: the state lives.
        unsafe {
            let number = ffi::lua_tonumber(self.0, index);
            // It is zero, too, where there is no number.
            (number != 0.0 || ffi::lua_isnumber(self.0, index) != 0).then_some(number)
        }
    }

    /// Whether the value at an index counts as true; one that is not there does not.
    pub fn is_true(self, index: c_int) -> bool {
        // SAFETY: the state lives.
        unsafe { ffi::lua_toboolean(self.0, index) != 0 }
    }

    /// Whether the value at an index is nil, or not there.
    pub fn is_missing(self, index: c_int) -> bool {
        // SAFETY: the state lives.
        unsafe { ffi::lua_isnoneornil(self.0, index) != 0 }
    }

    /// Whether the value at an index is a function.
    pub fn is_function(self, index: c_int) -> bool {
        // SAFETY: the state lives.
        unsafe { ffi::lua_type(self.0, index) == ffi::LUA_TFUNCTION }
    }

    /// Removes all values.
    pub fn clear(self) {
        self.set_len(0);
    }

    /// Removes the values after this many, or adds nils up to there.
    pub fn set_len(self, values: c_int) {
        // SAFETY: the state lives; the arguments of a function are few, and it has room for a few more.
        unsafe { ffi::lua_settop(self.0, values) }
    }

    /// Makes room for this many values, or raises an error.
    pub fn reserve(self, values: c_int) {
        // SAFETY: the state lives; frames that are left own nothing, by the contract of `new`.
        unsafe { ffi::luaL_checkstack(self.0, values, c"too many nested values".as_ptr()) }
    }

    /// Makes room for this many values, or returns false: a function has some 8,000.
    pub fn has_room(self, values: c_int) -> bool {
        // SAFETY: as in `reserve`.
        unsafe { ffi::lua_checkstack(self.0, values) != 0 }
    }

    /// Whether the value at an index is nil, or the null of JSON: an address, which is none.
    pub fn is_null(self, index: c_int) -> bool {
        // SAFETY: the state lives.
        unsafe {
            match ffi::lua_type(self.0, index) {
                ffi::LUA_TNIL => true,
                ffi::LUA_TLIGHTUSERDATA => ffi::lua_touserdata(self.0, index).is_null(),
                _ => false,
            }
        }
    }

    /// The name of the type of the value at an index.
    pub fn type_name(self, index: c_int) -> &'static str {
        // SAFETY: the state lives; the names of types are constants of Lua.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(self.0, ffi::lua_type(self.0, index))) };
        name.to_str().expect("the names of Lua's types are ASCII")
    }

    /// Removes a key, and pushes the next key of the table at an index and its value; nothing at its end. The key is
    /// nil for the first, or one of the table: for any other, this raises an error.
    pub fn next(self, table: c_int) -> bool {
        // SAFETY: as in `reserve`; the callers have pushed a key.
        unsafe { ffi::lua_next(self.0, table) != 0 }
    }

    /// Pushes an element of the table at an index.
    pub fn push_element(self, table: c_int, position: c_int) {
        // SAFETY: the state lives; there is room, as the callers have made sure.
        unsafe { ffi::lua_rawgeti_(self.0, table, position) }
    }

    /// How many elements the table at an index has, by the operator `#`.
    pub fn elements(self, table: c_int) -> c_int {
        // SAFETY: the state lives.
        let elements = unsafe { ffi::lua_rawlen(self.0, table) };
        c_int::try_from(elements).unwrap_or(c_int::MAX)
    }

    /// Pushes the null of JSON.
    pub fn push_null(self) {
        // SAFETY: as in `push_nil`.
        unsafe { ffi::lua_pushlightuserdata(self.0, null_mut()) }
    }

    /// Pushes nil.
    pub fn push_nil(self) {
        // SAFETY: as in `reserve`; there is room for the results of a function and a few more.
        unsafe { ffi::lua_pushnil(self.0) }
    }

    /// Pushes a truth value.
    pub fn push_boolean(self, value: bool) {
        // SAFETY: as in `push_nil`.
        unsafe { ffi::lua_pushboolean(self.0, c_int::from(value)) }
    }

    /// Pushes a number.
    pub fn push_number(self, value: f64) {
        // SAFETY: as in `push_nil`.
        unsafe { ffi::lua_pushnumber(self.0, value) }
    }

    /// Pushes a text.
    pub fn push_text(self, bytes: &[u8]) {
        // SAFETY: as in `push_nil`; Lua copies the bytes.
        unsafe { ffi::lua_pushlstring_(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len()) }
    }

    /// Pushes a table with room for this many elements and fields.
    pub fn push_table(self, elements: usize, fields: usize) {
        let counted = |count: usize| c_int::try_from(count).unwrap_or(c_int::MAX);
        // SAFETY: as in `push_nil`.
        unsafe { ffi::lua_createtable(self.0, counted(elements), counted(fields)) }
    }

    /// Pushes the value at an index again.
    pub fn push_copy(self, index: c_int) {
        // SAFETY: as in `push_nil`.
        unsafe { ffi::lua_pushvalue(self.0, index) }
    }

    /// Replaces the last value, a key, by what the table at an index has for it, as a script would see it.
    pub fn index(self, table: c_int) {
        // SAFETY: as in `push_nil`; the callers have pushed a key.
        unsafe { _ = ffi::lua_gettable(self.0, table) }
    }

    /// Calls the function before the last values, which are its arguments, and replaces all of them by one result.
    pub fn call(self, arguments: c_int) {
        // SAFETY: as in `push_nil`; the callers have pushed a function and its arguments.
        unsafe { ffi::lua_call(self.0, arguments, 1) }
    }

    /// Removes the last value, and puts it in the place of that at an index.
    pub fn replace(self, index: c_int) {
        // SAFETY: the state lives; the callers have pushed a value.
        unsafe { ffi::lua_replace(self.0, index) }
    }

    /// Raises the last value as an error.
    pub fn raise(self) -> ! {
        // SAFETY: the callers have pushed a value; frames that are left own nothing, by the contract of `new`.
        unsafe { ffi::lua_error(self.0) }
    }

    /// The function at a level of the calls: 0 is the running one, 1 its caller.
    pub fn level(self, level: c_int) -> Option<Level> {
        // SAFETY: the state lives. All zeros are a value of this type, whose texts Lua sets.
        unsafe {
            let mut debug: lua_Debug = MaybeUninit::zeroed().assume_init();
            if ffi::lua_getstack(self.0, level, &raw mut debug) == 0
                || ffi::lua_getinfo(self.0, c"nSl".as_ptr(), &raw mut debug) == 0
            {
                return None;
            }
            Some(Level {
                is_own: CStr::from_ptr(debug.source).to_bytes() == OWN_CHUNK.as_bytes(),
                is_method: CStr::from_ptr(debug.namewhat) == c"method",
                // A character of C is signed on x86_64, and unsigned on aarch64.
                shown: debug.short_src.map(|character| character.to_ne_bytes()[0]),
                line: u32::try_from(debug.currentline).ok(),
            })
        }
    }

    /// Removes the last value.
    pub fn pop(self) {
        // SAFETY: the state lives; the callers have pushed a value.
        unsafe { ffi::lua_pop(self.0, 1) }
    }

    /// Replaces the last two texts by one.
    pub fn join_two(self) {
        // SAFETY: as in `push_nil`; the callers have pushed two texts.
        unsafe { ffi::lua_concat(self.0, 2) }
    }

    /// Makes the last value an element of the table before it, and removes it.
    pub fn set_element(self, position: usize) {
        let position = c_int::try_from(position).unwrap_or(c_int::MAX);
        // SAFETY: as in `push_nil`; the callers have pushed a table and a value.
        unsafe { ffi::lua_rawseti_(self.0, -2, position) }
    }

    /// Makes the last value an element of the table at an index, and removes it.
    pub fn set_element_of(self, table: c_int, position: c_int) {
        // SAFETY: as in `push_nil`; the callers have pushed a value.
        unsafe { ffi::lua_rawseti_(self.0, table, position) }
    }

    /// Makes the last two values a key and its value in the table before them, and removes them; an error if the key is
    /// nil.
    pub fn set_field(self) {
        // SAFETY: as in `push_nil`; the callers have pushed a table, a key and a value.
        unsafe { ffi::lua_rawset(self.0, -3) }
    }
}

/// A function among the calls.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// Whether it belongs to no script.
    pub is_own: bool,
    /// Whether it was called as a method.
    pub is_method: bool,
    /// The line that it runs; `None` in a function of Rust or C.
    pub line: Option<u32>,
    /// The name of its chunk as shown in errors, up to a NUL.
    shown: [u8; 60],
}

impl Level {
    /// The name of its chunk as shown in errors.
    pub fn shown(&self) -> &[u8] {
        self.shown.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// How many bytes a function gathers in its frame.
const FEW: usize = 512;

/// Bytes that a function gathers while it calls others, which may leave it: in its frame while they are few, then in
/// Lua's memory.
pub struct Gathered {
    stack: Stack,
    /// The place on the stack of what keeps that memory.
    place: c_int,
    few: [MaybeUninit<u8>; FEW],
    /// The memory; null while the bytes are in the frame.
    many: *mut u8,
    /// Invariant: this many bytes of the frame or of the memory are initialized.
    len: usize,
    /// Invariant: at least `len`, and as many bytes as the frame or the memory has.
    capacity: usize,
}

impl Gathered {
    /// None yet. This takes the next place on the stack.
    pub fn new(stack: Stack) -> Self {
        stack.push_nil();
        let few = [MaybeUninit::uninit(); FEW];
        Self { stack, place: stack.len(), few, many: null_mut(), len: 0, capacity: FEW }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        if bytes.len() > self.capacity - self.len {
            self.grow(bytes.len());
        }
        // SAFETY: there is room by now. What is added is not part of this, which is borrowed for a change.
        unsafe {
            let start = if self.many.is_null() { self.few.as_mut_ptr().cast() } else { self.many };
            ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(self.len), bytes.len());
        }
        self.len += bytes.len();
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let capacity = (2 * self.capacity).max(self.len + more);
        // SAFETY: frames that are left own nothing, by the contract of `Stack::new`; there is room for a value, which
        // keeps the memory. Lua does not move it.
        unsafe {
            let many = ffi::lua_newuserdata(self.stack.0, capacity).cast::<u8>();
            ptr::copy_nonoverlapping(self.start(), many, self.len);
            self.many = many;
        }
        self.capacity = capacity;
        self.stack.replace(self.place);
    }

    fn start(&self) -> *const u8 {
        if self.many.is_null() { self.few.as_ptr().cast() } else { self.many }
    }

    /// Pushes them as a text.
    pub fn push(&self) {
        // SAFETY: so many are initialized.
        self.stack.push_text(unsafe { std::slice::from_raw_parts(self.start(), self.len) });
    }
}

/// What `push` leaves on a stack on which these values are: one protected call, however many values it makes. What
/// it makes besides is in `context`, which an error of Lua does not leave behind.
pub fn made<C, V: FromLuaMulti>(
    lua: &Lua,
    values: impl IntoLuaMulti,
    context: &mut C,
    push: fn(&mut C, Stack),
) -> Result<V> {
    // SAFETY: this is a protected call, and a reference and a function own nothing.
    unsafe { lua.exec_raw(values, |state| push(context, Stack::new(state))) }
}
