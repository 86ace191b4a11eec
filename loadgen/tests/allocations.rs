//! Making a request, and finding the end of its reply, allocates nothing.

// The one way to count allocations is to be the allocator; what it is given it hands on unchanged.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use clap::Parser;
use loadgen::cli::Cli;
use loadgen::config::Config;
use loadgen::requests::Requests;
use loadgen::resp::{ReplyScanner, Scanned};
use loadgen::workload::keys::{Frontier, Share};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it came; the counter is a plain
// thread-local without a destructor, which allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn a_request_is_made_without_allocating() {
    for flags in [
        &[][..],
        &["--ratio", "1:1", "--key-pattern", "Z:G", "--data-size-range", "1-5000", "--expiry-range", "1-9"],
        &["--key-pattern", "H:P", "--data-size-list", "10:1,100:5"],
        &["--key-pattern", "I:L", "--data-size-range", "1-5000", "--data-size-pattern", "Z"],
        &["--keys-per-command", "8", "--cross-shard", "30", "--target-shards", "4"],
        &["--workload", "ycsb-a"],
        &["--workload", "ycsb-e"],
        &["--workload", "session-cache"],
        &["--verify", "--ratio", "1:1"],
    ] {
        let cli = Cli::try_parse_from([&["loadgen"], flags].concat()).unwrap();
        let config = Config::from_flags(cli.run).unwrap();
        let share = Share { thread: 0, threads: 1, first_client: 0, clients: 50, clients_total: 50 };
        let mut load = Requests::new(&config, share, &Frontier::of(config.tags()));
        let mut out = Vec::with_capacity(1 << 20);
        let mut send = |requests: usize| {
            for request in 0..requests {
                out.clear();
                load.append_run(&mut out, request % 50, 1 + request as u64 % 20);
            }
        };
        send(100);
        assert_eq!(allocations(|| send(20_000)), 0, "{flags:?}");
    }
}

#[test]
fn a_reply_is_scanned_without_allocating() {
    let replies = b"+OK\r\n$3\r\nabc\r\n$-1\r\n:12\r\n*2\r\n$1\r\na\r\n$-1\r\n-ERR no\r\n%1\r\n+a\r\n:1\r\n";
    let mut scanner = ReplyScanner::new();
    let counted = allocations(|| {
        for split in 1..replies.len() {
            for piece in [&replies[..split], &replies[split..]] {
                let mut at = 0;
                while let Ok(Scanned::Reply { length, .. }) = scanner.scan(&piece[at..]) {
                    at += length;
                }
            }
        }
    });
    assert_eq!(counted, 0);
    // The counter counts.
    assert!(allocations(|| drop(vec![1; 10])) > 0);
}
