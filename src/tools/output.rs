//! What a tool prints. Its work, and the status it exits with, never depend on whether anyone reads that.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Stdout, Write};
use std::process::ExitCode;

/// The standard output, for `write!` and `writeln!`, which return nothing here: the work goes on without a reader.
///
/// Invariants: nothing is written after the first failure.
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

    /// The status of the program: `code`, unless something that somebody waits for could not be written. A reader that
    /// has gone (`| head -1`) has read what it wanted.
    pub fn finish(mut self, program: &str, code: ExitCode) -> ExitCode {
        let failure = self.failure.take().or_else(|| self.stdout.flush().err());
        match failure.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            Some(error) => {
                complain(format_args!("{program}: can't write to the standard output: {error}"));
                ExitCode::FAILURE
            }
            None => code,
        }
    }
}

/// Writes a line to the standard error.
pub fn complain(line: impl Display) {
    // Where that is closed, too, nobody can be told.
    let _ = writeln!(io::stderr(), "{line}");
}
