//! What the connections and the tasks of a server share: its clients, its pauses, the state of rewriting its log, INFO.

pub(crate) mod client_eviction;
pub mod client_list;
pub mod info;
pub mod listening;
pub mod log_switch;
pub mod memory;
pub(crate) mod node_id;
pub mod oom_score;
pub mod pause;
mod platform;
pub mod rewriting;
mod role;
mod server;
pub mod stopping;
pub mod supervision;
pub mod tls;

pub use platform::Platform;
pub use server::{Server, Stats, Totals};
