//! Requests that give a key a deadline which comes soon, and what else happens to that key, before its time or after
//! it: one by one, in MULTI, or in a script.

use super::load::{Request, Source};

/// What gives a key a deadline. A word in capitals after the first stands for an argument: see `argument`.
const BEGINNINGS: [&str; 11] = [
    "SET KEY VALUE PX NEAR",
    "SET KEY VALUE PXAT NEAR-AT",
    "PSETEX KEY NEAR VALUE",
    "PEXPIRE KEY NEAR",
    "PEXPIRE KEY NEAR",
    "PEXPIREAT KEY NEAR-AT",
    "PEXPIRE KEY NEAR LT",
    "GETEX KEY PX NEAR",
    "GETEX KEY PXAT NEAR-AT",
    "RESTORE KEY NEAR PAYLOAD replace",
    "RESTORE KEY NEAR-AT PAYLOAD absttl replace",
];

/// What happens to it next.
const SEQUELS: [&str; 66] = [
    "PERSIST KEY",
    "PERSIST KEY",
    "PERSIST KEY",
    "GETEX KEY persist",
    "PEXPIRE KEY FAR",
    "PEXPIRE KEY FAR gt",
    "PEXPIRE KEY NEAR",
    "PEXPIRE KEY NEAR gt",
    "PEXPIRE KEY -1",
    "EXPIRE KEY FAR",
    "PERSIST OTHER",
    "SET KEY VALUE",
    "SET KEY VALUE keepttl",
    "SET KEY VALUE xx keepttl get",
    "SET KEY VALUE nx",
    "SET KEY VALUE PX NEAR nx",
    "SETNX KEY VALUE",
    "MSETNX KEY VALUE OTHER VALUE",
    "GETSET KEY VALUE",
    "GETDEL KEY",
    "INCR KEY",
    "INCRBYFLOAT KEY 0.5",
    "APPEND KEY VALUE",
    "SETRANGE KEY 3 VALUE",
    "SETBIT KEY 9 1",
    "BITFIELD KEY incrby u8 0 1",
    "RPUSH KEY VALUE",
    "LPUSHX KEY VALUE",
    "LPOP KEY",
    "LSET KEY 0 VALUE",
    "LTRIM KEY 0 2",
    "LMOVE KEY OTHER left right",
    "RPOPLPUSH OTHER KEY",
    "SADD KEY VALUE",
    "SPOP KEY",
    "SMOVE KEY OTHER 1",
    "SUNIONSTORE OTHER KEY",
    "SDIFFSTORE KEY OTHER KEY",
    "HSET KEY f VALUE",
    "HINCRBY KEY g 1",
    "HDEL KEY f",
    "ZADD KEY 1 VALUE",
    "ZINCRBY KEY 2 VALUE",
    "ZPOPMIN KEY",
    "ZUNIONSTORE OTHER 2 KEY OTHER",
    "XADD KEY * f VALUE",
    "XTRIM KEY maxlen 1",
    "XGROUP create KEY g 0 mkstream",
    "XREADGROUP group g c count 2 streams KEY >",
    "XREADGROUP group g d noack streams KEY >",
    "XAUTOCLAIM KEY g d 0 0",
    "XGROUP setid KEY g 0",
    "XGROUP destroy KEY g",
    "PFADD KEY VALUE",
    "COPY KEY OTHER",
    "COPY KEY OTHER replace",
    "COPY KEY OTHER db 1 replace",
    "RENAME KEY OTHER",
    "RENAME OTHER KEY",
    "RENAMENX KEY OTHER",
    "MOVE KEY 1",
    "SORT KEY store OTHER",
    "GET KEY",
    "EXISTS KEY OTHER",
    "DEL KEY",
    "SWAPDB 0 1",
];

/// Commands of a script, each as a number of words and these words; what fails does not end it.
const SCRIPT: &str = "local at = 1
                      while ARGV[at] do
                          local words = {}
                          for word = 1, tonumber(ARGV[at]) do words[word] = ARGV[at + word] end
                          redis.pcall(unpack(words))
                          at = at + #words + 1
                      end";

/// A key that gets a deadline, and what follows.
pub fn group(source: &mut Source, payloads: &[Vec<u8>]) -> Vec<Request> {
    let (key, other) = (source.key("any"), source.key("any"));
    let mut forms = vec![BEGINNINGS[source.below(BEGINNINGS.len())]];
    // A string first, so that each form finds a key often enough.
    if source.chance(30) {
        forms.insert(0, "SET KEY VALUE");
    }
    for _ in 0..source.below(4) {
        forms.push(SEQUELS[source.below(SEQUELS.len())]);
    }
    let requests: Vec<Request> = forms
        .into_iter()
        .map(|form| form.split(' ').map(|word| argument(source, word, [&key, &other], payloads)).collect())
        .collect();
    match source.below(4) {
        0 => in_multi(requests),
        1 => vec![in_script(&requests)],
        _ => requests,
    }
}

/// A value of more than `maxmemory` can have many of, half of them with a deadline.
pub fn large(source: &mut Source) -> Request {
    let key = format!("large:{}", source.below(600)).into_bytes();
    let mut request = vec![b"SET".to_vec(), key, vec![b'v'; 4000 + source.below(8000)]];
    if source.chance(50) {
        let deadline = if source.chance(50) { source.near_deadline(false) } else { b"1000000".to_vec() };
        request.extend([b"PX".to_vec(), deadline]);
    }
    request
}

fn argument(source: &mut Source, word: &str, [key, other]: [&[u8]; 2], payloads: &[Vec<u8>]) -> Vec<u8> {
    match word {
        "KEY" => key.to_vec(),
        "OTHER" => other.to_vec(),
        "VALUE" => source.value(),
        "NEAR" => source.near_deadline(false),
        "NEAR-AT" => source.near_deadline(true),
        "FAR" => (1_000_000 + source.below(1000)).to_string().into_bytes(),
        "PAYLOAD" => payloads[source.below(payloads.len())].clone(),
        word => word.as_bytes().to_vec(),
    }
}

fn in_multi(requests: Vec<Request>) -> Vec<Request> {
    let begin = std::iter::once(vec![b"MULTI".to_vec()]);
    begin.chain(requests).chain([vec![b"EXEC".to_vec()]]).collect()
}

fn in_script(requests: &[Request]) -> Request {
    let words =
        requests.iter().flat_map(|words| std::iter::once(words.len().to_string().into_bytes()).chain(words.clone()));
    ["EVAL", SCRIPT, "0"].map(|word| word.as_bytes().to_vec()).into_iter().chain(words).collect()
}
