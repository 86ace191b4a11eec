//! What draws random numbers without the platform.

use super::imports::{Tree, is, tokens_of};
use proc_macro2::TokenTree;

/// The seam.
const SEAM: &str = "src/base/randomness.rs";

/// What draws for the process, as docs/ARCHITECTURE.md says: the seed of hashes.
pub const BELONGS_TO_THE_PROCESS: [&str; 1] = ["src/keyspace/hashing.rs"];

/// The files besides the seam that draw from the thread or from the system. A generator with a seed draws from neither.
pub fn past_the_seam(tree: &Tree) -> Vec<String> {
    let others = tree.code().filter(|(path, _)| *path != SEAM);
    others.filter(|(_, code)| draws(code)).map(|(path, _)| path.to_owned()).collect()
}

fn draws(code: &[TokenTree]) -> bool {
    let drawn_at = |at: usize| match &code[at..] {
        [TokenTree::Group(group), ..] => draws(&tokens_of(group)),
        [TokenTree::Literal(literal), ..] => literal.to_string().contains("/dev/urandom"),
        [name, ..] if is(name, "getrandom") => true,
        [name, rest @ ..] if is(name, "fastrand") => !names_the_generator(rest),
        [name, first, second, how, ..] if is(name, "Rng") && is(first, ":") && is(second, ":") => {
            is(how, "new") || is(how, "default")
        }
        [name, first, second, how, ..] if is(name, "RandomState") && is(first, ":") && is(second, ":") => {
            is(how, "new") || is(how, "default")
        }
        _ => false,
    };
    (0..code.len()).any(drawn_at)
}

/// Whether what follows `fastrand` is `::Rng`.
fn names_the_generator(rest: &[TokenTree]) -> bool {
    matches!(rest, [first, second, name, ..] if is(first, ":") && is(second, ":") && is(name, "Rng"))
}
