//! The lab: runs sweeps over servers and writes a report whose every figure comes from raw data.
//!
//! `run` resolves the request (`sweep`, `catalog`), fits it to a budget (`budget`), plans it (`plan`), measures missing
//! trials (`trial`, which starts a server (`process`) and the generator (`generator`), may slow the server down
//! (`brake`), and reads /proc meanwhile (`sampler`)) and keeps it (`results`).
//!
//! `observation` extracts one line from each trial; everything shown is computed from those: medians and intervals
//! (`summary`, `bootstrap`), differences (`compare`), what a sweep's figures say (`analysis`, `usl`), what a difference is made of (`factorial`), the answers in sentences (`answers`), the noise of the
//! method (`noise`), the audit of others' claims (`claims`). `report` draws it (`chart`) along the coordinates that were
//! varied (`dimension`), `document` puts figures into Markdown (some from `side_by_side`), and `verify` computes all of it again and compares.
//! `memory` stands beside them: bytes for each key, by shape of the data. So does `scaling`: the engines without sockets,
//! and what a model says of them on more cores.

pub mod alignment;
pub mod analysis;
pub mod answers;
pub mod audit;
pub mod bootstrap;
pub mod brake;
pub mod budget;
pub mod catalog;
pub mod chart;
pub mod claims;
pub mod compare;
#[cfg(test)]
mod coverage;
pub mod digest;
pub mod dimension;
pub mod document;
pub mod environment;
pub mod factorial;
pub mod figures;
pub mod generator;
pub mod interrupt;
pub mod latencies;
pub mod memory;
pub mod noise;
pub mod observation;
pub mod plan;
pub mod process;
pub mod progress;
pub mod ratios;
pub mod report;
pub mod results;
pub mod rng;
pub mod run;
pub mod sampler;
pub mod scaling;
pub mod seal;
pub mod side_by_side;
pub mod sources;
pub mod stages;
pub mod steadiness;
pub mod summary;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod usl;
pub mod verify;
