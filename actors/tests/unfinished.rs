//! A shard that stops within a batch: later batches of its port never overtake the rest.

use actors::{FlumeChannels, Port, Router, Shard, TurnLimit, run_shard};

const WINDOW: usize = 4;
/// How much of a batch is executed before the shard stops.
const AT_ONCE: usize = 3;

/// Numbers for a shard to record.
#[derive(Default)]
struct Batch {
    numbers: Vec<u32>,
    /// How many of them are not recorded yet.
    left: usize,
    /// Whether it must be executed whole, because others depend on it.
    is_whole: bool,
}

impl Batch {
    fn new(numbers: std::ops::Range<u32>, is_whole: bool) -> Self {
        Self { left: numbers.len(), numbers: numbers.collect(), is_whole }
    }
}

/// Records numbers, a few at a time.
struct Writer {
    written: Vec<u32>,
    /// A bug: it executes batches that must be left.
    never_leaves: bool,
}

impl Shard for Writer {
    type Batch = Batch;

    fn execute(&mut self, batch: &mut Batch) {
        let count = if batch.is_whole { batch.left } else { batch.left.min(AT_ONCE) };
        let start = batch.numbers.len() - batch.left;
        self.written.extend(&batch.numbers[start..start + count]);
        batch.left -= count;
    }

    fn is_unfinished(batch: &Batch) -> bool {
        batch.left > 0
    }

    fn leave(&mut self, batch: &mut Batch) -> bool {
        !batch.is_whole && !self.never_leaves
    }
}

/// Sends a window of batches, and their rest again until nothing is left; returns what the shard has recorded.
async fn written(batches: Vec<Batch>, never_leaves: bool) -> Vec<u32> {
    let (router, mut mailboxes, sequencer) = Router::<Writer, FlumeChannels>::new(1, WINDOW);
    let mailbox = mailboxes.pop().expect("there is one shard");
    let writer = Writer { written: Vec::new(), never_leaves };
    let shard = tokio::spawn(run_shard::<_, FlumeChannels>(writer, mailbox, TurnLimit(WINDOW)));
    tokio::spawn(sequencer.run());
    let mut port = Port::new(router, WINDOW);
    let mut unsent = batches;
    while !unsent.is_empty() {
        for batch in unsent.drain(..) {
            port.send(0, batch).await.expect("the shard lives as long as the port");
        }
        while port.in_flight() > 0 {
            let batch = port.recv().await;
            if batch.left > 0 {
                unsent.push(batch);
            }
        }
        port.resume();
    }
    drop(port);
    shard.await.expect("a writer does not panic").written
}

fn run(batches: Vec<Batch>, never_leaves: bool) -> Vec<u32> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(written(batches, never_leaves))
}

fn three_batches() -> Vec<Batch> {
    vec![Batch::new(0..10, false), Batch::new(10..12, false), Batch::new(12..20, false)]
}

#[test]
fn what_was_sent_after_an_unfinished_batch_comes_back_undone_until_the_rest_is_sent() {
    assert_eq!(run(three_batches(), false), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_shard_that_does_not_leave_them_would_be_seen() {
    assert_ne!(run(three_batches(), true), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_batch_that_takes_effect_with_others_is_done_whole() {
    let batches = vec![Batch::new(0..10, false), Batch::new(10..20, true)];
    let written = run(batches, false);
    assert_eq!(written[..AT_ONCE], [0, 1, 2]);
    assert_eq!(written[AT_ONCE..AT_ONCE + 10], (10..20).collect::<Vec<_>>()[..], "it was not left");
}

#[test]
#[should_panic(expected = "a port resumes when all that it sent is back")]
fn a_port_that_resumes_while_something_is_out_is_stopped() {
    let (router, _mailboxes, _sequencer) = Router::<Writer, FlumeChannels>::new(1, WINDOW);
    let mut port = Port::new(router, WINDOW);
    assert!(port.try_send(0, Batch::default()).is_ok());
    port.resume();
}
