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
    /// The number of the command, if this is the part of it that one shard ran: see [`join`](Self::join).
    pub part_of: Option<u64>,
    /// Whether such a part has the keys of its shard alone, and not all arguments.
    pub has_own_keys: bool,
    /// The first arguments, at most [`ARGUMENTS_MAX`].
    arguments: Vec<Vec<u8>>,
    /// How many there are.
    count: usize,
}

impl Slow {
    /// Copies what an entry shows of the arguments, without secret ones.
    pub fn new(args: Args<'_>, ticks: u64, is_fast: bool, is_skipped: bool, is_secret: impl Fn(usize) -> bool) -> Self {
        let show = |(position, argument)| if is_secret(position) { b"(redacted)".to_vec() } else { cut(argument) };
        let arguments = args.iter().take(ARGUMENTS_MAX).enumerate().map(show).collect();
        Self {
            is_fast,
            is_skipped,
            is_of_script: false,
            ticks,
            part_of: None,
            has_own_keys: false,
            arguments,
            count: args.len(),
        }
    }

    /// Adds what another shard ran of the same command: its time, and its own keys.
    pub fn join(&mut self, part: Self) {
        self.ticks += part.ticks;
        if part.has_own_keys {
            self.count += part.count - 1;
            let room = ARGUMENTS_MAX - self.arguments.len();
            self.arguments.extend(part.arguments.into_iter().skip(1).take(room));
        }
    }

    /// The arguments as shown in an entry.
    fn into_shown(mut self) -> Vec<Vec<u8>> {
        if self.count > self.arguments.len() {
            self.arguments.truncate(ARGUMENTS_MAX - 1);
            let more = self.count - self.arguments.len();
            self.arguments.push(format!("... ({more} more arguments)").into_bytes());
        }
        self.arguments
    }
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
        entries.last.push_front(Entry { id, at_s, us, arguments: slow.into_shown(), client });
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

    fn slow(arguments: &[&[u8]]) -> Slow {
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
        Slow::new(Args::new(&bytes, &spans), 1, false, false, |_| false)
    }

    fn shown_of(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
        slow(arguments).into_shown()
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
    fn the_parts_of_a_command_are_one_entry() {
        let joined = |parts: &[&[&[u8]]], has_own_keys: bool| {
            let mut whole = slow(parts[0]);
            parts[1..].iter().for_each(|part| whole.join(Slow { has_own_keys, ..slow(part) }));
            (whole.ticks, whole.into_shown().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(joined(&[&[b"MGET", b"a"], &[b"MGET", b"b", b"c"]], true), (2, words("MGET a b c")));
        assert_eq!(joined(&[&[b"KEYS", b"*"], &[b"KEYS", b"*"]], false), (2, words("KEYS *")));
        let (_, shown): (_, Vec<String>) = joined(&[&[b"x".as_slice(); 30], &[b"x".as_slice(); 5]], true);
        assert_eq!((shown.len(), shown[31].as_str()), (32, "... (3 more arguments)"));
    }

    #[test]
    fn the_newest_entries_stay() {
        let log = SlowLog::default();
        for us in 0..5 {
            log.push(slow(&[]), us, 0, (String::new(), String::new()), 3);
        }
        let kept: Vec<_> = log.newest(9).iter().map(|entry| (entry.id, entry.us)).collect();
        assert_eq!(kept, [(4, 4), (3, 3), (2, 2)]);
        assert_eq!(log.newest(1).len(), 1);
        log.clear();
        assert_eq!(log.len(), 0);
    }
}
