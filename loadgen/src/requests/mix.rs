//! The mix of a workload file: which of its commands comes next.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::prefill::PrefillEncoder;
use crate::base::turns::Turns;
use crate::config::Config;
use crate::model::{Expected, Mirror};
use crate::workload::commands::CommandId;
use crate::workload::keys::{Frontier, KeyPattern, KeySource, Share};
use crate::workload::mix::MixSpec;
use crate::workload::multi_key::MultiKeyDraw;
use crate::workload::template::Chosen;
use crate::workload::values::Values;

/// The mix of one thread.
#[derive(Debug)]
pub(super) struct Mix {
    spec: Arc<MixSpec>,
    rng: SmallRng,
    cycle: Vec<u8>,
    /// The place in the cycle.
    at: usize,
    /// By pattern.
    keys: Vec<KeySource>,
    /// Set if there are commands over several keys.
    multi_key: Option<MultiKeyDraw>,
    /// By group: which of its commands over several keys cross shards.
    across: Vec<Turns>,
    values: Values,
    /// Set if replies are verified.
    mirror: Option<Mirror>,
    /// By connection: the unfinished group.
    unfinished: Vec<Option<Unfinished>>,
}

/// A group, and its next step.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    group: u8,
    step: usize,
    tag: u64,
    member: usize,
}

impl Mix {
    pub(super) fn new(config: &Config, spec: &Arc<MixSpec>, share: Share, frontier: &Frontier, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let cross_shard_percent = config.multi_key.map_or(0, |multi_key| u64::from(multi_key.cross_shard_percent));
        let source = |&pattern: &KeyPattern| {
            KeySource::new(pattern, config.tags(), share, frontier).own_keys_only(config.verify)
        };
        Self {
            cycle: spec.cycle.clone(),
            at: spec.cycle.len(),
            keys: spec.patterns.iter().map(source).collect(),
            multi_key: config.multi_key.map(|multi_key| MultiKeyDraw::new(&multi_key, config.tags(), 1)),
            across: spec.groups.iter().map(|_| Turns::new(cross_shard_percent, 100)).collect(),
            values: Values::new(&config.value_sizes, config.seed),
            mirror: config.verify.then(|| mirror(config, share)),
            unfinished: vec![None; share.clients],
            spec: Arc::clone(spec),
            rng,
        }
    }

    #[inline]
    pub(super) fn append_next(&mut self, out: &mut Vec<u8>, client: usize) -> CommandId {
        let next = self.unfinished[client].take().unwrap_or_else(|| self.begin_group(client));
        let group = &self.spec.groups[usize::from(next.group)];
        let (command, template) = &group.steps[next.step];
        let before = out.len();
        let mut chosen = Chosen { tag: next.tag, member: next.member, tags: &[] };
        if group.takes_several {
            let draw = self.multi_key.as_mut().expect("a template takes several keys only where there are tags");
            let is_across = self.across[usize::from(next.group)].next();
            chosen.tags = draw.tags(is_across, &mut self.keys[group.pattern], &mut self.rng, client);
        }
        template.append(out, chosen, &self.values, &mut self.rng);
        if let Some(mirror) = &mut self.mirror {
            mirror.apply(&out[before..]);
        }
        if next.step + 1 < group.steps.len() {
            self.unfinished[client] = Some(Unfinished { step: next.step + 1, ..next });
        }
        *command
    }

    pub(super) fn expected(&self) -> Option<Expected> {
        self.mirror.as_ref().map(Mirror::expected)
    }

    #[inline]
    fn begin_group(&mut self, client: usize) -> Unfinished {
        if self.at == self.cycle.len() {
            self.cycle.shuffle(&mut self.rng);
            self.at = 0;
        }
        let number = self.cycle[self.at];
        self.at += 1;
        let group = &self.spec.groups[usize::from(number)];
        let (mut tag, mut member) = (0, 0);
        if !group.takes_several {
            tag = self.keys[group.pattern].next(&mut self.rng, client);
            member = self.multi_key.as_ref().map_or(0, |draw| draw.member(&mut self.rng));
        }
        Unfinished { group: number, step: 0, tag, member }
    }
}

/// The model of the keys of one thread's connections at the beginning of the run.
fn mirror(config: &Config, share: Share) -> Mirror {
    let mut mirror = Mirror::new(config.protocol);
    if config.prefill {
        let mut encoder = PrefillEncoder::new(config);
        let own = share.first_client as u64..(share.first_client + share.clients) as u64;
        let mut requests = Vec::new();
        for offset in 0..config.prefill_keys() {
            requests.clear();
            let count = encoder.append(&mut requests, offset);
            if own.contains(&(offset % share.clients_total as u64)) {
                mirror.apply_all(&requests, count);
            }
        }
    }
    mirror
}
