//! The batch and the shard of the scenarios; the shard checks what it may rely on.

use crate::ledger::{Id, Place, Visit};
use actors::Shard;

/// One request, or the part of it for one shard.
#[derive(Debug, Clone)]
pub struct Work {
    pub id: Id,
    /// It puts its name into each register that it reaches.
    pub is_write: bool,
    /// It needs the states of several shards together.
    pub is_cross_shard: bool,
    pub places: Vec<Place>,
    /// How often it was executed, and how often it was seen by the end of a turn.
    pub executed: u32,
    pub logged: u32,
}

/// One register, which holds the name of its last writer.
#[derive(Debug)]
pub struct CheckingShard {
    pub index: usize,
    turn_limit: usize,
    slowness: usize,
    /// A bug of a shard that puts lent states into other places than it found them in.
    swaps_states: bool,
    in_turn: Option<Turn>,
    executed_of: Vec<u64>,
    register: Option<Id>,
    /// What was executed, in order.
    pub history: Vec<Visit>,
}

#[derive(Debug, Default)]
struct Turn {
    looked_at: usize,
    executed: usize,
}

impl CheckingShard {
    pub fn new(index: usize, connections: usize, turn_limit: usize, slowness: usize, swaps_states: bool) -> Self {
        let executed_of = vec![0; connections];
        Self {
            index,
            turn_limit,
            slowness,
            swaps_states,
            in_turn: None,
            executed_of,
            register: None,
            history: Vec::new(),
        }
    }

    fn visit(&mut self, id: Id, is_write: bool, place: &mut Place) {
        assert_eq!(place.shard, self.index, "a batch goes to the shard it was sent to");
        let executed = &mut self.executed_of[id.connection];
        assert!(place.nth_on_shard >= *executed, "a batch is executed once");
        assert_eq!(place.nth_on_shard, *executed, "batches of one port are executed in the order they were sent");
        *executed += 1;
        place.seen = self.register;
        if is_write {
            self.register = Some(id);
        }
        self.history.push(Visit { id, is_write });
        (0..self.slowness).for_each(|_| shuttle::thread::yield_now());
    }
}

/// As many batches are prefetched for together, wherever they are in a turn.
const LOOK_AHEAD_MIN: usize = 4;

impl Shard for CheckingShard {
    type Batch = Work;

    fn begin_turn(&mut self) {
        let unfinished = self.in_turn.replace(Turn::default());
        assert!(unfinished.is_none(), "a turn ends before the next begins");
    }

    fn look_ahead(&mut self, work: &Work) {
        assert_eq!(work.executed, 0, "a batch is looked ahead at before it is executed");
        let turn = self.in_turn.as_mut().expect("within a turn");
        assert!(turn.executed <= turn.looked_at, "what is not looked ahead at is the last of its turn");
        turn.looked_at += 1;
    }

    fn execute(&mut self, work: &mut Work) {
        let turn = self.in_turn.as_mut().expect("a batch is executed within a turn");
        turn.executed += 1;
        let [place] = &mut work.places[..] else { panic!("a batch that is not cross-shard is for one shard") };
        self.visit(work.id, work.is_write, place);
        work.executed += 1;
    }

    fn gathers(&self, first: &Work) -> bool {
        first.id.seq.is_multiple_of(2)
    }

    fn execute_cross_shard(shards: &mut [Box<Self>], work: &mut Work) {
        assert!(work.is_cross_shard, "a batch meets several shards if it asks for them");
        assert_eq!(shards.len(), work.places.len(), "a rendezvous sees every state that is lent");
        for (shard, place) in shards.iter_mut().zip(&mut work.places) {
            assert!(shard.in_turn.is_none(), "a state is lent between turns");
            shard.visit(work.id, work.is_write, place);
        }
        work.executed += 1;
        if shards[0].swaps_states {
            shards.reverse();
        }
    }

    fn end_turn(&mut self, batches: &mut dyn Iterator<Item = &mut Work>) {
        let turn = self.in_turn.take().expect("a turn that ends has begun");
        let logged = batches.map(|work| work.logged += 1).count();
        assert_eq!(logged, turn.executed, "the end of a turn sees each batch of it");
        assert!(logged < turn.looked_at + LOOK_AHEAD_MIN, "no more than a few are not looked ahead at");
        assert!(logged <= self.turn_limit, "a turn keeps to its limit");
    }
}
