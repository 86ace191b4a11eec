//! Messages as sent to the socket.
//!
//! ```text
//! RESP2  *3 message  channel payload    *4 pmessage pattern channel payload    *3 smessage channel payload
//! RESP3  >3 ...                         >4 ...                                 >3 ...
//! ```
//!
//! The two only differ in their first byte, so a message is encoded once for all receivers.

use crate::resp::Reply;
use bytes::Bytes;

/// The first byte of a push in RESP3.
const PUSH: u8 = b'>';
/// The first byte of a message in RESP2.
const ARRAY: u8 = b'*';

/// Encodes a message for all of its subscribers: O(length).
pub fn encode(parts: &[&[u8]]) -> Bytes {
    const HEAD_MAX: usize = 32;
    let mut encoded = Vec::with_capacity(parts.iter().map(|part| part.len() + HEAD_MAX).sum());
    let mut reply = Reply::new(&mut encoded, false);
    reply.array(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    // Waiting messages take no more memory than they need.
    encoded.shrink_to_fit();
    Bytes::from(encoded)
}

/// Appends an encoded message, in the protocol of the connection.
pub fn append(out: &mut Vec<u8>, encoded: &[u8], resp3: bool) {
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

    #[test]
    fn one_encoding_serves_both_protocols() {
        let encoded = encode(&[b"message", b"c", b"hi"]);
        let mut out = b"+OK\r\n".to_vec();
        append(&mut out, &encoded, false);
        append(&mut out, &encoded, true);
        let body = "3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
        assert_eq!(String::from_utf8_lossy(&out), format!("+OK\r\n*{body}>{body}"));
    }
}
