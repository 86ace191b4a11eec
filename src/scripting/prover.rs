//! The commands that a script calls, as far as its source shows them.
//!
//! A script that touches only the keys that its request declares needs only their shards. Whether it does is decided
//! from its words, before it runs: only for scripts that keep to a few plain forms. Every other script is lent all
//! shards. The forms:
//!
//! | of | only |
//! |---|---|
//! | `redis` | `redis.call('NAME', ...)` and `redis.pcall('NAME', ...)`, with a literal name; and functions without data, such as `redis.error_reply` |
//! | `KEYS` | `KEYS[...]`, with anything in the brackets, if it is not assigned to; and `#KEYS` |
//! | a key of a command | `KEYS[...]` by itself, or a local of which the whole script has one binding: `local a, b = KEYS[1], KEYS[2]` |
//! | the environment | nothing that reaches it by other names (`_G`, `getfenv`, `load` ...) |
//!
//! That is sufficient, since no script can change what the names of Lua and of `redis` stand for (`sandbox.lua`), and
//! no table of a script can be `KEYS` if `KEYS` is only used before a bracket. A word that only looks like one of
//! these, such as a field or a parameter of that name, excludes the script. Lua has compiled the source before, so its
//! words are a program. They are read in one pass each, without recursion: the source may be hostile.
//!
//! Nothing relies on this: each call of a script is also checked when it is made.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// The most bytes of a source that is read.
pub const PROVABLE_MAX: usize = 64 * 1024;
/// How many words are read again at most: a source may have deeply nested lists.
const LOOKS_MAX: usize = 200_000;

/// A command that a script calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticCall<'a> {
    /// The name of the command, as written.
    pub name: &'a [u8],
    /// Whether each argument, including the name, is a declared key.
    pub are_keys: Vec<bool>,
    /// Whether the last argument may stand for any number of arguments.
    pub is_open: bool,
}

/// All commands that a script calls, if its words show that it touches only declared keys provided that each of these
/// does. O(N), N = bytes
pub fn static_calls(source: &[u8]) -> Option<Vec<StaticCall<'_>>> {
    if source.len() > PROVABLE_MAX {
        return None;
    }
    let words = Words { words: words_of(source)?, looks_left: Cell::new(LOOKS_MAX) };
    let reaches_environment = |word: &Word<'_>| matches!(word, Word::Name(name) if FORBIDDEN.contains(name));
    if words.words.iter().any(reaches_environment) || !words.leave_keys_alone() {
        return None;
    }
    let locals = words.locals_of_keys();
    let mentions = (0..words.words.len()).filter(|&at| words.is_name(at, b"redis"));
    let calls: Result<_, NotPlain> = mentions.filter_map(|at| words.call_at(at, &locals).transpose()).collect();
    // A source that was not read to its end may contain anything.
    calls.ok().filter(|_| words.looks_left.get() > 0)
}

/// Names that lead to the environment, or to unprotected tables; and the one global that is a text.
const FORBIDDEN: [&[u8]; 10] = [
    b"_G",
    b"getfenv",
    b"setfenv",
    b"load",
    b"loadstring",
    b"getmetatable",
    b"setmetatable",
    b"rawset",
    b"debug",
    b"_VERSION",
];
/// Members of `redis` that neither touch data nor change what is called after them.
const HARMLESS: [&[u8]; 9] = [
    b"error_reply",
    b"status_reply",
    b"sha1hex",
    b"log",
    b"LOG_DEBUG",
    b"LOG_VERBOSE",
    b"LOG_NOTICE",
    b"LOG_WARNING",
    b"breakpoint",
];

/// The script does not keep to the forms.
struct NotPlain;

/// A word of Lua.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word<'a> {
    /// A name, or a keyword.
    Name(&'a [u8]),
    /// A text, as written, if that is its value.
    Text(Option<&'a [u8]>),
    Number,
    /// Anything else.
    Sign(&'a [u8]),
}

/// The words of a source; `None` if it has characters that Lua does not know.
fn words_of(source: &[u8]) -> Option<Vec<Word<'_>>> {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(&first) = rest.first() {
        let (word, len) = match first {
            b' ' | b'\t' | b'\r' | b'\n' | b'\x0b' | b'\x0c' => (None, 1),
            b'-' if rest.starts_with(b"--") => (None, comment_len(rest)?),
            b'[' if long_len(rest).is_some() => (Some(Word::Text(None)), long_len(rest).flatten()?),
            b'\'' | b'"' => {
                let len = text_len(rest)?;
                let text = &rest[1..len - 1];
                (Some(Word::Text((!text.contains(&b'\\')).then_some(text))), len)
            }
            b'0'..=b'9' => (Some(Word::Number), number_len(rest)),
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => (Some(Word::Number), number_len(rest)),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let len = len_while(rest, is_of_name);
                (Some(Word::Name(&rest[..len])), len)
            }
            _ => {
                let len = sign_len(rest)?;
                (Some(Word::Sign(&rest[..len])), len)
            }
        };
        words.extend(word);
        rest = &rest[len..];
    }
    Some(words)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn len_while(text: &[u8], holds: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&byte| !holds(byte)).unwrap_or(text.len())
}

fn comment_len(rest: &[u8]) -> Option<usize> {
    match long_len(&rest[2..]) {
        Some(len) => Some(2 + len?),
        None => Some(len_while(rest, |byte| byte != b'\n' && byte != b'\r')),
    }
}

/// The length of a text in long brackets that begins here, if one does; `Some(None)` if it does not end.
fn long_len(rest: &[u8]) -> Option<Option<usize>> {
    let level = len_while(rest.strip_prefix(b"[")?, |byte| byte == b'=');
    if rest.get(level + 1) != Some(&b'[') {
        return None;
    }
    let end = [b"]".as_slice(), &rest[1..=level], b"]"].concat();
    let body = &rest[level + 2..];
    Some(body.windows(end.len()).position(|window| window == end).map(|at| level + 2 + at + end.len()))
}

fn text_len(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    while rest.get(at)? != &rest[0] {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1)
}

/// As Lua reads a number: digits and points, an exponent with a sign, and the characters directly after it.
fn number_len(rest: &[u8]) -> usize {
    let mut len = len_while(rest, |byte| byte.is_ascii_digit() || byte == b'.');
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        len += 1;
        len += usize::from(matches!(rest.get(len), Some(b'+' | b'-')));
    }
    len + len_while(&rest[len..], is_of_name)
}

fn sign_len(rest: &[u8]) -> Option<usize> {
    let of_several = [b"...".as_slice(), b"..", b"==", b"~=", b"<=", b">="];
    match of_several.iter().find(|sign| rest.starts_with(sign)) {
        Some(sign) => Some(sign.len()),
        None => b"+-*/%^#<>=(){}[];:,.".contains(&rest[0]).then_some(1),
    }
}

struct Words<'a> {
    words: Vec<Word<'a>>,
    looks_left: Cell<usize>,
}

impl<'a> Words<'a> {
    /// Counts a repeated read of a word; false if there were too many, and nothing is proved about the source.
    fn may_look(&self) -> bool {
        self.looks_left.set(self.looks_left.get().saturating_sub(1));
        self.looks_left.get() > 0
    }

    fn is_sign(&self, at: usize, sign: &str) -> bool {
        self.words.get(at) == Some(&Word::Sign(sign.as_bytes()))
    }

    fn is_name(&self, at: usize, name: &[u8]) -> bool {
        self.words.get(at) == Some(&Word::Name(name))
    }

    fn name(&self, at: usize) -> Option<&'a [u8]> {
        match self.words.get(at) {
            Some(Word::Name(name)) => Some(name),
            _ => None,
        }
    }

    fn follows_sign(&self, at: usize, sign: &str) -> bool {
        at > 0 && self.is_sign(at - 1, sign)
    }

    /// Whether the word names a field of a table.
    fn is_of_field(&self, at: usize) -> bool {
        self.follows_sign(at, ".") || self.follows_sign(at, ":")
    }

    /// The place after the closing bracket of the one here.
    fn after_bracket(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (offset, word) in self.words[at..].iter().enumerate() {
            match word {
                Word::Sign(b"(" | b"[" | b"{") => depth += 1,
                Word::Sign(b")" | b"]" | b"}") => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(at + offset + 1);
            }
            if !self.may_look() {
                return None;
            }
        }
        None
    }

    /// Whether the expression that ends before `at` may be assigned to: an `=` follows, or other targets and then an
    /// `=`.
    fn may_be_assigned(&self, mut at: usize) -> bool {
        while self.is_sign(at, ",") && self.may_look() {
            let Some(after) = self.after_place(at + 1) else { return false };
            at = after;
        }
        self.is_sign(at, "=")
    }

    /// The place after a name or brackets, and the accesses to it.
    fn after_place(&self, at: usize) -> Option<usize> {
        let mut at = match self.words.get(at)? {
            Word::Name(_) => at + 1,
            Word::Sign(b"(") => self.after_bracket(at)?,
            _ => return None,
        };
        loop {
            at = match self.words.get(at) {
                _ if !self.may_look() => return None,
                Some(Word::Sign(b"." | b":")) => at + 2,
                Some(Word::Sign(b"[" | b"(" | b"{")) => self.after_bracket(at)?,
                Some(Word::Text(_)) => at + 1,
                _ => return Some(at),
            };
        }
    }

    /// The place after `KEYS[...]`, if that is here.
    fn after_key(&self, at: usize) -> Option<usize> {
        let is_key = self.is_name(at, b"KEYS") && !self.is_of_field(at) && self.is_sign(at + 1, "[");
        if is_key { self.after_bracket(at + 1) } else { None }
    }

    /// Whether `KEYS` is only read, and never used as a value.
    fn leave_keys_alone(&self) -> bool {
        let mut mentions = (0..self.words.len()).filter(|&at| self.is_name(at, b"KEYS"));
        mentions.all(|at| match self.after_key(at) {
            Some(after) => !self.may_be_assigned(after),
            None => self.follows_sign(at, "#") && !self.is_sign(at + 1, "["),
        })
    }

    /// The locals that are declared keys everywhere: each has one binding in the whole source, to `KEYS[...]`.
    fn locals_of_keys(&self) -> HashSet<&'a [u8]> {
        let (mut bound, mut of_keys) = (Vec::new(), Vec::new());
        for at in 0..self.words.len() {
            match self.words[at] {
                Word::Name(b"local") if !self.is_name(at + 1, b"function") => {
                    let names = self.names_from(at + 1);
                    let values = if self.is_sign(at + 2 * names.len(), "=") {
                        self.keys_from(at + 2 * names.len() + 1)
                    } else {
                        0
                    };
                    of_keys.extend_from_slice(&names[..values.min(names.len())]);
                    bound.extend(names);
                }
                Word::Name(b"for") => bound.extend(self.names_from(at + 1)),
                Word::Name(b"function") => bound.extend(self.names_of_function(at + 1)),
                Word::Name(name)
                    if !self.is_of_field(at) && self.may_be_assigned(at + 1) && !self.is_local_list(at) =>
                {
                    bound.push(name);
                }
                _ => {}
            }
        }
        let mut bindings: HashMap<&[u8], usize> = HashMap::new();
        bound.into_iter().for_each(|name| *bindings.entry(name).or_default() += 1);
        of_keys.into_iter().filter(|name| bindings[name] == 1).collect()
    }

    /// Names separated by commas.
    fn names_from(&self, mut at: usize) -> Vec<&'a [u8]> {
        let mut names: Vec<&[u8]> = self.name(at).into_iter().collect();
        while let (true, Some(name)) = (self.is_sign(at + 1, ",") && self.may_look(), self.name(at + 2)) {
            names.push(name);
            at += 2;
        }
        names
    }

    /// Whether the name here is declared by a `local` or a `for`: these are counted there.
    fn is_local_list(&self, mut at: usize) -> bool {
        while at >= 2 && self.is_sign(at - 1, ",") && self.name(at - 2).is_some() && self.may_look() {
            at -= 2;
        }
        at > 0 && (self.is_name(at - 1, b"local") || self.is_name(at - 1, b"for"))
    }

    /// The name of a function, and its parameters.
    fn names_of_function(&self, mut at: usize) -> Vec<&'a [u8]> {
        let mut names = Vec::new();
        while !self.is_sign(at, "(") && at < self.words.len() && self.may_look() {
            names.extend(self.name(at));
            at += 1;
        }
        while !self.is_sign(at, ")") && at < self.words.len() && self.may_look() {
            names.extend(self.name(at));
            at += 1;
        }
        names
    }

    /// How many values that begin here are a single `KEYS[...]`.
    fn keys_from(&self, mut at: usize) -> usize {
        let mut count = 0;
        while let Some(after) = self.after_key(at) {
            let is_last = match self.words.get(after) {
                None | Some(Word::Sign(b";")) => true,
                Some(Word::Name(word)) => !matches!(*word, b"and" | b"or"),
                _ => false,
            };
            let is_whole = is_last || self.is_sign(after, ",");
            count += usize::from(is_whole);
            if is_last || !is_whole {
                break;
            }
            at = after + 1;
        }
        count
    }

    /// The call that begins with the `redis` here; `None` if that needs no data.
    fn call_at(&self, at: usize, locals: &HashSet<&[u8]>) -> Result<Option<StaticCall<'a>>, NotPlain> {
        let is_own = self.is_of_field(at) || (at > 0 && self.is_name(at - 1, b"function"));
        if is_own || !self.is_sign(at + 1, ".") {
            return Err(NotPlain);
        }
        match self.name(at + 2) {
            Some(b"call" | b"pcall") if self.is_sign(at + 3, "(") => {
                let end = self.after_bracket(at + 3).ok_or(NotPlain)? - 1;
                self.call_of(at + 4, end, locals).map(Some)
            }
            Some(name) if HARMLESS.contains(&name) => Ok(None),
            _ => Err(NotPlain),
        }
    }

    /// The call whose arguments are the words from `start` to `end`.
    fn call_of(&self, start: usize, end: usize, locals: &HashSet<&[u8]>) -> Result<StaticCall<'a>, NotPlain> {
        let arguments = self.arguments(start, end)?;
        let &(first, first_end) = arguments.first().ok_or(NotPlain)?;
        let &(last, last_end) = arguments.last().ok_or(NotPlain)?;
        let Word::Text(Some(name)) = self.words[first] else { return Err(NotPlain) };
        if first_end != first + 1 {
            return Err(NotPlain);
        }
        let is_key = |&(start, end): &(usize, usize)| match self.name(start) {
            Some(name) if end == start + 1 => locals.contains(name),
            _ => self.after_key(start) == Some(end),
        };
        Ok(StaticCall { name, are_keys: arguments.iter().map(is_key).collect(), is_open: self.is_open(last, last_end) })
    }

    /// The starts and ends of the arguments between two places.
    fn arguments(&self, start: usize, end: usize) -> Result<Vec<(usize, usize)>, NotPlain> {
        let mut arguments = Vec::new();
        let (mut from, mut at) = (start, start);
        while at < end {
            match self.words[at] {
                // Its body has commas of its own.
                Word::Name(b"function") => return Err(NotPlain),
                Word::Sign(b"(" | b"[" | b"{") => {
                    at = self.after_bracket(at).ok_or(NotPlain)?;
                    continue;
                }
                Word::Sign(b",") => {
                    arguments.push((from, at));
                    from = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        arguments.push((from, end));
        if arguments.iter().any(|(from, end)| from >= end) { Err(NotPlain) } else { Ok(arguments) }
    }

    /// Whether an argument may be several values: a call, or the arguments of the script.
    fn is_open(&self, start: usize, end: usize) -> bool {
        match self.words[end - 1] {
            Word::Name(_) | Word::Number | Word::Sign(b"]") => false,
            // After a name it is an argument of a call.
            Word::Text(_) => end - 1 > start && !matches!(self.words[end - 2], Word::Sign(b".." | b"==" | b"~=")),
            Word::Sign(_) => true,
        }
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The calls as texts: K for a key, - for any other argument, + where the last may be several.
    fn shown(source: &str) -> Option<Vec<String>> {
        let shown = |call: StaticCall<'_>| {
            let name = String::from_utf8_lossy(call.name).into_owned();
            let arguments: String = call.are_keys[1..].iter().map(|is_key| if *is_key { 'K' } else { '-' }).collect();
            format!("{name} {arguments}{}", if call.is_open { "+" } else { "" })
        };
        static_calls(source.as_bytes()).map(|calls| calls.into_iter().map(shown).collect())
    }

    #[test]
    fn calls_with_declared_keys_are_found_in_whatever_form_they_are_written() {
        for (source, wanted) in [
            ("return redis.call('GET', KEYS[1])", "GET K"),
            ("return redis . pcall ( \"set\" , KEYS [ #KEYS ] , ARGV[1] )", "set K-"),
            ("local a, b = KEYS[1], KEYS[2] return redis.call('rename', a, b)", "rename KK"),
            ("local k = KEYS[1]; local n = tonumber(redis.call('incr', k)) return n", "incr K"),
            ("for i = 1, #KEYS do redis.call('del', KEYS[i]) end", "del K"),
            ("for i, v in ipairs(ARGV) do redis.call('rpush', KEYS[1], v) end", "rpush K-"),
            ("redis.call('sadd', KEYS[1], unpack(ARGV))", "sadd K-+"),
            ("redis.call('sadd', KEYS[1], ...)", "sadd K-+"),
            ("redis.call('set', KEYS[1], 'a' .. 'b')", "set K-"),
            ("redis.call('set', KEYS[1], tostring 'b')", "set K-+"),
            ("redis.call('set', KEYS[1] .. 'x', 1)", "set --"),
            ("redis.call('set', 'KEYS[1]', 1)", "set --"),
            ("redis.call('get', --[[ KEYS ]] KEYS[1] --x\n)", "get K"),
            ("redis.call('get', KEYS[({1})[1]])", "get K"),
            ("redis.call('get', f(KEYS[1]))", "get -+"),
            ("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.error_reply('x') end", "get K"),
        ] {
            assert_eq!(shown(source), Some(vec![wanted.to_owned()]), "{source}");
        }
        assert_eq!(shown("return {1, 'redis.call'}"), Some(vec![]));
    }

    #[test]
    fn locals_that_have_another_binding_are_no_keys() {
        for source in [
            "local k = KEYS[1] k = 'x' redis.call('get', k)",
            "local k = KEYS[1] local k = 'x' redis.call('get', k)",
            "local k = KEYS[1] local a, k = 1, 'x' redis.call('get', k)",
            "local k = KEYS[1] local function f(k) redis.call('get', k) end",
            "local k = KEYS[1] local f = function(a, k) redis.call('get', k) end",
            "local k = KEYS[1] for k = 1, 2 do redis.call('get', k) end",
            "local k = KEYS[1] for a, k in pairs(ARGV) do redis.call('get', k) end",
            "local k = KEYS[1] local function k() end redis.call('get', k)",
            "local k, a = KEYS[1] k, a = 1, 2 redis.call('get', k)",
            "local k, a = KEYS[1] a, k = 1, 2 redis.call('get', k)",
            "local k, a = KEYS[1] k, a.b[1], a = 1, 2, 3 redis.call('get', k)",
            "local k, a = KEYS[1] k, a('x').b, a = 1, 2, 3 redis.call('get', k)",
            "local k = KEYS[1] or 'x' redis.call('get', k)",
            "local k = KEYS[1] .. 'x' redis.call('get', k)",
            "local k = (KEYS[1]) redis.call('get', k)",
            "local k = KEYS[1]:sub(1) redis.call('get', k)",
            "local k, l = 'x', KEYS[1] redis.call('get', l)",
            "local k k = KEYS[1] redis.call('get', k)",
            "k = KEYS[1] redis.call('get', k)",
        ] {
            assert_eq!(shown(source), Some(vec!["get -".to_owned()]), "{source}");
        }
        let of_parts = "local k = KEYS[1] .. 'x', 1 local l = KEYS[2] redis.call('rename', k, l)";
        assert_eq!(shown(of_parts), Some(vec!["rename -K".to_owned()]));
    }

    #[test]
    fn of_other_scripts_nothing_is_told() {
        for source in [
            "local call = redis.call return call('get', KEYS[1])",
            "return pcall(redis.call, 'get', KEYS[1])",
            "return redis['call']('get', KEYS[1])",
            "return redis.call(ARGV[1], KEYS[1])",
            "return redis.call('g' .. 'et', KEYS[1])",
            "return redis.call('g\\101t', KEYS[1])",
            "return redis.call([[get]], KEYS[1])",
            "return redis.call 'ping'",
            "return redis.call()",
            "return redis.call('get', (function() return 1, 2 end)(), function() local a, b end)",
            "return redis.setresp(3)",
            "local r = redis",
            "local redis = {call = 1}",
            "function redis.call('get') end",
            "x.redis.call('get', KEYS[1])",
            "x.KEYS[1] = 1",
            "KEYS[1] = 'x' return redis.call('get', KEYS[1])",
            "KEYS[1], x = 'x', 1",
            "x, KEYS[1] = 'x', 1",
            "local k = KEYS k[1] = 'x' return redis.call('get', KEYS[1])",
            "table.insert(KEYS, 'x')",
            "for i, k in ipairs(KEYS) do end",
            "local function f(KEYS) return KEYS[1] end",
            "local KEYS = {'x'} return redis.call('get', KEYS[1])",
            "return {KEYS = 1}",
            "return _G.redis.call('get', 'x')",
            "return getfenv().redis.call('get', 'x')",
            "return loadstring('redis.call(1)')()",
            "rawset(x, 1, 1)",
            "return 1 ! 2",
            "return 'open",
            "--[[ open",
        ] {
            assert_eq!(shown(source), None, "{source}");
        }
        assert_eq!(shown(&" ".repeat(PROVABLE_MAX + 1)), None);
        // Lists within lists: read repeatedly, but not for long.
        for source in ["x,(", "a,", "KEYS[", "f{a,", "function "] {
            assert_eq!(shown(&source.repeat(PROVABLE_MAX / source.len())), None, "{source}");
        }
    }

    #[test]
    fn words_end_where_lua_ends_them() {
        let count = |source: &str| words_of(source.as_bytes()).map(|words| words.len());
        for (source, wanted) in [
            ("1e+5", 1),
            ("0x1e+1", 3),
            ("1..2", 1),
            ("a..b", 3),
            ("a...b", 3),
            (".5", 1),
            ("[==[ ]=] ]] ]==]", 1),
            ("[=x", 3),
            ("'a\\'b\\\\'x", 2),
            ("--x\ny", 1),
            ("--[=[x\n]=]y", 1),
            ("a~=b", 3),
        ] {
            assert_eq!(count(source), Some(wanted), "{source}");
        }
    }
}
