//! The open connections, as visible to each other.

use super::listening::{Accepted, Carries};
use crate::acl::Account;
use crate::base::clock::uptime_ms;
use crate::base::network::{Address, Stream};
use crate::commands::{CommandId, command};
use crate::keyspace::{Waiter, Watch};
use crate::pubsub::{Kind, PubSub, Subscriber, Tracker};
use crate::replication::Ends;
use crate::resp::{Args, Span};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};

/// One connection. Its task writes these fields; CLIENT LIST and the housekeeping read them.
#[derive(Debug)]
pub struct Client {
    /// Its number: counts up from 1.
    pub id: u64,
    /// The socket: shared so that others can shut it down.
    pub stream: Stream,
    /// Whether it is encrypted.
    pub carries: Carries,
    /// The only reply that it gets, if it is not served.
    pub denial: Option<&'static str>,
    /// The remote end.
    pub address: Address,
    /// The local end.
    pub local_address: Address,
    /// When it was accepted: by [`uptime_ms`](crate::base::clock::uptime_ms), like the other times here.
    pub connected_ms: u64,
    /// When it last sent or received something.
    pub last_seen_ms: AtomicU64,
    /// Its last command; `u16::MAX` for none, or for one that does not exist.
    last_command: AtomicU16,
    /// Bytes it has sent.
    pub input_bytes: AtomicU64,
    /// Bytes it was sent.
    pub sent_bytes: AtomicU64,
    /// Bytes of an incomplete request.
    pub query_bytes: AtomicU64,
    /// Room in its buffer for more.
    pub query_free: AtomicU64,
    /// Bytes of replies that it has not read.
    pub output_bytes: AtomicU64,
    /// Room in their buffers, while there are any.
    pub output_free: AtomicU64,
    /// Since when they have exceeded the soft limit; 0 if they do not.
    pub output_over_since_ms: AtomicU64,
    /// Commands that it has queued since MULTI; negative outside of a transaction.
    pub queued: AtomicI64,
    /// Bytes of their arguments.
    pub queued_bytes: AtomicU64,
    /// Whether it speaks RESP3.
    pub resp3: AtomicBool,
    /// The database that it has selected.
    pub database: AtomicU16,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// MONITOR.
    pub is_monitoring: AtomicBool,
    /// READONLY.
    pub is_readonly: AtomicBool,
    /// Whether it is closed when it has read its last reply.
    pub is_closing: AtomicBool,
    /// Its last WATCH, if that has not ended.
    watch: Mutex<Weak<Watch>>,
    /// Bytes of the keys that it watches, with their entries; those of its last WATCH, if that has ended.
    watched_bytes: AtomicU64,
    /// Bytes of the prefixes that are tracked for it, with their entries.
    prefix_bytes: AtomicU64,
    /// Bytes of its task.
    task_bytes: AtomicU64,
    /// What is counted of it in [`ClientMemory`](super::client_eviction::ClientMemory).
    pub(super) counted_bytes: AtomicU64,
    /// Whether it is a replica.
    pub is_replica: AtomicBool,
    /// Whether one of its requests waits for the end of a CLIENT PAUSE.
    pub is_paused: AtomicBool,
    /// Whether its requests may lack replies, or wait for the end of a CLIENT PAUSE: while that is so it is not idle.
    pub awaits_replies: AtomicBool,
    /// The names that it has given itself.
    pub labels: Mutex<Labels>,
    /// Whether its SHUTDOWN waits for the end of the server.
    pub is_stopping: AtomicBool,
    /// Whether it waits for something to take, with a timeout.
    pub waits_until: AtomicBool,
    /// Its waiter while it waits for something to take.
    pub waiter: Mutex<Option<Arc<Waiter>>>,
    /// The same from when its command is sent to the keys: until that has run, nobody is shown that it waits.
    pub taker: Mutex<Option<Arc<Waiter>>>,
    /// Whether it is gone for all others: what it has still sent takes nothing.
    pub is_killed: AtomicBool,
    /// The request that waits for something to take.
    pub waiting_request: Mutex<Option<Request>>,
    account: Mutex<Arc<Account>>,
    /// The queue of its messages, once it has subscribed, or another connection redirects messages to it.
    subscriber: OnceLock<Arc<Subscriber>>,
    /// What wakes its task when another connection has made that queue.
    redirected: Mutex<Option<Waker>>,
    /// What is tracked for it: CLIENT TRACKING.
    tracker: Mutex<Option<Arc<Tracker>>>,
}

/// About what the entries of one name take: of a connection, and in the table that leads from the name to it.
const NAME_BYTES: usize = 64;

fn bytes_of_names((names, bytes): (usize, usize)) -> u64 {
    (names * NAME_BYTES + bytes) as u64
}

fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed) + value, Ordering::Relaxed);
}

/// A request that waits: its command, and its arguments.
#[derive(Debug)]
pub struct Request {
    id: CommandId,
    arena: Box<[u8]>,
    spans: Box<[Span]>,
}

impl Request {
    /// A copy of a request.
    pub fn of(id: CommandId, args: Args<'_>) -> Self {
        let (mut arena, mut spans) = (Vec::new(), Vec::new());
        for argument in args.iter() {
            spans.push(Span::new(arena.len(), argument.len()));
            arena.extend_from_slice(argument);
        }
        Self { id, arena: arena.into(), spans: spans.into() }
    }

    /// Its command and its arguments.
    pub fn command(&self) -> (CommandId, Args<'_>) {
        (self.id, Args::new(&self.arena, &self.spans))
    }
}

/// The names that a connection has given itself.
#[derive(Debug, Default, Clone)]
pub struct Labels {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: String,
}

impl Client {
    /// A newly accepted connection.
    pub fn of(accepted: Accepted, id: u64, account: Arc<Account>) -> Self {
        let Accepted { stream, carries, address, local_address } = accepted;
        let now_ms = uptime_ms();
        Self {
            id,
            address,
            local_address,
            stream,
            carries,
            denial: None,
            connected_ms: now_ms,
            last_seen_ms: AtomicU64::new(now_ms),
            last_command: AtomicU16::new(u16::MAX),
            input_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            query_bytes: AtomicU64::new(0),
            query_free: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            output_free: AtomicU64::new(0),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicU64::new(0),
            output_over_since_ms: AtomicU64::new(0),
            resp3: AtomicBool::new(false),
            database: AtomicU16::new(0),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            is_monitoring: AtomicBool::new(false),
            is_readonly: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            watch: Mutex::default(),
            watched_bytes: AtomicU64::new(0),
            prefix_bytes: AtomicU64::new(0),
            task_bytes: AtomicU64::new(0),
            counted_bytes: AtomicU64::new(0),
            is_replica: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            awaits_replies: AtomicBool::new(false),
            labels: Mutex::new(Labels::default()),
            is_stopping: AtomicBool::new(false),
            waits_until: AtomicBool::new(false),
            waiter: Mutex::default(),
            taker: Mutex::default(),
            is_killed: AtomicBool::new(false),
            waiting_request: Mutex::default(),
            account: Mutex::new(account),
            subscriber: OnceLock::new(),
            redirected: Mutex::default(),
            tracker: Mutex::default(),
        }
    }

    /// The account of its user.
    pub fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account.lock())
    }

    /// Makes it the connection of a user.
    pub fn set_account(&self, account: Arc<Account>) {
        *self.account.lock() = account;
    }

    /// Logs that it is closed because it has this many bytes to take.
    pub fn report_output_limit(&self, unsent: u64) {
        tracing::warn!(
            "Client closed for overcoming of output buffer limits: id={} addr={} omem={unsent}",
            self.id,
            self.address
        );
    }

    /// Counts received bytes. Only the connection's task writes, so a plain addition loses nothing.
    pub fn note_input(&self, bytes: usize, now_ms: u64) {
        add(&self.input_bytes, bytes as u64);
        self.last_seen_ms.store(now_ms, Ordering::Relaxed);
        self.awaits_replies.store(true, Ordering::Relaxed);
    }

    /// Counts sent bytes.
    pub fn note_output(&self, bytes: usize, now_ms: u64) {
        add(&self.sent_bytes, bytes as u64);
        self.last_seen_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Records the command of its last request; `None` if there is no such command.
    #[inline]
    pub fn note_last_command(&self, id: Option<CommandId>) {
        self.last_command.store(id.map_or(u16::MAX, |id| id.0), Ordering::Relaxed);
    }

    /// The command of its last request; `None` if there was no request, or no such command.
    pub fn last_command(&self) -> Option<CommandId> {
        Some(self.last_command.load(Ordering::Relaxed)).filter(|&id| id != u16::MAX).map(CommandId)
    }

    /// Records the commands queued since MULTI.
    pub fn note_queued(&self, commands: usize, bytes: usize) {
        self.queued.store(i64::try_from(commands).expect("a transaction is bounded"), Ordering::Relaxed);
        self.queued_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Records that it watches keys: how many, and their bytes.
    pub fn note_watch(&self, watch: &Arc<Watch>, keys: (usize, usize)) {
        *self.watch.lock() = Arc::downgrade(watch);
        self.watched_bytes.store(bytes_of_names(keys), Ordering::Relaxed);
    }

    /// Records the size of its task.
    pub fn note_task(&self, bytes: usize) {
        self.task_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Whether its transaction will not run, because a key that it watches has changed.
    fn has_broken_watch(&self) -> bool {
        self.watch.lock().upgrade().is_some_and(|watch| watch.is_broken())
    }

    /// Records that its transaction is over.
    pub fn note_no_transaction(&self) {
        self.queued.store(-1, Ordering::Relaxed);
        self.queued_bytes.store(0, Ordering::Relaxed);
    }

    /// The queue of its messages, created if there is none. Its task takes them out as soon as it can be sent any.
    pub fn subscriber(&self, pubsub: &PubSub) -> Arc<Subscriber> {
        let subscriber = self.subscriber.get_or_init(|| pubsub.subscriber());
        // After the queue is there: see `choose_protocol`.
        subscriber.set_resp3(self.resp3.load(Ordering::SeqCst));
        if let Some(waker) = self.redirected.lock().take() {
            waker.wake();
        }
        Arc::clone(subscriber)
    }

    /// The queue of its messages, if it has one.
    #[inline]
    pub fn queue(&self) -> Option<&Arc<Subscriber>> {
        self.subscriber.get()
    }

    /// Ready when another connection has made the queue of its messages.
    pub fn poll_redirected(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut redirected = self.redirected.lock();
        if self.subscriber.get().is_some() {
            return Poll::Ready(());
        }
        match &mut *redirected {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Records which protocol it speaks.
    pub fn choose_protocol(&self, resp3: bool) {
        // In this order: a thread that makes the queue now sees it.
        self.resp3.store(resp3, Ordering::SeqCst);
        if let Some(subscriber) = self.subscriber.get() {
            subscriber.set_resp3(resp3);
        }
    }

    /// Records that it has ended for all others: none redirects messages to it.
    pub fn leave_queue(&self) {
        if let Some(subscriber) = self.subscriber.get() {
            subscriber.leave();
        }
    }

    /// What is tracked for it: CLIENT TRACKING.
    pub fn tracker(&self) -> Option<Arc<Tracker>> {
        self.tracker.lock().clone()
    }

    /// Records what is tracked for it.
    pub fn set_tracker(&self, tracker: Option<Arc<Tracker>>) {
        let prefixes = tracker.as_ref().map(|tracker| tracker.prefixes()).unwrap_or_default();
        let size = (prefixes.len(), prefixes.iter().map(|prefix| prefix.len()).sum());
        self.prefix_bytes.store(bytes_of_names(size), Ordering::Relaxed);
        *self.tracker.lock() = tracker;
    }

    /// Whether it is subscribed to a channel.
    pub fn is_listening(&self) -> bool {
        self.subscriber.get().is_some_and(|subscriber| subscriber.is_listening())
    }

    /// Whether it is a replica.
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }

    /// Bytes of replies and messages that it has not read.
    pub fn unread_bytes(&self) -> u64 {
        self.output_bytes.load(Ordering::Relaxed)
            + self.subscriber.get().map_or(0, |subscriber| subscriber.queued_bytes())
    }

    /// Bytes that it takes: itself, its buffers, and the names that it has given. Not what its session over TLS takes.
    pub fn memory(&self) -> u64 {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let is_watching = self.watch.lock().strong_count() > 0;
        size_of::<Self>() as u64
            + load(&self.task_bytes)
            + load(&self.query_bytes)
            + load(&self.query_free)
            + load(&self.queued_bytes)
            + self.unread_bytes()
            + load(&self.output_free)
            + if is_watching { load(&self.watched_bytes) } else { 0 }
            + load(&self.prefix_bytes)
            + self.subscriber.get().map_or(0, |subscriber| bytes_of_names(subscriber.names()))
    }

    fn subscriptions(&self, kind: Kind) -> usize {
        self.subscriber.get().map_or(0, |subscriber| subscriber.count(kind))
    }

    /// Whether one of its requests waits for other connections.
    pub fn is_waiting(&self) -> bool {
        let has = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        self.waiter.lock().is_some() || has(&self.is_paused) || has(&self.is_stopping)
    }

    /// Whether `timeout` ends it when it is idle: not if it waits for others, as in Redis.
    pub fn may_idle_out(&self) -> bool {
        let has = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        !(has(&self.awaits_replies) || has(&self.is_monitoring) || has(&self.is_replica) || self.is_listening())
    }

    /// Ends the connection: its task sees the end of the stream.
    pub fn shut_down(&self, how: std::net::Shutdown) {
        self.stream.shut_down(how);
    }

    /// The line of CLIENT LIST and CLIENT INFO. `running` is the running request if the connection describes itself:
    /// its bytes, including those received after it, and those of its arguments.
    pub fn describe(&self, now_ms: u64, running: Option<(u64, u64)>) -> String {
        let age_s = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let labels = self.labels.lock().clone();
        let cmd = self.last_command().map_or("NULL", |id| command(id).name);
        let unread = self.unread_bytes();
        let queued = self.queued.load(Ordering::Relaxed);
        let (query_bytes, argument_bytes) = running.unwrap_or((load(&self.query_bytes), 0));
        let multi_bytes = load(&self.queued_bytes);
        let running_bytes =
            running.map_or(0, |_| query_bytes - load(&self.query_bytes).min(query_bytes)) + argument_bytes;
        let mut flags = String::new();
        let tracker = self.tracker();
        let is_so = |what: fn(&Tracker) -> bool| tracker.as_ref().is_some_and(|tracker| what(tracker));
        let has = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        for (is_set, letter) in [
            (has(&self.is_replica), 'S'),
            (has(&self.is_monitoring), 'O'),
            (self.is_listening(), 'P'),
            (queued >= 0, 'x'),
            (self.is_waiting(), 'b'),
            (tracker.is_some(), 't'),
            (is_so(Tracker::is_redirection_lost), 'R'),
            (is_so(Tracker::is_by_prefix), 'B'),
            (self.has_broken_watch(), 'd'),
            // One of a replica takes no more requests, and stays.
            (has(&self.is_closing) && !has(&self.is_replica), 'c'),
            (matches!(self.stream, Stream::Unix(_)), 'U'),
            (has(&self.is_readonly), 'r'),
            (has(&self.no_evict), 'e'),
            (has(&self.no_touch), 'T'),
        ] {
            flags.extend(is_set.then_some(letter));
        }
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={queued} \
             qbuf={query_bytes} qbuf-free={} argv-mem={argument_bytes} multi-mem={multi_bytes} rbs=0 rbp=0 obl={} oll={} \
             omem={unread} tot-mem={} events={} cmd={} \
             user={} redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            self.stream.socket_number(),
            labels.name,
            age_s(self.connected_ms),
            age_s(load(&self.last_seen_ms)),
            if flags.is_empty() { "N" } else { &flags },
            self.database.load(Ordering::Relaxed),
            self.subscriptions(Kind::Channel),
            self.subscriptions(Kind::Pattern),
            self.subscriptions(Kind::ShardChannel),
            load(&self.query_free),
            load(&self.output_bytes),
            self.subscriber.get().map_or(0, |subscriber| subscriber.queued()),
            self.memory() + running_bytes,
            if unread > 0 { "rw" } else { "r" },
            cmd,
            String::from_utf8_lossy(&self.account().name),
            tracker.as_ref().map_or(-1, |tracker| tracker.redirects_to() as i64),
            if self.resp3.load(Ordering::Relaxed) { 3 } else { 2 },
            labels.lib_name,
            labels.lib_ver,
        )
    }
}

/// The line of CLIENT LIST for a replica's link to its master: its last command is not known.
pub fn describe_link(ends: &Ends, heard_ms: u64, database: u16, now_ms: u64) -> String {
    let Ends { id, connected_ms, master, local } = ends;
    let age_s = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    format!(
        "id={id} addr={master} laddr={local} fd=-1 name= age={} idle={} flags=M db={database} sub=0 psub=0 ssub=0 \
         multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r \
         cmd=NULL user=(superuser) redir=-1 resp=2 lib-name= lib-ver=",
        age_s(*connected_ms),
        age_s(heard_ms),
    )
}

/// Figures of all connections.
#[derive(Debug, Default)]
pub struct ClientFigures {
    /// How many there are without the replicas.
    pub connected: usize,
    /// The most bytes of an incomplete request.
    pub input_max: u64,
    /// The most bytes of replies and messages that one has not read.
    pub output_max: u64,
    /// How many wait for others.
    pub blocked: usize,
    /// How many wait for something to take, with a timeout.
    pub with_timeout: usize,
    /// How many keys they wait for.
    pub awaited_keys: usize,
    /// For how many of these the wait ends when the key is removed.
    pub ending_keys: usize,
}

/// All connections, by number. Locked when one comes or goes and for lists, not per command.
#[derive(Debug, Default)]
pub struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Those that were killed, until their tasks end: only their counters matter. Never locked before `open`.
    killed: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_id: AtomicU64,
}

impl Clients {
    /// The number of the next connection.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a connection unless there are already `most`.
    pub fn add(&self, client: &Arc<Client>, most: u64) -> bool {
        let mut open = self.open.lock();
        let has_room = (open.len() as u64) < most;
        if has_room {
            open.insert(client.id, Arc::clone(client));
        }
        has_room
    }

    /// A connection by its number.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.open.lock().get(&id).cloned()
    }

    /// Removes a connection whose task has ended.
    pub fn remove(&self, id: u64) {
        let was_open = self.open.lock().remove(&id).is_some();
        if !was_open {
            self.killed.lock().remove(&id);
        }
    }

    /// Removes a connection for all others, while its task has still to end.
    pub(super) fn kill(&self, id: u64) {
        let mut open = self.open.lock();
        if let Some(client) = open.remove(&id) {
            self.killed.lock().insert(id, client);
        }
    }

    /// Visits all open connections.
    pub(super) fn for_each(&self, visit: impl FnMut(&Arc<Client>)) {
        self.open.lock().values().for_each(visit);
    }

    /// Visits all connections whose tasks have not ended, also killed ones, each once.
    pub fn for_each_unfinished(&self, mut visit: impl FnMut(&Client)) {
        let open = self.open.lock();
        let killed = self.killed.lock();
        open.values().chain(killed.values()).for_each(|client| visit(client));
    }

    /// How many connections are open.
    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// What INFO says of all connections, in one pass over them.
    pub fn figures(&self) -> ClientFigures {
        let mut figures = ClientFigures::default();
        let mut waiters = Vec::new();
        for client in self.open.lock().values() {
            let is_set = |flag: &AtomicBool| usize::from(flag.load(Ordering::Relaxed));
            figures.connected += usize::from(!client.is_replica());
            figures.input_max = figures.input_max.max(client.query_bytes.load(Ordering::Relaxed));
            figures.output_max = figures.output_max.max(client.unread_bytes());
            figures.blocked += usize::from(client.is_waiting());
            figures.with_timeout += is_set(&client.waits_until);
            waiters.extend(client.waiter.lock().clone());
        }
        (figures.awaited_keys, figures.ending_keys) = awaited_keys(&waiters);
        figures
    }

    /// Bytes that connections take, but for replicas: what these have not read is a part of the stream.
    pub fn memory(&self) -> u64 {
        let open = self.open.lock();
        open.values().filter(|client| !client.is_replica()).map(|client| client.memory()).sum()
    }

    /// All current connections, in order of arrival.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.open.lock().values().cloned().collect()
    }
}

/// How many keys connections wait for, and how many of these waits end when the key is removed: those of readers for
/// groups.
fn awaited_keys(waiters: &[Arc<Waiter>]) -> (usize, usize) {
    let (mut keys, mut ending) = (HashSet::new(), HashSet::new());
    for queues in waiters.iter().filter_map(|waiter| waiter.queues()) {
        for key in queues.keys.iter().map(|key| (queues.database, key)) {
            keys.insert(key);
            ending.extend(queues.ends_without_key.then_some(key));
        }
    }
    (keys.len(), ending.len())
}
