//! The types of values, and the encodings of each.

pub(super) mod collection;
pub(super) mod element_table;
pub(super) mod hash;
pub mod hyperloglog;
pub(super) mod intset;
pub(super) mod list;
pub(super) mod listpack;
pub(super) mod set;
pub mod sorted_set;
pub mod stream;
