//! The short form of a sweep: for a run that has to fit a budget.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{FlagValue, Ratio, Sweep};

/// What a sweep's `[short]` table replaces when a run has to fit a budget: fewer points, never fewer repeats than ten.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "each replaces the field of the same name")]
pub struct Short {
    pub servers: Option<Vec<String>>,
    pub clients: Option<Vec<u32>>,
    pub pipeline: Option<Vec<u32>>,
    pub ratio: Option<Vec<Ratio>>,
    pub data_size: Option<Vec<u32>>,
    pub key_pattern: Option<Vec<String>>,
    pub key_maximum: Option<u64>,
    pub repeats: Option<u32>,
    /// The shortest window that answers the question.
    pub test_seconds_min: Option<f64>,
    #[serde(default)]
    pub loadgen: BTreeMap<String, Vec<FlagValue>>,
    /// The variants that remain.
    pub variants: Option<Vec<String>>,
}

impl Sweep {
    /// The sweep with the lists of its `[short]` table.
    pub fn reduced(mut self) -> Result<Self> {
        let Some(short) = self.short.take() else { return Ok(self) };
        replace(&mut self.clients, short.clients);
        replace(&mut self.pipeline, short.pipeline);
        replace(&mut self.ratio, short.ratio);
        replace(&mut self.data_size, short.data_size);
        replace(&mut self.key_pattern, short.key_pattern);
        replace(&mut self.key_maximum, short.key_maximum);
        replace(&mut self.repeats, short.repeats);
        self.loadgen.extend(short.loadgen);
        if let Some(kept) = short.variants {
            self.variants.retain(|variant| kept.contains(&variant.name));
            self.equals.retain(|name| kept.contains(name));
        }
        if let Some(kept) = short.servers {
            for variant in &mut self.variants {
                // One that was for other servers only must not become one for all.
                let was_for_some = !variant.servers.is_empty();
                variant.servers.retain(|server| kept.contains(server));
                if was_for_some && variant.servers.is_empty() {
                    variant.name.clear();
                }
            }
            self.variants.retain(|variant| !variant.name.is_empty());
            self.servers = kept;
        }
        self.validate().with_context(|| format!("in `[short]` of the sweep {}", self.name))?;
        Ok(self)
    }
}

fn replace<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
