//! How much a client may leave unread, by the class of its connection.

use crate::resp::{parse_memory, parse_u64};

const MB: u64 = 1 << 20;

/// Limits on replies that a client does not read, in bytes; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Closes the connection at once.
    pub hard: u64,
    /// Closes the connection when it stays exceeded.
    pub soft: u64,
    /// How long it may stay exceeded.
    pub soft_seconds: u64,
}

impl OutputLimit {
    const fn new(hard: u64, soft: u64, soft_seconds: u64) -> Self {
        Self { hard, soft, soft_seconds }
    }

    /// Bytes above which a connection is closed at once.
    pub fn hard_max(&self) -> u64 {
        least_limit(self.hard)
    }

    /// Bytes above which a connection is closed when it stays above them.
    pub fn soft_max(&self) -> u64 {
        least_limit(self.soft)
    }
}

/// Bytes that fit into the buffer that every connection of Redis has never exceed a limit. So with any limits, clients
/// can be told that they are too low, and can change them.
fn least_limit(limit: u64) -> u64 {
    const UNCOUNTED: u64 = 16 * 1024;
    if limit == 0 { u64::MAX } else { limit.max(UNCOUNTED) }
}

/// The limits of each class of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Connections without a subscription.
    pub normal: OutputLimit,
    /// Replicas.
    pub slave: OutputLimit,
    /// Connections with a subscription.
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    pub(super) const DEFAULT: Self = Self {
        normal: OutputLimit::new(0, 0, 0),
        slave: OutputLimit::new(256 * MB, 64 * MB, 60),
        pubsub: OutputLimit::new(32 * MB, 8 * MB, 60),
    };

    /// These limits with the changes of a text.
    pub(super) fn changed(mut self, text: &str) -> Result<Self, &'static str> {
        // As in Redis, no words change nothing.
        if text.is_empty() {
            return Ok(self);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        for class in words.chunks_exact(4) {
            let limit = match class[0].to_lowercase().as_str() {
                "normal" => &mut self.normal,
                "slave" | "replica" => &mut self.slave,
                "pubsub" => &mut self.pubsub,
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            *limit = parse_output_limit(&class[1..])
                .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        }
        Ok(self)
    }
}

/// As CONFIG GET replies it.
impl std::fmt::Display for OutputLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let classes = [("normal", self.normal), (" slave", self.slave), (" pubsub", self.pubsub)];
        classes.into_iter().try_for_each(|(name, OutputLimit { hard, soft, soft_seconds })| {
            write!(f, "{name} {hard} {soft} {soft_seconds}")
        })
    }
}

/// HARD SOFT SECONDS
fn parse_output_limit(words: &[&str]) -> Option<OutputLimit> {
    let [hard, soft, seconds] = words else { return None };
    Some(OutputLimit::new(parse_memory(hard)?, parse_memory(soft)?, parse_u64(seconds.as_bytes())?))
}
