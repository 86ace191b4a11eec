//! How long commands take, in ticks of the processor's counter, and which took long.

use crate::base::tsc;
use crate::stats::slow_log::Slow;

/// The times of commands that run one after another: the end of one is the beginning of the next.
#[derive(Debug)]
pub struct Timing {
    began_at: u64,
    slow: Vec<Slow>,
}

impl Timing {
    /// The first command begins now.
    pub fn begin() -> Self {
        Self { began_at: tsc::now(), slow: Vec::new() }
    }

    /// Starts timing the command that runs next, if it starts later than the one before it ended.
    #[inline]
    pub fn start(&mut self) {
        self.began_at = tsc::now();
    }

    /// Continues timing a command that began at `began_at` and has run others.
    pub fn start_at(&mut self, began_at: u64) {
        self.began_at = began_at;
    }

    /// When the running command began: when the last one ended, or the timing was started.
    #[inline]
    pub fn began_at(&self) -> u64 {
        self.began_at
    }

    /// Ends the timing of the running command and starts that of the next; returns the ticks of the running one.
    #[inline]
    pub fn end(&mut self) -> u64 {
        let now = tsc::now();
        now.saturating_sub(std::mem::replace(&mut self.began_at, now))
    }

    /// Records that the running command took long.
    #[cold]
    pub fn note_slow(&mut self, slow: Slow) {
        self.slow.push(slow);
    }

    /// The commands that took long, to be taken by the caller.
    #[inline]
    pub fn slow(&mut self) -> &mut Vec<Slow> {
        &mut self.slow
    }
}
