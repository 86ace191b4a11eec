//! Connections to the targets of MIGRATE that are kept for a while: the next request for the same target uses them.

use super::Link;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How many are kept, and how long one that is not used. As Redis.
const LINKS_MAX: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Where keys are sent, and as which user. A connection serves only requests with the same name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How to log in there.
    pub login: Option<Login>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
}

/// A user and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user, if one is named.
    pub user: Option<Box<[u8]>>,
    /// The password.
    pub password: Box<[u8]>,
}

/// A connection, and the database that is selected there, if that is known.
pub struct CachedLink {
    /// The connection.
    pub link: Link,
    /// The database.
    pub database: Option<i64>,
}

struct Kept {
    target: Target,
    link: CachedLink,
    since: Instant,
}

/// The connections that are kept.
#[derive(Default)]
pub struct CachedLinks {
    /// The one that was used last is the last.
    kept: Mutex<Vec<Kept>>,
}

impl CachedLinks {
    /// Takes a connection to this target, if there is one. O(N), N = connections kept
    pub fn take(&self, target: &Target) -> Option<CachedLink> {
        let mut kept = self.kept.lock();
        let position = kept.iter().rposition(|kept| kept.target == *target)?;
        Some(kept.remove(position).link)
    }

    /// Keeps a connection. O(N), N = connections kept
    pub fn keep(&self, target: Target, link: CachedLink) {
        let mut kept = self.kept.lock();
        if kept.len() >= LINKS_MAX {
            kept.remove(0);
        }
        kept.push(Kept { target, link, since: Instant::now() });
    }

    /// Closes those that have not been used for long. O(N), N = connections kept
    pub fn close_unused(&self) {
        self.kept.lock().retain(|kept| kept.since.elapsed() < KEPT_FOR);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.kept.lock().len()
    }
}
