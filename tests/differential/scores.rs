//! The digits of scores, byte for byte beside a redis-server 7.2: the comparison with 7.0 sees only their values.

use super::{redis_7_2, seed, setup};
use harness::{Client, RedisOracle, Server};

/// How many scores of each kind are compared.
const SCORES: usize = 20_000;
/// How many are sent at once.
const AT_ONCE: usize = 500;

/// Draws a score.
type Draw = fn(&mut fastrand::Rng) -> f64;

/// Kinds of scores by the numbers they come from. One of which all digits are needed is rare in the others.
const KINDS: &[(&str, Draw)] = &[
    ("any bits", |random| f64::from_bits(random.u64(..))),
    ("of common exponents", |random| (random.f64() - 0.5) * 2_f64.powi(random.i32(-20..60))),
    ("decimals", |random| random.i64(-10_000_000..10_000_000) as f64 / 1000.0),
    ("sums of decimals", |random| (0..random.u8(2..9)).map(|_| f64::from(random.i32(..1_000_000)) / 100.0).sum()),
    ("times in seconds", |random| random.f64().mul_add(1e9, 1.7e9)),
    ("quarters of large numbers", |random| random.i64(-(1 << 52)..1 << 52) as f64 / 4.0),
];

#[test]
fn scores_have_the_digits_of_redis_7_2() {
    let Some(program) = redis_7_2() else { return };
    let seed = seed();
    println!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (server, oracle) = (Server::start(setup("mutex"), &[]), RedisOracle::start_master(&program, &[]));
    let (mut ours, mut theirs) = (server.client(), oracle.client());
    for (kind, score) in KINDS {
        let scores: Vec<f64> =
            std::iter::repeat_with(|| score(&mut random)).filter(|n| !n.is_nan()).take(SCORES).collect();
        for scores in scores.chunks(AT_ONCE) {
            // The shortest digits that name a number: both servers read the same one.
            let scores: Vec<String> = scores.iter().map(|score| format!("{score:e}")).collect();
            for (score, (our_text, their_text)) in
                scores.iter().zip(texts(&mut ours, &scores).zip(texts(&mut theirs, &scores)))
            {
                assert_eq!(our_text, their_text, "{kind}: {score}");
            }
        }
    }
}

/// What a server prints for scores.
fn texts(client: &mut Client, scores: &[String]) -> impl Iterator<Item = String> + use<> {
    let requests: Vec<[&str; 4]> = scores.iter().map(|score| ["ZADD", "scores", score, score]).collect();
    let requests = requests
        .iter()
        .map(|request| request.to_vec())
        .chain(scores.iter().map(|score| vec!["ZSCORE", "scores", score]));
    let replies = client.pipeline(&requests.collect::<Vec<_>>());
    client.call(&["DEL", "scores"]);
    replies.into_iter().skip(scores.len()).map(|reply| format!("{reply:?}"))
}
