//! The slow log: commands that took long, the latest first.

use crate::resp::Args;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// The most arguments of an entry; the last one says how many more there were.
const ARGUMENTS_MAX: usize = 32;
/// The most bytes of an argument.
const BYTES_MAX: usize = 128;

/// A command that may be worth an entry.
#[derive(Debug, Clone)]
pub struct Slow {
    /// Whether its row has the flag `fast`.
    pub is_fast: bool,
    /// Whether it is excluded from the log.
    pub is_skipped: bool,
    /// Whether a script has called it.
    pub is_of_script: bool,
    /// How long it took.
    pub ticks: u64,
    arguments: Vec<Vec<u8>>,
}

impl Slow {
    /// Copies what an entry shows of the arguments, without secret ones.
    pub fn new(args: Args<'_>, ticks: u64, is_fast: bool, is_skipped: bool, is_secret: impl Fn(usize) -> bool) -> Self {
        Self { is_fast, is_skipped, is_of_script: false, ticks, arguments: shown(args, is_secret) }
    }
}

/// The arguments as shown in an entry.
fn shown(args: Args<'_>, is_secret: impl Fn(usize) -> bool) -> Vec<Vec<u8>> {
    let whole = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
    let show = |(position, argument)| if is_secret(position) { b"(redacted)".to_vec() } else { cut(argument) };
    let mut arguments: Vec<Vec<u8>> = args.iter().take(whole).enumerate().map(show).collect();
    if whole < args.len() {
        arguments.push(format!("... ({} more arguments)", args.len() - whole).into_bytes());
    }
    arguments
}

fn cut(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= BYTES_MAX {
        return argument.to_vec();
    }
    let mut shown = argument[..BYTES_MAX].to_vec();
    shown.extend_from_slice(format!("... ({} more bytes)", argument.len() - BYTES_MAX).as_bytes());
    shown
}

/// An entry as SLOWLOG GET replies it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number: counts up from 0.
    pub id: u64,
    /// When it was made: Unix time in seconds.
    pub at_s: u64,
    /// How long the command took, in microseconds.
    pub us: u64,
    /// The arguments, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// The connection: its other end, and its name.
    pub client: (String, String),
}

/// The last entries.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    next_id: u64,
    /// The newest first.
    last: VecDeque<Entry>,
}

impl SlowLog {
    /// Adds a command; the oldest entries beyond `most` are dropped. O(1)
    pub fn push(&self, slow: Slow, us: u64, at_s: u64, client: (String, String), most: usize) {
        let mut entries = self.0.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.last.push_front(Entry { id, at_s, us, arguments: slow.arguments, client });
        entries.last.truncate(most);
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.lock().last.len()
    }

    /// The newest entries, at most `count`. O(count)
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.0.lock().last.iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.0.lock().last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Span;

    fn shown_of(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
        let bytes = arguments.concat();
        let mut start = 0;
        let spans: Vec<Span> = arguments
            .iter()
            .map(|argument| {
                let span = Span::new(start, argument.len());
                start += argument.len();
                span
            })
            .collect();
        shown(Args::new(&bytes, &spans), |_| false)
    }

    #[test]
    fn arguments_are_shortened_in_number_and_length() {
        let many = vec![b"x".as_slice(); 33];
        let shown = shown_of(&many);
        assert_eq!((shown.len(), shown[31].as_slice()), (32, b"... (2 more arguments)".as_slice()));
        assert_eq!(shown_of(&many[..32]).len(), 32);
        assert_eq!(shown_of(&[b"a", &[b'x'; 128]])[1], vec![b'x'; 128]);
        assert!(shown_of(&[b"a", &[b'x'; 130]])[1].ends_with(b"x... (2 more bytes)"));
    }

    #[test]
    fn the_newest_entries_stay() {
        let log = SlowLog::default();
        for us in 0..5 {
            let slow = Slow { is_fast: false, is_skipped: false, is_of_script: false, ticks: 0, arguments: vec![] };
            log.push(slow, us, 0, (String::new(), String::new()), 3);
        }
        let kept: Vec<_> = log.newest(9).iter().map(|entry| (entry.id, entry.us)).collect();
        assert_eq!(kept, [(4, 4), (3, 3), (2, 2)]);
        assert_eq!(log.newest(1).len(), 1);
        log.clear();
        assert_eq!(log.len(), 0);
    }
}
