//! What concurrent clients can observe: every command over several keys, and every MULTI block, is atomic and isolated.
//!
//! Clients record their requests, the replies and the times (`history`); checkers judge the record:
//!
//! | module | clients do | judged |
//! |---|---|---|
//! | `linearizability` | commands over one key, over several keys, MULTI blocks, scripts | is there one order of all of them that explains each reply and keeps real time? |
//! | `append` | transactions of RPUSH and LRANGE | Adya's anomalies G0, G1a-c, G-single, G2, and real-time order, as Elle infers them |
//! | `bank` | transfers between accounts on different shards | does the sum ever waver? |
//!
//! Each runs on every engine and on a real redis-server, which must pass. Each is itself tested: where atomicity is
//! removed the checker must find an anomaly, or the test fails.
//!
//! Short by default; `SOAK=1 SOAK_SECONDS=n` for n seconds per test. `SEED=n` repeats the clients' choices.

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod append;
mod bank;
mod history;
mod linearizability;
mod scenario;
