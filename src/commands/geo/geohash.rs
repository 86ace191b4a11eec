//! Positions on the earth as integers of 52 bits, close to each other where the positions are.
//!
//! ```text
//! position: longitude -180 to 180, latitude -85.05112878 to 85.05112878, each in 26 bits of its range
//! integer:  | longitude | latitude | longitude | ...     one bit of each in turn, the highest first
//! ```
//!
//! Fewer bits make a cell: the first 2 x `step` bits name a rectangle that holds all positions with these bits.
//! Geohashes are Gustavo Niemeyer's (<http://geohash.org>), here with the latitudes of the Mercator projection, as in
//! Redis, whose arithmetic this follows to the last bit, because the integers are visible as scores, and in files.

use crate::base::narrowing::{low_u32, size, whole_i64, whole_u64};
use std::f64::consts::PI;

/// The most precise cell's step.
pub const STEP_MAX: u32 = 26;
const LONGITUDE_MAX: f64 = 180.0;
const LATITUDE_MAX: f64 = 85.051_128_78;
/// The quadratic mean radius of the earth.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half of the circumference at the equator, in the Mercator projection.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// A position in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// Positive in the east.
    pub longitude: f64,
    /// Positive in the north.
    pub latitude: f64,
}

impl Position {
    /// Whether it can be encoded: the poles cannot.
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The position as a score.
    pub fn score(self) -> f64 {
        Cell::of(self, STEP_MAX).bits as f64
    }

    /// The position of a score: the middle of its cell.
    pub fn of_score(score: f64) -> Self {
        // A score that was not made by GEOADD may be negative: its bits are those of the integer, as a processor casts
        // it.
        let bits = if score < 0.0 { whole_i64(score).cast_unsigned() } else { whole_u64(score) };
        let area = Cell { bits, step: STEP_MAX }.area();
        let middle = |min: f64, max: f64, most: f64| f64::midpoint(min, max).clamp(-most, most);
        Self {
            longitude: middle(area.west, area.east, LONGITUDE_MAX),
            latitude: middle(area.south, area.north, LATITUDE_MAX),
        }
    }

    /// The position as a geohash of eleven characters. The last one is always 0, because there are no bits for it.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = encode(self, STEP_MAX, 90.0);
        let mut text = [b'0'; 11];
        for (index, byte) in text.iter_mut().take(10).enumerate() {
            *byte = ALPHABET[size(bits >> (52 - 5 * (index + 1))) % ALPHABET.len()];
        }
        text
    }

    /// The distance to another position in metres, along the surface: the haversine formula.
    pub fn distance_m(self, other: Self) -> f64 {
        let half_longitude = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if half_longitude == 0.0 {
            return self.distance_in_latitude_m(other);
        }
        let (latitude, other_latitude) = (radians(self.latitude), radians(other.latitude));
        let half_latitude = ((other_latitude - latitude) / 2.0).sin();
        let cosines = latitude.cos() * other_latitude.cos();
        let haversine = half_latitude * half_latitude + cosines * half_longitude * half_longitude;
        2.0 * EARTH_RADIUS_M * haversine.sqrt().asin()
    }

    fn distance_in_latitude_m(self, other: Self) -> f64 {
        EARTH_RADIUS_M * (radians(other.latitude) - radians(self.latitude)).abs()
    }
}

const RADIAN: f64 = PI / 180.0;

fn radians(degrees: f64) -> f64 {
    degrees * RADIAN
}

fn degrees(radians: f64) -> f64 {
    radians / RADIAN
}

/// The area of a search around a position, in metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// All within a radius.
    Circle {
        /// The radius.
        radius_m: f64,
    },
    /// All within a rectangle.
    Box {
        /// From west to east.
        width_m: f64,
        /// From south to north.
        height_m: f64,
    },
}

impl Shape {
    /// The distance of a point from the middle of the shape, if it is within.
    pub fn distance_within_m(self, middle: Position, point: Position) -> Option<f64> {
        match self {
            Self::Circle { radius_m } => Some(middle.distance_m(point)).filter(|&distance| distance <= radius_m),
            Self::Box { width_m, height_m } => {
                let beside = Position { latitude: point.latitude, ..middle };
                let is_outside =
                    point.distance_in_latitude_m(middle) > height_m / 2.0 || point.distance_m(beside) > width_m / 2.0;
                (!is_outside).then(|| middle.distance_m(point))
            }
        }
    }

    /// The ranges of scores that hold all points of the shape, each with its end excluded: those of the middle cell and
    /// of its neighbours, as far as the shape extends into them.
    pub fn ranges(self, middle: Position) -> Vec<(f64, f64)> {
        let bounds = self.bounds(middle);
        let mut step = self.step(middle.latitude);
        let mut cell = Cell::of(middle, step);
        if step > 1 && !cell.neighbours_cover(bounds) {
            step -= 1;
            cell = Cell::of(middle, step);
        }
        let area = cell.area();
        let is_needed = |&(east, north): &(i8, i8)| {
            step < 2
                || !((north < 0 && area.south < bounds.south)
                    || (north > 0 && area.north > bounds.north)
                    || (east < 0 && area.west < bounds.west)
                    || (east > 0 && area.east > bounds.east))
        };
        /// The order in which Redis visits them: it shows where a search stops early.
        const AROUND: [(i8, i8); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::new();
        for (east, north) in AROUND.into_iter().filter(is_needed) {
            let neighbour = cell.neighbour(east, north);
            // Where cells are large, the eastern and the western one may be the same.
            if cells.len() < 2 || cells.last() != Some(&neighbour) {
                cells.push(neighbour);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }

    /// The rectangle around the shape. The farther from the equator, the more degrees a width takes: it is measured at
    /// the edge that is nearer to the pole.
    fn bounds(self, middle: Position) -> Area {
        let (width_m, height_m) = match self {
            Self::Circle { radius_m } => (radius_m, radius_m),
            Self::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
        };
        let north = degrees(height_m / EARTH_RADIUS_M);
        let edge = if middle.latitude < 0.0 { middle.latitude - north } else { middle.latitude + north };
        let east = degrees(width_m / EARTH_RADIUS_M / radians(edge).cos());
        Area {
            west: middle.longitude - east,
            east: middle.longitude + east,
            south: middle.latitude - north,
            north: middle.latitude + north,
        }
    }

    /// The step of cells that are about as large as the shape.
    fn step(self, latitude: f64) -> u32 {
        let mut reach_m = match self {
            Self::Circle { radius_m } => radius_m,
            Self::Box { width_m, height_m } => {
                (width_m / 2.0 * (width_m / 2.0) + height_m / 2.0 * (height_m / 2.0)).sqrt()
            }
        };
        if reach_m == 0.0 {
            return STEP_MAX;
        }
        let mut step = 1;
        while reach_m < MERCATOR_MAX {
            reach_m *= 2.0;
            step += 1;
        }
        // One because the middle may be at an edge, one for the rounding; and cells are narrow near the poles.
        step -= 2 + i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }
}

/// A rectangle, in degrees.
#[derive(Debug, Clone, Copy)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

/// All positions whose integers start with these bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u32,
}

impl Cell {
    fn of(position: Position, step: u32) -> Self {
        Self { bits: encode(position, step, LATITUDE_MAX), step }
    }

    fn area(self) -> Area {
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        let scale = (1_u64 << self.step) as f64;
        let edge = |index: u32, most: f64| -most + f64::from(index) / scale * (most - -most);
        Area {
            west: edge(longitude, LONGITUDE_MAX),
            east: edge(longitude.wrapping_add(1), LONGITUDE_MAX),
            south: edge(latitude, LATITUDE_MAX),
            north: edge(latitude.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// The cell this many steps to the east and to the north; after the last one comes the first.
    fn neighbour(self, east: i8, north: i8) -> Self {
        let mask = (1_u64 << self.step) - 1;
        // The last meridian is one cell beyond the last: in a direction without a step, its cell stays where it is.
        let step_to = |index: u32, by: i8| match by {
            0 => u64::from(index),
            by => u64::from(index).wrapping_add_signed(by.into()) & mask,
        };
        let latitude = step_to(gather(self.bits), north);
        let longitude = step_to(gather(self.bits >> 1), east);
        Self { bits: spread(latitude) | spread(longitude) << 1, ..self }
    }

    /// Whether the neighbours on the four sides reach as far as these bounds.
    fn neighbours_cover(self, bounds: Area) -> bool {
        self.neighbour(0, 1).area().north >= bounds.north
            && self.neighbour(0, -1).area().south <= bounds.south
            && self.neighbour(1, 0).area().east >= bounds.east
            && self.neighbour(-1, 0).area().west <= bounds.west
    }

    /// The scores of the positions in the cell: start included, end excluded.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

/// The bits of a position, with latitudes up to a limit.
fn encode(position: Position, step: u32, latitude_max: f64) -> u64 {
    let scale = (1_u64 << step) as f64;
    let index = |degrees: f64, most: f64| whole_u64((degrees - -most) / (most - -most) * scale);
    spread(index(position.latitude, latitude_max)) | spread(index(position.longitude, LONGITUDE_MAX)) << 1
}

/// Moves the bits of an integer of 32 bits to every second place of 64.
fn spread(index: u64) -> u64 {
    let mut bits = index & 0xFFFF_FFFF;
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Undoes [`spread`]: every second bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    low_u32(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn palermo_is_where_the_documentation_says() {
        let palermo = Position { longitude: 13.361_389, latitude: 38.115_556 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(&Position::of_score(palermo.score()).geohash(), b"sqc8b49rny0");
    }

    proptest! {
        #[test]
        fn bits_that_are_spread_are_gathered(index: u32) {
            prop_assert_eq!(gather(spread(index.into())), index);
        }

        #[test]
        fn a_position_survives_in_its_score(longitude in -180.0..180.0, latitude in -85.05..85.05) {
            let position = Position { longitude, latitude };
            let distance_m = Position::of_score(position.score()).distance_m(position);
            prop_assert!(distance_m < 1.0, "{} m", distance_m);
        }

        #[test]
        fn the_ranges_of_a_circle_hold_its_points(
            longitude in -170.0..170.0,
            latitude in -65.0..65.0,
            east in -1.0..1.0,
            north in -1.0..1.0,
            radius_m in 1.0..500_000.0,
        ) {
            let middle = Position { longitude, latitude };
            let shape = Shape::Circle { radius_m };
            let reach = degrees(radius_m / EARTH_RADIUS_M);
            let point = Position { longitude: longitude + east * reach, latitude: latitude + north * reach };
            prop_assume!(shape.distance_within_m(middle, point).is_some());
            let score = point.score();
            prop_assert!(shape.ranges(middle).iter().any(|&(start, end)| start <= score && score < end));
        }
    }
}
