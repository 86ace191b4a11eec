//! The flags, named as memtier_benchmark's. What they mean together is settled in
//! [`crate::config`].

pub mod foreign;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::workload::values::VALUE_BYTES_MAX;

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "loadgen",
    version,
    about = "Load generator for RESP servers",
    args_conflicts_with_subcommands = true,
    allow_negative_numbers = true
)]
pub struct Cli {
    /// What to do instead of a run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to run.
    #[command(flatten)]
    pub run: RunFlags,
}

/// What else the binary does.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Put the percentiles of two or more .hlog files side by side
    Compare(CompareFlags),
    /// Put the files of generators that ran at the same time together, as one run
    Merge(MergeFlags),
    /// List the workloads that ship
    Workloads,
}

/// Flags of `loadgen compare`.
#[derive(Args, Debug)]
pub struct CompareFlags {
    /// Histogram logs, or directories of the logs of repeated runs; differences are relative to the first
    #[arg(required = true, num_args = 2.., value_name = "FILE.hlog|DIRECTORY")]
    pub files: Vec<PathBuf>,
    /// Only the intervals with this tag (SET, GET, MSET, MGET)
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Per cent within which a difference does not matter: "no change", or "below" it if there is one
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub margin: f64,
    /// Write tables and plot as one HTML page that needs no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a plot of latency by percentile
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Flags of `loadgen merge`.
#[derive(Args, Debug)]
pub struct MergeFlags {
    /// What each generator's files begin with (its --hdr-file-prefix)
    #[arg(required = true, num_args = 2.., value_name = "PREFIX")]
    pub prefixes: Vec<PathBuf>,
    /// What the merged files begin with
    #[arg(short, long, value_name = "PREFIX")]
    pub out: PathBuf,
}

/// Flags of a run.
#[derive(Args, Debug, Clone)]
pub struct RunFlags {
    /// Host name or address of the target; or several, as `HOST[:PORT],…`, that share the connections
    #[arg(short, long, value_name = "HOST", default_value = "127.0.0.1")]
    pub server: String,
    /// Port of the targets that name none
    #[arg(short, long, default_value_t = 6379, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Password, or USER:PASSWORD
    #[arg(short, long, value_name = "CREDENTIALS")]
    pub authenticate: Option<String>,
    /// Version of RESP to speak
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub resp: u8,
    /// Connections in total; the threads share them
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: u32,
    /// Threads of the generator
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// How bytes come and go: io_uring, which costs less CPU, epoll, or whichever the kernel allows
    #[arg(long, value_name = "auto|epoll|io_uring", value_enum, default_value_t = IoChoice::Auto, hide_possible_values = true)]
    pub io: IoChoice,
    /// CPUs for the threads, one each in turn: 0-3,6
    #[arg(long, value_name = "CPUS")]
    pub pin_cpus: Option<String>,
    /// Requests in total; 10k and 1m are understood [default: 100000, unless --test-time is given]
    #[arg(short = 'n', long, conflicts_with = "test_time", value_parser = requests)]
    pub requests: Option<u64>,
    /// Seconds to run, instead of a number of requests
    #[arg(long, value_name = "SECS")]
    pub test_time: Option<f64>,
    /// Seconds of the same load before the measured window
    #[arg(long, value_name = "SECS", default_value_t = 0.0)]
    pub warm_up: f64,
    /// SETs to GETs [default: 1:10]
    #[arg(long, value_name = "SET:GET")]
    pub ratio: Option<String>,
    /// Any commands with weights, instead of SETs and GETs: a TOML file, or one that ships (`loadgen workloads`)
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["ratio", "multi_key", "expiry_range"])]
    pub workload: Option<String>,
    /// Keys of a command: from 2 on, MSET and MGET take the places of SET and GET; of a workload's __keys__ and
    /// __pairs__ [default: 1]
    #[arg(long, value_name = "KEYS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub keys_per_command: Option<u32>,
    /// Share of the commands that take several keys; the others take one [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub multi_key: Option<u32>,
    /// Share of the commands with several keys whose keys lie on several shards; the keys of the others share a hash
    /// tag [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub cross_shard: Option<u32>,
    /// Shards of the target, which owns a key by its hash slot modulo this number [default: 16384, each slot for
    /// itself]
    #[arg(long, value_name = "SHARDS", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub target_shards: Option<u32>,
    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "DEPTH", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pipeline: u32,
    /// Bytes of a value; k, m, kb and mb are understood (1k = 1000, 1kb = 1024) [default: 32]
    #[arg(short, long, value_name = "BYTES", value_parser = data_size)]
    pub data_size: Option<u64>,
    /// Bytes of a value, drawn from a range
    #[arg(long, value_name = "MIN-MAX", conflicts_with_all = ["data_size", "data_size_list"])]
    pub data_size_range: Option<String>,
    /// Bytes of a value, drawn from a list with weights
    #[arg(long, value_name = "SIZE:WEIGHT,…", conflicts_with = "data_size")]
    pub data_size_list: Option<String>,
    /// How sizes are drawn from --data-size-range: R uniformly, Z mostly short ones [default: R]
    #[arg(long, value_name = "R|Z", requires = "data_size_range")]
    pub data_size_pattern: Option<String>,
    /// Seconds after which a key that was SET expires, drawn from a range; decimals are allowed
    #[arg(long, value_name = "MIN-MAX")]
    pub expiry_range: Option<String>,
    /// Keys of SETs and of GETs, by letter or name: R uniform, Z zipfian, G gaussian, H hotspot, S sequential, P
    /// per-client (sequential in a range for each), L latest, I insert (new keys beyond the range) [default: R:R]
    #[arg(long, value_name = "SET:GET")]
    pub key_pattern: Option<String>,
    /// Exponent of the patterns zipfian and latest [default: 1]
    #[arg(long, value_name = "EXPONENT")]
    pub key_zipf_exp: Option<f64>,
    /// Centre of the gaussian pattern [default: the middle of the range]
    #[arg(long, value_name = "NUMBER")]
    pub key_median: Option<f64>,
    /// Standard deviation of the gaussian pattern [default: a sixth of the range]
    #[arg(long, value_name = "KEYS")]
    pub key_stddev: Option<f64>,
    /// The hotspot pattern: per cent of the keys that are hot, and per cent of the requests that they take [default:
    /// 20:80]
    #[arg(long, value_name = "KEYS:REQUESTS")]
    pub key_hotspot: Option<String>,
    /// Smallest key number [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub key_minimum: Option<u64>,
    /// Largest key number [default: 1000000]
    #[arg(short = 'r', long, value_name = "NUMBER")]
    pub key_maximum: Option<u64>,
    /// What stands before the number [default: memtier-]
    #[arg(long, value_name = "TEXT")]
    pub key_prefix: Option<String>,
    /// Before the run, SET every key once, or do what the workload says
    #[arg(long)]
    pub prefill: bool,
    /// Check every reply against a model; connections keep to keys of their own, and all keys are deleted before the
    /// run (or SET, with --prefill)
    #[arg(long, conflicts_with_all = ["expiry_range", "rate_steps", "find_knee"])]
    pub verify: bool,
    /// Instead of a load: connect, PING, close, and again; -c at a time, -n in total, or at --rate-limiting per second
    #[arg(long, conflicts_with_all = ["workload", "ratio", "keys_per_command", "prefill", "verify"])]
    pub connect_storm: bool,
    /// Open loop: requests per second, in total (memtier's is for each connection), due at fixed times whether or not
    /// replies come; 50k is understood
    #[arg(long, value_name = "OPS_PER_SEC", value_parser = rate)]
    pub rate_limiting: Option<f64>,
    /// Open loops at several rates, one after the other: RATE,…, where FROM-TO:BY stands for several
    #[arg(long, value_name = "RATES", conflicts_with_all = ["rate_limiting", "requests"], requires = "test_time")]
    pub rate_steps: Option<String>,
    /// Run the steps in an order drawn with the seed
    #[arg(long, requires = "rate_steps")]
    pub shuffle_steps: bool,
    /// Search for the highest rate that holds --p99-limit, in open loops of --test-time; the first is at
    /// --rate-limiting, or 1000
    #[arg(long, conflicts_with_all = ["rate_steps", "requests"], requires_all = ["test_time", "p99_limit"])]
    pub find_knee: bool,
    /// Milliseconds that the 99th percentile of latency may be
    #[arg(long, value_name = "MS", requires = "find_knee")]
    pub p99_limit: Option<f64>,
    /// How far apart the highest rate that holds and the lowest that does not may be in the end [default: 5]
    #[arg(long, value_name = "PERCENT", requires = "find_knee")]
    pub knee_precision: Option<f64>,
    /// Runs; their results are added up
    #[arg(short = 'x', long, value_name = "RUNS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub run_count: u32,
    /// Seed of keys and values
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up when requests are outstanding and no reply came for this many seconds
    #[arg(long, value_name = "SECS", default_value_t = 30.0)]
    pub reply_timeout: f64,
    /// Percentiles of the printed table
    #[arg(long, value_name = "P,P,…", default_value = "50,99,99.9")]
    pub print_percentiles: String,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json_out_file: Option<PathBuf>,
    /// Write PREFIX.hlog and so on: logs of intervals and totals, distribution, CSV, and JSON unless --json-out-file is
    /// given
    #[arg(long, value_name = "PREFIX")]
    pub hdr_file_prefix: Option<PathBuf>,
    /// Print no latency distribution after the table
    #[arg(long)]
    pub hide_histogram: bool,
    /// Print a line for each command
    #[arg(short = 'q', long)]
    pub brief: bool,
    /// Print errors only
    #[arg(long)]
    pub quiet: bool,
}

/// What `--io` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoChoice {
    /// For a closed loop io_uring, where the kernel has it and allows it; epoll elsewhere.
    Auto,
    /// epoll.
    Epoll,
    /// io_uring, or an error.
    #[value(name = "io_uring")]
    IoUring,
}

impl IoChoice {
    /// As `--io` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// Bytes, with the units of redis.conf: `k` is 1000 and `kb` 1024.
fn data_size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = lower.split_at(lower.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(lower.len()));
    let factor = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1024,
        "m" => 1_000_000,
        "mb" => 1024 * 1024,
        _ => return Err("expected bytes, such as 100, 1k (1000) or 1kb (1024)".to_owned()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let fits = bytes.filter(|bytes| *bytes <= VALUE_BYTES_MAX as u64);
    fits.ok_or_else(|| format!("expected 0 to {VALUE_BYTES_MAX} bytes"))
}

/// Requests a second, where `k` and `m` are thousands and millions.
fn rate(text: &str) -> Result<f64, String> {
    number(text).ok_or_else(|| "expected requests per second, such as 50000 or 50k".to_owned())
}

/// A number of requests, in the same form.
fn requests(text: &str) -> Result<u64, String> {
    // Above this not every whole number is one of f64.
    const REQUESTS_MAX: f64 = (1_u64 << 53) as f64;
    let whole = number(text).filter(|number| number.fract() == 0.0 && (1.0..=REQUESTS_MAX).contains(number));
    whole.map(|number| number as u64).ok_or_else(|| "expected a number of requests, such as 100000 or 100k".to_owned())
}

fn number(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if lower.ends_with('k') { 1e3 } else { 1e6 }),
        None => (lower.as_str(), 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * factor)
}
