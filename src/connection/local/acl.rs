//! ACL: users, what they may do, and what they were denied.

use super::clients::end_client;
use super::{LocalCall, LocalFn};
use crate::acl::{Account, DEFAULT, Selector, User};
use crate::base::whole_file;
use crate::commands::arguments::integer;
use crate::commands::introspection::find_of_request;
use crate::commands::{CATEGORIES, COMMANDS, Outcome, command, is_category, is_in_category};
use crate::config::Directive;
use crate::connection::permissions::{describe, refuses_waiting};
use crate::pubsub::Kind;
use crate::resp::{Args, CommandError, Reply, quoted};
use crate::state::Server;
use crate::state::client_list::Client;
use std::path::Path;
use std::sync::Arc;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("acl|cat", cat),
    ("acl|deluser", deluser),
    ("acl|dryrun", dryrun),
    ("acl|genpass", genpass),
    ("acl|getuser", getuser),
    ("acl|help", help),
    ("acl|list", list),
    ("acl|load", load),
    ("acl|log", log),
    ("acl|save", save),
    ("acl|setuser", setuser),
    ("acl|users", users),
    ("acl|whoami", whoami),
];

/// The most bits of a generated password.
const BITS_MAX: i64 = 4096;
/// Entries of ACL LOG without a number.
const ENTRIES: i64 = 10;

fn must_have_at_most(args: Args<'_>, most: usize) -> Outcome {
    match args.len() <= most {
        true => Ok(()),
        false => {
            let name = quoted(&args[1], 128);
            Err(CommandError::Owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
            )))
        }
    }
}

/// ACL WHOAMI: O(1)
fn whoami(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(&call.state.login.account().name);
    Ok(())
}

/// ACL USERS: O(N), N = users
fn users(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let accounts = call.server.users.list();
    reply.array(accounts.len());
    accounts.iter().for_each(|account| reply.bulk(&account.name));
    Ok(())
}

/// ACL LIST: O(N), N = users
fn list(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let lines = call.server.users.lines();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line));
    Ok(())
}

/// ACL CAT [category]: O(1)
fn cat(_call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 3)?;
    let Some(category) = args.get(2) else {
        reply.array(CATEGORIES.len());
        CATEGORIES.iter().for_each(|category| reply.bulk(category.as_bytes()));
        return Ok(());
    };
    if !is_category(category) {
        return Err(CommandError::Owned(format!("ERR Unknown category '{}'", quoted(category, 128))));
    }
    let rows = COMMANDS.iter().filter(|row| is_in_category(row, category));
    reply.array(rows.clone().count());
    rows.for_each(|row| reply.bulk(row.name.as_bytes()));
    Ok(())
}

/// ACL GETUSER username: O(N), N = rules
fn getuser(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(account) = call.server.users.get(&args[2]) else {
        reply.null();
        return Ok(());
    };
    let user = account.user();
    let (first, others) = user.selectors().split_first().expect("there is at least one");
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    let write = |selector: &Selector, reply: &mut Reply<'_>| {
        reply.bulk(b"commands");
        reply.bulk(selector.command_rules().as_bytes());
        reply.bulk(b"keys");
        reply.bulk(&selector.key_rules());
        reply.bulk(b"channels");
        reply.bulk(&selector.channel_rules());
    };
    write(first, reply);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(3);
        write(selector, reply);
    }
    Ok(())
}

/// ACL SETUSER username [rule [rule ...]]: O(N), N = rules. Connections that listen to channels which their user may
/// not use any more are ended.
fn setuser(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let changed = call.server.users.set(&args[2], args.from(3).iter());
    let changed = changed.map_err(|text| CommandError::Owned(format!("ERR {text}")))?;
    if let Some((account, before)) = changed {
        let user = account.user();
        let has_lost =
            |client: &Client| is_of(client, &account) && listens_without_permission(call.server, client, &user);
        if before.selectors() != user.selectors() {
            end_clients(call, has_lost);
            refuse_waiting(call, &account, &user);
        }
    }
    reply.ok();
    Ok(())
}

/// Ends the waits of connections for what their user may not do any more.
fn refuse_waiting(call: &LocalCall<'_>, account: &Arc<Account>, user: &User) {
    for client in call.server.clients.list().iter().filter(|client| is_of(client, account)) {
        let waiter = client.waiter.lock().clone();
        if let Some((waiter, error)) = waiter.zip(refuses_waiting(client, user)) {
            _ = waiter.refuse(&error);
        }
    }
}

fn is_of(client: &Client, account: &Arc<Account>) -> bool {
    Arc::ptr_eq(&client.account(), account)
}

fn listens_without_permission(server: &Server, client: &Client, user: &User) -> bool {
    let Some(subscriber) = client.queue() else { return false };
    Kind::ALL.into_iter().any(|kind| {
        let names = server.pubsub.names_of(kind, subscriber);
        names.iter().any(|name| !user.allows_channel(name, kind == Kind::Pattern))
    })
}

fn end_clients(call: &mut LocalCall<'_>, is_meant: impl Fn(&Client) -> bool) {
    let clients: Vec<_> = call.server.clients.list().into_iter().filter(|client| is_meant(client)).collect();
    clients.iter().for_each(|client| end_client(call, client));
}

/// ACL DELUSER username [username ...]: O(N), N = connections
fn deluser(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let names = args.from(2);
    if names.iter().any(|name| name == DEFAULT) {
        return Err(CommandError::Text("ERR The 'default' user cannot be removed"));
    }
    let deleted: Vec<_> = names.iter().filter_map(|name| call.server.users.delete(name)).collect();
    end_clients_of(call, &deleted);
    reply.count(deleted.len());
    Ok(())
}

fn end_clients_of(call: &mut LocalCall<'_>, accounts: &[Arc<Account>]) {
    if !accounts.is_empty() {
        end_clients(call, |client| accounts.iter().any(|account| is_of(client, account)));
    }
}

/// ACL GENPASS [bits]: O(1)
fn genpass(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 3)?;
    let bits = args.get(2).map_or(Ok(256), integer)?;
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(CommandError::Owned(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {BITS_MAX}"
        )));
    }
    let digits = usize::try_from((bits + 3) / 4).expect("it is bounded");
    // Guessing it must be as hard as its length says: it comes from no generator of ours.
    reply.bulk(call.server.instance.randomness.hex(digits).as_bytes());
    Ok(())
}

/// ACL DRYRUN username command [arg [arg ...]]: O(1)
fn dryrun(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let account = call
        .server
        .users
        .get(&args[2])
        .ok_or_else(|| CommandError::Owned(format!("ERR User '{}' not found", quoted(&args[2], usize::MAX))))?;
    let request = args.from(3);
    let id = find_of_request(call.server.services.names(), request)
        .ok_or_else(|| CommandError::Owned(format!("ERR Command '{}' not found", quoted(&request[0], usize::MAX))))?;
    if !command(id).accepts(request.len()) {
        return Err(CommandError::Arity(command(id).name.to_owned()));
    }
    match account.user().check(id, request) {
        Ok(()) => reply.ok(),
        Err(denial) => reply.bulk(&describe(&account.name, id, request, denial)),
    }
    Ok(())
}

/// ACL LOG [count | RESET]: O(N), N = entries
fn log(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_at_most(args, 3)?;
    let denials = &call.server.users.denials;
    if args.len() == 3 && args.is(2, "RESET") {
        denials.reset();
        reply.ok();
        return Ok(());
    }
    let count = args.get(2).map_or(Ok(ENTRIES), integer)?;
    let entries = denials.latest(usize::try_from(count).unwrap_or(0));
    let now_ms = call.server.clock.now_ms();
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        let number = |field: &str, number: u64, reply: &mut Reply<'_>| {
            reply.bulk(field.as_bytes());
            reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        };
        let text = |field: &str, text: &[u8], reply: &mut Reply<'_>| {
            reply.bulk(field.as_bytes());
            reply.bulk(text);
        };
        number("count", entry.count, reply);
        text("reason", entry.reason.name().as_bytes(), reply);
        text("context", entry.place.name().as_bytes(), reply);
        text("object", &entry.object, reply);
        text("username", &entry.user, reply);
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        text("client-info", entry.client.as_bytes(), reply);
        number("entry-id", entry.id, reply);
        number("timestamp-created", entry.created_ms, reply);
        number("timestamp-last-updated", entry.updated_ms, reply);
    }
    Ok(())
}

fn file(server: &Server) -> Result<String, CommandError> {
    const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
                           via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
                           configuration file set) in order to store users in the Redis configuration.";
    Some(server.config.path(Directive::Aclfile)).filter(|path| !path.is_empty()).ok_or(CommandError::Text(NO_FILE))
}

/// ACL LOAD: O(N), N = users and connections
fn load(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let path = file(call.server)?;
    let before = call.server.users.load(&path).map_err(|text| CommandError::Owned(format!("ERR {text}")))?;
    end_clients_of(call, &before);
    reply.ok();
    Ok(())
}

/// ACL SAVE: O(N), N = users
fn save(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let path = file(call.server)?;
    let _changing = call.server.config.begin_change();
    let mut lines = call.server.users.lines().join(&b'\n');
    lines.push(b'\n');
    let replaced = whole_file::resolve_links(Path::new(&path)).and_then(|path| whole_file::replace(&path, &lines));
    replaced.map_err(|error| {
        tracing::warn!("ACL SAVE failed, {path} stays as it was: {error}");
        CommandError::Text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    reply.ok();
    Ok(())
}

/// ACL HELP: O(1)
fn help(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: &[&str] = &[
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    The commands of a category, or all categories.",
        "DELUSER <username> [<username> ...]",
        "    Delete users, and end their connections.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Whether the user may run the command, without running it.",
        "GETUSER <username>",
        "    The rules of a user.",
        "GENPASS [<bits>]",
        "    A random password of 256 bits, or as many as are given.",
        "LIST",
        "    The rules of all users, as lines of a file.",
        "LOAD",
        "    Take the users of the ACL file.",
        "LOG [<count> | RESET]",
        "    What was denied lately.",
        "SAVE",
        "    Write all users into the ACL file.",
        "SETUSER <username> <attribute> [<attribute> ...]",
        "    Change a user, or make one.",
        "USERS",
        "    The names of all users.",
        "WHOAMI",
        "    The name of the connection's user.",
        "HELP",
        "    Print this help.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}
