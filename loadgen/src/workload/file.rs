//! Workloads as TOML files: the commands, how often each, and defaults for the flags.
//!
//! ```toml
//! name = "session-cache"
//! about = "one line"
//! source = "where its numbers come from"      # optional
//!
//! [flags]                                      # as on the command line, which goes before them
//! key-prefix = "session:"
//! key-maximum = 100000
//! key-pattern = "zipfian"
//! data-size-range = "256-2048"
//!
//! [prefill]                                    # what --prefill sends for each key
//! send = "SET __key__ __data__ EX 1800"
//! keys = 50000                                 # only this many, from the first [default: all]
//!
//! [[command]]
//! send = "GET __key__"                         # or a list: one after the other, of the same key
//! weight = 80
//! name = "GET"                                 # tag and row of reports [default: the first word]
//! keys = "latest"                              # a pattern of its own
//! ```
//! The words of a command are separated by spaces. One placeholder may stand in each:
//! `__key__` is the key (prefix and number), `__number__` its number, `__data__` a value (a word of
//! its own), `__random:1:100__` a whole number between two, both included. With
//! `keys-per-command = K` in the flags, `__keys__` is K keys and `__pairs__` K keys with a value each,
//! as arguments of their own, and keys are named `PREFIX{tag}:member`, as with `--keys-per-command`.

use std::path::Path;

use serde::Deserialize;

use crate::base::{Error, invalid};

/// A workload file, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Its name in reports.
    pub name: String,
    /// One line for humans.
    pub about: String,
    /// The source of its numbers.
    #[serde(default)]
    pub source: Option<String>,
    /// Defaults for flags.
    #[serde(default)]
    pub flags: WorkloadFlags,
    /// What `--prefill` sends.
    #[serde(default)]
    pub prefill: Option<PrefillSection>,
    /// The commands.
    #[serde(rename = "command")]
    pub commands: Vec<CommandSection>,
}

/// Flags that a workload may have defaults for, by their long names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs)] // The flags' own help describes them.
pub struct WorkloadFlags {
    pub key_prefix: Option<String>,
    pub key_minimum: Option<u64>,
    pub key_maximum: Option<u64>,
    pub key_pattern: Option<String>,
    pub key_zipf_exp: Option<f64>,
    pub key_median: Option<f64>,
    pub key_stddev: Option<f64>,
    pub key_hotspot: Option<String>,
    pub data_size: Option<u64>,
    pub data_size_range: Option<String>,
    pub data_size_list: Option<String>,
    pub data_size_pattern: Option<String>,
    pub keys_per_command: Option<u32>,
    pub cross_shard: Option<u32>,
    pub target_shards: Option<u32>,
}

/// What `--prefill` sends for each key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillSection {
    /// The commands.
    pub send: OneOrMany,
    /// How many keys, from the first one on; none for all.
    #[serde(default)]
    pub keys: Option<u64>,
}

/// One `[[command]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSection {
    /// What is sent.
    pub send: OneOrMany,
    /// How often, compared with the others.
    pub weight: u32,
    /// Tag and row; by default the first word.
    #[serde(default)]
    pub name: Option<String>,
    /// A key pattern of its own.
    #[serde(default)]
    pub keys: Option<String>,
}

/// A command, or several for the same key.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

/// The workloads that come with the generator, by name.
const SHIPPED: [(&str, &str); 13] = [
    ("ycsb-a", include_str!("../../workloads/ycsb-a.toml")),
    ("ycsb-b", include_str!("../../workloads/ycsb-b.toml")),
    ("ycsb-c", include_str!("../../workloads/ycsb-c.toml")),
    ("ycsb-d", include_str!("../../workloads/ycsb-d.toml")),
    ("ycsb-e", include_str!("../../workloads/ycsb-e.toml")),
    ("ycsb-f", include_str!("../../workloads/ycsb-f.toml")),
    ("read-heavy", include_str!("../../workloads/read-heavy.toml")),
    ("write-heavy", include_str!("../../workloads/write-heavy.toml")),
    ("mixed", include_str!("../../workloads/mixed.toml")),
    ("session-cache", include_str!("../../workloads/session-cache.toml")),
    ("leaderboard", include_str!("../../workloads/leaderboard.toml")),
    ("queue", include_str!("../../workloads/queue.toml")),
    ("rate-limiter", include_str!("../../workloads/rate-limiter.toml")),
];

impl WorkloadFile {
    /// An included workload by its name, or a file.
    pub(crate) fn load(name_or_path: &str) -> Result<Self, Error> {
        if let Some((_, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(text, Path::new(name_or_path));
        }
        let path = Path::new(name_or_path);
        if path.extension().is_none() && !path.exists() {
            let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            let why = format!("no such file, and none of those that ship: {}", names.join(", "));
            return invalid("--workload", name_or_path, why);
        }
        let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        Self::parse(&text, path)
    }

    /// All included workloads.
    pub fn shipped() -> Vec<Self> {
        let parse = |(name, text): (&str, &str)| Self::parse(text, Path::new(name)).expect("shipped files are valid");
        SHIPPED.into_iter().map(parse).collect()
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| Error::format(path, error.to_string().trim_end().to_owned()))
    }
}
