//! Which keys there are, and the order in which they are taken: the flags `--key-*`.

use crate::base::{Error, invalid};
use crate::cli::RunFlags;
use crate::workload::file::WorkloadFlags;
use crate::workload::keys::{KeyPattern, KeyRange};

const KEY_MAXIMUM_DEFAULT: u64 = 1_000_000;

/// The parameters of the patterns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    zipf_exponent: f64,
    median: f64,
    deviation: f64,
    hotspot: (f64, f64),
}

impl Shape {
    pub(super) fn of(flags: &RunFlags, defaults: &WorkloadFlags, keys: KeyRange) -> Result<Self, Error> {
        let middle = keys.minimum as f64 / 2.0 + keys.maximum as f64 / 2.0;
        let exponent = flags.key_zipf_exp.or(defaults.key_zipf_exp).unwrap_or(1.0);
        let median = flags.key_median.or(defaults.key_median).unwrap_or(middle);
        let deviation = flags.key_stddev.or(defaults.key_stddev).unwrap_or((keys.count() as f64 / 6.0).max(1.0));
        let hotspot = flags.key_hotspot.as_ref().or(defaults.key_hotspot.as_ref());
        if !(0.0..=100.0).contains(&exponent) {
            return invalid("--key-zipf-exp", exponent, "expected 0 (uniform) to 100");
        }
        if !(keys.minimum as f64..=keys.maximum as f64).contains(&median) {
            return invalid("--key-median", median, "expected a number within the range of keys");
        }
        if !(1e-6..=1e20).contains(&deviation) {
            return invalid("--key-stddev", deviation, "expected a number above zero");
        }
        let hotspot = parse_hotspot(hotspot.map_or("20:80", String::as_str))?;
        Ok(Self { zipf_exponent: exponent, median, deviation, hotspot })
    }

    /// A pattern by its letter or its name.
    pub(super) fn pattern(&self, name: &str) -> Option<KeyPattern> {
        let exponent = self.zipf_exponent;
        match name {
            "R" | "uniform" => Some(KeyPattern::Uniform),
            "Z" | "zipfian" => Some(KeyPattern::Zipfian { exponent }),
            "G" | "gaussian" => Some(KeyPattern::Gaussian { median: self.median, deviation: self.deviation }),
            "H" | "hotspot" => {
                let (keys_percent, requests_percent) = self.hotspot;
                Some(KeyPattern::Hotspot { keys_percent, requests_percent })
            }
            "S" | "sequential" => Some(KeyPattern::Sequential),
            "P" | "per-client" => Some(KeyPattern::PerClient),
            "L" | "latest" => Some(KeyPattern::Latest { exponent }),
            "I" | "insert" => Some(KeyPattern::Insert),
            _ => None,
        }
    }

    /// Two patterns, `SET:GET`, or one for both.
    pub(super) fn patterns(&self, text: &str) -> Result<(KeyPattern, KeyPattern), Error> {
        let (set, get) = text.split_once(':').unwrap_or((text, text));
        match (self.pattern(set), self.pattern(get)) {
            (Some(set), Some(get)) => Ok((set, get)),
            _ => {
                let why = "expected one or two of R (uniform), Z (zipfian), G (gaussian), H (hotspot), S (sequential), \
                           P (per-client), L (latest), I (insert), such as R:R";
                invalid("--key-pattern", text, why)
            }
        }
    }
}

/// A parameter of a pattern that no command uses has no effect, and a flag without an effect is an error. Those of a
/// workload file are defaults, which a flag may overrule.
pub(super) fn check_effect(flags: &RunFlags, used: &[KeyPattern]) -> Result<(), Error> {
    let is_used = |is_it: fn(&KeyPattern) -> bool| used.iter().any(is_it);
    let zipfian = is_used(|one| matches!(one, KeyPattern::Zipfian { .. } | KeyPattern::Latest { .. }));
    let gaussian = is_used(|one| matches!(one, KeyPattern::Gaussian { .. }));
    let hotspot = is_used(|one| matches!(one, KeyPattern::Hotspot { .. }));
    let given = [
        ("--key-zipf-exp", flags.key_zipf_exp.map(|value| value.to_string()), zipfian, "Z or L"),
        ("--key-median", flags.key_median.map(|value| value.to_string()), gaussian, "G"),
        ("--key-stddev", flags.key_stddev.map(|value| value.to_string()), gaussian, "G"),
        ("--key-hotspot", flags.key_hotspot.clone(), hotspot, "H"),
    ];
    let idle =
        given.into_iter().find_map(|(flag, value, is_used, letter)| Some((flag, value?, letter)).filter(|_| !is_used));
    match idle {
        Some((flag, value, letter)) => invalid(flag, value, format!("it needs --key-pattern {letter}")),
        None => Ok(()),
    }
}

fn parse_hotspot(text: &str) -> Result<(f64, f64), Error> {
    let percent = |text: &str| text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let parsed = text.split_once(':').and_then(|(keys, requests)| Some((percent(keys)?, percent(requests)?)));
    parsed.map_or_else(|| invalid("--key-hotspot", text, "expected KEYS:REQUESTS in per cent, such as 20:80"), Ok)
}

/// The range of the flags, or of the workload.
pub(super) fn key_range(flags: &RunFlags, defaults: &WorkloadFlags) -> Result<KeyRange, Error> {
    let minimum = flags.key_minimum.or(defaults.key_minimum).unwrap_or(1);
    let maximum = flags.key_maximum.or(defaults.key_maximum).unwrap_or(KEY_MAXIMUM_DEFAULT);
    if minimum > maximum {
        return invalid("--key-maximum", maximum, format!("it is below --key-minimum {minimum}"));
    }
    if minimum == 0 && maximum == u64::MAX {
        return invalid("--key-maximum", maximum, "at most 2^64 - 1 keys");
    }
    Ok(KeyRange { minimum, maximum })
}
