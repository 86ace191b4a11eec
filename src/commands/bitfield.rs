//! BITFIELD: integers of any width at any bit of a string.

use super::access;
use super::arguments::{integer, is};
use super::bits::{BAD_OFFSET, bit_offset, checked_offset};
use super::flag_sets::{READ_FAST, WRITE};
use super::row::{Command, Group, Keys, Request, Row, Run};
use super::text::{lengthen, text_of};
use super::{CommandError, Outcome};
use crate::base::narrowing::{low_u32, low_u64};
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Keyspace, NewValue, Store};
use crate::resp::{Args, Reply, parse_i64};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 2] {
    [
        Run::Keyspace(bitfield).row(Command {
            name: "bitfield",
            arity: -2,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.0",
            syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> ...]]",
            arguments: arguments![
                key("key", 0),
                one_of(
                    "operation",
                    arguments![
                        block("get-block", arguments![string("encoding"), integer("offset")]).after("GET"),
                        block(
                            "write",
                            arguments![
                                one_of(
                                    "overflow-block",
                                    arguments![token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL"),],
                                )
                                .after("OVERFLOW")
                                .optional(),
                                one_of(
                                    "write-operation",
                                    arguments![
                                            block(
                                                "set-block",
                                                arguments![
                                                    string("encoding"),
                                                    integer("offset"),
                                                    integer("value"),
                                                ],
                                            )
                                            .after("SET"),
                                            block(
                                                "incrby-block",
                                                arguments![
                                                    string("encoding"),
                                                    integer("offset"),
                                                    integer("increment"),
                                                ],
                                            )
                                            .after("INCRBY"),
                                        ],
                                ),
                            ],
                        ),
                    ],
                )
                .repeated()
                .optional(),
            ],
            complexity: "O(1) for each subcommand",
            summary: "Reads and changes integers of any width in the string of a key.",
            access: Some(access::READ_UPDATE),
            access_of: Some(access_of_bitfield),
            ..Command::of(Group::Bitmap)
        }),
        Run::Keyspace(bitfield_ro).row(Command {
            name: "bitfield_ro",
            arity: -2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.0.0",
            syntax: "key [GET encoding offset [GET encoding offset ...]]",
            arguments: arguments![
                key("key", 0),
                block("get-block", arguments![string("encoding"), integer("offset")])
                    .after("GET")
                    .repeated_with_token()
                    .optional(),
            ],
            complexity: "O(1) for each subcommand",
            summary: "Reads integers of any width in the string of a key.",
            ..Command::of(Group::Bitmap)
        }),
    ]
}

/// BITFIELD key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding
/// offset increment> ...]: O(1) for each
pub fn bitfield<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let steps = parse(args, keyspace.string_len_max())?;
    match steps.iter().filter(|step| step.action != Action::Get).map(|step| step.field.end()).max() {
        None => read_fields(keyspace, &args[1], &steps, reply),
        Some(end) => change_fields(keyspace, args, &steps, end, reply),
    }
}

/// BITFIELD_RO key [GET encoding offset ...]: O(1) for each
pub fn bitfield_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let steps = parse(args, keyspace.string_len_max())?;
    if steps.iter().any(|step| step.action != Action::Get) {
        return Err(CommandError::Text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_fields(keyspace, &args[1], &steps, reply)
}

fn read_fields<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], steps: &[Step], reply: &mut Reply<'_>) -> Outcome {
    let mut digits = itoa::Buffer::new();
    let text = match keyspace.read(key) {
        None => &[],
        Some(value) => text_of(value, &mut digits)?,
    };
    reply.array(steps.len());
    steps.iter().for_each(|step| reply.integer(step.field.read(text)));
    Ok(())
}

/// Runs the steps one after another, in a string that reaches to the bit `end`, the last that one of them may write.
fn change_fields<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    steps: &[Step],
    end: usize,
    reply: &mut Reply<'_>,
) -> Outcome {
    let key = &args[1];
    let node = keyspace.node_or_new(key, || NewValue::Text(&[]));
    let (text, has_grown) = lengthen(node, end.div_ceil(8))?;
    let mut changes = 0;
    reply.array(steps.len());
    for step in steps {
        let old = step.field.read(text);
        let Some((new, shown)) = step.take(old) else {
            reply.null();
            continue;
        };
        // In a string that grew every write counts, as in Redis.
        if step.action != Action::Get && (has_grown || new != old) {
            step.field.write(text, new);
            changes += 1;
        }
        reply.integer(shown);
    }
    if changes > 0 {
        keyspace.note_change(key, changes);
        keyspace.notify(Class::STRING, "setbit", key);
    } else if has_grown {
        // For clients nothing has changed, but replicas and the log need the new length.
        keyspace.effects.record(args.iter());
    }
    Ok(())
}

/// The valid steps of a request, in a string that may become `len_max` bytes long.
fn parse(args: Args<'_>, len_max: usize) -> Result<Vec<Step>, CommandError> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut position = 2;
    while position < args.len() {
        let rest = args.from(position);
        let (word, left) = (&rest[0], rest.len() - 1);
        position += match left {
            1.. if is(word, "OVERFLOW") => {
                overflow = Overflow::parse(&rest[1])?;
                2
            }
            2.. if is(word, "GET") => {
                steps.push(Step { field: Field::parse(&rest[1], &rest[2], len_max)?, action: Action::Get, overflow });
                3
            }
            3.. if is(word, "SET") || is(word, "INCRBY") => {
                let field = Field::parse(&rest[1], &rest[2], len_max)?;
                let value = integer(&rest[3])?;
                let action = if is(word, "SET") { Action::Set(value) } else { Action::Add(value) };
                steps.push(Step { field, action, overflow });
                4
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    Ok(steps)
}

/// One operation of a request.
#[derive(Debug, Clone, Copy)]
struct Step {
    field: Field,
    action: Action,
    overflow: Overflow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// How a value is handled that its field cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// Its lowest bits are kept.
    Wrap,
    /// The nearest that the field can hold is taken.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word {
            _ if is(word, "WRAP") => Ok(Self::Wrap),
            _ if is(word, "SAT") => Ok(Self::Saturate),
            _ if is(word, "FAIL") => Ok(Self::Fail),
            _ => Err(CommandError::Text("ERR Invalid OVERFLOW type specified")),
        }
    }
}

impl Step {
    /// The new contents of the field, and the reply; `None` if the step fails.
    fn take(self, old: i64) -> Option<(i64, i64)> {
        match self.action {
            Action::Get => Some((old, old)),
            Action::Set(value) => {
                // For an unsigned field, the bits of the value are read as unsigned.
                let given = if self.field.is_signed { i128::from(value) } else { i128::from(value as u64) };
                Some((self.settle(given, self.field.counts_as_above(value))?, old))
            }
            Action::Add(increment) => {
                let new = self.settle(i128::from(old) + i128::from(increment), false)?;
                Some((new, new))
            }
        }
    }

    /// What a field holds that should hold `value`.
    fn settle(self, value: i128, counts_as_above: bool) -> Option<i64> {
        let (min, max) = self.field.limits();
        match self.overflow {
            _ if (i128::from(min)..=i128::from(max)).contains(&value) => i64::try_from(value).ok(),
            Overflow::Wrap => Some(self.field.value_of_bits(low_u64(value.cast_unsigned()))),
            Overflow::Saturate if counts_as_above || value > i128::from(max) => Some(max),
            Overflow::Saturate => Some(min),
            Overflow::Fail => None,
        }
    }
}

/// The position of an integer in a string, and its width: 64 bits at most, 63 without a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    is_signed: bool,
    bits: u32,
    /// Position of its first bit, the highest.
    offset: usize,
}

impl Field {
    /// Bytes that the widest field may touch.
    const BYTES_MAX: usize = 9;

    fn parse(encoding: &[u8], offset: &[u8], len_max: usize) -> Result<Self, CommandError> {
        const TEXT: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
                            i64 is.";
        let (is_signed, bits_max) = match encoding.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return Err(CommandError::Text(TEXT)),
        };
        let bits = parse_i64(&encoding[1..]).filter(|bits| (1..=bits_max).contains(bits));
        let bits = bits.ok_or(CommandError::Text(TEXT))?;
        let offset = match offset.strip_prefix(b"#") {
            None => bit_offset(offset, len_max)?,
            Some(index) => {
                // Redis does not check whether the product fits 64 bits.
                let offset = parse_i64(index).map(|index| index.wrapping_mul(bits));
                offset.and_then(|offset| checked_offset(offset, len_max)).ok_or(BAD_OFFSET)?
            }
        };
        let bits = u32::try_from(bits).expect("a field has 64 bits at most");
        Ok(Self { is_signed, bits, offset })
    }

    /// The position after its last bit.
    fn end(self) -> usize {
        self.offset + self.bits as usize
    }

    /// The lowest and the highest value.
    fn limits(self) -> (i64, i64) {
        match self.is_signed {
            true => (i64::MIN >> (i64::BITS - self.bits), i64::MAX >> (i64::BITS - self.bits)),
            false => (0, i64::MAX >> (i64::BITS - 1 - self.bits)),
        }
    }

    /// Whether SET treats a value as too high though it is too low: Redis's subtraction wraps so far below.
    fn counts_as_above(self, value: i64) -> bool {
        let (_, max) = self.limits();
        self.is_signed && self.bits < i64::BITS && max.checked_sub(value).is_none()
    }

    /// The value whose lowest bits are these.
    fn value_of_bits(self, bits: u64) -> i64 {
        let shift = u64::BITS - self.bits;
        match self.is_signed {
            true => (bits << shift) as i64 >> shift,
            false => (bits << shift >> shift) as i64,
        }
    }

    /// The value; bits after the string are zeros.
    fn read(self, text: &[u8]) -> i64 {
        let (_, window) = self.window(text);
        self.value_of_bits(low_u64(window >> self.shift()))
    }

    /// Changes the value, all of whose bits are in the string.
    fn write(self, text: &mut [u8], value: i64) {
        let (range, window) = self.window(text);
        let mask = u128::MAX >> (u128::BITS - self.bits) << self.shift();
        let changed = window & !mask | (u128::from(value as u64) << self.shift()) & mask;
        let len = range.len();
        text[range].copy_from_slice(&changed.to_be_bytes()[..len]);
    }

    /// The bytes that may hold the field, and the bits of these, highest first.
    fn window(self, text: &[u8]) -> (std::ops::Range<usize>, u128) {
        let start = (self.offset / 8).min(text.len());
        let range = start..text.len().min(start + Self::BYTES_MAX);
        let mut bytes = [0; size_of::<u128>()];
        bytes[..range.len()].copy_from_slice(&text[range.clone()]);
        (range, u128::from_be_bytes(bytes))
    }

    /// How many bits of the window follow the field.
    fn shift(self) -> u32 {
        u128::BITS - self.bits - low_u32(self.offset as u64 % 8)
    }
}

/// A BITFIELD with only GET operations changes nothing.
fn access_of_bitfield(request: Args<'_>) -> access::Access {
    let mut at = 2;
    while at < request.len() {
        at += match () {
            () if request.is(at, "GET") => 3,
            () if request.is(at, "OVERFLOW") => 2,
            () => return access::READ_UPDATE,
        };
    }
    if at == request.len() { access::READ } else { access::READ_UPDATE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field() -> impl Strategy<Value = Field> {
        (any::<bool>(), 1..=64u32, 0..200usize).prop_map(|(is_signed, bits, offset)| Field {
            is_signed,
            bits: if is_signed { bits } else { bits.min(63) },
            offset,
        })
    }

    fn bit(text: &[u8], position: usize) -> bool {
        text.get(position / 8).is_some_and(|byte| byte & (0x80 >> (position % 8)) != 0)
    }

    proptest! {
        #[test]
        fn a_field_is_read_as_bit_by_bit(field in field(), text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bits = (field.offset..field.end()).fold(0u64, |bits, at| bits << 1 | u64::from(bit(&text, at)));
            let sign = field.is_signed && bits >> (field.bits - 1) == 1;
            let wanted = i128::from(bits) - if sign { 1i128 << field.bits } else { 0 };
            prop_assert_eq!(i128::from(field.read(&text)), wanted);
        }

        #[test]
        fn a_field_that_is_written_is_read_again_and_nothing_else_changes(
            field in field(),
            value: u64,
            text in proptest::collection::vec(any::<u8>(), 40),
        ) {
            let value = field.value_of_bits(value);
            let mut changed = text.clone();
            field.write(&mut changed, value);
            prop_assert_eq!(field.read(&changed), value);
            for position in (0..text.len() * 8).filter(|at| !(field.offset..field.end()).contains(at)) {
                prop_assert_eq!(bit(&changed, position), bit(&text, position));
            }
        }

        #[test]
        fn sums_stay_in_the_field_whatever_the_overflow(field in field(), old: u64, increment: i64) {
            let old = field.value_of_bits(old);
            let (min, max) = field.limits();
            let sum = i128::from(old) + i128::from(increment);
            let take = |overflow| Step { field, action: Action::Add(increment), overflow }.take(old).map(|(new, _)| new);
            let fits = (i128::from(min)..=i128::from(max)).contains(&sum);
            prop_assert_eq!(take(Overflow::Fail).map(i128::from), fits.then_some(sum));
            prop_assert_eq!(take(Overflow::Saturate).map(i128::from), Some(sum.clamp(min.into(), max.into())));
            let wrapped = i128::from(take(Overflow::Wrap).expect("it never fails"));
            prop_assert!((i128::from(min)..=i128::from(max)).contains(&wrapped));
            prop_assert_eq!((wrapped - sum).rem_euclid(1 << field.bits), 0);
        }
    }
}
