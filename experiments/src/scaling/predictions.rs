//! The model's predictions for machines with more cores, and its error where it can be checked.
//!
//! The inputs are measurements on one thread and on two, in the block `model`: the time of a thread for a batch of 1,
//! 16 and 64 requests, and how much of it is within commands. One thread shows the work of a batch, and how it grows
//! with the number of requests. Two threads show the cost of a transfer: the value with which the model's throughput is
//! the measured one. Both are interpolated between batches of 1 and of 64; batches of 16 serve as a check.
//!
//! The actor engine on one thread with two shards, beside one shard, shows what several shards cost (`Messages`): a
//! part for each request, and a part for each further shard. Batches of 16 and of 64 tell them apart. That is one
//! thread; what two threads do with batches of 16 remains a check, and so does one thread with two shards and batches
//! of 1.
//!
//! An interval is a bootstrap over the repeats of every input, widened by the worst error in the checks of that engine:
//! by the factor between model and measurement, whichever of the two is larger. What several shards cost is measured on
//! the actor engine and used for all engines with mailboxes, so its checks widen the intervals of all of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::model::{Course, Locks, Mailboxes, Outcome, Spread, touched};
use super::record::{Found, Recorded, Trial};
use crate::base::rng::Rng;
use crate::base::text::grouped;
use crate::base::text::markdown;
use crate::statistics::bootstrap::{Estimate, ratio_interval};
use crate::statistics::quantiles::{median, middle_95_percent};

/// The block of the inputs.
const BLOCK: &str = "model";
/// The block of more shards than two on one thread, on which the costs of several shards are checked. A file can lack
/// it.
const SHARDS_BLOCK: &str = "messages";
/// The block of the actor engine's placements.
const PLACEMENT_BLOCK: &str = "placement";
/// The batch sizes that the interpolation uses, and the one between them that is checked.
const ENDS: (usize, usize) = (1, 64);
const BETWEEN: usize = 16;
/// The batch sizes that show the costs of several shards. A batch of 1 touches one shard, so it shows nothing of a
/// further one, and the error of its part for each request would be multiplied by 64.
const MESSAGES_FROM: (usize, usize) = (BETWEEN, ENDS.1);
/// The numbers of cores of the predictions.
const CORES: [usize; 3] = [4, 16, 64];
/// Resamples for an interval.
const RESAMPLES: usize = if cfg!(test) { 3 } else { 60 };
/// Batches counted in each run of the model.
const BATCHES: usize = if cfg!(test) { 500 } else { 3_000 };
/// Steps of the bisection that finds the cost of a transfer.
const HALVINGS: usize = 14;
/// Shards of the map of dashmap for each core: the server's default.
const MAP_SHARDS_PER_CORE: usize = 4;
/// The share of requests that read, in that block.
const READS: f64 = 0.5;

/// An engine of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// One lock.
    Mutex,
    /// A lock for each shard of the map.
    Dashmap,
    /// A shard on each core.
    Actor,
    /// The same with `--placement pinned`: nothing moves between cores but messages. A file can lack it.
    ActorPinned,
    /// The same with `--local inline`, too: no messages for shards of the connection's own core. A file can lack it.
    ActorInline,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 5] = [Self::Mutex, Self::Dashmap, Self::Actor, Self::ActorPinned, Self::ActorInline];

    /// The name of its flag.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Dashmap => "dashmap",
            Self::Actor => "actor",
            Self::ActorPinned => "actor-pinned",
            Self::ActorInline => "actor-inline",
        }
    }

    /// Those without which nothing is predicted.
    fn needed() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|engine| !engine.is_optional())
    }

    /// Whether a file can lack it.
    fn is_optional(self) -> bool {
        matches!(self, Self::ActorPinned | Self::ActorInline)
    }

    fn has_mailboxes(self) -> bool {
        matches!(self, Self::Actor | Self::ActorPinned | Self::ActorInline)
    }

    /// The configuration that is measured on this many threads.
    fn measured_as(self, threads: usize) -> &'static str {
        match (self, threads) {
            (Self::Mutex, _) => "mutex",
            (Self::Dashmap, _) => "dashmap/8",
            (Self::Actor, 1) => "actor/1",
            (Self::Actor, _) => "actor/2",
            (Self::ActorPinned, 1) => "actor-pinned/1",
            (Self::ActorPinned, _) => "actor-pinned/2",
            (Self::ActorInline, 1) => "actor-inline/1",
            (Self::ActorInline, _) => "actor-inline/2",
        }
    }

    /// The places that must be measured. What several shards cost on one thread is taken from the actor engine: there
    /// is no other thread to which anything could move.
    fn places(self) -> Vec<Place> {
        let mut places = Vec::new();
        for batch in [ENDS.0, BETWEEN, ENDS.1] {
            places.extend([1, 2].map(|threads| (self.measured_as(threads).to_owned(), threads, batch)));
            if self == Self::Actor {
                places.push((self.measured_as(2).to_owned(), 1, batch));
            }
        }
        places
    }
}

/// The place of a measurement: engine with its shards, threads, batch.
type Place = (String, usize, usize);

/// The measurements at one place, one for each repeat.
#[derive(Debug, Clone, Default)]
struct Cell {
    /// Nanoseconds of a thread for a batch.
    batch_ns: Vec<f64>,
    /// How many of these are within commands.
    inside_ns: Vec<f64>,
    /// The 99th percentile of a batch's latency.
    p99_ns: Vec<f64>,
    /// The generator that draws its resamples.
    generator: Generator,
}

/// Cells that a file can lack are drawn by generators of their own, so that they move no interval of the others.
#[derive(Debug, Clone, Copy, Default)]
enum Generator {
    /// Of what every file has.
    #[default]
    Needed,
    /// Of the pinned engine, and of more shards on one thread.
    Others,
    /// Of the inline engine, which came later.
    Inline,
}

impl Generator {
    fn of(trial: &Trial) -> Self {
        match trial.block.as_str() {
            BLOCK => Self::Needed,
            _ if trial.found.engine == Engine::ActorInline.name() => Self::Inline,
            _ => Self::Others,
        }
    }

    /// All of them, in their first state.
    fn all(seed: u64) -> [Rng; 3] {
        [0, 1, 2].map(|more| Rng::new(seed.wrapping_add(more)))
    }
}

/// The inputs of the model.
#[derive(Debug, Clone)]
pub struct Inputs {
    cells: BTreeMap<Place, Cell>,
    connections: usize,
    seed: u64,
}

/// One value for each cell.
#[derive(Debug, Clone)]
struct Drawn {
    cells: BTreeMap<Place, [f64; 3]>,
    connections: usize,
}

impl Inputs {
    /// The inputs in a file. The error says which one is missing.
    pub fn of(recorded: &Recorded) -> Result<Self> {
        let mut cells: BTreeMap<Place, Cell> = BTreeMap::new();
        let mut connections = None;
        let is_placed = |trial: &Trial| {
            Engine::ALL.iter().any(|engine| engine.is_optional() && engine.name() == trial.found.engine)
        };
        let is_asked = |trial: &&Trial| match trial.block.as_str() {
            BLOCK | SHARDS_BLOCK => true,
            PLACEMENT_BLOCK => is_placed(trial),
            _ => false,
        };
        for trial in recorded.trials.iter().filter(is_asked) {
            let found = &trial.found;
            connections = connections.or(Some(found.connections));
            let cell = cells.entry((found.name(), found.threads, found.batch)).or_default();
            cell.generator = Generator::of(trial);
            cell.batch_ns.push(found.threads as f64 * found.seconds * 1e9 / found.batches as f64);
            cell.inside_ns.push(found.execute_mean_ns.with_context(|| format!("{} has no stages", found.name()))?);
            cell.p99_ns.push(found.p99_ns as f64);
        }
        let connections = connections.with_context(|| format!("there is no block {BLOCK:?}"))?;
        let inputs = Self { cells, connections, seed: recorded.header.seed };
        for place in Engine::needed().flat_map(Engine::places) {
            inputs.cells.get(&place).with_context(|| format!("{place:?} was not measured"))?;
        }
        Ok(inputs)
    }

    /// The medians of all repeats.
    fn medians(&self) -> Drawn {
        self.map(|_, values| median(&mut values.to_vec()).expect("a cell has a repeat"))
    }

    /// The medians of a resample of the repeats.
    fn draw(&self, rngs: &mut [Rng; 3]) -> Drawn {
        self.map(|generator, values| {
            let rng = &mut rngs[generator as usize];
            let mut drawn: Vec<f64> = (0..values.len()).map(|_| values[rng.below(values.len())]).collect();
            median(&mut drawn).expect("a cell has a repeat")
        })
    }

    fn map(&self, mut one: impl FnMut(Generator, &[f64]) -> f64) -> Drawn {
        let cells = self.cells.iter().map(|(place, cell)| {
            let Cell { batch_ns, inside_ns, p99_ns, generator } = cell;
            (place.clone(), [batch_ns, inside_ns, p99_ns].map(|values| one(*generator, values)))
        });
        Drawn { cells: cells.collect(), connections: self.connections }
    }
}

/// Interpolates at `at` between the values at both ends.
fn line(at: f64, (low, high): (f64, f64)) -> f64 {
    let (from, to) = (ENDS.0 as f64, ENDS.1 as f64);
    low + (high - low) * (at - from) / (to - from)
}

impl Drawn {
    /// The engines whose inputs are complete.
    fn engines(&self) -> Vec<Engine> {
        let is_complete = |engine: &Engine| engine.places().iter().all(|place| self.cells.contains_key(place));
        Engine::ALL.into_iter().filter(is_complete).collect()
    }

    fn cell(&self, engine: &str, threads: usize, batch: usize) -> [f64; 3] {
        self.cells[&(engine.to_owned(), threads, batch)]
    }

    fn per_second(&self, engine: Engine, threads: usize, batch: usize) -> f64 {
        threads as f64 * 1e9 / self.cell(engine.measured_as(threads), threads, batch)[0]
    }

    fn p99_ns(&self, engine: Engine, threads: usize, batch: usize) -> f64 {
        self.cell(engine.measured_as(threads), threads, batch)[2]
    }

    /// The work of a batch on one thread, and how much of it is within commands, by interpolation.
    fn work(&self, engine: Engine, batch: usize) -> (f64, f64) {
        let name = engine.measured_as(1);
        let end = |batch: usize| self.cell(name, 1, batch);
        let (low, high) = (end(ENDS.0), end(ENDS.1));
        let of = |index: usize| line(batch as f64, (low[index], high[index]));
        let whole = of(0);
        // Timing a stage reads the counter, which can cost as much as the rest of a small batch.
        (whole, of(1).min(whole * 0.95))
    }

    /// What a second shard adds to a batch, on one thread.
    fn second_shard_ns(&self, batch: usize) -> f64 {
        self.cell("actor/2", 1, batch)[0] - self.cell("actor/1", 1, batch)[0]
    }
}

/// The costs of several shards, beside one: `routing_ns` for each request, and `message_ns` for each further shard that
/// a batch touches. The first is the hash of a key and a turn in the reorder buffer: with one shard a batch is sent as
/// it came, and its replies are taken as one piece. The second is a mailbox, its wakeup, and the batch that comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Messages {
    routing_ns: f64,
    message_ns: f64,
}

impl Messages {
    /// From what a second shard adds to two sizes of batches: two equations with two unknowns.
    fn of(drawn: &Drawn, (low, high): (usize, usize)) -> Self {
        let further = |batch: usize| touched(2, batch) - 1.0;
        let (low_ns, high_ns) = (drawn.second_shard_ns(low), drawn.second_shard_ns(high));
        let determinant = low as f64 * further(high) - high as f64 * further(low);
        let routing_ns = ((low_ns * further(high) - high_ns * further(low)) / determinant).max(0.0);
        let message_ns = ((high_ns - high as f64 * routing_ns) / further(high)).max(0.0);
        Self { routing_ns, message_ns }
    }

    /// What these shards add to the work of a batch with one.
    fn more_ns(self, shards: usize, batch: usize) -> f64 {
        batch as f64 * self.routing_ns + (touched(shards, batch) - 1.0) * self.message_ns
    }
}

/// An engine with its cost of a transfer, at both ends of the interpolation.
#[derive(Debug, Clone)]
struct Fitted<'a> {
    drawn: &'a Drawn,
    engine: Engine,
    messages: Messages,
    transfer_ns: (f64, f64),
    seed: u64,
}

impl<'a> Fitted<'a> {
    /// The engine with transfers that cost nothing: the prediction from one thread alone.
    fn without_transfers(drawn: &'a Drawn, engine: Engine, seed: u64) -> Self {
        Self { drawn, engine, messages: Messages::of(drawn, MESSAGES_FROM), transfer_ns: (0.0, 0.0), seed }
    }

    /// The engine with the cost of a transfer that two threads show.
    fn of(drawn: &'a Drawn, engine: Engine, seed: u64) -> Self {
        Self::without_transfers(drawn, engine, seed).with_transfers()
    }

    fn with_transfers(self) -> Self {
        Self { transfer_ns: (self.fit(ENDS.0), self.fit(ENDS.1)), ..self }
    }

    /// The cost of a transfer with which the model's throughput is the measured one on two threads; zero if the model
    /// is slower even without it.
    fn fit(&self, batch: usize) -> f64 {
        let measured = self.drawn.per_second(self.engine, 2, batch);
        let gives = |transfer_ns: f64| self.run_with(2, batch, transfer_ns).per_second;
        if gives(0.0) <= measured {
            return 0.0;
        }
        let (mut low, mut high) = (0.0, 2.0 * self.drawn.work(self.engine, batch).0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if gives(middle) > measured { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    }

    /// The cost of a transfer, by how many requests go with it: with locks a batch, with mailboxes a shard's part.
    fn transfer_at(&self, cores: usize, batch: usize) -> f64 {
        match self.engine {
            Engine::Mutex | Engine::Dashmap => line(batch as f64, self.transfer_ns),
            Engine::Actor | Engine::ActorPinned | Engine::ActorInline => {
                let part = batch as f64 / touched(cores, batch);
                let largest = ENDS.1 as f64 / touched(2, ENDS.1);
                let share = ((part - 1.0) / (largest - 1.0)).clamp(0.0, 1.0);
                self.transfer_ns.0 + (self.transfer_ns.1 - self.transfer_ns.0) * share
            }
        }
    }

    /// Runs the model.
    fn run(&self, cores: usize, batch: usize) -> Outcome {
        self.run_with(cores, batch, self.transfer_at(cores, batch))
    }

    fn run_with(&self, cores: usize, batch: usize, transfer_ns: f64) -> Outcome {
        let (whole_ns, inside_ns) = self.drawn.work(self.engine, batch);
        let course = Course {
            cores,
            connections: self.drawn.connections,
            batches: BATCHES,
            spread: Spread::Even,
            seed: self.seed,
        };
        let locks = Locks {
            locks: 1,
            batch,
            reads: READS,
            shares: false,
            counts: false,
            outside_ns: whole_ns - inside_ns,
            inside_ns,
            transfer_ns,
        };
        match self.engine {
            Engine::Mutex => Locks { batch: 1, ..locks }.run(&course),
            Engine::Dashmap => {
                let count = (MAP_SHARDS_PER_CORE * cores).next_power_of_two().max(MEASURED_MAP_SHARDS);
                Locks { locks: count, shares: true, counts: true, ..locks }.run(&course)
            }
            Engine::Actor | Engine::ActorPinned | Engine::ActorInline => Mailboxes {
                batch,
                connection_ns: whole_ns - inside_ns,
                shard_ns: inside_ns,
                routing_ns: self.messages.routing_ns,
                message_ns: self.messages.message_ns,
                transfer_ns,
                is_inline: self.engine == Engine::ActorInline,
            }
            .run(&course),
        }
    }

    /// The 99th percentile, scaled by measured to modelled on one thread: the model knows nothing of what disturbs a
    /// machine.
    fn p99_ns(&self, outcome: &Outcome, batch: usize) -> f64 {
        let alone = self.run(1, batch).p99_ns;
        outcome.p99_ns * self.drawn.p99_ns(self.engine, 1, batch) / alone
    }
}

/// Shards of the map in the measurements.
const MEASURED_MAP_SHARDS: usize = 8;

/// One check: the model beside a measurement that is not among its inputs.
#[derive(Debug, Clone, PartialEq)]
struct Check {
    engine: Engine,
    what: String,
    batch: usize,
    /// Requests per second, measured and modelled.
    per_second: (f64, f64),
    /// The 99th percentile, measured and modelled; `None` if only throughput is checked.
    p99_ns: Option<(f64, f64)>,
    /// Whose predictions its error widens.
    widens: Widens,
}

/// The engines whose predictions rest on what a check shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Widens {
    /// The engine that is checked.
    Own,
    /// Every engine with mailboxes: all of them use the same [`Messages`].
    Mailboxes,
    /// None. A model without transfers is a bound, and no prediction.
    Nothing,
}

impl Check {
    fn widens(&self, engine: Engine) -> bool {
        match self.widens {
            Widens::Own => self.engine == engine,
            Widens::Mailboxes => engine.has_mailboxes(),
            Widens::Nothing => false,
        }
    }

    /// The error of the model, as a share of the measurement.
    fn error((measured, said): (f64, f64)) -> f64 {
        said / measured - 1.0
    }

    /// By how much more the larger of the two is than the smaller. It widens a prediction in both directions: where the
    /// model says 27 % too little, the truth is `said / 0.73`, so 27 % more than it says is not enough.
    fn widening((measured, said): (f64, f64)) -> f64 {
        (said / measured).max(measured / said) - 1.0
    }
}

fn checks_of(drawn: &Drawn, seed: u64) -> Vec<Check> {
    let mut checks = Vec::new();
    for engine in drawn.engines() {
        let requests = |per_second: f64, batch: usize| per_second * batch as f64;
        let measured = |threads: usize, batch: usize| requests(drawn.per_second(engine, threads, batch), batch);
        let alone = requests(1e9 / drawn.work(engine, BETWEEN).0, BETWEEN);
        checks.push(Check {
            engine,
            what: "1 thread, batch 16, from batches of 1 and 64".to_owned(),
            batch: BETWEEN,
            per_second: (measured(1, BETWEEN), alone),
            p99_ns: None,
            widens: Widens::Own,
        });
        let fitted = Fitted::of(drawn, engine, seed);
        let outcome = fitted.run(2, BETWEEN);
        checks.push(Check {
            engine,
            what: "2 threads, batch 16, from batches of 1 and 64".to_owned(),
            batch: BETWEEN,
            per_second: (measured(2, BETWEEN), requests(outcome.per_second, BETWEEN)),
            p99_ns: Some((drawn.p99_ns(engine, 2, BETWEEN), fitted.p99_ns(&outcome, BETWEEN))),
            widens: Widens::Own,
        });
        let bare = Fitted::without_transfers(drawn, engine, seed);
        if engine == Engine::Actor {
            checks.extend(checks_of_messages(drawn, bare.clone()));
        }
        for batch in [ENDS.0, BETWEEN, ENDS.1] {
            let outcome = bare.run(2, batch);
            checks.push(Check {
                engine,
                what: "2 threads from 1, transfers at no cost".to_owned(),
                batch,
                per_second: (measured(2, batch), requests(outcome.per_second, batch)),
                p99_ns: None,
                widens: Widens::Nothing,
            });
        }
    }
    checks
}

/// The checks of the costs of several shards, where they were not fitted: batches of 1, other numbers of shards, and
/// what two threads would be if they had been fitted to batches of 1 and of 64, as all else is.
fn checks_of_messages(drawn: &Drawn, bare: Fitted<'_>) -> Vec<Check> {
    let fitted = |shards: usize, batch: usize| shards == 2 && (batch == MESSAGES_FROM.0 || batch == MESSAGES_FROM.1);
    let mut checks: Vec<Check> = drawn
        .cells
        .iter()
        .filter_map(|((name, threads, batch), cell)| {
            let shards: usize = name.strip_prefix("actor/")?.parse().ok()?;
            let is_check = *threads == 1 && shards > 1 && !fitted(shards, *batch);
            is_check.then(|| check_of_shards(drawn, bare.messages, (shards, *batch), cell[0]))
        })
        .collect();
    let ends = Fitted { messages: Messages::of(drawn, ENDS), ..bare }.with_transfers();
    let outcome = ends.run(2, BETWEEN);
    let requests = |per_second: f64| per_second * BETWEEN as f64;
    checks.push(Check {
        engine: Engine::Actor,
        what: "2 threads, batch 16, with messages from batches of 1 and 64".to_owned(),
        batch: BETWEEN,
        per_second: (requests(drawn.per_second(Engine::Actor, 2, BETWEEN)), requests(outcome.per_second)),
        p99_ns: Some((drawn.p99_ns(Engine::Actor, 2, BETWEEN), ends.p99_ns(&outcome, BETWEEN))),
        widens: Widens::Nothing,
    });
    checks
}

/// The time of a batch on one thread with several shards, beside one shard and the costs of the others.
fn check_of_shards(
    drawn: &Drawn,
    messages: Messages,
    (shards, batch): (usize, usize),
    measured_batch_ns: f64,
) -> Check {
    let batch_ns = drawn.cell("actor/1", 1, batch)[0] + messages.more_ns(shards, batch);
    let per_second = |ns: f64| batch as f64 * 1e9 / ns;
    Check {
        engine: Engine::Actor,
        what: format!("1 thread, {shards} shards, from 2 shards and batches of 16 and 64"),
        batch,
        per_second: (per_second(measured_batch_ns), per_second(batch_ns)),
        p99_ns: None,
        widens: Widens::Mailboxes,
    }
}

/// The checks as a table.
pub fn checks(recorded: &Recorded) -> Result<String> {
    let inputs = Inputs::of(recorded)?;
    let rows = checks_of(&inputs.medians(), inputs.seed).into_iter().map(|check| {
        let pair = |pair: (f64, f64), unit: f64| {
            [grouped(pair.0 / unit), grouped(pair.1 / unit), format!("{:+.0} %", Check::error(pair) * 100.0)]
        };
        let none = || ["–".to_owned(), "–".to_owned(), "–".to_owned()];
        let mut row = vec![check.engine.name().to_owned(), check.what.to_owned(), check.batch.to_string()];
        row.extend(pair(check.per_second, 1e3));
        row.extend(check.p99_ns.map_or_else(none, |p99| pair(p99, 1e3)));
        row
    });
    let header = [
        "engine",
        "what is predicted, and from what",
        "batch",
        "thousand requests/s measured",
        "predicted",
        "off by",
        "p99 µs measured",
        "predicted",
        "off by",
    ];
    Ok(markdown(&header, &rows.collect::<Vec<_>>()))
}

/// The inputs as a table.
pub fn inputs(recorded: &Recorded) -> Result<String> {
    let inputs = Inputs::of(recorded)?;
    let drawn = inputs.medians();
    let mut rows = Vec::new();
    for engine in drawn.engines() {
        let fitted = Fitted::of(&drawn, engine, inputs.seed);
        let ns = |value: f64| grouped(value);
        for batch in [ENDS.0, ENDS.1] {
            let (whole, inside) = drawn.work(engine, batch);
            let transfer = if batch == ENDS.0 { fitted.transfer_ns.0 } else { fitted.transfer_ns.1 };
            let of_shards = |value: f64| if engine.has_mailboxes() { ns(value) } else { "–".to_owned() };
            rows.push(vec![
                engine.name().to_owned(),
                batch.to_string(),
                ns(whole - inside),
                ns(inside),
                ns(transfer),
                of_shards(fitted.messages.routing_ns),
                of_shards(fitted.messages.message_ns),
            ]);
        }
    }
    let header = [
        "engine",
        "batch",
        "ns outside",
        "ns within commands",
        "ns for a transfer",
        "ns to route a request",
        "ns for a further shard",
    ];
    Ok(markdown(&header, &rows))
}

/// A value with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// From the medians of all inputs.
    pub middle: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Range {
    fn divided(self, by: f64) -> Self {
        Self { middle: self.middle / by, low: self.low / by, high: self.high / by }
    }
}

/// A prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The engine.
    pub engine: Engine,
    /// The number of cores.
    pub cores: usize,
    /// Requests in a batch.
    pub batch: usize,
    /// Requests per second.
    pub per_second: Range,
    /// The 99th percentile of a batch.
    pub p99_ns: Range,
}

/// The predictions for the usual numbers of cores.
pub fn predictions_of(inputs: &Inputs) -> Vec<Prediction> {
    predictions(inputs, &CORES)
}

/// The interval of the resamples, divided and multiplied by the factor that the checks are wrong by
/// ([`Check::widening`]).
fn range(middle: f64, draws: &mut [f64], off: f64) -> Range {
    let (low, high) = middle_95_percent(draws).unwrap_or((middle, middle));
    Range { middle, low: low.min(middle) / (1.0 + off), high: high.max(middle) * (1.0 + off) }
}

/// The predictions for these numbers of cores. Each engine has a thread: the model takes most of the time of `verify`.
fn predictions(inputs: &Inputs, all_cores: &[usize]) -> Vec<Prediction> {
    let middle = inputs.medians();
    let mut rngs = Generator::all(inputs.seed);
    let draws: Vec<Drawn> = (0..RESAMPLES).map(|_| inputs.draw(&mut rngs)).collect();
    let checks = checks_of(&middle, inputs.seed);
    let of = &|engine| predictions_for(engine, (&middle, &draws), inputs.seed, &checks, all_cores);
    std::thread::scope(|scope| {
        let engines: Vec<_> = middle.engines().into_iter().map(|engine| scope.spawn(move || of(engine))).collect();
        engines.into_iter().flat_map(|engine| engine.join().expect("the model does not panic")).collect()
    })
}

fn predictions_for(
    engine: Engine,
    (middle, draws): (&Drawn, &[Drawn]),
    seed: u64,
    checks: &[Check],
    all_cores: &[usize],
) -> Vec<Prediction> {
    let own = checks.iter().filter(|check| check.widens(engine));
    let off = own.clone().map(|check| Check::widening(check.per_second)).fold(0.0, f64::max);
    let off_p99 = own.filter_map(|check| check.p99_ns).map(Check::widening).fold(off, f64::max);
    let fitted = Fitted::of(middle, engine, seed);
    let others: Vec<Fitted<'_>> = draws.iter().map(|drawn| Fitted::of(drawn, engine, seed)).collect();
    let mut found = Vec::new();
    for &cores in all_cores {
        for batch in [ENDS.0, BETWEEN, ENDS.1] {
            let say = |fitted: &Fitted<'_>| {
                let outcome = fitted.run(cores, batch);
                (outcome.per_second * batch as f64, fitted.p99_ns(&outcome, batch))
            };
            let (per_second, p99_ns) = say(&fitted);
            let (mut rates, mut times): (Vec<f64>, Vec<f64>) = others.iter().map(say).unzip();
            found.push(Prediction {
                engine,
                cores,
                batch,
                per_second: range(per_second, &mut rates, off),
                p99_ns: range(p99_ns, &mut times, off_p99),
            });
        }
    }
    found
}

/// The predictions that follow from a file, as a table.
pub fn table(recorded: &Recorded) -> Result<String> {
    Ok(table_of(&predictions_of(&Inputs::of(recorded)?)))
}

/// Predictions as a table: a row for each batch and engine.
pub fn table_of(found: &[Prediction]) -> String {
    let mut rows = Vec::new();
    let is_said = |engine: &Engine| found.iter().any(|one| one.engine == *engine);
    for batch in [ENDS.0, BETWEEN, ENDS.1] {
        for engine in Engine::ALL.into_iter().filter(is_said) {
            let mut row = vec![batch.to_string(), engine.name().to_owned()];
            let own = found.iter().filter(|one| one.batch == batch && one.engine == engine);
            let show = |range: Range, unit: f64| shown(range.middle / unit, range.low / unit, range.high / unit);
            for one in own {
                row.push(show(one.per_second, 1e6));
                row.push(show(one.p99_ns, 1e3));
            }
            rows.push(row);
        }
    }
    let mut header = vec!["batch".to_owned(), "engine".to_owned()];
    for cores in CORES {
        header.extend([format!("{cores} cores: million requests/s"), "p99 µs".to_owned()]);
    }
    markdown(&header, &rows)
}

/// The block in which another machine measures what this one predicted.
const MEASURED_BLOCK: &str = "predicted";

/// The measurements of a machine at one place.
#[derive(Debug, Default)]
struct Repeats {
    per_second: Vec<f64>,
    p99_ns: Vec<f64>,
}

/// Engine, threads, batch.
type Measured = BTreeMap<(Engine, usize, usize), Repeats>;

/// The predictions from one file beside the measurements in another, for every number of threads that was measured: a
/// table of predicted, measured, and what follows for the prediction.
///
/// The model predicts how an engine grows, and not how fast a core of another machine is. So both sides are divided by
/// what the same engine does with one thread on its own machine, at the same batch. Where the other machine did not
/// measure that, the absolute figures are compared, and the header says which it is.
pub fn comparison(predicted: &Recorded, measured: &Recorded) -> Result<String> {
    let inputs = Inputs::of(predicted)?;
    let many = repeats(measured, |trial| trial.block == MEASURED_BLOCK && trial.found.threads > 2);
    let mut cores: Vec<usize> = many.keys().map(|&(_, threads, _)| threads).collect();
    cores.sort_unstable();
    cores.dedup();
    ensure!(
        !cores.is_empty(),
        "there is no block {MEASURED_BLOCK:?} with more than two threads: this machine has too few cores"
    );
    let alone = repeats(measured, |trial| is_alone(&trial.found) && [BLOCK, PLACEMENT_BLOCK].contains(&&*trial.block));
    let found = predictions(&inputs, &cores);
    let asked = found.iter().filter_map(|one| Some((one, many.get(&(one.engine, one.cores, one.batch))?)));
    let is_scaled = asked.clone().all(|(one, _)| alone.contains_key(&(one.engine, 1, one.batch)));
    let drawn = inputs.medians();
    let rows = asked.map(|(one, repeats)| {
        let base = alone.get(&(one.engine, 1, one.batch)).filter(|_| is_scaled);
        let by = base.map(|base| (&drawn, base));
        [
            vec![one.cores.to_string(), one.batch.to_string(), one.engine.name().to_owned()],
            sides(one, repeats, by, measured.header.seed),
        ]
        .concat()
    });
    Ok(markdown(&comparison_header(is_scaled), &rows.collect::<Vec<_>>()))
}

fn comparison_header(is_scaled: bool) -> Vec<&'static str> {
    let [rate, p99] = if is_scaled {
        ["requests/s by its own 1 thread, predicted", "p99 by its own 1 thread, predicted"]
    } else {
        ["million requests/s predicted, absolute: no 1 thread was measured", "p99 µs predicted"]
    };
    vec!["cores", "batch", "engine", rate, "measured", "verdict", p99, "measured", "verdict"]
}

/// The repeats of the trials that are asked for, of engines that the model knows.
fn repeats(recorded: &Recorded, is_asked: impl Fn(&Trial) -> bool) -> Measured {
    let mut measured = Measured::new();
    for trial in recorded.trials.iter().filter(|trial| is_asked(trial)) {
        let found = &trial.found;
        let Some(engine) = Engine::ALL.into_iter().find(|engine| engine.name() == found.engine) else { continue };
        let repeats = measured.entry((engine, found.threads, found.batch)).or_default();
        repeats.per_second.push(found.per_second());
        repeats.p99_ns.push(found.p99_ns as f64);
    }
    measured
}

/// Whether a trial is of an engine's one thread, as the model's inputs have it.
fn is_alone(found: &Found) -> bool {
    found.threads == 1 && Engine::ALL.iter().any(|engine| engine.measured_as(1) == found.name())
}

/// The cells of throughput and of p99: predicted, measured, verdict. `by` is one thread of both machines.
fn sides(one: &Prediction, repeats: &Repeats, by: Option<(&Drawn, &Repeats)>, seed: u64) -> Vec<String> {
    let base = by.map(|(drawn, base)| {
        let per_second = drawn.per_second(one.engine, 1, one.batch) * one.batch as f64;
        ((per_second, &base.per_second), (drawn.p99_ns(one.engine, 1, one.batch), &base.p99_ns))
    });
    let rate = cells(one.per_second, &repeats.per_second, base.map(|(rate, _)| rate), 1e6, seed);
    let p99 = cells(one.p99_ns, &repeats.p99_ns, base.map(|(_, p99)| p99), 1e3, seed);
    [rate, p99].concat()
}

/// One metric. The prediction's interval already holds the uncertainty of the one thread that it was made from; that of
/// the measurement is drawn anew on both sides.
fn cells(said: Range, values: &[f64], base: Option<(f64, &Vec<f64>)>, unit: f64, seed: u64) -> Vec<String> {
    let middle = median(&mut values.to_vec()).expect("a place has a repeat");
    let (said, found) = match base {
        Some((own, others)) => {
            let ratio = middle / median(&mut others.clone()).expect("a place has a repeat");
            let (low, high) = ratio_interval(values, others, seed).expect("there are draws");
            (said.divided(own), Range { middle: ratio, low: low.min(ratio), high: high.max(ratio) })
        }
        None => {
            let one = Estimate::of(values.to_vec(), seed).expect("a place has a repeat");
            (said.divided(unit), Range { middle, low: one.low(), high: one.high() }.divided(unit))
        }
    };
    let text = |range: Range| shown(range.middle, range.low, range.high);
    vec![text(said), text(found), verdict(said, found).to_owned()]
}

/// A prediction stands only if what was measured lies within it. Intervals that merely overlap decide nothing, since
/// wide ones overlap with everything.
fn verdict(said: Range, found: Range) -> &'static str {
    if (said.low..=said.high).contains(&found.middle) {
        "stands"
    } else if found.low > said.high || found.high < said.low {
        "**refuted**"
    } else {
        "undecided"
    }
}

fn shown(middle: f64, low: f64, high: f64) -> String {
    format!("{} [{}–{}]", figure(middle), figure(low), figure(high))
}

fn figure(value: f64) -> String {
    if value >= 100.0 { grouped(value) } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::record::tests::{recorded, trial};

    /// Trials of an ideal machine: a batch costs 300 ns, and 150 ns for each request; a second thread adds a share to
    /// that.
    fn measured(second: f64) -> Recorded {
        let mut trials = Vec::new();
        for (engine, threads, batch) in Engine::ALL.into_iter().flat_map(Engine::places) {
            let batch_ns = 300.0 + 150.0 * batch as f64;
            let more = if threads == 2 { second } else { 1.0 };
            for (repeat, noise) in [(1, 0.99), (2, 1.0), (3, 1.01)] {
                let mut one = trial(&engine, threads, batch, batch_ns * more * noise, repeat);
                if engine.starts_with("actor-") {
                    one.block = PLACEMENT_BLOCK.to_owned();
                }
                trials.push(one);
            }
        }
        recorded(trials)
    }

    fn of(found: &[Prediction], engine: Engine, cores: usize, batch: usize) -> &Prediction {
        found.iter().find(|one| (one.engine, one.cores, one.batch) == (engine, cores, batch)).unwrap()
    }

    #[test]
    fn what_is_missing_is_said_by_its_name() {
        let mut one = measured(1.3);
        one.trials.retain(|trial| trial.found.batch != 64 || trial.found.engine != "actor");
        assert!(format!("{:#}", Inputs::of(&one).unwrap_err()).contains("actor"));
        one.trials.clear();
        assert!(format!("{:#}", Inputs::of(&one).unwrap_err()).contains("model"));
    }

    #[test]
    fn a_file_without_the_placed_engines_has_predictions_of_the_others() {
        let mut one = measured(1.3);
        let names = |one: &Recorded| {
            let found = predictions(&Inputs::of(one).unwrap(), &[4]);
            Engine::ALL.into_iter().filter(|&engine| found.iter().any(|one| one.engine == engine)).count()
        };
        assert_eq!(names(&one), 5);
        let of_mutex = |one: &Recorded| of(&predictions(&Inputs::of(one).unwrap(), &[4]), Engine::Mutex, 4, 1).clone();
        let with_it = of_mutex(&one);
        let of_pinned =
            |one: &Recorded| of(&predictions(&Inputs::of(one).unwrap(), &[4]), Engine::ActorPinned, 4, 1).clone();
        let pinned = of_pinned(&one);
        one.trials.retain(|trial| trial.found.engine != "actor-inline" || trial.found.threads == 1);
        assert_eq!(names(&one), 4);
        assert_eq!(of_pinned(&one), pinned, "nor does an engine that came later");
        one.trials.retain(|trial| trial.found.engine != "actor-pinned" || trial.found.threads == 1);
        assert_eq!(names(&one), 3);
        assert!(!table(&one).unwrap().contains("actor-"));
        assert_eq!(of_mutex(&one), with_it, "an engine moves no interval of another");
        // Another block has the placed engines' trials, and the actor engine's again.
        for trial in measured(1.3).trials.iter_mut().filter(|trial| trial.found.engine.starts_with("actor")) {
            trial.block = PLACEMENT_BLOCK.to_owned();
            one.trials.push(trial.clone());
        }
        assert_eq!(names(&one), 5);
        let inputs = Inputs::of(&one).unwrap();
        assert_eq!(inputs.cells[&("actor/1".to_owned(), 1, ENDS.0)].batch_ns.len(), 3, "of the block model alone");
    }

    /// An engine whose transfers cost this much.
    fn planted(drawn: &Drawn, engine: Engine, seed: u64) -> Fitted<'_> {
        Fitted { transfer_ns: (120.0, 400.0), ..Fitted::without_transfers(drawn, engine, seed) }
    }

    /// Makes several shards cost this much, on one thread.
    fn plant_messages(drawn: &mut Drawn, messages: Messages) {
        for shards in [2, 16] {
            for batch in [ENDS.0, BETWEEN, ENDS.1] {
                let mut cell = drawn.cell("actor/1", 1, batch);
                cell[0] += messages.more_ns(shards, batch);
                drawn.cells.insert((format!("actor/{shards}"), 1, batch), cell);
            }
        }
    }

    #[test]
    fn the_parts_of_a_message_are_found_that_were_planted() {
        let mut drawn = Inputs::of(&measured(1.0)).unwrap().medians();
        let messages = Messages { routing_ns: 70.0, message_ns: 400.0 };
        plant_messages(&mut drawn, messages);
        for batches in [MESSAGES_FROM, ENDS] {
            let found = Messages::of(&drawn, batches);
            assert!((found.routing_ns - messages.routing_ns).abs() < 0.01, "{batches:?}: {found:?}");
            assert!((found.message_ns - messages.message_ns).abs() < 0.01, "{batches:?}: {found:?}");
        }
    }

    #[test]
    fn a_second_shard_that_costs_nothing_has_no_negative_parts() {
        let mut drawn = Inputs::of(&measured(1.0)).unwrap().medians();
        plant_messages(&mut drawn, Messages { routing_ns: -5.0, message_ns: -20.0 });
        assert_eq!(Messages::of(&drawn, MESSAGES_FROM), Messages { routing_ns: 0.0, message_ns: 0.0 });
    }

    #[test]
    fn a_cost_that_was_planted_where_messages_are_checked_is_found_there() {
        let mut drawn = Inputs::of(&measured(1.0)).unwrap().medians();
        plant_messages(&mut drawn, Messages { routing_ns: 70.0, message_ns: 400.0 });
        let off = |drawn: &Drawn| {
            let checks = checks_of_messages(drawn, Fitted::without_transfers(drawn, Engine::Actor, 3));
            let counted: Vec<Check> = checks.into_iter().filter(|check| check.widens != Widens::Nothing).collect();
            assert_eq!(counted.len(), 4, "batches of 1 with 2 shards, and three with 16: {counted:?}");
            counted.iter().filter(|check| Check::error(check.per_second).abs() > 0.001).cloned().collect::<Vec<_>>()
        };
        assert_eq!(off(&drawn), []);
        // The model knows nothing of a cost that grows faster than the number of shards.
        drawn.cells.get_mut(&("actor/16".to_owned(), 1, ENDS.1)).unwrap()[0] *= 1.25;
        let found = off(&drawn);
        assert!(found.len() == 1 && (Check::error(found[0].per_second) - 0.25).abs() < 0.001, "{found:?}");
        assert!(found[0].what.contains("16 shards") && found[0].batch == ENDS.1, "{found:?}");
    }

    #[test]
    fn a_model_that_says_too_little_widens_as_much_as_one_that_says_too_much() {
        assert!((Check::widening((100.0, 73.0)) - 0.37).abs() < 0.001);
        assert_eq!(Check::widening((100.0, 137.0)), Check::widening((137.0, 100.0)));
        assert_eq!(Check::widening((5.0, 5.0)), 0.0);
        let widened = range(73.0, &mut [73.0, 73.0], Check::widening((100.0, 73.0)));
        assert!(widened.high >= 100.0 - 1e-9, "the truth lies in it: {widened:?}");
    }

    #[test]
    fn the_worst_check_of_an_engine_widens_its_predictions_to_the_truth() {
        let inputs = Inputs::of(&measured(1.3)).unwrap();
        let middle = inputs.medians();
        let check = |pair: (f64, f64)| Check {
            engine: Engine::Mutex,
            what: "invented".to_owned(),
            batch: 16,
            per_second: pair,
            p99_ns: None,
            widens: Widens::Own,
        };
        let high = |pair| {
            let found = predictions_for(Engine::Mutex, (&middle, &[]), inputs.seed, &[check(pair)], &[4]);
            let one = of(&found, Engine::Mutex, 4, 16).per_second;
            one.high / one.middle
        };
        assert!((high((100.0, 73.0)) - 100.0 / 73.0).abs() < 1e-9, "{}", high((100.0, 73.0)));
        assert!((high((73.0, 100.0)) - 100.0 / 73.0).abs() < 1e-9, "{}", high((73.0, 100.0)));
    }

    #[test]
    fn what_several_shards_cost_is_wrong_for_every_engine_that_uses_it() {
        let check = Check {
            engine: Engine::Actor,
            what: "invented".to_owned(),
            batch: 1,
            per_second: (100.0, 133.0),
            p99_ns: None,
            widens: Widens::Mailboxes,
        };
        let widened = |engine: &Engine| check.widens(*engine);
        let engines: Vec<Engine> = Engine::ALL.into_iter().filter(widened).collect();
        assert_eq!(engines, [Engine::Actor, Engine::ActorPinned, Engine::ActorInline]);
        let mut drawn = Inputs::of(&measured(1.0)).unwrap().medians();
        plant_messages(&mut drawn, Messages { routing_ns: 70.0, message_ns: 400.0 });
        drawn.cells.get_mut(&("actor/16".to_owned(), 1, ENDS.1)).unwrap()[0] *= 1.25;
        let inputs = Inputs::of(&measured(1.0)).unwrap();
        let checks = checks_of(&drawn, inputs.seed);
        for engine in [Engine::ActorPinned, Engine::ActorInline] {
            let found = predictions_for(engine, (&drawn, &[]), inputs.seed, &checks, &[4]);
            let one = of(&found, engine, 4, 16).per_second;
            assert!(one.high / one.middle >= 1.25 - 1e-9, "{engine:?}: {one:?}");
        }
    }

    #[test]
    fn a_machine_that_is_as_the_model_has_it_is_predicted_between_the_ends() {
        let inputs = Inputs::of(&measured(1.0)).unwrap();
        let mut drawn = inputs.medians();
        plant_messages(&mut drawn, Messages { routing_ns: 30.0, message_ns: 200.0 });
        for engine in Engine::ALL {
            let copy = drawn.clone();
            let planted = planted(&copy, engine, inputs.seed);
            for batch in [ENDS.0, BETWEEN, ENDS.1] {
                let place = (engine.measured_as(2).to_owned(), 2, batch);
                drawn.cells.get_mut(&place).unwrap()[0] = 2e9 / planted.run(2, batch).per_second;
            }
        }
        let checks = checks_of(&drawn, inputs.seed);
        for check in checks.iter().filter(|check| check.widens != Widens::Nothing) {
            assert!(Check::error(check.per_second).abs() < 0.04, "{check:?}");
        }
        // Without transfers the model is too fast.
        for check in checks.iter().filter(|check| check.widens == Widens::Nothing && check.engine == Engine::Mutex) {
            assert!(Check::error(check.per_second) > 0.02, "{check:?}");
        }
    }

    #[test]
    fn a_transfer_is_found_that_was_planted() {
        let inputs = Inputs::of(&measured(1.0)).unwrap();
        let mut drawn = inputs.medians();
        let copy = drawn.clone();
        let planted = planted(&copy, Engine::Mutex, 3);
        for batch in [ENDS.0, ENDS.1] {
            let per_second = planted.run(2, batch).per_second;
            drawn.cells.get_mut(&("mutex".to_owned(), 2, batch)).unwrap()[0] = 2e9 / per_second;
        }
        let (low, high) = Fitted::of(&drawn, Engine::Mutex, 3).transfer_ns;
        assert!((low - 120.0).abs() < 5.0 && (high - 400.0).abs() < 20.0, "{low} {high}");
    }

    #[test]
    fn what_is_measured_elsewhere_refutes_a_prediction_or_does_not() {
        let here = measured(1.3);
        let inputs = Inputs::of(&here).unwrap();
        let said = predictions(&inputs, &[8]);
        let there = |factor: f64| {
            let batch_ns = 8.0 * 64.0 * 1e9 / (of(&said, Engine::Actor, 8, 64).per_second.middle * factor);
            let trials = (1..=3).map(|repeat| {
                let mut one = trial("actor/8", 8, 64, batch_ns * (1.0 + f64::from(repeat) / 1000.0), repeat);
                one.block = MEASURED_BLOCK.to_owned();
                one
            });
            comparison(&here, &recorded(trials.collect())).unwrap()
        };
        let row = |text: &str| text.lines().find(|line| line.starts_with("| 8 | 64 | actor |")).unwrap().to_owned();
        assert!(row(&there(1.0)).contains("| stands |"), "{}", there(1.0));
        assert!(row(&there(0.2)).contains("| **refuted** |"), "{}", there(0.2));
        assert!(there(1.0).contains("absolute: no 1 thread was measured"), "{}", there(1.0));
        assert!(comparison(&here, &here).is_err(), "two threads are what it was made from");
    }

    #[test]
    fn a_prediction_stands_only_where_it_holds_what_was_measured() {
        let said = Range { middle: 10.0, low: 8.0, high: 12.0 };
        let found = |low, middle, high| verdict(said, Range { middle, low, high });
        assert_eq!(found(5.0, 11.9, 20.0), "stands");
        assert_eq!(found(11.0, 12.1, 13.0), "undecided", "intervals that merely meet");
        assert_eq!(found(12.1, 13.0, 14.0), "**refuted**");
        assert_eq!(found(5.0, 6.0, 7.9), "**refuted**");
    }

    #[test]
    fn a_machine_whose_cores_are_slower_refutes_nothing_that_grows_as_predicted() {
        let here = measured(1.3);
        let said = predictions(&Inputs::of(&here).unwrap(), &[8]);
        let there = |slower: f64| {
            let mut trials: Vec<Trial> = here.trials.iter().filter(|one| one.found.threads == 1).cloned().collect();
            for one in &mut trials {
                one.found.seconds *= slower;
                one.found.p99_ns = (one.found.p99_ns as f64 * slower) as u64;
            }
            for one in said.iter().filter(|one| one.engine == Engine::Mutex) {
                let batch_ns = 8.0 * one.batch as f64 * 1e9 / one.per_second.middle * slower;
                trials.extend((1..=3).map(|repeat| {
                    let mut trial = trial("mutex", 8, one.batch, batch_ns, repeat);
                    trial.block = MEASURED_BLOCK.to_owned();
                    trial.found.p99_ns = (one.p99_ns.middle * slower) as u64;
                    trial
                }));
            }
            comparison(&here, &recorded(trials)).unwrap()
        };
        for slower in [1.0, 4.0] {
            let text = there(slower);
            assert!(text.contains("by its own 1 thread"), "{text}");
            assert_eq!(text.matches("| stands |").count(), 3 * 2, "{slower} times slower: {text}");
        }
    }

    #[test]
    fn one_lock_stops_growing_and_shards_do_not() {
        let inputs = Inputs::of(&measured(1.3)).unwrap();
        let found = predictions(&inputs, &CORES);
        let growth = |engine| of(&found, engine, 64, 1).per_second.middle / of(&found, engine, 4, 1).per_second.middle;
        assert!(growth(Engine::Mutex) < 1.1, "{}", growth(Engine::Mutex));
        assert!(growth(Engine::Actor) > 8.0, "{}", growth(Engine::Actor));
        for one in &found {
            let Range { middle, low, high } = one.per_second;
            assert!(low <= middle && middle <= high && low > 0.0, "{one:?}");
            assert!(one.p99_ns.low <= one.p99_ns.middle && one.p99_ns.middle <= one.p99_ns.high, "{one:?}");
        }
        assert_eq!(predictions(&inputs, &CORES), found, "a seed gives the same");
    }
}
