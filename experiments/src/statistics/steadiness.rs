//! Steadiness: did throughput make a step within the window?
//!
//! A window is cut into slices of 100 ms, however short it is, and the slices into a part before and a part after, at
//! every place that leaves `SIDE_MIN` of them on each side. A step is a place where the means of the two parts differ
//! by more than `STEP_MIN` and by more than `STANDARD_ERRORS` standard errors, given the scatter of the slices within
//! the parts: a machine with a different rate in every slice has no step, and a server that falls to half its rate has
//! one, wherever in the window that happens.

/// Slices on each side of a step.
const SIDE_MIN: usize = 2;

/// The least change of throughput, as a share of the larger side, that counts.
const STEP_MIN: f64 = 0.15;

/// Standard errors that a step must exceed. The place is chosen among many, so two would be too few.
const STANDARD_ERRORS: f64 = 4.0;

/// A change of throughput within a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Slices before it.
    pub at: usize,
    /// Throughput after it by that before it.
    pub ratio: f64,
}

/// The largest step of a window, by the replies in its slices; `None` if throughput was steady, or there are few
/// slices.
pub fn step(slices: &[u64]) -> Option<Step> {
    let places = SIDE_MIN..(slices.len() + 1).saturating_sub(SIDE_MIN);
    let steps = places.filter_map(|at| step_at(slices, at));
    steps.max_by(|a, b| a.ratio.ln().abs().total_cmp(&b.ratio.ln().abs()))
}

fn step_at(slices: &[u64], at: usize) -> Option<Step> {
    let (before, after) = slices.split_at(at);
    let (first, second) = (mean(before), mean(after));
    let change = (second - first).abs();
    let spread = squares(before, first) + squares(after, second);
    let variance = spread / (slices.len() - 2) as f64;
    let standard_error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    let is_step = change > STEP_MIN * first.max(second) && change > STANDARD_ERRORS * standard_error;
    // A server that stops for good has no reply after the step: the ratio is kept off zero for its logarithm.
    is_step.then(|| Step { at, ratio: second.max(1e-3) / first.max(1e-3) })
}

fn mean(slices: &[u64]) -> f64 {
    slices.iter().sum::<u64>() as f64 / slices.len() as f64
}

fn squares(slices: &[u64], mean: f64) -> f64 {
    slices.iter().map(|&slice| (slice as f64 - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    /// A window of this many slices that scatter by `spread`, on a server that does `factor` as much from `at` on.
    fn window(slices: usize, spread: f64, at: usize, factor: f64, rng: &mut Rng) -> Vec<u64> {
        let slice = |index: usize| {
            let wobble = (0..12).map(|_| rng.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0;
            let rate = if index < at { 1.0 } else { factor };
            (100_000.0 * rate * (1.0 + spread * wobble).max(0.0)) as u64
        };
        (0..slices).map(slice).collect()
    }

    /// The share of windows that a step is found in.
    fn found(slices: usize, spread: f64, at: usize, factor: f64) -> f64 {
        let mut rng = Rng::new(11);
        let found = (0..400).filter(|_| step(&window(slices, spread, at, factor, &mut rng)).is_some()).count();
        found as f64 / 400.0
    }

    #[test]
    fn throughput_that_halves_within_a_window_of_any_length_is_a_step() {
        for slices in [4, 6, 10, 30, 80, 300] {
            let share = found(slices, 0.04, slices / 2, 0.5);
            assert!(share > 0.95, "{slices} slices: {share}");
            // Twice as much is as unsteady as half as much.
            assert!(found(slices, 0.04, slices / 2, 2.0) > 0.95);
        }
        // Late in the window too, where its halves differ by less.
        assert!(found(80, 0.05, 70, 0.5) > 0.95);
        let one = step(&[100, 101, 99, 50, 51, 49]).unwrap();
        assert!(one.at == 3 && (one.ratio - 0.5).abs() < 0.01, "{one:?}");
        assert!(step(&[100, 101, 99, 0, 0, 0]).is_some());
    }

    #[test]
    fn slices_that_only_scatter_are_no_step() {
        for slices in [4, 6, 10, 30, 80, 300] {
            for spread in [0.01, 0.05, 0.15] {
                let share = found(slices, spread, slices, 1.0);
                assert!(share < 0.05, "{slices} slices that scatter by {spread}: {share}");
            }
        }
        assert_eq!(step(&[]), None);
        assert_eq!(step(&[100, 50, 50]), None);
        assert_eq!(step(&[0; 10]), None);
    }
}
