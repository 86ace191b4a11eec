//! The claims audit: what others claim about their servers, as comparisons in this lab, and their results.
//!
//! `experiments/claims/*.toml` holds the claims of one system each. A claim names a sweep, what is compared in it, and
//! the expected ratio, with the tolerance that its own wording leaves ("about", "-1..5 %"). The verdict is computed,
//! never written: it only follows from the interval of the ratio in a run.
//!
//! ```toml
//! source = "RustRedis, on an i3-10110U with 2 cores"
//!
//! [[claim]]
//! claim = "DashMap has 60 % more throughput than one mutex at 1,000 writing clients"
//! sweep = "clients"
//! metric = "ops_per_sec"
//! where = { clients = 1000, ratio = "4:1" }       # both sides
//! subject = { server = "dashmap" }
//! baseline = { server = "mutex" }
//! expected = [1.4, 1.8]                            # subject by baseline
//! cores_min = 4                                    # fewer cores cannot show it
//! threads_min = 2                                  # of the side that the claim is about: fewer cannot show it, either
//! shards_min = 2
//! analogue = "ours has its clients on a runtime"   # how what is run here differs from what they ran
//! ```
//!
//! What the side that the claim is about had is read from its trials, never from the claim: on a machine with more
//! cores a server without a flag for it has more threads and shards, and the audit says how many. A claim whose minimum
//! no such machine meets could not be tested anywhere.
//!
//! A claim of a server that does not run here is tested on the nearest engine of ours. Its result neither confirms nor
//! refutes the claim: the outcome is that of our analogue, with the difference beside it.
//!
//! With `crossing = true`, `expected` is where, on the sweep's axis, the subject overtakes the baseline. A clear
//! crossing is reproduced if it lies there, and not if its interval does not meet that range. A subject that overtakes
//! nowhere refutes the claim only if it is behind beyond chance at every place. With `not_testable = "why"` there is
//! nothing to compare here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::judging::analysis::{self, Crossing};
use crate::judging::compare::{self, Difference, SIGNIFICANCE};
use crate::judging::noise;
use crate::judging::summary::{FAILED, Metric, PointSummary, Summary};
use crate::plan::dimension::{Dimension, Line};
use crate::plan::layout::Layout;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::plan::values::FlagValue;
use crate::results::folder::RunRecord;

/// Coordinates by the names of fields, `server` among them; flags of the generator by their own names.
pub(crate) type Selector = BTreeMap<String, FlagValue>;

/// The claims of one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// The source of the claim, and what it was measured on.
    pub source: String,
    /// The claims.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In words.
    pub claim: String,
    /// Why it cannot be tested here at all.
    pub not_testable: Option<String>,
    /// The sweep that tests it.
    pub sweep: Option<String>,
    /// The metric that is compared.
    #[serde(default = "throughput")]
    pub metric: Metric,
    /// Coordinates of both sides.
    #[serde(default, rename = "where")]
    pub at: Selector,
    /// Coordinates of the side that the claim is about.
    #[serde(default)]
    pub subject: Selector,
    /// Coordinates of the side that it is compared with.
    #[serde(default)]
    pub baseline: Selector,
    /// The ratio that would confirm the claim; or where the lines cross.
    pub expected: Option<(f64, f64)>,
    /// `expected` is a place on the sweep's axis.
    #[serde(default)]
    pub crossing: bool,
    /// Cores below which the effect cannot be seen.
    #[serde(default)]
    pub cores_min: usize,
    /// Threads of the subject below which the effect cannot be seen; `None` if nothing runs.
    pub threads_min: Option<u32>,
    /// Its shards, likewise; one lock counts as one.
    pub shards_min: Option<u32>,
    /// What runs here in the place of the system of the claim, and how it differs; empty if the system itself runs.
    #[serde(default)]
    pub analogue: String,
    /// Further notes for the reader.
    #[serde(default)]
    pub note: String,
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The interval is within the expected range, or overlaps it and is beyond chance in the claimed direction.
    Reproduced,
    /// The interval is outside.
    NotReproduced,
    /// Our analogue of the system runs here, and its interval is within the expected range.
    AnalogueWithin,
    /// Our analogue runs here, and its interval is outside.
    AnalogueOutside,
    /// The interval is too wide for either.
    Undecided,
    /// This machine, or this lab, cannot show it.
    NotTestable,
    /// The run has not tested it.
    NotMeasured,
}

/// A row of the audit.
#[derive(Debug, Clone)]
pub struct Row {
    /// The source.
    pub source: String,
    /// The claim.
    pub claim: Claim,
    /// The outcome.
    pub outcome: Outcome,
    /// The measured value, with its interval; or why there is none.
    pub found: String,
    /// The threads and shards that the subject had, if it was run and they are known.
    pub ran: Option<Layout>,
    /// The lines of `trials.jsonl` that it comes from.
    pub lines: Vec<usize>,
}

fn throughput() -> Metric {
    Metric::OpsPerSec
}

/// Reads the claims of a folder; empty if there is no such folder.
pub fn load(folder: &Path) -> Result<Vec<Claims>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| read(path).with_context(|| format!("in the claims {}", path.display()))).collect()
}

fn read(path: &Path) -> Result<Claims> {
    let claims: Claims = toml::from_str(&fs::read_to_string(path)?)?;
    for claim in &claims.claims {
        let testable = claim.sweep.is_some() && claim.expected.is_some_and(|(low, high)| low <= high);
        ensure!(
            testable != claim.not_testable.is_some(),
            "{:?} has either `not_testable`, or `sweep` and `expected` from low to high",
            claim.claim
        );
    }
    Ok(claims)
}

/// The audit of a run: the claims about its sweeps, and, if it has all of those, the untestable ones too.
pub(crate) fn audit(run: &RunRecord, summary: &Summary, claims: &[Claims]) -> Vec<Row> {
    let has = |name: &String| run.setup.sweeps.iter().any(|sweep| sweep.name == *name);
    let named = || claims.iter().flat_map(|one| &one.claims).filter_map(|claim| claim.sweep.as_ref());
    if !named().any(has) {
        return Vec::new();
    }
    let whole = named().all(has);
    let wanted = |claim: &Claim| claim.sweep.as_ref().map_or(whole, has);
    let rows = claims.iter().flat_map(|one| one.claims.iter().map(move |claim| (&one.source, claim)));
    rows.filter(|(_, claim)| wanted(claim)).map(|(source, claim)| row(run, summary, source, claim)).collect()
}

fn row(run: &RunRecord, summary: &Summary, source: &str, claim: &Claim) -> Row {
    let (outcome, found, lines) =
        judge(run, summary, claim).unwrap_or_else(|(outcome, why)| (outcome, why, Vec::new()));
    let outcome = outcome.of_analogue(claim);
    let ran = claim.ran(run, summary);
    Row { source: source.to_owned(), claim: claim.clone(), outcome, found, ran, lines }
}

type Judgement = (Outcome, String, Vec<usize>);

fn judge(run: &RunRecord, summary: &Summary, claim: &Claim) -> Result<Judgement, (Outcome, String)> {
    if let Some(why) = &claim.not_testable {
        return Err((Outcome::NotTestable, why.clone()));
    }
    let cores = run.environment.cores;
    if cores < claim.cores_min {
        let why = format!("needs {} cores; this machine has {cores}", claim.cores_min);
        return Err((Outcome::NotTestable, why));
    }
    let absent = |text: String| (Outcome::NotMeasured, text);
    let name = claim.sweep.as_deref().unwrap_or_default();
    let sweep = run.setup.sweeps.iter().find(|sweep| sweep.name == name);
    let sweep = sweep.ok_or_else(|| absent(format!("this run has no sweep {name}")))?;
    if claim.crossing {
        return crossing(run, summary, sweep, claim);
    }
    let find = |side: &Selector| find(summary, name, &[&claim.at, side]).map_err(absent);
    let (subject, baseline) = (find(&claim.subject)?, find(&claim.baseline)?);
    if let Some(why) = claim.too_few(run, summary) {
        return Err(absent(why));
    }
    let comparison = analysis::comparison(summary.seed, subject, baseline, claim.metric)
        .ok_or_else(|| absent(format!("no figures of {}", claim.metric.key())))?;
    let lines = subject.lines.iter().chain(&baseline.lines).copied().collect();
    let found = comparison.difference;
    if subject.failed + baseline.failed > 0 {
        return Ok((Outcome::Undecided, "trials failed (errors, or keys that were not there)".to_owned(), lines));
    }
    if let Some(flaw) = subject.flaw(claim.metric).or(baseline.flaw(claim.metric)) {
        let text = format!("{:.2} [{:.2}–{:.2}], but {flaw} in most runs", found.ratio, found.low, found.high);
        return Ok((Outcome::Undecided, text, lines));
    }
    if found.runs < noise::RUNS {
        let text = format!("{:.2}, of {} runs; a claim takes {}", found.ratio, found.runs, noise::RUNS);
        return Ok((Outcome::Undecided, text, lines));
    }
    let expected = claim.expected.unwrap_or((1.0, 1.0));
    Ok((outcome(&found, expected), format!("{:.2} [{:.2}–{:.2}]", found.ratio, found.low, found.high), lines))
}

/// Reproduced means within the expected range and, if that range is all on one side of one, beyond chance on that side.
fn outcome(found: &Difference, (low, high): (f64, f64)) -> Outcome {
    if found.high < low || found.low > high {
        return Outcome::NotReproduced;
    }
    let within = found.low >= low && found.high <= high;
    let beyond_chance = found.p < SIGNIFICANCE && (found.low > 1.0 || found.high < 1.0);
    let expects_change = low > 1.0 || high < 1.0;
    let centred = (low..=high).contains(&found.ratio);
    if within || (expects_change && beyond_chance && centred) { Outcome::Reproduced } else { Outcome::Undecided }
}

fn crossing(run: &RunRecord, summary: &Summary, sweep: &Sweep, claim: &Claim) -> Result<Judgement, (Outcome, String)> {
    let axis = Dimension::axis_of(sweep);
    let lines_of = |side: &Selector| -> Vec<&PointSummary> {
        let here = summary.of_sweep(&sweep.name);
        here.filter(|one| matches(&one.point, &claim.at) && matches(&one.point, side)).collect()
    };
    let (subject, baseline) = (lines_of(&claim.subject), lines_of(&claim.baseline));
    if subject.is_empty() || baseline.is_empty() {
        let missing = if subject.is_empty() { &claim.subject } else { &claim.baseline };
        return Err((Outcome::NotMeasured, format!("the run has no points with {}", describe(missing))));
    }
    if let Some(why) = claim.too_few(run, summary) {
        return Err((Outcome::NotMeasured, why));
    }
    let both = || subject.iter().chain(&baseline).copied();
    let lines: Vec<usize> = both().flat_map(|one| one.lines.iter().copied()).collect();
    let runs = both().map(|one| one.lines.len()).min().unwrap_or(0);
    if runs < noise::RUNS {
        return Ok((Outcome::Undecided, format!("{runs} runs; a claim takes {}", noise::RUNS), lines));
    }
    if let Some(remark) = both().find_map(|one| one.remark(claim.metric)) {
        let how_often = if remark == FAILED { "" } else { " in most runs of a point" };
        return Ok((Outcome::Undecided, format!("{remark}{how_often}"), lines));
    }
    let only_these = Summary { points: both().cloned().collect(), ..summary.clone() };
    let own_lines = Line::all(sweep, &axis).into_iter().filter(|line| subject.iter().any(|one| line.holds(&one.point)));
    let own_labels: Vec<String> = own_lines.map(|line| line.label).collect();
    let all = analysis::crossings(&only_these, sweep);
    let mut overtaking = all.iter().filter(|one| own_labels.contains(&one.right));
    // A clear place, if there is one among several.
    let Some(found) = overtaking.clone().find(|one| one.clear).or_else(|| overtaking.next()) else {
        let text = "the subject overtakes nowhere".to_owned();
        let is_behind = is_behind_everywhere(summary.seed, &axis, &subject, &baseline);
        return Ok((if is_behind { Outcome::NotReproduced } else { Outcome::Undecided }, text, lines));
    };
    let (from, to) = found.interval;
    let text = format!(
        "at {:.0} {} [{from:.0}–{to:.0}], in {:.0} % of the draws",
        found.at,
        axis.title(),
        found.share * 100.0
    );
    Ok((place_outcome(found, claim.expected.unwrap_or((0.0, f64::MAX))), text, lines))
}

/// A place that is not clear decides nothing. A clear one is reproduced if it, or all of its interval, is expected.
fn place_outcome(found: &Crossing, (low, high): (f64, f64)) -> Outcome {
    let (from, to) = found.interval;
    match () {
        () if !found.clear => Outcome::Undecided,
        () if to < low || from > high => Outcome::NotReproduced,
        () if (low..=high).contains(&found.at) || (from >= low && to <= high) => Outcome::Reproduced,
        () => Outcome::Undecided,
    }
}

/// Whether the subject does less than the baseline beyond chance at every place: where it only seems to be behind, it
/// may overtake unseen.
fn is_behind_everywhere(seed: u64, axis: &Dimension, subject: &[&PointSummary], baseline: &[&PointSummary]) -> bool {
    let at = |one: &PointSummary| axis.label(&one.point);
    let partner = |one: &PointSummary| baseline.iter().find(|other| at(other) == at(one)).copied();
    let difference = |one: &&PointSummary| {
        let compared = analysis::comparison(seed, one, partner(one)?, Metric::OpsPerSec)?;
        Some(compared.difference)
    };
    let Some(mut found) = subject.iter().map(difference).collect::<Option<Vec<Difference>>>() else { return false };
    compare::correct(&mut found.iter_mut().collect::<Vec<_>>());
    found.iter().all(|one| one.p_adjusted < SIGNIFICANCE && one.high < 1.0)
}

/// The one point of a sweep with these coordinates; otherwise the error.
pub(crate) fn find<'a>(summary: &'a Summary, sweep: &str, sides: &[&Selector]) -> Result<&'a PointSummary, String> {
    let fits = |one: &&PointSummary| one.point.sweep == sweep && sides.iter().all(|side| matches(&one.point, side));
    let mut found = summary.points.iter().filter(fits);
    let all = || sides.iter().map(|side| describe(side)).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    let first = found.next().ok_or_else(|| format!("the run has no point of {sweep} with {}", all()))?;
    match found.count() {
        0 => Ok(first),
        more => Err(format!("{} points of {sweep} have {}", more + 1, all())),
    }
}

fn matches(point: &Point, selector: &Selector) -> bool {
    // A sweep with one number of keys says it for all its points.
    let is_of_sweep = |field: &str| field == "key_maximum" && point.key_maximum.is_none();
    let is_it = |field, value: &FlagValue| coordinate(point, field).is_some_and(|found| found == value.as_str());
    selector.iter().all(|(field, value)| is_of_sweep(field) || is_it(field, value))
}

fn coordinate(point: &Point, field: &str) -> Option<String> {
    Some(match field {
        "server" => point.server.clone(),
        "variant" => point.variant.clone(),
        "clients" => point.clients.to_string(),
        "pipeline" => point.pipeline.to_string(),
        "ratio" => point.ratio.to_string(),
        "data_size" => point.data_size.to_string(),
        "key_pattern" => point.key_pattern.clone(),
        "key_maximum" => point.key_maximum?.to_string(),
        flag => point.loadgen.get(flag)?.to_string(),
    })
}

fn describe(selector: &Selector) -> String {
    selector.iter().map(|(field, value)| format!("{field} {value}")).collect::<Vec<_>>().join(", ")
}

impl Claim {
    /// The threads and shards of the side that the claim is about, if they are known and the same at all of its points.
    fn ran(&self, run: &RunRecord, summary: &Summary) -> Option<Layout> {
        let sweep = run.setup.sweeps.iter().find(|sweep| Some(&sweep.name) == self.sweep.as_ref())?;
        let own = summary.of_sweep(&sweep.name);
        let own = own.filter(|one| matches(&one.point, &self.at) && matches(&one.point, &self.subject));
        // Trials of older runs did not keep it, and peers do not say it.
        let planned =
            |point: &Point| Layout::planned(&point.server, &sweep.variant(&point.variant).flags, run.environment.cores);
        let mut layouts = own.map(|one| one.layout.or_else(|| planned(&one.point)));
        let first = layouts.next()?;
        first.filter(|_| layouts.all(|other| other == first))
    }

    /// In words, why the subject had too few threads or shards for the claim.
    fn too_few(&self, run: &RunRecord, summary: &Summary) -> Option<String> {
        let (ran, needs) = (self.ran(run, summary)?, self.needs()?);
        let is_enough = ran.threads >= needs.threads && ran.shards >= needs.shards;
        (!is_enough).then(|| format!("it was run with {}; the claim needs {} at least", ran.words(), needs.words()))
    }

    fn needs(&self) -> Option<Layout> {
        Some(Layout { threads: self.threads_min?, shards: self.shards_min? })
    }
}

impl Row {
    /// Remarks for the reader: how it was run, or would have to be, how that differs from the source, and the note.
    pub(crate) fn remarks(&self) -> String {
        let run = match (self.outcome, self.ran, self.claim.needs()) {
            (Outcome::NotTestable, _, Some(needs)) => format!("It takes {} at least.", needs.words()),
            (Outcome::NotTestable | Outcome::NotMeasured, ..) | (_, None, _) => String::new(),
            (_, Some(ran), _) => format!("Run with {}.", ran.words()),
        };
        let parts = [run, self.claim.analogue.clone(), self.claim.note.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl Outcome {
    /// The same if something other than the claim's own system was run.
    fn of_analogue(self, claim: &Claim) -> Self {
        match self {
            Self::Reproduced if !claim.analogue.is_empty() => Self::AnalogueWithin,
            Self::NotReproduced if !claim.analogue.is_empty() => Self::AnalogueOutside,
            other => other,
        }
    }

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::AnalogueWithin => "asked of our analogue: as they say",
            Self::AnalogueOutside => "asked of our analogue: otherwise",
            Self::Undecided => "undecided",
            Self::NotTestable => "not testable here",
            Self::NotMeasured => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sweep;
    use crate::testing;

    const GRID: &str = "question='?'\nservers=['one', 'two']\nclients=[1, 100, 1000]\n\
        test_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";

    /// `two` does three times what `one` does at a thousand clients, half of it at one. Their rounds scatter by a
    /// hundredth, each in its own way.
    fn rate(point: &Point, round: u32) -> f64 {
        let (factor, step) =
            if point.server == "one" { (1000.0, 3) } else { (500.0 * f64::from(point.clients).powf(0.26), 7) };
        factor * (1.0 + f64::from(step * round % 11) * 1e-3)
    }

    fn outcome_of(rest: &str) -> (Outcome, String) {
        audited(rate, rest, |_| {})
    }

    fn audited(rate: impl Fn(&Point, u32) -> f64, rest: &str, change: impl FnOnce(&mut Summary)) -> (Outcome, String) {
        let (run, mut summary) = testing::run("grid", GRID, rate);
        change(&mut summary);
        let claims: Claims = toml::from_str(&format!("source='them'\n[[claim]]\nclaim='so'\n{rest}")).unwrap();
        let rows = audit(&run, &summary, &[claims]);
        (rows[0].outcome, rows[0].found.clone())
    }

    const RATIO: &str = "sweep='grid'\nwhere={clients=1000}\nsubject={server='two'}\nbaseline={server='one'}\n";

    #[test]
    fn outcomes_follow_from_the_interval() {
        assert_eq!(outcome_of(&format!("{RATIO}expected=[2.8, 3.2]")).0, Outcome::Reproduced);
        assert_eq!(outcome_of(&format!("{RATIO}expected=[1.4, 1.8]")).0, Outcome::NotReproduced);
        assert_eq!(outcome_of(&format!("{RATIO}expected=[3.0, 3.016]")).0, Outcome::Reproduced);
        assert_eq!(outcome_of(&format!("{RATIO}expected=[0.9, 3.01]")).0, Outcome::Undecided);
        let reversed = "sweep='grid'\nmetric='p99_us'\nwhere={clients=1000}\nsubject={server='two'}\n\
            baseline={server='one'}\nexpected=[0.3, 0.4]";
        assert_eq!(outcome_of(reversed), (Outcome::Reproduced, "0.33 [0.33–0.33]".to_owned()));
    }

    #[test]
    fn what_our_analogue_does_neither_bears_a_claim_out_nor_refutes_it() {
        let analogue = "analogue='Ours has one thread.'\n";
        let within = outcome_of(&format!("{RATIO}{analogue}expected=[2.8, 3.2]")).0;
        let outside = outcome_of(&format!("{RATIO}{analogue}expected=[1.4, 1.8]")).0;
        assert_eq!((within, outside), (Outcome::AnalogueWithin, Outcome::AnalogueOutside));
        assert!([within, outside].iter().all(|one| one.word().starts_with("asked of our analogue")));
        let claims = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("claims")).unwrap();
        for claim in claims.iter().flat_map(|one| &one.claims).filter(|claim| claim.not_testable.is_none()) {
            let says_what = claim.cores_min >= 2 && claim.needs().is_some();
            assert!(says_what, "{:?} does not say cores_min, threads_min and shards_min", claim.claim);
            let ours = [&claim.subject, &claim.at, &claim.baseline]
                .into_iter()
                .flat_map(|side| side.values())
                .any(|value| crate::plan::catalog::is_engine(value.as_str()));
            assert_eq!(ours, !claim.analogue.is_empty(), "{:?} is asked of our engine, and says so", claim.claim);
        }
    }

    #[test]
    fn what_cannot_be_said_is_said() {
        assert_eq!(outcome_of(&format!("{RATIO}expected=[2.8, 3.2]\ncores_min=100000")).0, Outcome::NotTestable);
        let other = RATIO.replace("1000", "7");
        let (outcome, why) = outcome_of(&format!("{other}expected=[2.8, 3.2]"));
        assert_eq!(
            (outcome, why.as_str()),
            (Outcome::NotMeasured, "the run has no point of grid with clients 7, server two")
        );
        let vague = "sweep='grid'\nsubject={server='two'}\nbaseline={server='one'}\nexpected=[1, 2]";
        assert!(outcome_of(vague).1.contains("3 points of grid have server two"));
    }

    #[test]
    fn fewer_than_ten_runs_bear_no_claim_out() {
        let (run, summary) = testing::run("grid", &GRID.replace("repeats=10", "repeats=9"), rate);
        let ratio = format!("source='them'\n[[claim]]\nclaim='so'\n{RATIO}expected=[2.8, 3.2]\n");
        let place = "[[claim]]\nclaim='there'\nsweep='grid'\ncrossing=true\nsubject={server='two'}\n\
            baseline={server='one'}\nexpected=[5, 30]\n";
        let claims: Claims = toml::from_str(&(ratio + place)).unwrap();
        let rows = audit(&run, &summary, &[claims]);
        assert!(rows.iter().all(|row| row.outcome == Outcome::Undecided && row.found.contains("takes 10")), "{rows:?}");
    }

    #[test]
    fn runs_without_a_steady_state_bear_no_claim_out_and_refute_none() {
        let (run, mut summary) = testing::run("grid", GRID, rate);
        summary.points.iter_mut().for_each(|one| one.unsteady = one.lines.len());
        let crossing = "crossing=true\nsubject={server='two'}\nbaseline={server='one'}\nexpected=[5, 30]\n";
        let claims: Claims = toml::from_str(&format!(
            "source='them'\n[[claim]]\nclaim='so'\n{RATIO}expected=[1.4, 1.8]\n\
             [[claim]]\nclaim='there'\nsweep='grid'\n{crossing}"
        ))
        .unwrap();
        let rows = audit(&run, &summary, &[claims]);
        assert!(rows.iter().all(|row| row.outcome == Outcome::Undecided), "{rows:?}");
        assert!(rows[0].found.ends_with("but no steady state was reached in most runs"), "{}", rows[0].found);
        assert_eq!(rows[1].found, "no steady state was reached in most runs of a point");
    }

    #[test]
    fn a_crossing_can_be_claimed() {
        let claim = "sweep='grid'\ncrossing=true\nsubject={server='two'}\nbaseline={server='one'}\n";
        let (outcome, found) = outcome_of(&format!("{claim}expected=[5, 30]"));
        assert!(outcome == Outcome::Reproduced && found.starts_with("at 14 clients"), "{found}");
        assert_eq!(outcome_of(&format!("{claim}expected=[300, 700]")).0, Outcome::NotReproduced);
        let reversed = claim.replace("two", "x").replace("one", "two").replace("'x'", "'one'");
        let nowhere = |outcome| (outcome, "the subject overtakes nowhere".to_owned());
        assert_eq!(
            outcome_of(&format!("{reversed}expected=[5, 30]")),
            nowhere(Outcome::Undecided),
            "it is ahead at one"
        );
        let behind = |factor: f64| {
            let rate = |point: &Point, round: u32| {
                let step = if point.server == "one" { 3 } else { 7 };
                let factor = if point.server == "two" { factor } else { 1.0 };
                1000.0 * factor * (1.0 + f64::from(step * round % 11) * 1e-3)
            };
            audited(rate, &format!("{claim}expected=[5, 30]"), |_| {})
        };
        assert_eq!(behind(0.8), nowhere(Outcome::NotReproduced));
    }

    #[test]
    fn a_crossing_whose_trials_failed_or_that_was_run_otherwise_decides_nothing() {
        let claim = "sweep='grid'\ncrossing=true\nsubject={server='two'}\nbaseline={server='one'}\nexpected=[5, 30]\n";
        let (outcome, why) = audited(rate, claim, |summary| summary.points[0].failed = 1);
        assert!(outcome == Outcome::Undecided && why.starts_with("trials failed"), "{why}");
        let ours = GRID.replace("'two'", "'mutex'");
        let (run, summary) = testing::run("grid", &ours, rate);
        let claim = claim.replace("two", "mutex") + "threads_min=99\nshards_min=1\n";
        let claims: Claims = toml::from_str(&format!("source='them'\n[[claim]]\nclaim='so'\n{claim}")).unwrap();
        let row = &audit(&run, &summary, &[claims])[0];
        assert!(
            row.outcome == Outcome::NotMeasured && row.found.contains("the claim needs 99 threads, 1 shard at least"),
            "{row:?}"
        );
    }

    #[test]
    fn a_place_is_reproduced_where_it_is_clear_and_expected_and_refuted_where_its_interval_is_elsewhere() {
        let found = |at, interval, clear| Crossing {
            facet: String::new(),
            left: "one".to_owned(),
            right: "two".to_owned(),
            at,
            interval,
            share: 1.0,
            clear,
            left_out: 0,
            wake_up: false,
        };
        let of = |at, interval, clear| place_outcome(&found(at, interval, clear), (300.0, 700.0));
        assert_eq!(of(500.0, (200.0, 900.0), true), Outcome::Reproduced);
        assert_eq!(of(500.0, (400.0, 600.0), false), Outcome::Undecided);
        assert_eq!(of(800.0, (600.0, 900.0), true), Outcome::Undecided, "the interval merely meets what is expected");
        assert_eq!(of(800.0, (710.0, 900.0), true), Outcome::NotReproduced);
    }

    #[test]
    fn a_run_is_audited_for_what_its_sweeps_ask() {
        let (run, summary) = testing::run("grid", GRID, rate);
        let text = format!(
            "source='them'\n[[claim]]\nclaim='a'\n{RATIO}expected=[1, 2]\n[[claim]]\nclaim='b'\n\
            not_testable='no'\n"
        );
        let claims: Claims = toml::from_str(&text).unwrap();
        assert_eq!(audit(&run, &summary, std::slice::from_ref(&claims)).len(), 2);
        let other: Claims = toml::from_str(&text.replace("'grid'", "'other'")).unwrap();
        assert_eq!(audit(&run, &summary, &[claims, other.clone()]).len(), 1);
        assert_eq!(audit(&run, &summary, &[other]).len(), 0);
    }

    /// Every claim about a sweep, with how it came out on a machine with this many cores, whose servers say that they
    /// have what their flags and defaults give them there.
    fn outcomes_on(cores: usize, sweep: &Sweep, measured: &(RunRecord, Summary), all: &[Claims]) -> Vec<Row> {
        let (mut run, mut summary) = measured.clone();
        run.environment.cores = cores;
        for one in &mut summary.points {
            let flags = &sweep.variant(&one.point.variant).flags;
            one.layout = Layout::planned(&one.point.server, flags, cores);
        }
        audit(&run, &summary, all).into_iter().filter(|row| row.claim.not_testable.is_none()).collect()
    }

    /// A claim that wanted two threads and eight shards of a table that has four for each of four cores would be tested
    /// on no machine at all.
    #[test]
    fn every_shipped_claim_can_be_tested_on_machines_with_as_many_cores_as_it_takes_and_on_larger_ones() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let claims = load(&home.join("claims")).unwrap();
        let of_sweeps = claims.iter().flat_map(|one| &one.claims).filter_map(|claim| claim.sweep.as_ref());
        let names: std::collections::BTreeSet<&String> = of_sweeps.collect();
        let mut tested = 0;
        for name in names {
            let sweep = Sweep::read(&home.join("sweeps").join(format!("{name}.toml"))).unwrap().reduced().unwrap();
            let rate = |point: &Point, round: u32| {
                let servers = &sweep.servers;
                let step = 1 + servers.iter().position(|server| *server == point.server).unwrap_or(0) as u32;
                1000.0 * (1.0 + f64::from(step * round % 11) * 1e-3)
            };
            let measured = testing::run_of(sweep.clone(), rate);
            for cores in [2, 3, 4, 5, 6, 16, 64] {
                for row in outcomes_on(cores, &sweep, &measured, &claims) {
                    let is_tested = !matches!(row.outcome, Outcome::NotTestable | Outcome::NotMeasured);
                    assert_eq!(is_tested, cores >= row.claim.cores_min, "{cores} cores: {row:?}");
                    let told = format!("Run with {}.", row.ran.expect("it is known of all servers here").words());
                    assert_eq!(row.remarks().contains(&told), is_tested, "{}", row.remarks());
                    tested += usize::from(cores == 64 && is_tested);
                }
            }
        }
        assert_eq!(tested, claims.iter().flat_map(|one| &one.claims).filter(|one| one.sweep.is_some()).count());
    }

    #[test]
    fn what_servers_said_of_themselves_decides_and_not_what_their_flags_were_to_give() {
        let ours = GRID.replace("'two'", "'actor'");
        let (mut run, mut summary) = testing::run("grid", &ours, rate);
        run.environment.cores = 2;
        let claim = RATIO.replace("two", "actor") + "expected=[1.4, 1.8]\nthreads_min=4\nshards_min=4\n";
        let claims: Claims = toml::from_str(&format!("source='them'\n[[claim]]\nclaim='so'\n{claim}")).unwrap();
        let mut of = |layout| {
            summary.points.iter_mut().for_each(|one| one.layout = layout);
            let row = audit(&run, &summary, std::slice::from_ref(&claims)).swap_remove(0);
            (row.outcome, row.found)
        };
        let layout = |threads, shards| Some(Layout { threads, shards });
        assert_eq!(of(None).1, "it was run with 1 thread, 1 shard; the claim needs 4 threads, 4 shards at least");
        assert_eq!(of(layout(4, 4)).0, of(layout(63, 63)).0);
        assert_eq!((of(layout(4, 4)).0, of(layout(4, 3)).0), (Outcome::NotReproduced, Outcome::NotMeasured));
    }

    /// A claim on a missing sweep, or on points that it does not have, would never be audited.
    #[test]
    fn shipped_claims_name_points_of_shipped_sweeps_in_full_and_in_short() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let claims = load(&home.join("claims")).unwrap();
        assert!(claims.iter().map(|one| one.claims.len()).sum::<usize>() >= 10);
        let full = sweep::load_folder(&home.join("sweeps")).unwrap();
        let short: Vec<Sweep> = full.iter().map(|sweep| sweep.clone().reduced().unwrap()).collect();
        for sweeps in [full, short] {
            for claim in claims.iter().flat_map(|one| &one.claims).filter(|claim| claim.not_testable.is_none()) {
                let name = claim.sweep.as_deref().unwrap();
                let sweep = sweeps.iter().find(|sweep| sweep.name == name).expect(name);
                let points = crate::plan::schedule::points(sweep);
                for side in [&claim.subject, &claim.baseline] {
                    let count = points.iter().filter(|point| matches(point, &claim.at) && matches(point, side)).count();
                    assert!(
                        if claim.crossing { count > 1 } else { count == 1 },
                        "{}: {count} points with {}",
                        claim.claim,
                        describe(side)
                    );
                }
            }
        }
    }
}
