//! What is measured, with what, and in which order.

pub mod budget;
pub mod catalog;
pub mod dimension;
pub mod point;
pub mod schedule;
pub mod sweep;
pub mod values;
