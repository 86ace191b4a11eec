//! What COMMAND DOCS says of arguments: scripting.

use super::{Described, integer, key, one_of, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("eval", &[string("script"), integer("numkeys"), key("key", 0).repeated().optional(), string("arg").repeated().optional()]),
    ("eval_ro", &[string("script"), integer("numkeys"), key("key", 0).repeated().optional(), string("arg").repeated().optional()]),
    ("evalsha", &[string("sha1"), integer("numkeys"), key("key", 0).repeated().optional(), string("arg").repeated().optional()]),
    ("evalsha_ro", &[string("sha1"), integer("numkeys"), key("key", 0).repeated().optional(), string("arg").repeated().optional()]),
    ("fcall", &[string("function"), integer("numkeys"), key("key", 0).repeated().optional(), string("arg").repeated().optional()]),
    ("fcall_ro", &[string("function"), integer("numkeys"), key("key", 0).repeated().optional(), string("arg").repeated().optional()]),
    ("function|delete", &[string("library-name")]),
    ("function|flush", &[one_of("flush-type", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional()]),
    ("function|list", &[string("library-name-pattern").after("LIBRARYNAME").optional(), token("withcode", "WITHCODE").optional()]),
    ("function|load", &[token("replace", "REPLACE").optional(), string("function-code")]),
    ("function|restore", &[string("serialized-value"), one_of("policy", &[token("flush", "FLUSH"), token("append", "APPEND"), token("replace", "REPLACE")]).optional()]),
    ("script|exists", &[string("sha1").repeated()]),
    ("script|flush", &[one_of("flush-type", &[token("async", "ASYNC"), token("sync", "SYNC")]).since("6.2.0").optional()]),
    ("script|load", &[string("script")]),
];
