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

/// The first key: the one at a fixed position, or what follows the number of keys. If that number is 0 or invalid it is
/// another argument, which costs a fetch in vain.
#[inline]
pub fn first_key<'a>((id, args): (CommandId, Args<'a>)) -> Option<&'a [u8]> {
    let keys = command(id).keys;
    match (usize::from(keys.first), usize::from(keys.count_at)) {
        (0, 0) => None,
        (0, count_at) => args.get(count_at + 1),
        (position, _) => args.get(position),
    }
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
