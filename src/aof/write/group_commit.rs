//! The replies that wait for the next fsync under `always`: it begins when they are enough (docs/adr/0015).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many replies wait for the next fsync, and how many are enough for it to begin.
///
/// Clients that wait for their replies come back together: the clients of one fsync are about to write again when it
/// ends. An fsync that began with the first of them would cover few, and all the others would wait for the next. Each
/// fsync costs as much processor time as several commands, so it is delayed until enough clients of the last one are
/// back; [`CommitPacer`] says how many.
///
/// These are hints for one log thread: a reply counted for the fsync after the one that covers it only makes that fsync
/// begin earlier.
#[derive(Debug, Default)]
pub struct GroupCommit {
    waiting: AtomicUsize,
    enough: AtomicUsize,
}

impl GroupCommit {
    /// Adds a waiting reply; true if there are now enough.
    pub fn join(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.enough.load(Ordering::Acquire)
    }

    /// Whether enough replies wait for an fsync to begin.
    pub fn is_enough(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= self.enough.load(Ordering::Acquire)
    }

    /// Begins an fsync, and returns how many replies share it.
    pub fn begin(&self) -> usize {
        self.waiting.swap(0, Ordering::AcqRel)
    }

    /// Ends an fsync that took this long. Those that shared it and those that came meanwhile are all active clients;
    /// returns how many these are.
    pub fn end(&self, shared: usize, took: Duration, pacer: &mut CommitPacer) -> usize {
        let waiting = self.waiting.load(Ordering::Acquire);
        let seen = shared + waiting;
        self.enough.store((seen * pacer.tenths(seen, took)).div_ceil(10), Ordering::Release);
        pacer.waited_at_end = waiting;
        seen
    }
}

/// How fast clients come back after an fsync, and so how many replies to wait for.
///
/// Where clients mostly wait for the disk, one group is best: with two, each half would wait for the other half's fsync
/// and for its own. Where an fsync takes less time than serving all clients and reading their next writes, two groups
/// are better: one is served while the other waits for the disk, and neither the processor nor the disk is idle. Where
/// an fsync takes next to no time, two groups gain nothing, and each fsync costs processor time.
#[derive(Debug, Default)]
pub struct CommitPacer {
    /// The time from one client to the next, smoothed.
    per_client: Duration,
    /// How many waited when the last fsync ended.
    waited_at_end: usize,
}

impl CommitPacer {
    /// A new measurement changes the average by one part in this many.
    const SMOOTHING: u32 = 8;
    /// Hiding an fsync is worth it if it takes at least one part in this many of the clients' time.
    const WORTH_HIDING: u32 = 8;

    /// An fsync begins that `sharing` replies share, `took` after the one before.
    pub fn note_gathering(&mut self, sharing: usize, took: Duration) {
        let came = sharing.saturating_sub(self.waited_at_end);
        if came > 0 {
            let per_client = took / u32::try_from(came).unwrap_or(u32::MAX);
            self.per_client = (self.per_client * (Self::SMOOTHING - 1) + per_client) / Self::SMOOTHING;
        }
    }

    /// How many tenths of the clients seen are enough for the next fsync.
    fn tenths(&self, seen: usize, sync: Duration) -> usize {
        let all = self.per_client * u32::try_from(seen).unwrap_or(u32::MAX);
        if (all / Self::WORTH_HIDING..all).contains(&sync) { 5 } else { 9 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(1);

    /// Whether the next fsync may begin at once, after one that `sharing` replies share while `coming` come, one client
    /// each `per_client`.
    fn may_begin_at_the_pace(group: &GroupCommit, sharing: usize, coming: usize, per_client: Duration) -> bool {
        for _ in 0..sharing {
            group.join();
        }
        let shared = group.begin();
        for _ in 0..coming {
            group.join();
        }
        group.end(shared, SYNC, &mut CommitPacer { per_client, waited_at_end: 0 });
        group.is_enough()
    }

    /// The same, where the disk is slower than the clients.
    fn may_begin_at_once(group: &GroupCommit, sharing: usize, coming: usize) -> bool {
        may_begin_at_the_pace(group, sharing, coming, Duration::ZERO)
    }

    #[test]
    fn a_client_alone_never_waits_for_others() {
        let group = GroupCommit::default();
        assert!(group.is_enough(), "the first fsync");
        assert!(!may_begin_at_once(&group, 1, 0), "nobody is there to begin for");
        assert!(group.join(), "its next write begins the next fsync");
    }

    #[test]
    fn an_fsync_begins_with_nine_in_ten_of_those_who_were_seen_at_the_last() {
        let group = GroupCommit::default();
        assert!(!may_begin_at_once(&group, 45, 5));
        let begins = (0..50).map(|_| group.join()).collect::<Vec<_>>();
        assert_eq!(begins.iter().position(|&is_enough| is_enough), Some(39), "5 are there: 40 more make it 45 of 50");
        assert_eq!(begins.iter().filter(|&&is_enough| is_enough).count(), 1, "the log thread is woken once");
    }

    #[test]
    fn where_the_disk_is_faster_than_the_clients_half_of_them_are_enough() {
        let group = GroupCommit::default();
        assert!(!may_begin_at_the_pace(&group, 40, 10, SYNC / 49));
        let begins = (0..50).map(|_| group.join()).collect::<Vec<_>>();
        assert_eq!(begins.iter().position(|&is_enough| is_enough), Some(14), "10 are there: 15 more make it 25 of 50");
    }

    #[test]
    fn the_pace_is_that_of_those_who_came_since_the_last_fsync() {
        let mut pacer = CommitPacer { per_client: Duration::ZERO, waited_at_end: 20 };
        for _ in 0..100 {
            pacer.note_gathering(30, Duration::from_micros(100));
        }
        assert!((9..=10).contains(&pacer.per_client.as_micros()), "10 came in 100 us: {pacer:?}");
        pacer.note_gathering(20, Duration::from_secs(1));
        assert!(pacer.per_client < Duration::from_micros(11), "nobody came: {pacer:?}");
        let tenths = [700, 300, 50].map(|sync| pacer.tenths(50, Duration::from_micros(sync)));
        assert_eq!(tenths, [9, 5, 9], "a slow disk, a fast one, one that is as good as none");
    }

    #[test]
    fn a_group_that_has_left_is_forgotten_with_the_next_fsync() {
        let group = GroupCommit::default();
        may_begin_at_once(&group, 50, 0);
        assert!(!may_begin_at_once(&group, 1, 0));
        assert!(group.join());
    }
}
