//! The requests that fill the keyspace and those that are measured. All are prepared before the measurement.

use super::options::{Data, KEYS_OF_MULTI, Options, Skew};
use super::zipf::Zipf;
use std::sync::Arc;

/// Elements of each collection.
const ELEMENTS: usize = 16;
/// How many requests are prepared for a connection, which sends them again and again.
const PREPARED: usize = 1024;
/// How many bytes these have at most; there is always one batch.
const PREPARED_BYTES_MAX: usize = 1024 * 1024;
/// Requests in a batch that fills the keyspace.
const FILLED_TOGETHER: usize = 64;

/// Requests that are sent together.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Encoded as a client sends them.
    pub bytes: Arc<[u8]>,
    /// How many there are.
    pub requests: u64,
}

/// Makes requests.
#[derive(Debug)]
pub struct Load<'a> {
    options: &'a Options,
    skew: Skew,
    zipf: Zipf,
    value: Vec<u8>,
}

impl<'a> Load<'a> {
    /// The load that `options` ask for.
    pub fn new(options: &'a Options) -> Result<Self, String> {
        let skew = options.skew()?;
        let zipf = match skew {
            Skew::Zipf(exponent) => Zipf::new(options.keys, exponent),
            Skew::Uniform | Skew::One => Zipf::new(1, 0.0),
        };
        Ok(Self { options, skew, zipf, value: vec![b'x'; options.value_size] })
    }

    /// The batches that create all keys.
    pub fn filling(&self) -> Vec<Batch> {
        let mut batches = Vec::new();
        let (mut bytes, mut requests) = (Vec::new(), 0);
        for number in 0..self.options.keys {
            self.push_filling(number, &mut bytes);
            requests += 1;
            if requests == FILLED_TOGETHER || number + 1 == self.options.keys {
                batches.push(Batch { bytes: std::mem::take(&mut bytes).into(), requests: requests as u64 });
                requests = 0;
            }
        }
        batches
    }

    fn push_filling(&self, number: usize, bytes: &mut Vec<u8>) {
        let (key, value) = (key(number), self.value.as_slice());
        let elements: Vec<(Vec<u8>, Vec<u8>)> = (0..ELEMENTS).map(|n| (field(n), score(n))).collect();
        let mut words: Vec<&[u8]> = Vec::new();
        match self.options.data {
            Data::Strings => words.extend([b"SET", key.as_slice(), value]),
            Data::Hashes => {
                words.extend([b"HSET", key.as_slice()]);
                elements.iter().for_each(|(field, _)| words.extend([field.as_slice(), value]));
            }
            Data::Lists => {
                words.extend([b"RPUSH", key.as_slice()]);
                words.extend(std::iter::repeat_n(value, ELEMENTS));
            }
            Data::Sets => {
                words.extend([b"SADD", key.as_slice()]);
                words.extend(elements.iter().map(|(member, _)| member.as_slice()));
            }
            Data::Zsets => {
                words.extend([b"ZADD", key.as_slice()]);
                elements.iter().for_each(|(member, score)| words.extend([score.as_slice(), member.as_slice()]));
            }
        }
        push(bytes, &words);
    }

    /// The batches of one connection.
    pub fn prepared(&self, random: &mut fastrand::Rng) -> Vec<Batch> {
        let wanted = (PREPARED / self.options.batch).max(1);
        let (mut batches, mut total) = (Vec::new(), 0);
        while batches.len() < wanted && (total < PREPARED_BYTES_MAX || batches.is_empty()) {
            let mut bytes = Vec::new();
            (0..self.options.batch).for_each(|_| self.push_request(&mut bytes, random));
            total += bytes.len();
            batches.push(Batch { bytes: bytes.into(), requests: self.options.batch as u64 });
        }
        batches
    }

    fn push_request(&self, bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
        let is_read = random.u32(..100) < self.options.reads;
        if random.u32(..100) < self.options.multi_key {
            return self.push_multi(bytes, is_read, random);
        }
        let (key, value) = (key(self.draw(random)), self.value.as_slice());
        let (element, score) = (random.usize(..ELEMENTS), score(random.usize(..1000)));
        let (field, index) = (field(element), element.to_string().into_bytes());
        let (key, field, index) = (key.as_slice(), field.as_slice(), index.as_slice());
        match (self.options.data, is_read) {
            (Data::Strings, true) => push(bytes, &[b"GET", key]),
            (Data::Strings, false) => push(bytes, &[b"SET", key, value]),
            (Data::Hashes, true) => push(bytes, &[b"HGET", key, field]),
            (Data::Hashes, false) => push(bytes, &[b"HSET", key, field, value]),
            (Data::Lists, true) => push(bytes, &[b"LINDEX", key, index]),
            (Data::Lists, false) => push(bytes, &[b"LSET", key, index, value]),
            (Data::Sets, true) => push(bytes, &[b"SISMEMBER", key, field]),
            (Data::Sets, false) => push(bytes, &[b"SADD", key, field]),
            (Data::Zsets, true) => push(bytes, &[b"ZSCORE", key, field]),
            (Data::Zsets, false) => push(bytes, &[b"ZADD", key, &score, field]),
        }
    }

    fn push_multi(&self, bytes: &mut Vec<u8>, is_read: bool, random: &mut fastrand::Rng) {
        let keys: Vec<Vec<u8>> = (0..KEYS_OF_MULTI).map(|_| key(self.draw(random))).collect();
        let mut words: Vec<&[u8]> = vec![if is_read { b"MGET" } else { b"MSET" }];
        for key in &keys {
            words.push(key);
            words.extend((!is_read).then_some(self.value.as_slice()));
        }
        push(bytes, &words);
    }

    fn draw(&self, random: &mut fastrand::Rng) -> usize {
        match self.skew {
            Skew::Uniform => random.usize(..self.options.keys),
            Skew::Zipf(_) => self.zipf.draw(random.f64()),
            Skew::One => 0,
        }
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number:010}").into_bytes()
}

fn field(number: usize) -> Vec<u8> {
    format!("field:{number:04}").into_bytes()
}

fn score(number: usize) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn push(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        Options::of(["shardrace-scaling"].iter().chain(arguments)).unwrap()
    }

    fn names(batches: &[Batch]) -> Vec<String> {
        let all = batches.iter().flat_map(|batch| batch.bytes.split(|&byte| byte == b'*').skip(1));
        all.map(|request| String::from_utf8_lossy(request).split("\r\n").nth(2).unwrap().to_owned()).collect()
    }

    #[test]
    fn a_batch_has_as_many_requests_as_are_asked_for_in_their_shares() {
        let options = options(&["--batch", "16", "--reads", "90", "--multi-key", "25"]);
        let batches = Load::new(&options).unwrap().prepared(&mut fastrand::Rng::with_seed(3));
        let names = names(&batches);
        assert_eq!((batches.len(), names.len()), (64, 1024));
        let count = |name: &str| names.iter().filter(|found| *found == name).count();
        assert!((620..760).contains(&count("GET")) && (170..290).contains(&count("MGET")), "{names:?}");
        assert_eq!(count("GET") + count("MGET") + count("SET") + count("MSET"), 1024);
    }

    #[test]
    fn large_values_are_prepared_in_few_batches() {
        let options = options(&["--batch", "4", "--reads", "0", "--value-size", "100000"]);
        let batches = Load::new(&options).unwrap().prepared(&mut fastrand::Rng::with_seed(3));
        assert!((2..=4).contains(&batches.len()), "{}", batches.len());
    }

    #[test]
    fn filling_names_every_key_once() {
        let options = options(&["--keys", "130"]);
        let batches = Load::new(&options).unwrap().filling();
        assert_eq!(batches.iter().map(|batch| batch.requests).collect::<Vec<_>>(), [64, 64, 2]);
        assert_eq!(names(&batches).len(), 130);
    }

    #[test]
    fn one_key_is_one_key() {
        let options = options(&["--skew", "one", "--reads", "100"]);
        let batches = Load::new(&options).unwrap().prepared(&mut fastrand::Rng::with_seed(3));
        let text = String::from_utf8_lossy(&batches[0].bytes).into_owned();
        assert_eq!(text.matches("key:0000000000").count(), 16);
    }
}
