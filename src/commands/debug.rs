//! DEBUG: what tests of clients ask for. `enable-debug-command` says who may.

use super::float::Extended;
use super::text::text_of;
use super::{CommandError, Outcome};
use crate::keyspace::stream::StreamId;
use crate::keyspace::{Entry, Keyspace, Node, Object, Store, Value};
use crate::limits::EXPIRES_ACTIVELY;
use crate::resp::{Args, Reply, parse_i64, quoted};
use std::sync::atomic::Ordering;
use std::time::Duration;

const HELP: [&str; 9] = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "OBJECT <key>",
    "    Show how the value of a key is stored.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Whether expired keys are removed though nobody asks for them.",
    "SLEEP <seconds>",
    "    Reply after <seconds>; other connections are served meanwhile.",
    "HELP",
    "    Print this help.",
];

/// DEBUG <OBJECT key | SET-ACTIVE-EXPIRE <0 | 1> | SLEEP seconds | HELP>: O(1); OBJECT O(N), N = elements
pub fn debug<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 if args.is(1, "HELP") => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        3 if args.is(1, "OBJECT") => {
            let node = keyspace.peek(&args[2]).ok_or(CommandError::NoSuchKey)?;
            reply.simple(&described(node));
        }
        3 if args.is(1, "SET-ACTIVE-EXPIRE") => {
            EXPIRES_ACTIVELY.store(parse_i64(&args[2]).is_some_and(|number| number != 0), Ordering::Relaxed);
            reply.ok();
        }
        // By itself it is the connection that sleeps; a transaction would hold up everybody.
        3 if args.is(1, "SLEEP") => return Err(CommandError::Text("ERR DEBUG SLEEP is not allowed in transactions")),
        _ => {
            let name = quoted(&args[1], 128);
            let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.");
            return Err(CommandError::Owned(text));
        }
    }
    Ok(())
}

/// How long a DEBUG SLEEP takes; nothing where it is another subcommand.
pub fn sleep(args: Args<'_>) -> Option<Duration> {
    if args.len() != 3 || !args.is(1, "SLEEP") {
        return None;
    }
    let ms = Extended::parse(&args[2]).and_then(Extended::ceil_of_thousandfold).unwrap_or(0);
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// As Redis describes a value, as far as it is so here.
fn described(node: &Node) -> String {
    let len_of = |elements: &mut dyn Iterator<Item = usize>| elements.sum::<usize>();
    let encoding = node.encoding();
    let len = match node.value() {
        Value::Integer(_) => text_of(node.value(), &mut itoa::Buffer::new()).map_or(0, <[u8]>::len),
        Value::Text(text) => text.len(),
        Value::Object(Object::List(list)) => len_of(&mut list.range(0..list.len()).map(Entry::len)),
        Value::Object(Object::Set(set)) => len_of(&mut set.iter().map(Entry::len)),
        Value::Object(Object::Hash(hash)) => len_of(&mut hash.iter().map(|(field, value)| field.len() + value.len())),
        Value::Object(Object::SortedSet(set)) => {
            len_of(&mut set.iter().map(|(member, _)| member.len() + size_of::<f64>()))
        }
        Value::Object(Object::Stream(stream)) => {
            let entries = stream.range(StreamId::MIN, StreamId::MAX);
            let fields = entries.flat_map(|entry| entry.fields());
            len_of(&mut fields.map(|(name, value)| name.len() + value.len()))
        }
    };
    let address = std::ptr::from_ref(node).addr();
    format!("Value at:{address:#x} refcount:1 encoding:{encoding} serializedlength:{len} lru:0 lru_seconds_idle:0")
}
