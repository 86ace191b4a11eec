//! COMMAND: the command table, for clients.
//!
//! Everything is derived from the rows, in the formats of Redis 7, except what commands do with their keys (`access`).
//! The history of a command is left out, because the rows do not have it.

use super::access::{self, Words};
use super::arguments::is;
use super::documentation::write_all;
use super::flag_sets::STATUS;
use super::lookup::{find, named_in_full};
use super::renaming::Names;
use super::row::{Accessed, Categories, Command, Flags, Group, Keys, OptionKeys, Output, Request, Response, Row, Run};
use super::table::{COMMANDS, CommandId, command};
use super::{CommandError, Outcome, Services};
use crate::base::glob;
use crate::commands::documentation::arguments;
use crate::keyspace::Store;
use crate::resp::{Args, Reply};
use std::sync::LazyLock;

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 10] {
    [
        Run::Plain(command_all).row(Command {
            name: "command",
            arity: -1,
            flags: STATUS,
            output: Output::Unordered,
            since: "2.8.13",
            complexity: "O(N), N = commands",
            summary: "Describes every command.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(help).row(Command { name: "client|help", since: "5.0.0", ..Command::help_of(Group::Connection) }),
        Run::Plain(command_count).row(Command {
            name: "command|count",
            arity: 2,
            flags: STATUS,
            since: "2.8.13",
            complexity: "O(1)",
            summary: "How many commands there are.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(command_info).row(Command {
            name: "command|info",
            arity: -2,
            flags: STATUS,
            output: Output::Unordered,
            since: "2.8.13",
            syntax: "[command-name [command-name ...]]",
            arguments: arguments![string("command-name").repeated().optional()],
            complexity: "O(N), N = commands named",
            summary: "Describes commands to clients.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(command_docs).row(Command {
            name: "command|docs",
            arity: -2,
            flags: STATUS,
            output: Output::Unordered,
            since: "7.0.0",
            syntax: "[command-name [command-name ...]]",
            arguments: arguments![string("command-name").repeated().optional()],
            complexity: "O(N), N = commands named",
            summary: "Describes commands to people.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(command_getkeys).row(Command {
            name: "command|getkeys",
            arity: -3,
            flags: STATUS,
            since: "2.8.13",
            syntax: "command [arg [arg ...]]",
            arguments: arguments![string("command"), string("arg").repeated().optional()],
            complexity: "O(N), N = arguments",
            summary: "The keys of a request.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(command_getkeysandflags).row(Command {
            name: "command|getkeysandflags",
            arity: -3,
            flags: STATUS,
            since: "7.0.0",
            syntax: "command [arg [arg ...]]",
            arguments: arguments![string("command"), string("arg").repeated().optional()],
            complexity: "O(N), N = arguments",
            summary: "The keys of a request, and what becomes of them.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(command_list).row(Command {
            name: "command|list",
            arity: -2,
            flags: STATUS,
            output: Output::Unordered,
            since: "7.0.0",
            syntax: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
            arguments: arguments![
                one_of(
                    "filterby",
                    arguments![
                        string("module-name").after("MODULE"),
                        string("category").after("ACLCAT"),
                        pattern("pattern").after("PATTERN"),
                    ],
                )
                .after("FILTERBY")
                .optional()
            ],
            complexity: "O(N), N = commands",
            summary: "The names of the commands.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Server)
        }),
        Run::Plain(help).row(Command {
            name: "command|help",
            since: "5.0.0",
            categories: Categories::CONNECTION,
            ..Command::help_of(Group::Server)
        }),
        Run::Plain(help).row(Command { name: "config|help", since: "5.0.0", ..Command::help_of(Group::Server) }),
    ]
}

/// COMMAND: O(N), N = commands
pub fn command_all(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match services.names().are_own() {
        true => reply.raw(&ALL_INFO[usize::from(reply.is_resp3())]),
        false => write_all_info(services.names(), reply),
    }
    Ok(())
}

/// What COMMAND replies where commands have their own names, in RESP2 and RESP3. Clients ask when they connect.
static ALL_INFO: [LazyLock<Vec<u8>>; 2] = [LazyLock::new(|| all_info(false)), LazyLock::new(|| all_info(true))];

fn all_info(resp3: bool) -> Vec<u8> {
    let mut info = Vec::new();
    write_all_info(&Names::default(), &mut Reply::new(&mut info, resp3));
    info
}

fn write_all_info(names: &Names, reply: &mut Reply<'_>) {
    reply.array(top_level(names).count());
    top_level(names).for_each(|row| write_info(row, reply));
}

/// COMMAND COUNT: O(1)
pub fn command_count(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(top_level(services.names()).count());
    Ok(())
}

/// COMMAND INFO [command-name [command-name ...]]: O(N), N = commands named
pub fn command_info(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let names = args.from(2);
    if names.is_empty() {
        return command_all(services, args, reply);
    }
    reply.array(names.len());
    for name in names.iter() {
        match services.names().find_row(name) {
            Some(id) => write_info(command(id), reply),
            None => reply.null(),
        }
    }
    Ok(())
}

/// The commands that clients can call and that are not subcommands.
fn top_level(names: &Names) -> impl Iterator<Item = &'static Command> + Clone {
    callable(names).filter(|row| row.container().is_none())
}

/// The commands and subcommands that clients can call. They are shown by their own names, as by Redis.
fn callable(names: &Names) -> impl Iterator<Item = &'static Command> + Clone {
    let rows = COMMANDS.iter().enumerate();
    rows.filter(|&(index, _)| names.are_own() || names.has(CommandId::of_index(index))).map(|(_, row)| row)
}

/// CLIENT HELP, COMMAND HELP, CONFIG HELP: O(N), N = subcommands
pub fn help(_services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = String::from_utf8_lossy(&args[0]).to_uppercase();
    let container = find(&args[0]).map(command).expect("its subcommand was found");
    let rows = subcommands_of(container).filter_map(|row| Some((row, row.container()?.1)));
    let rows: Vec<_> = rows.filter(|(_, subcommand)| *subcommand != "help").collect();
    reply.array(2 * rows.len() + 3);
    reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (row, subcommand) in rows {
        reply.simple(format!("{} {}", subcommand.to_uppercase(), row.syntax).trim_end());
        reply.simple(&format!("    {}", row.summary));
    }
    reply.simple("HELP");
    reply.simple("    Print this help.");
    Ok(())
}

fn subcommands_of(container: &Command) -> impl Iterator<Item = &'static Command> + Clone {
    COMMANDS.iter().filter(move |row| row.container().is_some_and(|(name, _)| name == container.name))
}

/// Name, arity, flags, first key, last key, step, ACL categories, tips, key specifications, subcommands.
fn write_info(row: &Command, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.bulk(row.name.as_bytes());
    reply.integer(i64::from(row.arity));
    write_words(row.flags.names().chain(row.keys.are_movable().then_some("movablekeys")), reply);
    let keys = own_keys(row);
    reply.integer(i64::from(keys.first));
    reply.integer(i64::from(keys.last));
    reply.integer(i64::from(keys.step));
    write_words(categories(row), reply);
    write_tips(row, reply);
    write_key_specifications(row, reply);
    reply.set(subcommands_of(row).count());
    subcommands_of(row).for_each(|row| write_info(row, reply));
}

fn write_words<'a>(words: impl Iterator<Item = &'a str>, reply: &mut Reply<'_>) {
    let words: Vec<&str> = words.collect();
    reply.set(words.len());
    words.into_iter().for_each(|word| reply.simple(word));
}

/// The names of the ACL categories.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Whether there is an ACL category of this name.
pub fn is_category(name: &[u8]) -> bool {
    CATEGORIES.iter().any(|category| is(name, category))
}

/// Whether a command is in an ACL category.
pub fn is_in_category(row: &Command, name: &[u8]) -> bool {
    categories(row).any(|category| is(name, category.trim_start_matches('@')))
}

/// The positions of the keys that a request names, with what it does with each in the words of key specifications.
pub fn keys_used<'a>(row: &'static Command, request: Args<'a>) -> impl Iterator<Item = (usize, Words)> + 'a {
    let access = if row.accepts(request.len()) { access::of_request(row, request) } else { access::of(row) };
    let has_keys = !row.flags.has(Flags::NOT_KEYS) && row.accepts(request.len());
    let positions = has_keys.then(|| row.keys.positions(request)).into_iter().flatten();
    positions
        .enumerate()
        .map(move |(number, position)| (position, if number == 0 { access.first } else { access.rest }))
}

/// The ACL categories of a command, in Redis's order.
fn categories(row: &Command) -> impl Iterator<Item = &'static str> {
    let is_fast = row.flags.has(Flags::FAST);
    let is_admin = row.flags.has(Flags::ADMIN) || row.categories.has(Categories::ADMIN);
    // A container that is not a command of its own has no flags, and no family here.
    let is_container = row.is_container();
    let is_about_connections = row.group == Group::Connection || row.categories.has(Categories::CONNECTION);
    let is_sort = row.categories.has(Categories::OF_SORT);
    let is_about_keys = row.group == Group::Generic && !is_sort && !is_container && !is_about_connections
        || row.categories.has(Categories::KEYSPACE);
    [
        ("@keyspace", is_about_keys || row.request == Request::AllShards),
        ("@read", row.flags.has(Flags::READONLY) && !row.flags.has(Flags::SCRIPT)),
        ("@write", row.flags.has(Flags::WRITE)),
        ("@set", row.group == Group::Set || is_sort),
        ("@sortedset", row.group == Group::SortedSet || is_sort),
        ("@list", row.group == Group::List || is_sort),
        ("@hash", row.group == Group::Hash),
        ("@string", row.group == Group::String),
        ("@bitmap", row.group == Group::Bitmap),
        ("@hyperloglog", row.group == Group::Hyperloglog),
        ("@geo", row.group == Group::Geo),
        ("@pubsub", row.flags.has(Flags::PUBSUB)),
        ("@stream", row.group == Group::Stream && !is_container),
        ("@admin", is_admin),
        ("@fast", is_fast),
        ("@slow", !is_fast),
        ("@blocking", row.flags.has(Flags::BLOCKING)),
        ("@dangerous", is_admin || row.categories.has(Categories::DANGEROUS)),
        ("@connection", is_about_connections && !is_container),
        ("@transaction", row.group == Group::Transactions),
        ("@scripting", row.group == Group::Scripting && !is_container),
    ]
    .into_iter()
    .filter(|&(_, belongs)| belongs)
    .map(|(category, _)| category)
}

/// Whether the reply varies, and how the command spreads over shards, for clients of Redis Cluster.
fn write_tips(row: &Command, reply: &mut Reply<'_>) {
    let request = match row.request {
        Request::MultiShard => Some("request_policy:multi_shard"),
        Request::AllShards => Some("request_policy:all_shards"),
        Request::Cursor => Some("request_policy:special"),
        // Clients of a cluster would split what must stay together.
        Request::Local | Request::OneShard | Request::MultiShardView => None,
    };
    let response = match row.response {
        Response::Sum => Some("response_policy:agg_sum"),
        Response::AllSucceeded => Some("response_policy:all_succeeded"),
        Response::AnyByKeys | Response::Page => Some("response_policy:special"),
        Response::First | Response::InKeyOrder | Response::Concatenated => None,
    };
    let output = match row.output {
        Output::Varies => Some("nondeterministic_output"),
        Output::Unordered => Some("nondeterministic_output_order"),
        Output::Same => None,
    };
    let derived = request.into_iter().chain(response);
    let policies: Vec<&str> = row.policies.map_or_else(|| derived.collect(), |policies| policies.0.to_vec());
    let tips = output.into_iter().chain(policies);
    reply.set(tips.clone().count());
    tips.for_each(|tip| reply.bulk(tip.as_bytes()));
}

/// The keys of the row itself: a key after a subcommand is the subcommand's.
fn own_keys(row: &Command) -> Keys {
    if row.is_container() { Keys::NONE } else { row.keys }
}

/// Whether the keys after the first one have a specification of their own: they are accessed differently.
fn are_split(row: &Command) -> bool {
    let (Keys { first, last, .. }, access) = (own_keys(row), access::of(row));
    first > 0 && last != first as i16 && access.first != access.rest
}

fn write_key_specifications(row: &Command, reply: &mut Reply<'_>) {
    let Keys { first, last, step, count_at, streams_from, options } = own_keys(row);
    let stored_from = match options {
        OptionKeys::StoredFrom(start) => Some(start),
        _ => None,
    };
    let has_instead = matches!(options, OptionKeys::Instead(_));
    let (access, is_split) = (access::of(row), are_split(row));
    let single = [first > 0, is_split, count_at > 0, streams_from > 0, has_instead]
        .into_iter()
        .filter(|&is_there| is_there)
        .count();
    let unknown = unknown_keys(options, access);
    reply.set(single + 2 * usize::from(stored_from.is_some()) + unknown.len());
    let write_range = |first: u16, last: i16, words: Words, reply: &mut Reply<'_>| {
        let last_from_first = if last < 0 { i64::from(last) } else { i64::from(last) - i64::from(first) };
        let range = [("lastkey", last_from_first), ("keystep", i64::from(step)), ("limit", 0)];
        write_key_specification(row, Search::Index(first), words, ("range", &range), reply);
    };
    if is_split {
        write_range(first, first as i16, access.first, reply);
        write_range(first + step, last, access.rest, reply);
    } else if first > 0 {
        write_range(first, last, access.first, reply);
    }
    if count_at > 0 {
        let numbered = [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
        let words = if first > 0 { access.rest } else { access.first };
        write_key_specification(row, Search::Index(count_at), words, ("keynum", &numbered), reply);
    }
    if streams_from > 0 {
        // The first half of the arguments after the word.
        let range = [("lastkey", -1), ("keystep", 1), ("limit", 2)];
        write_key_specification(
            row,
            Search::Word("STREAMS", streams_from as i16),
            access.first,
            ("range", &range),
            reply,
        );
    }
    if has_instead {
        let range = [("lastkey", -1), ("keystep", 1), ("limit", 0)];
        // A password may be the same word.
        let words: Vec<&str> = access.rest.iter().copied().chain(["incomplete"]).collect();
        write_key_specification(row, Search::Word("KEYS", -2), &words, ("range", &range), reply);
    }
    if let Some(start) = stored_from {
        let range = [("lastkey", 0), ("keystep", 1), ("limit", 0)];
        for word in ["STORE", "STOREDIST"] {
            write_key_specification(row, Search::Word(word, start as i16), access.rest, ("range", &range), reply);
        }
    }
    for (note, words) in unknown {
        reply.map(4);
        write_text("notes", note, reply);
        reply.bulk(b"flags");
        write_words(words.iter().copied(), reply);
        write_search("begin_search", "unknown", &[], reply);
        write_search("find_keys", "unknown", &[], reply);
    }
}

/// The keys that no specification finds, with what the command does with them.
fn unknown_keys(options: OptionKeys, access: access::Access) -> Vec<(&'static str, Words)> {
    let OptionKeys::Found(finder) = options else { return Vec::new() };
    let words = |accessed| match accessed {
        Accessed::AsFirst => access.first,
        Accessed::AsRest => access.rest,
    };
    finder.notes.iter().map(|&(note, accessed)| (note, words(accessed))).collect()
}

/// Where the search for keys begins.
#[derive(Debug, Clone, Copy)]
enum Search {
    /// At a position.
    Index(u16),
    /// After a word, which is at a position or later; or before a position counted from the end, if that is negative.
    Word(&'static str, i16),
}

fn write_key_specification(
    row: &Command,
    search: Search,
    words: &[&str],
    find: (&str, &[(&str, i64)]),
    reply: &mut Reply<'_>,
) {
    reply.map(3);
    reply.bulk(b"flags");
    write_words(words.iter().copied().chain(row.access_of.is_some().then_some("variable_flags")), reply);
    match search {
        Search::Index(index) => write_search("begin_search", "index", &[("index", i64::from(index))], reply),
        Search::Word(word, from) => write_keyword_search(word, from, reply),
    }
    write_search("find_keys", find.0, find.1, reply);
}

fn write_keyword_search(keyword: &str, from: i16, reply: &mut Reply<'_>) {
    reply.bulk(b"begin_search");
    reply.map(2);
    write_text("type", "keyword", reply);
    reply.bulk(b"spec");
    reply.map(2);
    write_text("keyword", keyword, reply);
    reply.bulk(b"startfrom");
    reply.integer(i64::from(from));
}

fn write_search(name: &str, kind: &str, fields: &[(&str, i64)], reply: &mut Reply<'_>) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    write_text("type", kind, reply);
    reply.bulk(b"spec");
    reply.map(fields.len());
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.integer(*value);
    }
}

fn write_text(field: &str, text: &str, reply: &mut Reply<'_>) {
    reply.bulk(field.as_bytes());
    reply.bulk(text.as_bytes());
}

/// COMMAND DOCS [command-name [command-name ...]]: O(N), N = commands named
pub fn command_docs(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (wanted, names) = (args.from(2), services.names());
    if wanted.is_empty() {
        write_docs_of_all(top_level(names), reply);
    } else {
        write_docs_of_all(wanted.iter().filter_map(|name| names.find_row(name)).map(command), reply);
    }
    Ok(())
}

fn write_docs_of_all<'a>(rows: impl Iterator<Item = &'a Command> + Clone, reply: &mut Reply<'_>) {
    reply.map(rows.clone().count());
    for row in rows {
        reply.bulk(row.name.as_bytes());
        write_docs(row, reply);
    }
}

fn write_docs(row: &Command, reply: &mut Reply<'_>) {
    let subcommands = subcommands_of(row);
    let has_subcommands = subcommands.clone().next().is_some();
    let texts =
        [("summary", row.summary), ("since", row.since), ("group", row.group.name()), ("complexity", row.complexity)];
    let is_of_system = row.is_internal;
    let (deprecated_since, arguments) = (row.deprecated_since, row.arguments);
    let flag = is_of_system.then_some("syscmd").or(deprecated_since.map(|_| "deprecated"));
    let fields = [flag.is_some(), deprecated_since.is_some(), !arguments.is_empty(), has_subcommands];
    reply.map(texts.len() + fields.into_iter().filter(|&is_there| is_there).count());
    texts.into_iter().for_each(|(field, text)| write_text(field, text, reply));
    if let Some(flag) = flag {
        reply.bulk(b"doc_flags");
        write_words(std::iter::once(flag), reply);
    }
    if let Some(version) = deprecated_since {
        write_text("deprecated_since", version, reply);
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        write_all(arguments, reply);
    }
    if has_subcommands {
        reply.bulk(b"subcommands");
        write_docs_of_all(subcommands, reply);
    }
}

/// COMMAND GETKEYS command [arg [arg ...]]: O(N), N = arguments
pub fn command_getkeys(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let request = args.from(2);
    let positions = key_positions(row_with_keys(services.names(), request)?, request);
    reply.array(positions.len());
    positions.into_iter().for_each(|position| reply.bulk(&request[position]));
    Ok(())
}

/// COMMAND GETKEYSANDFLAGS command [arg [arg ...]]: O(N), N = arguments
pub fn command_getkeysandflags(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let request = args.from(2);
    let row = row_with_keys(services.names(), request)?;
    let access = access::of_request(row, request);
    let positions = key_positions(row, request);
    reply.array(positions.len());
    for (number, position) in positions.into_iter().enumerate() {
        reply.array(2);
        reply.bulk(&request[position]);
        write_words(if number == 0 { access.first } else { access.rest }.iter().copied(), reply);
    }
    Ok(())
}

/// The positions of the keys of a request, as its key specifications find them. GEORADIUS has one for STORE and one for
/// STOREDIST, and each finds the first such word; what is written is the last key of either.
fn key_positions(row: &Command, request: Args<'_>) -> Vec<usize> {
    let OptionKeys::StoredFrom(start) = row.keys.options else { return row.keys.positions(request).collect() };
    let places = usize::from(start)..request.len() - 1;
    let stored = ["STORE", "STOREDIST"].into_iter().filter_map(|word| places.clone().find(|&at| request.is(at, word)));
    std::iter::once(usize::from(row.keys.first)).chain(stored.map(|at| at + 1)).collect()
}

/// The row of the command that a request would run, if it has keys and names them.
fn row_with_keys(names: &Names, request: Args<'_>) -> Result<&'static Command, CommandError> {
    let row =
        find_of_request(names, request).map(command).ok_or(CommandError::Text("ERR Invalid command specified"))?;
    if !row.keys.are_named() || row.flags.has(Flags::NOT_KEYS) {
        return Err(CommandError::Text("ERR The command has no key arguments"));
    }
    if !row.accepts(request.len()) {
        return Err(CommandError::Text("ERR Invalid number of arguments specified for command"));
    }
    // PFMERGE may have no key but the first, which the specification of the others does not find.
    let lacks_rest = are_split(row) && request.len() <= usize::from(row.keys.first + row.keys.step);
    let lacks_all = matches!(row.keys.options, OptionKeys::Instead(_)) && row.keys.positions(request).next().is_none();
    // Scripts may have no keys.
    if lacks_rest || lacks_all || (row.keys.variable(request).is_none() && row.script.is_none()) {
        return Err(CommandError::Text("ERR Invalid arguments specified for command"));
    }
    Ok(row)
}

/// The command that a request runs: the subcommand, if its first words name one.
pub fn find_of_request(names: &Names, request: Args<'_>) -> Option<CommandId> {
    named_in_full(names.find(request.get(0)?), request)
}

/// COMMAND LIST [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]: O(N), N = commands
pub fn command_list(services: &Services, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let filter = Filter::parse(args.from(2))?;
    let names = callable(services.names()).filter(|row| filter.lets_pass(row)).map(|row| row.name);
    reply.array(names.clone().count());
    names.for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

/// Which commands COMMAND LIST replies.
#[derive(Debug, Clone, Copy)]
enum Filter<'a> {
    All,
    Module,
    Category(&'a [u8]),
    Pattern(&'a [u8]),
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let (kind, argument) = match (args.len(), args.get(1), args.get(2)) {
            (0, _, _) => return Ok(Self::All),
            (3, Some(kind), Some(argument)) if args.is(0, "FILTERBY") => (kind, argument),
            _ => return Err(CommandError::Syntax),
        };
        match kind {
            _ if is(kind, "MODULE") => Ok(Self::Module),
            _ if is(kind, "ACLCAT") => Ok(Self::Category(argument)),
            _ if is(kind, "PATTERN") => Ok(Self::Pattern(argument)),
            _ => Err(CommandError::Syntax),
        }
    }

    fn lets_pass(self, row: &Command) -> bool {
        match self {
            Self::All => true,
            // There are no modules, so none has commands.
            Self::Module => false,
            Self::Category(name) => is_in_category(row, name),
            Self::Pattern(pattern) => glob::matches_ignoring_case(pattern, row.name.as_bytes()),
        }
    }
}
