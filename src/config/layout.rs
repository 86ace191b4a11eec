//! Values derived from the directives: how the data is divided, where files are, how many of them may be open.

use super::{Config, Directive};
use crate::aof::{FILES_PER_SEGMENT, Layout};
use crate::base::narrowing::size;
use crate::base::parallel::cores;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// File descriptors that belong neither to connections nor to the log: the standard ones, the listener, the runtime's
/// own, the locks, a snapshot, short-lived ones, and one for a connection that is refused.
const OTHER_FILES: u64 = 64;
/// How many of these suffice where the limit on open files is small: as many as Redis reserves, and more than have ever
/// been open at once.
const OTHER_FILES_MIN: u64 = 32;

/// How the engine divides the data. Two shards on one thread do no more than one, in smaller turns (docs/adr/0005).
pub fn layout(config: &Config) -> Layout {
    let engine = config.text(Directive::Engine);
    let shards = match engine.as_str() {
        "actor" => or_default(config.number(Directive::Shards), || threads(config).get()).get(),
        _ => 1,
    };
    Layout { engine, shards }
}

/// The threads that run connections and shards. One core stays free for the kernel's part of the network, the log
/// threads and other processes of the machine.
pub fn threads(config: &Config) -> NonZeroUsize {
    or_default(config.number(Directive::Threads), || (cores() - 1).max(1))
}

/// Whether connections and shards have a thread each. The error is that `local` asks for what `placement` or `engine`
/// does not have.
pub fn is_pinned(config: &Config) -> Result<bool, String> {
    let is_pinned = config.number(Directive::Placement) > 0;
    let reason = match config.number(Directive::Local) > 0 {
        true if config.text(Directive::Engine) != "actor" => "engine actor: no other engine has shards that own keys",
        true if !is_pinned => "placement pinned: under the scheduler no shard has a thread of its own",
        _ => return Ok(is_pinned),
    };
    Err(format!("local inline needs {reason}"))
}

/// The number of a directive, or the default if it is 0.
pub fn or_default(number: u64, default: impl FnOnce() -> usize) -> NonZeroUsize {
    NonZeroUsize::new(size(number)).or_else(|| NonZeroUsize::new(default())).expect("defaults are at least one")
}

/// Where the log's files are.
pub fn log_dir(config: &Config) -> PathBuf {
    Path::new(&config.text(Directive::Dir)).join(config.text(Directive::Appenddirname))
}

/// The path of snapshots.
pub fn snapshot_path(config: &Config) -> PathBuf {
    Path::new(&config.text(Directive::Dir)).join(config.text(Directive::Dbfilename))
}

/// Lowers `maxclients` to what the limit on open files permits, as Redis does.
pub fn fit_maxclients(config: &Config) -> Result<(), String> {
    let wanted = config.number(Directive::Maxclients);
    let files = open_files(wanted, config);
    let most = clients_within(files, config);
    if most == 0 {
        return Err(format!(
            "the limit on open files is {files}, and the server itself needs {} with {} shards: raise it (ulimit -n)",
            OTHER_FILES_MIN + files_of_log(config),
            layout(config).shards
        ));
    }
    if most < wanted {
        tracing::warn!("The limit on open files is {files}: maxclients has been reduced from {wanted} to {most}.");
        let index = Directive::Maxclients as usize;
        config.set(&[(index, most.to_string())]).expect("a smaller number of connections is a valid value");
    }
    Ok(())
}

/// How many of the wanted connections the limit on open files, raised as far as possible, permits.
pub fn clients_that_fit(config: &Config, wanted: u64) -> u64 {
    wanted.min(clients_within(open_files(wanted, config), config))
}

/// How many connections a limit on open files leaves room for. A small one is shared by halves.
fn clients_within(files: u64, config: &Config) -> u64 {
    let rest = files.saturating_sub(files_of_log(config));
    rest.saturating_sub(OTHER_FILES.min(OTHER_FILES_MIN.max(rest / 2)))
}

/// The limit on open files, raised for this many connections as far as it can be.
fn open_files(clients: u64, config: &Config) -> u64 {
    let wanted = clients.saturating_add(OTHER_FILES + files_of_log(config));
    rlimit::increase_nofile_limit(wanted).unwrap_or(u64::MAX)
}

/// The most files of the log that are open at once.
fn files_of_log(config: &Config) -> u64 {
    let segments = if config.is_on(Directive::Appendonly) { layout(config).shards as u64 } else { 0 };
    segments * FILES_PER_SEGMENT
}

/// The name of this boot of the operating system; empty if it has none.
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
