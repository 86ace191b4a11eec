//! Commands with weights, from a workload file.
//!
//! Weights are exact: a cycle of as many requests as the sum of the weights (divided by their common divisor) has each
//! command that often, in an order drawn anew for every cycle.

use std::path::Path;

use rand::rngs::SmallRng;

use super::commands::{COMMANDS_MAX, CommandId, CommandSpec, ReplyRule};
use super::file::WorkloadFile;
use super::key_names::KeyNames;
use super::keys::KeyPattern;
use super::template::{Chosen, Template};
use super::values::Values;
use crate::base::Error;

/// The longest cycle: weights may not add up to more.
const CYCLE_MAX: u64 = 100_000;

/// A workload, checked and compiled.
///
/// Invariants: 1 to `COMMANDS_MAX` commands; `cycle` is not empty; every group's pattern is one
/// of `patterns`.
#[derive(Clone, Debug)]
pub struct MixSpec {
    /// Its name.
    pub name: String,
    /// The commands, as reports name them.
    pub commands: Vec<CommandSpec>,
    /// Key patterns in use.
    pub patterns: Vec<KeyPattern>,
    pub(crate) groups: Vec<Group>,
    /// The groups of a cycle.
    pub(crate) cycle: Vec<u8>,
    prefill: Option<Prefill>,
}

/// What `--prefill` sends.
#[derive(Clone, Debug)]
struct Prefill {
    templates: Vec<Template>,
    keys: Option<u64>,
}

/// A section of the file: one command, or several for one key.
///
/// Invariant: one whose command takes several keys has no other step.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) steps: Vec<(CommandId, Template)>,
    pub(crate) pattern: usize,
    pub(crate) takes_several: bool,
}

impl MixSpec {
    /// Checks a file. `pattern` reads the name of a key pattern, `key_pattern` is the one of
    /// commands that name none.
    pub(crate) fn new(
        file: &WorkloadFile,
        path: &str,
        names: KeyNames<'_>,
        key_pattern: KeyPattern,
        pattern: impl Fn(&str) -> Option<KeyPattern>,
    ) -> Result<Self, Error> {
        let wrong = |what: String| Error::format(Path::new(path), what);
        let mut spec = Self {
            name: file.name.clone(),
            commands: Vec::new(),
            patterns: vec![key_pattern],
            groups: Vec::new(),
            cycle: cycle(file).map_err(wrong)?,
            prefill: None,
        };
        let compile = |text: &String| Template::compile(text, names).map_err(wrong);
        for section in &file.commands {
            let own = match &section.keys {
                None => key_pattern,
                Some(text) => pattern(text).ok_or_else(|| wrong(format!("unknown key pattern {text:?}")))?,
            };
            let mut steps = Vec::new();
            for text in section.send.texts() {
                let template = compile(text)?;
                steps.push((spec.command(&template, section.name.as_deref()).map_err(wrong)?, template));
            }
            let pattern = spec.pattern(own);
            let takes_several = steps.iter().any(|(_, template)| template.takes_several);
            if takes_several && steps.len() > 1 {
                return Err(wrong("a command over several keys is a step of its own".to_owned()));
            }
            spec.groups.push(Group { steps, pattern, takes_several });
        }
        if names.keys_per_tag > 1 && !spec.groups.iter().any(|group| group.takes_several) {
            return Err(wrong("no command takes several keys (__keys__ or __pairs__)".to_owned()));
        }
        if let Some(prefill) = &file.prefill {
            let templates = prefill.send.texts().iter().map(compile).collect::<Result<Vec<_>, _>>()?;
            if templates.iter().any(|template| template.takes_several) {
                return Err(wrong("--prefill sets key by key: no command over several keys".to_owned()));
            }
            spec.prefill = Some(Prefill { templates, keys: prefill.keys });
        }
        Ok(spec)
    }

    /// How many of the keys `--prefill` covers; `None` if the workload does not say how.
    pub(crate) fn prefill_keys(&self, keys: u64) -> Option<u64> {
        self.prefill.as_ref().map(|prefill| prefill.keys.map_or(keys, |own| own.min(keys)))
    }

    /// Appends what `--prefill` sends for a key, a member of a tag; returns how many requests.
    pub(crate) fn append_prefill(
        &self,
        out: &mut Vec<u8>,
        (tag, member): (u64, usize),
        values: &Values,
        rng: &mut SmallRng,
    ) -> u64 {
        let templates = self.prefill.as_ref().map_or(&[][..], |prefill| &prefill.templates);
        let chosen = Chosen { tag, member, tags: &[] };
        templates.iter().for_each(|template| template.append(out, chosen, values, rng));
        templates.len() as u64
    }

    /// Why --verify is refused: for the first command that the model cannot follow.
    pub(crate) fn unverifiable(&self) -> Option<&str> {
        let steps = self.groups.iter().flat_map(|group| group.steps.iter().map(|(_, template)| template));
        let prefill = self.prefill.iter().flat_map(|prefill| &prefill.templates);
        steps.chain(prefill).find_map(|template| template.unverifiable.as_deref())
    }

    fn command(&mut self, template: &Template, name: Option<&str>) -> Result<CommandId, String> {
        let name = name.unwrap_or(&template.word);
        if name.is_empty() || name.contains([' ', ',', '\n', '\r']) {
            return Err(format!("the name {name:?} is empty, or has a space, a comma or a line end"));
        }
        let spec = CommandSpec { name: name.to_owned(), replies: ReplyRule::of(&template.word) };
        let place = self.commands.iter().position(|other| other.name == spec.name);
        let place = place.unwrap_or(self.commands.len());
        if place == self.commands.len() {
            self.commands.push(spec);
        } else if self.commands[place].replies != spec.replies {
            return Err(format!("two different commands have the name {name:?}"));
        }
        if place >= COMMANDS_MAX {
            return Err(format!("more than {COMMANDS_MAX} commands"));
        }
        Ok(place as CommandId)
    }

    fn pattern(&mut self, pattern: KeyPattern) -> usize {
        let place = self.patterns.iter().position(|other| *other == pattern);
        place.unwrap_or_else(|| {
            self.patterns.push(pattern);
            self.patterns.len() - 1
        })
    }
}

fn cycle(file: &WorkloadFile) -> Result<Vec<u8>, String> {
    if file.commands.len() > COMMANDS_MAX {
        return Err(format!("more than {COMMANDS_MAX} commands"));
    }
    if let Some(empty) = file.commands.iter().position(|section| section.send.texts().is_empty()) {
        return Err(format!("command {} sends nothing", empty + 1));
    }
    let common = file.commands.iter().fold(0, |common, section| gcd(common, section.weight));
    let total: u64 = file.commands.iter().map(|section| u64::from(section.weight)).sum();
    if total == 0 {
        return Err("no command has a weight above zero".to_owned());
    }
    if total / u64::from(common) > CYCLE_MAX {
        return Err(format!("the weights add up to more than {CYCLE_MAX}"));
    }
    let places = file.commands.iter().enumerate();
    Ok(places.flat_map(|(place, section)| vec![place as u8; (section.weight / common) as usize]).collect())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
