//! Reads the configuration: lines of files and flags, one after another; the last value of each directive counts.

use super::{Config, DIRECTIVES, Directive, DirectiveRow, Effect, Kind, check, index_of};
use crate::base::glob;
use crate::resp::split_line;
use crate::snapshot::SavePoints;
use crate::snapshot::save_points;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// How deep includes may be nested: a file that includes itself by way of links ends.
const DEPTH_MAX: usize = 16;
/// What some editors put before the first line of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The contents of a file without that.
pub(super) fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

/// The lines of a file, without their ends. Not all of it has to be UTF-8: a comment may be in any encoding.
pub(super) fn lines_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

/// What has been read so far.
#[derive(Debug)]
pub(super) struct Intake<'a> {
    config: &'a Config,
    /// The values given for directives without effect, by their positions in the table.
    passed_over: BTreeMap<usize, PassedOver>,
    /// Whether a file or a flag said when snapshots are made.
    says_when_to_save: bool,
    /// The files that are being read, each included by the one before it.
    open: Vec<String>,
}

/// The last value given for a directive without effect.
#[derive(Debug)]
struct PassedOver {
    place: String,
    /// Whether that value holds in any case.
    is_so: bool,
}

impl<'a> Intake<'a> {
    /// Nothing has been read yet.
    pub fn of(config: &'a Config) -> Self {
        Self { config, passed_over: BTreeMap::new(), says_when_to_save: false, open: Vec::new() }
    }

    /// Reads the lines of a file.
    pub fn read_file(&mut self, path: &str) -> Result<(), String> {
        let bytes = std::fs::read(path).map_err(|error| format!("can't read config file {path}: {error}"))?;
        self.read_text(path, &bytes)
    }

    /// Reads the contents of a file.
    pub fn read_text(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.open.push(path.to_owned());
        self.read_lines(path, without_byte_order_mark(bytes))?;
        self.open.pop();
        Ok(())
    }

    /// Reads the lines of the standard input.
    pub fn read_stdin(&mut self, text: &[u8]) -> Result<(), String> {
        self.read_lines("standard input", text)
    }

    /// Reads a flag of the command line.
    pub fn take_flag(&mut self, name: &str, words: &[String]) -> Result<(), String> {
        self.take(name, words, "command line")
            .map_err(|reason| format!("{}: {reason}", format!("--{name} {}", words.join(" ")).trim_end()))
    }

    /// Ends the reading: returns warnings, a line for each directive that has no effect; or why one of them prevents
    /// the start.
    pub fn end(self) -> Result<Vec<String>, String> {
        self.choose_save_points();
        let mut warnings = Vec::new();
        for (index, PassedOver { place, is_so }) in self.passed_over {
            let DirectiveRow { name, effect, help, .. } = &DIRECTIVES[index];
            match effect {
                _ if is_so => {}
                Effect::Refused => return Err(format!("{place}: '{name}' can't be honoured: {help}")),
                _ => warnings.push(format!("{place}: '{name}' has no effect: {help}")),
            }
        }
        Ok(warnings)
    }

    fn read_lines(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        for (index, line) in lines_of(bytes).enumerate() {
            let place = format!("{path}, line {}", index + 1);
            self.read_line(line, &place)
                .map_err(|reason| format!("{place}: '{}': {reason}", String::from_utf8_lossy(line)))?;
        }
        Ok(())
    }

    fn read_line(&mut self, line: &[u8], place: &str) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let words = split_line(line).ok_or("unbalanced quotes")?;
        // A password or a path that is changed a little is another one.
        let words = words.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>();
        let words = words.map_err(|_| "it is not UTF-8")?;
        let (name, values) = words.split_first().ok_or("no directive")?;
        self.take(name, values, place)
    }

    fn take(&mut self, name: &str, values: &[String], place: &str) -> Result<(), String> {
        let index = index_of(&name.to_lowercase()).ok_or_else(|| format!("unknown directive '{name}'"))?;
        let row = &DIRECTIVES[index];
        // A `save` without a value means that there is nothing to save.
        let is_too_short = values.is_empty() && row.kind != Kind::SavePoints;
        if is_too_short || (values.len() > 1 && !row.kind.takes_words()) {
            return Err("wrong number of arguments".into());
        }
        match row.kind {
            Kind::User => {
                self.config.users.lock().push(split_again(values)?);
                return Ok(());
            }
            Kind::Renaming => return self.add_renaming(values),
            _ => {}
        }
        let value = one_value(row, values)?;
        match (row.kind, row.effect) {
            (Kind::Include, _) => self.include(&value),
            (_, Effect::Ignored | Effect::Refused) => {
                check(row, &value)?;
                let is_so = row.kind.is_parameter() && self.config.has(index, &value);
                self.passed_over.insert(index, PassedOver { place: place.to_owned(), is_so });
                Ok(())
            }
            (Kind::SavePoints, _) => self.add_save_points(row, &value),
            _ => self.config.assign(row, &value),
        }
    }

    /// Adds another name of a command. The table of commands is not known here: it is checked later.
    fn add_renaming(&mut self, values: &[String]) -> Result<(), String> {
        let renaming = <[String; 2]>::try_from(split_again(values)?).map_err(|_| "wrong number of arguments")?;
        self.config.renamings.lock().push(renaming);
        Ok(())
    }

    /// Each line and flag adds to those before it; the first one replaces the default.
    fn add_save_points(&mut self, row: &'static DirectiveRow, value: &str) -> Result<(), String> {
        check(row, value)?;
        let before = if self.says_when_to_save { self.config.text(Directive::Save) } else { String::new() };
        self.says_when_to_save = true;
        self.config.assign(row, &SavePoints::joined(&before, value))
    }

    /// If nothing said when snapshots are made, they are made if there is no log, as by Redis.
    fn choose_save_points(&self) {
        if !self.says_when_to_save && !self.config.is_on(Directive::Appendonly) {
            let index = Directive::Save as usize;
            self.config.set(&[(index, save_points::REDIS_DEFAULT.to_owned())]).expect("a default is a valid value");
        }
    }

    fn include(&mut self, path: &str) -> Result<(), String> {
        let is_pattern = path.contains(['*', '?', '[']);
        let paths = if is_pattern { matching(path)? } else { vec![path.into()] };
        for path in paths {
            let path = path.to_string_lossy();
            if self.open.iter().any(|open| *open == path) {
                return Err(format!("{path} includes itself"));
            }
            if self.open.len() > DEPTH_MAX {
                return Err(format!("more than {DEPTH_MAX} files include each other"));
            }
            self.read_file(&path)?;
        }
        Ok(())
    }
}

/// The words of a value. A single one of several is split again, as a flag may have it.
fn split_again(values: &[String]) -> Result<Vec<String>, String> {
    let [value] = values else { return Ok(values.to_vec()) };
    let words = split_line(value.as_bytes()).ok_or("unbalanced quotes")?.into_iter();
    words.map(String::from_utf8).collect::<Result<_, _>>().map_err(|_| "it is not UTF-8".to_owned())
}

/// The words of a value as one text. A single word of several is split again, as by Redis: `save '""'` has no points.
fn one_value(row: &DirectiveRow, values: &[String]) -> Result<String, String> {
    match values {
        [value] if row.kind.takes_words() => {
            let words = split_line(value.as_bytes()).ok_or("unbalanced quotes")?;
            String::from_utf8(words.join(&b' ')).map_err(|_| "it is not UTF-8".to_owned())
        }
        _ => Ok(values.join(" ")),
    }
}

/// The paths that match a pattern, in order; there may be none.
fn matching(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for dir in found {
            next.extend(entries(&dir, part)?);
        }
        found = next;
    }
    Ok(found)
}

/// The entries of a directory that match a part of a pattern, in order.
fn entries(dir: &Path, part: &str) -> Result<Vec<PathBuf>, String> {
    if !part.contains(['*', '?', '[']) {
        let path = dir.join(part);
        return Ok(if path.exists() { vec![path] } else { Vec::new() });
    }
    let listed = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    if !listed.is_dir() {
        return Ok(Vec::new());
    }
    let describe = |error: io::Error| format!("can't read directory {}: {error}", listed.display());
    let names = std::fs::read_dir(listed).map_err(describe)?.map(|entry| Ok(entry.map_err(describe)?.file_name()));
    let mut names = names.collect::<Result<Vec<_>, String>>()?;
    names.sort();
    // As in a shell, names that begin with a dot only match patterns that do, too.
    let is_hidden = |name: &[u8]| name.starts_with(b".") && !part.starts_with('.');
    names.retain(|name| {
        let name = name.as_encoded_bytes();
        !is_hidden(name) && glob::matches(part.as_bytes(), name)
    });
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}
