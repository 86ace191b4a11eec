//! Scripts: requests with the replies that the documentation promises, run on every engine and on the real Redis.
//!
//! ```text
//! # a comment
//! RPUSH list a "b c" "\x00"
//! :3
//! LRANGE list 0 -1
//! *3 | $1 | a | $3 | b c | $1 | \x00
//! ```
//!
//! A request is words as in redis-cli; the line under it is its RESP2 reply, with ` | ` for each newline. The RESP3
//! reply is that of redis-server. A request that begins with `!` is unknown to Redis 7.0 and checked against its line
//! alone, in RESP2.

use super::{Client, EVERY_ENGINE, Embedded, RedisOracle, Value};
use shardrace::internals::resp::split_line;

/// The words of a line.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    split_line(line.as_bytes()).unwrap_or_else(|| panic!("unbalanced quotes: {line}"))
}

struct Step<'a> {
    line: &'a str,
    arguments: Vec<Vec<u8>>,
    reply: Vec<u8>,
    is_known_to_oracle: bool,
}

/// Runs a script on every engine and on redis-server: replies equal the script's in RESP2, and Redis's in RESP3.
pub fn check_script(script: &str) {
    let steps = parse(script);
    let oracle = RedisOracle::start();
    let expected = check_oracle(&oracle, &steps);
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &[]);
        let mut client = server.client();
        for step in &steps {
            let reply = client.call(&step.arguments);
            assert_same(step, &reply, &step.reply, &format!("{setup:?}, RESP2"));
        }
        client.call(&["FLUSHALL"]);
        let mut client = Client::connect_resp3(server.address());
        for (step, wanted) in steps.iter().zip(&expected) {
            let reply = client.call(&step.arguments);
            if let Some(wanted) = wanted {
                assert_same(step, &reply, wanted, &format!("{setup:?}, RESP3"));
            }
        }
        server.assert_serving();
    }
}

/// Checks that the script is right, and returns the replies in RESP3.
fn check_oracle(oracle: &RedisOracle, steps: &[Step<'_>]) -> Vec<Option<Vec<u8>>> {
    let mut client = oracle.client();
    for step in steps.iter().filter(|step| step.is_known_to_oracle) {
        let reply = client.call(&step.arguments);
        assert_same(step, &reply, &step.reply, "redis-server: the script is wrong");
    }
    client.call(&["FLUSHALL"]);
    let mut client = Client::connect_resp3(oracle.address());
    steps.iter().map(|step| step.is_known_to_oracle.then(|| client.call(&step.arguments))).collect()
}

#[track_caller]
fn assert_same(step: &Step<'_>, reply: &[u8], wanted: &[u8], on: &str) {
    let name = String::from_utf8_lossy(&step.arguments[0]).to_uppercase();
    if reply == wanted || same_in_any_order(&name, reply, wanted) {
        return;
    }
    panic!("on {on}\n{}\n  got  {}\n  want {}", step.line, reply.escape_ascii(), wanted.escape_ascii());
}

/// Whether two replies of a command without a promised order have the same elements.
pub fn same_in_any_order(name: &str, one: &[u8], other: &[u8]) -> bool {
    let unit = match name {
        "SMEMBERS" | "KEYS" | "HKEYS" | "HVALS" | "SPOP" | "SRANDMEMBER" | "SINTER" | "SUNION" | "SDIFF"
        | "HRANDFIELD" => 1,
        "HGETALL" => 2,
        _ => return false,
    };
    let sorted = |elements: &[Value]| {
        let mut units: Vec<Vec<Value>> = elements.chunks(unit).map(<[Value]>::to_vec).collect();
        units.sort();
        units
    };
    match (Value::of(one), Value::of(other)) {
        (Value::Array(one), Value::Array(other))
        | (Value::Set(one), Value::Set(other))
        | (Value::Map(one), Value::Map(other)) => sorted(&one) == sorted(&other),
        _ => false,
    }
}

fn parse(script: &str) -> Vec<Step<'_>> {
    let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut steps = Vec::new();
    while let Some(line) = lines.next() {
        let reply = lines.next().unwrap_or_else(|| panic!("no reply to {line}"));
        let request = line.strip_prefix('!').unwrap_or(line);
        let is_known_to_oracle = request.len() == line.len();
        steps.push(Step { line, arguments: words(request), reply: reply_bytes(reply), is_known_to_oracle });
    }
    steps
}

/// `$1 | a` as bytes; `\xHH`, `\r`, `\n` and `\t` stand for bytes, `\x7c` for a `|` of a reply.
pub(super) fn reply_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.split('|').map(str::trim) {
        let quoted = format!("\"{}\"", line.replace('"', "\\\""));
        bytes.extend(words(&quoted).concat());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Runs requests on every engine and on redis-server, all at once in each: every reply equals Redis's, in RESP2 and
/// RESP3.
pub fn check_same_as_redis(requests: &[Vec<Vec<u8>>]) {
    let oracle = RedisOracle::start();
    let run = |client: &mut Client| -> Vec<Value> {
        client.call(&["FLUSHALL"]);
        client.pipeline(requests)
    };
    let expected = run(&mut oracle.client());
    let expected_resp3 = run(&mut Client::connect_resp3(oracle.address()));
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &[]);
        let replies = run(&mut server.client());
        let replies_resp3 = run(&mut Client::connect_resp3(server.address()));
        for (replies, wanted) in [(replies, &expected), (replies_resp3, &expected_resp3)] {
            for (index, (got, wanted)) in replies.iter().zip(wanted).enumerate() {
                let show = |request: &Vec<Vec<u8>>| -> String {
                    request.iter().map(|word| format!("{} ", word.escape_ascii())).collect()
                };
                let before: String = requests[index.saturating_sub(20)..index].iter().map(|r| show(r) + "\n").collect();
                let line = show(&requests[index]);
                assert_eq!(got, wanted, "on {setup:?}, request {index}: {line}\nafter\n{before}");
            }
        }
        server.assert_serving();
    }
}
