//! The allocator, and its figures.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "jemalloc")]
use tikv_jemalloc_ctl::{Access, AsName, Mib};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc reads this before the first allocation: its memory is in huge pages if the kernel has them (docs/adr/0016),
/// and what has been free for ten seconds goes back to the system, by a background thread, because idle shards do not
/// call the allocator. The environment variable `_RJEM_MALLOC_CONF` overrides it.
#[cfg(feature = "jemalloc")]
#[expect(
    unsafe_code,
    reason = "jemalloc finds it by this name, which nothing else has, and reads its first word: a pointer"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 34] = b"thp:always,background_thread:true\0";

/// The allocator's name.
pub const ALLOCATOR: &str = if cfg!(feature = "jemalloc") { "jemalloc" } else { "libc" };

/// Memory in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Allocated and not freed; the resident memory if the allocator does not say.
    pub allocated: u64,
    /// The highest value of `allocated` at any reading.
    pub peak: u64,
    /// In physical memory.
    pub resident: u64,
    /// In pages of the allocator that are in use.
    pub active: u64,
    /// In physical memory, of what the allocator has.
    pub mapped: u64,
}

/// The highest result of [`used`].
static PEAK: AtomicU64 = AtomicU64::new(0);

/// The current figures.
pub fn read() -> Memory {
    let resident = resident();
    let allocated = note_peak(allocated().unwrap_or(resident));
    let (active, mapped) = pages().unwrap_or((allocated, allocated));
    Memory { allocated, peak: PEAK.load(Ordering::Relaxed), resident, active, mapped }
}

/// Bytes allocated and not freed; the resident memory if the allocator does not say.
pub fn used() -> u64 {
    allocated().map_or_else(|| read().resident, note_peak)
}

/// Bytes in physical memory. Of the files of the system that say it, this is the shortest.
fn resident() -> u64 {
    let statm = procfs::process::Process::myself().and_then(|process| process.statm());
    statm.map_or(0, |statm| statm.resident * procfs::page_size())
}

fn note_peak(used: u64) -> u64 {
    PEAK.fetch_max(used, Ordering::Relaxed);
    used
}

/// Bytes of physical memory, as they were at the first call.
pub fn of_system() -> u64 {
    use procfs::Current;
    static TOTAL: LazyLock<u64> = LazyLock::new(|| procfs::Meminfo::current().map_or(0, |memory| memory.mem_total));
    *TOTAL
}

/// The allocator's own statistics, if it has any.
#[cfg(feature = "jemalloc")]
pub fn statistics() -> Option<String> {
    let mut text = Vec::new();
    tikv_jemalloc_ctl::stats_print::stats_print(&mut text, tikv_jemalloc_ctl::stats_print::Options::default()).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The allocator's own statistics, if it has any.
#[cfg(not(feature = "jemalloc"))]
pub fn statistics() -> Option<String> {
    None
}

/// A number or a boolean that jemalloc has under this name, such as `arenas.page`, or whether there is a text; `None`
/// if there is no such name.
#[cfg(feature = "jemalloc")]
pub fn value_of(name: &[u8]) -> Option<i64> {
    let name = [name, b"\0"].concat();
    if name.iter().filter(|&&byte| byte == 0).count() > 1 {
        return None;
    }
    let name = name.name();
    let wide = || Access::<u64>::read(name).ok().map(u64::cast_signed);
    let narrow = || Access::<u32>::read(name).ok().map(i64::from);
    let truth = || Access::<bool>::read(name).ok().map(i64::from);
    wide().or_else(narrow).or_else(truth)
}

/// Other allocators have no names.
#[cfg(not(feature = "jemalloc"))]
pub fn value_of(_: &[u8]) -> Option<i64> {
    None
}

/// Returns free memory to the system at once; false if that failed. Other allocators do so on their own.
#[cfg(feature = "jemalloc")]
#[expect(unsafe_code, reason = "a name of jemalloc that takes no value: the crate's safe way always gives one")]
pub fn purge() -> bool {
    use std::ptr::null_mut;
    const ALL_ARENAS: &std::ffi::CStr = c"arena.4096.purge";
    // SAFETY: the name ends with a NUL, and null stands for no value, neither to read nor to write.
    let status = unsafe { tikv_jemalloc_sys::mallctl(ALL_ARENAS.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    status == 0
}

/// Returns free memory to the system at once; false if that failed. Other allocators do so on their own.
#[cfg(not(feature = "jemalloc"))]
pub fn purge() -> bool {
    true
}

/// Counts the memory that the current thread frees.
pub struct Meter {
    #[cfg(feature = "jemalloc")]
    counters: Option<(tikv_jemalloc_ctl::thread::ThreadLocal<u64>, tikv_jemalloc_ctl::thread::ThreadLocal<u64>)>,
    balance: u64,
}

impl Meter {
    /// A meter that counts from now on.
    pub fn start() -> Self {
        let mut meter = Self {
            #[cfg(feature = "jemalloc")]
            counters: {
                use tikv_jemalloc_ctl::thread::{allocatedp, deallocatedp};
                allocatedp::read().ok().zip(deallocatedp::read().ok())
            },
            balance: 0,
        };
        meter.balance = meter.balance();
        meter
    }

    /// How many bytes more were freed than allocated; negative if fewer. O(1), no call
    pub fn freed(&self) -> i64 {
        self.balance().wrapping_sub(self.balance) as i64
    }

    #[cfg(feature = "jemalloc")]
    fn balance(&self) -> u64 {
        self.counters.as_ref().map_or(0, |(allocated, freed)| freed.get().wrapping_sub(allocated.get()))
    }

    /// There is no count: nothing is evicted here.
    #[cfg(not(feature = "jemalloc"))]
    fn balance(&self) -> u64 {
        0
    }
}

/// jemalloc's thread caches are free memory, though jemalloc counts them as allocated: half a megabyte that comes and
/// goes.
#[cfg(feature = "jemalloc")]
fn allocated() -> Option<u64> {
    tikv_jemalloc_ctl::epoch::advance().ok()?;
    let allocated = tikv_jemalloc_ctl::stats::allocated::read().ok()?;
    let kept = CACHED.as_ref().and_then(|cached| cached.read().ok()).unwrap_or(0);
    Some(allocated.saturating_sub(kept) as u64)
}

/// The size of these caches in all arenas.
#[cfg(feature = "jemalloc")]
static CACHED: LazyLock<Option<Mib<[usize; 4]>>> =
    LazyLock::new(|| b"stats.arenas.4096.tcache_bytes\0".name().mib().ok());

#[cfg(not(feature = "jemalloc"))]
fn allocated() -> Option<u64> {
    None
}

/// The allocator's last figures: pages in use, and resident pages.
#[cfg(feature = "jemalloc")]
fn pages() -> Option<(u64, u64)> {
    use tikv_jemalloc_ctl::stats::{active, resident};
    Some((active::read().ok()? as u64, resident::read().ok()? as u64))
}

#[cfg(not(feature = "jemalloc"))]
fn pages() -> Option<(u64, u64)> {
    None
}

#[cfg(all(test, feature = "jemalloc"))]
mod tests {
    use super::*;

    #[test]
    fn what_threads_keep_to_give_out_again_is_not_in_use() {
        drop((0..100).map(|_| Box::new([1; 48])).collect::<Vec<Box<[u8; 48]>>>());
        // Other tests may read them, too, and make jemalloc count again meanwhile.
        let is_left_out = || {
            let in_use = allocated().expect("jemalloc counts");
            let given_out: usize = tikv_jemalloc_ctl::stats::allocated::read().expect("it has counted");
            let kept: usize = CACHED.as_ref().expect("it says how much it keeps").read().expect("a number of bytes");
            kept >= 48 && in_use + kept as u64 == given_out as u64
        };
        assert!((0..1000).any(|_| is_left_out()));
    }

    #[test]
    fn jemalloc_asks_for_huge_pages() {
        let mode: &'static str = b"opt.thp\0".name().read().expect("jemalloc says how it was configured");
        assert_eq!(mode.trim_end_matches('\0'), "always");
    }

    #[test]
    fn jemalloc_purges_on_a_thread_of_its_own() {
        let has_thread: bool = b"background_thread\0".name().read().expect("jemalloc says whether it has one");
        assert!(has_thread);
    }
}
