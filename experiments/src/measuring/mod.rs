//! One trial: a server, the generator, and samples of /proc meanwhile.

pub mod brake;
pub mod generator;
pub mod growth;
pub mod memory;
pub mod process;
pub mod sampler;
pub mod stages;
pub mod trial;
