//! `experiments memory`: the resident memory of a key of each shape, on each server.
//!
//! One server and one shape at a time: a fresh process, its resident memory, the data through one pipelined connection,
//! its resident memory again. The figure is the growth divided by the number of keys (or of elements, if the shape is
//! one large key); it includes everything: the value, the key, the tables, and what the allocator rounds up or keeps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use loadgen::resp::{Client, Value, encode_request};

use crate::base::environment::Environment;
use crate::base::files::write_whole;
use crate::base::interrupt::Interrupt;
use crate::base::output::{Output, tell};
use crate::measuring::growth::{self, Growth};
use crate::measuring::process::{Extra, RunningServer};
use crate::measuring::sampler::resident_bytes;
use crate::plan::catalog::{self, Definition, Lookup, Server};

/// Requests that are sent before their replies are read.
const PIPELINE: usize = 200;
const REPLY_LIMIT: Duration = Duration::from_secs(60);
/// How long a server has to free memory that only the filling needed: jemalloc, which most of them use, keeps free
/// memory for ten seconds.
const SETTLING: Duration = Duration::from_secs(12);
/// A large key has fewer elements than there are keys otherwise.
const KEYS_PER_ELEMENT: usize = 2;

/// The options of a measurement.
#[derive(Debug)]
pub struct Options {
    /// How many keys each server holds.
    pub keys: usize,
    /// The servers, by the names of the catalogue or of `definitions`.
    pub servers: Vec<String>,
    /// Servers by command.
    pub definitions: Vec<Definition>,
    /// Which shapes: those whose names contain this.
    pub shapes: String,
    /// Where the raw lines go.
    pub out: Option<PathBuf>,
}

/// A shape of data: its name, and the request for its `n`th key or element.
struct Shape {
    name: &'static str,
    is_one_key: bool,
    request: fn(usize) -> Vec<String>,
}

const SHAPES: [Shape; 21] = [
    Shape { name: "counter", is_one_key: false, request: |n| words(["SET", &key(n), &n.to_string()]) },
    Shape {
        name: "string of 8 bytes",
        is_one_key: false,
        request: |n| words(["SET", &key(n), &format!("v{n:07}")[..8]]),
    },
    Shape {
        name: "string of 16 bytes",
        is_one_key: false,
        request: |n| words(["SET", &key(n), &format!("value:{n:010}")]),
    },
    Shape {
        name: "string of 64 bytes",
        is_one_key: false,
        request: |n| words(["SET", &key(n), &format!("value:{n:058}")]),
    },
    Shape {
        name: "hash of 5 fields",
        is_one_key: false,
        request: |n| {
            several("HSET", n, 10, |part| {
                if part % 2 == 0 {
                    format!("field:{}", part / 2)
                } else {
                    format!("value:{:06}", (n + part) % 1_000_000)
                }
            })
        },
    },
    Shape { name: "list of 10", is_one_key: false, request: |n| several("RPUSH", n, 10, |part| element(n + part)) },
    Shape {
        name: "set of 10 strings",
        is_one_key: false,
        request: |n| several("SADD", n, 10, |part| element(n + part)),
    },
    Shape {
        name: "set of 10 integers",
        is_one_key: false,
        request: |n| several("SADD", n, 10, |part| (n + part).to_string()),
    },
    Shape {
        name: "sorted set of 10",
        is_one_key: false,
        request: |n| {
            several("ZADD", n, 20, |part| if part % 2 == 0 { part.to_string() } else { element(n + part / 2) })
        },
    },
    Shape {
        name: "one hash, per field",
        is_one_key: true,
        request: |n| words(["HSET", "hash", &format!("field:{n:08}"), &format!("value:{n:08}")]),
    },
    Shape {
        name: "one set, per string",
        is_one_key: true,
        request: |n| words(["SADD", "set", &format!("member:{n:08}")]),
    },
    Shape { name: "one set, per integer", is_one_key: true, request: |n| words(["SADD", "set", &n.to_string()]) },
    Shape {
        name: "one sorted set, per member",
        is_one_key: true,
        request: |n| words(["ZADD", "zset", &n.to_string(), &format!("member:{n:08}")]),
    },
    Shape { name: "one list, per element", is_one_key: true, request: |n| words(["RPUSH", "list", &element(n)]) },
    // Shorter keys and elements, as in examples; Redis and Valkey share the value of a counter that is 1.
    Shape { name: "INCR key:N", is_one_key: false, request: |n| words(["INCR", &format!("key:{n}")]) },
    Shape {
        name: "HSET hash:N field0 value0 …, 5 fields",
        is_one_key: false,
        request: |n| {
            let part = |part| format!("{}{}", if part % 2 == 0 { "field" } else { "value" }, part / 2);
            short("HSET", "hash", n, 10, part)
        },
    },
    Shape {
        name: "RPUSH list:N item0 …, 10",
        is_one_key: false,
        request: |n| short("RPUSH", "list", n, 10, |part| format!("item{part}")),
    },
    Shape {
        name: "SADD set:N member0 …, 10",
        is_one_key: false,
        request: |n| short("SADD", "set", n, 10, |part| format!("member{part}")),
    },
    Shape {
        name: "SADD set:N 0 1 …, 10",
        is_one_key: false,
        request: |n| short("SADD", "set", n, 10, |part| part.to_string()),
    },
    Shape {
        name: "SADD set:N 100000 …, 10",
        is_one_key: false,
        request: |n| short("SADD", "set", n, 10, |part| (100_000 + part).to_string()),
    },
    Shape {
        name: "ZADD zset:N 0 member0 …, 10",
        is_one_key: false,
        request: |n| {
            let part = |part: usize| {
                if part.is_multiple_of(2) { (part / 2).to_string() } else { format!("member{}", part / 2) }
            };
            short("ZADD", "zset", n, 20, part)
        },
    },
];

/// Measures every shape on every server, writes the raw lines ([`growth`]) and prints a table in Markdown.
pub fn run(options: &Options, out: &mut Output) -> Result<()> {
    ensure!(options.keys > 0, "no keys, no figure");
    let is_known = SHAPES.iter().any(|shape| shape.name.contains(&options.shapes));
    ensure!(is_known, "no shape's name contains {:?}", options.shapes);
    let interrupt = Interrupt::install()?;
    let servers = present(options)?;
    let mut raw = header(&servers);
    let mut lines = Vec::new();
    for shape in SHAPES.iter().filter(|shape| shape.name.contains(&options.shapes)) {
        for server in &servers {
            let line = measure(server, shape, options.keys, &interrupt)
                .with_context(|| format!("{} on {}", shape.name, server.name))?;
            tell(&line);
            raw.push_str(&format!("{line}\n"));
            lines.push(line);
        }
    }
    if let Some(path) = &options.out {
        write_whole(path, &raw)?;
    }
    write!(out, "{}", growth::table(&lines));
    Ok(())
}

/// What was measured, and where.
fn header(servers: &[Server]) -> String {
    let Environment { cpu, cores, kernel, git_sha, git_dirty, sources, .. } = Environment::record();
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let dirty = if git_dirty == Some(true) { " with uncommitted changes" } else { "" };
    let mut text = format!("# machine: {}, {cores} cores, Linux {}\n", known(cpu), known(kernel));
    text.push_str(&format!("# commit: {}{dirty}, sources {}\n", known(git_sha), known(sources)));
    for server in servers {
        let version = known(server.program.version.clone());
        text.push_str(&format!("# server {}: {version}; {}\n", server.name, server.arguments.join(" ")));
    }
    text
}

fn present(options: &Options) -> Result<Vec<Server>> {
    let named = options.servers.iter().map(String::as_str);
    let defined =
        options.definitions.iter().map(Definition::name).filter(|name| !options.servers.iter().any(|n| n == name));
    let mut servers = Vec::new();
    for name in named.chain(defined) {
        match catalog::look_up(name, &options.definitions)? {
            Lookup::Present(server) => servers.push(server),
            Lookup::Absent(absent) => tell(format_args!("without {}: {}", absent.name, absent.reason)),
        }
    }
    Ok(servers)
}

/// How the resident memory of a fresh server grows by the keys, or elements, of a shape.
fn measure(server: &Server, shape: &Shape, keys: usize, interrupt: &Interrupt) -> Result<Growth> {
    let is_ours = server.arguments.iter().any(|argument| argument == "--engine");
    let flags: &[String] = if is_ours { &["--appendonly".to_owned(), "no".to_owned()] } else { &[] };
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let extra = Extra { flags, environment: &BTreeMap::new() };
    let running = RunningServer::start(server, extra, &folder.path().join("server.log"), interrupt)?;
    let count = if shape.is_one_key { keys.div_ceil(KEYS_PER_ELEMENT) } else { keys };
    let before = resident_bytes(running.pid())?;
    fill(&running, shape, count, interrupt)?;
    interrupt.sleep(SETTLING)?;
    let after = resident_bytes(running.pid())?;
    let wanted = if shape.is_one_key { 1 } else { count as i64 };
    ensure!(running.key_count() == Some(wanted), "there should be {wanted} keys, not {:?}", running.key_count());
    Ok(Growth { server: server.name.clone(), count, before, after, shape: shape.name.to_owned() })
}

fn fill(server: &RunningServer, shape: &Shape, count: usize, interrupt: &Interrupt) -> Result<()> {
    let mut client = Client::connect(&server.address().to_string(), REPLY_LIMIT)?;
    let mut requests = Vec::new();
    for start in (0..count).step_by(PIPELINE) {
        interrupt.check()?;
        let end = (start + PIPELINE).min(count);
        requests.clear();
        for n in start..end {
            let arguments = (shape.request)(n);
            let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
            encode_request(&mut requests, &arguments);
        }
        client.send(&requests)?;
        for _ in start..end {
            let reply = client.receive()?;
            ensure!(!matches!(reply, Value::Error(_)), "the server refused: {reply:?}");
        }
    }
    Ok(())
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

fn several(command: &str, n: usize, parts: usize, part: impl Fn(usize) -> String) -> Vec<String> {
    [command.to_owned(), key(n)].into_iter().chain((0..parts).map(part)).collect()
}

/// A command with a short key and this many arguments.
fn short(command: &str, kind: &str, n: usize, parts: usize, part: impl Fn(usize) -> String) -> Vec<String> {
    [command.to_owned(), format!("{kind}:{n}")].into_iter().chain((0..parts).map(part)).collect()
}

fn key(n: usize) -> String {
    format!("key:{n:010}")
}

fn element(n: usize) -> String {
    format!("elem:{n}")
}
