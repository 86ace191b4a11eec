//! One connection's interface to the shards: gathers batches, sends them, and puts the replies into request order.

use super::super::{Accepts, LogView, Session};
use super::ActorEngine;
use super::batch::Batch;
use super::shard::KeyspaceShard;
use crate::aof::CommandRecord;
use crate::base::routing::shard_of;
use crate::base::tsc;
use crate::commands::{self, Command, CommandId, Context, Request, Transaction, pages};
use crate::engine::gather::Gather;
use crate::engine::quantum::Quantum;
use crate::keyspace::{Class, Instance, LogPosition, Tracking};
use crate::resp::{Args, FULL, Output, Replies, Reply};
use crate::stats::slow_log::Slow;
use crate::stats::stage_latency::Stage;
use actors::{Channels, Port, ReorderBuffer};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A connection waits for its transaction before it continues.
const TRANSACTIONS_IN_FLIGHT: usize = 1;
/// How many commands take effect together at most if one of them is over several shards. They run to their ends however
/// large their replies are.
const TOGETHER_MAX: u64 = 64;

/// How many commands of a connection are in flight at most, over all shards, if each is a message of its own.
const COMMANDS_IN_FLIGHT: usize = 64;

/// Where a reply is kept until its turn.
#[derive(Debug, Clone, Copy)]
struct Piece {
    source: Source,
    start: usize,
    end: usize,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// In `here`: replies made in the connection.
    Here,
    /// In a batch that is back, by its position in `held`.
    Held(u32),
}

/// The reorder buffer holds one for each request.
const _: () = assert!(size_of::<Option<Piece>>() == 24);

/// A batch that is back, with replies whose turn has not come.
#[derive(Debug)]
struct Held {
    batch: Box<Batch>,
    unread: usize,
}

/// The session of the actor engine.
///
/// Invariants: every request took one sequence number, in order; `reorder` gets one piece for each; a held batch has at
/// least one piece in `reorder`.
pub struct ActorSession<C: Channels> {
    engine: Arc<ActorEngine<C>>,
    port: Port<KeyspaceShard, C>,
    /// Where the connection runs, if batches for the shards there run in place.
    in_place: Option<InPlace>,
    next_seq: u64,
    /// The batch being gathered for each shard.
    gathering: Vec<Option<Box<Batch>>>,
    /// The shards that have one, in order of creation.
    touched: Vec<usize>,
    /// Whether the gathered batches hold parts of one command, so that they must take effect together.
    has_parts: bool,
    /// Whether there are parts among them of a command that writes.
    has_parts_that_write: bool,
    /// Whether some of those have no record, because nothing was recorded.
    has_untold: bool,
    /// In that case, the sequence number up to which commands are gathered.
    parts_until: u64,
    /// Batches with parts that are in flight, or back but not accepted.
    parts_out: usize,
    /// Batches that came back before all of their commands had run. No other batch is sent before the rest of these.
    #[expect(clippy::vec_box, reason = "batches travel and are used again in their boxes")]
    left: Vec<Box<Batch>>,
    /// Whether they are sent again.
    resumes: bool,
    reorder: ReorderBuffer<Piece>,
    held: Vec<Option<Held>>,
    /// Replies made in the connection whose turn has not come.
    here: Replies,
    here_unread: usize,
    gathers: HashMap<u64, Gather>,
    /// A batch that is back, while the log has not reached what its replies show.
    arriving: Option<Box<Batch>>,
    /// Whether replies were dropped because they exceeded the output limit.
    is_over_limit: bool,
    /// The position of each shard's log after this connection's last write.
    written: Vec<u64>,
    /// A transaction to be sent after the gathered commands.
    begun: Option<Box<Transaction>>,
    /// A transaction that is back.
    finished: Option<Box<Transaction>>,
    /// The commands with a reply that took long.
    slow: Vec<Slow>,
    /// What requests accepted from now on tell the keyspace about CLIENT TRACKING.
    tracking: Tracking,
    quantum: Quantum,
    /// The requests whose replies are dropped when their turn comes.
    muted_seqs: VecDeque<u64>,
    /// Whether what is gathered is sampled: see [`crate::stats::stage_latency`].
    is_sampled: bool,
    /// Whether replies that were sampled are in the output.
    has_sampled: bool,
    /// Whether everything in flight was sent a moment ago, so that polling for it is useless.
    has_just_sent: bool,
    /// Draws the shard of RANDOMKEY, and the numbers of records.
    random: fastrand::Rng,
}

/// Where a connection runs that runs batches in place.
struct InPlace {
    place: usize,
    /// Whether a batch has run since the last flush.
    has_run: bool,
}

impl InPlace {
    fn has<C: Channels>(&self, engine: &ActorEngine<C>, shard: usize) -> bool {
        engine.place_of(shard) == self.place
    }

    /// Runs a batch if its shard is here and nothing comes before it; otherwise returns it.
    fn try_run<C: Channels>(
        &mut self,
        engine: &ActorEngine<C>,
        port: &mut Port<KeyspaceShard, C>,
        shard: usize,
        batch: Box<Batch>,
    ) -> Result<(), Box<Batch>> {
        if !self.has(engine, shard) {
            return Err(batch);
        }
        port.try_run_in_place(shard, batch).inspect(|()| self.has_run = true)
    }

    fn take_has_run(&mut self) -> bool {
        std::mem::take(&mut self.has_run)
    }
}

impl<C: Channels> ActorSession<C> {
    /// A session of `engine` for a connection at a place.
    pub fn new(engine: Arc<ActorEngine<C>>, place: usize) -> Self {
        let (shards, quantum_ticks) = (engine.shards(), engine.batching.quantum_ticks);
        let window = match engine.batching.is_by_read {
            true => engine.reads_in_flight * shards,
            false => COMMANDS_IN_FLIGHT + shards,
        } + TRANSACTIONS_IN_FLIGHT;
        Self {
            port: Port::new(engine.router.clone(), window),
            in_place: engine.runs_in_place.then_some(InPlace { place, has_run: false }),
            next_seq: 0,
            gathering: (0..shards).map(|_| None).collect(),
            touched: Vec::new(),
            has_parts: false,
            has_parts_that_write: false,
            has_untold: false,
            parts_until: 0,
            parts_out: 0,
            left: Vec::new(),
            resumes: false,
            reorder: ReorderBuffer::default(),
            held: Vec::new(),
            here: Replies::default(),
            here_unread: 0,
            gathers: HashMap::new(),
            arriving: None,
            is_over_limit: false,
            written: vec![0; shards],
            begun: None,
            finished: None,
            slow: Vec::new(),
            tracking: Tracking::NONE,
            quantum: Quantum::of(quantum_ticks),
            muted_seqs: VecDeque::new(),
            is_sampled: false,
            has_sampled: false,
            has_just_sent: false,
            random: engine.instance.randomness.generator(),
            engine,
        }
    }

    fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        if self.quantum.is_muted() {
            self.muted_seqs.push_back(seq);
        }
        seq
    }

    /// The batch being gathered for `shard`.
    fn batch(&mut self, shard: usize) -> &mut Batch {
        let (slot, tracking) = (&mut self.gathering[shard], self.tracking);
        if slot.is_none() {
            self.touched.push(shard);
        }
        slot.get_or_insert_with(|| Batch::take_for(shard, tracking))
    }

    /// Makes the gathered batches take effect together.
    fn gather_together(&mut self) {
        if !std::mem::replace(&mut self.has_parts, true) {
            self.parts_until = self.next_seq + TOGETHER_MAX;
        }
    }

    fn submit_to_shards_of_keys(&mut self, id: CommandId, command: &Command, args: Args<'_>, context: Context) {
        let shards = self.gathering.len();
        let key_shards: Vec<usize> =
            command.keys.positions(args).map(|position| shard_of(&args[position], shards)).collect();
        let first = key_shards[0];
        let seq = self.take_seq();
        if key_shards.iter().all(|&shard| shard == first) {
            return self.batch(first).push(id, seq, context, args);
        }
        // Each part is the command with the keys of one shard, and with the arguments that follow each key.
        let step = usize::from(command.keys.step);
        for (position, &shard) in command.keys.positions(args).zip(&key_shards) {
            let batch = self.batch(shard);
            if !batch.has_open_part() {
                batch.push_argument(&args[0]);
            }
            (position..position + step).for_each(|position| batch.push_argument(&args[position]));
        }
        let open = |slot: &mut Option<Box<Batch>>| slot.as_mut().filter(|batch| batch.has_open_part()).is_some();
        let mut parts = 0;
        for shard in 0..shards {
            if open(&mut self.gathering[shard]) {
                self.batch(shard).end_part(id, seq, context, parts == 0);
                parts += 1;
            }
        }
        self.attach_record(command, seq, args, context, key_shards.iter().copied().collect());
        self.gather_together();
        self.gathers.insert(seq, Gather::new(command.response, context.resp3, key_shards, parts));
    }

    /// Attaches its record to every part of a command that changes data. A command that is not one step is logged part
    /// by part.
    fn attach_record(
        &mut self,
        command: &Command,
        seq: u64,
        args: Args<'_>,
        context: Context,
        shards: BTreeSet<usize>,
    ) {
        if !command.is_write() {
            return;
        }
        self.has_parts_that_write = true;
        if !self.engine.is_multi_key_atomic {
            return;
        }
        if !self.engine.is_recording() {
            self.has_untold = true;
            return;
        }
        let shards: Vec<usize> = shards.into_iter().collect();
        let record = CommandRecord::new(self.random.u64(..), context.database.into(), args.iter(), &shards);
        for shard in shards {
            self.batch(shard).attach_record(seq, record.clone());
        }
    }

    /// Does what [`attach_record`](Self::attach_record) does for commands accepted before anything was recorded.
    #[cold]
    fn attach_missing_records(touched: &[usize], gathering: &mut [Option<Box<Batch>>], random: &mut fastrand::Rng) {
        let mut wholes: BTreeMap<u64, Whole> = BTreeMap::new();
        for &shard in touched {
            let batch = gathering[shard].as_ref().expect("a touched shard has a batch");
            for (seq, op, args) in batch.parts_without_record() {
                wholes.entry(seq).or_insert_with(|| Whole::of(op.context)).add(shard, op.id, args);
            }
        }
        for (seq, Whole { context, words, shards }) in wholes {
            let words = words.iter().map(Vec::as_slice);
            let record = CommandRecord::new(random.u64(..), context.database.into(), words, &shards);
            for shard in shards {
                let batch = gathering[shard].as_mut().expect("a shard with a part has a batch");
                batch.attach_record(seq, record.clone());
            }
        }
    }

    /// The shard of all keys of a command, if there is one. Any shard can report that a request's keys cannot be found.
    fn shard_of_all(&self, command: &Command, args: Args<'_>) -> Option<usize> {
        let shards = self.gathering.len();
        let mut key_shards = command.keys.positions(args).map(|position| shard_of(&args[position], shards));
        let first = key_shards.next().unwrap_or(0);
        key_shards.all(|shard| shard == first).then_some(first)
    }

    fn submit_cross_shard(&mut self, id: CommandId, command: &Command, args: Args<'_>, context: Context) {
        let shard = self.shard_of_all(command, args).expect("others are transactions");
        let seq = self.take_seq();
        self.batch(shard).push(id, seq, context, args);
    }

    fn submit_to_all_shards(&mut self, id: CommandId, command: &Command, args: Args<'_>, context: Context) {
        let shards = self.gathering.len();
        let seq = self.take_seq();
        if shards == 1 {
            return self.batch(0).push(id, seq, context, args);
        }
        for shard in 0..shards {
            let batch = self.batch(shard);
            args.iter().for_each(|argument| batch.push_argument(argument));
            batch.end_part(id, seq, context, shard == 0);
        }
        self.attach_record(command, seq, args, context, (0..shards).collect());
        self.gather_together();
        self.gathers.insert(seq, Gather::new(command.response, context.resp3, Vec::new(), shards));
    }

    /// Reads a page of a walk over all shards: of the shard of its cursor, and of the following ones if that has too
    /// few keys. The parts need not take effect together, since a walk promises nothing about keys that come or go
    /// meanwhile; but commands with parts are always sent together.
    fn submit_page(&mut self, id: CommandId, command: &Command, args: Args<'_>, context: Context) {
        let gauges = &self.engine.gauges;
        let keys_of = |shard: usize| {
            let of_database = &gauges[shard].databases[usize::from(context.database)];
            of_database.keys.load(std::sync::atomic::Ordering::Relaxed)
        };
        let shards = self.gathering.len();
        let parts = pages(args, shards, keys_of);
        let seq = self.take_seq();
        if let [] | [_] = parts[..] {
            // Any shard can report a cursor that names no shard, or end the walk.
            let shard = parts.first().map_or(shards - 1, |part| part.shard());
            return self.batch(shard).push(id, seq, context, args);
        }
        for (number, part) in parts.iter().enumerate() {
            let batch = self.batch(part.shard());
            part.push(args, |argument| batch.push_argument(argument));
            batch.end_part(id, seq, context, number == 0);
        }
        self.gather_together();
        self.gathers.insert(seq, Gather::new(command.response, context.resp3, Vec::new(), parts.len()));
    }

    /// Sends the one command that is gathered. If that needs waiting, the connection's flush sends it before it accepts
    /// another.
    fn send_alone(&mut self) {
        if let &[shard] = &self.touched[..] {
            self.batch(shard).set_alone();
        }
        // A transaction that is not one step is accepted whole: what the window has no room for is gathered.
        if self.has_window() {
            self.try_flush();
        }
    }

    /// Sends the gathered commands, unless that needs waiting, or more than sending a batch; true if nothing is left.
    #[inline]
    fn try_flush(&mut self) -> bool {
        if self.has_parts || self.is_sampled || self.begun.is_some() || self.resumes {
            return false;
        }
        if self.in_place.is_some() {
            self.put_own_last();
        }
        let was_idle = !self.is_out() && self.reorder.is_empty();
        for sent in 0..self.touched.len() {
            let shard = self.touched[sent];
            let batch = take_gathered(&mut self.gathering, shard);
            if let Err(batch) = self.try_hand_over(shard, batch) {
                self.gathering[shard] = Some(batch);
                self.touched.drain(..sent);
                return false;
            }
        }
        self.has_just_sent = was_idle && !self.touched.is_empty() && self.in_place.is_none();
        self.touched.clear();
        true
    }

    /// Sorts the gathered batches so that other threads get theirs before this one runs its own.
    fn put_own_last(&mut self) {
        let Self { touched, engine, in_place, .. } = self;
        touched.sort_by_key(|&shard| in_place.as_ref().is_some_and(|in_place| in_place.has(engine, shard)));
    }

    /// Runs a batch in place, or sends it, unless that needs waiting.
    #[inline]
    fn try_hand_over(&mut self, shard: usize, batch: Box<Batch>) -> Result<(), Box<Batch>> {
        let Self { in_place, engine, port, .. } = self;
        let Some(in_place) = in_place else { return port.try_send(shard, batch) };
        in_place.try_run(engine, port, shard, batch).or_else(|batch| port.try_send(shard, batch))
    }

    /// Whether the window has room for a batch to each shard, and for a transaction.
    #[inline]
    fn has_window(&self) -> bool {
        self.port.room() >= self.gathering.len() + TRANSACTIONS_IN_FLIGHT
    }

    /// Whether a batch that was sent is not accepted yet.
    fn is_out(&self) -> bool {
        self.port.in_flight() > 0 || self.arriving.is_some()
    }

    /// Whether a batch is in flight that may come back unfinished, or one has. It must not be overtaken.
    fn has_unfinished(&self) -> bool {
        !self.left.is_empty() || self.arriving.is_some() || self.port.in_flight() > self.parts_out
    }

    /// Whether something waits to be sent.
    fn has_unsent(&self) -> bool {
        !self.touched.is_empty() || self.begun.is_some()
    }

    /// Sends the gathered commands and the transaction, as far as they need not wait for batches in flight.
    async fn send_off(&mut self) {
        if std::mem::take(&mut self.resumes) {
            self.send_left().await;
        }
        if self.has_parts && self.has_unfinished() {
            return;
        }
        let is_sampled = self.is_sampled;
        self.send_gathered().await;
        self.send_begun(is_sampled).await;
    }

    /// Sends the rest of unfinished batches, in the order of the requests: the next one only, or all of them if no
    /// reply waits for another. So at most one buffer for each shard waits for its turn.
    async fn send_left(&mut self) {
        self.port.resume();
        self.left.sort_unstable_by_key(|batch| batch.order());
        let count = if self.reorder.is_empty() { self.left.len() } else { 1 };
        for batch in self.left.drain(..count) {
            self.port.send(batch.shard(), batch).await.expect("shards live as long as the server");
        }
    }

    async fn send_begun(&mut self, is_sampled: bool) {
        let Some(transaction) = self.begun.take() else { return };
        let shards = self.shards_of(&transaction);
        if shards.len() > 1 && self.has_unfinished() {
            self.begun = Some(transaction);
            return;
        }
        self.send_transaction(shards, transaction, is_sampled).await;
    }

    async fn send_gathered(&mut self) {
        self.stamp_gathered();
        self.is_sampled = false;
        let has_parts = std::mem::take(&mut self.has_parts);
        let is_group = has_parts && self.engine.is_multi_key_atomic;
        let (has_parts_that_write, has_untold) =
            (std::mem::take(&mut self.has_parts_that_write), std::mem::take(&mut self.has_untold));
        if has_parts {
            let holds_parts = |&&shard: &&usize| self.gathering[shard].as_ref().is_some_and(|batch| batch.has_parts());
            self.parts_out += self.touched.iter().filter(holds_parts).count();
        }
        if self.in_place.is_some() {
            self.put_own_last();
        }
        let Self { touched, gathering, port, in_place, engine, random, .. } = self;
        // Held until the group has its place in the order of all commands.
        let _sending = has_parts_that_write.then(|| engine.control().begin_sending());
        if has_untold && engine.is_to_record() {
            Self::attach_missing_records(touched, gathering, random);
        }
        if has_parts_that_write {
            // They run as those of a master, or of a replica, whatever the server becomes before the last of them runs.
            let rule = Some(engine.due_keys.get());
            touched.iter().for_each(|&shard| gathering[shard].iter_mut().for_each(|batch| batch.sent_under = rule));
        }
        let mut gathered = touched.drain(..).map(|shard| (shard, take_gathered(gathering, shard)));
        let sent = if is_group {
            port.send_group(gathered.collect()).await
        } else {
            let mut sent = Ok(());
            while let (true, Some((shard, batch))) = (sent.is_ok(), gathered.next()) {
                let left = match in_place {
                    Some(in_place) => in_place.try_run(engine, port, shard, batch).err(),
                    None => Some(batch),
                };
                if let Some(batch) = left {
                    sent = port.send(shard, batch).await;
                }
            }
            sent
        };
        sent.expect("shards live as long as the server");
    }

    /// Begins the first stage of sampled batches.
    fn stamp_gathered(&mut self) {
        if self.is_sampled {
            let now = tsc::now();
            self.touched.iter().for_each(|&shard| self.gathering[shard].iter_mut().for_each(|batch| batch.since = now));
        }
    }

    async fn send_transaction(&mut self, shards: Vec<usize>, transaction: Box<Transaction>, is_sampled: bool) {
        let mut batch = Batch::of_transaction(shards[0], transaction);
        if is_sampled {
            batch.since = tsc::now();
        }
        let sent = match shards.len() {
            1 => self.port.send(shards[0], batch).await,
            _ => self.port.send_cross_shard(shards, batch).await,
        };
        sent.expect("shards live as long as the server");
    }

    /// The shards that a transaction needs, in order; an arbitrary one if it needs none.
    fn shards_of(&self, transaction: &Transaction) -> Vec<usize> {
        let count = self.gathering.len();
        if transaction.needs_all(&self.engine.instance) {
            return (0..count).collect();
        }
        let mut is_needed = vec![false; count];
        transaction.for_each_key(&self.engine.instance, |_, key| is_needed[shard_of(key, count)] = true);
        let needed: Vec<usize> = (0..count).filter(|&shard| is_needed[shard]).collect();
        if needed.is_empty() { vec![0] } else { needed }
    }

    /// Accepts the next batch that is back and whose replies may be shown.
    fn next_arrived(&mut self) -> Option<Box<Batch>> {
        let mut batch = match self.arriving.take() {
            Some(batch) => batch,
            None => returned(&self.engine.instance, self.port.try_recv()?),
        };
        if self.engine.is_released(&batch) {
            if self.engine.is_logging() {
                batch.end_stage(&self.engine.instance.stages, Stage::Sync);
            }
            return Some(batch);
        }
        self.arriving = Some(batch);
        None
    }

    fn accept(&mut self, mut batch: Box<Batch>, out: &mut Output) {
        if !batch.slow.is_empty() {
            self.accept_slow(&mut batch);
        }
        if batch.is_write() {
            self.note_written_by(&batch);
        }
        if batch.is_unfinished() {
            return self.accept_unfinished(batch, out);
        }
        if let Some(transaction) = batch.transaction.take() {
            self.has_sampled |= batch.since != 0;
            self.finished = Some(transaction);
            self.release_served();
            return batch.recycle(self.engine.instance.pressure.is_tight());
        }
        self.parts_out -= usize::from(batch.has_parts());
        self.is_over_limit |= batch.overflowed;
        if self.is_over_limit {
            // The connection closes without another reply, because a command with a dropped part has no whole reply.
            return batch.recycle(self.engine.instance.pressure.is_tight());
        }
        if self.reorder.is_empty() && self.muted_seqs.is_empty() && batch.is_run_from(self.reorder.next_seq()) {
            self.accept_run(batch, out);
        } else {
            self.accept_pieces(batch);
        }
    }

    /// Accepts the commands that took long; of those whose parts ran on several shards, one entry each.
    #[cold]
    fn accept_slow(&mut self, batch: &mut Batch) {
        for slow in batch.slow.drain(..) {
            match slow.part_of.and_then(|seq| self.gathers.get_mut(&seq)) {
                Some(gather) => gather.note_slow(slow),
                None => self.slow.push(slow),
            }
        }
    }

    /// Accepts the replies of the commands that have run, and keeps the other commands.
    #[cold]
    fn accept_unfinished(&mut self, mut batch: Box<Batch>, out: &mut Output) {
        if let Some(done) = batch.take_run() {
            self.accept(done, out);
        }
        self.left.push(batch);
        self.quantum.end();
        self.release_served();
    }

    /// While commands are left, the rest of a transaction waits until the client reads. Those that it has served do
    /// not.
    fn release_served(&mut self) {
        if !self.left.is_empty() {
            self.finished.iter_mut().for_each(|transaction| transaction.release_served());
        }
    }

    fn note_written_by(&mut self, batch: &Batch) {
        self.note_written(&[(batch.shard(), batch.lsn)]);
        batch.transaction.iter().for_each(|transaction| self.note_written(&transaction.log_positions));
    }

    /// Accepts the next replies in order, all of them at once: they need not be split.
    fn accept_run(&mut self, mut batch: Box<Batch>, out: &mut Output) {
        self.reorder.advance(batch.ops.len() as u64);
        self.end_sample(&mut batch);
        out.append(&mut batch.replies);
        batch.recycle(self.engine.instance.pressure.is_tight());
    }

    /// Records that all replies of a batch are in the output.
    #[inline]
    fn end_sample(&mut self, batch: &mut Batch) {
        batch.end_stage(&self.engine.instance.stages, Stage::Reorder);
        self.has_sampled |= batch.since != 0;
    }

    fn accept_pieces(&mut self, batch: Box<Batch>) {
        let index = self.held.iter().position(Option::is_none).unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        let source = Source::Held(u32::try_from(index).expect("the window bounds the batches that are back"));
        let mut unread = 0;
        let mut start = 0;
        for op in &batch.ops {
            let end = op.reply_end;
            if op.is_part {
                let reply = batch.replies.at(start..end);
                self.add_part(batch.seq_of(op), op.context.database.into(), batch.shard(), reply, batch.since);
            } else {
                self.reorder.insert(batch.seq_of(op), Piece { source, start, end });
                unread += 1;
            }
            start = end;
        }
        if unread == 0 {
            batch.recycle(self.engine.instance.pressure.is_tight());
        } else {
            self.held[index] = Some(Held { batch, unread });
        }
    }

    fn add_part(&mut self, seq: u64, database: usize, shard: usize, reply: &[u8], since: u64) {
        let gather = self.gathers.get_mut(&seq).expect("a part has its gather");
        gather.note_since(since);
        if gather.add(shard, reply) {
            let mut gather = self.gathers.remove(&seq).expect("the gather was just there");
            self.slow.extend(gather.take_slow());
            if gather.since() != 0 {
                self.engine.instance.stages.note_since(Stage::Reorder, gather.since());
                self.has_sampled = true;
            }
            let start = self.here.len();
            let gauges = &self.engine.gauges;
            let keys_of =
                |shard: usize| gauges[shard].databases[database].keys.load(std::sync::atomic::Ordering::Relaxed);
            let random = &mut self.random;
            gather.write(self.here.buffer(), keys_of, |below| random.u64(..below));
            self.insert_here(seq, start);
        }
    }

    /// Inserts the reply that begins at `start` in `here`.
    fn insert_here(&mut self, seq: u64, start: usize) {
        self.here_unread += 1;
        let end = self.here.end_reply();
        self.reorder.insert(seq, Piece { source: Source::Here, start, end });
    }

    /// Writes the replies whose turn has come.
    #[inline]
    fn write_ready(&mut self, out: &mut Output) {
        if !self.reorder.is_empty() {
            self.write_pieces(out);
        }
    }

    fn write_pieces(&mut self, out: &mut Output) {
        while let Some(mut piece) = self.reorder.pop_ready() {
            if !self.muted_seqs.is_empty()
                && self.muted_seqs.pop_front_if(|seq| *seq < self.reorder.next_seq()).is_some()
            {
                self.quantum.note_replied(piece.end - piece.start);
                piece.end = piece.start;
            }
            self.write_piece(piece, out);
        }
    }

    fn write_piece(&mut self, Piece { source, start, end }: Piece, out: &mut Output) {
        let Source::Held(index) = source else {
            self.here.move_one(start..end, out);
            self.here_unread -= 1;
            if self.here_unread == 0 {
                self.here = Replies::default();
            }
            return;
        };
        let slot = &mut self.held[index as usize];
        let held = slot.as_mut().expect("a held batch stays until its replies are taken");
        held.batch.replies.move_one(start..end, out);
        held.unread -= 1;
        if held.unread == 0 {
            let mut batch = slot.take().expect("it was just there").batch;
            self.end_sample(&mut batch);
            batch.recycle(self.engine.instance.pressure.is_tight());
        }
    }
}

/// A command over several shards, joined from its parts.
struct Whole {
    context: Context,
    words: Vec<Vec<u8>>,
    shards: Vec<usize>,
}

impl Whole {
    fn of(context: Context) -> Self {
        Self { context, words: Vec::new(), shards: Vec::new() }
    }

    /// Adds a part: the command with the keys of its shard and what follows each key; or the command unchanged.
    fn add(&mut self, shard: usize, id: CommandId, args: Args<'_>) {
        let has_keys = commands::command(id).request == Request::MultiShard;
        let known = if self.words.is_empty() { 0 } else { 1 };
        if has_keys || known == 0 {
            self.words.extend(args.from(known).iter().map(<[u8]>::to_vec));
        }
        self.shards.push(shard);
    }
}

/// Ends the stage of a batch that is back in its connection.
#[inline]
fn returned(instance: &Instance, mut batch: Box<Batch>) -> Box<Batch> {
    batch.end_stage(&instance.stages, Stage::Return);
    batch
}

fn take_gathered(gathering: &mut [Option<Box<Batch>>], shard: usize) -> Box<Batch> {
    gathering[shard].take().expect("a touched shard has a batch")
}

impl<C: Channels> Session for ActorSession<C> {
    fn submit(&mut self, id: CommandId, args: Args<'_>, context: Context, _out: &mut Output) {
        let command = commands::command(id);
        match command.request {
            Request::OneShard => {
                let shard = shard_of(&args[usize::from(command.keys.first)], self.gathering.len());
                let seq = self.take_seq();
                self.batch(shard).push(id, seq, context, args);
            }
            Request::MultiShard => self.submit_to_shards_of_keys(id, command, args, context),
            Request::MultiShardView => self.submit_cross_shard(id, command, args, context),
            Request::AllShards => self.submit_to_all_shards(id, command, args, context),
            Request::Cursor => self.submit_page(id, command, args, context),
            Request::Local => unreachable!("the connection runs local commands"),
        }
        if !self.engine.batching.is_by_read {
            self.send_alone();
        }
    }

    fn reply_locally(&mut self, resp3: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        let seq = self.take_seq();
        if seq == self.reorder.next_seq() && !self.quantum.is_muted() {
            self.reorder.advance(1);
            return write(&mut Reply::new(out, resp3));
        }
        let start = self.here.len();
        write(&mut Reply::new(self.here.buffer(), resp3));
        if self.quantum.is_muted() {
            // Nobody will see it.
            self.quantum.note_replied(self.here.len() - start);
            self.here.truncate(start);
        }
        self.insert_here(seq, start);
    }

    fn take_turn(&mut self) -> bool {
        self.next_seq += 1;
        self.reorder.advance(1);
        !self.quantum.is_muted()
    }

    fn slow(&mut self) -> &mut Vec<Slow> {
        &mut self.slow
    }

    fn accepted(&self) -> u64 {
        self.next_seq
    }

    fn replied(&self) -> u64 {
        self.reorder.next_seq()
    }

    fn begin(&mut self, mut transaction: Box<Transaction>) {
        transaction.set_tracking(self.tracking);
        self.begun = Some(transaction);
    }

    fn take_finished(&mut self) -> Option<Box<Transaction>> {
        // Its replies come after those of the commands before it, of which some may be left on other shards.
        let is_next = !self.is_out() && self.left.is_empty();
        self.finished.take_if(|_| is_next)
    }

    fn is_batchable(&self, id: CommandId, args: Args<'_>) -> bool {
        let command = commands::command(id);
        match command.request {
            // The parts would publish their events in any order.
            Request::MultiShard if self.is_atomic() && self.engine.pubsub.notified() != Class::NONE => {
                self.shard_of_all(command, args).is_some()
            }
            Request::MultiShardView if self.gathering.len() > 1 => {
                !command.needs_all(args, &self.engine.instance) && self.shard_of_all(command, args).is_some()
            }
            // Each part would tell those with CLIENT TRACKING that all keys have gone.
            Request::AllShards => !(command.is_write() && self.engine.instance.settings.is_tracked()),
            _ => true,
        }
    }

    fn is_atomic(&self) -> bool {
        self.engine.is_multi_key_atomic
    }

    fn log(&self) -> LogView<'_> {
        self.engine.log()
    }

    fn written(&self) -> Vec<LogPosition> {
        let log_positions = self.written.iter().copied().enumerate();
        log_positions.filter(|&(shard, lsn)| lsn > 0 && shard < self.engine.segments.len()).collect()
    }

    fn note_written(&mut self, log_positions: &[LogPosition]) {
        for &(shard, lsn) in log_positions {
            self.written[shard] = self.written[shard].max(lsn);
        }
    }

    /// The parts of a command go through the sequencer, and so does everything read together with them: it costs no
    /// more, and every shard keeps the order of the connection's requests.
    async fn flush(&mut self) {
        self.quantum.flush().await;
        if !self.try_flush() {
            self.send_off().await;
        }
        if self.in_place.as_mut().is_some_and(InPlace::take_has_run) {
            // Ready connections run first, as after a turn of a shard or in the other engines (docs/adr/0024).
            actors::yield_now().await;
        }
    }

    /// Each shard publishes the events of its keys in its own turn: everything in flight, or sent with this command,
    /// must be for the shard of this command.
    fn keeps_events_in_order(&self, id: CommandId, args: Args<'_>) -> bool {
        let command = commands::command(id);
        if self.gathering.len() == 1 || self.replied() == self.accepted() {
            return true;
        }
        let shard = match command.request {
            Request::OneShard | Request::MultiShard | Request::MultiShardView => self.shard_of_all(command, args),
            Request::AllShards | Request::Cursor | Request::Local => None,
        };
        !self.is_out() && shard.is_some_and(|shard| self.touched == [shard])
    }

    #[inline]
    fn accepts(&self) -> Accepts {
        let is_full = match self.engine.batching.is_by_read {
            true => self.has_parts && self.next_seq >= self.parts_until,
            false => !self.touched.is_empty() || !self.has_window(),
        };
        match is_full || self.quantum.is_over() {
            true => Accepts::AfterFlush,
            false if self.here.len() >= FULL => Accepts::AfterReplies,
            false => Accepts::Now,
        }
    }

    fn goes_on(&mut self, has_output_room: bool) -> bool {
        if self.left.is_empty() {
            return self.has_unsent() && !self.has_unfinished();
        }
        self.resumes = has_output_room && !self.is_out();
        self.resumes
    }

    fn forget_rest(&mut self) {
        self.left.clear();
        self.arriving = None;
        self.touched.drain(..).for_each(|shard| {
            take_gathered(&mut self.gathering, shard).recycle(self.engine.instance.pressure.is_tight())
        });
        self.has_parts = false;
        self.has_parts_that_write = false;
        self.has_untold = false;
        self.parts_out = self.port.in_flight();
    }

    fn sample(&mut self) {
        self.is_sampled = true;
    }

    fn take_sampled(&mut self) -> bool {
        std::mem::take(&mut self.has_sampled)
    }

    fn collect(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.has_just_sent) {
            return;
        }
        while let Some(batch) = self.next_arrived() {
            // An output without room would have to grow, or leave a batch without a buffer for its next replies.
            out.buffer();
            let has_held = batch.holds_others();
            self.accept(batch, out);
            self.write_ready(out);
            if has_held && !self.is_out() && self.left.is_empty() {
                // It was the last: there is nothing to send again.
                self.port.resume();
            }
        }
        self.write_ready(out);
        if self.is_over_limit {
            out.give_up();
        }
    }

    fn tracking(&mut self) -> &mut Tracking {
        &mut self.tracking
    }

    fn set_muted(&mut self, is_muted: bool) {
        self.quantum.set_muted(is_muted);
    }

    fn note_spent(&mut self, ticks: u64) {
        self.quantum.note_spent(ticks);
    }

    fn note_sent(&mut self, bytes: usize) {
        self.quantum.note_replied(bytes);
    }

    fn is_waiting(&self) -> bool {
        self.is_out() || !self.left.is_empty() || self.has_unsent()
    }

    fn has_room(&self) -> bool {
        self.has_window() && self.arriving.is_none() && self.left.is_empty() && !self.has_unsent()
    }

    async fn wait(&mut self) {
        if self.arriving.is_none() {
            self.arriving = Some(returned(&self.engine.instance, self.port.recv().await));
        }
        let batch = self.arriving.as_ref().expect("it was just put there");
        self.engine.released(batch).await;
    }
}
