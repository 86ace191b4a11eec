//! A connection that has requested the stream: it is sent a snapshot, if it needs one, and then all changes.
//!
//! ```text
//! replica                          here
//! PSYNC id offset        ->
//!                        <-        +CONTINUE id                        what it lacks is kept
//!                        <-        +FULLRESYNC id offset               or it is not
//!                        <-        $EOF:delimiter | snapshot | delimiter   (or $length | snapshot)
//! REPLCONF ACK offset    ->                                            once a second from now on
//!                        <-        the stream, from that offset on
//! ```

use crate::base::clock::{uptime_ms, within};
use crate::commands;
use crate::config::Directive;
use crate::replication::{Attached, Continuation, Cursor, Introduction, LinkState, Phase, Pipe, Replica, Start, Taken};
use crate::resp::{Args, Limits, RequestParser, Step, parse_i64};
use crate::state::Server;
use crate::state::client_list::Client;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

/// How often a replica that waits for a snapshot gets a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The length of the delimiter that ends a snapshot.
const DELIMITER_LEN: usize = 40;
/// The most bytes of an incomplete request: a replica sends only short ones.
const REQUEST_MAX: usize = 64 * 1024;
/// The error of a link that ends because the role of the server changes, or its stream: nothing is lost.
const ENDS_HERE: ErrorKind = ErrorKind::ConnectionAborted;
/// Bytes that are written before the other connections of the thread have their turn.
const WRITTEN_AT_ONCE: usize = 64 * 1024;

/// The request for the stream.
#[derive(Debug)]
pub struct Request {
    /// What the replica has said about itself.
    pub introduction: Introduction,
    /// How it made the request.
    pub wanted: Wanted,
}

/// The ways to request the stream.
#[derive(Debug)]
pub enum Wanted {
    /// SYNC: all of it, the old way.
    Sync,
    /// PSYNC: from an offset on, if that is known and kept.
    Psync {
        /// Where it continues.
        continuation: Option<Continuation>,
        /// Whether it requested an offset that is not kept.
        is_refused: bool,
    },
}

/// Serves a replica until its connection ends.
pub async fn serve(server: &Server, client: &Client, request: Request) {
    let Request { mut introduction, wanted } = request;
    introduction.address.get_or_insert_with(|| client.address.host());
    let is_silent = matches!(wanted, Wanted::Sync);
    let replica = Arc::new(Replica::new(client.id, introduction, is_silent, uptime_ms()));
    client.is_replica.store(true, Ordering::Release);
    let attached = match &wanted {
        // It is online before clients can see it wait.
        Wanted::Psync { continuation: Some(_), .. } => {
            replica.set_phase(Phase::Online);
            server.replication.attach(replica)
        }
        _ => server.replication.attach(replica),
    };
    let mut link = Link { server, client, attached, parser: RequestParser::default(), input: Vec::new(), written: 0 };
    let name = link.name();
    let ended = link.run(wanted).await;
    match ended {
        Err(error) if error.kind() == ENDS_HERE => tracing::info!("Connection with replica {name} ended: {error}"),
        Err(error) => tracing::warn!("Connection with replica {name} lost: {error}"),
        Ok(()) => tracing::warn!("Connection with replica {name} lost: it closed the connection"),
    }
}

struct Link<'a> {
    server: &'a Server,
    client: &'a Client,
    attached: Attached<'a>,
    parser: RequestParser,
    input: Vec<u8>,
    /// Bytes written since others of the thread had their turn.
    written: usize,
}

/// An event of the link.
enum Event {
    Readable,
    Writable,
    Other,
}

impl Link<'_> {
    fn replica(&self) -> &Replica {
        &self.attached.replica
    }

    fn name(&self) -> String {
        let Introduction { address, port, .. } = &self.replica().introduction;
        format!("{}:{port}", address.as_deref().unwrap_or("?"))
    }

    async fn run(&mut self, wanted: Wanted) -> io::Result<()> {
        let cursor = match wanted {
            Wanted::Psync { continuation: Some(continuation), .. } => self.go_on(continuation).await?,
            Wanted::Psync { continuation: None, is_refused } => {
                tracing::info!("Full resync requested by replica {}", self.name());
                if is_refused {
                    self.server.replication.counts.refused.fetch_add(1, Ordering::Relaxed);
                }
                self.synchronize().await?
            }
            Wanted::Sync => self.synchronize().await?,
        };
        if self.replica().introduction.wants_snapshot_alone {
            self.replica().set_phase(Phase::HasSnapshot);
            drop(cursor);
            return self.wait_for_end().await;
        }
        self.follow(cursor).await
    }

    /// The stream continues from the replica's position, which this returns.
    async fn go_on(&mut self, Continuation { id, cursor }: Continuation) -> io::Result<Cursor> {
        self.server.replication.counts.partial.fetch_add(1, Ordering::Relaxed);
        self.replica().follow(&cursor);
        self.replica().acknowledge(cursor.position(), None, uptime_ms());
        tracing::info!(
            "Partial resynchronization request from {} accepted. Sending {} bytes of backlog",
            self.name(),
            cursor.lag()
        );
        let line = match self.replica().introduction.takes_new_id {
            true => format!("+CONTINUE {id}\r\n"),
            false => "+CONTINUE\r\n".to_owned(),
        };
        self.send(line.as_bytes()).await?;
        Ok(cursor)
    }

    /// Sends a snapshot, and returns its cursor in the stream.
    async fn synchronize(&mut self) -> io::Result<Cursor> {
        self.server.replication.counts.full.fetch_add(1, Ordering::Relaxed);
        let Start { id, cursor, snapshot } = self.wait_for_start().await?;
        self.replica().follow(&cursor);
        self.replica().set_phase(Phase::TakesSnapshot);
        if !self.replica().is_silent {
            self.send(format!("+FULLRESYNC {id} {}\r\n", cursor.position()).as_bytes()).await?;
        }
        match self.replica().introduction.takes_eof {
            true => self.send_flowing(&snapshot, &cursor).await?,
            false => self.send_gathered(&snapshot, &cursor).await?,
        }
        tracing::info!("Synchronization with replica {} succeeded", self.name());
        Ok(cursor)
    }

    async fn wait_for_start(&mut self) -> io::Result<Start> {
        loop {
            if let Some(start) = self.replica().take_start() {
                return Ok(start);
            }
            if self.replica().has_failed() {
                return Err(io::Error::other("there is no snapshot for it"));
            }
            // PSYNC is refused then. But it came before, and there is no snapshot while there is no link.
            if self.server.replication.link().is_some_and(|link| link != LinkState::Connected) {
                return Err(io::Error::new(ENDS_HERE, "this server is not connected with its master"));
            }
            let replica = Arc::clone(&self.attached.replica);
            let is_over = self.read_until(tokio::time::timeout(KEEP_ALIVE, replica.begun())).await?;
            if is_over.is_err() {
                self.send(b"\n").await?;
            }
        }
    }

    /// Sends a snapshot that ends with a delimiter which does not occur in it.
    async fn send_flowing(&mut self, snapshot: &Pipe, cursor: &Cursor) -> io::Result<()> {
        // A value that had it would end the snapshot: nobody may guess it.
        let delimiter = self.server.instance.randomness.hex(DELIMITER_LEN);
        self.send(format!("$EOF:{delimiter}\r\n").as_bytes()).await?;
        loop {
            must_be_kept(cursor)?;
            match snapshot.take() {
                Taken::Chunk(chunk) => self.send_of_snapshot(&chunk, cursor).await?,
                Taken::End => break,
                Taken::Broken(reason) => return Err(io::Error::other(format!("the snapshot: {reason}"))),
                Taken::Nothing => self.read_until(snapshot.changed()).await?,
            }
        }
        self.send(delimiter.as_bytes()).await?;
        self.delimiter_found(cursor).await
    }

    /// Waits until the replica reports that it has found the delimiter: replicas that look for it at the end of what
    /// they have read would take following bytes for a part of the snapshot. While it loads, it sends signs of life.
    async fn delimiter_found(&mut self, cursor: &Cursor) -> io::Result<()> {
        self.replica().hear(uptime_ms());
        while !self.replica().has_acknowledged() && !self.is_content_with_snapshot() {
            must_be_kept(cursor)?;
            let timeout_ms = self.server.config.number(Directive::ReplTimeout).saturating_mul(1000);
            if self.replica().silence_ms(uptime_ms()) > timeout_ms {
                return Err(io::Error::other("it has said nothing for repl-timeout after its snapshot"));
            }
            // The time is over: it has said nothing yet.
            if let Ok(read) = tokio::time::timeout(KEEP_ALIVE, self.read_once()).await {
                read?;
            }
        }
        Ok(())
    }

    fn is_content_with_snapshot(&self) -> bool {
        self.replica().introduction.wants_snapshot_alone || self.replica().is_silent
    }

    /// Sends a snapshot, preceded by its length.
    async fn send_gathered(&mut self, snapshot: &Pipe, cursor: &Cursor) -> io::Result<()> {
        let len = loop {
            must_be_kept(cursor)?;
            if let Some(len) = snapshot.whole_len() {
                break len.map_err(|reason| io::Error::other(format!("the snapshot: {reason}")))?;
            }
            if self.read_until(tokio::time::timeout(KEEP_ALIVE, snapshot.changed())).await?.is_err() {
                self.send(b"\n").await?;
            }
        };
        self.send(format!("${len}\r\n").as_bytes()).await?;
        while let Taken::Chunk(chunk) = snapshot.take() {
            self.send_of_snapshot(&chunk, cursor).await?;
        }
        Ok(())
    }

    /// Sends all bytes, unless the cursor is cut. A role change waits until the snapshot ends.
    async fn send_of_snapshot(&mut self, bytes: &[u8], cursor: &Cursor) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            must_be_kept(cursor)?;
            let sent = self.send_chunk(rest, Some(cursor)).await?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// Sends the stream until the connection ends, or the replica lags too far.
    async fn follow(&mut self, cursor: Cursor) -> io::Result<()> {
        // It had nothing to say while it took a snapshot.
        self.replica().hear(uptime_ms());
        self.replica().set_phase(Phase::Online);
        // There may be enough for a write now.
        self.server.replication.coordinate();
        loop {
            must_be_kept(&cursor)?;
            self.client.output_bytes.store(cursor.lag(), Ordering::Relaxed);
            match cursor.read() {
                Some(chunk) => {
                    let sent = self.send_some(chunk.bytes(), &cursor).await?;
                    cursor.advance(sent);
                }
                None => self.read_until(cursor.changed()).await?,
            }
        }
    }

    async fn wait_for_end(&mut self) -> io::Result<()> {
        loop {
            self.read_once().await?;
        }
    }

    /// Sends all of the bytes.
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self.send_chunk(rest, None).await?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    async fn send_some(&mut self, bytes: &[u8], cursor: &Cursor) -> io::Result<usize> {
        self.send_chunk(bytes, Some(cursor)).await
    }

    /// Sends what the socket takes of some bytes, once it takes any; reads meanwhile. 0 if the cursor was cut.
    async fn send_chunk(&mut self, bytes: &[u8], cursor: Option<&Cursor>) -> io::Result<usize> {
        let config = &self.server.config;
        let timeout = || Duration::from_secs(config.number(Directive::ReplTimeout));
        loop {
            match self.client.stream.try_write(bytes) {
                Ok(len) => {
                    self.client.note_output(len, self.server.coarse_uptime_ms());
                    self.server.replication.counts.sent_bytes.fetch_add(len as u64, Ordering::Relaxed);
                    self.let_others_run(len).await;
                    return Ok(len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let cut = async {
                match cursor {
                    // Appends to the stream notify, too.
                    Some(cursor) => {
                        while !cursor.is_cut() {
                            cursor.changed().await;
                        }
                    }
                    None => std::future::pending().await,
                }
            };
            let event = within(timeout, self.event(true, cut)).await;
            self.written = 0;
            match event.ok_or_else(|| io::Error::other("it has taken nothing for repl-timeout"))?? {
                Event::Readable => self.read()?,
                Event::Writable => {}
                Event::Other => return Ok(0),
            }
        }
    }

    /// A replica may take whatever it is sent at once: the others of the thread have their turn nevertheless.
    async fn let_others_run(&mut self, len: usize) {
        self.written += len;
        if self.written >= WRITTEN_AT_ONCE {
            self.written = 0;
            tokio::task::yield_now().await;
        }
    }

    /// Reads incoming bytes until `done` resolves.
    async fn read_until<T>(&mut self, done: impl Future<Output = T>) -> io::Result<T> {
        let mut done = pin!(done);
        loop {
            let mut result = None;
            let event = self
                .event(false, async {
                    result = Some(done.as_mut().await);
                })
                .await?;
            match event {
                Event::Readable => self.read()?,
                _ => return Ok(result.expect("it was done")),
            }
        }
    }

    async fn read_once(&mut self) -> io::Result<()> {
        self.event(false, std::future::pending()).await?;
        self.read()
    }

    async fn event(&self, wants_write: bool, other: impl Future<Output = ()>) -> io::Result<Event> {
        let mut other = pin!(other);
        poll_fn(|context| {
            if other.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Other));
            }
            if let Poll::Ready(result) = self.client.stream.poll_read_ready(context) {
                return Poll::Ready(result.map(|()| Event::Readable));
            }
            if wants_write && let Poll::Ready(result) = self.client.stream.poll_write_ready(context) {
                return Poll::Ready(result.map(|()| Event::Writable));
            }
            Poll::Pending
        })
        .await
    }

    /// Reads and handles incoming bytes.
    fn read(&mut self) -> io::Result<()> {
        self.input.reserve(4096);
        match self.client.stream.read_buf_once(&mut self.input) {
            Ok(0) => return Err(io::Error::other("it closed the connection")),
            Ok(len) => {
                self.client.note_input(len, self.server.coarse_uptime_ms());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        let input = std::mem::take(&mut self.input);
        let consumed = self.accept(&input)?;
        self.input = input;
        self.input.drain(..consumed);
        match self.input.len() > REQUEST_MAX {
            true => Err(io::Error::other("it sends what is no request of a replica")),
            false => Ok(()),
        }
    }

    fn accept(&mut self, input: &[u8]) -> io::Result<usize> {
        let limits = Limits { bulk_len_max: self.server.settings().string_len_max.get(), authenticated: true };
        let mut consumed = 0;
        loop {
            match self.parser.parse(&input[consumed..], limits) {
                Ok(Step::Incomplete) => return Ok(consumed),
                // An empty line: it is busy with the snapshot.
                Ok(Step::Nothing(len)) => {
                    self.replica().hear(uptime_ms());
                    consumed += len;
                }
                Ok(Step::Request(len)) => {
                    self.hear(self.parser.args(&input[consumed..]));
                    consumed += len;
                }
                Err(error) => return Err(io::Error::other(format!("protocol error: {error}"))),
            }
        }
    }

    /// REPLCONF ACK offset [FACK offset]. A replica needs no replies, and gets none.
    fn hear(&self, args: Args<'_>) {
        let offset = |at: usize| args.get(at).and_then(parse_i64).and_then(|offset| u64::try_from(offset).ok());
        if args.len() >= 3
            && args.is(0, "REPLCONF")
            && args.is(1, "ACK")
            && let Some(acknowledged) = offset(2)
        {
            let synced = if args.len() >= 5 && args.is(3, "FACK") { offset(4) } else { None };
            self.server.replication.acknowledge(self.replica(), acknowledged, synced);
            // No error: REPLCONF has no subcommands.
            self.client.note_last_command(commands::find_of(args).unwrap_or_default());
        } else {
            tracing::debug!(client = self.client.id, "Unexpected command from a replica");
        }
    }
}

/// Fails unless the bytes after a replica's cursor are kept until they are sent.
fn must_be_kept(cursor: &Cursor) -> io::Result<()> {
    match cursor.is_cut() {
        true if cursor.has_lagged() => Err(io::Error::other("it lags by more than client-output-buffer-limit")),
        true => Err(io::Error::new(ENDS_HERE, "the stream continues under another name, or elsewhere")),
        false => Ok(()),
    }
}
