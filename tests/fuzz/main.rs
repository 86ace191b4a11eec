//! Two fuzzers: modified payloads of RESTORE with valid checksums, and random commands of the whole table between
//! restarts. The server must keep what it accepts: every image of the data is the same after DEBUG RELOAD, after DEBUG
//! LOADAOF and after a restart, with any engine and number of shards.
//!
//! | module | what it is |
//! |---|---|
//! | `restoring` | the payloads: `corpus` has whole ones, `mutation` changes them, `coherence` asks what was restored |
//! | `restarting` | the commands, from the generator of `tests/harness`, and those of `families` here |
//! | `image` | all data, as commands tell it |
//! | `planted` | that both find the bugs that they must find |
//!
//! Short by default; `SOAK=1 SOAK_SECONDS=n` for n seconds per test. `SEED=n` repeats the choices.

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod coherence;
mod corpus;
mod image;
mod more_families;
mod mutation;
mod planted;
mod restarting;
mod restoring;

use harness::Setup;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use harness::generator::Request;

/// Every engine with one shard, with two, and with a number that divides nothing.
const SETUPS: [Setup; 6] = [
    Setup { engine: "mutex", shards: 1, threads: 2 },
    Setup { engine: "actor", shards: 7, threads: 3 },
    Setup { engine: "dashmap", shards: 2, threads: 2 },
    Setup { engine: "actor", shards: 1, threads: 1 },
    Setup { engine: "dashmap", shards: 7, threads: 3 },
    Setup { engine: "actor", shards: 2, threads: 2 },
];

/// How long a test continues after its short form.
fn at_least() -> Duration {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_soak = number("SOAK").is_some_and(|soak| soak > 0);
    Duration::from_secs(if is_soak { number("SOAK_SECONDS").unwrap_or(600) } else { 0 })
}

/// The result of a check; also if it panics, as a connection does whose server has died.
fn caught<T>(check: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Err(text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "it panicked: see above".into()))
    })
}

/// A request as a user would type it.
fn shown(request: &Request) -> String {
    let word = |word: &Vec<u8>| match word.escape_ascii().to_string() {
        text if text.is_empty() || text.contains([' ', '\'', '"']) => format!("\"{text}\""),
        text => text,
    };
    request.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn request(words: &[&[u8]]) -> Request {
    words.iter().map(|word| word.to_vec()).collect()
}
