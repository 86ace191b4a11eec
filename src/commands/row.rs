//! The shape of a row of the command table.

use super::access::Access;
use super::documentation::Argument;
use super::flag_sets::STATUS;
use super::{Context, Outcome, Services};
use crate::keyspace::{Instance, Keyspace, Settings, Store};
use crate::resp::{Args, Reply, parse_i64};
use std::ops::Range;
use std::time::Duration;

/// A command over the keyspace.
pub type CommandFn<S> = fn(&mut Keyspace<S>, Args<'_>, &mut Reply<'_>) -> Outcome;

/// A command that needs neither keys nor its connection.
pub type PlainFn = fn(&Services, Args<'_>, &mut Reply<'_>) -> Outcome;

/// A row of the command table: a command, and the function that runs it on this kind of store.
pub struct Row<S: Store> {
    /// The function.
    pub run: Run<S>,
    /// What the command is.
    pub command: Command,
}

/// The function of a command.
pub enum Run<S: Store> {
    /// A function over the keyspace.
    Keyspace(CommandFn<S>),
    /// A function of its arguments, and of the server's services.
    Plain(PlainFn),
    /// A function that needs the connection, which has a table of its own.
    Connection,
}

impl<S: Store> Row<S> {
    /// No row yet.
    pub const NONE: Self = Self { run: Run::Connection, command: Command::NONE };
}

impl<S: Store> Run<S> {
    /// The row of a command that runs so.
    pub const fn row(self, command: Command) -> Row<S> {
        Row { run: self, command }
    }
}

// Derived, these would have bounds on `S`.
impl<S: Store> Clone for Row<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Store> Copy for Row<S> {}

impl<S: Store> Clone for Run<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Store> Copy for Run<S> {}

/// One command, or one subcommand (`client|id`).
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// In lower case; a subcommand's is `container|name`.
    pub name: &'static str,
    /// How many arguments, including the name; negative for "at least".
    pub arity: i16,
    /// What the command does.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: Keys,
    /// Where it runs.
    pub request: Request,
    /// How replies of several shards become one.
    pub response: Response,
    /// What clients of a cluster are told of both, if not what follows from them.
    pub policies: Option<Policies>,
    /// Whether the same request on the same data has the same reply.
    pub output: Output,
    /// The family it is documented in.
    pub group: Group,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// Its arguments, as documentation writes them.
    pub syntax: &'static str,
    /// Its arguments, as COMMAND DOCS shows them.
    pub arguments: &'static [Argument],
    /// Since when Redis has a replacement for it.
    pub deprecated_since: Option<&'static str>,
    /// Its cost.
    pub complexity: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What it does with its keys, if its flags do not say that.
    pub access: Option<Access>,
    /// What a request does with its keys, if that depends on it.
    pub access_of: Option<fn(Args<'_>) -> Access>,
    /// Whether a request is accepted while a script is busy, if its flags allow that.
    pub suits_busy_script: fn(Args<'_>) -> bool,
    /// Whether an argument of a request is a password, or the name of a user with one: logs and monitors do not show
    /// it.
    pub is_secret: fn(Args<'_>, usize) -> bool,
    /// Where a request names a database other than the selected one.
    pub other_database: OtherDatabase,
    /// How a request begins whose reply comes later.
    pub pending: Pending,
    /// How a script calls it.
    pub in_script: InScript,
    /// What it is in the stream of a master.
    pub in_stream: InStream,
    /// Which script it runs.
    pub script: Option<ScriptArgument>,
    /// Whether a request is proved to touch only the keys that it names, though it may have others.
    pub touches_named_keys_only: fn(Args<'_>, &Instance) -> bool,
    /// The context of the commands that follow it in a transaction, if it changes that.
    pub context_after: Option<ContextAfter>,
    /// The ACL categories that do not follow from its flags or its family.
    pub categories: Categories,
    /// Which arguments are channels that its user must be allowed to use.
    pub channels: Channels,
    /// Whether it is for developers of the server.
    pub is_internal: bool,
    /// Whether the row belongs to a subcommand, which is not a command of its own: derived from the name when the table
    /// is made.
    pub is_subcommand: bool,
    /// Where its subcommands run: derived from their rows when the table is made.
    pub subcommands: Subcommands,
    /// Whether its requests run where their one key is, and ask nothing of the connection or the server before:
    /// derived when the table is made.
    pub is_ordinary: bool,
}

/// Where the subcommands of a command run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subcommands {
    /// It has none.
    None,
    /// All in the connection.
    Local,
    /// Some over the keyspace.
    Keyspace,
}

/// Which arguments are numbers of other databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherDatabase {
    /// None are; a command that crosses databases concerns all of them.
    Unnamed,
    /// The one at this position.
    At(usize),
    /// The one after the last word DB, which may be the third argument or later.
    OfOption,
    /// The first two arguments.
    Both,
}

/// Which arguments are channels that the user of the connection must be allowed to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// None.
    None,
    /// The first, to which it sends a message.
    Published,
    /// All of them.
    Subscribed,
    /// All of them, which are patterns.
    Patterns,
}

/// How a request begins whose reply comes later than those of following requests, if it has to wait.
#[derive(Debug, Clone, Copy)]
pub enum Pending {
    /// Its reply never comes later.
    Never,
    /// As a transaction of one command.
    Transaction,
    /// The same, and it waits at its keys: for so long, or without a limit.
    AtKeys(fn(Args<'_>) -> Option<Duration>),
    /// The same, and the snapshot that it takes has all changes so far.
    Snapshot,
    /// The same, if it must save the empty data.
    Flush,
    /// WATCH.
    Watch,
    /// EXEC.
    Exec,
    /// WAIT: until replicas have the writes.
    Replicas,
    /// WAITAOF: until the disks have them.
    Logs,
    /// MIGRATE: until another server has the keys.
    Migration,
    /// SHUTDOWN: until the server ends.
    Shutdown,
    /// DEBUG SLEEP: for a time. The other subcommands are transactions.
    Debug,
}

/// How a script calls a command that needs no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InScript {
    /// Through a connection of its own.
    OfConnection,
    /// It is not supported: it queries the owners of the data, which is lent to the script.
    QueriesOwners,
    /// It selects the database of the script.
    Select,
    /// It tells the time of the script.
    Time,
}

/// What a command is in the stream of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InStream {
    /// An effect, if it changes data, or a message; otherwise it is in no stream.
    Effect,
    /// Nothing: it shows that the master lives.
    Nothing,
    /// It begins a transaction.
    Begins,
    /// It ends a transaction.
    Ends,
    /// It selects the database of what follows.
    Selects,
}

/// Which script a command runs, named by its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptArgument {
    /// The script whose source it is.
    Source,
    /// The script with this SHA1.
    Sha,
    /// The function of this name.
    Function,
}

/// The context after a request, given the settings, the context before, and how many databases there are.
pub type ContextAfter = fn(&Settings, Context, Args<'_>, usize) -> Context;

/// ACL categories given by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Categories(u8);

impl Categories {
    /// None.
    pub const NONE: Self = Self(0);
    /// `@admin`, though it has no such flag.
    pub const ADMIN: Self = Self(1);
    /// `@dangerous`, though it does not administer.
    pub const DANGEROUS: Self = Self(2);
    /// `@connection`, though its family is another.
    pub const CONNECTION: Self = Self(4);
    /// `@set`, `@sortedset` and `@list`, and not `@keyspace`.
    pub const OF_SORT: Self = Self(8);
    /// `@keyspace`, though its family is another.
    pub const KEYSPACE: Self = Self(16);

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Every request is accepted.
fn suits_always(_: Args<'_>) -> bool {
    true
}

/// No argument is secret.
fn is_no_secret(_: Args<'_>, _: usize) -> bool {
    false
}

/// Nothing is proved of a request.
fn is_not_proved(_: Args<'_>, _: &Instance) -> bool {
    false
}

impl Command {
    /// The defaults of a row: no flags, no keys, one part that runs in the connection.
    pub const NONE: Self = Self {
        name: "",
        arity: 0,
        flags: Flags::NONE,
        keys: Keys::NONE,
        request: Request::Local,
        response: Response::First,
        policies: None,
        output: Output::Same,
        group: Group::Server,
        since: "",
        syntax: "",
        arguments: &[],
        deprecated_since: None,
        complexity: "",
        summary: "",
        access: None,
        access_of: None,
        suits_busy_script: suits_always,
        is_secret: is_no_secret,
        other_database: OtherDatabase::Unnamed,
        pending: Pending::Never,
        in_script: InScript::OfConnection,
        in_stream: InStream::Effect,
        script: None,
        touches_named_keys_only: is_not_proved,
        context_after: None,
        categories: Categories::NONE,
        channels: Channels::None,
        is_internal: false,
        is_subcommand: false,
        subcommands: Subcommands::None,
        is_ordinary: false,
    };

    /// The defaults of a family.
    pub const fn of(group: Group) -> Self {
        Self { group, ..Self::NONE }
    }

    /// The defaults of a command that has subcommands.
    pub const fn container_of(group: Group) -> Self {
        Self { arity: -2, syntax: "subcommand", complexity: "as the subcommand", ..Self::of(group) }
    }

    /// The defaults of a subcommand HELP.
    pub const fn help_of(group: Group) -> Self {
        Self { arity: 2, flags: STATUS, complexity: "O(1)", summary: "What the subcommands do.", ..Self::of(group) }
    }

    /// What [`is_ordinary`](Self::is_ordinary) is derived from.
    pub(super) const fn asks_nothing(&self) -> bool {
        const ASKING: Flags = Flags::PROTECTED.and(Flags::MESSAGES).and(Flags::AFTER_REPLIES);
        matches!(self.request, Request::OneShard)
            && matches!(self.pending, Pending::Never)
            && matches!(self.subcommands, Subcommands::None)
            && self.keys.last >= 0
            && !self.flags.has_any(ASKING)
    }

    /// Whether a request of `len` arguments, including the name, fits the arity.
    pub fn accepts(&self, len: usize) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { len >= wanted } else { len == wanted }
    }

    /// Whether the command may change data.
    pub fn is_write(&self) -> bool {
        // One check for most commands: this is called for each.
        self.flags.has_any(Flags::WRITE.and(Flags::CACHES).and(Flags::SCRIPT))
            && !self.flags.has(Flags::SCRIPT.and(Flags::READONLY))
    }

    /// Whether a request needs every shard at once.
    #[inline]
    pub fn needs_all(&self, args: Args<'_>, instance: &Instance) -> bool {
        match self.request {
            Request::Local | Request::OneShard | Request::MultiShard => false,
            Request::AllShards | Request::Cursor => true,
            Request::MultiShardView => self.needs_all_as_one(args, instance),
        }
    }

    #[inline(never)]
    fn needs_all_as_one(&self, args: Args<'_>, instance: &Instance) -> bool {
        self.keys.may_be_any(args) && !(self.touches_named_keys_only)(args, instance)
    }

    /// Whether a request may concern keys that it does not name.
    pub fn may_concern_all(&self, args: Args<'_>) -> bool {
        match self.request {
            Request::AllShards | Request::Cursor => true,
            Request::MultiShardView => self.keys.may_be_any(args),
            Request::Local | Request::OneShard | Request::MultiShard => false,
        }
    }

    /// Whether a request may wait, so that its reply may come later than those of following requests.
    #[inline]
    pub fn defers(&self, args: Args<'_>, services: &Services) -> bool {
        self.may_defer() && self.defers_now(args, services)
    }

    /// Whether some of its requests may wait.
    #[inline]
    pub fn may_defer(&self) -> bool {
        !matches!(self.pending, Pending::Never)
    }

    /// The same for this request, if it depends on the request.
    #[cold]
    fn defers_now(&self, args: Args<'_>, services: &Services) -> bool {
        match self.pending {
            Pending::Never => false,
            // If nothing must be saved, each shard does its part.
            Pending::Flush => services.saves.saves_flushes(),
            _ => self.keys.streams_from == 0 || ReadingOptions::of(args).block_at.is_some(),
        }
    }

    /// Whether it begins or ends a subscription.
    pub fn subscribes(&self) -> bool {
        self.flags.has(Flags::PUBSUB.and(Flags::SUBSCRIBED))
    }

    /// Whether it has subcommands and does nothing by itself.
    pub fn is_container(&self) -> bool {
        self.flags == Flags::NONE && self.subcommands != Subcommands::None
    }

    /// A subcommand's own name and its container's.
    pub fn container(&self) -> Option<(&'static str, &'static str)> {
        self.name.split_once('|')
    }
}

/// What a command does: a set of flags, named as COMMAND INFO names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// May change data.
    pub const WRITE: Self = Self(1);
    /// Only reads data.
    pub const READONLY: Self = Self(1 << 1);
    /// May need more memory.
    pub const DENYOOM: Self = Self(1 << 2);
    /// Administers the server.
    pub const ADMIN: Self = Self(1 << 3);
    /// Not from scripts.
    pub const NOSCRIPT: Self = Self(1 << 4);
    /// Runs in constant or logarithmic time.
    pub const FAST: Self = Self(1 << 5);
    /// Works while the log is loaded.
    pub const LOADING: Self = Self(1 << 6);
    /// Works on a replica that lost its master.
    pub const STALE: Self = Self(1 << 7);
    /// Works before authentication.
    pub const NO_AUTH: Self = Self(1 << 8);
    /// Not inside a transaction.
    pub const NO_MULTI: Self = Self(1 << 9);
    /// Is not shown to monitors.
    pub const SKIP_MONITOR: Self = Self(1 << 10);
    /// Is not kept in the slow log.
    pub const SKIP_SLOWLOG: Self = Self(1 << 11);

    /// May wait for something to take.
    pub const BLOCKING: Self = Self(1 << 12);
    /// Publishes or subscribes.
    pub const PUBSUB: Self = Self(1 << 13);
    /// Runs a script, which decides at run time what it does, and to which keys.
    pub const SCRIPT: Self = Self(1 << 14);
    /// Is accepted while a script has run for too long.
    pub const ALLOW_BUSY: Self = Self(1 << 15);
    /// Is refused while a replica loads a snapshot beside data that it serves. Shown only: no replica does so here.
    pub const NO_ASYNC_LOADING: Self = Self(1 << 16);
    /// Is for a node that takes over the slot of its key. Shown only: no slot moves here.
    pub const ASKING: Self = Self(1 << 17);
    /// Runs what MULTI has queued, so it may do whatever that does. Not shown.
    pub const RUNS_QUEUED: Self = Self(1 << 20);
    /// Refused while snapshots fail, like a write, so that a health check notices. Not shown.
    pub const FAILS_UNSAVED: Self = Self(1 << 18);
    /// Is accepted from a client that may only subscribe and unsubscribe. Not shown.
    pub const SUBSCRIBED: Self = Self(1 << 19);
    /// Sends a message to a channel. Not shown.
    pub const PUBLISHES: Self = Self(1 << 23);
    /// Runs after all earlier requests have replied, because it reports on them or affects them. Not shown.
    pub const AFTER_REPLIES: Self = Self(1 << 24);
    /// May begin or end the sending of messages, which follow its reply directly. Runs when all earlier requests have
    /// their replies. Not shown.
    pub const MESSAGES: Self = Self(1 << 25);
    /// Its arguments are not keys, though Redis Cluster routes by them. Not shown.
    pub const NOT_KEYS: Self = Self(1 << 26);
    /// Reads, and caches its result in the value. Not shown.
    pub const CACHES: Self = Self(1 << 27);
    /// Permitted by a directive only. Not shown.
    pub const PROTECTED: Self = Self(1 << 28);
    /// May concern other databases than the one that is selected. Not shown.
    pub const CROSSES: Self = Self(1 << 29);
    /// Ends what MULTI has begun, so that it is accepted however little memory there is. Not shown.
    pub const ENDS_QUEUE: Self = Self(1 << 30);
    /// Runs at once inside MULTI instead of being queued. Not shown.
    pub const NOT_QUEUED: Self = Self(1 << 31);

    /// The names in the order of the bits.
    pub const NAMES: [&'static str; 18] = [
        "write",
        "readonly",
        "denyoom",
        "admin",
        "noscript",
        "fast",
        "loading",
        "stale",
        "no_auth",
        "no_multi",
        "skip_monitor",
        "skip_slowlog",
        "blocking",
        "pubsub",
        "no_mandatory_keys",
        "allow_busy",
        "no_async_loading",
        "asking",
    ];

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether anything of `other` is in the set.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the flags in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name)
    }
}

/// Which arguments are keys: every `step`th from `first` to `last`, where a negative `last` counts from the end; those
/// that follow an argument with their number; and the first half of the arguments after the word STREAMS.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// Position of the first key; 0 for none.
    pub first: u16,
    /// Position of the last key.
    pub last: i16,
    /// Distance from one key to the next.
    pub step: u16,
    /// Position of the argument that has the number of keys after it; 0 for none.
    pub count_at: u16,
    /// First position of the word STREAMS; 0 for none.
    pub streams_from: u16,
    /// The keys named by options.
    pub options: OptionKeys,
}

/// Keys that the options of a request name.
#[derive(Debug, Clone, Copy)]
pub enum OptionKeys {
    /// None.
    None,
    /// Those that functions of the command find.
    Found(&'static KeyFinder),
    /// Every key, though none is named.
    Everything,
    /// GEORADIUS and the like: from this many arguments on, STORE and STOREDIST name one.
    StoredFrom(u16),
    /// MIGRATE: all that follow its word KEYS, if there is one, instead of the key at its fixed position.
    Instead(fn(Args<'_>) -> Option<Range<usize>>),
}

/// How a command finds keys that its other arguments decide.
#[derive(Debug)]
pub struct KeyFinder {
    /// The positions of those that a request names.
    pub named: fn(Args<'_>) -> Range<usize>,
    /// Whether a request may have keys that it does not name.
    pub may_be_any: fn(Args<'_>) -> bool,
    /// What COMMAND INFO says of them, as no specification finds them: a note for each, and whether it is accessed like
    /// the first key or like the others.
    pub notes: &'static [(&'static str, Accessed)],
}

/// Which access of a command a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accessed {
    /// That of its first key.
    AsFirst,
    /// That of its other keys.
    AsRest,
}

impl Keys {
    /// No keys.
    pub const NONE: Self = Self { first: 0, last: 0, step: 0, count_at: 0, streams_from: 0, options: OptionKeys::None };
    /// The first argument is the only key.
    pub const ONE: Self = Self::fixed(1, 1, 1);
    /// The second argument is the only key: that of a subcommand.
    pub const OF_SUBCOMMAND: Self = Self::fixed(2, 2, 1);
    /// The first two arguments are the keys.
    pub const TWO: Self = Self::fixed(1, 2, 1);
    /// All arguments are keys.
    pub const ALL: Self = Self::fixed(1, -1, 1);
    /// All arguments but the last are keys.
    pub const BUT_LAST: Self = Self::fixed(1, -2, 1);
    /// The second argument is the only key.
    pub const SECOND: Self = Self::fixed(2, 2, 1);
    /// All arguments from the second on are keys.
    pub const FROM_SECOND: Self = Self::fixed(2, -1, 1);
    /// The second argument is the number of keys, which follow it.
    pub const COUNTED_SECOND: Self = Self { count_at: 2, ..Self::NONE };
    /// Keys and values alternately.
    pub const PAIRS: Self = Self::fixed(1, -1, 2);
    /// The first argument is the number of keys, which follow it.
    pub const COUNTED: Self = Self { count_at: 1, ..Self::NONE };
    /// The keys follow STREAMS, which may be the first argument.
    pub const STREAMS: Self = Self { streams_from: 1, ..Self::NONE };
    /// The keys follow STREAMS, after the words about a group.
    pub const GROUP_STREAMS: Self = Self { streams_from: 4, ..Self::NONE };
    /// Every key of every database.
    pub const EVERYTHING: Self = Self { options: OptionKeys::Everything, ..Self::NONE };
    /// The second argument is the number of keys, which follow it, and there may be others.
    pub const SCRIPT: Self = Self { options: OptionKeys::Everything, ..Self::COUNTED_SECOND };
    /// The first argument is a key, the second is the number of keys that follow.
    pub const ONE_AND_COUNTED: Self = Self { count_at: 2, ..Self::ONE };
    /// The first argument is a key, and options after this many arguments name others.
    pub const ONE_AND_STORED_FROM_5: Self = Self { options: OptionKeys::StoredFrom(5), ..Self::ONE };
    /// As above.
    pub const ONE_AND_STORED_FROM_6: Self = Self { options: OptionKeys::StoredFrom(6), ..Self::ONE };
    /// The third argument is the only key, unless others are named instead of it.
    pub const fn third_or(named: fn(Args<'_>) -> Option<Range<usize>>) -> Self {
        Self { options: OptionKeys::Instead(named), ..Self::fixed(3, 3, 1) }
    }

    const fn fixed(first: u16, last: i16, step: u16) -> Self {
        Self { first, last, step, ..Self::NONE }
    }

    /// The positions of the keys in a request. If their number is given but invalid, there are none of these: the
    /// command replies with the error.
    pub fn positions(self, args: Args<'_>) -> impl Iterator<Item = usize> + Clone {
        let len = args.len();
        let distance = usize::from(self.last.unsigned_abs());
        let last = if self.last < 0 { len.saturating_sub(distance) } else { distance };
        let instead = match self.options {
            OptionKeys::Instead(named) => named(args),
            _ => None,
        };
        let end = if self.first == 0 || instead.is_some() { 0 } else { (last + 1).min(len) };
        let fixed = (usize::from(self.first)..end).step_by(usize::from(self.step.max(1)));
        let of_option = match self.options {
            OptionKeys::Instead(_) => instead.unwrap_or(0..0),
            OptionKeys::Found(finder) => (finder.named)(args),
            OptionKeys::StoredFrom(start) => as_range(stored_position(args, start.into())),
            OptionKeys::None | OptionKeys::Everything => 0..0,
        };
        fixed.chain(self.variable(args).unwrap_or(0..0)).chain(of_option)
    }

    /// The positions of the keys in a request of this many arguments, if its length alone determines them. If the
    /// request `is_open`, the last argument stands for any number of arguments, and none of them may be a key.
    pub fn fixed_positions(self, len: usize, is_open: bool) -> Option<impl Iterator<Item = usize>> {
        if self.first == 0 || self.are_movable() || !matches!(self.options, OptionKeys::None) {
            return None;
        }
        let distance = usize::from(self.last.unsigned_abs());
        let last = if self.last < 0 { len.saturating_sub(distance) } else { distance };
        if is_open && (self.last < 0 || last + 1 >= len) {
            return None;
        }
        Some((usize::from(self.first)..(last + 1).min(len)).step_by(usize::from(self.step.max(1))))
    }

    /// Whether the positions of its keys depend on the request.
    pub fn are_movable(self) -> bool {
        let has_options = match self.options {
            OptionKeys::Found(finder) => !finder.notes.is_empty(),
            OptionKeys::StoredFrom(_) | OptionKeys::Instead(_) => true,
            OptionKeys::None | OptionKeys::Everything => false,
        };
        self.count_at > 0 || self.streams_from > 0 || has_options
    }

    /// Whether a request may have keys at unknown positions.
    pub fn may_be_any(self, args: Args<'_>) -> bool {
        match self.options {
            OptionKeys::Everything => true,
            OptionKeys::Found(finder) => (finder.may_be_any)(args),
            OptionKeys::None | OptionKeys::StoredFrom(_) | OptionKeys::Instead(_) => false,
        }
    }

    /// Whether some requests have keys, or refer to keys, that they do not name.
    pub fn may_be_unnamed(self) -> bool {
        matches!(self.options, OptionKeys::Found(_) | OptionKeys::Everything)
    }

    /// Whether requests name any.
    pub fn are_named(self) -> bool {
        self.first > 0 || self.are_movable()
    }

    /// Whether a value follows each key: keys and values alternately.
    pub fn have_values(self, args: Args<'_>) -> bool {
        self.last >= 0 || (args.len() - usize::from(self.first)).is_multiple_of(self.step.into())
    }

    /// The positions of the keys that depend on other arguments; `None` if these are invalid.
    pub fn variable(self, args: Args<'_>) -> Option<Range<usize>> {
        if self.streams_from > 0 {
            return ReadingOptions::of(args).keys(args);
        }
        if self.count_at == 0 {
            return Some(0..0);
        }
        let first = usize::from(self.count_at) + 1;
        let count = args.get(first - 1).and_then(parse_i64).and_then(|count| usize::try_from(count).ok())?;
        if count == 0 && matches!(self.options, OptionKeys::Everything) {
            return Some(0..0);
        }
        (1..=args.len() - first).contains(&count).then_some(first..first + count)
    }
}

/// The range of one position, or of none.
pub fn as_range(position: Option<usize>) -> Range<usize> {
    position.map_or(0..0, |position| position..position + 1)
}

/// The position of the key that the last STORE or STOREDIST names.
fn stored_position(args: Args<'_>, start: usize) -> Option<usize> {
    let mut at = start;
    let mut stored = None;
    while at + 1 < args.len() {
        let is_store = args.is(at, "STORE") || args.is(at, "STOREDIST");
        stored = if is_store { Some(at + 1) } else { stored };
        at += if is_store { 2 } else { 1 };
    }
    stored
}

/// The positions of the options of XREAD and XREADGROUP, as far as they can be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadingOptions {
    /// The position of the time of BLOCK.
    pub block_at: Option<usize>,
    /// The position of STREAMS.
    pub streams_at: Option<usize>,
}

impl ReadingOptions {
    /// Parses the options up to STREAMS; the command refuses invalid ones.
    pub fn of(args: Args<'_>) -> Self {
        let mut options = Self::default();
        let mut at = 1;
        while at < args.len() {
            at += match () {
                () if args.is(at, "STREAMS") => {
                    options.streams_at = Some(at);
                    break;
                }
                () if args.is(at, "BLOCK") => {
                    options.block_at = Some(at + 1);
                    2
                }
                () if args.is(at, "COUNT") => 2,
                () if args.is(at, "GROUP") => 3,
                () => 1,
            };
        }
        options
    }

    /// The positions of the keys, as many as there are IDs.
    fn keys(self, args: Args<'_>) -> Option<Range<usize>> {
        let first = self.streams_at? + 1;
        let count = (args.len() - first) / 2;
        (count > 0).then_some(first..first + count)
    }
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// In the connection: it needs no key.
    Local,
    /// On the shard of its key.
    OneShard,
    /// On each shard that holds one of its keys, with these keys.
    MultiShard,
    /// On all shards of its keys at once: the function needs them together.
    MultiShardView,
    /// On every shard.
    AllShards,
    /// On the shard named by the cursor in its first argument, and the following ones.
    Cursor,
}

/// How the replies of the parts of a command are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// There is one part.
    First,
    /// The integers are added.
    Sum,
    /// OK when all are.
    AllSucceeded,
    /// The arrays' elements, in the order of the keys.
    InKeyOrder,
    /// The arrays' elements, in any order.
    Concatenated,
    /// One of the parts that are not null, drawn by the number of keys of each.
    AnyByKeys,
    /// The parts are pages: a cursor, and elements. They are joined to one page, up to the first that is not its
    /// shard's last.
    Page,
}

/// To which nodes of a cluster a client sends a request, and how it joins their replies, as COMMAND INFO shows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies(pub &'static [&'static str]);

impl Policies {
    /// Nothing is shown.
    pub const NONE: Self = Self(&[]);
    /// Every node.
    pub const NODES: Self = Self(&["request_policy:all_nodes"]);
    /// Every node; all must succeed.
    pub const NODES_SUCCEED: Self = Self(&["request_policy:all_nodes", "response_policy:all_succeeded"]);
    /// Every node; the integers are added.
    pub const NODES_SUM: Self = Self(&["request_policy:all_nodes", "response_policy:agg_sum"]);
    /// Every node; no rule joins the replies.
    pub const NODES_SPECIAL: Self = Self(&["request_policy:all_nodes", "response_policy:special"]);
    /// Every master; all must succeed.
    pub const SHARDS_SUCCEED: Self = Self(&["request_policy:all_shards", "response_policy:all_succeeded"]);
    /// Every master; one must succeed.
    pub const ONE_SHARD_SUCCEEDS: Self = Self(&["request_policy:all_shards", "response_policy:one_succeeded"]);
    /// Every master; the least integer.
    pub const SHARDS_LEAST: Self = Self(&["request_policy:all_shards", "response_policy:agg_min"]);
    /// Every master; what is true of all.
    pub const SHARDS_AGREE: Self = Self(&["request_policy:all_shards", "response_policy:agg_logical_and"]);
    /// Every master; no rule joins the replies.
    pub const SHARDS_SPECIAL: Self = Self(&["request_policy:all_shards", "response_policy:special"]);
}

/// What COMMAND INFO tells of a reply's dependence on more than the request and the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It has none.
    Same,
    /// Its elements are in any order.
    Unordered,
    /// It depends on time, chance or what else the server does.
    Varies,
}

/// A family of commands, named as in COMMAND DOCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Hashes.
    Hash,
    /// Strings as arrays of bits.
    Bitmap,
    /// Strings that count different elements.
    Hyperloglog,
    /// Sorted sets.
    SortedSet,
    /// Positions on the earth, in sorted sets.
    Geo,
    /// Streams.
    Stream,
    /// Messages to channels.
    PubSub,
    /// Several commands as one.
    Transactions,
    /// Commands chosen by a program while it runs.
    Scripting,
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// The server as a node of a cluster.
    Cluster,
}

impl Group {
    /// The name in COMMAND DOCS.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::Hash => "hash",
            Self::Bitmap => "bitmap",
            Self::Hyperloglog => "hyperloglog",
            Self::SortedSet => "sorted-set",
            Self::Geo => "geo",
            Self::Stream => "stream",
            Self::PubSub => "pubsub",
            Self::Transactions => "transactions",
            Self::Scripting => "scripting",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Cluster => "cluster",
        }
    }
}
