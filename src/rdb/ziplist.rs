//! Ziplists and zipmaps: how Redis before version 7 packed small collections. Read only.
//!
//! ```text
//! ziplist: bytes of all u32 | where the last element is u32 | elements u16 | element … | 0xFF
//! element: length of the one before: u8 below 254, or 0xFE u32 | encoding | bytes
//! encoding: 00xxxxxx | 01xxxxxx xxxxxxxx | 0x80 u32 (big endian)    a string of this length
//!           0xC0 i16 | 0xD0 i32 | 0xE0 i64 | 0xF0 i24 | 0xFE i8     an integer (little endian)
//!           0xF1 … 0xFD                                             the integers 0 to 12
//!
//! zipmap:  pairs u8 | (length | name | length | unused u8 | value | unused bytes) … | 0xFF
//! length:  u8 below 254, or 0xFE u32
//! ```

use super::Malformed;
use super::reader::Reader;
use crate::keyspace::Element;

const END: u8 = 0xFF;
/// Marks a length of four bytes.
const WIDE: u8 = 0xFE;

/// Calls `visit` with each element of a ziplist.
pub fn for_each_element(
    bytes: &[u8],
    mut visit: impl FnMut(Element<'_>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut reader = Reader::new(bytes);
    let len = u32::from_le_bytes(reader.array()?) as usize;
    let last_said = u32::from_le_bytes(reader.array()?) as usize;
    let count_said = u16::from_le_bytes(reader.array()?);
    if len != bytes.len() {
        return Err(Malformed::Bad);
    }
    let (mut count, mut before) = (0, 0);
    loop {
        let left = reader.left();
        let before_said = match reader.byte()? {
            END => break,
            WIDE => u32::from_le_bytes(reader.array()?) as usize,
            len => len.into(),
        };
        if before_said != before {
            return Err(Malformed::Bad);
        }
        visit(element(&mut reader)?)?;
        before = left - reader.left();
        count += 1;
    }
    let is_counted = count_said == u16::MAX || usize::from(count_said) == count;
    // Without elements it is not used, but must be within bounds.
    let has_last = if count > 0 { last_said + before + 1 == len } else { last_said < len };
    if reader.left() == 0 && is_counted && has_last { Ok(()) } else { Err(Malformed::Bad) }
}

fn element<'a>(reader: &mut Reader<'a>) -> Result<Element<'a>, Malformed> {
    let first = reader.byte()?;
    let low = usize::from(first & 0b11_1111);
    let integer = |integer: i64| Ok(Element::Integer(integer));
    let len = match first {
        0..0x40 => low,
        0x40..0x80 => low << 8 | usize::from(reader.byte()?),
        0x80 => u32::from_be_bytes(reader.array()?) as usize,
        0xC0 => return integer(i16::from_le_bytes(reader.array()?).into()),
        0xD0 => return integer(i32::from_le_bytes(reader.array()?).into()),
        0xE0 => return integer(i64::from_le_bytes(reader.array()?)),
        0xF0 => {
            let [low, middle, high] = reader.array()?;
            return integer((i32::from_le_bytes([0, low, middle, high]) >> 8).into());
        }
        0xFE => return integer(i8::from_le_bytes(reader.array()?).into()),
        0xF1..=0xFD => return integer(i64::from(first) - 0xF1),
        _ => return Err(Malformed::Bad),
    };
    reader.take(len).map(Element::Bytes)
}

/// Calls `visit` with each name and value of a zipmap.
pub fn for_each_pair(
    bytes: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut reader = Reader::new(bytes);
    let _count = reader.byte()?;
    while let Some(len) = map_length(&mut reader)? {
        let name = reader.take(len)?;
        let len = map_length(&mut reader)?.ok_or(Malformed::Bad)?;
        let unused = reader.byte()?;
        let value = reader.take(len)?;
        reader.take(unused.into())?;
        visit(name, value)?;
    }
    if reader.left() == 0 { Ok(()) } else { Err(Malformed::Bad) }
}

/// A length in a zipmap; none at its end.
fn map_length(reader: &mut Reader<'_>) -> Result<Option<usize>, Malformed> {
    Ok(match reader.byte()? {
        END => None,
        WIDE => Some(u32::from_le_bytes(reader.array()?) as usize),
        len => Some(len.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut elements = Vec::new();
        for_each_element(bytes, |element| {
            elements.push(element.to_vec());
            Ok(())
        })?;
        Ok(elements)
    }

    /// A ziplist with encoded elements, and their number.
    fn ziplist(encoded: &[&[u8]]) -> Vec<u8> {
        let (mut body, mut before) = (Vec::new(), 0);
        for element in encoded {
            let start = body.len();
            match before {
                0..254 => body.push(before as u8),
                _ => body.extend([&[WIDE][..], &(before as u32).to_le_bytes()].concat()),
            }
            body.extend_from_slice(element);
            before = body.len() - start;
        }
        let (len, last) = (11 + body.len() as u32, (10 + body.len() - before) as u32);
        let count = encoded.len() as u16;
        [&len.to_le_bytes()[..], &last.to_le_bytes(), &count.to_le_bytes(), &body, &[END]].concat()
    }

    #[test]
    fn every_encoding_of_an_element_is_read() {
        let long = [&[0x40, 100][..], &[b'x'; 100]].concat();
        let longer = [&[0x80, 0, 0, 1, 0][..], &[b'y'; 256]].concat();
        let encoded: [&[u8]; 11] = [
            b"\x03abc",
            &long,
            &longer,
            b"\xC0\xFE\xFF",
            b"\xD0\x00\x00\x01\x00",
            b"\xE0\0\0\0\0\0\0\0\x80",
            b"\xF0\xFF\xFF\x7F",
            b"\xF0\x00\x00\x80",
            b"\xFE\x80",
            b"\xF1",
            b"\xFD",
        ];
        let wanted: [&[u8]; 11] = [
            b"abc",
            &[b'x'; 100],
            &[b'y'; 256],
            b"-2",
            b"65536",
            b"-9223372036854775808",
            b"8388607",
            b"-8388608",
            b"-128",
            b"0",
            b"12",
        ];
        assert_eq!(elements(&ziplist(&encoded)), Ok(wanted.map(<[u8]>::to_vec).to_vec()));
    }

    #[test]
    fn a_ziplist_that_is_cut_or_says_another_length_count_or_place_is_refused() {
        let whole = ziplist(&[b"\x03abc", b"\xF2"]);
        assert!(elements(&whole).is_ok());
        (0..whole.len()).for_each(|cut| assert_eq!(elements(&whole[..cut]), Err(Malformed::Bad), "cut at {cut}"));
        // Of all, of the last element, of elements; before the first element, and before the second.
        for at in [0, 4, 8, 10, 15] {
            let mut other = whole.clone();
            other[at] += 1;
            assert_eq!(elements(&other), Err(Malformed::Bad), "byte {at}");
        }
        assert_eq!(elements(&[&whole[..], b"x"].concat()), Err(Malformed::Bad));
    }

    #[test]
    fn a_zipmap_gives_its_pairs() {
        let pairs = |bytes: &[u8]| {
            let mut pairs = Vec::new();
            let visit = |name: &[u8], value: &[u8]| {
                pairs.push((name.to_vec(), value.to_vec()));
                Ok(())
            };
            for_each_pair(bytes, visit).map(|()| pairs)
        };
        let map = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xFF";
        let wanted = vec![(b"foo".to_vec(), b"bar".to_vec()), (b"hello".to_vec(), b"world".to_vec())];
        assert_eq!(pairs(map), Ok(wanted));
        (0..map.len()).for_each(|cut| assert_eq!(pairs(&map[..cut]), Err(Malformed::Bad), "cut at {cut}"));
    }
}
