//! The runtime that a server's tasks run on.

use super::affinity::Pin;
use parking_lot::Mutex;
use std::any::Any;
use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Connections that one poll of the network wakes: few enough that what they read is still in the cache when the shards
/// use it.
const CONNECTIONS_WOKEN_TOGETHER: usize = 64;
/// Polls of tasks after which the network is polled even if tasks are ready.
const POLLS_PER_VISIT_TO_THE_NETWORK: u32 = 512;
/// Polls of tasks after which a thread checks the queue that all threads share. Tasks beyond a thread's own 256 go
/// there, and a rarely checked connection would wait longer than all others.
const POLLS_PER_LOOK_AT_THE_SHARED_QUEUE: u32 = 7;

/// Most spare threads: those that serve a thread's tasks while a command or a script of that thread takes long, and
/// those that wait for a disk. With none left, the tasks wait for the command.
const SPARE_THREADS_MAX: usize = 64;
/// How long an idle spare thread is kept. Each thread has counters and a Lua interpreter of its own, so few should come
/// and go.
const SPARE_THREAD_KEPT: Duration = Duration::from_secs(3600);

/// A runtime with this many threads. One thread also gets the multi-thread runtime: a command or a script that takes
/// long leaves its thread's tasks to another one (see [`worker`](super::worker)).
pub fn builder(threads: NonZeroUsize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    // With the slot, the task woken last would run first: one thread serves connections in the order in which they
    // sent, as Redis does, and the tests of client libraries rely on it.
    #[cfg(tokio_unstable)]
    if threads.get() == 1 {
        builder.disable_lifo_slot();
    }
    builder
        .worker_threads(threads.get())
        .thread_name("worker")
        .event_interval(POLLS_PER_VISIT_TO_THE_NETWORK)
        .global_queue_interval(POLLS_PER_LOOK_AT_THE_SHARED_QUEUE)
        .max_blocking_threads(SPARE_THREADS_MAX)
        .thread_keep_alive(SPARE_THREAD_KEPT)
        .max_io_events_per_tick(CONNECTIONS_WOKEN_TOGETHER)
        .enable_all();
    builder
}

/// This many runtimes of one thread, each on a core of its own as far as there are cores. Nothing moves from one to
/// another.
pub fn pinned(threads: NonZeroUsize) -> io::Result<Vec<Runtime>> {
    let start = |number: usize| {
        let pin = Pin::nth(number);
        builder(NonZeroUsize::MIN).on_thread_start(move || pin.into_iter().for_each(Pin::set)).build()
    };
    (0..threads.get()).map(start).collect()
}

/// Whether the system starts this many threads, besides those that run: tokio panics if it does not start its own.
pub fn must_have_threads(count: usize) -> io::Result<()> {
    let turn = Mutex::new(());
    let end = turn.lock();
    std::thread::scope(|scope| {
        // Dropped after the last thread was started: all of them are there at once.
        let _end = end;
        (0..count).try_for_each(|_| std::thread::Builder::new().spawn_scoped(scope, || drop(turn.lock())).map(drop))
    })
}

/// Starts a spare thread of a runtime, and keeps it. Where the system starts no more threads (a limit on processes),
/// what needs a spare thread waits for this one; tokio panics if there is none.
pub fn keep_spare_thread(runtime: &Runtime) {
    let first = runtime.spawn_blocking(|| ());
    let keep = async move {
        let mut is_kept = first.await.is_ok();
        // It fails only when the runtime ends.
        while is_kept {
            tokio::time::sleep(SPARE_THREAD_KEPT / 4).await;
            is_kept = tokio::task::spawn_blocking(|| ()).await.is_ok();
        }
    };
    drop(runtime.spawn(keep));
}

/// Ends runtimes. Threads that have not ended by then go with the process: one may wait for a name server that does not
/// reply.
pub fn end(runtimes: Vec<Runtime>, most: Duration) {
    let begin = Instant::now();
    for runtime in runtimes {
        runtime.shutdown_timeout(most.saturating_sub(begin.elapsed()));
    }
}

/// Whether this panic says that its runtime has ended. A task that waited for a lock [beside its
/// runtime](super::worker::leave_tasks) goes on when the last scripts are ended, and panics when it next waits for a
/// timer or a socket. Nobody needs it any more, and tokio has no error for it.
pub fn has_ended(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.is_some_and(|text| text.contains("context was found, but it is being shutdown"))
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::worker;
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    #[test]
    fn a_task_that_goes_on_after_the_end_of_its_runtime_panics_in_words_that_are_known() {
        let runtime = builder(NonZeroUsize::MIN).build().unwrap();
        let ((ends, ended), (waits, is_waiting), (says, said)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
        drop(runtime.spawn(async move {
            worker::leave_tasks(|| {
                waits.send(()).unwrap();
                ended.recv().unwrap();
            });
            let mut sleep = Box::pin(tokio::time::sleep(Duration::from_millis(1)));
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(catch_unwind(AssertUnwindSafe(|| sleep.as_mut().poll(context).is_ready())))
            });
            says.send(polled.await.map_err(|panic| has_ended(&*panic))).unwrap();
        }));
        is_waiting.recv().unwrap();
        end(vec![runtime], Duration::from_millis(50));
        ends.send(()).unwrap();
        assert_eq!(said.recv().unwrap(), Err(true));
        assert!(!has_ended(&"another"), "any panic would be silent");
    }

    #[test]
    fn a_thread_that_waits_for_something_outside_does_not_keep_a_runtime_from_its_end() {
        for runtimes in [vec![builder(NonZeroUsize::MIN).build().unwrap()], pinned(NonZeroUsize::MIN).unwrap()] {
            let (_reply, waits) = mpsc::channel::<()>();
            drop(runtimes[0].spawn_blocking(move || waits.recv()));
            let begin = Instant::now();
            end(runtimes, Duration::from_millis(50));
            assert!(begin.elapsed() < Duration::from_secs(20), "it has waited for the thread");
        }
    }
}
