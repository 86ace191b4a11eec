//! What COMMAND DOCS says of arguments: bitmaps.

use super::{Described, block, integer, key, one_of, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("setbit", &[key("key", 0), integer("offset"), integer("value")]),
    ("getbit", &[key("key", 0), integer("offset")]),
    ("bitcount", &[key("key", 0), block("range", &[integer("start"), integer("end"), one_of("unit", &[token("byte", "BYTE"), token("bit", "BIT")]).since("7.0.0").optional()]).optional()]),
    ("bitpos", &[key("key", 0), integer("bit"), block("range", &[integer("start"), block("end-unit-block", &[integer("end"), one_of("unit", &[token("byte", "BYTE"), token("bit", "BIT")]).since("7.0.0").optional()]).optional()]).optional()]),
    ("bitop", &[one_of("operation", &[token("and", "AND"), token("or", "OR"), token("xor", "XOR"), token("not", "NOT")]), key("destkey", 0), key("key", 1).repeated()]),
    ("bitfield", &[key("key", 0), one_of("operation", &[block("get-block", &[string("encoding"), integer("offset")]).after("GET"), block("write", &[one_of("overflow-block", &[token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL")]).after("OVERFLOW").optional(), one_of("write-operation", &[block("set-block", &[string("encoding"), integer("offset"), integer("value")]).after("SET"), block("incrby-block", &[string("encoding"), integer("offset"), integer("increment")]).after("INCRBY")])])]).repeated().optional()]),
    ("bitfield_ro", &[key("key", 0), block("get-block", &[string("encoding"), integer("offset")]).after("GET").repeated_with_token().optional()]),
];
