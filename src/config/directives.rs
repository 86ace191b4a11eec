//! What a directive is: a flag, a line of the config file, a parameter of CONFIG.

use super::directive_rows::DIRECTIVES;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The permitted values of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number between two bounds, both included.
    Integer(u64, u64),
    /// A whole number from 0 on: one that is not between the two bounds becomes the nearer of them.
    Clamped(u64, u64),
    /// A whole number that may be negative, between two bounds, both included.
    Signed(i64, i64),
    /// A number of bytes between two bounds, perhaps with a unit: 1k = 1000, 1kb = 1024.
    Memory(u64, u64),
    /// The same, or a percentage up to 100.
    MemoryOrPercent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An octal number up to a bound, inclusive.
    Octal(u64),
    /// Any text.
    Text,
    /// Texts between spaces.
    Words,
    /// The name of a file, without a directory.
    FileName,
    /// The name of a directory without a path.
    DirName,
    /// A directory; shown as an absolute path.
    Dir,
    /// `CLASS HARD SOFT SECONDS`, for one class of connections or several: see [`OutputLimits`](super::OutputLimits).
    OutputLimit,
    /// Some of the options of SHUTDOWN: see [`OnSignal`](super::OnSignal).
    OnSignal,
    /// Letters of classes of events: see [`Class`](crate::keyspace::Class).
    Events,
    /// Three scores for `oom-score-adj`: see [`OomScores`](super::OomScores).
    OomScores,
    /// Numbers from 0 to 100 between spaces.
    Percentiles,
    /// A file, or a pattern of files, to be read at this place. CONFIG does not know it.
    Include,
    /// A line of some words, independent of other lines. CONFIG does not know it.
    Line,
    /// The name of a user, and rules; a line for each. CONFIG does not know it.
    User,
    /// A command and its other name; a line for each. CONFIG does not know it.
    Renaming,
    /// `SECONDS CHANGES`, any number of times: see `snapshot::SavePoints`.
    SavePoints,
    /// `HOST PORT`, or `no one`, which is nothing: see [`Config::master`](super::Config::master).
    Master,
}

impl Kind {
    /// Whether the value may be several words.
    pub fn takes_words(self) -> bool {
        matches!(
            self,
            Self::Words
                | Self::OutputLimit
                | Self::OnSignal
                | Self::OomScores
                | Self::Percentiles
                | Self::SavePoints
                | Self::Line
                | Self::User
                | Self::Renaming
                | Self::Master
        )
    }

    /// Whether it is a parameter of CONFIG.
    pub fn is_parameter(self) -> bool {
        !matches!(self, Self::Include | Self::Line | Self::User | Self::Renaming)
    }
}

/// The effect of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// As its help says; CONFIG SET changes it.
    Mutable,
    /// As its help says, fixed at the start.
    Immutable,
    /// As its help says; CONFIG SET changes it for connections that `enable-protected-configs` permits.
    Protected,
    /// None: its default always holds, and its help says why. The start warns about another value.
    Ignored,
    /// None, and users of another value than its default rely on it: a start with one is refused.
    Refused,
}

/// One directive: a flag, a line of the config file, a parameter of CONFIG.
#[derive(Debug, Clone, Copy)]
pub struct DirectiveRow {
    /// Its name everywhere.
    pub name: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// The default value.
    pub default: &'static str,
    /// When it has an effect.
    pub effect: Effect,
    /// What it does, or why it has no effect.
    pub help: &'static str,
}

/// Other names, and the names of the directives that they mean.
pub const ALIASES: [(&str, &str); 27] = [
    ("lua-time-limit", "busy-reply-threshold"),
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
    ("slaveof", "replicaof"),
    ("slave-serve-stale-data", "replica-serve-stale-data"),
    ("slave-read-only", "replica-read-only"),
    ("slave-ignore-maxmemory", "replica-ignore-maxmemory"),
    ("slave-lazy-flush", "replica-lazy-flush"),
    ("slave-announce-ip", "replica-announce-ip"),
    ("slave-announce-port", "replica-announce-port"),
    ("slave-priority", "replica-priority"),
    ("repl-ping-slave-period", "repl-ping-replica-period"),
    ("min-slaves-to-write", "min-replicas-to-write"),
    ("min-slaves-max-lag", "min-replicas-max-lag"),
    ("cluster-slave-no-failover", "cluster-replica-no-failover"),
    ("cluster-slave-validity-factor", "cluster-replica-validity-factor"),
    ("server-cpulist", "server_cpulist"),
    ("bio-cpulist", "bio_cpulist"),
    ("aof-rewrite-cpulist", "aof_rewrite_cpulist"),
    ("bgsave-cpulist", "bgsave_cpulist"),
    // Valkey's.
    ("commandlog-execution-slower-than", "slowlog-log-slower-than"),
    ("commandlog-slow-execution-max-len", "slowlog-max-len"),
    ("primaryauth", "masterauth"),
    ("primaryuser", "masteruser"),
];

/// The position of a directive in the table.
pub fn index_of(name: &str) -> Option<usize> {
    static PLACES: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let mut places: HashMap<_, _> = DIRECTIVES.iter().enumerate().map(|(index, row)| (row.name, index)).collect();
        ALIASES.iter().for_each(|(alias, name)| _ = places.insert(alias, places[name]));
        places
    });
    PLACES.get(name).copied()
}

/// The position of a parameter of CONFIG.
pub fn parameter(name: &str) -> Option<usize> {
    index_of(name).filter(|&index| DIRECTIVES[index].kind.is_parameter())
}

/// Every name of a parameter of CONFIG, aliases last, with its position in the table.
pub fn parameters() -> impl Iterator<Item = (&'static str, usize)> {
    let names = DIRECTIVES.iter().map(|row| row.name).chain(ALIASES.iter().map(|(alias, _)| *alias));
    names.filter_map(|name| Some((name, parameter(name)?)))
}
