//! A small blocking RESP2 client for what the lab itself asks of a server: PING, DBSIZE, INFO.
//! Nothing here is measured.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
const BULK_LENGTH_MAX: usize = 16 << 20;

/// One connection to a server.
#[derive(Debug)]
pub struct Client(BufReader<TcpStream>);

/// The replies these commands have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A simple or bulk string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// An error reply.
    Error(String),
}

impl Client {
    /// Connects, with a time limit on connecting and on each reply.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends one command and waits for its reply.
    pub fn call(&mut self, arguments: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            request.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => rest
                .parse()
                .map(Reply::Integer)
                .map_err(|_| malformed(&line)),
            "$" => self.bulk(rest.parse().map_err(|_| malformed(&line))?),
            _ => Err(malformed(&line)),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.by_ref().take(1 << 16).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bulk(&mut self, length: usize) -> io::Result<Reply> {
        if length > BULK_LENGTH_MAX {
            return Err(malformed(&format!("${length}")));
        }
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("unexpected reply {line:?}"))
}
