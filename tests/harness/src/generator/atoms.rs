//! Random arguments: mostly meaningful, often at the limits of a command.

use super::Request;

/// Kinds of keys. Each has keys of its own, so that a list gets long before something else replaces it; but any command
/// may meet any key.
pub const KINDS: [&str; 9] = ["string", "list", "set", "hash", "zset", "geo", "stream", "hll", "bits"];
const OWN_KEYS: usize = 4;
/// The longest of the deadlines that come soon.
pub const NEAR_MS: u64 = 500;
const ODD_KEYS: [&[u8]; 9] =
    [b"a", b"b", b"c", b"", b"\x00\xff", b"{tag}a", b"{tag}b", b"a longer key with {braces", b"\r\n"];

/// Numbers at the limits, and texts that look like numbers.
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "-2",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "9223372036854775806",
    "-9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "4294967296",
    "2147483647",
    "2147483648",
    "-2147483649",
    "",
    " 1",
    "1 ",
    "+1",
    "-0",
    "01",
    "1.0",
    "abc",
    "0x10",
    "1e3",
    "99999999999999999999999999",
];

const FLOATS: &[&str] = &[
    "0",
    "-0",
    "0.1",
    "-0.1",
    "0.2",
    "1.5",
    "3.0",
    "1e3",
    "-2.5e-3",
    "inf",
    "-inf",
    "+inf",
    "Infinity",
    "nan",
    "",
    " 1",
    "1 ",
    "abc",
    "0x1p3",
    "1e400",
    "1e-400",
    "1.",
    ".5",
    "+1.25",
    "123456789.123456789",
    "0.00000000000000001",
    "1e17",
    "-1e20",
    "1.7976931348623157e308",
    // The smallest normal one: a smaller score leaves an errno in Redis that its SORT takes for an error.
    "2.2250738585072014e-308",
    "9007199254740993",
];

const PATTERNS: &[&str] = &["*", "", "?", "a*", "*:1", "{tag}*", "[a-c]", "[^a]*", "\\*", "h?llo", "[", "*[", "**x"];

/// The source of all random arguments, from one seed.
#[derive(Debug)]
pub struct Source {
    random: fastrand::Rng,
    /// Relative deadlines are all different, and further apart than the clocks of two servers: GT and LT have one
    /// result.
    next_ttl_s: u64,
    next_stream_id: u64,
    has_near_deadlines: bool,
}

/// How an atom appends its arguments.
#[derive(Debug, Clone, Copy)]
pub enum Atom {
    Key(&'static str),
    Other(fn(&mut Source, &mut Request)),
}

impl Atom {
    /// The atom of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &'static str) -> Self {
        if let Some(kind) = name.strip_prefix("key:") {
            assert!(kind == "any" || KINDS.contains(&kind), "{kind} is no kind of key");
            return Self::Key(kind);
        }
        let atom = ATOMS.iter().find(|atom| atom.0 == name);
        Self::Other(atom.unwrap_or_else(|| panic!("{name} is no atom")).1)
    }

    /// Appends arguments.
    pub fn write(self, source: &mut Source, request: &mut Request) {
        match self {
            Self::Key(kind) => request.push(source.key(kind)),
            Self::Other(write) => write(source, request),
        }
    }
}

type NamedAtom = (&'static str, fn(&mut Source, &mut Request));

/// One argument, made by an expression of the source.
macro_rules! one {
    ($source:ident => $argument:expr) => {
        |$source, request| {
            let argument = $argument;
            request.push(argument);
        }
    };
}

const ATOMS: &[NamedAtom] = &[
    ("value", one!(s => s.value())),
    ("int", one!(s => s.integer())),
    ("float", one!(s => s.float())),
    ("member", one!(s => s.member())),
    ("index", one!(s => s.near(-12, 12, INTEGERS))),
    ("count", one!(s => s.near(0, 6, INTEGERS))),
    ("pattern", one!(s => s.pick(PATTERNS))),
    // Two servers do not agree on a random member; a number of them must not be one that fills the memory.
    (
        "draws",
        one!(s => s.near(-9, 9, &["1000", "0", "x", "", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808"])),
    ),
    ("junk", one!(s => s.pick(&["BOGUS", "", "\u{0}", "nx nx"]))),
    ("db", one!(s => s.near(0, 3, &["0", "15", "16", "-1", "x", "", "2147483648"]))),
    ("protocol", one!(s => s.pick(&["2", "3", "3", "1", "4", "x", ""]))),
    // Offsets into strings: small, or over every limit. In between they would only fill the memory; a number of fields
    // whose offset overflows (#4611686018427387904) is refused here and wraps around in Redis, whose code leaves it
    // open.
    ("offset", one!(s => s.near(0, 40, &["-1", "300", "536870912", "4294967296", "9223372036854775807", "x", ""]))),
    ("bit-offset", one!(s => s.near(0, 80, &["-1", "2000", "4294967296", "9223372036854775807", "x", "", "1.0"]))),
    (
        "field-offset",
        one!(s => s.near(0, 80, &["#0", "#1", "#7", "-1", "#-1", "#", "x", "", "4294967296",
        "#5000000000"])),
    ),
    (
        "bit-type",
        one!(s => s.pick(&["u1", "u8", "i8", "i16", "u4", "u31", "u32", "u63", "i64", "i5", "u64", "i65", "u0",
        "i0", "x8", "", "u", "u08"])),
    ),
    ("bit", one!(s => s.near(0, 1, &["2", "-1", "x", "", "01"]))),
    // Deadlines: far away, or over, or no number. Near only where one server runs the commands: two do not read the
    // clock at the same time.
    ("ttl-s", one!(s => s.deadline(false, false))),
    ("ttl-ms", one!(s => s.deadline(true, false))),
    ("unix-s", one!(s => s.deadline(false, true))),
    ("unix-ms", one!(s => s.deadline(true, true))),
    ("expiry", |s, request| {
        let (option, is_ms, is_absolute) =
            [("EX", false, false), ("PX", true, false), ("EXAT", false, true), ("PXAT", true, true)][s.below(4)];
        request.push(s.in_some_case(option));
        if s.chance(95) {
            request.push(s.deadline(is_ms, is_absolute));
        }
    }),
    // Long enough to be a wait, short enough not to be noticed. Zero would mean no timeout.
    ("timeout", one!(s => s.near(0, 0, &["x", "", "-1", "inf", "nan", "1e400", "-0.5"]).replaced(b"0", b"0.001"))),
    ("timeout-ms", one!(s => s.pick(&["1", "1", "1", "2", "-1", "x", "", "1.5"]))),
    ("score", one!(s => s.score())),
    ("score-bound", one!(s => s.score_bound())),
    ("lex-bound", one!(s => s.lex_bound())),
    ("longitude", one!(s => s.coordinate(1_800_000, &["180", "-180", "180.1", "-181", "x", "", "nan", "0"]))),
    ("latitude", one!(s => s.coordinate(850_000, &["85.05", "-85.05", "86", "-90", "x", "", "inf", "0"]))),
    // None that goes around the earth several times, and no place at the very end of the map: there the neighbours of a
    // cell are others in Redis, which then finds a part of what is there, or more.
    ("distance", one!(s => s.pick(&["0", "1", "10", "500.5", "1000", "20000", "-1", "x", "", "nan"]))),
    ("unit", one!(s => s.pick(&["m", "km", "km", "ft", "mi", "M", "KM", "parsec", ""]))),
    ("new-id", one!(s => s.new_stream_id())),
    ("id", one!(s => s.stream_id())),
    ("latest", one!(s => s.pick(&[">", ">", ">", ">", ">", ">", ">", "$", "0"]))),
    ("type-name", one!(s => s.pick(&["string", "list", "STRING", "zset", "nosuch", ""]))),
    ("channel", one!(s => s.pick(&["news", "news.a", "news.b", "sport", "", "\u{0}"]))),
    ("channel-pattern", one!(s => s.pick(&["*", "news*", "news.?", "s*", "[n]ews", "", "nosuch"]))),
    ("id-bound", one!(s => s.stream_bound())),
    ("group", one!(s => s.pick(&["g1", "g1", "g1", "g2", "g2", "", "\u{0}g"]))),
    ("consumer", one!(s => s.pick(&["alice", "alice", "bob", "bob", "", "carol"]))),
    // How long an entry must be idle: always long enough, or never.
    ("idle", one!(s => s.pick(&["0", "0", "0", "0", "1000000000", "-1", "x", ""]))),
    ("by-pattern", one!(s => s.pick(&["string:*", "hash:*->1", "{tag}string:*", "*", "hash:*->", "nosuch*", "*->2"]))),
    ("get-pattern", one!(s => s.pick(&["#", "string:*", "hash:*->1", "*", "nosuch", "", "hash:*->"]))),
];

trait Replaced {
    fn replaced(self, from: &[u8], to: &[u8]) -> Self;
}

impl Replaced for Vec<u8> {
    fn replaced(self, from: &[u8], to: &[u8]) -> Self {
        if self == from { to.to_vec() } else { self }
    }
}

impl Source {
    /// A source; the same seed yields the same arguments.
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), next_ttl_s: 0, next_stream_id: 0, has_near_deadlines: false }
    }

    /// From now on most deadlines in milliseconds come within [`NEAR_MS`].
    pub fn choose_near_deadlines(&mut self) {
        self.has_near_deadlines = true;
    }

    /// True that often in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.random.usize(..end)
    }

    /// `least` or some more.
    pub fn few(&mut self, least: usize) -> usize {
        least + [0, 0, 0, 1, 1, 2, 3, 5][self.below(8)]
    }

    /// `count`, or nearly.
    pub fn about(&mut self, count: usize) -> usize {
        match self.below(40) {
            0 => count + 1,
            1 => count.saturating_sub(1),
            _ => count,
        }
    }

    /// `count` as text, or a wrong count.
    pub fn count_of(&mut self, count: usize) -> Vec<u8> {
        if self.chance(94) {
            return count.to_string().into_bytes();
        }
        self.pick(&["0", "-1", "x", "", "1", "2", "99", "2147483648", "9223372036854775808", "1.0"])
    }

    /// Which of `len` options, and in which order: mostly few, rarely one twice.
    pub fn options(&mut self, len: usize) -> Vec<usize> {
        let mut options: Vec<usize> = (0..len).collect();
        self.random.shuffle(&mut options);
        options.truncate([0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 9][self.below(11)]);
        if self.chance(3) {
            options.extend(options.first().copied());
        }
        options
    }

    /// A word as it is, or in lower case.
    pub fn in_some_case(&mut self, word: &str) -> Vec<u8> {
        if self.chance(90) { word.into() } else { word.to_ascii_lowercase().into() }
    }

    /// One of the words.
    pub fn pick(&mut self, words: &[&str]) -> Vec<u8> {
        words[self.below(words.len())].as_bytes().to_vec()
    }

    /// A number of the range, or one of the words.
    fn near(&mut self, first: i64, last: i64, words: &[&str]) -> Vec<u8> {
        if self.chance(85) { self.random.i64(first..=last).to_string().into_bytes() } else { self.pick(words) }
    }

    /// A key that mostly holds a value of this kind.
    pub fn key(&mut self, kind: &str) -> Vec<u8> {
        let kind = match self.below(20) {
            0..3 => return ODD_KEYS[self.below(ODD_KEYS.len())].to_vec(),
            3 => KINDS[self.below(KINDS.len())],
            _ if kind == "any" => KINDS[self.below(KINDS.len())],
            _ => kind,
        };
        let number = self.below(OWN_KEYS);
        // Half of them live together, on one shard.
        let tag = if number < OWN_KEYS / 2 { "{tag}" } else { "" };
        format!("{tag}{kind}:{number}").into_bytes()
    }

    /// Any string.
    pub fn value(&mut self) -> Vec<u8> {
        match self.below(12) {
            0..5 => self.integer(),
            5..7 => self.pick(&["", "a", "b", "c", "d", "hello", "world"]),
            // The NUL is last: SORT ALPHA stops there, and values that are equal before it have no order.
            7 => b"\xff\r\n\x00".to_vec(),
            8 => self.float(),
            9 => vec![b'x'; self.below(200)],
            _ => self.below(20).to_string().into_bytes(),
        }
    }

    fn integer(&mut self) -> Vec<u8> {
        let chance = self.below(10);
        if chance < 6 { self.random.i32(-20..20).to_string().into_bytes() } else { self.pick(INTEGERS) }
    }

    fn float(&mut self) -> Vec<u8> {
        match self.below(10) {
            0..5 => format!("{}", f64::from(self.random.i32(-1000..1000)) / 8.0).into_bytes(),
            5 => format!("{}", self.random.f64() * 1000.0).into_bytes(),
            _ => self.pick(FLOATS),
        }
    }

    /// A member that other collections hold, too.
    fn member(&mut self) -> Vec<u8> {
        if self.chance(85) { self.below(14).to_string().into_bytes() } else { self.value() }
    }

    fn score(&mut self) -> Vec<u8> {
        if self.chance(70) { self.random.i32(-6..12).to_string().into_bytes() } else { self.float() }
    }

    fn score_bound(&mut self) -> Vec<u8> {
        match self.below(12) {
            0..2 => b"-inf".to_vec(),
            2..4 => b"+inf".to_vec(),
            4..7 => [b"(".to_vec(), self.score()].concat(),
            _ => self.score(),
        }
    }

    fn lex_bound(&mut self) -> Vec<u8> {
        match self.below(12) {
            0..2 => b"-".to_vec(),
            2..4 => b"+".to_vec(),
            4..7 => [b"(".to_vec(), self.member()].concat(),
            7..11 => [b"[".to_vec(), self.member()].concat(),
            _ => self.member(),
        }
    }

    /// All different: places at the same distance have no order.
    fn coordinate(&mut self, limit: i32, odd: &[&str]) -> Vec<u8> {
        if self.chance(4) {
            return self.pick(odd);
        }
        format!("{}", f64::from(self.random.i32(-limit..limit)) / 10_000.0 + self.random.f64() / 100_000.0).into_bytes()
    }

    fn new_stream_id(&mut self) -> Vec<u8> {
        self.next_stream_id += 1;
        let next = self.next_stream_id;
        match self.below(20) {
            0..12 => format!("{next}-{}", self.below(3)).into_bytes(),
            12..15 => format!("{}-*", next / 2 * 2).into_bytes(),
            15 => next.to_string().into_bytes(),
            16 => b"*".to_vec(),
            _ => {
                self.pick(&["0-0", "0-1", "1-1", "x", "", "1-", "-1", "1-x", "1-1-1", "*-1", "1-18446744073709551616"])
            }
        }
    }

    fn stream_id(&mut self) -> Vec<u8> {
        match self.below(20) {
            0..14 => {
                let id = self.next_stream_id.saturating_sub(self.random.u64(..60));
                format!("{id}-{}", self.below(3)).into_bytes()
            }
            14..18 => self.pick(&["0", "0-0", "$", ">", "1"]),
            _ => self.pick(&[
                "x",
                "",
                "-",
                "+",
                "1-",
                "18446744073709551615-18446744073709551615",
                "18446744073709551616",
            ]),
        }
    }

    fn stream_bound(&mut self) -> Vec<u8> {
        match self.below(12) {
            0..3 => b"-".to_vec(),
            3..6 => b"+".to_vec(),
            6 => [b"(".to_vec(), self.stream_id()].concat(),
            _ => self.stream_id(),
        }
    }

    fn deadline(&mut self, is_ms: bool, is_absolute: bool) -> Vec<u8> {
        const ODD: &[&str] = &[
            "0",
            "-1",
            "-100000",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "x",
            "",
            "1.5",
            "9223372036854775",
        ];
        const DISTANT_FUTURE_S: u64 = 33_177_117_420;
        if is_ms && self.has_near_deadlines && self.chance(60) {
            return self.near_deadline(is_absolute);
        }
        if self.chance(15) {
            return self.pick(ODD);
        }
        if is_absolute && self.chance(10) {
            return self.pick(&["1", "1000000", "1600000000"]);
        }
        self.next_ttl_s = self.next_ttl_s % 1_000 + 1;
        let seconds = self.next_ttl_s * 1_000_000 + if is_absolute { DISTANT_FUTURE_S } else { 0 };
        (if is_ms { seconds * 1000 } else { seconds }).to_string().into_bytes()
    }

    /// A time within [`NEAR_MS`], in milliseconds.
    pub fn near_deadline(&mut self, is_absolute: bool) -> Vec<u8> {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_ms = since_epoch.expect("it is later than 1970").as_millis() as u64;
        let ms = self.random.u64(1..=NEAR_MS) + if is_absolute { now_ms } else { 0 };
        ms.to_string().into_bytes()
    }
}

/// Whether an argument is one of the keys without a kind.
pub fn is_odd_key(argument: &[u8]) -> bool {
    ODD_KEYS.contains(&argument)
}
