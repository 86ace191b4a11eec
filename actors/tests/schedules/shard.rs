//! The batch and the shard of the scenarios; the shard checks what it is promised.

use actors::Shard;

/// One request on its way.
#[derive(Debug, Clone)]
pub struct Work {
    pub connection: usize,
    /// Position among the requests of its connection.
    pub seq: u64,
    /// Position among the requests of its connection to this shard.
    pub nth_on_shard: u64,
    pub shard: usize,
    /// How often it was looked ahead at, executed, and seen by the end of a turn.
    pub executed: u32,
    pub logged: u32,
}

/// Counts the requests of each connection.
#[derive(Debug)]
pub struct CheckingShard {
    index: usize,
    turn_limit: usize,
    slowness: usize,
    in_turn: Option<Turn>,
    pub executed_of: Vec<u64>,
    /// The connections in the order of their requests.
    pub history: Vec<u64>,
}

#[derive(Debug, Default)]
struct Turn {
    looked_at: usize,
    executed: usize,
}

impl CheckingShard {
    pub fn new(index: usize, connections: usize, turn_limit: usize, slowness: usize) -> Self {
        let executed_of = vec![0; connections];
        Self { index, turn_limit, slowness, in_turn: None, executed_of, history: Vec::new() }
    }

    pub fn executed(&self) -> u64 {
        self.executed_of.iter().sum()
    }
}

impl Shard for CheckingShard {
    type Batch = Work;

    fn begin_turn(&mut self) {
        let unfinished = self.in_turn.replace(Turn::default());
        assert!(unfinished.is_none(), "a turn ends before the next begins");
    }

    fn look_ahead(&mut self, work: &Work) {
        assert_eq!(work.executed, 0, "a batch is looked ahead at before it is executed");
        self.in_turn.as_mut().expect("within a turn").looked_at += 1;
    }

    fn execute(&mut self, work: &mut Work) {
        let turn = self.in_turn.as_mut().expect("a batch is executed within a turn");
        turn.executed += 1;
        assert!(turn.executed <= turn.looked_at, "a batch is looked ahead at before it is executed");
        assert_eq!(work.shard, self.index, "a batch goes to the shard it was sent to");
        let executed = &mut self.executed_of[work.connection];
        assert_eq!(work.nth_on_shard, *executed, "batches of one port are executed in the order they were sent");
        *executed += 1;
        work.executed += 1;
        self.history.push(work.connection as u64);
        (0..self.slowness).for_each(|_| shuttle::thread::yield_now());
    }

    fn gathers(&self, first: &Work) -> bool {
        first.seq.is_multiple_of(2)
    }

    fn end_turn(&mut self, batches: &mut dyn Iterator<Item = &mut Work>) {
        let turn = self.in_turn.take().expect("a turn that ends has begun");
        let logged = batches.map(|work| work.logged += 1).count();
        assert_eq!(logged, turn.executed, "the end of a turn sees each batch of it");
        assert!(logged <= self.turn_limit, "a turn keeps to its limit");
    }
}
