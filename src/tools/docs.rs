//! docs/COMMANDS.md and docs/CONFIG.md are what the tables say: a test compares, and `make docs` writes them. Compiled
//! for tests alone.

use crate::commands::{COMMANDS, Command, Flags, Group, Request, Response};
use crate::config::{DIRECTIVES, DirectiveRow, Effect, Kind};
use std::fmt::Write;
use std::path::Path;

#[test]
fn the_document_of_commands_is_that_of_their_table() {
    check("docs/COMMANDS.md", &commands_markdown());
}

/// It describes the default build; without jemalloc nothing is evicted, and `maxmemory-policy` has one value.
#[cfg(feature = "jemalloc")]
#[test]
fn the_document_of_directives_is_that_of_their_table() {
    check("docs/CONFIG.md", &config_markdown());
}

fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, text).expect("the document is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{} is not what the tables say: run `make docs`", path.display());
}

const GROUPS: [Group; 16] = [
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
    Group::Scripting,
    Group::Connection,
    Group::Server,
    Group::Cluster,
];

/// docs/COMMANDS.md.
fn commands_markdown() -> String {
    let mut text = String::from(
        "# Commands\n\n\
         Written from the command table (`make docs`); a test compares. Replies and error texts are those of Redis 7.2, \
         in RESP2 and RESP3, on all three engines.\n\n\
         **Not here:** commands that are not listed are unknown commands. Every command, \
         every MULTI block and every script is atomic and isolated over all of its keys, in all engines (unless \
         `--multi-key relaxed`, which loosens all but scripts; a transaction with watched keys stays one step). \
         Each has one time for all of its keys, so keys of one deadline are gone together. A MULTI block has at most \
         500,000 commands with 256 MB of arguments: the command that would exceed it gets \
         `ERR Transaction is too large`, and EXEC refuses the block. Redis has no such limit.\n\n\
         **Of later versions:** `+` as an ID of XREAD, NOVALUES of HSCAN and MAXAGE of CLIENT KILL, which Redis has \
         since 7.4, and NOSCORES of ZSCAN, which Valkey has since 8.0.\n\n\
         **MIGRATE** does not stop the server, as Redis does: until the target has replied, only commands wait that may \
         change one of its keys, and none with COPY. If a command that was accepted before has changed one, or one has \
         expired, they are sent again with REPLACE, and what has gone is removed from the target. If its client \
         disconnects, the keys stay, and the target may have copies. In transactions and scripts it is refused. \
         Nothing is sent if the target refuses the user or the database. INFO counts a call of DEL for what it \
         removes.\n\n\
         **Waiting for several keys** (BLPOP and the like): a client takes from the first of the arguments that holds \
         what it waits for, as in Redis 7.2, also if one transaction or script filled several. A key of another type is \
         passed over; Redis 7.2 replies WRONGTYPE if one has got it meanwhile. On the engine actor, separate requests \
         that fill keys of different shards at the same time have no order: whichever is first serves the client.\n\n\
         **Coarser:** LATENCY HISTOGRAM has the bounds of Redis, and of longer durations also those above a second. \
         Durations are counted to an eighth of their value: one that may be longer than a bound counts for the next. \
         MEMORY STATS has no figures of single databases.\n\n\
         **Counted otherwise:** how often a key was used, as eviction counts it, where a command finds it more than \
         once: ZPOPMIN of a key counts as three uses, in Redis as one; keys that the patterns of SORT name are not \
         used. Files of keys do not have it: a key that was loaded is as new.\n\n\
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
fn config_markdown() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         Written from the table of directives (`make docs`); a test compares. Each directive is a flag \
         (`--maxclients 100`), a line of the config file (`maxclients 100`; the file is the first argument of \
         `shardrace`, or `-` for the standard input), and a parameter of CONFIG GET. Flags take values of several words \
         (`--bind 127.0.0.1 -::1`) and override the file; of a directive that is given twice the last counts. CONFIG SET \
         changes those marked (`protected`: for those whom `enable-protected-configs` names); of the others it accepts \
         the value that they have. Bytes take units: 1k = 1000, 1kb = 1024. Paths are those of the directory in which \
         the server was started.\n\n\
         | Directive | Value | Default | CONFIG SET | |\n|---|---|---|---|---|\n",
    );
    let (without_effect, with_effect): (Vec<_>, Vec<_>) =
        DIRECTIVES.iter().partition(|row| matches!(row.effect, Effect::Ignored | Effect::Refused));
    with_effect.into_iter().for_each(|row| text.push_str(&directive_line(row)));
    text.push_str(
        "\n## Directives of Redis without effect\n\n\
         A redis.conf of Redis 7 is a config file. These directives in it do nothing. CONFIG GET replies what holds here, \
         which is not always Redis's default. Another value in a file or a flag leads to one line of warning; where \
         somebody may rely on what it asks for, there is no start with it (*refused*). CONFIG SET accepts the value that \
         holds.\n\n\
         | Directive | Holds here | Another value | |\n|---|---|---|---|\n",
    );
    without_effect.into_iter().for_each(|row| text.push_str(&line_without_effect(row)));
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
        Request::MultiShardView => "shards of keys, together",
        Request::AllShards => "all shards",
        Request::Cursor => "shard of the cursor, and those after it",
    };
    let reply = match command.response {
        Response::First => "",
        Response::Sum => "sum",
        Response::AllSucceeded => "all succeeded",
        Response::InKeyOrder => "in key order",
        Response::Concatenated => "concatenated",
        Response::AnyByKeys => "one, by number of keys",
        Response::Page => "one page",
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

/// Flags that matter to readers of the list.
fn is_told(flag: &str) -> bool {
    Flags::NAMES[..6].contains(&flag)
}

fn directive_line(row: &DirectiveRow) -> String {
    let value = match row.kind {
        Kind::Integer(least, most) => format!("{least} to {most}"),
        Kind::Signed(least, most) => format!("{least} to {most}"),
        Kind::Clamped(least, most) => format!("{least} to {most}, or the nearer of them"),
        Kind::Memory(least, most) => format!("bytes, {least} to {most}"),
        Kind::MemoryOrPercent => "bytes, or a percentage".to_owned(),
        Kind::SavePoints => "`SECONDS CHANGES ...`".to_owned(),
        Kind::Choice(words) => words.join(", "),
        Kind::Octal(most) => format!("0 to {most:o}, in octal"),
        Kind::Text => "text".to_owned(),
        Kind::Words | Kind::Line | Kind::User => "words".to_owned(),
        Kind::Renaming => "`COMMAND NAME`".to_owned(),
        Kind::FileName => "name of a file".to_owned(),
        Kind::DirName => "name of a directory".to_owned(),
        Kind::Dir => "directory".to_owned(),
        Kind::Include => "path or pattern".to_owned(),
        Kind::OutputLimit => "`CLASS HARD SOFT SECONDS ...`".to_owned(),
        Kind::OnSignal => "default, or some of save, nosave, now, force".to_owned(),
        Kind::OomScores => "three numbers from -2000 to 2000".to_owned(),
        Kind::Events => "letters".to_owned(),
        Kind::Percentiles => "numbers from 0 to 100".to_owned(),
        Kind::Master => "`HOST PORT`, or `no one`".to_owned(),
    };
    let changes = match row.effect {
        Effect::Mutable => "yes",
        Effect::Protected => "protected",
        Effect::Immutable | Effect::Ignored | Effect::Refused => "",
    };
    format!("| `{}` | {value} | {} | {changes} | {} |\n", row.name, shown_default(row), row.help)
}

fn line_without_effect(row: &DirectiveRow) -> String {
    let holds = if row.kind.is_parameter() { shown_default(row) } else { "(no parameter of CONFIG)" };
    let another = if row.effect == Effect::Refused { "refused" } else { "warning" };
    format!("| `{}` | {holds} | {another} | {} |\n", row.name, row.help)
}

fn shown_default(row: &DirectiveRow) -> &'static str {
    if row.default.is_empty() { "(empty)" } else { row.default }
}
