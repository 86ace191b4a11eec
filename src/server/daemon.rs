//! `daemonize`: the server in the background.
//!
//! The process starts its own command line once more, in a session of its own, and ends when that listens, or with its
//! failure. Nothing is forked: a process may have threads, and one that starts anew inherits no state.

use crate::config::{Config, Directive};
use crate::state::supervision::Supervisor;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};

/// The variable of the environment that tells a process that it is the one in the background.
const MARK: &str = "SHARDRACE_IN_BACKGROUND";

fn is_in_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Whether this process starts one in the background, and does not serve itself. With a supervisor it does, as in
/// Redis: that watches the process which it started.
pub fn is_wanted(config: &Config) -> bool {
    let is_supervised = || !matches!(Supervisor::find(&config.text(Directive::Supervised)), Supervisor::None);
    config.is_on(Directive::Daemonize) && !is_in_background() && !is_supervised()
}

/// Starts the process in the background, and waits until it listens. Until then it reports errors as this one does.
pub fn start(config: &Config) -> Result<ExitCode, String> {
    let started = spawn(config.stdin()).and_then(|mut child| {
        let stdout = child.stdout.take().expect("it is a pipe");
        match stdout.take(1).read_to_end(&mut Vec::new())? {
            0 => child.wait().map(|_| ExitCode::FAILURE),
            _ => Ok(ExitCode::SUCCESS),
        }
    });
    started.map_err(|error| format!("can't start in the background: {error}"))
}

fn spawn(stdin: Option<&[u8]>) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(MARK, "yes").stdout(Stdio::piped());
    let Some(text) = stdin else { return command.stdin(Stdio::null()).spawn() };
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    // If it does not read it, it has ended and says why.
    _ = child.stdin.take().expect("it is a pipe").write_all(text);
    Ok(child)
}

/// Makes the process in the background leave the session of the terminal.
pub fn leave_session() {
    if is_in_background() {
        // The first process of a group is not permitted to; then somebody else has set the variable.
        _ = rustix::process::setsid();
    }
}

/// Tells the process that started this one that it listens, if this is the one in the background, and closes its
/// standard streams: a process that waits for their end must not wait for the server.
pub(super) fn report_listening() -> io::Result<()> {
    if !is_in_background() {
        return Ok(());
    }
    let mut starter = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // It may have been killed.
    _ = starter.write_all(b"listening\n");
    Ok(())
}
