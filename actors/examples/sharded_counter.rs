//! Counts words on four shards: batches out, results back in the order of the requests.

use actors::{FlumeChannels, Port, ReorderBuffer, Router, Shard, TurnLimit, run_shard};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

const SHARDS: usize = 4;
/// Batches that wait in one mailbox; a sender waits when it is full.
const MAILBOX_CAPACITY: usize = 128;
/// Batches that one port may have in flight.
const WINDOW: usize = 8;

/// What travels: words on the way there, their new counts on the way back.
#[derive(Default)]
struct Batch {
    words: Vec<(u64, String)>,
    counts: Vec<(u64, usize)>,
}

/// The only owner of its part of the words. No lock: nothing else can reach it.
#[derive(Default)]
struct Counter(HashMap<String, usize>);

impl Shard for Counter {
    type Batch = Batch;

    fn execute(&mut self, batch: &mut Batch) {
        for (seq, word) in batch.words.drain(..) {
            let count = self.0.entry(word).or_default();
            *count += 1;
            batch.counts.push((seq, *count));
        }
    }
}

fn shard_of(word: &str) -> usize {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(word) as usize % SHARDS
}

#[tokio::main]
async fn main() {
    let (router, mailboxes, _) = Router::<Counter>::new(SHARDS, MAILBOX_CAPACITY);
    let start = |mailbox| tokio::spawn(run_shard::<_, FlumeChannels>(Counter::default(), mailbox, TurnLimit(64)));
    let shards: Vec<_> = mailboxes.into_iter().map(start).collect();

    let mut port = Port::new(router, WINDOW);
    let mut reorder = ReorderBuffer::default();
    let mut counts = Vec::new();
    let text = "the cat and the dog and the bird";

    // One batch per shard, not one message per word.
    let mut batches: [Batch; SHARDS] = Default::default();
    for (seq, word) in text.split(' ').enumerate() {
        batches[shard_of(word)].words.push((seq as u64, word.to_string()));
    }
    for (shard, batch) in batches.into_iter().enumerate().filter(|(_, batch)| !batch.words.is_empty()) {
        while port.room() == 0 {
            accept(port.recv().await, &mut reorder, &mut counts);
        }
        port.send(shard, batch).await.expect("the shards live as long as the port");
    }
    while port.in_flight() > 0 {
        accept(port.recv().await, &mut reorder, &mut counts);
    }
    // Shards finish when they finish; the counts are in the order of their words.
    assert_eq!(counts, [1, 1, 1, 2, 1, 2, 3, 1]);

    // Without a port or a router the shards end, and return their state.
    drop(port);
    let mut totals = HashMap::new();
    for shard in shards {
        totals.extend(shard.await.expect("a counter does not panic").0);
    }
    assert_eq!(totals["the"], 3);
    println!("{totals:?}");
}

/// Takes in a batch that has returned, and releases every count whose turn has come.
fn accept(batch: Batch, reorder: &mut ReorderBuffer<usize>, counts: &mut Vec<usize>) {
    batch.counts.into_iter().for_each(|(seq, count)| reorder.insert(seq, count));
    counts.extend(std::iter::from_fn(|| reorder.pop_ready()));
}
