//! A connection: one task that reads, dispatches, puts replies in order and writes.
//!
//! One task and not two: a reader and a writer cost 10 to 37 % more CPU per operation, for handing data to each other.
//! The task waits for anything that lets it continue: bytes to read, room to write, replies that are back.

pub mod local;
mod monitor;
mod pending_request;
mod replica;

pub use local::serve_scripts;

use crate::base::buffers;
use crate::base::narrowing::size;
use crate::base::routing::slot_of;
use crate::base::ticks;
use crate::commands::{self, Command, CommandId, Flags, Request, Transaction};
use crate::config::{Directive, QUERY_BYTES_MAX};
use crate::engine::{GATHERED_BYTES_MAX, LoadingSession, Session};
use crate::keyspace::Class;
use crate::resp::{Args, CommandError, Limits, Output, RequestParser, SHARED_MIN, Step, quoted};
use crate::scripting::Scripting;
use crate::state::Server;
use crate::state::clients::Client;
use crate::stats::stages::Stage;
use bytes::{BufMut, Bytes};
use local::{ConnectionState, LocalCall, Multi, Mute};
use pending_request::{PendingRequest, RequestContext};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

/// Unsent replies, in bytes, above which a connection's socket is not read: a client that reads no replies can send no
/// more work.
const OUTPUT_HIGH_WATER: usize = 1024 * 1024;
/// Replies, in bytes, that are written without waiting for further replies.
const COALESCE_MAX: usize = 64 * 1024;

/// The minimum time between two log lines about HTTP.
const ATTACK_PAUSE: Duration = Duration::from_secs(60);
/// Bytes that are written before the other connections of the thread have their turn.
const WRITTEN_AT_ONCE: usize = 256 * 1024;

/// An incomplete request is read in pieces of at least this many bytes.
const PARTIAL_READ_MIN: usize = 16 * 1024;
/// And at most this many.
const PARTIAL_READ_MAX: usize = 16 * 1024 * 1024;
/// When the minimum has come, there is room for as many bytes as are announced up to this many, and for four times the
/// bytes that have come: to announce bytes takes little memory.
const BELIEVED: usize = 1024 * 1024;
/// A request of so many bytes is large: it is read into a buffer of its own, which may be shared.
const LARGE: usize = SHARED_MIN;
/// After a large request of at most this many bytes, the next is read into a buffer as large; after a larger one its
/// beginning is read first.
const EXPECTED_MAX: usize = 128 * 1024;
/// Bytes of requests that are accepted before their commands are sent: as many as the largest `read-size`.
const TAKEN_ON_AT_ONCE: usize = 16 * 1024 * 1024;

/// The position of an argument in a request, or in a batch, has 32 bits.
const _: () = assert!(size(QUERY_BYTES_MAX) + PARTIAL_READ_MAX + TAKEN_ON_AT_ONCE <= u32::MAX as usize);

/// What a connection waited for.
enum Event {
    Readable,
    Writable,
    Replies,
    Messages,
    Unpaused,
}

/// Messages that leave after all replies that may have caused them.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The number of messages that had come.
    messages: u64,
    /// The number of requests that had been accepted.
    requests: u64,
}

/// Serves one connection until it ends.
pub async fn serve<S: Session>(server: Arc<Server>, client: Arc<Client>, session: S) {
    Connection::new(server, client, session).run_to_its_end().await;
}

/// Serves a connection that comes before the data is loaded. `session` resolves when it is.
pub async fn serve_early<S: Session>(server: Arc<Server>, client: Arc<Client>, session: impl Future<Output = S>) {
    let mut connection = Connection::new(server, client, LoadingSession::default());
    // The connection owns all state: dropping the future at any await loses nothing.
    let session = tokio::select! {
        biased;
        session = session => Some(session),
        () = connection.run_until_it_ends() => None,
    };
    match session {
        Some(session) => connection.with_session(session).run_to_its_end().await,
        None => connection.requests.end().await,
    }
}

fn new_state(server: &Server) -> ConnectionState {
    let is_authenticated = server.config.text(Directive::Requirepass).is_empty();
    ConnectionState::new(is_authenticated)
}

/// Invariants: `partial[taken..]` begins with the first byte of a request; if that is empty, so is `partial`.
struct Connection<S> {
    requests: Requests<S>,
    /// The beginning of an incomplete request, or requests that wait for room.
    partial: Vec<u8>,
    /// How much of `partial` was accepted.
    taken: usize,
    /// Whether `partial` holds bytes that the parser has not seen.
    has_unparsed: bool,
    /// The bytes of the last request if it was large, so that the next one probably is; otherwise 0.
    expected: usize,
    /// Whether the client sends no more.
    is_at_end: bool,
    /// Replies and messages to write.
    out: Output,
    /// Whether the socket took less than it was offered.
    is_blocked: bool,
    /// The next messages to leave.
    due: Option<Due>,
    /// Whether the last read is watched: see [`stages`].
    is_watched: bool,
}

impl<S: Session> Connection<S> {
    fn new(server: Arc<Server>, client: Arc<Client>, session: S) -> Self {
        let state = new_state(&server);
        Self {
            requests: Requests {
                server,
                client,
                session,
                state,
                parser: RequestParser::default(),
                pending: None,
                scripts: None,
                awaits_replies: false,
                is_paused: false,
                is_muted: false,
            },
            partial: Vec::new(),
            taken: 0,
            has_unparsed: false,
            expected: 0,
            is_at_end: false,
            out: Output::default(),
            is_blocked: false,
            due: None,
            is_watched: false,
        }
    }

    async fn run_to_its_end(mut self) {
        self.run_until_it_ends().await;
        self.requests.end().await;
        let Requests { server, client, state, .. } = &mut self.requests;
        if let Some(request) = state.sync.take() {
            // Its replies are written: the connection has nothing else to do.
            replica::serve(server, client, request).await;
        }
    }

    async fn run_until_it_ends(&mut self) {
        if let Err(error) = self.run().await {
            tracing::debug!(client = self.requests.client.id, "Connection ended: {error}");
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        loop {
            self.requests.session.flush().await;
            self.requests.session.collect(&mut self.out);
            self.requests.note_slow();
            if self.requests.state.subscription.is_some() {
                self.take_messages().await;
            }
            self.send_replies().await?;
            // Last: a pending request may wait for replies collected above.
            if self.requests.go_on(&mut self.out) {
                continue;
            }
            if self.requests.session.goes_on(self.out.unsent() < OUTPUT_HIGH_WATER) {
                continue;
            }
            if self.is_finished() {
                return Ok(());
            }
            if self.has_unparsed && self.has_room() {
                if self.take_on_partial()? > TAKEN_ON_AT_ONCE {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            // Replies collected above may have released them.
            if self.wants_messages() && self.due.is_some_and(|due| self.is_free(due)) {
                continue;
            }
            self.give_back_buffers();
            if self.has_more_to_write() {
                // Not only ready tasks: the sockets of other connections must be polled, too.
                tokio::task::yield_now().await;
                continue;
            }
            match self.next_event().await? {
                Event::Readable => self.read()?,
                Event::Writable => self.is_blocked = false,
                Event::Replies | Event::Messages => {}
                Event::Unpaused => self.requests.unpause(),
            }
        }
    }

    /// Moves messages to the output while there are any to move.
    async fn take_messages(&mut self) {
        self.move_messages();
        self.wait_for_log().await;
        // Publishers may be faster than any socket.
        tokio::task::coop::consume_budget().await;
    }

    /// Moves messages to the output: between replies, and after the replies that may have caused them. Messages without
    /// room stay in the queue, where publishers see them.
    fn move_messages(&mut self) {
        while let Some(due) = self.due_messages() {
            let Requests { state, .. } = &mut self.requests;
            let subscription = state.subscription.as_mut().expect("the caller has seen it");
            let room = self.out.room(OUTPUT_HIGH_WATER);
            let is_done = subscription.take_messages(due.messages, state.context.resp3, self.out.buffer(), room);
            if !is_done {
                break;
            }
            self.due = None;
        }
        self.note_unsent();
    }

    /// The messages that may leave now.
    fn due_messages(&mut self) -> Option<Due> {
        if !self.wants_messages() {
            return None;
        }
        let Requests { session, state, .. } = &mut self.requests;
        if self.due.is_none() {
            let (messages, is_empty) = state.subscription.as_ref()?.subscriber().received();
            self.due = (!is_empty).then(|| Due { messages, requests: session.taken_on() });
        }
        // After reading the queue: a reply older than a message in it is seen here.
        self.due.filter(|due| self.is_free(*due))
    }

    /// Whether nothing holds these messages back.
    fn is_free(&self, due: Due) -> bool {
        let Requests { session, pending, .. } = &self.requests;
        pending.as_ref().is_none_or(PendingRequest::lets_messages_pass) && session.replied() >= due.requests
    }

    /// Whether the output accepts messages. A closing connection accepts none, so that its output drains.
    fn wants_messages(&self) -> bool {
        self.out.unsent() < OUTPUT_HIGH_WATER && !self.requests.state.is_closing && !self.is_at_end
    }

    /// Waits for the log: the message of a change is not shown before the log permits it, like a reply.
    async fn wait_for_log(&mut self) {
        let Requests { session, state, .. } = &mut self.requests;
        let marks = state.subscription.as_mut().map(|subscription| subscription.take_marks()).unwrap_or_default();
        if !session.log().is_released(&marks) {
            session.log().released(&marks).await;
        }
    }

    /// Writes ready replies. If more are about to come, it lets them come first: one write for all.
    async fn send_replies(&mut self) -> io::Result<()> {
        if self.out.unsent() == 0 || self.is_blocked {
            return self.check_output();
        }
        if self.requests.session.is_waiting() && self.out.unsent() < COALESCE_MAX {
            actors::yield_now().await;
            self.requests.session.collect(&mut self.out);
            self.requests.note_slow();
        }
        self.check_output()?;
        self.write()
    }

    /// Waits for an event.
    async fn next_event(&mut self) -> io::Result<Event> {
        let is_session_waiting = self.requests.session.is_waiting();
        let wants_replies = is_session_waiting || self.requests.pending.is_some();
        let wants_read = !self.is_at_end && !self.requests.state.is_closing && self.has_room_to_read();
        let wants_write = self.is_blocked;
        let is_paused = self.requests.is_paused;
        // It was set when the request came, and its reply is written: there is no gap in between.
        self.requests.client.awaits_replies.store(wants_replies || is_paused, Ordering::Relaxed);
        let wants_messages = self.wants_messages()
            && self.due.is_none()
            && self.requests.pending.as_ref().is_none_or(PendingRequest::lets_messages_pass);
        let Requests { server, client, session, pending, state, .. } = &mut self.requests;
        let mut unpaused = pin!(server.pause.ended());
        let mut replies = pin!(async {
            match pending {
                Some(pending) if !is_session_waiting => pending.changed(session, server).await,
                _ => session.wait().await,
            }
        });
        poll_fn(|context| {
            if wants_replies && replies.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Replies));
            }
            if is_paused && unpaused.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Unpaused));
            }
            if wants_read && let Poll::Ready(result) = client.stream.poll_read_ready(context) {
                return Poll::Ready(result.map(|()| Event::Readable));
            }
            if wants_write && let Poll::Ready(result) = client.stream.poll_write_ready(context) {
                return Poll::Ready(result.map(|()| Event::Writable));
            }
            // Last: messages are sent along with anything else.
            if let Some(subscription) = &state.subscription
                && subscription.subscriber().poll(context, wants_messages).is_ready()
            {
                return Poll::Ready(Ok(Event::Messages));
            }
            Poll::Pending
        })
        .await
    }

    /// Reads once: into this thread's buffer, or after the beginning of an incomplete request.
    fn read(&mut self) -> io::Result<()> {
        let start = self.requests.server.instance.stages.watches_next_read().then(ticks::now);
        if !self.partial.is_empty() || self.requests.pending.is_some() || self.expected > 0 {
            return self.read_on(start);
        }
        buffers::with_scratch(self.requests.server.read_size.get(), |scratch| {
            let result = self.requests.client.stream.read_once(scratch);
            let Some(len) = self.note_read(result, start)? else { return Ok(()) };
            let consumed = self.accept(&scratch[..len], None);
            self.keep_rest(&scratch[consumed..len]);
            self.check_partial()
        })
    }

    /// Keeps the beginning of an incomplete request, with room for the rest if that is large.
    fn keep_rest(&mut self, rest: &[u8]) {
        if let Some(wanted) = self.requests.parser.bytes_wanted_of_large(rest.len()) {
            self.partial.reserve_exact(rest.len() + believed(wanted, rest.len()));
        }
        self.partial.extend_from_slice(rest);
    }

    /// Makes room for the next read. A buffer that may be shared has the size of its request; any other one doubles, so
    /// that bytes are not copied often, and only as bytes come: to announce them takes no memory.
    fn make_room(&mut self) {
        let have = self.partial.len() - self.taken;
        let Requests { parser, .. } = &self.requests;
        match parser.bytes_wanted_of_large(have) {
            Some(wanted) => self.partial.reserve_exact(believed(wanted, have)),
            None if have == 0 && self.expected <= EXPECTED_MAX => {
                self.partial.reserve_exact(self.expected.max(PARTIAL_READ_MIN));
            }
            None => self.partial.reserve(parser.bytes_wanted(have).min(have).max(PARTIAL_READ_MIN)),
        }
    }

    fn read_on(&mut self, start: Option<u64>) -> io::Result<()> {
        self.give_back_taken();
        self.make_room();
        let result = self.requests.client.stream.try_read_buf(&mut (&mut self.partial).limit(PARTIAL_READ_MAX));
        if self.note_read(result, start)?.is_some() {
            self.has_unparsed = true;
        } else if self.partial.is_empty() {
            // Nothing may come for a long time.
            self.partial = Vec::new();
        }
        if self.requests.pending.is_some() {
            // It is not accepted before that has its reply.
            self.check_partial()?;
        }
        Ok(())
    }

    /// How many bytes a read returned; `None` if it must be tried again or the client sends no more. A watched read
    /// passes its start time.
    fn note_read(&mut self, result: io::Result<usize>, start: Option<u64>) -> io::Result<Option<usize>> {
        match result {
            Ok(0) => {
                self.is_at_end = true;
                Ok(None)
            }
            Ok(len) => {
                if let Some(start) = start {
                    self.requests.server.instance.stages.note_since(Stage::Read, start);
                    self.is_watched = true;
                }
                self.requests.client.note_input(len, self.requests.server.coarse_uptime_ms());
                Ok(Some(len))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Accepts what has been read, and returns how many bytes that took.
    fn take_on_partial(&mut self) -> io::Result<usize> {
        let partial = std::mem::take(&mut self.partial);
        if self.is_single_large(&partial) {
            return self.take_on_large(Bytes::from(partial));
        }
        let consumed = self.accept(&partial[self.taken..], None);
        self.taken += consumed;
        self.expected = 0;
        if self.taken == partial.len() {
            self.taken = 0;
            buffers::give(partial, self.requests.server.instance.pressure.is_tight());
        } else {
            self.partial = partial;
            self.give_back_taken();
        }
        self.check_partial()?;
        Ok(consumed)
    }

    /// Whether `partial` seems to be a single large request, in a buffer of about its size.
    fn is_single_large(&self, partial: &Vec<u8>) -> bool {
        let len = partial.len();
        let is_one = || self.requests.parser.ends_at(len) || len == self.expected;
        len >= LARGE && self.taken == 0 && partial.capacity() - len <= len / 8 && is_one()
    }

    /// Does what [`take_on_partial`](Self::take_on_partial) does with bytes that may be shared.
    fn take_on_large(&mut self, large: Bytes) -> io::Result<usize> {
        let consumed = self.accept(&large, Some(&large));
        self.expected = if consumed == large.len() { consumed } else { 0 };
        if consumed < large.len() {
            // If nothing shares them, they are not copied.
            self.partial = large.into();
            self.taken = consumed;
            self.give_back_taken();
        }
        self.check_partial()?;
        Ok(consumed)
    }

    /// Moves the rest of `partial` to its start, if that is the smaller part: requests that are accepted one by one do
    /// not move all following bytes each time.
    fn give_back_taken(&mut self) {
        if self.taken > self.partial.len() / 2 {
            self.partial.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Accepts the requests in `input`, and returns how many bytes they took. `owner` is the same bytes, if they may be
    /// shared.
    fn accept(&mut self, input: &[u8], owner: Option<&Bytes>) -> usize {
        if self.requests.state.subscription.is_some() {
            // Messages that came before this read leave before its replies.
            self.move_messages();
        }
        let watched = std::mem::take(&mut self.is_watched).then(|| self.requests.begin_watch());
        let (consumed, has_stopped) = self.requests.accept(input, owner, &mut self.out);
        if let Some(start) = watched {
            self.requests.end_watch(start);
        }
        self.has_unparsed = has_stopped && consumed < input.len();
        consumed
    }

    fn check_partial(&self) -> io::Result<()> {
        let unread = (self.partial.len() - self.taken) as u64;
        set_if_changed(&self.requests.client.query_bytes, unread);
        if unread > self.requests.server.config.number(Directive::ClientQueryBufferLimit) {
            tracing::warn!(client = self.requests.client.id, "Closing client that reached max query buffer length");
            return Err(io::Error::other("the request is over client-query-buffer-limit"));
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        if self.requests.session.take_watched() {
            let start = ticks::now();
            let result = self.write_unsent();
            self.requests.server.instance.stages.note_since(Stage::Write, start);
            return result;
        }
        self.write_unsent()
    }

    /// Writes what the socket takes, up to one turn's worth.
    fn write_unsent(&mut self) -> io::Result<()> {
        let mut left = WRITTEN_AT_ONCE;
        loop {
            let next = self.out.next(left);
            match self.requests.client.stream.try_write(next) {
                Ok(len) => {
                    self.is_blocked = len < next.len();
                    left -= len;
                    self.out.note_sent(len);
                    self.requests.client.note_output(len, self.requests.server.coarse_uptime_ms());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
                Err(error) => return Err(error),
            }
            if self.is_blocked || left == 0 || self.out.unsent() == 0 {
                break;
            }
        }
        self.note_unsent();
        Ok(())
    }

    /// Whether the socket may take more than it was offered in this turn.
    fn has_more_to_write(&self) -> bool {
        self.out.unsent() > 0 && !self.is_blocked
    }

    /// A client that reads no replies is cut off before they use up the server's memory. (The housekeeping checks the
    /// soft limit: a blocked connection does not run.)
    fn check_output(&mut self) -> io::Result<()> {
        let Requests { server, state, .. } = &self.requests;
        let has_overflowed =
            state.subscription.as_ref().is_some_and(|subscription| subscription.subscriber().is_overflowed());
        if !has_overflowed && !self.out.is_over_limit() && self.out.unsent() <= server.output_max(state.is_listening())
        {
            return Ok(());
        }
        self.requests.server.stats.over_limit.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(client = self.requests.client.id, "Client closed for overcoming of output buffer limits.");
        Err(io::Error::other("unread replies are over client-output-buffer-limit"))
    }

    fn note_unsent(&self) {
        let unsent = self.out.unsent() as u64;
        set_if_changed(&self.requests.client.output_bytes, unsent);
        if let Some(subscription) = &self.requests.state.subscription {
            subscription.subscriber().set_unsent(unsent);
        }
    }

    /// Whether another read's worth of requests may be accepted.
    fn has_room(&self) -> bool {
        self.out.unsent() < OUTPUT_HIGH_WATER
            && self.requests.session.has_room()
            && self.requests.pending.is_none()
            && !self.requests.is_paused
            && !(self.requests.awaits_replies && self.requests.has_unreplied())
    }

    /// Whether the socket is read. While a request waits, it is read up to `client-query-buffer-limit`, to notice when
    /// the client closes.
    fn has_room_to_read(&self) -> bool {
        match &self.requests.pending {
            Some(pending) => pending.is_waiting(),
            None => !self.has_unparsed && self.has_room(),
        }
    }

    fn is_finished(&self) -> bool {
        if self.is_at_end && self.requests.pending.as_ref().is_some_and(PendingRequest::is_waiting) {
            return true;
        }
        let is_ending = self.requests.state.is_closing || (self.is_at_end && !self.has_unparsed);
        is_ending && self.requests.pending.is_none() && self.out.unsent() == 0 && !self.requests.session.is_waiting()
    }

    fn give_back_buffers(&mut self) {
        // Replies that are still to come will need it.
        if !self.requests.session.is_waiting() {
            self.out.give_back_buffer(self.requests.server.instance.pressure.is_tight());
        }
    }
}

impl Connection<LoadingSession> {
    /// This connection, with a session over the data that is loaded now.
    fn with_session<S: Session>(self, mut session: S) -> Connection<S> {
        let Self { requests, partial, taken, has_unparsed, expected, is_at_end, out, is_blocked, due, is_watched } =
            self;
        let Requests {
            server,
            client,
            session: early,
            state,
            parser,
            pending,
            scripts,
            awaits_replies,
            is_paused,
            is_muted,
        } = requests;
        session.set_muted(is_muted);
        pending_request::end_early_watch(&state);
        if let Some(transaction) = early.into_begun() {
            session.begin(transaction);
        }
        let requests =
            Requests { server, client, session, state, parser, pending, scripts, awaits_replies, is_paused, is_muted };
        Connection { requests, partial, taken, has_unparsed, expected, is_at_end, out, is_blocked, due, is_watched }
    }
}

/// For how many of the bytes that are announced there is room, when `have` bytes have come.
fn believed(wanted: usize, have: usize) -> usize {
    let most = if have < PARTIAL_READ_MIN { PARTIAL_READ_MIN } else { BELIEVED.max(4 * have) };
    wanted.min(most)
}

fn set_if_changed(gauge: &AtomicU64, value: u64) {
    if gauge.load(Ordering::Relaxed) != value {
        gauge.store(value, Ordering::Relaxed);
    }
}

/// A request within the bytes of its read.
struct Found<'a> {
    input: &'a [u8],
    /// The bytes of the read, if they may be shared.
    owner: Option<&'a Bytes>,
    place: Range<usize>,
}

impl<'a> Found<'a> {
    /// The bytes of the read, if they may be shared and are nothing but this request.
    fn owner(&self) -> Option<&'a Bytes> {
        self.owner.filter(|_| self.place.start == 0 && self.is_last())
    }

    /// The bytes of the read, from the request on.
    fn rest(&self) -> &'a [u8] {
        &self.input[self.place.start..]
    }

    fn is_last(&self) -> bool {
        self.place.end == self.input.len()
    }
}

/// Takes requests out of bytes and makes sure that each gets its reply.
struct Requests<S> {
    server: Arc<Server>,
    client: Arc<Client>,
    session: S,
    state: ConnectionState,
    parser: RequestParser,
    /// A request whose reply comes later: no further request is accepted before.
    pending: Option<PendingRequest>,
    /// Scripts of the current read, which will run together.
    scripts: Option<Box<Transaction>>,
    /// Whether the next request publishes or subscribes, and must run after the replies of those before it.
    awaits_replies: bool,
    /// Whether the next request waits for the end of a CLIENT PAUSE.
    is_paused: bool,
    /// Whether the session drops replies.
    is_muted: bool,
}

impl<S: Session> Requests<S> {
    /// Accepts requests until `input` has no more, it was many, `out` has no room, or the connection must close.
    /// Returns how many bytes they took, and whether it stopped before the parser had seen all of them.
    fn accept(&mut self, input: &[u8], owner: Option<&Bytes>, out: &mut Output) -> (usize, bool) {
        let limits = Limits {
            bulk_len_max: self.server.config.size(Directive::ProtoMaxBulkLen),
            authenticated: self.state.is_authenticated,
        };
        self.awaits_replies = false;
        let mut consumed = 0;
        let mut commands = 0;
        let mut has_stopped = loop {
            if self.session.has_gathered_enough() && !self.session.run_gathered(input, out) {
                break true;
            }
            let has_enough = out.unsent() > OUTPUT_HIGH_WATER || consumed > TAKEN_ON_AT_ONCE || self.session.is_full();
            if has_enough || self.state.is_closing || self.pending.is_some() {
                break true;
            }
            let limits = Limits { authenticated: self.state.is_authenticated, ..limits };
            match self.parser.parse(&input[consumed..], limits) {
                Ok(Step::Incomplete) => break false,
                Ok(Step::Nothing(len)) => consumed += len,
                Ok(Step::Request(len)) => {
                    if !self.take_on_one(Found { input, owner, place: consumed..consumed + len }, out) {
                        // Its bytes stay, and are parsed again.
                        self.awaits_replies = true;
                        break true;
                    }
                    consumed += len;
                    commands += 1;
                }
                Err(_) if !self.session.run_gathered(input, out) => break true,
                Err(error) => {
                    self.server.instance.calls.note_error_text("ERR");
                    let resp3 = self.state.context.resp3;
                    self.session.reply_locally(resp3, out.buffer(), |reply| {
                        reply.error(format_args!("ERR Protocol error: {error}"))
                    });
                    self.state.is_closing = true;
                    consumed = input.len();
                }
            }
        };
        self.begin_scripts();
        self.session.run_gathered(input, out);
        if let Some(left) = self.session.take_left() {
            (consumed, commands, has_stopped) = (left.at, commands - left.commands, true);
            self.parser.go_back();
        } else if self.state.is_closing {
            consumed = input.len();
        }
        self.client.note_commands(commands);
        (consumed, has_stopped)
    }

    /// Begins to watch what is accepted next; returns the start time.
    fn begin_watch(&mut self) -> u64 {
        self.session.watch();
        ticks::now()
    }

    /// Ends the parsing stage of what was accepted since `start`.
    fn end_watch(&self, start: u64) {
        let took = ticks::now().saturating_sub(start);
        self.server.instance.stages.note(Stage::Parse, took.saturating_sub(self.session.ticks_within()));
    }

    /// Accepts the request that the parser found; false if it must wait for earlier replies, or these have no room.
    fn take_on_one(&mut self, found: Found<'_>, out: &mut Output) -> bool {
        if self.state.mute == Mute::Nothing && !self.is_muted {
            return self.take_on_heard(found, out);
        }
        self.take_on_unheard(found, out)
    }

    /// The same, when CLIENT REPLY has been used.
    #[cold]
    fn take_on_unheard(&mut self, found: Found<'_>, out: &mut Output) -> bool {
        if !self.session.run_gathered(found.input, out) {
            return false;
        }
        let args = self.parser.args(found.rest());
        let asks_for_replies = args.len() == 3 && args.is(0, "CLIENT") && args.is(1, "REPLY") && args.is(2, "ON");
        // Their replies are messages.
        let is_about_channels = args.get(0).is_some_and(|name| name.to_ascii_lowercase().ends_with(b"subscribe"));
        let is_heard = asks_for_replies || is_about_channels;
        let mute = self.state.mute;
        self.is_muted = mute != Mute::Nothing && !is_heard;
        self.session.set_muted(self.is_muted);
        if mute == Mute::Next {
            self.state.mute = Mute::Nothing;
        }
        let is_taken_on = self.take_on_heard(found, out);
        if !is_taken_on {
            self.state.mute = mute;
        }
        is_taken_on
    }

    /// Begins the gathered scripts, if there are any.
    fn begin_scripts(&mut self) {
        if let Some(scripts) = self.scripts.take() {
            let Self { server, client, session, state, .. } = self;
            self.pending =
                Some(pending_request::begin_together(scripts, &mut RequestContext { server, client, session, state }));
        }
    }

    fn take_on_heard(&mut self, found: Found<'_>, out: &mut Output) -> bool {
        let Self { server, client, session, state, parser, .. } = self;
        let input = found.rest();
        let args = match found.owner {
            None => parser.args(input),
            Some(_) => parser.args(input).in_shared(found.owner().filter(|_| parser.stands_in_input())),
        };
        let accepted = accepted(args, state, server, client, session);
        if let Some(scripts) = &self.scripts
            && !(may_join_scripts(&accepted, args, state, server, session) && pending_request::has_room(scripts, args))
        {
            self.begin_scripts();
            return false;
        }
        let may_gather = parser.stands_in_input() && found.place.len() <= GATHERED_BYTES_MAX;
        if session.has_gathered()
            && !(may_gather && is_for_engine(&accepted, args, state, server))
            && !session.run_gathered(found.input, out)
        {
            return false;
        }
        match accepted {
            Err(_) if is_http(args) => {
                server.attacks.come(ATTACK_PAUSE, || warn_of_attack(client));
                state.is_closing = true;
            }
            Err(error) => {
                let error = refused(server, error, args, client, state);
                session.reply_locally(state.context.resp3, out.buffer(), |reply| reply.error(error));
            }
            Ok((id, command)) => {
                if server
                    .pause
                    .holds(|| may_change(&server.services.scripting, id, args, state) || may_publish(id, state))
                {
                    if server.pause.has_ended_for_good() {
                        // No snapshot would have its changes.
                        state.is_closing = true;
                        return true;
                    }
                    self.is_paused = true;
                    client.is_paused.store(true, Ordering::Relaxed);
                    return false;
                }
                client.last_command.store(id.0, Ordering::Relaxed);
                if state.multi.is_some() && !command.flags.has(Flags::NOT_QUEUED) {
                    queue(server, session, client, state, id, args, out.buffer());
                    return true;
                }
                let is_about_messages = command.flags.has(Flags::MESSAGES);
                if (is_about_messages || command.flags.has(Flags::TELLS)) && session.replied() < session.taken_on() {
                    return false;
                }
                let defers = command.defers(args, &server.services);
                let is_local = command.request == Request::Local && !defers;
                if server.pubsub.notified() != Class::NONE && !is_local && !session.keeps_events_in_order(id, args) {
                    return false;
                }
                // Commands that the connection runs are shown after they have run: one of them may end the monitoring.
                if server.pubsub.has_monitors() && !is_local {
                    monitor::show(server, client, state, id, args);
                }
                if defers || !session.is_batchable(id, args) {
                    let Self { server, client, session, state, .. } = self;
                    if command.flags.has(Flags::SCRIPT) {
                        pending_request::gather(
                            &mut self.scripts,
                            &RequestContext { server, client, session, state },
                            id,
                            args,
                        );
                        if self.is_muted {
                            // Whether replies are dropped is the same for all that run together.
                            self.begin_scripts();
                        }
                        return true;
                    }
                    self.pending =
                        pending_request::begin(&mut RequestContext { server, client, session, state }, id, args, out);
                } else if is_local {
                    tell_slow(server, client, session);
                    run_local(server, client, session, state, id, (args, input.len()), out.buffer());
                    if server.pubsub.has_monitors() {
                        monitor::show(server, client, state, id, args);
                    }
                    if is_about_messages && let Some(subscription) = &mut state.subscription {
                        // Messages that it caused come directly after its reply.
                        subscription.take_all_messages(state.context.resp3, out.buffer());
                    }
                } else {
                    // A single request has no others to be gathered with.
                    let has_company = session.has_gathered() || !found.is_last();
                    if !(has_company && may_gather && session.gather(id, args, state.context, found.place)) {
                        session.submit(id, args, state.context, out);
                    }
                }
            }
        }
        true
    }

    /// Reports the commands that took long.
    #[inline]
    fn note_slow(&mut self) {
        tell_slow(&self.server, &self.client, &mut self.session);
    }

    fn unpause(&mut self) {
        self.is_paused = false;
        self.client.is_paused.store(false, Ordering::Relaxed);
    }

    /// Whether a request has no reply yet.
    fn has_unreplied(&self) -> bool {
        self.session.replied() < self.session.taken_on()
    }

    /// Gives up a waiting request.
    async fn end(&mut self) {
        if let Some(transaction) = self.pending.take().and_then(PendingRequest::end) {
            self.session.forget_rest();
            self.session.begin(transaction);
            self.session.flush().await;
        }
    }

    /// Continues with a request whose reply comes later; true if it made progress.
    fn go_on(&mut self, out: &mut Output) -> bool {
        let Some(pending) = self.pending.take() else { return false };
        let was = std::mem::discriminant(&pending);
        let Self { server, client, session, state, .. } = self;
        self.pending = pending_request::go_on(pending, &mut RequestContext { server, client, session, state }, out);
        self.pending.as_ref().is_none_or(|pending| std::mem::discriminant(pending) != was)
    }
}

/// Whether a request goes to the engine directly, without being shown to monitors.
fn is_for_engine(
    accepted: &Result<(CommandId, &'static Command), CommandError>,
    args: Args<'_>,
    state: &ConnectionState,
    server: &Server,
) -> bool {
    accepted
        .as_ref()
        .is_ok_and(|(_, command)| command.request != Request::Local && !command.defers(args, &server.services))
        && state.multi.is_none()
        && !server.pause.holds(|| true)
        && !server.pubsub.has_monitors()
}

/// Whether a request is a script that may run together with those before it, under the same conditions.
fn may_join_scripts<S: Session>(
    accepted: &Result<(CommandId, &'static Command), CommandError>,
    args: Args<'_>,
    state: &ConnectionState,
    server: &Server,
    session: &S,
) -> bool {
    accepted.as_ref().is_ok_and(|&(id, command)| command.flags.has(Flags::SCRIPT) && !session.is_batchable(id, args))
        && state.multi.is_none()
        && !server.pause.holds(|| true)
}

#[inline]
fn tell_slow<S: Session>(server: &Server, client: &Client, session: &mut S) {
    let slow = session.slow();
    if !slow.is_empty() {
        slow.drain(..).for_each(|slow| server.note_slow(client, slow));
    }
}

/// Queues a command for EXEC.
fn queue<S: Session>(
    server: &Server,
    session: &mut S,
    client: &Client,
    state: &mut ConnectionState,
    id: CommandId,
    args: Args<'_>,
    out: &mut Vec<u8>,
) {
    let multi = state.multi.as_mut().expect("the caller has seen it");
    let queued =
        commands::subcommand(id, args).and_then(|_| match multi.is_refused || multi.transaction.queue(id, args) {
            _ if commands::command(id).flags.has(Flags::NO_MULTI) => {
                Err(CommandError::Text("ERR Command not allowed inside a transaction"))
            }
            true => Ok(()),
            false => Err(CommandError::Text("ERR Transaction is too large")),
        });
    if let Err(error) = &queued {
        multi.refuse();
        server.instance.calls.note_rejected(id.0);
        server.instance.calls.note_error(error);
    }
    client.note_queued(multi.transaction.len(), multi.transaction.byte_len());
    session.reply_locally(state.context.resp3, out, |reply| match queued {
        Ok(()) => reply.simple("QUEUED"),
        Err(error) => reply.error(error),
    });
}

fn run_local<S: Session>(
    server: &Server,
    client: &Client,
    session: &mut S,
    state: &mut ConnectionState,
    id: CommandId,
    (args, request_bytes): (Args<'_>, usize),
    out: &mut Vec<u8>,
) {
    session.reply_locally(state.context.resp3, out, |reply| {
        let mut call = LocalCall { server, client, state, is_in_exec: false, receivers: None, request_bytes };
        local::dispatch(id, &mut call, args, reply);
    });
}

/// Whether a request is the first line of an HTTP request, or its second: a browser was tricked into sending it, and
/// its body must not be run.
#[cold]
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "POST") || args.is(0, "Host:")
}

fn warn_of_attack(client: &Client) {
    tracing::warn!(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to Shardrace. This \
         is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Shardrace instance. \
         Connection from {} aborted.",
        client.address
    );
}

/// The command of a request, if it exists, has its arguments, and may run now.
fn accepted<S: Session>(
    args: Args<'_>,
    state: &ConnectionState,
    server: &Server,
    client: &Client,
    session: &mut S,
) -> Result<(CommandId, &'static Command), CommandError> {
    let id = commands::find_of(args)?.ok_or_else(|| unknown_command(args))?;
    let command = commands::command(id);
    if !command.accepts(args.len()) {
        return Err(CommandError::Arity(command.name.to_owned()));
    }
    if command.flags.has(Flags::PROTECTED) {
        must_be_allowed_to_debug(server, client)?;
    }
    if !state.is_authenticated && !command.flags.has(commands::Flags::NO_AUTH) {
        return Err(CommandError::Text("NOAUTH Authentication required."));
    }
    if state.is_subscriber_mode() && !is_for_subscribers(command) {
        return Err(not_for_subscribers(id, args));
    }
    if S::IS_LOADING && !runs_while_loading(id, args) {
        return Err(CommandError::Text("LOADING Redis is loading the dataset in memory"));
    }
    if state.is_monitor() && (command.is_write() || command.flags.has(Flags::READONLY)) {
        return Err(CommandError::Text("ERR Replica can't interact with the keyspace"));
    }
    if !server.instance.pressure.is_free() && may_need_memory(command, state) {
        let has_room = server.finds_room(args.byte_len(), || session.make_room(args.byte_len()));
        if command.flags.has(Flags::SCRIPT) {
            // It may need no memory, and finds out when it first needs some.
            server.services.note_memory(!has_room);
        } else if !has_room {
            return Err(CommandError::Text("OOM command not allowed when used memory > 'maxmemory'."));
        }
    }
    if server.log_control.may_refuse() {
        must_not_wait_for_script(server, command, args)?;
        must_be_of_one_slot(server, command, args, state)?;
        must_be_writable(server, command, state)?;
        must_suit_replica(server, id, args, state)?;
    }
    // Inside MULTI such a request is queued, and replies with its error when it runs.
    if state.multi.is_none() && !command.keys.have_values(args) {
        return Err(CommandError::Arity(command.name.to_owned()));
    }
    Ok((id, command))
}

/// Refuses keys of several slots, as a cluster does.
#[cold]
fn must_be_of_one_slot(
    server: &Server,
    command: &Command,
    args: Args<'_>,
    state: &ConnectionState,
) -> Result<(), CommandError> {
    if !server.refuses_cross_slot() {
        return Ok(());
    }
    let (mut first, mut is_crossing) = (None, false);
    let mut visit = |key: &[u8]| {
        let slot = slot_of(key);
        is_crossing |= *first.get_or_insert(slot) != slot;
    };
    match &state.multi {
        Some(multi) if command.name == "exec" => multi.transaction.for_each_key(&server.instance, |_, key| visit(key)),
        _ => command.keys.positions(args).for_each(|position| visit(&args[position])),
    }
    if is_crossing { Err(CommandError::Text(CROSS_SLOT)) } else { Ok(()) }
}

const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// Refuses commands that may write if the last snapshot, or the log, could not be written.
#[cold]
fn must_be_writable(server: &Server, command: &Command, state: &ConnectionState) -> Result<(), CommandError> {
    // A script is refused when it writes.
    let may_write = may_write(command, state) && !command.flags.has(Flags::SCRIPT);
    let is_refused = may_write || (command.name == "ping" && server.log_control.has_failed_snapshot());
    server.refuses_writes().filter(|_| is_refused).map_or(Ok(()), Err)
}

/// Refuses commands that clients of a replica may not run.
#[cold]
fn must_suit_replica(
    server: &Server,
    id: CommandId,
    args: Args<'_>,
    state: &ConnectionState,
) -> Result<(), CommandError> {
    if !server.is_replica() {
        return Ok(());
    }
    // An invalid one replies with its own error.
    let command = commands::command(commands::subcommand(id, args).unwrap_or(id));
    let ends = |has: &dyn Fn(CommandId, Args<'_>) -> bool| {
        let queued = state.multi.iter().filter(|_| command.name == "exec");
        queued.flat_map(|multi| multi.transaction.commands()).any(|(id, args)| has(id, args))
    };
    let scripting = &server.services.scripting;
    // A script without declared flags is refused when it writes.
    let writes = |id: CommandId, args: Args<'_>| {
        commands::command(id).flags.has(Flags::WRITE)
            || commands::scripting::declares_that_it_writes(scripting, id, args)
    };
    let is_write = || command.flags.has(Flags::WRITE) || writes(id, args) || ends(&writes);
    if let Some(refusal) = server.refuses_to_be_written().filter(|_| is_write()) {
        return Err(refusal);
    }
    let Some(refusal) = server.refuses_as_stale() else { return Ok(()) };
    let shows_data = |command: &Command| !command.flags.has(Flags::STALE);
    let queues_such = |id: CommandId, _: Args<'_>| shows_data(commands::command(id));
    let runs_stale =
        !command.flags.has(Flags::SCRIPT) || commands::scripting::declares_that_it_runs_stale(scripting, id, args);
    if shows_data(command) || ends(&queues_such) || !runs_stale { Err(refusal) } else { Ok(()) }
}

/// While a script runs for too long, only commands that need no data are accepted.
#[cold]
fn must_not_wait_for_script(server: &Server, command: &Command, args: Args<'_>) -> Result<(), CommandError> {
    // No snapshot can be taken while the script holds all data.
    let may_end = || args.from(1).iter().any(|option| option.eq_ignore_ascii_case(b"NOSAVE"));
    let is_allowed = command.flags.has(Flags::ALLOW_BUSY) && (command.name != "shutdown" || may_end());
    let busy = &server.services.scripting.busy;
    if is_allowed || !busy.is_busy() { Ok(()) } else { Err(CommandError::Text(busy.busy_reply())) }
}

/// Whether a command runs while the data is loaded; an invalid one replies with its own error.
fn runs_while_loading(id: CommandId, args: Args<'_>) -> bool {
    commands::subcommand(id, args).map_or(true, |id| commands::command(id).flags.has(Flags::LOADING))
}

fn is_for_subscribers(command: &Command) -> bool {
    const NAMES: [&str; 9] = [
        "ping",
        "subscribe",
        "ssubscribe",
        "unsubscribe",
        "sunsubscribe",
        "psubscribe",
        "punsubscribe",
        "quit",
        "reset",
    ];
    NAMES.contains(&command.name)
}

fn not_for_subscribers(id: CommandId, args: Args<'_>) -> CommandError {
    match commands::subcommand(id, args) {
        Err(error) => error,
        Ok(id) => CommandError::Owned(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            commands::command(id).name
        )),
    }
}

/// Whether a command, or the transaction that it ends, may change data.
fn may_write(command: &Command, state: &ConnectionState) -> bool {
    let ends_writes = || state.multi.as_ref().is_some_and(|multi| multi.transaction.is_write());
    command.is_write() || (command.name == "exec" && ends_writes())
}

/// The same, except that scripts may declare that they write nothing.
fn may_change(scripting: &Scripting, id: CommandId, args: Args<'_>, state: &ConnectionState) -> bool {
    let may_one = |id, args| {
        commands::command(id).is_write() && !commands::scripting::declares_that_it_writes_nothing(scripting, id, args)
    };
    match &state.multi {
        Some(multi) if commands::command(id).name == "exec" => {
            multi.transaction.commands().any(|(id, args)| may_one(id, args))
        }
        _ => may_one(id, args),
    }
}

/// Whether a command, or one of the transaction that it ends, sends messages. Redis treats that almost as a change,
/// because it sends them to its replicas, too.
fn may_publish(id: CommandId, state: &ConnectionState) -> bool {
    let ends_such = |multi: &Multi| multi.transaction.commands().any(|(id, _)| commands::publishes(id));
    commands::publishes(id) || (commands::command(id).name == "exec" && state.multi.as_ref().is_some_and(ends_such))
}

/// Whether a command, or one of the transaction that it ends, may need memory.
fn may_need_memory(command: &Command, state: &ConnectionState) -> bool {
    let ends_such = || state.multi.as_ref().is_some_and(|multi| multi.transaction.needs_memory());
    let needs_it = command.flags.has(Flags::DENYOOM) || command.flags.has(Flags::SCRIPT);
    needs_it || (command.name == "exec" && ends_such())
}

#[cold]
fn must_be_allowed_to_debug(server: &Server, client: &Client) -> Result<(), CommandError> {
    const TEXT: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
                        run it from a local connection, otherwise you need to set this option in the configuration \
                        file, and then restart the server.";
    if server.allows(Directive::EnableDebugCommand, client) { Ok(()) } else { Err(CommandError::Text(TEXT)) }
}

/// The effect of a refusal on a transaction, and its reply: if EXEC itself is refused, the transaction is gone.
fn refused(
    server: &Server,
    error: CommandError,
    args: Args<'_>,
    client: &Client,
    state: &mut ConnectionState,
) -> CommandError {
    if let Ok(Some(id)) = commands::find_of(args) {
        server.instance.calls.note_rejected(id.0);
    }
    let error = unqueued(error, args, client, state);
    server.instance.calls.note_error(&error);
    error
}

fn unqueued(error: CommandError, args: Args<'_>, client: &Client, state: &mut ConnectionState) -> CommandError {
    if args.is(0, "EXEC") {
        (state.multi, state.watched) = (None, None);
        if matches!(error, CommandError::Text(CROSS_SLOT)) {
            return error;
        }
        client.note_no_transaction();
        let text = error.to_string();
        let reason = text.strip_prefix("ERR ").unwrap_or(&text);
        return CommandError::Owned(format!("EXECABORT Transaction discarded because of: {reason}"));
    }
    if let Some(multi) = &mut state.multi {
        multi.refuse();
    }
    error
}

fn unknown_command(args: Args<'_>) -> CommandError {
    const QUOTED_MAX: usize = 128;
    let (mut beginning, mut len) = (String::new(), 0);
    for argument in args.from(1).iter() {
        if len >= QUOTED_MAX {
            break;
        }
        let quoted = format!("'{}' ", quoted(argument, QUOTED_MAX - len));
        len += quoted.chars().count();
        beginning.push_str(&quoted);
    }
    let name = quoted(&args[0], QUOTED_MAX);
    CommandError::Owned(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}
