//! The `shardrace` binary.
fn main() {}
