//! The reorder buffer puts results that arrive in any order into request order.
//!
//! Shards finish in any order; a client that matches results by position alone needs them in order.

use std::collections::VecDeque;

/// Holds results by sequence number until everything before them has been taken.
///
/// Invariants: `next <= seq` for every held result; each sequence number is inserted once and taken once, in order;
/// the buffer spans as many numbers as the furthest held result is ahead of `next`, so a bound on what is in flight
/// bounds the buffer.
#[derive(Debug)]
pub struct ReorderBuffer<R> {
    next: u64,
    slots: VecDeque<Option<R>>,
}

impl<R> Default for ReorderBuffer<R> {
    fn default() -> Self {
        Self { next: 0, slots: VecDeque::new() }
    }
}

impl<R> ReorderBuffer<R> {
    /// The next sequence number to be taken.
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// Whether no result is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Holds the result of `seq`.
    ///
    /// # Panics
    /// If `seq` was inserted before: two results for one request would shift every later one.
    pub fn insert(&mut self, seq: u64, result: R) {
        let ahead = seq.checked_sub(self.next).expect("each sequence number is answered once");
        let index = usize::try_from(ahead).expect("what bounds the commands in flight bounds the buffer");
        if index == self.slots.len() {
            self.slots.push_back(Some(result));
            return;
        }
        if index > self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        let previous = self.slots[index].replace(result);
        assert!(previous.is_none(), "each sequence number is answered once");
    }

    /// Skips `count` sequence numbers whose results bypassed the buffer: they were the next in order.
    ///
    /// # Panics
    /// If a result is held: it would lose its place.
    pub fn advance(&mut self, count: u64) {
        assert!(self.slots.is_empty(), "no held result loses its place");
        self.next += count;
    }

    /// Takes the result of the next sequence number, if it has arrived.
    pub fn pop_ready(&mut self) -> Option<R> {
        self.slots.front()?.as_ref()?;
        self.next += 1;
        self.slots.pop_front().flatten()
    }

    /// Frees memory that a burst left over.
    pub fn shrink_to(&mut self, slots: usize) {
        self.slots.shrink_to(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn drain<R>(buffer: &mut ReorderBuffer<R>) -> Vec<R> {
        std::iter::from_fn(|| buffer.pop_ready()).collect()
    }

    #[test]
    fn a_result_waits_for_everything_before_it() {
        let mut buffer = ReorderBuffer::default();
        buffer.insert(2, 'c');
        buffer.insert(1, 'b');
        assert_eq!(drain(&mut buffer), vec![]);
        buffer.insert(0, 'a');
        assert_eq!(drain(&mut buffer), vec!['a', 'b', 'c']);
        assert!(buffer.is_empty());
        assert_eq!(buffer.next_seq(), 3);
    }

    #[test]
    fn results_in_order_pass_straight_through() {
        let mut buffer = ReorderBuffer::default();
        for seq in 0..100 {
            buffer.insert(seq, seq);
            assert_eq!(buffer.pop_ready(), Some(seq));
        }
    }

    #[test]
    #[should_panic(expected = "answered once")]
    fn a_second_result_for_a_held_sequence_number_panics() {
        let mut buffer = ReorderBuffer::default();
        buffer.insert(3, ());
        buffer.insert(3, ());
    }

    #[test]
    #[should_panic(expected = "answered once")]
    fn a_second_result_for_a_taken_sequence_number_panics() {
        let mut buffer = ReorderBuffer::default();
        buffer.insert(0, ());
        buffer.pop_ready();
        buffer.insert(0, ());
    }

    #[test]
    #[should_panic(expected = "no held result loses its place")]
    fn passing_over_a_held_result_panics() {
        let mut buffer = ReorderBuffer::default();
        buffer.insert(1, ());
        buffer.advance(1);
    }

    /// The operations on a buffer; numbers choose among those that are valid at that moment.
    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64),
        Take,
        Advance(u64),
        Shrink(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..20).prop_map(Step::Insert),
            3 => Just(Step::Take),
            1 => (0u64..5).prop_map(Step::Advance),
            1 => (0usize..8).prop_map(Step::Shrink),
        ]
    }

    proptest! {
        #[test]
        fn any_steps_do_what_a_sorted_map_would_do(steps in prop::collection::vec(step(), 0..400)) {
            let mut buffer = ReorderBuffer::default();
            let mut next = 0;
            let mut held = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Insert(ahead) => {
                        let seq = next + ahead;
                        if held.insert(seq, seq).is_none() {
                            buffer.insert(seq, seq);
                        }
                    }
                    Step::Take => {
                        let taken = held.remove(&next);
                        prop_assert_eq!(buffer.pop_ready(), taken);
                        next += taken.map_or(0, |_| 1);
                    }
                    Step::Advance(count) if buffer.is_empty() => {
                        buffer.advance(count);
                        next += count;
                    }
                    Step::Advance(_) => {}
                    Step::Shrink(slots) => buffer.shrink_to(slots),
                }
                prop_assert_eq!(buffer.next_seq(), next);
                prop_assert_eq!(buffer.is_empty(), held.is_empty());
                let span = held.keys().last().map_or(0, |last| last - next + 1);
                prop_assert_eq!(buffer.slots.len() as u64, span, "it spans what the furthest held result is ahead");
            }
        }

        #[test]
        fn any_order_of_arrival_and_of_taking_gives_request_order(
            order in (0usize..300).prop_flat_map(|n| Just((0..n as u64).collect::<Vec<_>>()).prop_shuffle()),
            take_after in prop::collection::vec(any::<bool>(), 300),
        ) {
            let mut buffer = ReorderBuffer::default();
            let mut taken = Vec::new();
            for (step, &seq) in order.iter().enumerate() {
                buffer.insert(seq, seq);
                if take_after[step] {
                    taken.extend(drain(&mut buffer));
                }
            }
            taken.extend(drain(&mut buffer));
            prop_assert_eq!(taken, (0..order.len() as u64).collect::<Vec<_>>());
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn runs_that_go_past_the_buffer_keep_their_place(
            runs in prop::collection::vec(1u64..6, 1..60).prop_map(|lengths| {
                let starts = lengths.iter().scan(0, |next, length| Some(std::mem::replace(next, *next + length)));
                starts.zip(lengths.clone()).collect::<Vec<_>>()
            }).prop_shuffle(),
        ) {
            let mut buffer = ReorderBuffer::default();
            let mut released = Vec::new();
            for (start, length) in runs {
                let run = start..start + length;
                if buffer.is_empty() && buffer.next_seq() == start {
                    buffer.advance(length);
                    released.extend(run);
                } else {
                    run.for_each(|seq| buffer.insert(seq, seq));
                    released.extend(drain(&mut buffer));
                }
            }
            prop_assert!(buffer.is_empty());
            let all = buffer.next_seq();
            prop_assert_eq!(released, (0..all).collect::<Vec<_>>());
        }
    }
}
