//! Members within a circle or a box: GEOSEARCH and the older commands that it replaces.

use super::geohash::{Position, Shape};
use super::{position, reply_distance, reply_position, unit_m};
use crate::base::narrowing::whole_i64;
use crate::commands::arguments::{integer, is};
use crate::commands::double::parse_double;
use crate::commands::sorted_sets::store_result;
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{Cut, Keyspace, SortedSet, Store};
use crate::resp::{Args, Reply, quoted};

/// GEOSEARCH key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius unit | BYBOX width height unit>
/// [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]: O(N + log M), N = members in the areas around, M
/// = members in the shape
pub fn geosearch<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    search(keyspace, args, &Form { source: 1, kind: FormKind::Search, stores: Stores::Never }, reply)
}

/// GEOSEARCHSTORE destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius unit | BYBOX
/// width height unit> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]: as GEOSEARCH
pub fn geosearchstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    search(keyspace, args, &Form { source: 2, kind: FormKind::Search, stores: Stores::Always }, reply)
}

/// GEORADIUS key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]
/// [STORE key | STOREDIST key]: as GEOSEARCH
pub fn georadius<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    search(keyspace, args, &Form { source: 1, kind: FormKind::Position, stores: Stores::IfAsked }, reply)
}

/// GEORADIUS_RO key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]:
/// as GEOSEARCH
pub fn georadius_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    search(keyspace, args, &Form { source: 1, kind: FormKind::Position, stores: Stores::Never }, reply)
}

/// GEORADIUSBYMEMBER key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE
/// key | STOREDIST key]: as GEOSEARCH
pub fn georadiusbymember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    search(keyspace, args, &Form { source: 1, kind: FormKind::Member, stores: Stores::IfAsked }, reply)
}

/// GEORADIUSBYMEMBER_RO key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]: as
/// GEOSEARCH
pub fn georadiusbymember_ro<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    search(keyspace, args, &Form { source: 1, kind: FormKind::Member, stores: Stores::Never }, reply)
}

/// The form of a command, given by its name.
struct Form {
    /// Which argument is the searched key.
    source: usize,
    kind: FormKind,
    stores: Stores,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormKind {
    /// Around a position, the first argument.
    Position,
    /// Around a member, the first argument.
    Member,
    /// According to options.
    Search,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stores {
    Never,
    IfAsked,
    Always,
}

fn search<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, form: &Form, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<SortedSet>(&args[form.source])?;
    let query = Query::parse(args, form, set)?;
    let points = match set {
        Some(set) => query.find(set),
        None => Vec::new(),
    };
    match query.store_key {
        None => query.reply(&points, reply),
        Some(key) => {
            let score = |point: &Point| if query.stores_distance { query.distance(point) } else { point.score };
            let limits = keyspace.settings().limits::<SortedSet>();
            let mut found = SortedSet::default();
            points.iter().for_each(|point| _ = found.insert(limits, &point.member, score(point)));
            let event = if form.stores == Stores::Always { "geosearchstore" } else { "georadiusstore" };
            store_result(keyspace, key, found, (event, points.len()), reply);
        }
    }
    Ok(())
}

/// A found member.
struct Point {
    member: Vec<u8>,
    score: f64,
    position: Position,
    distance_m: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Ascending,
    Descending,
}

/// The query of a command.
#[derive(Default)]
struct Query<'a> {
    middle: Option<Position>,
    shape: Option<Shape>,
    unit_m: f64,
    sort: Option<Sort>,
    /// The most members; 0 for all.
    count: usize,
    /// Whether any members are sufficient, instead of the nearest.
    any: bool,
    with_coordinates: bool,
    with_distance: bool,
    with_hash: bool,
    store_key: Option<&'a [u8]>,
    stores_distance: bool,
}

impl<'a> Query<'a> {
    fn parse(args: Args<'a>, form: &Form, set: Option<&SortedSet>) -> Result<Self, CommandError> {
        let mut query = Self::default();
        let options = match form.kind {
            FormKind::Position => {
                query.middle = Some(position(&args[2], &args[3])?);
                query.set_circle(args.from(4))?;
                6
            }
            FormKind::Member => {
                // Without a source nothing is searched, and the result is empty.
                if let Some(set) = set {
                    query.middle = Some(position_of(set, &args[2])?);
                    query.set_circle(args.from(3))?;
                }
                5
            }
            FormKind::Search => form.source + 1,
        };
        if form.stores == Stores::Always {
            query.store_key = args.get(1);
        }
        query.parse_options(args.from(options), form, set)?;
        query.check(&args[0], form)?;
        Ok(query)
    }

    fn parse_options(&mut self, args: Args<'a>, form: &Form, set: Option<&SortedSet>) -> Result<(), CommandError> {
        let is_search = form.kind == FormKind::Search;
        let (mut is_from_member, mut is_from_position, mut is_circle, mut is_box) = (false, false, false, false);
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let following = args.from(at + 1);
            at += 1 + match word {
                _ if is(word, "WITHDIST") => flag(&mut self.with_distance),
                _ if is(word, "WITHHASH") => flag(&mut self.with_hash),
                _ if is(word, "WITHCOORD") => flag(&mut self.with_coordinates),
                _ if is(word, "ANY") => flag(&mut self.any),
                _ if is(word, "ASC") => {
                    self.sort = Some(Sort::Ascending);
                    0
                }
                _ if is(word, "DESC") => {
                    self.sort = Some(Sort::Descending);
                    0
                }
                _ if is(word, "COUNT") && !following.is_empty() => {
                    let count = usize::try_from(integer(&following[0])?).ok().filter(|&count| count > 0);
                    self.count = count.ok_or(CommandError::Text("ERR COUNT must be > 0"))?;
                    1
                }
                _ if (is(word, "STORE") || is(word, "STOREDIST"))
                    && form.stores == Stores::IfAsked
                    && !following.is_empty() =>
                {
                    self.store_key = following.get(0);
                    self.stores_distance = is(word, "STOREDIST");
                    1
                }
                _ if is(word, "STOREDIST") && form.stores == Stores::Always => flag(&mut self.stores_distance),
                _ if is_search && is(word, "FROMMEMBER") && !following.is_empty() && !is_from_position => {
                    is_from_member = true;
                    let middle = set.map(|set| position_of(set, &following[0])).transpose()?;
                    // A missing source is not searched.
                    self.middle = Some(middle.unwrap_or(Position { longitude: 0.0, latitude: 0.0 }));
                    1
                }
                _ if is_search && is(word, "FROMLONLAT") && following.len() > 1 && !is_from_member => {
                    is_from_position = true;
                    self.middle = Some(position(&following[0], &following[1])?);
                    2
                }
                _ if is_search && is(word, "BYRADIUS") && following.len() > 1 && !is_box => {
                    is_circle = true;
                    self.set_circle(following)?;
                    2
                }
                _ if is_search && is(word, "BYBOX") && following.len() > 2 && !is_circle => {
                    is_box = true;
                    self.set_box(following)?;
                    3
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(())
    }

    /// radius unit
    fn set_circle(&mut self, args: Args<'_>) -> Result<(), CommandError> {
        let radius = parse_double(&args[0]).ok_or(CommandError::Text("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(CommandError::Text("ERR radius cannot be negative"));
        }
        self.unit_m = unit_m(&args[1])?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    /// width height unit
    fn set_box(&mut self, args: Args<'_>) -> Result<(), CommandError> {
        let width = parse_double(&args[0]).ok_or(CommandError::Text("ERR need numeric width"))?;
        let height = parse_double(&args[1]).ok_or(CommandError::Text("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(CommandError::Text("ERR height or width cannot be negative"));
        }
        self.unit_m = unit_m(&args[2])?;
        self.shape = Some(Shape::Box { width_m: width * self.unit_m, height_m: height * self.unit_m });
        Ok(())
    }

    fn check(&self, name: &[u8], form: &Form) -> Result<(), CommandError> {
        if self.store_key.is_some() && (self.with_distance || self.with_hash || self.with_coordinates) {
            let what = if form.stores == Stores::Always { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(CommandError::Owned(text));
        }
        let missing = |what: &str| {
            const MOST: usize = 128;
            let name = quoted(name, MOST);
            Err(CommandError::Owned(format!("ERR exactly one of {what} can be specified for {name}")))
        };
        if form.kind == FormKind::Search && self.middle.is_none() {
            return missing("FROMMEMBER or FROMLONLAT");
        }
        if form.kind == FormKind::Search && self.shape.is_none() {
            return missing("BYRADIUS and BYBOX");
        }
        if self.any && self.count == 0 {
            return Err(CommandError::Text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The requested members, in the requested order.
    fn find(&self, set: &SortedSet) -> Vec<Point> {
        let mut points = self.points(set);
        // The nearest members can only be found by sorting.
        let sort = self.sort.or((self.count > 0 && !self.any).then_some(Sort::Ascending));
        let by_distance = |one: &Point, other: &Point| one.distance_m.total_cmp(&other.distance_m);
        match sort {
            Some(Sort::Ascending) => points.sort_by(by_distance),
            Some(Sort::Descending) => points.sort_by(|one, other| by_distance(other, one)),
            None => {}
        }
        if self.count > 0 {
            points.truncate(self.count);
        }
        points
    }

    /// The members within the shape; with ANY, only the first `count`.
    fn points(&self, set: &SortedSet) -> Vec<Point> {
        let (Some(middle), Some(shape)) = (self.middle, self.shape) else { return Vec::new() };
        let most = if self.any { self.count } else { usize::MAX };
        let ranges = shape.ranges(middle).into_iter();
        let ranks = ranges.map(|(start, end)| {
            let start = set.position(Cut::BeforeScore(start));
            start..set.position(Cut::BeforeScore(end)).max(start)
        });
        let elements = ranks.flat_map(|ranks| set.range(ranks));
        let points = elements.filter_map(|(member, score)| {
            let position = Position::of_score(score);
            let distance_m = shape.distance_within_m(middle, position)?;
            Some(Point { member: member.to_vec(), score, position, distance_m })
        });
        points.take(most).collect()
    }

    fn distance(&self, point: &Point) -> f64 {
        point.distance_m / self.unit_m
    }

    fn reply(&self, points: &[Point], reply: &mut Reply<'_>) {
        let options =
            usize::from(self.with_distance) + usize::from(self.with_hash) + usize::from(self.with_coordinates);
        reply.array(points.len());
        for point in points {
            if options > 0 {
                reply.array(1 + options);
            }
            reply.bulk(&point.member);
            if self.with_distance {
                reply_distance(self.distance(point), reply);
            }
            if self.with_hash {
                reply.integer(whole_i64(point.score));
            }
            if self.with_coordinates {
                reply_position(point.position, reply);
            }
        }
    }
}

/// Sets a flag, which takes no more arguments.
fn flag(flag: &mut bool) -> usize {
    *flag = true;
    0
}

fn position_of(set: &SortedSet, member: &[u8]) -> Result<Position, CommandError> {
    let score = set.score(member).ok_or(CommandError::Text("ERR could not decode requested zset member"))?;
    Ok(Position::of_score(score))
}
