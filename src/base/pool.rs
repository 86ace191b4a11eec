//! Values that each thread keeps for reuse, in a bounded amount of memory.
//!
//! A value taken on one thread may be returned on another: a connection's task moves between threads. So one thread's
//! pool might only grow while another's is always empty, and without a bound in bytes it would take memory from keys.

/// The most bytes that a pool keeps. A batch or buffer has some kilobytes, so this is hundreds of them.
const BYTES_MAX: usize = 1024 * 1024;

/// The same where memory is near its limit.
const BYTES_MAX_TIGHT: usize = 64 * 1024;

/// A value that can be kept in a pool.
pub trait Pooled {
    /// Bytes of memory that it holds while it is in the pool, including free capacity.
    fn held_bytes(&self) -> usize;
}

impl Pooled for Vec<u8> {
    fn held_bytes(&self) -> usize {
        self.capacity()
    }
}

/// A stack: the value returned last is taken first, because its memory is still in the cache.
#[derive(Debug)]
pub struct Pool<T> {
    items: Vec<T>,
    bytes: usize,
}

impl<T: Pooled> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Self {
        Self { items: Vec::new(), bytes: 0 }
    }

    /// Takes a value, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        let item = self.items.pop()?;
        self.bytes -= item.held_bytes();
        Some(item)
    }

    /// Keeps a value if there is room for it; less room if memory is near its limit.
    #[inline]
    pub fn give(&mut self, item: T, is_tight: bool) {
        let bytes = self.bytes + item.held_bytes();
        let most = if is_tight { BYTES_MAX_TIGHT } else { BYTES_MAX };
        if bytes <= most {
            self.bytes = bytes;
            self.items.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_a_megabyte_whatever_it_is_given() {
        let mut pool = Pool::new();
        (0..1000).for_each(|_| pool.give(Vec::with_capacity(20 * 1024), false));
        assert_eq!(pool.items.len(), BYTES_MAX / (20 * 1024));
        assert_eq!(pool.bytes, pool.items.iter().map(Vec::capacity).sum::<usize>());
        while pool.take().is_some() {}
        assert_eq!(pool.bytes, 0);
        pool.give(Vec::with_capacity(BYTES_MAX), false);
        assert!(pool.take().is_some(), "there is room again");
        pool.give(Vec::with_capacity(BYTES_MAX_TIGHT + 1), true);
        assert!(pool.take().is_none(), "there is none for so much where memory is short");
    }
}
