//! The flags of commands over several keys.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use super::parse::nonzero;
use crate::base::{Error, invalid};
use crate::cli::RunFlags;
use crate::workload::file::WorkloadFlags;
use crate::workload::keys::KeyRange;
use crate::workload::multi_key::{MultiKey, SLOTS, reach_two_shards};

/// What the flags, and those of the workload, say about commands over several keys; `None` for none.
pub(super) fn multi_key(
    flags: &RunFlags,
    defaults: &WorkloadFlags,
    keys: KeyRange,
    key_prefix: &str,
) -> Result<Option<MultiKey>, Error> {
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
    let multi_key = MultiKey {
        keys_per_command: nonzero(keys_per_command),
        percent: flags.multi_key.unwrap_or(100),
        cross_shard_percent: cross_shard.unwrap_or(0),
        target_shards: target_shards.map_or(NonZeroUsize::new(SLOTS).expect("not zero"), nonzero),
    };
    check(&multi_key, keys, key_prefix).map(|()| Some(multi_key))
}

fn check(multi_key: &MultiKey, keys: KeyRange, key_prefix: &str) -> Result<(), Error> {
    let keys_per_command = multi_key.keys_per_command.get();
    if !keys.count().is_multiple_of(keys_per_command as u64) {
        let why = format!("{} keys do not come in tags of {keys_per_command} (--keys-per-command)", keys.count());
        return invalid("--key-maximum", keys.maximum, why);
    }
    if key_prefix.contains('{') {
        return invalid("--key-prefix", key_prefix, "commands over several keys put a hash tag after it");
    }
    if multi_key.cross_shard_percent > 0 && !reach_two_shards(keys.tags(keys_per_command), multi_key.target_shards) {
        let why = format!("all keys lie on one of {} shards (--target-shards)", multi_key.target_shards);
        return invalid("--cross-shard", multi_key.cross_shard_percent, why);
    }
    Ok(())
}

/// A flag without an effect is an error.
fn without_multi_key(given: [(&str, Option<u32>); 3]) -> Result<(), Error> {
    match given.iter().find_map(|(flag, value)| Some((flag, (*value)?))) {
        Some((flag, value)) => invalid(flag, value, "it needs --keys-per-command of 2 or more"),
        None => Ok(()),
    }
}
