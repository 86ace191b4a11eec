//! What a run leaves behind: JSON, CSV, HDR histogram files, and a table for people.

mod csv;
mod fairness;
pub mod hdr;
mod json;
mod ramp;
mod table;

pub use csv::write_csv;
pub(crate) use hdr::write_file;
pub(crate) use json::merged_json;
pub use json::to_json;
pub use ramp::{print_ramp, write_ramp_csv};
pub(crate) use table::{millis, plain_table};
pub use table::{print_distribution, print_summary};
