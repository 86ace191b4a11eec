//! Comments fit into the columns that rustfmt keeps code to; it leaves comments alone.

/// The last column, as `max_width` in rustfmt.toml.
pub const MAX: usize = 120;

/// The lines of comments that are longer, as `path:line`. Rows of tables are one line each.
pub fn too_long(texts: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in texts {
        let long = text.lines().enumerate().filter(|(_, line)| is_comment(line) && line.chars().count() > MAX);
        found.extend(long.map(|(index, _)| format!("{path}:{}", index + 1)));
    }
    found
}

fn is_comment(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    !comment.trim_start_matches(['/', '!']).trim_start().starts_with('|')
}
