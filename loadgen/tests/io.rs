//! Either way of moving bytes does the same, and a refused one is told.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;

use common::{Behaviour, Redis, Stub, failure, measure, measure_at, stderr, ways};
use nix::libc;

#[test]
fn the_json_says_which_way_was_used() {
    for io in ways() {
        let json = measure(&Stub::start(Behaviour::default()), &["-n", "100", "--io", io]);
        assert_eq!(json["generator"]["io"], io);
        assert_eq!(json["generator"]["io_uring_refused"], serde_json::Value::Null);
    }
    let json = measure(&Stub::start(Behaviour::default()), &["-n", "100"]);
    assert_eq!(json["generator"]["io"], *ways().last().unwrap());
}

#[test]
fn where_io_uring_is_refused_epoll_is_used_and_the_reason_told() {
    let redis = Redis::start();
    let port = redis.port.to_string();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.json");
    let run = without_io_uring(&["-p", &port, "-n", "1000", "--json-out-file", file.to_str().unwrap()]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(String::from_utf8_lossy(&run.stdout).contains("epoll (no io_uring: Operation not permitted"));
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(json["totals"]["requests"], 1000);
    assert_eq!(json["generator"]["io"], "epoll");
    assert!(json["generator"]["io_uring_refused"].as_str().unwrap().contains("not permitted"));
    let insisting = without_io_uring(&["-p", &port, "-n", "1000", "--io", "io_uring"]);
    assert_eq!(insisting.status.code(), Some(1));
    let said = stderr(&insisting);
    assert!(said.contains("cannot use io_uring, as --io asks for: Operation not permitted"), "{said}");
}

#[test]
fn a_storm_of_connections_goes_by_way_of_epoll() {
    let stub = Stub::start(Behaviour::default());
    assert_eq!(measure(&stub, &["--connect-storm", "-n", "20"])["generator"]["io"], "epoll");
    assert!(failure(&stub, &["--connect-storm", "-n", "20", "--io", "io_uring"]).contains("--io"));
}

#[test]
fn thousands_of_connections_on_a_thread_are_all_served() {
    let redis = Redis::start();
    for io in ways() {
        for loop_flags in [&["--pipeline", "2"][..], &["--rate-limiting", "30000"]] {
            let flags =
                ["-c", "3000", "-n", "30000", "--verify", "--key-maximum", "5000", "--ratio", "1:1", "--io", io];
            let json = measure_at(redis.port, &[&flags[..], loop_flags].concat());
            assert_eq!(json["verified"]["replies"], 30000, "{io} {loop_flags:?}");
            assert_eq!(json["verified"]["mismatches"], 0, "{io} {loop_flags:?}: {}", json["verified"]);
        }
    }
}

/// Far more is due than the stub reads, so that its sockets fill up.
#[test]
fn what_a_slow_reader_does_not_take_at_once_arrives_whole_and_in_order() {
    for io in ways() {
        let stub = Stub::start(Behaviour { delay: Duration::from_millis(1), ..Behaviour::default() });
        let flags = ["-d", "20000", "--ratio", "1:1", "--verify", "--key-maximum", "20", "-c", "2", "-n", "600"];
        for loop_flags in [&["--pipeline", "6"][..], &["--pipeline", "100", "--rate-limiting", "20000"]] {
            let json = measure(&stub, &[&flags[..], loop_flags, &["--io", io]].concat());
            assert_eq!(json["verified"]["replies"], 600, "{io} {loop_flags:?}");
            assert_eq!(json["verified"]["mismatches"], 0, "{io} {loop_flags:?}: {}", json["verified"]);
        }
    }
}

#[test]
fn several_runs_and_threads_use_rings_of_their_own() {
    for io in ways() {
        let stub = Stub::start(Behaviour::default());
        let flags = ["-n", "900", "-x", "3", "-c", "6", "-t", "3", "--warm-up", "0.1", "--pipeline", "3", "--io", io];
        assert_eq!(measure(&stub, &flags)["totals"]["requests"], 2700, "{io}");
    }
}

/// Runs the binary where `io_uring_setup` is refused, as containers do it.
fn without_io_uring(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.args(arguments);
    // SAFETY: between fork and exec, two system calls are made and nothing is allocated.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(refuse_io_uring);
    }
    command.output().expect("the binary is built")
}

/// A filter that looks at the number of the call alone.
#[allow(unsafe_code)]
fn refuse_io_uring() -> std::io::Result<()> {
    let statement = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and `filter` outlive the calls, and the kernel copies them.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
