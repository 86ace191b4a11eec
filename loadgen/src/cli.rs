//! The flags, named as memtier_benchmark's. What they mean together is settled in
//! [`crate::config`].

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
}

/// Flags of `loadgen compare`.
#[derive(Args, Debug)]
pub struct CompareFlags {
    /// Histogram logs; differences are relative to the first
    #[arg(required = true, num_args = 2.., value_name = "FILE.hlog")]
    pub files: Vec<PathBuf>,
    /// Only the intervals with this tag (SET, GET, MSET, MGET)
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Write a plot of latency by percentile
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Flags of a run.
#[derive(Args, Debug, Clone)]
pub struct RunFlags {
    /// Host name or address of the target
    #[arg(short, long, value_name = "HOST", default_value = "127.0.0.1")]
    pub server: String,
    /// Port of the target
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
    /// Requests in total [default: 100000, unless --test-time is given]
    #[arg(short = 'n', long, conflicts_with = "test_time", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Seconds to run, instead of a number of requests
    #[arg(long, value_name = "SECS")]
    pub test_time: Option<f64>,
    /// Seconds of the same load before the measured window
    #[arg(long, value_name = "SECS", default_value_t = 0.0)]
    pub warm_up: f64,
    /// SETs to GETs
    #[arg(long, value_name = "SET:GET", default_value = "1:10")]
    pub ratio: String,
    /// Keys of a command: from 2 on, MSET and MGET take the places of SET and GET
    #[arg(long, value_name = "KEYS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub keys_per_command: u32,
    /// Share of the commands that take several keys; the others take one [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub multi_key: Option<u32>,
    /// Share of the commands with several keys whose keys lie on several shards; the keys of the others share a hash tag [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub cross_shard: Option<u32>,
    /// Shards of the target, which owns a key by its hash slot modulo this number [default: 16384, each slot for itself]
    #[arg(long, value_name = "SHARDS", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub target_shards: Option<u32>,
    /// Requests in flight on each connection
    #[arg(long, value_name = "DEPTH", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pipeline: u32,
    /// Bytes of a value
    #[arg(short, long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u64).range(0..=536_870_912))]
    pub data_size: u64,
    /// Order of keys for SET and GET: R uniform, Z zipfian, S sequential, P sequential in a range per client
    #[arg(long, value_name = "SET:GET", default_value = "R:R")]
    pub key_pattern: String,
    /// Exponent of the zipfian pattern
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.0)]
    pub key_zipf_exp: f64,
    /// Smallest key number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub key_minimum: u64,
    /// Largest key number
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    pub key_maximum: u64,
    /// What stands before the number
    #[arg(long, value_name = "TEXT", default_value = "memtier-")]
    pub key_prefix: String,
    /// SET every key once before the run
    #[arg(long)]
    pub prefill: bool,
    /// Open loop: requests per second, in total, due at fixed times whether or not replies come
    #[arg(long, value_name = "OPS_PER_SEC")]
    pub rate_limiting: Option<f64>,
    /// Runs; their results are added up
    #[arg(short = 'x', long, value_name = "RUNS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub run_count: u32,
    /// Seed of keys and values
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up when requests are outstanding and no reply came for so many seconds
    #[arg(long, value_name = "SECS", default_value_t = 30.0)]
    pub reply_timeout: f64,
    /// Percentiles of the printed table
    #[arg(long, value_name = "P,P,…", default_value = "50,99,99.9")]
    pub print_percentiles: String,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json_out_file: Option<PathBuf>,
    /// Write PREFIX.hlog and PREFIX.hgrm (latency), PREFIX.service.hlog (service time)
    #[arg(long, value_name = "PREFIX")]
    pub hdr_file_prefix: Option<PathBuf>,
    /// Print no latency distribution after the table
    #[arg(long)]
    pub hide_histogram: bool,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}
