//! What a replica knows of the stream that it follows, and how it begins and ends to follow one.
//!
//! REPLICAOF takes effect at once, in a transaction as well: the role changes where it runs. What the link applies just
//! then is applied to its end; until it is, what may write has to wait.

use super::link::Position;
use super::{History, LinkState, Master, Replication, Role};
use crate::keyspace::StreamPlace;
use parking_lot::Mutex;
use tokio::sync::watch;

/// What a replica knows beside its role.
#[derive(Debug)]
pub struct Following {
    state: Mutex<State>,
    /// How often the role has changed: whoever follows a master looks whether it still is to.
    changes: watch::Sender<u64>,
    /// Whether the owners of keys push what they change: what is applied of another's stream must not be in an own one.
    is_fed: watch::Sender<bool>,
    /// Held while a group is applied: whoever has it finds the data at a place of the stream.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the data is what a stream made of it, which is that of [`History`] up to the offset.
    is_of_stream: bool,
    /// The database that is selected there.
    database: u16,
    /// Where the stream stands behind the group that is being applied.
    applying: Option<u64>,
    /// Uptime in milliseconds when the master last sent something.
    heard_ms: u64,
    /// Since when there is no link.
    down_since_ms: Option<u64>,
    transfer: Option<Transfer>,
    /// Whether the log says where the data stands.
    is_noted: bool,
}

/// A snapshot on its way from the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfer {
    /// How long it is, where the master has said so.
    pub bytes: Option<u64>,
    /// How much of it is here.
    pub received: u64,
}

impl Following {
    /// Whether the owners of keys push what they change.
    pub(super) fn is_fed(&self) -> bool {
        *self.is_fed.borrow()
    }
}

impl Default for Following {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changes: watch::Sender::new(0),
            is_fed: watch::Sender::new(false),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

/// The number of changes that stands for the end of the server.
const ENDED: u64 = u64::MAX;

impl Replication {
    /// Follows a master from now on; gives whether something is still applied that the last one has sent.
    pub fn follow(&self, host: String, port: u16, now_ms: u64) -> bool {
        let mut state = self.following.state.lock();
        state.down_since_ms = Some(now_ms);
        if self.role() == Role::Master {
            // Those who follow this server have what it has only when that is its new master's.
            self.stream.cut_all();
        }
        self.set_role(Role::Replica(Master { host, port, link: LinkState::Connect }));
        self.note_change();
        state.applying.is_some()
    }

    /// Is a master from now on, of a stream with this name: up to here it is what it followed. Gives whether something is
    /// still applied that its master has sent.
    pub fn promote(&self, id: String) -> bool {
        let mut state = self.following.state.lock();
        self.set_role(Role::Master);
        let before = self.history();
        let end = state.applying.unwrap_or(self.offset());
        let is_of_stream = std::mem::take(&mut state.is_of_stream);
        match is_of_stream {
            true => self.set_history(History { id, second_id: before.id, second_offset: Some(end + 1) }),
            // It was master a moment ago, and nothing has come of what it was to be: its stream goes on.
            false if self.following.is_fed() => {}
            false => self.set_history(History::new(id)),
        }
        state.transfer = None;
        self.note_change();
        // Those who followed it too go on here, and learn the new name.
        self.stream.cut_all();
        state.applying.is_some()
    }

    fn note_change(&self) {
        self.following.changes.send_modify(|changes| {
            if *changes != ENDED {
                *changes += 1;
            }
        });
    }

    /// Says whether the owners of keys push what they change.
    pub fn set_fed(&self, is_fed: bool) {
        self.following.is_fed.send_replace(is_fed);
    }

    /// The right to apply something, or to find the data as it is between two groups.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.following.turn.lock().await
    }

    /// Whether a stream goes on here that others have followed: what changes from now on has to be in it.
    pub fn is_to_be_fed(&self) -> bool {
        self.role() == Role::Master && self.stream.backlog().is_active && !*self.following.is_fed.borrow()
    }

    /// Whether the log says where the data stands in a stream that it is no longer of: what changes from now on is none of
    /// its master's.
    pub fn is_note_outdated(&self) -> bool {
        self.role() == Role::Master && self.following.state.lock().is_noted
    }

    /// What the log is to say then, once.
    pub fn take_outdated_note(&self) -> Option<StreamPlace> {
        let is_outdated = self.is_note_outdated();
        let mut state = self.following.state.lock();
        (is_outdated && std::mem::take(&mut state.is_noted)).then(|| StreamPlace::none_at(self.offset()))
    }

    /// Where the data stands, for the log, which has it from now on. Nothing of a group is applied meanwhile.
    pub fn place_to_note(&self) -> Option<StreamPlace> {
        let (Position { id, offset }, database) = self.position()?;
        self.following.state.lock().is_noted = true;
        Some(StreamPlace { id: Some(id), offset, database })
    }

    /// Where it will stand behind a group that is to be applied, for the log.
    pub fn place_behind(&self, end: u64, database: u16) -> StreamPlace {
        self.following.state.lock().is_noted = true;
        StreamPlace { id: Some(self.history().id), offset: end, database }
    }

    /// Waits until they do not.
    pub async fn unfed(&self) {
        self.coordination.notify_one();
        // The sender lives as long as this.
        let _ = self.following.is_fed.subscribe().wait_for(|is_fed| !is_fed).await;
    }

    /// Follows nobody any more: the server ends.
    pub fn end(&self) {
        self.following.changes.send_replace(ENDED);
    }

    /// Whether the server has ended.
    pub fn has_ended(&self) -> bool {
        *self.following.changes.borrow() == ENDED
    }

    /// What tells that the role has changed since now.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.following.changes.subscribe()
    }

    /// What the link to the master does; the role may be another by now.
    pub fn link(&self) -> Option<LinkState> {
        match self.role() {
            Role::Master => None,
            Role::Replica(master) => Some(master.link),
        }
    }

    /// Says what the link does; false where the role has changed meanwhile.
    pub fn set_link(&self, changes: u64, link: LinkState, now_ms: u64) -> bool {
        let mut state = self.following.state.lock();
        if *self.following.changes.borrow() != changes {
            return false;
        }
        state.heard_ms = now_ms;
        match link {
            LinkState::Connected => state.down_since_ms = None,
            _ => _ = state.down_since_ms.get_or_insert(now_ms),
        }
        if link != LinkState::Sync {
            state.transfer = None;
        }
        if let Role::Replica(master) = &mut *self.role.lock() {
            master.link = link;
        }
        true
    }

    /// The master has sent something.
    pub fn hear_of_master(&self, now_ms: u64) {
        self.following.state.lock().heard_ms = now_ms;
    }

    /// When it did last, and since when there is no link.
    pub fn heard_of_master(&self) -> (u64, Option<u64>) {
        let state = self.following.state.lock();
        (state.heard_ms, state.down_since_ms)
    }

    /// How far a snapshot is.
    pub fn set_transfer(&self, transfer: Transfer) {
        self.following.state.lock().transfer = Some(transfer);
    }

    /// The snapshot that is on its way.
    pub fn transfer(&self) -> Option<Transfer> {
        self.following.state.lock().transfer
    }

    /// Where the stream can go on that the data is of, and the database that is selected there.
    pub fn position(&self) -> Option<(Position, u16)> {
        let state = self.following.state.lock();
        let position = || Position { id: self.history().id, offset: self.offset() };
        state.is_of_stream.then(|| (position(), state.database))
    }

    /// The data that was found at the start is that of a stream at this place.
    pub fn restore(&self, position: Position, database: u16) {
        let mut state = self.following.state.lock();
        self.stream.set_end(position.offset);
        self.stream.begin();
        self.set_history(History::new(position.id));
        (state.is_of_stream, state.database, state.is_noted) = (true, database, true);
    }

    /// The same for a master: its stream goes on there under the name that it has, and those who were there need no
    /// snapshot.
    pub fn restore_as_master(&self, Position { id, offset }: Position) {
        self.stream.set_end(offset);
        self.stream.begin();
        self.set_history(History { second_id: id, second_offset: Some(offset + 1), ..self.history() });
    }

    /// Where the data stands when the server ends, where that is certain.
    pub fn position_at_end(&self) -> Option<(Position, u16)> {
        if self.role() != Role::Master {
            return self.position();
        }
        let is_whole = self.stream.backlog().is_active && self.has_merged_all();
        is_whole.then(|| (Position { id: self.history().id, offset: self.offset() }, 0))
    }

    /// The stream goes on under another name.
    pub fn rename_stream(&self, id: String) {
        let _state = self.following.state.lock();
        let before = self.history();
        if before.id != id {
            let second_offset = Some(self.offset() + 1);
            self.set_history(History { id, second_id: before.id, second_offset });
            self.stream.cut_all();
        }
        self.stream.begin();
    }

    /// A master that follows another has all in its stream that it has changed: where its new master knows that stream, it
    /// goes on there.
    pub fn keep_own_position(&self) {
        let mut state = self.following.state.lock();
        (state.is_of_stream, state.database) = (true, 0);
    }

    /// The data is that of no stream: it cannot go on anywhere.
    pub fn forget_position(&self) {
        self.following.state.lock().is_of_stream = false;
        self.stream.finish();
    }

    /// A group is applied, behind which the stream stands there; false where the role has changed, and it must not be.
    pub fn begin_group(&self, changes: u64, end: u64) -> bool {
        let mut state = self.following.state.lock();
        if *self.following.changes.borrow() != changes {
            return false;
        }
        state.applying = Some(end);
        true
    }

    /// A snapshot has taken the place of the data, as a group.
    pub fn end_snapshot(&self, changes: u64, position: Position, database: u16) {
        let mut state = self.following.state.lock();
        state.applying = None;
        // Who follows this server has other data.
        self.stream.finish();
        self.set_offset(position.offset);
        self.stream.begin();
        let has_left = *self.following.changes.borrow() != changes;
        if has_left && self.role() == Role::Master {
            let (id, second_offset) = (self.history().id, Some(position.offset + 1));
            return self.set_history(History { id, second_id: position.id, second_offset });
        }
        self.set_history(History::new(position.id));
        (state.is_of_stream, state.database) = (true, database);
    }

    /// It is applied, and goes on as these bytes to whoever follows this server; or it could not be.
    pub fn end_group(&self, applied: Option<(u16, &[u8])>) {
        let mut state = self.following.state.lock();
        let end = state.applying.take().expect("it was begun");
        match applied {
            Some((database, bytes)) => {
                self.stream.append(bytes);
                assert_eq!(self.offset(), end, "a group ends where its bytes do");
                state.database = database;
            }
            None => {
                state.is_of_stream = false;
                self.stream.finish();
                // Where this server is master by now, nobody can go on from what it had of the stream before.
                if self.role() == Role::Master {
                    self.set_history(History::new(self.history().id));
                }
            }
        }
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn replica_at(offset: u64) -> (Replication, u64) {
        let replication = Replication::new("own".into());
        replication.follow("host".into(), 1, 0);
        let changes = *replication.changes().borrow();
        assert!(replication.begin_group(changes, offset));
        replication.end_snapshot(changes, Position { id: "theirs".into(), offset }, 3);
        (replication, changes)
    }

    #[test]
    fn promotion_keeps_the_name_of_the_stream_for_those_who_followed_it_too() {
        let (replication, _) = replica_at(10);
        assert!(!replication.promote("new".into()), "nothing is applied");
        let wanted = History { id: "new".into(), second_id: "theirs".into(), second_offset: Some(11) };
        assert_eq!(replication.history(), wanted);
        assert_eq!(replication.position(), None);
    }

    #[test]
    fn what_is_applied_while_the_role_changes_is_of_the_old_stream() {
        let (replication, changes) = replica_at(10);
        assert!(replication.begin_group(changes, 25));
        assert!(replication.promote("new".into()), "what was begun goes on");
        assert_eq!(replication.history().second_offset, Some(26));
        replication.end_group(Some((0, &[0; 15])));
        assert_eq!(replication.offset(), 25);
        assert!(!replication.begin_group(changes, 30), "nothing more of it is applied");
    }

    #[test]
    fn nobody_goes_on_behind_what_could_not_be_applied() {
        let (replication, changes) = replica_at(10);
        replication.begin_group(changes, 25);
        replication.end_group(None);
        assert_eq!((replication.position(), replication.offset()), (None, 10));
        replication.promote("new".into());
        assert_eq!(replication.history(), History::new("new".into()));
    }

    #[test]
    fn a_link_that_is_no_longer_wanted_says_nothing() {
        let (replication, changes) = replica_at(10);
        assert!(replication.set_link(changes, LinkState::Connected, 5));
        replication.follow("other".into(), 2, 6);
        assert!(!replication.set_link(changes, LinkState::Connected, 7));
        assert_eq!(replication.link(), Some(LinkState::Connect));
    }
}
