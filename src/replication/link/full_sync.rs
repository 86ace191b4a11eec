//! The snapshot that a master sends before its stream.

use super::Link;
use super::handshake::Failure;
use std::io;

/// The length of the delimiter that ends a snapshot of unknown length.
const DELIMITER_LEN: usize = 40;

/// How a snapshot ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadEnd {
    /// After this many bytes.
    Length(u64),
    /// With this delimiter.
    Delimiter([u8; DELIMITER_LEN]),
}

/// A snapshot that is being received.
#[derive(Debug)]
pub struct Payload {
    end: PayloadEnd,
    /// Bytes that were handed on.
    pub received: u64,
    is_complete: bool,
}

impl Link {
    /// Waits for the beginning of the snapshot.
    pub async fn begin_payload(&mut self) -> Result<Payload, Failure> {
        let line = self.line().await?;
        let end = payload_end(&line).ok_or_else(|| {
            Failure::Refused(match line.strip_prefix('-') {
                Some(error) => format!("MASTER aborted replication with an error: {error}"),
                None => format!("Bad protocol from MASTER, the first byte is not '$': '{}'", shown(&line)),
            })
        })?;
        let is_complete = end == PayloadEnd::Length(0);
        Ok(Payload { end, received: 0, is_complete })
    }

    /// The next bytes of the snapshot; `None` when it is complete. What follows it stays in the link. Dropping the
    /// future loses nothing.
    pub async fn next_piece(&mut self, payload: &mut Payload) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if payload.is_complete {
                return Ok(None);
            }
            let (len, is_end) = payload.end.find(&self.unread[self.taken..], payload.received);
            if len > 0 || is_end {
                let piece = self.unread[self.taken..][..len].to_vec();
                payload.received += len as u64;
                payload.is_complete = is_end;
                self.taken += len + if is_end { payload.end.delimiter_len() } else { 0 };
                return Ok(Some(piece));
            }
            self.fill().await?;
        }
    }
}

impl Payload {
    /// Its length, if the master has sent it.
    pub fn len(&self) -> Option<u64> {
        match self.end {
            PayloadEnd::Length(len) => Some(len),
            PayloadEnd::Delimiter(_) => None,
        }
    }
}

impl PayloadEnd {
    fn delimiter_len(&self) -> usize {
        match self {
            Self::Length(_) => 0,
            Self::Delimiter(_) => DELIMITER_LEN,
        }
    }

    /// How many of these bytes certainly belong to the snapshot, after `before` earlier ones; and whether it ends with
    /// them.
    fn find(&self, bytes: &[u8], before: u64) -> (usize, bool) {
        match self {
            Self::Length(len) => {
                let left = len - before;
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                (here, here as u64 == left)
            }
            Self::Delimiter(delimiter) => match bytes.windows(DELIMITER_LEN).position(|window| window == delimiter) {
                Some(len) => (len, true),
                // The last bytes may be the beginning of the delimiter.
                None => (bytes.len().saturating_sub(DELIMITER_LEN - 1), false),
            },
        }
    }
}

fn payload_end(line: &str) -> Option<PayloadEnd> {
    let length = line.strip_prefix('$')?;
    match length.strip_prefix("EOF:") {
        Some(delimiter) => delimiter.as_bytes().try_into().ok().map(PayloadEnd::Delimiter),
        None => length.parse().ok().map(PayloadEnd::Length),
    }
}

fn shown(line: &str) -> String {
    line.chars().take(128).collect::<String>().escape_debug().to_string()
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => error,
            other => Self::other(other.to_string()),
        }
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_ends_at_its_length_or_at_its_delimiter_and_nowhere_else() {
        let delimiter = [b'm'; DELIMITER_LEN];
        assert_eq!(payload_end("$12"), Some(PayloadEnd::Length(12)));
        assert_eq!(payload_end(&format!("$EOF:{}", "m".repeat(DELIMITER_LEN))), Some(PayloadEnd::Delimiter(delimiter)));
        for line in ["$", "$-1", "$x", "$EOF:short", "12", ""] {
            assert_eq!(payload_end(line), None, "{line}");
        }
        assert_eq!(PayloadEnd::Length(10).find(b"abc", 5), (3, false));
        assert_eq!(PayloadEnd::Length(10).find(b"abcdefg", 5), (5, true));
        let end = PayloadEnd::Delimiter(delimiter);
        let sent = [b"snapshot".as_slice(), &delimiter, b"stream"].concat();
        for cut in 0..sent.len() {
            let (len, is_end) = end.find(&sent[..cut], 0);
            assert!(len <= 8 && (!is_end || len == 8), "cut at {cut}");
            assert_eq!(is_end, cut >= 8 + DELIMITER_LEN, "cut at {cut}");
        }
    }
}
