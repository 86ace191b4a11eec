//! Student's t, from a table: for intervals of means of few values.

/// What Student's t with this many degrees of freedom does not exceed in 97.5 of 100 cases.
pub fn t_975(degrees: f64) -> f64 {
    /// By degrees of freedom; between two rows it is as good as linear in their inverse.
    const TABLE: [(f64, f64); 19] = [
        (1.0, 12.7062),
        (2.0, 4.3027),
        (3.0, 3.1824),
        (4.0, 2.7764),
        (5.0, 2.5706),
        (6.0, 2.4469),
        (7.0, 2.3646),
        (8.0, 2.3060),
        (9.0, 2.2622),
        (10.0, 2.2281),
        (12.0, 2.1788),
        (15.0, 2.1314),
        (20.0, 2.0860),
        (25.0, 2.0595),
        (30.0, 2.0423),
        (40.0, 2.0211),
        (60.0, 2.0003),
        (120.0, 1.9799),
        (f64::INFINITY, 1.9600),
    ];
    let degrees = degrees.max(1.0);
    let above = TABLE.partition_point(|(row, _)| *row < degrees).max(1);
    let [(less, t_less), (more, t_more)] = [TABLE[above - 1], TABLE[above]];
    let share = (1.0 / less - 1.0 / degrees) / (1.0 / less - 1.0 / more);
    t_less + (t_more - t_less) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_is_that_of_the_tables() {
        for (degrees, t) in [(0.5, 12.706), (2.0, 4.303), (2.5, 3.558), (11.0, 2.201), (50.0, 2.009), (1e9, 1.960)] {
            assert!((t_975(degrees) / t - 1.0_f64).abs() < 0.025, "{degrees}: {}", t_975(degrees));
        }
    }
}
