//! The median, and the middle of many values.

/// The median of `values`, which it sorts.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// The ends of the middle 95 % of `draws`, which it sorts; none of no draws.
pub fn middle_95_percent(draws: &mut [f64]) -> Option<(f64, f64)> {
    draws.sort_unstable_by(f64::total_cmp);
    let outside = draws.len() / 40;
    Some((*draws.get(outside)?, draws[draws.len() - 1 - outside]))
}
