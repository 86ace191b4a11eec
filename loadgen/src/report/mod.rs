//! The reports of a run: JSON, CSV, HDR histogram files, and a table for humans.

mod caveats;
mod complete_file;
mod csv;
pub mod dump;
mod fairness;
pub mod hdr;
mod json;
mod ramp;
mod table;

pub use caveats::{Caveats, unsent_text};
pub use complete_file::PartialFile;
pub(crate) use complete_file::write_file;
pub(crate) use csv::write_csv;
pub use json::to_json;
pub(crate) use json::{merged_json, seconds_of};
pub use ramp::{print_ramp, ramp_to_json, write_ramp_csv};
pub(crate) use table::{millis, plain_table};
pub use table::{print_brief, print_distribution, print_summary};
