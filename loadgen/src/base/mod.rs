//! What knows of no other room.

mod complaint;
pub(crate) mod cpu;
mod error;
pub(crate) mod fnv;
pub mod interrupt;
pub(crate) mod random;
pub(crate) mod schedule;
pub mod students_t;
pub(crate) mod timer;
pub(crate) mod turns;

pub use complaint::complain;
pub use error::Error;
pub(crate) use error::invalid;
