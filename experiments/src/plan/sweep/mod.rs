//! A sweep is one question, tested on several servers at several points; `experiments/sweeps/*.toml` holds one each.
//!
//! ```toml
//! question = "How does throughput hold as clients are added?"
//! servers  = ["mutex", "dashmap", "actor", "redis-server"]
//! clients  = [1, 10, 100]        # every list field is crossed with every other
//!
//! [loadgen]                        # lists for any other flag of the generator, crossed as well
//! cross-shard = [0, 10, 100]
//! ```
//!
//! The name of a sweep is its file's stem. A file is validated once, when it is read; an unknown field is an error.

mod short;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

pub use self::short::Short;
use crate::plan::dimension::{Dimension, Line};
use crate::plan::point::Point;
use crate::plan::values::{FlagValue, RATE, Ratio};

/// Fields with a list which the grid crosses: plots may have them on their horizontal axis.
const AXES: [&str; 7] = ["clients", "pipeline", "variant", "data_size", "ratio", "key_pattern", "key_maximum"];

/// Flags of the generator that the lab sets from fields, or for itself.
const OWN_FLAGS: [&str; 17] = [
    "server",
    "port",
    "clients",
    "threads",
    "requests",
    "test-time",
    "warm-up",
    "ratio",
    "pipeline",
    "data-size",
    "key-pattern",
    "key-maximum",
    "prefill",
    "run-count",
    "json-out-file",
    "hdr-file-prefix",
    "quiet",
];

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
    /// The question of the sweep, as a sentence.
    pub question: String,
    /// Runs only with `--quick` or when it is named.
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
    /// Further flags of the generator, without their dashes, with the values to be measured at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loadgen: BTreeMap<String, Vec<FlagValue>>,
    /// The horizontal axis of the plots, a field or a flag of the generator; by default the first that varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Sizes of the key space, a number or a list; all of it is prefilled.
    #[serde(default = "defaults::key_maximum", deserialize_with = "one_or_many")]
    pub key_maximum: Vec<u64>,
    /// Length of the measured window.
    pub test_seconds: f64,
    /// Load before the window, not measured.
    pub warm_up_seconds: f64,
    /// Rounds; each point is measured once in each.
    pub repeats: u32,
    /// How often a trial under foreign load is measured again.
    #[serde(default = "defaults::retries")]
    pub retries: u32,
    /// Threads of the generator.
    #[serde(default = "defaults::threads")]
    pub threads: u32,
    /// Share of the keys read that must be found: below it, a trial has failed and its point has no verdict.
    #[serde(default = "defaults::hit_ratio_min")]
    pub hit_ratio_min: f64,
    /// Workloads of the generator that begin without keys, and say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_prefilled: Vec<String>,
    /// What is compared: `line` (server and variant, as in plots), or a field or flag that varies.
    #[serde(default = "defaults::contrast")]
    pub contrast: String,
    /// The baseline of the comparisons: a line by its label, or a value of the contrast; by default the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The servers only differ in themselves: the loads are among the situations of the answers.
    #[serde(default, skip_serializing_if = "is_false")]
    pub situations: bool,
    /// How evenly connections are served is judged, and shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fairness: bool,
    /// Pairs of servers, subject before baseline, whose difference is taken apart into its factors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factorial: Vec<(String, String)>,
    /// Shares of the slowest server's capacity, in percent: the lab measures that before the first trial, and gives the
    /// generator's `rate-limiting` these rates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_percent: Vec<u32>,
    /// Variants with equal flags: the sweep measures the noise of the method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub equals: Vec<String>,
    /// Smaller lists for a run within a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<Short>,
    /// Server flags under test. By default there is one variant without persistence.
    #[serde(default = "defaults::variants", rename = "variant")]
    pub variants: Vec<Variant>,
}

/// Flags that servers of a sweep get, under a name of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The name that plots and file names use.
    pub name: String,
    /// Appended to each server's command.
    pub flags: Vec<String>,
    /// Variables of the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The servers that get them; by default those that no other variant names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// The place of the variant in a factorial design: levels by factor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, String>,
    /// Share of the time for which the lab stops the server: a slowdown of known size, for A/A sweeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_percent: Option<f64>,
    /// Cores below which a run leaves it out: more threads than cores would measure how these are shared.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cores_min: usize,
}

mod defaults {
    use std::collections::BTreeMap;

    use super::Variant;
    use crate::plan::values::Ratio;

    pub(crate) fn pipeline() -> Vec<u32> {
        vec![1]
    }
    pub(crate) fn ratio() -> Vec<Ratio> {
        vec![Ratio { sets: 1, gets: 1 }]
    }
    pub(crate) fn data_size() -> Vec<u32> {
        vec![64]
    }
    pub(crate) fn key_pattern() -> Vec<String> {
        vec!["R:R".to_owned()]
    }
    pub(crate) fn key_maximum() -> Vec<u64> {
        vec![100_000]
    }
    pub(crate) fn retries() -> u32 {
        2
    }
    pub(crate) fn threads() -> u32 {
        1
    }
    pub(crate) fn hit_ratio_min() -> f64 {
        0.99
    }
    pub(crate) fn contrast() -> String {
        "line".to_owned()
    }
    pub(crate) fn variants() -> Vec<Variant> {
        let flags = vec!["--appendonly".to_owned(), "no".to_owned()];
        vec![Variant {
            name: "no-aof".to_owned(),
            flags,
            environment: BTreeMap::new(),
            servers: Vec::new(),
            factors: BTreeMap::new(),
            stopped_percent: None,
            cores_min: 0,
        }]
    }
}

impl Sweep {
    /// Reads and validates one file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the sweep {}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text).with_context(|| format!("in the sweep {}", path.display()))
    }

    /// Validates the text of a sweep called `name`.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut sweep: Self = toml::from_str(text)?;
        ensure!(sweep.name.is_empty() || sweep.name == name, "`name` is {:?} but the file's is {name:?}", sweep.name);
        sweep.name = name.to_owned();
        sweep.forget_rates();
        sweep.validate()?;
        Ok(sweep)
    }

    /// Shortens a sweep for `--quick`: an impression, not a result.
    pub(crate) fn shortened(mut self) -> Self {
        self.test_seconds = self.test_seconds.min(2.0);
        self.warm_up_seconds = self.warm_up_seconds.min(1.0);
        self.repeats = self.repeats.min(2);
        self.retries = 0;
        self
    }

    /// The variant called `name`.
    pub(crate) fn variant(&self, name: &str) -> &Variant {
        let variant = self.variants.iter().find(|variant| variant.name == name);
        variant.expect("a point's variant comes from its sweep")
    }

    /// Replaces rates by the shares of the capacity, while that is unknown.
    pub(crate) fn forget_rates(&mut self) {
        self.set_rates(100.0);
    }

    /// Gives the generator the shares of this capacity as rates, to three digits.
    pub(crate) fn set_rates(&mut self, capacity: f64) {
        let rate = |percent: &u32| {
            let rate = capacity * f64::from(*percent) / 100.0;
            let digit = 10f64.powf((rate.log10().floor() - 2.0).max(0.0));
            FlagValue::from(format!("{:.0}", (rate / digit).round() * digit).as_str())
        };
        if !self.rate_percent.is_empty() {
            self.loadgen.insert(RATE.to_owned(), self.rate_percent.iter().map(rate).collect());
        }
    }

    /// The size of the key space at `point`.
    pub(crate) fn keys_of(&self, point: &Point) -> u64 {
        point.key_maximum.unwrap_or(self.key_maximum[0])
    }

    /// Whether a trial of `point` begins with keys.
    pub(crate) fn prefills(&self, point: &Point) -> bool {
        let workload = point.loadgen.get("workload").map(FlagValue::as_str);
        !point.is_storm() && workload.is_none_or(|name| !self.not_prefilled.iter().any(|other| other == name))
    }

    /// The variants that `server` is measured under, in the order of the file.
    pub(crate) fn variants_of<'a>(&'a self, server: &str) -> Vec<&'a Variant> {
        let named = |variant: &&Variant| variant.servers.iter().any(|name| name == server);
        let own: Vec<&Variant> = self.variants.iter().filter(named).collect();
        if own.is_empty() { self.variants.iter().filter(|variant| variant.servers.is_empty()).collect() } else { own }
    }

    /// Fails where a server has no variant.
    pub(crate) fn check_servers(&self) -> Result<()> {
        for server in &self.servers {
            let variants = self.variants_of(server);
            ensure!(!variants.is_empty(), "the sweep {} has no `variant` for {server}", self.name);
            // Without one the server would get the variants of other servers on a small machine.
            let has_place = variants.iter().any(|variant| variant.cores_min == 0);
            ensure!(has_place, "the sweep {} has no `variant` without `cores_min` for {server}", self.name);
        }
        Ok(())
    }

    fn validate(&self) -> Result<()> {
        check_name("name", &self.name)?;
        check_list("servers", &self.servers)?;
        check_list("clients", &self.clients)?;
        check_list("pipeline", &self.pipeline)?;
        check_list("ratio", &self.ratio)?;
        check_list("data_size", &self.data_size)?;
        check_list("key_pattern", &self.key_pattern)?;
        check_list("key_maximum", &self.key_maximum)?;
        let variant_names: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        check_list("variant", &variant_names)?;
        self.servers.iter().try_for_each(|name| check_name("servers", name))?;
        variant_names.iter().try_for_each(|name| check_name("variant", name))?;
        self.key_pattern.iter().try_for_each(|pattern| check_pattern(pattern))?;
        self.variants.iter().try_for_each(|variant| self.check_variant(variant))?;
        self.check_servers()?;
        self.loadgen.iter().try_for_each(|(flag, values)| check_flag(flag, values))?;
        self.check_axis()?;
        self.check_contrast()?;
        self.check_baseline()?;
        self.check_factorial()?;
        self.check_short()?;
        self.check_rates()?;
        for name in &self.equals {
            ensure!(variant_names.contains(&name.as_str()), "`equals`: there is no variant {name:?}");
        }
        self.check_numbers()
    }

    fn check_factorial(&self) -> Result<()> {
        for (subject, baseline) in &self.factorial {
            let known = [subject, baseline].iter().all(|name| self.servers.contains(name));
            ensure!(known, "`factorial`: {subject:?} and {baseline:?} are to be among the servers");
        }
        Ok(())
    }

    fn check_short(&self) -> Result<()> {
        let servers = self.short.iter().filter_map(|short| short.servers.as_ref()).flatten();
        for name in servers {
            ensure!(self.servers.contains(name), "`[short]`: {name:?} is not among the servers");
        }
        Ok(())
    }

    fn check_rates(&self) -> Result<()> {
        ensure!(self.rate_percent.iter().all(|percent| (1..=100).contains(percent)), "`rate_percent` is from 1 to 100");
        Ok(())
    }

    fn check_contrast(&self) -> Result<()> {
        let known = self.contrast == "line" || AXES.contains(&self.contrast.as_str());
        let known = known || self.loadgen.contains_key(&self.contrast);
        ensure!(known, "`contrast` is `line`, one of {AXES:?} or a flag in [loadgen], not {:?}", self.contrast);
        Ok(())
    }

    /// A baseline that is mistyped would be taken for that of an absent server, and the first line put in its place.
    /// In a sweep as it is written no server is absent.
    fn check_baseline(&self) -> Result<()> {
        let Some(baseline) = &self.baseline else { return Ok(()) };
        let known = self.baselines();
        ensure!(known.contains(baseline), "`baseline` is one of {known:?}, not {baseline:?}");
        Ok(())
    }

    /// What a baseline may be: a line by its label, or a value of the contrast.
    fn baselines(&self) -> Vec<String> {
        let contrast = Dimension::all(self).into_iter().find(|dimension| dimension.field() == self.contrast);
        match contrast {
            Some(dimension) => dimension.labels(self),
            None => Line::all(self, &Dimension::axis_of(self)).into_iter().map(|line| line.label).collect(),
        }
    }

    /// Forgets a baseline that was of a server which is absent, and returns it: the first line takes its place.
    pub(crate) fn forget_absent_baseline(&mut self) -> Option<String> {
        let known = self.baselines();
        self.baseline.take_if(|baseline| !known.contains(baseline))
    }

    fn check_variant(&self, variant: &Variant) -> Result<()> {
        let stranger = variant.servers.iter().find(|name| !self.servers.contains(name));
        match stranger {
            Some(name) => bail!("`variant` {}: {name:?} is not among the servers", variant.name),
            None => Ok(()),
        }
    }

    fn check_axis(&self) -> Result<()> {
        let Some(x) = &self.x else { return Ok(()) };
        let known = AXES.contains(&x.as_str()) || self.loadgen.contains_key(x);
        ensure!(known, "`x` is one of {AXES:?} or a flag in [loadgen], not {x:?}");
        Ok(())
    }

    fn check_numbers(&self) -> Result<()> {
        for (field, values) in
            [("clients", &self.clients), ("pipeline", &self.pipeline), ("data_size", &self.data_size)]
        {
            ensure!(!values.contains(&0), "`{field}` holds a zero");
        }
        ensure!(!self.key_maximum.contains(&0), "`key_maximum` holds a zero");
        ensure!(self.test_seconds > 0.0, "`test_seconds` is zero");
        ensure!(self.warm_up_seconds >= 0.0, "`warm_up_seconds` is negative");
        ensure!((0.0..=1.0).contains(&self.hit_ratio_min), "`hit_ratio_min` is no share");
        let stopped = self.variants.iter().filter_map(|variant| variant.stopped_percent);
        ensure!(stopped.clone().all(|share| (0.0..50.0).contains(&share)), "`stopped_percent` is from 0 to 50");
        ensure!(self.repeats > 0, "`repeats` is zero");
        ensure!(self.threads > 0, "`threads` is zero");
        Ok(())
    }
}

/// Reads the requested sweeps. Arguments are files, folders of `.toml` files, or names in `home`; none at all means
/// `home` itself. From a folder, sweeps marked `quick` are taken with `quick`, and the others without.
pub(crate) fn load(arguments: &[PathBuf], home: &Path, quick: bool) -> Result<Vec<Sweep>> {
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

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(u64),
        Many(Vec<u64>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(value) => vec![value],
        OneOrMany::Many(values) => values,
    })
}

/// Names become parts of file names.
pub(crate) fn check_name(field: &str, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    ensure!(!name.is_empty() && name.chars().all(plain), "`{field}`: {name:?} is not of letters, digits, - and _");
    Ok(())
}

fn check_flag(flag: &str, values: &[FlagValue]) -> Result<()> {
    check_name("loadgen", flag)?;
    ensure!(!flag.starts_with('-'), "`loadgen`: {flag:?} is written without its dashes");
    ensure!(!OWN_FLAGS.contains(&flag), "`loadgen`: the lab sets --{flag} itself");
    for value in values {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:,/".contains(c);
        let fit = !value.as_str().is_empty() && value.as_str().chars().all(plain);
        ensure!(fit, "`loadgen`: the value {:?} of {flag} is not of letters, digits and . - _ : , /", value.as_str());
    }
    check_list(flag, &values.iter().map(FlagValue::file_name).collect::<Vec<_>>())
}

fn check_pattern(pattern: &str) -> Result<()> {
    let known = |part: &str| part.len() == 1 && part.chars().all(|letter| letter.is_ascii_uppercase());
    let valid = pattern.split_once(':').is_some_and(|(sets, gets)| known(sets) && known(gets));
    ensure!(valid, "`key_pattern` is two capital letters of the generator's, such as R:R, not {pattern:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "question = 'Which?'\nservers = ['mutex']\nclients = [1, 10]\ntest_seconds = 1\nwarm_up_seconds = 0\nrepeats = 2\n";

    #[test]
    fn a_small_sweep_gets_the_documented_defaults() {
        let sweep = Sweep::parse("small", SMALL).unwrap();
        assert_eq!(
            (sweep.name.as_str(), &sweep.pipeline[..], sweep.key_maximum.clone()),
            ("small", &[1][..], vec![100_000])
        );
        assert_eq!(sweep.variant("no-aof").flags, ["--appendonly", "no"]);
        assert_eq!(sweep.ratio[0].to_string(), "1:1");
    }

    #[test]
    fn mistakes_are_named() {
        for (line, complaint) in [
            ("pipeline = []", "`pipeline` is empty"),
            ("pipeline = [1, 1]", "`pipeline` holds 1 twice"),
            ("pipeline = [0]", "`pipeline` holds a zero"),
            ("ratio = ['ten']", "a ratio is SETS:GETS"),
            ("key_pattern = ['q:R']", "`key_pattern`"),
            ("key_maximum = [1, 1]", "`key_maximum` holds 1 twice"),
            ("factorial = [['mutex', 'tree']]", "`factorial`"),
            ("short = { servers = ['tree'] }", "`[short]`: \"tree\" is not among the servers"),
            ("rate_percent = [0]", "`rate_percent` is from 1 to 100"),
            ("contrast = 'weather'", "`contrast` is"),
            ("baseline = 'mutx'", "`baseline` is one of [\"mutex\""),
            ("contrast = 'ratio'\nbaseline = '2:1'", "`baseline` is one of [\"1:1\"], not \"2:1\""),
            ("equals = ['a']", "`equals`: there is no variant \"a\""),
            ("clinets = [1]", "unknown field"),
            ("variant = [{ name = 'a/b', flags = [] }]", "`variant`"),
            ("variant = [{ name = 'a', flags = [], servers = ['redis'] }]", "\"redis\" is not among the servers"),
            ("x = 'shards'", "`x` is one of"),
            ("loadgen = { cross-shard = [] }", "`cross-shard` is empty"),
            ("loadgen = { cross-shard = [1, '1'] }", "`cross-shard` holds \"1\" twice"),
            ("loadgen = { resp = ['a b'] }", "the value \"a b\" of resp"),
            ("loadgen = { --resp = [2] }", "without its dashes"),
            ("loadgen = { clients = [2] }", "the lab sets --clients itself"),
        ] {
            let error = Sweep::parse("small", &format!("{SMALL}{line}\n")).unwrap_err();
            assert!(format!("{error:#}").contains(complaint), "{line}: {error:#}");
        }
    }

    #[test]
    fn rates_are_shares_of_a_capacity_once_that_is_known() {
        let mut sweep = Sweep::parse("small", &format!("{SMALL}rate_percent = [30, 90]\n")).unwrap();
        let rates = |sweep: &Sweep| sweep.loadgen[RATE].iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(rates(&sweep), ["30", "90"]);
        sweep.set_rates(123_456.0);
        assert_eq!(rates(&sweep), ["37000", "111000"]);
        sweep.forget_rates();
        assert_eq!(rates(&sweep), ["30", "90"]);
    }

    #[test]
    fn a_flag_of_the_generator_may_take_no_value() {
        let sweep =
            Sweep::parse("small", &format!("{SMALL}loadgen = {{ verify = [false, true], resp = [3] }}")).unwrap();
        let words =
            |flag: &str| sweep.loadgen[flag].iter().map(|value| value.words(flag).join(" ")).collect::<Vec<_>>();
        assert_eq!((words("verify"), words("resp")), (vec![String::new(), "--verify".into()], vec!["--resp 3".into()]));
    }

    #[test]
    fn a_variant_is_for_the_servers_it_names_or_for_those_that_none_names() {
        let text = SMALL.replace("['mutex']", "['mutex', 'actor', 'dashmap']");
        let variants = "variant = [{ name = 'fast', flags = [], servers = ['actor'] }, { name = 'plain', flags = [] }, \
            { name = 'safe', flags = [], servers = ['actor', 'dashmap'] }]\n";
        let sweep = Sweep::parse("small", &format!("{text}{variants}")).unwrap();
        let names = |server| sweep.variants_of(server).iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(" ");
        assert_eq!([names("mutex"), names("actor"), names("dashmap")], ["plain", "fast safe", "safe"]);
        let alone = "variant = [{ name = 'fast', flags = [], servers = ['actor'] }]";
        let error = Sweep::parse("small", &format!("{text}{alone}")).unwrap_err();
        assert!(format!("{error:#}").contains("no `variant` for mutex"), "{error:#}");
    }

    #[test]
    fn a_short_sweep_has_its_lists_and_no_variant_of_a_server_that_it_lacks() {
        let text = SMALL.replace("['mutex']", "['mutex', 'actor']")
            + "variant = [{ name = 'fast', flags = [], \
            servers = ['actor'] }, { name = 'plain', flags = [] }]\n[short]\nservers = ['mutex']\nclients = [5]\n";
        let sweep = Sweep::parse("small", &text).unwrap().reduced().unwrap();
        assert_eq!(
            (&sweep.servers[..], &sweep.clients[..], sweep.short.as_ref()),
            (&["mutex".to_owned()][..], &[5][..], None)
        );
        assert_eq!(sweep.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["plain"]);
    }

    #[test]
    fn shipped_sweeps_can_be_shortened() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps");
        for sweep in load_folder(&home).unwrap() {
            sweep.reduced().unwrap();
        }
    }

    #[test]
    fn shipped_sweeps_can_be_shortened_where_a_peer_or_all_are_absent() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps");
        for absent in [&["valkey-server"][..], &["redis-server"], &["redis-server", "valkey-server", "dragonfly"]] {
            for mut sweep in load_folder(&home).unwrap() {
                let here = sweep.servers.iter().filter(|name| !absent.contains(&name.as_str()));
                let here: Vec<String> = here.cloned().collect();
                sweep.keep_servers(here);
                let had = sweep.baseline.clone();
                let forgotten = sweep.forget_absent_baseline();
                assert_eq!(
                    forgotten.is_some(),
                    had.as_deref().is_some_and(|had| absent.contains(&had)),
                    "{}",
                    sweep.name
                );
                sweep.reduced().unwrap();
            }
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
