//! Takes snapshots of all keys in the background, one after another: for rewrites of the log, and for RDB files.

use crate::base::parallel::beside_the_runtime;
use crate::commands::{self, Bounds, Context, Transaction};
use crate::config::Directive;
use crate::engine::{Engine, OwnerSnapshot, Session};
use crate::keyspace::{Caller, SnapshotSink};
use crate::resp::{Args, Output, Span};
use crate::snapshot::{Begun, SavePoint, Saves};
use crate::state::Server;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the length of the log is checked.
const LOOK: Duration = Duration::from_millis(100);

/// How often the changes are counted while a snapshot may be due.
const LOOK_FOR_CHANGES: Duration = Duration::from_millis(500);
/// How often the snapshot at the end checks whether the one before it is over.
const LOOK_FOR_END: Duration = Duration::from_millis(5);

/// Runs what is due, until the runtime ends.
pub async fn run<E: Engine>(server: Arc<Server>, engine: Arc<E>) {
    let mut looked = Instant::now();
    let saves = &server.services.saves;
    loop {
        // Whatever woke this task, all reasons are checked.
        tokio::select! {
            () = server.rewriting.wait_for_request() => {}
            () = saves.wait_for_request() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        // Counting the changes takes the locks, and would block a thread that could end the script.
        server.services.scripting.busy.ended().await;
        if let Some(begun) = saves.take_begun() {
            finish_snapshot(saves, begun, &engine).await;
        }
        server.log_switch.end_if_unwanted(&server, &engine).await;
        server.rewriting.rewrite_if_due(&server, &engine).await;
        if saves.is_scheduled() && saves.turn.take() {
            save_as_scheduled(&server, &engine).await;
        }
        if looked.elapsed() < LOOK_FOR_CHANGES {
            continue;
        }
        looked = Instant::now();
        if let Some(SavePoint { seconds, changes }) = save_point_due(&server)
            && saves.turn.take()
        {
            tracing::info!("{changes} changes in {seconds} seconds. Saving...");
            save_as_scheduled(&server, &engine).await;
        }
    }
}

/// The save point that is due.
fn save_point_due(server: &Server) -> Option<SavePoint> {
    if server.config.number(Directive::Save) == 0 {
        return None;
    }
    let saves = &server.services.saves;
    let changes = || server.metrics().keyspace.changes.saturating_sub(saves.changes_saved());
    saves.elapsed_ms().and_then(|elapsed_ms| server.config.save_points().due(elapsed_ms, changes))
}

/// Makes a snapshot like SAVE, after the one being made; returns whether it is on the disk.
pub async fn save<E: Engine>(server: &Server, engine: &Arc<E>) -> bool {
    loop {
        let reply = call_save(server, engine).await;
        if reply.starts_with(b"-ERR Background save already") {
            tokio::time::sleep(LOOK_FOR_END).await;
            continue;
        }
        return reply.starts_with(b"+OK");
    }
}

async fn call_save<E: Engine>(server: &Server, engine: &Arc<E>) -> Vec<u8> {
    const NAME: &[u8] = b"SAVE";
    server.services.saves.note_changes(server.metrics().keyspace.changes);
    let id = commands::find_of(Args::new(NAME, &[Span::new(0, NAME.len())])).ok().flatten().expect("it is a command");
    let bounds = Bounds { databases: server.config.size(Directive::Databases), reply_bytes_max: usize::MAX };
    let args = [Span::new(0, NAME.len())];
    let transaction = Transaction::of_one(id, Args::new(NAME, &args), Context::default(), bounds, Caller::default());
    let (mut session, mut out) = (engine.session(0), Output::default());
    session.begin(Box::new(transaction));
    let mut transaction = loop {
        session.flush().await;
        session.collect(&mut out);
        match session.take_finished() {
            Some(transaction) => break transaction,
            None => session.wait().await,
        }
    };
    let replies = transaction.take_replies();
    replies.at(0..replies.len()).to_vec()
}

/// Makes a snapshot that had to wait.
async fn save_as_scheduled<E: Engine>(server: &Server, engine: &Arc<E>) {
    let (saves, changes) = (&server.services.saves, server.metrics().keyspace.changes);
    if let Some(begun) = saves.begin_scheduled(server.clock.now_ms(), changes, &server.settings().eviction) {
        let owner = || OwnerSnapshot {
            sink: Some(Arc::clone(&begun.snapshot) as Arc<dyn SnapshotSink>),
            at_moment: Box::new(|| ()),
        };
        Arc::clone(engine).begin_snapshot((0..engine.owners()).map(|_| owner()).collect()).await;
        finish_snapshot(saves, begun, engine).await;
    } else {
        saves.turn.give_back();
    }
}

/// Walks over the keys of a snapshot that has begun.
async fn finish_snapshot<E: Engine>(saves: &Arc<Saves>, mut begun: Begun, engine: &Arc<E>) {
    begun.start_writing();
    Arc::clone(engine).walk_snapshot(|| false).await;
    saves.turn.give_back();
    begun.snapshot.end_walk();
    let saves = Arc::clone(saves);
    beside_the_runtime(move || saves.end(begun)).await;
}
