//! The reports of a run: JSON, CSV, HDR histogram files, and a table for humans.

mod csv;
pub mod dump;
mod fairness;
mod file;
pub mod hdr;
mod json;
mod ramp;
mod table;

pub use csv::write_csv;
pub use file::PartialFile;
pub(crate) use file::write_file;
pub(crate) use json::merged_json;
pub use json::to_json;
pub use ramp::{print_ramp, ramp_to_json, write_ramp_csv};
pub(crate) use table::{millis, plain_table};
pub use table::{print_brief, print_distribution, print_summary};
