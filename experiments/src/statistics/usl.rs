//! The Universal Scalability Law: throughput as threads are added, in three numbers.
//!
//! ```text
//! X(N) = λN / (1 + σ(N - 1) + κN(N - 1))
//! ```
//!
//! λ is the throughput of one thread, σ the share of work that is done one at a time (contention), κ the price of
//! keeping all views the same (coherence): with κ above zero, throughput falls beyond N = sqrt((1 - σ) / κ). Gunther:
//! Guerrilla Capacity Planning (2007).
//!
//! N/X is linear in 1/λ, σ/λ and κ/λ, none of which is below zero, so the fit is a linear least-squares problem with
//! non-negative coefficients, solved exactly: each choice of coefficients to hold at zero is tried, and the best whose
//! others are positive is taken. Residuals are relative, so that many threads weigh no more than one.
//!
//! A law that does not hold still yields numbers. A fit is shown only if it is good: see [`Fit::is_good`].

use serde::{Deserialize, Serialize};

/// Distinct numbers of threads below which three parameters would fit anything.
const POINTS_MIN: usize = 4;
/// The largest relative residual of a good fit.
const RESIDUAL_MAX: f64 = 0.15;
/// The least share of the variance of throughput that a good fit explains.
const R_SQUARED_MIN: f64 = 0.9;
/// The largest relative residual at which that share does not matter: a flat line has no variance to explain.
const RESIDUAL_SMALL: f64 = 0.05;

/// The law with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// Throughput of one thread, per second.
    pub lambda: f64,
    /// Contention.
    pub sigma: f64,
    /// Coherence.
    pub kappa: f64,
}

/// A law fitted to measurements, and how well it fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The parameters.
    pub law: Law,
    /// Measured by fitted throughput, minus one, at each N.
    pub residuals: Vec<f64>,
    /// Share of the variance of throughput that the law explains.
    pub r_squared: f64,
}

impl Law {
    /// Throughput of `n` threads.
    pub fn throughput(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// The number of threads beyond which throughput falls; `None` if it never does.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

impl Fit {
    /// Fits the law to pairs of N and throughput. None with fewer than four different N.
    pub fn of(measured: &[(f64, f64)]) -> Option<Self> {
        let mut counts: Vec<f64> = measured.iter().map(|(n, _)| *n).collect();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        if counts.len() < POINTS_MIN || measured.iter().any(|(_, x)| *x <= 0.0) {
            return None;
        }
        let law = least_squares(measured)?;
        let residuals = measured.iter().map(|&(n, x)| x / law.throughput(n) - 1.0).collect();
        let mean = measured.iter().map(|(_, x)| x).sum::<f64>() / measured.len() as f64;
        let unexplained: f64 = measured.iter().map(|&(n, x)| (x - law.throughput(n)).powi(2)).sum();
        let all: f64 = measured.iter().map(|(_, x)| (x - mean).powi(2)).sum();
        Some(Self { law, residuals, r_squared: if all > 0.0 { 1.0 - unexplained / all } else { 0.0 } })
    }

    /// Whether the law describes the measurements: no point is off by more than 15 %, and it explains at least 90 % of
    /// the variance, or no point is off by more than 5 %.
    pub fn is_good(&self) -> bool {
        let worst = self.worst_residual();
        worst <= RESIDUAL_SMALL || (worst <= RESIDUAL_MAX && self.r_squared >= R_SQUARED_MIN)
    }

    /// The largest relative residual, without its sign.
    pub fn worst_residual(&self) -> f64 {
        self.residuals.iter().map(|residual| residual.abs()).fold(0.0, f64::max)
    }
}

/// The law with the least sum of squared relative residuals of N/X.
fn least_squares(measured: &[(f64, f64)]) -> Option<Law> {
    // Each row: the three regressors and the target, divided by the target, so that every target is one.
    let row = |&(n, x): &(f64, f64)| [1.0, n - 1.0, n * (n - 1.0)].map(|regressor| regressor * x / n);
    let rows: Vec<[f64; 3]> = measured.iter().map(row).collect();
    // The first coefficient is the inverse of a throughput: it is never held at zero.
    let choices = [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
    let solved = choices.iter().filter_map(|free| solve(&rows, *free));
    let feasible = solved.filter(|solution| solution[0] > 0.0 && solution[1] >= 0.0 && solution[2] >= 0.0);
    let error = |solution: &[f64; 3]| rows.iter().map(|row| (dot(row, solution) - 1.0).powi(2)).sum::<f64>();
    let [a, b, c] = feasible.min_by(|one, other| error(one).total_cmp(&error(other)))?;
    Some(Law { lambda: 1.0 / a, sigma: b / a, kappa: c / a })
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Least squares with target one over the free coefficients, by Gram and Schmidt: the columns range from 1 to the
/// square of the largest N, which normal equations would square once more.
fn solve(rows: &[[f64; 3]], free: [bool; 3]) -> Option<[f64; 3]> {
    let columns: Vec<usize> = (0..3).filter(|&column| free[column]).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    // upper[i][j]: the part of column j along basis vector i.
    let mut upper = [[0.0; 3]; 3];
    for (j, &column) in columns.iter().enumerate() {
        let mut vector: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        let length_before = norm(&vector);
        for (i, base) in basis.iter().enumerate() {
            let part: f64 = base.iter().zip(&vector).map(|(a, b)| a * b).sum();
            upper[i][j] = part;
            vector.iter_mut().zip(base).for_each(|(value, base)| *value -= part * base);
        }
        let length = norm(&vector);
        if length <= length_before * 1e-12 {
            return None;
        }
        upper[j][j] = length;
        vector.iter_mut().for_each(|value| *value /= length);
        basis.push(vector);
    }
    let mut solution = [0.0; 3];
    for j in (0..columns.len()).rev() {
        let along: f64 = basis[j].iter().sum();
        let known: f64 = (j + 1..columns.len()).map(|later| upper[j][later] * solution[columns[later]]).sum();
        solution[columns[j]] = (along - known) / upper[j][j];
    }
    Some(solution)
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    const CLIENTS: [f64; 7] = [1.0, 2.0, 10.0, 50.0, 100.0, 500.0, 1000.0];

    fn measure(law: Law, noise: f64, rng: &mut Rng) -> Vec<(f64, f64)> {
        let mut factor = || 1.0 + noise * (rng.below(2001) as f64 / 1000.0 - 1.0);
        CLIENTS.iter().map(|&n| (n, law.throughput(n) * factor())).collect()
    }

    #[test]
    fn known_parameters_are_recovered_exactly_from_exact_data() {
        for (lambda, sigma, kappa) in
            [(1000.0, 0.02, 0.000_5), (15_000.0, 0.3, 0.0), (9.0, 0.0, 1e-6), (50_000.0, 0.9, 0.01), (7.0, 0.0, 0.0)]
        {
            let law = Law { lambda, sigma, kappa };
            let fit = Fit::of(&measure(law, 0.0, &mut Rng::new(1))).unwrap();
            for (found, known) in [(fit.law.lambda, lambda), (fit.law.sigma, sigma), (fit.law.kappa, kappa)] {
                assert!((found - known).abs() <= 1e-9 + 1e-6 * known, "{:?} is not {law:?}", fit.law);
            }
            assert!(fit.is_good() && fit.worst_residual() < 1e-6);
        }
    }

    #[test]
    fn known_parameters_are_recovered_nearly_from_noisy_data() {
        let law = Law { lambda: 1000.0, sigma: 0.05, kappa: 0.000_1 };
        let mut rng = Rng::new(7);
        for _ in 0..50 {
            let fit = Fit::of(&measure(law, 0.02, &mut rng)).unwrap();
            assert!((fit.law.lambda / law.lambda - 1.0).abs() < 0.06, "{:?}", fit.law);
            assert!((fit.law.sigma / law.sigma - 1.0).abs() < 0.35, "{:?}", fit.law);
            assert!((fit.law.kappa / law.kappa - 1.0).abs() < 0.15, "{:?}", fit.law);
            assert!(fit.is_good());
        }
    }

    #[test]
    fn data_that_follow_no_such_law_have_no_good_fit() {
        let jump = [(1.0, 10.0), (10.0, 90.0), (100.0, 5.0), (1000.0, 800.0), (2000.0, 20.0)];
        assert!(!Fit::of(&jump).unwrap().is_good());
        // More than linear: contention below zero is not allowed, so the residuals are large.
        let more = CLIENTS.map(|n| (n, n * n));
        assert!(!Fit::of(&more).unwrap().is_good());
    }

    #[test]
    fn three_counts_of_clients_are_too_few() {
        assert!(Fit::of(&[(1.0, 1.0), (2.0, 2.0), (2.0, 2.1), (4.0, 3.0)]).is_none());
    }

    #[test]
    fn the_peak_is_where_throughput_falls() {
        let law = Law { lambda: 1.0, sigma: 0.1, kappa: 0.001 };
        let peak = law.peak().unwrap();
        assert!((peak - 30.0).abs() < 1e-9);
        assert!(law.throughput(peak) > law.throughput(peak * 1.1) && law.throughput(peak) > law.throughput(peak * 0.9));
        assert_eq!(Law { kappa: 0.0, ..law }.peak(), None);
    }
}
