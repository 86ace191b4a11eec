//! Messages as sent to the socket.
//!
//! ```text
//! RESP2  *3 message  channel payload    *4 pmessage pattern channel payload    *3 smessage channel payload
//! RESP3  >3 ...                         >4 ...                                 >3 ...
//!
//! RESP2  *3 message __redis__:invalidate keys    RESP3  >2 invalidate keys    >2 tracking-redir-broken client-id
//! ```
//!
//! What is published only differs in its first byte, so it is encoded once for all receivers. Invalidated keys differ
//! in more, and in RESP2 only those leave that another connection has redirected to a subscriber.

use crate::resp::Reply;
use bytes::Bytes;

/// The first byte of a push in RESP3.
const PUSH: u8 = b'>';
/// The first byte of a message in RESP2.
const ARRAY: u8 = b'*';
/// The channel in which invalidated keys are published, to whom another connection redirects them.
const INVALIDATED: &[u8] = b"__redis__:invalidate";

/// A message in a queue.
#[derive(Debug, Clone)]
pub enum Message {
    /// Published, or a line for monitors; encoded.
    Published(Bytes),
    /// Keys that the client must not keep any longer.
    Invalidated {
        /// They, as an array; `None` for all keys.
        keys: Option<Bytes>,
        /// Whether another connection has read them.
        is_redirected: bool,
    },
    /// The client to which invalidated keys were redirected has gone.
    RedirectionLost(u64),
}

impl Message {
    /// The same, for the connection that gets it instead.
    pub fn redirected(&self) -> Self {
        match self {
            Self::Invalidated { keys, .. } => Self::Invalidated { keys: keys.clone(), is_redirected: true },
            Self::Published(_) | Self::RedirectionLost(_) => self.clone(),
        }
    }

    /// Bytes of what it refers to.
    pub fn len(&self) -> usize {
        match self {
            Self::Published(bytes) | Self::Invalidated { keys: Some(bytes), .. } => bytes.len(),
            Self::Invalidated { keys: None, .. } | Self::RedirectionLost(_) => 0,
        }
    }

    /// Whether a connection with this protocol can be sent it; `is_listening` says whether it is subscribed to
    /// anything.
    pub fn is_for(&self, resp3: bool, is_listening: bool) -> bool {
        match self {
            Self::Published(_) => true,
            Self::Invalidated { is_redirected, .. } => resp3 || (*is_redirected && is_listening),
            Self::RedirectionLost(_) => resp3,
        }
    }

    /// Appends it, in the protocol of the connection, unless that cannot be sent it.
    pub fn append(&self, out: &mut Vec<u8>, resp3: bool, is_listening: bool) {
        match self {
            _ if !self.is_for(resp3, is_listening) => {}
            Self::Published(encoded) => append_published(out, encoded, resp3),
            Self::Invalidated { keys, .. } => {
                let reply = &mut Reply::new(out, resp3);
                reply.push(if resp3 { 2 } else { 3 });
                match resp3 {
                    true => reply.bulk(b"invalidate"),
                    false => {
                        reply.bulk(b"message");
                        reply.bulk(INVALIDATED);
                    }
                }
                match keys {
                    Some(keys) => reply.raw(keys),
                    None => reply.null(),
                }
            }
            Self::RedirectionLost(client) => {
                let reply = &mut Reply::new(out, resp3);
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.integer(*client as i64);
            }
        }
    }
}

/// Encodes a message for all of its subscribers: O(length).
pub fn encode(parts: &[&[u8]]) -> Message {
    Message::Published(array_of(parts))
}

/// Encodes an array: O(length).
pub fn array_of(parts: &[&[u8]]) -> Bytes {
    const HEAD_MAX: usize = 32;
    let mut encoded = Vec::with_capacity(parts.iter().map(|part| part.len() + HEAD_MAX).sum());
    let mut reply = Reply::new(&mut encoded, false);
    reply.array(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    // Waiting messages take no more memory than they need.
    encoded.shrink_to_fit();
    Bytes::from(encoded)
}

fn append_published(out: &mut Vec<u8>, encoded: &[u8], resp3: bool) {
    let start = out.len();
    out.extend_from_slice(encoded);
    // Lines for monitors are the same in both.
    if resp3 && encoded.first() == Some(&ARRAY) {
        out[start] = PUSH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appended(message: &Message, resp3: bool, is_listening: bool) -> String {
        let mut out = b"+OK\r\n".to_vec();
        message.append(&mut out, resp3, is_listening);
        String::from_utf8(out.split_off(5)).expect("the test's messages are text")
    }

    #[test]
    fn one_encoding_serves_both_protocols() {
        let message = encode(&[b"message", b"c", b"hi"]);
        let body = "3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
        assert_eq!(appended(&message, false, true), format!("*{body}"));
        assert_eq!(appended(&message, true, true), format!(">{body}"));
    }

    #[test]
    fn invalidated_keys_leave_as_a_push_or_as_a_message_to_a_subscriber_of_another() {
        let own = Message::Invalidated { keys: Some(array_of(&[b"k"])), is_redirected: false };
        let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!([appended(&own, true, false), appended(&own, false, true)], [push, ""]);
        let others = own.redirected();
        let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!(
            [appended(&others, true, true), appended(&others, false, true), appended(&others, false, false)],
            [push, message, ""]
        );
        let all = Message::Invalidated { keys: None, is_redirected: true };
        assert!(appended(&all, true, false).ends_with("\r\n_\r\n"));
        assert!(appended(&all, false, true).ends_with("\r\n$-1\r\n"));
        let lost = Message::RedirectionLost(7);
        assert_eq!(appended(&lost, true, false), ">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n");
        assert_eq!(appended(&lost, false, true), "");
    }
}
