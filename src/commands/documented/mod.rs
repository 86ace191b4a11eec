//! The arguments of commands in COMMAND DOCS: redis-cli and other clients show hints from it.
//!
//! The structure is that of Redis 7.2: names, types, tokens, and which arguments are optional or may be repeated. There
//! is one file for each family, with a line for each command; a command without a line has no arguments.

mod bitmaps;
mod cluster;
mod connections;
mod geo;
mod hashes;
mod hyperloglogs;
mod keys;
mod lists;
mod pubsub;
mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;
mod transactions;

use super::row::{Command, Group};
use crate::resp::Reply;

/// A command, by the name of its row, with its arguments.
pub type Described = (&'static str, &'static [Argument]);

/// One argument of a command, or several that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    name: &'static str,
    kind: Kind,
    /// The name that is shown, if it differs.
    shown: Option<&'static str>,
    /// Which of the command's key specifications finds it.
    key: Option<u8>,
    /// The word before it, or the word that it is.
    token: Option<&'static str>,
    since: Option<&'static str>,
    deprecated_since: Option<&'static str>,
    is_optional: bool,
    is_repeated: bool,
    is_repeated_with_token: bool,
    /// Its parts: one of these, or all of them.
    parts: &'static [Argument],
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Text,
    Integer,
    Double,
    Pattern,
    UnixTime,
    Token,
    OneOf,
    Block,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Text => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::Token => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }

    fn has_parts(self) -> bool {
        matches!(self, Self::OneOf | Self::Block)
    }
}

// Functions for writing the lines of the families.

const fn argument(name: &'static str, kind: Kind) -> Argument {
    Argument {
        name,
        kind,
        shown: None,
        key: None,
        token: None,
        since: None,
        deprecated_since: None,
        is_optional: false,
        is_repeated: false,
        is_repeated_with_token: false,
        parts: &[],
    }
}

/// A key, which this one of the command's specifications finds.
const fn key(name: &'static str, specification: u8) -> Argument {
    argument(name, Kind::Key).of_key(specification)
}

const fn string(name: &'static str) -> Argument {
    argument(name, Kind::Text)
}

const fn integer(name: &'static str) -> Argument {
    argument(name, Kind::Integer)
}

const fn double(name: &'static str) -> Argument {
    argument(name, Kind::Double)
}

const fn pattern(name: &'static str) -> Argument {
    argument(name, Kind::Pattern)
}

const fn unix_time(name: &'static str) -> Argument {
    argument(name, Kind::UnixTime)
}

/// A single word.
const fn token(name: &'static str, word: &'static str) -> Argument {
    argument(name, Kind::Token).after(word)
}

const fn one_of(name: &'static str, parts: &'static [Argument]) -> Argument {
    Argument { parts, ..argument(name, Kind::OneOf) }
}

const fn block(name: &'static str, parts: &'static [Argument]) -> Argument {
    Argument { parts, ..argument(name, Kind::Block) }
}

impl Argument {
    const fn of_key(self, specification: u8) -> Self {
        Self { key: Some(specification), ..self }
    }

    const fn shown(self, name: &'static str) -> Self {
        Self { shown: Some(name), ..self }
    }

    const fn after(self, word: &'static str) -> Self {
        Self { token: Some(word), ..self }
    }

    const fn since(self, version: &'static str) -> Self {
        Self { since: Some(version), ..self }
    }

    const fn deprecated_since(self, version: &'static str) -> Self {
        Self { deprecated_since: Some(version), ..self }
    }

    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    const fn repeated_with_token(self) -> Self {
        Self { is_repeated_with_token: true, ..self.repeated() }
    }

    fn flags(&self) -> impl Iterator<Item = &'static str> + Clone {
        let flags = [
            ("optional", self.is_optional),
            ("multiple", self.is_repeated),
            ("multiple_token", self.is_repeated_with_token),
        ];
        flags.into_iter().filter(|&(_, is_set)| is_set).map(|(name, _)| name)
    }

    fn write(&self, reply: &mut Reply<'_>) {
        let shown = (!self.kind.has_parts()).then(|| self.shown.unwrap_or(self.name));
        let has_flags = self.flags().next().is_some();
        let texts = [
            ("name", Some(self.name)),
            ("type", Some(self.kind.name())),
            ("display_text", shown),
            ("token", self.token),
            ("since", self.since),
            ("deprecated_since", self.deprecated_since),
        ];
        let texts = texts.into_iter().filter_map(|(field, text)| Some((field, text?)));
        let fields = [self.key.is_some(), has_flags, self.kind.has_parts()];
        reply.map(texts.clone().count() + fields.into_iter().filter(|&is_there| is_there).count());
        for (field, text) in texts {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
            if field == "display_text"
                && let Some(key) = self.key
            {
                reply.bulk(b"key_spec_index");
                reply.integer(key.into());
            }
        }
        if has_flags {
            reply.bulk(b"flags");
            reply.set(self.flags().count());
            self.flags().for_each(|flag| reply.simple(flag));
        }
        if self.kind.has_parts() {
            reply.bulk(b"arguments");
            write_all(self.parts, reply);
        }
    }
}

/// Writes the arguments of a command, as COMMAND DOCS has them.
pub fn write_all(arguments: &[Argument], reply: &mut Reply<'_>) {
    reply.array(arguments.len());
    arguments.iter().for_each(|argument| argument.write(reply));
}

/// The arguments of a command; empty if there are none. O(N), N = commands of its family
pub fn arguments_of(row: &Command) -> &'static [Argument] {
    let line = family(row.group).iter().find(|(name, _)| *name == row.name);
    line.map_or(&[], |(_, arguments)| arguments)
}

fn family(group: Group) -> &'static [Described] {
    match group {
        Group::Generic => keys::COMMANDS,
        Group::String => strings::COMMANDS,
        Group::List => lists::COMMANDS,
        Group::Set => sets::COMMANDS,
        Group::Hash => hashes::COMMANDS,
        Group::Bitmap => bitmaps::COMMANDS,
        Group::Hyperloglog => hyperloglogs::COMMANDS,
        Group::SortedSet => sorted_sets::COMMANDS,
        Group::Geo => geo::COMMANDS,
        Group::Stream => streams::COMMANDS,
        Group::PubSub => pubsub::COMMANDS,
        Group::Transactions => transactions::COMMANDS,
        Group::Scripting => scripting::COMMANDS,
        Group::Connection => connections::COMMANDS,
        Group::Server => server::COMMANDS,
        Group::Cluster => cluster::COMMANDS,
    }
}

/// Since when Redis has a replacement for a command.
pub fn deprecated_since(row: &Command) -> Option<&'static str> {
    const DEPRECATED: [(&str, &[&str]); 7] = [
        ("2.0.0", &["substr"]),
        ("2.6.12", &["setnx", "setex", "psetex"]),
        ("4.0.0", &["hmset"]),
        ("6.2.0", &["brpoplpush", "rpoplpush", "getset"]),
        ("6.2.0", &["zrevrange", "zrangebyscore", "zrevrangebyscore", "zrangebylex", "zrevrangebylex"]),
        ("6.2.0", &["georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro"]),
        ("7.2.0", &["quit"]),
    ];
    DEPRECATED.into_iter().find(|(_, names)| names.contains(&row.name)).map(|(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::super::table::COMMANDS;
    use super::*;

    #[test]
    fn what_is_described_is_a_command_of_its_family_and_no_syntax_goes_without_arguments() {
        for row in COMMANDS {
            let is_container = row.flags == super::super::row::Flags::NONE || row.syntax == "subcommand";
            let is_told = !arguments_of(row).is_empty();
            // Commands without arguments in Redis's documentation.
            let is_internal = ["debug", "replconf"].contains(&row.name);
            assert!(is_told || row.syntax.is_empty() || is_container || is_internal, "{}", row.name);
        }
        let groups: std::collections::BTreeSet<Group> = COMMANDS.iter().map(|row| row.group).collect();
        for (group, (name, _)) in
            groups.into_iter().flat_map(|group| family(group).iter().map(move |line| (group, line)))
        {
            assert!(COMMANDS.iter().any(|row| row.name == *name && row.group == group), "{name}");
        }
    }
}
