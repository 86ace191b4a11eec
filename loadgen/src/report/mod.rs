//! What a run leaves behind: JSON, HDR histogram files, and a table for people.

pub mod hdr;
mod json;
mod table;

pub use json::to_json;
pub(crate) use table::{millis, plain_table};
pub use table::{print_distribution, print_summary};
