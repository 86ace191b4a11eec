//! Prefill: every key of the range is SET once, before anything is measured.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::Error;
use crate::config::{Config, Target};
use crate::interrupt;
use crate::resp::{Client, Value};
use crate::run::connect;
use crate::values::Values;
use crate::verify::{PrefillSizes, first_version};
use crate::workload::Encoder;
use crate::workload::mix::MixSpec;

const BATCH_REQUESTS: u64 = 500;
const BATCH_BYTES: usize = 256 * 1024;

/// How many keys are set.
pub(crate) fn prefill_keys(config: &Config) -> u64 {
    let keys = config.keys.count();
    config.mix.as_ref().map_or(keys, |mix| mix.prefill_keys(keys).unwrap_or(0))
}

/// Sets all keys over one connection, and calls `progress` with the number set so far.
pub(crate) fn prefill(config: &Config, target: &Target, mut progress: impl FnMut(u64)) -> Result<(), Error> {
    let mut client = connect(config, target)?;
    let mut encoder = PrefillEncoder::new(config);
    let total = prefill_keys(config);
    let mut batch = Vec::new();
    let mut done = 0;
    while done < total {
        interrupt::check()?;
        batch.clear();
        let mut requests = 0;
        while requests < BATCH_REQUESTS && batch.len() < BATCH_BYTES && done < total {
            requests += encoder.append(&mut batch, done);
            done += 1;
        }
        client.send(&batch)?;
        for _ in 0..requests {
            expect_success(target, &mut client)?;
        }
        progress(done);
    }
    Ok(())
}

/// Deletes all keys of the range.
pub(crate) fn delete_keys(config: &Config, target: &Target) -> Result<(), Error> {
    let mut client = connect(config, target)?;
    let encoder = Encoder::new(config);
    let members = config.keys_per_tag();
    let tags = config.tags();
    let mut keys = (tags.minimum..=tags.maximum).flat_map(|tag| (0..members).map(move |member| (tag, member)));
    let mut batch = Vec::new();
    loop {
        interrupt::check()?;
        batch.clear();
        let mut requests = 0;
        for (tag, member) in keys.by_ref().take(BATCH_REQUESTS as usize) {
            batch.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
            encoder.append_further_key(&mut batch, tag, member);
            requests += 1;
        }
        if requests == 0 {
            return Ok(());
        }
        client.send(&batch)?;
        for _ in 0..requests {
            expect_success(target, &mut client)?;
        }
    }
}

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

fn expect_success(target: &Target, client: &mut Client) -> Result<(), Error> {
    match client.receive()? {
        Value::Error(text) => Err(Error::protocol(&target.address(), format!("prefill was refused: {text}"))),
        _ => Ok(()),
    }
}
