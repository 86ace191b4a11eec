//! The catalogue of servers: the command for each name in a sweep, and whether it is on this machine.
//!
//! A missing engine of ours is an error, because then nothing was built. A missing peer is reported as absent in the
//! output and the report: a sweep never becomes smaller silently.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::base::ask;
use crate::plan::sweep::check_name;
use crate::sources;

const ENGINES: [&str; 3] = ["mutex", "dashmap", "actor"];
/// Servers of others; `--join-peers` lets all of them that are on PATH join every sweep.
pub(crate) const PEERS: [&str; 3] = ["redis-server", "valkey-server", "dragonfly"];

/// A program found on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// A fingerprint of its bytes, so that a resumed run measures the same program.
    pub digest: String,
    /// The first line it prints under `--version`.
    pub version: Option<String>,
}

/// A server that can be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The name that sweeps and plots use.
    pub name: String,
    /// The executable.
    pub program: Program,
    /// Its arguments; `{port}` and `{dir}` are filled in at each start.
    pub arguments: Vec<String>,
    /// The digests of the arguments that are files: what a wrapper such as `env` starts is one of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A server that sweeps name and this machine lacks, or a sweep that its programs cannot run yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// The name in the sweep, or of it.
    pub name: String,
    /// Why it is absent, and what would change that.
    pub reason: String,
    /// Whether it is a sweep.
    #[serde(default)]
    pub is_sweep: bool,
}

/// `--server NAME=COMMAND`: a definition that replaces or adds to the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    name: String,
    words: Vec<String>,
}

/// The result of looking a name up.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// It can be started.
    Present(Server),
    /// It is a peer that is not here.
    Absent(Absent),
}

impl Definition {
    /// Reads `NAME=COMMAND`. A command of one word is a Redis-like server and gets its usual arguments. `redis` and
    /// `valkey` are short for the peers' names.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, command) = text.split_once('=').with_context(|| format!("{text:?} is not NAME=COMMAND"))?;
        check_name("--server", name)?;
        let mut words = shlex::split(command).with_context(|| format!("unbalanced quotes in {command:?}"))?;
        ensure!(!words.is_empty(), "no command after `{name}=`");
        if words.len() == 1 {
            words.extend(peer_arguments());
        }
        ensure!(words.iter().any(|word| word.contains("{port}")), "the command of {name} nowhere says {{port}}");
        Ok(Self { name: full_name(name).to_owned(), words })
    }

    /// The server's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Server {
    /// The command as a person would type it.
    pub(crate) fn command_line(&self) -> String {
        let words = std::iter::once(self.program.path.display().to_string()).chain(self.arguments.iter().cloned());
        words.map(|word| if word.is_empty() { "\"\"".to_owned() } else { word }).collect::<Vec<_>>().join(" ")
    }
}

/// Dragonfly has no AOF, refuses flags that it does not know, and has other names for some.
const DRAGONFLY: &str = "dragonfly";

impl Server {
    /// The flags of a variant in the form of this server; `None` if it cannot do what they request.
    pub(crate) fn dialect(&self, flags: &[String]) -> Option<Vec<String>> {
        if self.name != DRAGONFLY {
            return Some(flags.to_vec());
        }
        let translated: Option<Vec<Vec<String>>> = flags.chunks(2).map(in_dragonfly).collect();
        translated.map(|flags| flags.concat())
    }
}

/// A flag with its value in Dragonfly's form: empty if it behaves like that anyway, `None` if it cannot.
fn in_dragonfly(flag: &[String]) -> Option<Vec<String>> {
    let words: Vec<&str> = flag.iter().map(String::as_str).collect();
    match words[..] {
        ["--appendonly", "no"] => Some(Vec::new()),
        ["--maxclients", most] => Some(vec!["--maxclients".to_owned(), most.to_owned()]),
        ["--tcp-backlog", length] => Some(vec!["--tcp_backlog".to_owned(), length.to_owned()]),
        ["--io-threads", threads] => Some(vec!["--proactor_threads".to_owned(), threads.to_owned()]),
        _ => None,
    }
}

impl Program {
    /// Its output under `--help`; `None` if it prints nothing or fails.
    pub(crate) fn help(&self) -> Option<String> {
        ask::answer(&self.path, "--help").filter(|text| !text.trim().is_empty())
    }

    /// The digest of the sources that it was built from, if it is a server of ours.
    pub(crate) fn sources(&self) -> Option<&str> {
        self.version.as_ref()?.split_once("(sources ")?.1.strip_suffix(')')
    }

    /// Fingerprints the executable at `path` and asks it for its version.
    pub(crate) fn inspect(path: &Path) -> Result<Self> {
        let digest = digest_of(path).with_context(|| format!("cannot read the program {}", path.display()))?;
        Ok(Self { path: path.to_path_buf(), digest, version: version_of(path) })
    }

    /// [`Self::inspect`] of a program of ours: refuses one that was built from other sources than those in this folder,
    /// if it has sources.
    pub(crate) fn inspect_ours(path: &Path) -> Result<Self> {
        let program = Self::inspect(path)?;
        if let Ok(sources) = sources::digest(Path::new(".")) {
            check_build(&program, &sources)?;
        }
        Ok(program)
    }
}

/// Whether `name` is a peer that runs commands on one thread.
pub(crate) fn is_single_threaded(name: &str) -> bool {
    ["redis-server", "valkey-server"].contains(&name)
}

/// Whether `name` is an engine of ours.
pub(crate) fn is_engine(name: &str) -> bool {
    ENGINES.contains(&name)
}

impl Server {
    /// Fails where a server has the name of one of our engines and runs another, by its INFO.
    pub(crate) fn must_be_its_engine(&self, info: &BTreeMap<String, String>) -> Result<()> {
        let runs = info.get("engine").map_or("none of ours", String::as_str);
        ensure!(
            !is_engine(&self.name) || runs == self.name,
            "{name:?} runs the engine {runs:?}: give its command --engine {name}, or give it another name",
            name = self.name
        );
        Ok(())
    }
}

/// The peers that are on PATH.
pub(crate) fn peers_here() -> Vec<&'static str> {
    PEERS.into_iter().filter(|name| find_program(name).is_some()).collect()
}

/// Looks `name` up: in `definitions`, then among the engines (next to this executable), then among the peers (on PATH).
pub(crate) fn look_up(name: &str, definitions: &[Definition]) -> Result<Lookup> {
    if let Some(definition) = definitions.iter().find(|definition| definition.name == name) {
        return Ok(Lookup::Present(defined(definition)?));
    }
    if ENGINES.contains(&name) {
        return Ok(Lookup::Present(engine(name)?));
    }
    if PEERS.contains(&name) {
        return peer(name);
    }
    ensure!(!name.contains(','), "{name:?} is no server: names are separated by spaces");
    bail!("{name:?} is no server: engines are {ENGINES:?}, peers {PEERS:?}; others come by --server {name}=COMMAND")
}

/// The sibling of this executable called `name`, which `cargo build` puts beside it.
pub(crate) fn sibling(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find the path of this executable")?;
    let path = own.with_file_name(name);
    ensure!(
        path.is_file(),
        "{} does not exist: build it with `cargo build --workspace{}`",
        path.display(),
        if own.parent().is_some_and(|folder| folder.ends_with("release")) { " --release" } else { "" }
    );
    Ok(path)
}

fn defined(definition: &Definition) -> Result<Server> {
    let (program, arguments) = definition.words.split_first().expect("a definition has a command");
    let path = find_program(program).with_context(|| format!("{program} ({}) is not a program", definition.name))?;
    let program = if is_engine(&definition.name) { Program::inspect_ours(&path)? } else { Program::inspect(&path)? };
    let files = files_of(arguments).with_context(|| format!("in the command of {}", definition.name))?;
    Ok(Server { name: definition.name.clone(), program, arguments: arguments.to_vec(), files })
}

/// The digests of the words that are paths of files.
fn files_of(words: &[String]) -> Result<BTreeMap<String, String>> {
    let files = words.iter().filter(|word| word.contains('/') && Path::new(word).is_file());
    let digest = |word: &String| {
        let digest = digest_of(Path::new(word)).with_context(|| format!("cannot read {word}"))?;
        Ok((word.clone(), digest))
    };
    files.map(digest).collect()
}

fn engine(name: &str) -> Result<Server> {
    let place = ["--bind", "127.0.0.1", "--port", "{port}", "--dir", "{dir}", "--save", ""];
    let arguments = words(&[&["--engine", name], &place[..]].concat());
    let program = Program::inspect_ours(&sibling("shardrace")?)?;
    Ok(Server { name: name.to_owned(), program, arguments, files: BTreeMap::new() })
}

/// A run names the commit of its folder, which says nothing about a binary of another one.
fn check_build(program: &Program, sources: &str) -> Result<()> {
    ensure!(
        program.sources() == Some(sources),
        "{} was built from the sources {}, and those in this folder are {sources}: build it again (make build), or give \
         another build another name",
        program.path.display(),
        program.sources().unwrap_or("of before they had a digest"),
    );
    Ok(())
}

fn peer(name: &str) -> Result<Lookup> {
    let Some(path) = find_program(name) else {
        let reason = format!("{name} is not on PATH; name it with --server {name}=/path/to/{name}");
        return Ok(Lookup::Absent(Absent { name: name.to_owned(), reason, is_sweep: false }));
    };
    let arguments = if name == DRAGONFLY { dragonfly_arguments() } else { peer_arguments() };
    let program = Program::inspect(&path)?;
    let server = Server { name: name.to_owned(), program, arguments, files: BTreeMap::new() };
    Ok(Lookup::Present(server))
}

fn peer_arguments() -> Vec<String> {
    words(&["--bind", "127.0.0.1", "--port", "{port}", "--dir", "{dir}", "--save", ""])
}

fn dragonfly_arguments() -> Vec<String> {
    words(&["--bind", "127.0.0.1", "--port", "{port}", "--dir", "{dir}", "--dbfilename", "", "--proactor_threads", "2"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn full_name(name: &str) -> &str {
    match name {
        "redis" => "redis-server",
        "valkey" => "valkey-server",
        other => other,
    }
}

/// A word with a slash is a path; any other is searched for on PATH. The result is absolute, but links are not
/// followed: redis-server may be a link to a program that depends on the name it was called by.
fn find_program(word: &str) -> Option<PathBuf> {
    let mut candidates = if word.contains('/') {
        vec![PathBuf::from(word)]
    } else {
        env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(word)).collect()
    };
    candidates.retain(|path| path.is_file());
    std::path::absolute(candidates.first()?).ok()
}

fn version_of(path: &Path) -> Option<String> {
    let text = ask::answer(path, "--version")?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// FNV-1a over the file: it has to detect a rebuild, not an adversary.
pub(crate) fn digest_of(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(format!("{hash:016x}"));
        }
        for &byte in &buffer[..length] {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_the_name_of_an_engine_must_run_it() {
        let program = Program { path: "shardrace".into(), digest: String::new(), version: None };
        let checked = |name: &str, engine: Option<&str>| {
            let (arguments, files) = Default::default();
            let server = Server { name: name.to_owned(), program: program.clone(), arguments, files };
            let info = engine.map(|engine| ("engine".to_owned(), engine.to_owned()));
            server.must_be_its_engine(&info.into_iter().collect()).map_err(|error| error.to_string())
        };
        for (name, engine) in [("mutex", Some("mutex")), ("planted", Some("mutex")), ("redis-server", None)] {
            assert_eq!(checked(name, engine), Ok(()));
        }
        assert!(checked("mutex", Some("actor")).unwrap_err().contains("runs the engine \"actor\""));
        assert!(checked("mutex", None).unwrap_err().contains("runs the engine \"none of ours\""));
    }

    #[test]
    fn a_link_is_started_by_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("redis-server");
        std::os::unix::fs::symlink("/bin/true", &link).unwrap();
        assert_eq!(find_program(link.to_str().unwrap()), Some(link));
    }

    #[test]
    fn a_server_that_was_built_from_other_sources_is_refused() {
        let built = |version: Option<&str>| {
            let program = Program { path: "here".into(), digest: String::new(), version: version.map(str::to_owned) };
            check_build(&program, "a1").map_err(|error| error.to_string())
        };
        assert_eq!(built(Some("shardrace 0.1.0 (sources a1)")), Ok(()));
        assert!(built(Some("shardrace 0.1.0 (sources b2)")).unwrap_err().contains("built from the sources b2"));
        assert!(built(Some("shardrace 0.1.0")).is_err() && built(None).is_err());
    }

    #[test]
    fn a_bare_path_is_started_as_a_redis_like_server() {
        let definition = Definition::parse("valkey=/opt/valkey-server").unwrap();
        assert_eq!(definition.name(), "valkey-server");
        assert_eq!(definition.words[0], "/opt/valkey-server");
        assert!(definition.words.contains(&"{port}".to_owned()));
    }

    #[test]
    fn definitions_without_a_port_a_name_or_a_command_are_refused() {
        for text in ["=redis", "redis", "x=", "x=redis-server --dir {dir}", "a/b=redis", "x='"] {
            assert!(Definition::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_behind_a_wrapper_has_a_digest_that_changes_when_it_is_rebuilt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server");
        let command = format!("x=/usr/bin/env A=1 {} --port {{port}}", path.display());
        let digests = |content: &str| {
            fs::write(&path, content).unwrap();
            let Lookup::Present(server) = look_up("x", &[Definition::parse(&command).unwrap()]).unwrap() else {
                panic!("it is there")
            };
            server.files
        };
        let (one, two) = (digests("one"), digests("two"));
        assert_eq!(one.keys().collect::<Vec<_>>(), [path.to_str().unwrap()]);
        assert!(one != two && digests("one") == one);
    }

    #[test]
    fn dragonfly_gets_its_own_flags_or_none() {
        let translated = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
            let translated: Option<Vec<Vec<String>>> = flags.chunks(2).map(in_dragonfly).collect();
            translated.map(|flags| flags.concat())
        };
        let expected = ["--maxclients", "12000", "--tcp_backlog", "4096"].map(str::to_owned).to_vec();
        assert_eq!(
            translated(&["--appendonly", "no", "--maxclients", "12000", "--tcp-backlog", "4096"]),
            Some(expected)
        );
        assert_eq!(translated(&["--appendonly", "yes"]), None);
        assert_eq!(translated(&["--appendonly"]), None);
    }

    #[test]
    fn an_unknown_name_and_a_missing_program_are_errors() {
        assert!(look_up("mutex,actor", &[]).unwrap_err().to_string().ends_with("names are separated by spaces"));
        assert!(look_up("memcached", &[]).unwrap_err().to_string().contains("--server memcached=COMMAND"));
        let definition = Definition::parse("x=/nowhere/at-all").unwrap();
        assert!(look_up("x", &[definition]).unwrap_err().to_string().contains("/nowhere/at-all"));
    }
}
