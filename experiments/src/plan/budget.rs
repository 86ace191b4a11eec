//! Fits sweeps into a number of minutes.
//!
//! A budget changes two things and says so in the report: sweeps take the lists of their `[short]` tables (unless they
//! are to be whole), and all windows get the same length, the one that fills the minutes. Repeats stay as they are
//! written, ten for a claim: on a machine with neighbours many short trials are better than few long ones, because the
//! variation from trial to trial is larger than that within one.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::plan::point::Point;
use crate::plan::schedule;
use crate::plan::sweep::Sweep;

/// The shortest window: ticks of CPU time are 10 ms long, and fewer than forty of them measure little.
const WINDOW_MIN: f64 = 0.4;
/// Warm-up, as a share of the window.
const WARM_UP: f64 = 0.3;
/// What a trial takes besides: two processes start and end, the generator writes its files (measured).
const OVERHEAD: f64 = 0.15;
/// What each connection takes to be opened and closed, on both sides.
const PER_CLIENT: f64 = 60e-6;
/// What each key takes to be set before the window, and each of its bytes.
const PER_KEY: f64 = 0.5e-6;
const PER_BYTE: f64 = 1e-9;
/// The time that a workload of the generator takes to set its own keys: up to a hundred thousand records of a kilobyte.
const WORKLOAD: f64 = 0.8;
/// Share of the trials that are expected to be disturbed, and repeated.
const REPEATED: f64 = 0.05;

/// The lists of a sweep within a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// Those of its `[short]` table.
    Short,
    /// Its full lists: a design that has to be whole to be analysed.
    Whole,
}

/// Gives each sweep its `lists` and all the same window, so that they run for about `minutes`. A sweep may
/// ask for a longer one (`test_seconds_min`), and gets no longer one than it would have without a budget.
pub fn fit(sweeps: Vec<Sweep>, minutes: f64, lists: Lists) -> Result<Vec<Sweep>> {
    let least_of = |sweep: &Sweep| sweep.short.as_ref().and_then(|short| short.test_seconds_min).unwrap_or(WINDOW_MIN);
    let least: Vec<f64> = sweeps.iter().map(least_of).collect();
    let mut sweeps = match lists {
        Lists::Short => sweeps.into_iter().map(Sweep::reduced).collect::<Result<Vec<_>>>()?,
        Lists::Whole => sweeps,
    };
    let window = window(&sweeps, &least, minutes * 60.0)?;
    for (sweep, least) in sweeps.iter_mut().zip(least) {
        let window = hundredths(window.max(least)).min(sweep.test_seconds);
        sweep.test_seconds = window;
        sweep.warm_up_seconds = hundredths(window * WARM_UP).min(sweep.warm_up_seconds);
        sweep.retries = sweep.retries.min(1);
    }
    Ok(sweeps)
}

/// As [`fit`]; where not even the shortest windows fit, with as many repeats as do.
pub fn fit_with_fewer_repeats(sweeps: &[Sweep], minutes: f64, lists: Lists) -> Result<Vec<Sweep>> {
    let all = sweeps.iter().map(|sweep| sweep.repeats).max().unwrap_or(1);
    let with = |repeats: u32| {
        let fewer = sweeps.iter().cloned().map(|sweep| Sweep { repeats: sweep.repeats.min(repeats), ..sweep });
        fit(fewer.collect(), minutes, lists)
    };
    (2..=all).rev().find_map(|repeats| with(repeats).ok()).map_or_else(|| with(1), Ok)
}

/// The window that fills `seconds` if every sweep has at least its own.
fn window(sweeps: &[Sweep], least: &[f64], seconds: f64) -> Result<f64> {
    let taken = |window: f64| -> f64 {
        let of = |(sweep, least): (&Sweep, &f64)| {
            let window = window.max(*least).min(sweep.test_seconds);
            overhead(sweep) + trials(sweep) * window * (1.0 + WARM_UP)
        };
        sweeps.iter().zip(least).map(of).sum::<f64>() * (1.0 + REPEATED)
    };
    let (count, needed) = (sweeps.iter().map(trials).sum::<f64>(), taken(WINDOW_MIN));
    ensure!(
        seconds >= needed,
        "{count:.0} trials take {:.1} minutes at least, not {:.1}: {}",
        needed / 60.0,
        seconds / 60.0,
        remedies(sweeps)
    );
    // The total time grows with the window: halve the range that holds the answer.
    let (mut low, mut high) = (WINDOW_MIN, seconds);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if taken(middle) <= seconds { low = middle } else { high = middle }
    }
    Ok(low)
}

/// What there is left to do where a budget is too small.
fn remedies(sweeps: &[Sweep]) -> String {
    let mut remedies = vec!["give it more"];
    if sweeps.len() > 1 {
        remedies.push("name fewer sweeps");
    }
    if sweeps.iter().any(|sweep| sweep.repeats > 1) {
        remedies.push("measure each point less often with --fewer-rounds");
    }
    remedies.join(", or ")
}

/// How long a trial of `point` takes.
pub fn trial_duration(sweep: &Sweep, point: &Point) -> Duration {
    Duration::from_secs_f64(overhead_of(sweep, point) + sweep.test_seconds + sweep.warm_up_seconds)
}

fn trials(sweep: &Sweep) -> f64 {
    schedule::points(sweep).len() as f64 * f64::from(sweep.repeats)
}

fn overhead(sweep: &Sweep) -> f64 {
    let points = schedule::points(sweep);
    points.iter().map(|point| overhead_of(sweep, point)).sum::<f64>() * f64::from(sweep.repeats)
}

fn overhead_of(sweep: &Sweep, point: &Point) -> f64 {
    let prefill = match (sweep.prefills(point), point.has_own_commands()) {
        (false, _) => 0.0,
        (true, true) => WORKLOAD,
        (true, false) => sweep.keys_of(point) as f64 * (PER_KEY + f64::from(point.data_size) * PER_BYTE),
    };
    OVERHEAD + f64::from(point.clients) * PER_CLIENT + prefill
}

/// Cut to hundredths of a second, for humans. Not to tenths: half of one is an eighth of the shortest window, in each
/// of thousands of trials.
fn hundredths(seconds: f64) -> f64 {
    (seconds * 100.0).floor() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep() -> Sweep {
        let text = "question='?'\nservers=['a']\nclients=[1, 10, 100, 1000]\nkey_maximum=1000\ntest_seconds=10\n\
            warm_up_seconds=3\nrepeats=10\n[short]\nclients=[1, 100]\n";
        Sweep::parse("s", text).unwrap()
    }

    fn seconds(sweeps: &[Sweep]) -> f64 {
        let of = |sweep: &Sweep| {
            let points = schedule::points(sweep);
            points.iter().map(|point| trial_duration(sweep, point).as_secs_f64()).sum::<f64>()
                * f64::from(sweep.repeats)
        };
        sweeps.iter().map(of).sum()
    }

    #[test]
    fn windows_fill_the_budget_and_repeats_stay() {
        let fitted = fit(vec![sweep(), sweep()], 2.0, Lists::Short).unwrap();
        let taken = seconds(&fitted);
        assert!((112.0..=120.0).contains(&taken), "{taken} s of 120");
        assert!(fitted.iter().all(|one| one.repeats == 10 && one.clients == [1, 100] && one.retries == 1));
        assert_eq!(fitted[0].test_seconds, fitted[1].test_seconds);
    }

    #[test]
    fn a_budget_never_makes_a_window_longer_than_the_sweep_asks_for() {
        assert_eq!(fit(vec![sweep()], 600.0, Lists::Short).unwrap()[0].test_seconds, 10.0);
    }

    #[test]
    fn a_whole_sweep_has_shorter_windows_and_all_of_its_lists() {
        let fitted = fit(vec![sweep()], 2.0, Lists::Whole).unwrap();
        assert_eq!(fitted[0].clients, [1, 10, 100, 1000]);
        assert!((110.0..=120.0).contains(&seconds(&fitted)), "{} s of 120", seconds(&fitted));
    }

    #[test]
    fn a_sweep_gets_the_window_that_it_needs_at_least() {
        let mut needs = sweep();
        needs.short = Some(crate::plan::sweep::Short { test_seconds_min: Some(3.0), ..Default::default() });
        let fitted = fit(vec![sweep(), needs], 4.0, Lists::Short).unwrap();
        assert_eq!(fitted[1].test_seconds, 3.0);
        assert!(fitted[0].test_seconds < 3.0 && (200.0..=240.0).contains(&seconds(&fitted)), "{}", seconds(&fitted));
    }

    #[test]
    fn the_shipped_sweeps_fit_into_eighty_minutes() {
        let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps");
        // On two cores, and on many, where the sweep of threads has more of them.
        for (cores, minutes) in [(2, 80.0), (64, 90.0)] {
            let mut sweeps = crate::plan::sweep::load(&[], &home, false).unwrap();
            sweeps.iter_mut().for_each(|sweep| drop(sweep.keep_fitting(cores)));
            let fitted = fit(sweeps, minutes, Lists::Short).unwrap();
            assert!(fitted.iter().all(|one| one.repeats >= 10));
        }
        let quick = crate::plan::sweep::load(&[], &home, true).unwrap();
        assert!(seconds(&quick) < 280.0, "the quick sweep takes {} s", seconds(&quick));
    }

    #[test]
    fn where_the_shortest_windows_do_not_fit_there_are_fewer_repeats_if_asked_for() {
        let fewer = |minutes| fit_with_fewer_repeats(&[sweep()], minutes, Lists::Short);
        let needed = 2.0;
        assert_eq!(fewer(needed).unwrap(), fit(vec![sweep()], needed, Lists::Short).unwrap(), "all fit");
        assert!(fit(vec![sweep()], 0.1, Lists::Short).is_err());
        let fitted = fewer(0.1).unwrap();
        assert!((1..10).contains(&fitted[0].repeats), "{} repeats", fitted[0].repeats);
        assert!(seconds(&fitted) <= 6.0, "{} s of 6", seconds(&fitted));
        assert!(fewer(0.001).unwrap_err().to_string().contains("2 trials take"));
    }

    #[test]
    fn a_budget_that_is_too_small_says_what_is_needed() {
        let error = fit(vec![sweep()], 0.1, Lists::Short).unwrap_err().to_string();
        assert!(error.contains("20 trials take") && error.contains("at least"), "{error}");
        assert!(error.contains("--fewer-rounds") && !error.contains("fewer sweeps"), "there is one: {error}");
        let error = fit(vec![sweep(), sweep()], 0.1, Lists::Short).unwrap_err().to_string();
        assert!(error.contains("fewer sweeps"), "{error}");
        let error = fit_with_fewer_repeats(&[sweep()], 0.001, Lists::Short).unwrap_err().to_string();
        assert!(!error.contains("--fewer-rounds"), "it was asked for: {error}");
    }
}
