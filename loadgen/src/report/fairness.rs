//! How evenly the connections were served: the spread of what each of them got, and Jain's index of
//! it (R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness", 1984): 1 if all got the same, 1/n if one of n
//! got everything.

use serde_json::{Value as Json, json};

use crate::record::{Outcome, Served};

/// Null if connections were not counted separately.
pub(super) fn to_json(outcome: &Outcome) -> Json {
    let connections = &outcome.connections;
    if connections.is_empty() {
        return Json::Null;
    }
    let of_all = |value: &dyn Fn(&Served) -> f64| spread(connections.iter().map(value).collect());
    // A connection without a reply has no latency.
    let served = || connections.iter().filter(|served| served.requests > 0);
    let of_served = |value: &dyn Fn(&Served) -> f64| spread(served().map(value).collect());
    json!({
        "count": connections.len(),
        "served": served().count(),
        "ops_per_sec": of_all(&|served| outcome.per_second(served.requests)),
        "mean_latency_us": of_served(&|served| served.latency_ns as f64 / served.requests as f64 / 1e3),
        "max_latency_us": of_served(&|served| served.latency_ns_max as f64 / 1e3),
    })
}

fn spread(mut values: Vec<f64>) -> Json {
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => Json::Null,
        [min, ..] => json!({
            "min": min,
            "median": median(&values),
            "max": values[values.len() - 1],
            "jain": jain(&values),
        }),
    }
}

fn median(ascending: &[f64]) -> f64 {
    let half = ascending.len() / 2;
    if ascending.len() % 2 == 1 { ascending[half] } else { (ascending[half - 1] + ascending[half]) / 2.0 }
}

/// 1 if all are zero: no connection got more than another.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_a_share_where_one_takes_all() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert_eq!((median(&[1.0, 2.0, 9.0]), median(&[1.0, 3.0])), (2.0, 2.0));
    }
}
