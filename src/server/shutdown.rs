//! The end of a server: what asks for it, what must be saved and sent before, and how its connections end.

use super::{background, replication_tasks};
use crate::base::clock::{milliseconds, uptime_ms};
use crate::config::Directive;
use crate::config::logging::LogFile;
use crate::engine::{Engine, Logs};
use crate::state::Server;
use crate::state::stopping::{LastSnapshot, StopRequest};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How long connections may take to end when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// How often it checks whether only connections to replicas are left.
const LOOK_FOR_REPLICAS: Duration = Duration::from_millis(5);
/// How often it checks whether the first log is whole.
const LOOK_FOR_FIRST_LOG: Duration = Duration::from_millis(10);
/// How often it checks whether a script keeps the last snapshot from being made.
const LOOK_FOR_SCRIPTS: Duration = Duration::from_millis(10);
/// How long it waits for connections if a script keeps them from ending.
const DRAIN_BESIDE_SCRIPT: Duration = Duration::from_millis(200);

/// Ends the server on a signal, as `shutdown-on-sigterm` and `-sigint` say at that time. A second SIGINT, from somebody
/// at a terminal, ends it at once. A second SIGTERM does not: `timeout` and other supervisors send it to a process and
/// once more to its group, and the last snapshot would be lost. SIGHUP reopens the log file; SIGUSR1 does nothing, like
/// SIGPIPE, which Rust's runtime ignores.
pub(super) fn stop_by_signals(server: Arc<Server>, log_file: Option<LogFile>) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let describe = |error: io::Error| format!("can't listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(describe)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(describe)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(describe)?;
    let mut user = signal(SignalKind::user_defined1()).map_err(describe)?;
    tokio::spawn(async move {
        loop {
            let (name, how, may_insist) = tokio::select! {
                _ = terminate.recv() => ("SIGTERM", Directive::ShutdownOnSigterm, false),
                _ = interrupt.recv() => ("SIGINT", Directive::ShutdownOnSigint, true),
                _ = hang_up.recv() => {
                    log_file.iter().for_each(LogFile::reopen);
                    continue;
                }
                _ = user.recv() => continue,
            };
            match server.stop.ask(StopRequest::on_signal(server.config.on_signal(how))) {
                true => tracing::info!("Received {name}. User requested shutdown..."),
                false if may_insist => {
                    tracing::warn!("You insist... exiting now.");
                    std::process::exit(1);
                }
                false => tracing::info!("Received {name}; the server is ending already"),
            }
        }
    });
    Ok(())
}

/// Waits until the end is requested, and until replicas have caught up, for at most `shutdown-timeout`. Meanwhile
/// clients read, commands that may write wait, and SHUTDOWN ABORT gives up the end. Also returns how much of the time
/// is left.
pub(super) async fn must_end(server: &Server) -> (StopRequest, Duration) {
    loop {
        let request = server.stop.asked().await;
        let most = match request.is_now {
            true => Duration::ZERO,
            false => Duration::from_secs(server.config.number(Directive::ShutdownTimeout)),
        };
        let begin = Instant::now();
        if !most.is_zero() && replication_tasks::has_replicas_online(server) {
            server.pause.begin_ending();
            server.stop.begin_wait(uptime_ms() + milliseconds(most));
            tokio::select! {
                () = replication_tasks::let_catch_up(server, most) => {}
                () = server.stop.given_up() => {}
            }
        }
        if let Some(request) = server.stop.settle() {
            return (request, most.saturating_sub(begin.elapsed()));
        }
        server.pause.end_ending();
    }
}

/// A server cannot end, because it would lose its data.
pub(super) struct CannotEnd;

/// Makes the last snapshot, if one is needed, and returns whether it was made. Commands that may change data wait
/// meanwhile, and for ever once it is on the disk.
pub(super) async fn save_at_end<E: Engine>(
    server: &Arc<Server>,
    engine: &Arc<E>,
    request: StopRequest,
) -> Result<bool, CannotEnd> {
    first_log_written(server, request).await?;
    let is_wanted = match request.snapshot {
        LastSnapshot::AsConfigured => server.config.number(Directive::Save) > 0,
        LastSnapshot::Always => true,
        LastSnapshot::Never => false,
    };
    if !is_wanted {
        return Ok(false);
    }
    tracing::info!("Saving the final RDB snapshot before exiting.");
    server.pause.begin_stop();
    match save_beside_scripts(server, engine, |_| true).await {
        Some(true) => return Ok(true),
        Some(false) => {}
        None => {
            tracing::warn!("A script runs that does not end: there is no last snapshot");
            return Ok(false);
        }
    }
    if request.is_forced {
        tracing::warn!("Error trying to save the DB. Exit anyway.");
        return Ok(false);
    }
    tracing::warn!("Error trying to save the DB, can't exit.");
    server.pause.end_stop();
    Err(CannotEnd)
}

/// Waits until a first log is whole, however often it must be tried: without it the next start would not find the data.
/// A client gets an error instead, as from Redis; a signal comes from a supervisor that sends no second one.
async fn first_log_written(server: &Server, request: StopRequest) -> Result<(), CannotEnd> {
    let is_being_written = || server.has_log() && server.rewriting.is_first();
    match request {
        _ if !is_being_written() => {}
        StopRequest { is_of_client: true, is_forced: true, .. } => {
            tracing::warn!("Writing initial AOF. Exit anyway.");
        }
        StopRequest { is_of_client: true, .. } => {
            tracing::warn!("Writing initial AOF, can't exit.");
            return Err(CannotEnd);
        }
        _ => {
            tracing::info!("Writing initial AOF; the server ends when it is written. SHUTDOWN NOSAVE ends it without.");
            let mut is_told = false;
            while is_being_written() && !server.stop.may_lose_data() {
                // It begins between two commands.
                if server.services.scripting.busy.is_busy() {
                    end_scripts(server, &mut is_told, "the first log");
                }
                server.rewriting.hasten();
                tokio::time::sleep(LOOK_FOR_FIRST_LOG).await;
            }
        }
    }
    Ok(())
}

/// Makes the last snapshot again if it lacks changes that were in flight; false if it lacks them nevertheless.
pub(super) async fn save_again<E: Engine>(server: &Arc<Server>, engine: &Arc<E>) -> bool {
    let has_changed = |server: &Server| server.metrics().keyspace.changes > server.services.saves.changes_saved();
    save_beside_scripts(server, engine, has_changed).await.unwrap_or(true)
}

/// Makes the last snapshot if it is needed, and returns whether there is one; `None` if it is given up because of a
/// script.
async fn save_beside_scripts<E: Engine>(
    server: &Arc<Server>,
    engine: &Arc<E>,
    is_needed: fn(&Server) -> bool,
) -> Option<bool> {
    let (done, saved) = oneshot::channel();
    let (owned, engine) = (Arc::clone(server), Arc::clone(engine));
    // A task of its own: what was begun with the owners of the keys is not dropped halfway.
    server.tasks.spawn("last snapshot", async move {
        // Counting the changes takes the locks, and would block a thread that could end the script.
        owned.services.scripting.busy.ended().await;
        // The result is dropped if the snapshot was given up.
        let _ = done.send(!is_needed(&owned) || background::save(&owned, &engine).await);
    });
    tokio::select! {
        biased;
        saved = saved => Some(saved.unwrap_or(false)),
        () = must_give_up(server) => None,
    }
}

/// Ends scripts that keep the last snapshot from being made. Returns if the log has the data, or with SHUTDOWN NOSAVE.
async fn must_give_up(server: &Server) {
    let busy = &server.services.scripting.busy;
    let mut is_told = false;
    loop {
        tokio::time::sleep(LOOK_FOR_SCRIPTS).await;
        if !busy.is_busy() {
            continue;
        }
        if server.has_log() || server.stop.may_lose_data() {
            return;
        }
        end_scripts(server, &mut is_told, "the last snapshot");
    }
}

/// Ends scripts that keep the data from being saved, as SCRIPT KILL does. One that has written cannot be ended, so
/// `what` waits for it: the data may be nowhere else.
fn end_scripts(server: &Server, is_told: &mut bool, what: &str) {
    let busy = &server.services.scripting.busy;
    let is_ended = [false, true].map(|is_function| busy.kill(is_function).is_ok()).contains(&true);
    if !is_ended && !*is_told {
        *is_told = true;
        tracing::warn!(
            "A script that has written is running: {what} waits for its end. SHUTDOWN NOSAVE ends the server without the \
             script's changes and without {what}."
        );
    }
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
/// wait for a log that cannot be written end without their replies, and so do writes that came after the last snapshot,
/// or while the server waited for its replicas.
pub(super) async fn drain(server: &Server, tasks: &TaskTracker, logs: &Logs, is_saved: bool, left: Duration) {
    tasks.close();
    // A client that asked for a pause may promote a replica now, and what waiting clients would write would be lost.
    match is_saved || server.pause.is_ending() || server.pause.is_asked_for() {
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
        server.pause.begin_stop();
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
