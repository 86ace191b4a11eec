//! The short form of a sweep: for a run that has to fit a budget.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Sweep;
use crate::plan::values::{FlagValue, Ratio};

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
    pub key_maximum: Option<Vec<u64>>,
    pub rate_percent: Option<Vec<u32>>,
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
    pub(crate) fn reduced(mut self) -> Result<Self> {
        let Some(short) = self.short.take() else { return Ok(self) };
        replace(&mut self.clients, short.clients);
        replace(&mut self.pipeline, short.pipeline);
        replace(&mut self.ratio, short.ratio);
        replace(&mut self.data_size, short.data_size);
        replace(&mut self.key_pattern, short.key_pattern);
        replace(&mut self.key_maximum, short.key_maximum);
        replace(&mut self.rate_percent, short.rate_percent);
        replace(&mut self.repeats, short.repeats);
        self.loadgen.extend(short.loadgen);
        self.forget_rates();
        if let Some(kept) = short.variants {
            self.variants.retain(|variant| kept.contains(&variant.name));
            self.equals.retain(|name| kept.contains(name));
        }
        if let Some(mut kept) = short.servers {
            // A peer may be absent from this machine.
            kept.retain(|name| self.servers.contains(name));
            self.keep_servers(kept);
        }
        self.validate().with_context(|| format!("in `[short]` of the sweep {}", self.name))?;
        Ok(self)
    }
}

impl Sweep {
    /// Keeps these servers, and drops variants that were only for others; returns the names of those.
    pub(crate) fn keep_servers(&mut self, kept: Vec<String>) -> Vec<String> {
        let before: Vec<String> = self.variants.iter().map(|variant| variant.name.clone()).collect();
        self.variants.retain_mut(|variant| {
            // A variant that was only for other servers must not become one for all.
            let was_for_some = !variant.servers.is_empty();
            variant.servers.retain(|server| kept.contains(server));
            !was_for_some || !variant.servers.is_empty()
        });
        self.factorial.retain(|(subject, baseline)| kept.contains(subject) && kept.contains(baseline));
        self.servers = kept;
        before.into_iter().filter(|name| self.variants.iter().all(|variant| variant.name != *name)).collect()
    }
}

impl Sweep {
    /// Leaves out variants that want more cores; returns their names.
    pub(crate) fn keep_fitting(&mut self, cores: usize) -> Vec<String> {
        let names =
            self.variants.iter().filter(|variant| variant.cores_min > cores).map(|variant| variant.name.clone());
        let left_out: Vec<String> = names.collect();
        self.variants.retain(|variant| variant.cores_min <= cores);
        left_out
    }
}

fn replace<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
