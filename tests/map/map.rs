//! The code map of docs/ARCHITECTURE.md.

use crate::imports::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A row: rooms, and the rooms that each of them may use.
struct Row {
    rooms: Vec<String>,
    may_use: BTreeSet<String>,
}

/// The table, in order.
pub struct CodeMap {
    rows: Vec<Row>,
}

impl CodeMap {
    /// Reads the rows of the rooms in the module `within`, in the table whose last column is `may use`.
    pub fn read(document: &str, within: &[&str]) -> Self {
        let lines = document.lines().skip_while(|line| !line.contains("| may use |"));
        let rows = lines.skip(2).take_while(|line| line.starts_with('|')).map(|line| Row::read(line, within));
        Self { rows: rows.filter(|row| !row.rooms.is_empty()).collect() }
    }

    /// The rooms, in order.
    pub fn rooms(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| &row.rooms).map(String::as_str)
    }

    /// What differs between the map and the sources.
    pub fn faults(&self, tree: &Tree) -> Vec<String> {
        let imports = tree.imports();
        let mut faults = self.missing(tree);
        let past = tree.past_the_rooms().into_iter();
        faults.extend(past.map(|(path, name)| format!("{path} uses crate::{name}, which is no room")));
        for (at, row) in self.rows.iter().enumerate() {
            faults.extend(self.upwards(at));
            faults.extend(row.forbidden(&imports));
            faults.extend(row.unused(&imports));
        }
        faults
    }

    fn missing(&self, tree: &Tree) -> Vec<String> {
        let in_map: BTreeSet<&str> = self.rooms().collect();
        let in_src = tree.rooms();
        let unmapped = in_src.difference(&in_map).map(|room| format!("{room} is in src and not in the map"));
        let gone = in_map.difference(&in_src).map(|room| format!("{room} is in the map and not in src"));
        unmapped.chain(gone).collect()
    }

    /// The rooms that a row may use are in rows above it, so there is no cycle.
    fn upwards(&self, at: usize) -> Vec<String> {
        let above: BTreeSet<&String> = self.rows[..at].iter().flat_map(|row| &row.rooms).collect();
        let row = &self.rows[at];
        let below = row.may_use.iter().filter(|room| !above.contains(room));
        let say =
            |room| format!("{} may use {room}, which is below it in the map: rooms use those above them", row.name());
        below.map(say).collect()
    }
}

impl Row {
    fn read(line: &str, within: &[&str]) -> Self {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let room = |path: String| {
            let path = path.trim_end_matches('/');
            let (parent, room) = path.strip_suffix(".rs").unwrap_or(path).rsplit_once('/')?;
            (parent.split('/').eq(["src"].iter().chain(within).copied())).then(|| room.to_owned())
        };
        Self {
            rooms: names(cells[0]).into_iter().filter_map(room).collect(),
            may_use: cells.last().map(|cell| names(cell).into_iter().collect()).unwrap_or_default(),
        }
    }

    fn name(&self) -> String {
        self.rooms.join(", ")
    }

    fn forbidden(&self, imports: &BTreeMap<&str, BTreeMap<&str, &str>>) -> Vec<String> {
        let of_room = |room: &String| {
            let named = imports.get(room.as_str()).into_iter().flatten();
            let forbidden = named.filter(|(named, _)| !self.may_use.contains(**named));
            forbidden.map(|(named, path)| format!("{room} may not use {named}: {path} does")).collect::<Vec<_>>()
        };
        self.rooms.iter().flat_map(of_room).collect()
    }

    fn unused(&self, imports: &BTreeMap<&str, BTreeMap<&str, &str>>) -> Vec<String> {
        let uses = |name: &str| {
            self.rooms.iter().any(|room| imports.get(room.as_str()).is_some_and(|named| named.contains_key(name)))
        };
        let unused = self.may_use.iter().filter(|name| !uses(name));
        unused.map(|name| format!("{} may use {name} and does not", self.name())).collect()
    }
}
