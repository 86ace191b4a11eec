//! The table of directives: a row for each flag, line of the config file and parameter of CONFIG.

use crate::aof::FsyncPolicy;
use crate::keyspace::Policy;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The permitted values of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number between two bounds, both included.
    Integer(u64, u64),
    /// A whole number from 0 on: one that is not between the two bounds becomes the nearer of them.
    Clamped(u64, u64),
    /// A whole number that may be negative, between two bounds, both included.
    Signed(i64, i64),
    /// A number of bytes between two bounds, perhaps with a unit: 1k = 1000, 1kb = 1024.
    Memory(u64, u64),
    /// The same, or a percentage up to 100.
    MemoryOrPercent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An octal number up to a bound, inclusive.
    Octal(u64),
    /// Any text.
    Text,
    /// Texts between spaces.
    Words,
    /// The name of a file, without a directory.
    FileName,
    /// The name of a directory without a path.
    DirName,
    /// A directory; shown as an absolute path.
    Dir,
    /// `CLASS HARD SOFT SECONDS`, for one class of connections or several: see [`OutputLimits`](super::OutputLimits).
    OutputLimit,
    /// Some of the options of SHUTDOWN: see [`OnSignal`](super::OnSignal).
    OnSignal,
    /// Letters of classes of events: see [`Class`](crate::keyspace::Class).
    Events,
    /// Three scores for `oom-score-adj`: see [`OomScores`](super::OomScores).
    OomScores,
    /// Numbers from 0 to 100 between spaces.
    Percentiles,
    /// A file, or a pattern of files, to be read at this place. CONFIG does not know it.
    Include,
    /// A line of some words, independent of other lines. CONFIG does not know it.
    Line,
    /// The name of a user, and rules; a line for each. CONFIG does not know it.
    User,
    /// A command and its other name; a line for each. CONFIG does not know it.
    Renaming,
    /// `SECONDS CHANGES`, any number of times: see `snapshot::SavePoints`.
    SavePoints,
    /// `HOST PORT`, or `no one`, which is nothing: see [`Config::master`](super::Config::master).
    Master,
}

impl Kind {
    /// Whether the value may be several words.
    pub fn takes_words(self) -> bool {
        matches!(
            self,
            Self::Words
                | Self::OutputLimit
                | Self::OnSignal
                | Self::OomScores
                | Self::Percentiles
                | Self::SavePoints
                | Self::Line
                | Self::User
                | Self::Renaming
                | Self::Master
        )
    }

    /// Whether it is a parameter of CONFIG.
    pub fn is_parameter(self) -> bool {
        !matches!(self, Self::Include | Self::Line | Self::User | Self::Renaming)
    }
}

/// The effect of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// As its help says; CONFIG SET changes it.
    Mutable,
    /// As its help says, fixed at the start.
    Immutable,
    /// As its help says; CONFIG SET changes it for connections that `enable-protected-configs` permits.
    Protected,
    /// None: its default always holds, and its help says why. The start warns about another value.
    Ignored,
    /// None, and users of another value than its default rely on it: a start with one is refused.
    Refused,
}

/// One directive: a flag, a line of the config file, a parameter of CONFIG.
#[derive(Debug)]
pub struct DirectiveRow {
    /// Its name everywhere.
    pub name: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// The default value.
    pub default: &'static str,
    /// When it has an effect.
    pub effect: Effect,
    /// What it does, or why it has no effect.
    pub help: &'static str,
}

/// The directives with an effect, then those that are known because Redis has them, some of which share a reason.
macro_rules! directives {
    (@effect true) => { Effect::Mutable };
    (@effect false) => { Effect::Immutable };
    (@effect protected) => { Effect::Protected };
    (
        $( $id:ident = ($name:literal, $kind:expr, $default:literal, $mutable:tt, $help:literal); )*
        @without_effect { $( ($nname:literal, $nkind:expr, $ndefault:expr, $neffect:ident, $nhelp:expr); )* }
        $( @all_for $aeffect:ident, $ahelp:ident { $( ($aname:literal, $akind:expr, $adefault:expr); )* } )*
    ) => {
        /// A directive with an effect, by its position in the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Directive { $( #[doc = $help] $id, )* }

        /// Every directive.
        pub static DIRECTIVES: &[DirectiveRow] = &[
            $( DirectiveRow { name: $name, kind: $kind, default: $default, effect: directives!(@effect $mutable), help: $help }, )*
            $( DirectiveRow { name: $nname, kind: $nkind, default: $ndefault, effect: Effect::$neffect, help: $nhelp }, )*
            $( $( DirectiveRow { name: $aname, kind: $akind, default: $adefault, effect: Effect::$aeffect, help: $ahelp }, )* )*
        ];
    };
}

const YES_NO: Kind = Kind::Choice(&["no", "yes"]);
const INTEGER: Kind = Kind::Integer(0, i32::MAX as u64);
const MEMORY: Kind = Kind::Memory(0, i64::MAX as u64);
const WHO: Kind = Kind::Choice(&["no", "yes", "local"]);
const GB: u64 = 1 << 30;
const MB: u64 = 1 << 20;
/// The longest request, in bytes.
pub const QUERY_BYTES_MAX: u64 = 2 * GB;

directives! {
    Engine = ("engine", Kind::Choice(&["mutex", "dashmap", "actor"]), "actor", false, "The concurrency architecture: what owns the data");
    Shards = ("shards", Kind::Integer(0, 1024), "0", false, "Shard actors (actor), or shards of the table (dashmap); 0 for as many as threads (actor), or four for each core (dashmap)");
    Threads = ("threads", Kind::Integer(0, 1024), "0", false, "Threads that run connections and shards; 0 for one less than there are cores");
    Placement = ("placement", Kind::Choice(&["scheduler", "pinned"]), "scheduler", false, "Where connections and shards run: on whichever worker thread is free (scheduler); or each on one thread, which has a runtime and a core of its own and takes no work from others (pinned): shard i on thread i modulo threads, connections in turn");
    Local = ("local", Kind::Choice(&["mailbox", "inline"]), "mailbox", false, "How commands get to a shard on the thread of their connection: through its mailbox, or in place where nothing waits in the mailbox (inline; actor with placement pinned)");
    MultiKey = ("multi-key", Kind::Choice(&["atomic", "relaxed"]), "atomic", false, "Whether a command over several keys, or a transaction, is one step (atomic), or a step for each key or shard (relaxed; actor and dashmap)");
    Batching = ("batching", Kind::Choice(&["read", "command"]), "read", false, "What runs together: the commands of one read, up to 64 under one acquisition of the lock (mutex) or of their shards' locks (dashmap), or in one message to each shard (actor), with one hand-over to the log; or each command by itself");
    Prefetch = ("prefetch", YES_NO, "yes", false, "Fetch the nodes of the keys of the next 16 commands of a read, or of a shard's turn (actor), into the processor's cache together");
    MailboxCapacity = ("mailbox-capacity", Kind::Integer(1, 1_000_000), "1024", false, "Batches that wait for a shard at most (actor)");
    TurnBatches = ("turn-batches", Kind::Integer(1, 65536), "256", false, "Batches that a shard serves in one turn at most before it gives way to connections: what one clock reading and one hand-over to the log cover (actor)");
    ReadsInFlight = ("reads-in-flight", Kind::Integer(1, 1024), "4", false, "Reads of a connection whose batches may be out at once, for each shard; its socket is not read further until some are back (actor)");
    ReadSize = ("read-size", Kind::Memory(4096, 16 * MB), "64kb", false, "Bytes that one read from a connection takes in at most: the bound of what one batch to a shard holds");
    Channel = ("channel", Kind::Choice(&["flume", "tokio"]), "flume", false, "The channels that mailboxes are made of: flume's, or the runtime's mpsc (actor)");
    Port = ("port", Kind::Integer(0, 65535), "6379", true, "TCP port; 0 lets the operating system choose, or is for none where there is a unixsocket");
    Bind = ("bind", Kind::Words, "127.0.0.1", true, "Addresses or names to listen on: * for all of IPv4, ::* for all of IPv6; a - before one says that this machine may not have it");
    Unixsocket = ("unixsocket", Kind::Text, "", false, "File of a unix socket to listen on; empty for none");
    Unixsocketperm = ("unixsocketperm", Kind::Octal(0o777), "0", false, "Permissions of that file; 0 for those that the process's mask leaves");
    TlsPort = ("tls-port", Kind::Integer(0, 65535), "0", true, "TCP port for encrypted connections, at the addresses of `bind`; 0 for none");
    TlsCertFile = ("tls-cert-file", Kind::Text, "", true, "File with the certificate that this server shows, and those between it and the authority's (PEM), under --dir unless it begins with a /, as all files of TLS. CONFIG SET reads all of them again");
    TlsKeyFile = ("tls-key-file", Kind::Text, "", true, "File with its key (PEM)");
    TlsClientCertFile = ("tls-client-cert-file", Kind::Text, "", true, "File with the certificate that a replica shows its master; empty for that of tls-cert-file");
    TlsClientKeyFile = ("tls-client-key-file", Kind::Text, "", true, "File with its key");
    TlsCaCertFile = ("tls-ca-cert-file", Kind::Text, "", true, "File with certificates of authorities: others have to show one of theirs");
    TlsCaCertDir = ("tls-ca-cert-dir", Kind::Text, "", true, "Directory of such files");
    TlsAuthClients = ("tls-auth-clients", Kind::Choice(&["no", "yes", "optional"]), "yes", true, "Whether clients have to show a certificate, may show one, or are not asked");
    TlsReplication = ("tls-replication", YES_NO, "no", true, "Connect to the master by TLS, and tell it tls-port. The master has to have a certificate of one of the authorities; its name is not compared, as by Redis");
    TlsCluster = ("tls-cluster", YES_NO, "no", true, "Connect to the targets of MIGRATE by TLS. They have to have a certificate of one of the authorities; their names are not compared");
    TlsProtocols = ("tls-protocols", Kind::Text, "", true, "The versions that are permitted, of TLSv1.2 and TLSv1.3; empty for both");
    TlsCiphers = ("tls-ciphers", Kind::Text, "", true, "The ciphers of TLSv1.2 that are permitted, by OpenSSL's names with a colon in between; empty for all. There are those with ECDHE and AES-GCM or ChaCha20");
    TlsCiphersuites = ("tls-ciphersuites", Kind::Text, "", true, "The cipher suites of TLSv1.3 that are permitted, in the same form; empty for all");
    TlsPreferServerCiphers = ("tls-prefer-server-ciphers", YES_NO, "no", true, "Whether this server chooses among the ciphers that both ends permit, in its order, or the client");
    TlsSessionCaching = ("tls-session-caching", YES_NO, "yes", true, "Whether clients that come again may take up their session, which saves most of the handshake");
    TlsSessionCacheSize = ("tls-session-cache-size", Kind::Integer(0, 1 << 20), "20480", true, "Sessions that are kept for them at most");
    ProtectedMode = ("protected-mode", YES_NO, "yes", true, "Without a password, refuse connections that are not from this machine");
    TcpBacklog = ("tcp-backlog", Kind::Integer(1, 65535), "4096", false, "Connections that wait to be accepted at most");
    Maxclients = ("maxclients", Kind::Integer(1, 1_000_000), "10000", true, "Connections at most, and no more than the limit on open files leaves beside the files of the log");
    Maxmemory = ("maxmemory", Kind::Memory(0, u64::MAX), "0", true, "Bytes that the allocator has given out above which keys are evicted as maxmemory-policy says, and commands that need memory are refused where none can be; 0 for no limit. What waits to be written to the log does not count");
    MaxmemoryClients = ("maxmemory-clients", Kind::MemoryOrPercent, "0", true, "Bytes that connections may take together, or a percentage of maxmemory: buffers of requests and replies, what MULTI has queued, what is watched, subscribed to and tracked. When they take as much, those that take most are closed; replicas are not counted, and connections with CLIENT NO-EVICT stay. 0 for no limit; less than 128 KB is 128 KB. Messages that wait are counted every 0.1 s");
    MaxmemoryPolicy = ("maxmemory-policy", Kind::Choice(Policy::NAMES), "noeviction", true, "Which keys go above maxmemory: of those that expire (volatile) or of all, those unused for longest (lru), used least often (lfu), that expire first (ttl), or any (random); or none");
    MaxmemorySamples = ("maxmemory-samples", Kind::Integer(1, i32::MAX as u64), "5", true, "Keys that are looked at to find one to evict");
    LfuLogFactor = ("lfu-log-factor", Kind::Integer(0, i32::MAX as u64), "10", true, "How slowly the counter of a key's uses grows under the LFU policies");
    LfuDecayTime = ("lfu-decay-time", Kind::Integer(0, i32::MAX as u64), "1", true, "Minutes without a use that take one from that counter; 0 for never");
    Timeout = ("timeout", Kind::Integer(0, (1 << 31) - 1), "0", true, "Seconds after which an idle connection is closed; 0 for never. One that waits (BLPOP, WAIT), subscribes or monitors is not idle");
    Requirepass = ("requirepass", Kind::Text, "", true, "Password of the default user, which connections must give; empty for none");
    User = ("user", Kind::User, "", false, "NAME RULES of a user, as ACL SETUSER takes them, again for each; CONFIG REWRITE keeps them");
    RenameCommand = ("rename-command", Kind::Renaming, "", false, "COMMAND NAME: clients and scripts call it by another name, or not at all if that is \"\"; again for each. The log and replicas have the own name. Rules of users are better: they know subcommands, and who may");
    Aclfile = ("aclfile", Kind::Text, "", false, "File with the users, under --dir unless it begins with a /, which ACL LOAD and SAVE use; empty for none");
    AclPubsubDefault = ("acl-pubsub-default", Kind::Choice(&["resetchannels", "allchannels"]), "resetchannels", true, "Whether new users may use no channel, or all of them");
    AcllogMaxLen = ("acllog-max-len", Kind::Integer(0, i64::MAX as u64), "128", true, "Entries of ACL LOG at most");
    EnableDebugCommand = ("enable-debug-command", WHO, "no", false, "Whether DEBUG is allowed: never, always, or for connections from this machine");
    EnableProtectedConfigs = ("enable-protected-configs", WHO, "no", false, "Who may change protected directives by CONFIG SET: nobody, everybody, or connections from this machine");
    Databases = ("databases", Kind::Integer(1, 1024), "16", false, "Databases, which SELECT chooses from by number");
    ClusterEnabled = ("cluster-enabled", YES_NO, "no", false, "Reply to clients of a cluster as its one node, which owns all slots, with one database");
    ClusterAllowCrossSlot = ("cluster-allow-cross-slot", YES_NO, "yes", false, "Whether a request, or a transaction, may name keys of several slots in a cluster. Nothing forbids it here; `no` replies CROSSSLOT, as several nodes would");
    ClusterAnnounceIp = ("cluster-announce-ip", Kind::Text, "", true, "The address that CLUSTER SLOTS and its kin tell clients; empty for that which each has connected to");
    ClusterAnnouncePort = ("cluster-announce-port", Kind::Integer(0, 65535), "0", true, "The port that they tell; 0 for that which the server listens on");
    Appendonly = ("appendonly", YES_NO, "yes", true, "Keep a log of every change under --dir. CONFIG SET begins one as a rewriting does, or ends it; other files in its directory are kept under another name");
    Appendfsync = ("appendfsync", Kind::Choice(&FsyncPolicy::NAMES), "everysec", true, "When the log goes to the disk");
    AutoAofRewritePercentage = ("auto-aof-rewrite-percentage", Kind::Integer(0, i32::MAX as u64), "100", true, "By how many percent the log grows since it was rewritten, or the server started, until it is rewritten by itself, once in a second at most; 0 for never");
    AutoAofRewriteMinSize = ("auto-aof-rewrite-min-size", Kind::Memory(0, i64::MAX as u64), "64mb", true, "Bytes of the log up to which it is not rewritten by itself");
    Dir = ("dir", Kind::Dir, "./data", protected, "Directory of the log and of snapshots. CONFIG SET changes it where there is no log");
    Appenddirname = ("appenddirname", Kind::DirName, "appendonlydir", false, "Directory of the log's files, under --dir");
    Dbfilename = ("dbfilename", Kind::FileName, "dump.rdb", protected, "File of SAVE and BGSAVE, under --dir");
    ListMaxListpackSize = ("list-max-listpack-size", Kind::Signed(i32::MIN as i64, i32::MAX as i64), "-2", true, "Elements of a listpack of a list at most; or from -1 to -5 its size at most, in steps from 4 to 64 KB");
    ListCompressDepth = ("list-compress-depth", Kind::Integer(0, i32::MAX as u64), "0", true, "WITHOUT EFFECT, kept for clients that set it: lists are not compressed");
    SetMaxIntsetEntries = ("set-max-intset-entries", Kind::Integer(0, i64::MAX as u64), "512", true, "Members of a set of integers at most that is an intset");
    SetMaxListpackEntries = ("set-max-listpack-entries", Kind::Integer(0, i64::MAX as u64), "128", true, "Members of a set at most that is a listpack");
    SetMaxListpackValue = ("set-max-listpack-value", Kind::Integer(0, i64::MAX as u64), "64", true, "Bytes of a member at most in a set that is a listpack");
    HashMaxListpackEntries = ("hash-max-listpack-entries", Kind::Integer(0, i64::MAX as u64), "512", true, "Fields of a hash at most that is a listpack");
    HashMaxListpackValue = ("hash-max-listpack-value", Kind::Memory(0, i64::MAX as u64), "64", true, "Bytes of a field or value at most in a hash that is a listpack");
    ZsetMaxListpackEntries = ("zset-max-listpack-entries", Kind::Integer(0, i64::MAX as u64), "128", true, "Members of a sorted set at most that is a listpack");
    ZsetMaxListpackValue = ("zset-max-listpack-value", Kind::Memory(0, i64::MAX as u64), "64", true, "Bytes of a member at most in a sorted set that is a listpack");
    Save = ("save", Kind::SavePoints, "", true, "SECONDS CHANGES, again for each point: a snapshot is made by itself when the last one is longer ago and so much has changed since, and when the server ends; lines and flags add up, an empty one takes all away. Where nothing is said: never with `appendonly yes`, and `3600 1 300 100 60 10000` with `appendonly no`");
    StopWritesOnBgsaveError = ("stop-writes-on-bgsave-error", YES_NO, "yes", true, "Refuse writes when the last snapshot could not be written, where snapshots are made by themselves");
    Rdbcompression = ("rdbcompression", YES_NO, "yes", true, "Compress the strings of snapshots, in files and for replicas, beside the commands");
    StreamNodeMaxBytes = ("stream-node-max-bytes", Kind::Memory(0, u64::MAX >> 1), "4096", true, "Bytes of a block of a stream's entries at which the next one begins; 0 for no limit");
    StreamNodeMaxEntries = ("stream-node-max-entries", Kind::Integer(0, u64::MAX >> 1), "100", true, "Entries of a block of a stream at which the next one begins; 0 for no limit");
    SanitizeDumpPayload = ("sanitize-dump-payload", Kind::Choice(&["no", "yes", "clients"]), "yes", true, "WITHOUT EFFECT, kept for clients that set it: what RESTORE is given is always checked whole, and so are snapshots");
    Hz = ("hz", Kind::Clamped(1, 500), "10", true, "Times a second that expired keys are looked for");
    ProtoMaxBulkLen = ("proto-max-bulk-len", Kind::Memory(1 << 20, GB), "512mb", true, "Longest argument of a request");
    HllSparseMaxBytes = ("hll-sparse-max-bytes", Kind::Memory(0, GB), "3000", true, "Longest HyperLogLog in the sparse encoding; a longer one becomes dense");
    Replicaof = ("replicaof", Kind::Master, "", false, "HOST PORT of the master whose data and changes this server takes over; `no one` for none. REPLICAOF changes it, and CONFIG REWRITE keeps it");
    Masterauth = ("masterauth", Kind::Text, "", true, "Password that a replica gives its master; empty for none");
    Masteruser = ("masteruser", Kind::Text, "", true, "User that it belongs to; empty for the default one");
    ReplicaReadOnly = ("replica-read-only", YES_NO, "yes", true, "Refuse writes of clients while there is a master. What they write to a replica otherwise goes with the next full synchronization");
    ReplicaServeStaleData = ("replica-serve-stale-data", YES_NO, "yes", true, "Serve clients while the link to the master is down; `no` replies MASTERDOWN");
    ReplicaIgnoreMaxmemory = ("replica-ignore-maxmemory", YES_NO, "yes", true, "Leave eviction to the master while there is one");
    ReplicaPriority = ("replica-priority", INTEGER, "100", true, "Which replica Sentinel promotes first: the one with the lowest number; 0 for never");
    ReplicaAnnounced = ("replica-announced", YES_NO, "yes", true, "Whether Sentinel tells clients of this replica");
    ReplicaAnnounceIp = ("replica-announce-ip", Kind::Text, "", true, "The address that a replica tells its master; empty for that which it connects from");
    BindSourceAddr = ("bind-source-addr", Kind::Text, "", true, "The address that a replica connects to its master from, if that is possible; empty for one that the system chooses");
    ReplicaAnnouncePort = ("replica-announce-port", Kind::Integer(0, 65535), "0", true, "The port that a replica tells its master; 0 for that which the server listens on");
    ClientQueryBufferLimit = ("client-query-buffer-limit", Kind::Memory(1 << 20, QUERY_BYTES_MAX), "1gb", true, "Bytes of a request that has not ended, and of requests that have come and wait: above it a client is disconnected, or, where only its own unread replies hold it up, not read from");
    ClientOutputBufferLimit = ("client-output-buffer-limit", Kind::OutputLimit, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", true, "CLASS HARD SOFT SECONDS, again for each class: bytes that a connection does not read at which it is closed at once, or after SECONDS over SOFT; 0 for no limit, and no less than 16kb. `normal`, `pubsub` (connections with subscriptions) and `slave` (replicas). The lines for a monitor, and the messages of CLIENT TRACKING, have the limit of `normal`, or that of `pubsub` if `normal` has none");
    NotifyKeyspaceEvents = ("notify-keyspace-events", Kind::Events, "", true, "Events of keys that are published, by letters as in Redis: K and E choose the channels, A or g$lshzxetdmn the classes; empty for none");
    TrackingTableMaxKeys = ("tracking-table-max-keys", Kind::Integer(0, i64::MAX as u64), "1000000", true, "Keys that are remembered for clients with CLIENT TRACKING; when there are more, some are forgotten, and their readers told that they have changed; 0 for any number");
    LazyfreeLazyExpire = ("lazyfree-lazy-expire", YES_NO, "no", true, "Free a large value whose time has come on a thread of its own");
    LazyfreeLazyServerDel = ("lazyfree-lazy-server-del", YES_NO, "no", true, "Free a large value that a command replaces, or SPOP takes whole, on a thread of its own");
    LazyfreeLazyUserDel = ("lazyfree-lazy-user-del", YES_NO, "no", true, "DEL frees large values on a thread of its own, as UNLINK does");
    LazyfreeLazyUserFlush = ("lazyfree-lazy-user-flush", YES_NO, "no", true, "FLUSHALL and FLUSHDB free what they remove on a thread of its own, as with ASYNC");
    ReplicaLazyFlush = ("replica-lazy-flush", YES_NO, "no", true, "Free what a full synchronization replaces on a thread of its own");
    BusyReplyThreshold = ("busy-reply-threshold", Kind::Integer(0, i64::MAX as u64), "5000", true, "Milliseconds that a script may run before other connections are told that it does, and may end it with SCRIPT KILL; 0 for ever");
    SlowlogLogSlowerThan = ("slowlog-log-slower-than", Kind::Signed(-1, i64::MAX), "10000", true, "Microseconds from which on a command is kept in the slow log; -1 for never");
    SlowlogMaxLen = ("slowlog-max-len", Kind::Integer(0, i64::MAX as u64), "128", true, "Entries of the slow log at most");
    LatencyMonitorThreshold = ("latency-monitor-threshold", Kind::Integer(0, i64::MAX as u64), "0", true, "Milliseconds from which on a command is kept for LATENCY; 0 for never");
    LatencyTracking = ("latency-tracking", YES_NO, "yes", true, "Keep a histogram of the times of each command, for INFO latencystats and LATENCY HISTOGRAM");
    StagesSample = ("stages-sample", Kind::Integer(0, 1_000_000), "128", true, "One read in so many, on average, is timed for INFO stages, which says where the time of requests goes; 0 for none");
    LatencyTrackingInfoPercentiles = ("latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9", true, "Percentiles of the times of each command that INFO latencystats shows");
    Loglevel = ("loglevel", Kind::Choice(&["debug", "verbose", "notice", "warning", "nothing"]), "notice", true, "What is logged; at the start RUST_LOG takes precedence");
    Logfile = ("logfile", Kind::Text, "", false, "File to log to, under --dir unless it begins with a /; empty for stderr. SIGHUP opens it anew: what rotates log files has renamed it by then");
    LogFormat = ("log-format", Kind::Choice(&["redis", "json"]), "redis", false, "Form of the log lines");
    Daemonize = ("daemonize", YES_NO, "no", false, "Whether the server runs in the background, in a session of its own: the process that was started ends when it listens, and its log is `logfile` alone. Not where `supervised` finds a supervisor");
    OomScoreAdj = ("oom-score-adj", Kind::Choice(&["no", "yes", "relative", "absolute"]), "no", true, "Whether the server sets how readily the kernel ends the process when memory is short: relative to its score before (yes, relative), absolute, or not");
    OomScoreAdjValues = ("oom-score-adj-values", Kind::OomScores, "0 200 800", true, "That score of a master, of a replica, and of a process that writes a snapshot, which there is none of here");
    Supervised = ("supervised", Kind::Choice(&["no", "upstart", "systemd", "auto"]), "no", false, "What is told when the server is ready: systemd (READY=1 to NOTIFY_SOCKET), upstart (by a SIGSTOP), whichever the environment names (auto), or nothing");
    Pidfile = ("pidfile", Kind::Text, "", false, "File that holds the process id while the server runs, under --dir unless it begins with a /; empty for none");
    ReplDisklessSyncDelay = ("repl-diskless-sync-delay", INTEGER, "5", true, "Seconds that a full synchronization waits for more replicas, which then take the same snapshot");
    ReplDisklessSyncMaxReplicas = ("repl-diskless-sync-max-replicas", INTEGER, "0", true, "Replicas at which it waits no longer; 0 for any number");
    ReplPingReplicaPeriod = ("repl-ping-replica-period", Kind::Integer(1, i32::MAX as u64), "10", true, "Seconds between two PINGs in the stream to replicas");
    ReplTimeout = ("repl-timeout", Kind::Integer(1, i32::MAX as u64), "60", true, "Seconds after which a replica that is silent, or takes nothing, is given up");
    ReplBacklogSize = ("repl-backlog-size", Kind::Memory(1, i64::MAX as u64), "1mb", true, "Bytes of the stream that are kept for replicas which come back; those that a replica has still to be sent are kept, too");
    ReplBacklogTtl = ("repl-backlog-ttl", Kind::Integer(0, i64::MAX as u64), "3600", true, "Seconds without a replica after which nothing of the stream is kept any more; 0 for never");
    MinReplicasToWrite = ("min-replicas-to-write", INTEGER, "0", true, "Replicas that have to be there, and to have been heard of lately, for a write to be taken; 0 for none");
    MinReplicasMaxLag = ("min-replicas-max-lag", INTEGER, "10", true, "Seconds since such a replica was heard of at most; 0 for no need of any");
    ShutdownOnSigint = ("shutdown-on-sigint", Kind::OnSignal, "default", true, "The options of the SHUTDOWN that SIGINT is: save, nosave, now, force, or default for none");
    ShutdownOnSigterm = ("shutdown-on-sigterm", Kind::OnSignal, "default", true, "The same for SIGTERM");
    ShutdownTimeout = ("shutdown-timeout", INTEGER, "10", true, "Seconds for which the end of the server waits for replicas that lag; 0 for not at all");
    TcpKeepalive = ("tcp-keepalive", INTEGER, "300", true, "Seconds of silence after which a new connection is asked whether it is there; 0 for never");
    Include = ("include", Kind::Include, "", false, "A file to read at this place of the config file, or those that a pattern matches; no parameter of CONFIG");
    @without_effect {
        ("always-show-logo", YES_NO, "no", Ignored, "There is no logo");
        ("set-proc-title", YES_NO, "no", Ignored, NO_TITLE);
        ("proc-title-template", Kind::Text, "{title} {listen-addr} {server-mode}", Ignored, NO_TITLE);
        ("locale-collate", Kind::Text, "", Ignored, "Texts are compared byte by byte");
        ("syslog-enabled", YES_NO, "no", Ignored, NO_SYSLOG);
        ("syslog-ident", Kind::Text, "redis", Ignored, NO_SYSLOG);
        ("syslog-facility", Kind::Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]), "local0", Ignored, NO_SYSLOG);
        ("crash-log-enabled", YES_NO, "no", Ignored, "A crash leaves a line, and no report");
        ("crash-memcheck-enabled", YES_NO, "no", Ignored, "A crash tests no memory");
        ("ignore-warnings", Kind::Text, "", Ignored, "The start does not test the system");
        ("io-threads", Kind::Integer(1, 128), "1", Ignored, "`threads` says how many threads run connections");
        ("io-threads-do-reads", YES_NO, "no", Ignored, "The threads that run connections read and write");
        ("disable-thp", YES_NO, "no", Ignored, "Keys are in huge pages where the kernel has them, and nothing is forked (docs/adr/0016)");
        ("jemalloc-bg-thread", YES_NO, JEMALLOC_THREAD, Ignored, "The build decides whether the allocator has a thread");
        ("activerehashing", YES_NO, "no", Ignored, "Tables grow and shrink in small steps, by the commands that change them");
        ("dynamic-hz", YES_NO, "no", Ignored, "`hz` is the same for any number of connections");
        ("active-expire-effort", Kind::Integer(1, 10), "1", Ignored, "Keys are removed in the order of their deadlines");
        ("tcp-keepalive-probes", Kind::Integer(1, 127), "3", Ignored, "A connection that is asked three times whether it is there, and does not reply, is given up");
        ("max-new-connections-per-cycle", Kind::Integer(1, 1000), "1000", Ignored, "All connections that wait are accepted");
        ("unixsocketgroup", Kind::Text, "", Ignored, "The file of the unix socket has the group of the process");
        ("hide-user-data-from-log", YES_NO, "no", Ignored, "A log line may name the key that it is about");
        ("extended-redis-compatibility", YES_NO, "yes", Ignored, "The server answers as Redis does");
        ("rdb-version-check", Kind::Choice(&["strict", "relaxed"]), "strict", Ignored, "A snapshot of an unknown version is refused");
        ("dual-channel-replication-enabled", YES_NO, "no", Ignored, "A replica has one connection to its master");
        ("commandlog-request-larger-than", Kind::Signed(-1, i64::MAX), "-1", Ignored, NO_LOG_OF_SIZES);
        ("commandlog-large-request-max-len", Kind::Integer(0, i64::MAX as u64), "0", Ignored, NO_LOG_OF_SIZES);
        ("commandlog-reply-larger-than", Kind::Signed(-1, i64::MAX), "-1", Ignored, NO_LOG_OF_SIZES);
        ("commandlog-large-reply-max-len", Kind::Integer(0, i64::MAX as u64), "0", Ignored, NO_LOG_OF_SIZES);
        ("socket-mark-id", Kind::Integer(0, u32::MAX as u64), "0", Ignored, "Sockets have no mark");
        ("rdbchecksum", YES_NO, "yes", Ignored, "Snapshots have a checksum");
        ("rdb-save-incremental-fsync", YES_NO, "no", Ignored, "A snapshot is synced once, at its end");
        ("appendfilename", Kind::FileName, "", Ignored, "The files of the log are numbered");
        ("no-appendfsync-on-rewrite", YES_NO, "no", Ignored, "`appendfsync` holds while the log is rewritten, too");
        ("aof-load-truncated", YES_NO, "yes", Refused, "A torn end of the log is cut off by the start, which says so");
        ("aof-use-rdb-preamble", YES_NO, "no", Ignored, "The log has one form");
        ("aof-timestamp-enabled", YES_NO, "no", Ignored, "The log has no timestamps");
        ("aof-rewrite-incremental-fsync", YES_NO, "no", Ignored, "A rewritten log is synced once, at its end");
        ("maxmemory-eviction-tenacity", Kind::Integer(0, 100), "10", Ignored, "Keys are evicted in slices of their own, beside the commands");
        ("lua-replicate-commands", Kind::Line, "", Ignored, SCRIPTS_BY_EFFECTS);
        ("list-max-ziplist-entries", Kind::Line, "", Ignored, "`list-max-listpack-size` says how large a listpack is");
        ("list-max-ziplist-value", Kind::Line, "", Ignored, "`list-max-listpack-size` says how large a listpack is");
        ("enable-module-command", WHO, "no", Ignored, NO_MODULES);
        ("loadmodule", Kind::Line, "", Refused, NO_MODULES);
        ("tls-dh-params-file", Kind::Text, "", Ignored, "No cipher needs parameters of Diffie-Hellman: those of elliptic curves have none");
        ("tls-session-cache-timeout", INTEGER, "300", Ignored, "A session is kept until there are `tls-session-cache-size` newer ones");
        ("lazyfree-lazy-eviction", YES_NO, "no", Ignored, "An evicted key is freed at once: its memory is needed");
        ("sentinel", Kind::Line, "", Refused, "The server is no Sentinel");
    }
    @all_for Ignored, NO_FILES_FOR_REPLICAS {
        ("rdb-del-sync-files", YES_NO, "no");
        ("repl-diskless-sync", YES_NO, "yes");
    }
    @all_for Ignored, SENT_AT_ONCE {
        ("repl-disable-tcp-nodelay", YES_NO, "no");
    }
    @all_for Ignored, NO_PINNING {
        ("server_cpulist", Kind::Text, "");
        ("bio_cpulist", Kind::Text, "");
        ("aof_rewrite_cpulist", Kind::Text, "");
        ("bgsave_cpulist", Kind::Text, "");
    }
    @all_for Ignored, DISKS_FAIL_ALIKE {
        ("replica-ignore-disk-write-errors", YES_NO, "no");
    }
    @all_for Ignored, REPLICAS_HAVE_ONE_WAY {
        ("repl-diskless-load", Kind::Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled");
        ("propagation-error-behavior", Kind::Choice(&["ignore", "panic", "panic-on-replicas"]), "ignore");
    }
    @all_for Ignored, NO_DEFRAGMENTATION {
        ("activedefrag", YES_NO, "no");
        ("active-defrag-ignore-bytes", MEMORY, "100mb");
        ("active-defrag-threshold-lower", Kind::Integer(0, 1000), "10");
        ("active-defrag-threshold-upper", Kind::Integer(0, 1000), "100");
        ("active-defrag-cycle-min", Kind::Integer(1, 99), "1");
        ("active-defrag-cycle-max", Kind::Integer(1, 99), "25");
        ("active-defrag-max-scan-fields", Kind::Integer(1, i64::MAX as u64), "1000");
    }
    @all_for Refused, NO_TLS_OF_THAT_KIND {
        ("tls-key-file-pass", Kind::Text, "");
        ("tls-client-key-file-pass", Kind::Text, "");
    }
    @all_for Ignored, NO_OTHER_NODES {
        ("cluster-config-file", Kind::Text, "nodes.conf");
        ("cluster-node-timeout", Kind::Integer(0, i64::MAX as u64), "15000");
        ("cluster-port", Kind::Integer(0, 65535), "0");
        ("cluster-announce-tls-port", Kind::Integer(0, 65535), "0");
        ("cluster-announce-bus-port", Kind::Integer(0, 65535), "0");
        ("cluster-announce-hostname", Kind::Text, "");
        ("cluster-announce-human-nodename", Kind::Text, "");
        ("cluster-preferred-endpoint-type", Kind::Choice(&["ip", "hostname", "unknown-endpoint"]), "ip");
        ("cluster-link-sendbuf-limit", MEMORY, "0");
        ("cluster-require-full-coverage", YES_NO, "yes");
        ("cluster-allow-reads-when-down", YES_NO, "no");
        ("cluster-allow-pubsubshard-when-down", YES_NO, "yes");
        ("cluster-allow-replica-migration", YES_NO, "yes");
        ("cluster-migration-barrier", INTEGER, "1");
        ("cluster-replica-no-failover", YES_NO, "no");
        ("cluster-replica-validity-factor", INTEGER, "10");
    }
}

const NO_LOG_OF_SIZES: &str = "There is no log of large requests and replies";
const NO_FILES_FOR_REPLICAS: &str = "A snapshot is sent to replicas as it is made, without a file";
const SENT_AT_ONCE: &str = "What there is of the stream is sent at once";
const REPLICAS_HAVE_ONE_WAY: &str =
    "A snapshot takes the place of the data when all of it has come; a command that cannot be applied ends the link";
const DISKS_FAIL_ALIKE: &str = "The log of a replica fails as any other does: docs/durability.md";
const NO_OTHER_NODES: &str = "There are no other nodes";
const NO_DEFRAGMENTATION: &str = "Memory is not defragmented: the allocator's bins are reused";
const NO_PINNING: &str = "Threads are not bound to processors";
const NO_SYSLOG: &str = "Log lines go to a file or to standard error";
const SCRIPTS_BY_EFFECTS: &str = "What a script did is logged, never the script";
const NO_TITLE: &str = "The process keeps its title";
const NO_TLS_OF_THAT_KIND: &str =
    "Keys that are encrypted cannot be read: `openssl pkey -in KEY -out PLAIN` decrypts one";
const NO_MODULES: &str = "There are no modules";
/// Whether jemalloc has a thread that returns memory to the system.
const JEMALLOC_THREAD: &str = if cfg!(feature = "jemalloc") { "yes" } else { "no" };

/// Other names, and the names of the directives that they mean.
pub const ALIASES: [(&str, &str); 27] = [
    ("lua-time-limit", "busy-reply-threshold"),
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
    ("slaveof", "replicaof"),
    ("slave-serve-stale-data", "replica-serve-stale-data"),
    ("slave-read-only", "replica-read-only"),
    ("slave-ignore-maxmemory", "replica-ignore-maxmemory"),
    ("slave-lazy-flush", "replica-lazy-flush"),
    ("slave-announce-ip", "replica-announce-ip"),
    ("slave-announce-port", "replica-announce-port"),
    ("slave-priority", "replica-priority"),
    ("repl-ping-slave-period", "repl-ping-replica-period"),
    ("min-slaves-to-write", "min-replicas-to-write"),
    ("min-slaves-max-lag", "min-replicas-max-lag"),
    ("cluster-slave-no-failover", "cluster-replica-no-failover"),
    ("cluster-slave-validity-factor", "cluster-replica-validity-factor"),
    ("server-cpulist", "server_cpulist"),
    ("bio-cpulist", "bio_cpulist"),
    ("aof-rewrite-cpulist", "aof_rewrite_cpulist"),
    ("bgsave-cpulist", "bgsave_cpulist"),
    // Valkey's.
    ("commandlog-execution-slower-than", "slowlog-log-slower-than"),
    ("commandlog-slow-execution-max-len", "slowlog-max-len"),
    ("primaryauth", "masterauth"),
    ("primaryuser", "masteruser"),
];

/// The position of a directive in the table.
pub fn index_of(name: &str) -> Option<usize> {
    static PLACES: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let mut places: HashMap<_, _> = DIRECTIVES.iter().enumerate().map(|(index, row)| (row.name, index)).collect();
        ALIASES.iter().for_each(|(alias, name)| _ = places.insert(alias, places[name]));
        places
    });
    PLACES.get(name).copied()
}

/// The position of a parameter of CONFIG.
pub fn parameter(name: &str) -> Option<usize> {
    index_of(name).filter(|&index| DIRECTIVES[index].kind.is_parameter())
}

/// Every name of a parameter of CONFIG, aliases last, with its position in the table.
pub fn parameters() -> impl Iterator<Item = (&'static str, usize)> {
    let names = DIRECTIVES.iter().map(|row| row.name).chain(ALIASES.iter().map(|(alias, _)| *alias));
    names.filter_map(|name| Some((name, parameter(name)?)))
}
