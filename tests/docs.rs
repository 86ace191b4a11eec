//! The generated documents match the tables.

use std::path::Path;

#[test]
fn the_document_of_commands_is_that_of_their_table() {
    check("docs/COMMANDS.md", &shardrace::tools::docs::commands_markdown());
}

/// It describes the default build; without jemalloc nothing is evicted, and `maxmemory-policy` has one value.
#[cfg(feature = "jemalloc")]
#[test]
fn the_document_of_directives_is_that_of_their_table() {
    check("docs/CONFIG.md", &shardrace::tools::docs::config_markdown());
}

fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, text).expect("the document is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{} is not what the tables say: run `make docs`", path.display());
}
