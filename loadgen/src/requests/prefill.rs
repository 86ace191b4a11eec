//! The requests of prefill.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Encoder;
use crate::config::Config;
use crate::model::{PrefillSizes, first_version};
use crate::workload::mix::MixSpec;
use crate::workload::values::Values;

/// Writes the requests that set a key, in the form of the load.
pub(crate) struct PrefillEncoder<'a> {
    config: &'a Config,
    rng: SmallRng,
    load: Load<'a>,
    /// Set if the model must know what is set.
    verified_sizes: Option<PrefillSizes>,
}

enum Load<'a> {
    Pairs(Encoder),
    Mix(&'a MixSpec, Values),
}

impl<'a> PrefillEncoder<'a> {
    pub(crate) fn new(config: &'a Config) -> Self {
        let load = match &config.mix {
            Some(mix) => Load::Mix(mix, Values::new(&config.value_sizes, config.seed)),
            None => Load::Pairs(Encoder::new(config)),
        };
        let verified_sizes = config.verify.then(|| PrefillSizes::new(config));
        Self { config, rng: SmallRng::seed_from_u64(config.seed), load, verified_sizes }
    }

    /// Appends the requests for the key at this offset in the range; returns how many.
    pub(crate) fn append(&mut self, batch: &mut Vec<u8>, offset: u64) -> u64 {
        let keys_per_tag = self.config.keys_per_tag() as u64;
        let tag = self.config.tags().minimum + offset / keys_per_tag;
        let member = (offset % keys_per_tag) as usize;
        match &self.load {
            Load::Pairs(encoder) => {
                match &mut self.verified_sizes {
                    Some(sizes) => {
                        let written = first_version(offset, sizes.next());
                        encoder.append_set_stamped(batch, tag, member, &written);
                    }
                    None => encoder.append_set(batch, tag, member, &mut self.rng),
                }
                1
            }
            Load::Mix(mix, values) => mix.append_prefill(batch, (tag, member), values, &mut self.rng),
        }
    }
}
