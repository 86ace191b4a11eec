//! The client's side of RESP2 and RESP3: requests out, replies in.
//!
//! [`ReplyScanner`] finds where replies end without storing them, which is all that a load
//! generator needs; [`Value`] is a parsed reply, for the few commands whose answer matters; [`Client`] is a blocking
//! connection that uses both.

mod client;
mod request;
mod scanner;
mod value;

pub use client::{Client, Protocol};
pub use request::encode_request;
pub use scanner::{Elements, MAX_DEPTH, ReplyKind, ReplyRun, ReplyScanner, ScanError, Scanned};
pub use value::Value;
