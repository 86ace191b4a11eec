//! Two small discrete-event models of the engines on many cores, with closed loops.
//!
//! **Locks.** Each core runs one batch after the other: it works outside the locks, takes the cache line of the shared
//! counters if the engine has one, takes the locks of the batch in order, runs the batch, and releases the locks. A
//! core that finds a lock taken waits in a queue; readers share a lock. A lock, or a counter, that another core had
//! last costs an additional transfer of its cache lines. The mutex engine has one lock, the dashmap engine one for each
//! shard of its map.
//!
//! **Mailboxes.** Each core runs its jobs in the order in which they came: a connection parses a batch and sends a part
//! to each shard that it touches, a shard runs a part, the connection takes the replies. With several shards each
//! request has to be routed, and each further shard of a batch costs a message. A message to another core costs an
//! additional transfer. Each core has one shard. Inline, a connection runs the requests for its own core's shard itself
//! and sends messages for the others alone: the shared-nothing server.
//!
//! Both leave out: sleeping and waking (a core that waits is idle), caches and memory that several cores share,
//! different distances between cores, and everything that is not in the driver.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::base::rng::Rng;

/// Random numbers are whole numbers below this.
const FINE: usize = 1 << 30;

/// The distribution of the time that work takes, around its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    /// Always the mean.
    #[cfg(test)]
    None,
    /// Uniform from half of the mean to one and a half of it.
    Even,
    /// Exponential, as in the closed formulas of queueing theory.
    #[cfg(test)]
    Exponential,
}

impl Spread {
    fn of(self, mean_ns: f64, rng: &mut Rng) -> f64 {
        let draw = |rng: &mut Rng| (rng.below(FINE) as f64 + 0.5) / FINE as f64;
        match self {
            #[cfg(test)]
            Self::None => mean_ns,
            Self::Even => mean_ns * (0.5 + draw(rng)),
            #[cfg(test)]
            Self::Exponential => -mean_ns * draw(rng).ln(),
        }
    }
}

/// An engine with locks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Locks {
    /// How many locks there are.
    pub locks: usize,
    /// Requests in a batch; each needs one lock.
    pub batch: usize,
    /// Share of requests that only read.
    pub reads: f64,
    /// Whether readers share a lock.
    pub shares: bool,
    /// Whether each batch writes to a cache line of counters that all cores share.
    pub counts: bool,
    /// Work of a batch outside the locks.
    pub outside_ns: f64,
    /// Work of a batch under the locks.
    pub inside_ns: f64,
    /// The additional cost of a lock, or of the counters, that another core had last.
    pub transfer_ns: f64,
}

/// An engine with mailboxes, one shard on each core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mailboxes {
    /// Requests in a batch.
    pub batch: usize,
    /// Work of a connection for a batch that touches one shard.
    pub connection_ns: f64,
    /// Work of the shards for a batch.
    pub shard_ns: f64,
    /// Work of a connection for each request if there are several shards: its key has a shard, and its reply a turn.
    pub routing_ns: f64,
    /// The cost of each further shard that a batch touches, however many requests it gets.
    pub message_ns: f64,
    /// The additional cost of a message to another core.
    pub transfer_ns: f64,
    /// Whether a connection runs the requests for its own core's shard in place, without a message.
    pub is_inline: bool,
}

/// The parameters of a run of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// Cores.
    pub cores: usize,
    /// Connections on each core.
    pub connections: usize,
    /// Batches that are counted, after as many for the warm-up.
    pub batches: usize,
    /// The distribution of work around its mean.
    pub spread: Spread,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Batches per second.
    pub per_second: f64,
    /// The 99th percentile of a batch's latency.
    pub p99_ns: f64,
}

/// An event: its time, its place among events of the same time, and what happens.
#[derive(Debug, PartialEq)]
struct Event<T> {
    at: f64,
    order: u64,
    what: T,
}

impl<T: PartialEq> Eq for Event<T> {}

impl<T: PartialEq> Ord for Event<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.order.cmp(&other.order))
    }
}

impl<T: PartialEq> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The events that are planned.
struct Agenda<T> {
    heap: BinaryHeap<Reverse<Event<T>>>,
    planned: u64,
}

impl<T: PartialEq> Agenda<T> {
    fn new() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }

    fn plan(&mut self, at: f64, what: T) {
        self.planned += 1;
        self.heap.push(Reverse(Event { at, order: self.planned, what }));
    }

    fn next(&mut self) -> Option<(f64, T)> {
        self.heap.pop().map(|Reverse(event)| (event.at, event.what))
    }
}

/// Counts batches and their latencies, after as many for the warm-up.
struct Count {
    wanted: usize,
    done: usize,
    began_at: f64,
    ended_at: f64,
    times_ns: Vec<f64>,
}

impl Count {
    fn new(wanted: usize) -> Self {
        Self { wanted, done: 0, began_at: 0.0, ended_at: 0.0, times_ns: Vec::with_capacity(wanted) }
    }

    /// Counts a batch; returns whether it was the last.
    fn note(&mut self, now: f64, since: f64) -> bool {
        self.done += 1;
        if self.done == self.wanted {
            self.began_at = now;
        } else if self.done > self.wanted {
            self.times_ns.push(now - since);
            self.ended_at = now;
        }
        self.done == 2 * self.wanted
    }

    fn outcome(mut self) -> Outcome {
        self.times_ns.sort_unstable_by(f64::total_cmp);
        let at = (self.times_ns.len() as f64 * 0.99) as usize;
        Outcome {
            per_second: self.times_ns.len() as f64 / (self.ended_at - self.began_at) * 1e9,
            p99_ns: self.times_ns[at.min(self.times_ns.len() - 1)],
        }
    }
}

/// A lock.
#[derive(Debug, Clone, Default)]
struct Lock {
    readers: usize,
    writer: bool,
    last: Option<usize>,
    waiting: VecDeque<(usize, bool)>,
}

impl Lock {
    /// Takes it, or joins its queue; returns whether it was taken.
    fn take(&mut self, core: usize, is_write: bool) -> bool {
        let is_free = !self.writer && self.waiting.is_empty() && (!is_write || self.readers == 0);
        match is_free {
            true => self.give(is_write),
            false => self.waiting.push_back((core, is_write)),
        }
        is_free
    }

    fn give(&mut self, is_write: bool) {
        self.writer = is_write;
        self.readers += usize::from(!is_write);
    }

    /// Releases it; returns the cores that have it now.
    fn release(&mut self, is_write: bool) -> Vec<usize> {
        match is_write {
            true => self.writer = false,
            false => self.readers -= 1,
        }
        let mut given = Vec::new();
        while let Some(&(core, is_write)) = self.waiting.front() {
            if self.writer || (is_write && self.readers > 0) {
                break;
            }
            self.waiting.pop_front();
            self.give(is_write);
            given.push(core);
        }
        given
    }

    /// Passes it to this core; returns whether another core had it last.
    fn moves_to(&mut self, core: usize) -> bool {
        self.last.replace(core).is_some_and(|last| last != core)
    }
}

/// The next step of a core in the model of locks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// It has worked outside the locks, and writes to the counters.
    Ask(usize),
    /// It takes its locks.
    Take(usize),
    /// Its batch has run.
    Done(usize),
}

/// A core in the model of locks.
#[derive(Debug, Default)]
struct Core {
    /// The locks of its batch in order, each with whether it is taken for writing.
    needs: Vec<(usize, bool)>,
    /// How many of these it has.
    has: usize,
    /// Transfers of the batch so far.
    transfers: usize,
    /// The ends of its last batches, one for each connection.
    ended: VecDeque<f64>,
}

impl Locks {
    /// Runs the model.
    pub fn run(&self, course: &Course) -> Outcome {
        RunOfLocks::new(self, course).run()
    }
}

/// The state of a run of the model of locks.
struct RunOfLocks<'a> {
    model: &'a Locks,
    course: &'a Course,
    rng: Rng,
    agenda: Agenda<Step>,
    locks: Vec<Lock>,
    cores: Vec<Core>,
    /// The cache line of the counters, and when it is free.
    counters: Lock,
    counters_free_at: f64,
    count: Count,
}

impl<'a> RunOfLocks<'a> {
    fn new(model: &'a Locks, course: &'a Course) -> Self {
        Self {
            model,
            course,
            rng: Rng::new(course.seed),
            agenda: Agenda::new(),
            locks: vec![Lock::default(); model.locks],
            cores: (0..course.cores).map(|_| Core::default()).collect(),
            counters: Lock::default(),
            counters_free_at: 0.0,
            count: Count::new(course.batches),
        }
    }

    fn run(mut self) -> Outcome {
        (0..self.course.cores).for_each(|core| self.work_outside(core, 0.0));
        let mut is_done = false;
        while let (false, Some((now, step))) = (is_done, self.agenda.next()) {
            match step {
                Step::Ask(core) => self.ask(core, now),
                Step::Take(core) => self.take(core, now),
                Step::Done(core) => is_done = self.end(core, now),
            }
        }
        self.count.outcome()
    }

    fn work_outside(&mut self, core: usize, now: f64) {
        let ns = self.course.spread.of(self.model.outside_ns, &mut self.rng);
        self.agenda.plan(now + ns, Step::Ask(core));
    }

    fn ask(&mut self, core: usize, now: f64) {
        self.draw_needs(core);
        // The line moves from core to core; each has it for the time of a transfer.
        let moves = self.model.counts && self.counters.moves_to(core);
        let at = if moves { self.counters_free_at.max(now) + self.model.transfer_ns } else { now };
        self.counters_free_at = self.counters_free_at.max(at);
        self.agenda.plan(at, Step::Take(core));
    }

    fn draw_needs(&mut self, core: usize) {
        let Locks { locks, batch, reads, shares, .. } = *self.model;
        let core = &mut self.cores[core];
        core.needs.clear();
        (core.has, core.transfers) = (0, 0);
        for _ in 0..batch {
            let is_write = !shares || self.rng.below(FINE) as f64 >= reads * FINE as f64;
            core.needs.push((self.rng.below(locks), is_write));
        }
        // A lock that one request needs for writing is taken for writing.
        core.needs.sort_unstable_by_key(|&(lock, is_write)| (lock, !is_write));
        core.needs.dedup_by_key(|&mut (lock, _)| lock);
    }

    /// Takes its locks until one is not free. With all of them the batch runs.
    fn take(&mut self, core: usize, now: f64) {
        while let Some(&(lock, is_write)) = self.cores[core].needs.get(self.cores[core].has) {
            if !self.locks[lock].take(core, is_write) {
                return;
            }
            self.note_taken(core, lock);
        }
        let transfers_ns = self.cores[core].transfers as f64 * self.model.transfer_ns;
        let ns = self.course.spread.of(self.model.inside_ns, &mut self.rng);
        self.agenda.plan(now + ns + transfers_ns, Step::Done(core));
    }

    fn note_taken(&mut self, core: usize, lock: usize) {
        self.cores[core].transfers += usize::from(self.locks[lock].moves_to(core));
        self.cores[core].has += 1;
    }

    /// Releases the locks of a batch; returns whether it was the last one to count.
    fn end(&mut self, core: usize, now: f64) -> bool {
        for (lock, is_write) in std::mem::take(&mut self.cores[core].needs) {
            for next in self.locks[lock].release(is_write) {
                self.note_taken(next, lock);
                self.take(next, now);
            }
        }
        self.work_outside(core, now);
        // A connection's turn comes again after all other connections of its thread.
        self.cores[core].ended.push_back(now);
        if self.cores[core].ended.len() <= self.course.connections {
            return false;
        }
        let since = self.cores[core].ended.pop_front().expect("it has more than one");
        self.count.note(now, since)
    }
}

/// A job of a core in the model of mailboxes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Job {
    /// A connection parses a batch and sends its parts.
    Send(usize),
    /// A shard runs a part, which has come from another core or from its own.
    Part { connection: usize, requests: usize, is_remote: bool },
    /// A connection takes the replies of its batch.
    Collect(usize),
}

/// A connection in the model of mailboxes.
#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    since: f64,
    parts: usize,
    parts_left: usize,
    remote: usize,
}

/// The state of a run of the model of mailboxes.
struct RunOfMailboxes<'a> {
    model: &'a Mailboxes,
    course: &'a Course,
    rng: Rng,
    /// The ends of the jobs that run, by core.
    agenda: Agenda<usize>,
    queues: Vec<VecDeque<Job>>,
    running: Vec<Option<Job>>,
    connections: Vec<Connection>,
    /// The requests for each shard, while a batch is sent.
    touched: Vec<usize>,
    count: Count,
}

impl<'a> RunOfMailboxes<'a> {
    fn new(model: &'a Mailboxes, course: &'a Course) -> Self {
        Self {
            model,
            course,
            rng: Rng::new(course.seed),
            agenda: Agenda::new(),
            queues: vec![VecDeque::new(); course.cores],
            running: vec![None; course.cores],
            connections: vec![Connection::default(); course.cores * course.connections],
            touched: vec![0; course.cores],
            count: Count::new(course.batches),
        }
    }

    fn run(mut self) -> Outcome {
        for connection in 0..self.connections.len() {
            let home = self.home(connection);
            self.queues[home].push_back(Job::Send(connection));
        }
        (0..self.course.cores).for_each(|core| self.begin_next(core, 0.0));
        let mut is_done = false;
        while let (false, Some((now, core))) = (is_done, self.agenda.next()) {
            match self.running[core].take().expect("a core that ends a job has one") {
                Job::Send(connection) => self.send(core, connection, now),
                Job::Part { connection, .. } => self.end_part(connection, now),
                Job::Collect(connection) => is_done = self.collect(core, connection, now),
            }
            self.begin_next(core, now);
        }
        self.count.outcome()
    }

    fn home(&self, connection: usize) -> usize {
        connection % self.course.cores
    }

    /// Adds a job to a core, which begins it if it is idle.
    fn give(&mut self, core: usize, job: Job, now: f64) {
        self.queues[core].push_back(job);
        self.begin_next(core, now);
    }

    /// The same for a part. Inline, one of the core's own connections is the core's next job.
    fn give_part(&mut self, core: usize, part: Job, now: f64) {
        match part {
            Job::Part { is_remote: false, .. } if self.model.is_inline => self.queues[core].push_front(part),
            _ => self.queues[core].push_back(part),
        }
        self.begin_next(core, now);
    }

    fn begin_next(&mut self, core: usize, now: f64) {
        if self.running[core].is_some() {
            return;
        }
        if let Some(job) = self.queues[core].pop_front() {
            self.running[core] = Some(job);
            let ns = self.course.spread.of(self.mean_ns(job), &mut self.rng);
            self.agenda.plan(now + ns, core);
        }
    }

    fn mean_ns(&self, job: Job) -> f64 {
        let Mailboxes { batch, shard_ns, message_ns, transfer_ns, .. } = *self.model;
        let connection_ns = self.model.connection_with_routing_ns(self.course.cores);
        match job {
            Job::Send(_) => connection_ns / 2.0,
            Job::Part { requests, is_remote, .. } => {
                shard_ns * requests as f64 / batch as f64 + if is_remote { transfer_ns / 2.0 } else { 0.0 }
            }
            Job::Collect(connection) => {
                let Connection { parts, remote, .. } = self.connections[connection];
                // Of the messages to shards one is part of the connection's work, unless it runs its own shard's.
                let messages = if self.model.is_inline { remote } else { parts - 1 };
                connection_ns / 2.0 + messages as f64 * message_ns + remote as f64 * transfer_ns / 2.0
            }
        }
    }

    fn send(&mut self, core: usize, connection: usize, now: f64) {
        (0..self.model.batch).for_each(|_| self.touched[self.rng.below(self.course.cores)] += 1);
        let parts = self.touched.iter().filter(|&&requests| requests > 0).count();
        let remote = parts - usize::from(self.touched[core] > 0);
        let since = self.connections[connection].since;
        self.connections[connection] = Connection { since, parts, parts_left: parts, remote };
        for shard in 0..self.course.cores {
            let requests = std::mem::take(&mut self.touched[shard]);
            if requests > 0 {
                let part = Job::Part { connection, requests, is_remote: shard != core };
                self.give_part(shard, part, now);
            }
        }
    }

    fn end_part(&mut self, connection: usize, now: f64) {
        self.connections[connection].parts_left -= 1;
        if self.connections[connection].parts_left == 0 {
            self.give(self.home(connection), Job::Collect(connection), now);
        }
    }

    /// The batch has its replies, and the connection begins the next; returns whether it was the last one to count.
    fn collect(&mut self, core: usize, connection: usize, now: f64) -> bool {
        let since = std::mem::replace(&mut self.connections[connection].since, now);
        self.give(core, Job::Send(connection), now);
        self.count.note(now, since)
    }
}

impl Mailboxes {
    /// Runs the model.
    pub fn run(&self, course: &Course) -> Outcome {
        RunOfMailboxes::new(self, course).run()
    }

    /// With one shard nothing is routed: a batch goes as it came, and its replies come back in one piece.
    fn connection_with_routing_ns(&self, cores: usize) -> f64 {
        self.connection_ns + if cores > 1 { self.batch as f64 * self.routing_ns } else { 0.0 }
    }
}

/// How many of these shards a batch touches on average, if each request goes to a random one.
pub fn touched(shards: usize, batch: usize) -> f64 {
    let shards = shards as f64;
    shards * (1.0 - (1.0 - 1.0 / shards).powf(batch as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(cores: usize, spread: Spread) -> Course {
        Course { cores, connections: 1, batches: 40_000, spread, seed: 11 }
    }

    fn one_lock(outside_ns: f64, inside_ns: f64) -> Locks {
        Locks { locks: 1, batch: 1, reads: 0.0, shares: false, counts: false, outside_ns, inside_ns, transfer_ns: 0.0 }
    }

    fn is_near(found: f64, expected: f64, share: f64) {
        assert!((found / expected - 1.0).abs() < share, "{found}, not {expected}");
    }

    /// Batches per second of cores that share one lock, if both times are exponential: the machine repairman model, by
    /// mean value analysis. The model is compared with this closed form.
    ///
    /// Reiser, Lavenberg: Mean-value analysis of closed multichain queuing networks (1980).
    fn repairman(cores: usize, outside_ns: f64, inside_ns: f64) -> f64 {
        let (mut waiting, mut per_ns) = (0.0, 0.0);
        for customers in 1..=cores {
            let stay_ns = inside_ns * (1.0 + waiting);
            per_ns = customers as f64 / (outside_ns + stay_ns);
            waiting = per_ns * stay_ns;
        }
        per_ns * 1e9
    }

    /// The work of all cores for a batch, on average.
    fn work_ns(mailboxes: &Mailboxes, cores: usize) -> f64 {
        let touched = touched(cores, mailboxes.batch);
        let remote = touched * (1.0 - 1.0 / cores as f64);
        let connection_ns = mailboxes.connection_with_routing_ns(cores);
        let messages = if mailboxes.is_inline { remote } else { touched - 1.0 };
        connection_ns + mailboxes.shard_ns + messages * mailboxes.message_ns + remote * mailboxes.transfer_ns
    }

    #[test]
    fn one_lock_has_the_throughput_of_the_closed_form() {
        for (cores, outside, inside) in [(1, 900.0, 100.0), (2, 500.0, 500.0), (8, 700.0, 300.0), (64, 3000.0, 100.0)] {
            let found = one_lock(outside, inside).run(&course(cores, Spread::Exponential)).per_second;
            is_near(found, repairman(cores, outside, inside), 0.02);
        }
    }

    #[test]
    fn without_spread_a_lock_is_full_or_nobody_waits() {
        // With three cores the lock is free when each comes back.
        is_near(one_lock(800.0, 200.0).run(&course(3, Spread::None)).per_second, 3e6, 0.001);
        // With ten it is never free.
        let full = one_lock(800.0, 200.0).run(&course(10, Spread::None));
        is_near(full.per_second, 5e6, 0.001);
        // In the queue each waits for all others.
        is_near(full.p99_ns, 2000.0, 0.01);
    }

    #[test]
    fn a_full_lock_that_moves_costs_a_transfer_each_time() {
        let moving = Locks { transfer_ns: 50.0, ..one_lock(100.0, 200.0) };
        is_near(moving.run(&course(8, Spread::None)).per_second, 1e9 / 250.0, 0.001);
        // One core keeps the lock's cache line.
        is_near(moving.run(&course(1, Spread::None)).per_second, 1e9 / 300.0, 0.001);
    }

    #[test]
    fn readers_share_a_lock_and_writers_do_not() {
        let readers = Locks { reads: 1.0, shares: true, ..one_lock(0.0, 1000.0) };
        is_near(readers.run(&course(4, Spread::Even)).per_second, 4e6, 0.01);
        let writers = Locks { reads: 0.0, ..readers };
        is_near(writers.run(&course(4, Spread::Even)).per_second, 1e6, 0.01);
    }

    #[test]
    fn many_locks_let_batches_of_one_pass_and_one_lock_does_not() {
        let many = Locks { locks: 1024, ..one_lock(500.0, 500.0) };
        is_near(many.run(&course(8, Spread::Even)).per_second, 8e6, 0.02);
        // A batch that needs all locks behaves as with one lock.
        let all = Locks { locks: 2, batch: 64, ..one_lock(0.0, 1000.0) };
        is_near(all.run(&course(8, Spread::Even)).per_second, 1e6, 0.02);
    }

    #[test]
    fn a_line_of_counters_bounds_what_no_lock_does() {
        let counting = Locks { locks: 4096, counts: true, transfer_ns: 100.0, ..one_lock(500.0, 0.0) };
        // A transfer of the counters for each batch is the bound, and the locks are not.
        let found = counting.run(&course(32, Spread::Even)).per_second;
        is_near(found, 1e9 / 100.0, 0.03);
    }

    #[test]
    fn cores_that_are_never_idle_do_as_much_as_the_work_of_a_batch_allows() {
        let mailboxes = Mailboxes {
            batch: 16,
            connection_ns: 1000.0,
            shard_ns: 1500.0,
            routing_ns: 20.0,
            message_ns: 100.0,
            transfer_ns: 60.0,
            is_inline: false,
        };
        for (cores, is_inline) in [1, 2, 8, 32].into_iter().flat_map(|cores| [(cores, false), (cores, true)]) {
            let mailboxes = Mailboxes { is_inline, ..mailboxes };
            let course = Course { connections: 16, ..course(cores, Spread::Even) };
            let found = mailboxes.run(&course);
            is_near(found.per_second, cores as f64 * 1e9 / work_ns(&mailboxes, cores), 0.03);
            // Little's law: the number of batches in flight.
            assert!(found.p99_ns > course.connections as f64 * work_ns(&mailboxes, cores), "{found:?}");
        }
    }

    #[test]
    fn inline_a_batch_of_one_pays_for_a_message_only_if_another_core_has_its_key() {
        let inline = Mailboxes {
            batch: 1,
            connection_ns: 300.0,
            shard_ns: 100.0,
            routing_ns: 0.0,
            message_ns: 400.0,
            transfer_ns: 200.0,
            is_inline: true,
        };
        is_near(inline.run(&course(1, Spread::Even)).per_second, 1e9 / 400.0, 0.01);
        let course = Course { connections: 16, ..course(4, Spread::Even) };
        let remote_ns = 0.75 * (inline.message_ns + inline.transfer_ns);
        is_near(inline.run(&course).per_second, 4e9 / (400.0 + remote_ns), 0.02);
    }

    #[test]
    fn a_batch_of_one_touches_one_shard_and_a_large_one_all() {
        assert!((touched(8, 1) - 1.0).abs() < 1e-9);
        assert!((touched(1, 64) - 1.0).abs() < 1e-9);
        is_near(touched(2, 2), 1.5, 1e-9);
        assert!(touched(4, 1000) > 3.999);
    }
}
