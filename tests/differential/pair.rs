//! Two servers side by side, ours and the reference: the same requests go to both, and the replies must agree.

use super::Request;
use super::compare::{Judge, agree};
use super::differences::{Allowed, FROM_7_0};
use harness::generator::requests::{LINKS, Step, Unit, name_of};
use harness::{Client, RedisOracle, Server, Setup, Value, request};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;

/// Requests in flight on a connection.
const STEPS_PER_PIPELINE: usize = 200;
/// More bytes than this are written and read at the same time.
const SMALL_WRITE: usize = 48 * 1024;

/// Changes requests on their way to our server: a planted bug.
pub type Tamper = fn(&Request) -> Option<Request>;

/// Our server and a redis-server.
pub struct Pair {
    oracle: RedisOracle,
    /// Missing while it starts again.
    server: Option<Server>,
    setup: Setup,
    flags: &'static [&'static str],
    links: Vec<Link>,
    databases: usize,
    tamper: Option<Tamper>,
    allowed: Allowed,
}

struct Link {
    ours: Client,
    oracle: Client,
    judge: Judge,
}

/// A difference.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The request, or what was compared.
    pub at: String,
    pub ours: String,
    pub oracle: String,
    /// How many units were sent, including this one; all of them if it only shows afterwards.
    pub units_sent: usize,
}

impl Pair {
    /// Starts both: ours beside Redis 7.0.
    pub fn start(setup: Setup, flags: &'static [&'static str], tamper: Option<Tamper>) -> Self {
        Self::start_beside(RedisOracle::start_with, FROM_7_0, setup, flags, tamper)
    }

    /// Starts ours beside any version of Redis.
    pub fn start_beside(
        oracle: impl FnOnce(&[&str]) -> RedisOracle,
        allowed: Allowed,
        setup: Setup,
        flags: &'static [&'static str],
        tamper: Option<Tamper>,
    ) -> Self {
        let server = Server::start(setup, flags);
        let databases = server.client().value(&["CONFIG", "GET", "databases"]).elements()[1].text();
        let oracle = oracle(&["--databases", &databases]);
        let databases = databases.parse().expect("CONFIG GET gives a number");
        let mut pair =
            Self { oracle, server: Some(server), setup, flags, links: Vec::new(), databases, tamper, allowed };
        pair.connect();
        pair
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs, but while it is started again")
    }

    /// New connections: one in RESP2, one in RESP3.
    fn connect(&mut self) {
        let connect = |link: usize, address: SocketAddr| {
            if link == 0 { Client::connect(address) } else { Client::connect_resp3(address) }
        };
        let link = |link: usize| Link {
            ours: connect(link, self.server().address()),
            oracle: connect(link, self.oracle.address()),
            judge: Judge::that_allows(self.allowed),
        };
        let links = (0..LINKS).map(link).collect();
        self.links = links;
    }

    /// New connections to the two servers: ours, and the reference's.
    pub fn clients(&self) -> (Client, Client) {
        (self.server().client(), self.oracle.client())
    }

    /// Removes all data, libraries and scripts.
    pub fn clear(&mut self) {
        // A server that did not start from its log has lost it.
        let (setup, flags) = (self.setup, self.flags);
        self.server.get_or_insert_with(|| Server::start(setup, flags));
        let (mut ours, mut oracle) = self.clients();
        for line in ["FLUSHALL", "FUNCTION FLUSH", "SCRIPT FLUSH"] {
            ours.expect(line, "+OK\r\n");
            oracle.expect(line, "+OK\r\n");
        }
        self.connect();
    }

    /// Removes all data, including the log.
    pub fn renew(&mut self) {
        self.links.clear();
        self.server = None;
        self.clear();
    }

    /// Gives each server the libraries of the other, so that the next comparison of all data has them.
    fn exchange_libraries(&self) -> Result<(), Box<Difference>> {
        let (mut ours, mut oracle) = self.clients();
        let payloads = [&mut ours, &mut oracle].map(|client| client.value(&["FUNCTION", "DUMP"]));
        let restore = |client: &mut Client, payload: &Value| {
            client.value(&[b"FUNCTION".as_slice(), b"RESTORE", payload.bytes(), b"FLUSH"]).text()
        };
        let (ours, oracle) = (restore(&mut ours, &payloads[1]), restore(&mut oracle, &payloads[0]));
        if ours == "OK" && oracle == "OK" {
            return Ok(());
        }
        Err(Box::new(Difference { at: "RESTORE of what the other dumps".into(), ours, oracle, units_sent: usize::MAX }))
    }

    /// Kills our server and starts it again from its log.
    fn restart(&mut self) -> Result<(), Box<Difference>> {
        self.exchange_libraries()?;
        // No server keeps its scripts.
        self.oracle.client().expect("SCRIPT FLUSH", "+OK\r\n");
        self.links.clear();
        let data = self.server.take().expect("it runs").kill();
        let (setup, flags) = (self.setup, self.flags);
        let again = std::panic::catch_unwind(AssertUnwindSafe(|| data.start(setup, flags)));
        let Ok(server) = again else {
            return Err(Box::new(Difference {
                at: "the restart".into(),
                ours: "does not start: see above".into(),
                oracle: "(was not started again)".into(),
                units_sent: usize::MAX,
            }));
        };
        self.server = Some(server);
        self.connect();
        Ok(())
    }

    /// Sends units to both, and compares the replies.
    pub fn play(&mut self, units: &[Unit]) -> Result<(), Box<Difference>> {
        let mut start = 0;
        while start < units.len() {
            if units[start].steps.is_empty() {
                self.restart()?;
                self.compare_data()?;
                start += 1;
                continue;
            }
            let link = units[start].link;
            let mut end = start;
            let mut steps = 0;
            while end < units.len()
                && units[end].link == link
                && !units[end].steps.is_empty()
                && steps < STEPS_PER_PIPELINE
            {
                steps += units[end].steps.len();
                end += 1;
            }
            self.play_together(link, &units[start..end], start)?;
            start = end;
        }
        Ok(())
    }

    fn play_together(&mut self, link: usize, units: &[Unit], units_before: usize) -> Result<(), Box<Difference>> {
        let Link { ours, oracle, judge } = &mut self.links[link];
        let tampered = |step: &Step| self.tamper.and_then(|tamper| tamper(&step.request));
        let steps = || units.iter().flat_map(|unit| &unit.steps);
        let bytes: Vec<u8> = steps().flat_map(|step| request(&step.request)).collect();
        let our_bytes: Vec<u8> =
            steps().flat_map(|step| request(&tampered(step).unwrap_or_else(|| step.request.clone()))).collect();
        send(oracle, &bytes);
        send(ours, &our_bytes);
        let mut found = None;
        for (at, unit) in units.iter().enumerate() {
            for step in &unit.steps {
                // After a difference, too: the requests must be finished before anything else is tried.
                let (wanted, reply) = (oracle.reply(), ours.reply());
                if found.is_none() && !judge.is_right(step, &reply, &wanted) {
                    found = Some(Box::new(Difference {
                        at: shown(&step.request),
                        ours: reply.escape_ascii().to_string(),
                        oracle: wanted.escape_ascii().to_string(),
                        units_sent: units_before + at + 1,
                    }));
                }
            }
        }
        found.map_or(Ok(()), Err)
    }

    /// Compares all data, and the libraries.
    pub fn compare_data(&self) -> Result<(), Box<Difference>> {
        let (ours, oracle) = self.clients();
        let mut reader = Reader { ours, oracle, allowed: self.allowed };
        reader.same(&[harness::words("FUNCTION LIST WITHCODE")])?;
        for database in 0..self.databases {
            if self.databases > 1 {
                reader.same(&[vec![b"SELECT".to_vec(), database.to_string().into_bytes()]])?;
            }
            reader.same_database()?;
        }
        Ok(())
    }
}

/// Reads the same data from both.
struct Reader {
    ours: Client,
    oracle: Client,
    allowed: Allowed,
}

impl Reader {
    fn same_database(&mut self) -> Result<(), Box<Difference>> {
        let keys = self.same(&[vec![b"KEYS".to_vec(), b"*".to_vec()]])?;
        let keys = Value::of(&keys[0]).byte_strings();
        let about = |name: &str| keys.iter().map(|key| vec![name.into(), key.clone()]).collect::<Vec<Request>>();
        let kinds = self.same(&about("TYPE"))?;
        self.same(&about("PEXPIRETIME"))?;
        let contents: Vec<Request> = keys.iter().zip(&kinds).flat_map(|(key, kind)| contents(key, kind)).collect();
        self.same(&contents).map(drop)
    }

    /// The replies of both, if they agree.
    fn same(&mut self, requests: &[Request]) -> Result<Vec<Vec<u8>>, Box<Difference>> {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| request(words)).collect();
        send(&mut self.ours, &bytes);
        send(&mut self.oracle, &bytes);
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            let (ours, oracle) = (self.ours.reply(), self.oracle.reply());
            if !agree(request, &ours, &oracle, self.allowed) {
                return Err(Box::new(Difference {
                    at: format!("the data: {}", shown(request)),
                    ours: ours.escape_ascii().to_string(),
                    oracle: oracle.escape_ascii().to_string(),
                    units_sent: usize::MAX,
                }));
            }
            replies.push(oracle);
        }
        Ok(replies)
    }
}

/// The requests that read everything in a key of a type.
fn contents(key: &[u8], kind: &[u8]) -> Vec<Request> {
    let ask = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Request>();
    match kind {
        b"+string\r\n" => vec![ask(&[b"GET", key])],
        b"+list\r\n" => vec![ask(&[b"LRANGE", key, b"0", b"-1"])],
        b"+set\r\n" => vec![ask(&[b"SMEMBERS", key])],
        b"+hash\r\n" => vec![ask(&[b"HGETALL", key])],
        b"+zset\r\n" => vec![ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])],
        b"+stream\r\n" => {
            vec![ask(&[b"XRANGE", key, b"-", b"+"]), ask(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"])]
        }
        other => panic!("nothing reads the type {:?}", other.escape_ascii().to_string()),
    }
}

fn send(client: &mut Client, bytes: &[u8]) {
    if bytes.len() <= SMALL_WRITE { client.send(bytes) } else { client.send_and_hold(bytes) }
}

/// A request as a user would type it.
pub fn shown(request: &Request) -> String {
    let word = |argument: &Vec<u8>| {
        let is_plain = !argument.is_empty() && argument.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"');
        let text = argument.escape_ascii();
        if is_plain { text.to_string() } else { format!("\"{text}\"") }
    };
    request.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Units as a user would type them, a line for each request; only the last ones if there are many.
pub fn script(units: &[Unit]) -> String {
    const UNITS_SHOWN: usize = 60;
    if units.len() > UNITS_SHOWN {
        let left_out = units.len() - UNITS_SHOWN;
        let rest = script(&units[left_out..]);
        return format!("  (nothing smaller was found to lead to it: {left_out} more before these)\n{rest}");
    }
    let line = |unit: &Unit, step: &Step| format!("  {}> {}\n", unit.link + 1, shown(&step.request));
    let of_unit = |unit: &Unit| match unit.steps.is_empty() {
        true => "  (restart)\n".to_owned(),
        false => unit.steps.iter().map(|step| line(unit, step)).collect(),
    };
    units.iter().map(of_unit).collect()
}

/// Whether a request is of this command.
pub fn is_command(request: &Request, name: &str) -> bool {
    name_of(request) == name
}
