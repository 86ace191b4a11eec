//! The documents that are written from the tables: docs/COMMANDS.md and docs/CONFIG.md.

use crate::commands::{COMMANDS, Command, Flags, Group, Request, Response};
use crate::config::{DIRECTIVES, DirectiveRow, Kind};
use std::fmt::Write;

const GROUPS: [Group; 14] = [
    Group::Generic,
    Group::String,
    Group::Bitmap,
    Group::Hyperloglog,
    Group::List,
    Group::Set,
    Group::Hash,
    Group::SortedSet,
    Group::Geo,
    Group::Stream,
    Group::PubSub,
    Group::Transactions,
    Group::Connection,
    Group::Server,
];

/// docs/COMMANDS.md.
pub fn commands_markdown() -> String {
    let mut text = String::from(
        "# Commands\n\n\
         Written from the command table (`make docs`); a test compares. Replies and error texts are those of Redis 7.2, \
         in RESP2 and RESP3, on all three engines.\n\n\
         **Not here:** commands that are not listed are unknown commands. Scripting (EVAL, FUNCTION) is not planned for \
         this version. Every command, and every MULTI block, is atomic and isolated over all of its keys, in all engines \
         (unless `--multi-key relaxed`).\n\n\
         *Where* says how a command gets to its data: `connection` (needs none), `shard` (the shard of its key), \
         `shards of keys` (each shard that holds one of them, the replies joined as *reply* says), `all shards`.\n",
    );
    for group in GROUPS {
        let rows: Vec<&Command> = COMMANDS.iter().filter(|command| command.group == group).collect();
        write!(text, "\n## {}\n\n", title(group)).expect(MEMORY);
        text.push_str("| Command | Since | Complexity | Flags | Where | Reply | |\n|---|---|---|---|---|---|---|\n");
        rows.iter().for_each(|command| text.push_str(&command_line(command)));
    }
    text
}

/// docs/CONFIG.md.
pub fn config_markdown() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         Written from the table of directives (`make docs`); a test compares. Each directive is a flag \
         (`--maxclients 100`), a line of the config file (`maxclients 100`; the file is the first argument of \
         `shardrace`), and a parameter of CONFIG GET. CONFIG SET changes those marked. Bytes take units: 1k = 1000, \
         1kb = 1024.\n\n\
         | Directive | Value | Default | CONFIG SET | |\n|---|---|---|---|---|\n",
    );
    DIRECTIVES.iter().for_each(|row| text.push_str(&directive_line(row)));
    text
}

const MEMORY: &str = "writing to memory does not fail";

fn title(group: Group) -> String {
    let name = group.name();
    name[..1].to_uppercase() + &name[1..]
}

fn command_line(command: &Command) -> String {
    let usage = format!("{} {}", command.name.to_uppercase().replace('|', " "), command.syntax);
    let flags: Vec<&str> = command.flags.names().filter(|flag| is_told(flag)).collect();
    let place = match command.request {
        Request::Local => "connection",
        Request::OneShard => "shard",
        Request::MultiShard => "shards of keys",
        Request::Joint => "shards of keys, together",
        Request::AllShards => "all shards",
        Request::Cursor => "shard of the cursor",
    };
    let reply = match command.response {
        Response::First => "",
        Response::Sum => "sum",
        Response::AllSucceeded => "all succeeded",
        Response::InKeyOrder => "in key order",
        Response::Concatenated => "concatenated",
        Response::AnyByKeys => "one, by number of keys",
    };
    format!(
        "| `{}` | {} | {} | {} | {place} | {reply} | {} |\n",
        usage.trim_end().replace('|', "\\|"),
        command.since,
        command.complexity,
        flags.join(" "),
        command.summary
    )
}

/// Flags that a reader of the list wants to know.
fn is_told(flag: &str) -> bool {
    Flags::NAMES[..6].contains(&flag)
}

fn directive_line(row: &DirectiveRow) -> String {
    let value = match row.kind {
        Kind::Integer(least, most) => format!("{least} to {most}"),
        Kind::Signed(least, most) => format!("{least} to {most}"),
        Kind::Memory(least, most) => format!("bytes, {least} to {most}"),
        Kind::Choice([""]) => "empty".to_owned(),
        Kind::Choice(words) => words.join(", "),
        Kind::Text => "text".to_owned(),
        Kind::OutputLimit => "`CLASS HARD SOFT SECONDS ...`".to_owned(),
        Kind::Events => "letters".to_owned(),
        Kind::Percentiles => "numbers from 0 to 100".to_owned(),
    };
    let default = if row.default.is_empty() { "(empty)" } else { row.default };
    let mutable = if row.mutable { "yes" } else { "" };
    format!("| `{}` | {value} | {default} | {mutable} | {} |\n", row.name, row.help)
}
