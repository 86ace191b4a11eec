//! Which commands of a workload file `--verify` can check.

/// From this many seconds on, a key with a time to live counts as outliving the run.
pub(crate) const OUTLIVES_SECONDS: u64 = 600;

/// Why a command of a workload file cannot be verified; `None` if it can.
pub(crate) fn unverifiable(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let name = words.first()?.to_ascii_uppercase();
    if !KNOWN.iter().any(|(known, fits)| *known == name && fits(&words[1..])) {
        return Some(format!("the model does not know {name} as in {text:?}"));
    }
    (words[1] != "__key__").then(|| format!("connections share the key of {text:?}"))
}

/// The known forms of a command, by its name: whether these are valid arguments.
type Fits = fn(&[&str]) -> bool;

const KNOWN: [(&str, Fits); 42] = [
    ("SET", |a| a.len() == 2 || (a.len() == 4 && outlives(a[2], a[3]))),
    ("SETNX", |a| a.len() == 2),
    ("GET", |a| a.len() == 1),
    ("GETDEL", |a| a.len() == 1),
    ("STRLEN", |a| a.len() == 1),
    ("APPEND", |a| a.len() == 2),
    ("INCR", |a| a.len() == 1),
    ("DECR", |a| a.len() == 1),
    ("INCRBY", |a| a.len() == 2 && is_number(a[1])),
    ("DECRBY", |a| a.len() == 2 && is_number(a[1])),
    ("DEL", |a| a.len() == 1),
    ("UNLINK", |a| a.len() == 1),
    ("EXISTS", |a| a.len() == 1),
    ("TYPE", |a| a.len() == 1),
    ("EXPIRE", |a| a.len() == 2 && outlives("EX", a[1])),
    ("PEXPIRE", |a| a.len() == 2 && outlives("PX", a[1])),
    ("PERSIST", |a| a.len() == 1),
    ("HSET", |a| a.len() >= 3 && a.len() % 2 == 1),
    ("HGET", |a| a.len() == 2),
    ("HMGET", |a| a.len() >= 2),
    ("HGETALL", |a| a.len() == 1),
    ("HDEL", |a| a.len() >= 2),
    ("HEXISTS", |a| a.len() == 2),
    ("HLEN", |a| a.len() == 1),
    ("HINCRBY", |a| a.len() == 3 && is_number(a[2])),
    ("LPUSH", |a| a.len() >= 2),
    ("RPUSH", |a| a.len() >= 2),
    ("LPOP", |a| a.len() == 1),
    ("RPOP", |a| a.len() == 1),
    ("LLEN", |a| a.len() == 1),
    ("LRANGE", |a| a.len() == 3 && a[1..].iter().all(|place| is_number(place))),
    ("SADD", |a| a.len() >= 2),
    ("SREM", |a| a.len() >= 2),
    ("SISMEMBER", |a| a.len() == 2),
    ("SCARD", |a| a.len() == 1),
    ("SMEMBERS", |a| a.len() == 1),
    ("ZADD", |a| a.len() == 3 && is_number(a[1])),
    ("ZINCRBY", |a| a.len() == 3 && is_number(a[1])),
    ("ZSCORE", |a| a.len() == 2),
    ("ZREM", |a| a.len() >= 2),
    ("ZCARD", |a| a.len() == 1),
    ("ZRANGE", |a| a.len() == 3 && a[1..].iter().all(|place| is_number(place))),
];

/// A written number, or a placeholder for a small enough one.
fn is_number(word: &str) -> bool {
    word == "__number__" || word.parse::<i32>().is_ok() || is_small_random(word)
}

fn is_small_random(word: &str) -> bool {
    let bounds = word.strip_prefix("__random:").and_then(|rest| rest.strip_suffix("__")?.split_once(':'));
    bounds.is_some_and(|(_, maximum)| maximum.parse::<i32>().is_ok())
}

fn outlives(unit: &str, time: &str) -> bool {
    let milliseconds = match unit.to_ascii_uppercase().as_str() {
        "EX" => 1000,
        "PX" => 1,
        _ => return false,
    };
    time.parse::<u32>().is_ok_and(|time| u64::from(time) * milliseconds >= OUTLIVES_SECONDS * 1000)
}
