//! Gathers the replies of a command's parts into its one reply, by the response policy of its row.

use crate::commands::{Response, joined_pages};
use crate::resp::{Reply, parse_i64};
use crate::stats::slow_log::Slow;

/// A command that runs in parts on several shards.
#[derive(Debug)]
pub struct Gather {
    response: Response,
    resp3: bool,
    /// For each key in the order of the request, the shard that has it.
    key_shards: Vec<usize>,
    parts_left: usize,
    /// The replies so far, with their shards.
    parts: Vec<(usize, Vec<u8>)>,
    /// When the first part came back, if the read is sampled; otherwise 0.
    since: u64,
    /// The entry of the slow log, joined from those of the parts that took long.
    slow: Option<Box<Slow>>,
}

impl Gather {
    /// A gather of `parts` replies.
    pub fn new(response: Response, resp3: bool, key_shards: Vec<usize>, parts: usize) -> Self {
        let empty = Vec::with_capacity(parts);
        Self { response, resp3, key_shards, parts_left: parts, parts: empty, since: 0, slow: None }
    }

    /// Records when a sampled part came back, or 0.
    pub fn note_since(&mut self, since: u64) {
        if self.since == 0 {
            self.since = since;
        }
    }

    /// When the first part came back, if the read is sampled; otherwise 0.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Adds a part that took long.
    pub fn note_slow(&mut self, part: Slow) {
        match &mut self.slow {
            Some(whole) => whole.join(part),
            None => self.slow = Some(Box::new(part)),
        }
    }

    /// The entry of the slow log, if a part took long.
    pub fn take_slow(&mut self) -> Option<Slow> {
        self.slow.take().map(|slow| *slow)
    }

    /// Adds the reply of a shard; true if it was the last.
    pub fn add(&mut self, shard: usize, reply: &[u8]) -> bool {
        self.parts.push((shard, reply.to_vec()));
        self.parts_left -= 1;
        self.parts_left == 0
    }

    /// Appends the one reply. `keys_of` returns the number of keys of a shard, for a fair draw; `random` draws below
    /// its argument.
    pub fn write(mut self, out: &mut Vec<u8>, keys_of: impl Fn(usize) -> u64, random: impl FnOnce(u64) -> u64) {
        self.parts.sort_unstable_by_key(|(shard, _)| *shard);
        if let Some((_, error)) = self.parts.iter().find(|(_, reply)| reply.first() == Some(&b'-')) {
            out.extend_from_slice(error);
            return;
        }
        let mut reply = Reply::new(out, self.resp3);
        match self.response {
            Response::First | Response::AllSucceeded => reply.raw(&self.parts[0].1),
            Response::Sum => reply.integer(self.parts.iter().map(|(_, part)| integer_of(part)).sum()),
            Response::InKeyOrder => self.write_in_key_order(&mut reply),
            Response::Concatenated => self.write_concatenated(&mut reply),
            Response::AnyByKeys => self.write_any(&mut reply, keys_of, random),
            Response::Page => self.write_page(&mut reply),
        }
    }

    fn write_in_key_order(&self, reply: &mut Reply<'_>) {
        let mut rest: Vec<(usize, &[u8])> =
            self.parts.iter().map(|(shard, part)| (*shard, split_array(part).1)).collect();
        reply.array(self.key_shards.len());
        for &shard in &self.key_shards {
            let index = rest.binary_search_by_key(&shard, |(shard, _)| *shard).expect("each shard of a key has a part");
            let (element, tail) = rest[index].1.split_at(scalar_len(rest[index].1));
            reply.raw(element);
            rest[index].1 = tail;
        }
    }

    fn write_concatenated(&self, reply: &mut Reply<'_>) {
        let arrays: Vec<(usize, &[u8])> = self.parts.iter().map(|(_, part)| split_array(part)).collect();
        reply.array(arrays.iter().map(|(len, _)| len).sum());
        arrays.iter().for_each(|(_, elements)| reply.raw(elements));
    }

    fn write_page(&self, reply: &mut Reply<'_>) {
        let pages = self.parts.iter().map(|(shard, part)| (*shard, split_page(part)));
        let (cursor, count) = joined_pages(pages.clone().map(|(shard, (cursor, _))| (shard, cursor)));
        let arrays: Vec<(usize, &[u8])> = pages.take(count).map(|(_, (_, page))| split_array(page)).collect();
        reply.array(2);
        reply.bulk(cursor);
        reply.array(arrays.iter().map(|(len, _)| len).sum());
        arrays.iter().for_each(|(_, elements)| reply.raw(elements));
    }

    fn write_any(&self, reply: &mut Reply<'_>, keys_of: impl Fn(usize) -> u64, random: impl FnOnce(u64) -> u64) {
        let weighted = self.parts.iter().filter(|(_, part)| !is_null(part));
        let weighted: Vec<(u64, &[u8])> = weighted.map(|(shard, part)| (keys_of(*shard).max(1), &part[..])).collect();
        if weighted.is_empty() {
            return reply.null();
        }
        let mut ticket = random(weighted.iter().map(|(weight, _)| weight).sum());
        for (weight, part) in weighted {
            if ticket < weight {
                return reply.raw(part);
            }
            ticket -= weight;
        }
    }
}

/// The cursor of a page, and the array of its elements as it is encoded.
fn split_page(encoded: &[u8]) -> (&[u8], &[u8]) {
    let (_, pair) = split_array(encoded);
    let (cursor, elements) = pair.split_at(scalar_len(pair));
    (&cursor[line_len(cursor)..cursor.len() - 2], elements)
}

/// The number of elements of an array, and their encoding.
fn split_array(encoded: &[u8]) -> (usize, &[u8]) {
    let head = line_len(encoded);
    (len_of(integer_of(encoded)), &encoded[head..])
}

fn len_of(integer: i64) -> usize {
    usize::try_from(integer).expect("a length of our own writing is not negative")
}

/// The integer in the first line: a reply `:n`, or the length of what follows.
fn integer_of(encoded: &[u8]) -> i64 {
    parse_i64(&encoded[1..line_len(encoded) - 2]).expect("a part's reply begins with an integer of our own writing")
}

/// How many bytes the string, integer or null at the start takes.
fn scalar_len(encoded: &[u8]) -> usize {
    let line = line_len(encoded);
    match encoded[0] {
        b'$' => match integer_of(encoded) {
            -1 => line,
            len => line + len_of(len) + 2,
        },
        _ => line,
    }
}

fn line_len(encoded: &[u8]) -> usize {
    encoded.iter().position(|&byte| byte == b'\n').expect("a part's reply is whole") + 1
}

fn is_null(encoded: &[u8]) -> bool {
    matches!(encoded, b"$-1\r\n" | b"_\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(response: Response, key_shards: &[usize], parts: &[(usize, &str)]) -> String {
        let mut gather = Gather::new(response, false, key_shards.to_vec(), parts.len());
        for (index, (shard, part)) in parts.iter().enumerate() {
            assert_eq!(gather.add(*shard, part.as_bytes()), index == parts.len() - 1);
        }
        let mut out = Vec::new();
        gather.write(&mut out, |shard| shard as u64, |below| below - 1);
        String::from_utf8(out).expect("the test's replies are text")
    }

    #[test]
    fn parts_become_one_reply_whatever_their_order_of_arrival() {
        assert_eq!(gathered(Response::Sum, &[], &[(1, ":2\r\n"), (0, ":40\r\n")]), ":42\r\n");
        assert_eq!(gathered(Response::AllSucceeded, &[], &[(1, "+OK\r\n"), (0, "+OK\r\n")]), "+OK\r\n");
        assert_eq!(
            gathered(
                Response::InKeyOrder,
                &[1, 0, 1],
                &[(1, "*2\r\n$1\r\na\r\n$-1\r\n"), (0, "*1\r\n$4\r\n\r\n\r\n\r\n")]
            ),
            "*3\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n$-1\r\n"
        );
        assert_eq!(
            gathered(Response::Concatenated, &[], &[(1, "*1\r\n$1\r\na\r\n"), (0, "*0\r\n")]),
            "*1\r\n$1\r\na\r\n"
        );
    }

    #[test]
    fn an_error_of_one_part_is_the_error_of_the_whole() {
        assert_eq!(gathered(Response::Sum, &[], &[(1, ":2\r\n"), (0, "-ERR no\r\n")]), "-ERR no\r\n");
    }

    #[test]
    fn a_null_is_never_drawn_while_another_shard_has_keys() {
        assert_eq!(gathered(Response::AnyByKeys, &[], &[(1, "$-1\r\n"), (3, "$1\r\na\r\n")]), "$1\r\na\r\n");
        assert_eq!(gathered(Response::AnyByKeys, &[], &[(1, "$-1\r\n"), (3, "$-1\r\n")]), "$-1\r\n");
    }

    #[test]
    fn parts_of_a_page_are_joined_up_to_the_first_that_leaves_keys_of_its_shard() {
        let page = |cursor: u64, key: &str| {
            let cursor = cursor.to_string();
            format!("*2\r\n${}\r\n{cursor}\r\n*1\r\n$1\r\n{key}\r\n", cursor.len())
        };
        let start_of = |shard: u64| shard << 48;
        let (first, second, last) = (page(start_of(1), "a"), page(start_of(2), "b"), page(0, "c"));
        let whole = "*2\r\n$1\r\n0\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n";
        assert_eq!(gathered(Response::Page, &[], &[(2, &last), (0, &first), (1, &second)]), whole);
        let stopped = page(start_of(1) + 7, "b");
        let until = format!("*2\r\n$15\r\n{}\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", start_of(1) + 7);
        assert_eq!(gathered(Response::Page, &[], &[(0, &first), (1, &stopped), (2, &last)]), until);
    }
}
