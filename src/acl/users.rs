//! All users of a server, by name.

use super::user::{User, words_of_selectors};
use super::{DEFAULT, Denials, RuleError, has_spaces};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The name of a user, and what it is now. Connections keep it.
#[derive(Debug)]
pub struct Account {
    /// The name.
    pub name: Box<[u8]>,
    user: RwLock<Arc<User>>,
    is_deleted: AtomicBool,
}

impl Account {
    fn new(name: &[u8], user: User) -> Arc<Self> {
        Arc::new(Self { name: name.into(), user: RwLock::new(Arc::new(user)), is_deleted: AtomicBool::new(false) })
    }

    /// The user as it is now.
    pub fn user(&self) -> Arc<User> {
        Arc::clone(&self.user.read())
    }

    /// Whether it was deleted, so that its connections end.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }
}

/// A user that was changed: its account, and what it was before.
pub type Changed = (Arc<Account>, Arc<User>);

type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// The users of a server.
///
/// Invariant: there is a default user, and its account is always the same.
#[derive(Debug)]
pub struct Users {
    accounts: Mutex<Accounts>,
    default: Arc<Account>,
    /// Changes after each change of a user.
    version: AtomicU64,
    /// Whether connections may run commands without logging in: the default user is on and needs no password.
    is_open: AtomicBool,
    /// Whether new users may use all channels: `acl-pubsub-default`.
    all_channels: AtomicBool,
    /// What was denied.
    pub denials: Denials,
}

impl Default for Users {
    fn default() -> Self {
        let default = Account::new(DEFAULT, User::all_powerful());
        Self {
            accounts: Mutex::new(Accounts::from([(DEFAULT.into(), Arc::clone(&default))])),
            default,
            version: AtomicU64::new(0),
            is_open: AtomicBool::new(true),
            all_channels: AtomicBool::new(false),
            denials: Denials::default(),
        }
    }
}

impl Users {
    /// A number that is another after each change of a user.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether connections need not log in.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Sets whether new users, and those that are reset, may use all channels.
    pub fn set_all_channels(&self, all_channels: bool) {
        self.all_channels.store(all_channels, Ordering::Relaxed);
    }

    fn has_all_channels(&self) -> bool {
        self.all_channels.load(Ordering::Relaxed)
    }

    /// The account of the default user.
    pub fn default_account(&self) -> &Arc<Account> {
        &self.default
    }

    /// The account of a user.
    pub fn get(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.accounts.lock().get(name).cloned()
    }

    /// The accounts of all users, by name.
    pub fn list(&self) -> Vec<Arc<Account>> {
        self.accounts.lock().values().cloned().collect()
    }

    /// The account that a name and a password open.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<Account>> {
        self.get(name).filter(|account| account.user().accepts(password))
    }

    /// Sets the password of the default user; an empty one for none.
    pub fn set_default_password(&self, password: &str) {
        let _changing = self.accounts.lock();
        let user = self.default.user().with_only_password(password);
        self.replace(&self.default, user);
    }

    /// ACL SETUSER: changes a user, or makes one. Returns the account with the user before, if there was one; or the
    /// text of an error.
    pub fn set<'a>(&self, name: &[u8], rules: impl Iterator<Item = &'a [u8]>) -> Result<Option<Changed>, String> {
        if has_spaces(name) {
            return Err("Usernames can't contain spaces or null characters".into());
        }
        let rules = words_of_selectors(rules).map_err(|word| unmatched(&word))?;
        let mut accounts = self.accounts.lock();
        let account = accounts.get(name).cloned();
        let before = account.as_ref().map(|account| account.user());
        let all_channels = self.has_all_channels();
        let new = || Arc::new(User::new(all_channels));
        let user = before.clone().unwrap_or_else(new).with(&rules, all_channels).map_err(|(rule, error)| {
            let rule = String::from_utf8_lossy(&rule);
            format!("Error in ACL SETUSER modifier '{rule}': {}", error.text())
        })?;
        match account {
            Some(account) => self.replace(&account, user),
            None => _ = accounts.insert(name.into(), Account::new(name, user)),
        }
        Ok(accounts.get(name).cloned().zip(before))
    }

    fn replace(&self, account: &Arc<Account>, user: User) {
        if Arc::ptr_eq(account, &self.default) {
            self.is_open.store(user.is_on() && user.needs_no_password(), Ordering::Relaxed);
        }
        *account.user.write() = Arc::new(user);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Deletes a user; returns the account, whose connections must end.
    pub fn delete(&self, name: &[u8]) -> Option<Arc<Account>> {
        let account = self.accounts.lock().remove(name)?;
        self.mark_deleted(&account);
        Some(account)
    }

    fn mark_deleted(&self, account: &Account) {
        account.is_deleted.store(true, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The lines of a file that makes these users.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let line = |account: &Arc<Account>| [b"user ", &*account.name, b" ", &account.user().describe()].concat();
        self.accounts.lock().values().map(line).collect()
    }

    /// Whether nothing was said about users but the password of the default one.
    pub fn are_plain(&self, password: &str) -> bool {
        let accounts = self.accounts.lock();
        accounts.len() == 1 && *self.default.user() == User::all_powerful().with_only_password(password)
    }

    /// Makes the users of the directive `user`: a name and rules each.
    pub fn add_configured(&self, lines: &[Vec<String>]) -> Result<(), String> {
        for (index, line) in lines.iter().enumerate() {
            let (name, rules) = line.split_first().ok_or("'user' without a name")?;
            if lines[..index].iter().any(|other| other[0] == *name) {
                return Err("Duplicate user found. A user can only be defined once in config files".into());
            }
            let reset = (name.as_bytes() == DEFAULT).then_some("reset".as_bytes());
            let rules = reset.into_iter().chain(rules.iter().map(|rule| rule.as_bytes()));
            self.set(name.as_bytes(), rules).map_err(|error| format!("user '{name}': {error}"))?;
        }
        Ok(())
    }

    /// Takes the users of a file instead of those that there are, or none: then the error says all that is wrong with
    /// it. Returns the accounts before, but the default one, whose connections must end.
    pub fn load(&self, path: &str) -> Result<Vec<Arc<Account>>, String> {
        let text = std::fs::read(path).map_err(|error| {
            let text = error.to_string();
            let reason = text.split(" (os error").next().unwrap_or_default();
            format!("Error loading ACLs, opening file '{path}': {reason}")
        })?;
        let mut users = users_in(&text, path, self.has_all_channels())?;
        let default = users.remove(DEFAULT).unwrap_or_else(User::all_powerful);
        let mut accounts = self.accounts.lock();
        let made = users.into_iter().map(|(name, user)| (name.clone(), Account::new(&name, user)));
        let mut before = std::mem::replace(&mut *accounts, made.collect());
        before.remove(DEFAULT);
        accounts.insert(DEFAULT.into(), Arc::clone(&self.default));
        self.replace(&self.default, default);
        let before: Vec<_> = before.into_values().collect();
        before.iter().for_each(|account| self.mark_deleted(account));
        Ok(before)
    }
}

fn unmatched(word: &[u8]) -> String {
    format!("Unmatched parenthesis in acl selector starting at '{}'.", String::from_utf8_lossy(word))
}

/// The users of an ACL file.
fn users_in(text: &[u8], path: &str, all_channels: bool) -> Result<BTreeMap<Box<[u8]>, User>, String> {
    let (mut users, mut errors) = (BTreeMap::new(), String::new());
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if let Err(error) = add_line(&mut users, line, &format!("{path}:{}", index + 1), all_channels) {
            _ = write!(errors, "{error}. ");
        }
    }
    match errors.is_empty() {
        true => Ok(users),
        false => Err(format!(
            "{errors}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        )),
    }
}

fn add_line(users: &mut BTreeMap<Box<[u8]>, User>, line: &[u8], place: &str, all_channels: bool) -> Result<(), String> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("{place} should start with user keyword followed by the username"));
    };
    let shown = String::from_utf8_lossy(name);
    if has_spaces(name) {
        return Err(format!("{place}: username '{shown}' contains invalid characters"));
    }
    if users.contains_key(name) {
        return Err(format!(
            "WARNING: Duplicate user '{shown}' found on line {}",
            place.rsplit(':').next().unwrap_or("")
        ));
    }
    let rules = words_of_selectors(words.map(<[u8]>::trim_ascii))
        .map_err(|_| format!("{place}: Unmatched parenthesis in selector definition"))?;
    let user = User::new(all_channels).with(&rules, all_channels).map_err(|(rule, error)| match error {
        // Any other rule may be a password.
        RuleError::Unknown => {
            let rule = String::from_utf8_lossy(&rule);
            format!("{place}: Error in applying operation '{rule}': {}", error.text())
        }
        _ => format!("{place}: {}", error.text()),
    })?;
    users.insert(name.into(), user);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_fault_changes_nothing_and_one_without_replaces_all_users() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let path = dir.path().join("users.acl").to_string_lossy().into_owned();
        let users = Users::default();
        users.set(b"old", [&b"on"[..]].into_iter()).expect("it is right");
        std::fs::write(&path, "user a on\nuser a off\nuser b +nosuch\nuse c\n").expect("it can be written");
        let error = users.load(&path).expect_err("it has faults");
        for part in ["Duplicate user 'a' found on line 2", "'+nosuch': Unknown command", ":4 should start with user"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(users.get(b"old").is_some() && users.get(b"a").is_none());
        std::fs::write(&path, "user a on >x (+get ~k)\n\nuser default on nopass +@all\n").expect("it can be written");
        let gone = users.load(&path).expect("it is right");
        assert!(gone.len() == 1 && gone[0].is_deleted() && users.get(b"old").is_none());
        assert!(!users.default_account().user().is_unrestricted() && users.is_open());
        let lines = users.lines().join(&b'\n');
        std::fs::write(&path, &lines).expect("it can be written");
        users.load(&path).expect("it is right");
        assert_eq!(users.lines().join(&b'\n'), lines);
    }
}
