//! Scripts that run for too long.
//!
//! A script holds all data while it runs. When it has run for `busy-reply-threshold` milliseconds other connections are
//! told so (BUSY), and may end it with SCRIPT KILL, unless it has written: then half of what it does would stand.
//!
//! Invariant: one script runs at a time, since each is lent every shard.

use super::registry::Sha;
use crate::resp::Args;
use parking_lot::Mutex;
use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds after which a script is busy; 0 for never. CONFIG SET changes it.
pub static THRESHOLD_MS: AtomicU64 = AtomicU64::new(5000);

static IS_RUNNING: AtomicBool = AtomicBool::new(false);
static IS_FUNCTION: AtomicBool = AtomicBool::new(false);
static IS_BUSY: AtomicBool = AtomicBool::new(false);
static HAS_WRITTEN: AtomicBool = AtomicBool::new(false);
static IS_KILLED: AtomicBool = AtomicBool::new(false);
/// The function that runs, for those who ask.
static RUNNING: Mutex<Option<RunningFunction>> = Mutex::new(None);

/// What a script that is ended by SCRIPT KILL fails with.
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";
/// What a function that is ended by FUNCTION KILL fails with.
const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL...";

/// What other connections are replied while a script is busy.
pub const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// What they are replied while a function is.
pub const FUNCTION_BUSY: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

/// A function that runs.
#[derive(Debug, Clone)]
pub struct RunningFunction {
    /// Its name.
    pub name: String,
    /// The request that called it.
    pub request: Vec<Vec<u8>>,
    began: Instant,
}

impl RunningFunction {
    /// For how long it runs.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The time of a script that runs; dropping it ends that.
pub struct Watch {
    began: Instant,
    name: Name,
    /// For how long the script has run when the tasks of its thread are left to another one next.
    leaves_at: Cell<Duration>,
    /// Why the script is to end.
    end: Cell<Option<&'static str>>,
}

enum Name {
    Script(Sha),
    Function(String),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(sha) => f.write_str(std::str::from_utf8(sha).expect("a SHA is written in hex")),
            Self::Function(name) => f.write_str(name),
        }
    }
}

impl Watch {
    /// Begins that of a script.
    pub fn of_script(sha: Sha) -> Self {
        Self::begin(Name::Script(sha))
    }

    /// Begins that of a function.
    pub fn of_function(name: &str, request: Args<'_>) -> Self {
        let request = request.iter().map(<[u8]>::to_vec).collect();
        *RUNNING.lock() = Some(RunningFunction { name: name.to_owned(), request, began: Instant::now() });
        Self::begin(Name::Function(name.to_owned()))
    }

    fn begin(name: Name) -> Self {
        HAS_WRITTEN.store(false, Ordering::Relaxed);
        IS_KILLED.store(false, Ordering::Relaxed);
        IS_FUNCTION.store(matches!(name, Name::Function(_)), Ordering::Relaxed);
        IS_RUNNING.store(true, Ordering::Release);
        Self { began: Instant::now(), name, leaves_at: Cell::new(Duration::ZERO), end: Cell::new(None) }
    }

    /// Looks at the time, which is done now and then. The error says that the script is to end, and why.
    pub fn look(&self) -> Result<(), &'static str> {
        let looked = self.look_at_time();
        if let Err(reason) = looked
            && self.end.replace(Some(reason)).is_none()
        {
            tracing::info!("Lua script killed: {reason}");
        }
        looked
    }

    /// Why the script is to end, once it is.
    pub fn end(&self) -> Option<&'static str> {
        self.end.get()
    }

    fn look_at_time(&self) -> Result<(), &'static str> {
        if IS_KILLED.load(Ordering::Relaxed) {
            return Err(if self.is_of_function() { FUNCTION_KILLED } else { KILLED });
        }
        let threshold_ms = THRESHOLD_MS.load(Ordering::Relaxed);
        if threshold_ms == 0 || self.began.elapsed() < Duration::from_millis(threshold_ms) {
            return Ok(());
        }
        if !IS_BUSY.swap(true, Ordering::AcqRel) {
            look_at_all_requests(true);
            self.become_busy();
        }
        if self.began.elapsed() >= self.leaves_at.get() {
            leave_tasks();
            self.leaves_at.set(self.began.elapsed() + LEAVE_EVERY);
        }
        Ok(())
    }

    fn is_of_function(&self) -> bool {
        matches!(self.name, Name::Function(_))
    }

    #[cold]
    fn become_busy(&self) {
        tracing::warn!(
            "Slow script detected: still in execution after {} milliseconds. You can try killing the script using the \
             {} KILL command. Script name is: {}.",
            self.began.elapsed().as_millis(),
            if self.is_of_function() { "FUNCTION" } else { "SCRIPT" },
            self.name
        );
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_of_function() {
            *RUNNING.lock() = None;
        }
        IS_RUNNING.store(false, Ordering::Release);
        if IS_BUSY.swap(false, Ordering::AcqRel) {
            look_at_all_requests(false);
        }
    }
}

/// Told when a script begins to be busy, and when that ends.
static TELL: OnceLock<fn(bool)> = OnceLock::new();

/// Says to tell `whom` when a script begins to be busy, and when that ends.
pub fn tell(whom: fn(bool)) {
    // There is one server in a process.
    _ = TELL.set(whom);
}

/// That a script is busy is no concern of requests while none is.
fn look_at_all_requests(is_so: bool) {
    if let Some(tell) = TELL.get() {
        tell(is_so);
    }
}

/// Between two times that a busy script leaves the tasks of its thread to another one.
const LEAVE_EVERY: Duration = Duration::from_millis(100);
/// How long it waits for that thread to take them.
const LEAVE_MAX: Duration = Duration::from_millis(100);

/// Leaves the tasks of this thread to another one of the runtime, which runs them while the script goes on here. A new
/// thread may come too late, and then they are this one's again: so a task tells that it was run elsewhere, and a script
/// leaves them again and again. Where they are left already, that costs the run of that task.
fn leave_tasks() {
    use tokio::runtime::{Handle, RuntimeFlavor};
    // A log is replayed where there is no runtime.
    if !Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread) {
        return;
    }
    let (has_run, waits) = std::sync::mpsc::sync_channel(1);
    tokio::spawn(async move {
        // The script has waited for long enough.
        _ = has_run.send(());
    });
    // An error says that no thread has come: it is tried again.
    _ = tokio::task::block_in_place(|| waits.recv_timeout(LEAVE_MAX));
}

/// Whether a script has run for too long: whoever needs data is told so.
#[inline]
pub fn is_busy() -> bool {
    IS_BUSY.load(Ordering::Acquire)
}

/// Waits while a script is busy: who took its locks then would keep a thread from those who can end it.
pub async fn ended() {
    const PAUSE: Duration = Duration::from_millis(10);
    while is_busy() {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Notes that the running script has written.
pub fn note_written() {
    HAS_WRITTEN.store(true, Ordering::Relaxed);
}

/// The function that runs, if one does.
pub fn running_function() -> Option<RunningFunction> {
    RUNNING.lock().clone()
}

/// What is replied to whoever asks for what cannot be done while this runs: a script, or a function.
pub fn busy_reply() -> &'static str {
    if IS_FUNCTION.load(Ordering::Relaxed) { FUNCTION_BUSY } else { BUSY }
}

/// Whether a script runs that is no function.
pub fn runs_script() -> bool {
    IS_RUNNING.load(Ordering::Acquire) && !IS_FUNCTION.load(Ordering::Relaxed)
}

/// SCRIPT KILL and FUNCTION KILL, each of which ends its own. The error is what it replies.
pub fn kill(is_function: bool) -> Result<(), &'static str> {
    if !IS_RUNNING.load(Ordering::Acquire) {
        return Err("NOTBUSY No scripts in execution right now.");
    }
    if HAS_WRITTEN.load(Ordering::Relaxed) {
        return Err("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either \
                    wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.");
    }
    if IS_FUNCTION.load(Ordering::Relaxed) != is_function {
        return Err(busy_reply());
    }
    IS_KILLED.store(true, Ordering::Relaxed);
    Ok(())
}
