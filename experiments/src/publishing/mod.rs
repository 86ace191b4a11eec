//! Reports, figures in documents, and computing all of them again.

pub mod chart;
pub mod document;
pub mod locks_or_actors;
pub mod report;
pub mod seal;
pub mod side_by_side;
pub mod stray_figures;
pub mod verify;
