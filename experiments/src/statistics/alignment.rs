//! Alignment: removes the machine's drift from the values of trials, so that they can be compared.
//!
//! A virtual machine becomes slower by half within minutes and faster again, for all servers alike. Repeats are
//! interleaved, so that no server gains by it; but it widens every interval. The speed of the machine during a trial is
//! estimated from the trials around it: each has a residual, the logarithm of its value relative to the median of its
//! own point, and the drift at a trial is the median of the residuals of the [`NEIGHBOURS`] trials before it and as
//! many after it, without those of its own point. The aligned value is the measured one without the drift.
//!
//! That assumes that all servers respond alike to the machine. If one loses half as much again as the machine slows
//! down, and another half as much, too little is removed from the one and too much from the other, and the interval of
//! their ratio no longer holds. So each line's [`Response`] is estimated, the slope of its residuals over the drift,
//! and two lines are compared by aligned values only if their slopes are shown to be alike ([`respond_alike`]). If they
//! are not, or the data do not show it, they are compared by values as measured, whose intervals are wide and hold.
//!
//! Papadakis: Méthode statistique pour des expériences sur champ (1937), with time for the field. Wilkinson et al.:
//! Nearest neighbour (NN) analysis of field experiments (1983).

use crate::statistics::quantiles::median;

/// How many trials of other points are used on each side.
pub(crate) const NEIGHBOURS: usize = 10;

/// The value of a trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Its point.
    pub point: usize,
    /// When it began: in any unit that grows with time.
    pub started: u64,
    /// The value.
    pub value: f64,
}

/// The values of one sweep, in the given order, without the drift of the machine. They are unchanged if one is not
/// above zero, or if no point has [`NEIGHBOURS`] trials of others around it. O(n log n)
pub(crate) fn aligned(trials: &[Measured]) -> Vec<f64> {
    let without = |(one, drift): (&Measured, Drift)| one.value * (-drift.machine).exp();
    match drifts(trials) {
        Some(drifts) => trials.iter().zip(drifts).map(without).collect(),
        None => trials.iter().map(|one| one.value).collect(),
    }
}

/// How far a trial was off its point's median, and the trials around it off theirs, as logarithms.
#[derive(Debug, Clone, Copy)]
pub struct Drift {
    /// Of the machine, estimated from other trials.
    pub machine: f64,
    /// Of the trial itself.
    pub own: f64,
}

/// The drift at each trial; `None` if it cannot be estimated.
pub(crate) fn drifts(trials: &[Measured]) -> Option<Vec<Drift>> {
    let residuals = residuals(trials)?;
    let mut in_time: Vec<usize> = (0..trials.len()).collect();
    in_time.sort_by_key(|&index| trials[index].started);
    let mut drifts: Vec<Drift> = residuals.iter().map(|&own| Drift { machine: 0.0, own }).collect();
    for (place, &index) in in_time.iter().enumerate() {
        let is_other = |other: &&usize| trials[**other].point != trials[index].point;
        let before = in_time[..place].iter().rev().filter(is_other).take(NEIGHBOURS);
        let after = in_time[place + 1..].iter().filter(is_other).take(NEIGHBOURS);
        let mut around: Vec<f64> = before.chain(after).map(|&other| residuals[other]).collect();
        if around.len() < NEIGHBOURS {
            return None;
        }
        drifts[index].machine = median(&mut around).expect("there are neighbours");
    }
    Some(drifts)
}

/// How trials respond to the drift of the machine: the sums of a regression of their own drift on it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Response {
    count: f64,
    machine: f64,
    own: f64,
    machine_machine: f64,
    machine_own: f64,
    own_own: f64,
}

impl Response {
    /// The response of these trials.
    pub(crate) fn of(drifts: &[Drift]) -> Self {
        let add = |sum: Self, one: &Drift| Self {
            count: sum.count + 1.0,
            machine: sum.machine + one.machine,
            own: sum.own + one.own,
            machine_machine: sum.machine_machine + one.machine * one.machine,
            machine_own: sum.machine_own + one.machine * one.own,
            own_own: sum.own_own + one.own * one.own,
        };
        drifts.iter().fold(Self::default(), add)
    }

    /// The slope and its standard error; `None` for up to three trials, or if the machine did not drift.
    pub(crate) fn slope(&self) -> Option<(f64, f64)> {
        let n = self.count;
        let machine = self.machine_machine - self.machine * self.machine / n;
        if n < 4.0 || machine <= 1e-12 {
            return None;
        }
        let both = self.machine_own - self.machine * self.own / n;
        let own = self.own_own - self.own * self.own / n;
        let slope = both / machine;
        let left = (own - slope * both).max(0.0);
        Some((slope, (left / (n - 2.0) / machine).sqrt()))
    }
}

/// Slopes that differ by less are alike: coverage does not suffer from it.
const ALIKE: f64 = 0.3;

/// Whether two lines are shown to respond alike: the 95 % interval of the difference of their slopes is within `ALIKE`
/// on both sides of zero. If the machine hardly drifts nothing is shown, and alignment would gain nothing.
pub(crate) fn respond_alike(one: &Response, other: &Response) -> bool {
    let (Some((slope, error)), Some((other_slope, other_error))) = (one.slope(), other.slope()) else { return false };
    (slope - other_slope).abs() + 2.0 * error.hypot(other_error) < ALIKE
}

/// The logarithm of each value relative to the median of its point; `None` if a value is not above zero.
fn residuals(trials: &[Measured]) -> Option<Vec<f64>> {
    if trials.iter().any(|one| one.value <= 0.0) {
        return None;
    }
    let points = trials.iter().map(|one| one.point + 1).max()?;
    let mut by_point: Vec<Vec<f64>> = vec![Vec::new(); points];
    trials.iter().for_each(|one| by_point[one.point].push(one.value.ln()));
    let medians: Vec<Option<f64>> = by_point.iter_mut().map(|values| median(values)).collect();
    trials.iter().map(|one| Some(one.value.ln() - medians[one.point]?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::judging::compare::rank_test;

    /// Ten rounds of four points, of which each does half as much again as the one before, on a machine of this speed.
    fn measured(speed: impl Fn(u64) -> f64) -> Vec<Measured> {
        let value = |point: usize, at: u64| 100.0 * 1.5f64.powi(point as i32) * speed(at);
        let trial = |at: u64| Measured { point: at as usize % 4, started: at, value: value(at as usize % 4, at) };
        (0..40).map(trial).collect()
    }

    /// Largest by smallest aligned value of a point, for the trials that began at such times.
    fn spread(trials: &[Measured], point: usize, then: impl Fn(u64) -> bool) -> f64 {
        let values = aligned(trials);
        let own = trials.iter().zip(values).filter(|(one, _)| one.point == point && then(one.started));
        let own: Vec<f64> = own.map(|(_, value)| value).collect();
        own.iter().copied().fold(0.0, f64::max) / own.iter().copied().fold(f64::MAX, f64::min)
    }

    #[test]
    fn a_machine_that_becomes_slower_for_all_changes_nothing() {
        let slower = measured(|at| if at < 20 { 1.0 } else { 0.5 });
        // Next to the step as many neighbours are on the other side of it.
        let settled = |at: u64| !(15..25).contains(&at);
        for point in 0..4 {
            assert!(spread(&slower, point, |_| true) <= 2.0 + 1e-9);
            assert!(spread(&slower, point, settled) < 1.0 + 1e-9, "{}", spread(&slower, point, settled));
        }
    }

    #[test]
    fn what_differs_between_points_stays() {
        let drifting = measured(|at| 1.0 + 0.5 * (at as f64 / 10.0).sin());
        let values = aligned(&drifting);
        let middle = |point: usize| {
            let own = drifting.iter().zip(&values).filter(|(one, _)| one.point == point);
            median(&mut own.map(|(_, value)| *value).collect::<Vec<_>>()).unwrap()
        };
        for point in 0..3 {
            let ratio = middle(point + 1) / middle(point);
            assert!((ratio - 1.5).abs() < 0.05, "{ratio}");
        }
    }

    #[test]
    fn the_order_in_which_trials_are_given_says_nothing() {
        let trials = measured(|at| 1.0 + at as f64 / 40.0);
        let mut order: Vec<usize> = (0..trials.len()).collect();
        Rng::new(3).shuffle(&mut order);
        let shuffled: Vec<Measured> = order.iter().map(|&index| trials[index]).collect();
        let (straight, other) = (aligned(&trials), aligned(&shuffled));
        assert!(order.iter().zip(other).all(|(&index, value)| value == straight[index]));
    }

    #[test]
    fn what_cannot_be_aligned_is_as_it_was_measured() {
        let raw = |trials: &[Measured]| trials.iter().map(|one| one.value).collect::<Vec<_>>();
        let mut with_zero = measured(|at| at as f64 + 1.0);
        with_zero[7].value = 0.0;
        assert_eq!(aligned(&with_zero), raw(&with_zero));
        let few: Vec<Measured> = measured(|at| at as f64 + 1.0).into_iter().take(8).collect();
        assert_eq!(aligned(&few), raw(&few));
        let alone: Vec<Measured> = measured(|at| at as f64 + 1.0).into_iter().filter(|one| one.point == 0).collect();
        assert_eq!(aligned(&alone), raw(&alone));
        assert!(aligned(&[]).is_empty());
    }

    /// Shares of comparisons with p below 0.05, as measured and aligned: for points whose trials scatter by a tenth
    /// about the same value (odd points about `factor` of it), on a machine that is sometimes at half speed.
    fn found(factor: f64) -> (f64, f64) {
        const POINTS: usize = 14;
        const ROUNDS: usize = 10;
        let mut rng = Rng::new(7);
        let (mut raw, mut straight, mut all) = (0, 0, 0);
        for _ in 0..20 {
            let mut speed = 1.0;
            let mut trials = Vec::new();
            for _ in 0..ROUNDS {
                let mut order: Vec<usize> = (0..POINTS).collect();
                rng.shuffle(&mut order);
                for point in order {
                    if rng.below(50) == 0 {
                        speed = [0.5, 1.0][rng.below(2)];
                    }
                    let scatter = (0..12).map(|_| rng.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0;
                    let value = speed * (0.1 * scatter).exp() * if point % 2 == 1 { factor } else { 1.0 };
                    trials.push(Measured { point, started: trials.len() as u64, value });
                }
            }
            let aligned = aligned(&trials);
            for even in (0..POINTS).step_by(2) {
                let is_found = |value: &dyn Fn(usize) -> f64| {
                    let of = |point| {
                        (0..trials.len()).filter(|&at| trials[at].point == point).map(value).collect::<Vec<_>>()
                    };
                    usize::from(rank_test(&of(even), &of(even + 1)) < 0.05)
                };
                raw += is_found(&|at| trials[at].value);
                straight += is_found(&|at| aligned[at]);
                all += 1;
            }
        }
        (raw as f64 / f64::from(all), straight as f64 / f64::from(all))
    }

    #[test]
    fn equals_look_different_no_more_often_than_they_may_and_differences_are_found_through_drift() {
        let (_, equals) = found(1.0);
        assert!((0.01..0.10).contains(&equals), "{equals}");
        let (raw, aligned) = found(0.88);
        assert!(aligned > raw + 0.1, "{raw} and {aligned}");
        println!("equals {equals}; of a difference of 12 %: {raw} as measured, {aligned} aligned");
    }
}
