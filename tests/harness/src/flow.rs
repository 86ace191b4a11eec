//! Flows: scripts of several connections, run on every engine and on the real Redis.
//!
//! ```text
//! a: BLPOP list 0
//! (waits)
//! b: RPUSH list x
//! :1
//! a:
//! *2 | $4 | list | $1 | x
//! b: (sleeps 20)
//! a: (closes)
//! ```
//!
//! A step is a connection's name and a request; the line under it is the RESP2 reply, or says that the connection
//! waits. A step without a request reads the reply of the waiting connection. `{a}` in a request is the number of
//! connection `a`. The RESP3 reply is that of redis-server.

use super::script::reply_bytes;
use super::{Client, EVERY_ENGINE, Embedded, RedisOracle, request, same_in_any_order, wait_until, words};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

struct Step<'a> {
    line: &'a str,
    name: &'a str,
    action: Action<'a>,
}

enum Action<'a> {
    /// Sends a request, if any, and reads its reply.
    Replied(Option<&'a str>, Vec<u8>),
    /// Sends a request, and waits.
    Waits(&'a str),
    Sleeps(Duration),
    Closes,
}

/// Runs a flow on every engine and on redis-server: replies equal the flow's in RESP2, and Redis's in RESP3.
pub fn check_flow(flow: &str) {
    let steps = parse(flow);
    let wanted: Vec<Vec<u8>> = steps.iter().filter_map(|step| step.action.reply()).collect();
    let oracle = RedisOracle::start();
    run(oracle.address(), Client::connect, &steps, &wanted, "redis-server: the flow is wrong");
    oracle.client().call(&["FLUSHALL"]);
    let wanted_resp3 = run(oracle.address(), Client::connect_resp3, &steps, &[], "redis-server");
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &[]);
        run(server.address(), Client::connect, &steps, &wanted, &format!("{setup:?}, RESP2"));
        server.client().call(&["FLUSHALL"]);
        run(server.address(), Client::connect_resp3, &steps, &wanted_resp3, &format!("{setup:?}, RESP3"));
        server.assert_serving();
    }
}

/// The same for what Redis 7.2 does otherwise than the redis-server here may do: in RESP2, on the engines alone.
pub fn check_flow_of_7_2(flow: &str) {
    let steps = parse(flow);
    let wanted: Vec<Vec<u8>> = steps.iter().filter_map(|step| step.action.reply()).collect();
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &[]);
        run(server.address(), Client::connect, &steps, &wanted, &format!("{setup:?}"));
        server.assert_serving();
    }
}

impl Action<'_> {
    fn reply(&self) -> Option<Vec<u8>> {
        match self {
            Self::Replied(_, reply) => Some(reply.clone()),
            _ => None,
        }
    }
}

fn parse(flow: &str) -> Vec<Step<'_>> {
    let mut lines = flow.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut steps = Vec::new();
    while let Some(line) = lines.next() {
        let (name, request) = line.split_once(':').unwrap_or_else(|| panic!("no connection: {line}"));
        let request = request.trim();
        let mut reply = || lines.next().unwrap_or_else(|| panic!("no reply to {line}"));
        let action = match request {
            "(closes)" => Action::Closes,
            _ if request.starts_with("(sleeps") => {
                let ms = request.split([' ', ')']).nth(1).and_then(|ms| ms.parse().ok());
                Action::Sleeps(Duration::from_millis(ms.unwrap_or_else(|| panic!("how long: {line}"))))
            }
            "" => Action::Replied(None, reply_bytes(reply())),
            _ => match reply() {
                "(waits)" => Action::Waits(request),
                reply => Action::Replied(Some(request), reply_bytes(reply)),
            },
        };
        steps.push(Step { line, name, action });
    }
    steps
}

/// The connections of a flow, with their numbers.
struct Connections<'a> {
    admin: Client,
    open: HashMap<&'a str, (Client, String)>,
}

/// Runs a flow, and checks its replies against the expected ones, if any; returns the replies.
fn run<'a>(
    address: SocketAddr,
    connect: fn(SocketAddr) -> Client,
    steps: &[Step<'a>],
    wanted: &[Vec<u8>],
    on: &str,
) -> Vec<Vec<u8>> {
    let mut connections = Connections { admin: Client::connect(address), open: HashMap::new() };
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for step in steps {
        connections.open.entry(step.name).or_insert_with(|| {
            let mut client = connect(address);
            let id = client.value(&["CLIENT", "ID"]).integer().to_string();
            (client, id)
        });
        let Some(reply) = connections.take_step(step) else { continue };
        let is_same = |wanted: &Vec<u8>| *wanted == reply || same_in_any_order(name_of(step), &reply, wanted);
        if let Some(wanted) = wanted.get(replies.len()).filter(|wanted| !is_same(wanted)) {
            panic!("on {on}\n{}\n  got  {}\n  want {}", step.line, reply.escape_ascii(), wanted.escape_ascii());
        }
        replies.push(reply);
    }
    replies
}

fn name_of<'a>(step: &Step<'a>) -> &'a str {
    match step.action {
        Action::Replied(Some(request), _) => request.split(' ').next().unwrap_or_default(),
        _ => "",
    }
}

impl Connections<'_> {
    fn take_step(&mut self, step: &Step<'_>) -> Option<Vec<u8>> {
        match step.action {
            Action::Replied(request, _) => {
                if let Some(request) = request {
                    self.send(step.name, request);
                }
                return Some(self.open.get_mut(step.name).unwrap().0.reply());
            }
            Action::Waits(request) => {
                self.send(step.name, request);
                let id = self.open[step.name].1.clone();
                wait_until(step.line, || self.line_of(&id).is_some_and(|line| line.contains(" flags=b ")));
            }
            Action::Sleeps(duration) => std::thread::sleep(duration),
            Action::Closes => {
                let (client, id) = self.open.remove(step.name).unwrap();
                drop(client);
                wait_until(step.line, || self.line_of(&id).is_none());
            }
        }
        None
    }

    fn send(&mut self, name: &str, line: &str) {
        let line =
            self.open.iter().fold(line.to_owned(), |line, (name, (_, id))| line.replace(&format!("{{{name}}}"), id));
        self.open.get_mut(name).unwrap().0.send(&request(&words(&line)));
    }

    /// The line of a connection in CLIENT LIST.
    fn line_of(&mut self, id: &str) -> Option<String> {
        let list = self.admin.value(&["CLIENT", "LIST", "ID", id]).text();
        list.lines().next().map(str::to_owned)
    }
}
