//! Random writes of every family, for masters.

use super::near;
pub use harness::generator::Request;
pub use harness::generator::atoms::{NEAR_MS, Source};
use harness::generator::requests::{self, Generator};
use harness::{Client, words};

/// Random requests for a client.
pub struct Load {
    generator: Generator,
    /// Payloads of DUMP, if many keys shall have deadlines that come soon.
    near: Option<Vec<Vec<u8>>>,
}

impl Load {
    /// One of a seed.
    pub fn new(seed: u64) -> Self {
        Self { generator: Generator::new(seed), near: None }
    }

    /// One in which many keys have deadlines that come soon; RESTORE gets these payloads.
    pub fn with_near_deadlines(seed: u64, payloads: Vec<Vec<u8>>) -> Self {
        let mut generator = Generator::new(seed);
        generator.source().choose_near_deadlines();
        Self { generator, near: Some(payloads) }
    }

    /// A number below another.
    pub fn below(&mut self, most: usize) -> usize {
        self.generator.source().below(most)
    }

    /// Sends so many requests on one connection; the replies do not matter.
    pub fn send(&mut self, client: &mut Client, count: usize) {
        let requests = self.requests(count);
        client.pipeline(&requests);
    }

    /// So many requests, or some more; any transaction ends with them.
    pub fn requests(&mut self, count: usize) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::new();
        while requests.len() < count {
            let request = self.generator.alone(0);
            let name = requests::name_of(&request);
            // They change the connection, or take time; Redis 8.2 has no reply to an AUTH that fails in a transaction.
            let passed_over = ["AUTH", "RESET", "HELLO", "QUIT", "CLIENT", "WAIT", "WAITAOF"];
            let is_passed_over = passed_over.contains(&name.as_str());
            let waits = name.starts_with('B') && (name.contains("POP") || name.contains("MOVE"));
            let blocks = request.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK"));
            // Redis 7.0 creates the key, but does not propagate that to replicas, its own included, if no operation
            // succeeds.
            let fails = name == "BITFIELD" && request.iter().any(|word| word.eq_ignore_ascii_case(b"FAIL"));
            // Newer ones read the lower half of an index, and send that to their replicas, too.
            let wraps = name == "LSET" && request.get(2).is_some_and(|index| index.len() > 9);
            // Redis adds the elements before the one at which it finds a HyperLogLog damaged (by SETRANGE, say),
            // replies with an error, and propagates nothing.
            let adds_several = name == "PFADD" && request.len() > 3;
            if is_passed_over || waits || blocks || fails || wraps || adds_several {
                continue;
            }
            requests.extend(order_before(&request));
            requests.push(request);
            if self.below(20) == 0 {
                requests.push(self.other());
            }
            if let Some(payloads) = &self.near
                && self.generator.source().chance(30)
            {
                requests.extend(near::group(self.generator.source(), payloads));
            }
        }
        requests.push(vec![b"EXEC".to_vec()]);
        self.generator.forget_connections();
        requests
    }

    /// Large values among the same.
    pub fn requests_with_large(&mut self, count: usize) -> Vec<Request> {
        let mut requests = self.requests(count);
        for _ in 0..count / 4 {
            let at = self.below(requests.len());
            requests.insert(at, near::large(self.generator.source()));
        }
        requests
    }

    /// Requests that the grammars do not have.
    fn other(&mut self) -> Request {
        const LINES: [&str; 12] = [
            "EVAL \"redis.call('incr',KEYS[1]);redis.call('set',KEYS[2],ARGV[1]);redis.call('lpush','key:list:1',1)\" 2 n o value",
            "EVAL \"redis.call('select',2);return{redis.call('spop','key:set:1')}\" 0",
            "FUNCTION LOAD REPLACE \"#!lua name=lib\nredis.register_function('push', function(KEYS, ARGV) \
             redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2]) end)\"",
            "FCALL push 2 key:list:2 n value",
            "FCALL push 2 key:list:1 o other",
            "FUNCTION DELETE lib",
            "PUBLISH channel message",
            "SET short lived PX 3",
            "SPOP key:set:2 2",
            "XADD key:stream:1 * a b",
            "HINCRBYFLOAT key:hash:1 f 0.1",
            "INCRBYFLOAT float 0.1",
        ];
        let at = self.below(LINES.len());
        words(LINES[at])
    }
}

/// If scores differ, a range by members depends on the encoding of the set, which may differ on a replica: redis-server
/// 7.0.15 and a replica of its own kind end with different data (a set of 60 members, with scores `7 * n % 13`, that
/// was a skiplist of 200 before and comes to the replica as a listpack, `ZREMRANGEBYLEX z [m042 [m049`: 4 members are
/// removed here, none there). So the scores become the same before.
fn order_before(request: &Request) -> Option<Request> {
    let name = requests::name_of(request);
    let source = match name.as_str() {
        "ZREMRANGEBYLEX" => 1,
        "ZRANGESTORE" if request.iter().any(|word| word.eq_ignore_ascii_case(b"BYLEX")) => 2,
        _ => return None,
    };
    let key = request.get(source)?.clone();
    let words = [b"ZUNIONSTORE".to_vec(), key.clone(), b"1".to_vec(), key, b"WEIGHTS".to_vec(), b"0".to_vec()];
    Some(words.to_vec())
}
