//! Reduces a history that ends in a difference: no further unit can be left out of the result.

use super::pair::{Difference, Pair};
use harness::generator::parts::without_parts;
use harness::generator::requests::{Unit, keys_of, name_of};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long it may take; what is found by then is reported.
const BUDGET: Duration = Duration::from_secs(40);

/// A smaller history with a difference, and the difference.
pub fn shrink(pair: &mut Pair, history: &[Unit], found: Difference) -> (Vec<Unit>, Difference) {
    let start = Instant::now();
    let mut left = history[..history.len().min(found.units_sent)].to_vec();
    let mut difference = found;
    let mut try_with = |units: Vec<Unit>, left: &mut Vec<Unit>, difference: &mut Difference| {
        let Some(found) = replay(pair, &units) else { return false };
        *left = units[..units.len().min(found.units_sent)].to_vec();
        *difference = found;
        true
    };
    let related = related_to_last(&left);
    try_with(related, &mut left, &mut difference);
    let mut is_over = || start.elapsed() >= BUDGET;
    without_parts(&mut left, &mut is_over, |units, left| try_with(units, left, &mut difference));
    (left, difference)
}

fn replay(pair: &mut Pair, units: &[Unit]) -> Option<Difference> {
    // The data after a restart depends on everything in the log.
    if units.iter().any(|unit| unit.steps.is_empty()) {
        pair.renew()
    } else {
        pair.clear()
    }
    let difference = pair.play(units).and_then(|()| pair.compare_data()).err();
    difference.map(|difference| *difference)
}

/// Units that name a key of the last one, or a key that is named together with one, and those about the connection or
/// all keys.
fn related_to_last(units: &[Unit]) -> Vec<Unit> {
    const WITHOUT_KEYS: &[&str] =
        &["MULTI", "EXEC", "DISCARD", "UNWATCH", "SELECT", "SWAPDB", "FLUSHALL", "FLUSHDB", "HELLO", "RESET"];
    let mut keys: BTreeSet<&Vec<u8>> = units.last().into_iter().flat_map(keys_of).collect();
    let is_about_all = |unit: &Unit| {
        unit.steps.is_empty() || unit.steps.iter().any(|step| WITHOUT_KEYS.contains(&name_of(&step.request).as_str()))
    };
    let mut related: Vec<&Unit> = Vec::new();
    for unit in units.iter().rev() {
        let is_related = keys_of(unit).any(|key| keys.contains(key));
        if is_related {
            keys.extend(keys_of(unit));
        }
        if is_related || is_about_all(unit) {
            related.push(unit);
        }
    }
    related.into_iter().rev().cloned().collect()
}
