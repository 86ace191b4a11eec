//! Who joins a turn: on a runtime of one thread a shard need not give way for that.

use actors::{FlumeChannels, Port, Router, Shard, TurnLimit, run_shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Barrier;

const CONNECTIONS: usize = 40;

/// A shard that counts its turns and gives way to nobody.
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

/// Connections that are all woken at once, as by one visit to the network; gives how many turns served them.
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
