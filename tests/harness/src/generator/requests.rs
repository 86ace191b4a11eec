//! The requests: units that belong together, on one of two connections.

use super::Request;
use super::atoms::{KINDS, Source};
use super::families::{FAMILIES, Family};
use super::grammar::Node;

/// Connections of each server: one begins in RESP2 and one in RESP3.
pub const LINKS: usize = 2;

/// How a reply is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It agrees with Redis's reply, by the rule for its command.
    Agrees,
    /// As `Agrees`; the next step draws from the contents in this reply.
    Holds,
    /// A random choice from those contents: as many as Redis returns, and nothing else.
    Drawn,
    /// The contents without the drawn elements.
    LeftAfterDraw,
    /// An ID made from the time, or Redis's reply.
    TimeId,
}

/// A request with the check of its reply.
#[derive(Debug, Clone)]
pub struct Step {
    pub request: Request,
    pub check: Check,
}

/// Requests that are sent together, and left out together when a difference is made smaller.
#[derive(Debug, Clone)]
pub struct Unit {
    pub link: usize,
    pub steps: Vec<Step>,
}

impl Unit {
    /// No requests: our server is killed and starts again from its log.
    pub const RESTART: Self = Self { link: 0, steps: Vec::new() };

    /// Whether it reads the encoding of a value.
    pub fn asks_for_encoding(&self) -> bool {
        let is_it = |request: &Request| request.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"ENCODING"));
        self.steps.iter().any(|step| name_of(&step.request) == "OBJECT" && is_it(&step.request))
    }
}

struct Grammar {
    name: &'static str,
    weight: usize,
    arguments: Node,
}

struct Commands {
    weight: usize,
    commands: Vec<Grammar>,
}

/// Makes the requests of a run, all from one seed.
pub struct Generator {
    source: Source,
    families: Vec<Commands>,
    is_in_multi: [bool; LINKS],
}

impl Generator {
    /// A generator for every command.
    pub fn new(seed: u64) -> Self {
        Self::over(seed, FAMILIES)
    }

    /// A generator for the commands of some families.
    pub fn over(seed: u64, families: impl IntoIterator<Item = &'static Family>) -> Self {
        let grammar = |command: &'static (&'static str, usize, &'static str)| Grammar {
            name: command.0,
            weight: command.1,
            arguments: Node::parse(command.2),
        };
        let families = families
            .into_iter()
            .map(|family| Commands { weight: family.weight, commands: family.commands.iter().map(grammar).collect() });
        Self { source: Source::new(seed), families: families.collect(), is_in_multi: [false; LINKS] }
    }

    /// Random arguments for requests that are made elsewhere.
    pub fn source(&mut self) -> &mut Source {
        &mut self.source
    }

    /// The next requests for a connection.
    pub fn next(&mut self, link: usize) -> Unit {
        let request = self.alone(link);
        Unit { link, steps: self.with_company(request) }
    }

    /// The next request for a connection, without the accompanying ones that two servers need.
    pub fn alone(&mut self, link: usize) -> Request {
        let mut request = self.request(link);
        if may_be_mutated(&request) {
            self.mutate(&mut request);
        }
        self.note_transaction(link, &request);
        request
    }

    fn request(&mut self, link: usize) -> Request {
        if self.is_in_multi[link] && self.source.chance(12) {
            return vec![self.source.pick(&["EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "exec", "DISCARD"])];
        }
        let family = &self.families[weighted(&mut self.source, &self.families, |family| family.weight)];
        let command = &family.commands[weighted(&mut self.source, &family.commands, |command| command.weight)];
        let mut request = vec![self.source.in_some_case(command.name)];
        command.arguments.write(&mut self.source, &mut request);
        request
    }

    fn note_transaction(&mut self, link: usize, request: &Request) {
        match (name_of(request).as_str(), request.len()) {
            ("MULTI", 1) => self.is_in_multi[link] = true,
            ("EXEC" | "DISCARD" | "RESET", 1) => self.is_in_multi[link] = false,
            _ => {}
        }
    }

    /// Too few arguments, too many, one twice, two in the wrong order, or an invalid one.
    fn mutate(&mut self, request: &mut Request) {
        let len = request.len();
        match self.source.below(60) {
            0 => request.truncate(1 + self.source.below(len)),
            1 => {
                let extra = self.source.value();
                request.push(extra);
            }
            2 if len > 1 => request.push(request[1 + self.source.below(len - 1)].clone()),
            3 if len > 2 => {
                let at = 1 + self.source.below(len - 2);
                request.swap(at, at + 1);
            }
            4 if len > 2 => {
                let at = 2 + self.source.below(len - 2);
                request[at] = self.source.value();
            }
            _ => {}
        }
    }

    /// The requests that must accompany one whose result is random, or shows late.
    fn with_company(&mut self, request: Request) -> Vec<Step> {
        let key = request.get(1).cloned().unwrap_or_default();
        let agrees = |words: &[&[u8]]| step(words, Check::Agrees);
        let holds = |words: &[&[u8]]| step(words, Check::Holds);
        let name = name_of(&request);
        let is_random_id = request.iter().any(|argument| argument == b"*");
        let drawn = Step { request, check: Check::Drawn };
        let all: [&[u8]; 2] = [b"0", b"-1"];
        match name.as_str() {
            // The rest differs from server to server: it is removed.
            "SPOP" => vec![
                holds(&[b"SMEMBERS", &key]),
                drawn,
                step(&[b"SMEMBERS", &key], Check::LeftAfterDraw),
                agrees(&[b"DEL", &key]),
            ],
            "SRANDMEMBER" => vec![holds(&[b"SMEMBERS", &key]), drawn],
            "HRANDFIELD" => vec![holds(&[b"HGETALL", &key]), drawn],
            "ZRANDMEMBER" => vec![holds(&[b"ZRANGE", &key, all[0], all[1], b"WITHSCORES"]), drawn],
            "RANDOMKEY" => vec![holds(&[b"KEYS", b"*"]), drawn],
            "XADD" if is_random_id => vec![Step { check: Check::TimeId, ..drawn }, agrees(&[b"DEL", &key])],
            // Redis checks errno, which an earlier command may have left: a command that fails to parse a number sets
            // it to 0.
            "SORT" | "SORT_RO" => {
                vec![agrees(&[b"INCRBYFLOAT", b"nosuch", b"x"]), Step { check: Check::Agrees, ..drawn }]
            }
            // 7.2 refuses some that 7.0 obeys.
            "XSETID" => vec![Step { check: Check::Agrees, ..drawn }, agrees(&[b"DEL", &key])],
            // Order by member is only defined if all scores are equal: they become 0 before.
            _ if is_by_member(&drawn.request) => {
                vec![
                    agrees(&[b"ZUNIONSTORE", &key, b"1", &key, b"WEIGHTS", b"0"]),
                    Step { check: Check::Agrees, ..drawn },
                ]
            }
            // 7.2 creates a consumer as soon as it is named, 7.0 when it receives something: here it is created before.
            "XREADGROUP" | "XCLAIM" | "XAUTOCLAIM" => {
                let mut steps = consumers_of(&drawn.request);
                steps.push(Step { check: Check::Agrees, ..drawn });
                steps
            }
            // They may leave a key that has expired and still exists; DBSIZE counts it until it is accessed.
            "SET" | "GETEX" => vec![Step { check: Check::Agrees, ..drawn }, agrees(&[b"EXISTS", &key])],
            _ => vec![Step { check: Check::Agrees, ..drawn }],
        }
    }

    /// Further connections are new ones.
    pub fn forget_connections(&mut self) {
        self.is_in_multi = [false; LINKS];
    }
}

fn is_by_member(request: &Request) -> bool {
    match name_of(request).as_str() {
        "ZRANGE" => request.iter().any(|word| word.eq_ignore_ascii_case(b"BYLEX")),
        name => matches!(name, "ZLEXCOUNT" | "ZRANGEBYLEX" | "ZREVRANGEBYLEX" | "ZREMRANGEBYLEX"),
    }
}

/// Requests that create the consumer named by a request, in every stream that it names.
fn consumers_of(request: &Request) -> Vec<Step> {
    let streams = request.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS"));
    let (keys, names) = match streams {
        Some(at) => (&request[at + 1..at + 1 + (request.len() - at - 1) / 2], request.get(2..4)),
        None => (request.get(1..2).unwrap_or_default(), request.get(2..4)),
    };
    let Some([group, consumer]) = names else { return Vec::new() };
    let make = |key: &Vec<u8>| step(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer], Check::Agrees);
    keys.iter().map(make).collect()
}

fn step(words: &[&[u8]], check: Check) -> Step {
    Step { request: words.iter().map(|word| word.to_vec()).collect(), check }
}

fn weighted<T>(source: &mut Source, all: &[T], weight: impl Fn(&T) -> usize) -> usize {
    let mut left = source.below(all.iter().map(&weight).sum());
    all.iter()
        .position(|one| {
            let is_it = left < weight(one);
            left = left.saturating_sub(weight(one));
            is_it
        })
        .expect("the weights were summed over these")
}

/// The name of the command, in upper case.
pub fn name_of(request: &Request) -> String {
    String::from_utf8_lossy(&request[0]).to_uppercase()
}

/// Not for ZRANK and ZREVRANK, where 7.2 accepts an option that is one argument too many for 7.0. And not if a number
/// in the wrong place is a wait, a deadline that comes soon, a choice among many, or a string that fills the memory:
/// grammars of such commands have invalid arguments of their own.
fn may_be_mutated(request: &Request) -> bool {
    const WITH_CARE: &[&str] = &[
        "SET",
        "GETEX",
        "SETEX",
        "PSETEX",
        "EXPIRE",
        "PEXPIRE",
        "EXPIREAT",
        "PEXPIREAT",
        "SETRANGE",
        "SETBIT",
        "BITFIELD",
        "SPOP",
        "SRANDMEMBER",
        "HRANDFIELD",
        "ZRANDMEMBER",
        "BLPOP",
        "BRPOP",
        "BLMOVE",
        "BRPOPLPUSH",
        "BLMPOP",
        "BZPOPMIN",
        "BZPOPMAX",
        "BZMPOP",
        "XREAD",
        "XREADGROUP",
        "XCLAIM",
        "XAUTOCLAIM",
        "XPENDING",
        "WAIT",
        "WAITAOF",
        "SORT",
        "SORT_RO",
        "SCAN",
        "SSCAN",
        "HSCAN",
        "ZSCAN",
        "RESET",
        "HELLO",
        "EXEC",
        "DISCARD",
        "MULTI",
        "ZRANK",
        "ZREVRANK",
    ];
    !WITH_CARE.contains(&name_of(request).as_str())
}

/// All keys that requests name.
pub fn keys_of(unit: &Unit) -> impl Iterator<Item = &Vec<u8>> {
    let is_key = |argument: &&Vec<u8>| {
        let text = String::from_utf8_lossy(argument);
        let name = text.strip_prefix("{tag}").unwrap_or(&text);
        let is_of_kind = name.split_once(':').is_some_and(|(kind, _)| KINDS.contains(&kind));
        is_of_kind || super::atoms::is_odd_key(argument)
    };
    unit.steps.iter().flat_map(|step| &step.request[1..]).filter(is_key)
}
