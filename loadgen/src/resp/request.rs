//! Encoding of requests: an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`.

/// Appends one request to `out`.
pub fn encode_request(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(digits.format(arguments.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    for argument in arguments {
        out.push(b'$');
        out.extend_from_slice(digits.format(argument.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}
