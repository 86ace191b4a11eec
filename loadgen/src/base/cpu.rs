//! The generator's own CPU time: part of every result, since it may share the machine with the
//! target.

use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;

/// CPU time of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl CpuTime {
    /// Since the process began.
    pub(crate) fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("RUSAGE_SELF is always valid");
        Self { user: duration(usage.user_time()), system: duration(usage.system_time()) }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }
}

/// CPU time of the calling thread since it began.
pub(crate) fn thread_cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("RUSAGE_THREAD is always valid");
    duration(usage.user_time()) + duration(usage.system_time())
}

/// How long, all cores together, the hypervisor has kept cores of this machine from running what was ready to, since
/// the machine began; zero where the kernel does not count it.
pub(crate) fn stolen_time() -> Duration {
    // The kernel counts for programs in hundredths of a second, whatever its own clock does.
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = text.lines().next().and_then(|all_cores| all_cores.split_whitespace().nth(8)?.parse::<u32>().ok());
    stolen.map_or(Duration::ZERO, |ticks| TICK.saturating_mul(ticks))
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin_thread(cpu: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Raises the limit on open files as far as the system permits. Connecting fails later if that is too few.
pub(crate) fn raise_open_files_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // If refused, the old limit remains, and connect() reports the error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
