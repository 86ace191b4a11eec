//! The threads and shards of a server: what it says of itself, and what follows from its flags.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::catalog;

/// The threads that run connections and commands, and the parts that the keys are divided into; one lock counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Layout {
    /// Threads.
    pub threads: u32,
    /// Shards.
    pub shards: u32,
}

impl Layout {
    /// What the INFO of one of our engines says; `None` of any other server.
    pub(crate) fn told(info: &BTreeMap<String, String>) -> Option<Self> {
        let number = |field: &str| info.get(field)?.parse().ok();
        let shards = if info.get("engine")? == "dashmap" { "map_shards" } else { "shards" };
        Some(Self { threads: number("io_threads_active")?, shards: number(shards)? })
    }

    /// What follows from flags and, where these are silent, from the server's defaults on this many cores; `None` of a
    /// server whose defaults are not known here.
    pub(crate) fn planned(server: &str, flags: &[String], cores: usize) -> Option<Self> {
        let flag = |name: &str| number_of(flags, name);
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let threads = flag("--threads").unwrap_or(cores.saturating_sub(1).max(1));
        let shards = match server {
            "mutex" => 1,
            "dashmap" => flag("--shards").unwrap_or(cores.saturating_mul(4)),
            "actor" => flag("--shards").unwrap_or(threads),
            _ if catalog::is_single_threaded(server) => {
                return Some(Self { threads: flag("--io-threads").unwrap_or(1), shards: 1 });
            }
            _ => return None,
        };
        Some(Self { threads, shards })
    }

    /// In words.
    pub(crate) fn words(self) -> String {
        format!("{}, {}", counted(self.threads, "thread"), counted(self.shards, "shard"))
    }
}

/// The number that the flags set; 0 means the default.
pub(crate) fn number_of(flags: &[String], name: &str) -> Option<u32> {
    let value = flags.windows(2).find(|pair| pair[0] == name)?[1].parse().ok();
    value.filter(|&value| value > 0)
}

fn counted(count: u32, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_ours_says_its_threads_and_its_shards_and_those_of_a_table_are_the_tables() {
        let info = |fields: &[(&str, &str)]| {
            Layout::told(&fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
        };
        let both = [("io_threads_active", "3"), ("shards", "1"), ("map_shards", "64")];
        let of = |engine| info(&[&both[..], &[("engine", engine)]].concat());
        assert_eq!(of("mutex"), Some(Layout { threads: 3, shards: 1 }));
        assert_eq!(of("dashmap"), Some(Layout { threads: 3, shards: 64 }));
        assert_eq!(info(&both), None, "a server that is none of ours");
    }

    #[test]
    fn without_flags_a_server_has_its_defaults() {
        let planned = |server: &str, flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
            Layout::planned(server, &flags, 16).map(|layout| (layout.threads, layout.shards))
        };
        assert_eq!(planned("mutex", &[]), Some((15, 1)));
        assert_eq!(planned("dashmap", &["--threads", "2"]), Some((2, 64)));
        assert_eq!(planned("actor", &["--threads", "4", "--shards", "0"]), Some((4, 4)));
        assert_eq!(planned("valkey-server", &["--io-threads", "2"]), Some((2, 1)));
        assert_eq!(planned("redis-server", &[]), Some((1, 1)));
        assert_eq!(planned("planted", &[]), None);
    }
}
