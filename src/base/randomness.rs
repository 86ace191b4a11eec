//! Random numbers: where they come from.
//!
//! It is a seam: [`Randomness::System`] is the machine's; a test brings a seed, and a server that runs on one thread
//! then draws the same again. A draw here is a system call, or takes a lock. So what draws often draws a generator of
//! its own here, once.

use fastrand::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Where random numbers come from.
#[derive(Debug, Clone, Default)]
pub enum Randomness {
    /// The system, whose numbers cannot be guessed from others that it has drawn.
    #[default]
    System,
    /// A seed: each draw follows from it and the draws before.
    Seeded(Arc<Mutex<Rng>>),
}

impl Randomness {
    /// Randomness that follows from a seed.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(Rng::with_seed(seed))))
    }

    /// Fills a buffer.
    ///
    /// # Panics
    /// If the system has no random numbers: then it has no hashes for the tables either.
    pub fn fill(&self, bytes: &mut [u8]) {
        match self {
            Self::System => getrandom::fill(bytes).expect("the system has random numbers"),
            Self::Seeded(random) => random.lock().fill(bytes),
        }
    }

    /// A number.
    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A generator for one holder, which draws without a system call or a lock. Its numbers can be guessed from others
    /// that it has drawn: no secret comes from it.
    pub fn generator(&self) -> Rng {
        Rng::with_seed(self.number())
    }

    /// This many hexadecimal digits: names, and secrets.
    pub fn hex(&self, digits: usize) -> String {
        let mut bytes = vec![0; digits.div_ceil(2)];
        self.fill(&mut bytes);
        let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text.truncate(digits);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some of everything that can be drawn.
    fn drawn(randomness: &Randomness) -> (u64, u64, String) {
        (randomness.number(), randomness.generator().u64(..), randomness.hex(40))
    }

    #[test]
    fn a_seed_determines_every_draw_and_nothing_else_does() {
        fastrand::seed(1);
        let first = drawn(&Randomness::seeded(7));
        fastrand::seed(2);
        assert_eq!(drawn(&Randomness::seeded(7)), first);
        let other = drawn(&Randomness::seeded(8));
        assert!(other.0 != first.0 && other.1 != first.1 && other.2 != first.2);
    }

    #[test]
    fn parts_that_share_a_seed_draw_different_numbers() {
        let randomness = Randomness::seeded(7);
        let (first, second) = (drawn(&randomness), drawn(&randomness.clone()));
        assert!(first.0 != second.0 && first.1 != second.1 && first.2 != second.2);
    }

    #[test]
    fn the_system_draws_anew_whatever_seed_the_thread_has() {
        fastrand::seed(1);
        let first = drawn(&Randomness::System);
        fastrand::seed(1);
        let second = drawn(&Randomness::System);
        assert!(first.0 != second.0 && first.1 != second.1 && first.2 != second.2);
    }

    #[test]
    fn hexadecimal_digits_are_as_many_as_asked_for() {
        for digits in 0..600 {
            let text = Randomness::System.hex(digits);
            assert!(text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
        }
    }
}
