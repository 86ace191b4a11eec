//! A snapshot on its way to one replica: from the thread that writes it to the connection that sends it.
//!
//! The thread waits while [`WAITING_MAX`] bytes wait in any pipe that is still open: the slowest replica sets the pace,
//! and one that stands still is closed by its connection's timeout. A replica that needs the length first is the
//! exception: its connection waits until everything is there, so its pipe holds bytes up to a limit, and breaks beyond
//! it.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How many bytes wait for a connection before the writing thread waits.
const WAITING_MAX: usize = 1024 * 1024;
/// How often the writing thread checks whether the replica is still there.
const LOOK: Duration = Duration::from_millis(100);

/// The bytes that are written but not sent yet.
#[derive(Debug)]
pub struct Pipe {
    /// How many bytes it holds before the writer waits; or, if all are needed before they are sent, before it breaks.
    held_max: usize,
    breaks: bool,
    state: Mutex<State>,
    has_room: Condvar,
    wakeup: Notify,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Arc<[u8]>>,
    len: usize,
    is_closed: bool,
    end: Option<Result<(), String>>,
}

/// The reading end of a pipe: dropping it closes the pipe.
#[derive(Debug)]
pub struct Outlet(Arc<Pipe>);

impl Outlet {
    /// The reading end of a pipe.
    pub fn of(pipe: &Arc<Pipe>) -> Self {
        Self(Arc::clone(pipe))
    }
}

impl std::ops::Deref for Outlet {
    type Target = Pipe;
    fn deref(&self) -> &Pipe {
        &self.0
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The result of reading a pipe.
#[derive(Debug)]
pub enum Taken {
    /// A chunk of the snapshot.
    Chunk(Arc<[u8]>),
    /// Everything was read.
    End,
    /// There is no more, for this reason.
    Broken(String),
    /// Nothing is there yet.
    Nothing,
}

impl Pipe {
    /// A pipe whose bytes are sent as they come.
    pub fn flowing() -> Self {
        Self::new(WAITING_MAX, false)
    }

    /// A pipe whose bytes are sent when all are there, up to a limit.
    pub fn gathering(bytes_max: usize) -> Self {
        Self::new(bytes_max, true)
    }

    fn new(held_max: usize, breaks: bool) -> Self {
        Self { held_max, breaks, state: Mutex::default(), has_room: Condvar::new(), wakeup: Notify::new() }
    }

    /// Puts bytes in, and waits for room; a closed pipe drops them. For the writing thread.
    fn put(&self, chunk: &Arc<[u8]>) {
        let mut state = self.state.lock();
        while state.len >= self.held_max && !state.is_closed && !self.breaks {
            self.has_room.wait_for(&mut state, LOOK);
        }
        if self.breaks && state.len + chunk.len() > self.held_max {
            let reason =
                format!("it is longer than {} bytes, and its replica has to be told its length first", self.held_max);
            state.end.get_or_insert(Err(reason));
            state.is_closed = true;
        }
        if !state.is_closed {
            state.len += chunk.len();
            state.chunks.push_back(Arc::clone(chunk));
        }
        drop(state);
        self.wakeup.notify_one();
    }

    /// Sets that everything was put in, or why there is no more.
    pub fn end(&self, how: Result<(), String>) {
        self.state.lock().end.get_or_insert(how);
        self.wakeup.notify_one();
    }

    /// Closes the reading end: later bytes are dropped.
    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.chunks.clear();
        self.has_room.notify_all();
    }

    /// Whether the reading end is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// The next chunk, or the state of the pipe.
    pub fn take(&self) -> Taken {
        let mut state = self.state.lock();
        if let Some(Err(reason)) = &state.end {
            return Taken::Broken(reason.clone());
        }
        match state.chunks.pop_front() {
            Some(chunk) => {
                state.len -= chunk.len();
                self.has_room.notify_all();
                Taken::Chunk(chunk)
            }
            None if state.end.is_some() => Taken::End,
            None => Taken::Nothing,
        }
    }

    /// How many bytes wait, once all are there; the error says why they never will be.
    pub fn whole_len(&self) -> Option<Result<usize, String>> {
        let state = self.state.lock();
        state.end.clone().map(|end| end.map(|()| state.len))
    }

    /// Waits until something was put in, or it ended.
    pub async fn changed(&self) {
        self.wakeup.notified().await;
    }
}

/// The pipes to all replicas that one snapshot is for.
#[derive(Debug, Clone)]
pub struct Pipes(pub Vec<Arc<Pipe>>);

impl io::Write for Pipes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk: Arc<[u8]> = bytes.into();
        self.0.iter().for_each(|pipe| pipe.put(&chunk));
        match self.0.iter().all(|pipe| pipe.is_closed()) {
            true => Err(io::Error::other("no replica is left that takes it")),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
