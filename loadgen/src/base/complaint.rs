//! What the user is told during or after a run.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to stderr. `eprintln!` would panic where that is closed or on a full disk, and hide the status of the
/// run.
pub fn complain(line: impl Display) {
    // Then nobody can be told.
    let _ = writeln!(io::stderr(), "loadgen: {line}");
}
