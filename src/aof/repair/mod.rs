//! Says what a log holds, and repairs it: `shardrace check-aof`.

mod inspect;
mod plan;

pub use inspect::{InspectedChain, InspectedSegment, Inspection, Piece, find_unfit, read_back, rehearse};
pub use plan::Plan;

/// A time in Unix milliseconds, for humans.
pub fn time_text(ms: u64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok();
    let text = time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok());
    text.unwrap_or_else(|| format!("{ms} ms"))
}
