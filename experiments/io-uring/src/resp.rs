//! Requests, the table, and replies; the same for both loops.
use hashbrown::HashMap;

#[derive(Default)]
pub struct Counters {
    pub waits: u64,
    pub events: u64,
    pub sends: u64,
    pub rearmed: u64,
}

pub struct Store {
    table: HashMap<Box<[u8]>, Box<[u8]>, ahash::RandomState>,
    arguments: Vec<(usize, usize)>,
    commands: u64,
    pub counters: Counters,
}

/// Whether the client broke the protocol.
pub struct Broken;

enum Parsed {
    Request(usize),
    Incomplete,
}

impl Store {
    pub fn new() -> Self {
        Self { table: HashMap::default(), arguments: Vec::new(), commands: 0, counters: Counters::default() }
    }

    /// Answers every whole request in `input`; returns how many bytes those had.
    pub fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Broken> {
        let mut at = 0;
        while at < input.len() {
            let mut arguments = std::mem::take(&mut self.arguments);
            let parsed = parse(&input[at..], &mut arguments);
            let ended = match parsed {
                Ok(Parsed::Request(length)) => {
                    self.call(&input[at..], &arguments, out);
                    at += length;
                    Ok(false)
                }
                Ok(Parsed::Incomplete) => Ok(true),
                Err(broken) => Err(broken),
            };
            self.arguments = arguments;
            if ended? {
                break;
            }
        }
        Ok(at)
    }

    fn call(&mut self, input: &[u8], arguments: &[(usize, usize)], out: &mut Vec<u8>) {
        self.commands += 1;
        let argument = |index: usize| {
            let (from, to) = arguments[index];
            &input[from..to]
        };
        if arguments.is_empty() {
            return;
        }
        let name = argument(0);
        if name.eq_ignore_ascii_case(b"GET") && arguments.len() == 2 {
            match self.table.get(argument(1)) {
                Some(value) => bulk(value, out),
                None => out.extend_from_slice(b"$-1\r\n"),
            }
        } else if name.eq_ignore_ascii_case(b"SET") && arguments.len() == 3 {
            let value = argument(2);
            match self.table.get_mut(argument(1)) {
                Some(old) if old.len() == value.len() => old.copy_from_slice(value),
                Some(old) => *old = value.into(),
                None => drop(self.table.insert(argument(1).into(), value.into())),
            }
            out.extend_from_slice(b"+OK\r\n");
        } else if name.eq_ignore_ascii_case(b"PING") && arguments.len() == 1 {
            out.extend_from_slice(b"+PONG\r\n");
        } else if name.eq_ignore_ascii_case(b"INFO") {
            bulk(self.info().as_bytes(), out);
        } else if name.eq_ignore_ascii_case(b"CONFIG") && arguments.len() == 3 {
            out.extend_from_slice(b"*2\r\n");
            bulk(argument(2), out);
            bulk(b"", out);
        } else if name.eq_ignore_ascii_case(b"DBSIZE") {
            out.extend_from_slice(format!(":{}\r\n", self.table.len()).as_bytes());
        } else {
            out.extend_from_slice(b"-ERR unknown command or wrong number of arguments\r\n");
        }
    }

    fn info(&self) -> String {
        let Counters { waits, events, sends, rearmed } = self.counters;
        format!(
            "# Server\r\nredis_version:bare\r\nprocess_id:{}\r\nmem_allocator:jemalloc\r\nused_memory:0\r\n\
             total_commands_processed:{}\r\nwaits:{waits}\r\nevents:{events}\r\nsends:{sends}\r\nrearmed:{rearmed}\r\n",
            std::process::id(),
            self.commands,
        )
    }
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    number(bytes.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn number(mut value: usize, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// An array of bulk strings at the start of `input`.
fn parse(input: &[u8], arguments: &mut Vec<(usize, usize)>) -> Result<Parsed, Broken> {
    arguments.clear();
    let Some((count, mut at)) = length(input, 0, b'*', 1 << 20)? else { return Ok(Parsed::Incomplete) };
    for _ in 0..count {
        let Some((bytes, from)) = length(input, at, b'$', 512 << 20)? else { return Ok(Parsed::Incomplete) };
        let to = from + bytes;
        if input.len() < to + 2 {
            return Ok(Parsed::Incomplete);
        }
        if &input[to..to + 2] != b"\r\n" {
            return Err(Broken);
        }
        arguments.push((from, to));
        at = to + 2;
    }
    Ok(Parsed::Request(at))
}

/// The number after `mark`, and where the next line begins.
fn length(input: &[u8], at: usize, mark: u8, max: usize) -> Result<Option<(usize, usize)>, Broken> {
    let Some(&first) = input.get(at) else { return Ok(None) };
    if first != mark {
        return Err(Broken);
    }
    let mut value = 0usize;
    let mut here = at + 1;
    loop {
        match input.get(here) {
            None => return Ok(None),
            Some(&digit @ b'0'..=b'9') => value = value * 10 + usize::from(digit - b'0'),
            Some(b'\r') if here > at + 1 => break,
            Some(_) => return Err(Broken),
        }
        if value > max {
            return Err(Broken);
        }
        here += 1;
    }
    match input.get(here + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((value, here + 2))),
        Some(_) => Err(Broken),
    }
}

/// What has come for a connection and is not a whole request yet.
#[derive(Default)]
pub struct Input {
    partial: Vec<u8>,
}

impl Input {
    /// Serves what came, with what had come before.
    pub fn take(&mut self, store: &mut Store, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.partial.is_empty() {
            let used = store.serve(bytes, out)?;
            self.partial.extend_from_slice(&bytes[used..]);
        } else {
            self.partial.extend_from_slice(bytes);
            let used = store.serve(&self.partial, out)?;
            self.partial.drain(..used);
        }
        Ok(())
    }
}
