//! LATENCY GRAPH: a column of characters for each sample, with its age below it.
//!
//! ```text
//! command - high 500 ms, low 300 ms (all time high 500 ms)
//! --------------------------------------------------------------------------------
//!    #
//!   o|
//! _#||
//! ||||
//! 5431
//! m0ss
//!  s
//! ```

use crate::stats::latency::{Event, Sample};

/// Columns of a graph: if there are more samples, the last ones are shown below the others.
const COLUMNS: usize = 80;
/// Rows of a graph, each of which has as many steps as there are characters for it.
const ROWS: u64 = 4;
/// How full the uppermost row of a column is.
const CHARACTERS: [char; 3] = ['_', 'o', '#'];
/// The character below it.
const FILL: char = '|';

/// Draws the samples of a kind of event. O(N), N = samples
pub fn of_event(name: &str, event: &Event, now_s: u64) -> String {
    let times = || event.samples.iter().map(|sample| sample.ms);
    let (high, low) = (times().max().unwrap_or(0), times().min().unwrap_or(0));
    let mut text =
        format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n", event.ms_max, "-".repeat(COLUMNS));
    let samples: Vec<Sample> = event.samples.iter().copied().collect();
    for columns in samples.chunks(COLUMNS) {
        (0..ROWS)
            .rev()
            .for_each(|row| push_line(&mut text, columns.iter().map(|sample| character(sample.ms, low, high, row))));
        push_ages(&mut text, columns, now_s);
    }
    text
}

/// The character of a column in a row; rows are counted from below.
fn character(ms: u64, low: u64, high: u64, row: u64) -> char {
    const STEPS: u64 = CHARACTERS.len() as u64;
    let height = (ms - low) * (ROWS * STEPS - 1) / (high - low).max(1);
    match height.checked_sub(row * STEPS) {
        None => ' ',
        Some(step) => CHARACTERS.get(crate::base::narrowing::size(step)).copied().unwrap_or(FILL),
    }
}

/// Writes the age of each sample, downwards.
fn push_ages(text: &mut String, columns: &[Sample], now_s: u64) {
    let ages: Vec<String> = columns.iter().map(|sample| age(now_s.saturating_sub(sample.at_s))).collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    for line in 0..longest {
        push_line(text, ages.iter().map(|age| age.chars().nth(line).unwrap_or(' ')));
    }
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn push_line(text: &mut String, characters: impl Iterator<Item = char>) {
    let line: String = characters.collect();
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_has_the_highest_column_and_the_shortest_the_lowest() {
        let sample = |at_s, ms| Sample { at_s, ms };
        let samples = [sample(100, 300), sample(3_990, 400), sample(4_000, 500)].into();
        let text = of_event("command", &Event { samples, ms_max: 900 }, 4_000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 500 ms, low 300 ms (all time high 900 ms)");
        assert_eq!(lines[1], "-".repeat(80));
        assert_eq!(lines[2..], ["  #", "  |", " #|", "_||", "110", "h0s", " s"]);
    }

    #[test]
    fn times_that_are_all_the_same_are_one_line() {
        let samples = (0..100).map(|at_s| Sample { at_s, ms: 7 }).collect();
        let text = of_event("command", &Event { samples, ms_max: 7 }, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[5].len(), lines[5].trim_matches('_')), (80, ""));
        assert!(lines.contains(&"_".repeat(20).as_str()), "{text}");
    }
}
