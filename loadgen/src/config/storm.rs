//! What `--connect-storm` leaves without an effect.

use crate::base::{Error, invalid};
use crate::cli::RunFlags;

/// A storm sends no keys and no values, and one request to a connection: a flag about them is an error.
pub(super) fn check_storm(flags: &RunFlags) -> Result<(), Error> {
    if !flags.connect_storm {
        return Ok(());
    }
    let text = |value: &Option<String>| value.clone();
    let given = [
        ("--pipeline", (flags.pipeline > 1).then(|| flags.pipeline.to_string())),
        ("--data-size", flags.data_size.map(|bytes| bytes.to_string())),
        ("--data-size-range", text(&flags.data_size_range)),
        ("--data-size-list", text(&flags.data_size_list)),
        ("--expiry-range", text(&flags.expiry_range)),
        ("--multi-key", flags.multi_key.map(|percent| percent.to_string())),
        ("--cross-shard", flags.cross_shard.map(|percent| percent.to_string())),
        ("--target-shards", flags.target_shards.map(|shards| shards.to_string())),
        ("--key-pattern", text(&flags.key_pattern)),
        ("--key-zipf-exp", flags.key_zipf_exp.map(|exponent| exponent.to_string())),
        ("--key-median", flags.key_median.map(|number| number.to_string())),
        ("--key-stddev", flags.key_stddev.map(|keys| keys.to_string())),
        ("--key-hotspot", text(&flags.key_hotspot)),
        ("--key-minimum", flags.key_minimum.map(|number| number.to_string())),
        ("--key-maximum", flags.key_maximum.map(|number| number.to_string())),
        ("--key-prefix", text(&flags.key_prefix)),
    ];
    match given.into_iter().find_map(|(flag, value)| Some((flag, value?))) {
        Some((flag, value)) => invalid(flag, value, "a --connect-storm sends no keys, no values and one PING each"),
        None => Ok(()),
    }
}
