//! How often intervals of ratios hold the true ratio, by simulation: as measured, aligned, and by the rule that
//! chooses.
//!
//! Two kinds of servers run on a machine whose speed changes, and respond to it with sensitivities of their own:
//! throughput is speed to the power of the sensitivity, times a scatter of 5 %. Sweeps of 14 points and ten rounds, as
//! the lab plans them; the truth is the ratio at the speed that the machine had in the middle of the sweep's trials.
//! The table that comes out is in experiments/README.md, and the test compares it.

use std::fs;
use std::path::Path;

use crate::base::rng::Rng;
use crate::statistics::alignment::{Drift, Measured, Response, aligned, drifts, respond_alike};
use crate::statistics::bootstrap::resampled_median;
use crate::statistics::quantiles::{median, middle_95_percent};

const POINTS: usize = 14;
const ROUNDS: usize = 10;
const SWEEPS: usize = 150;
const RESAMPLES: usize = 400;
const SCATTER: f64 = 0.05;

/// What an interval of 95 % must hold at least.
const COVERAGE_MIN: f64 = 0.93;

const MACHINES: [&str; 4] = ["half speed now and then", "slow drift", "fast drift", "steady"];
const SENSITIVITIES: [[f64; 2]; 6] = [[1.0, 1.0], [0.75, 1.25], [0.5, 1.0], [1.0, 1.5], [0.5, 1.5], [1.5, 1.5]];

/// Shares of intervals that hold the truth.
#[derive(Debug, Default)]
struct Coverage {
    raw: f64,
    aligned: f64,
    chosen: f64,
    /// Share of comparisons that used aligned values.
    used: f64,
    /// Median widths, relative to the raw ones.
    width: f64,
}

/// Logarithms of the machine's speed at each trial.
fn speeds(machine: &str, rng: &mut Rng) -> Vec<f64> {
    let mut speed = 0.0;
    let next = |_| {
        speed = match machine {
            "half speed now and then" if rng.below(50) == 0 => [0.5f64.ln(), 0.0][rng.below(2)],
            "slow drift" => 0.97 * speed + 0.2 * (1.0f64 - 0.97 * 0.97).sqrt() * normal(rng),
            "fast drift" => 0.7 * speed + 0.2 * (1.0f64 - 0.7 * 0.7).sqrt() * normal(rng),
            _ => speed,
        };
        speed
    };
    (0..POINTS * ROUNDS).map(next).collect()
}

fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
}

fn holds(above: &[f64], below: &[f64], truth: f64, rng: &mut Rng) -> (bool, f64) {
    let mut draw = vec![0.0; ROUNDS];
    let mut ratio = || {
        let above = resampled_median(above, &mut draw, rng);
        above / resampled_median(below, &mut draw, rng)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| ratio()).collect();
    let (low, high) = middle_95_percent(&mut ratios).unwrap();
    ((low..=high).contains(&truth), high / low - 1.0)
}

fn simulate(machine: &str, sensitivity: [f64; 2], rng: &mut Rng) -> Coverage {
    let mut found = Coverage::default();
    let mut count = 0.0;
    for _ in 0..SWEEPS {
        let speeds = speeds(machine, rng);
        let mut trials = Vec::new();
        for _ in 0..ROUNDS {
            let mut order: Vec<usize> = (0..POINTS).collect();
            rng.shuffle(&mut order);
            for point in order {
                let at = trials.len();
                let value = (sensitivity[point % 2] * speeds[at] + SCATTER * normal(rng)).exp();
                trials.push(Measured { point, started: at as u64, value });
            }
        }
        let middle = median(&mut speeds.clone()).unwrap();
        let truth = ((sensitivity[0] - sensitivity[1]) * middle).exp();
        let (straight, drifts) = (aligned(&trials), drifts(&trials).unwrap());
        let response = |line: usize| {
            let own = trials.iter().zip(&drifts).filter(|(one, _)| one.point % 2 == line);
            Response::of(&own.map(|(_, drift)| *drift).collect::<Vec<Drift>>())
        };
        let alike = respond_alike(&response(0), &response(1));
        for even in (0..POINTS).step_by(2) {
            let of = |point: usize, value: &dyn Fn(usize) -> f64| -> Vec<f64> {
                (0..trials.len()).filter(|&at| trials[at].point == point).map(value).collect()
            };
            let raw = |at: usize| trials[at].value;
            let without = |at: usize| straight[at];
            let (raw, raw_width) = holds(&of(even, &raw), &of(even + 1, &raw), truth, rng);
            let (straight, width) = holds(&of(even, &without), &of(even + 1, &without), truth, rng);
            let share = |is: bool| f64::from(u8::from(is));
            found.raw += share(raw);
            found.aligned += share(straight);
            found.chosen += share(if alike { straight } else { raw });
            found.used += share(alike);
            found.width += if alike { width / raw_width } else { 1.0 };
            count += 1.0;
        }
    }
    for sum in [&mut found.raw, &mut found.aligned, &mut found.chosen, &mut found.used, &mut found.width] {
        *sum /= count;
    }
    found
}

#[test]
fn intervals_hold_whatever_way_servers_respond_to_the_machine() {
    let mut rng = Rng::new(2026);
    let mut table =
        "| machine | sensitivities | as measured | aligned | as chosen | chosen aligned | width, to as measured |\n\
        |---|---|---|---|---|---|---|\n"
            .to_owned();
    let (mut worst_chosen, mut worst_aligned) = (1.0f64, 1.0f64);
    for machine in MACHINES {
        for [one, other] in SENSITIVITIES {
            let found = simulate(machine, [one, other], &mut rng);
            worst_chosen = worst_chosen.min(found.chosen);
            worst_aligned = worst_aligned.min(found.aligned);
            table.push_str(&format!(
                "| {machine} | {one}, {other} | {:.3} | {:.3} | {:.3} | {:.0} % | {:.2} |\n",
                found.raw,
                found.aligned,
                found.chosen,
                found.used * 100.0,
                found.width
            ));
        }
    }
    println!("{table}");
    assert!(worst_chosen >= COVERAGE_MIN, "{worst_chosen}\n{table}");
    assert!(worst_aligned < 0.9, "the simulation has what alignment alone cannot bear: {worst_aligned}");
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(readme.contains(&table), "experiments/README.md has another table than the simulation:\n{table}");
}
