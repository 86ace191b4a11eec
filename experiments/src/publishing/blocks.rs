//! Blocks of Markdown: what is read in one piece, and changes its meaning with any of its words. A paragraph, an item
//! of a list, a heading, a table, and in code what is between blank lines.

/// The blocks of a text, in order; blank lines are in none.
pub(super) fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut last: Option<&str> = None;
    let mut in_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let begins = last.is_none_or(|last| !in_code && (is_fence || is_apart(last, line)));
        in_code ^= is_fence;
        let is_blank = line.trim().is_empty();
        match blocks.last_mut().filter(|_| !begins) {
            _ if is_blank => (),
            Some(block) => block.push(line),
            None => blocks.push(vec![line]),
        }
        // The end of a block of code ends its block.
        last = (!is_blank && (in_code || !is_fence)).then_some(line);
    }
    blocks
}

/// Whether a line begins another block than the line before it.
fn is_apart(last: &str, line: &str) -> bool {
    is_heading(last) || is_heading(line) || is_item(line) || is_row(last) != is_row(line)
}

/// Whether a line outside of code is a heading.
pub(super) fn is_heading(line: &str) -> bool {
    line.starts_with('#') && line.trim_start_matches('#').starts_with(' ')
}

fn is_row(line: &str) -> bool {
    line.starts_with('|')
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || (numbered.len() < line.len() && numbered.starts_with(". "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_one_piece_is_a_block() {
        let text = "# One\ntwo\nthree\n\n- four\n  five\n- six\n1. seven\n\n\n| a |\n|---|\nafter\n\
            ```sh\n- eight\n# nine\n\n| ten |\n```\neleven\n";
        let expected: [&[&str]; 10] = [
            &["# One"],
            &["two", "three"],
            &["- four", "  five"],
            &["- six"],
            &["1. seven"],
            &["| a |", "|---|"],
            &["after"],
            &["```sh", "- eight", "# nine"],
            &["| ten |", "```"],
            &["eleven"],
        ];
        assert_eq!(blocks(text), expected);
    }
}
