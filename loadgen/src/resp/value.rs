//! A parsed reply, for control commands (`INFO`, `CONFIG GET`, `HELLO`) whose answer matters.

/// One reply, owned.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+OK`
    Simple(String),
    /// `-ERR …` or `!…`
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$…`, or a verbatim string without its format
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or `_`
    Null,
    /// `#t`
    Boolean(bool),
    /// `,1.5`
    Double(f64),
    /// `(…`: digits, as received
    BigNumber(String),
    /// `*…`
    Array(Vec<Value>),
    /// `~…`
    Set(Vec<Value>),
    /// `%…`
    Map(Vec<(Value, Value)>),
    /// `>…`
    Push(Vec<Value>),
}

impl Value {
    /// The text of a string reply, simple or bulk; `None` for any other kind.
    pub fn text(&self) -> Option<String> {
        match self {
            Value::Simple(text) => Some(text.clone()),
            Value::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// Parses one reply, which a [`super::ReplyScanner`] has found to be complete: lengths are covered by bytes and
    /// nesting is bounded.
    pub(super) fn from_complete(reply: &[u8]) -> Value {
        Reader { reply, at: 0 }.value()
    }
}

/// Invariant: `at <= reply.len()`, and `reply` passed the scanner.
struct Reader<'a> {
    reply: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Value {
        let (kind, line) = self.line();
        match kind {
            b'+' => Value::Simple(line),
            b'-' => Value::Error(line),
            b':' => line.parse().map_or(Value::BigNumber(line), Value::Integer),
            b'_' => Value::Null,
            b'#' => Value::Boolean(line == "t"),
            b',' => Value::Double(line.parse().unwrap_or(f64::NAN)),
            b'(' => Value::BigNumber(line),
            _ if line == "-1" => Value::Null,
            b'$' => Value::Bulk(self.bytes(&line)),
            b'=' => Value::Bulk(without_format(self.bytes(&line))),
            b'!' => Value::Error(String::from_utf8_lossy(&self.bytes(&line)).into_owned()),
            b'*' => Value::Array(self.elements(&line)),
            b'~' => Value::Set(self.elements(&line)),
            b'>' => Value::Push(self.elements(&line)),
            b'%' => Value::Map(self.pairs(&line)),
            b'|' => {
                self.pairs(&line);
                self.value()
            }
            _ => unreachable!("the scanner refuses unknown types"),
        }
    }

    fn line(&mut self) -> (u8, String) {
        let rest = &self.reply[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\r').expect("the scanner saw the line end");
        self.at += end + 2;
        (rest[0], String::from_utf8_lossy(&rest[1..end]).into_owned())
    }

    fn bytes(&mut self, length: &str) -> Vec<u8> {
        let length = count(length);
        let bytes = self.reply[self.at..self.at + length].to_vec();
        self.at += length + 2;
        bytes
    }

    fn elements(&mut self, length: &str) -> Vec<Value> {
        (0..count(length)).map(|_| self.value()).collect()
    }

    fn pairs(&mut self, length: &str) -> Vec<(Value, Value)> {
        (0..count(length)).map(|_| (self.value(), self.value())).collect()
    }
}

fn count(length: &str) -> usize {
    length.parse().expect("the scanner checked the length")
}

/// Drops the `txt:` of a verbatim string.
fn without_format(mut verbatim: Vec<u8>) -> Vec<u8> {
    verbatim.split_off(verbatim.len().min(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_reply_is_taken_apart() {
        let reply = b"%2\r\n+a\r\n*2\r\n:1\r\n$-1\r\n+b\r\n=6\r\ntxt:hi\r\n";
        let expected = Value::Map(vec![
            (Value::Simple("a".into()), Value::Array(vec![Value::Integer(1), Value::Null])),
            (Value::Simple("b".into()), Value::Bulk(b"hi".to_vec())),
        ]);
        assert_eq!(Value::from_complete(reply), expected);
    }
}
