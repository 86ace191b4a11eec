//! Source text without what is no code: comments, strings, and what is compiled for tests alone.

/// Puts blanks in the place of comments and of what strings hold.
pub fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = opaque_len(rest, code.chars().next_back()).unwrap_or(0);
        if len > 0 {
            code.push(' ');
            rest = &rest[len..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    code
}

/// The length of the comment or literal that the text begins with.
fn opaque_len(text: &str, before: Option<char>) -> Option<usize> {
    let is_within_word = before.is_some_and(is_word);
    match text.as_bytes() {
        [b'/', b'/', ..] => Some(text.find('\n').unwrap_or(text.len())),
        [b'/', b'*', ..] => Some(comment_len(text)),
        [b'"', ..] => Some(string_len(text)),
        [b'r', b'"' | b'#', ..] if !is_within_word => raw_len(&text[1..]).map(|len| len + 1),
        [b'b', b'r', ..] if !is_within_word => raw_len(&text[2..]).map(|len| len + 2),
        [b'\'', ..] => character_len(text),
        _ => None,
    }
}

/// Comments of this kind stand inside each other.
fn comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let step = match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => {
                at += 1;
                continue;
            }
        };
        depth += step;
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_len(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Of a string of which the `r` has been read; none where it is a word, as in `r#type`.
fn raw_len(text: &str) -> Option<usize> {
    let hashes = text.bytes().take_while(|&byte| byte == b'#').count();
    let inside = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(hashes + 1 + inside.find(&end).map_or(inside.len(), |at| at + end.len()))
}

/// Of a character; none where it is a lifetime.
fn character_len(text: &str) -> Option<usize> {
    let inside = &text[1..];
    let first = inside.chars().next()?;
    if first != '\\' {
        return inside[first.len_utf8()..].starts_with('\'').then_some(1 + first.len_utf8() + 1);
    }
    inside[2..].find('\'').map(|at| 1 + 2 + at + 1)
}

/// Takes out items under `#[cfg(test)]`; adds to `files` the names of the modules among them whose text is elsewhere.
pub fn without_tests(mut code: String, files: &mut Vec<String>) -> String {
    while let Some(start) = code.find("#[cfg(test)]") {
        let item_start = start + "#[cfg(test)]".len();
        let end = item_start + item_len(&code[item_start..]);
        let words: Vec<&str> = code[item_start..end].split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
        if code[..end].ends_with(';')
            && let Some(at) = words.iter().position(|&word| word == "mod")
        {
            files.push(words[at + 1].to_owned());
        }
        code.replace_range(start..end, "");
    }
    code
}

/// An item ends with a semicolon, or with the bracket that closes what it opened; one within another, with that.
fn item_len(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        match c {
            _ if depth < 0 => return at,
            ';' | ',' if depth == 0 => return at + 1,
            '}' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Whether a character is of a word of the language.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
