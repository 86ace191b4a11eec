//! When the log is rewritten, and with what result: BGREWRITEAOF, and automatically when the log has grown.

use crate::aof::{Layout, Rewrite, Rewriter};
use crate::base::tasks::{MayWait, Turn};
use crate::config::layout;
use crate::config::{Config, Directive};
use crate::engine::{Engine, OwnerSnapshot};
use crate::keyspace::{SnapshotSink, StreamPlace};
use crate::snapshot::Saves;
use crate::state::Server;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// How long there is no automatic rewrite after a failure: this long, then twice as long each time.
const RETRY_FIRST: Duration = Duration::from_secs(60);
const RETRY_MAX: Duration = Duration::from_secs(3600);

/// How long after a failure a first log is tried again when the server waits for it to end.
const RETRY_AT_END: Duration = Duration::from_secs(1);

/// The least time from the beginning of one rewrite to that of the next automatic one. A log that grows by more than
/// its base in that time would be rewritten all the time.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The rewrites of a server's log.
#[derive(Debug)]
pub struct Rewriting {
    saves: Arc<Saves>,
    /// Set once the log has been read, if there is one, or must begin.
    rewriter: Mutex<Option<Arc<Rewriter>>>,
    /// Whether the requested or running rewrite makes a log that ends when it is whole, because the configuration has
    /// none.
    is_for_once: AtomicBool,
    state: Mutex<State>,
    wakeup: Notify,
}

/// The result of a request to rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// It begins now.
    Started,
    /// It begins when a snapshot is on the disk.
    Scheduled,
    /// One is running already.
    Running,
}

#[derive(Debug, Default)]
struct State {
    is_requested: bool,
    /// Whether the log is being ended.
    is_ending: bool,
    /// When the running rewrite began, and the last one.
    began: Option<Instant>,
    last_began: Option<Instant>,
    last_took: Option<Duration>,
    last_failure: Option<String>,
    /// Failures since the last success, and when the last one was.
    failures: u32,
    failed: Option<Instant>,
    count: u64,
    /// The length of the log from which its growth is measured.
    base_size: u64,
}

/// Figures for INFO.
#[derive(Debug, Clone, Default)]
pub struct RewritingMetrics {
    /// Whether the log is being rewritten.
    pub is_running: bool,
    /// Whether a rewrite is scheduled.
    pub is_scheduled: bool,
    /// Seconds that the last one took; -1 if there was none.
    pub last_s: i64,
    /// Seconds since the running one began; -1 if none runs.
    pub current_s: i64,
    /// Why the last one failed, if it did.
    pub last_failure: Option<String>,
    /// How many have finished.
    pub count: u64,
    /// How many have failed since.
    pub failures_in_a_row: u32,
    /// The length of the log from which its growth is measured.
    pub base_size: u64,
}

impl Rewriting {
    /// No rewrites yet, for a server with these snapshots.
    pub fn new(saves: Arc<Saves>) -> Self {
        Self {
            saves,
            rewriter: Mutex::default(),
            is_for_once: AtomicBool::new(false),
            state: Mutex::default(),
            wakeup: Notify::new(),
        }
    }

    /// Records that the log has been read and may be rewritten from now on.
    pub fn begin(&self, rewriter: Arc<Rewriter>) {
        self.state.lock().base_size = rewriter.segments().iter().map(|segment| segment.base_bytes()).sum();
        *self.rewriter.lock() = Some(rewriter);
    }

    /// Requests a log to begin, like a rewrite: after the end of the one that is being ended, if there is one.
    pub fn begin_log(&self, rewriter: Arc<Rewriter>) {
        let mut state = self.state.lock();
        state.is_requested |= state.is_ending || !rewriter.is_on();
        *self.rewriter.lock() = Some(rewriter);
        self.wakeup.notify_one();
    }

    /// The same for a log that ends when it is whole: it holds the current data once.
    pub fn begin_log_for_once(&self, rewriter: Arc<Rewriter>) -> Requested {
        {
            let state = self.state.lock();
            self.is_for_once.fetch_or(state.began.is_none(), Ordering::Relaxed);
            *self.rewriter.lock() = Some(rewriter);
        }
        self.request()
    }

    /// Makes it check whether the log must end.
    pub fn look(&self) {
        self.wakeup.notify_one();
    }

    /// The rewriter of a log to be ended, unless one is wanted. The decision and [`begin_log`](Self::begin_log) exclude
    /// each other.
    pub fn begin_end_of_log(&self, is_wanted: impl FnOnce() -> bool) -> Option<Arc<Rewriter>> {
        let mut state = self.state.lock();
        let rewriter = self.rewriter().filter(|_| !is_wanted());
        state.is_ending = rewriter.is_some();
        rewriter
    }

    /// Records that there is no log any more, unless one is wanted again meanwhile.
    pub fn end_log(&self, is_wanted: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        state.is_ending = false;
        if !is_wanted() {
            state.is_requested = false;
            *self.rewriter.lock() = None;
        }
    }

    /// The rewriter of the log, if there is one or one must begin.
    pub fn rewriter(&self) -> Option<Arc<Rewriter>> {
        self.rewriter.lock().clone()
    }

    /// Whether a log must begin that a start would not find yet: it is being made, about to be, or tried again after a
    /// failure.
    pub fn is_first(&self) -> bool {
        self.rewriter().is_some_and(|rewriter| !rewriter.is_named())
    }

    /// Tries a first log again soon after each failure, because the server waits for it to end.
    pub fn hasten(&self) {
        let mut state = self.state.lock();
        let is_idle = state.began.is_none() && !state.is_requested;
        if is_idle && state.failed.is_none_or(|failed| failed.elapsed() >= RETRY_AT_END) {
            state.is_requested = true;
            self.wakeup.notify_one();
        }
    }

    /// Requests a rewrite of the log.
    pub fn request(&self) -> Requested {
        let mut state = self.state.lock();
        let is_saving = self.saves.is_saving();
        if state.began.is_some() || (state.is_requested && !is_saving) {
            return Requested::Running;
        }
        state.is_requested = true;
        self.wakeup.notify_one();
        if is_saving { Requested::Scheduled } else { Requested::Started }
    }

    /// Figures for INFO.
    pub fn metrics(&self) -> RewritingMetrics {
        let state = self.state.lock();
        let seconds = |took: Option<Duration>| took.map_or(-1, |took| took.as_secs() as i64);
        let is_blocked = state.is_requested && self.saves.is_saving();
        RewritingMetrics {
            // For INFO, a request that nothing delays is running.
            is_running: state.began.is_some() || (state.is_requested && !is_blocked),
            is_scheduled: is_blocked,
            last_s: seconds(state.last_took),
            current_s: seconds(state.began.map(|began| began.elapsed())),
            last_failure: state.last_failure.clone(),
            count: state.count,
            failures_in_a_row: state.failures,
            base_size: state.base_size,
        }
    }

    /// CONFIG RESETSTAT forgets the failures in a row, and with them, as in Redis, the pause that they impose.
    pub fn forget_failures(&self) {
        self.state.lock().failures = 0;
    }

    /// Waits for a request.
    pub async fn wait_for_request(&self) {
        self.wakeup.notified().await;
    }

    /// Whether a log must begin though the configuration has none.
    pub fn is_for_once(&self) -> bool {
        self.is_for_once.load(Ordering::Relaxed)
    }

    /// Rewrites the log if that is due.
    pub async fn rewrite_if_due<E: Engine>(&self, server: &Server, engine: &Arc<E>) {
        let Some(rewriter) = self.rewriter().filter(|_| server.has_log() || self.is_for_once()) else { return };
        let is_first = !rewriter.is_named();
        if !self.may_begin(&server.config, is_first) {
            return;
        }
        let before = self.size();
        tracing::info!("Background append only file rewriting started");
        let outcome = rewrite(server, &rewriter, engine).await;
        if let Ok(written) = outcome {
            tracing::info!(
                "Background AOF rewrite finished successfully: {before} bytes before, {written} in the base"
            );
        }
        self.saves.turn.give_back();
        match &outcome {
            Ok(_) if is_first => server.log_switch.note_begun(&rewriter),
            Err(_) if is_first => server.log_switch.abandon(server, engine, &rewriter).await,
            _ => {}
        }
        if self.is_for_once.swap(false, Ordering::Relaxed) {
            server.log_switch.end_if_unwanted(server, engine).await;
        }
        self.end(outcome.map(drop));
    }

    /// Whether a rewrite is due; then it is recorded as begun. A log that could not begin is tried again.
    fn may_begin(&self, config: &Config, is_first: bool) -> bool {
        let mut state = self.state.lock();
        let is_due =
            state.is_requested || if is_first { !state.is_too_early() } else { state.has_grown(self.size(), config) };
        if self.saves.is_saving() || !is_due || !self.saves.turn.take() {
            return false;
        }
        state.is_requested = false;
        state.began = Some(Instant::now());
        state.last_began = state.began;
        true
    }

    fn size(&self) -> u64 {
        let rewriter = self.rewriter();
        let segments = rewriter.iter().flat_map(|rewriter| rewriter.segments());
        segments.map(|segment| segment.file_bytes()).sum()
    }

    fn end(&self, outcome: Result<(), String>) {
        let mut state = self.state.lock();
        state.last_took = state.began.take().map(|began| began.elapsed());
        state.last_failure = outcome.err();
        match &state.last_failure {
            None => {
                state.count += 1;
                state.failures = 0;
                state.base_size = self.size();
            }
            Some(reason) => {
                let place = self.rewriter().map(|rewriter| format!(" in {}", rewriter.dir().display()));
                let place = place.unwrap_or_default();
                tracing::error!("Background AOF rewrite failed, the log{place} stays as it was: {reason}");
                state.failures += 1;
                state.failed = Some(Instant::now());
            }
        }
    }
}

impl State {
    fn has_grown(&self, size: u64, config: &Config) -> bool {
        let percentage = config.number(Directive::AutoAofRewritePercentage);
        if percentage == 0 || size <= config.number(Directive::AutoAofRewriteMinSize) || self.is_too_early() {
            return false;
        }
        let growth = u128::from(size) * 100 / u128::from(self.base_size.max(1));
        growth >= u128::from(percentage) + 100
    }

    fn is_too_early(&self) -> bool {
        let is_within = |moment: Option<Instant>, pause| moment.is_some_and(|moment| moment.elapsed() < pause);
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_MAX);
        is_within(self.last_began, INTERVAL_MIN) || (self.failures > 0 && is_within(self.failed, pause))
    }
}

async fn rewrite<E: Engine>(server: &Server, rewriter: &Arc<Rewriter>, engine: &Arc<E>) -> Result<u64, String> {
    if let Some(reason) = server.log_control.failure() {
        return Err(format!("the log cannot be written: {reason}"));
    }
    let epoch = server.log_control.next_epoch(server.clock.now_ms());
    let (begun, has_begun) = oneshot::channel();
    let (ended, has_ended) = oneshot::channel();
    let layout = layout(&server.config);
    let (begun, ended) = (Some(begun), Some(ended));
    let mut writing = Writing { rewriter: Arc::clone(rewriter), epoch, layout, begun, ended, rewrite: None, turns: 0 };
    let thread = server.tasks.spawn_turns("rewrite", move |may_wait| writing.take_turn(may_wait));
    thread.map_err(|error| format!("can't start a thread: {error}"))?;
    if let Ok(walk) = has_begun.await {
        let rewrite = &walk.rewrite;
        // A replica takes the data between two groups of its master, and the log says which.
        let turn = server.replication.turn().await;
        let place = server.replication.place_to_note();
        let owners = rewrite.bases().enumerate().map(|(index, base)| {
            let segment = Arc::clone(&rewriter.segments()[index]);
            let place = place.as_ref().filter(|_| index == 0).map(StreamPlace::payload);
            let go_on = Arc::clone(rewrite);
            let at_moment = move || {
                go_on.go_on(index);
                place.iter().for_each(|place| segment.append_payload(place));
            };
            OwnerSnapshot { sink: Some(base as Arc<dyn SnapshotSink>), at_moment: Box::new(at_moment) }
        });
        let announced = server.log_control.announce_recording().await;
        Arc::clone(engine).begin_snapshot(owners.collect()).await;
        drop(announced);
        drop(turn);
        Arc::clone(engine).walk_snapshot(|| false).await;
        walk.end();
    }
    has_ended.await.unwrap_or_else(|_| Err("its thread has ended".into()))
}

fn begin(rewriter: &Rewriter, epoch: u64, layout: &Layout) -> std::io::Result<Rewrite> {
    if rewriter.is_on() { rewriter.begin(epoch) } else { rewriter.begin_log(epoch, layout) }
}

/// The walk over the keys of a rewrite. If it is dropped before its end, the server has stopped: the thread that writes
/// would wait for more for ever, and keep the directory locked.
struct Walk {
    rewrite: Arc<Rewrite>,
    is_complete: bool,
}

impl Walk {
    fn end(mut self) {
        self.is_complete = true;
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if !self.is_complete {
            self.rewrite.give_up("the server stops");
        }
        self.rewrite.end_walk();
    }
}

/// What makes the files, writes what the walk puts into them, and lets them be the log.
struct Writing {
    rewriter: Arc<Rewriter>,
    epoch: u64,
    layout: Layout,
    begun: Option<oneshot::Sender<Walk>>,
    /// Told how long they are.
    ended: Option<oneshot::Sender<Result<u64, String>>>,
    rewrite: Option<Arc<Rewrite>>,
    turns: usize,
}

impl Writing {
    fn take_turn(&mut self, may_wait: MayWait) -> Turn {
        match self.go_on(may_wait).transpose() {
            None => Turn::More,
            Some(written) => {
                if let Some(ended) = self.ended.take() {
                    // If the receiver is gone, it has ended with the server.
                    let _ = ended.send(written);
                }
                Turn::Last
            }
        }
    }

    /// How long the files are, when they are the log.
    fn go_on(&mut self, may_wait: MayWait) -> Result<Option<u64>, String> {
        let rewrite = match &self.rewrite {
            Some(rewrite) => Arc::clone(rewrite),
            None => self.begin()?,
        };
        self.turns += 1;
        if self.rewriter.write_out(&rewrite, self.turns, may_wait) {
            return Ok(None);
        }
        self.rewriter.finish(&rewrite)?;
        Ok(Some(rewrite.len()))
    }

    fn begin(&mut self) -> Result<Arc<Rewrite>, String> {
        let rewrite = begin(&self.rewriter, self.epoch, &self.layout).map_err(|error| error.to_string())?;
        let rewrite = Arc::new(rewrite);
        let begun = self.begun.take().expect("it is begun once");
        begun.send(Walk { rewrite: Arc::clone(&rewrite), is_complete: false }).map_err(|_| "the server stops")?;
        Ok(Arc::clone(self.rewrite.insert(rewrite)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::{FsyncPolicy, LogControl, LogThread, Manifest, PendingCommits, Segment, SystemDisk};
    use crate::commands::Services;
    use crate::keyspace::Instance;
    use std::path::Path;

    /// The rewriter of a server that has no log.
    fn without_log(instance: &Instance, dir: &Path) -> (Arc<Rewriter>, LogThread) {
        let control = LogControl::new(FsyncPolicy::Everysec);
        let started = Segment::start_without_log(control, Arc::new(PendingCommits::default()));
        let (segment, thread) = started.expect("there are threads");
        let (disk, manifest) = (Arc::new(SystemDisk), Manifest::default());
        (Arc::new(Rewriter::new(instance, disk, dir.to_owned(), manifest, vec![segment])), thread)
    }

    #[test]
    fn a_first_log_that_was_requested_and_has_not_begun_is_one_that_the_end_waits_for() {
        let (instance, dir) = (Instance::default(), tempfile::tempdir().expect("a temporary directory"));
        let (rewriter, thread) = without_log(&instance, dir.path());
        let rewriting = Rewriting::new(Arc::clone(&Services::of(&instance).saves));
        assert!(!rewriting.is_first());
        rewriting.begin_log(rewriter);
        assert!(rewriting.is_first(), "the server may end without the data");
        rewriting.end(Err("the disk is full".into()));
        rewriting.state.lock().is_requested = false;
        assert!(rewriting.is_first(), "a failure does not save the data");
        rewriting.end_log(|| false);
        assert!(!rewriting.is_first(), "the server waits for a log that nobody wants");
        thread.finish().expect("nothing is written");
    }

    #[test]
    fn a_walk_that_is_dropped_with_its_server_ends_the_thread_that_writes() {
        let (instance, dir) = (Instance::default(), tempfile::tempdir().expect("a temporary directory"));
        let (rewriter, thread) = without_log(&instance, dir.path());
        let layout = Layout { engine: "mutex".into(), shards: 1 };
        let rewrite = Arc::new(rewriter.begin_log(1, &layout).expect("there is room"));
        let walk = || Walk { rewrite: Arc::clone(&rewrite), is_complete: false };
        assert!(rewriter.write_out(&rewrite, 0, MayWait(false)), "the walk has not ended");
        drop(walk());
        rewriter.write_out(&rewrite, 0, MayWait(false));
        assert!(!rewriter.write_out(&rewrite, 0, MayWait(false)), "it waits for more");
        rewriter.finish(&rewrite).expect_err("not all keys are there");
        thread.finish().expect("nothing is written");
    }
}
