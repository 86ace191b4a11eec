//! The arguments of commands in COMMAND DOCS: redis-cli and other clients show hints from it.
//!
//! The structure is that of Redis 7.2: names, types, tokens, and which arguments are optional or may be repeated. Rows
//! are written with these functions.

use crate::resp::Reply;

/// The arguments of a row, or of an argument that has some, written with the functions of this module.
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => {
        const {
            use $crate::commands::documentation::*;
            &[$($argument),*]
        }
    };
}
pub(super) use arguments;

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
    /// Its own arguments: one of these, or all of them.
    arguments: &'static [Argument],
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

    fn has_arguments(self) -> bool {
        matches!(self, Self::OneOf | Self::Block)
    }
}

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
        arguments: &[],
    }
}

/// All of these but the last: a variant that only reads takes no destination.
pub(super) const fn without_last(arguments: &'static [Argument]) -> &'static [Argument] {
    match arguments {
        [others @ .., _] => others,
        [] => arguments,
    }
}

/// A key, which this one of the command's specifications finds.
pub const fn key(name: &'static str, specification: u8) -> Argument {
    argument(name, Kind::Key).of_key(specification)
}

/// A string.
pub const fn string(name: &'static str) -> Argument {
    argument(name, Kind::Text)
}

/// An integer.
pub const fn integer(name: &'static str) -> Argument {
    argument(name, Kind::Integer)
}

/// A floating-point number.
pub const fn double(name: &'static str) -> Argument {
    argument(name, Kind::Double)
}

/// A glob-style pattern.
pub const fn pattern(name: &'static str) -> Argument {
    argument(name, Kind::Pattern)
}

/// A time, as a Unix timestamp.
pub const fn unix_time(name: &'static str) -> Argument {
    argument(name, Kind::UnixTime)
}

/// A single word.
pub const fn token(name: &'static str, word: &'static str) -> Argument {
    argument(name, Kind::Token).after(word)
}

/// One of several arguments.
pub const fn one_of(name: &'static str, arguments: &'static [Argument]) -> Argument {
    Argument { arguments, ..argument(name, Kind::OneOf) }
}

/// Several arguments that belong together.
pub const fn block(name: &'static str, arguments: &'static [Argument]) -> Argument {
    Argument { arguments, ..argument(name, Kind::Block) }
}

impl Argument {
    /// Found by this one of the key specifications of its command.
    pub const fn of_key(self, specification: u8) -> Self {
        Self { key: Some(specification), ..self }
    }

    /// Under another name.
    pub const fn shown(self, name: &'static str) -> Self {
        Self { shown: Some(name), ..self }
    }

    /// After this word.
    pub const fn after(self, word: &'static str) -> Self {
        Self { token: Some(word), ..self }
    }

    /// Since this version of Redis.
    pub const fn since(self, version: &'static str) -> Self {
        Self { since: Some(version), ..self }
    }

    /// Not to be used since this version of Redis.
    pub const fn deprecated_since(self, version: &'static str) -> Self {
        Self { deprecated_since: Some(version), ..self }
    }

    /// May be left out.
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// May be given several times.
    pub const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// May be given several times, each time after its word.
    pub const fn repeated_with_token(self) -> Self {
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
        let shown = (!self.kind.has_arguments()).then(|| self.shown.unwrap_or(self.name));
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
        let fields = [self.key.is_some(), has_flags, self.kind.has_arguments()];
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
        if self.kind.has_arguments() {
            reply.bulk(b"arguments");
            write_all(self.arguments, reply);
        }
    }
}

/// Writes the arguments of a command, as COMMAND DOCS has them.
pub fn write_all(arguments: &[Argument], reply: &mut Reply<'_>) {
    reply.array(arguments.len());
    arguments.iter().for_each(|argument| argument.write(reply));
}

#[cfg(test)]
mod tests {
    use super::super::table::COMMANDS;

    #[test]
    fn no_command_with_a_syntax_goes_without_arguments_in_command_docs() {
        for row in COMMANDS {
            let is_container = row.is_container() || row.syntax == "subcommand";
            // Commands without arguments in Redis's documentation.
            let is_undocumented = ["debug", "replconf"].contains(&row.name);
            let is_told = !row.arguments.is_empty();
            assert!(is_told || row.syntax.is_empty() || is_container || is_undocumented, "{}", row.name);
        }
    }
}
