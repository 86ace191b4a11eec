//! Shows that the tests can fail: bugs planted between the test and our server are found, and the reported history is
//! small.

use super::differences::FROM_7_0;
use super::pair::is_command;
use super::run::{Failure, Plan, run};
use super::{Request, compare, setup};
use std::time::Duration;

fn find(tamper: fn(&Request) -> Option<Request>) -> Box<Failure> {
    let seed = super::seed();
    let (setup, at_least, tamper) = (setup("mutex"), Duration::ZERO, Some(tamper));
    let plan = Plan { seed, setup, flags: &[], units: 50_000, at_least, tamper };
    let failure = run(plan).expect_err("the planted bug is found");
    println!("{failure}");
    failure
}

#[test]
fn a_wrong_sum_is_found() {
    let failure = find(|request| {
        let is_it = is_command(request, "INCRBY") && request.len() == 3 && request[2] == b"7";
        is_it.then(|| vec![request[0].clone(), request[1].clone(), b"8".to_vec()])
    });
    assert!(failure.history.len() <= 12, "{failure}");
}

#[test]
fn a_deadline_that_is_lost_is_found() {
    let failure = find(|request| {
        let keep = request.iter().position(|word| word.eq_ignore_ascii_case(b"KEEPTTL"));
        let is_it = is_command(request, "SET") && request.len() == 4 && keep == Some(3);
        is_it.then(|| request[..3].to_vec())
    });
    assert!(failure.history.len() <= 12, "{failure}");
}

#[test]
fn a_change_inside_a_transaction_that_is_lost_is_found() {
    let failure =
        find(|request| (is_command(request, "EXEC") && request.len() == 1).then(|| vec![b"DISCARD".to_vec()]));
    assert!(failure.history.len() <= 12, "{failure}");
}

#[test]
fn a_reply_with_one_byte_changed_is_found() {
    let words = |line: &str| harness::words(line);
    let agree = |request: &Request, ours, oracle| compare::agree(request, ours, oracle, FROM_7_0);
    for (request, ours, oracle) in [
        ("GET a", "$1\r\n1\r\n", "$1\r\n2\r\n"),
        ("GET a", "$-1\r\n", "*-1\r\n"),
        ("SET a 1", "+OK\r\n", "+ok\r\n"),
        ("TTL a", ":-1\r\n", ":100\r\n"),
        ("PEXPIRETIME a", ":1000000000000\r\n", ":1000000900000\r\n"),
        ("SMEMBERS a", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\na\r\n$1\r\nc\r\n"),
        (
            "HGETALL a",
            "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n",
            "*4\r\n$1\r\na\r\n$1\r\nd\r\n$1\r\nc\r\n$1\r\nb\r\n",
        ),
        ("LRANGE a 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"),
        ("ZSCORE a b", "$3\r\n0.2\r\n", "$19\r\n0.10000000000000001\r\n"),
        ("EVAL a 0", "$10\r\ntable: 0x1\r\n", "$8\r\nset: 0x1\r\n"),
        ("EVAL a 0", "$4\r\n 0x1\r\n", "$4\r\n 0x2\r\n"),
        ("FUNCTION LIST", "*1\r\n*1\r\n+a\r\n", "*1\r\n*1\r\n+b\r\n"),
        ("FUNCTION LIST", "*1\r\n*2\r\n+a\r\n+b\r\n", "*1\r\n*2\r\n+b\r\n+a\r\n"),
        ("FUNCTION LOAD a", "-ERR Function a already exists\r\n", "-ERR Library a already exists\r\n"),
        ("FUNCTION DELETE a", "-ERR Function a already exists\r\n", "-ERR Function b already exists\r\n"),
        ("GET a", "$3\r\n0.1\r\n", "$19\r\n0.10000000000000001\r\n"),
    ] {
        assert!(!agree(&words(request), ours.as_bytes(), oracle.as_bytes()), "{request}");
    }
    let same = "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n";
    let turned = "*4\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\na\r\n$1\r\nb\r\n";
    assert!(agree(&words("HGETALL a"), same.as_bytes(), turned.as_bytes()));
    let (ours, oracle) = ("*2\r\n*1\r\n+a\r\n*1\r\n+b\r\n", "*2\r\n*1\r\n+b\r\n*1\r\n+a\r\n");
    assert!(agree(&words("FUNCTION LIST"), ours.as_bytes(), oracle.as_bytes()));
    let (ours, oracle) = ("$10\r\ntable: 0x1\r\n", "$12\r\ntable: 0xa2f\r\n");
    assert!(agree(&words("EVAL a 0"), ours.as_bytes(), oracle.as_bytes()));
    let (ours, oracle) = ("$3\r\n0.1\r\n", "$19\r\n0.10000000000000001\r\n");
    assert!(agree(&words("ZSCORE a b"), ours.as_bytes(), oracle.as_bytes()));
}
