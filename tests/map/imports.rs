//! Which rooms the files of a tree name.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// A file of the tree, as a module.
struct File {
    /// `keyspace`, `values`, `list`.
    module: Vec<String>,
    path: String,
    /// Without code that is compiled only for tests.
    code: Vec<TokenTree>,
}

/// The sources of a crate, or of one of its rooms.
pub struct Tree {
    files: Vec<File>,
    /// The module that has the rooms: none is the crate itself.
    within: Vec<String>,
}

impl Tree {
    /// The tree of these texts, by their paths beneath `src`.
    pub fn of<Text: AsRef<str>>(texts: &[(Text, Text)]) -> Self {
        Self::within(&[], texts)
    }

    /// The tree of those of the texts that are in the module `within`.
    pub fn within<Text: AsRef<str>>(within: &[&str], texts: &[(Text, Text)]) -> Self {
        let within: Vec<String> = within.iter().map(|&name| name.to_owned()).collect();
        let mut files = Vec::new();
        let mut for_tests = BTreeSet::new();
        for (path, text) in texts {
            let (path, text) = (path.as_ref(), text.as_ref());
            let module = module_of(path);
            if !module.starts_with(&within) {
                continue;
            }
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut named = Vec::new();
            let code = without_tests(tokens, &mut named);
            for name in named {
                for_tests.insert([module.as_slice(), &[name]].concat());
            }
            files.push(File { module, path: format!("src/{path}"), code });
        }
        files.retain(|file| !(1..=file.module.len()).any(|len| for_tests.contains(&file.module[..len])));
        Self { files, within }
    }

    /// The rooms: the modules at the top of it.
    pub fn rooms(&self) -> BTreeSet<&str> {
        self.files.iter().filter_map(|file| self.room_of(file)).collect()
    }

    fn room_of<'a>(&self, file: &'a File) -> Option<&'a str> {
        file.module.get(self.within.len()).map(String::as_str)
    }

    /// For each room the others that it names, and the file that does first.
    pub fn imports(&self) -> BTreeMap<&str, BTreeMap<&str, &str>> {
        let rooms = self.rooms();
        let mut imports: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for (file, room, named) in self.named() {
            if let Some(&named) = rooms.get(named.as_str()).filter(|&&named| named != room) {
                imports.entry(room).or_default().entry(named).or_insert(&file.path);
            }
        }
        imports
    }

    /// What rooms name of the module that has them besides rooms, and where: what it exports again would lead past the
    /// map.
    pub fn past_the_rooms(&self) -> BTreeSet<(&str, String)> {
        let rooms = self.rooms();
        let named = self.named().filter(|(_, _, named)| !rooms.contains(named.as_str()));
        let prefix: String = self.within.iter().flat_map(|name| [name, "::"]).collect();
        named.map(|(file, _, named)| (file.path.as_str(), format!("{prefix}{named}"))).collect()
    }

    /// The files, and their code without what is compiled only for tests.
    pub fn code(&self) -> impl Iterator<Item = (&str, &[TokenTree])> {
        self.files.iter().map(|file| (file.path.as_str(), file.code.as_slice()))
    }

    /// Each name that a file of a room uses from the module that has the rooms, with the file and its room.
    fn named(&self) -> impl Iterator<Item = (&File, &str, String)> {
        self.files.iter().filter_map(|file| Some((file, self.room_of(file)?))).flat_map(|(file, room)| {
            let mut named = Names { within: &self.within, names: Vec::new() };
            named.add_all(&file.code, &file.module);
            named.names.into_iter().map(move |named| (file, room, named))
        })
    }
}

/// The texts of all sources beneath a directory, by their paths there.
pub fn sources(src: &Path) -> io::Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    read_into(src, "", &mut texts)?;
    Ok(texts)
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

/// The root, `lib.rs`, is the module without a name; so is the program made from the library.
fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").expect("only such files are read");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// Removes items under `#[cfg(test)]`; adds to `files` the names of those modules whose text is in another file.
fn without_tests(tokens: TokenStream, files: &mut Vec<String>) -> Vec<TokenTree> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut code = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let [first, after @ ..] = rest {
        if let [TokenTree::Group(group), ..] = after
            && is(first, "#")
            && group.stream().to_string().replace(' ', "") == "cfg(test)"
        {
            let item = &after[1..][..item_len(&after[1..])];
            files.extend(module_elsewhere(item));
            rest = &after[1 + item.len()..];
            continue;
        }
        if let TokenTree::Group(group) = first {
            let inside = without_tests(group.stream(), files).into_iter().collect();
            code.push(Group::new(group.delimiter(), inside).into());
        } else {
            code.push(first.clone());
        }
        rest = after;
    }
    code
}

/// An item ends with its block, or with a semicolon or comma.
fn item_len(tokens: &[TokenTree]) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ','),
        _ => false,
    };
    tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1)
}

/// The name in `mod name;`.
fn module_elsewhere(item: &[TokenTree]) -> Option<String> {
    match item {
        [.., keyword, name, end] if is(keyword, "mod") && is(end, ";") => Some(name.to_string()),
        _ => None,
    }
}

pub fn is(token: &TokenTree, text: &str) -> bool {
    !matches!(token, TokenTree::Group(_) | TokenTree::Literal(_)) && token.to_string() == text
}

pub fn tokens_of(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

fn parent(module: &[String]) -> &[String] {
    module.split_last().map_or(&[], |(_, parent)| parent)
}

/// What paths that begin with `crate`, `super` or `self` name in the module `within`: the first name after its own.
struct Names<'a> {
    within: &'a [String],
    names: Vec<String>,
}

impl Names<'_> {
    /// Adds what the code of a module names.
    fn add_all(&mut self, code: &[TokenTree], module: &[String]) {
        for (at, token) in code.iter().enumerate() {
            match token {
                TokenTree::Group(group) if !is_visibility(group) => self.add_all(&tokens_of(group), module),
                token if is(token, "crate") => self.path_after(&code[at + 1..], &[]),
                token if is(token, "super") => self.path_after(&code[at + 1..], parent(module)),
                token if is(token, "self") => self.path_after(&code[at + 1..], module),
                _ => {}
            }
        }
    }

    /// A path that has led to the module `base` and continues after `::`, or gives `within` another name.
    fn path_after(&mut self, code: &[TokenTree], base: &[String]) {
        match code {
            [first, second, rest @ ..] if is(first, ":") && is(second, ":") => self.path(rest, base),
            [first, name, ..] if is(first, "as") && base == self.within => self.names.push(format!("as {name}")),
            _ if base == self.within && !base.is_empty() => self.names.push("self".into()),
            _ => {}
        }
    }

    /// A name in the module `base`, or a group of paths.
    fn path(&mut self, code: &[TokenTree], base: &[String]) {
        let room = base.strip_prefix(self.within).and_then(<[String]>::first);
        match code {
            [TokenTree::Group(group), ..] => {
                let tokens = tokens_of(group);
                tokens.split(|token| is(token, ",")).for_each(|part| self.path(part, base));
            }
            [name, rest @ ..] if is(name, "super") => self.path_after(rest, parent(base)),
            [name, rest @ ..] if is(name, "self") => self.path_after(rest, base),
            [name, ..] if base == self.within => self.names.push(name.to_string()),
            [_, ..] if room.is_some() => self.names.extend(room.cloned()),
            [name, rest @ ..] => self.path_after(rest, &[base, &[name.to_string()]].concat()),
            [] => {}
        }
    }
}

/// `(super)` or `(in crate::room)`, after `pub`.
fn is_visibility(group: &Group) -> bool {
    let is_way = |token: &TokenTree| is(token, "super") || is(token, "crate");
    group.delimiter() == Delimiter::Parenthesis
        && match tokens_of(group).as_slice() {
            [only] => is_way(only),
            [first, ..] => is(first, "in"),
            [] => false,
        }
}
