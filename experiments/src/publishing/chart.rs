//! Line charts with error bars as inline SVG, drawn by plotters.
//!
//! Both axes are drawn on plain numbers with our own ticks, so that logarithmic and named positions only change where a
//! value is placed, not the kind of chart.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// In pixels: a phone shows it at three quarters of that, a wide screen three beside each other at nine tenths.
const WIDTH: u32 = 440;
const HEIGHT: u32 = 290;
const MARGIN: u32 = 8;
/// Half of a long label at the end of the axis.
const MARGIN_RIGHT: u32 = 28;
const LEFT: u32 = 70;
const BOTTOM: u32 = 46;
/// What a character of a label takes, at most on average.
const CHARACTER: u32 = 9;
/// Ratios of which an axis shows at least this much, so that what is less than matters does not look large.
const RATIOS: (f64, f64) = (0.8, 1.25);
const TEXT: RGBColor = RGBColor(70, 70, 70);
const GRID: RGBColor = RGBColor(226, 228, 232);

/// Lines over the same positions.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What the horizontal axis counts.
    pub x_title: String,
    /// The ticks of that axis: position and label, ascending.
    pub x_ticks: Vec<(f64, String)>,
    /// How values become heights.
    pub scale: Scale,
    /// How a height is labelled.
    pub unit: Unit,
    /// The lines.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its colour.
    pub colour: (u8, u8, u8),
    /// Its place among the lines of its server: see [`Look`].
    pub rank: usize,
    /// Its points, from left to right.
    pub data: Vec<Datum>,
}

/// The look that distinguishes lines of one server without their colour: dashes, each finer than the one before, and
/// shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Length of the dashes; `None` for a solid line.
    pub dash: Option<u32>,
    /// What its points look like.
    pub shape: Shape,
}

/// The shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are what they are called")]
pub enum Shape {
    Dot,
    Ring,
    Triangle,
    Cross,
}

impl Look {
    /// The look of the line of this rank.
    pub fn of(rank: usize) -> Self {
        const SHAPES: [Shape; 4] = [Shape::Dot, Shape::Ring, Shape::Triangle, Shape::Cross];
        Self { dash: (rank > 0).then(|| (10 / rank as u32).max(1)), shape: SHAPES[rank % SHAPES.len()] }
    }
}

/// A figure at a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datum {
    /// Where on the horizontal axis.
    pub x: f64,
    /// The lower end of the error bar.
    pub low: f64,
    /// The figure.
    pub value: f64,
    /// The upper end of the error bar.
    pub high: f64,
}

/// The vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Decades.
    Logarithmic,
    /// Ratios to something, logarithmic around one: twice is as far from it as half.
    Ratio,
}

/// What the vertical axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count, with k and M.
    Count,
    /// Microseconds; a thousand are shown as milliseconds.
    Microseconds,
    /// Mebibytes.
    Mebibytes,
}

/// A straight axis with given ticks: plotters' own choice suits neither decades nor names.
struct Axis {
    range: Range<f64>,
    keys: Vec<f64>,
}

impl Chart {
    /// Draws the chart.
    pub fn to_svg(&self) -> Result<String> {
        let mut svg = String::new();
        let size = (WIDTH, HEIGHT - BOTTOM + self.bottom());
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.draw(&area).map_err(|error| anyhow!("cannot draw a chart: {error}"))?;
        drop(area);
        Ok(svg)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend, plotters::coord::Shift>) -> Result<(), Box<dyn std::error::Error>> {
        let (x_keys, y_values) = (self.x_ticks.iter().map(|tick| tick.0).collect(), self.y_ticks());
        let y_keys: Vec<f64> = y_values.iter().map(|&value| self.scale.height(value)).collect();
        let (bottom, top) = self.y_range(&y_keys);
        let (left, right) = self.x_range();
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(MARGIN_RIGHT)
            .x_label_area_size(self.bottom())
            .y_label_area_size(LEFT)
            .build_cartesian_2d(Axis { range: left..right, keys: x_keys }, Axis { range: bottom..top, keys: y_keys })?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(TEXT.mix(0.5))
            .label_style(("sans-serif", 17, &TEXT))
            .axis_desc_style(("sans-serif", 17, &TEXT))
            .x_desc(self.x_title.as_str())
            .x_label_formatter(&|x| if self.is_upright() { String::new() } else { self.x_label(*x) })
            .y_label_formatter(&|y| self.unit.label(self.scale.value(*y)))
            .draw()?;
        if self.is_upright() {
            let end = Pos::new(HPos::Right, VPos::Center);
            let style = ("sans-serif", 17).into_font().transform(FontTransform::Rotate270).color(&TEXT).pos(end);
            for (x, label) in &self.x_ticks {
                let (x, y) = chart.plotting_area().map_coordinate(&(*x, bottom));
                area.draw_text(label, &style, (x, y + 8))?;
            }
        }
        if self.scale == Scale::Ratio {
            let equal = [(left, 0.0), (right, 0.0)];
            chart.draw_series(LineSeries::new(equal, TEXT.mix(0.5)))?;
        }
        let step = (right - left) * 0.009;
        for (index, series) in self.series.iter().enumerate() {
            let shift = (index as f64 - (self.series.len() - 1) as f64 / 2.0) * step;
            chart.draw_series(self.elements(series, shift, step * 0.45))?;
            let at = |datum: &Datum| (datum.x + shift, self.scale.height(datum.value));
            let stroke = colour(series).stroke_width(2);
            let look = Look::of(series.rank);
            match look.dash {
                None => chart.draw_series(LineSeries::new(series.data.iter().map(at), stroke)).map(drop)?,
                Some(dash) => {
                    chart.draw_series(DashedLineSeries::new(series.data.iter().map(at), dash, 4, stroke)).map(drop)?;
                }
            }
            let places = series.data.iter().map(at);
            match look.shape {
                Shape::Dot => {
                    chart.draw_series(places.map(|place| Circle::new(place, 3, stroke.filled()))).map(drop)?
                }
                Shape::Ring => {
                    chart.draw_series(places.clone().map(|place| Circle::new(place, 3, WHITE.filled()))).map(drop)?;
                    chart.draw_series(places.map(|place| Circle::new(place, 3, stroke))).map(drop)?;
                }
                Shape::Triangle => {
                    chart.draw_series(places.map(|place| TriangleMarker::new(place, 5, stroke.filled()))).map(drop)?;
                }
                Shape::Cross => chart.draw_series(places.map(|place| Cross::new(place, 4, stroke))).map(drop)?,
            }
        }
        Ok(())
    }

    /// The error bars of a line: a stem and two caps each.
    fn elements<'a>(
        &'a self,
        series: &'a Series,
        shift: f64,
        cap: f64,
    ) -> impl Iterator<Item = PathElement<(f64, f64)>> + 'a {
        series.data.iter().flat_map(move |datum| {
            let (x, low, high) = (datum.x + shift, self.scale.height(datum.low), self.scale.height(datum.high));
            let bars = [[(x, low), (x, high)], [(x - cap, low), (x + cap, low)], [(x - cap, high), (x + cap, high)]];
            bars.map(|bar| PathElement::new(bar.to_vec(), colour(series).stroke_width(1)))
        })
    }

    /// Whether labels beside each other would overlap, so that they are turned.
    fn is_upright(&self) -> bool {
        let (left, right) = self.x_range();
        let pixels = f64::from(WIDTH - LEFT - 2 * MARGIN - MARGIN_RIGHT) / (right - left);
        let width = |label: &str| label.chars().count() as f64 * f64::from(CHARACTER);
        self.x_ticks.windows(2).any(|pair| {
            let [(from, one), (to, other)] = pair else { return false };
            (to - from) * pixels < (width(one) + width(other)) / 2.0 + 4.0
        })
    }

    /// The height of the labels below the axis, and of its title.
    fn bottom(&self) -> u32 {
        let longest = self.x_ticks.iter().map(|(_, label)| label.chars().count() as u32).max().unwrap_or(0);
        if self.is_upright() { BOTTOM - 14 + longest * CHARACTER } else { BOTTOM }
    }

    fn x_range(&self) -> (f64, f64) {
        let first = self.x_ticks.first().map_or(0.0, |tick| tick.0);
        let last = self.x_ticks.last().map_or(1.0, |tick| tick.0);
        let margin = ((last - first) * 0.04).max(0.05);
        (first - margin, last + margin)
    }

    fn x_label(&self, x: f64) -> String {
        let tick = self.x_ticks.iter().find(|tick| (tick.0 - x).abs() < 1e-9);
        tick.map_or(String::new(), |tick| tick.1.clone())
    }

    fn y_range(&self, keys: &[f64]) -> (f64, f64) {
        let (low, high) = self.extremes();
        let (low, high) = (self.scale.height(low), self.scale.height(high));
        let first = keys.first().copied().unwrap_or(low).min(low);
        let last = keys.last().copied().unwrap_or(high).max(high);
        match self.scale {
            Scale::Linear => (0.0, last * 1.03),
            Scale::Logarithmic | Scale::Ratio => (first, last + (last - first) * 0.03),
        }
    }

    fn y_ticks(&self) -> Vec<f64> {
        let (low, high) = self.extremes();
        match self.scale {
            Scale::Linear => linear_ticks(high),
            Scale::Logarithmic => logarithmic_ticks(low, high),
            Scale::Ratio => ratio_ticks(low, high),
        }
    }

    /// The lowest and the highest value drawn; never equal, never zero on top.
    fn extremes(&self) -> (f64, f64) {
        let data = || self.series.iter().flat_map(|series| &series.data);
        let low = data().map(|datum| datum.low).filter(|low| *low > 0.0).fold(f64::INFINITY, f64::min);
        let high = data().map(|datum| datum.high).fold(0.0, f64::max);
        let (low, high) = match self.scale {
            Scale::Ratio => (low.min(RATIOS.0), high.max(RATIOS.1)),
            Scale::Linear | Scale::Logarithmic => (low, high),
        };
        if high <= 0.0 || !low.is_finite() { (0.1, 1.0) } else { (low.min(high * 0.999), high) }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.keys.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl Scale {
    fn height(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic | Self::Ratio => value.max(1e-3).log10(),
        }
    }

    fn value(self, height: f64) -> f64 {
        match self {
            Self::Linear => height,
            Self::Logarithmic | Self::Ratio => 10f64.powf(height),
        }
    }
}

impl Unit {
    /// A tick's label.
    pub(crate) fn label(self, value: f64) -> String {
        match self {
            Self::Count if value >= 1e6 => format!("{}M", short(value / 1e6)),
            Self::Count if value >= 1e3 => format!("{}k", short(value / 1e3)),
            Self::Count => short(value),
            Self::Microseconds if value >= 999.5 => format!("{} ms", short(value / 1e3)),
            Self::Microseconds => format!("{} µs", short(value)),
            Self::Mebibytes => format!("{} MiB", short(value)),
        }
    }
}

fn colour(series: &Series) -> RGBColor {
    let (red, green, blue) = series.colour;
    RGBColor(red, green, blue)
}

/// At most three digits after the point, none of them a trailing zero.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Multiples of 1, 2 or 5 from zero, about five of them, the last at or above `high`.
fn linear_ticks(high: f64) -> Vec<f64> {
    let decade = 10f64.powf((high / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| high / step <= 5.5);
    let step = step.unwrap_or(10.0 * decade);
    (0..=(high / step).ceil() as u32).map(|i| f64::from(i) * step).collect()
}

/// 1, 2 and 5 in each decade while that is few, decades alone otherwise; they enclose `low..high`.
pub(crate) fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().floor() as i32;
    let many = high / low > 2e3;
    let factors: &[f64] = if many { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks: Vec<f64> =
        decades.clone().flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade))).collect();
    ticks.push(10f64.powi(decades.end() + 1));
    let first = ticks.iter().rposition(|&tick| tick <= low).unwrap_or(0);
    let last = ticks.iter().position(|&tick| tick >= high).unwrap_or(ticks.len() - 1);
    ticks[first..=last].to_vec()
}

/// Multiples of a step while the ratios are near each other, and 1, 2 and 5 otherwise; one is always a tick.
fn ratio_ticks(low: f64, high: f64) -> Vec<f64> {
    let parts = [20.0, 10.0, 5.0, 2.0].into_iter().find(|parts| (high - low) * parts <= 6.0);
    match parts.filter(|_| high / low < 4.0) {
        None => logarithmic_ticks(low.min(0.5), high.max(2.0)),
        Some(parts) => {
            let (first, last) = ((low * parts).floor().max(1.0) as u32, (high * parts).ceil() as u32);
            (first..=last).map(|multiple| f64::from(multiple) / parts).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_one_among_their_ticks_whether_they_are_near_it_or_far() {
        assert_eq!(ratio_ticks(0.8, 1.25), [0.8, 0.9, 1.0, 1.1, 1.2, 1.3]);
        assert_eq!(ratio_ticks(0.45, 1.25), [0.4, 0.6, 0.8, 1.0, 1.2, 1.4]);
        assert_eq!(ratio_ticks(0.8, 3.0), [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        assert_eq!(ratio_ticks(0.34, 58.0), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn labels_that_would_overlap_are_turned_and_get_room() {
        let chart = |labels: &[&str]| Chart {
            x_title: "workload".into(),
            x_ticks: labels.iter().enumerate().map(|(at, label)| (at as f64, (*label).to_owned())).collect(),
            scale: Scale::Ratio,
            unit: Unit::Count,
            series: vec![Series { colour: (1, 2, 3), rank: 0, data: Vec::new() }],
        };
        let names = ["rate-limiter", "leaderboard", "session-store", "job-queue", "cache", "counters"];
        let svg = chart(&names).to_svg().unwrap();
        assert!(svg.contains("rotate") && names.iter().all(|name| svg.contains(name)), "{svg}");
        assert!(!chart(&["1", "16", "64"]).to_svg().unwrap().contains("rotate"));
        assert!(chart(&names).bottom() > chart(&["1", "16"]).bottom());
    }

    #[test]
    fn ticks_enclose_the_data() {
        assert_eq!(linear_ticks(87_000.0), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0]);
        assert_eq!(logarithmic_ticks(30.0, 700.0), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(logarithmic_ticks(3.0, 70_000.0), [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(Unit::Count.label(120_000.0), "120k");
        assert_eq!(Unit::Microseconds.label(2_500.0), "2.5 ms");
        assert_eq!(Unit::Microseconds.label(10f64.powf(200f64.log10())), "200 µs");
        assert_eq!(Unit::Mebibytes.label(0.0), "0 MiB");
    }

    #[test]
    fn a_chart_is_svg_with_its_labels_and_without_links() {
        let data = vec![
            Datum { x: 0.0, low: 9.0, value: 10.0, high: 11.0 },
            Datum { x: 1.0, low: 20.0, value: 20.0, high: 20.0 },
        ];
        let chart = Chart {
            x_title: "clients".into(),
            x_ticks: vec![(0.0, "one".into()), (1.0, "fifty".into())],
            scale: Scale::Logarithmic,
            unit: Unit::Microseconds,
            series: (0..2).map(|rank| Series { colour: (1, 2, 3), rank, data: data.clone() }).collect(),
        };
        let svg = chart.to_svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("fifty") && svg.contains("20 µs"), "{svg}");
        let hollow = svg.lines().filter(|line| line.contains("<circle") && line.contains("#FFFFFF")).count();
        assert_eq!((svg.matches("<circle").count(), hollow), (6, 2), "two full dots, two hollow ones in two parts");
        assert!(!svg.contains("href"));
    }
}
