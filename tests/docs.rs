//! The generated documents say what the tables say.

use std::path::Path;

#[test]
fn generated_documents_are_those_of_the_tables() {
    for (path, text) in [
        ("docs/COMMANDS.md", shardrace::docs::commands_markdown()),
        ("docs/CONFIG.md", shardrace::docs::config_markdown()),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("WRITE_DOCS").is_some() {
            std::fs::write(&path, &text).expect("the document is written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "{} is not what the tables say: run `make docs`", path.display());
    }
}
