//! The end of a server: what asks for it, what must be saved and sent before, and how its connections end.

use super::{background, replication_tasks};
use crate::base::clock::{milliseconds, uptime_ms};
use crate::config::Directive;
use crate::config::logging::LogFile;
use crate::engine::{Engine, Logs};
use crate::state::Server;
use crate::state::pause::Paused;
use crate::state::stopping::{LastSnapshot, Stop, StopRequest};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How long connections may take to end when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// For how long no changes are permitted when a server ends.
const FOR_EVER_MS: u64 = u64::MAX >> 1;
/// How often it checks whether only connections to replicas are left.
const LOOK_FOR_REPLICAS: Duration = Duration::from_millis(5);
/// How long it waits for connections if a script keeps them from ending.
const DRAIN_BESIDE_SCRIPT: Duration = Duration::from_millis(200);

/// Ends the server on a signal. A second signal ends it at once. SIGHUP reopens the log file; SIGUSR1 does nothing,
/// like SIGPIPE, which Rust's runtime ignores.
pub(super) fn stop_by_signals(stop: Arc<Stop>, log_file: Option<LogFile>) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let describe = |error: io::Error| format!("can't listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(describe)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(describe)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(describe)?;
    let mut user = signal(SignalKind::user_defined1()).map_err(describe)?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hang_up.recv() => {
                    log_file.iter().for_each(LogFile::reopen);
                    continue;
                }
                _ = user.recv() => continue,
            }
            if !stop.ask(StopRequest::default()) {
                tracing::warn!("You insist... exiting now.");
                std::process::exit(1);
            }
            tracing::info!("User requested shutdown...");
        }
    });
    Ok(())
}

/// Waits until the end is requested, and until replicas have caught up, for at most `shutdown-timeout`. Meanwhile clients
/// read, commands that may write wait, and SHUTDOWN ABORT gives up the end. Also returns how much of the time is left.
pub(super) async fn must_end(server: &Server) -> (StopRequest, Duration) {
    loop {
        let request = server.stop.asked().await;
        let most = match request.is_now {
            true => Duration::ZERO,
            false => Duration::from_secs(server.config.number(Directive::ShutdownTimeout)),
        };
        if most.is_zero() || !replication_tasks::has_replicas_online(server) {
            return (request, most);
        }
        let begin = Instant::now();
        server.pause.begin_ending();
        server.stop.begin_wait(uptime_ms() + milliseconds(most));
        tokio::select! {
            () = replication_tasks::let_catch_up(server, most) => {}
            () = server.stop.given_up() => {}
        }
        if server.stop.end_wait() {
            return (request, most.saturating_sub(begin.elapsed()));
        }
        tracing::info!("Shutdown manually aborted.");
        server.pause.end_ending();
    }
}

/// A server cannot end, because it would lose its data.
pub(super) struct CannotEnd;

/// Makes the last snapshot, if one is needed, and returns whether it was made. Commands that may change data wait
/// meanwhile, and for ever once it is on the disk.
pub(super) async fn save_at_end<E: Engine>(
    server: &Server,
    engine: &Arc<E>,
    request: StopRequest,
) -> Result<bool, CannotEnd> {
    if server.has_log() && server.rewriting.is_first() {
        if !request.is_forced {
            tracing::warn!("Writing initial AOF, can't exit.");
            return Err(CannotEnd);
        }
        tracing::warn!("Writing initial AOF. Exit anyway.");
    }
    let is_wanted = match request.snapshot {
        LastSnapshot::AsConfigured => server.config.number(Directive::Save) > 0,
        LastSnapshot::Always => true,
        LastSnapshot::Never => false,
    };
    // A snapshot that waits for a script would wait for ever.
    if !is_wanted || server.services.scripting.busy.is_busy() {
        return Ok(false);
    }
    tracing::info!("Saving the final RDB snapshot before exiting.");
    server.pause.begin(Paused::Writes, FOR_EVER_MS);
    if background::save(server, engine).await {
        return Ok(true);
    }
    if request.is_forced {
        tracing::warn!("Error trying to save the DB. Exit anyway.");
        return Ok(false);
    }
    tracing::warn!("Error trying to save the DB, can't exit.");
    server.pause.end();
    Err(CannotEnd)
}

/// Waits until only connections to replicas are left.
async fn wait_for_others_than_replicas(server: &Server, tasks: &TaskTracker) {
    if server.replication.replicas().is_empty() {
        return tasks.wait().await;
    }
    while tasks.len() > server.replication.replicas().len() {
        tokio::time::sleep(LOOK_FOR_REPLICAS).await;
    }
}

/// Lets connections reply to what they have read, and end; replicas end when they have all changes. Connections that
/// wait for a log that cannot be written end without their replies, and so do writes that came after the last snapshot, or
/// while the server waited for its replicas.
pub(super) async fn drain(server: &Server, tasks: &TaskTracker, logs: &Logs, is_saved: bool, left: Duration) {
    tasks.close();
    match is_saved || server.pause.is_ending() {
        true => server.pause.end_for_good(),
        false => server.pause.end(),
    }
    let close_all = |how: Shutdown| server.clients.list().iter().for_each(|client| client.shut_down(how));
    let others = server.clients.list().into_iter().filter(|client| !client.is_replica());
    others.for_each(|client| client.shut_down(Shutdown::Read));
    let most = if server.services.scripting.busy.is_busy() { DRAIN_BESIDE_SCRIPT } else { DRAIN_MAX };
    let drained = tokio::time::timeout(most, wait_for_others_than_replicas(server, tasks)).await;
    if drained.is_ok() {
        // Keys do not expire any more either, because their replicas must be where this server ends.
        server.pause.begin(Paused::Writes, FOR_EVER_MS);
        replication_tasks::send_the_rest(server, left).await;
    }
    close_all(Shutdown::Read);
    if drained.is_err() || tokio::time::timeout(most, tasks.wait()).await.is_err() {
        if server.services.scripting.busy.is_busy() {
            tracing::warn!("A script runs that does not end: what it has changed is lost");
            return;
        }
        let why = if logs.control.is_failing() {
            "wait for a log that cannot be written"
        } else {
            "do not take their replies"
        };
        tracing::warn!("{} connections {why}: closing them", server.clients.len());
        close_all(Shutdown::Both);
        // Replies sent from now on reach no client.
        logs.control.give_up();
        logs.threads.iter().for_each(|thread| thread.segment().wake_released());
        tasks.wait().await;
    }
}
