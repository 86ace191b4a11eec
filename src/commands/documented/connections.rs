//! What COMMAND DOCS says of arguments: connections.

use super::{Described, block, integer, one_of, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("ping", &[string("message").optional()]),
    ("echo", &[string("message")]),
    ("select", &[integer("index")]),
    ("hello", &[block("arguments", &[integer("protover"), block("auth", &[string("username"), string("password")]).after("AUTH").optional(), string("clientname").after("SETNAME").optional()]).optional()]),
    ("auth", &[string("username").since("6.0.0").optional(), string("password")]),
    ("client|setname", &[string("connection-name")]),
    ("client|setinfo", &[one_of("attr", &[string("libname").after("LIB-NAME"), string("libver").after("LIB-VER")])]),
    ("client|unblock", &[integer("client-id"), one_of("unblock-type", &[token("timeout", "TIMEOUT"), token("error", "ERROR")]).optional()]),
    ("client|kill", &[one_of("filter", &[string("old-format").shown("ip:port").deprecated_since("2.8.12"), one_of("new-format", &[integer("client-id").after("ID").since("2.8.12").optional(), one_of("client-type", &[token("normal", "NORMAL"), token("master", "MASTER").since("3.2.0"), token("slave", "SLAVE"), token("replica", "REPLICA").since("5.0.0"), token("pubsub", "PUBSUB")]).after("TYPE").since("2.8.12").optional(), string("username").after("USER").optional(), string("addr").shown("ip:port").after("ADDR").optional(), string("laddr").shown("ip:port").after("LADDR").since("6.2.0").optional(), one_of("skipme", &[token("yes", "YES"), token("no", "NO")]).after("SKIPME").optional()]).repeated()])]),
    ("client|reply", &[one_of("action", &[token("on", "ON"), token("off", "OFF"), token("skip", "SKIP")])]),
    ("client|pause", &[integer("timeout"), one_of("mode", &[token("write", "WRITE"), token("all", "ALL")]).since("6.2.0").optional()]),
    ("client|list", &[one_of("client-type", &[token("normal", "NORMAL"), token("master", "MASTER"), token("replica", "REPLICA"), token("pubsub", "PUBSUB")]).after("TYPE").since("5.0.0").optional(), integer("client-id").after("ID").since("6.2.0").repeated().optional()]),
    ("client|no-evict", &[one_of("enabled", &[token("on", "ON"), token("off", "OFF")])]),
    ("client|no-touch", &[one_of("enabled", &[token("on", "ON"), token("off", "OFF")])]),
];
