//! The raw output of `experiments memory`: `docs/results/memory.txt`, lines such as
//!
//! ```text
//! memory actor 1000000 12345678 87654321 counter
//! ```
//!
//! that is server, number of keys (or of elements, if the shape is one large key), resident bytes of the fresh server
//! and of the filled one, and the shape.

use std::fmt;

use anyhow::{Context, Result, ensure};

/// How a server's resident memory has grown.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The server.
    pub server: String,
    /// Keys, or elements.
    pub count: usize,
    /// Resident bytes before it was filled.
    pub before: u64,
    /// Resident bytes afterwards.
    pub after: u64,
    /// The shape of the data.
    pub shape: String,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, count, before, after, shape } = self;
        write!(f, "memory {server} {count} {before} {after} {shape}")
    }
}

impl Growth {
    /// Reads a line; `None` if it is another one.
    fn parse(line: &str) -> Option<Result<Self>> {
        let rest = line.strip_prefix("memory ")?;
        let fields: Vec<&str> = rest.splitn(5, ' ').collect();
        let read = || {
            let [server, count, before, after, shape] = fields[..] else { anyhow::bail!("five fields are needed") };
            let (count, before, after) = (count.parse()?, before.parse()?, after.parse()?);
            ensure!(count > 0, "no keys, no figure");
            Ok(Self { server: server.to_owned(), count, before, after, shape: shape.to_owned() })
        };
        Some(read().with_context(|| format!("in {line:?}")))
    }

    /// Bytes for each key, or element.
    fn bytes_each(&self) -> f64 {
        (self.after as f64 - self.before as f64) / self.count as f64
    }
}

/// The lines of a file.
pub fn read(text: &str) -> Result<Vec<Growth>> {
    text.lines().filter_map(Growth::parse).collect()
}

/// A table in Markdown: bytes for each key, by shape and server, both in the order of the lines.
pub fn table(lines: &[Growth]) -> String {
    let servers = in_order(lines, |line| &line.server);
    let shapes = in_order(lines, |line| &line.shape);
    let mut text = format!("| bytes for each | {} |\n|---|{}\n", servers.join(" | "), "---:|".repeat(servers.len()));
    for shape in shapes {
        let cell = |server: &&str| {
            let found = lines.iter().find(|line| line.shape == shape && line.server == **server);
            found.map_or("-".to_owned(), |line| format!("{:.1}", line.bytes_each()))
        };
        let cells: Vec<String> = servers.iter().map(cell).collect();
        text.push_str(&format!("| {shape} | {} |\n", cells.join(" | ")));
    }
    text
}

fn in_order<'a>(lines: &'a [Growth], of: impl Fn(&'a Growth) -> &'a String) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for value in lines.iter().map(of) {
        if !found.contains(&value.as_str()) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_what_its_lines_say() {
        let text = "# machine: one\nmemory actor 100 1000 2000 a list of 10\nmemory redis 100 0 1234 a list of 10\n\
                    memory actor 50 1000 900 a set\n";
        let lines = read(text).expect("lines");
        assert_eq!(lines[0].to_string(), text.lines().nth(1).expect("a line"));
        let expected = "| bytes for each | actor | redis |\n|---|---:|---:|\n| a list of 10 | 10.0 | 12.3 |\n\
                        | a set | -2.0 | - |\n";
        assert_eq!(table(&lines), expected);
        for wrong in ["memory actor 0 1 2 a set", "memory actor 1 2 a set", "memory actor x 1 2 a set"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
