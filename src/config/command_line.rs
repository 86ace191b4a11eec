//! The command line, as Redis reads it: a file, then flags of one word or several.
//!
//! ```text
//! shardrace [FILE] [-] [--NAME WORD ...] ...      --save 60 1 --loglevel warning    --port=7000    "--port 7000"
//! ```
//! The word that follows a name is its value whatever it looks like; the next that begins with `--` is a name again.

use super::{CommandLineEnd, DIRECTIVES, DirectiveRow, Effect, Kind};
use crate::resp::split_line;
use clap::{Arg, ArgAction, Command};
use std::ffi::OsString;

/// The parsed arguments.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    /// The config file.
    pub file: Option<String>,
    /// Whether more of it is read from the standard input.
    pub reads_stdin: bool,
    /// The flags in order: names and values.
    pub options: Vec<(String, Vec<String>)>,
}

impl CommandLine {
    /// Reads the arguments after the name of the program.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, CommandLineEnd> {
        let words = arguments.into_iter().skip(1).map(text).collect::<Result<Vec<_>, _>>()?;
        let mut line = Self::default();
        let mut is_complete = true;
        for (index, word) in words.iter().enumerate() {
            let is_at_end = index == 0 || index + 1 == words.len();
            if word == "-" && is_at_end {
                line.reads_stdin = true;
            } else if is_complete && is_question(word, index) {
                return Err(CommandLineEnd::Asked(answer(word)));
            } else if is_complete && word.starts_with("--") {
                let next = words.get(index + 1);
                is_complete = line.begin_option(word, next)?;
            } else if let Some((_, values)) = line.options.last_mut() {
                values.push(word.clone());
                is_complete = true;
            } else if index == 0 && !word.starts_with('-') {
                line.file = Some(word.clone());
            } else if index == 1 && line.file.is_some() && !word.starts_with('-') {
                // Redis accepts a name without its `--` here.
                line.options.push((word.clone(), Vec::new()));
                is_complete = false;
            } else {
                return Err(CommandLineEnd::Refused(format!("unexpected argument '{word}': see --help")));
            }
        }
        Ok(line)
    }

    /// Takes a name, and the values in the same word; true if it needs no other.
    fn begin_option(&mut self, word: &str, next: Option<&String>) -> Result<bool, CommandLineEnd> {
        let text = &word[2..];
        let (name, mut values) = match text.split_once('=') {
            Some((name, value)) if !name.contains(' ') => (name.to_owned(), vec![value.to_owned()]),
            _ => split_option(text).ok_or_else(|| CommandLineEnd::Refused(format!("{word}: unbalanced quotes")))?,
        };
        // With nothing to save, scripts leave the value out.
        let is_last = next.is_none_or(|next| next.starts_with("--"));
        if values.is_empty() && is_last && name.eq_ignore_ascii_case("save") {
            values.push(String::new());
        }
        let is_complete = !values.is_empty();
        self.options.push((name, values));
        Ok(is_complete)
    }
}

fn text(argument: OsString) -> Result<String, CommandLineEnd> {
    argument
        .into_string()
        .map_err(|argument| CommandLineEnd::Refused(format!("{} is not UTF-8", argument.to_string_lossy())))
}

fn split_option(text: &str) -> Option<(String, Vec<String>)> {
    let words = split_line(text.as_bytes())?;
    let mut words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
    Some((words.next().unwrap_or_default(), words.collect()))
}

fn is_question(word: &str, index: usize) -> bool {
    matches!(word, "--help" | "--version") || (index == 0 && matches!(word, "-h" | "-v" | "-V"))
}

fn answer(word: &str) -> String {
    match word {
        "--help" | "-h" => help().render_help().to_string(),
        _ => help().render_version(),
    }
}

/// The digest of the sources tells builds of one version apart; the lab compares it with its folder.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (sources ", env!("SHARDRACE_SOURCES"), ")");

/// Columns of a description in the help, which clap indents by ten.
const DESCRIPTION_WIDTH: usize = 70;
/// A longer list of values is told in the description.
const VALUES_WIDTH_MAX: usize = 40;

/// The text of `--help`: the directives that have an effect.
fn help() -> Command {
    let file = Arg::new("config-file").value_name("CONFIG FILE").help(wrapped(
        "Lines of 'directive value', as in redis.conf; - for the standard input. Flags override it, and take values of \
         several words: --save 60 1 --loglevel warning",
    ));
    let rows = DIRECTIVES.iter().filter(|row| !matches!(row.effect, Effect::Ignored | Effect::Refused));
    let flags = rows.map(|row| {
        let flag = Arg::new(row.name).long(row.name).value_name(value_name(row.kind)).action(ArgAction::Set);
        flag.help(wrapped(&description(row)))
    });
    Command::new("shardrace")
        .version(VERSION)
        .about("A Redis-compatible in-memory server whose concurrency architecture is a flag")
        .after_help("Directives of Redis that have no effect here are accepted or refused:\ndocs/CONFIG.md says which.")
        .next_line_help(true)
        .disable_help_subcommand(true)
        .subcommand(Command::new("check-aof").about("Explains the log in a directory, and repairs it; see its --help"))
        .subcommand(
            Command::new("import")
                .about(wrapped("Makes a log of a dump.rdb, an appendonly.aof or an appendonlydir of Redis")),
        )
        .arg(file)
        .args(flags)
}

fn description(row: &DirectiveRow) -> String {
    let mut text = row.help.to_owned();
    if let Kind::Choice(words) = row.kind
        && is_long(words)
    {
        text.push_str(&format!(" [values: {}]", words.join(", ")));
    }
    if !row.default.is_empty() {
        text.push_str(&format!(" [default: {}]", row.default));
    }
    text
}

/// Lines that fit into a description; clap wraps none itself without another dependency.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        if width > 0 {
            let fits = width + 1 + word.len() <= DESCRIPTION_WIDTH;
            lines.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        lines.push_str(word);
        width += word.len();
    }
    lines
}

fn is_long(words: &[&str]) -> bool {
    words.join("|").len() > VALUES_WIDTH_MAX
}

fn value_name(kind: Kind) -> String {
    match kind {
        Kind::Choice(words) if is_long(words) => "WORD".into(),
        Kind::Integer(..) | Kind::Clamped(..) | Kind::Signed(..) | Kind::Octal(..) => "N".into(),
        Kind::Memory(..) => "BYTES".into(),
        Kind::MemoryOrPercent => "BYTES|PERCENT".into(),
        Kind::Choice(words) => words.join("|"),
        Kind::Text => "TEXT".into(),
        Kind::Words | Kind::Line | Kind::User | Kind::Renaming => "WORDS".into(),
        Kind::FileName | Kind::Include => "FILE".into(),
        Kind::Dir | Kind::DirName => "DIR".into(),
        Kind::OutputLimit => "LIMIT".into(),
        Kind::OnSignal => "OPTIONS".into(),
        Kind::OomScores => "MASTER REPLICA CHILD".into(),
        Kind::Events => "LETTERS".into(),
        Kind::Percentiles => "PERCENTILES".into(),
        Kind::SavePoints => "POINTS".into(),
        Kind::Master => "HOST_PORT".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Vec<String> {
        let arguments = ["shardrace"].iter().chain(words).map(Into::into);
        let line = CommandLine::parse(arguments).expect("it is a command line");
        line.options.iter().map(|(name, values)| format!("{name}: {}", values.join("|"))).collect()
    }

    #[test]
    fn flags_take_words_as_those_of_redis_do() {
        for (words, wanted) in [
            (
                &["--save", "60", "1", "--loglevel", "warning"] as &[&str],
                &["save: 60|1", "loglevel: warning"] as &[&str],
            ),
            (&["--bind", "127.0.0.1", "-::1", "--port", "7"], &["bind: 127.0.0.1|-::1", "port: 7"]),
            (&["--save", "--port", "7"], &["save: ", "port: 7"]),
            (&["--port", "7", "--save"], &["port: 7", "save: "]),
            (&["--save", "", "--port", "7"], &["save: ", "port: 7"]),
            (&["--requirepass", "--secret", "--port=7"], &["requirepass: --secret", "port: 7"]),
            (&["--port 7", "--save 60 1"], &["port: 7", "save: 60|1"]),
            (&["--requirepass=a=b c", "--appendonly"], &["requirepass: a=b c", "appendonly: "]),
            (&["--list-max-listpack-size", "-2"], &["list-max-listpack-size: -2"]),
        ] {
            assert_eq!(options(words), wanted, "{words:?}");
        }
    }

    #[test]
    fn the_file_comes_first_and_the_standard_input_first_or_last() {
        let parse = |words: &[&str]| CommandLine::parse(["shardrace"].iter().chain(words).map(Into::into));
        let line = parse(&["a.conf", "--port", "7", "-"]).expect("valid");
        assert_eq!((line.file.as_deref(), line.reads_stdin), (Some("a.conf"), true));
        let line = parse(&["-", "--port", "7"]).expect("valid");
        assert_eq!((line.file, line.reads_stdin), (None, true));
        // The word after the file is a directive's name, as in Redis: an invalid one is refused when it is looked up.
        let line = parse(&["a.conf", "b.conf"]).expect("valid");
        assert_eq!((line.file.as_deref(), &*line.options), (Some("a.conf"), &[("b.conf".to_owned(), Vec::new())][..]));
        for words in [&["-x"] as &[&str], &["a.conf", "-", "--port", "7"]] {
            assert!(matches!(parse(words), Err(CommandLineEnd::Refused(_))), "{words:?}");
        }
        assert!(matches!(parse(&["--port", "7", "--help"]), Err(CommandLineEnd::Asked(_))));
    }
}
