//! What commands do with their keys, in the words of key specifications: COMMAND INFO and COMMAND GETKEYSANDFLAGS.
//!
//! `RO` only reads a value, `RW` changes it, `OW` overwrites it, `RM` removes it. The other words are about the
//! contents of the value, not only its type, length or existence: `access` says that they are shown or copied;
//! `update`, `insert` and `delete` say how they change.

use super::row::{Command, Flags};
use crate::resp::Args;

/// What a command does with its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// With the first of them.
    pub first: Words,
    /// With the others.
    pub rest: Words,
}

/// The words for one key.
pub type Words = &'static [&'static str];

/// The same access to all of its keys.
const fn same(words: Words) -> Access {
    Access { first: words, rest: words }
}

pub(super) const LOOK: Access = same(&["RO"]);
pub(super) const READ: Access = same(&["RO", "access"]);
pub(super) const COUNT: Access = same(&["RW", "access"]);
pub(super) const UPDATE: Access = same(&["RW", "update"]);
pub(super) const INSERT: Access = same(&["RW", "insert"]);
pub(super) const DELETE: Access = same(&["RW", "delete"]);
pub(super) const READ_UPDATE: Access = same(&["RW", "access", "update"]);
pub(super) const TAKE: Access = same(&["RW", "access", "delete"]);
pub(super) const OVERWRITE: Access = same(&["OW", "update"]);
pub(super) const CREATE: Access = same(&["OW", "insert"]);
pub(super) const REMOVE: Access = same(&["RM", "delete"]);
const NO_KEY: Access = same(&["not_key"]);

/// Removes an element of the first key, adds it to the other.
pub(super) const MOVE: Access = Access { first: TAKE.first, rest: INSERT.first };
/// Reads the other keys, overwrites the first by the result.
pub(super) const STORE: Access = Access { first: OVERWRITE.first, rest: READ.first };
/// Reads the first key, overwrites the other.
pub(super) const COPY: Access = Access { first: READ.first, rest: OVERWRITE.first };
/// Reads the other keys, adds the result to the first.
pub(super) const MERGE: Access = Access { first: &["RW", "access", "insert"], rest: READ.first };
/// Removes the value of the first key, overwrites the other.
pub(super) const RENAME: Access = Access { first: TAKE.first, rest: OVERWRITE.first };
/// Removes the value of the first key, creates the other.
pub(super) const RENAME_NEW: Access = Access { first: TAKE.first, rest: CREATE.first };
/// Reads the other keys, changes the first by the result.
pub(super) const INTERSECT: Access = Access { first: UPDATE.first, rest: READ.first };

/// What a command does with its keys; if its arguments decide, the most that it may do. O(1)
pub fn of(row: &Command) -> Access {
    match row.access {
        Some(access) => access,
        None if row.flags.has(Flags::NOT_KEYS) => NO_KEY,
        None if row.is_write() => UPDATE,
        None => READ,
    }
}

/// What a request does with its keys. O(N), N = arguments
pub fn of_request(row: &Command, request: Args<'_>) -> Access {
    row.access_of.map_or_else(|| of(row), |access_of| access_of(request))
}
