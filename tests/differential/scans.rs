//! Whole walks with SCAN and the like: pages differ from server to server, but not their sum.

use super::Request;
use super::pair::{Pair, shown};
use harness::generator::atoms::Source;
use harness::{Client, Value};
use std::collections::BTreeSet;

const WALKS: usize = 6;
/// A longer walk does not end.
const PAGES_MAX: usize = 10_000;

/// Walks over both servers and compares the results.
///
/// # Panics
/// If they differ.
pub fn compare(pair: &Pair, source: &mut Source) {
    let (mut ours, mut oracle) = pair.clients();
    for _ in 0..WALKS {
        let walk = walk(source);
        let (found, wanted) = (walk.whole(&mut ours), walk.whole(&mut oracle));
        assert_eq!(found, wanted, "{}", shown(&walk.request(b"0")));
    }
}

struct Walk {
    name: &'static str,
    key: Option<Vec<u8>>,
    options: Request,
}

fn walk(source: &mut Source) -> Walk {
    const WALKS: &[(&str, &str)] =
        &[("SCAN", "any"), ("SSCAN", "set"), ("HSCAN", "hash"), ("ZSCAN", "zset"), ("SCAN", "any")];
    let (name, kind) = WALKS[source.below(WALKS.len())];
    let mut options: Request = Vec::new();
    if source.chance(40) {
        options.extend([b"COUNT".to_vec(), source.pick(&["1", "2", "5", "1000"])]);
    }
    if source.chance(40) {
        options.extend([b"MATCH".to_vec(), source.pick(&["*", "*:1", "{tag}*", "1*", "[a-c]", "?", "x"])]);
    }
    if name == "SCAN" && source.chance(30) {
        options.extend([b"TYPE".to_vec(), source.pick(&["string", "list", "set", "hash", "zset", "stream", "STRING"])]);
    }
    let key = (name != "SCAN").then(|| source.key(kind));
    Walk { name, key, options }
}

impl Walk {
    fn request(&self, cursor: &[u8]) -> Request {
        let mut request = vec![self.name.into()];
        request.extend(self.key.clone());
        request.push(cursor.to_vec());
        request.extend(self.options.clone());
        request
    }

    /// All elements that it finds, once; or the error.
    fn whole(&self, client: &mut Client) -> Result<BTreeSet<Vec<Vec<u8>>>, Vec<u8>> {
        let elements_together = if matches!(self.name, "HSCAN" | "ZSCAN") { 2 } else { 1 };
        let mut found = BTreeSet::new();
        let mut cursor = b"0".to_vec();
        for _ in 0..PAGES_MAX {
            let page = client.value(&self.request(&cursor));
            if let Value::Error(text) = page {
                return Err(text);
            }
            let elements = page.elements()[1].byte_strings();
            found.extend(elements.chunks(elements_together).map(|unit| self.comparable(unit)));
            cursor = page.elements()[0].bytes().to_vec();
            if cursor == b"0" {
                return Ok(found);
            }
        }
        panic!("no end within {PAGES_MAX} pages: {}", shown(&self.request(b"0")));
    }

    /// An element unchanged, a score as its number: its form, and the sign of zero, differ (see `differences`).
    fn comparable(&self, unit: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut unit = unit.to_vec();
        if let ("ZSCAN", [_, score]) = (self.name, &mut unit[..]) {
            let number: f64 = String::from_utf8_lossy(score).parse().expect("a score is a number");
            *score = format!("{:e}", number + 0.0).into_bytes();
        }
        unit
    }
}
