//! The latency monitor: events that took longer than `latency-monitor-threshold`, by kind.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most samples that are kept of an event.
const SAMPLES_MAX: usize = 160;

/// The time and the duration of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub at_s: u64,
    /// Its duration in milliseconds.
    pub ms: u64,
}

/// One kind of event.
#[derive(Debug, Default, Clone)]
pub struct Event {
    /// The last samples, the oldest first; one for each second, the longest.
    pub samples: VecDeque<Sample>,
    /// The longest one ever.
    pub ms_max: u64,
}

/// The recorded events.
#[derive(Debug, Default)]
pub struct Monitor {
    events: Mutex<BTreeMap<&'static str, Event>>,
    /// Milliseconds from which on an event is kept; 0 for none.
    threshold_ms: AtomicU64,
}

impl Monitor {
    /// Sets from how many milliseconds on an event is kept; 0 for none.
    pub fn set_threshold_ms(&self, threshold_ms: u64) {
        self.threshold_ms.store(threshold_ms, Ordering::Relaxed);
    }

    /// Records an event if it took long. O(1)
    pub fn note(&self, event: &'static str, sample: Sample) {
        let threshold_ms = self.threshold_ms.load(Ordering::Relaxed);
        if threshold_ms > 0 && sample.ms >= threshold_ms {
            self.keep(event, sample);
        }
    }

    fn keep(&self, event: &'static str, sample: Sample) {
        let mut events = self.events.lock();
        let event = events.entry(event).or_default();
        event.ms_max = event.ms_max.max(sample.ms);
        match event.samples.back_mut().filter(|last| last.at_s == sample.at_s) {
            Some(last) => last.ms = last.ms.max(sample.ms),
            None => event.samples.push_back(sample),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// Every kind of event with its samples.
    pub fn events(&self) -> Vec<(&'static str, Event)> {
        self.events.lock().iter().map(|(name, event)| (*name, event.clone())).collect()
    }

    /// A kind of event with its samples, if it has any.
    pub fn event(&self, event: &[u8]) -> Option<Event> {
        self.events.lock().get(std::str::from_utf8(event).ok()?).cloned()
    }

    /// The samples of a kind, the oldest first.
    pub fn history(&self, event: &[u8]) -> Vec<Sample> {
        self.event(event).map(|event| event.samples.into()).unwrap_or_default()
    }

    /// Removes the kinds that `is_named` selects, and returns how many there were.
    pub fn reset(&self, is_named: impl Fn(&[u8]) -> bool) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|name, _| !is_named(name.as_bytes()));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_longest_sample_and_old_ones_go() {
        let monitor = Monitor::default();
        monitor.note("command", Sample { at_s: 1, ms: 99 });
        assert!(monitor.events().is_empty(), "nothing is kept where there is no threshold");
        monitor.set_threshold_ms(1);
        monitor.note("command", Sample { at_s: 1, ms: 0 });
        assert!(monitor.events().is_empty(), "what is shorter is not kept");
        for (at_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            monitor.note("command", Sample { at_s, ms });
        }
        assert_eq!(monitor.history(b"command"), [Sample { at_s: 1, ms: 9 }, Sample { at_s: 2, ms: 3 }]);
        (3..500).for_each(|at_s| monitor.note("command", Sample { at_s, ms: 1 }));
        assert_eq!(monitor.history(b"command").len(), SAMPLES_MAX);
        assert_eq!(monitor.events()[0].1.ms_max, 9);
        assert_eq!(monitor.reset(|name| name == b"command"), 1);
        assert!(monitor.history(b"command").is_empty() && monitor.history(b"\xff").is_empty());
    }
}
