//! CONFIG: reads and changes the configuration, and writes it into its file.

use super::{LocalCall, LocalFn};
use crate::aof::Rewriter;
use crate::base::glob;
use crate::commands::Outcome;
use crate::config::logging;
use crate::config::{Config, DIRECTIVES, Directive, Effect};
use crate::resp::{Args, CommandError, Reply, parse_u64, quoted};
use crate::state::listening::{self, Carries};
use crate::state::{Server, tls};
use std::sync::Arc;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("config|get", config_get),
    ("config|set", config_set),
    ("config|rewrite", config_rewrite),
    ("config|resetstat", config_resetstat),
];

/// CONFIG GET parameter [parameter ...]: O(N), N = directives
fn config_get(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    // A name without patterns is replied as given.
    let name_for = |name: &'static str| {
        let mut patterns = args.from(2).iter();
        let pattern = patterns.find(|pattern| glob::matches_ignoring_case(pattern, name.as_bytes()))?;
        Some(if pattern.eq_ignore_ascii_case(name.as_bytes()) { pattern } else { name.as_bytes() })
    };
    let names = crate::config::parameters();
    let wanted: Vec<(usize, &[u8])> = names.filter_map(|(name, index)| Some((index, name_for(name)?))).collect();
    reply.map(wanted.len());
    for (index, name) in wanted {
        reply.bulk(name);
        reply.bulk(call.server.config.get(index).as_bytes());
    }
    Ok(())
}

/// A directive that CONFIG SET changes: its position in the table, its name as given, and its value.
struct Change {
    index: usize,
    name: String,
    value: String,
}

/// CONFIG SET parameter value [parameter value ...]: O(N), N = directives given
fn config_set(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let mut changes: Vec<Change> = Vec::new();
    for position in (2..args.len()).step_by(2) {
        let change = Change::parse(&args[position], &args[position + 1])?;
        if !change.is_allowed(call)? {
            continue;
        }
        // Another name of the same directive is another parameter: the last value counts.
        if changes.iter().any(|other| other.name.eq_ignore_ascii_case(&change.name)) {
            return Err(refusal(&change.name, "duplicate parameter"));
        }
        changes.push(change);
    }
    changes.iter().try_for_each(|change| change.check(call))?;
    let _changing = call.server.config.begin_change();
    let moves = Moves::of(&changes, &call.server.config);
    let of_tls = changes.iter().find(|change| tls::depends_on(change.index));
    let before = call.server.config.values_of(changes.iter().map(|change| change.index));
    let password = before.iter().find(|(index, ..)| *index == Directive::Requirepass as usize).cloned();
    let values: Vec<(usize, String)> = changes.iter().map(|change| (change.index, change.value.clone())).collect();
    let switches = changes
        .iter()
        .find(|change| change.is_of(Directive::Appendonly) && !call.server.config.has(change.index, &change.value));
    call.server.config.set(&values).map_err(|(place, reason)| refusal(&changes[place].name.to_lowercase(), &reason))?;
    let rewriter = switches.filter(|_| call.server.has_log()).map(|change| prepare_log(call.server, change));
    let rewriter = rewriter.transpose().inspect_err(|_| call.server.config.restore(before.clone()))?;
    if let Some(change) = of_tls {
        renew_tls(call.server, change).inspect_err(|_| call.server.config.restore(before.clone()))?;
    }
    let of_score = changes
        .iter()
        .find(|change| change.is_of(Directive::OomScoreAdj) || change.is_of(Directive::OomScoreAdjValues));
    let undo = |_: &CommandError| {
        call.server.config.restore(before.clone());
        // What is set again was so a moment ago.
        let _ = of_score.is_some_and(|change| set_score(call.server, change).is_ok());
        let _ = of_tls.is_some_and(|change| renew_tls(call.server, change).is_ok());
    };
    if let Some(change) = of_score {
        set_score(call.server, change).inspect_err(undo)?;
    }
    moves.follow(call.server).inspect_err(undo)?;
    call.server.apply_config();
    if let Some((.., old)) = password
        && old != call.server.config.text(Directive::Requirepass)
    {
        call.server.users.set_default_password(&call.server.config.text(Directive::Requirepass));
    }
    if switches.is_some() {
        switch_log(call.server, rewriter);
    }
    if changes.iter().any(|change| change.is_of(Directive::Loglevel)) {
        logging::set_level(&call.server.config.text(Directive::Loglevel));
    }
    reply.ok();
    Ok(())
}

impl Change {
    fn parse(name: &[u8], value: &[u8]) -> Result<Self, CommandError> {
        let name = quoted(name, usize::MAX);
        let index = crate::config::parameter(&name.to_lowercase()).ok_or_else(|| {
            CommandError::Owned(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
        })?;
        // A password that is changed a little is another one.
        let value = String::from_utf8(value.to_vec()).map_err(|_| refusal(&name, "argument must be UTF-8"))?;
        Ok(Self { index, name, value })
    }

    fn is_of(&self, directive: Directive) -> bool {
        self.index == directive as usize
    }

    /// Whether it is a permitted change. A directive that is fixed at the start may be set to its current value: a
    /// client that sets all it has read is not refused.
    fn is_allowed(&self, call: &LocalCall<'_>) -> Result<bool, CommandError> {
        let row = &DIRECTIVES[self.index];
        let refuse = match row.effect {
            Effect::Mutable => return Ok(true),
            Effect::Protected if call.may(Directive::EnableProtectedConfigs) => return Ok(true),
            Effect::Protected => "can't set protected config".to_owned(),
            Effect::Immutable => "can't set immutable config".to_owned(),
            Effect::Ignored | Effect::Refused => format!("can't set immutable config: {}", row.help),
        };
        if call.server.config.has(self.index, &self.value) {
            return Ok(false);
        }
        // A value that Redis would refuse gets that error.
        Config::check(self.index, &self.value).map_err(|reason| refusal(&self.name, &reason))?;
        Err(refusal(&self.name, &refuse))
    }

    /// Refuses values of a valid form that the state of the server rules out.
    fn check(&self, call: &LocalCall<'_>) -> Outcome {
        if self.is_of(Directive::Dir) && !call.server.config.has(self.index, &self.value) {
            return self.check_dir(call);
        }
        let Some(wanted) = parse_u64(self.value.as_bytes()).filter(|_| self.is_of(Directive::Maxclients)) else {
            return Ok(());
        };
        let most = call.server.clients_that_fit(wanted);
        if most < wanted {
            return Err(refusal(
                &self.name,
                &format!("The operating system is not able to handle the specified number of clients, try with {most}"),
            ));
        }
        Ok(())
    }

    fn check_dir(&self, call: &LocalCall<'_>) -> Outcome {
        if call.server.has_log() {
            return Err(refusal(&self.name, "the log is in the directory of the start, and stays there"));
        }
        std::fs::read_dir(&self.value).map(drop).map_err(|error| {
            let text = error.to_string();
            refusal(&self.name, text.split(" (os error").next().unwrap_or_default())
        })
    }
}

fn set_score(server: &Server, change: &Change) -> Outcome {
    server.apply_oom_score().map_err(|error| {
        tracing::warn!("oom-score-adj: {error}");
        refusal(&change.name, "Failed to apply new oom_score_adj configuration, check server logs.")
    })
}

/// Makes room for a log.
fn prepare_log(server: &Server, change: &Change) -> Result<Arc<Rewriter>, CommandError> {
    server.log_switch.prepare(server).map_err(|reason| {
        tracing::warn!("There can be no log: {reason}");
        refusal(&change.name, "Unable to turn on AOF. Check server logs.")
    })
}

/// Begins or ends a log. Neither happens before the reply, nor long after it.
fn switch_log(server: &Server, rewriter: Option<Arc<Rewriter>>) {
    match rewriter {
        Some(rewriter) => server.rewriting.begin_log(rewriter),
        None => server.rewriting.look(),
    }
}

/// Reads the files of TLS again, though only their contents may have changed.
fn renew_tls(server: &Server, change: &Change) -> Outcome {
    server.tls.renew(&server.config).map_err(|reason| {
        tracing::warn!("CONFIG SET {} {}: {reason}", change.name, change.value);
        refusal(&change.name, "Unable to update TLS configuration. Check server logs.")
    })
}

/// The changes that make the server listen elsewhere: of each of its ports the first.
struct Moves<'a> {
    plain: Option<&'a Change>,
    encrypted: Option<&'a Change>,
}

impl<'a> Moves<'a> {
    fn of(changes: &'a [Change], config: &Config) -> Self {
        let first_of = |port: Directive| {
            let mut changes = changes.iter().filter(|change| !config.has(change.index, &change.value));
            changes.find(|change| change.is_of(Directive::Bind) || change.is_of(port))
        };
        let is_used =
            changes.iter().any(|change| change.is_of(Directive::TlsPort)) || config.number(Directive::TlsPort) > 0;
        let encrypted = is_used.then(|| first_of(Directive::TlsPort)).flatten();
        Self { plain: first_of(Directive::Port), encrypted }
    }

    /// Listens where the configuration says now.
    fn follow(&self, server: &Server) -> Outcome {
        // That for TLS first: it may be what makes the other one needless.
        self.encrypted.map_or(Ok(()), |change| listen(server, change, Carries::Tls))?;
        self.plain.map_or(Ok(()), |change| listen(server, change, Carries::Plain))
    }
}

/// Listens where the configuration says now; `change` is the first of its changes.
fn listen(server: &Server, change: &Change, carries: Carries) -> Outcome {
    let wanted = listening::wanted_port(&server.config, carries);
    // A port that the system has chosen is kept; it chooses none for TLS.
    let has_chosen = wanted == 0 && carries == Carries::Plain && change.is_of(Directive::Bind);
    let port = if has_chosen { server.listening.port(carries) } else { wanted };
    let moved = server.listening.move_to(&server.config, carries, port);
    // A port that the system has chosen is said nowhere else.
    let places = server.listening.places().join(", ");
    if moved.is_ok() {
        tracing::info!("CONFIG SET {} {}: now listening {places}", change.name, change.value);
    }
    moved.map_err(|reason| {
        tracing::warn!("CONFIG SET {} {}: {reason}. Listening as before, {places}", change.name, change.value);
        let reason = match change.is_of(Directive::Bind) {
            true => "Failed to bind to specified addresses.",
            false => "Unable to listen on this port. Check server logs.",
        };
        refusal(&change.name, reason)
    })
}

fn refusal(name: &str, reason: &str) -> CommandError {
    CommandError::Owned(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
}

/// CONFIG REWRITE: O(N), N = directives
fn config_rewrite(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const NO_FILE: &str = "ERR The server is running without a config file";
    let path = call.server.config.file().ok_or(CommandError::Text(NO_FILE))?;
    let _changing = call.server.config.begin_change();
    let config = &call.server.config;
    // Those of a file are kept there.
    let are_elsewhere = !config.text(Directive::Aclfile).is_empty();
    let users = match are_elsewhere || call.server.users.are_plain(&config.text(Directive::Requirepass)) {
        true => Vec::new(),
        false => call.server.users.lines(),
    };
    crate::config::rewritten_file::write(path, config, &users).map_err(|error| {
        tracing::warn!("CONFIG REWRITE failed, {} stays as it was: {error}", path.display());
        CommandError::Owned(format!("ERR Rewriting config file: {error}"))
    })?;
    tracing::info!("CONFIG REWRITE executed with success.");
    reply.ok();
    Ok(())
}

/// CONFIG RESETSTAT: O(1)
fn config_resetstat(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.server.reset_stats();
    reply.ok();
    Ok(())
}
