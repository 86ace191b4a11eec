//! How a replica introduces itself, and how its master answers.

use super::Link;
use std::fmt;
use std::io;

/// The introduction of a replica.
#[derive(Debug, Clone, Default)]
pub struct Introduction {
    /// The user; empty for the default one.
    pub user: String,
    /// The password; empty for none.
    pub password: String,
    /// The port at which it is reached.
    pub port: u16,
    /// The address at which it is reached; empty for the one that it connects from.
    pub address: String,
}

/// A position in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The name of the stream.
    pub id: String,
    /// How many bytes of it have taken effect.
    pub offset: u64,
}

/// A master's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A snapshot, at this position of its stream.
    Snapshot(Position),
    /// The stream from the requested position, perhaps under a new name.
    Stream(Option<String>),
}

/// Why there is no link.
#[derive(Debug)]
pub enum Failure {
    /// The connection failed.
    Io(io::Error),
    /// The master is not ready now; this is its message.
    NotNow(String),
    /// The master refuses, or does not speak the protocol.
    Refused(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotNow(said) => write!(f, "it has nothing to give just now: {said}"),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

/// The length of a stream's name.
const ID_LEN: usize = 40;
/// No stream gets that long; offsets after it still fit into a reply.
const OFFSET_MAX: u64 = 1 << 62;

impl Link {
    /// Introduces a replica and requests the stream from `position` on, or everything; or makes the other side take
    /// over.
    pub async fn introduce(
        &mut self,
        introduction: &Introduction,
        position: Option<&Position>,
        takes_over: bool,
    ) -> Result<Answer, Failure> {
        self.greet().await?;
        self.authenticate(introduction).await?;
        self.configure(&[b"listening-port", introduction.port.to_string().as_bytes()]).await?;
        if !introduction.address.is_empty() {
            self.configure(&[b"ip-address", introduction.address.as_bytes()]).await?;
        }
        self.configure(&[b"capa", b"eof", b"capa", b"psync2"]).await?;
        self.ask(position, takes_over).await
    }

    /// A master that needs a password first, or permits no access, replies with an error that says so.
    async fn greet(&mut self) -> Result<(), Failure> {
        self.send(&[b"PING"]).await?;
        let reply = self.line().await?;
        let goes_on = reply.starts_with('+')
            || ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"].iter().any(|start| reply.starts_with(start));
        match goes_on {
            true => Ok(()),
            false => Err(Failure::Refused(format!("Error reply to PING from master: '{reply}'"))),
        }
    }

    async fn authenticate(&mut self, introduction: &Introduction) -> Result<(), Failure> {
        let (user, password) = (introduction.user.as_bytes(), introduction.password.as_bytes());
        match (user.is_empty(), password.is_empty()) {
            (_, true) => return Ok(()),
            (true, false) => self.send(&[b"AUTH", password]).await?,
            (false, false) => self.send(&[b"AUTH", user, password]).await?,
        }
        let reply = self.line().await?;
        match reply.starts_with('-') {
            true => Err(Failure::Refused(format!("Unable to AUTH to MASTER: {reply}"))),
            false => Ok(()),
        }
    }

    /// A master may not know all options.
    async fn configure(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let words: Vec<&[u8]> = [b"REPLCONF".as_slice()].into_iter().chain(words.iter().copied()).collect();
        self.send(&words).await?;
        let reply = self.line().await?;
        if reply.starts_with('-') {
            let name = String::from_utf8_lossy(words[1]).into_owned();
            tracing::info!("(Non critical) Master does not understand REPLCONF {name}: {reply}");
        }
        Ok(())
    }

    /// With the word FAILOVER the other side, a replica, becomes a master first.
    async fn ask(&mut self, position: Option<&Position>, takes_over: bool) -> Result<Answer, Failure> {
        let (id, offset) = match position {
            Some(Position { id, offset }) => (id.as_str(), (offset + 1).to_string()),
            None => ("?", "-1".to_owned()),
        };
        let words: [&[u8]; 4] = [b"PSYNC", id.as_bytes(), offset.as_bytes(), b"FAILOVER"];
        self.send(if takes_over { &words } else { &words[..3] }).await?;
        answer(&self.line().await?)
    }
}

/// Parses a master's reply to PSYNC.
fn answer(line: &str) -> Result<Answer, Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_id = |word: &str| word.len() == ID_LEN && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match words.as_slice() {
        ["+FULLRESYNC", id, offset] if is_id(id) => {
            let offset = offset.parse::<u64>().ok().filter(|offset| *offset <= OFFSET_MAX);
            let offset = offset.ok_or_else(|| Failure::Refused(format!("its offset is no number: '{line}'")))?;
            Ok(Answer::Snapshot(Position { id: (*id).to_owned(), offset }))
        }
        ["+CONTINUE"] => Ok(Answer::Stream(None)),
        ["+CONTINUE", id] if is_id(id) => Ok(Answer::Stream(Some((*id).to_owned()))),
        ["-NOMASTERLINK" | "-LOADING", ..] => Err(Failure::NotNow(line.to_owned())),
        _ => Err(Failure::Refused(format!("Unexpected reply to PSYNC from master: '{line}'"))),
    }
}

#[test]
fn what_a_master_answers_is_understood_or_refused() {
    let id = "0123456789abcdef0123456789abcdef01234567";
    let position = Position { id: id.into(), offset: 7 };
    let understood = |line: String| answer(&line).ok();
    assert_eq!(understood(format!("+FULLRESYNC {id} 7")), Some(Answer::Snapshot(position)));
    assert_eq!(understood("+CONTINUE".into()), Some(Answer::Stream(None)));
    assert_eq!(understood(format!("+CONTINUE {id}")), Some(Answer::Stream(Some(id.into()))));
    let lies =
        ["+FULLRESYNC".into(), format!("+FULLRESYNC {id} -1"), format!("+FULLRESYNC {id} x"), "+FULLRESYNC a 1".into()];
    let too_far = format!("+FULLRESYNC {id} {}", i64::MAX);
    for line in lies.into_iter().chain([too_far]).chain([
        "+OK".into(),
        "-ERR unknown command".into(),
        format!("+CONTINUE {id}0"),
    ]) {
        assert!(matches!(answer(&line), Err(Failure::Refused(_))), "{line}");
    }
    assert!(matches!(answer("-NOMASTERLINK Can't SYNC"), Err(Failure::NotNow(_))));
}
