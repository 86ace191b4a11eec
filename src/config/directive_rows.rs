//! The rows of the table of directives: those with an effect, then those that are known because Redis has them.

use super::directives::{DirectiveRow, Effect, Kind};
use crate::aof::FsyncPolicy;
use crate::keyspace::Policy;

const YES_NO: Kind = Kind::Choice(&["no", "yes"]);
const INTEGER: Kind = Kind::Integer(0, i32::MAX as u64);
const MEMORY: Kind = Kind::Memory(0, i64::MAX as u64);
const WHO: Kind = Kind::Choice(&["no", "yes", "local"]);
const GB: u64 = 1 << 30;
const MB: u64 = 1 << 20;
/// The longest request, in bytes.
pub const QUERY_BYTES_MAX: u64 = 2 * GB;

/// Every directive. Those with an effect are at the positions of [`Directive`].
pub static DIRECTIVES: &[DirectiveRow] = &ALL;

static ALL: [DirectiveRow; WITH_EFFECT.len() + WITHOUT_EFFECT.len()] = {
    let mut all = [ignored(""); WITH_EFFECT.len() + WITHOUT_EFFECT.len()];
    let (with_effect, without_effect) = all.split_at_mut(WITH_EFFECT.len());
    with_effect.copy_from_slice(WITH_EFFECT);
    without_effect.copy_from_slice(WITHOUT_EFFECT);
    all
};

/// Makes the table of the directives with an effect, and their names as code writes them.
macro_rules! directives {
    ($( $id:ident = DirectiveRow {
        name: $name:literal,
        kind: $kind:expr,
        default: $default:literal,
        effect: $effect:expr,
        help: $help:literal,
    } ),* $(,)?) => {
        /// A directive with an effect, by its position in the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Directive { $( #[doc = $help] $id, )* }

        const WITH_EFFECT: &[DirectiveRow] = &[
            $( DirectiveRow { name: $name, kind: $kind, default: $default, effect: $effect, help: $help }, )*
        ];
    };
}

directives![
    Engine = DirectiveRow {
        name: "engine",
        kind: Kind::Choice(&["mutex", "dashmap", "actor"]),
        default: "actor",
        effect: Effect::Immutable,
        help: "The concurrency architecture: what owns the data",
    },
    Shards = DirectiveRow {
        name: "shards",
        kind: Kind::Integer(0, 1024),
        default: "0",
        effect: Effect::Immutable,
        help: "Shard actors (actor), or shards of the table (dashmap); 0 for as many as threads (actor), or four for \
               each core (dashmap)",
    },
    Threads = DirectiveRow {
        name: "threads",
        kind: Kind::Integer(0, 1024),
        default: "0",
        effect: Effect::Immutable,
        help: "Threads that run connections and shards; 0 for one less than there are cores",
    },
    Placement = DirectiveRow {
        name: "placement",
        kind: Kind::Choice(&["scheduler", "pinned"]),
        default: "scheduler",
        effect: Effect::Immutable,
        help: "Where connections and shards run: on whichever worker thread is free (scheduler); or each on one \
               thread, which has a runtime and a core of its own and takes no work from others (pinned): shard i on \
               thread i modulo threads, connections in turn",
    },
    Local = DirectiveRow {
        name: "local",
        kind: Kind::Choice(&["mailbox", "inline"]),
        default: "mailbox",
        effect: Effect::Immutable,
        help: "How commands get to a shard on the thread of their connection: through its mailbox, or in place where \
               nothing waits in the mailbox (inline; actor with placement pinned)",
    },
    MultiKey = DirectiveRow {
        name: "multi-key",
        kind: Kind::Choice(&["atomic", "relaxed"]),
        default: "atomic",
        effect: Effect::Immutable,
        help: "Whether a command over several keys, or a transaction, is one step (atomic), or a step for each key or \
               shard (relaxed; actor and dashmap)",
    },
    Batching = DirectiveRow {
        name: "batching",
        kind: Kind::Choice(&["read", "command"]),
        default: "read",
        effect: Effect::Immutable,
        help: "What runs together: the commands of one read, up to 64 under one acquisition of the lock (mutex) or of \
               their shards' locks (dashmap), or in one message to each shard (actor), with one hand-over to the log; \
               or each command by itself",
    },
    Prefetch = DirectiveRow {
        name: "prefetch",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Immutable,
        help: "Fetch the nodes of the keys of the next 16 commands of a read, or of a shard's turn (actor), into the \
               processor's cache together",
    },
    MailboxCapacity = DirectiveRow {
        name: "mailbox-capacity",
        kind: Kind::Integer(1, 1_000_000),
        default: "1024",
        effect: Effect::Immutable,
        help: "Batches that wait for a shard at most (actor)",
    },
    TurnBatches = DirectiveRow {
        name: "turn-batches",
        kind: Kind::Integer(1, 65536),
        default: "256",
        effect: Effect::Immutable,
        help: "Batches that a shard serves in one turn at most before it gives way to connections: what one clock \
               reading and one hand-over to the log cover (actor)",
    },
    ReadsInFlight = DirectiveRow {
        name: "reads-in-flight",
        kind: Kind::Integer(1, 1024),
        default: "4",
        effect: Effect::Immutable,
        help: "Reads of a connection whose batches may be out at once, for each shard; its socket is not read further \
               until some are back (actor)",
    },
    ReadSize = DirectiveRow {
        name: "read-size",
        kind: Kind::Memory(4096, 16 * MB),
        default: "64kb",
        effect: Effect::Immutable,
        help: "Bytes that one read from a connection takes in at most: the bound of what one batch to a shard holds",
    },
    Channel = DirectiveRow {
        name: "channel",
        kind: Kind::Choice(&["flume", "tokio"]),
        default: "flume",
        effect: Effect::Immutable,
        help: "The channels that mailboxes are made of: flume's, or the runtime's mpsc (actor)",
    },
    Port = DirectiveRow {
        name: "port",
        kind: Kind::Integer(0, 65535),
        default: "6379",
        effect: Effect::Mutable,
        help: "TCP port; 0 lets the operating system choose, or is for none where there is a unixsocket",
    },
    Bind = DirectiveRow {
        name: "bind",
        kind: Kind::Words,
        default: "127.0.0.1",
        effect: Effect::Mutable,
        help: "Addresses or names to listen on: * for all of IPv4, ::* for all of IPv6; a - before one says that this \
               machine may not have it",
    },
    Unixsocket = DirectiveRow {
        name: "unixsocket",
        kind: Kind::Text,
        default: "",
        effect: Effect::Immutable,
        help: "File of a unix socket to listen on; empty for none",
    },
    Unixsocketperm = DirectiveRow {
        name: "unixsocketperm",
        kind: Kind::Octal(0o777),
        default: "0",
        effect: Effect::Immutable,
        help: "Permissions of that file; 0 for those that the process's mask leaves",
    },
    TlsPort = DirectiveRow {
        name: "tls-port",
        kind: Kind::Integer(0, 65535),
        default: "0",
        effect: Effect::Mutable,
        help: "TCP port for encrypted connections, at the addresses of `bind`; 0 for none",
    },
    TlsCertFile = DirectiveRow {
        name: "tls-cert-file",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "File with the certificate that this server shows, and those between it and the authority's (PEM), under \
               --dir unless it begins with a /, as all files of TLS. CONFIG SET reads all of them again",
    },
    TlsKeyFile = DirectiveRow {
        name: "tls-key-file",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "File with its key (PEM)",
    },
    TlsClientCertFile = DirectiveRow {
        name: "tls-client-cert-file",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "File with the certificate that a replica shows its master; empty for that of tls-cert-file",
    },
    TlsClientKeyFile = DirectiveRow {
        name: "tls-client-key-file",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "File with its key",
    },
    TlsCaCertFile = DirectiveRow {
        name: "tls-ca-cert-file",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "File with certificates of authorities: others have to show one of theirs",
    },
    TlsCaCertDir = DirectiveRow {
        name: "tls-ca-cert-dir",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "Directory of such files",
    },
    TlsAuthClients = DirectiveRow {
        name: "tls-auth-clients",
        kind: Kind::Choice(&["no", "yes", "optional"]),
        default: "yes",
        effect: Effect::Mutable,
        help: "Whether clients have to show a certificate, may show one, or are not asked",
    },
    TlsReplication = DirectiveRow {
        name: "tls-replication",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "Connect to the master by TLS, and tell it tls-port. The master has to have a certificate of one of the \
               authorities; its name is not compared, as by Redis",
    },
    TlsCluster = DirectiveRow {
        name: "tls-cluster",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "Connect to the targets of MIGRATE by TLS. They have to have a certificate of one of the authorities; \
               their names are not compared",
    },
    TlsProtocols = DirectiveRow {
        name: "tls-protocols",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "The versions that are permitted, of TLSv1.2 and TLSv1.3; empty for both",
    },
    TlsCiphers = DirectiveRow {
        name: "tls-ciphers",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "The ciphers of TLSv1.2 that are permitted, by OpenSSL's names with a colon in between; empty for all. \
               There are those with ECDHE and AES-GCM or ChaCha20",
    },
    TlsCiphersuites = DirectiveRow {
        name: "tls-ciphersuites",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "The cipher suites of TLSv1.3 that are permitted, in the same form; empty for all",
    },
    TlsPreferServerCiphers = DirectiveRow {
        name: "tls-prefer-server-ciphers",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "Whether this server chooses among the ciphers that both ends permit, in its order, or the client",
    },
    TlsSessionCaching = DirectiveRow {
        name: "tls-session-caching",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Whether clients that come again may take up their session, which saves most of the handshake",
    },
    TlsSessionCacheSize = DirectiveRow {
        name: "tls-session-cache-size",
        kind: Kind::Integer(0, 1 << 20),
        default: "20480",
        effect: Effect::Mutable,
        help: "Sessions that are kept for them at most",
    },
    ProtectedMode = DirectiveRow {
        name: "protected-mode",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Without a password, refuse connections that are not from this machine",
    },
    TcpBacklog = DirectiveRow {
        name: "tcp-backlog",
        kind: Kind::Integer(1, 65535),
        default: "4096",
        effect: Effect::Immutable,
        help: "Connections that wait to be accepted at most",
    },
    Maxclients = DirectiveRow {
        name: "maxclients",
        kind: Kind::Integer(1, 1_000_000),
        default: "10000",
        effect: Effect::Mutable,
        help: "Connections at most, and no more than the limit on open files leaves beside the files of the log",
    },
    Maxmemory = DirectiveRow {
        name: "maxmemory",
        kind: Kind::Memory(0, u64::MAX),
        default: "0",
        effect: Effect::Mutable,
        help: "Bytes that the allocator has given out above which keys are evicted as maxmemory-policy says, and \
               commands that need memory are refused where none can be; 0 for no limit. What waits to be written to \
               the log does not count",
    },
    MaxmemoryClients = DirectiveRow {
        name: "maxmemory-clients",
        kind: Kind::MemoryOrPercent,
        default: "0",
        effect: Effect::Mutable,
        help: "Bytes that connections may take together, or a percentage of maxmemory: buffers of requests and \
               replies, what MULTI has queued, what is watched, subscribed to and tracked. When they take as much, \
               those that take most are closed; replicas are not counted, and connections with CLIENT NO-EVICT stay. 0 \
               for no limit; less than 128 KB is 128 KB. Messages that wait are counted every 0.1 s",
    },
    MaxmemoryPolicy = DirectiveRow {
        name: "maxmemory-policy",
        kind: Kind::Choice(Policy::NAMES),
        default: "noeviction",
        effect: Effect::Mutable,
        help: "Which keys go above maxmemory: of those that expire (volatile) or of all, those unused for longest \
               (lru), used least often (lfu), that expire first (ttl), or any (random); or none",
    },
    MaxmemorySamples = DirectiveRow {
        name: "maxmemory-samples",
        kind: Kind::Integer(1, i32::MAX as u64),
        default: "5",
        effect: Effect::Mutable,
        help: "Keys that are looked at to find one to evict",
    },
    LfuLogFactor = DirectiveRow {
        name: "lfu-log-factor",
        kind: Kind::Integer(0, i32::MAX as u64),
        default: "10",
        effect: Effect::Mutable,
        help: "How slowly the counter of a key's uses grows under the LFU policies",
    },
    LfuDecayTime = DirectiveRow {
        name: "lfu-decay-time",
        kind: Kind::Integer(0, i32::MAX as u64),
        default: "1",
        effect: Effect::Mutable,
        help: "Minutes without a use that take one from that counter; 0 for never",
    },
    Timeout = DirectiveRow {
        name: "timeout",
        kind: Kind::Integer(0, (1 << 31) - 1),
        default: "0",
        effect: Effect::Mutable,
        help: "Seconds after which an idle connection is closed; 0 for never. One that waits (BLPOP, WAIT), subscribes \
               or monitors is not idle",
    },
    Requirepass = DirectiveRow {
        name: "requirepass",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "Password of the default user, which connections must give; empty for none",
    },
    User = DirectiveRow {
        name: "user",
        kind: Kind::User,
        default: "",
        effect: Effect::Immutable,
        help: "NAME RULES of a user, as ACL SETUSER takes them, again for each; CONFIG REWRITE keeps them",
    },
    RenameCommand = DirectiveRow {
        name: "rename-command",
        kind: Kind::Renaming,
        default: "",
        effect: Effect::Immutable,
        help: "COMMAND NAME: clients and scripts call it by another name, or not at all if that is \"\"; again for \
               each. The log and replicas have the own name. Rules of users are better: they know subcommands, and who \
               may",
    },
    Aclfile = DirectiveRow {
        name: "aclfile",
        kind: Kind::Text,
        default: "",
        effect: Effect::Immutable,
        help: "File with the users, under --dir unless it begins with a /, which ACL LOAD and SAVE use; empty for none",
    },
    AclPubsubDefault = DirectiveRow {
        name: "acl-pubsub-default",
        kind: Kind::Choice(&["resetchannels", "allchannels"]),
        default: "resetchannels",
        effect: Effect::Mutable,
        help: "Whether new users may use no channel, or all of them",
    },
    AcllogMaxLen = DirectiveRow {
        name: "acllog-max-len",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "128",
        effect: Effect::Mutable,
        help: "Entries of ACL LOG at most",
    },
    EnableDebugCommand = DirectiveRow {
        name: "enable-debug-command",
        kind: WHO,
        default: "no",
        effect: Effect::Immutable,
        help: "Whether DEBUG is allowed: never, always, or for connections from this machine",
    },
    EnableProtectedConfigs = DirectiveRow {
        name: "enable-protected-configs",
        kind: WHO,
        default: "no",
        effect: Effect::Immutable,
        help: "Who may change protected directives by CONFIG SET: nobody, everybody, or connections from this machine",
    },
    Databases = DirectiveRow {
        name: "databases",
        kind: Kind::Integer(1, 1024),
        default: "16",
        effect: Effect::Immutable,
        help: "Databases, which SELECT chooses from by number",
    },
    ClusterEnabled = DirectiveRow {
        name: "cluster-enabled",
        kind: YES_NO,
        default: "no",
        effect: Effect::Immutable,
        help: "Reply to clients of a cluster as its one node, which owns all slots, with one database",
    },
    ClusterAllowCrossSlot = DirectiveRow {
        name: "cluster-allow-cross-slot",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Immutable,
        help: "Whether a request, or a transaction, may name keys of several slots in a cluster. Nothing forbids it \
               here; `no` replies CROSSSLOT, as several nodes would",
    },
    ClusterAnnounceIp = DirectiveRow {
        name: "cluster-announce-ip",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "The address that CLUSTER SLOTS and its kin tell clients; empty for that which each has connected to",
    },
    ClusterAnnouncePort = DirectiveRow {
        name: "cluster-announce-port",
        kind: Kind::Integer(0, 65535),
        default: "0",
        effect: Effect::Mutable,
        help: "The port that they tell; 0 for that which the server listens on",
    },
    Appendonly = DirectiveRow {
        name: "appendonly",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Keep a log of every change under --dir. CONFIG SET begins one as a rewriting does, or ends it; other \
               files in its directory are kept under another name",
    },
    Appendfsync = DirectiveRow {
        name: "appendfsync",
        kind: Kind::Choice(&FsyncPolicy::NAMES),
        default: "everysec",
        effect: Effect::Mutable,
        help: "When the log goes to the disk",
    },
    AutoAofRewritePercentage = DirectiveRow {
        name: "auto-aof-rewrite-percentage",
        kind: Kind::Integer(0, i32::MAX as u64),
        default: "100",
        effect: Effect::Mutable,
        help: "By how many percent the log grows since it was rewritten, or the server started, until it is rewritten \
               by itself, once in a second at most; 0 for never",
    },
    AutoAofRewriteMinSize = DirectiveRow {
        name: "auto-aof-rewrite-min-size",
        kind: Kind::Memory(0, i64::MAX as u64),
        default: "64mb",
        effect: Effect::Mutable,
        help: "Bytes of the log up to which it is not rewritten by itself",
    },
    Dir = DirectiveRow {
        name: "dir",
        kind: Kind::Dir,
        default: "./data",
        effect: Effect::Protected,
        help: "Directory of the log and of snapshots. CONFIG SET changes it where there is no log",
    },
    Appenddirname = DirectiveRow {
        name: "appenddirname",
        kind: Kind::DirName,
        default: "appendonlydir",
        effect: Effect::Immutable,
        help: "Directory of the log's files, under --dir",
    },
    Dbfilename = DirectiveRow {
        name: "dbfilename",
        kind: Kind::FileName,
        default: "dump.rdb",
        effect: Effect::Protected,
        help: "File of SAVE and BGSAVE, under --dir",
    },
    ListMaxListpackSize = DirectiveRow {
        name: "list-max-listpack-size",
        kind: Kind::Signed(i32::MIN as i64, i32::MAX as i64),
        default: "-2",
        effect: Effect::Mutable,
        help: "Elements of a listpack of a list at most; or from -1 to -5 its size at most, in steps from 4 to 64 KB",
    },
    ListCompressDepth = DirectiveRow {
        name: "list-compress-depth",
        kind: Kind::Integer(0, i32::MAX as u64),
        default: "0",
        effect: Effect::Mutable,
        help: "WITHOUT EFFECT, kept for clients that set it: lists are not compressed",
    },
    SetMaxIntsetEntries = DirectiveRow {
        name: "set-max-intset-entries",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "512",
        effect: Effect::Mutable,
        help: "Members of a set of integers at most that is an intset",
    },
    SetMaxListpackEntries = DirectiveRow {
        name: "set-max-listpack-entries",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "128",
        effect: Effect::Mutable,
        help: "Members of a set at most that is a listpack",
    },
    SetMaxListpackValue = DirectiveRow {
        name: "set-max-listpack-value",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "64",
        effect: Effect::Mutable,
        help: "Bytes of a member at most in a set that is a listpack",
    },
    HashMaxListpackEntries = DirectiveRow {
        name: "hash-max-listpack-entries",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "512",
        effect: Effect::Mutable,
        help: "Fields of a hash at most that is a listpack",
    },
    HashMaxListpackValue = DirectiveRow {
        name: "hash-max-listpack-value",
        kind: Kind::Memory(0, i64::MAX as u64),
        default: "64",
        effect: Effect::Mutable,
        help: "Bytes of a field or value at most in a hash that is a listpack",
    },
    ZsetMaxListpackEntries = DirectiveRow {
        name: "zset-max-listpack-entries",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "128",
        effect: Effect::Mutable,
        help: "Members of a sorted set at most that is a listpack",
    },
    ZsetMaxListpackValue = DirectiveRow {
        name: "zset-max-listpack-value",
        kind: Kind::Memory(0, i64::MAX as u64),
        default: "64",
        effect: Effect::Mutable,
        help: "Bytes of a member at most in a sorted set that is a listpack",
    },
    Save = DirectiveRow {
        name: "save",
        kind: Kind::SavePoints,
        default: "",
        effect: Effect::Mutable,
        help: "SECONDS CHANGES, again for each point: a snapshot is made by itself when the last one is longer ago and \
               so much has changed since, and when the server ends; lines and flags add up, an empty one takes all \
               away. Where nothing is said: never with `appendonly yes`, and `3600 1 300 100 60 10000` with \
               `appendonly no`",
    },
    StopWritesOnBgsaveError = DirectiveRow {
        name: "stop-writes-on-bgsave-error",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Refuse writes when the last snapshot could not be written, where snapshots are made by themselves",
    },
    Rdbcompression = DirectiveRow {
        name: "rdbcompression",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Compress the strings of snapshots, in files and for replicas, beside the commands",
    },
    StreamNodeMaxBytes = DirectiveRow {
        name: "stream-node-max-bytes",
        kind: Kind::Memory(0, u64::MAX >> 1),
        default: "4096",
        effect: Effect::Mutable,
        help: "Bytes of a block of a stream's entries at which the next one begins; 0 for no limit",
    },
    StreamNodeMaxEntries = DirectiveRow {
        name: "stream-node-max-entries",
        kind: Kind::Integer(0, u64::MAX >> 1),
        default: "100",
        effect: Effect::Mutable,
        help: "Entries of a block of a stream at which the next one begins; 0 for no limit",
    },
    SanitizeDumpPayload = DirectiveRow {
        name: "sanitize-dump-payload",
        kind: Kind::Choice(&["no", "yes", "clients"]),
        default: "yes",
        effect: Effect::Mutable,
        help: "WITHOUT EFFECT, kept for clients that set it: what RESTORE is given is always checked whole, and so are \
               snapshots",
    },
    Hz = DirectiveRow {
        name: "hz",
        kind: Kind::Clamped(1, 500),
        default: "10",
        effect: Effect::Mutable,
        help: "Times a second that expired keys are looked for",
    },
    ProtoMaxBulkLen = DirectiveRow {
        name: "proto-max-bulk-len",
        kind: Kind::Memory(1 << 20, GB),
        default: "512mb",
        effect: Effect::Mutable,
        help: "Longest argument of a request",
    },
    HllSparseMaxBytes = DirectiveRow {
        name: "hll-sparse-max-bytes",
        kind: Kind::Memory(0, GB),
        default: "3000",
        effect: Effect::Mutable,
        help: "Longest HyperLogLog in the sparse encoding; a longer one becomes dense",
    },
    Replicaof = DirectiveRow {
        name: "replicaof",
        kind: Kind::Master,
        default: "",
        effect: Effect::Immutable,
        help: "HOST PORT of the master whose data and changes this server takes over; `no one` for none. REPLICAOF \
               changes it, and CONFIG REWRITE keeps it",
    },
    Masterauth = DirectiveRow {
        name: "masterauth",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "Password that a replica gives its master; empty for none",
    },
    Masteruser = DirectiveRow {
        name: "masteruser",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "User that it belongs to; empty for the default one",
    },
    ReplicaReadOnly = DirectiveRow {
        name: "replica-read-only",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Refuse writes of clients while there is a master. What they write to a replica otherwise goes with the \
               next full synchronization",
    },
    ReplicaServeStaleData = DirectiveRow {
        name: "replica-serve-stale-data",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Serve clients while the link to the master is down; `no` replies MASTERDOWN",
    },
    ReplicaIgnoreMaxmemory = DirectiveRow {
        name: "replica-ignore-maxmemory",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Leave eviction to the master while there is one",
    },
    ReplicaPriority = DirectiveRow {
        name: "replica-priority",
        kind: INTEGER,
        default: "100",
        effect: Effect::Mutable,
        help: "Which replica Sentinel promotes first: the one with the lowest number; 0 for never",
    },
    ReplicaAnnounced = DirectiveRow {
        name: "replica-announced",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Whether Sentinel tells clients of this replica",
    },
    ReplicaAnnounceIp = DirectiveRow {
        name: "replica-announce-ip",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "The address that a replica tells its master; empty for that which it connects from",
    },
    BindSourceAddr = DirectiveRow {
        name: "bind-source-addr",
        kind: Kind::Text,
        default: "",
        effect: Effect::Mutable,
        help: "The address that a replica connects to its master from, if that is possible; empty for one that the \
               system chooses",
    },
    ReplicaAnnouncePort = DirectiveRow {
        name: "replica-announce-port",
        kind: Kind::Integer(0, 65535),
        default: "0",
        effect: Effect::Mutable,
        help: "The port that a replica tells its master; 0 for that which the server listens on",
    },
    ClientQueryBufferLimit = DirectiveRow {
        name: "client-query-buffer-limit",
        kind: Kind::Memory(1 << 20, QUERY_BYTES_MAX),
        default: "1gb",
        effect: Effect::Mutable,
        help: "Bytes of a request that has not ended, and of requests that have come and wait: above it a client is \
               disconnected, or, where only its own unread replies hold it up, not read from",
    },
    ClientOutputBufferLimit = DirectiveRow {
        name: "client-output-buffer-limit",
        kind: Kind::OutputLimit,
        default: "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        effect: Effect::Mutable,
        help: "CLASS HARD SOFT SECONDS, again for each class: bytes that a connection does not read at which it is \
               closed at once, or after SECONDS over SOFT; 0 for no limit, and no less than 16kb. `normal`, `pubsub` \
               (connections with subscriptions) and `slave` (replicas). The lines for a monitor, and the messages of \
               CLIENT TRACKING, have the limit of `normal`, or that of `pubsub` if `normal` has none",
    },
    NotifyKeyspaceEvents = DirectiveRow {
        name: "notify-keyspace-events",
        kind: Kind::Events,
        default: "",
        effect: Effect::Mutable,
        help: "Events of keys that are published, by letters as in Redis: K and E choose the channels, A or \
               g$lshzxetdmn the classes; empty for none",
    },
    TrackingTableMaxKeys = DirectiveRow {
        name: "tracking-table-max-keys",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "1000000",
        effect: Effect::Mutable,
        help: "Keys that are remembered for clients with CLIENT TRACKING; when there are more, some are forgotten, and \
               their readers told that they have changed; 0 for any number",
    },
    LazyfreeLazyExpire = DirectiveRow {
        name: "lazyfree-lazy-expire",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "Free a large value whose time has come on a thread of its own",
    },
    LazyfreeLazyServerDel = DirectiveRow {
        name: "lazyfree-lazy-server-del",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "Free a large value that a command replaces, or SPOP takes whole, on a thread of its own",
    },
    LazyfreeLazyUserDel = DirectiveRow {
        name: "lazyfree-lazy-user-del",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "DEL frees large values on a thread of its own, as UNLINK does",
    },
    LazyfreeLazyUserFlush = DirectiveRow {
        name: "lazyfree-lazy-user-flush",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "FLUSHALL and FLUSHDB free what they remove on a thread of its own, as with ASYNC",
    },
    ReplicaLazyFlush = DirectiveRow {
        name: "replica-lazy-flush",
        kind: YES_NO,
        default: "no",
        effect: Effect::Mutable,
        help: "Free what a full synchronization replaces on a thread of its own",
    },
    BusyReplyThreshold = DirectiveRow {
        name: "busy-reply-threshold",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "5000",
        effect: Effect::Mutable,
        help: "Milliseconds that a script may run before other connections are told that it does, and may end it with \
               SCRIPT KILL; 0 for ever",
    },
    SlowlogLogSlowerThan = DirectiveRow {
        name: "slowlog-log-slower-than",
        kind: Kind::Signed(-1, i64::MAX),
        default: "10000",
        effect: Effect::Mutable,
        help: "Microseconds from which on a command is kept in the slow log; -1 for never",
    },
    SlowlogMaxLen = DirectiveRow {
        name: "slowlog-max-len",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "128",
        effect: Effect::Mutable,
        help: "Entries of the slow log at most",
    },
    LatencyMonitorThreshold = DirectiveRow {
        name: "latency-monitor-threshold",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "0",
        effect: Effect::Mutable,
        help: "Milliseconds from which on a command is kept for LATENCY; 0 for never",
    },
    LatencyTracking = DirectiveRow {
        name: "latency-tracking",
        kind: YES_NO,
        default: "yes",
        effect: Effect::Mutable,
        help: "Keep a histogram of the times of each command, for INFO latencystats and LATENCY HISTOGRAM",
    },
    StagesSample = DirectiveRow {
        name: "stages-sample",
        kind: Kind::Integer(0, 1_000_000),
        default: "128",
        effect: Effect::Mutable,
        help: "One read in so many, on average, is timed for INFO stages, which says where the time of requests goes; \
               0 for none",
    },
    LatencyTrackingInfoPercentiles = DirectiveRow {
        name: "latency-tracking-info-percentiles",
        kind: Kind::Percentiles,
        default: "50 99 99.9",
        effect: Effect::Mutable,
        help: "Percentiles of the times of each command that INFO latencystats shows",
    },
    Loglevel = DirectiveRow {
        name: "loglevel",
        kind: Kind::Choice(&["debug", "verbose", "notice", "warning", "nothing"]),
        default: "notice",
        effect: Effect::Mutable,
        help: "What is logged; at the start RUST_LOG takes precedence",
    },
    Logfile = DirectiveRow {
        name: "logfile",
        kind: Kind::Text,
        default: "",
        effect: Effect::Immutable,
        help: "File to log to, under --dir unless it begins with a /; empty for stderr. SIGHUP opens it anew: what \
               rotates log files has renamed it by then",
    },
    LogFormat = DirectiveRow {
        name: "log-format",
        kind: Kind::Choice(&["redis", "json"]),
        default: "redis",
        effect: Effect::Immutable,
        help: "Form of the log lines",
    },
    Daemonize = DirectiveRow {
        name: "daemonize",
        kind: YES_NO,
        default: "no",
        effect: Effect::Immutable,
        help: "Whether the server runs in the background, in a session of its own: the process that was started ends \
               when it listens, and its log is `logfile` alone. Not where `supervised` finds a supervisor",
    },
    OomScoreAdj = DirectiveRow {
        name: "oom-score-adj",
        kind: Kind::Choice(&["no", "yes", "relative", "absolute"]),
        default: "no",
        effect: Effect::Mutable,
        help: "Whether the server sets how readily the kernel ends the process when memory is short: relative to its \
               score before (yes, relative), absolute, or not",
    },
    OomScoreAdjValues = DirectiveRow {
        name: "oom-score-adj-values",
        kind: Kind::OomScores,
        default: "0 200 800",
        effect: Effect::Mutable,
        help: "That score of a master, of a replica, and of a process that writes a snapshot, which there is none of \
               here",
    },
    Supervised = DirectiveRow {
        name: "supervised",
        kind: Kind::Choice(&["no", "upstart", "systemd", "auto"]),
        default: "no",
        effect: Effect::Immutable,
        help: "What is told when the server is ready: systemd (READY=1 to NOTIFY_SOCKET), upstart (by a SIGSTOP), \
               whichever the environment names (auto), or nothing",
    },
    Pidfile = DirectiveRow {
        name: "pidfile",
        kind: Kind::Text,
        default: "",
        effect: Effect::Immutable,
        help: "File that holds the process id while the server runs, under --dir unless it begins with a /; empty for \
               none",
    },
    ReplDisklessSyncDelay = DirectiveRow {
        name: "repl-diskless-sync-delay",
        kind: INTEGER,
        default: "5",
        effect: Effect::Mutable,
        help: "Seconds that a full synchronization waits for more replicas, which then take the same snapshot",
    },
    ReplDisklessSyncMaxReplicas = DirectiveRow {
        name: "repl-diskless-sync-max-replicas",
        kind: INTEGER,
        default: "0",
        effect: Effect::Mutable,
        help: "Replicas at which it waits no longer; 0 for any number",
    },
    ReplPingReplicaPeriod = DirectiveRow {
        name: "repl-ping-replica-period",
        kind: Kind::Integer(1, i32::MAX as u64),
        default: "10",
        effect: Effect::Mutable,
        help: "Seconds between two PINGs in the stream to replicas",
    },
    ReplTimeout = DirectiveRow {
        name: "repl-timeout",
        kind: Kind::Integer(1, i32::MAX as u64),
        default: "60",
        effect: Effect::Mutable,
        help: "Seconds after which a replica that is silent, or takes nothing, is given up",
    },
    ReplBacklogSize = DirectiveRow {
        name: "repl-backlog-size",
        kind: Kind::Memory(1, i64::MAX as u64),
        default: "1mb",
        effect: Effect::Mutable,
        help: "Bytes of the stream that are kept for replicas which come back; those that a replica has still to be \
               sent are kept, too",
    },
    ReplBacklogTtl = DirectiveRow {
        name: "repl-backlog-ttl",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "3600",
        effect: Effect::Mutable,
        help: "Seconds without a replica after which nothing of the stream is kept any more; 0 for never",
    },
    MinReplicasToWrite = DirectiveRow {
        name: "min-replicas-to-write",
        kind: INTEGER,
        default: "0",
        effect: Effect::Mutable,
        help: "Replicas that have to be there, and to have been heard of lately, for a write to be taken; 0 for none",
    },
    MinReplicasMaxLag = DirectiveRow {
        name: "min-replicas-max-lag",
        kind: INTEGER,
        default: "10",
        effect: Effect::Mutable,
        help: "Seconds since such a replica was heard of at most; 0 for no need of any",
    },
    ShutdownOnSigint = DirectiveRow {
        name: "shutdown-on-sigint",
        kind: Kind::OnSignal,
        default: "default",
        effect: Effect::Mutable,
        help: "The options of the SHUTDOWN that SIGINT is: save, nosave, now, force, or default for none",
    },
    ShutdownOnSigterm = DirectiveRow {
        name: "shutdown-on-sigterm",
        kind: Kind::OnSignal,
        default: "default",
        effect: Effect::Mutable,
        help: "The same for SIGTERM",
    },
    ShutdownTimeout = DirectiveRow {
        name: "shutdown-timeout",
        kind: INTEGER,
        default: "10",
        effect: Effect::Mutable,
        help: "Seconds for which the end of the server waits for replicas that lag; 0 for not at all",
    },
    TcpKeepalive = DirectiveRow {
        name: "tcp-keepalive",
        kind: INTEGER,
        default: "300",
        effect: Effect::Mutable,
        help: "Seconds of silence after which a new connection is asked whether it is there; 0 for never",
    },
    Include = DirectiveRow {
        name: "include",
        kind: Kind::Include,
        default: "",
        effect: Effect::Immutable,
        help: "A file to read at this place of the config file, or those that a pattern matches; no parameter of \
               CONFIG",
    },
];

const WITHOUT_EFFECT: &[DirectiveRow] = &[
    DirectiveRow { name: "always-show-logo", kind: YES_NO, default: "no", ..ignored("There is no logo") },
    DirectiveRow { name: "set-proc-title", kind: YES_NO, default: "no", ..NO_TITLE },
    DirectiveRow {
        name: "proc-title-template",
        kind: Kind::Text,
        default: "{title} {listen-addr} {server-mode}",
        ..NO_TITLE
    },
    DirectiveRow {
        name: "locale-collate",
        kind: Kind::Text,
        default: "",
        ..ignored("Texts are compared byte by byte")
    },
    DirectiveRow { name: "syslog-enabled", kind: YES_NO, default: "no", ..NO_SYSLOG },
    DirectiveRow { name: "syslog-ident", kind: Kind::Text, default: "redis", ..NO_SYSLOG },
    DirectiveRow {
        name: "syslog-facility",
        kind: Kind::Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]),
        default: "local0",
        ..NO_SYSLOG
    },
    DirectiveRow {
        name: "crash-log-enabled",
        kind: YES_NO,
        default: "no",
        ..ignored("A crash leaves a line, and no report")
    },
    DirectiveRow { name: "crash-memcheck-enabled", kind: YES_NO, default: "no", ..ignored("A crash tests no memory") },
    DirectiveRow {
        name: "ignore-warnings",
        kind: Kind::Text,
        default: "",
        ..ignored("The start does not test the system")
    },
    DirectiveRow {
        name: "io-threads",
        kind: Kind::Integer(1, 128),
        default: "1",
        ..ignored("`threads` says how many threads run connections")
    },
    DirectiveRow {
        name: "io-threads-do-reads",
        kind: YES_NO,
        default: "no",
        ..ignored("The threads that run connections read and write")
    },
    DirectiveRow {
        name: "disable-thp",
        kind: YES_NO,
        default: "no",
        ..ignored("Keys are in huge pages where the kernel has them, and nothing is forked (docs/adr/0016)")
    },
    DirectiveRow {
        name: "jemalloc-bg-thread",
        kind: YES_NO,
        default: JEMALLOC_THREAD,
        ..ignored("The build decides whether the allocator has a thread")
    },
    DirectiveRow {
        name: "activerehashing",
        kind: YES_NO,
        default: "no",
        ..ignored("Tables grow and shrink in small steps, by the commands that change them")
    },
    DirectiveRow {
        name: "dynamic-hz",
        kind: YES_NO,
        default: "no",
        ..ignored("`hz` is the same for any number of connections")
    },
    DirectiveRow {
        name: "active-expire-effort",
        kind: Kind::Integer(1, 10),
        default: "1",
        ..ignored("Keys are removed in the order of their deadlines")
    },
    DirectiveRow {
        name: "tcp-keepalive-probes",
        kind: Kind::Integer(1, 127),
        default: "3",
        ..ignored("A connection that is asked three times whether it is there, and does not reply, is given up")
    },
    DirectiveRow {
        name: "max-new-connections-per-cycle",
        kind: Kind::Integer(1, 1000),
        default: "1000",
        ..ignored("All connections that wait are accepted")
    },
    DirectiveRow {
        name: "unixsocketgroup",
        kind: Kind::Text,
        default: "",
        ..ignored("The file of the unix socket has the group of the process")
    },
    DirectiveRow {
        name: "hide-user-data-from-log",
        kind: YES_NO,
        default: "no",
        ..ignored("A log line may name the key that it is about")
    },
    DirectiveRow {
        name: "extended-redis-compatibility",
        kind: YES_NO,
        default: "yes",
        ..ignored("The server answers as Redis does")
    },
    DirectiveRow {
        name: "rdb-version-check",
        kind: Kind::Choice(&["strict", "relaxed"]),
        default: "strict",
        ..ignored("A snapshot of an unknown version is refused")
    },
    DirectiveRow {
        name: "dual-channel-replication-enabled",
        kind: YES_NO,
        default: "no",
        ..ignored("A replica has one connection to its master")
    },
    DirectiveRow {
        name: "commandlog-request-larger-than",
        kind: Kind::Signed(-1, i64::MAX),
        default: "-1",
        ..NO_LOG_OF_SIZES
    },
    DirectiveRow {
        name: "commandlog-large-request-max-len",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "0",
        ..NO_LOG_OF_SIZES
    },
    DirectiveRow {
        name: "commandlog-reply-larger-than",
        kind: Kind::Signed(-1, i64::MAX),
        default: "-1",
        ..NO_LOG_OF_SIZES
    },
    DirectiveRow {
        name: "commandlog-large-reply-max-len",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "0",
        ..NO_LOG_OF_SIZES
    },
    DirectiveRow {
        name: "socket-mark-id",
        kind: Kind::Integer(0, u32::MAX as u64),
        default: "0",
        ..ignored("Sockets have no mark")
    },
    DirectiveRow { name: "rdbchecksum", kind: YES_NO, default: "yes", ..ignored("Snapshots have a checksum") },
    DirectiveRow {
        name: "rdb-save-incremental-fsync",
        kind: YES_NO,
        default: "no",
        ..ignored("A snapshot is synced once, at its end")
    },
    DirectiveRow {
        name: "appendfilename",
        kind: Kind::FileName,
        default: "",
        ..ignored("The files of the log are numbered")
    },
    DirectiveRow {
        name: "no-appendfsync-on-rewrite",
        kind: YES_NO,
        default: "no",
        ..ignored("`appendfsync` holds while the log is rewritten, too")
    },
    DirectiveRow {
        name: "aof-load-truncated",
        kind: YES_NO,
        default: "yes",
        ..refused("A torn end of the log is cut off by the start, which says so")
    },
    DirectiveRow { name: "aof-use-rdb-preamble", kind: YES_NO, default: "no", ..ignored("The log has one form") },
    DirectiveRow { name: "aof-timestamp-enabled", kind: YES_NO, default: "no", ..ignored("The log has no timestamps") },
    DirectiveRow {
        name: "aof-rewrite-incremental-fsync",
        kind: YES_NO,
        default: "no",
        ..ignored("A rewritten log is synced once, at its end")
    },
    DirectiveRow {
        name: "maxmemory-eviction-tenacity",
        kind: Kind::Integer(0, 100),
        default: "10",
        ..ignored("Keys are evicted in slices of their own, beside the commands")
    },
    DirectiveRow {
        name: "lua-replicate-commands",
        kind: Kind::Line,
        default: "",
        ..ignored("What a script did is logged, never the script")
    },
    DirectiveRow {
        name: "list-max-ziplist-entries",
        kind: Kind::Line,
        default: "",
        ..ignored("`list-max-listpack-size` says how large a listpack is")
    },
    DirectiveRow {
        name: "list-max-ziplist-value",
        kind: Kind::Line,
        default: "",
        ..ignored("`list-max-listpack-size` says how large a listpack is")
    },
    DirectiveRow { name: "enable-module-command", kind: WHO, default: "no", ..ignored(NO_MODULES) },
    DirectiveRow { name: "loadmodule", kind: Kind::Line, default: "", ..refused(NO_MODULES) },
    DirectiveRow {
        name: "tls-dh-params-file",
        kind: Kind::Text,
        default: "",
        ..ignored("No cipher needs parameters of Diffie-Hellman: those of elliptic curves have none")
    },
    DirectiveRow {
        name: "tls-session-cache-timeout",
        kind: INTEGER,
        default: "300",
        ..ignored("A session is kept until there are `tls-session-cache-size` newer ones")
    },
    DirectiveRow {
        name: "lazyfree-lazy-eviction",
        kind: YES_NO,
        default: "no",
        ..ignored("An evicted key is freed at once: its memory is needed")
    },
    DirectiveRow { name: "sentinel", kind: Kind::Line, default: "", ..refused("The server is no Sentinel") },
    DirectiveRow { name: "rdb-del-sync-files", kind: YES_NO, default: "no", ..NO_FILES_FOR_REPLICAS },
    DirectiveRow { name: "repl-diskless-sync", kind: YES_NO, default: "yes", ..NO_FILES_FOR_REPLICAS },
    DirectiveRow {
        name: "repl-disable-tcp-nodelay",
        kind: YES_NO,
        default: "no",
        ..ignored("What there is of the stream is sent at once")
    },
    DirectiveRow { name: "server_cpulist", kind: Kind::Text, default: "", ..NO_PINNING },
    DirectiveRow { name: "bio_cpulist", kind: Kind::Text, default: "", ..NO_PINNING },
    DirectiveRow { name: "aof_rewrite_cpulist", kind: Kind::Text, default: "", ..NO_PINNING },
    DirectiveRow { name: "bgsave_cpulist", kind: Kind::Text, default: "", ..NO_PINNING },
    DirectiveRow {
        name: "replica-ignore-disk-write-errors",
        kind: YES_NO,
        default: "no",
        ..ignored("The log of a replica fails as any other does: docs/durability.md")
    },
    DirectiveRow {
        name: "repl-diskless-load",
        kind: Kind::Choice(&["disabled", "on-empty-db", "swapdb"]),
        default: "disabled",
        ..REPLICAS_HAVE_ONE_WAY
    },
    DirectiveRow {
        name: "propagation-error-behavior",
        kind: Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
        default: "ignore",
        ..REPLICAS_HAVE_ONE_WAY
    },
    DirectiveRow { name: "activedefrag", kind: YES_NO, default: "no", ..NO_DEFRAGMENTATION },
    DirectiveRow { name: "active-defrag-ignore-bytes", kind: MEMORY, default: "100mb", ..NO_DEFRAGMENTATION },
    DirectiveRow {
        name: "active-defrag-threshold-lower",
        kind: Kind::Integer(0, 1000),
        default: "10",
        ..NO_DEFRAGMENTATION
    },
    DirectiveRow {
        name: "active-defrag-threshold-upper",
        kind: Kind::Integer(0, 1000),
        default: "100",
        ..NO_DEFRAGMENTATION
    },
    DirectiveRow { name: "active-defrag-cycle-min", kind: Kind::Integer(1, 99), default: "1", ..NO_DEFRAGMENTATION },
    DirectiveRow { name: "active-defrag-cycle-max", kind: Kind::Integer(1, 99), default: "25", ..NO_DEFRAGMENTATION },
    DirectiveRow {
        name: "active-defrag-max-scan-fields",
        kind: Kind::Integer(1, i64::MAX as u64),
        default: "1000",
        ..NO_DEFRAGMENTATION
    },
    DirectiveRow { name: "tls-key-file-pass", kind: Kind::Text, default: "", ..NO_TLS_OF_THAT_KIND },
    DirectiveRow { name: "tls-client-key-file-pass", kind: Kind::Text, default: "", ..NO_TLS_OF_THAT_KIND },
    DirectiveRow { name: "cluster-config-file", kind: Kind::Text, default: "nodes.conf", ..NO_OTHER_NODES },
    DirectiveRow {
        name: "cluster-node-timeout",
        kind: Kind::Integer(0, i64::MAX as u64),
        default: "15000",
        ..NO_OTHER_NODES
    },
    DirectiveRow { name: "cluster-port", kind: Kind::Integer(0, 65535), default: "0", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-announce-tls-port", kind: Kind::Integer(0, 65535), default: "0", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-announce-bus-port", kind: Kind::Integer(0, 65535), default: "0", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-announce-hostname", kind: Kind::Text, default: "", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-announce-human-nodename", kind: Kind::Text, default: "", ..NO_OTHER_NODES },
    DirectiveRow {
        name: "cluster-preferred-endpoint-type",
        kind: Kind::Choice(&["ip", "hostname", "unknown-endpoint"]),
        default: "ip",
        ..NO_OTHER_NODES
    },
    DirectiveRow { name: "cluster-link-sendbuf-limit", kind: MEMORY, default: "0", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-require-full-coverage", kind: YES_NO, default: "yes", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-allow-reads-when-down", kind: YES_NO, default: "no", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-allow-pubsubshard-when-down", kind: YES_NO, default: "yes", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-allow-replica-migration", kind: YES_NO, default: "yes", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-migration-barrier", kind: INTEGER, default: "1", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-replica-no-failover", kind: YES_NO, default: "no", ..NO_OTHER_NODES },
    DirectiveRow { name: "cluster-replica-validity-factor", kind: INTEGER, default: "10", ..NO_OTHER_NODES },
];

/// The rest of a row without an effect, and why there is none.
const fn ignored(why: &'static str) -> DirectiveRow {
    DirectiveRow { name: "", kind: Kind::Text, default: "", effect: Effect::Ignored, help: why }
}

/// The same, where a start with another value is refused.
const fn refused(why: &'static str) -> DirectiveRow {
    DirectiveRow { effect: Effect::Refused, ..ignored(why) }
}

const NO_LOG_OF_SIZES: DirectiveRow = ignored("There is no log of large requests and replies");
const NO_FILES_FOR_REPLICAS: DirectiveRow = ignored("A snapshot is sent to replicas as it is made, without a file");
const REPLICAS_HAVE_ONE_WAY: DirectiveRow = ignored(
    "A snapshot takes the place of the data when all of it has come; a command that cannot be applied ends the link",
);
const NO_OTHER_NODES: DirectiveRow = ignored("There are no other nodes");
const NO_DEFRAGMENTATION: DirectiveRow = ignored("Memory is not defragmented: the allocator's bins are reused");
const NO_PINNING: DirectiveRow = ignored("Threads are not bound to processors");
const NO_SYSLOG: DirectiveRow = ignored("Log lines go to a file or to standard error");
const NO_TITLE: DirectiveRow = ignored("The process keeps its title");
const NO_TLS_OF_THAT_KIND: DirectiveRow =
    refused("Keys that are encrypted cannot be read: `openssl pkey -in KEY -out PLAIN` decrypts one");
const NO_MODULES: &str = "There are no modules";
/// Whether jemalloc has a thread that returns memory to the system.
const JEMALLOC_THREAD: &str = if cfg!(feature = "jemalloc") { "yes" } else { "no" };
