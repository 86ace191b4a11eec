//! Which shard owns a key: Redis Cluster's hash slot, so that `{tags}` keep keys together, divided among the shards.
//!
//! Stable across restarts and versions, unlike the tables' hash.

use crc::{CRC_16_XMODEM, Crc, Table};

/// The slots that Redis Cluster divides keys into.
pub const SLOTS: usize = 16384;

static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

/// The shard, out of `shards`, that owns `key`.
#[inline]
pub fn shard_of(key: &[u8], shards: usize) -> usize {
    if shards == 1 { 0 } else { slot_of(key) % shards }
}

/// The hash slot of a key: of the part between the first `{` and the next `}`, if that exists and is not empty.
pub fn slot_of(key: &[u8]) -> usize {
    usize::from(CRC16.checksum(tag_of(key))) % SLOTS
}

fn tag_of(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), usize::from(CRC16.checksum(b"foo{}{bar}")) % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }

    #[test]
    fn keys_spread_evenly() {
        for shards in [2, 3, 7] {
            let mut counts = vec![0; shards];
            (0..70_000).for_each(|n| counts[shard_of(format!("key:{n}").as_bytes(), shards)] += 1);
            let fair = 70_000 / shards;
            assert!(counts.iter().all(|&count| count > fair * 9 / 10 && count < fair * 11 / 10), "{counts:?}");
        }
    }
}
