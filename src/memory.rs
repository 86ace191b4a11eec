//! The allocator, and what it says of memory.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator's name.
pub const ALLOCATOR: &str = if cfg!(feature = "jemalloc") { "jemalloc" } else { "libc" };

/// Memory in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Asked for and not given back; the resident memory where the allocator does not say.
    pub allocated: u64,
    /// In the machine's memory.
    pub resident: u64,
    /// The most that has been resident.
    pub peak_resident: u64,
}

/// Memory as it is now.
pub fn read() -> Memory {
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    let kilobytes = |value: Option<u64>| value.unwrap_or(0) * 1024;
    let (resident, peak_resident) = status.map_or((0, 0), |status| (kilobytes(status.vmrss), kilobytes(status.vmhwm)));
    Memory { allocated: allocated().unwrap_or(resident), resident, peak_resident }
}

/// Bytes asked for and not given back; the resident memory where the allocator does not say.
pub fn used() -> u64 {
    allocated().unwrap_or_else(|| read().resident)
}

#[cfg(feature = "jemalloc")]
fn allocated() -> Option<u64> {
    tikv_jemalloc_ctl::epoch::advance().ok()?;
    tikv_jemalloc_ctl::stats::allocated::read().ok().map(|bytes| bytes as u64)
}

#[cfg(not(feature = "jemalloc"))]
fn allocated() -> Option<u64> {
    None
}
