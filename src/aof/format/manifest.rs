//! The manifest: which segments make up the log, in which order.
//!
//! ```text
//! format 4
//! boot 6f6cbd43-1d0c-4ef1-a4f8-7ba1c9d5f1a3
//! chain 1 engine actor shards 2 segments 5d01c2aa:942 90ab44e1:1077
//! chain 2 engine mutex shards 1 base 4 increments 4 to 5 segments 1b2c3d4e:42
//! check 1b2c3d4e
//! ```
//!
//! `boot` names the boot of the operating system in which the log was last written: after another one, power may have
//! been lost. `check` is the CRC-32 of the lines before it: a changed digit would lead into other files.
//!
//! Chains are replayed in order, each in its own layout. A segment is a base, if the chain has one, followed by
//! increments; they have numbers, and a base has the number of the increment after it. The files of segment K of chain
//! C are `chain-C.segment-K.base-N.aof` and `chain-C.segment-K.incr-N.aof`; increment 1 is `chain-C.segment-K.aof`,
//! which is the only file of a chain unless its line names others.
//!
//! A file is on the disk, with a whole header, before a manifest names it: a file that is missing, or ends within its
//! header, was removed or cut. For each segment `segments` has the salt of its files, and the length of the last one on
//! the disk when the manifest was written: a file of another segment or log is detected by the salt, and a shortened
//! file by its length. Manifests before format 4 lack this.
//!
//! A line `functions 3` says that the libraries of functions are in `functions-3.rdb`, as FUNCTION DUMP replies them;
//! `functions 3 ID OFFSET` that they are those of the stream of this name, which a replica follows, up to that offset.
//! It is format 5 with a line of the first kind, and 6 with one of the second.
//!
//! While an import is written, `unfinished import` is in the place of the chains, so no server starts with a part of
//! it.

use super::record::Salt;
use crate::aof::disk::{self, Disk};
use crate::keyspace::StreamPlace;
use crate::rdb::dump_functions;
use crate::scripting::Libraries;
use std::io;
use std::path::{Path, PathBuf};

/// Servers that only know format 1 do not know write buffers, and those that only know format 2 or 3 do not know
/// buffers with this name, these slots and these descriptors: they would lose the data in them.
const FORMAT: u32 = 4;
/// The format of a manifest that names libraries of functions: servers that do not know them would lose them.
const FORMAT_WITH_FUNCTIONS: u32 = 5;
/// The format of a manifest in which these have a place in a stream: servers that only know format 5 cannot read it.
const FORMAT_WITH_PLACE: u32 = 6;
/// The oldest format that this server reads.
const FORMAT_MIN: u32 = 1;
/// The name of the file.
pub const FILE_NAME: &str = "shardrace.manifest";
/// The name of the file beside it that says that a server is importing, and what it does when that is done.
pub const TAKEOVER: &str = "shardrace.takeover";
/// The line of an import that has not finished.
const UNFINISHED: &str = "unfinished import";

/// How the data is divided: by which engine, into how many owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The engine's name.
    pub engine: String,
    /// How many segments.
    pub shards: usize,
}

/// What a server may have written: a manifest that names more is not one of ours, and the name of each file takes
/// memory. A rewriting that fails leaves one increment more: a client that requests one each second, and always in
/// vain, gets there in weeks.
const SHARDS_MAX: usize = 1024;
const INCREMENTS_MAX: u32 = 1 << 22;

/// The files that one layout wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its number.
    pub number: u32,
    /// How it divides the data.
    pub layout: Layout,
    /// Whether each segment begins with a base.
    pub has_base: bool,
    /// The first increment, and the number of the base.
    pub first: u32,
    /// The last increment.
    pub last: u32,
    /// What is known of each segment; empty if an older server wrote the manifest.
    pub known: Vec<Known>,
}

/// What a manifest says of a segment's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What their records are framed with.
    pub salt: Salt,
    /// The least length of the last of them.
    pub len: u64,
}

impl Known {
    fn to_word(self) -> String {
        format!(" {:08x}:{}", self.salt.0, self.len)
    }

    fn parse(word: &str) -> Option<Self> {
        let (salt, len) = word.split_once(':')?;
        Some(Self { salt: Salt(u32::from_str_radix(salt, 16).ok()?), len: len.parse().ok()? })
    }
}

/// The files of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFiles {
    /// Its base.
    pub base: Option<PathBuf>,
    /// Its increments, with their numbers.
    pub increments: Vec<(u32, PathBuf)>,
    /// What is known of them.
    pub known: Option<Known>,
}

impl SegmentFiles {
    /// Every file, in order.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.base.iter().chain(self.increments.iter().map(|(_, path)| path))
    }
}

impl Chain {
    /// A chain that was never rewritten.
    pub fn new(number: u32, layout: Layout) -> Self {
        Self { number, layout, has_base: false, first: 1, last: 1, known: Vec::new() }
    }

    /// The files of one of its segments.
    pub fn files(&self, dir: &Path, segment: usize) -> SegmentFiles {
        let increments = self.first..=self.last;
        SegmentFiles {
            base: self.has_base.then(|| Self::base_path(dir, self.number, segment, self.first)),
            increments: increments.map(|n| (n, Self::increment_path(dir, self.number, segment, n))).collect(),
            known: self.known.get(segment).copied(),
        }
    }

    /// Whether a file of this chain's names may be left over from a rewrite: from one that failed, or from one that is
    /// done and has not removed the files that it replaced.
    fn may_have_left(&self, name: FileName) -> bool {
        let is_old = match name.kind {
            FileKind::Base(number) => number <= self.last,
            FileKind::Increment(number) => number < self.first,
        };
        name.segment < self.layout.shards && is_old
    }

    /// The file of a base.
    pub fn base_path(dir: &Path, chain: u32, segment: usize, base: u32) -> PathBuf {
        dir.join(format!("chain-{chain}.segment-{segment}.base-{base}.aof"))
    }

    /// The file of an increment.
    pub fn increment_path(dir: &Path, chain: u32, segment: usize, increment: u32) -> PathBuf {
        match increment {
            1 => Manifest::segment_path(dir, chain, segment),
            _ => dir.join(format!("chain-{chain}.segment-{segment}.incr-{increment}.aof")),
        }
    }

    /// The number of the chain that a file belongs to, if its name has one.
    pub fn chain_of(path: &Path) -> Option<u32> {
        FileName::of(path).map(|name| name.chain)
    }

    fn to_line(&self) -> String {
        let Self { number, layout, has_base, first, last, known } = self;
        let base = if *has_base { format!(" base {first}") } else { String::new() };
        let increments =
            if (*first, *last) == (1, 1) { String::new() } else { format!(" increments {first} to {last}") };
        let known = known.iter().map(|known| known.to_word()).collect::<String>();
        let segments = if known.is_empty() { known } else { format!(" segments{known}") };
        format!("chain {number} engine {} shards {}{base}{increments}{segments}\n", layout.engine, layout.shards)
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let (["chain", number, "engine", engine, "shards", shards], rest) = words.split_at_checked(6)? else {
            return None;
        };
        let shards = shards.parse().ok().filter(|shards| (1..=SHARDS_MAX).contains(shards))?;
        let (base, rest) = match rest {
            ["base", base, rest @ ..] => (Some(base.parse::<u32>().ok()?), rest),
            _ => (None, rest),
        };
        let (first, last, rest) = match rest {
            ["increments", first, "to", last, rest @ ..] => (first.parse().ok()?, last.parse().ok()?, rest),
            _ => (1, 1, rest),
        };
        let known = match rest {
            [] => Vec::new(),
            ["segments", known @ ..] if known.len() == shards => {
                known.iter().map(|word| Known::parse(word)).collect::<Option<_>>()?
            }
            _ => return None,
        };
        let number = number.parse().ok().filter(|&number| number < u32::MAX)?;
        let is_right = first > 0 && first <= last && base.is_none_or(|base| base == first);
        let is_right = is_right && last < u32::MAX && last - first < INCREMENTS_MAX;
        let layout = Layout { engine: (*engine).into(), shards };
        is_right.then_some(Self { number, layout, has_base: base.is_some(), first, last, known })
    }
}

/// What the name of a segment file says's name.
#[derive(Debug, Clone, Copy)]
struct FileName {
    chain: u32,
    segment: usize,
    kind: FileKind,
}

#[derive(Debug, Clone, Copy)]
enum FileKind {
    Base(u32),
    Increment(u32),
}

impl FileName {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix("chain-")?.strip_suffix(".aof")?;
        let (chain, rest) = name.split_once(".segment-")?;
        let (segment, kind) = rest.split_once('.').map_or((rest, None), |(segment, kind)| (segment, Some(kind)));
        let kind = match kind {
            None => FileKind::Increment(1),
            Some(kind) => match kind.strip_prefix("base-") {
                Some(number) => FileKind::Base(number_of(number)?),
                None => FileKind::Increment(number_of(kind.strip_prefix("incr-")?)?),
            },
        };
        Some(Self { chain: number_of(chain)?, segment: number_of(segment)?, kind })
    }
}

/// A number written in digits only.
fn number_of<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The chains of a log directory, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The boot in which the log was last written; empty where it is not known.
    pub boot: String,
    chains: Vec<Chain>,
    /// The number of the file with the libraries of functions; 0 where there is none.
    functions: u32,
    /// What these libraries have of the stream of a master.
    functions_place: Option<StreamPlace>,
    is_unfinished: bool,
}

impl Manifest {
    /// Reads the manifest of `dir`; empty if there is none. The manifest of an unfinished import is refused.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, String> {
        let manifest = Self::read_any(disk, dir)?;
        if !manifest.is_unfinished {
            return Ok(manifest);
        }
        let path = dir.join(FILE_NAME);
        // The source of a takeover may be in the same directory: then the error must not advise to remove the
        // directory.
        let is_takeover = matches!(disk.read(&dir.join(TAKEOVER)), Ok(Some(_)));
        Err(match is_takeover {
            true => format!(
                "{}: a server that took over the data of a Redis was ended before it was done. Start it again: it \
                 begins anew, and what it takes over is as it was",
                path.display()
            ),
            false => format!(
                "{}: an import into this directory has not come to its end. Refusing to start with a part of the data: \
                 run `shardrace import` again, or remove the directory",
                path.display()
            ),
        })
    }

    /// Whether `dir` holds an unfinished import.
    pub fn is_of_unfinished_import(disk: &dyn Disk, dir: &Path) -> Result<bool, String> {
        Ok(Self::read_any(disk, dir)?.is_unfinished)
    }

    fn read_any(disk: &dyn Disk, dir: &Path) -> Result<Self, String> {
        let path = dir.join(FILE_NAME);
        let text = match disk.read(&path) {
            Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(None) => return Ok(Self::default()),
            Err(error) => return Err(format!("can't read {}: {error}", path.display())),
        };
        Self::parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))
    }

    /// A manifest of these chains, oldest first.
    pub fn of_chains(boot: String, chains: Vec<Chain>) -> Self {
        Self { boot, chains, ..Self::default() }
    }

    /// Takes over the libraries of functions of another manifest.
    pub fn with_functions_of(self, other: &Self) -> Self {
        Self { functions: other.functions, functions_place: other.functions_place.clone(), ..self }
    }

    /// The file with the libraries of functions, where there is one.
    pub fn functions(&self, dir: &Path) -> Option<PathBuf> {
        (self.functions > 0).then(|| Self::functions_path(dir, self.functions))
    }

    /// What the libraries of functions have of the stream of a master. They may be ahead of the log, whose last records
    /// a crash takes.
    pub fn functions_place(&self) -> Option<&StreamPlace> {
        self.functions_place.as_ref()
    }

    /// Writes libraries of functions into a file of their own and names it; names none if there are no libraries. The
    /// number of the file was never used: a manifest that was written since may name any file that is there.
    pub fn keep_functions(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        libraries: &Libraries,
        place: Option<StreamPlace>,
    ) -> io::Result<()> {
        self.functions_place = place;
        let last = disk.list(dir)?.iter().filter_map(|path| Self::functions_of(path)).max().unwrap_or(0);
        self.functions = if libraries.is_empty() { 0 } else { self.functions.max(last) + 1 };
        let Some(path) = self.functions(dir) else { return Ok(()) };
        let name = path.file_name().and_then(|name| name.to_str()).expect("it is made of a number");
        let payload = dump_functions(libraries.sources());
        disk::replace(disk, dir, name, &payload)
    }

    fn functions_path(dir: &Path, number: u32) -> PathBuf {
        dir.join(format!("functions-{number}.rdb"))
    }

    /// Whether a file has the name of one with libraries of functions.
    pub fn is_of_functions(path: &Path) -> bool {
        Self::functions_of(path).is_some()
    }

    /// The number of a file with libraries of functions, if its name is that of one.
    fn functions_of(path: &Path) -> Option<u32> {
        number_of(path.file_name()?.to_str()?.strip_prefix("functions-")?.strip_suffix(".rdb")?)
    }

    /// The manifest of an unfinished import.
    pub fn of_unfinished_import() -> Self {
        Self { is_unfinished: true, ..Self::default() }
    }

    /// The chains, oldest first.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// The chain that is appended to.
    pub fn last_mut(&mut self) -> Option<&mut Chain> {
        self.chains.last_mut()
    }

    /// Sets what is known of the segments of a chain, by its position among the chains.
    pub fn note_known(&mut self, place: usize, known: Vec<Known>) {
        self.chains[place].known = known;
    }

    /// Whether a segment file that is not named here may exist: a rewrite or a repair left it. Any other file belongs
    /// to a newer manifest, or to another log.
    pub fn may_have_left(&self, path: &Path) -> bool {
        let Some(name) = FileName::of(path) else { return true };
        match self.chains.iter().find(|chain| chain.number == name.chain) {
            Some(chain) => chain.may_have_left(name),
            None => self.chains.iter().any(|chain| chain.number > name.chain),
        }
    }

    /// Every file of every segment.
    pub fn files(&self, dir: &Path) -> impl Iterator<Item = PathBuf> {
        self.salts(dir).map(|(path, _)| path)
    }

    /// Whether power may have been lost since the log was written, given the present boot.
    pub fn may_have_lost_power(&self, boot: &str) -> bool {
        self.boot.is_empty() || self.boot != boot
    }

    /// Every file of every segment, with its salt if that is known.
    pub fn salts(&self, dir: &Path) -> impl Iterator<Item = (PathBuf, Option<Salt>)> {
        let segments = self.chains.iter().flat_map(|chain| (0..chain.layout.shards).map(move |index| (chain, index)));
        segments.flat_map(move |(chain, index)| {
            let files = chain.files(dir, index);
            let salt = files.known.map(|known| known.salt);
            files.all().map(|path| (path.clone(), salt)).collect::<Vec<_>>()
        })
    }

    /// Adds a chain of this layout unless the last chain has it; returns the last chain.
    pub fn continue_as(&mut self, layout: &Layout) -> &Chain {
        if self.chains.last().is_none_or(|last| last.layout != *layout) {
            self.chains.push(self.next_chain(layout));
        }
        self.chains.last().expect("there is one now")
    }

    /// A chain of this layout, to follow all others.
    pub fn next_chain(&self, layout: &Layout) -> Chain {
        let number = self.chains.iter().map(|chain| chain.number + 1).max().unwrap_or(1);
        Chain::new(number, layout.clone())
    }

    /// Replaces the manifest of `dir`: written aside, synced, renamed, and the directory synced.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk::replace(disk, dir, FILE_NAME, self.to_text().as_bytes())
    }

    /// The first file of a segment.
    pub fn segment_path(dir: &Path, chain: u32, segment: usize) -> PathBuf {
        dir.join(format!("chain-{chain}.segment-{segment}.aof"))
    }

    fn to_text(&self) -> String {
        let chains = self.chains.iter().map(Chain::to_line);
        let unfinished = self.is_unfinished.then(|| format!("{UNFINISHED}\n"));
        let boot = if self.boot.is_empty() { String::new() } else { format!("boot {}\n", self.boot) };
        let functions = self.functions_line();
        let format = match (&functions, &self.functions_place) {
            (None, _) => FORMAT,
            (Some(_), None) => FORMAT_WITH_FUNCTIONS,
            (Some(_), Some(_)) => FORMAT_WITH_PLACE,
        };
        let lines = unfinished.into_iter().chain(functions).chain(chains).collect::<String>();
        let lines = format!("format {format}\n{boot}{lines}");
        format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()))
    }

    fn functions_line(&self) -> Option<String> {
        let number = self.functions;
        match &self.functions_place {
            Some(StreamPlace { id: Some(id), offset, .. }) => Some(format!("functions {number} {id} {offset}\n")),
            _ => (number > 0).then(|| format!("functions {number}\n")),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text.lines().next().and_then(|line| line.strip_prefix("format ")) {
            Some(format) if (FORMAT_MIN..=FORMAT_WITH_PLACE).any(|known| format == known.to_string()) => {}
            Some(format) => {
                let known = FORMAT_WITH_PLACE;
                return Err(format!("format {format} is not the format {known} that this server knows"));
            }
            None => return Err("the first line is not 'format N'".into()),
        }
        let mut lines =
            checked(text).ok_or("is damaged: its last line is not the check of the others")?.lines().peekable();
        lines.next();
        let boot = lines.next_if(|line| line.starts_with("boot ")).map_or("", |line| &line["boot ".len()..]).to_owned();
        let is_unfinished = lines.next_if_eq(&UNFINISHED).is_some();
        let functions = lines.next_if(|line| line.starts_with("functions "));
        let functions = functions.map_or(Some((0, None)), |line| parse_functions(&line["functions ".len()..]));
        let (functions, functions_place) = functions.ok_or("the number of its libraries of functions is none")?;
        let chains = lines.map(|line| Chain::parse(line).ok_or_else(|| format!("'{line}' is not a chain")));
        Ok(Self { boot, chains: chains.collect::<Result<_, _>>()?, functions, functions_place, is_unfinished })
    }
}

/// The number of the file with the libraries of functions, and what they have of a stream.
fn parse_functions(words: &str) -> Option<(u32, Option<StreamPlace>)> {
    match *words.split(' ').collect::<Vec<_>>() {
        [number] => Some((number_of(number)?, None)),
        [number, id, offset] => {
            let place = StreamPlace { id: Some(id.to_owned()), offset: number_of(offset)?, database: 0 };
            Some((number_of(number)?, Some(place)))
        }
        _ => None,
    }
}

/// The text before the last line, which is its check.
fn checked(text: &str) -> Option<&str> {
    let last = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (lines, check) = text.split_at(last);
    (check == format!("check {:08x}\n", crc32fast::hash(lines.as_bytes()))).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_of_every_format_and_of_an_unfinished_import_are_read() {
        let with_check = |lines: &str| format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()));
        for format in 1..=3 {
            let old =
                with_check(&format!("format {format}\nboot b\nchain 1 engine actor shards 2 increments 1 to 2\n"));
            let read = Manifest::parse(&old).expect("older servers wrote it");
            assert_eq!((read.chains[0].last, read.chains[0].known.len()), (2, 0));
        }
        let place = StreamPlace { id: Some("stream".into()), offset: 7, database: 0 };
        for (functions, place) in [(3, None), (3, Some(place.clone())), (0, Some(place))] {
            let manifest = Manifest { functions, functions_place: place, ..Manifest::default() };
            assert_eq!(Manifest::parse(&manifest.to_text()).as_ref(), Ok(&manifest));
            let format = if manifest.functions_place.is_some() { "format 6\n" } else { "format 5\n" };
            assert!(manifest.to_text().starts_with(format));
        }
        let unfinished = Manifest::of_unfinished_import();
        assert_eq!(Manifest::parse(&unfinished.to_text()).as_ref(), Ok(&unfinished));
    }

    #[test]
    fn a_manifest_that_names_more_than_a_server_can_have_written_is_refused() {
        for (words, is_right) in [
            ("1 engine actor shards 1024", true),
            ("1 engine actor shards 0", false),
            ("1 engine actor shards 1025", false),
            ("1 engine actor shards 18446744073709551615", false),
            ("4294967294 engine mutex shards 1", true),
            ("4294967295 engine mutex shards 1", false),
            ("1 engine mutex shards 1 increments 1000 to 4194000", true),
            ("1 engine mutex shards 1 increments 1 to 4294967294", false),
            ("1 engine mutex shards 1 increments 4294967295 to 4294967295", false),
            ("1 engine mutex shards 1 increments 2 to 1", false),
        ] {
            assert_eq!(Chain::parse(&format!("chain {words}")).is_some(), is_right, "{words}");
        }
    }

    #[test]
    fn what_a_rewriting_may_have_left_is_told_from_what_is_out_of_place() {
        let layout = Layout { engine: "actor".into(), shards: 2 };
        let chain = Chain { first: 2, last: 3, has_base: true, ..Chain::new(4, layout) };
        let manifest = Manifest::of_chains(String::new(), vec![chain]);
        for name in ["chain-4.segment-0", "chain-4.segment-1.base-3", "chain-3.segment-9", "chain-1.segment-0.incr-7"] {
            assert!(manifest.may_have_left(Path::new(&format!("{name}.aof"))), "{name}");
        }
        for name in ["chain-4.segment-2", "chain-4.segment-0.incr-4", "chain-4.segment-1.base-4", "chain-5.segment-0"] {
            assert!(!manifest.may_have_left(Path::new(&format!("{name}.aof"))), "{name}");
        }
    }

    #[test]
    fn files_of_chains_are_told_by_their_names() {
        let chain =
            Chain { first: 2, last: 3, has_base: true, ..Chain::new(7, Layout { engine: "mutex".into(), shards: 1 }) };
        let files = chain.files(Path::new("/dir"), 4);
        assert_eq!(files.all().count(), 3);
        assert!(files.all().all(|path| Chain::chain_of(path) == Some(7)), "{files:?}");
        assert_eq!(Chain::chain_of(&Manifest::segment_path(Path::new(""), 3, 9)), Some(3));
        for name in [
            "shardrace.manifest",
            "chain-1.segment-0.aof.bak",
            "chain-1.segment-.aof",
            "chain-x.segment-0.aof",
            "chain-1.segment-0.other-2.aof",
            "chain-1.segment-0.base-.aof",
        ] {
            assert_eq!(Chain::chain_of(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_manifest_reads_back_and_a_newer_format_is_refused() {
        let mut manifest = Manifest::default();
        let (actor, mutex) =
            (Layout { engine: "actor".into(), shards: 4 }, Layout { engine: "mutex".into(), shards: 1 });
        assert_eq!(manifest.continue_as(&actor).number, 1);
        assert_eq!(manifest.continue_as(&actor).number, 1);
        assert_eq!(manifest.continue_as(&mutex).number, 2);
        assert_eq!(manifest.continue_as(&actor).number, 3);
        assert_eq!(Manifest::parse(&manifest.to_text()).as_ref(), Ok(&manifest));
        manifest.boot = "b-1".into();
        manifest.functions = 2;
        assert_eq!(manifest.functions(Path::new("/dir")), Some("/dir/functions-2.rdb".into()));
        assert!(manifest.to_text().starts_with("format 5\nboot b-1\nfunctions 2\nchain "));
        for (has_base, first, last) in [(false, 1, 2), (true, 2, 2), (true, 4, 7)] {
            let chain = manifest.last_mut().expect("there are chains");
            let known =
                (1..=4_u32).map(|number| Known { salt: Salt(0xfeed << number), len: 16 * u64::from(number) }).collect();
            *chain = Chain { has_base, first, last, known, ..chain.clone() };
            assert_eq!(Manifest::parse(&manifest.to_text()).as_ref(), Ok(&manifest));
        }
        assert_eq!(Manifest::parse(&manifest.to_text()).as_ref(), Ok(&manifest));
        let with_check = |lines: &str| format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()));
        let refused = |text: &str| Manifest::parse(text).expect_err(text);
        assert_eq!(Manifest::parse(&with_check("format 1\n")), Ok(Manifest::default()), "the first format is read");
        assert!(refused("format 7\n").contains("format 7"));
        assert!(refused(&with_check("format 1\nchain 1 engine actor shards 0\n")).contains("is not a chain"));
        for rest in [
            "base 2",
            "base 2 increments 3 to 3",
            "increments 3 to 2",
            "increments 0 to 1",
            "base",
            "segments",
            "segments 1:2 3:4",
            "segments 1",
            "segments x:1",
            "segments 1:2 more",
        ] {
            let line = format!("format 1\nchain 1 engine actor shards 1 {rest}\n");
            assert!(refused(&with_check(&line)).contains("is not a chain"), "{rest}");
        }
        assert!(refused("").contains("format N"));
        let text = manifest.to_text();
        (0..text.len()).for_each(|cut| drop(refused(&text[..cut])));
        for position in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[position] ^= 1;
            refused(&String::from_utf8(bytes).expect("still ASCII"));
        }
    }
}
