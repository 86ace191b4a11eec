//! Unions, intersections and differences of sorted sets, and of sets, whose members score 1.

use super::{Shown, is_with_scores, store_result};
use crate::base::lengthy;
use crate::commands::arguments::{cardinality_limit, integer, is};
use crate::commands::double::double;
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{Keyspace, Object, ProcessHash, Set, SortedSet, Store, Value};
use crate::resp::{Args, Reply};
use std::collections::HashMap;

/// ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]: O(N * log N), N =
/// elements of all
pub fn zunion<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_combined(keyspace, args, Combine::Union, reply)
}

/// ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]: O(N * K), N = elements
/// of the smallest, K = keys
pub fn zinter<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_combined(keyspace, args, Combine::Intersection, reply)
}

/// ZDIFF numkeys key [key ...] [WITHSCORES]: O(N * K), N = elements of the first, K = keys
pub fn zdiff<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_combined(keyspace, args, Combine::Difference, reply)
}

/// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]: O(N * log N), N =
/// elements of all
pub fn zunionstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    store_combined(keyspace, args, Combine::Union, reply)
}

/// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]: O(N * K), N =
/// elements of the smallest, K = keys
pub fn zinterstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    store_combined(keyspace, args, Combine::Intersection, reply)
}

/// ZDIFFSTORE destination numkeys key [key ...]: O(N * K), N = elements of the first, K = keys
pub fn zdiffstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    store_combined(keyspace, args, Combine::Difference, reply)
}

/// ZINTERCARD numkeys key [key ...] [LIMIT limit]: O(N * K), N = elements of the smallest, K = keys
pub fn zintercard<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (keys, words) = input_keys(args.from(1), "zintercard")?;
    let objects = keyspace.read_all(keys.iter().copied(), input_object)?;
    let inputs = inputs_of(&objects, None)?;
    let limit = cardinality_limit(words)?;
    let mut found = 0;
    for_each_common(inputs, &mut |_, _| {
        found += 1;
        found < limit
    });
    reply.count(found);
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Combine {
    Union,
    Intersection,
    Difference,
}

impl Combine {
    fn name(self, is_stored: bool) -> &'static str {
        match (self, is_stored) {
            (Self::Union, false) => "zunion",
            (Self::Union, true) => "zunionstore",
            (Self::Intersection, false) => "zinter",
            (Self::Intersection, true) => "zinterstore",
            (Self::Difference, false) => "zdiff",
            (Self::Difference, true) => "zdiffstore",
        }
    }
}

/// A member of a result, with its score.
type Element = (Vec<u8>, f64);

fn reply_combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    combine: Combine,
    reply: &mut Reply<'_>,
) -> Outcome {
    let (elements, with_scores) = combined(keyspace, args.from(1), combine, false)?;
    let shown = Shown::with_scores(with_scores, reply);
    shown.head(elements.len(), reply);
    elements.iter().for_each(|(member, score)| shown.element(member, *score, reply));
    Ok(())
}

fn store_combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    combine: Combine,
    reply: &mut Reply<'_>,
) -> Outcome {
    let (elements, _) = combined(keyspace, args.from(2), combine, true)?;
    let set = SortedSet::of_all(
        keyspace.settings().limits::<SortedSet>(),
        elements.iter().map(|(member, score)| (&**member, *score)),
    );
    store_result(keyspace, &args[1], set, (combine.name(true), 1), reply);
    Ok(())
}

/// The combination of the inputs, in order, and whether scores are requested.
fn combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    combine: Combine,
    is_stored: bool,
) -> Result<(Vec<Element>, bool), CommandError> {
    let (keys, words) = input_keys(args, combine.name(is_stored))?;
    let objects = keyspace.read_all(keys.iter().copied(), input_object)?;
    inputs_of(&objects, None)?;
    let options = Options::parse(words, keys.len(), combine, is_stored)?;
    let inputs = inputs_of(&objects, Some(&options.weights))?;
    let len = inputs.iter().map(|input| input.len()).sum();
    let elements = lengthy::run(len, || {
        let mut elements = match combine {
            Combine::Union => union(inputs, options.aggregate),
            Combine::Intersection => intersection(inputs, options.aggregate),
            Combine::Difference => difference(&inputs),
        };
        elements.sort_by(|(member, score), (other, other_score)| {
            score.partial_cmp(other_score).expect("no score is NaN").then_with(|| member.cmp(other))
        });
        elements
    });
    Ok((elements, options.with_scores))
}

/// numkeys key [key ...], and the arguments after them.
fn input_keys<'a>(args: Args<'a>, command: &str) -> Result<(Vec<&'a [u8]>, Args<'a>), CommandError> {
    let number = integer(&args[0])?;
    let keys = usize::try_from(number).ok().filter(|&keys| keys > 0);
    let text = || CommandError::Owned(format!("ERR at least 1 input key is needed for '{command}' command"));
    let keys = keys.ok_or_else(text)?;
    if keys >= args.len() {
        return Err(CommandError::Syntax);
    }
    Ok((args.from(1).iter().take(keys).collect(), args.from(1 + keys)))
}

#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word {
            _ if is(word, "SUM") => Ok(Self::Sum),
            _ if is(word, "MIN") => Ok(Self::Min),
            _ if is(word, "MAX") => Ok(Self::Max),
            _ => Err(CommandError::Syntax),
        }
    }

    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Sum => number(one + other),
            Self::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Self::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

/// Infinities that cancel out make zero.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Options {
    fn parse(words: Args<'_>, keys: usize, combine: Combine, is_stored: bool) -> Result<Self, CommandError> {
        let mut options = Self { weights: vec![1.0; keys], aggregate: Aggregate::Sum, with_scores: false };
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let left = words.len() - at;
            match word {
                _ if combine != Combine::Difference && left > keys && is(word, "WEIGHTS") => {
                    for (weight, text) in options.weights.iter_mut().zip(words.from(at + 1).iter()) {
                        *weight = double(text).map_err(|_| CommandError::Text("ERR weight value is not a float"))?;
                    }
                    at += keys;
                }
                _ if combine != Combine::Difference && left > 1 && is(word, "AGGREGATE") => {
                    options.aggregate = Aggregate::parse(&words[at + 1])?;
                    at += 1;
                }
                _ if !is_stored && is_with_scores(word) => options.with_scores = true,
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }
}

/// The value of a key, and the weight of its scores.
#[derive(Clone, Copy)]
struct Input<'a> {
    elements: Members<'a>,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Members<'a> {
    None,
    Set(&'a Set),
    SortedSet(&'a SortedSet),
}

/// The inputs of a command; an error if one is neither a set nor a sorted set.
fn input_object(value: Value<'_>) -> Result<&Object, CommandError> {
    match value {
        Value::Object(object @ (Object::Set(_) | Object::SortedSet(_))) => Ok(object),
        _ => Err(CommandError::WrongType),
    }
}

fn inputs_of<'a>(objects: &[Option<&'a Object>], weights: Option<&[f64]>) -> Result<Vec<Input<'a>>, CommandError> {
    let input = |(index, object): (usize, &Option<&'a Object>)| {
        let elements = match object {
            None => Members::None,
            Some(Object::Set(set)) => Members::Set(set),
            Some(Object::SortedSet(set)) => Members::SortedSet(set),
            Some(_) => return Err(CommandError::WrongType),
        };
        Ok(Input { elements, weight: weights.map_or(1.0, |weights| weights[index]) })
    };
    objects.iter().enumerate().map(input).collect()
}

impl<'a> Input<'a> {
    fn len(self) -> usize {
        match self.elements {
            Members::None => 0,
            Members::Set(set) => set.len(),
            Members::SortedSet(set) => set.len(),
        }
    }

    /// The weighted score of a member: not a number if an infinite weight meets a score of zero. Redis makes that zero
    /// in the first input of an intersection and in a union, but adds it as it is otherwise, and the sum becomes zero.
    fn score(self, member: &[u8]) -> Option<f64> {
        let score = match self.elements {
            Members::None => None,
            Members::Set(set) => set.contains(member).then_some(1.0),
            Members::SortedSet(set) => set.score(member),
        };
        score.map(|score| score * self.weight)
    }

    /// Visits the members with their weighted scores until `visit` returns false.
    fn visit(self, visit: &mut dyn FnMut(&[u8], f64) -> bool) {
        match self.elements {
            Members::None => {}
            Members::Set(set) => {
                let mut digits = itoa::Buffer::new();
                set.iter().all(|member| visit(member.bytes(&mut digits), number(self.weight)));
            }
            Members::SortedSet(set) => {
                let mut digits = itoa::Buffer::new();
                set.iter().all(|(member, score)| visit(member.bytes(&mut digits), number(score * self.weight)));
            }
        }
    }
}

/// The smallest first: scores are added in this order, which affects their last digits.
fn by_len(mut inputs: Vec<Input<'_>>) -> Vec<Input<'_>> {
    inputs.sort_by_key(|input| input.len());
    inputs
}

fn union(inputs: Vec<Input<'_>>, aggregate: Aggregate) -> Vec<Element> {
    let mut scores: HashMap<Vec<u8>, f64, ProcessHash> = HashMap::default();
    for input in by_len(inputs) {
        input.visit(&mut |member, score| {
            match scores.get_mut(member) {
                Some(sum) => *sum = aggregate.of(*sum, score),
                None => {
                    scores.insert(member.to_vec(), score);
                }
            }
            true
        });
    }
    scores.into_iter().collect()
}

fn intersection(inputs: Vec<Input<'_>>, aggregate: Aggregate) -> Vec<Element> {
    let mut elements = Vec::new();
    for_each_common(inputs, &mut |member, scores| {
        let sum = scores.iter().copied().reduce(|sum, score| aggregate.of(sum, score));
        elements.push((member.to_vec(), sum.expect("there is an input")));
        true
    });
    elements
}

/// Visits the members that all inputs have, with their weighted scores, until `visit` returns false.
fn for_each_common(inputs: Vec<Input<'_>>, visit: &mut dyn FnMut(&[u8], &[f64]) -> bool) {
    let inputs = by_len(inputs);
    let Some((smallest, others)) = inputs.split_first() else { return };
    let mut scores = Vec::with_capacity(inputs.len());
    smallest.visit(&mut |member, score| {
        scores.clear();
        scores.push(score);
        scores.extend(others.iter().map_while(|input| input.score(member)));
        scores.len() < inputs.len() || visit(member, &scores)
    });
}

/// The elements of the first input whose members no other has.
fn difference(inputs: &[Input<'_>]) -> Vec<Element> {
    let mut elements = Vec::new();
    let Some((first, others)) = inputs.split_first() else { return elements };
    first.visit(&mut |member, score| {
        if !others.iter().any(|input| input.score(member).is_some()) {
            elements.push((member.to_vec(), score));
        }
        true
    });
    elements
}
