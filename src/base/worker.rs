//! Waiting on a thread that runs tasks: for a disk, or for the end of a script.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

thread_local! {
    /// Whether the tasks of this thread stay with it while it waits.
    static KEEPS_TASKS: Cell<bool> = const { Cell::new(false) };
    /// What is done when they are kept no more.
    static AFTERWARDS: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
    /// How often its tasks were left to another thread.
    static TIMES_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Whether another thread can take the tasks of this one. A log is replayed without a runtime.
pub fn can_leave_tasks() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Waits on this thread; another thread runs its tasks meanwhile if possible, and unless they are
/// [kept](keep_tasks). The waiting task continues here.
pub fn wait<R>(waits: impl FnOnce() -> R) -> R {
    if KEEPS_TASKS.get() { waits() } else { leave_tasks(waits) }
}

/// Like [`wait`], but leaves the tasks to another thread even where they are kept.
pub fn leave_tasks<R>(waits: impl FnOnce() -> R) -> R {
    if !can_leave_tasks() {
        return waits();
    }
    TIMES_LEFT.set(TIMES_LEFT.get().wrapping_add(1));
    tokio::task::block_in_place(waits)
}

/// How often the tasks of this thread were left to another one. The task that did it continues here until it next
/// waits, and has nothing to leave any more.
#[inline]
pub fn times_left() -> u32 {
    TIMES_LEFT.get()
}

/// Runs work during which [`wait`] keeps the tasks of this thread. It is for work that holds locks and may never end: a
/// task that another thread runs meanwhile may block it at one of these locks, and then no thread is left that could
/// end the work.
pub fn keep_tasks<R>(work: impl FnOnce() -> R) -> R {
    let _kept = Kept { keeps_beyond: KEEPS_TASKS.replace(true) };
    work()
}

/// Work during which tasks are kept; dropping it ends that, also after a panic.
struct Kept {
    /// Whether work around it keeps them.
    keeps_beyond: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEEPS_TASKS.set(self.keeps_beyond);
        if !self.keeps_beyond {
            AFTERWARDS.take().into_iter().for_each(|act| act());
        }
    }
}

/// Does something when no work on this thread keeps tasks any more: now, or when the outermost such work has ended.
pub fn when_tasks_are_kept_no_more(act: impl FnOnce() + 'static) {
    match KEEPS_TASKS.get() {
        true => AFTERWARDS.with_borrow_mut(|afterwards| afterwards.push(Box::new(act))),
        false => act(),
    }
}

/// Tasks that do nothing but wake the threads that run them.
#[derive(Debug, Default)]
pub struct WakingTasks {
    /// One clone for each task that has not run.
    waiting: Arc<()>,
}

impl WakingTasks {
    /// Wakes a sleeping thread of the runtime, if there is one. Work that takes long calls this from time to time: its
    /// thread may be the one that waited for the network, and where its request was all that came, tokio has woken no
    /// other. Nobody would look at the network until the work ends.
    ///
    /// The newest task of a thread stays with it and wakes nobody, so there have to be two.
    pub fn wake_another(&self) {
        while can_leave_tasks() && Arc::strong_count(&self.waiting) <= 2 {
            let waiting = Arc::clone(&self.waiting);
            tokio::spawn(async move { drop(waiting) });
        }
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn others_run_on_the_only_worker_while_a_task_waits() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (runs, has_run) = mpsc::channel();
        let waiting = runtime.spawn(async move {
            tokio::spawn(async move { runs.send(()).unwrap() });
            wait(|| has_run.recv_timeout(Duration::from_secs(20)))
        });
        assert_eq!(runtime.block_on(waiting).unwrap(), Ok(()));
    }

    #[test]
    fn tasks_that_are_kept_wait_until_they_are_left() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (runs, has_run) = mpsc::channel();
        let waiting = runtime.spawn(async move {
            tokio::spawn(async move { runs.send(()).unwrap() });
            keep_tasks(|| {
                let kept = wait(|| has_run.recv_timeout(Duration::from_millis(50)));
                (kept, leave_tasks(|| has_run.recv_timeout(Duration::from_secs(20))))
            })
        });
        assert_eq!(runtime.block_on(waiting).unwrap(), (Err(mpsc::RecvTimeoutError::Timeout), Ok(())));
    }

    #[test]
    fn what_waits_for_the_end_of_kept_tasks_is_done_after_the_outermost_work() {
        let (does, done) = mpsc::channel();
        let act = |number| {
            let does = does.clone();
            when_tasks_are_kept_no_more(move || does.send(number).unwrap());
        };
        act(1);
        assert_eq!(done.try_recv(), Ok(1));
        keep_tasks(|| {
            keep_tasks(|| act(2));
            assert!(done.try_recv().is_err());
        });
        assert_eq!(done.try_recv(), Ok(2));
    }

    #[test]
    fn without_a_runtime_it_only_waits() {
        assert_eq!(wait(|| 7), 7);
    }

    #[test]
    fn work_that_wakes_another_thread_does_not_keep_the_network_from_others() {
        use std::io::Write;
        use tokio::io::AsyncReadExt;
        // Without the wake-up, the reader finds no thread that looks at its socket, and the work waits in vain.
        for (wakes, served) in [(true, Ok(())), (false, Err(mpsc::RecvTimeoutError::Timeout))] {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
            let pair = || {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let server = listener.accept().unwrap().0;
                server.set_nonblocking(true).unwrap();
                let _runtime = runtime.enter();
                (client, tokio::net::TcpStream::from_std(server).unwrap())
            };
            let ((mut begins, mut working), (mut asks, mut reading)) = (pair(), pair());
            let (has_begun, begun) = mpsc::channel();
            let (runs, has_run) = mpsc::channel();
            let work = runtime.spawn(async move {
                working.read_u8().await.unwrap();
                has_begun.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                if wakes {
                    WakingTasks::default().wake_another();
                }
                has_run.recv_timeout(Duration::from_secs(if wakes { 20 } else { 1 }))
            });
            runtime.spawn(async move {
                reading.read_u8().await.unwrap();
                _ = runs.send(());
                // The socket stays open: the end of a connection would be an event as well.
                std::future::pending::<()>().await;
            });
            // Both threads sleep then, one of them in the network's poll.
            std::thread::sleep(Duration::from_millis(200));
            begins.write_all(b"x").unwrap();
            begun.recv().unwrap();
            asks.write_all(b"x").unwrap();
            assert_eq!(runtime.block_on(work).unwrap(), served, "wakes: {wakes}");
        }
    }
}
