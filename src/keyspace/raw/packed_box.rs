//! A `Box` that may be at any address, so that its owner needs no padding.
//!
//! # Why unsafe
//! A collection is a pointer and a byte or two that say what it points to. Aligned, that takes 16 bytes, and there is
//! one in each of millions of nodes; at any address it takes 10, and a node with a key of up to 14 bytes is 32 bytes
//! long instead of 48. A reference to a `Box` in a packed struct is not allowed, so the pointer is kept as such. The
//! interface is that of a box.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owns a value on the heap.
///
/// Invariant: `pointer` came from `Box::into_non_null`, and is freed once.
#[repr(C, packed)]
pub struct PackedBox<T> {
    pointer: NonNull<T>,
    owned: PhantomData<T>,
}

// SAFETY: it owns the value, as a box does.
unsafe impl<T: Send> Send for PackedBox<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PackedBox<T> {}

impl<T> PackedBox<T> {
    /// Puts a value on the heap.
    pub fn new(value: T) -> Self {
        Self { pointer: NonNull::from(Box::leak(Box::new(value))), owned: PhantomData }
    }
}

impl<T> Deref for PackedBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let pointer = self.pointer;
        // SAFETY: the value lives as long as its owner, and is borrowed as that is.
        unsafe { pointer.as_ref() }
    }
}

impl<T> DerefMut for PackedBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        let mut pointer = self.pointer;
        // SAFETY: as above, exclusively.
        unsafe { pointer.as_mut() }
    }
}

impl<T> Drop for PackedBox<T> {
    fn drop(&mut self) {
        let pointer = self.pointer;
        // SAFETY: the pointer came from a box, and nothing uses it after this.
        drop(unsafe { Box::from_raw(pointer.as_ptr()) });
    }
}

impl<T: Clone> Clone for PackedBox<T> {
    fn clone(&self) -> Self {
        Self::new(T::clone(self))
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for PackedBox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        T::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_value_is_owned_once_at_any_address() {
        let shared = Rc::new(7);
        let mut shifted = (0_u8, PackedBox::new(vec![shared.clone()]));
        assert_eq!((align_of_val(&shifted), size_of_val(&shifted)), (1, 9));
        shifted.1.push(shared.clone());
        let copy = shifted.clone();
        assert_eq!((shifted.1.len(), copy.1.len(), Rc::strong_count(&shared)), (2, 2, 5));
        drop((shifted, copy));
        assert_eq!(Rc::strong_count(&shared), 1);
    }
}
