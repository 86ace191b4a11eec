//! What numbers say, whatever they measure.

pub(crate) mod alignment;
pub(crate) mod bootstrap;
pub(crate) mod quantiles;
pub(crate) mod steadiness;
pub(crate) mod usl;
