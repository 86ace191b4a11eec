//! The RESP protocol, versions 2 and 3: requests in, replies out.

mod args;
mod double;
mod error;
mod grisu;
mod number;
mod parser;
mod replies;
mod reply;
mod shared_bulk;

pub use args::{Args, OwnedArgs, SHARED_MIN, Span};
pub use double::DoubleText;
pub use error::CommandError;
pub use number::{parse_i64, parse_memory, parse_u64};
pub use parser::{Limits, ProtocolError, RequestParser, Step, split_line};
pub(crate) use replies::{FULL, Output, Replies};
pub use reply::{Reply, quoted};
pub use shared_bulk::SharedBulk;
