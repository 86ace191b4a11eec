//! A selector: commands, keys and channels that are allowed together. Every user has one, and may have more.

use super::{RuleError, has_spaces};
use crate::base::glob;
use crate::commands::{
    self, COMMANDS, COUNT, Channels, Command, CommandId, Flags, Subcommands, is_category, is_in_category, keys_used,
};
use crate::resp::Args;
use std::collections::BTreeMap;

/// What a request may do with a key, or a pattern allows: bits.
const READ: u8 = 1;
const WRITE: u8 = 2;
const BOTH: u8 = READ | WRITE;

/// Words of a set of commands.
const WORDS: usize = COUNT.div_ceil(64);

/// Why a request is denied, with the position of the key or channel. A later one is nearer to what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The command.
    Command,
    /// A key.
    Key(usize),
    /// A channel.
    Channel(usize),
}

/// A pattern of keys, and what may be done with them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    access: u8,
}

impl KeyPattern {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.access {
            READ => b"%R~",
            WRITE => b"%W~",
            _ => b"~",
        });
        out.extend_from_slice(&self.pattern);
    }
}

/// Commands, keys and channels that are allowed together.
///
/// Invariant: `rules`, applied to all commands or to none as `begins_with_all` says, lead to `commands` and
/// `first_arguments`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    begins_with_all: bool,
    /// A bit for each row of the command table.
    commands: [u64; WORDS],
    /// First arguments with which a command is allowed that is not allowed otherwise: `+select|0`.
    first_arguments: BTreeMap<u16, Vec<Box<[u8]>>>,
    /// The rules about commands in effect, in order.
    rules: Vec<String>,
    /// None for all.
    keys: Option<Vec<KeyPattern>>,
    /// None for all.
    channels: Option<Vec<Box<[u8]>>>,
}

impl Selector {
    /// One that allows nothing, or only all channels.
    pub fn new(all_channels: bool) -> Self {
        Self {
            begins_with_all: false,
            commands: [0; WORDS],
            first_arguments: BTreeMap::new(),
            rules: Vec::new(),
            keys: Some(Vec::new()),
            channels: (!all_channels).then(Vec::new),
        }
    }

    /// Whether it allows everything.
    pub fn is_unrestricted(&self) -> bool {
        self.keys.is_none() && self.channels.is_none() && (0..COUNT).all(|index| self.has(CommandId::of_index(index)))
    }

    /// Applies a rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("allkeys") || is("~*") => self.keys = None,
            _ if is("resetkeys") => self.keys = Some(Vec::new()),
            _ if is("allchannels") || is("&*") => self.channels = None,
            _ if is("resetchannels") => self.channels = Some(Vec::new()),
            _ if is("allcommands") || is("+@all") => self.begin_with(true),
            _ if is("nocommands") || is("-@all") => self.begin_with(false),
            [b'~' | b'%', ..] => return self.add_keys(rule),
            [b'&', pattern @ ..] => return self.add_channels(pattern),
            [b'+', b'@', category @ ..] => return self.set_category(category, true),
            [b'-', b'@', category @ ..] => return self.set_category(category, false),
            [b'+', name @ ..] if name.contains(&b'|') => return self.allow_within(name),
            [b'+', name @ ..] => return self.set_command(name, true),
            [b'-', name @ ..] => return self.set_command(name, false),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn begin_with(&mut self, all: bool) {
        self.begins_with_all = all;
        self.commands = [if all { u64::MAX } else { 0 }; WORDS];
        self.first_arguments.clear();
        self.rules.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let keys = self.keys.as_mut().ok_or(RuleError::KeysAfterAll)?;
        let start = rule.iter().position(|&byte| byte == b'~').ok_or(RuleError::Syntax)?;
        let access = match rule[..start].to_ascii_uppercase().as_slice() {
            b"" | b"%RW" | b"%WR" => BOTH,
            b"%R" => READ,
            b"%W" => WRITE,
            _ => return Err(RuleError::Syntax),
        };
        let pattern = &rule[start + 1..];
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match keys.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => known.access |= access,
            None => keys.push(KeyPattern { pattern: pattern.into(), access }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let channels = self.channels.as_mut().ok_or(RuleError::ChannelsAfterAll)?;
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !channels.iter().any(|known| **known == *pattern) {
            channels.push(pattern.into());
        }
        Ok(())
    }

    fn set_category(&mut self, category: &[u8], allow: bool) -> Result<(), RuleError> {
        if !is_category(category) {
            return Err(RuleError::Unknown);
        }
        let ids = (0..COUNT).map(CommandId::of_index);
        ids.filter(|&id| is_in_category(commands::command(id), category))
            .for_each(|id| self.set_with_subcommands(id, allow));
        self.note_rule(&[b"@", category].concat(), allow);
        Ok(())
    }

    fn set_command(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let id = commands::find_row(name).ok_or(RuleError::Unknown)?;
        self.set_with_subcommands(id, allow);
        self.note_rule(name, allow);
        Ok(())
    }

    /// `+container|subcommand`, or `+command|argument`.
    fn allow_within(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let end = name.iter().rposition(|&byte| byte == b'|').ok_or(RuleError::Syntax)?;
        let (whole, name_within) = (&name[..end], &name[end + 1..]);
        let id = commands::find_row(whole).ok_or(RuleError::Unknown)?;
        let row = commands::command(id);
        if row.is_subcommand {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if name_within.is_empty() {
            return Err(RuleError::Syntax);
        }
        if row.subcommands != Subcommands::None {
            return self.set_command(name, true);
        }
        let arguments = self.first_arguments.entry(id.0).or_default();
        if !arguments.iter().any(|known| known.eq_ignore_ascii_case(name_within)) {
            arguments.push(name_within.into());
        }
        self.note_rule(name, true);
        Ok(())
    }

    /// Allows or forbids a command with all of its subcommands.
    fn set_with_subcommands(&mut self, id: CommandId, allow: bool) {
        self.set(id, allow);
        self.first_arguments.remove(&id.0);
        let row = commands::command(id);
        if row.subcommands == Subcommands::None {
            return;
        }
        let belongs_to_it = |other: &Command| other.container().is_some_and(|(container, _)| container == row.name);
        (0..COUNT).filter(|&index| belongs_to_it(&COMMANDS[index])).for_each(|index| {
            self.set(CommandId::of_index(index), allow);
        });
    }

    fn set(&mut self, id: CommandId, allow: bool) {
        let (word, bit) = (usize::from(id.0) / 64, 1 << (id.0 % 64));
        if allow {
            self.commands[word] |= bit;
        } else {
            self.commands[word] &= !bit;
        }
    }

    fn has(&self, id: CommandId) -> bool {
        self.commands[usize::from(id.0) / 64] & (1 << (id.0 % 64)) != 0
    }

    /// Records a rule. It replaces earlier ones about the same, and about parts of that.
    fn note_rule(&mut self, name: &[u8], allow: bool) {
        let name = String::from_utf8_lossy(name).to_lowercase();
        let is_replaced = |old: &String| {
            let rest = old[1..].strip_prefix(&*name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        };
        self.rules.retain(|old| !is_replaced(old));
        self.rules.push(format!("{}{name}", if allow { '+' } else { '-' }));
    }

    /// The rules about commands.
    pub fn command_rules(&self) -> String {
        let first = if self.begins_with_all { "+@all" } else { "-@all" };
        let rules = std::iter::once(first).chain(self.rules.iter().map(String::as_str));
        rules.collect::<Vec<_>>().join(" ")
    }

    /// The rules about keys.
    pub fn key_rules(&self) -> Vec<u8> {
        let Some(keys) = &self.keys else { return b"~*".to_vec() };
        let mut out = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            out.extend_from_slice(if index > 0 { b" " } else { b"" });
            key.write(&mut out);
        }
        out
    }

    /// The rules about channels.
    pub fn channel_rules(&self) -> Vec<u8> {
        let Some(channels) = &self.channels else { return b"&*".to_vec() };
        let rules: Vec<Vec<u8>> = channels.iter().map(|channel| [b"&", &**channel].concat()).collect();
        rules.join(&b' ')
    }

    /// All rules: they make an equal selector of an empty one.
    pub fn describe(&self) -> Vec<u8> {
        let mut out = self.key_rules();
        if !out.is_empty() {
            out.push(b' ');
        }
        if self.channels.is_some() {
            out.extend_from_slice(b"resetchannels ");
        }
        out.extend_from_slice(&self.channel_rules());
        if self.channels.as_ref().is_none_or(|channels| !channels.is_empty()) {
            out.push(b' ');
        }
        out.extend_from_slice(self.command_rules().as_bytes());
        out
    }

    /// Whether a request may run. `id` is that of the subcommand, if it names one.
    pub fn check(&self, id: CommandId, args: Args<'_>) -> Result<(), Denial> {
        let row = commands::command(id);
        if !row.flags.has(Flags::NO_AUTH) && !self.has(id) && !self.has_first_argument(id, args) {
            return Err(Denial::Command);
        }
        if let Some(patterns) = &self.keys {
            for (position, access) in keys_used(row, args) {
                let wanted = wanted(access);
                let allows = |known: &KeyPattern| {
                    known.access & wanted == wanted && glob::matches(&known.pattern, &args[position])
                };
                if !patterns.iter().any(allows) {
                    return Err(Denial::Key(position));
                }
            }
        }
        let channels = match row.channels {
            Channels::None => 0..0,
            Channels::Published => 1..2.min(args.len()),
            Channels::Subscribed | Channels::Patterns => 1..args.len(),
        };
        let is_pattern = row.channels == Channels::Patterns;
        match channels.into_iter().find(|&position| !self.allows_channel(&args[position], is_pattern)) {
            Some(position) => Err(Denial::Channel(position)),
            None => Ok(()),
        }
    }

    fn has_first_argument(&self, id: CommandId, args: Args<'_>) -> bool {
        let allowed = self.first_arguments.get(&id.0);
        allowed.zip(args.get(1)).is_some_and(|(allowed, first)| allowed.iter().any(|it| it.eq_ignore_ascii_case(first)))
    }

    /// Whether a channel, or a pattern of channels, may be used. A pattern must be one of the selector's.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let Some(channels) = &self.channels else { return true };
        channels.iter().any(|known| if is_pattern { **known == *channel } else { glob::matches(known, channel) })
    }

    /// Whether every key may be read.
    pub fn reads_all_keys(&self) -> bool {
        let is_all = |known: &KeyPattern| known.access & READ != 0 && *known.pattern == *b"*";
        self.keys.as_ref().is_none_or(|keys| keys.iter().any(is_all))
    }
}

/// What must be allowed for a key, given the words of its key specification.
fn wanted(access: &[&str]) -> u8 {
    access.iter().fold(0, |wanted, word| match *word {
        "access" => wanted | READ,
        "insert" | "delete" | "update" => wanted | WRITE,
        _ => wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Span;

    fn selector(rules: &str) -> Selector {
        let mut selector = Selector::new(false);
        rules.split(' ').for_each(|rule| selector.apply(rule.as_bytes()).expect(rule));
        selector
    }

    fn check(rules: &str, request: &str) -> Result<(), Denial> {
        let (mut arena, mut spans) = (Vec::new(), Vec::new());
        for word in request.split(' ') {
            spans.push(Span::new(arena.len(), word.len()));
            arena.extend_from_slice(word.as_bytes());
        }
        let args = Args::new(&arena, &spans);
        let named = commands::find(&args[0]).expect("it is a command");
        selector(rules).check(commands::subcommand(named, args).expect("it exists"), args)
    }

    #[test]
    fn rules_about_commands_are_kept_in_order_and_replace_what_they_are_about() {
        for (rules, kept) in [
            ("+@all -@hash -@slow +hget -@hash", "+@all -@slow +hget -@hash"),
            ("-@all +@HASH +@hash +@HaSh", "-@all +@hash"),
            ("-@all +hget -hset +hset -hget", "-@all +hset -hget"),
            ("+client|list +client|list +config|get +config +acl|list -acl", "-@all +client|list +config -acl"),
            ("+select|0 +select|0 +debug|segfault +debug", "-@all +select|0 +debug"),
            ("-@string -@slow +@all", "+@all"),
        ] {
            assert_eq!(selector(rules).command_rules(), kept, "{rules}");
        }
    }

    #[test]
    fn its_description_makes_an_equal_one() {
        for rules in ["+@all ~* &*", "-@all", "+get ~a* %R~b %W~c &x &y* -@write +config|get +select|1", "&* +@read"] {
            let one = selector(rules);
            let described = String::from_utf8(one.describe()).expect("it is text");
            assert_eq!(selector(&described), one, "{described}");
        }
    }

    #[test]
    fn a_request_is_denied_for_its_command_a_key_or_a_channel() {
        assert_eq!(check("+get ~a*", "get abc"), Ok(()));
        assert_eq!(check("+get ~a*", "set abc 1"), Err(Denial::Command));
        assert_eq!(check("+mget ~a*", "mget a b a"), Err(Denial::Key(2)));
        assert_eq!(check("+@all %R~r* %W~w*", "copy r w"), Ok(()));
        assert_eq!(check("+@all %R~r* %W~w*", "copy w r"), Err(Denial::Key(1)));
        assert_eq!(check("+@all ~a -config|set", "config set a b"), Err(Denial::Command));
        assert_eq!(check("+@all &a", "publish b 1"), Err(Denial::Channel(1)));
        assert_eq!(check("+@all &a*", "psubscribe a"), Err(Denial::Channel(1)));
        assert_eq!(check("+@all &a*", "psubscribe a*"), Ok(()));
        assert_eq!(check("+select|1", "select 1"), Ok(()));
        assert_eq!(check("+select|1", "select 2"), Err(Denial::Command));
        assert_eq!(check("-@all", "auth x"), Ok(()));
    }

    #[test]
    fn what_is_not_a_rule_is_refused() {
        for (rule, error) in [
            ("nothing", RuleError::Syntax),
            ("+nosuch", RuleError::Unknown),
            ("+@nosuch", RuleError::Unknown),
            ("+config|nosuch", RuleError::Unknown),
            ("-select|1", RuleError::Unknown),
            ("+config|get|x", RuleError::ArgumentOfSubcommand),
            ("+debug|", RuleError::Syntax),
            ("%~x", RuleError::Syntax),
            ("%RX~x", RuleError::Syntax),
            ("~a b", RuleError::Syntax),
        ] {
            assert_eq!(Selector::new(false).apply(rule.as_bytes()), Err(error), "{rule}");
        }
        assert_eq!(selector("~*").apply(b"~x"), Err(RuleError::KeysAfterAll));
        assert_eq!(selector("&*").apply(b"&x"), Err(RuleError::ChannelsAfterAll));
    }

    #[test]
    fn it_is_unrestricted_where_it_allows_everything() {
        assert!(selector("+@all ~* &*").is_unrestricted());
        for less in ["+@all ~* &x", "+@all ~x &*", "+@all -get ~* &*", "-@all ~* &*"] {
            assert!(!selector(less).is_unrestricted(), "{less}");
        }
    }
}
