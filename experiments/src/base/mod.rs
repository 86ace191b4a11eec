//! What knows of no other room.

pub mod digest;
pub mod environment;
pub mod files;
pub mod interrupt;
pub mod progress;
pub mod rng;
pub mod text;
