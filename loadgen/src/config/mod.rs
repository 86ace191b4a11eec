//! The validated configuration of a run: what the flags mean together.

mod files;
mod keys;
mod multi_key;
mod parse;
mod ramp;
mod storm;
mod target;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::base::{Error, invalid};
use crate::cli::{IoChoice, RunFlags};
use crate::resp::Protocol;
use crate::workload::commands::{CommandSpec, ReplyRule};
use crate::workload::file::{WorkloadFile, WorkloadFlags};
use crate::workload::key_names::KeyNames;
use crate::workload::keys::{KeyPattern, KeyRange};
use crate::workload::mix::MixSpec;
use crate::workload::multi_key::MultiKey;
use crate::workload::values::{VALUE_BYTES_MAX, ValueSizes};
use crate::workload::verifiable::OUTLIVES_SECONDS;

pub use files::HdrPaths;
use files::check_json_out_file;
use keys::{Shape, check_effect, key_range};
use multi_key::multi_key;
use parse::{cpus, expiry, nonzero, percentiles, rate, seconds, stop};
use ramp::ramp;
pub use ramp::{Knee, Ramp};
use storm::check_storm;
pub use target::Target;

const KEY_PREFIX_DEFAULT: &str = "memtier-";
const DATA_SIZE_DEFAULT: u64 = 32;
const VERIFIED_KEYS_MAX: u64 = 1 << 28;
/// A run, as requested. Every value has been checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The targets; connections are distributed over them in turn. At least one.
    pub targets: Vec<Target>,
    /// The user to authenticate as.
    pub credentials: Option<Credentials>,
    /// Version of RESP.
    pub protocol: Protocol,
    /// Connections in total; at least one a thread.
    pub clients: NonZeroUsize,
    /// Threads that share the connections.
    pub threads: NonZeroUsize,
    /// How bytes are sent and received.
    pub io: IoChoice,
    /// CPUs that the threads are bound to, in turn; empty for none.
    pub pin_cpus: Vec<usize>,
    /// When the measured window ends.
    pub stop: Stop,
    /// Load before the measured window; zero for none.
    pub warm_up: Duration,
    /// Any commands with weights, instead of pairs of SET and GET.
    pub mix: Option<Arc<MixSpec>>,
    /// SETs to GETs, and MSETs to MGETs.
    pub ratio: Ratio,
    /// Commands over several keys; `None` for only SET and GET.
    pub multi_key: Option<MultiKey>,
    /// Requests in flight on each connection.
    pub pipeline: NonZeroUsize,
    /// How long values are.
    pub value_sizes: ValueSizes,
    /// When keys that are SET expire; `None` for never.
    pub expiry: Option<Expiry>,
    /// Order of the keys that are SET.
    pub set_pattern: KeyPattern,
    /// Order of the keys that are read.
    pub get_pattern: KeyPattern,
    /// The key numbers.
    pub keys: KeyRange,
    /// The prefix of the number.
    pub key_prefix: String,
    /// Whether every key is SET before the run.
    pub prefill: bool,
    /// Whether replies are checked against a model.
    pub verify: bool,
    /// Whether connections are measured, instead of requests.
    pub connect_storm: bool,
    /// Requests per second in total, for an open loop; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Several rates, one after another.
    pub ramp: Option<Ramp>,
    /// Runs, added up.
    pub run_count: u32,
    /// Seed of keys and values.
    pub seed: u64,
    /// How long outstanding replies may take.
    pub reply_timeout: Duration,
    /// Percentiles of the printed table, ascending as given.
    pub percentiles: Vec<f64>,
    /// The path of the JSON.
    pub json_out_file: Option<PathBuf>,
    /// The path prefix of the histograms.
    pub hdr_file_prefix: Option<PathBuf>,
    /// Whether the latency distribution is not printed.
    pub hide_histogram: bool,
    /// Whether only a line for each command is printed.
    pub brief: bool,
    /// Whether only errors are printed.
    pub quiet: bool,
}

/// A password, and a user if the target has users.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user, none for the default one.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

/// When a key that is SET expires. Invariant: `minimum_ms <= maximum_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The shortest time to live.
    pub minimum_ms: u64,
    /// The longest.
    pub maximum_ms: u64,
}

/// When the measured window ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// After exactly this many requests.
    Requests(u64),
    /// After this much time; requests in flight then are still awaited and counted.
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

impl Config {
    /// Checks the flags, one by one and together.
    pub fn from_flags(flags: RunFlags) -> Result<Self, Error> {
        let targets = Target::parse_list(&flags.server, flags.port)?;
        if targets.len() > flags.clients as usize {
            let why = format!("{} targets need a connection each", targets.len());
            return invalid("--clients", flags.clients, why);
        }
        check_storm(&flags)?;
        let requests = Requests::of(&flags)?;
        let expiry = flags.expiry_range.as_deref().map(expiry).transpose()?;
        if let (Some(text), Some(_)) = (&flags.expiry_range, requests.multi_key) {
            return invalid("--expiry-range", text, "MSET sets no expiry");
        }
        let rate = flags.rate_limiting.map(rate).transpose()?;
        let ramp = ramp(&flags, rate)?;
        if let (true, Some(mix)) = (flags.prefill, &requests.mix)
            && mix.prefill_keys(requests.keys.count()).is_none()
        {
            return invalid("--workload", &mix.name, "it does not say what --prefill is to send");
        }
        if flags.clients < flags.threads {
            return invalid("--clients", flags.clients, format!("{} threads need a connection each", flags.threads));
        }
        let io = flags.io;
        if io == IoChoice::IoUring && flags.connect_storm {
            return invalid("--io", io.name(), "--connect-storm goes by way of epoll");
        }
        check_json_out_file(flags.json_out_file.as_deref(), flags.hdr_file_prefix.as_deref())?;
        let config = Self {
            targets,
            credentials: flags.authenticate.map(Credentials::parse),
            protocol: if flags.resp == 3 { Protocol::Resp3 } else { Protocol::Resp2 },
            clients: nonzero(flags.clients),
            threads: nonzero(flags.threads),
            io,
            pin_cpus: flags.pin_cpus.as_deref().map(cpus).transpose()?.unwrap_or_default(),
            stop: stop(flags.requests, flags.test_time)?,
            warm_up: seconds("--warm-up", flags.warm_up, 0.0)?,
            mix: requests.mix,
            ratio: Ratio::parse(flags.ratio.as_deref().unwrap_or("1:10"))?,
            multi_key: requests.multi_key,
            pipeline: nonzero(flags.pipeline),
            value_sizes: requests.value_sizes,
            expiry,
            set_pattern: requests.set_pattern,
            get_pattern: requests.get_pattern,
            keys: requests.keys,
            key_prefix: requests.key_prefix,
            prefill: flags.prefill,
            verify: flags.verify,
            connect_storm: flags.connect_storm,
            rate: ramp.as_ref().map(Ramp::first_rate).or(rate),
            ramp,
            run_count: flags.run_count,
            seed: flags.seed,
            reply_timeout: seconds("--reply-timeout", flags.reply_timeout, 0.001)?,
            percentiles: percentiles(&flags.print_percentiles)?,
            json_out_file: flags.json_out_file,
            hdr_file_prefix: flags.hdr_file_prefix,
            hide_histogram: flags.hide_histogram,
            brief: flags.brief,
            quiet: flags.quiet,
        };
        config.check_verify().map(|()| config)
    }

    /// Refuses what the model of --verify cannot follow.
    fn check_verify(&self) -> Result<(), Error> {
        if !self.verify {
            return Ok(());
        }
        let refuse = |why: String| invalid("--verify", true, why);
        if let Some(command) = self.mix.as_ref().and_then(|mix| mix.unverifiable()) {
            return refuse(command.to_owned());
        }
        if self.mix.is_some() && self.multi_key.is_some() {
            return refuse("of a workload file, the model follows commands over one key".to_owned());
        }
        let patterns = self.mix.as_ref().map_or(vec![self.set_pattern, self.get_pattern], |mix| mix.patterns.clone());
        if patterns.iter().any(|pattern| matches!(pattern, KeyPattern::Latest { .. } | KeyPattern::Insert)) {
            return refuse("the model has no keys beyond the range (patterns latest and insert)".to_owned());
        }
        if self.tags().count() < self.clients.get() as u64 || self.keys.count() > VERIFIED_KEYS_MAX {
            return refuse(format!("it takes a key for each connection at least, and {VERIFIED_KEYS_MAX} at most"));
        }
        let time = self.warm_up + if let Stop::Time(time) = self.stop { time } else { Duration::ZERO };
        if self.mix.is_some() && time.as_secs() >= OUTLIVES_SECONDS {
            return refuse(format!("keys that the model takes for lasting may end in {OUTLIVES_SECONDS} s"));
        }
        if self.run_count > 1 {
            return refuse("the model begins anew with each run: use --run-count 1".to_owned());
        }
        Ok(())
    }

    /// The commands of a load; results are by their places in it.
    pub fn commands(&self) -> Vec<CommandSpec> {
        match &self.mix {
            _ if self.connect_storm => vec![CommandSpec { name: "CONNECT".to_owned(), replies: ReplyRule::Any }],
            Some(mix) => mix.commands.clone(),
            None => {
                let rules = [ReplyRule::Status, ReplyRule::Value, ReplyRule::Status];
                let rules = rules.into_iter().chain([ReplyRule::Values(self.keys_per_tag() as u64)]);
                let names = ["SET", "GET", "MSET", "MGET"].into_iter();
                // An empty histogram costs as much to create as one in use.
                let names = names.take(if self.multi_key.is_some() { 4 } else { 2 });
                names.zip(rules).map(|(name, replies)| CommandSpec { name: name.to_owned(), replies }).collect()
            }
        }
    }

    /// How many keys `--prefill` sets.
    pub(crate) fn prefill_keys(&self) -> u64 {
        let keys = self.keys.count();
        self.mix.as_ref().map_or(keys, |mix| mix.prefill_keys(keys).unwrap_or(0))
    }

    /// Keys that share a tag; without commands over several keys, each key is on its own.
    pub(crate) fn keys_per_tag(&self) -> usize {
        self.multi_key.map_or(1, |multi_key| multi_key.keys_per_command.get())
    }

    /// The numbers of the tags, or of the keys if each is on its own.
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
            KeyPattern::Zipfian { exponent } | KeyPattern::Latest { exponent } => Some(*exponent),
            _ => None,
        });
        json!({
            "server": self.targets[0].host,
            "port": self.targets[0].port,
            "targets": self.targets.iter().map(Target::address).collect::<Vec<_>>(),
            "authenticate": self.credentials.as_ref().map(|_| "***"),
            "resp": if self.protocol == Protocol::Resp3 { 3 } else { 2 },
            "clients": self.clients,
            "threads": self.threads,
            "io": self.io.name(),
            "pin-cpus": self.pin_cpus,
            "requests": requests,
            "test-time": test_time,
            "warm-up": self.warm_up.as_secs_f64(),
            "workload": self.mix.as_ref().map(|mix| &mix.name),
            "ratio": self.mix.is_none().then(|| format!("{}:{}", self.ratio.set, self.ratio.get)),
            "keys-per-command": self.keys_per_tag(),
            "multi-key": self.multi_key.map(|multi_key| multi_key.percent),
            "cross-shard": self.multi_key.map(|multi_key| multi_key.cross_shard_percent),
            "target-shards": self.multi_key.map(|multi_key| multi_key.target_shards),
            "pipeline": self.pipeline,
            "data-size": if let ValueSizes::Fixed(size) = self.value_sizes { Some(size) } else { None },
            "data-size-distribution": self.value_sizes.describe(),
            "expiry-range": self.expiry.map(|Expiry { minimum_ms, maximum_ms }| {
                format!("{}-{}", minimum_ms as f64 / 1e3, maximum_ms as f64 / 1e3)
            }),
            "key-pattern": format!("{}:{}", self.set_pattern.letter(), self.get_pattern.letter()),
            "key-zipf-exp": exponent,
            "key-minimum": self.keys.minimum,
            "key-maximum": self.keys.maximum,
            "key-prefix": self.key_prefix,
            "prefill": self.prefill,
            "verify": self.verify,
            "connect-storm": self.connect_storm,
            "rate-limiting": self.rate,
            "ramp": match &self.ramp {
                None => Json::Null,
                Some(Ramp::Steps(rates)) => json!({ "steps": rates }),
                Some(Ramp::FindKnee(knee)) => json!({
                    "p99-limit": knee.p99_limit_ms,
                    "knee-precision": knee.precision_percent,
                    "first-rate": knee.first_rate,
                }),
            },
            "run-count": self.run_count,
            "seed": self.seed,
            "reply-timeout": self.reply_timeout.as_secs_f64(),
            "print-percentiles": self.percentiles,
            "json-out-file": self.json_out_file,
            "hdr-file-prefix": self.hdr_file_prefix,
            "hide-histogram": self.hide_histogram,
            "brief": self.brief,
            "quiet": self.quiet,
        })
    }
}

/// What is sent: which commands, over which keys, with which values.
struct Requests {
    mix: Option<Arc<MixSpec>>,
    multi_key: Option<MultiKey>,
    value_sizes: ValueSizes,
    set_pattern: KeyPattern,
    get_pattern: KeyPattern,
    keys: KeyRange,
    key_prefix: String,
}

impl Requests {
    fn of(flags: &RunFlags) -> Result<Self, Error> {
        let workload = flags.workload.as_deref().map(WorkloadFile::load).transpose()?;
        let defaults = workload.as_ref().map(|workload| workload.flags.clone()).unwrap_or_default();
        let keys = key_range(flags, &defaults)?;
        let key_prefix = flags.key_prefix.clone().or(defaults.key_prefix.clone());
        let key_prefix = key_prefix.unwrap_or_else(|| KEY_PREFIX_DEFAULT.to_owned());
        let multi_key = multi_key(flags, &defaults, keys, &key_prefix)?;
        let keys_per_tag = multi_key.map_or(1, |multi_key| multi_key.keys_per_command.get());
        let shape = Shape::of(flags, &defaults, keys.tags(keys_per_tag))?;
        let pattern = flags.key_pattern.as_ref().or(defaults.key_pattern.as_ref());
        let (set_pattern, get_pattern) = shape.patterns(pattern.map_or("R:R", String::as_str))?;
        let mix = workload.map(|workload| {
            let path = flags.workload.as_deref().unwrap_or_default();
            let names = KeyNames { prefix: &key_prefix, keys_per_tag };
            MixSpec::new(&workload, path, names, get_pattern, |name| shape.pattern(name)).map(Arc::new)
        });
        let mix = mix.transpose()?;
        let used = mix.as_ref().map_or(vec![set_pattern, get_pattern], |mix: &Arc<MixSpec>| mix.patterns.clone());
        check_effect(flags, &used)?;
        let value_sizes = value_sizes(flags, &defaults)?;
        Ok(Self { mix, multi_key, value_sizes, set_pattern, get_pattern, keys, key_prefix })
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

fn value_sizes(flags: &RunFlags, defaults: &WorkloadFlags) -> Result<ValueSizes, Error> {
    let fixed = |bytes: u64| ValueSizes::Fixed(usize::try_from(bytes).expect("the flag is at most 512 MB"));
    if let Some(bytes) = flags.data_size {
        return Ok(fixed(bytes));
    }
    if let Some(list) = &flags.data_size_list {
        return ValueSizes::parse_list(list);
    }
    let pattern = flags.data_size_pattern.as_ref().or(defaults.data_size_pattern.as_ref());
    let range = |text: &str| ValueSizes::parse_range(text, pattern.map_or("R", String::as_str));
    match (&flags.data_size_range, &defaults.data_size_list, &defaults.data_size_range, defaults.data_size) {
        (Some(text), ..) => range(text),
        (None, Some(list), ..) => ValueSizes::parse_list(list),
        (None, None, Some(text), _) => range(text),
        (None, None, None, Some(bytes)) if bytes > VALUE_BYTES_MAX as u64 => {
            invalid("--data-size", bytes, "at most 512 MB")
        }
        (None, None, None, bytes) => Ok(fixed(bytes.unwrap_or(DATA_SIZE_DEFAULT))),
    }
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
        assert_eq!(config.stop, Stop::Requests(100_000));
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
            (&["--find-knee", "--test-time", "1"], "--p99-limit"),
            (&["--find-knee", "--test-time", "1", "--p99-limit", "0"], "--p99-limit"),
            (&["--rate-steps", "1,2"], "--test-time"),
            (&["--rate-steps", "1,x", "--test-time", "1"], "--rate-steps"),
            (&["--verify", "-c", "5", "--key-maximum", "4"], "a key for each connection"),
            (&["--verify", "--key-pattern", "R:L"], "--verify"),
            (&["--verify", "-x", "2"], "--run-count 1"),
            (&["--verify", "--workload", "ycsb-e"], "does not know ZRANGEBYSCORE"),
            (&["--verify", "--workload", "leaderboard"], "connections share the key of \"ZINCRBY leaderboard"),
            (&["--verify", "--workload", "rate-limiter"], "does not know EXPIRE as in \"EXPIRE __key__ 10 NX\""),
            (&["--verify", "--workload", "queue", "--key-maximum", "60", "--test-time", "600"], "in 600 s"),
            (&["--connect-storm", "--prefill"], "--prefill"),
            (&["-s", ""], "--server"),
            (&["-s", "a:b:1,c"], "--server"),
            (&["-s", "a,b,c", "-c", "2"], "targets need a connection each"),
            (&["--pin-cpus", "3-1"], "--pin-cpus"),
            (&["--key-hotspot", "20"], "--key-hotspot"),
            (&["--key-stddev", "0"], "--key-stddev"),
            (&["--key-median", "0"], "--key-median"),
            (&["--expiry-range", "5-1"], "--expiry-range"),
            (&["--data-size-pattern", "R"], "--data-size-range"),
            (&["-d", "5", "--data-size-list", "5:1"], "--data-size"),
            (&["--workload", "ycsb-a", "--ratio", "1:1"], "--ratio"),
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
    fn flags_of_other_tools_that_mean_the_same_are_understood() {
        let config = config(&["-P", "16", "-r", "5000", "-d", "1k", "-q", "--rate-limiting", "50k"]).expect("valid");
        assert_eq!((config.pipeline.get(), config.keys.maximum, config.rate), (16, 5000, Some(50_000.0)));
        assert!(matches!(config.value_sizes, ValueSizes::Fixed(1000)) && config.brief && !config.quiet);
    }

    #[test]
    fn sizes_and_rates_have_units() {
        for (text, size) in [("0", 0), ("100", 100), ("1K", 1000), ("1kb", 1024), ("2m", 2_000_000), ("1MB", 1 << 20)] {
            let config = config(&["-d", text]).expect(text);
            assert!(matches!(config.value_sizes, ValueSizes::Fixed(bytes) if bytes == size), "{text}");
        }
        for flags in [["-d", "1g"], ["-d", "k"], ["-d", "513mb"], ["-d", "-1"], ["--rate-limiting", "5kk"]] {
            assert!(config(&flags).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn a_parameter_of_a_pattern_that_is_not_in_use_is_an_error() {
        for (flag, value, pattern) in [
            ("--key-zipf-exp", "0.9", "Z"),
            ("--key-zipf-exp", "0.9", "latest"),
            ("--key-median", "500", "G"),
            ("--key-stddev", "9", "gaussian"),
            ("--key-hotspot", "10:90", "H"),
        ] {
            let said = config(&[flag, value]).expect_err(flag).to_string();
            assert!(said.contains(flag) && said.contains("--key-pattern"), "{said}");
            assert!(config(&[flag, value, "--key-pattern", &format!("R:{pattern}")]).is_ok(), "{flag} {pattern}");
        }
        assert!(config(&["--workload", "ycsb-a", "--key-zipf-exp", "0.5"]).is_ok(), "the workload's keys are zipfian");
        assert!(config(&["--workload", "ycsb-a", "--key-median", "500"]).is_err());
    }

    #[test]
    fn a_storm_refuses_what_it_does_not_send() {
        assert!(config(&["--connect-storm", "-P", "1"]).is_ok());
        for flags in [
            ["-P", "2"],
            ["-d", "64"],
            ["--data-size-range", "1-9"],
            ["--data-size-list", "1:1"],
            ["--key-maximum", "10"],
            ["--key-pattern", "Z"],
            ["--key-prefix", "x"],
            ["--multi-key", "50"],
            ["--expiry-range", "1-2"],
        ] {
            let said = config(&["--connect-storm", flags[0], flags[1]]).expect_err(flags[0]).to_string();
            assert!(said.contains("--connect-storm"), "{said}");
        }
    }

    #[test]
    fn the_json_has_a_file_of_its_own() {
        for (json, prefix) in [("x.hlog", "x"), ("./x.service.total.hlog", "x"), ("x.steps.csv", "./x")] {
            let refused = config(&["--json-out-file", json, "--hdr-file-prefix", prefix]).err().map(|e| e.to_string());
            let why = "--hdr-file-prefix writes another file of that name";
            assert!(refused.as_ref().is_some_and(|said| said.contains(why)), "{json} {prefix}: {refused:?}");
        }
        for json in ["x.json", "y.hlog", "/nowhere/x.hlog"] {
            assert!(config(&["--json-out-file", json, "--hdr-file-prefix", "x"]).is_ok(), "{json}");
        }
    }

    #[test]
    fn a_password_never_reaches_the_report() {
        let config = config(&["-a", "alice:secret"]).expect("valid");
        assert!(!config.to_json().to_string().contains("secret"));
    }
}
