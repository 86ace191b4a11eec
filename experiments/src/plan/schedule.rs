//! The plan: the trials of a run and their order.
//!
//! A repeat is a round. In each round every point of the sweep appears once, in a fresh random order, so that drift of
//! the machine (heat, neighbours, page cache) falls on all servers alike and is not mistaken for a difference.
//! Sweeps follow each other: comparisons are made within a sweep, and an early stop leaves whole answers.

use std::collections::BTreeMap;

use crate::base::rng::Rng;
use crate::plan::point::{Point, Trial};
use crate::plan::sweep::Sweep;
use crate::plan::values::FlagValue;

/// All trials of `sweeps`, in the order determined by `seed`.
pub(crate) fn order(sweeps: &[Sweep], seed: u64) -> Vec<Trial> {
    let mut rng = Rng::new(seed);
    let mut trials = Vec::new();
    for sweep in sweeps {
        let mut points = points(sweep);
        for round in 1..=sweep.repeats {
            rng.shuffle(&mut points);
            trials.extend(points.iter().map(|point| Trial { round, point: point.clone() }));
        }
    }
    trials
}

/// The grid of a sweep, in the order of the file.
pub fn points(sweep: &Sweep) -> Vec<Point> {
    let (loads, flags) = (loads(sweep), flags(sweep));
    let mut points = Vec::new();
    for variant in &sweep.variants {
        for flags in &flags {
            for load in &loads {
                let servers = sweep.servers.iter().filter(|server| sweep.variants_of(server).contains(&variant));
                points.extend(servers.map(|server| Point {
                    server: server.clone(),
                    variant: variant.name.clone(),
                    loadgen: flags.clone(),
                    ..load.clone()
                }));
            }
        }
    }
    points
}

/// The loads of the fields of a sweep, without server and flags.
fn loads(sweep: &Sweep) -> Vec<Point> {
    let mut loads = vec![Point {
        sweep: sweep.name.clone(),
        server: String::new(),
        variant: String::new(),
        clients: 0,
        pipeline: 0,
        ratio: sweep.ratio[0],
        data_size: 0,
        key_pattern: String::new(),
        key_maximum: None,
        loadgen: BTreeMap::new(),
    }];
    loads = crossed(&loads, &sweep.ratio, |point, &ratio| point.ratio = ratio);
    loads = crossed(&loads, &sweep.key_pattern, |point, pattern| point.key_pattern.clone_from(pattern));
    if sweep.key_maximum.len() > 1 {
        loads = crossed(&loads, &sweep.key_maximum, |point, &keys| point.key_maximum = Some(keys));
    }
    loads = crossed(&loads, &sweep.data_size, |point, &size| point.data_size = size);
    loads = crossed(&loads, &sweep.pipeline, |point, &depth| point.pipeline = depth);
    crossed(&loads, &sweep.clients, |point, &clients| point.clients = clients)
}

/// Every choice of a value for each of the further flags.
fn flags(sweep: &Sweep) -> Vec<BTreeMap<String, FlagValue>> {
    sweep.loadgen.iter().fold(vec![BTreeMap::new()], |choices, (flag, values)| {
        crossed(&choices, values, |choice, value| {
            choice.insert(flag.clone(), value.clone());
        })
    })
}

/// Each of `items` with each of `values` set in it.
fn crossed<T: Clone, V>(items: &[T], values: &[V], set: impl Fn(&mut T, &V)) -> Vec<T> {
    let set = &set;
    let with_each = |item: &T| {
        let item = item.clone();
        values.iter().map(move |value| {
            let mut item = item.clone();
            set(&mut item, value);
            item
        })
    };
    items.iter().flat_map(with_each).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sweep() -> Sweep {
        let text = "question = '?'\nservers = ['a', 'b', 'c']\nclients = [1, 10, 100]\npipeline = [1, 16]\ntest_seconds = 1\nwarm_up_seconds = 0\nrepeats = 4\n";
        Sweep::parse("grid", text).unwrap()
    }

    #[test]
    fn every_round_is_a_permutation_of_the_grid() {
        let sweep = sweep();
        let trials = order(std::slice::from_ref(&sweep), 5);
        let grid: HashSet<String> = points(&sweep).iter().map(Point::slug).collect();
        assert_eq!((grid.len(), trials.len()), (18, 72));
        for (round, chunk) in trials.chunks(18).enumerate() {
            assert!(chunk.iter().all(|trial| trial.round as usize == round + 1));
            assert_eq!(chunk.iter().map(|trial| trial.point.slug()).collect::<HashSet<_>>(), grid);
        }
    }

    #[test]
    fn rounds_differ_in_order_and_servers_interleave() {
        let trials = order(&[sweep()], 5);
        let rounds: HashSet<Vec<String>> =
            trials.chunks(18).map(|round| round.iter().map(|trial| trial.point.slug()).collect()).collect();
        assert_eq!(rounds.len(), 4);
        let changes = trials.windows(2).filter(|pair| pair[0].point.server != pair[1].point.server).count();
        assert!(changes > 30, "the server changes only {changes} times in 72 trials");
    }

    #[test]
    fn a_seed_reproduces_the_order_and_another_does_not() {
        assert_eq!(order(&[sweep()], 5), order(&[sweep()], 5));
        assert_ne!(order(&[sweep()], 5), order(&[sweep()], 6));
    }

    #[test]
    fn flags_of_the_generator_are_crossed_and_each_server_has_its_own_variants() {
        let text = "question = '?'\nservers = ['a', 'b']\nclients = [1]\ntest_seconds = 1\nwarm_up_seconds = 0\n\
            repeats = 1\nloadgen = { cross-shard = [0, 50], keys-per-command = [2, 8] }\n\
            variant = [{ name = 'fast', flags = [], servers = ['a'] }, { name = 'safe', flags = [], servers = ['a'] }, \
            { name = 'plain', flags = [] }]";
        let points = points(&Sweep::parse("flags", text).unwrap());
        let slugs: HashSet<String> = points.iter().map(Point::slug).collect();
        assert_eq!((points.len(), slugs.len()), (12, 12));
        assert!(slugs.contains("a.safe.c1.p1.r1-1.d64.kR-R.cross-shard-50.keys-per-command-8"), "{slugs:?}");
        assert!(points.iter().all(|point| (point.server == "b") == (point.variant == "plain")));
    }

    #[test]
    fn path_stems_are_unique() {
        let stems: HashSet<String> = order(&[sweep()], 5).iter().map(Trial::path_stem).collect();
        assert_eq!(stems.len(), 72);
    }
}
