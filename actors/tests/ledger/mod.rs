//! The requests of connections, and the final check.
//!
//! Each shard is a register and records the requests that it has executed, in order. The run is correct if there is one
//! order of all requests that agrees with every shard and with real time, and in which each request sees what it saw:
//! strict serializability. Every executed request takes part, including those whose connection gave them up.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request: its connection, and its position among that connection's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub connection: usize,
    pub seq: u64,
}

/// A shard of a request.
#[derive(Debug, Clone)]
pub struct Place {
    pub shard: usize,
    /// Position among the requests of its connection to this shard.
    pub nth_on_shard: u64,
    /// The name that it found in the register.
    pub seen: Option<Id>,
}

/// A request that a shard has executed. A write puts its name into the register.
#[derive(Debug, Clone)]
pub struct Visit {
    pub id: Id,
    pub is_write: bool,
}

/// Shared by the connections of a scenario; each records its requests on a page of its own.
///
/// Invariant: the requests of a page are at their `seq`.
#[derive(Debug)]
pub struct Ledger {
    /// Counts the entries, in the order of real time.
    now: AtomicU64,
    pages: Box<[Mutex<Vec<Request>>]>,
}

#[derive(Debug, Clone)]
struct Request {
    shards: Vec<usize>,
    begun: u64,
    is_accepted: bool,
    end: Option<End>,
}

#[derive(Debug, Clone)]
struct End {
    at: u64,
    seen: Vec<Place>,
}

impl Ledger {
    pub fn new(connections: usize) -> Self {
        Self { now: AtomicU64::new(0), pages: (0..connections).map(|_| Mutex::default()).collect() }
    }

    /// A connection is about to send a request.
    pub fn begin(&self, id: Id, shards: Vec<usize>) {
        let request = Request { shards, begun: self.tick(), is_accepted: false, end: None };
        let mut page = self.page(id);
        assert_eq!(page.len() as u64, id.seq, "requests are entered one after the other");
        page.push(request);
    }

    /// The port has accepted it.
    pub fn accept(&self, id: Id) {
        self.page(id)[id.seq as usize].is_accepted = true;
    }

    /// All of it has come back, with what it saw.
    pub fn end(&self, id: Id, seen: Vec<Place>) {
        let end = End { at: self.tick(), seen };
        let previous = self.page(id)[id.seq as usize].end.replace(end);
        assert!(previous.is_none(), "a request ends once");
    }

    /// Checks everything, after the shards have ended. Returns how many requests were executed.
    pub fn reckon(&self, histories: &[Vec<Visit>]) -> usize {
        let pages: Vec<Vec<Request>> = self.pages.iter().map(|page| lock(page).clone()).collect();
        let mut executed: Vec<Vec<BTreeSet<usize>>> =
            pages.iter().map(|page| vec![BTreeSet::new(); page.len()]).collect();
        for (shard, history) in histories.iter().enumerate() {
            for Visit { id, .. } in history {
                let is_new = executed[id.connection][id.seq as usize].insert(shard);
                assert!(is_new, "a batch is executed once: {id:?} on shard {shard}");
            }
        }
        for (connection, (requests, executed)) in pages.iter().zip(&executed).enumerate() {
            for (seq, (request, shards)) in (0..).zip(requests.iter().zip(executed)) {
                request.check_is_whole(Id { connection, seq }, shards);
            }
        }
        Replay::new(&pages, histories).run()
    }

    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn page(&self, id: Id) -> MutexGuard<'_, Vec<Request>> {
        lock(&self.pages[id.connection])
    }
}

fn lock(page: &Mutex<Vec<Request>>) -> MutexGuard<'_, Vec<Request>> {
    // A failing task unwinds through here; its own message is the relevant one.
    page.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Request {
    fn check_is_whole(&self, id: Id, executed: &BTreeSet<usize>) {
        if executed.is_empty() {
            return assert!(!self.is_accepted, "what a mailbox accepts is executed: {id:?} is not");
        }
        let asked: BTreeSet<usize> = self.shards.iter().copied().collect();
        assert_eq!(*executed, asked, "a request is executed on all of its shards or on none: {id:?}");
    }
}

/// Executes all requests again, in one order. Any request that nothing must precede may be the next one: what must
/// precede what is determined by the shards and by real time, so no choice can be wrong.
struct Replay<'a> {
    pages: &'a [Vec<Request>],
    histories: &'a [Vec<Visit>],
    /// How many of each shard's visits have been replayed.
    next: Vec<usize>,
    registers: Vec<Option<Id>>,
    /// The end times of the remaining ones. A request that began after the first of these must wait.
    ends: BTreeSet<u64>,
}

impl<'a> Replay<'a> {
    fn new(pages: &'a [Vec<Request>], histories: &'a [Vec<Visit>]) -> Self {
        let ends = pages.iter().flatten().filter_map(|request| Some(request.end.as_ref()?.at)).collect();
        Self { pages, histories, next: vec![0; histories.len()], registers: vec![None; histories.len()], ends }
    }

    fn run(mut self) -> usize {
        let mut executed = 0;
        while self.heads().next().is_some() {
            let Some(visit) = self.heads().find(|visit| self.is_free(visit.id)).cloned() else {
                let heads: Vec<_> = self.heads().map(|visit| (visit.id, self.request(visit.id))).collect();
                panic!("one order explains every shard and real time: none of these can be next: {heads:#?}");
            };
            self.repeat(&visit);
            executed += 1;
        }
        executed
    }

    /// The next visit of each shard.
    fn heads(&self) -> impl Iterator<Item = &'a Visit> {
        self.histories.iter().zip(&self.next).filter_map(|(history, &next)| history.get(next))
    }

    fn request(&self, id: Id) -> &'a Request {
        &self.pages[id.connection][id.seq as usize]
    }

    fn is_free(&self, id: Id) -> bool {
        let request = self.request(id);
        let is_next = |&shard: &usize| self.histories[shard].get(self.next[shard]).is_some_and(|next| next.id == id);
        request.shards.iter().all(is_next) && self.ends.first().is_none_or(|&end| request.begun < end)
    }

    fn repeat(&mut self, &Visit { id, is_write }: &Visit) {
        let Request { shards, end, .. } = self.request(id);
        for Place { shard, seen, .. } in end.iter().flat_map(|end| &end.seen) {
            assert_eq!(*seen, self.registers[*shard], "a request sees what was written last: {id:?} on shard {shard}");
        }
        for &shard in shards {
            self.next[shard] += 1;
            if is_write {
                self.registers[shard] = Some(id);
            }
        }
        if let Some(end) = end {
            self.ends.remove(&end.at);
        }
    }
}
