//! Sentences and tables: what the situations say, and how sure it is.

use std::collections::BTreeSet;

use super::situations::{Against, ENGINES, Place, Situation, Situations, VARIANT};
use crate::base::text::markdown;
use crate::judging::summary::Metric;
use crate::scaling::record::Recorded;

/// Loads that are named before the rest is counted.
const NAMED_MAX: usize = 4;

/// Blocks that are linked one by one.
const BLOCKS_MAX: usize = 3;

/// The share of the cores' time that other processes may have before it is said.
const DISTURBED: f64 = 0.05;

/// The situations on the same number of cores that are known in the same way.
struct Group<'a> {
    cores: usize,
    is_predicted: bool,
    all: Vec<&'a Situation>,
}

/// What an engine is in a group.
#[derive(Default)]
struct Standing<'a> {
    /// Ahead of every other engine.
    alone: Vec<(&'a Situation, Against<'a>)>,
    /// Behind none, and not ahead of all.
    among: Vec<&'a Situation>,
    /// Behind another one, beside the one that it is most behind of.
    behind: Vec<(&'a Situation, Against<'a>)>,
}

/// The shortest table, then a sentence for each engine. `page` is the link to the page's tables.
pub(super) fn answer(found: &Situations, page: &str) -> String {
    if found.all.is_empty() {
        return "\n\nThe file compares no engines: nothing is answered.\n\n".to_owned();
    }
    let lines: String = all(found, page).iter().map(|sentence| format!("- {sentence}\n")).collect();
    format!("{}{lines}\n", short_table(found, page))
}

/// A sentence for each engine, about loads: flags that differ from the defaults are a choice, and the table has them.
pub(super) fn all(found: &Situations, page: &str) -> Vec<String> {
    let groups = groups(found, |one| one.load.has_default_flags());
    found.engines().iter().map(|engine| sentence(engine, &groups, found, page)).collect()
}

/// For each engine: where nothing is ahead of it, and where something is.
pub(super) fn standings(found: &Situations) -> String {
    let groups = groups(found, |_| true);
    let lines: String = found.engines().iter().map(|engine| standing(engine, &groups)).collect();
    format!("\n\n{lines}\n")
}

/// Cores by batch, of the ordinary load: the fastest engines.
fn short_table(found: &Situations, page: &str) -> String {
    let ordinary = groups(found, |one| one.load.is_ordinary());
    let batches: BTreeSet<usize> = ordinary.iter().flat_map(|group| &group.all).map(|one| one.load.batch).collect();
    let mut header = vec!["cores".to_owned()];
    header.extend(batches.iter().map(|batch| format!("batch {batch}: most requests")));
    header.extend(["lowest p99 of a batch".to_owned(), "how sure".to_owned()]);
    let row = |group: &Group<'_>| {
        let at = |batch: &usize| group.all.iter().find(|one| one.load.batch == *batch).copied();
        let mut row = vec![group.cores.to_string()];
        let absent = if group.is_predicted { "not predicted" } else { "not measured" };
        row.extend(batches.iter().map(|batch| at(batch).map_or(absent.to_owned(), fastest)));
        row.push(lowest_p99(group));
        row.push(how_sure(group, found, page));
        row
    };
    markdown(&header, &ordinary.iter().map(row).collect::<Vec<_>>())
}

/// The leader and by how much, or the engines among which nothing is decided.
fn fastest(one: &Situation) -> String {
    match one.leader(Metric::OpsPerSec) {
        Some((engine, closest)) => format!("**{engine}** ({})", times(&closest)),
        None => undecided(one, Metric::OpsPerSec),
    }
}

fn undecided(one: &Situation, metric: Metric) -> String {
    let names = one.unbeaten(metric);
    let is_open = names.is_empty() || names.len() == one.engines.len();
    if is_open { "undecided".to_owned() } else { names.join(" or ") }
}

/// The engines of the lowest p99: once if they are the same for all batches. The column of how sure it is speaks of
/// throughput, so a lead in p99 that is only indicated says so itself.
fn lowest_p99(group: &Group<'_>) -> String {
    let of = |one: &Situation| match one.leader(Metric::P99Us) {
        Some((engine, _)) if one.is_predicted || one.is_sure(engine, Metric::P99Us) => engine.to_owned(),
        Some((engine, _)) => format!("{engine} (indicated)"),
        None => undecided(one, Metric::P99Us),
    };
    let all: Vec<(usize, String)> = group.all.iter().map(|one| (one.load.batch, of(one))).collect();
    match &all[..] {
        [(_, first), rest @ ..] if rest.iter().all(|(_, engine)| engine == first) => first.clone(),
        all => all.iter().map(|(batch, engine)| format!("batch {batch}: {engine}")).collect::<Vec<_>>().join("; "),
    }
}

/// `1.10 [1.08–1.12] of actor`.
fn times(against: &Against<'_>) -> String {
    let judged = against.judged;
    format!("{:.2} [{:.2}–{:.2}] of {}", judged.ratio, judged.low, judged.high, against.other)
}

fn how_sure(group: &Group<'_>, found: &Situations, page: &str) -> String {
    if group.is_predicted {
        return format!("predicted only ([model]({page}#predictions))");
    }
    let blocks: BTreeSet<&str> = group.all.iter().flat_map(|one| one.sources().0).collect();
    let rounds = rounds(group.all.iter().map(|one| one.sources().1));
    let leads = group.all.iter().filter_map(|one| Some((one, one.leader(Metric::OpsPerSec)?.0)));
    let unsure = leads.filter(|(one, engine)| !one.is_sure(engine, Metric::OpsPerSec)).count();
    let word = match unsure {
        0 => "",
        count if count == group.all.len() => "; indicated, and no more",
        _ => "; in part indicated, and no more",
    };
    format!("measured on {} cores, {rounds} rounds ({}){word}", found.machine_cores, links(&blocks, page))
}

fn rounds(counts: impl Iterator<Item = usize> + Clone) -> String {
    match (counts.clone().min(), counts.max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (_, most) => most.unwrap_or(0).to_string(),
    }
}

fn groups(found: &Situations, is_asked: impl Fn(&Situation) -> bool) -> Vec<Group<'_>> {
    let asked: Vec<&Situation> = found.all.iter().filter(|one| is_asked(one)).collect();
    let kinds: BTreeSet<(bool, usize)> = asked.iter().map(|one| (one.is_predicted, one.cores)).collect();
    let group = |(is_predicted, cores): (bool, usize)| Group {
        cores,
        is_predicted,
        all: asked.iter().copied().filter(|one| (one.is_predicted, one.cores) == (is_predicted, cores)).collect(),
    };
    kinds.into_iter().map(group).collect()
}

impl<'a> Standing<'a> {
    fn of(engine: &str, group: &Group<'a>) -> Self {
        let mut found = Self::default();
        for &one in group.all.iter().filter(|one| one.engines.iter().any(|name| name == engine)) {
            let against = one.against(engine, Metric::OpsPerSec);
            let worst = against.iter().copied().filter(|one| one.judged.place == Place::Behind);
            let worst = worst.min_by(|a, b| a.judged.ratio.total_cmp(&b.judged.ratio));
            match (one.leader(Metric::OpsPerSec), worst) {
                (Some((leader, closest)), _) if leader == engine => found.alone.push((one, closest)),
                (_, Some(worst)) => found.behind.push((one, worst)),
                _ => found.among.push(one),
            }
        }
        found
    }

    fn count(&self) -> usize {
        self.alone.len() + self.among.len() + self.behind.len()
    }
}

/// Where an engine is ahead of all others.
fn sentence(engine: &str, groups: &[Group<'_>], found: &Situations, page: &str) -> String {
    let standings: Vec<(&Group<'_>, Standing<'_>)> =
        groups.iter().map(|group| (group, Standing::of(engine, group))).collect();
    let known: Vec<&(&Group<'_>, Standing<'_>)> = standings.iter().filter(|(_, own)| own.count() > 0).collect();
    if known.is_empty() {
        return format!("**{engine}**: not measured, and not predicted.");
    }
    let alone: Vec<String> = known.iter().filter_map(|(group, own)| in_front(group, own, page)).collect();
    let mut text = if alone.is_empty() {
        format!("**{engine}** is in no situation ahead of all others; where it shares the lead, the table says so.")
    } else {
        format!("**Use {engine} when** {}.", alone.join("; "))
    };
    let silent = |is_predicted: bool| {
        let any = groups.iter().any(|group| group.is_predicted == is_predicted);
        any && !known.iter().any(|(group, _)| group.is_predicted == is_predicted)
    };
    if silent(true) {
        text.push_str(&format!(" It is not predicted: {UNPREDICTED}."));
    }
    if silent(false) {
        text.push_str(&format!(" It was not measured on the {} cores.", found.machine_cores));
    }
    text
}

fn standing(engine: &str, groups: &[Group<'_>]) -> String {
    let standings: Vec<(&Group<'_>, Standing<'_>)> =
        groups.iter().map(|group| (group, Standing::of(engine, group))).collect();
    let among: Vec<String> = standings.iter().filter_map(|(group, own)| among(group, own)).collect();
    let behind: Vec<String> = standings.iter().filter_map(|(group, own)| behind(group, own)).collect();
    let mut text = String::new();
    if !among.is_empty() {
        text.push_str(&format!(" not ahead of all, and nothing is shown to be ahead of it, {}.", among.join("; ")));
    }
    if !behind.is_empty() {
        text.push_str(&format!(" Something is ahead of it {}.", behind.join("; ")));
    }
    if text.is_empty() { String::new() } else { format!("- **{engine}**:{text}\n") }
}

/// Links to the tables of blocks, or to the table of all situations if these are many.
fn links(blocks: &BTreeSet<&str>, page: &str) -> String {
    if blocks.len() > BLOCKS_MAX {
        return format!("[{} blocks]({page}#every-situation)", blocks.len());
    }
    blocks.iter().map(|block| format!("[{block}]({page}#block-{block})")).collect::<Vec<_>>().join(", ")
}

fn in_front(group: &Group<'_>, own: &Standing<'_>, page: &str) -> Option<String> {
    let most =
        own.alone.iter().max_by(|(_, a), (_, b)| a.judged.ratio.total_cmp(&b.judged.ratio)).map(|(one, closest)| {
            let Against { judged, other, .. } = closest;
            let times = format!("{:.2} [{:.2}–{:.2}] times {other}", judged.ratio, judged.low, judged.high);
            if own.alone.len() > 1 { format!("up to {times}, under {}", one.load.words()) } else { times }
        })?;
    let loads = loads(own.alone.iter().map(|(one, _)| *one), own.count());
    let source = if group.is_predicted {
        format!("*predicted only*, [model]({page}#predictions)")
    } else {
        let blocks: BTreeSet<&str> = own.alone.iter().flat_map(|(one, _)| one.sources().0).collect();
        let unsure = own.alone.iter().filter(|(one, _)| !one.is_sure(leader_of(one), Metric::OpsPerSec)).count();
        let rounds = rounds(own.alone.iter().map(|(one, _)| one.sources().1));
        let word = match unsure {
            0 => "*measured*".to_owned(),
            count if count == own.alone.len() => "*indicated*".to_owned(),
            count => format!("*measured*, {count} of the {} only *indicated*", own.alone.len()),
        };
        format!("{word}, {rounds} rounds, {}", links(&blocks, page))
    };
    Some(format!("{} {loads}: {most} ({source})", cores_verb(group)))
}

fn leader_of(one: &Situation) -> &str {
    one.leader(Metric::OpsPerSec).map_or("", |(engine, _)| engine)
}

fn among(group: &Group<'_>, own: &Standing<'_>) -> Option<String> {
    if own.among.is_empty() {
        return None;
    }
    Some(format!("on {} with {}", cores(group), loads(own.among.iter().copied(), own.count())))
}

fn behind(group: &Group<'_>, own: &Standing<'_>) -> Option<String> {
    let (one, worst) = own.behind.iter().min_by(|(_, a), (_, b)| a.judged.ratio.total_cmp(&b.judged.ratio))?;
    let (count, all) = (own.behind.len(), own.count());
    let share = if count == all { "under every load".to_owned() } else { format!("under {count} of {all} loads") };
    Some(format!("on {} {share} (most: {}, {})", cores(group), times(worst), one.load.words()))
}

fn cores(group: &Group<'_>) -> String {
    let word = if group.cores == 1 { "core" } else { "cores" };
    format!("{} {word}{}", group.cores, if group.is_predicted { " (predicted only)" } else { "" })
}

fn cores_verb(group: &Group<'_>) -> String {
    if group.cores == 1 { "1 core serves".to_owned() } else { format!("{} cores serve", group.cores) }
}

/// Loads by name, or how many there are.
fn loads<'a>(own: impl Iterator<Item = &'a Situation>, all: usize) -> String {
    let names: Vec<String> = own.map(|one| one.load.words()).collect();
    match names.len() {
        count if count == all && count > 1 => format!("any of the {count} loads"),
        count if count > NAMED_MAX => format!("{count} of {all} loads ({}, …)", names[..NAMED_MAX - 1].join(", ")),
        0 | 1 => names.concat(),
        count => format!("{} or {}", names[..count - 1].join(", "), names[count - 1]),
    }
}

/// Every situation: a row for each, with every engine against mutex.
pub(super) fn table(found: &Situations, page: &str) -> String {
    let baseline = ENGINES[0];
    let engines = found.engines();
    let others: Vec<&String> = engines.iter().filter(|name| *name != baseline).collect();
    let mut header = vec!["load".to_owned(), "cores".to_owned(), "fastest".to_owned()];
    header.extend(others.iter().map(|name| format!("{name} by {baseline}")));
    header.extend(["lowest p99".to_owned(), "how sure".to_owned()]);
    let row = |one: &Situation| {
        let group = Group { cores: one.cores, is_predicted: one.is_predicted, all: vec![one] };
        let cell = |name: &&String| {
            let against = one.against(name, Metric::OpsPerSec);
            let own = against.iter().find(|other| other.other == baseline).map(|against| against.judged);
            own.map_or("–".to_owned(), |judged| {
                format!("{:.2} [{:.2}–{:.2}], {}", judged.ratio, judged.low, judged.high, word(judged.place))
            })
        };
        let mut row = vec![one.load.words(), one.cores.to_string(), fastest(one)];
        row.extend(others.iter().map(cell));
        row.extend([lowest_p99(&group), how_sure(&group, found, page)]);
        row
    };
    markdown(&header, &found.all.iter().map(row).collect::<Vec<_>>())
}

/// Why an engine that was measured is not predicted.
const UNPREDICTED: &str = "its inputs are not all in the file";

fn word(place: Place) -> &'static str {
    match place {
        Place::Ahead => "ahead",
        Place::Behind => "behind",
        Place::Near => "apart by less than 5 %",
        Place::Open => "undecided",
    }
}

/// What the file does not say, as a list.
pub(super) fn gaps(recorded: &Recorded, found: &Situations) -> String {
    let mut gaps = Vec::new();
    let measured: BTreeSet<usize> = found.all.iter().filter(|one| !one.is_predicted).map(|one| one.cores).collect();
    match measured.last() {
        None => gaps.push("No two engines were measured under the same load: nothing is compared.".to_owned()),
        Some(most) => {
            let beyond = if found.predicted.is_ok() { "predicted, not measured" } else { "not known" };
            gaps.push(format!(
                "The machine has {} cores, and at most {most} of them were used: what more cores do is {beyond}.",
                found.machine_cores
            ));
        }
    }
    if let Err(why) = &found.predicted {
        gaps.push(format!("Nothing is predicted, because the inputs of the model are not complete: {why}."));
    }
    let engines = found.engines();
    let has = |name: &str, is_predicted: bool| {
        found.all.iter().any(|one| one.is_predicted == is_predicted && one.engines.iter().any(|own| own == name))
    };
    for engine in &engines {
        if !has(engine, false) {
            gaps.push(format!("{engine} was not measured beside another engine."));
        } else if found.predicted.is_ok() && !has(engine, true) {
            gaps.push(format!("{engine} is not predicted: {UNPREDICTED}."));
        }
    }
    if !engines.iter().any(|name| name.starts_with(VARIANT)) {
        gaps.push(
            "The shared-nothing variant of the actor engine (actor-pinned, actor-inline) was not measured.".to_owned(),
        );
    }
    for block in recorded.blocks() {
        if !recorded.trials.iter().any(|trial| trial.block == block) {
            gaps.push(format!("Of the block {block} nothing was measured: it needs other numbers of cores."));
        }
    }
    let disturbed = recorded.trials.iter().filter(|trial| trial.found.disturbed() > DISTURBED).count();
    if disturbed > 0 {
        gaps.push(format!(
            "In {disturbed} of {} trials the driver waited for a core for more than {:.0} % of the time, because something else ran.",
            recorded.trials.len(),
            DISTURBED * 100.0
        ));
    }
    gaps.push("There are no sockets in these figures. README has the engines behind sockets, with a generator on one of two cores.".to_owned());
    let lines: String = gaps.iter().map(|gap| format!("- {gap}\n")).collect();
    format!("\n\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answered, invented, with_variant};

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no line {start:?} in {text}"))
    }

    #[test]
    fn an_engine_is_recommended_where_it_was_made_faster_and_nowhere_else() {
        let text = answered(invented(7), &["answer"]).text;
        let mutex = line(&text, "- **Use mutex when** 1 core serves any of the 3 loads: up to 1.10 [");
        assert!(mutex.contains("*measured*, 7 rounds, [model]("), "{mutex}");
        let standings = answered(invented(7), &["standings"]).text;
        let behind = line(&standings, "- **mutex**:");
        assert!(behind.contains("Something is ahead of it on 2 cores under every load (most: "), "{behind}");
        line(&text, "- **dashmap** is in no situation ahead of all others");
        assert!(line(&text, "- **Use actor when** 2 cores serve any").contains("*measured*"), "{text}");
        assert!(line(&text, "| 1 |").contains("| **mutex** (1.10 ["), "{text}");
        let sixty_four = line(&text, "| 64 |");
        assert!(sixty_four.contains("| predicted only ([model]("), "{sixty_four}");
    }

    #[test]
    fn flags_are_no_load_to_choose_an_engine_for() {
        let mut flagged = invented(7);
        flagged.trials.iter_mut().for_each(|trial| trial.found.batching = "command".to_owned());
        let text = answered(flagged.clone(), &["answer"]).text;
        assert!(!text.lines().any(|line| line.contains(" when** ") && line.contains("*measured*")), "{text}");
        assert!(answered(flagged, &["situations"]).text.contains("--batching command"));
    }

    #[test]
    fn three_rounds_only_indicate_what_seven_measure() {
        let text = answered(invented(3), &["answer"]).text;
        assert!(line(&text, "- **Use mutex when**").contains("*indicated*, 3 rounds"), "{text}");
        assert!(line(&text, "| 1 |").contains("3 rounds ([model](docs/locks-or-actors.md#block-model)); indicated"));
    }

    #[test]
    fn a_lead_in_p99_that_is_only_indicated_says_so_beside_the_name() {
        let of_two = |rounds| line(&answered(invented(rounds), &["answer"]).text, "| 2 |").to_owned();
        assert!(of_two(7).contains("| actor |"), "{}", of_two(7));
        assert!(of_two(3).contains("| actor (indicated) |"), "{}", of_two(3));
        let text = answered(invented(3), &["answer"]).text;
        assert!(!line(&text, "| 64 |").contains("(indicated)"), "what is predicted is said to be: {text}");
    }

    #[test]
    fn what_was_not_measured_is_said_in_words() {
        let mut some = invented(7);
        some.trials.retain(|trial| trial.found.engine != "dashmap");
        let gaps = answered(some, &["gaps"]).text;
        assert!(gaps.contains("- dashmap was not measured beside another engine.\n"), "{gaps}");
        assert!(gaps.contains("- Nothing is predicted, because"), "{gaps}");
        assert!(gaps.contains("(actor-pinned, actor-inline) was not measured"), "{gaps}");
        assert!(gaps.contains("at most 2 of them were used: what more cores do is not known"), "{gaps}");
        let mut none = invented(7);
        none.trials.clear();
        assert!(answered(none, &["answer"]).text.contains("nothing is answered"));
    }

    #[test]
    fn a_variant_whose_inputs_are_missing_is_recommended_where_measured_and_said_to_be_unpredicted() {
        let text = answered(with_variant(invented(7), 1.0), &["answer"]).text;
        let own = line(&text, "- **Use actor-inline when** 2 cores serve any of the 3 loads");
        assert!(own.contains("[placement](") && own.contains("It is not predicted"), "{own}");
        let gaps = answered(with_variant(invented(7), 1.0), &["gaps"]).text;
        assert!(gaps.contains("- actor-inline is not predicted: its inputs are not all in the file.\n"), "{gaps}");
    }

    #[test]
    fn each_situation_is_a_row_with_its_source() {
        let text = answered(invented(7), &["situations"]).text;
        let rows = text.lines().filter(|line| line.starts_with("| batch ")).count();
        assert_eq!(rows, 3 * 2 + 3 * 3, "{text}");
        assert!(text.contains("#block-model") && text.contains(", behind |") && text.contains(", ahead |"), "{text}");
    }
}
