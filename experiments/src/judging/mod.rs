//! What the results say: intervals, differences, verdicts, answers, audits.

pub(crate) mod analysis;
pub(crate) mod answers;
pub(crate) mod audit;
pub mod claims;
pub(crate) mod compare;
pub(crate) mod factorial;
pub(crate) mod noise;
pub(crate) mod ratios;
pub mod simulation;
pub mod summary;
