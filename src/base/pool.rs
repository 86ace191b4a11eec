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
    /// The fewest values that it has had since it was last trimmed: as many were not needed.
    least: usize,
}

impl<T: Pooled> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Self {
        Self { items: Vec::new(), bytes: 0, least: 0 }
    }

    /// Takes a value, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        let item = self.items.pop()?;
        self.bytes -= item.held_bytes();
        self.least = self.least.min(self.items.len());
        Some(item)
    }

    /// Frees the values that were not needed since this was last called.
    pub fn trim(&mut self) {
        let freed: usize = self.items.drain(..self.least).map(|item| item.held_bytes()).sum();
        self.bytes -= freed;
        self.least = self.items.len();
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

    #[test]
    fn what_was_not_needed_between_two_trims_is_freed_and_the_rest_is_kept() {
        let mut pool = Pool::new();
        (0..10).for_each(|_| pool.give(Vec::with_capacity(100), false));
        pool.trim();
        assert_eq!(pool.items.len(), 10, "they have just come");
        let taken: Vec<_> = (0..4).map_while(|_| pool.take()).collect();
        taken.into_iter().for_each(|item| pool.give(item, false));
        pool.trim();
        assert_eq!((pool.items.len(), pool.bytes), (4, 400));
        pool.trim();
        assert_eq!((pool.items.len(), pool.bytes), (0, 0));
    }
}
