//! Prefill: every key of the range is SET once, before anything is measured.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::Error;
use crate::config::Config;
use crate::resp::{Client, Value};
use crate::run::connect;
use crate::workload::Encoder;

const BATCH_REQUESTS: u64 = 500;
const BATCH_BYTES: usize = 256 * 1024;

/// SETs all keys over one connection, and calls `progress` with the number set so far.
pub(crate) fn prefill(config: &Config, mut progress: impl FnMut(u64)) -> Result<(), Error> {
    let mut client = connect(config)?;
    let mut rng = SmallRng::seed_from_u64(config.seed);
    let encoder = Encoder::new(config, &mut rng);
    let mut batch = Vec::new();
    let mut done = 0;
    while done < config.keys.count() {
        batch.clear();
        let requests = append_batch(&mut batch, &encoder, config, done, &mut rng);
        client.send(&batch)?;
        for _ in 0..requests {
            expect_ok(config, &mut client)?;
        }
        done += requests;
        progress(done);
    }
    Ok(())
}

fn append_batch(batch: &mut Vec<u8>, encoder: &Encoder, config: &Config, done: u64, rng: &mut SmallRng) -> u64 {
    use rand::Rng;
    let (first_tag, keys_per_tag) = (config.tags().minimum, config.keys_per_tag() as u64);
    let mut requests = 0;
    while requests < BATCH_REQUESTS && batch.len() < BATCH_BYTES && done + requests < config.keys.count() {
        let key = done + requests;
        let (tag, member) = (first_tag + key / keys_per_tag, (key % keys_per_tag) as usize);
        encoder.append_set(batch, tag, member, rng.next_u64() as usize);
        requests += 1;
    }
    requests
}

fn expect_ok(config: &Config, client: &mut Client) -> Result<(), Error> {
    match client.receive()? {
        Value::Simple(_) => Ok(()),
        other => Err(Error::protocol(&config.address(), format!("prefill: SET was answered by {other:?}"))),
    }
}
