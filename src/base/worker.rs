//! Waiting on a thread that runs tasks: for a disk, or for the end of a script.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Whether another thread can take the tasks of this one. A log is replayed without a runtime.
pub fn can_leave_tasks() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Waits on this thread; another thread runs its tasks meanwhile if possible. The waiting task continues here.
pub fn wait<R>(waits: impl FnOnce() -> R) -> R {
    if can_leave_tasks() { tokio::task::block_in_place(waits) } else { waits() }
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
}
