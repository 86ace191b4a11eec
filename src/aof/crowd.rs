//! Who waits for the next fsync under `always`: it begins when they are enough (docs/adr/0015).

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many replies wait for the next fsync, and how many are enough for it to begin.
///
/// Clients who wait for their replies come back together: those of one fsync are about to write again when it ends. One
/// that began with the first of them would cover few, and all the others would wait for the next. As each costs as much
/// processor time as several commands, it is put off until most of those are back who were seen at the last one.
///
/// These are hints for one log thread: a reply that is counted for the fsync after the one that covers it makes that
/// begin earlier, and nothing wrong.
#[derive(Debug, Default)]
pub struct Crowd {
    waiting: AtomicUsize,
    enough: AtomicUsize,
}

impl Crowd {
    /// One more waits; true when it is enough with this one.
    pub fn join(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.enough.load(Ordering::Acquire)
    }

    /// Whether so many wait that an fsync may begin.
    pub fn is_enough(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= self.enough.load(Ordering::Acquire)
    }

    /// An fsync begins: how many share it.
    pub fn begin(&self) -> usize {
        self.waiting.swap(0, Ordering::AcqRel)
    }

    /// It has ended: nine in ten of those who shared it, or came meanwhile, are enough for the next.
    pub fn end(&self, shared: usize) {
        let seen = shared + self.waiting.load(Ordering::Acquire);
        self.enough.store((seen * 9).div_ceil(10), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An fsync that `sharing` share and during which `coming` come: whether the next may begin at once.
    fn may_begin_at_once(crowd: &Crowd, sharing: usize, coming: usize) -> bool {
        for _ in 0..sharing {
            crowd.join();
        }
        let shared = crowd.begin();
        for _ in 0..coming {
            crowd.join();
        }
        crowd.end(shared);
        crowd.is_enough()
    }

    #[test]
    fn a_client_alone_never_waits_for_others() {
        let crowd = Crowd::default();
        assert!(crowd.is_enough(), "the first fsync");
        assert!(!may_begin_at_once(&crowd, 1, 0), "nobody is there to begin for");
        assert!(crowd.join(), "its next write begins the next fsync");
    }

    #[test]
    fn an_fsync_begins_with_nine_in_ten_of_those_who_were_seen_at_the_last() {
        let crowd = Crowd::default();
        assert!(!may_begin_at_once(&crowd, 45, 5));
        let begins = (0..50).map(|_| crowd.join()).collect::<Vec<_>>();
        assert_eq!(begins.iter().position(|&is_enough| is_enough), Some(39), "5 are there: 40 more make it 45 of 50");
        assert_eq!(begins.iter().filter(|&&is_enough| is_enough).count(), 1, "the log thread is woken once");
    }

    #[test]
    fn a_crowd_that_has_left_is_forgotten_with_the_next_fsync() {
        let crowd = Crowd::default();
        may_begin_at_once(&crowd, 50, 0);
        assert!(!may_begin_at_once(&crowd, 1, 0));
        assert!(crowd.join());
    }
}
