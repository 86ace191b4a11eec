//! The link of a replica to its master, in the master's protocol.
//!
//! ```text
//! replica: PING | AUTH … | REPLCONF listening-port … | REPLCONF ip-address … | REPLCONF capa eof capa psync2
//!          PSYNC id offset                  the next byte that it wants of the stream of this name; ? -1 for anything
//! master:  +CONTINUE [id]                   and the stream from there on
//!          +FULLRESYNC id offset            and a snapshot, then the stream from that offset:
//!          $length bytes                    one whose length is known
//!          $EOF:delimiter bytes delimiter   one that is made while it is sent; the delimiter has 40 bytes
//! replica: REPLCONF ACK offset              once a second
//! ```
//! Empty lines before the master's answers are signs of life.

mod cached;
mod command_groups;
mod full_sync;
mod handshake;

pub use cached::{CachedLink, CachedLinks, Login, Target};
pub use command_groups::{Group, StreamReader};
pub use handshake::{Answer, Failure, Introduction, Position};

use super::following::Ends;
use crate::base::clock::within;
use crate::base::network::{Network, Stream};
use crate::base::tls::{self, ClientConfig};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The longest line from a master.
const LINE_MAX: usize = 1024;

/// The buffer size of one read.
const READ_MAX: usize = 256 * 1024;

/// Returns how long a master may be silent, which may change while a link waits.
pub type SilenceMax = Box<dyn Fn() -> Duration + Send + Sync>;

/// A connection to another server: to a master, or to the target of MIGRATE.
///
/// Invariant: `unread[taken..]` has been received but not parsed.
pub struct Link {
    stream: Stream,
    unread: Vec<u8>,
    taken: usize,
    silence_max: SilenceMax,
    /// Counts the bytes that are received.
    received_bytes: Arc<AtomicU64>,
}

impl Link {
    /// Connects to it, from `source` if that is possible; empty for any address. With `tls` the connection is
    /// encrypted.
    pub async fn connect(
        network: &dyn Network,
        (host, port): (&str, u16),
        source: &str,
        tls: Option<&Arc<ClientConfig>>,
        silence_max: SilenceMax,
        received_bytes: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let stream = unless_silent(&silence_max, network.connect(host, port, source)).await?;
        let stream = match tls {
            Some(tls) => unless_silent(&silence_max, tls::connect(stream, host, tls)).await?,
            None => stream,
        };
        Ok(Self { stream, unread: Vec::new(), taken: 0, silence_max, received_bytes })
    }

    /// Its two ends; without addresses if the network has none.
    pub fn ends(&self, id: u64, connected_ms: u64) -> Ends {
        match self.stream.tcp() {
            Some(stream) => {
                let text = |address: io::Result<SocketAddr>| address.map(|address| address.to_string());
                let or_none = |address| text(address).unwrap_or_default();
                Ends { id, connected_ms, master: or_none(stream.peer_addr()), local: or_none(stream.local_addr()) }
            }
            None => Ends { id, connected_ms, ..Ends::default() },
        }
    }

    /// Sends a request.
    pub async fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.send_raw(&request).await
    }

    /// Acknowledges the offset that has taken effect, and the offset that is on the disk, if there is a log.
    pub async fn acknowledge(&mut self, offset: u64, on_disk: Option<u64>) -> io::Result<()> {
        let (offset, on_disk) = (offset.to_string(), on_disk.map(|offset| offset.to_string()));
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
        words.extend(on_disk.iter().flat_map(|offset| [b"FACK".as_slice(), offset.as_bytes()]));
        self.send(&words).await
    }

    /// Sends a sign of life.
    pub async fn keep_alive(&mut self) -> io::Result<()> {
        self.send_raw(b"\n").await
    }

    /// Sends bytes of requests.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = unless_silent(&self.silence_max, self.stream.write_all(bytes)).await;
        // A part may have been sent, and then nothing else may follow it.
        sent.inspect_err(|_| self.stream.shut_down(Shutdown::Both))
    }

    /// The next line that is not empty, without its end.
    pub async fn line(&mut self) -> io::Result<String> {
        loop {
            let unread = &self.unread[self.taken..];
            match unread.iter().position(|&byte| byte == b'\n') {
                Some(len) => {
                    let line = String::from_utf8_lossy(unread[..len].trim_ascii_end()).into_owned();
                    self.taken += len + 1;
                    if !line.is_empty() {
                        return Ok(line);
                    }
                }
                None if unread.len() > LINE_MAX => return Err(io::Error::other("its line has no end")),
                None => self.fill().await?,
            }
        }
    }

    /// Reads once, and waits for as long as the master may be silent.
    async fn fill(&mut self) -> io::Result<()> {
        self.unread.drain(..self.taken);
        self.taken = 0;
        self.unread.reserve(READ_MAX);
        let len = unless_silent(&self.silence_max, self.stream.read_buf(&mut self.unread)).await?;
        self.note_received(len)
    }

    fn note_received(&self, len: usize) -> io::Result<()> {
        self.received_bytes.fetch_add(len as u64, Ordering::Relaxed);
        if len == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// The bytes that were received but not parsed.
    fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.unread.split_off(self.taken);
        self.unread.clear();
        self.taken = 0;
        unread
    }

    /// Reads more into a growing buffer, without a limit on the master's silence. Dropping the future loses nothing.
    pub async fn read_stream(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        if self.taken < self.unread.len() {
            buffer.extend_from_slice(&self.take_unread());
            return Ok(());
        }
        buffer.reserve(READ_MAX);
        let len = self.stream.read_buf(buffer).await?;
        self.note_received(len)
    }
}

/// Waits for a master, for as long as it may be silent.
async fn unless_silent<T>(silence_max: &SilenceMax, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let silent = || io::Error::new(io::ErrorKind::TimedOut, "it is silent for longer than repl-timeout");
    within(silence_max, work).await.unwrap_or_else(|| Err(silent()))
}
