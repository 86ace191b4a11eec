//! What is measured, with what, and in which order.

pub(crate) mod budget;
pub mod catalog;
pub(crate) mod dimension;
pub mod layout;
pub mod point;
pub mod schedule;
pub mod sweep;
pub(crate) mod values;
