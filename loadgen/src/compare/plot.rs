//! The plot: latency by percentile, both axes stretched: each nine and each power of ten takes the same
//! space. A curve is the mean of its runs; with three or more, a band shows the 95 % interval.
//!
//! A plain SVG with nothing to fetch. Its colours are the page's, light or dark as the reader's are.

use std::fmt::Write;

use super::Side;
use super::difference::mean_at_quantile;

const STEPS_PER_NINE: u32 = 24;
/// How many curves look different; the next ones start again.
const LOOKS: usize = 6;
const LINE_PX: u32 = 18;

/// The style of the curves and their legend, on a page or in a file of its own.
pub(super) const STYLE: &str = "\
:root{--ink:#1b1f24;--soft:#57606a;--line:#d8dde3;--ground:#fff;\
--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#9a6700;--c5:#57606a}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--ground:#0d1117;\
--c0:#4493f8;--c1:#f0883e;--c2:#3fb950;--c3:#ab7df8;--c4:#d29922;--c5:#9198a1}}\
svg text{font:13px system-ui,sans-serif;fill:var(--soft)}\
.grid{stroke:var(--line);stroke-width:1}.minor{opacity:.45}\
.s0{stroke:var(--c0);fill:var(--c0)}.s1{stroke:var(--c1);fill:var(--c1);stroke-dasharray:7 3}\
.s2{stroke:var(--c2);fill:var(--c2);stroke-dasharray:2 3}.s3{stroke:var(--c3);fill:var(--c3);stroke-dasharray:10 3 2 3}\
.s4{stroke:var(--c4);fill:var(--c4);stroke-dasharray:5 5}.s5{stroke:var(--c5);fill:var(--c5);stroke-dasharray:1 4}\
.curve{fill:none;stroke-width:2.2;stroke-linejoin:round}.band{stroke:none;opacity:.18}";

/// Its size in CSS pixels: one for screens, one for phones, which show it unscaled.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

pub(super) const WIDE: Size = Size { width: 960, height: 460 };
pub(super) const NARROW: Size = Size { width: 360, height: 340 };

/// A file of its own, with style and legend.
pub(super) fn file(sides: &[Side]) -> String {
    let legend_px = LINE_PX * sides.len() as u32;
    let mut svg = open(WIDE.width, WIDE.height + legend_px);
    push(
        &mut svg,
        format_args!("<style>{STYLE}</style><rect width=\"100%\" height=\"100%\" style=\"fill:var(--ground)\"/>"),
    );
    for (number, side) in sides.iter().enumerate() {
        let y = WIDE.height + LINE_PX * number as u32 + 4;
        let (look, name) = (look(number), escaped(&side.name));
        push(
            &mut svg,
            format_args!("<path class=\"curve {look}\" d=\"M60 {y}h28\"/><text x=\"96\" y=\"{}\">{name}</text>", y + 4),
        );
    }
    chart(&mut svg, sides, WIDE);
    svg.push_str("</svg>\n");
    svg
}

/// The plot within a page, which has style and legend.
pub(super) fn inline(sides: &[Side], size: Size) -> String {
    let mut svg = open(size.width, size.height);
    chart(&mut svg, sides, size);
    svg.push_str("</svg>");
    svg
}

/// A stroke in the look of a curve, for the page's legend.
pub(super) fn swatch(number: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"curve {}\" d=\"M0 5h28\"/></svg>",
        look(number)
    )
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn look(number: usize) -> String {
    format!("s{}", number % LOOKS)
}

fn open(width: u32, height: u32) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Latency by percentile\">"
    )
}

fn push(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("writing into a string cannot fail");
}

/// Where values are on the picture.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    nines: u32,
    /// Latencies in milliseconds, the least and the most.
    ms: (f64, f64),
}

impl Frame {
    fn of(sides: &[Side], size: Size) -> Self {
        let values = || sides.iter().flat_map(|side| &side.runs).map(|run| &run.histogram);
        let lowest = values().map(|histogram| histogram.min()).min().unwrap_or(1).max(1);
        let highest = values().map(|histogram| histogram.max()).max().unwrap_or(1).max(lowest);
        // As many nines as the largest run has values for.
        let requests = values().map(|histogram| histogram.len()).max().unwrap_or(1);
        Self {
            left: 58.0,
            right: f64::from(size.width) - 34.0,
            top: 12.0,
            bottom: f64::from(size.height) - 44.0,
            nines: (requests as f64).log10().ceil().clamp(1.0, 7.0) as u32,
            ms: (lowest as f64 / 1e6 / 1.15, highest as f64 / 1e6 * 1.15),
        }
    }

    fn x(&self, nines: f64) -> f64 {
        self.left + (self.right - self.left) * nines / f64::from(self.nines)
    }

    fn y(&self, ms: f64) -> f64 {
        let (low, high) = (self.ms.0.ln(), self.ms.1.ln());
        let share = ((ms.ln() - low) / (high - low)).clamp(0.0, 1.0);
        self.bottom - (self.bottom - self.top) * share
    }
}

fn chart(svg: &mut String, sides: &[Side], size: Size) {
    let frame = Frame::of(sides, size);
    axes(svg, &frame);
    for (number, side) in sides.iter().enumerate() {
        curve(svg, &frame, side, number);
    }
}

fn axes(svg: &mut String, frame: &Frame) {
    let Frame { left, right, top, bottom, nines, ms } = *frame;
    // On a phone every other label of many.
    let every = if f64::from(nines) * 62.0 > right - left { 2 } else { 1 };
    for nine in 0..=nines {
        let x = frame.x(f64::from(nine));
        push(svg, format_args!("<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>"));
        if nine % every == 0 {
            let label = percentile_label(nine);
            push(
                svg,
                format_args!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", bottom + 17.0),
            );
        }
    }
    let (first, last) = (ms.0.log10().floor() as i32, ms.1.log10().ceil() as i32);
    let few_decades = last - first <= 3;
    for decade in first..=last {
        for step in 1..=9 {
            let value = f64::from(step) * 10_f64.powi(decade);
            if !(ms.0..=ms.1).contains(&value) {
                continue;
            }
            let (y, minor) = (frame.y(value), if step == 1 { "" } else { " minor" });
            push(svg, format_args!("<path class=\"grid{minor}\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"));
            if step == 1 || (few_decades && matches!(step, 2 | 5)) {
                let decimals = usize::try_from(-decade).unwrap_or(0);
                push(
                    svg,
                    format_args!(
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.decimals$}</text>",
                        left - 6.0,
                        y + 4.0
                    ),
                );
            }
        }
    }
    push(
        svg,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">percentile</text>",
            (left + right) / 2.0,
            bottom + 36.0
        ),
    );
    let middle = (top + bottom) / 2.0;
    push(
        svg,
        format_args!(
            "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">latency, ms</text>"
        ),
    );
}

fn curve(svg: &mut String, frame: &Frame, side: &Side, number: usize) {
    let (mut line, mut lower, mut upper) = (String::new(), Vec::new(), String::new());
    for step in 0..=frame.nines * STEPS_PER_NINE {
        let nines = f64::from(step) / f64::from(STEPS_PER_NINE);
        let mean = mean_at_quantile(side, 1.0 - 10_f64.powf(-nines));
        let x = frame.x(nines);
        let point = |ns: f64| format!("{x:.1} {:.1}", frame.y(ns / 1e6));
        push(&mut line, format_args!("{}{}", if step == 0 { "M" } else { "L" }, point(mean.value)));
        if let Some((low, high)) = mean.interval {
            push(&mut upper, format_args!("{}{}", if step == 0 { "M" } else { "L" }, point(high)));
            lower.push(point(low));
        }
    }
    let look = look(number);
    if !lower.is_empty() {
        let back: String = lower.iter().rev().map(|point| format!("L{point}")).collect();
        push(svg, format_args!("<path class=\"band {look}\" d=\"{upper}{back}Z\"/>"));
    }
    push(svg, format_args!("<path class=\"curve {look}\" d=\"{line}\"/>"));
}

/// 0 is p0, 1 is p90, 2 is p99, 3 is p99.9.
fn percentile_label(nines: u32) -> String {
    let decimals = (nines as usize).saturating_sub(2);
    format!("{:.decimals$}", (1.0 - 10_f64.powi(-(nines as i32))) * 100.0)
}
