//! The bytes of strings, however they are stored, and strings that grow.

use super::CommandError;
use crate::keyspace::{NewValue, Node, Value};

/// The most memory that a growing string reserves.
const GROWTH_MAX: usize = 1024 * 1024;

/// The bytes of a string; an integer's are written to `digits`.
pub fn text_of<'a>(value: Value<'a>, digits: &'a mut itoa::Buffer) -> Result<&'a [u8], CommandError> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Integer(integer) => Ok(digits.format(integer).as_bytes()),
        Value::Object(_) => Err(CommandError::WrongType),
    }
}

/// Makes the string of a node a text, as an integer has no bytes to change, and returns its length.
pub fn make_text(node: &mut Node) -> Result<usize, CommandError> {
    let integer = match node.value() {
        Value::Text(text) => return Ok(text.len()),
        Value::Object(_) => return Err(CommandError::WrongType),
        Value::Integer(integer) => integer,
    };
    let mut digits = itoa::Buffer::new();
    let text = digits.format(integer).as_bytes();
    node.set(NewValue::Text(text), node.expire_at());
    Ok(text.len())
}

/// Makes the string of a node at least `len` bytes long, padded with zeros; returns its bytes, and whether it grew. The
/// caller has checked the length.
pub fn lengthen(node: &mut Node, len: usize) -> Result<(&mut [u8], bool), CommandError> {
    let old = make_text(node)?;
    let new = len.max(old);
    // A first value reserves no memory: most are not written to again.
    let growth = if old == 0 { 0 } else { new.min(GROWTH_MAX) };
    Ok((node.resize_text(new, growth), new > old))
}

/// Lets OBJECT ENCODING reply raw for a text that a command built from several.
pub fn make_raw(node: &mut Node) {
    if let Value::Text(text) = node.value() {
        let len = text.len();
        node.resize_text(len, 0);
    }
}

/// The length of a string if `len` bytes end after `start` bytes; `most` is [`Keyspace::string_len_max`].
///
/// [`Keyspace::string_len_max`]: crate::keyspace::Keyspace::string_len_max
pub fn checked_len(start: usize, len: usize, most: usize) -> Result<usize, CommandError> {
    const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    start.checked_add(len).filter(|&len| len <= most).ok_or(CommandError::Text(TOO_LONG))
}
