//! Publish and subscribe: one request has several replies, and some come unrequested. So each connection sends a PING
//! after every step, and everything before its reply is compared.

use super::Request;
use super::pair::{Pair, shown};
use harness::generator::atoms::Source;
use harness::generator::grammar::Node;
use harness::generator::requests::name_of;
use harness::{Client, Value, words};

const STEPS: usize = 150;
/// Two connections in RESP2 and two in RESP3.
const SUBSCRIBERS: usize = 4;

/// The requests of subscribers and publishers. Channels are few, and patterns match several.
const REQUESTS: &[(&str, &str)] = &[
    ("SUBSCRIBE", "channel+"),
    ("SUBSCRIBE", "channel+"),
    ("UNSUBSCRIBE", "channel*"),
    ("PSUBSCRIBE", "channel-pattern+"),
    ("PSUBSCRIBE", "channel-pattern+"),
    ("PUNSUBSCRIBE", "channel-pattern*"),
    ("SSUBSCRIBE", "channel"),
    ("SUNSUBSCRIBE", "channel*"),
    ("PUBLISH", "channel value"),
    ("PUBLISH", "channel value"),
    ("PUBLISH", "channel value"),
    ("SPUBLISH", "channel value"),
    (
        "PUBSUB",
        "< CHANNELS [ channel-pattern ] | NUMSUB channel* | NUMPAT | SHARDCHANNELS | SHARDNUMSUB channel* | junk >",
    ),
    ("GET", "key:string"),
    ("RESET", ""),
];

/// Random steps of some connections, on both servers.
///
/// # Panics
/// If the replies differ.
pub fn compare(pair: &Pair, source: &mut Source) {
    let requests: Vec<(&str, Node)> = REQUESTS.iter().map(|(name, grammar)| (*name, Node::parse(grammar))).collect();
    let mut connections: Vec<(Client, Client)> = (0..SUBSCRIBERS).map(|_| pair.clients()).collect();
    for (ours, oracle) in &mut connections[SUBSCRIBERS / 2..] {
        ours.call(&["HELLO", "3"]);
        oracle.call(&["HELLO", "3"]);
    }
    let mut history = String::new();
    for step in 0..STEPS {
        let by = source.below(SUBSCRIBERS);
        let (name, arguments) = &requests[source.below(requests.len())];
        let mut request: Request = words(name);
        arguments.write(source, &mut request);
        history.push_str(&format!("  {by}> {}\n", shown(&request)));
        let (ours, oracle) = &mut connections[by];
        ours.send(&harness::request(&request));
        oracle.send(&harness::request(&request));
        let marker = format!("marker {step}");
        // The sender first: then everything that it caused is on its way to the others.
        for at in std::iter::once(by).chain((0..SUBSCRIBERS).filter(|at| *at != by)) {
            let (ours, oracle) = &mut connections[at];
            let (ours, oracle) = (until(ours, &marker), until(oracle, &marker));
            let is_same = comparable(&request, ours.clone()) == comparable(&request, oracle.clone());
            assert!(is_same, "{history}on connection {at}\n  ours   {ours:?}\n  oracle {oracle:?}");
        }
    }
}

/// Everything before the reply to a PING.
fn until(client: &mut Client, marker: &str) -> Vec<Value> {
    client.send(&harness::request(&["PING", marker]));
    let mut all = Vec::new();
    loop {
        let value = client.values(1).remove(0);
        let is_it = match &value {
            Value::Bulk(text) => text == marker.as_bytes(),
            Value::Array(parts) | Value::Push(parts) => {
                parts.last().is_some_and(|part| *part == Value::Bulk(marker.into()))
            }
            _ => false,
        };
        all.push(value);
        if is_it {
            return all;
        }
    }
}

/// In an order that does not depend on how a server walks over its channels and patterns.
fn comparable(request: &Request, mut values: Vec<Value>) -> Vec<Value> {
    let is_leaving_all = name_of(request).ends_with("UNSUBSCRIBE") && request.len() == 1;
    if is_leaving_all {
        // Which channel is removed when is not specified; how many are left each time is.
        let counts = values.iter().filter_map(count_of).collect::<Vec<_>>();
        values.iter_mut().for_each(remove_count);
        values.extend(counts);
    }
    if name_of(request) == "PUBSUB" {
        values.iter_mut().for_each(sort_elements);
    } else {
        values.sort();
    }
    values
}

fn count_of(value: &Value) -> Option<Value> {
    match value {
        Value::Array(parts) | Value::Push(parts) => {
            parts.last().filter(|part| matches!(part, Value::Integer(_))).cloned()
        }
        _ => None,
    }
}

fn remove_count(value: &mut Value) {
    if let Value::Array(parts) | Value::Push(parts) = value
        && matches!(parts.last(), Some(Value::Integer(_)))
    {
        parts.pop();
    }
}

fn sort_elements(value: &mut Value) {
    if let Value::Array(parts) = value
        && parts.iter().all(|part| matches!(part, Value::Bulk(_)))
    {
        parts.sort();
    }
}
