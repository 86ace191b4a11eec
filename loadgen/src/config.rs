//! The validated configuration of a run: what the flags mean together.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::Error;
use crate::cli::RunFlags;
use crate::multi_key::{SLOTS, reach_two_shards};
use crate::resp::Protocol;

const REQUESTS_DEFAULT: u64 = 100_000;
const SECONDS_MAX: f64 = 1e7;

/// A run, as asked for. Every value has passed its checks.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host name or address of the target.
    pub server: String,
    /// Port of the target.
    pub port: u16,
    /// Who to authenticate as.
    pub credentials: Option<Credentials>,
    /// Version of RESP.
    pub protocol: Protocol,
    /// Connections in total; at least one a thread.
    pub clients: NonZeroUsize,
    /// Threads that share the connections.
    pub threads: NonZeroUsize,
    /// When the measured window ends.
    pub stop: Stop,
    /// Load before the measured window; zero for none.
    pub warm_up: Duration,
    /// SETs to GETs, and MSETs to MGETs.
    pub ratio: Ratio,
    /// Commands over several keys; none for SET and GET alone.
    pub multi_key: Option<MultiKey>,
    /// Requests in flight on each connection.
    pub pipeline: NonZeroUsize,
    /// Bytes of a value.
    pub data_size: usize,
    /// Order of the keys that are SET.
    pub set_pattern: KeyPattern,
    /// Order of the keys that are read.
    pub get_pattern: KeyPattern,
    /// The key numbers.
    pub keys: KeyRange,
    /// What stands before the number.
    pub key_prefix: String,
    /// Whether every key is SET before the run.
    pub prefill: bool,
    /// Requests per second in total, for an open loop; none for a closed loop.
    pub rate: Option<f64>,
    /// Runs, added up.
    pub run_count: u32,
    /// Seed of keys and values.
    pub seed: u64,
    /// How long outstanding replies may stay away.
    pub reply_timeout: Duration,
    /// Percentiles of the printed table, ascending as given.
    pub percentiles: Vec<f64>,
    /// Where the JSON goes.
    pub json_out_file: Option<PathBuf>,
    /// Where the histograms go.
    pub hdr_file_prefix: Option<PathBuf>,
    /// Whether the latency distribution stays unprinted.
    pub hide_histogram: bool,
    /// Whether nothing but errors is printed.
    pub quiet: bool,
}

/// A password, and a user where the target has them.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user, none for the default one.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

/// When the measured window ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// After exactly so many requests.
    Requests(u64),
    /// After so much time; what is in flight then is still awaited and counted.
    Time(Duration),
}

/// SETs to GETs. Invariant: not both are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// SETs in each `set + get` requests.
    pub set: u32,
    /// GETs in each `set + get` requests.
    pub get: u32,
}

/// The commands over several keys. Keys are then named `PREFIX{tag}:member`, as many members to a
/// tag as a command has keys.
///
/// Invariants: a command has two keys at least; the key numbers are a whole number of tags; where
/// commands are to cross shards, the tags reach two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiKey {
    /// Keys of a command.
    pub keys_per_command: NonZeroUsize,
    /// How many of a hundred commands take several keys.
    pub percent: u32,
    /// How many of a hundred of those have keys on several shards.
    pub cross_shard_percent: u32,
    /// Shards of the target: it owns a key by slot modulo this number.
    pub target_shards: NonZeroUsize,
}

/// The order in which keys are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyPattern {
    /// `R`: every key equally likely.
    Uniform,
    /// `Z`: the k-th key has probability proportional to `1 / k^exponent`.
    Zipfian {
        /// 0 is uniform.
        exponent: f64,
    },
    /// `S`: one after the other, all connections together.
    Sequential,
    /// `P`: one after the other, in a range of its own for each connection.
    PerClient,
}

/// The key numbers. Invariant: `minimum <= maximum`, and there are fewer than 2^64 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The smallest.
    pub minimum: u64,
    /// The largest.
    pub maximum: u64,
}

impl KeyRange {
    /// How many keys there are.
    pub fn count(&self) -> u64 {
        self.maximum - self.minimum + 1
    }

    /// The numbers of the tags, when there are so many keys to each; they begin with the same one.
    fn tags(&self, keys_per_tag: usize) -> Self {
        let count = self.count() / keys_per_tag as u64;
        Self { minimum: self.minimum, maximum: self.minimum + (count - 1) }
    }
}

impl Config {
    /// Checks the flags, one by one and together.
    pub fn from_flags(flags: RunFlags) -> Result<Self, Error> {
        let zipf_exponent = zipf_exponent(flags.key_zipf_exp)?;
        let keys = key_range(flags.key_minimum, flags.key_maximum)?;
        let multi_key = MultiKey::of(&flags, keys)?;
        let (set_pattern, get_pattern) = key_patterns(&flags.key_pattern, zipf_exponent)?;
        if flags.clients < flags.threads {
            return invalid("--clients", flags.clients, format!("{} threads need a connection each", flags.threads));
        }
        Ok(Self {
            server: flags.server,
            port: flags.port,
            credentials: flags.authenticate.map(Credentials::parse),
            protocol: if flags.resp == 3 { Protocol::Resp3 } else { Protocol::Resp2 },
            clients: nonzero(flags.clients),
            threads: nonzero(flags.threads),
            stop: stop(flags.requests, flags.test_time)?,
            warm_up: seconds("--warm-up", flags.warm_up, 0.0)?,
            ratio: Ratio::parse(&flags.ratio)?,
            multi_key,
            pipeline: nonzero(flags.pipeline),
            data_size: usize::try_from(flags.data_size).expect("the flag is at most 512 MB"),
            set_pattern,
            get_pattern,
            keys,
            key_prefix: flags.key_prefix,
            prefill: flags.prefill,
            rate: flags.rate_limiting.map(rate).transpose()?,
            run_count: flags.run_count,
            seed: flags.seed,
            reply_timeout: seconds("--reply-timeout", flags.reply_timeout, 0.001)?,
            percentiles: percentiles(&flags.print_percentiles)?,
            json_out_file: flags.json_out_file,
            hdr_file_prefix: flags.hdr_file_prefix,
            hide_histogram: flags.hide_histogram,
            quiet: flags.quiet,
        })
    }

    /// host:port, as errors name it.
    pub fn address(&self) -> String {
        if self.server.contains(':') {
            format!("[{}]:{}", self.server, self.port)
        } else {
            format!("{}:{}", self.server, self.port)
        }
    }

    /// Keys that share a tag; without commands over several keys, each key is on its own.
    pub fn keys_per_tag(&self) -> usize {
        self.multi_key.map_or(1, |multi_key| multi_key.keys_per_command.get())
    }

    /// The numbers of the tags: of the keys, where each is on its own.
    pub fn tags(&self) -> KeyRange {
        self.keys.tags(self.keys_per_tag())
    }

    /// Every effective flag by its long name; the password is not shown.
    pub fn to_json(&self) -> Json {
        let (requests, test_time) = match self.stop {
            Stop::Requests(requests) => (Some(requests), None),
            Stop::Time(time) => (None, Some(time.as_secs_f64())),
        };
        let exponent = [self.set_pattern, self.get_pattern].iter().find_map(|pattern| match pattern {
            KeyPattern::Zipfian { exponent } => Some(*exponent),
            _ => None,
        });
        json!({
            "server": self.server,
            "port": self.port,
            "authenticate": self.credentials.as_ref().map(|_| "***"),
            "resp": if self.protocol == Protocol::Resp3 { 3 } else { 2 },
            "clients": self.clients,
            "threads": self.threads,
            "requests": requests,
            "test-time": test_time,
            "warm-up": self.warm_up.as_secs_f64(),
            "ratio": format!("{}:{}", self.ratio.set, self.ratio.get),
            "keys-per-command": self.keys_per_tag(),
            "multi-key": self.multi_key.map(|multi_key| multi_key.percent),
            "cross-shard": self.multi_key.map(|multi_key| multi_key.cross_shard_percent),
            "target-shards": self.multi_key.map(|multi_key| multi_key.target_shards),
            "pipeline": self.pipeline,
            "data-size": self.data_size,
            "key-pattern": format!("{}:{}", self.set_pattern.letter(), self.get_pattern.letter()),
            "key-zipf-exp": exponent,
            "key-minimum": self.keys.minimum,
            "key-maximum": self.keys.maximum,
            "key-prefix": self.key_prefix,
            "prefill": self.prefill,
            "rate-limiting": self.rate,
            "run-count": self.run_count,
            "seed": self.seed,
            "reply-timeout": self.reply_timeout.as_secs_f64(),
            "print-percentiles": self.percentiles,
            "json-out-file": self.json_out_file,
            "hdr-file-prefix": self.hdr_file_prefix,
            "hide-histogram": self.hide_histogram,
            "quiet": self.quiet,
        })
    }
}

impl Credentials {
    fn parse(text: String) -> Self {
        match text.split_once(':') {
            Some((user, password)) => Self { user: Some(user.to_owned()), password: password.to_owned() },
            None => Self { user: None, password: text },
        }
    }
}

impl Ratio {
    fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split_once(':').and_then(|(set, get)| Some((set.parse().ok()?, get.parse().ok()?)));
        match parts {
            None => invalid("--ratio", text, "expected SET:GET, two whole numbers such as 1:10"),
            Some((0, 0)) => invalid("--ratio", text, "one of the two must be above zero"),
            Some((set, get)) => Ok(Self { set, get }),
        }
    }
}

impl MultiKey {
    fn of(flags: &RunFlags, keys: KeyRange) -> Result<Option<Self>, Error> {
        if flags.keys_per_command == 1 {
            return without_multi_key(flags).map(|()| None);
        }
        let multi_key = Self {
            keys_per_command: nonzero(flags.keys_per_command),
            percent: flags.multi_key.unwrap_or(100),
            cross_shard_percent: flags.cross_shard.unwrap_or(0),
            target_shards: flags.target_shards.map_or(NonZeroUsize::new(SLOTS).expect("not zero"), nonzero),
        };
        multi_key.check(keys, &flags.key_prefix).map(|()| Some(multi_key))
    }

    fn check(&self, keys: KeyRange, key_prefix: &str) -> Result<(), Error> {
        let keys_per_command = self.keys_per_command.get();
        if !keys.count().is_multiple_of(keys_per_command as u64) {
            let why = format!("{} keys do not come in tags of {keys_per_command} (--keys-per-command)", keys.count());
            return invalid("--key-maximum", keys.maximum, why);
        }
        if key_prefix.contains('{') {
            return invalid("--key-prefix", key_prefix, "commands over several keys put a hash tag after it");
        }
        if self.cross_shard_percent > 0 && !reach_two_shards(keys.tags(keys_per_command), self.target_shards) {
            let why = format!("all keys lie on one of {} shards (--target-shards)", self.target_shards);
            return invalid("--cross-shard", self.cross_shard_percent, why);
        }
        Ok(())
    }
}

/// A flag that would be without effect is an error.
fn without_multi_key(flags: &RunFlags) -> Result<(), Error> {
    let given = [
        ("--multi-key", flags.multi_key),
        ("--cross-shard", flags.cross_shard),
        ("--target-shards", flags.target_shards),
    ];
    match given.iter().find_map(|(flag, value)| Some((flag, (*value)?))) {
        Some((flag, value)) => invalid(flag, value, "it needs --keys-per-command of 2 or more"),
        None => Ok(()),
    }
}

impl KeyPattern {
    fn parse(letter: &str, zipf_exponent: f64) -> Option<Self> {
        match letter {
            "R" => Some(KeyPattern::Uniform),
            "Z" => Some(KeyPattern::Zipfian { exponent: zipf_exponent }),
            "S" => Some(KeyPattern::Sequential),
            "P" => Some(KeyPattern::PerClient),
            _ => None,
        }
    }

    fn letter(self) -> char {
        match self {
            KeyPattern::Uniform => 'R',
            KeyPattern::Zipfian { .. } => 'Z',
            KeyPattern::Sequential => 'S',
            KeyPattern::PerClient => 'P',
        }
    }
}

fn key_patterns(text: &str, zipf_exponent: f64) -> Result<(KeyPattern, KeyPattern), Error> {
    let patterns = text
        .split_once(':')
        .and_then(|(set, get)| Some((KeyPattern::parse(set, zipf_exponent)?, KeyPattern::parse(get, zipf_exponent)?)));
    patterns.map_or_else(
        || {
            invalid(
                "--key-pattern",
                text,
                "expected two of R (uniform), Z (zipfian), S (sequential), P (sequential per client), such as R:R",
            )
        },
        Ok,
    )
}

fn zipf_exponent(exponent: f64) -> Result<f64, Error> {
    if (0.0..=100.0).contains(&exponent) {
        Ok(exponent)
    } else {
        invalid("--key-zipf-exp", exponent, "expected 0 (uniform) to 100")
    }
}

fn key_range(minimum: u64, maximum: u64) -> Result<KeyRange, Error> {
    if minimum > maximum {
        return invalid("--key-maximum", maximum, format!("it is below --key-minimum {minimum}"));
    }
    if minimum == 0 && maximum == u64::MAX {
        return invalid("--key-maximum", maximum, "at most 2^64 - 1 keys");
    }
    Ok(KeyRange { minimum, maximum })
}

fn stop(requests: Option<u64>, test_time: Option<f64>) -> Result<Stop, Error> {
    match test_time {
        Some(time) => Ok(Stop::Time(seconds("--test-time", time, 0.001)?)),
        None => Ok(Stop::Requests(requests.unwrap_or(REQUESTS_DEFAULT))),
    }
}

fn seconds(flag: &str, value: f64, minimum: f64) -> Result<Duration, Error> {
    if (minimum..=SECONDS_MAX).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        invalid(flag, value, format!("expected {minimum} to {SECONDS_MAX} seconds"))
    }
}

fn rate(value: f64) -> Result<f64, Error> {
    if (0.001..=1e9).contains(&value) {
        Ok(value)
    } else {
        invalid("--rate-limiting", value, "expected 0.001 to 1e9 requests per second")
    }
}

fn percentiles(text: &str) -> Result<Vec<f64>, Error> {
    let parsed: Option<Vec<f64>> = text
        .split(',')
        .map(|percentile| percentile.trim().parse().ok().filter(|p| (0.0..=100.0).contains(p)))
        .collect();
    parsed
        .map_or_else(|| invalid("--print-percentiles", text, "expected numbers from 0 to 100, such as 50,99,99.9"), Ok)
}

fn invalid<T>(flag: &str, value: impl std::fmt::Display, why: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error::Config(format!("invalid value '{value}' for '{flag}': {why}")))
}

fn nonzero(value: u32) -> NonZeroUsize {
    NonZeroUsize::new(value as usize).expect("the flag's range begins at 1")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn config(flags: &[&str]) -> Result<Config, String> {
        let cli = Cli::try_parse_from([&["loadgen"], flags].concat()).map_err(|error| error.to_string())?;
        Config::from_flags(cli.run).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_valid() {
        let config = config(&[]).expect("defaults");
        assert_eq!(config.stop, Stop::Requests(REQUESTS_DEFAULT));
        assert_eq!(config.ratio, Ratio { set: 1, get: 10 });
    }

    #[test]
    fn a_bad_value_names_its_flag_and_the_reason() {
        for (flags, what) in [
            (&["--ratio", "1-10"][..], "--ratio"),
            (&["--ratio", "0:0"], "above zero"),
            (&["--key-pattern", "R:X"], "--key-pattern"),
            (&["--key-minimum", "9", "--key-maximum", "3"], "below --key-minimum"),
            (&["-c", "2", "-t", "3"], "connection each"),
            (&["--test-time", "-1"], "--test-time"),
            (&["--test-time", "nan"], "--test-time"),
            (&["--rate-limiting", "0"], "--rate-limiting"),
            (&["--print-percentiles", "50,101"], "--print-percentiles"),
            (&["--port", "0"], "--port"),
            (&["--port", "abc"], "--port"),
            (&["-n", "5", "--test-time", "5"], "--test-time"),
            (&["--resp", "4"], "--resp"),
            (&["--keys-per-command", "0"], "--keys-per-command"),
            (&["--cross-shard", "10"], "needs --keys-per-command"),
            (&["--keys-per-command", "2", "--cross-shard", "101"], "--cross-shard"),
            (&["--keys-per-command", "3"], "1000000 keys do not come in tags of 3"),
            (&["--keys-per-command", "2", "--key-prefix", "{a}"], "--key-prefix"),
            (&["--keys-per-command", "2", "--cross-shard", "1", "--target-shards", "1"], "one of 1 shards"),
            (&["--keys-per-command", "2", "--cross-shard", "1", "--key-maximum", "2"], "one of 16384 shards"),
        ] {
            let error = config(flags).expect_err("a bad value");
            assert!(error.contains(what), "{flags:?}: {error}");
        }
    }

    #[test]
    fn a_password_never_reaches_the_report() {
        let config = config(&["-a", "alice:secret"]).expect("valid");
        assert!(!config.to_json().to_string().contains("secret"));
    }
}
