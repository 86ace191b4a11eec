//! Commands besides those of `tests/differential`: those that Redis 7.0 cannot check, limits of encodings, and numbers
//! that make values large or IDs the last.

use harness::generator::families::Family;

/// Every family that is only tested here.
pub const MORE: &[Family] = &[
    Family {
        name: "limits",
        weight: 2,
        commands: &[
            ("CONFIG", 2, "SET HASH-MAX-LISTPACK-ENTRIES < 0 | 1 | 4 | 128 | 512 >"),
            ("CONFIG", 2, "SET HASH-MAX-LISTPACK-VALUE < 0 | 1 | 64 | 1000 >"),
            ("CONFIG", 2, "SET ZSET-MAX-LISTPACK-ENTRIES < 0 | 1 | 4 | 128 >"),
            ("CONFIG", 2, "SET ZSET-MAX-LISTPACK-VALUE < 0 | 1 | 64 >"),
            ("CONFIG", 2, "SET SET-MAX-INTSET-ENTRIES < 0 | 1 | 4 | 512 >"),
            ("CONFIG", 2, "SET SET-MAX-LISTPACK-ENTRIES < 0 | 1 | 4 | 128 >"),
            ("CONFIG", 2, "SET LIST-MAX-LISTPACK-SIZE < 1 | 2 | 3 | -1 | -2 | 128 >"),
            ("CONFIG", 2, "SET STREAM-NODE-MAX-ENTRIES < 0 | 1 | 2 | 3 | 100 >"),
            ("CONFIG", 2, "SET STREAM-NODE-MAX-BYTES < 0 | 1 | 64 | 4096 >"),
            ("DEBUG", 1, "QUICKLIST-PACKED-THRESHOLD < 2b | 20b | 0 >"),
        ],
    },
    Family {
        name: "large",
        weight: 3,
        commands: &[
            ("SETRANGE", 3, "key:string < 65535 | 65536 | 1048575 | 536870912 | 4294967295 > < value | \"\" >"),
            ("SETBIT", 3, "key:bits < 524287 | 524288 | 8388607 | 4294967296 > bit"),
            ("BITFIELD", 2, "key:bits < SET | INCRBY > bit-type < 524280 | #65535 | 8388600 > int"),
            (
                "XADD",
                1,
                "key:stream < 18446744073709551615-0 | 18446744073709551615-18446744073709551615 \
                 | 9223372036854775808-1 | 0-18446744073709551615 > member value",
            ),
            ("XSETID", 1, "key:stream id { ENTRIESADDED < 0 | 2147483648 | 9223372036854775807 > | MAXDELETEDID id }"),
            ("XADD", 6, "key:stream { MAXLEN [ = ] < 1 | 2 | 7 > } * member value"),
            ("HSET", 1, "key:hash ( member value )+ ( member value )+ ( member value )+ ( member value )+"),
            ("ZADD", 1, "key:zset ( < 1.7976931348623157e308 | -1e308 | 5e-324 | -0 | +inf > member )+"),
            ("ZINCRBY", 1, "key:zset < 1.7976931348623157e308 | -inf | +inf | -0 > member"),
            (
                "SADD",
                1,
                "key:set ( < 2147483647 | 2147483648 | -2147483649 | 32768 | -32769 | 9223372036854775807 > )+",
            ),
        ],
    },
    Family {
        name: "groups",
        weight: 10,
        commands: &[
            ("XGROUP", 4, "CREATE key:stream group < 0 | $ | id > MKSTREAM"),
            ("XADD", 6, "key:stream * member value"),
            ("XREADGROUP", 8, "GROUP group consumer { COUNT count | NOACK } STREAMS key:stream latest"),
            ("XCLAIM", 3, "key:stream group consumer 0 id+ { RETRYCOUNT count | FORCE | JUSTID | LASTID id }"),
            ("XAUTOCLAIM", 3, "key:stream group consumer 0 < 0 | id > { COUNT count | JUSTID }"),
            ("XACK", 2, "key:stream group id+"),
        ],
    },
    Family {
        name: "seldom right",
        weight: 2,
        commands: &[
            ("XSETID", 1, "key:stream 9223372036854775807-0"),
            ("BLMPOP", 1, "0.001 1 key:list < LEFT | RIGHT >"),
            ("BZMPOP", 1, "0.001 1 key:zset < MIN | MAX >"),
            ("SWAPDB", 1, "< 0 | 1 | 2 > < 0 | 1 | 15 >"),
            ("MOVE", 2, "key:any < 0 | 1 | 2 >"),
            ("COPY", 2, "key:any key:any DB < 0 | 1 | 2 > REPLACE"),
        ],
    },
    Family {
        name: "inside",
        weight: 3,
        commands: &[
            ("DEBUG", 1, "< OBJECT key:any | DIGEST-VALUE key:any+ >"),
            ("MEMORY", 1, "USAGE key:any [ SAMPLES count ]"),
            ("DUMP", 1, "key:any"),
            ("PFDEBUG", 4, "< GETREG | DECODE | ENCODING | TODENSE | junk > key:hll"),
            ("PFADD", 2, "key:hll value+ value+ value+"),
            ("BGREWRITEAOF", 1, ""),
            ("WAITAOF", 1, "< 0 | 1 | 2 > 0 timeout-ms"),
            ("PUBLISH", 1, "channel value"),
            ("SPUBLISH", 1, "channel value"),
        ],
    },
];
