//! Figures and tables as text.

/// A whole number with its thousands apart.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap_or("")).collect();
    groups.join(",")
}

/// A table between empty lines, as Markdown requires.
pub fn markdown<T: AsRef<str>>(header: &[T], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("\n\n{}", line(header.iter().map(AsRef::as_ref).collect()));
    text.push_str(&format!("|{}\n", "---|".repeat(header.len())));
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_by_thousands() {
        assert_eq!(
            [grouped(0.4), grouped(999.0), grouped(1234.0), grouped(1_234_567.0)],
            ["0", "999", "1,234", "1,234,567"]
        );
    }
}
