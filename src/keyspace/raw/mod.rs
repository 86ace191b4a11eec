//! The unsafe code of the data, behind safe interfaces: keys with their values, elements and buffers in single
//! allocations.

pub(super) mod compact;
pub(super) mod node;
pub(super) mod scored;
pub(super) mod slim;
pub(super) mod thin;
