//! Whether two replies to the same request agree: byte for byte, except where the documentation promises no order,
//! where the reply is a time, and where a difference is allowed (see `differences`).

use super::Request;
use super::differences::{Allowed, Difference, is_of_script};
use harness::Value;
use harness::generator::requests::{Check, Step, name_of};
use std::collections::BTreeSet;

/// By how much times may differ: two servers do not read the clock at the same time.
pub const CLOCK_SKEW_MS: i64 = 60_000;

/// How many elements form a unit in a reply without a promised order; `None` if there is an order.
fn unit_of_unordered(request: &Request) -> Option<usize> {
    let has = |word: &str| request.iter().any(|argument| argument.eq_ignore_ascii_case(word.as_bytes()));
    match name_of(request).as_str() {
        "SMEMBERS" | "KEYS" | "HKEYS" | "HVALS" | "SINTER" | "SUNION" | "SDIFF" => Some(1),
        "HGETALL" => Some(2),
        // Sorted by distance only on request.
        "GEOSEARCH" | "GEORADIUS" | "GEORADIUS_RO" | "GEORADIUSBYMEMBER" | "GEORADIUSBYMEMBER_RO" => {
            (!has("ASC") && !has("DESC") && !has("COUNT")).then_some(1)
        }
        _ => None,
    }
}

/// Whether two replies agree.
pub fn agree(request: &Request, ours: &[u8], oracle: &[u8], allowed: Allowed) -> bool {
    ours == oracle || values_agree(request, &Value::of(ours), &Value::of(oracle), allowed)
}

/// Whether two parsed replies agree.
fn values_agree(request: &Request, ours: &Value, oracle: &Value, allowed: Allowed) -> bool {
    let is_it = |difference: &Difference| difference.allows(request, ours, oracle);
    ours == oracle
        || unit_of_unordered(request).is_some_and(|unit| same_in_any_order(unit, ours, oracle))
        || same_by_rule(request, ours, oracle)
        || allowed.iter().copied().flatten().any(is_it)
}

fn same_in_any_order(unit: usize, ours: &Value, oracle: &Value) -> bool {
    match (ours, oracle) {
        (Value::Array(ours), Value::Array(oracle))
        | (Value::Set(ours), Value::Set(oracle))
        | (Value::Map(ours), Value::Map(oracle)) => sorted(unit, ours) == sorted(unit, oracle),
        _ => false,
    }
}

fn sorted(unit: usize, elements: &[Value]) -> Vec<&[Value]> {
    let mut units: Vec<&[Value]> = elements.chunks(unit).collect();
    units.sort();
    units
}

fn same_by_rule(request: &Request, ours: &Value, oracle: &Value) -> bool {
    let is_near = |most: i64| match (ours, oracle) {
        (Value::Integer(ours), Value::Integer(oracle)) => *ours > 0 && *oracle > 0 && (ours - oracle).abs() <= most,
        _ => false,
    };
    match name_of(request).as_str() {
        "TTL" | "EXPIRETIME" => is_near(CLOCK_SKEW_MS / 1000),
        "PTTL" | "PEXPIRETIME" => is_near(CLOCK_SKEW_MS),
        // Seconds, which pass here and there at different moments.
        "OBJECT" => matches!((ours, oracle), (Value::Integer(ours), Value::Integer(oracle))
            if is_idle_time(request) && *ours >= 0 && (ours - oracle).abs() <= CLOCK_SKEW_MS / 1000),
        "HELLO" => ["proto", "mode", "role"].iter().all(|field| is_same_field(ours, oracle, field)),
        // A page of a walk; its elements depend on the server. `scans` compares whole walks.
        "SCAN" | "SSCAN" | "HSCAN" | "ZSCAN" => is_page(ours) && is_page(oracle),
        "XINFO" | "XPENDING" => same_but_for_times(ours, oracle),
        "FUNCTION" => same_of_libraries(request, ours, oracle),
        // Lua shows a table by its address.
        _ if is_of_script(request) => without_addresses(ours) == without_addresses(oracle),
        _ => false,
    }
}

/// Libraries and functions are listed and looked through in the order of a hash table.
fn same_of_libraries(request: &Request, ours: &Value, oracle: &Value) -> bool {
    let is = |name: &str| request.get(1).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let both = |is_it: fn(&Value) -> bool| is_it(ours) && is_it(oracle);
    if is("LIST") {
        return both(is_list) && with_sorted_lists(ours) == with_sorted_lists(oracle);
    }
    // What is dumped has the version of the format; `pair` lets each server restore what the other dumps.
    is("DUMP") && both(|value| matches!(value, Value::Bulk(_)))
        || is("LOAD") && both(|value| is_collision(value, b"ERR Function "))
        || is("RESTORE") && both(|value| is_collision(value, b"ERR Function "))
        || is("RESTORE") && both(|value| is_collision(value, b"ERR Library "))
        || without_addresses(ours) == without_addresses(oracle)
}

fn is_list(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Map(_) | Value::Set(_))
}

/// A value whose lists of lists, and whose sets, are sorted.
fn with_sorted_lists(value: &Value) -> Value {
    let all = |elements: &[Value]| elements.iter().map(with_sorted_lists).collect::<Vec<_>>();
    let sorted = |elements: &[Value]| {
        let mut elements = all(elements);
        elements.sort();
        elements
    };
    match value {
        Value::Array(elements) if elements.iter().all(is_list) => Value::Array(sorted(elements)),
        Value::Array(elements) => Value::Array(all(elements)),
        Value::Map(elements) => Value::Map(all(elements)),
        Value::Set(elements) => Value::Set(sorted(elements)),
        other => other.clone(),
    }
}

/// A refusal that names one of several that are there already.
fn is_collision(value: &Value, start: &[u8]) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(start) && text.ends_with(b" already exists"))
}

/// A reply without the digits of the addresses in its texts, as in `table: 0x55d0c8a3b2f0`.
fn without_addresses(value: &Value) -> Value {
    let text = |bytes: &[u8]| {
        let mut left: Vec<u8> = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if !(left.ends_with(b": 0x") && byte.is_ascii_hexdigit()) {
                left.push(byte);
            }
        }
        left
    };
    let all = |elements: &[Value]| elements.iter().map(without_addresses).collect();
    match value {
        Value::Bulk(bytes) => Value::Bulk(text(bytes)),
        Value::Error(bytes) => Value::Error(text(bytes)),
        Value::Simple(bytes) => Value::Simple(text(bytes)),
        Value::Array(elements) => Value::Array(all(elements)),
        Value::Map(elements) => Value::Map(all(elements)),
        Value::Set(elements) => Value::Set(all(elements)),
        other => other.clone(),
    }
}

fn is_idle_time(request: &Request) -> bool {
    request.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"IDLETIME"))
}

fn is_same_field(ours: &Value, oracle: &Value, field: &str) -> bool {
    match (ours, oracle) {
        (Value::Array(_), Value::Array(_)) | (Value::Map(_), Value::Map(_)) => ours.field(field) == oracle.field(field),
        _ => false,
    }
}

fn is_page(value: &Value) -> bool {
    matches!(value, Value::Array(parts) if matches!(&parts[..], [Value::Bulk(_), Value::Array(_)]))
}

/// Equal, except for points in time, for idle times, and for the shape of an internal tree.
pub fn same_but_for_times(ours: &Value, oracle: &Value) -> bool {
    match (ours, oracle) {
        (Value::Array(ours), Value::Array(oracle)) | (Value::Map(ours), Value::Map(oracle)) => {
            let is_same_at = |at: usize| match time_at(oracle, at) {
                Time::None => same_but_for_times(&ours[at], &oracle[at]),
                Time::Skewed => {
                    ours[at] == oracle[at]
                        || matches!((&ours[at], &oracle[at]), (Value::Integer(ours), Value::Integer(oracle))
                    if ours == oracle || (ours - oracle).abs() <= CLOCK_SKEW_MS && *ours >= 0 && *oracle >= 0)
                }
                Time::OfImplementation => matches!(ours[at], Value::Integer(_)),
            };
            ours.len() == oracle.len() && (0..oracle.len()).all(is_same_at)
        }
        _ => ours == oracle,
    }
}

enum Time {
    None,
    Skewed,
    OfImplementation,
}

/// The kind of time at a position of a reply: after its name, or third of the four fields of a pending entry.
fn time_at(elements: &[Value], at: usize) -> Time {
    let name = match at.checked_sub(1).map(|before| &elements[before]) {
        Some(Value::Bulk(name)) => name.as_slice(),
        _ => return Time::None,
    };
    match name {
        b"idle" | b"inactive" | b"seen-time" | b"active-time" => Time::Skewed,
        b"radix-tree-keys" | b"radix-tree-nodes" => Time::OfImplementation,
        _ if at == 2 && elements.len() == 4 => Time::Skewed,
        _ if at == 1 && elements.len() == 3 => Time::Skewed,
        _ => Time::None,
    }
}

/// Judges replies that depend on earlier ones, for one connection of the two servers.
#[derive(Default)]
pub struct Judge {
    allowed: Allowed,
    /// The commands queued in an open transaction, according to Redis.
    queue: Option<Vec<Step>>,
    /// The contents of the two servers, and what was drawn from them.
    ours: Draw,
    oracle: Draw,
}

#[derive(Debug, Default)]
struct Draw {
    held: Option<Vec<Vec<u8>>>,
    drawn: Vec<Vec<u8>>,
}

impl Judge {
    /// One that allows these differences.
    pub fn that_allows(allowed: Allowed) -> Self {
        Self { allowed, ..Self::default() }
    }

    /// Whether our reply to a request is right.
    pub fn is_right(&mut self, step: &Step, ours: &[u8], oracle: &[u8]) -> bool {
        let name = name_of(&step.request);
        if oracle == b"+QUEUED\r\n" {
            self.queue.get_or_insert_default().push(step.clone());
            return ours == oracle;
        }
        match name.as_str() {
            "MULTI" if oracle == b"+OK\r\n" => self.queue = Some(Vec::new()),
            "DISCARD" | "RESET" if !oracle.starts_with(b"-") => self.queue = None,
            "EXEC" => return self.is_right_exec(ours, oracle),
            _ => {}
        }
        if ours == oracle && step.check == Check::Agrees {
            return true;
        }
        self.is_right_value(step, &Value::of(ours), &Value::of(oracle))
    }

    fn is_right_exec(&mut self, ours: &[u8], oracle: &[u8]) -> bool {
        let Some(queue) = self.queue.take() else { return ours == oracle };
        match (Value::of(ours), Value::of(oracle)) {
            (Value::Array(ours), Value::Array(oracle)) => {
                ours.len() == oracle.len()
                    && queue.len() == oracle.len()
                    && queue.iter().zip(ours.iter().zip(&oracle)).all(|(s, (a, b))| self.is_right_value(s, a, b))
            }
            (ours, oracle) => ours == oracle,
        }
    }

    fn is_right_value(&mut self, step: &Step, ours: &Value, oracle: &Value) -> bool {
        match step.check {
            Check::Agrees => values_agree(&step.request, ours, oracle, self.allowed),
            Check::Holds => {
                self.ours = Draw { held: leaves(ours), drawn: Vec::new() };
                self.oracle = Draw { held: leaves(oracle), drawn: Vec::new() };
                values_agree(&step.request, ours, oracle, self.allowed)
            }
            Check::Drawn => is_same_shape(ours, oracle) && self.ours.is_drawn(ours) && self.oracle.is_drawn(oracle),
            Check::LeftAfterDraw => {
                is_same_shape(ours, oracle) && self.ours.is_left(ours) && self.oracle.is_left(oracle)
            }
            Check::TimeId => ours == oracle || is_id(ours) && is_id(oracle),
        }
    }
}

impl Draw {
    /// Whether the drawn elements existed.
    fn is_drawn(&mut self, drawn: &Value) -> bool {
        let (Some(drawn), Some(held)) = (leaves(drawn), &self.held) else { return true };
        let held: BTreeSet<&Vec<u8>> = held.iter().collect();
        self.drawn = drawn;
        self.drawn.iter().all(|one| held.contains(one))
    }

    /// Whether the rest is the old contents without the drawn elements.
    fn is_left(&self, left: &Value) -> bool {
        let (Some(left), Some(held)) = (leaves(left), &self.held) else { return true };
        let left: BTreeSet<&Vec<u8>> = left.iter().collect();
        held.iter().all(|one| left.contains(one) != self.drawn.contains(one))
            && left.len() + self.drawn.len() == held.len()
    }
}

/// All strings in a reply; `None` for an error.
fn leaves(value: &Value) -> Option<Vec<Vec<u8>>> {
    match value {
        Value::Error(_) => None,
        Value::Bulk(bytes) | Value::Double(bytes) | Value::Simple(bytes) => Some(vec![bytes.clone()]),
        Value::Array(elements) | Value::Set(elements) | Value::Map(elements) => {
            Some(elements.iter().filter_map(leaves).flatten().collect())
        }
        _ => Some(Vec::new()),
    }
}

/// Equal, or equal except for the strings.
fn is_same_shape(ours: &Value, oracle: &Value) -> bool {
    match (ours, oracle) {
        (Value::Array(ours), Value::Array(oracle)) | (Value::Set(ours), Value::Set(oracle)) => {
            ours.len() == oracle.len() && ours.iter().zip(oracle).all(|(ours, oracle)| is_same_shape(ours, oracle))
        }
        (Value::Bulk(_), Value::Bulk(_)) | (Value::Double(_), Value::Double(_)) => true,
        _ => ours == oracle,
    }
}

fn is_id(value: &Value) -> bool {
    let Value::Bulk(id) = value else { return false };
    let text = String::from_utf8_lossy(id);
    text.split_once('-').is_some_and(|(ms, seq)| ms.parse::<u64>().is_ok() && seq.parse::<u64>().is_ok())
}
