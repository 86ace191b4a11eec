//! MODULE: there are no modules, as clients that ask are told, and none can be loaded.

use super::flag_sets::STATUS;
use super::lookup::container;
use super::row::{Command, Flags, Group, Output, Row, Run};
use super::{CommandError, Outcome, Services};
use crate::commands::documentation::arguments;
use crate::keyspace::Store;
use crate::resp::{Args, Reply};

const LISTS: Flags = Flags::ADMIN.and(Flags::NOSCRIPT);
const LOADS: Flags = LISTS.and(Flags::NO_ASYNC_LOADING);

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 6] {
    [
        Run::Plain(container).row(Command {
            name: "module",
            since: "4.0.0",
            summary: "Commands about modules, of which there are none.",
            ..Command::container_of(Group::Server)
        }),
        Run::Plain(list).row(Command {
            name: "module|list",
            arity: 2,
            flags: LISTS,
            output: Output::Unordered,
            since: "4.0.0",
            complexity: "O(1)",
            summary: "Replies that there are no modules.",
            ..Command::of(Group::Server)
        }),
        Run::Plain(refuse).row(Command {
            name: "module|load",
            arity: -3,
            flags: LOADS,
            since: "4.0.0",
            syntax: "path [arg [arg ...]]",
            arguments: arguments![string("path"), string("arg").repeated().optional()],
            complexity: "O(1)",
            summary: "Refused: no module can be loaded.",
            ..Command::of(Group::Server)
        }),
        Run::Plain(refuse).row(Command {
            name: "module|loadex",
            arity: -3,
            flags: LOADS,
            since: "7.0.0",
            syntax: "path [CONFIG name value [CONFIG name value ...]] [ARGS arg [arg ...]]",
            arguments: arguments![
                string("path"),
                block("configs", arguments![string("name"), string("value")])
                    .after("CONFIG")
                    .optional()
                    .repeated_with_token(),
                block("args", arguments![string("arg")]).after("ARGS").optional().repeated(),
            ],
            complexity: "O(1)",
            summary: "Refused: no module can be loaded.",
            ..Command::of(Group::Server)
        }),
        Run::Plain(refuse).row(Command {
            name: "module|unload",
            arity: 3,
            flags: LOADS,
            since: "4.0.0",
            syntax: "name",
            arguments: arguments![string("name")],
            complexity: "O(1)",
            summary: "Refused: there are no modules.",
            ..Command::of(Group::Server)
        }),
        Run::Plain(help).row(Command {
            name: "module|help",
            since: "5.0.0",
            flags: STATUS,
            ..Command::help_of(Group::Server)
        }),
    ]
}

/// MODULE LIST: O(1)
pub fn list(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(0);
    Ok(())
}

/// MODULE LOAD path [arg [arg ...]], MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS arg
/// [arg ...]], MODULE UNLOAD name: O(1). As where `enable-module-command` is no, its default: it cannot be another.
pub fn refuse(_services: &Services, _args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    const TEXT: &str = "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you \
                        can run it from a local connection, otherwise you need to set this option in the \
                        configuration file, and then restart the server.";
    Err(CommandError::Text(TEXT))
}

/// MODULE HELP: O(1)
pub fn help(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: [&str; 11] = [
        "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "LIST",
        "    The modules that are loaded: none.",
        "LOAD <path> [<arg> ...]",
        "    Refused: no module can be loaded.",
        "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
        "    Refused: no module can be loaded.",
        "UNLOAD <name>",
        "    Refused: there are no modules.",
        "HELP",
        "    Print this help.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}
