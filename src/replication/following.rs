//! The state of a replica: the stream that it follows, and how it begins and ends to follow one.
//!
//! REPLICAOF takes effect at once, in a transaction as well: the role changes where it runs. A group that the link is
//! applying then is applied completely; until it is, commands that may write wait.

use super::link::Position;
use super::{Continuation, History, LinkState, Master, Replication, Role};
use crate::keyspace::StreamPlace;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

/// The state of a replica besides its role.
#[derive(Debug)]
pub struct Following {
    state: Mutex<State>,
    /// How often the role has changed: the follower of a master checks whether it must continue.
    changes: watch::Sender<u64>,
    own_feed: watch::Sender<OwnFeed>,
    /// Wakes the follower when CLIENT KILL has ended its link.
    killed: Notify,
    /// Held while a group is applied: its holder finds the data at a position of the stream.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the data is the state of a stream: that of [`History`], at the offset.
    is_of_stream: bool,
    /// The database selected at that position.
    database: u16,
    /// The end of the group that is being applied.
    applying: Option<u64>,
    /// Uptime in milliseconds when the master last sent something.
    heard_ms: u64,
    /// The offset up to which its stream has come.
    read: u64,
    /// Since when the link is down; none if it is up, or never was.
    down_since_ms: Option<u64>,
    transfer: Option<Transfer>,
    /// The ends of the link, while its stream is followed and nobody has ended it.
    ends: Option<Ends>,
    /// Whether the log has the position of the data.
    is_noted: bool,
    /// Up to where the libraries of functions were written that this server has found: they may be of later than the
    /// data, and lack nothing that the data has.
    functions: Option<Position>,
}

impl State {
    /// The offset up to which the libraries of functions were written that this server has found.
    fn functions_reach(&self) -> u64 {
        self.functions.as_ref().map_or(0, |functions| functions.offset)
    }
}

/// A snapshot that is being received from the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfer {
    /// Its length, if the master has sent it.
    pub bytes: Option<u64>,
    /// How much of it has been received.
    pub received: u64,
}

/// Whether the owners of keys push their changes: what is applied from another stream must not be in this server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnFeed {
    /// They push nothing.
    Off,
    /// They are about to push. Until they do, applying another stream and client writes both wait.
    Begins,
    /// They push.
    On,
}

/// The two ends of a link, for CLIENT LIST and KILL: the addresses of the master and of this server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ends {
    /// Its number among the connections.
    pub id: u64,
    /// When it was made, by [`uptime_ms`](crate::base::clock::uptime_ms).
    pub connected_ms: u64,
    /// Where the master is.
    pub master: String,
    /// Where this server is.
    pub local: String,
}

impl Following {
    /// Whether the owners of keys push their changes.
    pub(super) fn is_fed(&self) -> bool {
        *self.own_feed.borrow() == OwnFeed::On
    }
}

impl Default for Following {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changes: watch::Sender::new(0),
            own_feed: watch::Sender::new(OwnFeed::Off),
            killed: Notify::new(),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

/// The number of changes that means the end of the server.
const ENDED: u64 = u64::MAX;

impl Replication {
    /// Follows a master from now on; returns whether a group of the last one is still being applied.
    pub fn follow(&self, host: String, port: u16, now_ms: u64) -> bool {
        let mut state = self.following.state.lock();
        if self.role() == Role::Master {
            state.down_since_ms = None;
            // Replicas of this server are valid only if its new master has the same data.
            self.stream.cut_all();
        }
        if self.link() == Some(LinkState::Connected) {
            state.down_since_ms = Some(now_ms);
        }
        self.set_role(Role::Replica(Master { host, port, link: LinkState::Connect }));
        self.note_change();
        state.applying.is_some()
    }

    /// Becomes the master of a stream with this name, which continues the stream that it followed. Returns whether a
    /// group of its master is still being applied.
    pub fn promote(&self, id: String) -> bool {
        let mut state = self.following.state.lock();
        self.set_role(Role::Master);
        let before = self.history();
        let end = state.applying.unwrap_or(self.offset());
        let is_of_stream = std::mem::take(&mut state.is_of_stream);
        match is_of_stream {
            true => self.set_history(History { id, second_id: before.id, second_offset: Some(end + 1) }),
            // It was master a moment ago, and has not begun to follow: its stream continues.
            false if self.following.is_fed() => {}
            false => self.set_history(History::new(id)),
        }
        (state.transfer, state.functions) = (None, None);
        self.note_change();
        // Other followers of that stream continue here, and receive the new name.
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

    /// Sets whether the owners of keys push their changes.
    pub fn set_fed(&self, is_fed: bool) {
        self.following.own_feed.send_replace(if is_fed { OwnFeed::On } else { OwnFeed::Off });
    }

    /// The owners of keys are about to push their changes; false if this server follows another by now, and they must
    /// not. A server that begins to follow later waits until they push no more.
    pub fn begin_own_feed(&self) -> bool {
        // The role changes under this lock too, so the next follower sees that the feed has begun.
        let _state = self.following.state.lock();
        let may_begin = self.role() == Role::Master;
        self.following.own_feed.send_if_modified(|own_feed| {
            let begins = may_begin && *own_feed == OwnFeed::Off;
            if begins {
                *own_feed = OwnFeed::Begins;
            }
            begins
        });
        may_begin
    }

    /// The continuation of the stream for a replica that has everything before `offset` of the stream of this name.
    pub fn continued(&self, id: &str, offset: u64) -> Option<Continuation> {
        // The stream and its name change together under this lock.
        let _state = self.following.state.lock();
        let history = self.history();
        let cursor = if history.has(id, offset) { self.stream.cursor_at(offset) } else { None };
        cursor.map(|cursor| Continuation { id: history.id, cursor })
    }

    /// Begins a stream of this name, unless one has begun.
    pub fn begin_stream(&self, id: String) {
        let _state = self.following.state.lock();
        if !self.stream.backlog().is_active {
            self.set_history(History::new(id));
            self.stream.begin();
        }
    }

    /// The right to apply something, or to use the data as it is between two groups.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.following.turn.lock().await
    }

    /// Whether a stream that others have followed continues here, so that changes from now on must be in it.
    pub fn is_to_be_fed(&self) -> bool {
        self.role() == Role::Master && self.stream.backlog().is_active && !self.following.is_fed()
    }

    /// Whether the log has a position in a stream that the data no longer belongs to: changes from now on are not its
    /// master's.
    pub fn is_logged_place_outdated(&self) -> bool {
        self.role() == Role::Master && self.following.state.lock().is_noted
    }

    /// The position in the stream that the log needs then, once.
    pub fn take_place_in_no_stream(&self) -> Option<StreamPlace> {
        let is_outdated = self.is_logged_place_outdated();
        let mut state = self.following.state.lock();
        (is_outdated && std::mem::take(&mut state.is_noted)).then(|| StreamPlace::none_at(self.offset()))
    }

    /// The position of the data, for the log, which records it from now on. No group is applied meanwhile.
    pub fn place_to_note(&self) -> Option<StreamPlace> {
        let (Position { id, offset }, database) = self.position()?;
        self.following.state.lock().is_noted = true;
        Some(StreamPlace { id: Some(id), offset, database })
    }

    /// The position after a group that will be applied, for the log.
    pub fn place_after(&self, end: u64, database: u16) -> StreamPlace {
        self.following.state.lock().is_noted = true;
        StreamPlace { id: Some(self.history().id), offset: end, database }
    }

    /// Up to where the libraries of functions have something of the stream, once the group is applied that is being
    /// applied now. If a part of it is applied again, that stays where it was: they may have something of later still.
    pub fn functions_place(&self) -> Option<StreamPlace> {
        let state = self.following.state.lock();
        let end = state.applying.filter(|_| state.is_of_stream)?;
        let offset = end.max(state.functions_reach());
        Some(StreamPlace { id: Some(self.history().id), offset, database: state.database })
    }

    /// Sets up to where the libraries of functions were written that this server has found.
    pub fn set_functions_position(&self, position: Position) {
        self.following.state.lock().functions = Some(position);
    }

    /// The position that the libraries of functions are at, while the data is behind it.
    pub fn functions_ahead(&self) -> Option<Position> {
        let state = self.following.state.lock();
        state.functions.clone().filter(|functions| functions.offset > self.offset())
    }

    /// Whether a group is applied now of which the libraries of functions may have something.
    pub fn applies_what_functions_have(&self) -> bool {
        let state = self.following.state.lock();
        state.applying.is_some_and(|end| end <= state.functions_reach())
    }

    /// Waits until the owners of keys push no more changes.
    pub async fn unfed(&self) {
        self.coordination.notify_one();
        // The sender lives as long as this.
        let _ = self.following.own_feed.subscribe().wait_for(|own_feed| *own_feed == OwnFeed::Off).await;
    }

    /// Ends all following: the server ends.
    pub fn end(&self) {
        self.following.changes.send_replace(ENDED);
    }

    /// Whether the server has ended.
    pub fn has_ended(&self) -> bool {
        *self.following.changes.borrow() == ENDED
    }

    /// Notifies of changes of the role from now on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.following.changes.subscribe()
    }

    /// The state of the link to the master; the role may have changed.
    pub fn link(&self) -> Option<LinkState> {
        match self.role() {
            Role::Master => None,
            Role::Replica(master) => Some(master.link),
        }
    }

    /// Sets the state of the link; false if the role has changed meanwhile.
    pub fn set_link(&self, changes: u64, link: LinkState, now_ms: u64) -> bool {
        let mut state = self.following.state.lock();
        if *self.following.changes.borrow() != changes {
            return false;
        }
        state.heard_ms = now_ms;
        if link != LinkState::Connected {
            // What was read and not applied is gone with the link.
            state.read = 0;
        }
        if link != LinkState::Sync {
            state.transfer = None;
        }
        if let Role::Replica(master) = &mut *self.role.lock() {
            match (std::mem::replace(&mut master.link, link), link) {
                (_, LinkState::Connected) => state.down_since_ms = None,
                (LinkState::Connected, _) => state.down_since_ms = Some(now_ms),
                _ => {}
            }
        }
        true
    }

    /// Starts following the link's stream; `None` stops.
    pub fn set_ends(&self, ends: Option<Ends>) {
        self.following.state.lock().ends = ends;
    }

    /// The link to the master: its ends, when the master last sent something, and the database of its stream.
    pub fn described_link(&self) -> Option<(Ends, u64, u16)> {
        let state = self.following.state.lock();
        let ends = state.ends.clone().filter(|_| self.role() != Role::Master)?;
        Some((ends, state.heard_ms, state.database))
    }

    /// Ends the link to the master if it is meant; returns whether it was.
    pub fn end_link(&self, is_meant: impl Fn(&Ends) -> bool) -> bool {
        // A server that has just become master is about to leave its link.
        let is_replica = self.role() != Role::Master;
        let is_ended = is_replica && self.following.state.lock().ends.take_if(|ends| is_meant(ends)).is_some();
        self.following.killed.notify_waiters();
        is_ended
    }

    /// Waits until somebody ends the link.
    pub async fn link_ended(&self) {
        loop {
            let killed = self.following.killed.notified();
            if self.following.state.lock().ends.is_none() {
                return;
            }
            killed.await;
        }
    }

    /// Records that the master has sent something.
    pub fn hear_of_master(&self, now_ms: u64, read: u64) {
        let mut state = self.following.state.lock();
        (state.heard_ms, state.read) = (now_ms, read);
    }

    /// The offset up to which the stream of the master has come; not all of it has been applied if clients are paused.
    pub fn read_offset(&self) -> u64 {
        self.following.state.lock().read.max(self.offset())
    }

    /// When the master last sent something, and since when the link is down: none if it is up, or never was.
    pub fn heard_of_master(&self) -> (u64, Option<u64>) {
        let state = self.following.state.lock();
        (state.heard_ms, state.down_since_ms)
    }

    /// Sets the progress of a snapshot.
    pub fn set_transfer(&self, transfer: Transfer) {
        self.following.state.lock().transfer = Some(transfer);
    }

    /// The snapshot that is being received.
    pub fn transfer(&self) -> Option<Transfer> {
        self.following.state.lock().transfer
    }

    /// The position from which the stream of the data can continue, and the database selected there.
    pub fn position(&self) -> Option<(Position, u16)> {
        let state = self.following.state.lock();
        let position = || Position { id: self.history().id, offset: self.offset() };
        state.is_of_stream.then(|| (position(), state.database))
    }

    /// Sets that the data found at the start is that of a stream at this position.
    pub fn restore(&self, position: Position, database: u16) {
        let mut state = self.following.state.lock();
        self.stream.set_end(position.offset);
        self.stream.begin();
        self.set_history(History::new(position.id));
        (state.is_of_stream, state.database, state.is_noted) = (true, database, true);
    }

    /// The same for a master: its stream continues there under its own name, and replicas at that position need no
    /// snapshot.
    pub fn restore_as_master(&self, Position { id, offset }: Position) {
        self.stream.set_end(offset);
        self.stream.begin();
        self.set_history(History { second_id: id, second_offset: Some(offset + 1), ..self.history() });
    }

    /// The position of the data when the server ends, if that is certain.
    pub fn position_at_end(&self) -> Option<(Position, u16)> {
        if self.role() != Role::Master {
            return self.position();
        }
        let is_whole = self.stream.backlog().is_active && self.has_merged_all();
        is_whole.then(|| (Position { id: self.history().id, offset: self.offset() }, 0))
    }

    /// The stream continues under another name.
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

    /// The owners of keys push no more, because this master follows another. If its stream `has_all` its changes, it
    /// continues there if the new master knows that stream. If it has become master again meanwhile, changes are
    /// missing in the stream from now on.
    pub fn end_own_feed(&self, has_all: bool) {
        let mut state = self.following.state.lock();
        match has_all && self.role() != Role::Master {
            true => (state.is_of_stream, state.database) = (true, 0),
            false => self.stream.finish(),
        }
        self.set_fed(false);
    }

    /// The data belongs to no stream: it cannot continue anywhere.
    pub fn forget_position(&self) {
        self.following.state.lock().is_of_stream = false;
        self.stream.finish();
    }

    /// Begins to apply a group that ends at `end`; false if the role has changed, and the group must not be applied.
    pub fn begin_group(&self, changes: u64, end: u64) -> bool {
        self.begin_to_apply(changes, end).is_some()
    }

    /// The same for a snapshot, which replaces the data: meanwhile that belongs to no stream.
    pub fn begin_snapshot(&self, changes: u64, end: u64) -> bool {
        self.begin_to_apply(changes, end).map(|mut state| state.is_of_stream = false).is_some()
    }

    fn begin_to_apply(&self, changes: u64, end: u64) -> Option<MutexGuard<'_, State>> {
        let mut state = self.following.state.lock();
        if *self.following.changes.borrow() != changes {
            return None;
        }
        state.applying = Some(end);
        Some(state)
    }

    /// Records that a snapshot has replaced the data, applied like a group.
    pub fn end_snapshot(&self, changes: u64, position: Position, database: u16) {
        let mut state = self.following.state.lock();
        (state.applying, state.functions) = (None, None);
        // Replicas of this server have other data.
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

    /// Ends a group: it is applied, and these bytes are forwarded to replicas of this server; or it failed.
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
                // If this server is master by now, no replica can continue from its earlier stream.
                if self.role() == Role::Master {
                    self.set_history(History::new(self.history().id));
                }
            }
        }
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::merger::Merger;
    use super::super::{Introduction, Reach, Replica};
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Waker};

    fn replica_at(offset: u64) -> (Replication, u64) {
        let replication = Replication::new("own".into());
        replication.follow("host".into(), 1, 0);
        let changes = *replication.changes().borrow();
        assert!(replication.begin_group(changes, offset));
        replication.end_snapshot(changes, Position { id: "theirs".into(), offset }, 3);
        (replication, changes)
    }

    #[test]
    fn libraries_that_are_ahead_stay_where_they_were_until_the_stream_has_come_there() {
        let (replication, changes) = replica_at(10);
        let theirs = |offset| Position { id: "theirs".into(), offset };
        replication.set_functions_position(theirs(30));
        assert_eq!(replication.functions_place(), None, "nothing is applied");
        for (end, place, is_again) in [(20, 30, true), (30, 30, true), (40, 40, false)] {
            assert_eq!(replication.functions_ahead(), is_again.then(|| theirs(30)), "before {end}");
            assert!(replication.begin_group(changes, end));
            let noted = replication.functions_place().map(|place| (place.id, place.offset));
            assert_eq!(noted, Some((Some("theirs".into()), place)), "at {end}");
            assert_eq!(replication.applies_what_functions_have(), is_again, "at {end}");
            replication.end_group(Some((0, &[0; 10])));
        }
        replication.set_functions_position(theirs(90));
        replication.promote("new".into());
        assert_eq!(replication.functions_ahead(), None, "its stream is its own");
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
    fn nobody_goes_on_in_the_old_stream_while_a_snapshot_of_another_replaces_the_data() {
        let (replication, changes) = replica_at(10);
        assert!(replication.begin_snapshot(changes, 50));
        replication.promote("new".into());
        assert!(replication.continued("theirs", 10).is_none());
        replication.end_snapshot(changes, Position { id: "another".into(), offset: 50 }, 0);
        let wanted = History { id: "new".into(), second_id: "another".into(), second_offset: Some(51) };
        assert_eq!(replication.history(), wanted);
    }

    #[test]
    fn a_place_and_the_name_of_its_stream_belong_together_while_the_data_is_replaced() {
        let (replication, changes) = replica_at(10);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    let id = ["theirs", "another"][number % 2].into();
                    replication.begin_group(changes, 10);
                    replication.end_snapshot(changes, Position { id, offset: 10 }, 0);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let mut continued = (0..200_000).filter_map(|_| replication.continued("theirs", 10));
            let other = continued.find(|continuation| continuation.id != "theirs");
            is_over.store(true, Ordering::Relaxed);
            assert!(other.is_none(), "{other:?}");
        });
    }

    #[test]
    fn a_master_that_follows_for_a_moment_keeps_its_stream_only_until_it_is_master_again() {
        let followed = || {
            let replication = Replication::new("own".into());
            replication.stream.begin();
            replication.set_fed(true);
            replication.follow("host".into(), 1, 0);
            replication
        };
        let replication = followed();
        replication.end_own_feed(true);
        assert!(replication.position().is_some(), "it has all of its stream");
        let replication = followed();
        replication.promote("new".into());
        replication.end_own_feed(true);
        assert!(!replication.is_to_be_fed(), "changes since then would be missing in it");
    }

    #[test]
    fn a_promoted_server_adds_nothing_to_the_stream_before_the_last_group_of_its_master_is_applied() {
        let (replication, changes) = replica_at(10);
        let _attached = replication.attach(Arc::new(Replica::new(1, Introduction::default(), false, 0)));
        assert!(replication.begin_group(changes, 25));
        replication.promote("new".into());
        let mut merger = Merger::new(1);
        replication.ping();
        assert_eq!(replication.advance(Reach::default(), true).offset, Some(0), "a client waits");
        replication.emit_requested(&mut merger);
        replication.end_group(Some((0, &[0; 15])));
        assert_eq!(replication.offset(), 25);
        assert!(replication.begin_own_feed());
        replication.set_fed(true);
        replication.emit_requested(&mut merger);
        assert!(replication.offset() > 25, "a sign of life is in the stream once it is its own");
    }

    #[test]
    fn a_server_that_follows_waits_for_the_end_of_a_feed_that_was_about_to_begin() {
        let (replication, _) = replica_at(10);
        replication.promote("new".into());
        assert!(replication.is_to_be_fed() && replication.begin_own_feed());
        assert!(replication.is_to_be_fed(), "writes wait until it has begun");
        replication.follow("host".into(), 1, 0);
        let mut unfed = pin!(replication.unfed());
        let mut context = Context::from_waker(Waker::noop());
        assert!(unfed.as_mut().poll(&mut context).is_pending());
        replication.set_fed(true);
        assert!(unfed.as_mut().poll(&mut context).is_pending());
        replication.end_own_feed(true);
        assert!(unfed.as_mut().poll(&mut context).is_ready());
        assert!(!replication.begin_own_feed(), "a replica has no feed of its own");
    }

    #[test]
    fn no_client_waits_for_more_than_the_stream_has() {
        let (replication, changes) = replica_at(1000);
        replication.note_settled(0, true);
        replication.end_snapshot(changes, Position { id: "another".into(), offset: 50 }, 0);
        replication.promote("new".into());
        assert_eq!(replication.advance(Reach::default(), true).offset, Some(50));
    }

    #[test]
    fn nobody_continues_after_what_could_not_be_applied() {
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
