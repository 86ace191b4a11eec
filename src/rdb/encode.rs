//! Writes values, in the forms that Redis 7.0 reads.

use super::{container, kind, stream_value};
use crate::base::narrowing::{low_u8, low_u16, low_u32};
use crate::keyspace::{Element, Hash, ListNode, Object, Set, SortedSet, Value};
use crate::resp::parse_i64;

/// Writes the type of a value.
pub fn write_kind(out: &mut Vec<u8>, value: Value<'_>) {
    out.push(match value {
        Value::Integer(_) | Value::Text(_) => kind::STRING,
        Value::Object(Object::List(_)) => kind::LIST_LISTPACKS,
        Value::Object(Object::Set(Set::Integers(_))) => kind::SET_INTSET,
        Value::Object(Object::Set(_)) => kind::SET,
        Value::Object(Object::Hash(Hash::Packed(_))) => kind::HASH_LISTPACK,
        Value::Object(Object::Hash(Hash::Table(_))) => kind::HASH,
        Value::Object(Object::SortedSet(set)) if set.packed().is_some() => kind::SORTED_SET_LISTPACK,
        Value::Object(Object::SortedSet(_)) => kind::SORTED_SET,
        Value::Object(Object::Stream(_)) => kind::STREAM_2,
    });
}

/// Writes a value. O(N)
pub fn write_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Integer(integer) => write_element(out, Element::Integer(integer)),
        Value::Text(text) => write_string(out, text),
        Value::Object(Object::List(list)) => {
            write_length(out, list.nodes().count() as u64);
            list.nodes().for_each(|node| write_node(out, node));
        }
        Value::Object(Object::Set(Set::Integers(integers))) => write_raw(out, &integers.to_bytes()),
        Value::Object(Object::Set(set)) => {
            write_length(out, set.len() as u64);
            set.iter().for_each(|member| write_element(out, member));
        }
        Value::Object(Object::Hash(Hash::Packed(listpack))) => write_raw(out, listpack.as_bytes()),
        Value::Object(Object::Hash(hash)) => {
            write_length(out, hash.len() as u64);
            hash.iter().for_each(|(name, value)| {
                write_element(out, name);
                write_element(out, value);
            });
        }
        Value::Object(Object::SortedSet(set)) => write_sorted_set(out, set),
        Value::Object(Object::Stream(stream)) => stream_value::write(out, stream),
    }
}

fn write_node(out: &mut Vec<u8>, node: ListNode<'_>) {
    match node {
        ListNode::Packed(listpack) => {
            write_length(out, container::PACKED);
            write_raw(out, listpack.as_bytes());
        }
        ListNode::Plain(element) => {
            write_length(out, container::PLAIN);
            write_raw(out, element);
        }
    }
}

fn write_sorted_set(out: &mut Vec<u8>, set: &SortedSet) {
    if let Some(listpack) = set.packed() {
        return write_raw(out, listpack.as_bytes());
    }
    write_length(out, set.len() as u64);
    // The highest first, as Redis does: each is inserted at the front of its skip list then.
    set.iter().rev().for_each(|(member, score)| {
        write_element(out, member);
        out.extend_from_slice(&score.to_le_bytes());
    });
}

/// Writes a length, or a count.
pub fn write_length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => out.push(low_u8(length)),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | low_u16(length)).to_be_bytes()),
        0x4000..=0xFFFF_FFFF => {
            out.push(0x80);
            out.extend_from_slice(&low_u32(length).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Writes a string unchanged.
pub fn write_raw(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a compressed string of this many bytes.
pub fn write_compressed(out: &mut Vec<u8>, packed: &[u8], len: usize) {
    out.push(0xC3);
    write_length(out, packed.len() as u64);
    write_length(out, len as u64);
    out.extend_from_slice(packed);
}

/// Writes a string; a short integer as such.
pub fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    const DIGITS_MAX: usize = 11;
    match parse_i64(text).filter(|_| text.len() <= DIGITS_MAX) {
        Some(integer) => write_element(out, Element::Integer(integer)),
        None => write_raw(out, text),
    }
}

fn write_element(out: &mut Vec<u8>, element: Element<'_>) {
    let integer = match element {
        Element::Integer(integer) => integer,
        Element::Bytes(bytes) => return write_string(out, bytes),
    };
    let bytes = integer.to_le_bytes();
    let (form, width) = match integer {
        -0x80..=0x7F => (0xC0, 1),
        -0x8000..=0x7FFF => (0xC1, 2),
        -0x8000_0000..=0x7FFF_FFFF => (0xC2, 4),
        _ => return write_raw(out, itoa::Buffer::new().format(integer).as_bytes()),
    };
    out.push(form);
    out.extend_from_slice(&bytes[..width]);
}
