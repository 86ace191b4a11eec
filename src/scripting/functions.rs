//! The libraries of functions: FUNCTION LOAD and the like, by name.
//!
//! A library is its source, which registers functions when it runs. It runs once when it is loaded, to find what it
//! registers, and once in each thread that calls one of its functions (see `interpreter`).

use super::interpreter;
use super::script_cache::ScriptFlags;
use super::server_scripts::Scripting;
use crate::resp::{quoted, split_line};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a library may take to register its functions.
const LOAD_MAX: Duration = Duration::from_millis(500);
/// The most bytes of a library.
const SOURCE_MAX: usize = 16 * 1024 * 1024;

/// A library.
#[derive(Debug)]
pub struct Library {
    /// Its number, unique in this process.
    pub id: u64,
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// Its source, first line included.
    pub source: Box<[u8]>,
    /// Where the code begins: at the end of the first line's words.
    code_at: usize,
    /// The functions that it registers, in order.
    pub functions: Vec<Function>,
}

/// A registered function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// Its description.
    pub description: Option<Box<[u8]>>,
    /// Its flags.
    pub flags: ScriptFlags,
}

impl Library {
    /// The name of the library with this source. The error is a reply.
    pub fn name_of(source: &[u8]) -> Result<String, String> {
        first_line(source).map(|(name, _)| name)
    }

    /// Parses the first line of a library, and runs it to find what it registers; with a time limit if a client has
    /// sent it. The error is a reply.
    pub fn load(scripting: &Arc<Scripting>, source: &[u8], is_of_client: bool) -> Result<Self, String> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let (name, code_at) = first_line(source)?;
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let mut library = Self { id, name, source: source.into(), code_at, functions: Vec::new() };
        library.functions = interpreter::registered(scripting, &library, is_of_client.then_some(LOAD_MAX))?;
        match library.functions.is_empty() {
            true => Err("ERR No functions registered".into()),
            false => Ok(library),
        }
    }

    /// The code for Lua to compile.
    pub fn code(&self) -> &[u8] {
        &self.source[self.code_at..]
    }
}

/// The name in a library's first line, and where that line ends.
fn first_line(source: &[u8]) -> Result<(String, usize), String> {
    let shown = |word: &[u8]| quoted(word, usize::MAX);
    if source.len() > SOURCE_MAX {
        return Err("ERR the library is longer than 16 MB".into());
    }
    if !source.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    // Like Redis, which looks for the end of a C string.
    let end = source.iter().position(|&byte| byte == b'\n' || byte == 0).filter(|&end| source[end] == b'\n');
    let end = end.ok_or("ERR Invalid library metadata")?;
    let words = split_line(&source[..end]).filter(|words| !words.is_empty()).ok_or("ERR Invalid library metadata")?;
    let mut name = None;
    for word in &words[1..] {
        let is_name = word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"name="));
        match is_name {
            true if name.is_some() => {
                return Err("ERR Invalid metadata value, name argument was given multiple times".into());
            }
            true => name = Some(&word[5..]),
            false => return Err(format!("ERR Invalid metadata value given: {}", shown(word))),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    let name = checked_name(name).ok_or_else(|| format!("ERR {BAD_NAME}"))?;
    match words[0].get(2..) {
        Some(engine) if engine.eq_ignore_ascii_case(b"lua") => Ok((name, end)),
        engine => Err(format!("ERR Engine '{}' not found", shown(engine.unwrap_or_default()))),
    }
}

/// The error for a bad name of a library or a function.
pub const BAD_NAME: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// A name of letters, digits and underscores.
pub fn checked_name(name: &[u8]) -> Option<String> {
    let is_right = !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_right.then(|| String::from_utf8(name.to_vec()).expect("it is ASCII"))
}

/// Some libraries.
///
/// Invariant: no two functions of them have the same name, in any case.
#[derive(Debug, Default, Clone)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// Each function by its name in lower case, with its library and its place in it.
    functions: HashMap<String, (Arc<Library>, usize)>,
}

impl Libraries {
    /// The libraries of these sources, each with a time limit if a client has sent them. The error is a reply. O(N), N
    /// = bytes
    pub fn of<'a>(
        scripting: &Arc<Scripting>,
        sources: impl Iterator<Item = &'a [u8]>,
        is_of_client: bool,
    ) -> Result<Self, String> {
        let mut libraries = Self::default();
        for source in sources {
            libraries.add(Library::load(scripting, source, is_of_client)?, false)?;
        }
        Ok(libraries)
    }

    /// Adds a loaded library. The error is a reply.
    pub fn add(&mut self, library: Library, replaces: bool) -> Result<(), String> {
        let mut with_it = self.clone();
        if !replaces {
            self.must_lack(&library.name)?;
        }
        with_it.remove(&library.name);
        with_it.insert(Arc::new(library))?;
        *self = with_it;
        Ok(())
    }

    /// Removes what stands against another library: the one of its name, and those with functions of its names.
    pub fn make_way(&mut self, other: &Library) {
        let rivals = other.functions.iter().filter_map(|function| self.function(function.name.as_bytes()));
        let names: Vec<_> = rivals.map(|(rival, _)| rival.name.clone()).collect();
        names.iter().chain([&other.name]).for_each(|name| _ = self.remove(name));
    }

    /// Refuses the name of a library that is there. The error is a reply.
    pub fn must_lack(&self, name: &str) -> Result<(), String> {
        match self.by_name.contains_key(name) {
            true => Err(format!("ERR Library '{name}' already exists")),
            false => Ok(()),
        }
    }

    /// Adds all of `others`. The error is a reply, and nothing has changed.
    pub fn join(&mut self, others: Self, replaces: bool) -> Result<(), String> {
        let mut joined = self.clone();
        for name in others.by_name.keys() {
            if joined.remove(name) && !replaces {
                return Err(format!("ERR Library {name} already exists"));
            }
        }
        others.by_name.into_values().try_for_each(|library| joined.insert(library))?;
        *self = joined;
        Ok(())
    }

    fn insert(&mut self, library: Arc<Library>) -> Result<(), String> {
        for (place, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            if self.functions.insert(name, (Arc::clone(&library), place)).is_some() {
                return Err(format!("ERR Function {} already exists", function.name));
            }
        }
        self.by_name.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library, and returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        library.functions.iter().for_each(|function| _ = self.functions.remove(&function.name.to_ascii_lowercase()));
        true
    }

    /// A function by its name in any case, with its place in its library.
    fn function(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        let name = std::str::from_utf8(name).ok()?;
        self.functions.get(name).or_else(|| self.functions.get(&name.to_ascii_lowercase())).cloned()
    }

    /// Their sources, by name.
    pub fn sources(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.values().map(|library| &*library.source)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many libraries and functions there are, and how many bytes the sources have.
    pub fn size(&self) -> (usize, usize, usize) {
        let bytes = self.by_name.values().map(|library| library.source.len()).sum();
        (self.by_name.len(), self.functions.len(), bytes)
    }
}

/// The libraries of a server.
#[derive(Debug, Default)]
pub struct Functions {
    current: RwLock<Option<Arc<Libraries>>>,
    /// Held while they are changed: one change at a time is written.
    changing: Mutex<()>,
    /// Called for each change, in order, while no other is made.
    listener: OnceLock<ChangeListener>,
    /// How often they were changed. A thread that has run older libraries drops those that are gone.
    changes: AtomicU64,
}

/// Receives the libraries after each change.
pub struct ChangeListener(pub Box<dyn Fn(&Libraries) + Send + Sync>);

impl std::fmt::Debug for ChangeListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChangeListener")
    }
}

impl Functions {
    /// Sets the listener of changes.
    pub fn set_listener(&self, listener: ChangeListener) {
        assert!(self.listener.set(listener).is_ok(), "a server tells its replicas itself");
    }

    /// The current libraries.
    pub fn libraries(&self) -> Arc<Libraries> {
        self.current.read().clone().unwrap_or_default()
    }

    /// A function by its name in any case, with its place in its library.
    pub fn get(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        self.current.read().as_ref()?.function(name)
    }

    /// How often they were changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Calls `look` while no change is made.
    pub fn hold<R>(&self, look: impl FnOnce(&Libraries) -> R) -> R {
        let _changing = self.changing.lock();
        look(&self.libraries())
    }

    /// Changes them: `keep` writes them where the next start finds them, before any can be called. The error is a
    /// reply, and nothing has changed.
    pub fn change<R>(
        &self,
        change: impl FnOnce(&mut Libraries) -> Result<R, String>,
        keep: impl FnOnce(&Libraries) -> Result<(), String>,
    ) -> Result<R, String> {
        let _changing = self.changing.lock();
        let mut libraries = Libraries::clone(&self.libraries());
        let result = change(&mut libraries)?;
        keep(&libraries)?;
        let libraries = Arc::new(libraries);
        *self.current.write() = Some(Arc::clone(&libraries));
        self.changes.fetch_add(1, Ordering::Release);
        if let Some(ChangeListener(notify)) = self.listener.get() {
            notify(&libraries);
        }
        Ok(result)
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn load(source: &str) -> Result<Library, String> {
        Library::load(&Arc::default(), source.as_bytes(), true)
    }

    fn library(name: &str, functions: &[&str]) -> Library {
        let register = |name: &&str| format!("redis.register_function('{name}', function() return 1 end)\n");
        load(&format!("#!lua name={name}\n{}", functions.iter().map(register).collect::<String>())).unwrap()
    }

    #[test]
    fn a_library_says_its_name_and_registers_functions() {
        let source = "#!LUA NAME=\"one\"\nredis.register_function{function_name='F', callback=function() end, \
                      flags={'no-writes', 'ALLOW-OOM'}, description='what it does'}";
        let library = load(source).unwrap();
        assert_eq!(library.name, "one");
        let flags = ScriptFlags { no_writes: true, allow_oom: true, ..ScriptFlags::declared() };
        let description = Some(b"what it does".as_slice().into());
        assert_eq!(library.functions, [Function { name: "F".into(), description, flags }]);
        for (source, error) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua name=x", "ERR Invalid library metadata"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#!lua name=x name=y\n", "ERR Invalid metadata value, name argument was given multiple times"),
            ("#!lua name=x y\n", "ERR Invalid metadata value given: y"),
            ("#!js name=x\n", "ERR Engine 'js' not found"),
            ("#! name=x\n", "ERR Engine '' not found"),
            ("#!lua name=x\nreturn 1", "ERR No functions registered"),
        ] {
            assert_eq!(load(source).unwrap_err(), error);
        }
        assert!(load("#!lua name=a-b\n").unwrap_err().contains(BAD_NAME));
    }

    #[test]
    fn names_of_functions_are_unique_and_a_change_that_fails_changes_nothing() {
        let mut libraries = Libraries::default();
        libraries.add(library("a", &["f", "g"]), false).unwrap();
        assert_eq!(libraries.add(library("a", &["h"]), false).unwrap_err(), "ERR Library 'a' already exists");
        assert_eq!(libraries.add(library("b", &["h", "F"]), true).unwrap_err(), "ERR Function F already exists");
        assert_eq!(libraries.size().1, 2);
        assert!(libraries.function(b"G").is_some() && libraries.function(b"h").is_none());
        let mut others = Libraries::default();
        others.add(library("c", &["h"]), false).unwrap();
        others.add(library("a", &["k"]), false).unwrap();
        assert_eq!(libraries.join(others.clone(), false).unwrap_err(), "ERR Library a already exists");
        assert!(libraries.function(b"h").is_none());
        libraries.join(others, true).unwrap();
        assert!(libraries.function(b"k").is_some() && libraries.function(b"f").is_none());
        libraries.make_way(&library("d", &["H"]));
        assert!(libraries.function(b"h").is_none() && libraries.function(b"k").is_some());
        assert!(libraries.remove("a") && !libraries.remove("a") && libraries.function(b"k").is_none());
    }

    #[test]
    fn what_is_not_kept_is_not_there() {
        let functions = Functions::default();
        let add = |libraries: &mut Libraries| libraries.add(library("a", &["f"]), false);
        assert!(functions.change(add, |_| Err("the disk is full".into())).is_err());
        assert!(functions.get(b"f").is_none());
        functions.change(add, |_| Ok(())).unwrap();
        assert_eq!((functions.get(b"F").is_some(), functions.changes()), (true, 1));
    }
}
