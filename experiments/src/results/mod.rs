//! A run on disk, and the extract of it that figures are made from.

mod extract;
pub mod folder;
pub(crate) mod latencies;
pub(crate) mod lock;
pub(crate) mod observation;
