//! Waiting on a thread that runs tasks: for a disk, or for the end of a script.

use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Whether another thread can take the tasks of this one. A log is replayed without a runtime.
pub fn can_leave_tasks() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Waits on this thread; another thread runs its tasks meanwhile if possible. The waiting task continues here.
pub fn wait<R>(waits: impl FnOnce() -> R) -> R {
    if can_leave_tasks() { tokio::task::block_in_place(waits) } else { waits() }
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
