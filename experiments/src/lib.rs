//! The lab: runs sweeps over servers and writes a report whose every figure comes from raw data.
//!
//! [`run`] resolves the request ([`plan::sweep`], [`plan::catalog`]), fits it to a budget ([`plan::budget`]), puts its
//! trials in order ([`plan::schedule`]), and measures those that are missing: [`measuring::trial`] starts a server and
//! the generator, may slow the server down ([`measuring::throttle`]), and samples /proc meanwhile. [`results::folder`]
//! is the run on disk.
//!
//! [`results::observation`] is one line for each trial; everything shown is computed from those. [`judging`] has
//! medians and intervals, differences and their verdicts, what they are made of, the answers in sentences, the noise of
//! the method, and the audit of others' claims. [`publishing`] draws it along the coordinates that were varied
//! ([`plan::dimension`]), puts figures into Markdown, and computes all of it again and compares.
//!
//! [`measuring::memory`] is apart from them: bytes for each key, by shape of the data. So is [`scaling`]: the engines
//! without sockets, and what a model says of them on more cores.
//!
//! The code map in experiments/README.md says which of these modules may use which.

// Links between rooms are for their developers.
#![allow(rustdoc::private_intra_doc_links)]

pub mod base;
#[cfg(test)]
mod coverage;
pub mod judging;
pub mod measuring;
pub mod plan;
pub mod publishing;
pub mod results;
pub mod run;
pub mod scaling;
pub(crate) mod sources;
pub(crate) mod statistics;
#[cfg(test)]
mod testing;
