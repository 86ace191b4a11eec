//! A plain hash map of strings under a lock: the least that a server needs.

use super::super::connection::Waits;
use super::locks::Shared;
use super::requests::Requests;
use super::under_lock::{Data, UnderLock};
use crate::commands::command;
use crate::resp::{Args, Reply};
use hashbrown::HashMap;
use std::ops::Range;

/// The map.
pub type Table = HashMap<Box<[u8]>, Vec<u8>, ahash::RandomState>;

/// A client of a map under a lock.
pub type Mapped<L> = UnderLock<L, Table>;

impl<L: Shared<Self>> Data<L> for Table {
    /// If one of the requests writes, the lock is exclusive; otherwise readers share it.
    fn run(lock: &L, waits: &mut Waits, requests: &Requests, range: Range<usize>, out: &mut Vec<u8>) {
        let requests = requests.range(range);
        let writes = requests.clone().any(|(id, _)| command(id).is_write());
        match writes {
            true => {
                lock.write(waits, |table| requests.for_each(|(id, args)| change(table, command(id).name, args, out)))
            }
            false => lock.read(waits, |table| requests.for_each(|(id, args)| look(table, command(id).name, args, out))),
        }
    }
}

fn change(table: &mut Table, name: &str, args: Args<'_>, out: &mut Vec<u8>) {
    match name {
        "set" | "mset" => {
            (1..args.len()).step_by(2).for_each(|at| put(table, &args[at], &args[at + 1]));
            Reply::new(out, false).simple("OK");
        }
        _ => look(table, name, args, out),
    }
}

fn put(table: &mut Table, key: &[u8], value: &[u8]) {
    match table.get_mut(key) {
        Some(known) => {
            known.clear();
            known.extend_from_slice(value);
        }
        None => drop(table.insert(key.into(), value.to_vec())),
    }
}

fn look(table: &Table, name: &str, args: Args<'_>, out: &mut Vec<u8>) {
    let mut reply = Reply::new(out, false);
    match name {
        "get" => value(table, &args[1], &mut reply),
        "mget" => {
            reply.array(args.len() - 1);
            args.from(1).iter().for_each(|key| value(table, key, &mut reply));
        }
        other => unreachable!("{other} is in no load of strings"),
    }
}

fn value(table: &Table, key: &[u8], reply: &mut Reply<'_>) {
    match table.get(key) {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Batch;
    use super::*;
    use crate::resp::RequestParser;

    #[test]
    fn a_map_replies_what_was_set() {
        let bytes = b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nc\r\n$1\r\nb\r\n";
        let mut requests = Requests::default();
        requests.take(&mut RequestParser::default(), &Batch { bytes: bytes.to_vec().into(), requests: 2 });
        let (lock, mut out) = (parking_lot::RwLock::new(Table::default()), Vec::new());
        Table::run(&lock, &mut Waits::default(), &requests, 0..2, &mut out);
        assert_eq!(out, b"+OK\r\n*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n");
    }
}
