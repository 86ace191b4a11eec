//! Tools that need no running server: `shardrace import`, `shardrace check-aof`, the generated documents.

pub mod check_aof;
#[cfg(test)]
mod docs;
pub mod import;
pub mod output;
