//! What is printed. `println!` and `eprintln!` panic where the reader has gone or the disk is full, and hours of
//! measuring would end with that.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Stdout, Write};

use anyhow::{Context, Result};

/// The standard output, for `write!` and `writeln!`, which return nothing here: the work goes on without a reader.
///
/// Invariants: nothing is written after the first failure.
#[derive(Debug)]
pub struct Output {
    stdout: Stdout,
    failure: Option<io::Error>,
}

impl Default for Output {
    fn default() -> Self {
        Self { stdout: io::stdout(), failure: None }
    }
}

impl Output {
    /// What `write!` and `writeln!` call.
    pub fn write_fmt(&mut self, text: Arguments) {
        if self.failure.is_none() {
            self.failure = self.stdout.write_fmt(text).err();
        }
    }

    /// Fails where something that somebody waits for could not be written. A reader that has gone (`| head -1`) has
    /// read what it wanted.
    pub fn finish(mut self) -> Result<()> {
        let failure = self.failure.take().or_else(|| self.stdout.flush().err());
        match failure.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            Some(error) => Err(error).context("cannot write to the standard output"),
            None => Ok(()),
        }
    }
}

/// Writes a line to stderr.
pub fn tell(line: impl Display) {
    // Where that is closed, too, nobody can be told.
    let _ = writeln!(io::stderr(), "{line}");
}
