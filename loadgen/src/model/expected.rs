//! The reply that is expected.

use crate::base::fnv::Fnv;

/// The expected reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Of all bytes, or of the first line where elements have no order.
    hash: Fnv,
    /// Elements in any order: how many bulk strings form a unit, and the sum of the hashes of the units.
    unordered: Option<(usize, u64)>,
}

impl Expected {
    /// These bytes.
    pub(crate) fn exactly(reply: &[u8]) -> Self {
        Self::of_hash(Fnv::of(reply))
    }

    /// Bytes of this hash.
    pub(super) fn of_hash(hash: Fnv) -> Self {
        Self { hash, unordered: None }
    }

    /// The elements of this aggregate of bulk strings, `together` as a unit, in any order.
    pub(crate) fn unordered(reply: &[u8], together: usize) -> Self {
        let (head, sum) = sum_of_elements(reply, together).expect("the model makes aggregates of bulk strings");
        Self { hash: Fnv::of(head), unordered: Some((together, sum)) }
    }

    /// Whether a reply is the expected one.
    pub(crate) fn is(&self, reply: &[u8]) -> bool {
        match self.unordered {
            None => self.hash == Fnv::of(reply),
            Some((together, expected)) => sum_of_elements(reply, together)
                .is_some_and(|(head, sum)| self.hash == Fnv::of(head) && expected == sum),
        }
    }
}

/// The first line, and the sum of the hashes of what follows; `None` if that is not bulk strings.
fn sum_of_elements(reply: &[u8], together: usize) -> Option<(&[u8], u64)> {
    let (head, mut rest) = split_line(reply)?;
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let mut after = rest;
        for _ in 0..together {
            let (length, body) = split_line(after)?;
            let length: usize = std::str::from_utf8(length.strip_prefix(b"$")?).ok()?.trim_end().parse().ok()?;
            after = body.get(length.checked_add(2)?..)?;
        }
        sum = sum.wrapping_add(Fnv::of(&rest[..rest.len() - after.len()]).value());
        rest = after;
    }
    Some((head, sum))
}

/// A line with its end, and what follows.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some(bytes.split_at(end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_without_an_order_may_come_in_any_and_must_all_be_there() {
        let expected = Expected::unordered(b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n", 2);
        assert!(expected.is(b"*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\n1\r\n"));
        for wrong in [
            &b"*4\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\nb\r\n$1\r\n1\r\n"[..],
            b"*2\r\n$1\r\nb\r\n$1\r\n2\r\n",
            b"%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n",
            b"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
            b"-ERR no\r\n",
            b"*4\r\n$99999999999999999999\r\n",
            b"",
        ] {
            assert!(!expected.is(wrong), "{}", wrong.escape_ascii());
        }
    }
}
