//! What takes images of all keys in the background, one after the other: rewriting the log, and snapshots.

use crate::engine::{Engine, ImagePart};
use crate::keyspace::ImageSink;
use crate::rdb::{Begun, SAVES};
use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the length of the log is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Who takes an image of the keys of this process, which has one keyspace: one at a time.
pub static IMAGE: Turn = Turn(AtomicBool::new(false));

/// Something that one at a time may do.
#[derive(Debug)]
pub struct Turn(AtomicBool);

impl Turn {
    /// Takes the turn, if nobody has it.
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Gives it back.
    pub fn give_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Does what is to be done, until the runtime ends.
pub async fn run<E: Engine>(server: Arc<Server>, engine: Arc<E>) {
    loop {
        // Whatever it was that woke this, all of it is looked at.
        tokio::select! {
            () = server.rewriting.wait_for_request() => {}
            () = SAVES.wait_for_request() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Some(begun) = SAVES.take_begun() {
            finish_snapshot(begun, &engine).await;
        }
        server.rewriting.rewrite_if_due(&server, &engine).await;
        if SAVES.is_scheduled() && IMAGE.take() {
            save_as_scheduled(&server, &engine).await;
        }
    }
}

/// Makes a snapshot that had to wait.
async fn save_as_scheduled<E: Engine>(server: &Server, engine: &Arc<E>) {
    let changes = server.metrics().keyspace.changes;
    if let Some(begun) = SAVES.begin_scheduled(server.clock.now_ms(), changes) {
        let part = || ImagePart { sink: Arc::clone(&begun.snapshot) as Arc<dyn ImageSink>, at_moment: Box::new(|| ()) };
        Arc::clone(engine).begin_image((0..engine.owners()).map(|_| part()).collect()).await;
        finish_snapshot(begun, engine).await;
    } else {
        IMAGE.give_back();
    }
}

/// Walks over the keys of an image that was begun.
async fn finish_snapshot<E: Engine>(mut begun: Begun, engine: &Arc<E>) {
    begun.start_writing();
    Arc::clone(engine).walk_image().await;
    IMAGE.give_back();
    begun.snapshot.end_walk();
    // A thread that may wait for the disk.
    let noted = tokio::task::spawn_blocking(|| SAVES.end(begun)).await;
    noted.expect("ending a snapshot does not panic");
}
