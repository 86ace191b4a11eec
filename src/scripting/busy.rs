//! Scripts that run for too long.
//!
//! A script holds data while it runs. When it has run for `busy-reply-threshold` milliseconds other connections get the
//! error BUSY, and may end it with SCRIPT KILL, unless it has written: then it would be half done.
//!
//! Several run at a time if each is lent only the shards of its keys. Each thread is registered with what it runs,
//! for others.

use super::script_cache::Sha;
use crate::base::worker::{self, WakingTasks};
use crate::resp::Args;
use parking_lot::Mutex;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The running scripts of a server, and whether any has run for too long.
pub struct Busy {
    /// Milliseconds after which a script is busy; 0 for never.
    threshold_ms: AtomicU64,
    /// One for each live thread that has run a script.
    running: Mutex<Vec<Arc<Running>>>,
    /// How many scripts are busy. A change is reported to the server under this lock, so that the last report is right.
    count: Mutex<usize>,
    /// Whether any is.
    is_busy: AtomicBool,
    /// Whether the server has ended: whatever a script still does is lost, and its thread is waited for.
    has_ended: AtomicBool,
    /// Called when a script begins to be busy, and when that ends.
    listener: OnceLock<BusyListener>,
}

/// Called when a script begins to be busy, and when that ends.
type BusyListener = Box<dyn Fn(bool) + Send + Sync>;

impl Default for Busy {
    fn default() -> Self {
        Self {
            threshold_ms: AtomicU64::new(5000),
            running: Mutex::default(),
            count: Mutex::default(),
            is_busy: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            listener: OnceLock::new(),
        }
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy").field("is_busy", &self.is_busy).finish_non_exhaustive()
    }
}

/// What a thread runs, for other threads.
struct Running {
    /// The scripts of its server.
    all: Arc<Busy>,
    /// [`IDLE`], [`READS`], [`HAS_WRITTEN`] or [`IS_KILLED`].
    state: AtomicU8,
    is_function: AtomicBool,
    is_busy: AtomicBool,
    /// The function, for FUNCTION STATS.
    function: Mutex<Option<RunningFunction>>,
}

const IDLE: u8 = 0;
/// It has written nothing, and may be killed.
const READS: u8 = 1;
const HAS_WRITTEN: u8 = 2;
/// It must end, and writes no more.
const IS_KILLED: u8 = 3;

impl Running {
    fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    fn is_function(&self) -> bool {
        self.is_function.load(Ordering::Relaxed)
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Changes from a script that only reads to another state; false if the state is another already.
    fn leave_reading(&self, state: u8) -> bool {
        self.state.compare_exchange(READS, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The registration of an interpreter, and so of its thread, among those that run scripts.
pub(super) struct Registered(Arc<Running>);

impl Registered {
    /// The registration of a server's interpreter.
    pub(super) fn new(all: &Arc<Busy>) -> Self {
        let running = Arc::new(Running {
            all: Arc::clone(all),
            state: AtomicU8::new(IDLE),
            is_function: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            function: Mutex::default(),
        });
        all.running.lock().push(Arc::clone(&running));
        Self(running)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.all.running.lock().retain(|running| !Arc::ptr_eq(running, &self.0));
    }
}

/// The error of a script ended by SCRIPT KILL.
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";
/// The error of a function ended by FUNCTION KILL.
const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL...";

/// The error of a library that takes too long to register its functions.
const LOADS_TOO_LONG: &str = "ERR FUNCTION LOAD timeout";

const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
                          either wait the script termination or kill the server in a hard way using the SHUTDOWN \
                          NOSAVE command.";

/// The reply to other connections while a script is busy.
pub const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// The same while a function is busy.
pub const FUNCTION_BUSY: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

/// A function that is running.
#[derive(Debug, Clone)]
pub struct RunningFunction {
    /// Its name.
    pub name: String,
    /// The request that called it.
    pub request: Vec<Vec<u8>>,
    began: Instant,
}

impl RunningFunction {
    /// For how long it has run.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The time limit of a running script; dropping it ends that.
pub struct Watchdog {
    running: Arc<Running>,
    began: Instant,
    name: Name,
    /// When another thread is next woken, as a run time of the script.
    wakes_at: Cell<Duration>,
    waking: OnceCell<WakingTasks>,
    /// When the tasks of its thread are next left to another one, as a run time of the script.
    leaves_at: Cell<Duration>,
    /// How long it may run, if that is limited.
    most: Option<Duration>,
    /// Why the script must end.
    end: Cell<Option<&'static str>>,
}

/// The watchdog of what a state runs, if it runs something.
pub type TheWatchdog = Rc<RefCell<Option<Watchdog>>>;

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

impl Watchdog {
    /// Begins the watchdog of a script.
    pub(super) fn of_script(place: &Registered, sha: Sha) -> Self {
        Self::begin(place, Name::Script(sha))
    }

    /// Begins the watchdog of a function.
    pub(super) fn of_function(place: &Registered, name: &str, request: Args<'_>) -> Self {
        let request = request.iter().map(<[u8]>::to_vec).collect();
        let watchdog = Self::begin(place, Name::Function(name.to_owned()));
        *watchdog.running.function.lock() =
            Some(RunningFunction { name: name.to_owned(), request, began: watchdog.began });
        watchdog
    }

    /// Begins the watchdog of a library that runs to register its functions, for no longer than `most`. Without such a
    /// limit FUNCTION KILL can still end it.
    pub(super) fn of_library(place: &Registered, name: &str, most: Option<Duration>) -> Self {
        let mut watchdog = Self::begin(place, Name::Function(name.to_owned()));
        watchdog.most = most;
        watchdog
    }

    fn begin(Registered(running): &Registered, name: Name) -> Self {
        let running = Arc::clone(running);
        running.is_function.store(matches!(name, Name::Function(_)), Ordering::Relaxed);
        running.state.store(READS, Ordering::Release);
        let (wakes_at, leaves_at) = (Cell::new(WAKE_EVERY), Cell::new(Duration::ZERO));
        let waking = OnceCell::new();
        Self { running, began: Instant::now(), name, wakes_at, waking, leaves_at, most: None, end: Cell::new(None) }
    }

    /// Checks the time; called regularly. The error says that the script must end, and why.
    pub fn look(&self) -> Result<(), &'static str> {
        self.look_at(Instant::now())
    }

    /// The same, where the time is known.
    pub fn look_at(&self, now: Instant) -> Result<(), &'static str> {
        let looked = self.compare(now);
        if let Err(reason) = looked
            && self.end.replace(Some(reason)).is_none()
        {
            tracing::info!("Lua script killed: {reason}");
        }
        looked
    }

    /// Whether it has run for so long that others are told.
    pub fn is_busy(&self) -> bool {
        self.running.is_busy()
    }

    /// Why the script must end, if it must.
    pub fn end(&self) -> Option<&'static str> {
        self.end.get()
    }

    fn compare(&self, now: Instant) -> Result<(), &'static str> {
        let has_ended = self.running.all.has_ended.load(Ordering::Relaxed);
        if has_ended || self.running.state.load(Ordering::Relaxed) == IS_KILLED {
            return Err(if self.is_of_function() { FUNCTION_KILLED } else { KILLED });
        }
        let elapsed = now.saturating_duration_since(self.began);
        if self.most.is_some_and(|most| elapsed > most) {
            return Err(LOADS_TOO_LONG);
        }
        if elapsed >= self.wakes_at.get() {
            self.waking.get_or_init(WakingTasks::default).wake_another();
            self.wakes_at.set(elapsed + WAKE_EVERY);
        }
        let threshold_ms = self.running.all.threshold_ms.load(Ordering::Relaxed);
        if threshold_ms == 0 || elapsed < Duration::from_millis(threshold_ms) {
            return Ok(());
        }
        if !self.running.is_busy.swap(true, Ordering::Relaxed) {
            self.running.all.count_busy(|count| count + 1);
            self.warn();
        }
        if self.began.elapsed() >= self.leaves_at.get() {
            leave_tasks();
            self.leaves_at.set(self.began.elapsed() + LEAVE_EVERY);
        }
        Ok(())
    }

    /// Records that the script is about to write. The error says that it was killed before, and must not.
    pub fn note_written(&self) -> Result<(), &'static str> {
        let has_written = || self.running.state.load(Ordering::Acquire) == HAS_WRITTEN;
        match has_written() || self.running.leave_reading(HAS_WRITTEN) {
            true => Ok(()),
            false if self.is_of_function() => Err(FUNCTION_KILLED),
            false => Err(KILLED),
        }
    }

    fn is_of_function(&self) -> bool {
        matches!(self.name, Name::Function(_))
    }

    #[cold]
    fn warn(&self) {
        tracing::warn!(
            "Slow script detected: still in execution after {} milliseconds. You can try killing the script using the \
             {} KILL command. Script name is: {}.",
            self.began.elapsed().as_millis(),
            if self.is_of_function() { "FUNCTION" } else { "SCRIPT" },
            self.name
        );
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if self.is_of_function() {
            *self.running.function.lock() = None;
        }
        self.running.state.store(IDLE, Ordering::Release);
        if self.running.is_busy.swap(false, Ordering::Relaxed) {
            // The next script of a transaction has no tasks to leave, and the locks are still held: requests that need
            // them are refused until the transaction ends.
            let all = Arc::clone(&self.running.all);
            worker::when_tasks_are_kept_no_more(move || all.count_busy(|count| count - 1));
        }
    }
}

/// How long SCRIPT KILL waits for the end of the script, which takes some tenths of a millisecond on a machine at rest.
const KILLED_AWAITED_MAX: Duration = Duration::from_secs(1);
/// The time between two looks whether it has ended.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

/// How often a script wakes another thread of the runtime, which looks at the network; the last one that did so may
/// have stopped at a lock since.
const WAKE_EVERY: Duration = Duration::from_millis(10);
/// How often a busy script leaves the tasks of its thread to another one.
const LEAVE_EVERY: Duration = Duration::from_millis(100);
/// How long it waits for that thread to take them.
const LEAVE_MAX: Duration = Duration::from_millis(100);

/// Leaves the tasks of this thread to another one of the runtime, which runs them while the script continues here. A
/// new thread may come too late, and then they are this thread's again: so a task reports that it was run elsewhere,
/// and a script leaves them repeatedly. Where they are left already, that costs one run of that task.
fn leave_tasks() {
    if !worker::can_leave_tasks() {
        return;
    }
    let (has_run, waits) = std::sync::mpsc::sync_channel(1);
    tokio::spawn(async move {
        // The script has stopped waiting.
        _ = has_run.send(());
    });
    // An error means that no thread has come: it is tried again.
    _ = worker::leave_tasks(|| waits.recv_timeout(LEAVE_MAX));
}

impl Busy {
    /// Changes the number of busy scripts by one.
    fn count_busy(&self, change: impl FnOnce(usize) -> usize) {
        let mut count = self.count.lock();
        let was_busy = *count > 0;
        *count = change(*count);
        let is_busy = *count > 0;
        if is_busy != was_busy {
            self.is_busy.store(is_busy, Ordering::Release);
            // Requests check for busy scripts only while there are any.
            self.listener.get().inspect(|notify| notify(is_busy));
        }
    }

    /// Sets what is called when a script begins to be busy, and when that ends; false if something is already.
    pub fn listen(&self, listener: BusyListener) -> bool {
        self.listener.set(listener).is_ok()
    }

    /// Sets after how many milliseconds a script is busy; 0 for never.
    pub fn set_threshold_ms(&self, threshold_ms: u64) {
        self.threshold_ms.store(threshold_ms, Ordering::Relaxed);
    }

    /// Ends all scripts, those that begin from now on too: the server has ended.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether a script has run for too long: requests that need data get an error.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Waits while a script is busy: taking its locks would block a thread that could end it.
    pub async fn ended(&self) {
        const PAUSE: Duration = Duration::from_millis(10);
        while self.is_busy() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The function that is running, if any; a busy one before others.
    pub fn running_function(&self) -> Option<RunningFunction> {
        let running = self.running.lock();
        let functions = |is_busy: bool| running.iter().filter(move |running| running.is_busy() == is_busy);
        functions(true).chain(functions(false)).find_map(|running| running.function.lock().clone())
    }

    /// The reply to requests that cannot run while this script, or function, is running.
    pub fn busy_reply(&self) -> &'static str {
        let is_function = self.running.lock().iter().any(|running| running.is_busy() && running.is_function());
        if is_function { FUNCTION_BUSY } else { BUSY }
    }

    /// Whether a busy script is not a function.
    pub fn runs_script(&self) -> bool {
        self.running.lock().iter().any(|running| running.is_busy() && !running.is_function())
    }

    /// SCRIPT KILL and FUNCTION KILL, each of which ends its own kind: the busy ones. The error is the reply.
    ///
    /// One that is not busy is spared: it may have begun after the one for which its client got BUSY. Two cases have no
    /// busy one to end: the next script of a transaction in which one was busy, and a server on which none ever is.
    pub fn kill(&self, is_function: bool) -> Result<(), &'static str> {
        let running = self.running.lock();
        let has_busy = running.iter().any(|running| running.is_busy());
        let spares_others = has_busy || !self.is_busy() && self.threshold_ms.load(Ordering::Relaxed) > 0;
        let meant = || running.iter().filter(|running| !running.is_idle() && (running.is_busy() || !spares_others));
        if meant().next().is_none() {
            return Err("NOTBUSY No scripts in execution right now.");
        }
        let own = meant().filter(|running| running.is_function() == is_function);
        if own.filter(|running| running.leave_reading(IS_KILLED)).count() > 0 {
            return Ok(());
        }
        match meant().find(|running| running.is_function() != is_function) {
            _ if meant().any(|running| running.state.load(Ordering::Acquire) == HAS_WRITTEN) => Err(UNKILLABLE),
            Some(other) => Err(if other.is_function() { FUNCTION_BUSY } else { BUSY }),
            // It is killed already, or has just ended.
            None => Ok(()),
        }
    }

    /// Waits until what was [killed](Self::kill) has ended, so that the next request of the client that did it gets no
    /// BUSY. It ends when it next looks at its watchdog; one that does not in time ends later. What runs besides, or
    /// next in the same transaction, is not waited for.
    pub fn wait_for_killed(&self) {
        let has_ended = || {
            let running = self.running.lock();
            let has_killed = running.iter().any(|running| running.state.load(Ordering::Acquire) == IS_KILLED);
            !self.is_busy() || !has_killed && running.iter().any(|running| !running.is_idle())
        };
        if has_ended() {
            return;
        }
        let began = Instant::now();
        worker::wait(|| {
            while !has_ended() && began.elapsed() < KILLED_AWAITED_MAX {
                std::thread::sleep(BETWEEN_LOOKS);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(threshold_ms: u64) -> (Arc<Busy>, [Registered; 2]) {
        let all = Arc::<Busy>::default();
        all.set_threshold_ms(threshold_ms);
        let places = [Registered::new(&all), Registered::new(&all)];
        (all, places)
    }

    #[test]
    fn a_kill_spares_what_is_not_busy() {
        let (all, [long, short]) = places(1);
        let (long, short) = (Watchdog::of_script(&long, [b'0'; 40]), Watchdog::of_script(&short, [b'1'; 40]));
        assert!(all.kill(false).is_err_and(|error| error.starts_with("NOTBUSY ")));
        std::thread::sleep(Duration::from_millis(2));
        long.look().expect("it is busy only now");
        assert_eq!(all.kill(false), Ok(()));
        assert_eq!((long.look(), short.running.state.load(Ordering::Relaxed)), (Err(KILLED), READS));
    }

    #[test]
    fn the_next_script_of_a_transaction_in_which_one_was_busy_is_killed() {
        let (all, [place, _]) = places(1);
        worker::keep_tasks(|| {
            let first = Watchdog::of_script(&place, [b'0'; 40]);
            std::thread::sleep(Duration::from_millis(2));
            first.look().expect("nobody has killed it");
            drop(first);
            let second = Watchdog::of_script(&place, [b'1'; 40]);
            assert_eq!(all.kill(false), Ok(()));
            assert_eq!(second.look(), Err(KILLED));
        });
        assert!(all.kill(false).is_err(), "nothing runs");
    }

    #[test]
    fn where_no_script_is_ever_busy_any_is_killed() {
        let (all, [place, _]) = places(0);
        let script = Watchdog::of_script(&place, [b'0'; 40]);
        assert_eq!(all.kill(false), Ok(()));
        assert_eq!(script.look(), Err(KILLED));
    }
}
