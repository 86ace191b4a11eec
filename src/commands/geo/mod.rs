//! Positions on the earth: the scores of sorted sets are geohashes (see [`geohash`]).

mod geohash;
mod search;

pub use search::{georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore};

use super::arguments::is;
use super::double::double;
use super::flag_sets::{READ, WRITE};
use super::float::Extended;
use super::row::{Command, Group, Keys, Request, Row, Run};
use super::sorted_sets::{ScoreOptions, add_elements};
use super::{CommandError, Outcome};
use crate::base::narrowing::whole_i64;
use crate::commands::access;
use crate::commands::documentation::{Argument, arguments, without_last};
use crate::keyspace::{Keyspace, SortedSet, Store};
use crate::resp::{Args, Reply};
use geohash::Position;

/// The units of a distance.
const UNITS: &[Argument] = arguments![token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")];
/// The orders of what is found.
const ORDERS: &[Argument] = arguments![token("asc", "ASC"), token("desc", "DESC")];
/// How many are wanted.
const COUNT: &[Argument] = arguments![integer("count").after("COUNT"), token("any", "ANY").optional()];
/// Where the centre of a search is.
const CENTRES: &[Argument] = arguments![
    string("member").after("FROMMEMBER"),
    block("fromlonlat", arguments![double("longitude"), double("latitude")]).after("FROMLONLAT"),
];
/// The shapes of a search.
const AREAS: &[Argument] = arguments![
    block("circle", arguments![double("radius").after("BYRADIUS"), one_of("unit", UNITS)]),
    block("box", arguments![double("width").after("BYBOX"), double("height"), one_of("unit", UNITS)]),
];
/// Where a result is stored.
const STORES: &[Argument] =
    arguments![key("storekey", 1).shown("key").after("STORE"), key("storedistkey", 2).shown("key").after("STOREDIST"),];
/// The arguments of GEORADIUS; those of GEORADIUS_RO are all but where the result is stored.
const RADIUS: &[Argument] = arguments![
    key("key", 0),
    double("longitude"),
    double("latitude"),
    double("radius"),
    one_of("unit", UNITS),
    token("withcoord", "WITHCOORD").optional(),
    token("withdist", "WITHDIST").optional(),
    token("withhash", "WITHHASH").optional(),
    block("count-block", arguments![integer("count").after("COUNT"), token("any", "ANY").since("6.2.0").optional()])
        .optional(),
    one_of("order", ORDERS).optional(),
    one_of("store", STORES).optional(),
];
/// The arguments of GEORADIUSBYMEMBER; those of GEORADIUSBYMEMBER_RO are all but where the result is stored.
const RADIUS_BY_MEMBER: &[Argument] = arguments![
    key("key", 0),
    string("member"),
    double("radius"),
    one_of("unit", UNITS),
    token("withcoord", "WITHCOORD").optional(),
    token("withdist", "WITHDIST").optional(),
    token("withhash", "WITHHASH").optional(),
    block("count-block", COUNT).optional(),
    one_of("order", ORDERS).optional(),
    one_of("store", STORES).optional(),
];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 10] {
    [
        Run::Keyspace(geoadd).row(Command {
            name: "geoadd",
            arity: -5,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.0",
            syntax: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
            arguments: arguments![
                key("key", 0),
                one_of("condition", arguments![token("nx", "NX"), token("xx", "XX")]).since("6.2.0").optional(),
                token("change", "CH").since("6.2.0").optional(),
                block("data", arguments![double("longitude"), double("latitude"), string("member")]).repeated(),
            ],
            complexity: "O(M * log N), M = members given",
            summary: "Gives members positions.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(geodist).row(Command {
            name: "geodist",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.0",
            syntax: "key member1 member2 [M | KM | FT | MI]",
            arguments: arguments![
                key("key", 0),
                string("member1"),
                string("member2"),
                one_of("unit", UNITS).optional(),
            ],
            complexity: "O(1)",
            summary: "The distance between two members.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(geohash).row(Command {
            name: "geohash",
            arity: -2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.0",
            syntax: "key [member [member ...]]",
            arguments: arguments![key("key", 0), string("member").repeated().optional()],
            complexity: "O(N), N = members given",
            summary: "The geohashes of members.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(geopos).row(Command {
            name: "geopos",
            arity: -2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.0",
            syntax: "key [member [member ...]]",
            arguments: arguments![key("key", 0), string("member").repeated().optional()],
            complexity: "O(N), N = members given",
            summary: "The positions of members.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(georadius).row(Command {
            name: "georadius",
            arity: -6,
            flags: WRITE,
            keys: Keys::ONE_AND_STORED_FROM_6,
            request: Request::MultiShardView,
            since: "3.2.0",
            syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
            arguments: RADIUS,
            deprecated_since: Some("6.2.0"),
            complexity: "O(N + log M), N = members in the areas around, M = members in the shape",
            summary: "The members within a radius of a position.",
            access: Some(access::COPY),
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(georadius_ro).row(Command {
            name: "georadius_ro",
            arity: -6,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.10",
            syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
            arguments: without_last(RADIUS),
            deprecated_since: Some("6.2.0"),
            complexity: "O(N + log M), N = members in the areas around, M = members in the shape",
            summary: "The members within a radius of a position.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(georadiusbymember).row(Command {
            name: "georadiusbymember",
            arity: -5,
            flags: WRITE,
            keys: Keys::ONE_AND_STORED_FROM_5,
            request: Request::MultiShardView,
            since: "3.2.0",
            syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
            arguments: RADIUS_BY_MEMBER,
            deprecated_since: Some("6.2.0"),
            complexity: "O(N + log M), N = members in the areas around, M = members in the shape",
            summary: "The members within a radius of a member.",
            access: Some(access::COPY),
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(georadiusbymember_ro).row(Command {
            name: "georadiusbymember_ro",
            arity: -5,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.10",
            syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
            arguments: without_last(RADIUS_BY_MEMBER),
            deprecated_since: Some("6.2.0"),
            complexity: "O(N + log M), N = members in the areas around, M = members in the shape",
            summary: "The members within a radius of a member.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(geosearch).row(Command {
            name: "geosearch",
            arity: -7,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.2.0",
            syntax: "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
            arguments: arguments![
                key("key", 0),
                one_of("from", CENTRES),
                one_of("by", AREAS),
                one_of("order", ORDERS).optional(),
                block("count-block", COUNT).optional(),
                token("withcoord", "WITHCOORD").optional(),
                token("withdist", "WITHDIST").optional(),
                token("withhash", "WITHHASH").optional(),
            ],
            complexity: "O(N + log M), N = members in the areas around, M = members in the shape",
            summary: "The members within a circle or a box.",
            ..Command::of(Group::Geo)
        }),
        Run::Keyspace(geosearchstore).row(Command {
            name: "geosearchstore",
            arity: -8,
            flags: WRITE,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
            arguments: arguments![
                key("destination", 0),
                key("source", 1),
                one_of("from", CENTRES),
                one_of("by", AREAS),
                one_of("order", ORDERS).optional(),
                block("count-block", COUNT).optional(),
                token("storedist", "STOREDIST").optional(),
            ],
            complexity: "O(N + log M), N = members in the areas around, M = members in the shape",
            summary: "Stores the members within a circle or a box.",
            access: Some(access::STORE),
            ..Command::of(Group::Geo)
        }),
    ]
}

/// GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]: O(M * log N), M = members given
pub fn geoadd<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (options, rest) = ScoreOptions::parse(args.from(2), ScoreOptions::set_existence);
    if rest.is_empty() || !rest.len().is_multiple_of(3) || options.excludes_all() {
        return Err(CommandError::Syntax);
    }
    let triples = (0..rest.len()).step_by(3);
    let scores = triples.clone().map(|at| Ok(position(&rest[at], &rest[at + 1])?.score()));
    let scores = scores.collect::<Result<Vec<f64>, CommandError>>()?;
    let members = triples.map(|at| &rest[at + 2]);
    add_elements(keyspace, &args[1], scores, members, options, reply)
}

/// A position given by a client.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, CommandError> {
    let position = Position { longitude: double(longitude)?, latitude: double(latitude)? };
    if position.is_valid() {
        return Ok(position);
    }
    let Position { longitude, latitude } = position;
    Err(CommandError::Owned(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// How many metres a unit has.
fn unit_m(argument: &[u8]) -> Result<f64, CommandError> {
    match argument {
        _ if is(argument, "M") => Ok(1.0),
        _ if is(argument, "KM") => Ok(1000.0),
        _ if is(argument, "FT") => Ok(0.3048),
        _ if is(argument, "MI") => Ok(1609.34),
        _ => Err(CommandError::Text("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// GEODIST key member1 member2 [M | KM | FT | MI]: O(1)
pub fn geodist<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let unit_m = match args.len() {
        4 => 1.0,
        5 => unit_m(&args[4])?,
        _ => return Err(CommandError::Syntax),
    };
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    match (position_of(set, &args[2]), position_of(set, &args[3])) {
        (Some(one), Some(other)) => reply_distance(one.distance_m(other) / unit_m, reply),
        _ => reply.null(),
    }
    Ok(())
}

fn position_of(set: Option<&SortedSet>, member: &[u8]) -> Option<Position> {
    set?.score(member).map(Position::of_score)
}

/// With four digits after the point.
fn reply_distance(distance: f64, reply: &mut Reply<'_>) {
    const SCALE: u64 = 10_000;
    let scaled = whole_i64((distance * SCALE as f64).round_ties_even());
    let (sign, scaled) = (if scaled < 0 { "-" } else { "" }, scaled.unsigned_abs());
    reply.bulk(format!("{sign}{}.{:04}", scaled / SCALE, scaled % SCALE).as_bytes());
}

/// GEOHASH key [member [member ...]]: O(N), N = members given
pub fn geohash<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        match position_of(set, member) {
            Some(position) => reply.bulk(&position.geohash()),
            None => reply.null(),
        }
    }
    Ok(())
}

/// GEOPOS key [member [member ...]]: O(N), N = members given
pub fn geopos<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        match position_of(set, member) {
            Some(position) => reply_position(position, reply),
            None => reply.null_array(),
        }
    }
    Ok(())
}

/// With the digits of Redis's 80-bit floats.
fn reply_position(position: Position, reply: &mut Reply<'_>) {
    reply.array(2);
    for degrees in [position.longitude, position.latitude] {
        reply.double_text(Extended::from(degrees).to_string().as_bytes());
    }
}
