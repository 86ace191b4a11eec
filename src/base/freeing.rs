//! Freeing what was removed on a thread of its own, as Redis does: freeing a large collection takes nearly as long as
//! filling it, and no command needs to wait for that.

use super::tasks::{MayWait, Tasks, Turn};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};

/// Removed values that wait to be freed. What does not fit is freed by the command that removes it.
const QUEUE_MAX: usize = 1024;

/// Frees the values of one server.
#[derive(Default)]
pub struct Freeing {
    tasks: OnceLock<Tasks>,
    /// Of the thread, which the first value starts; `None` if it could not be started.
    queue: OnceLock<Option<SyncSender<Removed>>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    pending: AtomicU64,
    freed: AtomicU64,
}

/// What was removed, and how many objects it counts as.
struct Removed {
    objects: u64,
    values: Box<dyn Send>,
}

impl Freeing {
    /// From now on a thread of these tasks frees what [`take`](Self::take) receives.
    pub fn begin(&self, tasks: Tasks) {
        // The first ones stay: a server begins once.
        _ = self.tasks.set(tasks);
    }

    /// Starts the thread, which ends when nothing can be freed any more.
    fn start(&self, tasks: &Tasks) -> io::Result<SyncSender<Removed>> {
        let (sender, receiver) = sync_channel::<Removed>(QUEUE_MAX);
        let counts = Arc::clone(&self.counts);
        tasks.spawn_turns("free", move |MayWait(may_wait)| {
            let removed = match may_wait {
                true => receiver.recv().map_err(|_| TryRecvError::Disconnected),
                false => receiver.try_recv(),
            };
            match removed {
                Ok(removed) => counts.free(removed),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Turn::Last,
            }
            Turn::More
        })?;
        Ok(sender)
    }

    /// Takes values that count as this many objects, to be freed later; returns them if there is no room, or no thread.
    pub fn take(&self, objects: u64, values: Box<dyn Send>) -> Result<(), Box<dyn Send>> {
        let Some(tasks) = self.tasks.get() else { return Err(values) };
        let Some(queue) = self.queue.get_or_init(|| self.start(tasks).ok()) else { return Err(values) };
        // Counted before the thread can have freed it.
        self.counts.pending.fetch_add(objects, Ordering::Relaxed);
        queue.try_send(Removed { objects, values }).map_err(|refused| {
            self.counts.pending.fetch_sub(objects, Ordering::Relaxed);
            let (TrySendError::Full(removed) | TrySendError::Disconnected(removed)) = refused;
            removed.values
        })
    }

    /// Objects that wait to be freed.
    pub fn pending(&self) -> u64 {
        self.counts.pending.load(Ordering::Relaxed)
    }

    /// Objects that were freed here since [`reset`](Self::reset).
    pub fn freed(&self) -> u64 {
        self.counts.freed.load(Ordering::Relaxed)
    }

    /// Counts the freed objects from 0 again.
    pub fn reset(&self) {
        self.counts.freed.store(0, Ordering::Relaxed);
    }
}

impl Counts {
    fn free(&self, Removed { objects, values }: Removed) {
        drop(values);
        self.freed.fetch_add(objects, Ordering::Relaxed);
        self.pending.fetch_sub(objects, Ordering::Relaxed);
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    /// Reports the thread that drops it, once it may go on.
    struct Slow(std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<ThreadId>);

    impl Drop for Slow {
        fn drop(&mut self) {
            _ = self.0.recv_timeout(Duration::from_secs(30));
            _ = self.1.send(thread::current().id());
        }
    }

    #[test]
    fn another_thread_frees_what_has_room_and_the_rest_comes_back() {
        let freeing = Freeing::default();
        assert!(freeing.take(1, Box::new(())).is_err(), "it has not begun");
        freeing.begin(Tasks::System);
        let (go_on, wait) = channel();
        let (tell, told) = channel();
        assert!(freeing.take(7, Box::new(Slow(wait, tell))).is_ok());
        let taken = (0..2 * QUEUE_MAX).filter(|_| freeing.take(1, Box::new(())).is_ok()).count();
        // The thread may have taken the first one out of the queue meanwhile.
        assert!(taken == QUEUE_MAX - 1 || taken == QUEUE_MAX, "{taken} had room");
        assert_eq!((freeing.pending(), freeing.freed()), (7 + taken as u64, 0));
        go_on.send(()).unwrap();
        assert_ne!(told.recv().unwrap(), thread::current().id());
        while freeing.pending() > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(freeing.freed(), 7 + taken as u64);
        freeing.reset();
        assert_eq!(freeing.freed(), 0);
    }
}
