//! Parallel work while a server starts, and work that may wait for the disk.
//!
//! A runtime of one thread, as tests that simulate whole servers use it, has no other threads: there all work is done
//! in turn, so that the result does not depend on threads.

use super::affinity;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use tokio::runtime::{Handle, RuntimeFlavor};

/// How many cores are available.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// How many threads wait for the disk at the same time: fsyncs that overlap share the writes of the file system's
/// journal.
const WAITING_THREADS: usize = 32;

/// Does the work for each item, on as many threads as there are cores; the results are in the order of the items.
pub fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    on_threads(cores(), items, work)
}

/// The same for work that waits for the disk most of the time.
pub fn waiting_in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    on_threads(WAITING_THREADS, items, work)
}

fn on_threads<T: Send, R: Send>(most: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = if has_one_thread() { 1 } else { most.min(items.len()) };
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let jobs = Mutex::new(items.into_iter().zip(&mut results));
    let work_on = || {
        loop {
            // A separate statement, so that the lock is not held while the work is done.
            let job = jobs.lock().next();
            let Some((item, result)) = job else { break };
            *result = Some(work(item));
        }
    };
    std::thread::scope(|scope| {
        // If the system starts no more threads, fewer do the work.
        let is_refused = |_| std::thread::Builder::new().spawn_scoped(scope, work_on).is_err();
        _ = (1..threads).any(is_refused);
        work_on();
    });
    results.into_iter().map(|result| result.expect("every item was worked on")).collect()
}

#[test]
fn results_stand_in_the_order_of_the_items() {
    let squares: Vec<u64> = (0..1000).map(|number| number * number).collect();
    assert_eq!(in_parallel((0..1000).collect(), |number: u64| number * number), squares);
    assert_eq!(waiting_in_parallel((0..1000).collect(), |number: u64| number * number), squares);
    assert!(in_parallel(Vec::<u64>::new(), |number| number).is_empty());
}

#[test]
fn work_that_waits_is_not_limited_to_the_cores() {
    let inside = Mutex::new(0);
    let entered = parking_lot::Condvar::new();
    let wait_for_others = |_| {
        let mut inside = inside.lock();
        *inside += 1;
        entered.notify_all();
        let limit = std::time::Duration::from_secs(20);
        entered.wait_while_for(&mut inside, |inside| *inside < WAITING_THREADS, limit).timed_out()
    };
    let waited_in_vain = waiting_in_parallel((0..WAITING_THREADS).collect(), wait_for_others);
    assert!(waited_in_vain.into_iter().all(|in_vain| !in_vain), "they were not there at once");
}

/// Runs something on a thread that may wait for the disk. If the runtime ends this does not return, and the work may
/// not have started.
pub async fn beside_the_runtime<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    if has_one_thread() {
        tokio::task::yield_now().await;
        return work();
    }
    match tokio::task::spawn_blocking(|| affinity::off_core(work)).await {
        Ok(done) => done,
        Err(error) if error.is_cancelled() => std::future::pending().await,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Whether this is a task of a runtime that has one thread for everything.
fn has_one_thread() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}
