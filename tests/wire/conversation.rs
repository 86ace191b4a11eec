//! Conversations of several connections: each line is a request of one of them, and what all of them see after it is
//! compared with what they see on a redis-server.

use harness::{Client, RedisOracle, Value, on_every_engine, request, words};
use std::net::SocketAddr;

/// Everything that a connection has received so far, one line each, after what was read already: it replies to a PING
/// in any state.
fn seen(client: &mut Client, mut lines: Vec<String>) -> Vec<String> {
    const MARK: &str = "that is all";
    client.send(&request(&["PING", MARK]));
    loop {
        let reply = client.reply();
        let value = Value::of(&reply);
        let is_mark = match &value {
            Value::Bulk(text) => text == MARK.as_bytes(),
            Value::Array(parts) => parts.len() == 2 && parts[1] == Value::Bulk(MARK.into()),
            _ => false,
        };
        if is_mark {
            return lines;
        }
        lines.push(reply.escape_ascii().to_string());
    }
}

/// The reply to a request inside MULTI, where a PING is queued too, and the messages before it.
fn seen_in_multi(client: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let reply = client.reply();
        lines.push(reply.escape_ascii().to_string());
        if !matches!(Value::of(&reply), Value::Push(_)) {
            return lines;
        }
    }
}

struct Party {
    name: &'static str,
    client: Client,
    is_in_multi: bool,
}

/// Runs a conversation: each line is a connection (`a` and `b` use RESP2, `c` and `d` RESP3) and its request, in which
/// `@a` is the number of a connection. Returns what all connections saw after each line.
fn converse(address: SocketAddr, lines: &[&str], pace: Pace) -> Vec<String> {
    let party = |name, client| Party { name, client, is_in_multi: false };
    let mut parties = [
        party("a", Client::connect(address)),
        party("b", Client::connect(address)),
        party("c", Client::connect_resp3(address)),
        party("d", Client::connect_resp3(address)),
    ];
    let ids = parties.each_mut().map(|Party { name, client, .. }| {
        let id = client.value(&["CLIENT", "ID"]).integer();
        (format!("@{name}"), id.to_string())
    });
    let mut transcript = Vec::new();
    for line in lines {
        let (name, text) = line.split_once(' ').expect("a connection and a request");
        let asked = ids.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, id));
        let mut told = vec![(*line).to_owned()];
        // The sender is read first: then the others have received what it caused.
        parties.sort_by_key(|party| (party.name != name, party.name));
        for party in &mut parties {
            let asks = party.name == name;
            if asks {
                party.client.send(&request(&words(&asked)));
                party.is_in_multi |= text == "MULTI";
                party.is_in_multi &= text != "EXEC";
            }
            let lines = match (party.is_in_multi, asks) {
                (true, true) => seen_in_multi(&mut party.client),
                (true, false) => continue,
                (false, true) if pace == Pace::ReplyFirst => {
                    let reply = party.client.reply().escape_ascii().to_string();
                    seen(&mut party.client, vec![reply])
                }
                (false, _) => seen(&mut party.client, Vec::new()),
            };
            // It describes the server: connection and version.
            let lines = if text.starts_with("HELLO") { lines.len().to_string() } else { lines.join(" ; ") };
            told.push(format!("  {}: {lines}", party.name));
        }
        transcript.push(told.join("\n"));
    }
    transcript
}

/// When a connection asks whether there is more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// In the same read as its request, which may have no reply.
    AtOnce,
    /// When it has the first reply: what its own request causes may come after the reply to a request that follows in
    /// the same read.
    ReplyFirst,
}

/// Compares a conversation on every engine with the same on a redis-server.
#[track_caller]
pub fn check_conversation(pace: Pace, script: &str) {
    let lines: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let oracle = RedisOracle::start();
    let wanted = converse(oracle.address(), &lines, pace);
    on_every_engine(|server| {
        for (got, wanted) in converse(server.address(), &lines, pace).iter().zip(&wanted) {
            assert_eq!(got, wanted, "on {:?}", server.setup());
        }
        server.assert_serving();
    });
}
