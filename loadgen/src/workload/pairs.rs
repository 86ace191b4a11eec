//! SETs and GETs in a ratio, of one key or several: the load of the flags.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::{Encoder, Turns};
use crate::commands::{CommandId, GET, MGET, MSET, SET};
use crate::config::Config;
use crate::keys::{Frontier, KeySource, Share};
use crate::multi_key::MultiKeyDraw;

/// The pairs of one thread.
#[derive(Debug)]
pub(super) struct Pairs {
    rng: SmallRng,
    sets: Turns,
    multi_key: Option<MultiKeyDraw>,
    set_keys: KeySource,
    get_keys: KeySource,
    encoder: Encoder,
}

impl Pairs {
    pub(super) fn new(config: &Config, share: Share, frontier: &Frontier, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let source = |pattern| KeySource::new(pattern, config.tags(), share, frontier);
        Self {
            sets: Turns::new(u64::from(config.ratio.set), u64::from(config.ratio.set) + u64::from(config.ratio.get)),
            multi_key: config.multi_key.map(|multi_key| MultiKeyDraw::new(&multi_key, config.tags())),
            set_keys: source(config.set_pattern),
            get_keys: source(config.get_pattern),
            encoder: Encoder::new(config, &mut rng),
            rng,
        }
    }

    #[inline]
    pub(super) fn append_next(&mut self, out: &mut Vec<u8>, client: usize) -> CommandId {
        let is_set = self.sets.next();
        let keys = if is_set { &mut self.set_keys } else { &mut self.get_keys };
        let mut member = 0;
        if let Some(multi_key) = &mut self.multi_key {
            if let Some(tags) = multi_key.next(is_set, keys, &mut self.rng, client) {
                return self.encoder.append_multi_key(out, is_set, tags, &mut self.rng);
            }
            member = multi_key.member(&mut self.rng);
        }
        let tag = keys.next(&mut self.rng, client);
        if is_set {
            self.encoder.append_set(out, tag, member, &mut self.rng);
            SET
        } else {
            self.encoder.append_get(out, tag, member);
            GET
        }
    }
}

impl Encoder {
    /// Appends an MSET or an MGET of the k-th member of the k-th tag, for each k.
    #[inline(never)]
    pub(super) fn append_multi_key(
        &self,
        out: &mut Vec<u8>,
        is_set: bool,
        tags: &[u64],
        rng: &mut SmallRng,
    ) -> CommandId {
        self.append_multi_key_head(out, is_set);
        for (member, &tag) in tags.iter().enumerate() {
            self.append_further_key(out, tag, member);
            if is_set {
                self.append_value(out, rng);
            } else {
                out.extend_from_slice(b"\r\n");
            }
        }
        if is_set { MSET } else { MGET }
    }
}
