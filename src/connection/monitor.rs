//! MONITOR: a line for each command when it is accepted; for those of a transaction and of a script, when they run.

use crate::commands::{self, CommandId, Flags};
use crate::resp::Args;
use crate::state::Server;
use bytes::Bytes;
use std::fmt::{Display, Write};

/// Shows a command to the monitors, with its client and database. Administrative commands are not shown.
#[cold]
pub fn show(server: &Server, who: &dyn Display, database: usize, id: CommandId, args: Args<'_>) {
    // Without such a subcommand, the command itself decides.
    let command = commands::command(commands::subcommand(id, args).unwrap_or(id));
    // Redis shows scripts itself, before the commands that they call.
    let is_hidden = command.flags.has(Flags::SKIP_MONITOR) && !command.flags.has(Flags::SCRIPT);
    if command.flags.has(Flags::ADMIN) || is_hidden {
        return;
    }
    let now_us = server.clock.now_us();
    let mut line = format!("+{}.{:06} [{database} {who}]", now_us / 1_000_000, now_us % 1_000_000);
    for (position, argument) in args.iter().enumerate() {
        let shown = if (command.is_secret)(args, position) { b"(redacted)".as_slice() } else { argument };
        line.push_str(" \"");
        quote(shown, &mut line);
        line.push('"');
    }
    line.push_str("\r\n");
    server.pubsub.show(Bytes::from(line));
}

/// Bytes as a C string literal.
fn quote(bytes: &[u8], line: &mut String) {
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => write!(line, "\\x{byte:02x}").expect("writing to memory does not fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_shown_in_escapes() {
        let mut line = String::new();
        quote(b"a \"b\"\\\n\r\t\x07\x08\x00\xff~", &mut line);
        assert_eq!(line, r#"a \"b\"\\\n\r\t\a\b\x00\xff~"#);
    }
}
