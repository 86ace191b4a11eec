//! What a program says of itself under a flag such as `--version`.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::base::output::tell;

/// How long a program may take. One that takes the flag for a command to serve would never end.
const LIMIT: Duration = Duration::from_secs(5);
/// How long its output may take after its end.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The most that is read of its output, in bytes.
const OUTPUT_MAX: u64 = 1 << 20;

/// The standard output of `program` under `flag`; `None` if it fails, or does not end in time. It has a process group
/// of its own, nothing of which is left afterwards.
pub(crate) fn answer(program: &Path, flag: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg(flag).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().ok()?;
    let output = read_aside(&mut child)?;
    let status = end_of(&mut child);
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Fails where nothing of it is left, as wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let Some(status) = status else {
        let _ = child.wait();
        tell(format_args!("{} {flag} did not end within {LIMIT:?}: it is not known what it says", program.display()));
        return None;
    };
    let bytes = output.recv_timeout(OUTPUT_LIMIT).ok()?;
    status.success().then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the output of a child in a thread: a child whose pipe is full does not end.
fn read_aside(child: &mut Child) -> Option<mpsc::Receiver<Vec<u8>>> {
    let output = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts, and nobody may be waiting for it any more.
        let _ = output.take(OUTPUT_MAX).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    Some(receiver)
}

/// How a child ended; `None` if it did not in time.
fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        thread::sleep(LOOK_EVERY);
    }
    None
}
