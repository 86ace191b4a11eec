//! Parses HELLO, also when it is queued in a MULTI block.

use crate::resp::{Args, CommandError, parse_i64, quoted};

/// The arguments of a HELLO.
#[derive(Debug)]
pub struct Greeting<'a> {
    /// Whether the version is RESP3, if one is given.
    pub resp3: Option<bool>,
    /// User and password.
    pub credentials: Option<(&'a [u8], &'a [u8])>,
    /// The new name of the connection.
    pub name: Option<String>,
}

impl<'a> Greeting<'a> {
    /// Parses the arguments of a HELLO.
    pub fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let resp3 = match args.get(1) {
            None => None,
            Some(text) => match parse_i64(text) {
                None => return Err(CommandError::Text("ERR Protocol version is not an integer or out of range")),
                Some(version @ 2..=3) => Some(version == 3),
                Some(_) => return Err(CommandError::Text("NOPROTO unsupported protocol version")),
            },
        };
        let (mut name, mut credentials) = (None, None);
        let mut position = 2;
        while position < args.len() {
            let left = args.len() - position - 1;
            let after = |count| args.get(position + count).expect("as many are left");
            if args.is(position, "AUTH") && left >= 2 {
                credentials = Some((after(1), after(2)));
                position += 3;
            } else if args.is(position, "SETNAME") && left >= 1 {
                name = Some(client_name(after(1))?);
                position += 2;
            } else {
                let option = quoted(after(0), usize::MAX);
                return Err(CommandError::Owned(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        }
        Ok(Self { resp3, credentials, name })
    }
}

/// A name keeps CLIENT LIST readable: no spaces, newlines or special characters.
pub fn client_name(name: &[u8]) -> Result<String, CommandError> {
    readable(name).ok_or(CommandError::Text("ERR Client names cannot contain spaces, newlines or special characters."))
}

/// A text without spaces, newlines or special characters.
pub fn readable(text: &[u8]) -> Option<String> {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte)).then(|| String::from_utf8_lossy(text).into_owned())
}
