//! A user: whether it is on, its passwords, its selectors.

use super::RuleError;
use super::selector::{Denial, Selector};
use crate::commands::CommandId;
use crate::resp::{Args, split_line};
use sha2::{Digest, Sha256};

/// A user as it is at one time.
///
/// Invariants: there is at least one selector; the first is that of the rules outside of parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    is_on: bool,
    /// Whether every password is right.
    needs_no_password: bool,
    skips_sanitizing: bool,
    /// SHA-256 of each, in hexadecimal digits.
    passwords: Vec<String>,
    selectors: Vec<Selector>,
    is_unrestricted: bool,
}

impl User {
    /// A new user, who may do nothing, or only use all channels.
    pub fn new(all_channels: bool) -> Self {
        Self {
            is_on: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
            is_unrestricted: false,
        }
    }

    /// The default user of a server that says nothing else.
    pub fn all_powerful() -> Self {
        let mut user = Self::new(false);
        for rule in ["on", "nopass", "~*", "&*", "+@all"] {
            user.apply(rule.as_bytes(), false).expect("it is a rule");
        }
        user
    }

    /// This user after other rules, or the rule that is refused and why. New selectors have all channels, or none.
    pub fn with(&self, rules: &[Vec<u8>], all_channels: bool) -> Result<Self, (Vec<u8>, RuleError)> {
        let mut user = self.clone();
        for rule in rules {
            user.apply(rule, all_channels).map_err(|error| (rule.clone(), error))?;
        }
        Ok(user)
    }

    fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            b"" => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("skip-sanitize-payload") => self.skips_sanitizing = true,
            _ if is("sanitize-payload") => self.skips_sanitizing = false,
            _ if is("nopass") => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            _ if is("resetpass") => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            [b'>', password @ ..] => self.add_password(hash_of(password)),
            [b'#', hash @ ..] => self.add_password(hash_given(hash)?),
            [b'<', password @ ..] => self.remove_password(&hash_of(password))?,
            [b'!', hash @ ..] => self.remove_password(&hash_given(hash)?)?,
            [b'(', rules @ .., b')'] => self.selectors.push(selector_of(rules, all_channels)?),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => *self = Self::new(all_channels),
            _ => self.selectors[0].apply(rule)?,
        }
        self.is_unrestricted = self.selectors.iter().any(Selector::is_unrestricted);
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.needs_no_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), RuleError> {
        let known = self.passwords.iter().position(|known| known == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(known);
        Ok(())
    }

    /// This user with one password, or with none that is needed: `requirepass`.
    pub fn with_only_password(&self, password: &str) -> Self {
        let mut user = self.clone();
        user.passwords.clear();
        user.needs_no_password = password.is_empty();
        user.passwords.extend((!password.is_empty()).then(|| hash_of(password.as_bytes())));
        user
    }

    /// Whether it may run every command on every key and channel.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Whether it may log in.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether every password is right.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether it may log in with a password. The comparison takes the same time wherever hashes differ.
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.is_on || self.needs_no_password {
            return self.is_on;
        }
        let hash = hash_of(password);
        let is_it = |known: &String| {
            known.bytes().zip(hash.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
        };
        self.passwords.iter().fold(false, |accepts, known| accepts | is_it(known))
    }

    /// The words about the user itself.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let sanitizing = if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" };
        let switch = if self.is_on { "on" } else { "off" };
        [Some(switch), self.needs_no_password.then_some("nopass"), Some(sanitizing)].into_iter().flatten()
    }

    /// The hashes of its passwords.
    pub fn passwords(&self) -> &[String] {
        &self.passwords
    }

    /// What it may do: the first is that of the rules outside of parentheses.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Its rules: they make an equal user of a new one.
    pub fn describe(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.flags().for_each(|flag| out.extend_from_slice(format!("{flag} ").as_bytes()));
        self.passwords.iter().for_each(|hash| out.extend_from_slice(format!("#{hash} ").as_bytes()));
        out.extend_from_slice(&self.selectors[0].describe());
        for selector in &self.selectors[1..] {
            out.extend_from_slice(b" (");
            out.extend_from_slice(&selector.describe());
            out.push(b')');
        }
        out
    }

    /// Whether a request may run: one selector must allow all of it. `id` is that of the subcommand, if it names one.
    pub fn check(&self, id: CommandId, args: Args<'_>) -> Result<(), Denial> {
        let mut nearest = Denial::Command;
        for selector in &self.selectors {
            match selector.check(id, args) {
                Ok(()) => return Ok(()),
                Err(denial) => nearest = nearest.max(denial),
            }
        }
        Err(nearest)
    }

    /// Whether a request may run and read keys that it does not name.
    pub fn reads_all_keys(&self, id: CommandId, args: Args<'_>) -> bool {
        self.selectors.iter().any(|selector| selector.reads_all_keys() && selector.check(id, args).is_ok())
    }

    /// Whether it may use a channel, or a pattern of channels.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(channel, is_pattern))
    }
}

fn selector_of(rules: &[u8], all_channels: bool) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(all_channels);
    let rules = split_line(rules).ok_or(RuleError::Syntax)?;
    rules.iter().try_for_each(|rule| selector.apply(rule))?;
    Ok(selector)
}

/// SHA-256 in hexadecimal digits.
fn hash_of(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash_given(hash: &[u8]) -> Result<String, RuleError> {
    let is_hash = hash.len() == 64 && hash.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| hash.iter().copied().map(char::from).collect()).ok_or(RuleError::Hash)
}

/// Joins the words of each selector to one, because a selector in parentheses may have come as several. The error is
/// the word that opens a parenthesis which nothing closes.
pub fn words_of_selectors<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut joined = Vec::new();
    let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
    for word in words {
        let closes = word.ends_with(b")");
        open = match open {
            None if word.starts_with(b"(") && !closes => Some((word.to_vec(), word.to_vec())),
            None => {
                joined.push(word.to_vec());
                None
            }
            Some((first, mut all)) => {
                all.push(b' ');
                all.extend_from_slice(word);
                if closes {
                    joined.push(all);
                    None
                } else {
                    Some((first, all))
                }
            }
        };
    }
    open.map_or(Ok(joined), |(first, _)| Err(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &str) -> User {
        let words = words_of_selectors(rules.split(' ').map(str::as_bytes)).expect("parentheses match");
        User::new(false).with(&words, false).expect(rules)
    }

    #[test]
    fn passwords_are_kept_as_hashes_and_any_of_them_opens() {
        let user = user("on >one >two");
        assert!(user.accepts(b"one") && user.accepts(b"two") && !user.accepts(b"three") && !user.accepts(b""));
        let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
        assert_eq!(user.passwords()[0], hash);
        let one_less = user.with(&[b"<two".to_vec(), format!("!{hash}").into_bytes()], false);
        assert!(!one_less.expect("it has both").accepts(b"one"));
        assert_eq!(user.with(&[b"<none".to_vec()], false), Err((b"<none".to_vec(), RuleError::NoSuchPassword)));
        assert_eq!(user.with(&[b"#12".to_vec()], false), Err((b"#12".to_vec(), RuleError::Hash)));
    }

    #[test]
    fn its_description_makes_an_equal_one() {
        for rules in ["on nopass ~* &* +@all", ">p off ~a (+get ~b &c) (-@all)", "skip-sanitize-payload on"] {
            let one = user(rules);
            let described = String::from_utf8(one.describe()).expect("it is text");
            assert_eq!(user(&described), one, "{described}");
        }
    }

    #[test]
    fn selectors_may_come_in_several_words_and_must_be_closed() {
        assert_eq!(user("(~key1 +get ) ( ~key2 +get) (~key3 +get)").selectors().len(), 4);
        assert_eq!(words_of_selectors([&b"on"[..], b"(+ping", b"(+get"].into_iter()), Err(b"(+ping".to_vec()));
    }

    #[test]
    fn reset_takes_everything_away() {
        assert_eq!(user("on nopass ~* &* +@all (+get) reset"), User::new(false));
    }
}
