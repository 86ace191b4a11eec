//! What numbers say, whatever they measure.

pub mod alignment;
pub mod bootstrap;
#[cfg(test)]
mod coverage;
pub mod quantiles;
pub mod steadiness;
pub mod usl;
