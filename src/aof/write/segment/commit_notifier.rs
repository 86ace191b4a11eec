//! Wakes, on the runtime, the connections that wait for the log.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// A round of the runtime that takes less time had nothing to do: a request takes longer.
const IDLE_ROUND_MAX: Duration = Duration::from_micros(5);

/// How the log thread notifies a task of the runtime that replies may leave.
///
/// Where fsyncs follow each other closely, the task stays awake for the next one and keeps its thread, so other threads
/// get their core (docs/adr/0019). A flag notifies it then, without a system call.
#[derive(Debug, Default)]
pub struct CommitNotifier {
    is_notified: AtomicBool,
    is_awake: AtomicBool,
    /// Whether staying awake is worth it.
    pub spins: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl CommitNotifier {
    /// Notifies the task; false if no task waits.
    pub fn notify(&self) -> bool {
        self.is_notified.store(true, Ordering::SeqCst);
        // A task that has not seen the flag before it sleeps has cleared `is_awake` first.
        self.is_awake.load(Ordering::SeqCst) || self.waker.lock().take().map(Waker::wake).is_some()
    }

    /// Waits until it is notified. It stays awake at first, for `awake_at_most`, where that is worth it.
    pub async fn notified(&self, awake_at_most: Duration) {
        if self.spins.load(Ordering::Relaxed) {
            self.is_awake.store(true, Ordering::SeqCst);
            self.spin(awake_at_most).await;
            if self.is_notified.swap(false, Ordering::SeqCst) {
                return;
            }
        }
        self.is_awake.store(false, Ordering::SeqCst);
        poll_fn(|context| {
            // Registered first: a notification from now on wakes this task.
            *self.waker.lock() = Some(context.waker().clone());
            if self.is_notified.swap(false, Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Lets all other tasks run in turn, until it is notified or has stayed awake for long enough.
    async fn spin(&self, at_most: Duration) {
        let begin = Instant::now();
        let mut round = begin;
        while !self.is_notified.load(Ordering::Relaxed) && round - begin < at_most {
            tokio::task::yield_now().await;
            if round.elapsed() < IDLE_ROUND_MAX {
                std::thread::yield_now();
            }
            round = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    /// Short, because races are between being awake and being asleep.
    const AWAKE: Duration = Duration::from_micros(5);
    const TOLD: u64 = 100_000;
    const LOST_AFTER: Duration = Duration::from_secs(10);

    /// Notifies it repeatedly, each time after the last notification has arrived.
    fn notify_in_turn(pause: impl Fn(u64) -> Duration + Send + 'static) {
        let notifier = Arc::new(CommitNotifier::default());
        let heard = Arc::new(AtomicU64::new(0));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime starts");
        runtime.spawn({
            let (notifier, heard) = (Arc::clone(&notifier), Arc::clone(&heard));
            async move {
                loop {
                    notifier.notified(AWAKE).await;
                    heard.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        for number in 0..TOLD {
            let before = heard.load(Ordering::SeqCst);
            notifier.spins.store(number % 64 < 48, Ordering::Relaxed);
            let is_told = notifier.notify();
            let begin = Instant::now();
            while is_told && heard.load(Ordering::SeqCst) == before {
                assert!(begin.elapsed() < LOST_AFTER, "news number {number} was lost");
                std::thread::yield_now();
            }
            let pause = pause(number);
            let begin = Instant::now();
            while begin.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
        runtime.shutdown_background();
    }

    #[test]
    fn no_news_are_lost_whether_it_is_awake_asleep_or_on_its_way() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let pauses: Vec<u64> = (0..TOLD).map(|_| random.u64(0..10)).collect();
        notify_in_turn(move |number| Duration::from_micros(pauses[number as usize]));
    }

    #[test]
    fn who_is_told_nothing_for_long_sleeps() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
        let notifier = Arc::new(CommitNotifier::default());
        notifier.spins.store(true, Ordering::Relaxed);
        let task = Arc::clone(&notifier);
        let task = runtime.spawn(async move { task.notified(AWAKE).await });
        runtime.block_on(async {
            while notifier.waker.lock().is_none() {
                tokio::task::yield_now().await;
            }
        });
        assert!(!notifier.is_awake.load(Ordering::SeqCst), "it says that it sleeps");
        assert!(notifier.notify(), "it can be woken");
        runtime.block_on(task).expect("it hears");
    }
}
