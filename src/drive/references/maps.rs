//! A plain hash map of strings under a lock: the least that a server needs.

use super::super::connection::{Client, Replies, Waits};
use super::super::load::Batch;
use super::super::options::Options;
use super::locks::Shared;
use super::requests::Requests;
use crate::commands::command;
use crate::resp::{Args, Reply, RequestParser};
use hashbrown::HashMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The map.
pub type Table = HashMap<Box<[u8]>, Vec<u8>, ahash::RandomState>;

/// A client of a map under a lock.
pub struct Mapped<L> {
    lock: Arc<L>,
    parser: RequestParser,
    requests: Requests,
    waits: Waits,
    is_by_read: bool,
    _table: PhantomData<fn() -> Table>,
}

impl<L: Shared<Table>> Mapped<L> {
    /// Makes clients.
    pub fn begin(options: &Options, lock: L) -> impl FnMut() -> Self + use<L> {
        let (lock, is_by_read) = (Arc::new(lock), options.is_by_read());
        move || Self {
            lock: Arc::clone(&lock),
            parser: RequestParser::default(),
            requests: Requests::default(),
            waits: Waits::default(),
            is_by_read,
            _table: PhantomData,
        }
    }

    /// Runs requests. If one of them writes, the lock is exclusive; otherwise readers share it.
    fn run(&mut self, range: Range<usize>, out: &mut Vec<u8>) {
        let Self { lock, requests, waits, .. } = self;
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

impl<L: Shared<Table>> Client for Mapped<L> {
    async fn call(&mut self, batch: &Batch, replies: &mut Replies) {
        self.requests.take(&mut self.parser, batch);
        for part in self.requests.parts(self.is_by_read) {
            self.run(part, replies.out.buffer());
        }
        actors::yield_now().await;
        replies.drop_all();
    }

    fn waits(&self) -> Waits {
        self.waits
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_map_replies_what_was_set() {
        let options = Options::of(["shardrace-scaling"]).unwrap();
        let mut client = Mapped::begin(&options, parking_lot::RwLock::new(Table::default()))();
        let bytes = b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nc\r\n$1\r\nb\r\n";
        client.requests.take(&mut client.parser, &Batch { bytes: bytes.to_vec().into(), requests: 2 });
        let mut out = Vec::new();
        client.run(0..2, &mut out);
        assert_eq!(out, b"+OK\r\n*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n");
    }
}
