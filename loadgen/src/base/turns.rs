//! Which requests belong to a share of them.

/// Spreads a part of the requests evenly among the others: exact in every `total`, without bursts.
///
/// Invariant: `owed < total`.
#[derive(Debug)]
pub(crate) struct Turns {
    part: u64,
    total: u64,
    owed: u64,
}

impl Turns {
    /// `part` of every `total` requests, of which there is at least one.
    pub(crate) fn new(part: u64, total: u64) -> Self {
        Self { part, total, owed: 0 }
    }

    /// Whether the next request belongs to the part.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        self.owed += self.part;
        if self.owed < self.total {
            return false;
        }
        self.owed -= self.total;
        true
    }

    /// Whether the next request belongs to the part, and how many after it are the same; at most `most` in all.
    #[inline]
    pub(crate) fn next_run(&mut self, most: u64) -> (bool, u64) {
        let is_part = self.next();
        let mut count = 1;
        while count < most && (self.owed + self.part >= self.total) == is_part {
            self.next();
            count += 1;
        }
        (is_part, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_exact_in_every_cycle_and_spread_within_it() {
        for (part, total) in [(1, 11), (10, 11), (5, 10), (3, 10), (0, 1), (1, 1), (1, 1000)] {
            let mut turns = Turns::new(part, total);
            for _ in 0..3 {
                let taken = (0..total).filter(|_| turns.next()).count();
                assert_eq!(taken as u64, part, "{part} of {total}");
            }
        }
        let (mut runs, mut turns) = (Turns::new(3, 10), Turns::new(3, 10));
        for most in 1..100 {
            let (is_part, count) = runs.next_run(most % 7);
            assert!(count <= (most % 7).max(1) && (0..count).all(|_| turns.next() == is_part));
        }
        let mut even = Turns::new(5, 10);
        assert!((0..10).all(|n| even.next() == (n % 2 == 1)));
    }
}
