//! Where the time of requests goes: INFO stages of our servers, by stage.
//!
//! ```text
//! stage_queue:count=812,mean=14.211,p50=9.125,p99=71.250,p999=104.000,max=131.402
//! ```
//!
//! In microseconds; each value is for one read's part in the stage, so it grows with a pipeline's depth. The counts are
//! reset when a trial's keys are set, so warm-up and window are included.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::quantiles::median;

/// The prefix of a stage among the fields of INFO.
const PREFIX: &str = "stage_";

/// The stages in the order of a request's way; others follow them.
const ORDER: [&str; 9] = ["read", "parse", "queue", "execute", "log", "return", "sync", "reorder", "write"];

/// The stages of one trial, or of one point, by name.
pub(crate) type Stages = BTreeMap<String, StageTimes>;

/// The times of one stage, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageTimes {
    /// How many times were recorded.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub p50: f64,
    /// Their 99th percentile.
    pub p99: f64,
    /// Their 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// The stages among the fields of an INFO that have any times.
pub(crate) fn parse(info: &BTreeMap<String, String>) -> Stages {
    let stage = |(name, value): (&String, &String)| Some((name.strip_prefix(PREFIX)?.to_owned(), times(value)?));
    info.iter().filter_map(stage).filter(|(_, times)| times.count > 0).collect()
}

/// Whether a field of INFO is a stage.
pub(crate) fn is_stage(field: &str) -> bool {
    field.starts_with(PREFIX)
}

fn times(text: &str) -> Option<StageTimes> {
    let fields: BTreeMap<&str, &str> = text.split(',').filter_map(|field| field.split_once('=')).collect();
    let of = |name| fields.get(name)?.parse::<f64>().ok();
    Some(StageTimes {
        count: fields.get("count")?.parse().ok()?,
        mean: of("mean")?,
        p50: of("p50")?,
        p99: of("p99")?,
        p999: of("p999")?,
        max: of("max")?,
    })
}

/// The medians over repeats, figure by figure, of the stages that all of them have.
pub(crate) fn medians(repeats: &[&Stages]) -> Stages {
    let Some(first) = repeats.first() else { return Stages::new() };
    let of = |name: &String| {
        let own: Option<Vec<&StageTimes>> = repeats.iter().map(|stages| stages.get(name)).collect();
        let own = own?;
        let figure = |of: fn(&StageTimes) -> f64| median(&mut own.iter().map(|times| of(times)).collect::<Vec<_>>());
        Some(StageTimes {
            count: own.iter().map(|times| times.count).sum(),
            mean: figure(|times| times.mean)?,
            p50: figure(|times| times.p50)?,
            p99: figure(|times| times.p99)?,
            p999: figure(|times| times.p999)?,
            max: figure(|times| times.max)?,
        })
    };
    first.keys().filter_map(|name| Some((name.clone(), of(name)?))).collect()
}

/// The names of all stages that some point has, in the order of a request's way.
pub(crate) fn names<'a>(points: impl Iterator<Item = &'a Stages>) -> Vec<String> {
    let mut names: Vec<String> = points.flat_map(BTreeMap::keys).cloned().collect();
    names.sort_by_key(|name| (ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()), name.clone()));
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(queue: &str) -> BTreeMap<String, String> {
        let fields = [("stage_queue", queue), ("stage_log", "count=0,mean=0,p50=0,p99=0,p999=0,max=0"), ("other", "1")];
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect()
    }

    #[test]
    fn stages_are_read_from_info_where_something_was_noted() {
        let found = parse(&info("count=3,mean=1.5,p50=1.25,p99=2,p999=2.5,max=3"));
        let times = StageTimes { count: 3, mean: 1.5, p50: 1.25, p99: 2.0, p999: 2.5, max: 3.0 };
        assert_eq!(found, Stages::from([("queue".to_owned(), times)]));
        assert_eq!(parse(&info("count=3")), Stages::new());
    }

    #[test]
    fn a_point_has_the_medians_of_its_repeats_and_no_stage_that_one_lacks() {
        let of = |mean: f64| parse(&info(&format!("count=2,mean={mean},p50=1,p99=1,p999=1,max=9")));
        let (one, two, three) = (of(1.0), of(5.0), of(2.0));
        let found = medians(&[&one, &two, &three])["queue"];
        assert_eq!((found.count, found.mean, found.max), (6, 2.0, 9.0));
        assert!(medians(&[&one, &Stages::new()]).is_empty());
        assert!(medians(&[]).is_empty());
    }

    #[test]
    fn stages_stand_in_the_order_of_a_requests_way() {
        let times = StageTimes { count: 1, mean: 1.0, p50: 1.0, p99: 1.0, p999: 1.0, max: 1.0 };
        let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), times)).collect::<Stages>();
        let points = [of(&["write", "new", "execute"]), of(&["queue", "execute"])];
        assert_eq!(names(points.iter()), ["queue", "execute", "write", "new"]);
    }
}
