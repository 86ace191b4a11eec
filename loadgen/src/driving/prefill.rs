//! Prefill: every key of the range is SET once, before anything is measured.

use super::connect::connect;
use crate::base::{Error, interrupt};
use crate::config::{Config, Target};
use crate::requests::{Encoder, PrefillEncoder};
use crate::resp::{Client, Value};

const BATCH_REQUESTS: u64 = 500;
const BATCH_BYTES: usize = 256 * 1024;

/// Sets all keys over one connection, and calls `progress` with the number set so far.
pub(crate) fn prefill(config: &Config, target: &Target, mut progress: impl FnMut(u64)) -> Result<(), Error> {
    let mut client = connect(config, target)?;
    let mut encoder = PrefillEncoder::new(config);
    let total = config.prefill_keys();
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

fn expect_success(target: &Target, client: &mut Client) -> Result<(), Error> {
    match client.receive()? {
        Value::Error(text) => Err(Error::protocol(&target.address(), format!("prefill was refused: {text}"))),
        _ => Ok(()),
    }
}
