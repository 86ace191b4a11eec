//! Where replies may differ: Shardrace follows Redis 7.2 and is compared with 7.0.15, as it is in Debian, with 7.2
//! itself where that is, and scripts with 8.2, too. Each entry says why, allows as little as possible, and has an
//! example of the difference; a test fails if the example does not differ.

use super::{Request, redis_7_2, redis_8};
use harness::generator::requests::name_of;
use harness::{Client, RedisOracle, Server, Setup, Value, words};

/// An allowed difference.
pub struct Difference {
    name: &'static str,
    /// Why.
    why: &'static str,
    /// Requests; the replies to the last differ.
    example: &'static [&'static str],
    is_it: fn(&Request, &Value, &Value) -> bool,
}

/// The differences from a version that are allowed.
pub type Allowed = &'static [&'static [Difference]];

/// Those from Redis 7.0.
pub const FROM_7_0: Allowed = &[FROM_ANY, ONLY_FROM_7_0];
/// Those from Redis 7.2.
pub const FROM_7_2: Allowed = &[FROM_ANY, SENT_AS_THEY_ARE];
/// Those of scripts from Redis 8.2.
pub const FROM_8_2: Allowed = &[SENT_AS_THEY_ARE, ONLY_FROM_8_2];

const FROM_ANY: &[Difference] = &[
    Difference {
        name: "the last entry of a stream",
        why: "since 7.4 XREAD takes + for it",
        example: &["XADD s 1-0 f v", "XREAD STREAMS s +"],
        is_it: |request, _, oracle| {
            const REFUSED: &str = "ERR Invalid stream ID specified as stream command argument";
            matches!(name_of(request).as_str(), "XREAD" | "XREADGROUP")
                && request.iter().any(|word| word == b"+")
                && *oracle == Value::Error(REFUSED.into())
        },
    },
    Difference {
        name: "functions of one library whose names differ in case alone",
        why: "Redis registers both, and calls the one that comes first in a hash table; here the library is refused",
        example: &["FUNCTION LOAD \"#!lua name=lib\nredis.register_function('f', function() return 1 end) \
                    redis.register_function('F', function() return 2 end)\""],
        is_it: |request, ours, oracle| {
            const REFUSED: &str = "ERR Error registering functions: ERR Function already exists in the library";
            name_of(request) == "FUNCTION" && *ours == Value::Error(REFUSED.into()) && matches!(oracle, Value::Bulk(_))
        },
    },
];

const SENT_AS_THEY_ARE: &[Difference] = &[Difference {
    name: "line feeds in errors",
    why: "7.0 replaces them by spaces, as the protocol needs it; 7.2 and 8.2 send the errors of scripts as they are",
    example: &[r#"EVAL "error('a\\nb')" 0"#],
    is_it: |request, ours, oracle| match (ours, oracle) {
        (Value::Error(ours), Value::Error(oracle)) => {
            let in_one_line = |byte: &u8| if *byte == b'\n' { b' ' } else { *byte };
            is_of_script(request) && oracle.iter().map(in_one_line).eq(ours.iter().copied())
        }
        _ => false,
    },
}];

const ONLY_FROM_7_0: &[Difference] = &[
    Difference {
        name: "digits of scores",
        why: "7.0 prints a double with 17 digits as C does, 7.2 with about as few as give it back and with exponents of its own",
        example: &["ZADD z 0.1 m", "ZSCORE z m"],
        is_it: |request, ours, oracle| replies_scores(request) && same_but_for_digits(ours, oracle),
    },
    Difference {
        name: "timeouts that do not end",
        why: "7.0 lets them overflow and calls them negative, 7.2 says that they are out of range",
        example: &["BLPOP l inf"],
        is_it: |request, ours, oracle| {
            let is_blocking = name_of(request).starts_with('B');
            let is_error = |reply: &Value, text: &str| *reply == Value::Error(text.into());
            is_blocking && is_error(ours, "ERR timeout is out of range") && is_error(oracle, "ERR timeout is negative")
        },
    },
    Difference {
        name: "the least rank of LPOS",
        why: "7.2 refuses a rank that has no positive counterpart",
        example: &["RPUSH l a", "LPOS l a RANK -9223372036854775808"],
        is_it: |request, ours, _| {
            const REFUSED: &[u8] =
                b"ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
            name_of(request) == "LPOS"
                && request.iter().any(|word| word == b"-9223372036854775808")
                && matches!(ours, Value::Error(text) if text == REFUSED)
        },
    },
    Difference {
        name: "XSETID below what was deleted",
        why: "7.2 refuses a last ID that is smaller than that of an entry that was deleted",
        example: &["XADD s 5-0 f v", "XDEL s 5-0", "XSETID s 4-0"],
        is_it: |request, ours, oracle| {
            const REFUSED: &str = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
            name_of(request) == "XSETID"
                && *ours == Value::Error(REFUSED.into())
                && *oracle == Value::Simple("OK".into())
        },
    },
    Difference {
        name: "keys without IDs",
        why: "7.2 names the command, and > where a group reads",
        example: &["XREAD STREAMS a b 0"],
        is_it: |request, ours, oracle| {
            let text = match name_of(request).as_str() {
                "XREAD" => {
                    "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."
                }
                _ => "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
            };
            let theirs = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";
            *ours == Value::Error(text.into()) && *oracle == Value::Error(theirs.into())
        },
    },
    Difference {
        name: "encoding of small lists",
        why: "7.2 keeps a small list as one listpack, 7.0 has quicklists only",
        example: &["RPUSH l a", "OBJECT ENCODING l"],
        is_it: |request, ours, oracle| is_object_encoding(request) && are(ours, "listpack", oracle, "quicklist"),
    },
    Difference {
        name: "encoding of small sets",
        why: "7.2 keeps a small set of strings as a listpack, 7.0 as a hash table",
        example: &["SADD s a", "OBJECT ENCODING s"],
        is_it: |request, ours, oracle| is_object_encoding(request) && are(ours, "listpack", oracle, "hashtable"),
    },
    Difference {
        name: "encoding of sorted sets by what may come",
        why: "7.2 makes a sorted set large before it adds a range by score or member, or as many members as are too many",
        example: &["ZADD z 1 a", "ZRANGESTORE d z 0 5 BYSCORE", "OBJECT ENCODING d"],
        is_it: |request, ours, oracle| is_object_encoding(request) && are(ours, "skiplist", oracle, "listpack"),
    },
    Difference {
        name: "activity of consumers",
        why: "7.2 tells since when a consumer got nothing: inactive in XINFO CONSUMERS, active-time in XINFO STREAM FULL",
        example: &["XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g c", "XINFO CONSUMERS s g"],
        is_it: |request, ours, oracle| {
            name_of(request) == "XINFO"
                && super::compare::same_but_for_times(&without(ours, &[b"inactive", b"active-time"]), oracle)
        },
    },
];

const ONLY_FROM_8_2: &[Difference] = &[Difference {
    name: "the sign of zero",
    why: "8.2 writes numbers that are integers as integers when they are arguments of a command, and -0 as 0",
    example: &[r#"EVAL "return redis.call('ECHO', -0)" 0"#],
    is_it: |request, ours, oracle| is_of_script(request) && are(ours, "-0", oracle, "0"),
}];

impl Difference {
    /// Whether two replies differ in this way.
    pub fn allows(&self, request: &Request, ours: &Value, oracle: &Value) -> bool {
        (self.is_it)(request, ours, oracle)
    }
}

/// Whether Redis 7.2 does a request wrong, so that the data or later replies differ: it cannot judge these.
pub fn is_wrong_in_7_2(request: &Request) -> bool {
    let has = |word: &str| request.iter().any(|argument| argument.eq_ignore_ascii_case(word.as_bytes()));
    let is_wide = |index: &Vec<u8>| {
        let number = std::str::from_utf8(index).ok().and_then(|text| text.parse::<i64>().ok());
        number.is_some_and(|number| i32::try_from(number).is_err())
    };
    match name_of(request).as_str() {
        // One that fails in a transaction has no reply.
        "AUTH" => true,
        "HELLO" if has("AUTH") => true,
        // A name ends at its first zero, and what follows is not looked at.
        "HELLO" | "CLIENT" => has("SETNAME") && request.iter().any(|word| word.contains(&0)),
        // The index has 32 bits: 2^63 - 2 is -2.
        "LSET" => request.get(2).is_some_and(is_wide),
        // A small integer is an object of the server's start, and its clock did not run then.
        "OBJECT" => has("IDLETIME"),
        // PFCOUNT and PFMERGE take some sparse HyperLogLogs with something after their end for whole ones.
        "APPEND" => request.get(1).is_some_and(|key| key.windows(3).any(|part| part == b"hll")),
        _ => false,
    }
}

/// Whether a script or a function makes the reply.
pub fn is_of_script(request: &Request) -> bool {
    ["EVAL", "EVAL_RO", "EVALSHA", "EVALSHA_RO", "FCALL", "FCALL_RO"].contains(&name_of(request).as_str())
}

fn are(ours: &Value, our_text: &str, oracle: &Value, their_text: &str) -> bool {
    *ours == Value::Bulk(our_text.into()) && *oracle == Value::Bulk(their_text.into())
}

fn is_object_encoding(request: &Request) -> bool {
    name_of(request) == "OBJECT" && request.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"ENCODING"))
}

fn replies_scores(request: &Request) -> bool {
    let name = name_of(request);
    let is_of_sorted_sets = name.starts_with('Z') || name.starts_with("BZ");
    is_of_sorted_sets || matches!(name.as_str(), "GEOSEARCH" | "GEORADIUS" | "GEORADIUSBYMEMBER")
}

/// Equal, except for the form of doubles: ours have fewer digits.
fn same_but_for_digits(ours: &Value, oracle: &Value) -> bool {
    match (ours, oracle) {
        (Value::Array(ours), Value::Array(oracle))
        | (Value::Set(ours), Value::Set(oracle))
        | (Value::Map(ours), Value::Map(oracle)) => {
            ours.len() == oracle.len()
                && ours.iter().zip(oracle).all(|(ours, oracle)| same_but_for_digits(ours, oracle))
        }
        (Value::Bulk(ours), Value::Bulk(oracle)) | (Value::Double(ours), Value::Double(oracle)) => {
            ours == oracle || is_same_double(ours, oracle)
        }
        _ => ours == oracle,
    }
}

fn is_same_double(ours: &[u8], oracle: &[u8]) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let (Some(our_number), Some(their_number)) = (number(ours), number(oracle)) else { return false };
    const INTEGRAL_MAX: f64 = (1_u64 << 62) as f64;
    let is_integral = our_number.abs() < INTEGRAL_MAX && ours == format!("{}", our_number as i64).as_bytes();
    // In a listpack 7.2 stores integral scores as integers, and an integer zero has no sign.
    if ours == b"0" && oracle == b"-0" {
        return true;
    }
    our_number.to_bits() == their_number.to_bits() && (is_integral || digits(oracle).len() >= digits(ours).len())
}

/// The significant digits, without the exponent.
fn digits(number: &[u8]) -> Vec<u8> {
    let mantissa = number.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'));
    let digits: Vec<u8> = mantissa.copied().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0').collect();
    let len = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    digits[..len].to_vec()
}

/// A reply without the fields of these names.
fn without(value: &Value, names: &[&[u8]]) -> Value {
    let is_one = |value: &Value| matches!(value, Value::Bulk(name) if names.contains(&name.as_slice()));
    let rest = |elements: &[Value]| {
        let mut rest = Vec::new();
        let mut at = 0;
        while at < elements.len() {
            let has_value = matches!(elements.get(at + 1), Some(Value::Integer(_)));
            if is_one(&elements[at]) && has_value {
                at += 2;
                continue;
            }
            rest.push(without(&elements[at], names));
            at += 1;
        }
        rest
    };
    match value {
        Value::Array(elements) => Value::Array(rest(elements)),
        Value::Map(elements) => Value::Map(rest(elements)),
        other => other.clone(),
    }
}

#[test]
fn every_difference_that_is_allowed_is_there_and_has_a_reason() {
    are_there(FROM_7_0, &RedisOracle::start());
}

#[test]
fn every_difference_from_redis_7_2_that_is_allowed_is_there_and_has_a_reason() {
    let Some(program) = redis_7_2() else { return };
    are_there(FROM_7_2, &RedisOracle::start_master(&program, &[]));
}

#[test]
fn every_difference_from_redis_8_that_is_allowed_is_there_and_has_a_reason() {
    let Some(program) = redis_8() else { return };
    are_there(FROM_8_2, &RedisOracle::start_master(&program, &[]));
}

fn are_there(allowed: Allowed, oracle: &RedisOracle) {
    let server = Server::start(Setup { engine: "mutex", shards: 1, threads: 1 }, &[]);
    for difference in allowed.iter().copied().flatten() {
        assert!(!difference.why.is_empty());
        let run = |mut client: Client| {
            client.call(&["FLUSHALL"]);
            let replies: Vec<Vec<u8>> = difference.example.iter().map(|line| client.call(&words(line))).collect();
            replies.into_iter().next_back().expect("an example has requests")
        };
        let (ours, theirs) = (run(server.client()), run(oracle.client()));
        let request = words(difference.example[difference.example.len() - 1]);
        let is_it = ours != theirs && difference.allows(&request, &Value::of(&ours), &Value::of(&theirs));
        assert!(
            is_it,
            "{}: no such difference, remove it\n  ours   {}\n  oracle {}",
            difference.name,
            ours.escape_ascii(),
            theirs.escape_ascii()
        );
    }
}
