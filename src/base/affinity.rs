//! The cores that a thread may run on, where worker threads are pinned.
//!
//! A thread inherits the cores of the one that starts it. What a pinned thread starts, or leaves to another thread, is
//! work beside the runtime: it may use every core that the process has.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;

/// A core of a thread, among those that the process may use.
#[derive(Clone, Copy)]
pub struct Pin {
    core: usize,
    all: CpuSet,
}

thread_local! {
    /// Where this thread is pinned.
    static PIN: Cell<Option<Pin>> = const { Cell::new(None) };
}

impl Pin {
    /// The `number`-th core that this thread may use, round and round; `None` if the kernel names none.
    pub fn nth(number: usize) -> Option<Self> {
        let all = sched_getaffinity(None).ok()?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
        let core = *cores.get(number % cores.len().max(1))?;
        Some(Self { core, all })
    }

    /// Keeps this thread on the core.
    pub fn set(self) {
        PIN.set(Some(self));
        self.go_to_core();
    }

    fn go_to_core(self) {
        let mut only = CpuSet::new();
        only.set(self.core);
        run_on(&only);
    }
}

fn run_on(cores: &CpuSet) {
    // Where it is refused, the kernel chooses a core, as it does without pinning.
    let _ = sched_setaffinity(None, cores);
}

/// Work for a thread that this one starts: not on this one's core alone.
pub fn beside<R>(work: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let pin = PIN.get();
    move || {
        pin.iter().for_each(|pin| run_on(&pin.all));
        work()
    }
}

/// Does work on a thread of its own, and waits for it; on this thread, if the system starts no other.
pub fn on_own_thread<R: Send>(work: &(impl Fn() -> R + Sync)) -> R {
    std::thread::scope(|scope| match std::thread::Builder::new().spawn_scoped(scope, beside(work)) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(_) => work(),
    })
}

/// Does work on this thread, not on its core alone. Then the thread may serve a runtime again.
pub fn off_core<R>(work: impl FnOnce() -> R) -> R {
    let Some(pin) = PIN.get() else { return work() };
    run_on(&pin.all);
    let result = work();
    pin.go_to_core();
    result
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cores() -> u32 {
        sched_getaffinity(None).unwrap().count()
    }

    #[test]
    fn a_pinned_thread_has_one_core_and_what_it_leaves_to_others_has_all() {
        std::thread::spawn(|| {
            let all = cores();
            Pin::nth(0).unwrap().set();
            assert_eq!(cores(), 1);
            assert_eq!(std::thread::spawn(cores).join().unwrap(), 1, "it is inherited");
            assert_eq!(std::thread::spawn(beside(cores)).join().unwrap(), all);
            assert_eq!(off_core(cores), all);
            assert_eq!(cores(), 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn work_of_a_thread_that_is_not_pinned_runs_as_it_is() {
        let all = cores();
        assert_eq!((off_core(cores), std::thread::spawn(beside(cores)).join().unwrap()), (all, all));
    }
}
