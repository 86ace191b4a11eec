//! Which request comes next, and its bytes.
//!
//! Two kinds of load share keys, values and encoding: *pairs* are SETs and GETs (of one key or
//! several) in a ratio, from the flags; a *mix* is any commands with weights, from a TOML file.

mod encoder;
mod mix;
mod pairs;
mod prefill;

use crate::config::Config;
use crate::model::Expected;
use crate::workload::commands::CommandId;
use crate::workload::keys::{Frontier, Share};
pub(crate) use encoder::Encoder;
use mix::Mix;
use pairs::Pairs;
pub(crate) use prefill::PrefillEncoder;

/// The endless sequence of requests of one thread; the same for the same seed.
#[derive(Debug)]
pub struct Requests(Load);

// One for each thread: nothing is gained by a smaller one.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum Load {
    Pairs(Pairs),
    Mix(Mix),
}

impl Requests {
    /// The requests of one thread. All threads of a run count their inserts on one frontier.
    pub fn new(config: &Config, share: Share, frontier: &Frontier) -> Self {
        let seed = config.seed.wrapping_add((share.thread as u64) << 32);
        Self(match &config.mix {
            Some(mix) => Load::Mix(Mix::new(config, mix, share, frontier, seed)),
            None => Load::Pairs(Pairs::new(config, share, frontier, seed)),
        })
    }

    /// Appends the next requests of connection number `client` of this thread, as long as they are
    /// of one command, at least one and at most `most`. Returns which command, and how many.
    #[inline]
    pub fn append_run(&mut self, out: &mut Vec<u8>, client: usize, most: u64) -> (CommandId, u64) {
        match &mut self.0 {
            Load::Pairs(pairs) => pairs.append_run(out, client, most),
            Load::Mix(mix) => (mix.append_next(out, client), 1),
        }
    }

    /// The expected reply to the last request; `None` if replies are not verified.
    #[inline]
    pub(crate) fn expected(&self) -> Option<Expected> {
        match &self.0 {
            Load::Pairs(pairs) => pairs.expected(),
            Load::Mix(mix) => mix.expected(),
        }
    }
}
