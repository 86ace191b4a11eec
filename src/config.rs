//! The configuration: one table of directives that drives the flags, the config file, CONFIG GET and SET.
//!
//! A value is checked when it is given; afterwards it is a number (or a text), and its meaning is in its type.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Arg, ArgAction, Command};
use parking_lot::RwLock;

use crate::aof::FsyncPolicy;
use crate::keyspace::{Class, LFU_DECAY_TIME, LFU_LOG_FACTOR, Limit, Policy, SAMPLES};
use crate::resp::{parse_i64, parse_u64};

/// What a directive's value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number between two bounds, both included.
    Integer(u64, u64),
    /// A whole number that may be negative, between two bounds, both included.
    Signed(i64, i64),
    /// A number of bytes between two bounds, with a unit if you like: 1k = 1000, 1kb = 1024.
    Memory(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// `CLASS HARD SOFT SECONDS`, for one class of connections or several: see [`OutputLimits`].
    OutputLimit,
    /// Letters of classes of events: see [`Class`].
    Events,
    /// Numbers from 0 to 100 between spaces.
    Percentiles,
}

/// One directive: a flag, a line of the config file, a parameter of CONFIG.
#[derive(Debug)]
pub struct DirectiveRow {
    /// Its name everywhere.
    pub name: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// The value where none is given.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub mutable: bool,
    /// What it does.
    pub help: &'static str,
}

macro_rules! directives {
    ($( $id:ident = ($name:literal, $kind:expr, $default:literal, $mutable:literal, $help:literal); )*) => {
        /// A directive, by its place in the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Directive { $( #[doc = $help] $id, )* }

        /// Every directive.
        pub static DIRECTIVES: &[DirectiveRow] = &[
            $( DirectiveRow { name: $name, kind: $kind, default: $default, mutable: $mutable, help: $help }, )*
        ];
    };
}

const YES_NO: Kind = Kind::Choice(&["no", "yes"]);
const GB: u64 = 1 << 30;
const MB: u64 = 1 << 20;
/// The longest request, in bytes.
pub const QUERY_BYTES_MAX: u64 = 2 * GB;

directives! {
    Engine = ("engine", Kind::Choice(&["mutex", "dashmap", "actor"]), "actor", false, "The concurrency architecture: who owns the data");
    Shards = ("shards", Kind::Integer(0, 1024), "0", false, "Shard actors (actor), or shards of the table (dashmap); 0 for as many as threads (actor), or four for each core (dashmap)");
    Threads = ("threads", Kind::Integer(0, 1024), "0", false, "Threads that run connections and shards; 0 for one less than there are cores");
    MultiKey = ("multi-key", Kind::Choice(&["atomic", "relaxed"]), "atomic", false, "Whether a command over several keys, or a transaction, is one step (atomic), or a step for each key or shard (relaxed; actor and dashmap)");
    MailboxCapacity = ("mailbox-capacity", Kind::Integer(1, 1_000_000), "1024", false, "Batches that wait for a shard at most (actor)");
    TurnBatches = ("turn-batches", Kind::Integer(1, 65536), "256", false, "Batches that a shard serves in one turn at most before it gives way to connections: what one clock reading and one hand-over to the log cover (actor)");
    ReadsInFlight = ("reads-in-flight", Kind::Integer(1, 1024), "4", false, "Reads of a connection whose batches may be out at once, for each shard; its socket is not read further until some are back (actor)");
    ReadSize = ("read-size", Kind::Memory(4096, 16 * MB), "64kb", false, "Bytes that one read from a connection takes in at most: the bound of what one batch to a shard holds");
    Channel = ("channel", Kind::Choice(&["flume", "tokio"]), "flume", false, "The channels that mailboxes are made of: flume's, or the runtime's mpsc (actor)");
    Port = ("port", Kind::Integer(0, 65535), "6379", false, "TCP port; 0 lets the operating system choose");
    Bind = ("bind", Kind::Text, "127.0.0.1", false, "Address to listen on");
    TcpBacklog = ("tcp-backlog", Kind::Integer(1, 65535), "4096", false, "Connections that wait to be accepted at most");
    Maxclients = ("maxclients", Kind::Integer(1, 1_000_000), "10000", true, "Connections at most, and no more than the limit on open files leaves beside the files of the log");
    Maxmemory = ("maxmemory", Kind::Memory(0, u64::MAX), "0", true, "Bytes that the allocator has given out above which keys are evicted as maxmemory-policy says, and commands that need memory are refused where none can be; 0 for no limit. What waits to be written to the log does not count");
    MaxmemoryPolicy = ("maxmemory-policy", Kind::Choice(Policy::NAMES), "noeviction", true, "Which keys go above maxmemory: of those that expire (volatile) or of all, those unused for longest (lru), used least often (lfu), that expire first (ttl), or any (random); or none");
    MaxmemorySamples = ("maxmemory-samples", Kind::Integer(1, i32::MAX as u64), "5", true, "Keys that are looked at to find one to evict");
    LfuLogFactor = ("lfu-log-factor", Kind::Integer(0, i32::MAX as u64), "10", true, "How slowly the counter of a key's uses grows under the LFU policies");
    LfuDecayTime = ("lfu-decay-time", Kind::Integer(0, i32::MAX as u64), "1", true, "Minutes without a use that take one from that counter; 0 for never");
    Timeout = ("timeout", Kind::Integer(0, (1 << 31) - 1), "0", true, "Seconds after which an idle connection is closed; 0 for never. One that waits (BLPOP, WAIT), subscribes or monitors is not idle");
    Requirepass = ("requirepass", Kind::Text, "", true, "Password that connections must give; empty for none");
    EnableDebugCommand = ("enable-debug-command", Kind::Choice(&["no", "yes", "local"]), "no", false, "Who may use DEBUG: nobody, everybody, or connections from this machine");
    Databases = ("databases", Kind::Integer(1, 1024), "16", false, "Databases, which SELECT chooses from by number");
    Appendonly = ("appendonly", YES_NO, "yes", false, "Keep a log of every change under --dir");
    AofUseRdbPreamble = ("aof-use-rdb-preamble", Kind::Choice(&["no"]), "no", true, "Whether a rewritten log begins with a snapshot of Redis's: the log has one form, so only `no` is accepted");
    Appendfsync = ("appendfsync", Kind::Choice(&FsyncPolicy::NAMES), "everysec", true, "When the log goes to the disk");
    AutoAofRewritePercentage = ("auto-aof-rewrite-percentage", Kind::Integer(0, i32::MAX as u64), "100", true, "By how many percent the log grows since it was rewritten, or the server started, until it is rewritten by itself, once in a second at most; 0 for never");
    AutoAofRewriteMinSize = ("auto-aof-rewrite-min-size", Kind::Memory(0, i64::MAX as u64), "64mb", true, "Bytes of the log up to which it is not rewritten by itself");
    Dir = ("dir", Kind::Text, "./data", false, "Directory of the log");
    Appenddirname = ("appenddirname", Kind::Text, "appendonlydir", false, "Directory of the log's files, under --dir");
    Dbfilename = ("dbfilename", Kind::Text, "dump.rdb", false, "File of SAVE and BGSAVE, under --dir");
    ListMaxListpackSize = ("list-max-listpack-size", Kind::Signed(i32::MIN as i64, i32::MAX as i64), "-2", true, "Elements of a listpack of a list at most; or from -1 to -5 its size at most, in steps from 4 to 64 KB");
    ListCompressDepth = ("list-compress-depth", Kind::Integer(0, i32::MAX as u64), "0", true, "WITHOUT EFFECT, kept for clients that set it: lists are not compressed");
    SetMaxIntsetEntries = ("set-max-intset-entries", Kind::Integer(0, i64::MAX as u64), "512", true, "Members of a set of integers at most that is an intset");
    SetMaxListpackEntries = ("set-max-listpack-entries", Kind::Integer(0, i64::MAX as u64), "128", true, "Members of a set at most that is a listpack");
    SetMaxListpackValue = ("set-max-listpack-value", Kind::Integer(0, i64::MAX as u64), "64", true, "Bytes of a member at most in a set that is a listpack");
    HashMaxListpackEntries = ("hash-max-listpack-entries", Kind::Integer(0, i64::MAX as u64), "512", true, "Fields of a hash at most that is a listpack");
    HashMaxListpackValue = ("hash-max-listpack-value", Kind::Memory(0, i64::MAX as u64), "64", true, "Bytes of a field or value at most in a hash that is a listpack");
    ZsetMaxListpackEntries = ("zset-max-listpack-entries", Kind::Integer(0, i64::MAX as u64), "128", true, "Members of a sorted set at most that is a listpack");
    ZsetMaxListpackValue = ("zset-max-listpack-value", Kind::Integer(0, i64::MAX as u64), "64", true, "Bytes of a member at most in a sorted set that is a listpack");
    Save = ("save", Kind::Choice(&[""]), "", true, "When snapshots are made by themselves: never, so only the empty value is accepted; see SAVE and BGSAVE");
    StreamNodeMaxBytes = ("stream-node-max-bytes", Kind::Memory(0, u64::MAX >> 1), "4096", true, "Bytes of a block of a stream's entries at which the next one begins; 0 for no limit");
    StreamNodeMaxEntries = ("stream-node-max-entries", Kind::Integer(0, u64::MAX >> 1), "100", true, "Entries of a block of a stream at which the next one begins; 0 for no limit");
    Hz = ("hz", Kind::Integer(1, 500), "10", true, "Times a second that expired keys are looked for");
    ProtoMaxBulkLen = ("proto-max-bulk-len", Kind::Memory(1 << 20, GB), "512mb", true, "Longest argument of a request");
    HllSparseMaxBytes = ("hll-sparse-max-bytes", Kind::Memory(0, GB), "3000", true, "Longest HyperLogLog in the sparse encoding; a longer one becomes dense");
    ClientQueryBufferLimit = ("client-query-buffer-limit", Kind::Memory(1 << 20, QUERY_BYTES_MAX), "1gb", true, "Bytes of a request that has not ended");
    ClientOutputBufferLimit = ("client-output-buffer-limit", Kind::OutputLimit, "normal 268435456 33554432 60 slave 268435456 67108864 60 pubsub 33554432 8388608 60", true, "CLASS HARD SOFT SECONDS, again for each class: bytes that a connection does not read at which it is closed at once, or after SECONDS over SOFT; 0 for no limit, and no less than 16kb. `normal` and `pubsub` (connections with subscriptions) are in use; `slave` is kept for compatibility");
    NotifyKeyspaceEvents = ("notify-keyspace-events", Kind::Events, "", true, "Events of keys that are published, by letters as in Redis: K and E choose the channels, A or g$lshzxetdmn the classes; empty for none");
    SlowlogLogSlowerThan = ("slowlog-log-slower-than", Kind::Signed(-1, i64::MAX), "10000", true, "Microseconds from which on a command is kept in the slow log; -1 for never");
    SlowlogMaxLen = ("slowlog-max-len", Kind::Integer(0, i64::MAX as u64), "128", true, "Entries of the slow log at most");
    LatencyMonitorThreshold = ("latency-monitor-threshold", Kind::Integer(0, i64::MAX as u64), "0", true, "Milliseconds from which on a command is kept for LATENCY; 0 for never");
    LatencyTracking = ("latency-tracking", YES_NO, "yes", true, "Keep a histogram of the times of each command, for INFO latencystats and LATENCY HISTOGRAM");
    StagesSample = ("stages-sample", Kind::Integer(0, 1_000_000), "128", true, "One read in so many, on average, is watched for INFO stages, which says where the time of requests goes; 0 for none");
    LatencyTrackingInfoPercentiles = ("latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9", true, "Percentiles of the times of each command that INFO latencystats shows");
    Loglevel = ("loglevel", Kind::Choice(&["debug", "verbose", "notice", "warning"]), "notice", false, "What is logged; RUST_LOG takes precedence");
    Logfile = ("logfile", Kind::Text, "", false, "File to log to; empty for stderr. SIGHUP opens it anew: what rotates log files has renamed it by then");
    LogFormat = ("log-format", Kind::Choice(&["redis", "json"]), "redis", false, "Form of the log lines");
}

/// Names from before listpacks, and the directives that they mean.
pub const ALIASES: [(&str, Directive); 5] = [
    ("list-max-ziplist-size", Directive::ListMaxListpackSize),
    ("hash-max-ziplist-entries", Directive::HashMaxListpackEntries),
    ("hash-max-ziplist-value", Directive::HashMaxListpackValue),
    ("zset-max-ziplist-entries", Directive::ZsetMaxListpackEntries),
    ("zset-max-ziplist-value", Directive::ZsetMaxListpackValue),
];

/// The directives that are limits of small collections.
const LIMITS: [(Directive, Limit); 8] = [
    (Directive::ListMaxListpackSize, Limit::ListNode),
    (Directive::SetMaxIntsetEntries, Limit::SetIntegers),
    (Directive::SetMaxListpackEntries, Limit::SetEntries),
    (Directive::SetMaxListpackValue, Limit::SetValue),
    (Directive::HashMaxListpackEntries, Limit::HashEntries),
    (Directive::HashMaxListpackValue, Limit::HashValue),
    (Directive::ZsetMaxListpackEntries, Limit::SortedSetEntries),
    (Directive::ZsetMaxListpackValue, Limit::SortedSetValue),
];

/// Limits on replies that a client does not read, in bytes; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Closes the connection at once.
    pub hard: u64,
    /// Closes the connection when it stays exceeded.
    pub soft: u64,
    /// For how long.
    pub soft_seconds: u64,
}

impl OutputLimit {
    const fn new(hard: u64, soft: u64, soft_seconds: u64) -> Self {
        Self { hard, soft, soft_seconds }
    }

    /// Bytes above which a connection is closed at once.
    pub fn hard_max(&self) -> u64 {
        least_limit(self.hard)
    }

    /// Bytes above which a connection is closed when it stays there.
    pub fn soft_max(&self) -> u64 {
        least_limit(self.soft)
    }
}

/// What fits into the buffer that every connection of Redis has counts to no limit there. So whatever the limits are,
/// a client can be told, and tell, that they are too low.
fn least_limit(limit: u64) -> u64 {
    const UNCOUNTED: u64 = 16 * 1024;
    if limit == 0 { u64::MAX } else { limit.max(UNCOUNTED) }
}

/// The limits of each class of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Connections that have no subscription.
    pub normal: OutputLimit,
    /// Replicas: there are none.
    pub slave: OutputLimit,
    /// Connections that have one.
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    const DEFAULT: Self = Self {
        normal: OutputLimit::new(256 * MB, 32 * MB, 60),
        slave: OutputLimit::new(256 * MB, 64 * MB, 60),
        pubsub: OutputLimit::new(32 * MB, 8 * MB, 60),
    };

    /// These limits with what a text changes of them.
    fn changed(mut self, text: &str) -> Result<Self, &'static str> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        for class in words.chunks_exact(4) {
            let limit = match class[0].to_lowercase().as_str() {
                "normal" => &mut self.normal,
                "slave" | "replica" => &mut self.slave,
                "pubsub" => &mut self.pubsub,
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            *limit = parse_output_limit(&class[1..])
                .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        }
        Ok(self)
    }
}

/// As CONFIG GET replies it.
impl std::fmt::Display for OutputLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let classes = [("normal", self.normal), (" slave", self.slave), (" pubsub", self.pubsub)];
        classes.into_iter().try_for_each(|(name, OutputLimit { hard, soft, soft_seconds })| {
            write!(f, "{name} {hard} {soft} {soft_seconds}")
        })
    }
}

/// The values of all directives.
#[derive(Debug)]
pub struct Config {
    /// Numbers, bytes, and positions in a choice.
    numbers: Vec<AtomicU64>,
    /// Texts as they were given.
    texts: RwLock<Vec<String>>,
    /// The file that it was read from.
    file: Option<PathBuf>,
}

impl Config {
    /// Reads the command line, and the config file it names. The error is the text to print; the server exits with 1.
    pub fn from_command_line(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, CommandLineEnd> {
        let matches = flags().try_get_matches_from(arguments)?;
        let mut config = Self::default();
        if let Some(path) = matches.get_one::<String>("config-file") {
            config.file = Some(path.into());
            config.read_file(path).map_err(CommandLineEnd::Refused)?;
        }
        for row in DIRECTIVES {
            if let Some(value) = matches.get_one::<String>(row.name) {
                config
                    .assign(row, value)
                    .map_err(|reason| CommandLineEnd::Refused(format!("--{} {value}: {reason}", row.name)))?;
            }
        }
        Ok(config)
    }

    /// A number, a number of bytes, or the position of a word in its choice.
    pub fn number(&self, directive: Directive) -> u64 {
        self.numbers[directive as usize].load(Ordering::Relaxed)
    }

    /// A number that may be negative.
    pub fn signed(&self, directive: Directive) -> i64 {
        self.number(directive) as i64
    }

    /// Whether a yes/no directive says yes.
    pub fn is_on(&self, directive: Directive) -> bool {
        self.number(directive) == 1
    }

    /// The file that it was read from.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The value as text.
    pub fn text(&self, directive: Directive) -> String {
        self.texts.read()[directive as usize].clone()
    }

    /// The limits on what connections do not read.
    pub fn output_limits(&self) -> OutputLimits {
        let text = self.text(Directive::ClientOutputBufferLimit);
        OutputLimits::DEFAULT.changed(&text).expect("a value is checked when it is given")
    }

    /// The percentiles that INFO latencystats shows.
    pub fn latency_percentiles(&self) -> Vec<f64> {
        percentiles(&self.text(Directive::LatencyTrackingInfoPercentiles)).expect("a value is checked when it is given")
    }

    /// Which events of keys are published.
    pub fn events(&self) -> Class {
        // Not from the text: `A` hides an `n`.
        Class::from_bits(self.number(Directive::NotifyKeyspaceEvents) as u32)
    }

    /// Tells the keyspaces of this process the limits of small collections.
    pub fn apply_limits(&self) {
        for (directive, limit) in LIMITS {
            limit.set(self.number(directive) as i64);
        }
    }

    /// Tells the keyspaces of this process which keys go first when memory is short.
    pub fn apply_policy(&self) {
        Policy::from_number(self.number(Directive::MaxmemoryPolicy)).set();
        for (limit, directive) in [
            (&SAMPLES, Directive::MaxmemorySamples),
            (&LFU_LOG_FACTOR, Directive::LfuLogFactor),
            (&LFU_DECAY_TIME, Directive::LfuDecayTime),
        ] {
            limit.store(self.number(directive) as u32, Ordering::Relaxed);
        }
    }

    /// The value of a directive as CONFIG GET replies it.
    pub fn get(&self, index: usize) -> String {
        match DIRECTIVES[index].kind {
            Kind::Memory(..) => self.numbers[index].load(Ordering::Relaxed).to_string(),
            _ => self.texts.read()[index].clone(),
        }
    }

    /// Checks and sets several directives, all or none; the error names the first that was refused.
    pub fn set(&self, values: &[(usize, String)]) -> Result<(), (usize, String)> {
        for (index, value) in values {
            check(&DIRECTIVES[*index], value).map_err(|reason| (*index, reason))?;
        }
        for (index, value) in values {
            self.assign(&DIRECTIVES[*index], value).expect("the value was checked above");
        }
        Ok(())
    }

    fn assign(&self, row: &'static DirectiveRow, value: &str) -> Result<(), String> {
        let index = index_of(row.name).expect("the row is in the table");
        let number = check(row, value)?;
        self.numbers[index].store(number, Ordering::Relaxed);
        let mut texts = self.texts.write();
        texts[index] = match row.kind {
            Kind::Choice(words) => words[number as usize].to_owned(),
            Kind::OutputLimit => OutputLimits::DEFAULT.changed(&texts[index])?.changed(value)?.to_string(),
            Kind::Events => Class::from_bits(number as u32).to_string(),
            Kind::Percentiles => percentiles(value)?.iter().map(f64::to_string).collect::<Vec<_>>().join(" "),
            _ => value.to_owned(),
        };
        Ok(())
    }

    fn read_file(&self, path: &str) -> Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("can't read config file {path}: {error}"))?;
        for (index, line) in text.lines().enumerate() {
            self.read_line(line).map_err(|reason| format!("{path}, line {}: '{line}': {reason}", index + 1))?;
        }
        Ok(())
    }

    fn read_line(&self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let words = crate::resp::split_line(line.as_bytes()).ok_or("unbalanced quotes")?;
        let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let (name, values) = words.split_first().ok_or("no directive")?;
        let index = index_of(&name.to_lowercase()).ok_or_else(|| format!("unknown directive '{name}'"))?;
        if values.is_empty() {
            return Err("wrong number of arguments".into());
        }
        self.assign(&DIRECTIVES[index], &values.join(" "))
    }
}

impl Default for Config {
    fn default() -> Self {
        let number = |row: &DirectiveRow| AtomicU64::new(check(row, row.default).expect("a default is a valid value"));
        Self {
            numbers: DIRECTIVES.iter().map(number).collect(),
            texts: RwLock::new(DIRECTIVES.iter().map(|row| row.default.to_owned()).collect()),
            file: None,
        }
    }
}

/// Why there is no configuration to run with.
#[derive(Debug)]
pub enum CommandLineEnd {
    /// The user asked for help or the version; the text.
    Asked(String),
    /// Something was wrong; what and why.
    Refused(String),
}

impl From<clap::Error> for CommandLineEnd {
    fn from(error: clap::Error) -> Self {
        match error.use_stderr() {
            true => Self::Refused(error.to_string()),
            false => Self::Asked(error.to_string()),
        }
    }
}

/// The place of a directive in the table.
pub fn index_of(name: &str) -> Option<usize> {
    static PLACES: std::sync::LazyLock<HashMap<&str, usize>> = std::sync::LazyLock::new(|| names().collect());
    PLACES.get(name).copied()
}

/// Every name, aliases behind the others, with its place in the table.
pub fn names() -> impl Iterator<Item = (&'static str, usize)> {
    let aliases = ALIASES.iter().map(|&(alias, directive)| (alias, directive as usize));
    DIRECTIVES.iter().enumerate().map(|(index, row)| (row.name, index)).chain(aliases)
}

fn flags() -> Command {
    let file = Arg::new("config-file").value_name("CONFIG FILE").help("Lines of 'directive value', as in redis.conf");
    let directives = DIRECTIVES.iter().enumerate().map(|(index, row)| {
        Arg::new(row.name)
            .long(row.name)
            .aliases(names().filter(|&(name, of)| of == index && name != row.name).map(|(name, _)| name))
            .value_name(value_name(row.kind))
            .action(ArgAction::Set)
            .allow_hyphen_values(true)
            .help(match row.default {
                "" => row.help.to_owned(),
                default => format!("{} [default: {default}]", row.help),
            })
    });
    Command::new("shardrace")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A Redis-compatible in-memory server whose concurrency architecture is a flag")
        .after_help("shardrace check-aof DIR explains the log in a directory, and repairs it; see its --help.")
        .arg(file)
        .args(directives)
}

fn value_name(kind: Kind) -> String {
    match kind {
        Kind::Integer(..) | Kind::Signed(..) => "N".into(),
        Kind::Memory(..) => "BYTES".into(),
        Kind::Choice(words) => words.join("|"),
        Kind::Text => "TEXT".into(),
        Kind::OutputLimit => "LIMIT".into(),
        Kind::Events => "LETTERS".into(),
        Kind::Percentiles => "PERCENTILES".into(),
    }
}

/// The number behind a value, or why there is none.
fn check(row: &DirectiveRow, value: &str) -> Result<u64, String> {
    let in_range = |number: Option<i128>, least: u64, most: u64| match number {
        Some(number) if (i128::from(least)..=i128::from(most)).contains(&number) => Ok(number as u64),
        Some(_) => Err(format!("argument must be between {least} and {most} inclusive")),
        None => Err("argument couldn't be parsed into an integer".into()),
    };
    match row.kind {
        Kind::Integer(least, most) => in_range(parse_i64(value.as_bytes()).map(i128::from), least, most),
        Kind::Signed(least, most) => match parse_i64(value.as_bytes()) {
            // The number keeps its bits; whoever asks for it knows that it has a sign.
            Some(number) if (least..=most).contains(&number) => Ok(number as u64),
            Some(_) => Err(format!("argument must be between {least} and {most} inclusive")),
            None => Err("argument couldn't be parsed into an integer".into()),
        },
        Kind::Memory(least, most) => in_range(parse_memory(value).map(i128::from), least, most)
            .map_err(|reason| reason.replace("parsed into an integer", "parsed into a number of bytes")),
        Kind::Choice(words) => {
            let position = words.iter().position(|word| word.eq_ignore_ascii_case(value));
            position.map(|position| position as u64).ok_or_else(|| match words {
                ["no", "yes"] => "argument must be 'yes' or 'no'".into(),
                _ => format!("argument(s) must be one of the following: {}", words.join(", ")),
            })
        }
        Kind::Text => Ok(0),
        Kind::OutputLimit => OutputLimits::DEFAULT.changed(value).map(|_| 0).map_err(str::to_owned),
        Kind::Percentiles => percentiles(value).map(|_| 0).map_err(str::to_owned),
        Kind::Events => {
            Class::parse(value).map(|classes| u64::from(classes.bits())).ok_or_else(|| UNKNOWN_EVENTS.into())
        }
    }
}

const UNKNOWN_EVENTS: &str = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";

/// Bytes with a unit: 1k = 1000, 1kb = 1024.
pub fn parse_memory(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let digits = lower.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(lower.len());
    let unit: u64 = match &lower[digits..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    lower[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn percentiles(text: &str) -> Result<Vec<f64>, &'static str> {
    let numbers = text
        .split_whitespace()
        .map(|word| word.parse::<f64>().map_err(|_| "Invalid latency-tracking-info-percentiles parameters"));
    numbers
        .map(|number| {
            number.and_then(|number| match (0.0..=100.0).contains(&number) {
                true => Ok(number),
                false => Err("latency-tracking-info-percentiles should contain only numbers between 0.0 and 100.0"),
            })
        })
        .collect()
}

/// HARD SOFT SECONDS
fn parse_output_limit(words: &[&str]) -> Option<OutputLimit> {
    let [hard, soft, seconds] = words else { return None };
    Some(OutputLimit::new(parse_memory(hard)?, parse_memory(soft)?, parse_u64(seconds.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let arguments = ["shardrace"].iter().chain(arguments).map(Into::into);
        Config::from_command_line(arguments).map_err(|end| match end {
            CommandLineEnd::Asked(text) | CommandLineEnd::Refused(text) => text,
        })
    }

    #[test]
    fn memory_units_are_those_of_redis_conf() {
        for (text, bytes) in
            [("1", 1), ("1k", 1000), ("1KB", 1024), ("2mb", 2 << 20), ("1gb", 1 << 30), ("3g", 3_000_000_000)]
        {
            assert_eq!(parse_memory(text), Some(bytes));
        }
        for text in ["", "x", "1kbb", "-1", "1.5mb", "99999999999999999999", "99999999999gb"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
    }

    #[test]
    fn output_limits_change_for_the_classes_that_are_named() {
        let config = Config::default();
        assert_eq!(config.output_limits(), OutputLimits::DEFAULT);
        let index = Directive::ClientOutputBufferLimit as usize;
        config.set(&[(index, "replica 1 2 3 pubsub 1mb 1k 9".to_owned())]).expect("valid");
        assert_eq!(config.get(index), "normal 268435456 33554432 60 slave 1 2 3 pubsub 1048576 1000 9");
        for (value, reason) in [
            ("", "Wrong number"),
            ("pubsub 1 2", "Wrong number"),
            ("master 1 2 3", "Invalid client class"),
            ("pubsub 1 2 x", "Error in hard"),
            ("pubsub -1 2 3", "Error in hard"),
        ] {
            let (_, told) = config.set(&[(index, value.to_owned())]).expect_err("invalid");
            assert!(told.contains(reason), "{value}: {told}");
        }
    }

    #[test]
    fn a_bad_flag_is_refused_with_its_name_and_reason() {
        for (arguments, wanted) in [
            (["--port", "abc"], "--port abc: argument couldn't be parsed into an integer"),
            (["--port", "70000"], "--port 70000: argument must be between 0 and 65535 inclusive"),
            (["--engine", "magic"], "--engine magic: argument(s) must be one of the following: mutex, dashmap, actor"),
            (["--appendonly", "perhaps"], "--appendonly perhaps: argument must be 'yes' or 'no'"),
            (["--save", "60 1"], "--save 60 1"),
            (["--nosuch", "1"], "--nosuch"),
        ] {
            let error = parse(&arguments).expect_err("the flag is bad");
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn flags_override_the_config_file_and_a_bad_line_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "# comment\nport 7000\nrequirepass \"a b\"\nENGINE mutex\n").expect("written");
        let path = file.path().to_str().expect("a text path");
        let config = parse(&[path, "--port", "7001"]).expect("valid");
        assert_eq!(config.number(Directive::Port), 7001);
        assert_eq!(config.text(Directive::Requirepass), "a b");
        assert_eq!(config.text(Directive::Engine), "mutex");
        for (line, wanted) in [("prot 1", "unknown directive 'prot'"), ("port", "wrong number"), ("port x", "couldn't")]
        {
            std::fs::write(file.path(), format!("\n{line}\n")).expect("written");
            let error = parse(&[path]).expect_err("the line is bad");
            assert!(error.contains("line 2") && error.contains(wanted), "{error}");
        }
    }
}
