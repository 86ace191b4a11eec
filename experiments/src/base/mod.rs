//! What knows of no other room.

pub(crate) mod ask;
pub(crate) mod digest;
pub(crate) mod environment;
pub mod files;
pub mod interrupt;
pub mod output;
pub(crate) mod progress;
pub(crate) mod rng;
pub(crate) mod text;
