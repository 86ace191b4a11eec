//! Errors of clients, in Redis's words.

use std::fmt;

/// An error reply. Displays as Redis writes it, including the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// The key holds a value of another type.
    WrongType,
    /// The options make no sense.
    Syntax,
    /// An argument or a stored value is no integer.
    NotInteger,
    /// An argument or a stored value is no float.
    NotFloat,
    /// A counter would leave its range.
    Overflow,
    /// A time to live that is not positive, or too large. Holds the command's name.
    InvalidExpire(&'static str),
    /// The key must exist.
    NoSuchKey,
    /// A position outside the list.
    IndexOutOfRange,
    /// Wrong number of arguments for the command named here.
    Arity(String),
    /// Not an error: the command found nothing to take and waits. Never replied.
    Waits,
    /// A text of its own.
    Text(&'static str),
    /// A text of its own, made at run time.
    Owned(String),
    /// The same, for an error that is counted already: one of a command that a script called.
    Counted(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::Syntax => "ERR syntax error",
            Self::NotInteger => "ERR value is not an integer or out of range",
            Self::NotFloat => "ERR value is not a valid float",
            Self::Overflow => "ERR increment or decrement would overflow",
            Self::InvalidExpire(command) => return write!(f, "ERR invalid expire time in '{command}' command"),
            Self::NoSuchKey => "ERR no such key",
            Self::IndexOutOfRange => "ERR index out of range",
            Self::Arity(command) => return write!(f, "ERR wrong number of arguments for '{command}' command"),
            Self::Waits => "ERR the command waits",
            Self::Text(text) => text,
            Self::Owned(text) | Self::Counted(text) => text,
        };
        f.write_str(text)
    }
}
