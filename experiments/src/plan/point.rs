//! A point of a sweep, and a trial: one measurement of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::values::{FlagValue, RATE, Ratio};

/// One place in a sweep's grid: a server under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The sweep it belongs to.
    pub sweep: String,
    /// The server, by its name in the catalogue.
    pub server: String,
    /// The variant of server flags.
    pub variant: String,
    /// Connections in total.
    pub clients: u32,
    /// Requests in flight per connection.
    pub pipeline: u32,
    /// SETs to GETs.
    pub ratio: Ratio,
    /// Bytes per value.
    pub data_size: u32,
    /// How keys are chosen.
    pub key_pattern: String,
    /// Size of the key space, if the sweep varies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_maximum: Option<u64>,
    /// Further flags of the generator, without their dashes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loadgen: BTreeMap<String, FlagValue>,
}

/// One measurement of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The round, counted from 1.
    pub round: u32,
    /// The measured point.
    pub point: Point,
}

impl Point {
    /// A name that is unique within the sweep and fit for a folder.
    pub(crate) fn slug(&self) -> String {
        let (ratio, pattern) = (self.ratio.to_string().replace(':', "-"), self.key_pattern.replace(':', "-"));
        let flags: String = self.loadgen.iter().map(|(flag, value)| format!(".{flag}-{}", value.file_name())).collect();
        let keys = self.key_maximum.map_or(String::new(), |keys| format!(".n{keys}"));
        format!(
            "{}.{}.c{}.p{}.r{ratio}.d{}.k{pattern}{keys}{flags}",
            self.server, self.variant, self.clients, self.pipeline, self.data_size
        )
    }

    /// Whether the generator, by a workload or in a storm of connections, sends other commands than the fields say.
    pub(crate) fn has_own_commands(&self) -> bool {
        self.loadgen.contains_key("workload") || self.is_storm()
    }

    /// Whether the generator only connects and closes: then there are no keys.
    pub(crate) fn is_storm(&self) -> bool {
        self.loadgen.get("connect-storm").is_some_and(|value| value.as_str() == "true")
    }

    /// Whether requests are due at a rate, whether or not replies have come.
    pub(crate) fn is_open_loop(&self) -> bool {
        self.rate().is_some()
    }

    /// That rate, as the generator gets it.
    pub(crate) fn rate(&self) -> Option<&FlagValue> {
        ["rate", RATE].iter().find_map(|flag| self.loadgen.get(*flag))
    }

    /// A name for humans: the server and the load that differs most often.
    pub fn label(&self) -> String {
        let flags: String = self.loadgen.iter().map(|(flag, value)| format!(" {flag} {value}")).collect();
        let keys = self.key_maximum.map_or(String::new(), |keys| format!(" {keys} keys"));
        format!(
            "{} {} c{} P{} {} d{}{keys}{flags}",
            self.server, self.variant, self.clients, self.pipeline, self.ratio, self.data_size
        )
    }
}

impl Trial {
    /// The trial's files under `raw/` begin with this.
    pub(crate) fn path_stem(&self) -> String {
        format!("{}/{}/r{:02}", self.point.sweep, self.point.slug(), self.round)
    }
}
