//! The lab: runs sweeps over servers and writes a report whose every figure comes from raw data.
//!
//! `run` resolves what is asked for (`sweep`, `catalog`), plans it (`plan`), measures what is missing (`trial`, which
//! starts a server (`process`) and the generator (`generator`) and reads /proc meanwhile (`sampler`)) and keeps it
//! (`results`). `report` reads it back (`summary`, `bootstrap`) and draws it (`chart`) along the
//! coordinates that were varied (`dimension`). `memory` stands beside them: bytes for each key, by shape of the data.

pub mod bootstrap;
pub mod catalog;
pub mod chart;
pub mod dimension;
pub mod environment;
pub mod generator;
pub mod interrupt;
pub mod memory;
pub mod plan;
pub mod process;
pub mod progress;
pub mod report;
pub mod results;
pub mod rng;
pub mod run;
pub mod sampler;
pub mod summary;
pub mod sweep;
pub mod trial;
