//! What the results say: intervals, differences, verdicts, answers, audits.

pub mod analysis;
pub mod answers;
pub mod audit;
pub mod claims;
pub mod compare;
pub mod factorial;
pub mod noise;
pub mod ratios;
pub mod summary;
