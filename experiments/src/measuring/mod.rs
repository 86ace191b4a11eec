//! One trial: a server, the generator, and samples of /proc meanwhile.

pub(crate) mod generator;
pub(crate) mod growth;
pub mod memory;
pub mod process;
pub(crate) mod programs;
pub(crate) mod sampler;
pub(crate) mod stages;
pub(crate) mod throttle;
pub(crate) mod trial;
