//! What numbers say, whatever they measure.

pub mod alignment;
pub mod bootstrap;
pub mod quantiles;
pub mod steadiness;
pub mod usl;
