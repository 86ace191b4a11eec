//! Prefetching: the nodes of the next commands are fetched together, so that their cache misses overlap instead of
//! adding up. All engines do it here, unless `--prefetch no` turns it off.

use crate::commands::{CommandId, command};
use crate::keyspace::{Databases, hash_of};
use crate::resp::Args;

/// How many commands are fetched for together: about as many misses as a core keeps in flight.
pub const GROUP: usize = 16;
/// With fewer commands, measurements found no gain.
pub const GROUP_MIN: usize = 4;

/// A store that nodes can be fetched from.
pub trait Fetch {
    /// Brings the nodes of several keys of the selected database into the cache: [`GROUP`] hashes at most.
    fn fetch(&self, hashes: &[u64]);
}

impl Fetch for Databases {
    #[inline]
    fn fetch(&self, hashes: &[u64]) {
        self.table().prefetch(hashes);
    }
}

/// The key at a fixed position, if there is one.
#[inline]
pub fn first_key<'a>((id, args): (CommandId, Args<'a>)) -> Option<&'a [u8]> {
    let position = usize::from(command(id).keys.first);
    if position == 0 { None } else { args.get(position) }
}

/// Fetches the nodes of the first keys of the next commands, for at most one group.
#[inline]
pub fn fetch<'a>(store: &impl Fetch, ahead: impl Iterator<Item = (CommandId, Args<'a>)>) {
    let mut hashes = [0; GROUP];
    let mut count = 0;
    for key in ahead.take(GROUP).filter_map(first_key) {
        hashes[count] = hash_of(key);
        count += 1;
    }
    store.fetch(&hashes[..count]);
}
