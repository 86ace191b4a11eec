//! The flags of commands over several keys.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use super::KeyRange;
use super::parse::{invalid, nonzero};
use crate::Error;
use crate::cli::RunFlags;
use crate::multi_key::{SLOTS, reach_two_shards};
use crate::workload::file::WorkloadFlags;

/// The commands over several keys. Keys are then named `PREFIX{tag}:member`, with as many members to a tag as a command
/// has keys.
///
/// Invariants: a command has at least two keys; the key numbers are a whole number of tags; if commands cross shards,
/// the tags are on at least two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiKey {
    /// Keys of a command.
    pub keys_per_command: NonZeroUsize,
    /// How many of a hundred commands take several keys.
    pub percent: u32,
    /// How many of a hundred of those have keys on several shards.
    pub cross_shard_percent: u32,
    /// Shards of the target: it owns a key by slot modulo this number.
    pub target_shards: NonZeroUsize,
}

impl MultiKey {
    pub(super) fn of(
        flags: &RunFlags,
        defaults: &WorkloadFlags,
        keys: KeyRange,
        key_prefix: &str,
    ) -> Result<Option<Self>, Error> {
        // Values from a workload file come unchecked.
        let within = |flag, value: Option<u32>, range: RangeInclusive<u32>| match value {
            Some(value) if !range.contains(&value) => {
                invalid(flag, value, format!("expected {} to {}", range.start(), range.end()))
            }
            _ => Ok(value),
        };
        let keys_per_command = flags.keys_per_command.or(defaults.keys_per_command);
        let keys_per_command = within("--keys-per-command", keys_per_command, 1..=100_000)?.unwrap_or(1);
        let cross_shard = within("--cross-shard", flags.cross_shard.or(defaults.cross_shard), 0..=100)?;
        let target_shards = flags.target_shards.or(defaults.target_shards);
        let target_shards = within("--target-shards", target_shards, 1..=SLOTS as u32)?;
        if keys_per_command == 1 {
            let given =
                [("--multi-key", flags.multi_key), ("--cross-shard", cross_shard), ("--target-shards", target_shards)];
            return without_multi_key(given).map(|()| None);
        }
        let multi_key = Self {
            keys_per_command: nonzero(keys_per_command),
            percent: flags.multi_key.unwrap_or(100),
            cross_shard_percent: cross_shard.unwrap_or(0),
            target_shards: target_shards.map_or(NonZeroUsize::new(SLOTS).expect("not zero"), nonzero),
        };
        multi_key.check(keys, key_prefix).map(|()| Some(multi_key))
    }

    fn check(&self, keys: KeyRange, key_prefix: &str) -> Result<(), Error> {
        let keys_per_command = self.keys_per_command.get();
        if !keys.count().is_multiple_of(keys_per_command as u64) {
            let why = format!("{} keys do not come in tags of {keys_per_command} (--keys-per-command)", keys.count());
            return invalid("--key-maximum", keys.maximum, why);
        }
        if key_prefix.contains('{') {
            return invalid("--key-prefix", key_prefix, "commands over several keys put a hash tag after it");
        }
        if self.cross_shard_percent > 0 && !reach_two_shards(keys.tags(keys_per_command), self.target_shards) {
            let why = format!("all keys lie on one of {} shards (--target-shards)", self.target_shards);
            return invalid("--cross-shard", self.cross_shard_percent, why);
        }
        Ok(())
    }
}

/// A flag without an effect is an error.
fn without_multi_key(given: [(&str, Option<u32>); 3]) -> Result<(), Error> {
    match given.iter().find_map(|(flag, value)| Some((flag, (*value)?))) {
        Some((flag, value)) => invalid(flag, value, "it needs --keys-per-command of 2 or more"),
        None => Ok(()),
    }
}
