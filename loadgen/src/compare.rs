//! `loadgen compare`.
use std::io::Write;

use crate::Error;
use crate::cli::CompareFlags;

/// Compares.
pub fn run(_flags: &CompareFlags, _out: &mut dyn Write) -> Result<(), Error> {
    Err(Error::Config("being built".into()))
}
