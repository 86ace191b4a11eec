//! A connection: one task that reads, dispatches, puts replies in order and writes.
//!
//! One task and not two: a reader and a writer cost 10 to 37 % more CPU per operation, for handing data to each other.
//! The task waits for anything that lets it continue: bytes to read, room to write, replies that are back.

mod admission;
mod dispatch;
pub mod local;
mod migration;
mod monitor;
mod pending_request;
mod permissions;
mod replica_feed;

pub use local::serve_scripts;

use crate::base::buffers;
use crate::base::narrowing::size;
use crate::base::planted::is_planted;
use crate::base::tsc;
use crate::config::{Directive, QUERY_BYTES_MAX};
use crate::engine::{LoadingSession, Session};
use crate::resp::{Output, RequestParser, SHARED_MIN};
use crate::state::Server;
use crate::state::client_list::Client;
use crate::stats::stage_latency::Stage;
use bytes::{BufMut, Bytes};
use dispatch::{PausedBy, Requests};
use local::ConnectionState;
use pending_request::PendingRequest;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

/// Unsent replies, in bytes, above which no more requests are accepted: a client that reads no replies gets no more
/// work done.
const OUTPUT_HIGH_WATER: usize = 1024 * 1024;
/// Replies, in bytes, that are written without waiting for further replies.
const COALESCE_MAX: usize = 64 * 1024;

/// Bytes that are written before the other connections of the thread have their turn.
const WRITTEN_AT_ONCE: usize = 256 * 1024;

/// An incomplete request is read in pieces of at least this many bytes.
const PARTIAL_READ_MIN: usize = 16 * 1024;
/// At least this many where the last such read filled its room: more has come already, as in a pipeline of requests
/// that are larger than a read.
const PARTIAL_READ_MORE: usize = 64 * 1024;
/// And at most this many.
const PARTIAL_READ_MAX: usize = 16 * 1024 * 1024;
/// When the minimum has come, there is room for as many bytes as are announced up to this many, and for four times the
/// bytes that have come: to announce bytes takes little memory.
const BELIEVED: usize = 1024 * 1024;
/// A request of this many bytes is large: it is read into a buffer of its own, which may be shared.
const LARGE: usize = SHARED_MIN;
/// After a large request of at most this many bytes, the next is read into a buffer as large; after a larger one its
/// beginning is read first, unless that has come with the end of the one before.
const EXPECTED_MAX: usize = 128 * 1024;
/// A read has room for this many bytes beyond a large request. One that fills its buffer does not show that nothing
/// else has come, and the next one would ask the kernel in vain. In a pipeline they are the beginning of the next
/// request, which goes to a buffer of its own.
const BEYOND: usize = 1;
/// Bytes of requests that are accepted before their commands are sent, if one read does not bring more: where much has
/// come while the client waited or did not read, others have their turn in between.
const ACCEPTED_AT_ONCE: usize = 256 * 1024;
/// The largest `read-size`.
const READ_SIZE_MAX: usize = 16 * 1024 * 1024;

/// The position of an argument in a request, or in a batch, has 32 bits.
const _: () = assert!(size(QUERY_BYTES_MAX) + PARTIAL_READ_MAX + READ_SIZE_MAX <= u32::MAX as usize);

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
    /// Whether no others follow: the client's last request has its reply.
    are_last: bool,
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
    ConnectionState::new(&server.users)
}

/// Invariants: `partial[taken..]` begins with the first byte of a request; if that is empty, so is `partial`.
struct Connection<S> {
    parser: RequestParser,
    requests: Requests<S>,
    /// The beginning of an incomplete request, or requests that wait for room.
    partial: Vec<u8>,
    /// How much of `partial` was accepted.
    taken: usize,
    /// Whether `partial` holds bytes that the parser has not seen.
    has_unparsed: bool,
    /// Whether the last read into `partial` filled its room.
    has_filled_room: bool,
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
    /// Whether the last messages have been moved to the output.
    has_last_messages: bool,
    /// Whether the last read is sampled: see [`stage_latency`].
    is_sampled: bool,
}

impl<S: Session> Connection<S> {
    fn new(server: Arc<Server>, client: Arc<Client>, session: S) -> Self {
        let (mut state, mut out) = (new_state(&server), Output::default());
        let has_other_names = !server.services.names().are_own();
        if let Some(denial) = client.denial {
            out.buffer().extend_from_slice(denial.as_bytes());
            state.is_closing = true;
        }
        Self {
            parser: RequestParser::default(),
            requests: Requests {
                server,
                client,
                session,
                state,
                pending: None,
                scripts: None,
                awaits_replies: false,
                pause: None,
                is_muted: false,
                has_other_names,
            },
            partial: Vec::new(),
            taken: 0,
            has_unparsed: false,
            has_filled_room: false,
            expected: 0,
            is_at_end: false,
            out,
            is_blocked: false,
            due: None,
            has_last_messages: false,
            is_sampled: false,
        }
    }

    async fn run_to_its_end(mut self) {
        self.run_until_it_ends().await;
        self.requests.end().await;
        let Requests { server, client, state, .. } = &mut self.requests;
        if let Some(request) = state.sync.take() {
            // Its replies are written: the connection has nothing else to do, and takes no messages.
            (state.subscription, state.watched, state.tracking) = (None, None, None);
            client.set_tracker(None);
            replica_feed::serve(server, client, request).await;
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
            self.requests.look_for_redirection();
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
            if self.is_finished() || self.requests.client.is_killed.load(Ordering::Acquire) {
                return Ok(());
            }
            if self.has_unparsed && self.has_room() {
                if self.accept_what_has_come()? > ACCEPTED_AT_ONCE && self.has_unparsed {
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
                Event::Readable if self.requests.client.is_killed.load(Ordering::Acquire) => return Ok(()),
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
            self.has_last_messages = due.are_last;
            self.due = None;
        }
        self.note_unsent();
    }

    /// The messages that may leave now.
    fn due_messages(&mut self) -> Option<Due> {
        if !self.wants_messages() {
            return None;
        }
        let are_last = self.is_ending() && self.has_replied();
        let Requests { session, state, .. } = &mut self.requests;
        if self.due.is_none() {
            let (messages, is_empty) = state.subscription.as_ref()?.subscriber().received();
            self.due = (!is_empty).then(|| Due { messages, requests: session.accepted(), are_last });
            self.has_last_messages = is_empty && are_last;
        }
        // After reading the queue: a reply older than a message in it is seen here.
        self.due.filter(|due| self.is_free(*due))
    }

    /// Whether nothing holds these messages back.
    fn is_free(&self, due: Due) -> bool {
        let Requests { session, pending, .. } = &self.requests;
        let has_replied = session.replied() >= due.requests || is_planted("ToldBeforeReply");
        pending.as_ref().is_none_or(PendingRequest::lets_messages_pass) && has_replied
    }

    /// Whether the output accepts messages. A closing connection accepts those that its own requests may have caused,
    /// and then none, so that its output drains.
    fn wants_messages(&self) -> bool {
        self.out.unsent() < OUTPUT_HIGH_WATER && !self.has_last_messages
    }

    /// Waits for the log: the message of a change is not shown before the log permits it, like a reply.
    async fn wait_for_log(&mut self) {
        let Requests { session, state, .. } = &mut self.requests;
        let log_positions =
            state.subscription.as_mut().map(|subscription| subscription.take_log_positions()).unwrap_or_default();
        if !session.log().is_released(&log_positions) {
            session.log().released(&log_positions).await;
        }
    }

    /// Writes ready replies. If more are about to come, it lets them come first: one write for all.
    async fn send_replies(&mut self) -> io::Result<()> {
        if self.is_blocked {
            // The housekeeping sees it: nothing is written, and more may have come.
            self.note_unsent();
            return self.check_output();
        }
        if self.out.unsent() == 0 {
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
        let paused = self.requests.pause;
        // It was set when the request came, and its reply is written: there is no gap in between.
        let awaits_replies = (wants_replies && self.out.unsent() < OUTPUT_HIGH_WATER) || paused.is_some();
        self.requests.client.awaits_replies.store(awaits_replies, Ordering::Relaxed);
        if self.requests.state.is_closing {
            self.requests.client.is_closing.store(true, Ordering::Relaxed);
        }
        let wants_messages = self.wants_messages()
            && self.due.is_none()
            && self.requests.pending.as_ref().is_none_or(PendingRequest::lets_messages_pass);
        let Requests { server, client, session, pending, state, .. } = &mut self.requests;
        let unpaused = async |by| match by {
            PausedBy::Pause => server.pause.ended().await,
            PausedBy::Keys(since) => server.pause.released(since).await,
        };
        let mut unpaused = pin!(paused.map(unpaused));
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
            if let Some(unpaused) = unpaused.as_mut().as_pin_mut()
                && unpaused.poll(context).is_ready()
            {
                return Poll::Ready(Ok(Event::Unpaused));
            }
            if wants_read && let Poll::Ready(result) = client.stream.poll_read_ready(context) {
                return Poll::Ready(result.map(|()| Event::Readable));
            }
            if wants_write && let Poll::Ready(result) = client.stream.poll_write_ready(context) {
                return Poll::Ready(result.map(|()| Event::Writable));
            }
            // Last: messages are sent along with anything else. In RESP2 only a subscriber can be sent any.
            let messages = match &state.subscription {
                Some(subscription) => subscription.subscriber().poll(context, wants_messages),
                None if state.context.resp3 => client.poll_redirected(context),
                None => Poll::Pending,
            };
            messages.map(|()| Ok(Event::Messages))
        })
        .await
    }

    /// Reads once: into this thread's buffer, or after the beginning of an incomplete request.
    fn read(&mut self) -> io::Result<()> {
        let start = self.requests.server.instance.stages.samples_next_read().then(tsc::now);
        if !self.partial.is_empty() || self.requests.pending.is_some() || self.expected > 0 || self.is_unread() {
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
        if let Some(wanted) = self.parser.bytes_wanted_of_large(rest.len()) {
            self.partial.reserve_exact(rest.len() + room_for(wanted, rest.len()));
        }
        self.partial.extend_from_slice(rest);
    }

    /// Makes room for the next read. A buffer that may be shared has the size of its request; any other one doubles, so
    /// that bytes are not copied often, and only as bytes come: to announce them takes no memory.
    fn make_room(&mut self) {
        let have = self.partial.len() - self.taken;
        let room = self.partial.capacity() - self.partial.len();
        match self.parser.bytes_wanted_of_large(have) {
            // With each read more could be believed, and the buffer would be moved for each.
            Some(wanted) if room > wanted.min(PARTIAL_READ_MIN) => {}
            Some(wanted) => self.partial.reserve_exact(room_for(wanted, have)),
            None if have == 0 || have <= BEYOND && self.expected > 0 => {
                let is_believed = have > 0 || self.expected <= EXPECTED_MAX;
                let wanted = if is_believed { self.expected + BEYOND - have } else { 0 };
                self.partial.reserve_exact(wanted.clamp(PARTIAL_READ_MIN, PARTIAL_READ_MAX));
            }
            None => {
                let least = if self.has_filled_room { PARTIAL_READ_MORE } else { PARTIAL_READ_MIN };
                self.partial.reserve(self.parser.bytes_wanted(have).min(have).max(least));
            }
        }
    }

    fn read_on(&mut self, start: Option<u64>) -> io::Result<()> {
        self.give_back_taken();
        self.make_room();
        // No read passes the limit by more than the byte that shows that a request is over it: requests that have to
        // wait for the client to read must not end the connection.
        let read_max = self.query_room().clamp(1, PARTIAL_READ_MAX);
        let room = read_max.min(self.partial.capacity() - self.partial.len());
        let result = self.requests.client.stream.read_buf_once(&mut (&mut self.partial).limit(read_max));
        if let Some(len) = self.note_read(result, start)? {
            self.has_unparsed = true;
            self.has_filled_room = len == room;
            self.note_query();
        } else if self.partial.len() <= BEYOND {
            // Nothing may come for a long time.
            self.partial.shrink_to_fit();
        }
        if self.is_waiting() || self.is_unread() {
            // It is not accepted before what waits has its reply, or the client reads.
            self.check_partial()?;
        }
        Ok(())
    }

    /// How many bytes a read returned; `None` if it must be tried again or the client sends no more. A sampled read
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
                    self.is_sampled = true;
                }
                self.requests.client.note_input(len, self.requests.server.coarse_uptime_ms());
                Ok(Some(len))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Accepts what has been read, and returns how many bytes that took. Of a pipeline of large requests, each of which
    /// is a read of its own, it reads and accepts the next ones, too: they are sent, and replied, together.
    fn accept_what_has_come(&mut self) -> io::Result<usize> {
        let mut accepted = self.accept_partial()?;
        while self.has_begun_another_large() && accepted < ACCEPTED_AT_ONCE {
            self.read()?;
            if !self.has_unparsed {
                break;
            }
            accepted += self.accept_partial()?;
        }
        Ok(accepted)
    }

    /// Whether a large request was accepted, the next one has begun to come, and nothing stands against accepting it.
    fn has_begun_another_large(&self) -> bool {
        self.expected > 0 && !self.partial.is_empty() && !self.has_unparsed && self.has_room()
    }

    /// Accepts what has been read, and returns how many bytes that took.
    fn accept_partial(&mut self) -> io::Result<usize> {
        let partial = std::mem::take(&mut self.partial);
        if self.is_single_large(&partial) {
            return self.accept_large(Bytes::from(partial));
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

    /// Whether `partial` seems to be a single large request, in a buffer of about its size, and at most the first bytes
    /// of the next one.
    fn is_single_large(&self, partial: &Vec<u8>) -> bool {
        let len = partial.len();
        let is_one = || (len - BEYOND..=len).any(|end| end == self.expected || self.parser.ends_at(end));
        len >= LARGE && self.taken == 0 && partial.capacity() - len <= len / 8 && is_one()
    }

    /// Does what [`accept_partial`](Self::accept_partial) does with bytes that may be shared.
    fn accept_large(&mut self, large: Bytes) -> io::Result<usize> {
        let consumed = self.accept(&large, Some(&large));
        let rest = &large[consumed..];
        if rest.len() <= BEYOND {
            self.expected = consumed;
            self.partial = rest.to_vec();
        } else {
            self.expected = 0;
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
        let sampled = std::mem::take(&mut self.is_sampled).then(|| self.requests.begin_sample());
        let (consumed, has_stopped) = self.requests.accept(&mut self.parser, input, owner, &mut self.out);
        if let Some(start) = sampled {
            self.requests.end_sample(start);
        }
        self.has_unparsed = has_stopped && consumed < input.len();
        consumed
    }

    /// Notes how much of a request, or of requests that wait, there is.
    fn note_query(&self) -> u64 {
        let Requests { server, client, .. } = &self.requests;
        let unread = self.partial.len() - self.taken;
        set_if_changed(&client.query_bytes, unread as u64);
        set_if_changed(&client.query_free, (self.partial.capacity() - unread) as u64);
        server.note_memory(client);
        unread as u64
    }

    fn check_partial(&self) -> io::Result<()> {
        let unread = self.note_query();
        if unread > self.query_max() {
            let (id, address) = (self.requests.client.id, &self.requests.client.address);
            tracing::warn!("Closing client that reached max query buffer length: id={id} addr={address} qbuf={unread}");
            return Err(io::Error::other("the request is over client-query-buffer-limit"));
        }
        Ok(())
    }

    /// The bytes of requests that may wait.
    fn query_max(&self) -> u64 {
        self.requests.server.config.number(Directive::ClientQueryBufferLimit)
    }

    /// How many more bytes of requests may wait.
    fn query_room(&self) -> usize {
        let unread = self.partial.len() - self.taken;
        usize::try_from(self.query_max()).unwrap_or(usize::MAX).saturating_sub(unread)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.requests.session.take_sampled() {
            let start = tsc::now();
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
                    self.requests.session.note_sent(len);
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
        self.requests.client.report_output_limit(self.out.unsent() as u64);
        Err(io::Error::other("unread replies are over client-output-buffer-limit"))
    }

    fn note_unsent(&self) {
        let unsent = self.out.unsent() as u64;
        set_if_changed(&self.requests.client.output_bytes, unsent);
        let free = if unsent > 0 { self.out.free() as u64 } else { 0 };
        set_if_changed(&self.requests.client.output_free, free);
        if let Some(subscription) = &self.requests.state.subscription {
            subscription.subscriber().set_unsent(unsent);
        }
        self.requests.server.note_memory(&self.requests.client);
    }

    /// Whether another read's worth of requests may be accepted.
    fn has_room(&self) -> bool {
        self.out.unsent() < OUTPUT_HIGH_WATER
            && self.requests.session.has_room()
            && self.requests.pending.is_none()
            && self.requests.pause.is_none()
            && !(self.requests.awaits_replies && self.requests.has_unreplied())
    }

    /// Whether the socket is read.
    fn has_room_to_read(&self) -> bool {
        match self.is_unread() {
            true => self.query_room() > 0,
            false => self.is_waiting() || (!self.has_unparsed && self.has_room()),
        }
    }

    /// Whether nothing continues before the client reads its replies. Many clients read no reply until they have
    /// written all of a pipeline: so the socket is read meanwhile, up to `client-query-buffer-limit`.
    fn is_unread(&self) -> bool {
        self.is_blocked && self.out.unsent() >= OUTPUT_HIGH_WATER
    }

    /// Whether a request waits for something other than the engine. Meanwhile the socket is read up to
    /// `client-query-buffer-limit`, to notice when the client closes: then the request does not run.
    fn is_waiting(&self) -> bool {
        match &self.requests.pending {
            Some(pending) => pending.is_waiting(),
            None => self.requests.pause.is_some(),
        }
    }

    fn is_finished(&self) -> bool {
        if self.is_at_end && self.is_waiting() {
            // What waits does not run. Requests before it have run, and get their replies.
            return !self.requests.session.is_waiting() && self.out.unsent() == 0;
        }
        let has_messages = self.requests.state.subscription.is_some() && !self.has_last_messages;
        self.is_ending() && self.has_replied() && !has_messages && self.out.unsent() == 0
    }

    /// Whether every request that was accepted has its reply.
    fn has_replied(&self) -> bool {
        self.requests.pending.is_none() && !self.requests.session.is_waiting()
    }

    /// Whether no more requests will be accepted.
    fn is_ending(&self) -> bool {
        self.requests.state.is_closing || (self.is_at_end && !self.has_unparsed)
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
        let Self {
            parser,
            requests,
            partial,
            taken,
            has_unparsed,
            has_filled_room,
            expected,
            is_at_end,
            out,
            is_blocked,
            due,
            has_last_messages,
            is_sampled,
        } = self;
        let Requests {
            server,
            client,
            session: early,
            state,
            pending,
            scripts,
            awaits_replies,
            pause,
            is_muted,
            has_other_names,
        } = requests;
        session.set_muted(is_muted);
        pending_request::end_early_watch(&state);
        if let Some(transaction) = early.into_begun() {
            session.begin(transaction);
        }
        let requests = Requests {
            server,
            client,
            session,
            state,
            pending,
            scripts,
            awaits_replies,
            pause,
            is_muted,
            has_other_names,
        };
        Connection {
            parser,
            requests,
            partial,
            taken,
            has_unparsed,
            has_filled_room,
            expected,
            is_at_end,
            out,
            is_blocked,
            due,
            has_last_messages,
            is_sampled,
        }
    }
}

/// How much room the next read has when `have` bytes have come and others are announced: for as many of these as are
/// believed, and what is beyond them.
fn room_for(wanted: usize, have: usize) -> usize {
    let most = if have < PARTIAL_READ_MIN { PARTIAL_READ_MIN } else { BELIEVED.max(4 * have) };
    wanted.min(most) + BEYOND
}

fn set_if_changed(gauge: &AtomicU64, value: u64) {
    if gauge.load(Ordering::Relaxed) != value {
        gauge.store(value, Ordering::Relaxed);
    }
}
