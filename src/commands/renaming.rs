//! Other names for commands, or none: the directive `rename-command`.
//!
//! They hold for what clients and scripts send, and for nothing else. A request gets the command's own name before
//! anything looks at it, so the log, the stream to replicas and MONITOR have that one.

use super::lookup::{find, find_row, find_subcommand};
use super::table::{CommandId, command};
use crate::resp::{Args, OwnedArgs};
use std::collections::{HashMap, HashSet};

/// The names of the commands of one server.
///
/// Invariant: no other name is the own name of a command, so that a name means one command, or nothing.
#[derive(Debug, Default)]
pub struct Names {
    /// The commands that have another name, by it, in lower case.
    others: HashMap<Vec<u8>, CommandId>,
    /// The commands whose own name means nothing.
    without_own: HashSet<CommandId>,
}

impl Names {
    /// Gives a command another name instead of the one that it has; an empty one takes it from all clients. Errors are
    /// Redis's.
    pub fn rename(&mut self, name: &str, other: &str) -> Result<(), &'static str> {
        let id = self.find(name.as_bytes()).ok_or("No such command in rename-command")?;
        let other = other.to_ascii_lowercase().into_bytes();
        let is_own = other == command(id).name.as_bytes();
        if !is_own && (find_row(&other).is_some() || self.others.contains_key(&other)) {
            return Err("Target command name already exists");
        }
        self.others.retain(|_, &mut renamed| renamed != id);
        match is_own {
            true => _ = self.without_own.remove(&id),
            false => _ = self.without_own.insert(id),
        }
        if !is_own && !other.is_empty() {
            self.others.insert(other, id);
        }
        Ok(())
    }

    /// Whether all commands have their own names.
    #[inline]
    pub fn are_own(&self) -> bool {
        self.without_own.is_empty()
    }

    /// Whether clients can call a command or subcommand, by whatever name.
    pub fn has(&self, id: CommandId) -> bool {
        let container = command(id).container().and_then(|(container, _)| find(container.as_bytes()));
        let id = container.unwrap_or(id);
        !self.without_own.contains(&id) || self.others.values().any(|&renamed| renamed == id)
    }

    /// The command that a name means, in any case. A subcommand is not a command of its own.
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        self.find_renamed(name).or_else(|| find(name).filter(|id| !self.without_own.contains(id)))
    }

    /// The same, or a subcommand: `container|name`.
    pub fn find_row(&self, name: &[u8]) -> Option<CommandId> {
        match name.iter().position(|&byte| byte == b'|') {
            Some(end) => find_subcommand(command(self.find(&name[..end])?), &name[end + 1..]),
            None => self.find(name),
        }
    }

    /// A request for a command that has another name, with its own name; `None` for any other request.
    pub fn with_own_name(&self, args: Args<'_>) -> Option<(CommandId, OwnedArgs)> {
        let id = self.find_renamed(args.get(0)?)?;
        Some((id, std::iter::once(command(id).name.as_bytes()).chain(args.from(1).iter()).collect()))
    }

    fn find_renamed(&self, name: &[u8]) -> Option<CommandId> {
        if self.others.is_empty() {
            return None;
        }
        self.others.get(&name.to_ascii_lowercase()).copied()
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_command_or_nothing() {
        let id = |name: &str| find_row(name.as_bytes()).unwrap();
        let mut names = Names::default();
        assert!(names.are_own());
        names.rename("FlushDB", "Badger").unwrap();
        names.rename("config", "").unwrap();
        assert!(!names.are_own());
        for (name, wanted) in [
            ("badger", Some("flushdb")),
            ("BADGER", Some("flushdb")),
            ("flushdb", None),
            ("FLUSHDB", None),
            ("config", None),
            ("config|get", None),
            ("flushall", Some("flushall")),
            ("client|list", Some("client|list")),
            ("client|badger", None),
            ("", None),
        ] {
            assert_eq!(names.find_row(name.as_bytes()), wanted.map(id), "{name}");
        }
        for (name, wanted) in [("flushdb", true), ("config", false), ("config|get", false), ("client|list", true)] {
            assert_eq!(names.has(id(name)), wanted, "{name}");
        }
        // It is renamed by the name that it has now, and back.
        assert_eq!(names.rename("flushdb", "fox"), Err("No such command in rename-command"));
        names.rename("badger", "fox").unwrap();
        assert_eq!((names.find(b"badger"), names.find(b"fox")), (None, Some(id("flushdb"))));
        names.rename("fox", "FLUSHDB").unwrap();
        assert_eq!((names.find(b"fox"), names.find(b"flushdb")), (None, Some(id("flushdb"))));
    }

    #[test]
    fn a_name_that_another_command_has_or_had_is_refused() {
        let mut names = Names::default();
        assert_eq!(names.rename("nosuch", "x"), Err("No such command in rename-command"));
        assert_eq!(names.rename("config|get", "x"), Err("No such command in rename-command"));
        assert_eq!(names.rename("get", "SET"), Err("Target command name already exists"));
        assert_eq!(names.rename("get", "config|get"), Err("Target command name already exists"));
        names.rename("set", "put").unwrap();
        assert_eq!(names.rename("get", "Put"), Err("Target command name already exists"));
        // Redis takes this one. Here a script may have been proved by what SET does.
        assert_eq!(names.rename("get", "set"), Err("Target command name already exists"));
        assert_eq!(names.find(b"get"), find(b"get"), "what was refused changes nothing");
    }

    #[test]
    fn a_request_gets_the_own_name_of_its_command_and_keeps_the_rest() {
        let mut names = Names::default();
        names.rename("flushdb", "badger").unwrap();
        names.rename("get", "").unwrap();
        let request = |words: &[&str]| words.iter().collect::<OwnedArgs>();
        let (id, own) = names.with_own_name(request(&["BadgeR", "ASYNC", ""]).args()).unwrap();
        assert_eq!(command(id).name, "flushdb");
        assert_eq!(own.args().iter().collect::<Vec<_>>(), [b"flushdb".as_slice(), b"ASYNC", b""]);
        for words in [["flushdb"], ["get"], ["set"], [""]] {
            assert!(names.with_own_name(request(&words).args()).is_none(), "{words:?}");
        }
    }
}
