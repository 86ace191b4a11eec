//! The `experiments` binary.
fn main() {}
