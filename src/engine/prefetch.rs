//! Looking ahead: the nodes of the commands to come are asked for together, so that their cache misses overlap, where
//! those of one command after the other would add up. All engines do it here, unless `--prefetch no` takes it away.

use crate::commands::{CommandId, command};
use crate::keyspace::{Databases, hash_of};
use crate::resp::Args;

/// Commands that are looked ahead at together: about as many misses as a core keeps under way.
pub const GROUP: usize = 16;
/// For fewer, looking ahead was not found to pay.
pub const GROUP_MIN: usize = 4;

/// Where nodes can be fetched from.
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

/// The key that stands at a fixed place, if there is one.
#[inline]
pub fn first_key<'a>((id, args): (CommandId, Args<'a>)) -> Option<&'a [u8]> {
    let position = usize::from(command(id).keys.first);
    if position == 0 { None } else { args.get(position) }
}

/// Fetches the nodes of the first keys of the commands to come, of a group at most.
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
