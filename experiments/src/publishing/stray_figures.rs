//! Detects measurements in prose: `1.4`, `1,234`, `17 %`, `3x`, `3.5–4.0 times`, `12 MB`, `five times`, `twice as`.
//!
//! A text is looked at as its readers see it ([`as_read`]): a paragraph as one line, without HTML, entities decoded.
//!
//! A whole number without a unit may be anything (a port, a year, a count of repeats) and does not count, nor do
//! versions of three parts. In a table it does where it is a whole cell, as in `| 232 |`, `| 25 / 0 / 2 |` or
//! `<td>232</td>`: the head of the table is its unit. Blocks of code are looked at, too: they may be output.
//! Numbers in words count if they compare: "five times", "tenfold", "four fifths", "half as many", "twice the",
//! "doubles", "a third of", "an eighth of", "a quarter more", "a factor of", "an order of magnitude"; and so do
//! millions.

/// Units that make a number before them, or before a blank, a measurement.
const UNITS: [&str; 37] = [
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
    "req/s",
    "ops/sec",
    "qps",
    "milliseconds",
];

/// Letters that make a number directly before them a measurement: alone they are words.
const ATTACHED: [&str; 2] = ["k", "M"];

/// Numbers in words.
const NUMBERS: [&str; 34] = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
    "dozen",
    "dozens",
    "hundred",
    "hundreds",
    "thousand",
    "thousands",
    "million",
    "millions",
];

/// Parts of a whole in words.
const PARTS: [&str; 8] = ["thirds", "quarters", "fifths", "sixths", "sevenths", "eighths", "ninths", "tenths"];

/// One part of a whole in words.
const PART: [&str; 14] = [
    "third",
    "quarter",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "sixteenth",
    "twentieth",
    "hundredth",
    "thousandth",
];

/// What follows one part of a whole where it compares.
const COMPARED: [&str; 20] = [
    "of", "as", "the", "that", "its", "more", "less", "fewer", "faster", "slower", "quicker", "longer", "shorter",
    "higher", "lower", "larger", "smaller", "cheaper", "dearer", "better",
];

/// What stands before "half" or "twice" where it compares: "by half", "costs twice".
const MEASURED: [&str; 20] = [
    "is", "are", "was", "were", "by", "about", "nearly", "almost", "roughly", "than", "cost", "costs", "take", "takes",
    "took", "does", "did", "has", "had", "another",
];

/// Verbs and adjectives of multiples.
const MULTIPLES: [&str; 15] = [
    "double",
    "doubles",
    "doubled",
    "doubling",
    "triple",
    "triples",
    "tripled",
    "tripling",
    "quadruple",
    "quadruples",
    "quadrupled",
    "halve",
    "halves",
    "halved",
    "halving",
];

/// What follows them where they compare: doubles are numbers, too.
const MULTIPLIED: [&str; 8] = ["the", "its", "their", "that", "what", "those", "of", "throughput"];

/// Fractions of one character.
const FRACTIONS: [char; 6] = ['½', '⅓', '⅔', '¼', '¾', '⅛'];

/// Tags between which words are apart.
const APART: [&str; 10] = ["td", "th", "tr", "table", "li", "br", "p", "div", "dd", "dt"];

/// Entities by name that stand in or at figures.
const ENTITIES: [(&str, &str); 9] = [
    ("nbsp", " "),
    ("thinsp", " "),
    ("times", "×"),
    ("percnt", "%"),
    ("period", "."),
    ("comma", ","),
    ("micro", "µ"),
    ("ndash", "–"),
    ("frac12", "½"),
];

/// The first word of a paragraph, of a table or of a block of code that looks like a measurement, or the first cell of
/// a table that is one.
pub fn first(block: &str) -> Option<String> {
    let read = as_read(block);
    let word = numeric(&read).or_else(|| worded(&read)).map(str::to_owned);
    word.or_else(|| block.lines().find_map(cell).map(str::to_owned)).or_else(|| html_cell(block))
}

/// The first cell of a table's row that holds numbers and nothing else.
fn cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?;
    row.split('|').map(str::trim).find(|cell| is_numbers(cell))
}

/// The same of a table in HTML.
pub(super) fn html_cell(block: &str) -> Option<String> {
    let lower = block.to_ascii_lowercase().replace("<th", "<td");
    let mut cells = lower.split("<td").skip(1).filter_map(|part| part.split_once('>')).map(|(_, rest)| {
        let content = rest.split("</t").next().unwrap_or_default();
        as_read(content).trim().to_owned()
    });
    cells.find(|cell| is_numbers(cell))
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

/// A text as it is read: its lines as one, without the marks of a quotation, comments, tags, entities and escapes.
pub(super) fn as_read(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.trim().trim_start_matches(['>', ' '])).collect();
    let text = lines.join(" ");
    let mut read = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['<', '&', '\\']) {
        read.push_str(&rest[..at]);
        rest = &rest[at..];
        let (shown, length) = markup(rest);
        read.push_str(&shown);
        rest = &rest[length..];
    }
    read + rest
}

/// What is read of the markup that a text begins with, and the markup's length in the text.
fn markup(text: &str) -> (String, usize) {
    let first = text.chars().next().expect("a text that begins with markup has a character");
    let found = match first {
        '<' if text.starts_with("<!--") => text.find("-->").map(|end| (String::new(), end + "-->".len())),
        '<' => tag(text),
        '&' => entity(text),
        _ => text[1..].chars().next().filter(char::is_ascii_punctuation).map(|_| (String::new(), 1)),
    };
    found.unwrap_or((first.to_string(), first.len_utf8()))
}

fn tag(text: &str) -> Option<(String, usize)> {
    let inner = &text[1..text.find('>')?];
    let name = inner.trim_start_matches('/');
    let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    let shown = if APART.contains(&name.as_str()) { " " } else { "" };
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| (shown.to_owned(), inner.len() + 2))
}

fn entity(text: &str) -> Option<(String, usize)> {
    let name = &text[1..text.find(';')?];
    let numbered = |number: &str| match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    };
    let shown = match name.strip_prefix('#') {
        Some(number) => numbered(number).and_then(char::from_u32).map(String::from),
        None => ENTITIES.iter().find(|(one, _)| *one == name).map(|(_, shown)| (*shown).to_owned()),
    };
    Some((shown?, name.len() + 2))
}

/// The first measurement in digits.
pub fn numeric(text: &str) -> Option<&str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.iter().enumerate().find(|(index, word)| is_figure(word, &words[index + 1..])).map(|(_, word)| *word)
}

/// The first measurement in words.
pub fn worded(text: &str) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let words: Vec<&str> = text.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty()).collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    (0..words.len()).find(|&index| compares(&lower, index)).map(|index| words[index])
}

/// Whether the word at `index` begins a multiple or a part of something.
fn compares(words: &[String], index: usize) -> bool {
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    let (next, after) = (word(index + 1), word(index + 2));
    let before = index.checked_sub(1).map_or("", word);
    let is_number = |word: &str| NUMBERS.contains(&word);
    let is_compared = |word: &str| COMPARED.contains(&word);
    // A half of a second is a size that was chosen, and a work may be half done.
    let ends = |word: &str| !["a", "an", "done", "full", "open", "way"].contains(&word);
    match word(index) {
        "half" => is_compared(next) || (MEASURED.contains(&before) && ends(next)) || next == "times",
        "twice" | "thrice" => is_compared(next) || next == "these" || MEASURED.contains(&before),
        "factor" => next == "of" || next == "two",
        "a" | "an" | "one" if PART.contains(&next) => is_compared(after) && after != "that",
        "million" | "millions" => true,
        "magnitude" => true,
        word if MULTIPLES.contains(&word) => MULTIPLIED.contains(&next) || MEASURED.contains(&before),
        word if is_number(word) => {
            let counted = ["times", "fold", "percent"].contains(&next) || PARTS.contains(&next);
            counted || [("of", "times"), ("per", "cent")].contains(&(next, after))
        }
        word => word.strip_suffix("fold").is_some_and(is_number),
    }
}

/// Whether a word is a measurement, with what follows it.
fn is_figure(word: &str, rest: &[&str]) -> bool {
    let bare = word.trim_matches(|c: char| "()[]|*,;:.–-—−~+±<>=\"'`_".contains(c));
    if bare.contains(FRACTIONS) {
        return true;
    }
    let is_unit = |text: &str| UNITS.contains(&text.trim_matches([',', '.', ';', ':', ')', '|', '*']));
    let (number, unit) = bare.split_at(bare.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
    let parts: Vec<&str> = number.split(['–', '-', '−', '…', '/']).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || !parts.iter().all(|part| is_number(part)) || parts.iter().any(|part| is_version(part)) {
        return false;
    }
    let measured = !unit.is_empty() && (is_unit(unit.trim_start_matches(['-', '–'])) || ATTACHED.contains(&unit));
    let followed = unit.is_empty() && (rest.first().is_some_and(|next| is_unit(next)) || is_rate(rest));
    measured || followed || (unit.is_empty() && parts.iter().any(|part| part.contains(['.', ','])))
}

/// Whether words after a number make it a rate: "requests per second".
fn is_rate(rest: &[&str]) -> bool {
    let begins = |words: &[&str]| matches!(words, [per, second, ..] if ["per", "a"].contains(per) && second.starts_with("second"));
    begins(rest) || rest.get(1..).is_some_and(begins)
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
            "five\ntimes",
            "> five\n> times",
            "double the throughput",
            "it doubles throughput",
            "half the CPU",
            "by half",
            "half of it",
            "is twice that",
            "costs twice",
            "twice faster",
            "an eighth of",
            "one-third of",
            "a third\nof",
            "an order of magnitude",
            "two orders of magnitude",
            "hundreds of times",
            "seventy percent",
            "½ of it",
            "<b>4.7</b>",
            "4<b>.7</b>",
            "4<!-- -->.7",
            "5&nbsp;times",
            "&#52;.7",
            "4\\.7",
            "900 requests per second",
            "<tr><td>4.7</td></tr>",
            "<TD align=\"right\"><b>232</b></TD>",
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
            "two of ten",
            "docs/adr/0017",
            "RESP3",
            "issue 20",
            "half a second",
            "is half done",
            "doubles as Redis reads them",
            "`double.rs`",
            "more than half a minute",
            "no longer twice, and",
            "given twice or",
            "twice a second",
            "p < 0 and q > 1",
            "<td>many</td><td>7.2.4</td>",
            "a third argument",
            "a quarter",
            "one third-party crate",
        ] {
            assert_eq!(first(text), None, "{text}");
        }
    }
}
