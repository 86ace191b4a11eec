//! Ratios in the raw output of side-by-side runs, `docs/results/*.txt`, against the rows that they are in:
//!
//! ```text
//! load           test server                rps    us/op        rps ratio      us/op ratio client us/op
//! P16c50         set  redis-7.0.15       580720     1.70  1.00 [1.00-1.00]  1.00 [1.00-1.00]   0.93
//! P16c50         set  actor             1119821     0.77  1.89 [1.73-1.93]  0.45 [0.42-0.47]   0.84
//! ```
//!
//! A ratio is the median over the passes of the ratios within a pass, between the least and the greatest of them. The
//! ratio of the two medians is between these as well: if a server did between 1.73 and 1.93 times as much in every
//! pass, so is its median. So a throughput, a CPU time or a ratio that was changed alone is detected.

/// Half of the last digit of a ratio, and a little.
const ROUNDING: f64 = 0.0051;

struct Row {
    load: String,
    rate: f64,
    cpu: f64,
    /// Median, least and greatest.
    rates: [f64; 3],
    cpus: [f64; 3],
}

/// Rows whose ratios do not follow from their values, in words.
pub fn contradictions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut bases: Vec<Row> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(row) = parse(line) else { continue };
        // A file may hold several tables: each begins with its own reference.
        if row.rates == [1.0; 3] && row.cpus == [1.0; 3] {
            bases.retain(|base| base.load != row.load);
            bases.push(row);
            continue;
        }
        let Some(base) = bases.iter().find(|base| base.load == row.load) else {
            found.push(format!("line {}: no reference of 1.00 before it", index + 1));
            continue;
        };
        let what = disagreement(row.rate / base.rate, row.rates, 0.0).map(|what| format!("throughput {what}"));
        // CPU per operation has two or three digits.
        let room = row.cpu / base.cpu * (ROUNDING / row.cpu + ROUNDING / base.cpu);
        let what = what.or_else(|| disagreement(row.cpu / base.cpu, row.cpus, room).map(|what| format!("CPU {what}")));
        found.extend(what.map(|what| format!("line {}: {what}", index + 1)));
    }
    found
}

fn disagreement(found: f64, [median, least, greatest]: [f64; 3], room: f64) -> Option<String> {
    let holds = |value: f64, room: f64| (least - room..=greatest + room).contains(&value);
    (!holds(median, 0.0) || !holds(found, ROUNDING + room))
        .then(|| format!("{median:.2} [{least:.2}-{greatest:.2}], and the columns beside it give {found:.2}"))
}

fn parse(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [load, command, _, rate, cpu, rate_median, rate_range, cpu_median, cpu_range, _] = words[..] else {
        return None;
    };
    let spread = |median: &str, range: &str| {
        let (low, high) = range.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
        Some([median.parse().ok()?, low.parse().ok()?, high.parse().ok()?])
    };
    Some(Row {
        load: format!("{load} {command}"),
        rate: rate.parse().ok()?,
        cpu: cpu.parse().ok()?,
        rates: spread(rate_median, rate_range)?,
        cpus: spread(cpu_median, cpu_range)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "load test server rps us/op rps ratio us/op ratio client us/op\n\
        P16c50 set redis 580720 1.70 1.00 [1.00-1.00] 1.00 [1.00-1.00] 0.93\n\
        P16c50 set actor 1119821 0.77 1.89 [1.73-1.93] 0.45 [0.42-0.47] 0.84\n\
        peak memory actor 15 MiB\n";

    #[test]
    fn ratios_lie_where_their_rows_put_them() {
        assert_eq!(contradictions(TABLE), Vec::<String>::new());
        for (from, to) in [
            ("1.89 [", "2.89 ["),
            ("1.93]", "1.88]"),
            ("1119821", "1519821"),
            ("580720", "480720"),
            ("0.45 [", "0.25 ["),
            ("0.77", "0.37"),
            ("1.00 [1.00-1.00] 1.00 [1.00-1.00]", "1.01 [1.00-1.10] 1.00 [1.00-1.00]"),
        ] {
            let found = contradictions(&TABLE.replacen(from, to, 1));
            assert!(!found.is_empty(), "{from} became {to}: {found:?}");
        }
    }
}
