//! When automatic snapshots are made: so many seconds after the last one, if there were enough changes.

use std::fmt;

/// Redis's default.
pub const REDIS_DEFAULT: &str = "3600 1 300 100 60 10000";

/// How long no automatic snapshot is tried after a failed one: as in Redis.
pub const RETRY_MS: u64 = 5000;

/// One condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// At least this many seconds since the last snapshot.
    pub seconds: u64,
    /// And at least this many changes since then.
    pub changes: u64,
}

/// Conditions, any of which is sufficient; empty for never.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavePoints(Vec<SavePoint>);

impl SavePoints {
    /// Reads `SECONDS CHANGES`, any number of times; empty for never.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const INVALID: &str = "Invalid save parameters";
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if !words.len().is_multiple_of(2) {
            return Err(INVALID);
        }
        let point = |pair: &[&str]| {
            let (seconds, changes) = (number(pair[0])?, number(pair[1])?);
            (seconds > 0).then_some(SavePoint { seconds, changes })
        };
        words.chunks_exact(2).map(point).collect::<Option<_>>().map(Self).ok_or(INVALID)
    }

    /// The value after one more line: its conditions are added; an empty line removes all.
    pub fn joined(before: &str, text: &str) -> String {
        match text.trim() {
            "" => String::new(),
            text => format!("{before} {text}").trim().to_owned(),
        }
    }

    /// Whether there are no automatic snapshots.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &SavePoint> {
        self.0.iter()
    }

    /// The first that holds this many milliseconds after the last snapshot. `changes` is called only if the time is
    /// sufficient.
    pub fn due(&self, elapsed_ms: u64, changes: impl FnOnce() -> u64) -> Option<SavePoint> {
        let is_late = |point: &&SavePoint| elapsed_ms > point.seconds.saturating_mul(1000);
        if !self.0.iter().any(|point| is_late(&point)) {
            return None;
        }
        let changes = changes();
        self.0.iter().filter(is_late).find(|point| changes >= point.changes).copied()
    }
}

/// As CONFIG GET replies it.
impl fmt::Display for SavePoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, SavePoint { seconds, changes }) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{seconds} {changes}")?;
        }
        Ok(())
    }
}

/// A number as C parses it: with a sign, if that is a plus.
fn number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<i64>().ok().filter(|_| is_number).and_then(|number| u64::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_pairs_of_numbers_and_read_back_as_they_are_shown() {
        for (text, shown) in [
            ("", ""),
            ("  ", ""),
            ("60 1", "60 1"),
            ("3600 1  300 100 60 10000", REDIS_DEFAULT),
            ("1 0", "1 0"),
            ("+7 1", "7 1"),
        ] {
            let points = SavePoints::parse(text).expect("they are points");
            assert_eq!(points.to_string(), shown);
            assert_eq!(SavePoints::parse(shown), Ok(points));
        }
        for text in ["60", "60 1 5", "0 1", "-1 1", "60 -1", "x 1", "60 1x", "60 99999999999999999999"] {
            assert_eq!(SavePoints::parse(text), Err("Invalid save parameters"), "{text}");
        }
    }

    #[test]
    fn another_line_adds_points_and_an_empty_one_takes_all_away() {
        assert_eq!(SavePoints::joined("", "60 1"), "60 1");
        assert_eq!(SavePoints::joined("60 1", "300 100"), "60 1 300 100");
        assert_eq!(SavePoints::joined("60 1", ""), "");
    }

    #[test]
    fn a_point_is_due_when_its_time_is_over_and_so_much_has_changed() {
        let points = SavePoints::parse("300 100 60 10000").expect("they are points");
        assert_eq!(points.due(60_000, || unreachable!("no time is over")), None);
        assert_eq!(points.due(60_001, || 9999), None);
        assert_eq!(points.due(60_001, || 10_000).map(|point| point.seconds), Some(60));
        assert_eq!(points.due(300_001, || 99), None);
        assert_eq!(points.due(300_001, || 100).map(|point| point.seconds), Some(300));
        assert_eq!(SavePoints::default().due(u64::MAX, || u64::MAX), None);
    }
}
