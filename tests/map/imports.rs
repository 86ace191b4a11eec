//! Which rooms the files of a tree name.

use crate::source::{code_of, is_word, without_tests};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// A file of the tree, by the module that it is.
struct File {
    /// `keyspace`, `values`, `list`.
    module: Vec<String>,
    path: String,
    code: String,
}

/// The sources of a crate.
pub struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads all sources beneath a directory.
    pub fn read(src: &Path) -> io::Result<Self> {
        let mut texts = Vec::new();
        read_into(src, "", &mut texts)?;
        let texts: Vec<_> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Ok(Self::of(&texts))
    }

    /// The tree of these texts, by their paths beneath `src`.
    pub fn of(texts: &[(&str, &str)]) -> Self {
        let mut files = Vec::new();
        let mut for_tests = BTreeSet::new();
        for &(path, text) in texts {
            let module = module_of(path);
            let mut named = Vec::new();
            let code = without_tests(code_of(text), &mut named);
            for name in named {
                for_tests.insert([module.as_slice(), &[name]].concat());
            }
            files.push(File { module, path: format!("src/{path}"), code });
        }
        files.retain(|file| !(1..=file.module.len()).any(|len| for_tests.contains(&file.module[..len])));
        Self { files }
    }

    /// The rooms: the modules at the top.
    pub fn rooms(&self) -> BTreeSet<&str> {
        self.files.iter().filter_map(|file| file.module.first()).map(String::as_str).collect()
    }

    /// For each room the others that it names, and the file that does first.
    pub fn imports(&self) -> BTreeMap<&str, BTreeMap<&str, &str>> {
        let rooms = self.rooms();
        let mut imports: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for file in &self.files {
            let Some(room) = file.module.first() else { continue };
            for named in rooms_named(file) {
                if let Some(&named) = rooms.get(named.as_str()).filter(|&&named| named != room) {
                    imports.entry(room).or_default().entry(named).or_insert(&file.path);
                }
            }
        }
        imports
    }
}

fn read_into(dir: &Path, prefix: &str, texts: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            read_into(&entry.path(), &format!("{path}/"), texts)?;
        } else if name.ends_with(".rs") {
            texts.push((path, fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

/// The root, `lib.rs`, is the module of no name; so is the program that is made of the library.
fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").expect("only such files are read");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// The first segment, counted from the root of the crate, of each path that begins with `crate`, `super` or `self`.
fn rooms_named(file: &File) -> Vec<String> {
    let mut rooms = Vec::new();
    let mut at = 0;
    while let Some(word) = next_word(&file.code, &mut at) {
        let base = match word {
            "crate" => Vec::new(),
            "super" => file.module[..file.module.len().saturating_sub(1)].to_vec(),
            "self" => file.module.clone(),
            _ => continue,
        };
        first_segments(&file.code[at..], base, &mut rooms);
        at += path_len(&file.code[at..]);
    }
    rooms
}

fn next_word<'a>(code: &'a str, at: &mut usize) -> Option<&'a str> {
    let start = *at + code[*at..].find(is_word)?;
    let len = code[start..].find(|c| !is_word(c)).unwrap_or(code.len() - start);
    *at = start + len;
    Some(&code[start..*at])
}

/// Goes on behind a path that has led to the module `base`: a name, or a group of paths.
fn first_segments(code: &str, mut base: Vec<String>, rooms: &mut Vec<String>) {
    let Some(rest) = code.trim_start().strip_prefix("::") else { return };
    let rest = rest.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        let parts = split_group(group).into_iter();
        return parts.for_each(|part| first_segments(&format!("::{part}"), base.clone(), rooms));
    }
    let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    match &rest[..len] {
        "super" => {
            base.pop();
            first_segments(&rest[len..], base, rooms);
        }
        name => rooms.push(base.into_iter().next().unwrap_or_else(|| name.to_owned())),
    }
}

/// The parts of a group, up to the bracket that closes it.
fn split_group(group: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                parts.push(group[start..at].trim());
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// How much of the code belongs to a path of which the first word has been read.
fn path_len(code: &str) -> usize {
    let rest = code.trim_start();
    match rest.strip_prefix("::").map(str::trim_start) {
        Some(after) if after.starts_with('{') => {
            let start = code.len() - after.len();
            let mut depth = 0;
            let end = after.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth == 0
            });
            start + end.map_or(after.len(), |end| end + 1)
        }
        Some(after) => {
            let word = after.find(|c| !is_word(c)).unwrap_or(after.len());
            let start = code.len() - after.len() + word;
            start + path_len(&code[start..])
        }
        None => 0,
    }
}
