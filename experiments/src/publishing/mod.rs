//! Reports, figures in documents, and computing all of them again.

mod blocks;
pub(crate) mod chart;
pub mod document;
pub mod locks_or_actors;
pub mod queries;
pub mod report;
pub(crate) mod run_source;
pub mod scaling_page;
pub mod seal;
pub(crate) mod side_by_side;
pub(crate) mod stray_figures;
pub mod verify;
