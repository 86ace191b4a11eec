//! What runs in one turn: on a runtime of one thread a shard need not yield for that, and batches over the same shards
//! share one rendezvous.

use actors::{FlumeChannels, Port, Router, Shard, TurnLimit, run_shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Barrier;

const CONNECTIONS: usize = 40;

/// A shard that counts its turns and never yields.
struct TurnCounter(Arc<AtomicUsize>);

impl Shard for TurnCounter {
    type Batch = ();

    fn begin_turn(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn execute(&mut self, (): &mut ()) {}

    fn gathers(&self, (): &()) -> bool {
        false
    }
}

/// Connections that are all woken at once, as by one poll of the network; returns how many turns served them.
async fn turns_of_one_visit() -> usize {
    let (router, mut mailboxes, sequencer) = Router::<TurnCounter, FlumeChannels>::new(1, CONNECTIONS);
    let turns = Arc::new(AtomicUsize::new(0));
    let mailbox = mailboxes.pop().expect("there is one shard");
    tokio::spawn(run_shard::<_, FlumeChannels>(TurnCounter(Arc::clone(&turns)), mailbox, TurnLimit(CONNECTIONS)));
    tokio::spawn(sequencer.run());
    let ready = Arc::new(Barrier::new(CONNECTIONS));
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (mut port, ready) = (Port::new(router.clone(), 1), Arc::clone(&ready));
            tokio::spawn(async move {
                ready.wait().await;
                port.try_send(0, ()).expect("the mailbox has room for all");
                port.recv().await;
            })
        })
        .collect();
    for connection in connections {
        connection.await.expect("a connection does not panic");
    }
    turns.load(Ordering::Relaxed)
}

#[test]
fn connections_that_are_ready_before_the_shard_share_its_turn_on_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    assert_eq!(runtime.block_on(turns_of_one_visit()), 1);
}

/// A shard with a number, which batches over all shards increment.
struct Adder(u64);

impl Shard for Adder {
    type Batch = u64;

    fn execute(&mut self, batch: &mut u64) {
        *batch = self.0;
    }

    fn execute_cross_shard(shards: &mut [Box<Self>], batch: &mut u64) {
        shards.iter_mut().for_each(|shard| shard.0 = shard.0.wrapping_mul(10).wrapping_add(*batch));
    }
}

/// The contents of the first mailbox after the sequencer has placed batches over these shards, and the shards' numbers
/// after they have run.
async fn placed(over: &[&[usize]]) -> (usize, Vec<u64>) {
    let (router, mailboxes, sequencer) = Router::<Adder, FlumeChannels>::new(3, 64);
    let mut ports = Vec::new();
    for (number, shards) in (1..).zip(over) {
        let mut port = Port::new(router.clone(), 1);
        port.send_cross_shard(shards.to_vec(), number).await.expect("the sequencer is there");
        ports.push(port);
    }
    let depth = router.clone();
    let sequencer = tokio::spawn(sequencer.run());
    tokio::task::yield_now().await;
    let in_first_mailbox = depth.queue_depth(0);
    drop((router, depth));
    let shards: Vec<_> = mailboxes
        .into_iter()
        .map(|mailbox| tokio::spawn(run_shard::<_, FlumeChannels>(Adder(0), mailbox, TurnLimit(1))))
        .collect();
    for port in &mut ports {
        port.recv().await;
    }
    drop(ports);
    sequencer.await.expect("the sequencer ends");
    let mut held = Vec::new();
    for shard in shards {
        held.push(shard.await.expect("a shard ends").0);
    }
    (in_first_mailbox, held)
}

#[test]
fn batches_over_the_same_shards_that_wait_one_after_the_other_have_one_rendezvous_and_keep_their_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    let all: &[usize] = &[0, 1, 2];
    assert_eq!(runtime.block_on(placed(&[all, all, all])), (1, vec![123, 123, 123]));
    assert_eq!(runtime.block_on(placed(&[all, &[0, 1], all])), (3, vec![123, 123, 13]));
    let (in_first_mailbox, _) = runtime.block_on(placed(&[all; 40]));
    assert_eq!(in_first_mailbox, 3, "16, 16 and 8");
}
