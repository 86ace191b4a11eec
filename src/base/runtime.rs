//! The runtime that a server's tasks run on.

use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::runtime::Builder;

/// Connections that are woken by one visit to the network: few enough that what they read is still in the cache when
/// the shards get to it.
const CONNECTIONS_WOKEN_TOGETHER: usize = 64;
/// Polls of tasks after which the network is visited though tasks are ready.
const POLLS_PER_VISIT_TO_THE_NETWORK: u32 = 512;
/// Polls after which a thread looks at the queue that all threads share. Tasks beyond a thread's own 256 go there, and
/// a connection that is looked at seldom falls behind all others.
const POLLS_PER_LOOK_AT_THE_SHARED_QUEUE: u32 = 7;

/// How long a thread waits for tasks that another one leaves to it. Threads have counts and states of Lua of their own:
/// few should come and go.
const SPARE_THREAD_KEPT: Duration = Duration::from_secs(3600);

/// A runtime of so many threads. One thread, too, is run with the machinery for several: a command or a script
/// that takes long leaves its thread's tasks to another one.
pub fn builder(threads: NonZeroUsize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    // What is woken last would run first: one thread serves connections in the order in which they have sent something,
    // as Redis does, and tests of clients rely on it.
    #[cfg(tokio_unstable)]
    if threads.get() == 1 {
        builder.disable_lifo_slot();
    }
    builder
        .worker_threads(threads.get())
        .thread_name("worker")
        .event_interval(POLLS_PER_VISIT_TO_THE_NETWORK)
        .global_queue_interval(POLLS_PER_LOOK_AT_THE_SHARED_QUEUE)
        .thread_keep_alive(SPARE_THREAD_KEPT)
        .max_io_events_per_tick(CONNECTIONS_WOKEN_TOGETHER)
        .enable_all();
    builder
}
