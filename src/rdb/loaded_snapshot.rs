//! Loads a snapshot as the data of a starting server.

use super::file::{FileKey, FileSummary, read_file};
use crate::base::routing::shard_of;
use crate::keyspace::{Databases, Store, Table, hash_of};
use std::sync::Arc;

/// Bytes of the file between two progress reports.
const STEP: usize = 1 << 20;

/// The result of loading a snapshot.
#[derive(Debug, Default)]
pub struct LoadedSnapshot {
    /// The contents of the file.
    pub summary: FileSummary,
    /// Keys that were loaded.
    pub keys: u64,
    /// Keys that had expired, and were dropped, as a master of Redis does.
    pub expired: u64,
}

/// Loads the keys of a snapshot into the stores of their owners, at a Unix time in milliseconds, without the due ones
/// if `drops_due` is true; reports read bytes to `note`, many at once, which may end the loading. The error says what
/// is wrong with it, and where. O(N), N = bytes
pub fn load(
    bytes: &[u8],
    stores: &mut [Databases],
    now_ms: u64,
    drops_due: bool,
    note: &dyn Fn(u64) -> Result<(), String>,
) -> Result<LoadedSnapshot, String> {
    let databases = stores[0].databases();
    let (shards, instance) = (stores.len(), Arc::clone(stores[0].instance()));
    let usage = instance.settings.eviction.usage();
    let (mut keys, mut expired, mut noted) = (0, 0, 0);
    let summary =
        read_file(bytes, &instance.settings, &mut |FileKey { database, key, value, expire_at, former_use, end }| {
            if end - noted >= STEP {
                note((end - noted) as u64)?;
                noted = end;
            }
            let number = usize::try_from(database).ok().filter(|&number| number < databases);
            let number = number.ok_or_else(|| too_few_databases(database))?;
            if drops_due && expire_at.is_some_and(|at| at < now_ms) {
                expired += 1;
                return Ok(());
            }
            let store = &mut stores[shard_of(&key, shards)];
            store.select(number);
            if store.locate(hash_of(&key), &key).is_some() {
                return Err(twice(&key, database));
            }
            let node = value.into_node(&key, expire_at);
            node.continue_use(usage, now_ms / 1000, former_use);
            store.insert_node(number, node);
            keys += 1;
            Ok(())
        })?;
    note((bytes.len() - noted) as u64)?;
    summary.must_have_all_keys()?;
    Ok(LoadedSnapshot { summary, keys, expired })
}

/// Why a key of a file cannot be loaded.
pub fn too_few_databases(database: u64) -> String {
    format!("it has a database {database}: `--databases` allows for fewer")
}

/// Why a file with a duplicate key is refused: it is unknown which one is meant.
pub fn twice(key: &[u8], database: u64) -> String {
    format!("the key {} of database {database} is there twice", key.escape_ascii())
}
