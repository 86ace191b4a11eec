//! A parsed reply of either protocol version.

use std::fmt;

/// A reply of RESP2 or RESP3.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// `$-1`.
    NullBulk,
    /// `*-1`.
    NullArray,
    /// `_`.
    Null,
    Double(Vec<u8>),
    /// `(`.
    BigNumber(Vec<u8>),
    Boolean(bool),
    /// The text without its format.
    Verbatim(Vec<u8>),
    Array(Vec<Value>),
    Set(Vec<Value>),
    /// Keys and values alternately.
    Map(Vec<Value>),
    Push(Vec<Value>),
}

impl Value {
    /// The reply at the start of `bytes` and its length; `None` if it is incomplete.
    ///
    /// # Panics
    /// If the bytes are no reply: a server that sends them is broken.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut at = 0;
        let value = parse_at(bytes, &mut at)?;
        Some((value, at))
    }

    /// The one reply that `bytes` hold.
    pub fn of(bytes: &[u8]) -> Self {
        let (value, len) = Self::parse(bytes).expect("a whole reply");
        assert_eq!(len, bytes.len(), "one reply only");
        value
    }

    /// The elements of an array, a set, a map or a push.
    pub fn elements(&self) -> &[Value] {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Map(elements) | Self::Push(elements) => elements,
            other => panic!("no elements in {other:?}"),
        }
    }

    /// The elements as bytes.
    pub fn byte_strings(&self) -> Vec<Vec<u8>> {
        self.elements().iter().map(|value| value.bytes().to_vec()).collect()
    }

    /// The bytes of any kind of string.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Simple(bytes)
            | Self::Error(bytes)
            | Self::Bulk(bytes)
            | Self::Double(bytes)
            | Self::BigNumber(bytes)
            | Self::Verbatim(bytes) => bytes,
            other => panic!("no string: {other:?}"),
        }
    }

    /// The bytes as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The number.
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("no integer: {other:?}"),
        }
    }

    /// The value of a field, in an array of alternating fields and values.
    pub fn field(&self, name: &str) -> Option<&Value> {
        let mut pairs = self.elements().chunks_exact(2);
        pairs.find(|pair| pair[0].bytes() == name.as_bytes()).map(|pair| &pair[1])
    }

    /// Whether it is one of the nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::NullBulk | Self::NullArray | Self::Null)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        let text = |f: &mut fmt::Formatter<'_>, mark: &str, bytes: &[u8]| {
            let rest = if bytes.len() > SHOWN { format!("… ({} bytes)", bytes.len()) } else { String::new() };
            write!(f, "{mark}\"{}\"{rest}", bytes[..bytes.len().min(SHOWN)].escape_ascii())
        };
        match self {
            Self::Simple(bytes) => text(f, "+", bytes),
            Self::Error(bytes) => text(f, "-", bytes),
            Self::Integer(number) => write!(f, ":{number}"),
            Self::Bulk(bytes) => text(f, "$", bytes),
            Self::NullBulk => f.write_str("$-1"),
            Self::NullArray => f.write_str("*-1"),
            Self::Null => f.write_str("_"),
            Self::Double(bytes) => text(f, ",", bytes),
            Self::BigNumber(digits) => text(f, "(", digits),
            Self::Boolean(value) => write!(f, "#{value}"),
            Self::Verbatim(bytes) => text(f, "=", bytes),
            Self::Array(elements) => f.write_str("*").and_then(|()| f.debug_list().entries(elements).finish()),
            Self::Set(elements) => f.write_str("~").and_then(|()| f.debug_list().entries(elements).finish()),
            Self::Map(elements) => f.write_str("%").and_then(|()| f.debug_list().entries(elements).finish()),
            Self::Push(elements) => f.write_str(">").and_then(|()| f.debug_list().entries(elements).finish()),
        }
    }
}

fn parse_at(bytes: &[u8], at: &mut usize) -> Option<Value> {
    let kind = *bytes.get(*at)?;
    let line = take_line(bytes, at)?;
    let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
    let length = || number().unwrap_or_else(|| panic!("no length: {:?}", line.escape_ascii().to_string()));
    Some(match kind {
        b'+' => Value::Simple(line.to_vec()),
        b'-' => Value::Error(line.to_vec()),
        b':' => Value::Integer(length()),
        b'_' => Value::Null,
        b',' => Value::Double(line.to_vec()),
        b'(' => Value::BigNumber(line.to_vec()),
        b'#' => Value::Boolean(line == b"t"),
        b'$' if length() < 0 => Value::NullBulk,
        b'*' if length() < 0 => Value::NullArray,
        b'$' => Value::Bulk(take_bulk(bytes, at, length())?),
        b'=' => Value::Verbatim(take_bulk(bytes, at, length())?.split_off("txt:".len())),
        b'*' => Value::Array(take_elements(bytes, at, length())?),
        b'~' => Value::Set(take_elements(bytes, at, length())?),
        b'>' => Value::Push(take_elements(bytes, at, length())?),
        b'%' => Value::Map(take_elements(bytes, at, 2 * length())?),
        other => panic!("no reply begins with {:?}: {:?}", char::from(other), line.escape_ascii().to_string()),
    })
}

/// The text of a line after its first byte.
fn take_line<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &bytes[*at..];
    let len = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += len + 2;
    Some(&rest[1..len])
}

fn take_bulk(bytes: &[u8], at: &mut usize, len: i64) -> Option<Vec<u8>> {
    let end = *at + len as usize;
    if bytes.len() < end + 2 {
        return None;
    }
    assert_eq!(&bytes[end..end + 2], b"\r\n", "a bulk string ends with a newline");
    let bulk = bytes[*at..end].to_vec();
    *at = end + 2;
    Some(bulk)
}

fn take_elements(bytes: &[u8], at: &mut usize, count: i64) -> Option<Vec<Value>> {
    (0..count).map(|_| parse_at(bytes, at)).collect()
}
