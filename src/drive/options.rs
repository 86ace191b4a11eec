//! The command line: what to measure.

use clap::{Parser, ValueEnum};
use std::ffi::OsString;

/// Keys of a command over several keys.
pub const KEYS_OF_MULTI: usize = 8;

/// Drives one engine, or a reference, without sockets, and prints the measurement as a line of JSON.
#[derive(Debug, Clone, Parser)]
#[command(name = "shardrace-scaling", version = concat!(env!("CARGO_PKG_VERSION"), " (sources ", env!("SHARDRACE_SOURCES"), ")"))]
pub struct Options {
    /// mutex, dashmap, actor; actor-pinned and actor-inline: with `placement pinned`, and `local inline` too; or a
    /// reference, which only this program has
    #[arg(long, default_value = "mutex")]
    pub engine: String,
    /// Shards of the actor engine [default: one for each thread], or of the map of dashmap [default: 4 for each thread]
    #[arg(long)]
    pub shards: Option<usize>,
    /// Worker threads; one of them is the server of delegation
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Do not pin threads: the kernel chooses their cores
    #[arg(long)]
    pub no_pinning: bool,
    /// Connections for each thread; each has one batch in flight
    #[arg(long, default_value_t = 8)]
    pub connections: usize,
    /// Requests in a batch
    #[arg(long, default_value_t = 16)]
    pub batch: usize,
    /// Percent of requests that read; the others write
    #[arg(long, default_value_t = 50)]
    pub reads: u32,
    /// How keys are drawn: uniform, zipf:EXPONENT, or one
    #[arg(long, default_value = "uniform")]
    pub skew: String,
    /// Percent of requests that take 8 keys: MGET and MSET
    #[arg(long, default_value_t = 0)]
    pub multi_key: u32,
    /// The type of the keys
    #[arg(long, value_enum, default_value = "strings")]
    pub data: Data,
    /// Bytes of a value, or of an element
    #[arg(long, default_value_t = 64)]
    pub value_size: usize,
    /// Number of keys
    #[arg(long, default_value_t = 100_000)]
    pub keys: usize,
    /// The server's flag --batching: read or command
    #[arg(long, value_enum, default_value = "read")]
    pub batching: Together,
    /// The server's flag --prefetch: yes or no
    #[arg(long, value_enum, default_value = "yes")]
    pub prefetch: Switch,
    /// Seconds that are measured
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Seconds before that, which are not measured
    #[arg(long, default_value_t = 0.3)]
    pub warm_up: f64,
    /// Seed of the requests
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The type of the keys, and the commands that read and write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Data {
    /// GET and SET
    Strings,
    /// HGET and HSET
    Hashes,
    /// LINDEX and LSET
    Lists,
    /// SISMEMBER and SADD
    Sets,
    /// ZSCORE and ZADD
    Zsets,
}

/// `--batching`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Together {
    /// The commands of a batch run together
    Read,
    /// Each command runs alone
    Command,
}

/// yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Yes
    Yes,
    /// No
    No,
}

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// All equally often.
    Uniform,
    /// The n-th most popular key n^-exponent times as often as the first.
    Zipf(f64),
    /// One key, every time.
    One,
}

impl Options {
    /// The values of `--engine`.
    pub const ENGINES: [&'static str; 13] = [
        "mutex",
        "dashmap",
        "actor",
        "actor-pinned",
        "actor-inline",
        "ref-mutex",
        "ref-std-mutex",
        "ref-combining",
        "ref-delegation",
        "map-mutex",
        "map-std-mutex",
        "map-rwlock",
        "map-std-rwlock",
    ];

    /// Parses and checks a command line. The error is for the user.
    pub fn of(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, String> {
        let options = Self::try_parse_from(arguments).map_err(|error| error.to_string())?;
        options.check()?;
        Ok(options)
    }

    /// The help or the version, if the command line asks for one of them.
    pub fn help_or_version(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Option<String> {
        let error = Self::try_parse_from(arguments).err()?;
        (!error.use_stderr()).then(|| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        let must = |holds: bool, words: &str| if holds { Ok(()) } else { Err(words.to_owned()) };
        must(Self::ENGINES.contains(&self.engine.as_str()), &format!("--engine is one of {:?}", Self::ENGINES))?;
        self.skew()?;
        must(self.reads <= 100, "--reads is a percentage")?;
        must(self.multi_key <= 100, "--multi-key is a percentage")?;
        must(self.multi_key == 0 || self.data == Data::Strings, "--multi-key is for --data strings")?;
        must(!self.is_map() || self.data == Data::Strings, "a plain map holds strings: --data strings")?;
        must((1..=1024).contains(&self.batch), "--batch is from 1 to 1024")?;
        must((1..=1024).contains(&self.threads), "--threads is from 1 to 1024")?;
        must((1..=1024).contains(&self.connections), "--connections is from 1 to 1024")?;
        must((1..=16_777_216).contains(&self.keys), "--keys is from 1 to 16777216")?;
        must((1..=1_048_576).contains(&self.value_size), "--value-size is from 1 to 1048576")?;
        must(self.shards != Some(0), "--shards is 1 at least")?;
        let map_shards = self.shards.filter(|_| self.engine == "dashmap");
        must(
            map_shards.is_none_or(|count| count.is_power_of_two() && count > 1),
            "--shards of dashmap is a power of two, and 2 at least: the library has no map of one shard",
        )?;
        must(self.seconds > 0.0 && self.seconds <= 3600.0, "--seconds is from 0 to 3600")?;
        must((0.0..=3600.0).contains(&self.warm_up), "--warm-up is from 0 to 3600")?;
        let server = usize::from(self.engine == "ref-delegation");
        must(self.threads > server, "delegation has a thread of its own for its server: --threads is 2 at least")
    }

    /// How keys are drawn.
    pub fn skew(&self) -> Result<Skew, String> {
        let exponent = self.skew.strip_prefix("zipf:").and_then(|text| text.parse().ok());
        match (self.skew.as_str(), exponent) {
            ("uniform", _) => Ok(Skew::Uniform),
            ("one", _) => Ok(Skew::One),
            (_, Some(exponent)) if (0.0..=10.0).contains(&exponent) => Ok(Skew::Zipf(exponent)),
            _ => Err(format!("--skew is uniform, one, or zipf:EXPONENT, and not {:?}", self.skew)),
        }
    }

    /// Whether the reference has a plain map in place of the keyspace.
    pub fn is_map(&self) -> bool {
        self.engine.starts_with("map-")
    }

    /// Whether each worker thread has a runtime of its own, with its share of connections and shards.
    pub fn is_pinned(&self) -> bool {
        self.engine == "actor-pinned" || self.runs_in_place()
    }

    /// Whether batches for shards of their connection's thread run in place.
    pub fn runs_in_place(&self) -> bool {
        self.engine == "actor-inline"
    }

    /// Whether the commands of a batch run together.
    pub fn is_by_read(&self) -> bool {
        self.batching == Together::Read
    }

    /// Whether nodes are prefetched.
    pub fn prefetches(&self) -> bool {
        self.prefetch == Switch::Yes
    }
}
