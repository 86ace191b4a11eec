//! The known scripts, by the SHA1 of their source.

use crate::resp::{quoted, split_line};
use ahash::AHashMap;
use parking_lot::RwLock;
use sha1::{Digest, Sha1};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The name of a script: the SHA1 of its source in lower-case hex.
pub type Sha = [u8; 40];

/// The most scripts that are known only from EVAL; the least recently used one is dropped first. Those of SCRIPT LOAD
/// stay.
const EVALED_MAX: usize = 500;
/// The most bytes of a script.
const SOURCE_MAX: usize = 16 * 1024 * 1024;

/// The flags that a script declares in its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptFlags {
    /// Whether there is such a line at all; without it the behaviour of the script is found while it runs.
    pub is_declared: bool,
    /// Writes nothing.
    pub no_writes: bool,
    /// Runs when memory is short.
    pub allow_oom: bool,
    /// Runs on data that may be stale.
    pub allow_stale: bool,
    /// Does not run in a cluster.
    pub no_cluster: bool,
    /// Takes keys of several slots where `cluster-allow-cross-slot no` refuses them. Otherwise every script may.
    pub allow_cross_slot_keys: bool,
}

impl ScriptFlags {
    /// The flags of a function that declares no others.
    pub fn declared() -> Self {
        Self { is_declared: true, ..Self::default() }
    }

    /// The flags of a script by its source, if its first line is valid.
    pub fn of(body: &[u8]) -> Option<Self> {
        shebang(body).ok().map(|(flags, _)| flags)
    }

    /// Sets a flag by its name in lower case; false if there is none.
    #[must_use]
    pub fn set(&mut self, name: &[u8]) -> bool {
        match name {
            b"no-writes" => self.no_writes = true,
            b"allow-oom" => self.allow_oom = true,
            b"allow-stale" => self.allow_stale = true,
            b"no-cluster" => self.no_cluster = true,
            b"allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return false,
        }
        true
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let all = [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.allow_cross_slot_keys, "allow-cross-slot-keys"),
        ];
        all.into_iter().filter_map(|(is_set, name)| is_set.then_some(name))
    }
}

/// A script.
#[derive(Debug)]
pub struct Script {
    /// Its name.
    pub sha: Sha,
    /// The flags that it declares.
    pub flags: ScriptFlags,
    body: Box<[u8]>,
    /// Where the code begins: at the end of the first line's words.
    code_at: usize,
    /// Whether it is proved to touch declared keys only, once that was checked.
    is_proved: OnceLock<bool>,
}

impl Script {
    /// Parses the first line. O(N), N = bytes
    pub fn parse(sha: Sha, body: &[u8]) -> Result<Self, String> {
        if body.len() > SOURCE_MAX {
            return Err("ERR Error compiling script (new function): the script is longer than 16 MB".into());
        }
        let (flags, code_at) = shebang(body).map_err(|reason| format!("ERR {reason}"))?;
        Ok(Self { sha, flags, body: body.into(), code_at, is_proved: OnceLock::new() })
    }

    /// The code for Lua to compile.
    pub fn code(&self) -> &[u8] {
        &self.body[self.code_at..]
    }

    /// Whether it is proved to touch declared keys only, by `prove`, which reads its code the first time.
    pub fn is_proved(&self, prove: impl FnOnce(&[u8]) -> bool) -> bool {
        *self.is_proved.get_or_init(|| prove(self.code()))
    }

    /// Its name as a text.
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.sha).expect("a SHA is written in hex")
    }
}

/// The flags of a script whose first line begins with `#!`, and where that line ends.
fn shebang(body: &[u8]) -> Result<(ScriptFlags, usize), String> {
    if !body.starts_with(b"#!") {
        return Ok((ScriptFlags::default(), 0));
    }
    let end = body.iter().position(|&byte| byte == b'\n').ok_or("Invalid script shebang")?;
    let words = split_line(&body[..end]).filter(|words| !words.is_empty());
    let words = words.ok_or("Invalid engine in script shebang")?;
    let shown = |word: &[u8]| quoted(word, usize::MAX);
    if words[0] != b"#!lua" {
        return Err(format!("Unexpected engine in script shebang: {}", shown(&words[0])));
    }
    let mut flags = ScriptFlags::declared();
    for word in &words[1..] {
        let names =
            word.strip_prefix(b"flags=").ok_or_else(|| format!("Unknown lua shebang option: {}", shown(word)))?;
        for name in names.split(|&byte| byte == b',').filter(|_| !names.is_empty()) {
            if !flags.set(name) {
                return Err(format!("Unexpected flag in script shebang: {}", shown(name)));
            }
        }
    }
    Ok((flags, end))
}

/// The name of a script. O(N), N = bytes
pub fn sha_of(body: &[u8]) -> Sha {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut sha = [0; 40];
    for (digits, byte) in sha.chunks_exact_mut(2).zip(Sha1::digest(body)) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    sha
}

/// A known script, and how it is known.
#[derive(Debug)]
struct Known {
    script: Arc<Script>,
    /// When EVAL or EVALSHA used it last, in uses; 0 for one that stays, since SCRIPT LOAD added it.
    last_use: AtomicU64,
}

/// The known scripts.
///
/// Invariant: at most [`EVALED_MAX`] of them are known only from EVAL.
#[derive(Debug, Default)]
pub struct Registry {
    known: RwLock<Option<AHashMap<Sha, Known>>>,
    uses: AtomicU64,
    /// How often all scripts were dropped. A thread that has compiled scripts before that starts again.
    flushes: AtomicU64,
}

impl Registry {
    /// A script by its name, recorded as used.
    pub fn get(&self, sha: &Sha) -> Option<Arc<Script>> {
        let known = self.known.read();
        let found = known.as_ref()?.get(sha)?;
        if found.last_use.load(Ordering::Relaxed) > 0 {
            found.last_use.store(self.next_use(), Ordering::Relaxed);
        }
        Some(Arc::clone(&found.script))
    }

    /// Calls `look` with a script, without counting a use; `None` if it is not known.
    pub fn look<R>(&self, sha: &Sha, look: impl FnOnce(&Script) -> R) -> Option<R> {
        self.known.read().as_ref()?.get(sha).map(|known| look(&known.script))
    }

    /// Whether a script is known. Does not count as a use.
    pub fn has(&self, sha: &Sha) -> bool {
        self.known.read().as_ref().is_some_and(|known| known.contains_key(sha))
    }

    /// Adds a script from EVAL. O(1), and O(N), N = scripts, if another one must be dropped.
    pub fn add_evaled(&self, script: &Arc<Script>) {
        let mut known = self.known.write();
        let known = known.get_or_insert_default();
        let last_use = AtomicU64::new(self.next_use());
        known.entry(script.sha).or_insert_with(|| Known { script: Arc::clone(script), last_use });
        let used = |known: &Known| known.last_use.load(Ordering::Relaxed);
        if known.values().filter(|known| used(known) > 0).count() > EVALED_MAX {
            let oldest = known.values().filter(|known| used(known) > 0).min_by_key(|known| used(known));
            let oldest = oldest.map(|known| known.script.sha);
            oldest.and_then(|sha| known.remove(&sha));
        }
    }

    /// Adds a script that stays.
    pub fn add_loaded(&self, script: Script) {
        let mut known = self.known.write();
        let known = known.get_or_insert_default();
        known
            .entry(script.sha)
            .and_modify(|known| known.last_use = AtomicU64::new(0))
            .or_insert_with(|| Known { script: Arc::new(script), last_use: AtomicU64::new(0) });
    }

    /// Drops all scripts.
    pub fn flush(&self) {
        let forgotten = self.known.write().take();
        self.flushes.fetch_add(1, Ordering::Release);
        drop(forgotten);
    }

    /// How often all scripts were dropped.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// How many scripts are known, and how many bytes they have.
    pub fn size(&self) -> (usize, usize) {
        let known = self.known.read();
        let scripts = known.iter().flat_map(|known| known.values());
        scripts.fold((0, 0), |(count, bytes), known| (count + 1, bytes + known.script.body.len()))
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed) + 1
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn script(number: usize) -> Script {
        let body = format!("return {number}");
        Script::parse(sha_of(body.as_bytes()), body.as_bytes()).unwrap()
    }

    #[test]
    fn a_script_is_named_by_its_sha1() {
        assert_eq!(&sha_of(b"return 1"), b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn scripts_of_eval_are_bounded_and_the_least_recently_used_one_goes() {
        let registry = Registry::default();
        registry.add_loaded(script(0));
        (1..=EVALED_MAX).for_each(|number| registry.add_evaled(&Arc::new(script(number))));
        assert!(registry.get(&script(1).sha).is_some(), "it has room, and is used now");
        registry.add_evaled(&Arc::new(script(EVALED_MAX + 1)));
        assert_eq!(registry.size().0, EVALED_MAX + 1);
        assert!(registry.has(&script(0).sha) && registry.has(&script(1).sha) && !registry.has(&script(2).sha));
        registry.flush();
        assert_eq!(registry.size(), (0, 0));
    }

    #[test]
    fn the_first_line_says_what_a_script_may_do() {
        let flags = |body: &str| Script::parse([b'0'; 40], body.as_bytes()).map(|script| script.flags);
        assert_eq!(flags("return 1"), Ok(ScriptFlags::default()));
        let both = ScriptFlags { no_writes: true, allow_oom: true, ..ScriptFlags::declared() };
        assert_eq!(flags("#!lua flags=no-writes,allow-oom\nreturn 1"), Ok(both));
        assert_eq!(flags("#!lua\n").map(|flags| flags.is_declared), Ok(true));
        let error = |body: &str| flags(body).unwrap_err();
        assert_eq!(error("#!lua"), "ERR Invalid script shebang");
        assert_eq!(error("#!js\n"), "ERR Unexpected engine in script shebang: #!js");
        assert_eq!(error("#!lua name=x\n"), "ERR Unknown lua shebang option: name=x");
        assert_eq!(error("#!lua flags=a\n"), "ERR Unexpected flag in script shebang: a");
        assert_eq!(Script::parse([b'0'; 40], b"#!lua\nreturn 1").unwrap().code(), b"\nreturn 1");
    }
}
