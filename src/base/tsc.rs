//! A clock that is cheap enough to be read for every command.
//!
//! If the operating system keeps its own time by the processor's counter (clocksource `tsc`: the kernel has checked
//! that it is constant and the same on all cores), that counter is read directly, in a third of the time of the
//! operating system's clock. Elsewhere a tick is a nanosecond of that clock.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the processor's counter is read by an intrinsic"))]

use crate::base::narrowing::low_u64;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the counter is observed to measure its rate.
const WATCHED: Duration = Duration::from_millis(2);

static USES_COUNTER: AtomicBool = AtomicBool::new(false);
/// A moment on both clocks.
static ORIGIN: LazyLock<(Instant, u64)> = LazyLock::new(|| {
    USES_COUNTER.store(has_counter(), Ordering::Relaxed);
    let start = Instant::now();
    (start, if uses_counter() { counter() } else { 0 })
});

/// Chooses the clock. Called once before [`now`] is.
pub fn begin() {
    LazyLock::force(&ORIGIN);
}

/// Ticks since some moment.
#[inline]
pub fn now() -> u64 {
    if uses_counter() { counter() } else { low_u64(ORIGIN.0.elapsed().as_nanos()) }
}

/// How many ticks a microsecond has. Waits for up to two milliseconds just after [`begin`].
pub fn per_us() -> f64 {
    if !uses_counter() {
        return 1000.0;
    }
    let (start, first) = *ORIGIN;
    if let Some(rest) = WATCHED.checked_sub(start.elapsed()) {
        std::thread::sleep(rest);
    }
    let ticks = counter().saturating_sub(first);
    ticks as f64 / (start.elapsed().as_nanos() as f64 / 1000.0)
}

#[inline]
fn uses_counter() -> bool {
    cfg!(target_arch = "x86_64") && USES_COUNTER.load(Ordering::Relaxed)
}

fn has_counter() -> bool {
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64") && std::fs::read_to_string(CLOCK).is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction is part of every x86-64 processor, reads one register pair and touches no memory. Where
    // the operating system forbade it, it would not use it for its own clock in user space.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    unreachable!("only x86-64 has this counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_pass_as_time_does() {
        begin();
        let rate = per_us();
        let (start, ticks) = (Instant::now(), now());
        std::thread::sleep(Duration::from_millis(20));
        let (ticks, us) = (now() - ticks, start.elapsed().as_micros() as f64);
        let ratio = ticks as f64 / rate / us;
        assert!((0.9..1.1).contains(&ratio), "{ratio} of {us} us");
    }
}
