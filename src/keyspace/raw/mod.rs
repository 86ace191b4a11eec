//! The unsafe code of the data, hidden by safe interfaces: keys with their values, elements and buffers in single
//! allocations.

mod cache_lines;
pub(super) mod node;
pub(super) mod packed_box;
pub(super) mod scored;
pub(super) mod thin_buf;
pub(super) mod thin_bytes;
