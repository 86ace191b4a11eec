//! Equivalence: the same random commands on every engine and on redis-server give the same replies, byte for byte, and
//! leave the same data; and so does a restart from the log after kill -9.

use crate::harness::{Client, EVERY_ENGINE, RedisOracle, Server, Value, effort, request, same_in_any_order, seed};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const COMMANDS_PER_PIPELINE: usize = 200;
/// By how much deadlines may differ that were set relative to the time of a request.
const CLOCK_SKEW_MS: i64 = 30_000;

type Request = Vec<Vec<u8>>;

/// Requests that try everything, mostly meaningful, often at the edge.
struct Generator {
    random: fastrand::Rng,
    /// Relative deadlines are all different, and further apart than two servers can drift: GT and LT have one outcome.
    next_ttl_s: u64,
    /// Sent before anything else.
    pending: Vec<Request>,
    /// How many requests are queued before the transaction that has begun ends.
    left_to_queue: Option<u32>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), next_ttl_s: 0, pending: Vec::new(), left_to_queue: None }
    }

    fn pick(&mut self, words: &[&str]) -> Vec<u8> {
        words[self.random.usize(..words.len())].as_bytes().to_vec()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    /// Few keys, so that commands meet what others left; half of them live in types of their own, so that a list gets
    /// long before something else replaces it.
    fn key(&mut self, kind: &str) -> Vec<u8> {
        const ANY: [&[u8]; 9] =
            [b"a", b"b", b"c", b"", b"\x00\xff", b"{tag}a", b"{tag}b", b"a longer key with {braces", b"\r\n"];
        if self.chance(65) {
            let name = format!("{kind}:{}", self.random.u32(..4)).into_bytes();
            return if self.chance(50) { name } else { [b"{tag}", &*name].concat() };
        }
        ANY[self.random.usize(..ANY.len())].to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.random.u32(..12) {
            0..5 => self.integer(),
            5..7 => self.pick(&["", "a", "b", "c", "d", "hello", "world"]),
            7 => b"\x00\r\n\xff".to_vec(),
            8 => self.float(),
            9 => vec![b'x'; self.random.usize(..200)],
            _ => self.random.u32(..20).to_string().into_bytes(),
        }
    }

    fn integer(&mut self) -> Vec<u8> {
        const EDGES: [&str; 26] = [
            "0",
            "1",
            "-1",
            "2",
            "-2",
            "10",
            "-10",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "-9223372036854775809",
            "9223372036854775806",
            "4294967296",
            "2147483648",
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
        if self.chance(60) { self.random.i32(-20..20).to_string().into_bytes() } else { self.pick(&EDGES) }
    }

    fn float(&mut self) -> Vec<u8> {
        const EDGES: [&str; 24] = [
            "0",
            "0.1",
            "-0.1",
            "1.5",
            "3.0",
            "1e3",
            "-2.5e-3",
            "inf",
            "-inf",
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
        ];
        if self.chance(50) {
            format!("{}", f64::from(self.random.i32(-1000..1000)) / 8.0).into_bytes()
        } else {
            self.pick(&EDGES)
        }
    }

    fn member(&mut self) -> Vec<u8> {
        if self.chance(80) { self.random.u32(..12).to_string().into_bytes() } else { self.value() }
    }

    fn index(&mut self) -> Vec<u8> {
        if self.chance(80) { self.random.i32(-12..12).to_string().into_bytes() } else { self.integer() }
    }

    fn ttl_s(&mut self) -> u64 {
        self.next_ttl_s = self.next_ttl_s % 1_000 + 1;
        self.next_ttl_s * 1_000_000
    }

    /// A deadline: far away, or over, or no number. Never near: the servers do not read the clock together.
    fn deadline(&mut self, is_ms: bool, is_absolute: bool) -> Vec<u8> {
        const ODD: [&str; 10] = [
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
        if self.chance(15) {
            return self.pick(&ODD);
        }
        let base_s = if is_absolute { 33_177_117_420 } else { 0 };
        let seconds = base_s + self.ttl_s();
        (if is_ms { seconds * 1000 } else { seconds }).to_string().into_bytes()
    }

    fn expiry_option(&mut self, out: &mut Request) {
        let (option, is_ms, is_absolute) =
            [("EX", false, false), ("PX", true, false), ("EXAT", false, true), ("pxat", true, true)]
                [self.random.usize(..4)];
        out.push(option.into());
        if self.chance(95) {
            let deadline = self.deadline(is_ms, is_absolute);
            out.push(deadline);
        }
    }

    fn next(&mut self) -> Request {
        if let Some(request) = self.pending.pop() {
            return request;
        }
        let mut request = match self.left_to_queue {
            Some(0) => self.end_of_transaction(),
            Some(left) => {
                self.left_to_queue = Some(left - 1);
                self.any_request()
            }
            None => self.any_request(),
        };
        // Too few arguments, or too many.
        if self.chance(2) {
            let cut = 1 + self.random.usize(..request.len());
            // Without its count, SPOP leaves what nobody can foresee.
            if request[0] != b"SPOP" || cut != 2 {
                request.truncate(cut);
            }
        } else if self.chance(2) && takes_more(&request) {
            let extra = self.value();
            request.push(extra);
        }
        if self.chance(10) {
            request[0].make_ascii_lowercase();
        }
        self.follow(&request);
        request
    }

    fn any_request(&mut self) -> Request {
        match self.random.u32(..100) {
            0..19 => self.string_request(),
            19..23 => self.bits_request(),
            23..37 => self.generic_request(),
            37..49 => self.list_request(),
            49..62 => self.set_request(),
            62..71 => self.hash_request(),
            71..79 => self.sorted_set_request(),
            79..89 => self.joint_request(),
            89..96 => self.transaction_request(),
            96..98 => self.odd_request(),
            _ => self.connection_request(),
        }
    }

    /// A request around transactions, in its place or not. Those who watch see what this connection does itself.
    fn transaction_request(&mut self) -> Request {
        match self.random.u32(..10) {
            0..5 => {
                self.left_to_queue = self.left_to_queue.or(Some(self.random.u32(..10)));
                vec![b"MULTI".to_vec()]
            }
            5..8 => self.many_keys("WATCH", 4),
            8 => vec![b"UNWATCH".to_vec()],
            // Not inside of a transaction, which would end too soon.
            _ if self.left_to_queue.is_some() => vec![b"PING".to_vec()],
            _ => vec![self.pick(&["EXEC", "DISCARD"])],
        }
    }

    fn end_of_transaction(&mut self) -> Request {
        self.left_to_queue = None;
        vec![self.pick(&["EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "DISCARD"])]
    }

    /// After a request that may leave a key expired but not removed, one that looks at the key: DBSIZE may count it
    /// until then.
    fn follow(&mut self, request: &Request) {
        let name = request[0].to_ascii_uppercase();
        if matches!(name.as_slice(), b"SET" | b"GETEX") && request.len() > 3 {
            self.pending.push(vec![b"EXISTS".to_vec(), request[1].clone()]);
        }
    }

    fn string_request(&mut self) -> Request {
        let key = self.key("string");
        let command =
            |name: &str, arguments: &[Vec<u8>]| [&[name.as_bytes().to_vec(), key.clone()], arguments].concat();
        match self.random.u32(..24) {
            0..4 => {
                let mut request = command("SET", &[self.value()]);
                self.set_options(&mut request);
                request
            }
            4..6 => command("GET", &[]),
            6 => command("GETSET", &[self.value()]),
            7 => command("GETDEL", &[]),
            8 => {
                let mut request = command("GETEX", &[]);
                match self.random.u32(..6) {
                    0 => request.push(b"PERSIST".to_vec()),
                    1 => request.push(b"NX".to_vec()),
                    2..5 => self.expiry_option(&mut request),
                    _ => {}
                }
                request
            }
            9 => command("SETNX", &[self.value()]),
            10 => command("SETEX", &[self.deadline(false, false), self.value()]),
            11 => command("PSETEX", &[self.deadline(true, false), self.value()]),
            12 => {
                let mut request = vec![b"MGET".to_vec(), key.clone()];
                (0..self.random.u32(..8)).for_each(|_| request.push(self.key("string")));
                request
            }
            13 => {
                let mut request = vec![b"MSET".to_vec(), key.clone(), self.value()];
                for _ in 0..self.random.u32(..6) {
                    let (key, value) = (self.key("string"), self.value());
                    request.extend([key, value]);
                }
                request
            }
            14 => command("APPEND", &[self.value()]),
            15 => command("STRLEN", &[]),
            16 => command("INCR", &[]),
            17 => command("DECR", &[]),
            18 => command("INCRBY", &[self.integer()]),
            19 => command("DECRBY", &[self.integer()]),
            20 => command("INCRBYFLOAT", &[self.float()]),
            21 => command("GETRANGE", &[self.index(), self.index()]),
            22 => command("SETRANGE", &[self.offset(), self.value()]),
            _ => command("SET", &[self.integer()]),
        }
    }

    /// Strings as bits and as sketches, and elements in order.
    fn bits_request(&mut self) -> Request {
        let key = self.key("string");
        let sketch = format!("sketch:{}", self.random.u32(..4)).into_bytes();
        let bit = |random: &mut fastrand::Rng| random.u32(..100).to_string().into_bytes();
        match self.random.u32(..10) {
            0 => vec![b"SETBIT".to_vec(), key, bit(&mut self.random), self.pick(&["0", "1", "1", "2"])],
            1 => vec![b"GETBIT".to_vec(), key, bit(&mut self.random)],
            2 => vec![b"BITCOUNT".to_vec(), key, self.index(), self.index(), self.pick(&["BIT", "BYTE"])],
            3 => vec![b"BITPOS".to_vec(), key, self.pick(&["0", "1"]), self.index(), self.index()],
            4 => {
                let change = self.pick(&["SET", "INCRBY"]);
                let field = self.pick(&["u5", "i8", "i64", "u63", "u64"]);
                vec![b"BITFIELD".to_vec(), key, change, field, bit(&mut self.random), self.integer()]
            }
            5 => {
                let operation = self.pick(&["AND", "OR", "XOR", "NOT"]);
                vec![b"BITOP".to_vec(), operation, key, self.key("string"), self.key("string")]
            }
            6 => vec![b"PFADD".to_vec(), sketch, self.value(), self.value()],
            7 => vec![b"PFCOUNT".to_vec(), sketch],
            8 => vec![b"PFMERGE".to_vec(), sketch, format!("sketch:{}", self.random.u32(..4)).into_bytes()],
            // Stored, for the order is of bytes then, and not of the locale.
            _ => {
                let key = self.pick(&["list:0", "set:0", "{tag}list:1"]);
                vec![b"SORT".to_vec(), key, b"ALPHA".to_vec(), b"STORE".to_vec(), self.key("list")]
            }
        }
    }

    /// Never a number that makes a long string, only one that is refused.
    fn offset(&mut self) -> Vec<u8> {
        const ODD: [&str; 8] = ["-1", "x", "", "536870912", "9223372036854775807", "9223372036854775808", "1.0", "+1"];
        if self.chance(70) { self.random.u32(..40).to_string().into_bytes() } else { self.pick(&ODD) }
    }

    fn set_options(&mut self, request: &mut Request) {
        for _ in 0..self.random.u32(..4) {
            match self.random.u32(..7) {
                0..2 => request.push(self.pick(&["NX", "XX", "nx", "xx"])),
                2..4 => request.push(b"GET".to_vec()),
                4 => request.push(self.pick(&["KEEPTTL", "PERSIST", "", "BOGUS"])),
                _ => self.expiry_option(request),
            }
        }
    }

    fn any_key(&mut self) -> Vec<u8> {
        let kind = ["string", "list", "set", "hash", "zset"][self.random.usize(..5)];
        self.key(kind)
    }

    fn generic_request(&mut self) -> Request {
        let key = self.any_key();
        match self.random.u32(..28) {
            0..2 => self.many_keys("DEL", 3),
            2 => self.many_keys("UNLINK", 3),
            3..5 => self.many_keys("EXISTS", 6),
            5 => self.many_keys("TOUCH", 6),
            6..8 => vec![b"TYPE".to_vec(), key],
            8 => {
                let pattern = self.pick(&[
                    "*", "string:*", "?", "*:[0-2]", "*:[^1]", "", "l*t:?", "{tag}*", "\\*", "[", "[a-", "*\\", "[\\]",
                ]);
                vec![b"KEYS".to_vec(), pattern]
            }
            9 => vec![b"RANDOMKEY".to_vec()],
            10 => vec![b"DBSIZE".to_vec()],
            11 if self.chance(6) => vec![self.pick(&["FLUSHALL", "FLUSHDB"])],
            11 => vec![self.pick(&["FLUSHALL", "FLUSHDB"]), self.pick(&["NOW", "", "1"])],
            12..19 => {
                let (name, is_ms, is_absolute) = [
                    ("EXPIRE", false, false),
                    ("PEXPIRE", true, false),
                    ("EXPIREAT", false, true),
                    ("PEXPIREAT", true, true),
                ][self.random.usize(..4)];
                let mut request = vec![name.into(), key, self.deadline(is_ms, is_absolute)];
                if self.chance(50) {
                    for _ in 0..self.random.u32(1..3) {
                        request.push(self.pick(&["NX", "XX", "GT", "LT", "nx", "gt", "BOGUS", ""]));
                    }
                }
                request
            }
            19..25 => vec![self.pick(&["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), key],
            _ => vec![b"PERSIST".to_vec(), key],
        }
    }

    fn many_keys(&mut self, name: &str, most: u32) -> Request {
        let mut request = vec![name.into(), self.any_key()];
        (1..self.random.u32(1..=most)).for_each(|_| request.push(self.any_key()));
        request
    }

    fn list_request(&mut self) -> Request {
        let key = self.key("list");
        let mut request = vec![Vec::new(), key];
        let name = match self.random.u32(..16) {
            0..4 => {
                (0..self.random.u32(1..6)).for_each(|_| request.push(self.value()));
                self.pick(&["LPUSH", "RPUSH"])
            }
            4 => {
                (0..self.random.u32(1..4)).for_each(|_| request.push(self.value()));
                self.pick(&["LPUSHX", "RPUSHX"])
            }
            5..7 => {
                if self.chance(50) {
                    request.push(self.index());
                }
                self.pick(&["LPOP", "RPOP"])
            }
            7..10 => {
                request.extend([self.index(), self.index()]);
                b"LRANGE".to_vec()
            }
            10 => b"LLEN".to_vec(),
            11..13 => {
                request.push(self.index());
                b"LINDEX".to_vec()
            }
            _ => {
                request.extend([self.index(), self.value()]);
                b"LSET".to_vec()
            }
        };
        request[0] = name;
        request
    }

    fn set_request(&mut self) -> Request {
        let key = self.key("set");
        let mut request = vec![Vec::new(), key];
        let name = match self.random.u32(..20) {
            0..5 => {
                (0..self.random.u32(1..6)).for_each(|_| request.push(self.member()));
                b"SADD".to_vec()
            }
            5..8 => {
                (0..self.random.u32(1..4)).for_each(|_| request.push(self.member()));
                b"SREM".to_vec()
            }
            8..10 => b"SMEMBERS".to_vec(),
            10..12 => {
                request.push(self.member());
                b"SISMEMBER".to_vec()
            }
            12..14 => {
                (0..self.random.u32(1..4)).for_each(|_| request.push(self.member()));
                b"SMISMEMBER".to_vec()
            }
            14..16 => b"SCARD".to_vec(),
            16..18 => {
                // All of them, none, or an error: what is left is determined.
                request.push(self.pick(&["1000", "0", "-1", "x", "", "9223372036854775807", "9223372036854775808"]));
                b"SPOP".to_vec()
            }
            _ => {
                if self.chance(80) {
                    request.push(self.pick(&["1000", "0", "-3", "-7", "x", "", "9223372036854775808"]));
                }
                b"SRANDMEMBER".to_vec()
            }
        };
        request[0] = name;
        request
    }

    fn hash_request(&mut self) -> Request {
        let key = self.key("hash");
        let mut request = vec![Vec::new(), key];
        let name = match self.random.u32(..20) {
            0..4 => {
                for _ in 0..self.random.u32(1..5) {
                    let (field, value) = (self.member(), self.value());
                    request.extend([field, value]);
                }
                self.pick(&["HSET", "HMSET"])
            }
            4..6 => {
                request.push(self.member());
                self.pick(&["HGET", "HEXISTS"])
            }
            6..8 => {
                (0..self.random.u32(1..5)).for_each(|_| request.push(self.member()));
                b"HMGET".to_vec()
            }
            8..11 => {
                (0..self.random.u32(1..4)).for_each(|_| request.push(self.member()));
                b"HDEL".to_vec()
            }
            11..16 => self.pick(&["HGETALL", "HKEYS", "HVALS", "HLEN"]),
            16..18 => {
                request.extend([self.member(), self.integer()]);
                b"HINCRBY".to_vec()
            }
            _ => {
                request.extend([self.member(), self.value()]);
                b"HSETNX".to_vec()
            }
        };
        request[0] = name;
        request
    }

    /// A command over several keys together.
    /// A score that Redis 7.0, which prints 17 digits, prints as 7.2 does: a few bits in binary.
    fn score(&mut self) -> Vec<u8> {
        const EDGES: [&str; 12] = ["inf", "-inf", "+inf", "nan", "", " 1", "x", "1e400", "0x10", "-0", "1e3", "1."];
        if self.chance(85) {
            format!("{}", f64::from(self.random.i32(-40..40)) / 8.0).into_bytes()
        } else {
            self.pick(&EDGES)
        }
    }

    fn score_bound(&mut self) -> Vec<u8> {
        let score = self.score();
        if self.chance(30) { [b"(", &*score].concat() } else { score }
    }

    fn member_bound(&mut self) -> Vec<u8> {
        match self.random.u32(..10) {
            0 => b"-".to_vec(),
            1 => b"+".to_vec(),
            2 => self.value(),
            _ => [self.pick(&["[", "("]), self.member()].concat(),
        }
    }

    fn range_options(&mut self, request: &mut Request) {
        for _ in 0..self.random.u32(..3) {
            match self.random.u32(..5) {
                0..2 => request.push(self.pick(&["WITHSCORES", "withscores", "BOGUS"])),
                2 => request.push(self.pick(&["REV", "BYSCORE", "BYLEX"])),
                _ => request.extend([b"LIMIT".to_vec(), self.index(), self.index()]),
            }
        }
    }

    fn sorted_set_request(&mut self) -> Request {
        let key = self.key("zset");
        let mut request = vec![Vec::new(), key];
        let name = match self.random.u32(..24) {
            0..7 => {
                if self.chance(40) {
                    let options = ["NX", "XX", "GT", "LT", "CH", "INCR", "ch"];
                    (0..self.random.u32(1..3)).for_each(|_| request.push(self.pick(&options)));
                }
                for _ in 0..self.random.u32(1..6) {
                    let (score, member) = (self.score(), self.member());
                    request.extend([score, member]);
                }
                b"ZADD".to_vec()
            }
            7 => {
                request.extend([self.score(), self.member()]);
                b"ZINCRBY".to_vec()
            }
            8 => {
                (0..self.random.u32(1..4)).for_each(|_| request.push(self.member()));
                self.pick(&["ZREM", "ZMSCORE"])
            }
            9..11 => {
                request.push(self.member());
                self.pick(&["ZSCORE", "ZRANK", "ZREVRANK"])
            }
            11 => b"ZCARD".to_vec(),
            12..14 => {
                request.extend([self.score_bound(), self.score_bound()]);
                self.pick(&["ZCOUNT", "ZCOUNT", "ZREMRANGEBYSCORE"])
            }
            14..17 => {
                request.extend([self.score_bound(), self.score_bound()]);
                self.range_options(&mut request);
                self.pick(&["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"])
            }
            17..20 => {
                request.extend([self.index(), self.index()]);
                self.range_options(&mut request);
                self.pick(&["ZRANGE", "ZREVRANGE", "ZRANGE"])
            }
            20 => {
                request.extend([self.index(), self.index()]);
                b"ZREMRANGEBYRANK".to_vec()
            }
            // Which members are in a range where scores differ is not said: only what is wrong with it.
            21 => {
                request[1] = b"zset:none".to_vec();
                request.extend([self.member_bound(), self.member_bound()]);
                self.pick(&["ZLEXCOUNT", "ZRANGEBYLEX", "ZREMRANGEBYLEX"])
            }
            _ => {
                if self.chance(50) {
                    request.push(self.index());
                }
                self.pick(&["ZPOPMIN", "ZPOPMAX"])
            }
        };
        request[0] = name;
        request
    }

    /// Keys with weights and an aggregate. What is stored is never a sum: it could grow beyond the digits that Redis 7.0
    /// and 7.2 print alike.
    fn weighted_keys(&mut self, is_stored: bool) -> Request {
        let kind = if self.chance(80) { "zset" } else { "set" };
        let mut arguments = self.counted_keys(kind, 3);
        let keys = arguments.len() - 1;
        if self.chance(40) {
            arguments.push(b"WEIGHTS".to_vec());
            (0..keys).for_each(|_| arguments.push(self.pick(&["1", "-1", "0", "1", "x"])));
        }
        if is_stored || self.chance(40) {
            let aggregates = if is_stored { ["MIN", "MAX", "min", "AVG"] } else { ["MIN", "MAX", "SUM", "sum"] };
            arguments.extend([b"AGGREGATE".to_vec(), self.pick(&aggregates)]);
        }
        if !is_stored && self.chance(60) {
            arguments.push(b"WITHSCORES".to_vec());
        }
        arguments
    }

    fn joint_request(&mut self) -> Request {
        let name = self.pick(&[
            "MSETNX",
            "RENAME",
            "RENAMENX",
            "COPY",
            "LMPOP",
            "BLPOP",
            "BRPOP",
            "BLMPOP",
            "BLMOVE",
            "BRPOPLPUSH",
            "RPOPLPUSH",
            "LMOVE",
            "LMOVE",
            "SMOVE",
            "SINTER",
            "SUNION",
            "SDIFF",
            "SINTERCARD",
            "SINTERSTORE",
            "SUNIONSTORE",
            "SDIFFSTORE",
            "ZUNION",
            "ZINTER",
            "ZDIFF",
            "ZINTERCARD",
            "ZUNIONSTORE",
            "ZINTERSTORE",
            "ZDIFFSTORE",
            "ZRANGESTORE",
            "ZMPOP",
            "BZPOPMIN",
            "BZPOPMAX",
            "BZMPOP",
        ]);
        let arguments = match name.as_slice() {
            b"MSETNX" => (0..self.random.usize(1..4)).flat_map(|_| [self.key("string"), self.value()]).collect(),
            b"RENAME" | b"RENAMENX" | b"COPY" => {
                let kind = ["string", "list", "set", "hash", "zset"][self.random.usize(..5)];
                let mut arguments = vec![self.key(kind), self.key(kind)];
                if name == b"COPY" {
                    self.copy_options(&mut arguments);
                }
                arguments
            }
            b"LMPOP" | b"BLMPOP" => {
                let mut arguments = self.counted_keys("list", 3);
                if name == b"BLMPOP" {
                    arguments.insert(0, self.timeout());
                }
                arguments.push(self.pick(&["LEFT", "RIGHT", "left", "UP"]));
                if self.chance(50) {
                    arguments.extend([self.pick(&["COUNT", "count", "COUNT", "LIMIT"]), self.index()]);
                }
                arguments
            }
            b"BLPOP" | b"BRPOP" => {
                let mut arguments: Request = (0..self.random.usize(1..4)).map(|_| self.key("list")).collect();
                arguments.push(self.timeout());
                arguments
            }
            b"ZUNION" | b"ZINTER" => self.weighted_keys(false),
            b"ZUNIONSTORE" | b"ZINTERSTORE" => [vec![self.key("zset")], self.weighted_keys(true)].concat(),
            b"ZDIFF" => self.counted_keys("zset", 3),
            b"ZDIFFSTORE" => [vec![self.key("zset")], self.counted_keys("zset", 3)].concat(),
            b"ZINTERCARD" => self.counted_keys("zset", 3),
            b"ZRANGESTORE" => vec![self.key("zset"), self.key("zset"), self.index(), self.index()],
            b"BZPOPMIN" | b"BZPOPMAX" => {
                let mut arguments: Request = (0..self.random.usize(1..4)).map(|_| self.key("zset")).collect();
                arguments.push(self.timeout());
                arguments
            }
            b"ZMPOP" | b"BZMPOP" => {
                let mut arguments = self.counted_keys("zset", 3);
                arguments.push(self.pick(&["MIN", "MAX", "max", "UP"]));
                if self.chance(50) {
                    arguments.extend([self.pick(&["COUNT", "count", "COUNT", "LIMIT"]), self.index()]);
                }
                if name == b"BZMPOP" {
                    arguments.insert(0, self.timeout());
                }
                arguments
            }
            b"RPOPLPUSH" => vec![self.key("list"), self.key("list")],
            b"BRPOPLPUSH" => vec![self.key("list"), self.key("list"), self.timeout()],
            b"LMOVE" | b"BLMOVE" => {
                let ends = ["LEFT", "RIGHT", "left", "RIGHT", "LEFT", ""];
                let mut arguments = vec![self.key("list"), self.key("list"), self.pick(&ends), self.pick(&ends)];
                if name == b"BLMOVE" {
                    arguments.push(self.timeout());
                }
                arguments
            }
            b"SMOVE" => vec![self.key("set"), self.key("set"), self.member()],
            b"SINTERCARD" => {
                let mut arguments = self.counted_keys("set", 3);
                if self.chance(40) {
                    arguments.extend([self.pick(&["LIMIT", "limit", "LIMIT", "COUNT"]), self.index()]);
                }
                arguments
            }
            _ => (0..self.random.usize(2..5)).map(|_| self.key("set")).collect(),
        };
        [vec![name], arguments].concat()
    }

    /// There is one database here, and there are sixteen in Redis: none of the others.
    fn copy_options(&mut self, arguments: &mut Request) {
        for _ in 0..self.random.u32(..3) {
            match self.random.u32(..4) {
                0 => arguments.extend([b"DB".to_vec(), self.pick(&["0", "0", "16", "-1", "x", "", "2147483648"])]),
                1 => arguments.push(self.pick(&["BOGUS", ""])),
                _ => arguments.push(self.pick(&["REPLACE", "replace"])),
            }
        }
    }

    /// Keys with their number, which is right, or takes fewer or more for keys, or is none.
    fn counted_keys(&mut self, kind: &str, most: usize) -> Request {
        let keys: Request = (0..self.random.usize(1..=most)).map(|_| self.key(kind)).collect();
        let wrong = self.pick(&["0", "-1", "x", "", "1", "2", "3", "4", "99", "9223372036854775808", "1.0"]);
        let number = if self.chance(85) { keys.len().to_string().into_bytes() } else { wrong };
        [vec![number], keys].concat()
    }

    /// Nobody else pushes: the wait is as short as it can be.
    fn timeout(&mut self) -> Vec<u8> {
        self.pick(&["0.001", "0.0001", "1e-3", "0.001", "-1", "-0.5", "nan", "x", "", " 0"])
    }

    fn connection_request(&mut self) -> Request {
        match self.random.u32(..4) {
            0 => vec![b"PING".to_vec()],
            1 => vec![b"PING".to_vec(), self.value()],
            2 => vec![b"ECHO".to_vec(), self.value()],
            _ => vec![b"SELECT".to_vec(), self.pick(&["0", "x", "", "-1", "100"])],
        }
    }

    /// No command at all.
    fn odd_request(&mut self) -> Request {
        let mut request = vec![self.pick(&["NOSUCH", "", "get\r\nset", "GETT", "\x00", "client|id"])];
        (0..self.random.u32(..4)).for_each(|_| request.push(self.value()));
        if self.chance(20) {
            request.push(vec![b'y'; 300]);
        }
        request
    }
}

/// Whether one more argument, whatever it is, has a determined outcome, and soon: it is no number of random members, and
/// no time to wait.
fn takes_more(request: &Request) -> bool {
    let name = request[0].to_ascii_uppercase();
    match name.as_slice() {
        b"BLPOP" | b"BRPOP" | b"BZPOPMIN" | b"BZPOPMAX" => false,
        b"SRANDMEMBER" => request.len() > 2,
        // Redis 7.2 has an option there.
        b"ZRANK" | b"ZREVRANK" => false,
        _ => true,
    }
}

/// The requests of the transaction that a connection is in, as the oracle's replies tell.
#[derive(Default)]
struct Queue(Vec<Request>);

impl Queue {
    /// Notes what became of a request.
    fn note(&mut self, request: &Request, reply: &[u8]) {
        match reply {
            b"+QUEUED\r\n" => self.0.push(request.clone()),
            _ if is_exec(request) || request[0].eq_ignore_ascii_case(b"DISCARD") => self.0.clear(),
            _ => {}
        }
    }

    /// Whether two replies to a request are the same; those of EXEC, part by part.
    fn is_same(&self, request: &Request, ours: &[u8], oracle: &[u8]) -> bool {
        let (our_parts, oracle_parts) = (parts(ours), parts(oracle));
        if !is_exec(request) || oracle_parts.is_empty() || oracle_parts.len() != self.0.len() {
            return is_same(request, ours, oracle);
        }
        let is_same_part = |(request, (ours, oracle)): (&Request, (&&[u8], &&[u8]))| is_same(request, ours, oracle);
        our_parts.len() == oracle_parts.len()
            && self.0.iter().zip(our_parts.iter().zip(&oracle_parts)).all(is_same_part)
    }
}

fn is_exec(request: &Request) -> bool {
    request[0].eq_ignore_ascii_case(b"EXEC")
}

/// The elements of an array, byte for byte; nothing of anything else.
fn parts(reply: &[u8]) -> Vec<&[u8]> {
    let head = reply.iter().position(|&byte| byte == b'\n').map_or(reply.len(), |end| end + 1);
    let mut rest = if reply.starts_with(b"*") { &reply[head..] } else { &[] };
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (_, len) = Value::parse(rest).expect("a whole element");
        let (part, behind) = rest.split_at(len);
        parts.push(part);
        rest = behind;
    }
    parts
}

fn shown(request: &Request) -> String {
    request.iter().map(|argument| format!("\"{}\" ", argument.escape_ascii())).collect()
}

/// Where Shardrace follows 7.2 and the oracle is 7.0.15: the start of a request, what 7.0 says, what 7.2 says, and why.
struct Difference {
    command: &'static str,
    oracle: &'static str,
    ours: &'static str,
}

const DIFFERENCES: &[Difference] = &[];

/// Whether two replies to the same request at about the same time are the same.
fn is_same(request: &Request, ours: &[u8], oracle: &[u8]) -> bool {
    if ours == oracle {
        return true;
    }
    let name = String::from_utf8_lossy(&request[0]).to_uppercase();
    let (our_value, oracle_value) = (Value::of(ours), Value::of(oracle));
    let differs_as_known = DIFFERENCES
        .iter()
        .any(|known| known.command == name && known.oracle.as_bytes() == oracle && known.ours.as_bytes() == ours);
    if differs_as_known {
        return true;
    }
    let skew = |tolerated: i64| match (&our_value, &oracle_value) {
        (Value::Integer(ours), Value::Integer(oracle)) => {
            *ours > 0 && *oracle > 0 && (ours - oracle).abs() <= tolerated
        }
        _ => false,
    };
    match name.as_str() {
        "TTL" | "EXPIRETIME" => skew(CLOCK_SKEW_MS / 1000),
        "PTTL" | "PEXPIRETIME" => skew(CLOCK_SKEW_MS),
        "RANDOMKEY" => !our_value.is_null() && !oracle_value.is_null(),
        // Without a count, or with repetitions: any members, but as many. Their membership is checked in `sets`.
        "SRANDMEMBER" if request.len() == 2 => !our_value.is_null() && !oracle_value.is_null(),
        "SRANDMEMBER" if request[2].starts_with(b"-") => our_value.elements().len() == oracle_value.elements().len(),
        _ => same_in_any_order(&name, ours, oracle),
    }
}

/// A key's type, value and deadline in milliseconds. Unordered values are sorted.
type Dumped = (String, Vec<Vec<u8>>, i64);

/// All data, by key.
fn dump(address: SocketAddr) -> BTreeMap<Vec<u8>, Dumped> {
    let mut client = Client::connect(address);
    let keys = client.value(&["KEYS", "*"]).byte_strings();
    let mut all = BTreeMap::new();
    for key in keys {
        let kind = client.value(&[b"TYPE".as_slice(), &key]).text();
        let deadline_ms = client.value(&[b"PEXPIRETIME".as_slice(), &key]).integer();
        let mut ask = |arguments: &[&[u8]]| client.value(arguments);
        let content = match kind.as_str() {
            "string" => vec![ask(&[b"GET", &key]).bytes().to_vec()],
            "list" => ask(&[b"LRANGE", &key, b"0", b"-1"]).byte_strings(),
            "set" => {
                let mut members = ask(&[b"SMEMBERS", &key]).byte_strings();
                members.sort();
                members
            }
            "hash" => {
                let flat = ask(&[b"HGETALL", &key]).byte_strings();
                let mut pairs: Vec<_> = flat.chunks(2).map(<[_]>::to_vec).collect();
                pairs.sort();
                pairs.concat()
            }
            "zset" => ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]).byte_strings(),
            other => panic!("{other:?} is no type of this version"),
        };
        all.insert(key, (kind, content, deadline_ms));
    }
    all
}

#[track_caller]
fn assert_same_data(ours: SocketAddr, oracle: SocketAddr, when: &str) {
    let (ours, oracle) = (dump(ours), dump(oracle));
    let names = |all: &BTreeMap<Vec<u8>, _>| all.keys().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&oracle), "{when}: keys");
    for (key, (kind, content, deadline_ms)) in &ours {
        let (oracle_kind, oracle_content, oracle_deadline_ms) = &oracle[key];
        let key = key.escape_ascii();
        assert_eq!(kind, oracle_kind, "{when}: type of {key}");
        assert_eq!(content, oracle_content, "{when}: value of {key}");
        let is_same_deadline = (*deadline_ms < 0) == (*oracle_deadline_ms < 0)
            && (deadline_ms - oracle_deadline_ms).abs() <= CLOCK_SKEW_MS;
        assert!(is_same_deadline, "{when}: deadline of {key}: {deadline_ms}, not {oracle_deadline_ms}");
    }
}

fn check_equivalence(seed: u64, commands: usize, is_resp3: bool) {
    let oracle = RedisOracle::start();
    let servers: Vec<Server> = EVERY_ENGINE.iter().map(|setup| Server::start(*setup, &[])).collect();
    let connect = if is_resp3 { Client::connect_resp3 } else { Client::connect };
    let mut oracle_client = connect(oracle.address());
    let mut clients: Vec<Client> = servers.iter().map(|server| connect(server.address())).collect();
    let mut generator = Generator::new(seed);
    let mut queue = Queue::default();
    let mut executed = 0;
    let mut left = commands;
    while left > 0 {
        let count = left.min(COMMANDS_PER_PIPELINE);
        left -= count;
        let requests: Vec<Request> = (0..count).map(|_| generator.next()).collect();
        let bytes: Vec<u8> = requests.iter().flat_map(|arguments| request(arguments)).collect();
        oracle_client.send_and_hold(&bytes);
        clients.iter_mut().for_each(|client| client.send_and_hold(&bytes));
        for request in &requests {
            let wanted = oracle_client.reply();
            for (client, server) in clients.iter_mut().zip(&servers) {
                let reply = client.reply();
                assert!(
                    queue.is_same(request, &reply, &wanted),
                    "SEED={seed}, {:?}, resp3 {is_resp3}\n{}\n  got  {}\n  want {}",
                    server.setup(),
                    shown(request),
                    reply.escape_ascii(),
                    wanted.escape_ascii()
                );
            }
            executed += usize::from(is_exec(request) && wanted.starts_with(b"*") && !queue.0.is_empty());
            queue.note(request, &wanted);
        }
    }
    assert!(executed >= commands / 500, "{executed} transactions in {commands} commands");
    for server in &servers {
        assert_same_data(server.address(), oracle.address(), &format!("SEED={seed}, {:?}", server.setup()));
    }
    for server in servers {
        let setup = server.setup();
        let again = server.kill().start(setup, &[]);
        assert_same_data(again.address(), oracle.address(), &format!("SEED={seed}, {setup:?} after kill -9"));
    }
}

#[test]
fn every_engine_replies_as_redis_does_and_keeps_the_same_data() {
    let seed = seed();
    let commands = effort("EQUIVALENCE_COMMANDS", 20_000);
    check_equivalence(seed, commands * 3 / 4, false);
    check_equivalence(seed.wrapping_add(1), commands / 4, true);
}
