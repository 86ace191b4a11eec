//! Which files have the same name.

use std::collections::BTreeSet;

/// Names that no idea gave.
const STRUCTURE: [&str; 4] = ["mod.rs", "main.rs", "lib.rs", "tests.rs"];

/// The names that several of the files have.
pub fn shared<'a>(paths: &[&'a str]) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let names = paths.iter().filter_map(|path| path.rsplit('/').next()).filter(|name| !STRUCTURE.contains(name));
    names.filter(|&name| !seen.insert(name)).collect()
}

/// The names in the first column of the table whose last column is `what they have in common`.
pub fn said_to_be_shared(document: &str) -> BTreeSet<&str> {
    let rows = document.lines().skip_while(|line| !line.contains("| what they have in common |")).skip(2);
    let cells = rows.take_while(|line| line.starts_with('|')).filter_map(|row| row.split('|').nth(1));
    // The odd parts are between backticks.
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The files beside a directory of their name.
pub fn beside_their_directory<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    let has_directory = |path: &&str| {
        let directory = format!("{}/", path.trim_end_matches(".rs"));
        paths.iter().any(|other| other.starts_with(&directory))
    };
    paths.iter().copied().filter(has_directory).collect()
}
