//! Puts the digest of the sources into the server, for `--version` and INFO.

use std::path::Path;

#[path = "experiments/src/sources.rs"]
mod sources;

fn main() -> std::io::Result<()> {
    for part in sources::PARTS {
        println!("cargo::rerun-if-changed={part}");
    }
    println!("cargo::rerun-if-changed=experiments/src/sources.rs");
    println!("cargo::rustc-env=SHARDRACE_SOURCES={}", sources::digest(Path::new("."))?);
    Ok(())
}
