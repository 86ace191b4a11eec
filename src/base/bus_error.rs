//! Failures of mapped files end the process, with a message that names the file.
//!
//! A store to a mapped file, or a load from one, is not a call that can fail. If the file system has no space for the
//! page (it shares the page with a copy, `cp --reflink`, or allocates new space for each write), cannot read it, or the
//! file was shortened, the operating system sends SIGBUS. The program cannot continue after such a store or load. What
//! was acknowledged before is in the file's pages, as after a kill (docs/adr/0018).
//!
//! SIGXFSZ, which a limit on the size of files sends, is ignored: the write fails then, as on a full disk.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Where the message goes besides the standard error output: the log file, if there is one.
static LOG: AtomicI32 = AtomicI32::new(-1);
/// The longest line of /proc/self/maps: some numbers and a path.
const LINE_MAX: usize = 4096 + 128;

/// Also reports errors to this file.
pub fn report_in(file: File) {
    // It stays open until it is replaced.
    let before = LOG.swap(file.into_raw_fd(), Ordering::Relaxed);
    if before >= 0 {
        // SAFETY: it came from a file that was given here, and nothing else has it.
        drop(unsafe { OwnedFd::from_raw_fd(before) });
    }
}

/// From now on such an error ends the process with a message.
pub fn begin() -> io::Result<()> {
    // SAFETY: the handler calls nothing but what signal-safety(7) allows, and an action of zeros is a valid one.
    let results = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        let bus = libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        action.sa_sigaction = libc::SIG_IGN;
        action.sa_flags = 0;
        [bus, libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut())]
    };
    if results == [0, 0] { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Says which file it was, and ends the process.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the operating system passes the details of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let mut line = [0; LINE_MAX];
    // Codes that are not greater mean that a process sent it.
    let path = if code > 0 { mapped_file_at(address, &mut line) } else { None };
    let Some(path) = path else {
        // SAFETY: an action of zeros is the default one; the same instruction raises the signal again when this
        // returns.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            if code <= 0 {
                libc::raise(signal);
            }
        }
        return;
    };
    for file in [libc::STDERR_FILENO, LOG.load(Ordering::Relaxed)] {
        for text in [
            b"Fatal: can't use the mapped file ".as_slice(),
            path,
            b": bus error (its disk is full or broken, or somebody has cut the file). Exiting.\n",
        ] {
            // SAFETY: the bytes are there. If it fails, nothing more can be reported.
            unsafe { libc::write(file, text.as_ptr().cast(), text.len()) };
        }
    }
    // SAFETY: it ends the process at once.
    unsafe { libc::_exit(1) }
}

/// The file that is mapped at an address, as listed by the operating system. Calls only functions that a signal handler
/// may.
fn mapped_file_at(address: usize, line: &mut [u8; LINE_MAX]) -> Option<&[u8]> {
    // SAFETY: the name ends with a zero.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if maps < 0 {
        return None;
    }
    let mut chunk = [0u8; 1024];
    let mut len = 0;
    let found = 'reading: loop {
        // SAFETY: the chunk has so much room.
        let read = unsafe { libc::read(maps, chunk.as_mut_ptr().cast(), chunk.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break None };
        for &byte in chunk.iter().take(read) {
            if byte != b'\n' {
                if let Some(place) = line.get_mut(len) {
                    *place = byte;
                    len += 1;
                }
                continue;
            }
            if let Some(path) = line.get(..len).and_then(|line| path_in(line, address)) {
                break 'reading Some(path);
            }
            len = 0;
        }
    };
    // SAFETY: it was opened above.
    unsafe { libc::close(maps) };
    found.and_then(|(from, to)| line.get(from..to))
}

/// The position of the path in a line of /proc/self/maps, `from-to rwxp offset device inode path`, if the address is
/// within.
fn path_in(line: &[u8], address: usize) -> Option<(usize, usize)> {
    let dash = line.iter().position(|&byte| byte == b'-')?;
    let space = line.iter().position(|&byte| byte == b' ')?;
    let (from, to) = (hex(line.get(..dash)?)?, hex(line.get(dash + 1..space)?)?);
    let path = line.iter().position(|&byte| byte == b'/')?;
    (from..to).contains(&address).then_some((path, line.len()))
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0usize, |number, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        number.checked_mul(16)?.checked_add(value.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_is_mapped_at_an_address_is_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a mapped file");
        std::fs::write(&path, [1; 5000]).expect("there is room");
        let file = File::open(&path).expect("it was just made");
        // SAFETY: no other code changes the file.
        let mapped = unsafe { memmap2::Mmap::map(&file) }.expect("it can be mapped");
        let found = |address: usize| mapped_file_at(address, &mut [0; LINE_MAX]).map(<[u8]>::to_vec);
        let wanted = Some(path.into_os_string().into_encoded_bytes());
        assert_eq!(found(mapped.as_ptr().addr()), wanted);
        assert_eq!(found(mapped.as_ptr().addr() + 4999), wanted);
        let memory = Box::new(0u8);
        assert_eq!(found(std::ptr::from_ref(&*memory).addr()), None, "memory that is no file");
        assert_eq!(found(1), None);
    }
}
