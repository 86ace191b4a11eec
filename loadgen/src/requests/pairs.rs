//! SETs and GETs in a ratio, of one key or several: the load of the flags.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Encoder;
use crate::base::turns::Turns;
use crate::config::Config;
use crate::model::{Expected, Model};
use crate::workload::commands::{CommandId, GET, MGET, MSET, SET};
use crate::workload::keys::{Frontier, KeySource, Share};
use crate::workload::multi_key::MultiKeyDraw;

/// The pairs of one thread.
#[derive(Debug)]
pub(super) struct Pairs {
    rng: SmallRng,
    sets: Turns,
    multi_key: Option<MultiKeyDraw>,
    set_keys: KeySource,
    get_keys: KeySource,
    encoder: Encoder,
    model: Option<Model>,
}

impl Pairs {
    pub(super) fn new(config: &Config, share: Share, frontier: &Frontier, seed: u64) -> Self {
        let source = |pattern| KeySource::new(pattern, config.tags(), share, frontier).own_keys_only(config.verify);
        let stride = if config.verify { share.clients_total as u64 } else { 1 };
        Self {
            sets: Turns::new(u64::from(config.ratio.set), u64::from(config.ratio.set) + u64::from(config.ratio.get)),
            multi_key: config.multi_key.map(|multi_key| MultiKeyDraw::new(&multi_key, config.tags(), stride)),
            set_keys: source(config.set_pattern),
            get_keys: source(config.get_pattern),
            encoder: Encoder::new(config),
            rng: SmallRng::seed_from_u64(seed),
            model: config.verify.then(|| Model::new(config)),
        }
    }

    #[inline]
    pub(super) fn append_run(&mut self, out: &mut Vec<u8>, client: usize, most: u64) -> (CommandId, u64) {
        if self.multi_key.is_some() || self.model.is_some() {
            return (self.append_chosen(out, client), 1);
        }
        let (is_set, count) = self.sets.next_run(most);
        if is_set {
            for _ in 0..count {
                let key = self.set_keys.next(&mut self.rng, client);
                self.encoder.append_set(out, key, 0, &mut self.rng);
            }
            (SET, count)
        } else {
            for _ in 0..count {
                self.encoder.append_get(out, self.get_keys.next(&mut self.rng, client), 0);
            }
            (GET, count)
        }
    }

    /// Appends a request that may take several keys, or is passed to the model.
    fn append_chosen(&mut self, out: &mut Vec<u8>, client: usize) -> CommandId {
        let is_set = self.sets.next();
        let keys = if is_set { &mut self.set_keys } else { &mut self.get_keys };
        let mut member = 0;
        if let Some(multi_key) = &mut self.multi_key {
            if let Some(tags) = multi_key.next(is_set, keys, &mut self.rng, client) {
                return self.encoder.append_multi_key(out, is_set, tags, &mut self.rng, self.model.as_mut());
            }
            member = multi_key.member(&mut self.rng);
        }
        let tag = keys.next(&mut self.rng, client);
        if let Some(model) = &mut self.model {
            return self.encoder.append_verified(out, is_set, (tag, member), &mut self.rng, model);
        }
        if is_set {
            self.encoder.append_set(out, tag, member, &mut self.rng);
            SET
        } else {
            self.encoder.append_get(out, tag, member);
            GET
        }
    }
}

impl Pairs {
    pub(super) fn expected(&self) -> Option<Expected> {
        self.model.as_ref().map(Model::expected)
    }
}

impl Encoder {
    /// Appends a SET or a GET, and passes it to the model.
    #[inline(never)]
    fn append_verified(
        &self,
        out: &mut Vec<u8>,
        is_set: bool,
        (tag, member): (u64, usize),
        rng: &mut SmallRng,
        model: &mut Model,
    ) -> CommandId {
        if is_set {
            let written = model.set(tag, member, self.values().next_size(rng));
            self.append_set_stamped(out, tag, member, &written);
            SET
        } else {
            model.get(tag, member, self.values());
            self.append_get(out, tag, member);
            GET
        }
    }

    /// Appends an MSET or an MGET of the k-th member of the k-th tag, for each k.
    #[inline(never)]
    pub(super) fn append_multi_key(
        &self,
        out: &mut Vec<u8>,
        is_set: bool,
        tags: &[u64],
        rng: &mut SmallRng,
        mut model: Option<&mut Model>,
    ) -> CommandId {
        self.append_multi_key_head(out, is_set);
        if let (false, Some(model)) = (is_set, &mut model) {
            model.get_all(tags, self.values());
        }
        for (member, &tag) in tags.iter().enumerate() {
            match (is_set, &mut model) {
                (false, _) => self.append_further_key(out, tag, member),
                (true, None) => self.append_further_pair(out, tag, member, rng),
                (true, Some(model)) => {
                    let written = model.set(tag, member, self.values().next_size(rng));
                    self.append_further_pair_stamped(out, tag, member, &written);
                }
            }
        }
        if is_set { MSET } else { MGET }
    }
}
