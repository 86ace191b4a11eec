//! Tools that need no running server: `shardrace import`, `shardrace check-aof`, the generated documents.

pub mod check_aof;
pub mod docs;
pub mod import;
