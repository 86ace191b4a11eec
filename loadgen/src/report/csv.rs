//! The run's seconds as CSV: a header, and a row each.
//!
//! ```text
//! t_s,ops,errors,hits,misses,mean_us,p50_us,p99_us,p99.9_us,max_us
//! 1.000,81234,0,73021,829,57.1,51.2,142.3,310.5,1204.2
//! ```

use std::io::{self, Write};

use crate::record::Outcome;

/// Writes one row for each second of measured time.
pub(crate) fn write_csv(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(out, "t_s,ops,errors,hits,misses,mean_us,p50_us,p99_us,p99.9_us,max_us")?;
    for second in &outcome.series {
        let us = |ns: u64| ns as f64 / 1e3;
        writeln!(
            out,
            "{:.3},{},{},{},{},{:.3},{},{},{},{}",
            second.end_s,
            second.requests,
            second.errors,
            second.hits,
            second.misses,
            second.mean_ns / 1e3,
            us(second.p50_ns),
            us(second.p99_ns),
            us(second.p999_ns),
            us(second.max_ns),
        )?;
    }
    Ok(())
}
