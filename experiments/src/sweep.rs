//! A sweep is one question, asked of several servers at several points; `experiments/sweeps/*.toml` holds one each.
//!
//! ```toml
//! question = "How does throughput hold as clients are added?"
//! servers  = ["mutex", "dashmap", "actor", "redis-server"]
//! clients  = [1, 10, 100]        # every list field is crossed with every other
//! ```
//!
//! The name of a sweep is its file's stem. A file is validated once, when it is read; an unknown field is an error.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// One question and the grid of points that answers it.
///
/// Invariants (checked by [`Sweep::read`]): no list is empty or repeats a value, no duration or count is zero, and
/// every name is fit for a file name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The file's stem.
    #[serde(default)]
    pub name: String,
    /// What the sweep is to answer, as a sentence.
    pub question: String,
    /// Runs only under `--quick` or when it is named.
    #[serde(default)]
    pub quick: bool,
    /// Names from the catalogue of servers.
    pub servers: Vec<String>,
    /// Connections in total.
    pub clients: Vec<u32>,
    /// Requests in flight per connection.
    #[serde(default = "defaults::pipeline")]
    pub pipeline: Vec<u32>,
    /// SETs to GETs.
    #[serde(default = "defaults::ratio")]
    pub ratio: Vec<Ratio>,
    /// Bytes per value.
    #[serde(default = "defaults::data_size")]
    pub data_size: Vec<u32>,
    /// How SETs and GETs choose keys, in memtier_benchmark's letters.
    #[serde(default = "defaults::key_pattern")]
    pub key_pattern: Vec<String>,
    /// Size of the key space; all of it is prefilled.
    #[serde(default = "defaults::key_maximum")]
    pub key_maximum: u64,
    /// Length of the measured window.
    pub test_seconds: u32,
    /// Load before the window, not measured.
    pub warm_up_seconds: u32,
    /// Rounds; each point is measured once in each.
    pub repeats: u32,
    /// How often a trial under foreign load is measured again.
    #[serde(default = "defaults::retries")]
    pub retries: u32,
    /// Threads of the generator.
    #[serde(default = "defaults::threads")]
    pub threads: u32,
    /// Server flags under test. With none given there is one variant without persistence.
    #[serde(default = "defaults::variants", rename = "variant")]
    pub variants: Vec<Variant>,
}

/// Flags that every server of a sweep gets, under a name of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The name that plots and file names use.
    pub name: String,
    /// Appended to each server's command.
    pub flags: Vec<String>,
}

/// SETs to GETs, written `1:10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio {
    /// Share of SETs.
    pub sets: u32,
    /// Share of GETs.
    pub gets: u32,
}

mod defaults {
    use super::{Ratio, Variant};

    pub fn pipeline() -> Vec<u32> {
        vec![1]
    }
    pub fn ratio() -> Vec<Ratio> {
        vec![Ratio { sets: 1, gets: 1 }]
    }
    pub fn data_size() -> Vec<u32> {
        vec![64]
    }
    pub fn key_pattern() -> Vec<String> {
        vec!["R:R".to_owned()]
    }
    pub fn key_maximum() -> u64 {
        100_000
    }
    pub fn retries() -> u32 {
        2
    }
    pub fn threads() -> u32 {
        1
    }
    pub fn variants() -> Vec<Variant> {
        vec![Variant { name: "no-aof".to_owned(), flags: vec!["--appendonly".to_owned(), "no".to_owned()] }]
    }
}

impl Sweep {
    /// Reads and validates one file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the sweep {}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text).with_context(|| format!("in the sweep {}", path.display()))
    }

    /// Validates the text of a sweep called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut sweep: Self = toml::from_str(text)?;
        ensure!(sweep.name.is_empty() || sweep.name == name, "`name` is {:?} but the file's is {name:?}", sweep.name);
        sweep.name = name.to_owned();
        sweep.validate()?;
        Ok(sweep)
    }

    /// Shortens a sweep to what `--quick` promises: an impression, not a result.
    pub fn shortened(mut self) -> Self {
        self.test_seconds = self.test_seconds.min(2);
        self.warm_up_seconds = self.warm_up_seconds.min(1);
        self.repeats = self.repeats.min(2);
        self.retries = 0;
        self
    }

    /// The flags of the variant called `name`.
    pub fn flags_of(&self, name: &str) -> &[String] {
        let variant = self.variants.iter().find(|variant| variant.name == name);
        &variant.expect("a point's variant comes from its sweep").flags
    }

    fn validate(&self) -> Result<()> {
        check_name("name", &self.name)?;
        check_list("servers", &self.servers)?;
        check_list("clients", &self.clients)?;
        check_list("pipeline", &self.pipeline)?;
        check_list("ratio", &self.ratio)?;
        check_list("data_size", &self.data_size)?;
        check_list("key_pattern", &self.key_pattern)?;
        let variant_names: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        check_list("variant", &variant_names)?;
        self.servers.iter().try_for_each(|name| check_name("servers", name))?;
        variant_names.iter().try_for_each(|name| check_name("variant", name))?;
        self.key_pattern.iter().try_for_each(|pattern| check_pattern(pattern))?;
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<()> {
        for (field, values) in
            [("clients", &self.clients), ("pipeline", &self.pipeline), ("data_size", &self.data_size)]
        {
            ensure!(!values.contains(&0), "`{field}` holds a zero");
        }
        ensure!(self.key_maximum > 0, "`key_maximum` is zero");
        ensure!(self.test_seconds > 0, "`test_seconds` is zero");
        ensure!(self.repeats > 0, "`repeats` is zero");
        ensure!(self.threads > 0, "`threads` is zero");
        Ok(())
    }
}

impl FromStr for Ratio {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once(':').and_then(|(sets, gets)| Some((sets.parse().ok()?, gets.parse().ok()?)));
        match parsed {
            None | Some((0, 0)) => bail!("a ratio is SETS:GETS, such as 1:10, not {text:?}"),
            Some((sets, gets)) => Ok(Self { sets, gets }),
        }
    }
}

impl TryFrom<String> for Ratio {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Ratio> for String {
    fn from(ratio: Ratio) -> Self {
        ratio.to_string()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sets, self.gets)
    }
}

/// Reads the sweeps a run is asked for. Arguments are files, folders of `.toml` files, or names in `home`; none at all
/// means `home` itself. A sweep marked `quick` found in a folder is taken with `quick`, and the others without.
pub fn load(arguments: &[PathBuf], home: &Path, quick: bool) -> Result<Vec<Sweep>> {
    let named = !arguments.is_empty();
    let arguments = if named { arguments } else { &[home.to_path_buf()] };
    let mut sweeps = Vec::new();
    for argument in arguments {
        sweeps.extend(load_one(argument, home, quick && !named)?);
    }
    ensure!(!sweeps.is_empty(), "no sweep to run in {arguments:?}");
    let names: Vec<&str> = sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
    check_list("--sweeps", &names)?;
    let shorten = quick && named;
    Ok(if shorten { sweeps.into_iter().map(Sweep::shortened).collect() } else { sweeps })
}

/// Every sweep of a folder, by name.
pub fn load_folder(folder: &Path) -> Result<Vec<Sweep>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list the sweeps in {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list the sweeps in {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Sweep::read(path)).collect()
}

fn load_one(argument: &Path, home: &Path, quick: bool) -> Result<Vec<Sweep>> {
    if argument.is_dir() {
        let found = load_folder(argument)?;
        return Ok(found.into_iter().filter(|sweep| sweep.quick == quick).collect());
    }
    let shorthand = home.join(argument).with_extension("toml");
    let path = if !argument.exists() && shorthand.exists() { &shorthand } else { argument };
    Ok(vec![Sweep::read(path)?])
}

fn check_list<T: PartialEq + fmt::Debug>(field: &str, values: &[T]) -> Result<()> {
    ensure!(!values.is_empty(), "`{field}` is empty");
    for (index, value) in values.iter().enumerate() {
        ensure!(!values[..index].contains(value), "`{field}` holds {value:?} twice");
    }
    Ok(())
}

/// Names become parts of file names.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    ensure!(!name.is_empty() && name.chars().all(plain), "`{field}`: {name:?} is not of letters, digits, - and _");
    Ok(())
}

fn check_pattern(pattern: &str) -> Result<()> {
    let known = |part: &str| matches!(part, "R" | "Z" | "S" | "P");
    let valid = pattern.split_once(':').is_some_and(|(sets, gets)| known(sets) && known(gets));
    ensure!(valid, "`key_pattern` is two of R, Z, S, P, such as R:R, not {pattern:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "question = 'Which?'\nservers = ['mutex']\nclients = [1, 10]\ntest_seconds = 1\nwarm_up_seconds = 0\nrepeats = 2\n";

    #[test]
    fn a_small_sweep_gets_the_documented_defaults() {
        let sweep = Sweep::parse("small", SMALL).unwrap();
        assert_eq!((sweep.name.as_str(), &sweep.pipeline[..], sweep.key_maximum), ("small", &[1][..], 100_000));
        assert_eq!(sweep.flags_of("no-aof"), ["--appendonly", "no"]);
        assert_eq!(sweep.ratio[0].to_string(), "1:1");
    }

    #[test]
    fn mistakes_are_named() {
        for (line, complaint) in [
            ("pipeline = []", "`pipeline` is empty"),
            ("pipeline = [1, 1]", "`pipeline` holds 1 twice"),
            ("pipeline = [0]", "`pipeline` holds a zero"),
            ("ratio = ['ten']", "a ratio is SETS:GETS"),
            ("key_pattern = ['Q:R']", "`key_pattern`"),
            ("clinets = [1]", "unknown field"),
            ("variant = [{ name = 'a/b', flags = [] }]", "`variant`"),
        ] {
            let error = Sweep::parse("small", &format!("{SMALL}{line}\n")).unwrap_err();
            assert!(format!("{error:#}").contains(complaint), "{line}: {error:#}");
        }
    }

    #[test]
    fn shipped_sweeps_are_valid_and_exactly_one_is_quick() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps");
        assert_eq!(load(&[], &home, true).unwrap().len(), 1);
        assert!(load(&[], &home, false).unwrap().len() >= 2);
        assert_eq!(load(&["clients".into()], &home, false).unwrap()[0].name, "clients");
    }
}
