//! The blocking client, as `experiments` uses it.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Behaviour, Stub};
use loadgen::Error;
use loadgen::resp::{Client, Value, encode_request};

const TIMEOUT: Duration = Duration::from_millis(400);

fn connect(stub: &Stub) -> Client {
    Client::connect(&format!("127.0.0.1:{}", stub.port), TIMEOUT).unwrap()
}

#[test]
fn replies_come_in_request_order() {
    let stub = Stub::start(Behaviour { bytewise: true, ..Behaviour::default() });
    let mut client = connect(&stub);
    assert_eq!(client.call(&[b"SET", b"k", b"value"]).unwrap(), Value::Simple("OK".into()));
    let mut requests = Vec::new();
    encode_request(&mut requests, &[b"GET", b"k"]);
    encode_request(&mut requests, &[b"GET", b"nosuch"]);
    client.send(&requests).unwrap();
    assert_eq!(client.receive().unwrap(), Value::Bulk(b"value".to_vec()));
    assert_eq!(client.receive().unwrap(), Value::Null);
}

#[test]
fn an_error_reply_is_a_value_and_a_push_answers_nothing() {
    let reply = b">2\r\n+invalidate\r\n_\r\n-ERR no\r\n";
    let stub = Stub::start(Behaviour { reply: Some(reply), ..Behaviour::default() });
    assert_eq!(connect(&stub).call(&[b"GET", b"k"]).unwrap(), Value::Error("ERR no".into()));
}

#[test]
fn a_silent_or_closing_server_is_an_error_of_the_world() {
    let silent = Stub::start(Behaviour { silent: true, ..Behaviour::default() });
    assert!(matches!(connect(&silent).call(&[b"GET", b"k"]), Err(Error::Silent { .. })));
    let closing = Stub::start(Behaviour { close_after: Some(0), ..Behaviour::default() });
    assert!(matches!(connect(&closing).call(&[b"GET", b"k"]), Err(Error::Closed { .. })));
    let garbage = Stub::start(Behaviour { reply: Some(b"hello\r\n"), ..Behaviour::default() });
    assert!(matches!(connect(&garbage).call(&[b"GET", b"k"]), Err(Error::Protocol { .. })));
}
