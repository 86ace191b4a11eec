//! Which rates a run has, if it has several: the flags `--rate-steps` and `--find-knee`.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::base::{Error, invalid};
use crate::cli::RunFlags;

const STEPS_MAX: usize = 1000;
const KNEE_RATE_DEFAULT: f64 = 1000.0;
const KNEE_PRECISION_DEFAULT: f64 = 5.0;

/// Which rates are run.
#[derive(Clone, Debug, PartialEq)]
pub enum Ramp {
    /// These, in this order.
    Steps(Vec<f64>),
    /// The parameters of the search.
    FindKnee(Knee),
}

/// The search for the knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Where the search begins, in requests per second.
    pub first_rate: f64,
    /// The limit on the 99th percentile of latency.
    pub p99_limit_ms: f64,
    /// By how much the lowest rate that fails may exceed the highest that holds, in per cent.
    pub precision_percent: f64,
}

pub(super) fn ramp(flags: &RunFlags, rate: Option<f64>) -> Result<Option<Ramp>, Error> {
    if let Some(steps) = &flags.rate_steps {
        return Ramp::parse_steps(steps, flags.shuffle_steps.then_some(flags.seed)).map(Some);
    }
    let Some(p99_limit_ms) = flags.p99_limit.filter(|_| flags.find_knee) else {
        return Ok(None);
    };
    let precision_percent = flags.knee_precision.unwrap_or(KNEE_PRECISION_DEFAULT);
    if !(0.001..=1e6).contains(&p99_limit_ms) {
        return invalid("--p99-limit", p99_limit_ms, "expected 0.001 to 1e6 milliseconds");
    }
    if !(0.1..=100.0).contains(&precision_percent) {
        return invalid("--knee-precision", precision_percent, "expected 0.1 to 100 per cent");
    }
    let first_rate = rate.unwrap_or(KNEE_RATE_DEFAULT);
    Ok(Some(Ramp::FindKnee(Knee { first_rate, p99_limit_ms, precision_percent })))
}

impl Ramp {
    /// `RATE,RATE,…`, where `FROM-TO:BY` stands for several.
    fn parse_steps(text: &str, shuffle: Option<u64>) -> Result<Self, Error> {
        let mut rates = Vec::new();
        for item in text.split(',') {
            match parse_item(item.trim()) {
                Some(item) if rates.len() + item.len() <= STEPS_MAX => rates.extend(item),
                _ => {
                    let why = format!("expected RATE,… or FROM-TO:BY, up to {STEPS_MAX} rates of 0.001 to 1e9");
                    return invalid("--rate-steps", text, why);
                }
            }
        }
        if let Some(seed) = shuffle {
            rates.shuffle(&mut SmallRng::seed_from_u64(seed));
        }
        Ok(Self::Steps(rates))
    }

    /// The rate of the first step.
    pub(crate) fn first_rate(&self) -> f64 {
        match self {
            Self::Steps(rates) => rates[0],
            Self::FindKnee(knee) => knee.first_rate,
        }
    }
}

fn parse_item(item: &str) -> Option<Vec<f64>> {
    let rate = |text: &str| text.trim().parse().ok().filter(|rate| (0.001..=1e9).contains(rate));
    let Some((bounds, by)) = item.split_once(':') else {
        return rate(item).map(|rate| vec![rate]);
    };
    let (first, last) = bounds.split_once('-')?;
    let (first, last, by): (f64, f64, f64) = (rate(first)?, rate(last)?, rate(by)?);
    let count = ((last - first) / by + 1e-9).floor();
    (0.0..STEPS_MAX as f64).contains(&count).then(|| (0..=count as usize).map(|n| first + n as f64 * by).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<f64> {
        match Ramp::parse_steps(text, None).expect(text) {
            Ramp::Steps(rates) => rates,
            Ramp::FindKnee(_) => unreachable!("steps were parsed"),
        }
    }

    #[test]
    fn steps_are_listed_or_counted_and_may_be_shuffled() {
        assert_eq!(steps("100, 50,100"), [100.0, 50.0, 100.0]);
        assert_eq!(steps("10-40:10,99"), [10.0, 20.0, 30.0, 40.0, 99.0]);
        assert_eq!(steps("1-2:0.1").len(), 11);
        for text in ["", "0", "a", "10-5:1", "1-2", "1-2:0", "1-1e9:0.001", "1,,2"] {
            assert!(Ramp::parse_steps(text, None).is_err(), "{text:?}");
        }
        let Ok(Ramp::Steps(shuffled)) = Ramp::parse_steps("1-20:1", Some(1)) else { panic!("valid steps") };
        assert_ne!(shuffled, steps("1-20:1"));
        let mut sorted = shuffled;
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, steps("1-20:1"));
    }
}
