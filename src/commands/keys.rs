//! Keys, whatever they hold.

use super::arguments::is;
use super::glob;
use super::{CommandError, Outcome};
use crate::keyspace::{Keyspace, Store, Value};
use crate::resp::{Args, Reply};

/// DEL key [key ...], UNLINK key [key ...]: O(N), N = keys and their elements
pub fn del<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut removed = 0;
    for key in args.from(1).iter() {
        if keyspace.remove(key) {
            keyspace.note_change(key, 1);
            removed += 1;
        }
    }
    reply.count(removed);
    Ok(())
}

/// EXISTS key [key ...], TOUCH key [key ...]: O(N), N = keys
pub fn exists<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(args.from(1).iter().filter(|key| keyspace.read(key).is_some()).count());
    Ok(())
}

/// TYPE key: O(1)
pub fn type_of<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.simple(match keyspace.read(&args[1]) {
        None => "none",
        Some(Value::Integer(_) | Value::Text(_)) => "string",
        Some(Value::Object(object)) => object.type_name(),
    });
    Ok(())
}

/// KEYS pattern: O(N), N = keys of the server
pub fn keys<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let pattern = &args[1];
    // Redis's rules let no pattern but the empty one match an empty key; a lone star is a case of its own.
    let matches = |key: &[u8]| pattern == b"*" || glob::matches(pattern, key);
    let mut encoded = Vec::new();
    let mut keys = Reply::new(&mut encoded, reply.is_resp3());
    let mut count = 0;
    keyspace.for_each(&mut |node| {
        if matches(node.key()) {
            keys.bulk(node.key());
            count += 1;
        }
    });
    reply.array(count);
    reply.raw(&encoded);
    Ok(())
}

/// RANDOMKEY: O(1)
pub fn randomkey<S: Store>(keyspace: &mut Keyspace<S>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk_or_null(keyspace.random_key().as_deref());
    Ok(())
}

/// DBSIZE: O(shards)
pub fn dbsize<S: Store>(keyspace: &mut Keyspace<S>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.len());
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC], FLUSHALL [ASYNC | SYNC]: O(N), N = keys
pub fn flush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.get(1) {
        Some(mode) if args.len() > 2 || !(is(mode, "ASYNC") || is(mode, "SYNC")) => return Err(CommandError::Syntax),
        _ => {}
    }
    keyspace.clear();
    reply.ok();
    Ok(())
}
