//! The command table.

use super::row::{Command, Flags, Group, Keys, Request, Response};
use super::server::LocalFn;
use super::transaction as transactions;
use super::{
    Outcome, bitfield, bits, blocking, cluster, debug, expiry, functions, geo, hashes, hyperloglog, keys, lcs,
    list_edits, lists, memory, object, observing, pubsub, saving, scan, scripting, server, sets, sort, sorted_sets,
    streams, strings, transfer,
};
use crate::base::narrowing::low_u16;
use crate::keyspace::{Keyspace, Store};
use crate::resp::{Args, Reply};
use std::marker::PhantomData;

/// A row of the table, by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandId(pub u16);

/// The row of a command.
#[inline]
pub fn command(id: CommandId) -> &'static Command {
    &COMMANDS[usize::from(id.0)]
}

impl CommandId {
    /// The command of the row at this position.
    pub const fn of_index(index: usize) -> Self {
        const { assert!(COMMANDS.len() <= crate::stats::calls::ROWS_MAX) };
        Self(low_u16(index as u64))
    }

    /// Whether the row is a subcommand's, which is no command by itself.
    pub fn is_subcommand(self) -> bool {
        usize::from(self.0) >= LOCAL.len() + KEYSPACE
    }
}

/// A command over the keyspace.
pub type CommandFn<S> = fn(&mut Keyspace<S>, Args<'_>, &mut Reply<'_>) -> Outcome;

/// The functions of the commands over the keyspace, for one engine's store.
#[derive(Debug)]
pub struct Functions<S>(PhantomData<S>);

impl<S: Store> Functions<S> {
    /// The function of a command that does not run in the connection.
    #[inline]
    pub fn get(id: CommandId) -> CommandFn<S> {
        Self::ALL[usize::from(id.0) - LOCAL.len()]
    }
}

/// The function of a command that runs in the connection.
pub fn local_function(id: CommandId) -> LocalFn {
    match LOCAL.get(usize::from(id.0)) {
        Some(function) => *function,
        None => SUBCOMMANDS[usize::from(id.0) - LOCAL.len() - KEYSPACE - KEYSPACE_SUBCOMMANDS],
    }
}

const NONE: Flags = Flags::NONE;
const WRITE: Flags = Flags::WRITE.and(Flags::DENYOOM);
const WRITE_FAST: Flags = WRITE.and(Flags::FAST);
const SHRINK: Flags = Flags::WRITE;
const SHRINK_FAST: Flags = SHRINK.and(Flags::FAST);
const READ: Flags = Flags::READONLY;
const READ_FAST: Flags = READ.and(Flags::FAST);
const CONNECTION: Flags = Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE);
const CONNECTION_FAST: Flags = CONNECTION.and(Flags::FAST);
const HANDSHAKE: Flags = CONNECTION_FAST.and(Flags::NO_AUTH);
const AT_ONCE: Flags = CONNECTION_FAST.and(Flags::NOT_QUEUED);
const WAITING_POP: Flags = SHRINK.and(Flags::NOSCRIPT).and(Flags::BLOCKING).and(Flags::DEFERS);
const WAITING_MOVE: Flags = WAITING_POP.and(Flags::DENYOOM);
const WAITING_READ: Flags = READ.and(Flags::BLOCKING).and(Flags::DEFERS);
const WAITING_TAKE: Flags = SHRINK.and(Flags::BLOCKING).and(Flags::DEFERS);
const STATUS: Flags = Flags::LOADING.and(Flags::STALE);
const SCRIPT: Flags = Flags::NOSCRIPT.and(Flags::STALE).and(Flags::SKIP_MONITOR).and(Flags::SCRIPT).and(Flags::CROSSES);
/// They have a place in the order of scripts.
const SCRIPTS: Flags = Flags::NOSCRIPT.and(Flags::CROSSES);
/// They see what the requests before them have changed of scripts and libraries.
const TELLS_OF_SCRIPTS: Flags = Flags::NOSCRIPT.and(Flags::TELLS);
const LIBRARIES: Flags = SCRIPTS.and(Flags::WRITE);
const SCRIPT_READ: Flags = SCRIPT.and(Flags::READONLY);
const SLOW_LOG: Flags = Flags::ADMIN.and(STATUS);
const ADMIN: Flags = CONNECTION.and(Flags::ADMIN);
const PUBSUB: Flags = STATUS.and(Flags::PUBSUB).and(Flags::MESSAGES);
const SUBSCRIBE: Flags = PUBSUB.and(Flags::NOSCRIPT);
const SUBSCRIBE_SHARD: Flags = SUBSCRIBE.and(Flags::NOT_KEYS);

/// Writes the rows and the functions side by side: `row => function`.
macro_rules! command_table {
    (@row $name:literal, $arity:literal, $flags:expr, $keys:ident, $request:ident, $response:ident, $group:ident,
          $since:literal, $complexity:literal, $syntax:literal, $summary:literal) => {
        Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: Keys::$keys,
            request: Request::$request,
            response: Response::$response,
            group: Group::$group,
            since: $since,
            syntax: $syntax,
            complexity: $complexity,
            summary: $summary,
        }
    };
    (
        local { $( ($lname:literal, $larity:literal, $lflags:expr, $lgroup:ident, $lsince:literal, $lcost:literal,
                    $lsyntax:literal, $lsummary:literal) => $lfunction:path; )* }
        shard_channels { $( ($cname:literal, $carity:literal, $cflags:expr, $ckeys:ident, $csince:literal,
                             $ccost:literal, $csyntax:literal, $csummary:literal) => $cfunction:path; )* }
        keyspace { $( ($name:literal, $arity:literal, $flags:expr, $keys:ident, $request:ident, $response:ident,
                       $group:ident, $since:literal, $cost:literal, $syntax:literal, $summary:literal)
                      => $module:ident::$function:ident; )* }
        keyspace_subcommands { $( ($kname:literal, $karity:literal, $kflags:expr, $kkeys:ident, $krequest:ident,
                                   $kgroup:ident, $ksince:literal, $kcost:literal, $ksyntax:literal, $ksummary:literal)
                                  => $kmodule:ident::$kfunction:ident; )* }
        subcommands { $( ($sname:literal, $sarity:literal, $sflags:expr, $sgroup:ident, $ssince:literal, $scost:literal,
                          $ssyntax:literal, $ssummary:literal) => $sfunction:path; )* }
    ) => {
        /// Every command: first those that run in the connection (those whose channels look like keys at the end), then
        /// those over the keyspace, then subcommands over the keyspace, then the other subcommands.
        pub static COMMANDS: &[Command] = &[
            $( command_table!(@row $lname, $larity, $lflags, NONE, Local, First, $lgroup, $lsince, $lcost, $lsyntax,
                              $lsummary), )*
            $( command_table!(@row $cname, $carity, $cflags, $ckeys, Local, First, PubSub, $csince, $ccost, $csyntax,
                              $csummary), )*
            $( command_table!(@row $name, $arity, $flags, $keys, $request, $response, $group, $since, $cost, $syntax,
                              $summary), )*
            $( command_table!(@row $kname, $karity, $kflags, $kkeys, $krequest, First, $kgroup, $ksince, $kcost,
                              $ksyntax, $ksummary), )*
            $( command_table!(@row $sname, $sarity, $sflags, NONE, Local, First, $sgroup, $ssince, $scost, $ssyntax,
                              $ssummary), )*
        ];
        const LOCAL: &[LocalFn] = &[ $( $lfunction, )* $( $cfunction, )* ];
        const SUBCOMMANDS: &[LocalFn] = &[ $( $sfunction, )* ];
        const KEYSPACE: usize = [ $( $name, )* ].len();
        const KEYSPACE_SUBCOMMANDS: usize = [ $( $kname, )* ].len();
        impl<S: Store> Functions<S> {
            const ALL: [CommandFn<S>; KEYSPACE + KEYSPACE_SUBCOMMANDS] =
                [ $( $module::$function::<S>, )* $( $kmodule::$kfunction::<S>, )* ];
        }
    };
}

command_table! {
    local {
        ("ping", -1, Flags::FAST, Connection, "1.0.0", "O(1)", "[message]", "Replies PONG, or the message.") => server::ping;
        ("echo", 2, Flags::LOADING.and(Flags::STALE).and(Flags::FAST), Connection, "1.0.0", "O(1)", "message", "Replies the message.") => server::echo;
        ("select", 2, Flags::LOADING.and(Flags::STALE).and(Flags::FAST), Connection, "1.0.0", "O(1)", "index", "Chooses the database of the connection.") => server::select;
        ("quit", -1, HANDSHAKE.and(Flags::NOT_QUEUED), Connection, "1.0.0", "O(1)", "", "Replies OK and closes the connection.") => server::quit;
        ("reset", 1, HANDSHAKE.and(Flags::NOT_QUEUED).and(Flags::MESSAGES), Connection, "6.2.0", "O(1)", "", "Puts the connection in its first state.") => server::reset;
        ("hello", -1, HANDSHAKE, Connection, "6.0.0", "O(1)", "[protover [AUTH username password] [SETNAME clientname]]", "Chooses the protocol version and says what the server is.") => server::hello;
        ("auth", -2, HANDSHAKE, Connection, "1.0.0", "O(1)", "[username] password", "Authenticates the connection.") => server::auth;
        ("client", -2, NONE, Connection, "2.4.0", "as the subcommand", "subcommand", "Commands about connections.") => server::container;
        ("command", -1, STATUS, Server, "2.8.13", "O(N), N = commands", "", "Describes every command.") => super::introspection::command_all;
        ("config", -2, Flags::TELLS, Server, "2.0.0", "as the subcommand", "subcommand", "Commands about the configuration.") => server::container;
        ("latency", -2, Flags::TELLS, Server, "2.8.13", "as the subcommand", "subcommand", "Commands about what took long.") => server::container;
        ("slowlog", -2, Flags::TELLS, Server, "2.2.12", "as the subcommand", "subcommand", "Commands about commands that took long.") => server::container;
        ("memory", -2, NONE, Server, "4.0.0", "as the subcommand", "subcommand", "Commands about memory.") => server::container;
        ("object", -2, NONE, Generic, "2.2.3", "as the subcommand", "subcommand", "Commands about how values are kept.") => server::container;
        ("xgroup", -2, NONE, Stream, "5.0.0", "as the subcommand", "subcommand", "Commands about the groups of a stream.") => server::container;
        ("xinfo", -2, NONE, Stream, "5.0.0", "as the subcommand", "subcommand", "Commands that describe a stream.") => server::container;
        ("info", -1, STATUS.and(Flags::TELLS), Server, "1.0.0", "O(1)", "[section [section ...]]", "What the server is, does and holds.") => server::info;
        ("stats", 1, STATUS.and(Flags::FAST), Server, "0.1.0 of Shardrace", "O(shards)", "", "The engine's metrics in one reply.") => server::stats;
        ("monitor", 1, ADMIN.and(Flags::MESSAGES), Server, "1.0.0", "O(1)", "", "Shows the commands of all connections.") => super::clients::monitor;
        ("shutdown", -1, ADMIN.and(Flags::NO_MULTI).and(Flags::DEFERS), Server, "1.0.0", "O(N), N = bytes of the log not yet written, and of all keys where a snapshot is made", "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]", "Writes the log out, makes a snapshot where `save` or the command asks for one, and ends the server.") => super::clients::shutdown;
        ("lolwut", -1, Flags::READONLY.and(Flags::FAST), Server, "5.0.0", "O(1)", "[VERSION version]", "The version.") => server::lolwut;
        ("time", 1, STATUS.and(Flags::FAST), Server, "2.6.0", "O(1)", "", "Unix time: seconds, and microseconds of this second.") => server::time;
        ("pfselftest", 1, Flags::ADMIN, Hyperloglog, "2.8.9", "O(1), but a hundred thousand elements", "", "Tests the HyperLogLogs of the server.") => super::hyperloglog::pfselftest;
        ("bgrewriteaof", 1, Flags::ADMIN.and(Flags::NOSCRIPT), Server, "1.0.0", "O(1)", "", "Lets the log be rewritten, while commands run: every key once in place of all that led to it. Where there is no log, one is written that ends when it is whole.") => super::saving::bgrewriteaof;
        ("lastsave", 1, STATUS.and(Flags::FAST), Server, "1.0.0", "O(1)", "", "When the last snapshot was made: Unix time in seconds.") => super::saving::lastsave;
        ("wait", 3, Flags::NOSCRIPT.and(Flags::DEFERS), Generic, "3.0.0", "O(1)", "numreplicas timeout", "Waits until so many replicas have what the connection wrote, or the time is over. There are no replicas.") => super::waiting::wait;
        ("waitaof", 4, Flags::NOSCRIPT.and(Flags::DEFERS), Generic, "7.2.0", "O(1)", "numlocal numreplicas timeout", "Waits until what the connection wrote is on the disk of this server, and of so many replicas, or the time is over. There are no replicas.") => super::waiting::waitaof;
        ("multi", 1, AT_ONCE, Transactions, "1.2.0", "O(1)", "", "Begins a transaction: the commands that follow are queued.") => server::multi;
        ("exec", 1, CONNECTION.and(Flags::SKIP_SLOWLOG).and(Flags::NOT_QUEUED).and(Flags::DEFERS), Transactions, "1.2.0", "as its commands", "", "Runs the queued commands as one, unless a watched key has changed.") => server::container;
        ("discard", 1, AT_ONCE, Transactions, "2.0.0", "O(N), N = queued commands", "", "Forgets the queued commands.") => server::discard;
        ("unwatch", 1, CONNECTION_FAST, Transactions, "2.2.0", "O(1)", "", "Forgets the watched keys.") => server::unwatch;
        ("publish", 3, PUBSUB.and(Flags::FAST), PubSub, "2.0.0", "O(N + M), N = subscribers of the channel, M = patterns of all connections", "channel message", "Sends a message to all who listen to a channel.") => pubsub::publish;
        ("subscribe", -2, SUBSCRIBE, PubSub, "2.0.0", "O(N), N = channels", "channel [channel ...]", "Listens to channels.") => pubsub::subscribe;
        ("unsubscribe", -1, SUBSCRIBE, PubSub, "2.0.0", "O(N), N = channels", "[channel [channel ...]]", "Listens to channels no more.") => pubsub::unsubscribe;
        ("psubscribe", -2, SUBSCRIBE, PubSub, "2.0.0", "O(N), N = patterns", "pattern [pattern ...]", "Listens to all channels that match patterns.") => pubsub::psubscribe;
        ("punsubscribe", -1, SUBSCRIBE, PubSub, "2.0.0", "O(N), N = patterns", "[pattern [pattern ...]]", "Listens no more to channels that match patterns.") => pubsub::punsubscribe;
        ("function", -2, NONE, Scripting, "7.0.0", "as the subcommand", "subcommand", "Commands about libraries of functions.") => server::container;
        ("script", -2, NONE, Scripting, "2.6.0", "as the subcommand", "subcommand", "Commands about scripts.") => server::container;
        ("pubsub", -2, NONE, PubSub, "2.8.0", "as the subcommand", "subcommand", "Commands about channels.") => server::container;
        ("cluster", -2, NONE, Cluster, "3.0.0", "as the subcommand", "subcommand", "Commands about the cluster that this server is the one node of.") => server::container;
        ("readonly", 1, STATUS.and(Flags::FAST), Cluster, "3.0.0", "O(1)", "", "Replies OK in a cluster: there are no replicas.") => cluster::no_matter;
        ("readwrite", 1, STATUS.and(Flags::FAST), Cluster, "3.0.0", "O(1)", "", "Replies OK in a cluster: there are no replicas.") => cluster::no_matter;
        ("asking", 1, Flags::FAST, Cluster, "3.0.0", "O(1)", "", "Replies OK in a cluster: no slot moves.") => cluster::no_matter;
    }
    shard_channels {
        ("spublish", 3, PUBSUB.and(Flags::FAST).and(Flags::NOT_KEYS), ONE, "7.0.0", "O(N), N = subscribers of the channel", "shardchannel message", "Sends a message to all who listen to a shard channel.") => pubsub::spublish;
        ("ssubscribe", -2, SUBSCRIBE_SHARD, ALL, "7.0.0", "O(N), N = channels", "shardchannel [shardchannel ...]", "Listens to shard channels.") => pubsub::ssubscribe;
        ("sunsubscribe", -1, SUBSCRIBE_SHARD, ALL, "7.0.0", "O(N), N = channels", "[shardchannel [shardchannel ...]]", "Listens to shard channels no more.") => pubsub::sunsubscribe;
    }
    keyspace {
        ("watch", -2, AT_ONCE.and(Flags::DEFERS), ALL, Joint, First, Transactions, "2.2.0", "O(N), N = keys", "key [key ...]", "Lets the next transaction run only if these keys do not change.") => transactions::watch;
        ("blpop", -3, WAITING_POP, BUT_LAST, Joint, First, List, "2.0.0", "O(N), N = keys", "key [key ...] timeout", "Takes an element from the head of the first list that has one, or waits for one.") => blocking::blpop;
        ("brpop", -3, WAITING_POP, BUT_LAST, Joint, First, List, "2.0.0", "O(N), N = keys", "key [key ...] timeout", "Takes an element from the tail of the first list that has one, or waits for one.") => blocking::brpop;
        ("blmpop", -5, SHRINK.and(Flags::BLOCKING).and(Flags::DEFERS), COUNTED_SECOND, Joint, First, List, "7.0.0", "O(N+M), N = keys, M = elements taken", "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]", "Takes elements from the first list that has some, or waits for some.") => blocking::blmpop;
        ("blmove", 6, WAITING_MOVE, TWO, Joint, First, List, "6.2.0", "O(1)", "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout", "Moves an element from one list to another, or waits for one.") => blocking::blmove;
        ("brpoplpush", 4, WAITING_MOVE, TWO, Joint, First, List, "2.2.0", "O(1)", "source destination timeout", "Moves an element from the tail of one list to the head of another, or waits for one.") => blocking::brpoplpush;
        ("debug", -2, ADMIN.and(Flags::DEFERS).and(Flags::PROTECTED), DEBUG, Joint, First, Server, "1.0.0", "as the subcommand", "<DIGEST | DIGEST-VALUE key [key ...] | LOADAOF | OBJECT key | PROTOCOL type | QUICKLIST-PACKED-THRESHOLD size | RELOAD | SET-ACTIVE-EXPIRE <0 | 1> | SET-DISABLE-DENY-SCRIPTS <0 | 1> | SET-SKIP-CHECKSUM-VALIDATION <0 | 1> | SLEEP seconds | HELP>", "For tests of clients; see enable-debug-command.") => debug::debug;
        ("save", 1, Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_MULTI).and(Flags::CROSSES).and(Flags::DEFERS), EVERYTHING, Joint, First, Server, "1.0.0", "O(N), N = bytes of all keys", "", "Writes a snapshot of all databases to `dbfilename`; nothing else runs until it is on the disk.") => saving::save;
        ("bgsave", -1, Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::CROSSES).and(Flags::DEFERS), EVERYTHING, Joint, First, Server, "1.0.0", "O(1), and in slices O(N), N = bytes of all keys", "[SCHEDULE]", "Writes a snapshot of all databases to `dbfilename` while commands run.") => saving::bgsave;
        ("eval", -3, SCRIPT, SCRIPT, Joint, First, Scripting, "2.6.0", "as the script does", "script numkeys [key [key ...]] [arg [arg ...]]", "Runs a script of Lua, as one step.") => scripting::eval;
        ("evalsha", -3, SCRIPT, SCRIPT, Joint, First, Scripting, "2.6.0", "as the script does", "sha1 numkeys [key [key ...]] [arg [arg ...]]", "Runs a script that is known, by the SHA1 of its source.") => scripting::evalsha;
        ("eval_ro", -3, SCRIPT_READ, SCRIPT, Joint, First, Scripting, "7.0.0", "as the script does", "script numkeys [key [key ...]] [arg [arg ...]]", "Runs a script that writes nothing.") => scripting::eval_ro;
        ("evalsha_ro", -3, SCRIPT_READ, SCRIPT, Joint, First, Scripting, "7.0.0", "as the script does", "sha1 numkeys [key [key ...]] [arg [arg ...]]", "Runs a script that is known and writes nothing.") => scripting::evalsha_ro;
        ("fcall", -3, SCRIPT, SCRIPT, Joint, First, Scripting, "7.0.0", "as the function does", "function numkeys [key [key ...]] [arg [arg ...]]", "Calls a function of a library, as one step.") => functions::fcall;
        ("fcall_ro", -3, SCRIPT_READ, SCRIPT, Joint, First, Scripting, "7.0.0", "as the function does", "function numkeys [key [key ...]] [arg [arg ...]]", "Calls a function that writes nothing.") => functions::fcall_ro;
        ("set", -3, WRITE, ONE, OneShard, First, String, "1.0.0", "O(1)", "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]", "Sets a key to a string, whatever it held.") => strings::set;
        ("get", 2, READ_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key", "The string of a key.") => strings::get;
        ("getset", 3, WRITE_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key value", "Sets a key and replies what it held.") => strings::getset;
        ("getdel", 2, SHRINK_FAST, ONE, OneShard, First, String, "6.2.0", "O(1)", "key", "Replies the string of a key and removes the key.") => strings::getdel;
        ("getex", -2, SHRINK_FAST, ONE, OneShard, First, String, "6.2.0", "O(1)", "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]", "Replies the string of a key and changes when it expires.") => strings::getex;
        ("setnx", 3, WRITE_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key value", "Sets a key that does not exist.") => strings::setnx;
        ("setex", 4, WRITE, ONE, OneShard, First, String, "2.0.0", "O(1)", "key seconds value", "Sets a key with a time to live in seconds.") => strings::setex;
        ("psetex", 4, WRITE, ONE, OneShard, First, String, "2.6.0", "O(1)", "key milliseconds value", "Sets a key with a time to live in milliseconds.") => strings::psetex;
        ("mget", -2, READ_FAST, ALL, MultiShard, InKeyOrder, String, "1.0.0", "O(N), N = keys", "key [key ...]", "The strings of several keys.") => strings::mget;
        ("mset", -3, WRITE, PAIRS, MultiShard, AllSucceeded, String, "1.0.1", "O(N), N = keys", "key value [key value ...]", "Sets several keys.") => strings::mset;
        ("msetnx", -3, WRITE, PAIRS, Joint, First, String, "1.0.1", "O(N), N = keys", "key value [key value ...]", "Sets several keys to strings if none of them exists.") => strings::msetnx;
        ("append", 3, WRITE_FAST, ONE, OneShard, First, String, "2.0.0", "O(1) amortised", "key value", "Appends to the string of a key.") => strings::append;
        ("strlen", 2, READ_FAST, ONE, OneShard, First, String, "2.2.0", "O(1)", "key", "The length of the string of a key, in bytes.") => strings::strlen;
        ("incr", 2, WRITE_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key", "Adds one to the integer of a key.") => strings::incr;
        ("decr", 2, WRITE_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key", "Subtracts one from the integer of a key.") => strings::decr;
        ("incrby", 3, WRITE_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key increment", "Adds to the integer of a key.") => strings::incrby;
        ("decrby", 3, WRITE_FAST, ONE, OneShard, First, String, "1.0.0", "O(1)", "key decrement", "Subtracts from the integer of a key.") => strings::decrby;
        ("incrbyfloat", 3, WRITE_FAST, ONE, OneShard, First, String, "2.6.0", "O(1)", "key increment", "Adds to the number of a key.") => strings::incrbyfloat;
        ("getrange", 4, READ, ONE, OneShard, First, String, "2.4.0", "O(N), N = length of the reply", "key start end", "A part of the string of a key.") => strings::getrange;
        ("setrange", 4, WRITE, ONE, OneShard, First, String, "2.2.0", "O(N), N = length of the value", "key offset value", "Overwrites a part of the string of a key.") => strings::setrange;
        ("substr", 4, READ, ONE, OneShard, First, String, "1.0.0", "O(N), N = length of the reply", "key start end", "A part of the string of a key; an old name of GETRANGE.") => strings::getrange;
        ("lcs", -3, READ, TWO, Joint, First, String, "7.0.0", "O(N * M), N, M = lengths of the strings", "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]", "The longest common subsequence of two strings.") => lcs::lcs;

        ("setbit", 4, WRITE, ONE, OneShard, First, Bitmap, "2.2.0", "O(1)", "key offset value", "Sets a bit of the string of a key and replies what it was.") => bits::setbit;
        ("getbit", 3, READ_FAST, ONE, OneShard, First, Bitmap, "2.2.0", "O(1)", "key offset", "A bit of the string of a key.") => bits::getbit;
        ("bitcount", -2, READ, ONE, OneShard, First, Bitmap, "2.6.0", "O(N), N = bytes of the range", "key [start end [BYTE | BIT]]", "How many bits of the string of a key are ones.") => bits::bitcount;
        ("bitpos", -3, READ, ONE, OneShard, First, Bitmap, "2.8.7", "O(N), N = bytes of the range", "key bit [start [end [BYTE | BIT]]]", "The position of the first one, or zero, in the string of a key.") => bits::bitpos;
        ("bitop", -4, WRITE, FROM_SECOND, Joint, First, Bitmap, "2.6.0", "O(N), N = bytes of all sources", "<AND | OR | XOR | NOT> destkey key [key ...]", "Combines strings bit by bit and stores the result.") => bits::bitop;
        ("bitfield", -2, WRITE, ONE, OneShard, First, Bitmap, "3.2.0", "O(1) for each subcommand", "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> ...]]", "Reads and changes integers of any width in the string of a key.") => bitfield::bitfield;
        ("bitfield_ro", -2, READ_FAST, ONE, OneShard, First, Bitmap, "6.0.0", "O(1) for each subcommand", "key [GET encoding offset [GET encoding offset ...]]", "Reads integers of any width in the string of a key.") => bitfield::bitfield_ro;

        ("pfadd", -2, WRITE_FAST, ONE, OneShard, First, Hyperloglog, "2.8.9", "O(N), N = elements", "key [element [element ...]]", "Adds elements to a HyperLogLog.") => hyperloglog::pfadd;
        ("pfcount", -2, READ.and(Flags::CACHES), ALL, Joint, First, Hyperloglog, "2.8.9", "O(N), N = keys; O(1) where the count of one key is cached", "key [key ...]", "About how many different elements were added to HyperLogLogs.") => hyperloglog::pfcount;
        ("pfmerge", -2, WRITE, ALL, Joint, First, Hyperloglog, "2.8.9", "O(N), N = keys", "destkey [sourcekey [sourcekey ...]]", "Merges HyperLogLogs into one.") => hyperloglog::pfmerge;
        ("pfdebug", 3, WRITE.and(Flags::ADMIN), SECOND, OneShard, First, Hyperloglog, "2.8.9", "O(N), N = registers", "<GETREG | DECODE | ENCODING | TODENSE> key", "Shows the inside of a HyperLogLog.") => hyperloglog::pfdebug;

        ("del", -2, SHRINK, ALL, MultiShard, Sum, Generic, "1.0.0", "O(N), N = keys and their elements", "key [key ...]", "Removes keys.") => keys::del;
        ("unlink", -2, SHRINK_FAST, ALL, MultiShard, Sum, Generic, "4.0.0", "O(N), N = keys and their elements", "key [key ...]", "Removes keys.") => keys::del;
        ("exists", -2, READ_FAST, ALL, MultiShard, Sum, Generic, "1.0.0", "O(N), N = keys", "key [key ...]", "How many of the keys exist.") => keys::exists;
        ("touch", -2, READ_FAST, ALL, MultiShard, Sum, Generic, "3.2.1", "O(N), N = keys", "key [key ...]", "How many of the keys exist; marks them as used.") => keys::touch;
        ("type", 2, READ_FAST, ONE, OneShard, First, Generic, "1.0.0", "O(1)", "key", "The type of the value of a key.") => keys::type_of;
        ("rename", 3, SHRINK, TWO, Joint, First, Generic, "1.0.0", "O(1), and the elements of what newkey held", "key newkey", "Moves what a key holds to another key.") => keys::rename;
        ("renamenx", 3, SHRINK_FAST, TWO, Joint, First, Generic, "1.0.0", "O(1)", "key newkey", "Moves what a key holds to a key that does not exist.") => keys::renamenx;
        ("dump", 2, READ, ONE, OneShard, First, Generic, "2.6.0", "O(N), N = bytes of the value", "key", "What a key holds as bytes for RESTORE, of this server or of Redis 7.0 and later.") => transfer::dump;
        ("restore", -4, WRITE, ONE, OneShard, First, Generic, "2.6.0", "O(N), N = bytes of the value", "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]", "Sets a key to what a DUMP has given, of this server or of a Redis up to 7.2.") => transfer::restore;
        ("copy", -3, WRITE.and(Flags::CROSSES), TWO, Joint, First, Generic, "6.2.0", "O(N), N = elements or bytes of the value", "source destination [DB destination-db] [REPLACE]", "Copies what a key holds to another key.") => keys::copy;
        ("keys", 2, READ, NONE, AllShards, Concatenated, Generic, "1.0.0", "O(N), N = keys of the database", "pattern", "The keys that match a pattern.") => keys::keys;
        ("scan", -2, READ, NONE, Cursor, Page, Generic, "2.8.0", "O(1) for each call, O(N) for the whole, N = keys of the database", "cursor [MATCH pattern] [COUNT count] [TYPE type]", "Walks over the keys, a page at a time.") => scan::scan;
        ("randomkey", 1, READ, NONE, AllShards, AnyByKeys, Generic, "1.0.0", "O(1)", "", "A key at random.") => keys::randomkey;
        ("dbsize", 1, READ_FAST, NONE, AllShards, Sum, Server, "1.0.0", "O(shards)", "", "How many keys there are.") => keys::dbsize;
        ("flushdb", -1, SHRINK, NONE, AllShards, AllSucceeded, Server, "1.0.0", "O(N), N = keys", "[ASYNC | SYNC]", "Removes all keys of the database.") => keys::flushdb;
        ("flushall", -1, SHRINK.and(Flags::CROSSES).and(Flags::DEFERS), NONE, AllShards, AllSucceeded, Server, "1.0.0", "O(N), N = keys of all databases", "[ASYNC | SYNC]", "Removes all keys of all databases.") => keys::flushall;
        ("swapdb", 3, SHRINK_FAST.and(Flags::CROSSES).and(Flags::DEFERS), NONE, AllShards, First, Server, "4.0.0", "O(N), N = shards, and keys that somebody listens to", "index1 index2", "Exchanges two databases.") => keys::swapdb;
        ("move", 3, SHRINK_FAST.and(Flags::CROSSES), ONE, OneShard, First, Generic, "1.0.0", "O(1)", "key db", "Moves a key to another database.") => keys::move_to;
        ("expire", -3, SHRINK_FAST, ONE, OneShard, First, Generic, "1.0.0", "O(log N), N = keys that expire", "key seconds [NX | XX | GT | LT]", "Sets the time to live of a key in seconds.") => expiry::expire;
        ("pexpire", -3, SHRINK_FAST, ONE, OneShard, First, Generic, "2.6.0", "O(log N), N = keys that expire", "key milliseconds [NX | XX | GT | LT]", "Sets the time to live of a key in milliseconds.") => expiry::pexpire;
        ("expireat", -3, SHRINK_FAST, ONE, OneShard, First, Generic, "1.2.0", "O(log N), N = keys that expire", "key unix-time-seconds [NX | XX | GT | LT]", "Sets the second in which a key expires.") => expiry::expireat;
        ("pexpireat", -3, SHRINK_FAST, ONE, OneShard, First, Generic, "2.6.0", "O(log N), N = keys that expire", "key unix-time-milliseconds [NX | XX | GT | LT]", "Sets the millisecond in which a key expires.") => expiry::pexpireat;
        ("ttl", 2, READ_FAST, ONE, OneShard, First, Generic, "1.0.0", "O(1)", "key", "The time to live of a key in seconds.") => expiry::ttl;
        ("pttl", 2, READ_FAST, ONE, OneShard, First, Generic, "2.6.0", "O(1)", "key", "The time to live of a key in milliseconds.") => expiry::pttl;
        ("expiretime", 2, READ_FAST, ONE, OneShard, First, Generic, "7.0.0", "O(1)", "key", "The second in which a key expires.") => expiry::expiretime;
        ("pexpiretime", 2, READ_FAST, ONE, OneShard, First, Generic, "7.0.0", "O(1)", "key", "The millisecond in which a key expires.") => expiry::pexpiretime;
        ("persist", 2, SHRINK_FAST, ONE, OneShard, First, Generic, "2.2.0", "O(log N), N = keys that expire", "key", "Lets a key live for ever.") => expiry::persist;

        ("sort", -2, WRITE, SORT, Joint, First, Generic, "1.0.0", "O(N + M log M), N = elements, M = elements replied", "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]", "The elements of a list or a set in order, or stores them as a list. Patterns need all shards.") => sort::sort;
        ("sort_ro", -2, READ, SORT_RO, Joint, First, Generic, "7.0.0", "O(N + M log M), N = elements, M = elements replied", "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]", "The elements of a list or a set in order. Patterns need all shards.") => sort::sort_ro;

        ("lpush", -3, WRITE_FAST, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements given", "key element [element ...]", "Adds elements at the head of a list.") => lists::lpush;
        ("rpush", -3, WRITE_FAST, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements given", "key element [element ...]", "Adds elements at the tail of a list.") => lists::rpush;
        ("lpushx", -3, WRITE_FAST, ONE, OneShard, First, List, "2.2.0", "O(N), N = elements given", "key element [element ...]", "Adds elements at the head of a list that exists.") => lists::lpushx;
        ("rpushx", -3, WRITE_FAST, ONE, OneShard, First, List, "2.2.0", "O(N), N = elements given", "key element [element ...]", "Adds elements at the tail of a list that exists.") => lists::rpushx;
        ("lpop", -2, SHRINK_FAST, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements taken", "key [count]", "Takes elements from the head of a list.") => lists::lpop;
        ("rpop", -2, SHRINK_FAST, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements taken", "key [count]", "Takes elements from the tail of a list.") => lists::rpop;
        ("lmpop", -4, SHRINK, COUNTED, Joint, First, List, "7.0.0", "O(N + M), N = keys, M = elements taken", "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]", "Takes elements from the first list that exists.") => lists::lmpop;
        ("rpoplpush", 3, WRITE, TWO, Joint, First, List, "1.2.0", "O(1)", "source destination", "Moves the last element of a list to the head of another.") => lists::rpoplpush;
        ("lmove", 5, WRITE, TWO, Joint, First, List, "6.2.0", "O(1)", "source destination <LEFT | RIGHT> <LEFT | RIGHT>", "Moves an element from an end of a list to an end of another.") => lists::lmove;
        ("lrange", 4, READ, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements replied", "key start stop", "A range of the elements of a list.") => lists::lrange;
        ("llen", 2, READ_FAST, ONE, OneShard, First, List, "1.0.0", "O(1)", "key", "The length of a list.") => lists::llen;
        ("lindex", 3, READ, ONE, OneShard, First, List, "1.0.0", "O(N), N = distance to the nearer end", "key index", "An element of a list.") => lists::lindex;
        ("lset", 4, WRITE, ONE, OneShard, First, List, "1.0.0", "O(N), N = distance to the nearer end", "key index element", "Replaces an element of a list.") => lists::lset;
        ("linsert", 5, WRITE, ONE, OneShard, First, List, "2.2.0", "O(N), N = elements before the pivot", "key <BEFORE | AFTER> pivot element", "Adds an element beside another of a list.") => list_edits::linsert;
        ("lrem", 4, SHRINK, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements", "key count element", "Removes elements that are equal to one from a list.") => list_edits::lrem;
        ("ltrim", 4, SHRINK, ONE, OneShard, First, List, "1.0.0", "O(N), N = elements removed", "key start stop", "Keeps a range of the elements of a list.") => list_edits::ltrim;
        ("lpos", -3, READ, ONE, OneShard, First, List, "6.0.6", "O(N), N = elements compared", "key element [RANK rank] [COUNT num-matches] [MAXLEN len]", "The positions of elements of a list that are equal to one.") => list_edits::lpos;

        ("sadd", -3, WRITE_FAST, ONE, OneShard, First, Set, "1.0.0", "O(N), N = members given", "key member [member ...]", "Adds members to a set.") => sets::sadd;
        ("srem", -3, SHRINK_FAST, ONE, OneShard, First, Set, "1.0.0", "O(N), N = members given", "key member [member ...]", "Removes members from a set.") => sets::srem;
        ("smembers", 2, READ, ONE, OneShard, First, Set, "1.0.0", "O(N), N = members", "key", "The members of a set.") => sets::smembers;
        ("sismember", 3, READ_FAST, ONE, OneShard, First, Set, "1.0.0", "O(1)", "key member", "Whether a set has a member.") => sets::sismember;
        ("smismember", -3, READ_FAST, ONE, OneShard, First, Set, "6.2.0", "O(N), N = members given", "key member [member ...]", "Which of several members a set has.") => sets::smismember;
        ("scard", 2, READ_FAST, ONE, OneShard, First, Set, "1.0.0", "O(1)", "key", "How many members a set has.") => sets::scard;
        ("spop", -2, SHRINK_FAST, ONE, OneShard, First, Set, "1.0.0", "O(N), N = members taken", "key [count]", "Takes random members from a set.") => sets::spop;
        ("srandmember", -2, READ, ONE, OneShard, First, Set, "1.0.0", "O(N), N = members replied", "key [count]", "Random members of a set.") => sets::srandmember;
        ("sscan", -3, READ, ONE, OneShard, First, Set, "2.8.0", "O(1) for each call, O(N) for the whole, N = members", "key cursor [MATCH pattern] [COUNT count]", "Walks over the members of a set, a page at a time.") => scan::sscan;
        ("smove", 4, SHRINK_FAST, TWO, Joint, First, Set, "1.0.0", "O(1)", "source destination member", "Moves a member from a set to another.") => sets::smove;
        ("sinter", -2, READ, ALL, Joint, First, Set, "1.0.0", "O(N * M), N = members of the smallest set, M = keys", "key [key ...]", "The members that all sets have.") => sets::sinter;
        ("sinterstore", -3, WRITE, ALL, Joint, First, Set, "1.0.0", "O(N * M), N = members of the smallest set, M = keys", "destination key [key ...]", "Stores the members that all sets have.") => sets::sinterstore;
        ("sunion", -2, READ, ALL, Joint, First, Set, "1.0.0", "O(N), N = members of all sets", "key [key ...]", "The members that any of the sets has.") => sets::sunion;
        ("sunionstore", -3, WRITE, ALL, Joint, First, Set, "1.0.0", "O(N), N = members of all sets", "destination key [key ...]", "Stores the members that any of the sets has.") => sets::sunionstore;
        ("sdiff", -2, READ, ALL, Joint, First, Set, "1.0.0", "O(N * M), N = members of the first set, M = keys", "key [key ...]", "The members of the first set that no other has.") => sets::sdiff;
        ("sdiffstore", -3, WRITE, ALL, Joint, First, Set, "1.0.0", "O(N * M), N = members of the first set, M = keys", "destination key [key ...]", "Stores the members of the first set that no other has.") => sets::sdiffstore;
        ("sintercard", -3, READ, COUNTED, Joint, First, Set, "7.0.0", "O(N * M), N = members of the smallest set, M = keys", "numkeys key [key ...] [LIMIT limit]", "How many members all sets have.") => sets::sintercard;

        ("hset", -4, WRITE_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields given", "key field value [field value ...]", "Sets fields of a hash.") => hashes::hset;
        ("hmset", -4, WRITE_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields given", "key field value [field value ...]", "Sets fields of a hash; replies OK.") => hashes::hmset;
        ("hget", 3, READ_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(1)", "key field", "The value of a field of a hash.") => hashes::hget;
        ("hmget", -3, READ_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields given", "key field [field ...]", "The values of several fields of a hash.") => hashes::hmget;
        ("hgetall", 2, READ, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields", "key", "All fields and values of a hash.") => hashes::hgetall;
        ("hdel", -3, SHRINK_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields given", "key field [field ...]", "Removes fields from a hash.") => hashes::hdel;
        ("hexists", 3, READ_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(1)", "key field", "Whether a hash has a field.") => hashes::hexists;
        ("hlen", 2, READ_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(1)", "key", "How many fields a hash has.") => hashes::hlen;
        ("hkeys", 2, READ, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields", "key", "The fields of a hash.") => hashes::hkeys;
        ("hvals", 2, READ, ONE, OneShard, First, Hash, "2.0.0", "O(N), N = fields", "key", "The values of a hash.") => hashes::hvals;
        ("hincrby", 4, WRITE_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(1)", "key field increment", "Adds to the integer of a field of a hash.") => hashes::hincrby;
        ("hincrbyfloat", 4, WRITE_FAST, ONE, OneShard, First, Hash, "2.6.0", "O(1)", "key field increment", "Adds to the number of a field of a hash.") => hashes::hincrbyfloat;
        ("hstrlen", 3, READ_FAST, ONE, OneShard, First, Hash, "3.2.0", "O(1)", "key field", "The length of the value of a field of a hash, in bytes.") => hashes::hstrlen;
        ("hrandfield", -2, READ, ONE, OneShard, First, Hash, "6.2.0", "O(N), N = fields replied", "key [count [WITHVALUES]]", "Random fields of a hash.") => hashes::hrandfield;
        ("hscan", -3, READ, ONE, OneShard, First, Hash, "2.8.0", "O(1) for each call, O(N) for the whole, N = fields", "key cursor [MATCH pattern] [COUNT count] [NOVALUES]", "Walks over the fields of a hash, a page at a time.") => scan::hscan;
        ("hsetnx", 4, WRITE_FAST, ONE, OneShard, First, Hash, "2.0.0", "O(1)", "key field value", "Sets a field of a hash that does not exist.") => hashes::hsetnx;

        ("zadd", -4, WRITE_FAST, ONE, OneShard, First, SortedSet, "1.2.0", "O(M * log N), M = members given", "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]", "Gives members scores.") => sorted_sets::zadd;
        ("zincrby", 4, WRITE_FAST, ONE, OneShard, First, SortedSet, "1.2.0", "O(log N)", "key increment member", "Adds to the score of a member.") => sorted_sets::zincrby;
        ("zrem", -3, SHRINK_FAST, ONE, OneShard, First, SortedSet, "1.2.0", "O(M * log N), M = members given", "key member [member ...]", "Removes members from a sorted set.") => sorted_sets::zrem;
        ("zcard", 2, READ_FAST, ONE, OneShard, First, SortedSet, "1.2.0", "O(1)", "key", "How many members a sorted set has.") => sorted_sets::zcard;
        ("zscore", 3, READ_FAST, ONE, OneShard, First, SortedSet, "1.2.0", "O(1)", "key member", "The score of a member.") => sorted_sets::zscore;
        ("zmscore", -3, READ_FAST, ONE, OneShard, First, SortedSet, "6.2.0", "O(N), N = members given", "key member [member ...]", "The scores of several members.") => sorted_sets::zmscore;
        ("zrank", -3, READ_FAST, ONE, OneShard, First, SortedSet, "2.0.0", "O(log N)", "key member [WITHSCORE]", "How many members stand before a member.") => sorted_sets::zrank;
        ("zrevrank", -3, READ_FAST, ONE, OneShard, First, SortedSet, "2.0.0", "O(log N)", "key member [WITHSCORE]", "How many members stand behind a member.") => sorted_sets::zrevrank;
        ("zcount", 4, READ_FAST, ONE, OneShard, First, SortedSet, "2.0.0", "O(log N)", "key min max", "How many members have scores in a range.") => sorted_sets::zcount;
        ("zlexcount", 4, READ_FAST, ONE, OneShard, First, SortedSet, "2.8.9", "O(log N)", "key min max", "How many members are in a range.") => sorted_sets::zlexcount;
        ("zrange", -4, READ, ONE, OneShard, First, SortedSet, "1.2.0", "O(log N + M), M = members replied", "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]", "The members of a range of ranks, of scores, or of members.") => sorted_sets::zrange;
        ("zrangestore", -5, WRITE, TWO, Joint, First, SortedSet, "6.2.0", "O(log N + M), M = members stored", "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]", "Stores the members of a range.") => sorted_sets::zrangestore;
        ("zrevrange", -4, READ, ONE, OneShard, First, SortedSet, "1.2.0", "O(log N + M), M = members replied", "key start stop [WITHSCORES]", "The members of a range of ranks, from the highest score down.") => sorted_sets::zrevrange;
        ("zrangebyscore", -4, READ, ONE, OneShard, First, SortedSet, "1.0.5", "O(log N + M), M = members replied", "key min max [WITHSCORES] [LIMIT offset count]", "The members with scores in a range.") => sorted_sets::zrangebyscore;
        ("zrevrangebyscore", -4, READ, ONE, OneShard, First, SortedSet, "2.2.0", "O(log N + M), M = members replied", "key max min [WITHSCORES] [LIMIT offset count]", "The members with scores in a range, from the highest score down.") => sorted_sets::zrevrangebyscore;
        ("zrangebylex", -4, READ, ONE, OneShard, First, SortedSet, "2.8.9", "O(log N + M), M = members replied", "key min max [LIMIT offset count]", "The members in a range, where all scores are the same.") => sorted_sets::zrangebylex;
        ("zrevrangebylex", -4, READ, ONE, OneShard, First, SortedSet, "2.8.9", "O(log N + M), M = members replied", "key max min [LIMIT offset count]", "The members in a range, the last first, where all scores are the same.") => sorted_sets::zrevrangebylex;
        ("zremrangebyrank", 4, SHRINK, ONE, OneShard, First, SortedSet, "2.0.0", "O(M * log N), M = members removed", "key start stop", "Removes the members of a range of ranks.") => sorted_sets::zremrangebyrank;
        ("zremrangebyscore", 4, SHRINK, ONE, OneShard, First, SortedSet, "1.2.0", "O(M * log N), M = members removed", "key min max", "Removes the members with scores in a range.") => sorted_sets::zremrangebyscore;
        ("zremrangebylex", 4, SHRINK, ONE, OneShard, First, SortedSet, "2.8.9", "O(M * log N), M = members removed", "key min max", "Removes the members in a range, where all scores are the same.") => sorted_sets::zremrangebylex;
        ("zpopmin", -2, SHRINK_FAST, ONE, OneShard, First, SortedSet, "5.0.0", "O(M * log N), M = members taken", "key [count]", "Takes the members with the lowest scores.") => sorted_sets::zpopmin;
        ("zpopmax", -2, SHRINK_FAST, ONE, OneShard, First, SortedSet, "5.0.0", "O(M * log N), M = members taken", "key [count]", "Takes the members with the highest scores.") => sorted_sets::zpopmax;
        ("zmpop", -4, SHRINK, COUNTED, Joint, First, SortedSet, "7.0.0", "O(K) + O(M * log N), K = keys, M = members taken", "numkeys key [key ...] <MIN | MAX> [COUNT count]", "Takes members from the first sorted set that exists.") => sorted_sets::zmpop;
        ("bzpopmin", -3, WAITING_POP.and(Flags::FAST), BUT_LAST, Joint, First, SortedSet, "5.0.0", "O(K + log N), K = keys", "key [key ...] timeout", "Takes the member with the lowest score of the first sorted set that has one, or waits for one.") => sorted_sets::bzpopmin;
        ("bzpopmax", -3, WAITING_POP.and(Flags::FAST), BUT_LAST, Joint, First, SortedSet, "5.0.0", "O(K + log N), K = keys", "key [key ...] timeout", "Takes the member with the highest score of the first sorted set that has one, or waits for one.") => sorted_sets::bzpopmax;
        ("bzmpop", -5, SHRINK.and(Flags::BLOCKING).and(Flags::DEFERS), COUNTED_SECOND, Joint, First, SortedSet, "7.0.0", "O(K) + O(M * log N), K = keys, M = members taken", "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]", "Takes members from the first sorted set that has some, or waits for some.") => sorted_sets::bzmpop;
        ("zrandmember", -2, READ, ONE, OneShard, First, SortedSet, "6.2.0", "O(M * log N), M = members replied", "key [count [WITHSCORES]]", "Random members of a sorted set.") => sorted_sets::zrandmember;
        ("zscan", -3, READ, ONE, OneShard, First, SortedSet, "2.8.0", "O(1) for each call, O(N) for the whole, N = members", "key cursor [MATCH pattern] [COUNT count] [NOSCORES]", "Walks over the members of a sorted set, a page at a time.") => scan::zscan;
        ("zunion", -3, READ, COUNTED, Joint, First, SortedSet, "6.2.0", "O(N * log N), N = members of all", "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]", "The members that any of several sorted sets has.") => sorted_sets::zunion;
        ("zunionstore", -4, WRITE, ONE_AND_COUNTED, Joint, First, SortedSet, "2.0.0", "O(N * log N), N = members of all", "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]", "Stores the members that any of several sorted sets has.") => sorted_sets::zunionstore;
        ("zinter", -3, READ, COUNTED, Joint, First, SortedSet, "6.2.0", "O(N * K), N = members of the smallest, K = keys", "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]", "The members that all of several sorted sets have.") => sorted_sets::zinter;
        ("zinterstore", -4, WRITE, ONE_AND_COUNTED, Joint, First, SortedSet, "2.0.0", "O(N * K), N = members of the smallest, K = keys", "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]", "Stores the members that all of several sorted sets have.") => sorted_sets::zinterstore;
        ("zdiff", -3, READ, COUNTED, Joint, First, SortedSet, "6.2.0", "O(N * K), N = members of the first, K = keys", "numkeys key [key ...] [WITHSCORES]", "The members of the first sorted set that no other has.") => sorted_sets::zdiff;
        ("zdiffstore", -4, WRITE, ONE_AND_COUNTED, Joint, First, SortedSet, "6.2.0", "O(N * K), N = members of the first, K = keys", "destination numkeys key [key ...]", "Stores the members of the first sorted set that no other has.") => sorted_sets::zdiffstore;
        ("zintercard", -3, READ, COUNTED, Joint, First, SortedSet, "7.0.0", "O(N * K), N = members of the smallest, K = keys", "numkeys key [key ...] [LIMIT limit]", "How many members all of several sorted sets have.") => sorted_sets::zintercard;

        ("geoadd", -5, WRITE, ONE, OneShard, First, Geo, "3.2.0", "O(M * log N), M = members given", "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]", "Gives members positions.") => geo::geoadd;
        ("geodist", -4, READ, ONE, OneShard, First, Geo, "3.2.0", "O(1)", "key member1 member2 [M | KM | FT | MI]", "The distance between two members.") => geo::geodist;
        ("geohash", -2, READ, ONE, OneShard, First, Geo, "3.2.0", "O(N), N = members given", "key [member [member ...]]", "The geohashes of members.") => geo::geohash;
        ("geopos", -2, READ, ONE, OneShard, First, Geo, "3.2.0", "O(N), N = members given", "key [member [member ...]]", "The positions of members.") => geo::geopos;
        ("georadius", -6, WRITE, ONE_AND_STORED_FROM_6, Joint, First, Geo, "3.2.0", "O(N + log M), N = members in the areas around, M = members in the shape", "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]", "The members within a radius of a position.") => geo::georadius;
        ("georadius_ro", -6, READ, ONE, OneShard, First, Geo, "3.2.10", "O(N + log M), N = members in the areas around, M = members in the shape", "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]", "The members within a radius of a position.") => geo::georadius_ro;
        ("georadiusbymember", -5, WRITE, ONE_AND_STORED_FROM_5, Joint, First, Geo, "3.2.0", "O(N + log M), N = members in the areas around, M = members in the shape", "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]", "The members within a radius of a member.") => geo::georadiusbymember;
        ("georadiusbymember_ro", -5, READ, ONE, OneShard, First, Geo, "3.2.10", "O(N + log M), N = members in the areas around, M = members in the shape", "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]", "The members within a radius of a member.") => geo::georadiusbymember_ro;
        ("geosearch", -7, READ, ONE, OneShard, First, Geo, "6.2.0", "O(N + log M), N = members in the areas around, M = members in the shape", "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]", "The members within a circle or a box.") => geo::geosearch;
        ("geosearchstore", -8, WRITE, TWO, Joint, First, Geo, "6.2.0", "O(N + log M), N = members in the areas around, M = members in the shape", "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]", "Stores the members within a circle or a box.") => geo::geosearchstore;

        ("xadd", -5, WRITE_FAST, ONE, OneShard, First, Stream, "5.0.0", "O(1), and O(N), N = entries trimmed", "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]", "Adds an entry to a stream.") => streams::xadd;
        ("xlen", 2, READ_FAST, ONE, OneShard, First, Stream, "5.0.0", "O(1)", "key", "How many entries a stream has.") => streams::xlen;
        ("xrange", -4, READ, ONE, OneShard, First, Stream, "5.0.0", "O(log N + M), N = blocks of 100 entries, M = entries replied", "key start end [COUNT count]", "The entries of a stream in a range of IDs.") => streams::xrange;
        ("xrevrange", -4, READ, ONE, OneShard, First, Stream, "5.0.0", "O(log N + M), N = blocks of 100 entries, M = entries replied", "key end start [COUNT count]", "The entries of a stream in a range of IDs, the last one first.") => streams::xrevrange;
        ("xdel", -3, SHRINK_FAST, ONE, OneShard, First, Stream, "5.0.0", "O(M log N), M = IDs, N = blocks of 100 entries", "key id [id ...]", "Removes entries from a stream.") => streams::xdel;
        ("xtrim", -4, SHRINK, ONE, OneShard, First, Stream, "5.0.0", "O(N), N = entries trimmed", "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]", "Removes entries from the beginning of a stream.") => streams::xtrim;
        ("xsetid", -3, WRITE_FAST, ONE, OneShard, First, Stream, "5.0.0", "O(1)", "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]", "Sets what a stream knows of its past.") => streams::xsetid;
        ("xread", -4, WAITING_READ, STREAMS, Joint, First, Stream, "5.0.0", "O(log N + M) for each stream, N = blocks of 100 entries, M = entries replied", "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]", "The entries of streams behind given IDs, or waits for one.") => streams::xread;
        ("xreadgroup", -7, WAITING_TAKE, GROUP_STREAMS, Joint, First, Stream, "5.0.0", "O(M log N) for each stream, M = entries replied, N = entries not acknowledged", "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]", "The entries of streams that no consumer of a group was given, or waits for one; or those that this consumer was given and did not acknowledge.") => streams::xreadgroup;
        ("xack", -4, SHRINK_FAST, ONE, OneShard, First, Stream, "5.0.0", "O(M log N), M = IDs, N = entries not acknowledged", "key group id [id ...]", "Acknowledges entries that a consumer of a group was given.") => streams::xack;
        ("xpending", -3, READ, ONE, OneShard, First, Stream, "5.0.0", "O(log N + M), N = entries not acknowledged, M = those replied or passed over by IDLE; O(C) without a range, C = consumers", "key group [[IDLE min-idle-time] start end count [consumer]]", "The entries that consumers of a group were given and did not acknowledge.") => streams::xpending;
        ("xclaim", -6, SHRINK_FAST, ONE, OneShard, First, Stream, "5.0.0", "O(M log N), M = IDs, N = entries not acknowledged", "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]", "Gives entries of a group to another consumer.") => streams::xclaim;
        ("xautoclaim", -6, SHRINK_FAST, ONE, OneShard, First, Stream, "6.2.0", "O(M log N), M = entries looked at, N = entries not acknowledged", "key group consumer min-idle-time start [COUNT count] [JUSTID]", "Gives entries of a group that wait long to another consumer.") => streams::xautoclaim;
    }
    keyspace_subcommands {
        ("function|delete", 3, LIBRARIES, EVERYTHING, Joint, Scripting, "7.0.0", "O(N), N = functions of the library", "library-name", "Removes a library with its functions.") => functions::delete;
        ("function|flush", -2, LIBRARIES, EVERYTHING, Joint, Scripting, "7.0.0", "O(N), N = functions", "[ASYNC | SYNC]", "Removes all libraries.") => functions::flush;
        ("function|load", -3, LIBRARIES.and(Flags::DENYOOM), EVERYTHING, Joint, Scripting, "7.0.0", "O(N), N = bytes of the library", "[REPLACE] function-code", "Adds a library, which registers its functions.") => functions::load;
        ("function|restore", -3, LIBRARIES.and(Flags::DENYOOM), EVERYTHING, Joint, Scripting, "7.0.0", "O(N), N = bytes of the libraries", "serialized-value [FLUSH | APPEND | REPLACE]", "Adds the libraries of a payload of FUNCTION DUMP.") => functions::restore;
        ("script|flush", -2, SCRIPTS, EVERYTHING, Joint, Scripting, "2.6.0", "O(N), N = scripts", "[ASYNC | SYNC]", "Forgets all scripts.") => scripting::flush;
        ("script|load", 3, SCRIPTS.and(Flags::STALE), EVERYTHING, Joint, Scripting, "2.6.0", "O(N), N = bytes of the script", "script", "Makes a script known, without running it.") => scripting::load;
        ("memory|usage", -3, READ, OF_SUBCOMMAND, OneShard, Server, "4.0.0", "O(N), N = samples", "key [SAMPLES count]", "About how many bytes a key takes with its value.") => memory::usage;
        ("object|encoding", 3, READ, OF_SUBCOMMAND, OneShard, Generic, "2.2.3", "O(1)", "key", "How the value of a key is kept.") => object::encoding;
        ("object|refcount", 3, READ, OF_SUBCOMMAND, OneShard, Generic, "2.2.3", "O(1)", "key", "How many references there are to the value of a key.") => object::refcount;
        ("object|idletime", 3, READ, OF_SUBCOMMAND, OneShard, Generic, "2.2.3", "O(1)", "key", "Seconds since a key was used.") => object::idletime;
        ("object|freq", 3, READ, OF_SUBCOMMAND, OneShard, Generic, "4.0.0", "O(1)", "key", "How often a key is used, where that is counted.") => object::freq;
        ("xgroup|create", -5, WRITE, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(1)", "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]", "Makes a group.") => streams::xgroup_create;
        ("xgroup|setid", -5, SHRINK, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(1)", "key group <id | $> [ENTRIESREAD entries-read]", "Sets what a group was given last.") => streams::xgroup_setid;
        ("xgroup|createconsumer", 5, WRITE, OF_SUBCOMMAND, OneShard, Stream, "6.2.0", "O(1)", "key group consumer", "Makes a consumer of a group.") => streams::xgroup_createconsumer;
        ("xgroup|delconsumer", 5, SHRINK, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(M log N), M = entries it did not acknowledge, N = those of the group", "key group consumer", "Removes a consumer from a group, with what it did not acknowledge.") => streams::xgroup_delconsumer;
        ("xgroup|destroy", 4, SHRINK, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(N), N = entries not acknowledged", "key group", "Removes a group.") => streams::xgroup_destroy;
        ("xinfo|stream", -3, READ, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(1), and O(N) with FULL, N = what is replied", "key [FULL [COUNT count]]", "What is known of a stream.") => streams::xinfo_stream;
        ("xinfo|groups", 3, READ, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(N), N = groups", "key", "The groups of a stream.") => streams::xinfo_groups;
        ("cluster|countkeysinslot", 3, Flags::STALE, EVERYTHING, Joint, Cluster, "3.0.0", "O(N), N = keys", "slot", "How many keys there are in a slot.") => cluster::countkeysinslot;
        ("cluster|getkeysinslot", 4, Flags::STALE, EVERYTHING, Joint, Cluster, "3.0.0", "O(N), N = keys", "slot count", "Some keys of a slot.") => cluster::getkeysinslot;
        ("xinfo|consumers", 4, READ, OF_SUBCOMMAND, OneShard, Stream, "5.0.0", "O(N), N = consumers", "key group", "The consumers of a group.") => streams::xinfo_consumers;
    }
    subcommands {
        ("cluster|slots", 2, STATUS, Cluster, "3.0.0", "O(1)", "", "Which node has which slots.") => cluster::slots;
        ("cluster|shards", 2, STATUS, Cluster, "7.0.0", "O(1)", "", "Which shard has which slots and nodes.") => cluster::shards;
        ("cluster|nodes", 2, Flags::STALE, Cluster, "3.0.0", "O(1)", "", "The nodes, a line each.") => cluster::nodes;
        ("cluster|info", 2, Flags::STALE, Cluster, "3.0.0", "O(1)", "", "How the cluster is.") => cluster::info;
        ("cluster|myid", 2, Flags::STALE, Cluster, "3.0.0", "O(1)", "", "The name of the node, which it keeps.") => cluster::myid;
        ("cluster|myshardid", 2, Flags::STALE, Cluster, "7.2.0", "O(1)", "", "The name of the node's shard.") => cluster::myshardid;
        ("cluster|keyslot", 3, Flags::STALE, Cluster, "3.0.0", "O(N), N = bytes of the key", "key", "The slot of a key.") => cluster::keyslot;
        ("cluster|links", 2, Flags::STALE, Cluster, "7.0.0", "O(1)", "", "The links between nodes: none.") => cluster::links;
        ("cluster|replicas", 3, Flags::ADMIN.and(Flags::STALE), Cluster, "5.0.0", "O(1)", "node-id", "The replicas of a node: none.") => cluster::replicas;
        ("cluster|slaves", 3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "node-id", "The replicas of a node; an old name.") => cluster::replicas;
        ("cluster|meet", -4, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "ip port [bus-port]", "Refused: there is no bus.") => cluster::meet;
        ("cluster|addslots", -3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(N), N = slots", "slot [slot ...]", "Refused: all slots are taken.") => cluster::addslots;
        ("cluster|addslotsrange", -4, Flags::ADMIN.and(Flags::STALE), Cluster, "7.0.0", "O(N), N = ranges", "start-slot end-slot [start-slot end-slot ...]", "Refused: all slots are taken.") => cluster::addslotsrange;
        ("cluster|delslots", -3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(N), N = slots", "slot [slot ...]", "Refused: the node keeps all slots.") => cluster::delslots;
        ("cluster|delslotsrange", -4, Flags::ADMIN.and(Flags::STALE), Cluster, "7.0.0", "O(N), N = ranges", "start-slot end-slot [start-slot end-slot ...]", "Refused: the node keeps all slots.") => cluster::delslotsrange;
        ("cluster|flushslots", 2, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "", "Refused: the node keeps all slots.") => cluster::flushslots;
        ("cluster|forget", 3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "node-id", "Refused: there is no other node.") => cluster::forget;
        ("cluster|replicate", 3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "node-id", "Refused: there is no other node.") => cluster::replicate;
        ("cluster|count-failure-reports", 3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "node-id", "How many reports of a failure of a node there are: none.") => cluster::count_failure_reports;
        ("cluster|failover", -2, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "[FORCE | TAKEOVER]", "Refused: there are no replicas.") => cluster::failover;
        ("cluster|setslot", -4, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>", "Whose a slot is: of this node, and no other.") => cluster::setslot;
        ("cluster|bumpepoch", 2, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "", "The epoch stays: one node has the greatest.") => cluster::bumpepoch;
        ("cluster|set-config-epoch", 3, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "config-epoch", "Refused: the node has an epoch.") => cluster::set_config_epoch;
        ("cluster|saveconfig", 2, Flags::ADMIN.and(Flags::STALE), Cluster, "3.0.0", "O(1)", "", "Replies OK: the name of the node is on the disk.") => cluster::saveconfig;
        ("cluster|reset", -2, Flags::ADMIN.and(Flags::STALE).and(Flags::NOSCRIPT), Cluster, "3.0.0", "O(1)", "[HARD | SOFT]", "Refused: the node keeps all slots.") => cluster::reset;
        ("cluster|help", 2, STATUS, Cluster, "5.0.0", "O(1)", "", "What the subcommands do.") => cluster::help;
        ("object|help", 2, STATUS, Generic, "6.2.0", "O(1)", "", "The subcommands.") => super::object::help;
        ("xgroup|help", 2, STATUS, Stream, "5.0.0", "O(1)", "", "The subcommands.") => streams::xgroup_help;
        ("xinfo|help", 2, STATUS, Stream, "5.0.0", "O(1)", "", "The subcommands.") => streams::xinfo_help;
        ("client|id", 2, CONNECTION, Connection, "5.0.0", "O(1)", "", "The number of the connection.") => server::client_id;
        ("client|getname", 2, CONNECTION, Connection, "2.6.9", "O(1)", "", "The name of the connection.") => server::client_getname;
        ("client|setname", 3, CONNECTION, Connection, "2.6.9", "O(1)", "connection-name", "Names the connection.") => server::client_setname;
        ("client|setinfo", 4, CONNECTION, Connection, "7.2.0", "O(1)", "<LIB-NAME libname | LIB-VER libver>", "Says which library the client uses.") => server::client_setinfo;
        ("client|unblock", -3, ADMIN, Connection, "5.0.0", "O(log N), N = connections", "client-id [TIMEOUT | ERROR]", "Ends the waiting of another connection.") => server::client_unblock;
        ("client|kill", -3, ADMIN, Connection, "2.4.0", "O(N), N = connections", "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>]>", "Ends connections.") => super::clients::kill;
        ("client|reply", 3, CONNECTION, Connection, "3.2.0", "O(1)", "<ON | OFF | SKIP>", "Lets the server reply, or not.") => super::clients::reply;
        ("client|pause", -3, ADMIN, Connection, "3.0.0", "O(1)", "timeout [WRITE | ALL]", "Lets the requests of all connections wait. Keys expire meanwhile.") => super::clients::pause;
        ("client|unpause", 2, ADMIN, Connection, "6.2.0", "O(1)", "", "Lets the requests of all connections go on.") => super::clients::unpause;
        ("client|info", 2, CONNECTION, Connection, "6.2.0", "O(1)", "", "What is known of the connection.") => server::client_info;
        ("client|list", -2, ADMIN, Connection, "2.4.0", "O(N), N = connections", "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]", "What is known of each connection.") => server::client_list;
        ("client|no-evict", 3, ADMIN, Connection, "7.0.0", "O(1)", "<ON | OFF>", "Keeps the connection when memory is short.") => server::client_no_evict;
        ("client|no-touch", 3, CONNECTION, Connection, "7.2.0", "O(1)", "<ON | OFF>", "Lets the connection read without marking keys as used.") => server::client_no_touch;
        ("client|help", 2, STATUS, Connection, "5.0.0", "O(N), N = subcommands", "", "The subcommands.") => super::introspection::help;
        ("command|count", 2, STATUS, Server, "2.8.13", "O(1)", "", "How many commands there are.") => super::introspection::command_count;
        ("command|info", -2, STATUS, Server, "2.8.13", "O(N), N = commands named", "[command-name [command-name ...]]", "Describes commands to clients.") => super::introspection::command_info;
        ("command|docs", -2, STATUS, Server, "7.0.0", "O(N), N = commands named", "[command-name [command-name ...]]", "Describes commands to people.") => super::introspection::command_docs;
        ("command|getkeys", -3, STATUS, Server, "2.8.13", "O(N), N = arguments", "command [arg [arg ...]]", "The keys of a request.") => super::introspection::command_getkeys;
        ("command|getkeysandflags", -3, STATUS, Server, "7.0.0", "O(N), N = arguments", "command [arg [arg ...]]", "The keys of a request, and what becomes of them.") => super::introspection::command_getkeysandflags;
        ("command|list", -2, STATUS, Server, "7.0.0", "O(N), N = commands", "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", "The names of the commands.") => super::introspection::command_list;
        ("function|dump", 2, TELLS_OF_SCRIPTS, Scripting, "7.0.0", "O(N), N = bytes of the libraries", "", "All libraries as a payload for FUNCTION RESTORE.") => super::functions::dump;
        ("function|list", -2, TELLS_OF_SCRIPTS, Scripting, "7.0.0", "O(N), N = functions", "[LIBRARYNAME library-name-pattern] [WITHCODE]", "The libraries and their functions.") => super::functions::list;
        ("function|stats", 2, Flags::NOSCRIPT, Scripting, "7.0.0", "O(1)", "", "The function that runs, and how many there are.") => super::functions::stats;
        ("function|kill", 2, Flags::NOSCRIPT, Scripting, "7.0.0", "O(1)", "", "Ends the function that runs, unless it has written.") => super::functions::kill;
        ("function|help", 2, STATUS, Scripting, "7.0.0", "O(N), N = subcommands", "", "What the subcommands do.") => super::introspection::help;
        ("script|exists", -3, TELLS_OF_SCRIPTS, Scripting, "2.6.0", "O(N), N = scripts named", "sha1 [sha1 ...]", "Which scripts are known.") => super::scripting::exists;
        ("script|kill", 2, Flags::NOSCRIPT, Scripting, "2.6.0", "O(1)", "", "Ends the script that runs, unless it has written.") => super::scripting::kill;
        ("script|help", 2, STATUS, Scripting, "5.0.0", "O(N), N = subcommands", "", "What the subcommands do.") => super::introspection::help;
        ("pubsub|channels", -2, PUBSUB, PubSub, "2.8.0", "O(N), N = channels that have subscribers", "[pattern]", "The channels that have subscribers.") => pubsub::channels;
        ("pubsub|numpat", 2, PUBSUB, PubSub, "2.8.0", "O(1)", "", "How many patterns have subscribers.") => pubsub::numpat;
        ("pubsub|numsub", -2, PUBSUB, PubSub, "2.8.0", "O(N), N = channels named", "[channel [channel ...]]", "How many subscribers channels have.") => pubsub::numsub;
        ("pubsub|shardchannels", -2, PUBSUB, PubSub, "7.0.0", "O(N), N = shard channels that have subscribers", "[pattern]", "The shard channels that have subscribers.") => pubsub::shardchannels;
        ("pubsub|shardnumsub", -2, PUBSUB, PubSub, "7.0.0", "O(N), N = shard channels named", "[shardchannel [shardchannel ...]]", "How many subscribers shard channels have.") => pubsub::shardnumsub;
        ("pubsub|help", 2, STATUS, PubSub, "6.2.0", "O(1)", "", "What the subcommands do.") => pubsub::help;
        ("command|help", 2, STATUS, Server, "5.0.0", "O(N), N = subcommands", "", "The subcommands.") => super::introspection::help;
        ("config|get", -3, ADMIN, Server, "2.0.0", "O(N), N = directives", "parameter [parameter ...]", "Values of the configuration.") => super::configuration::config_get;
        ("config|set", -4, ADMIN, Server, "2.0.0", "O(N), N = directives given", "parameter value [parameter value ...]", "Changes the configuration.") => super::configuration::config_set;
        ("slowlog|get", -2, SLOW_LOG, Server, "2.2.12", "O(N), N = entries replied", "[count]", "The last commands that took long.") => observing::slowlog_get;
        ("slowlog|len", 2, SLOW_LOG, Server, "2.2.12", "O(1)", "", "How many entries the slow log has.") => observing::slowlog_len;
        ("slowlog|reset", 2, SLOW_LOG, Server, "2.2.12", "O(N), N = entries", "", "Forgets the entries of the slow log.") => observing::slowlog_reset;
        ("slowlog|help", 2, STATUS, Server, "6.2.0", "O(1)", "", "What the subcommands do.") => observing::slowlog_help;
        ("latency|latest", 2, ADMIN, Server, "2.8.13", "O(1)", "", "The last time that each kind of event took long.") => observing::latency_latest;
        ("latency|history", 3, ADMIN, Server, "2.8.13", "O(1)", "event", "When events of a kind took how long.") => observing::latency_history;
        ("latency|reset", -2, ADMIN, Server, "2.8.13", "O(1)", "[event [event ...]]", "Forgets what took long.") => observing::latency_reset;
        ("latency|doctor", 2, ADMIN, Server, "2.8.13", "O(1)", "", "What took long, in sentences.") => observing::latency_doctor;
        ("latency|graph", 3, ADMIN, Server, "2.8.13", "O(1)", "event", "The last times of a kind of event, drawn with characters.") => observing::latency_graph;
        ("latency|histogram", -2, ADMIN, Server, "7.0.0", "O(N), N = commands", "[command [command ...]]", "How often commands took how long.") => observing::latency_histogram;
        ("latency|help", 2, STATUS, Server, "2.8.13", "O(1)", "", "What the subcommands do.") => observing::latency_help;
        ("memory|stats", 2, NONE, Server, "4.0.0", "O(shards)", "", "What memory is used for.") => super::memory::stats;
        ("memory|doctor", 2, NONE, Server, "4.0.0", "O(1)", "", "How memory is used, in a sentence.") => super::memory::doctor;
        ("memory|malloc-stats", 2, NONE, Server, "4.0.0", "O(1)", "", "What the allocator says of itself.") => super::memory::malloc_stats;
        ("memory|purge", 2, NONE, Server, "4.0.0", "O(N), N = free memory", "", "Gives free memory back to the system.") => super::memory::purge;
        ("memory|help", 2, STATUS, Server, "4.0.0", "O(1)", "", "What the subcommands do.") => super::memory::help;
        ("config|rewrite", 2, ADMIN, Server, "2.8.0", "O(N), N = directives", "", "Writes the configuration into its file.") => super::configuration::config_rewrite;
        ("config|help", 2, STATUS, Server, "5.0.0", "O(N), N = subcommands", "", "The subcommands.") => super::introspection::help;
        ("config|resetstat", 2, ADMIN, Server, "2.0.0", "O(1)", "", "Starts the counts of INFO anew.") => super::configuration::config_resetstat;
    }
}
