//! Detects measurements in prose: `1.4`, `1,234`, `17 %`, `3x`, `3.5–4.0 times`, `12 MB`, `five times`, `twice as`.
//!
//! A whole number without a unit may be anything (a port, a year, a count of repeats) and does not count, nor do
//! versions of three parts. In a table it does where it is a whole cell, as in `| 232 |` or `| 25 / 0 / 2 |`: the head
//! of the table is its unit. Not in blocks of code: those are diagrams and sessions, whose numbers nobody measured.
//! Numbers in words count if they compare: "five times", "tenfold", "four fifths", "half as many", "twice the", "a
//! third of", "a quarter more", "a factor of"; and so do millions.

/// Units that make a number before them, or before a blank, a measurement.
const UNITS: [&str; 33] = [
    "%",
    "×",
    "x",
    "ns",
    "µs",
    "us",
    "ms",
    "s",
    "seconds",
    "KB",
    "kB",
    "KB/s",
    "kB/s",
    "KiB",
    "MiB",
    "GiB",
    "ops/s",
    "times",
    "µs/op",
    // The same with a Greek mu, or none.
    "μs",
    "μs/op",
    "us/op",
    "rps",
    "percent",
    "fold",
    "MB",
    "GB",
    "MB/s",
    "GB/s",
    "million",
    "millions",
    "requests/s",
    "thousand/s",
];

/// Letters that make a number directly before them a measurement: alone they are words.
const ATTACHED: [&str; 2] = ["k", "M"];

/// Numbers in words.
const NUMBERS: [&str; 19] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "fifteen", "twenty",
    "thirty", "forty", "fifty", "hundred", "thousand", "million",
];

/// Parts of a whole in words.
const PARTS: [&str; 8] = ["thirds", "quarters", "fifths", "sixths", "sevenths", "eighths", "ninths", "tenths"];

/// One part of a whole in words.
const PART: [&str; 9] = ["third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "hundredth"];

/// What follows one part of a whole where it compares.
const COMPARED: [&str; 10] =
    ["of", "more", "less", "fewer", "faster", "slower", "longer", "shorter", "higher", "lower"];

/// The first word of a line that looks like a measurement, or the first cell of a table that is one.
pub fn first(line: &str) -> Option<&str> {
    numeric(line).or_else(|| worded(line)).or_else(|| cell(line))
}

/// The first cell of a table's row that holds numbers and nothing else.
fn cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?;
    row.split('|').map(str::trim).find(|cell| is_numbers(cell))
}

fn is_numbers(cell: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || "()[]/,;:·.…–-—−~+±<>=≤≥*`%×".contains(c);
    let mut numbers = cell.split(is_between).filter(|part| !part.is_empty()).peekable();
    let is_one = |text: &str| is_number(text.trim_end_matches(['k', 'M', 'G', 'x']));
    numbers.peek().is_some() && numbers.all(is_one) && !is_version(cell) && !is_date(cell)
}

/// Whether a text is a day as in 2026-11-28.
fn is_date(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [4, 2, 2]
}

/// The first measurement in digits.
pub fn numeric(text: &str) -> Option<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.iter().enumerate().find(|(index, word)| is_figure(word, words.get(index + 1).copied())).map(|(_, word)| *word)
}

/// The first measurement in words.
pub fn worded(text: &str) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let words: Vec<&str> = text.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty()).collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let next = |index: usize| lower.get(index + 1).map_or("", String::as_str);
    let is_number = |word: &str| NUMBERS.contains(&word);
    let compares = |index: usize| match lower[index].as_str() {
        "half" => ["as", "that"].contains(&next(index)),
        "twice" | "thrice" => ["as", "that", "the", "its"].contains(&next(index)),
        "factor" => next(index) == "of" || next(index) == "two",
        "a" | "one" if PART.contains(&next(index)) => COMPARED.contains(&next(index + 1)),
        "million" | "millions" => true,
        word if is_number(word) => next(index) == "times" || next(index) == "fold" || PARTS.contains(&next(index)),
        word => word.strip_suffix("fold").is_some_and(is_number),
    };
    (0..words.len()).find(|&index| compares(index)).map(|index| words[index])
}

fn is_figure(word: &str, next: Option<&str>) -> bool {
    let bare = word.trim_matches(|c: char| "()[]|*,;:.–-—−~+±<>=\"'`_".contains(c));
    let is_unit = |text: &str| UNITS.contains(&text.trim_matches([',', '.', ';', ':', ')', '|', '*']));
    let (number, unit) = bare.split_at(bare.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
    let parts: Vec<&str> = number.split(['–', '-', '−', '…', '/']).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || !parts.iter().all(|part| is_number(part)) || parts.iter().any(|part| is_version(part)) {
        return false;
    }
    let measured = !unit.is_empty() && (is_unit(unit.trim_start_matches(['-', '–'])) || ATTACHED.contains(&unit));
    let followed = unit.is_empty() && next.is_some_and(is_unit);
    measured || followed || (unit.is_empty() && parts.iter().any(|part| part.contains(['.', ','])))
}

/// Digits with points and commas between them.
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split(['.', ',']).all(digits)
}

/// Whether a number has the parts of a version, at least three.
fn is_version(number: &str) -> bool {
    number.split('.').count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_seen_in_digits_and_in_words() {
        for text in [
            "is 1.4 of it",
            "(1,234)",
            "by 17 %",
            "17% more",
            "3x",
            "~5x",
            "takes 5 ms.",
            "| 1.5 |",
            "3.5–4.0 times",
            "3-4 times",
            "5× that",
            "five times",
            "Five times",
            "tenfold",
            "four fifths",
            "twice as many",
            "half as much",
            "about 0.48 s",
            "**2.1**",
            "[2.45]",
            "p = 0.003",
            "1.2-1.4x",
            "`0.25` cores",
            "about a third of it",
            "a quarter more",
            "twice the throughput",
            "a factor of ten",
            "five million keys",
            "5 million",
            "12 MB",
            "3 GB/s",
            "200 KB/s",
            "5-fold",
            "in 16 s",
            "for 3 seconds",
            "40k requests",
            "2.5M",
            "1.7us/op",
            "900 rps",
            "−1.4",
            "5 μs",
            "7μs",
        ] {
            assert!(first(text).is_some(), "{text}");
        }
    }

    #[test]
    fn a_cell_of_a_table_that_is_a_number_is_a_figure_without_a_unit() {
        for row in
            ["| Jedis 5.2.0 | 112 |", "| unit/type/set | 117 / 0 / 1 |", "| a | **7** |", "|a|2G|", "| 1 | many |"]
        {
            assert!(first(row).is_some(), "{row}");
        }
        for row in [
            "| Jedis 5.2.0 | all |",
            "|---|---|",
            "| docs/adr | there is no 0010 |",
            "| a | 7.2.4 |",
            "| a | 2026-11-28 |",
            "| a | – |",
            "a | 112 | b",
            "1) 112",
        ] {
            assert_eq!(first(row), None, "{row}");
        }
    }

    #[test]
    fn counts_versions_dates_and_names_are_none() {
        for text in [
            "with 10 repeats",
            "redis-server 7.0.15",
            "2026-11-21",
            "p99",
            "a key given twice",
            "two engines",
            "10–100",
            "c50",
            "P16c200d1024",
            "one at a time",
            "seven passes",
            "docs/adr/0017",
            "RESP3",
            "issue 20",
            "half of it",
            "a third argument",
            "a quarter",
            "one third-party crate",
        ] {
            assert_eq!(first(text), None, "{text}");
        }
    }
}
