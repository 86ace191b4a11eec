//! The figure: throughput and the 99th percentile of a batch, by number of cores.
//!
//! Plain SVG with its own background and two sets of colours, chosen by `prefers-color-scheme`: an image in a page does
//! not know the colours of the page, so it must not depend on them. Measured points have solid lines and bars,
//! predicted ones dashed lines and bands; shapes distinguish engines without colours.

use std::fmt::Write as _;

use super::situations::{Situations, Spot};
use crate::publishing::chart::{Unit, logarithmic_ticks};

/// The batch that is shown: the one between the model's inputs.
const BATCH: usize = 16;

/// The height of a panel's plot.
const PLOT: f64 = 260.0;
/// Points of engines at the same number of cores are this far apart.
const APART: f64 = 5.0;

/// Colours of the engines on a light and on a dark background, in the order of [`Situations::engines`]: Okabe and
/// Ito's, as in the reports.
const COLOURS: [(&str, &str); 6] = [
    ("#c98a00", "#e69f00"),
    ("#009e73", "#1fbf8f"),
    ("#0072b2", "#56b4e9"),
    ("#b3518d", "#cc79a7"),
    ("#d55e00", "#ff8c42"),
    ("#5a5a5a", "#a0a0a0"),
];

/// The lower end, the value and the upper end of a point.
type Figures = fn(&Spot) -> (f64, f64, f64);

/// Where the two panels are.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// Side by side, for a page.
    Wide,
    /// One below the other, for a phone.
    Narrow,
}

/// One of the two panels.
struct Panel<'a> {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    title: &'static str,
    unit: Unit,
    spots: &'a [Spot],
    cores: &'a [usize],
    of: Figures,
}

/// The figure's caption: what is shown, and in words what is not.
pub(super) fn caption(found: &Situations) -> String {
    let own: Vec<&Spot> = found.spots.iter().filter(|spot| spot.batch == BATCH).collect();
    if own.is_empty() {
        return format!("*Not measured: the file has no batches of {BATCH} requests under the ordinary load.*");
    }
    let measured = || own.iter().filter(|spot| !spot.is_predicted);
    let most = measured().map(|spot| spot.cores).max().unwrap_or(0);
    let rounds = measured().map(|spot| spot.rounds);
    let (least_rounds, most_rounds) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
    let rounds =
        if least_rounds < most_rounds { format!("{least_rounds} to {most_rounds}") } else { most_rounds.to_string() };
    let mut text = format!(
        "*Batches of {BATCH} requests, half of them reads, uniform keys, no sockets. Solid: measured on up to {most} of {} \
         cores, medians of {rounds} rounds with 95 % intervals.",
        found.machine_cores
    );
    text.push_str(match &found.predicted {
        Ok(_) => " Dashed: predicted by the model, not measured; the bands are its intervals.",
        Err(_) => " Nothing is predicted: the inputs of the model are not complete.",
    });
    for engine in found.engines() {
        let has = |is_predicted| own.iter().any(|spot| spot.engine == engine && spot.is_predicted == is_predicted);
        match (has(false), has(true)) {
            (false, false) => text.push_str(&format!(" {engine} is neither measured nor predicted.")),
            (true, false) if found.predicted.is_ok() => text.push_str(&format!(" {engine} is not predicted.")),
            _ => (),
        }
    }
    text + "*"
}

impl Layout {
    /// Width and height of the whole.
    fn size(self) -> (f64, f64) {
        match self {
            Self::Wide => (880.0, 400.0),
            Self::Narrow => (440.0, 784.0),
        }
    }

    /// Left, right and top of each panel's plot.
    fn panels(self) -> [(f64, f64, f64); 2] {
        match self {
            Self::Wide => [(64.0, 424.0, 84.0), (508.0, 868.0, 84.0)],
            Self::Narrow => [(64.0, 428.0, 128.0), (64.0, 428.0, 468.0)],
        }
    }

    /// The line of text below which the first panel begins: the last one of the legend.
    fn legend_end(self) -> f64 {
        self.panels()[0].2 - 42.0
    }
}

/// The figure.
pub(super) fn svg(found: &Situations, layout: Layout) -> String {
    let spots: Vec<Spot> = found.spots.iter().filter(|spot| spot.batch == BATCH).cloned().collect();
    let mut cores: Vec<usize> = spots.iter().map(|spot| spot.cores).collect();
    cores.sort_unstable();
    cores.dedup();
    let engines = found.engines();
    let mut svg = head(&engines, layout);
    legend(&mut svg, &engines, &spots, layout);
    let shown: [(&'static str, Unit, Figures); 2] = [
        ("requests per second", Unit::Count, |spot| spot.rate),
        ("99th percentile of a batch", Unit::Microseconds, |spot| {
            (spot.p99_ns.0 / 1e3, spot.p99_ns.1 / 1e3, spot.p99_ns.2 / 1e3)
        }),
    ];
    for ((left, right, top), (title, unit, of)) in layout.panels().into_iter().zip(shown) {
        let bottom = top + PLOT;
        Panel { left, right, top, bottom, title, unit, spots: &spots, cores: &cores, of }.draw(&mut svg, &engines);
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(engines: &[String], layout: Layout) -> String {
    let colours = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let rule = |index: usize| {
            let colour = pick(&COLOURS[index % COLOURS.len()]);
            format!(".e{index}{{stroke:{colour};fill:{colour}}}")
        };
        (0..engines.len()).map(rule).collect::<String>()
    };
    let (width, height) = layout.size();
    // What has no area, and no outline, says so after both sets of colours: a later rule of equal weight wins.
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>Throughput and 99th percentile of a batch by number of cores, for each engine</title>\n\
         <style>.page{{fill:#ffffff}}text{{fill:#24292f}}.grid{{stroke:#d8dee4}}.hollow{{fill:#ffffff}}.band{{opacity:.16}}{light}\
         @media(prefers-color-scheme:dark){{.page{{fill:#0d1117}}text{{fill:#e6edf3}}.grid{{stroke:#30363d}}\
         .hollow{{fill:#0d1117}}.band{{opacity:.24}}{dark}}}\
         .line{{fill:none;stroke-width:2}}.dash{{stroke-dasharray:7 5}}.band{{stroke:none}}</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n",
        light = colours(|pair| pair.0),
        dark = colours(|pair| pair.1),
    )
}

/// The names, and what solid and dashed lines are.
fn legend(svg: &mut String, engines: &[String], spots: &[Spot], layout: Layout) {
    let left = layout.panels()[0].0;
    let (mut x, mut y) = (left, 20.0);
    for (index, engine) in engines.iter().enumerate().filter(|(_, name)| spots.iter().any(|spot| spot.engine == **name))
    {
        let width = 52.0 + 7.5 * engine.len() as f64;
        if x + width > layout.size().0 {
            (x, y) = (left, y + 22.0);
        }
        add(svg, &format!("<path class=\"line e{index}\" d=\"M{x:.1} {y}h26\"/>"));
        shape(svg, index, (x + 13.0, y));
        add(svg, &format!("<text x=\"{:.1}\" y=\"{:.1}\">{engine}</text>", x + 33.0, y + 4.5));
        x += width;
    }
    if spots.iter().any(|spot| spot.is_predicted) {
        let y = layout.legend_end();
        for (at, dash, word) in [(left, "", "measured"), (left + 120.0, " dash", "predicted, with its interval")] {
            add(svg, &format!("<path class=\"line{dash}\" stroke=\"#808890\" d=\"M{at:.1} {y}h34\"/>"));
            add(svg, &format!("<text x=\"{:.1}\" y=\"{:.1}\">{word}</text>", at + 41.0, y + 4.5));
        }
    }
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String, engines: &[String]) {
        let middle = f64::midpoint(self.left, self.right);
        add(
            svg,
            &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
                self.left,
                self.top - 12.0,
                self.title
            ),
        );
        add(
            svg,
            &format!("<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">cores</text>", self.bottom + 42.0),
        );
        if self.spots.is_empty() {
            let y = f64::midpoint(self.top, self.bottom);
            add(svg, &format!("<text x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">not measured</text>"));
            return;
        }
        let ticks = self.ticks();
        for &tick in &ticks {
            let y = self.y(tick, &ticks);
            add(svg, &format!("<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/>", self.left, self.right));
            let (x, y, label) = (self.left - 7.0, y + 4.5, self.unit.label(tick));
            add(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>"));
        }
        for &cores in self.cores {
            let (x, y) = (self.x(cores), self.bottom + 20.0);
            add(svg, &format!("<path class=\"grid\" d=\"M{x:.1} {:.1}V{:.1}\"/>", self.top, self.bottom));
            add(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{cores}</text>"));
        }
        // Bands below all lines.
        for is_band in [true, false] {
            for (index, engine) in engines.iter().enumerate() {
                let shift = (index as f64 - (engines.len() - 1) as f64 / 2.0) * APART;
                self.engine(svg, index, engine, shift, &ticks, is_band);
            }
        }
    }

    /// The bands of an engine, or its lines and points.
    fn engine(&self, svg: &mut String, index: usize, engine: &str, shift: f64, ticks: &[f64], is_band: bool) {
        let own = |is_predicted: bool| {
            let mut own: Vec<&Spot> =
                self.spots.iter().filter(|s| s.engine == engine && s.is_predicted == is_predicted).collect();
            own.sort_by_key(|spot| spot.cores);
            own
        };
        let (measured, predicted) = (own(false), own(true));
        let x = |spot: &Spot| self.x(spot.cores) + shift;
        // A prediction begins at the last measured point below it: that is what it is made from.
        let from = predicted.first().and_then(|first| measured.iter().rev().find(|spot| spot.cores < first.cores));
        let dashed: Vec<&Spot> = from.into_iter().chain(&predicted).copied().collect();
        let at = |spot: &Spot, value: f64| format!("{:.1} {:.1}", x(spot), self.y(value, ticks));
        if is_band {
            if dashed.len() > 1 {
                let lower = dashed.iter().map(|spot| at(spot, (self.of)(spot).0));
                let upper = dashed.iter().rev().map(|spot| at(spot, (self.of)(spot).2));
                let outline = lower.chain(upper).collect::<Vec<_>>().join("L");
                add(svg, &format!("<path class=\"band e{index}\" d=\"M{outline}Z\"/>"));
            }
            return;
        }
        for (spots, dash) in [(&measured, ""), (&dashed, " dash")] {
            if spots.len() > 1 {
                let path: Vec<String> = spots.iter().map(|spot| at(spot, (self.of)(spot).1)).collect();
                add(svg, &format!("<path class=\"line e{index}{dash}\" d=\"M{}\"/>", path.join("L")));
            }
        }
        for spot in &measured {
            let (low, value, high) = (self.of)(spot);
            let (x, low, high) = (x(spot), self.y(low, ticks), self.y(high, ticks));
            let bar = format!("M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} {high:.1}h6", x - 3.0, x - 3.0);
            add(svg, &format!("<path class=\"line e{index}\" d=\"{bar}\"/>"));
            shape(svg, index, (x, self.y(value, ticks)));
        }
        for spot in &predicted {
            let (x, y) = (x(spot), self.y((self.of)(spot).1, ticks));
            add(
                svg,
                &format!("<g class=\"e{index}\"><circle class=\"hollow\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/></g>"),
            );
        }
    }

    fn ticks(&self) -> Vec<f64> {
        let values = || self.spots.iter().map(|spot| (self.of)(spot));
        let low = values().map(|value| value.0).fold(f64::INFINITY, f64::min).max(1e-3);
        let high = values().map(|value| value.2).fold(low * 1.001, f64::max);
        logarithmic_ticks(low, high)
    }

    fn x(&self, cores: usize) -> f64 {
        let (first, last) = (self.cores.first().copied().unwrap_or(1), self.cores.last().copied().unwrap_or(1));
        let at = |cores: usize| (cores as f64).log2();
        let whole = (at(last) - at(first)).max(1.0);
        self.left + 24.0 + (self.right - self.left - 48.0) * (at(cores) - at(first)) / whole
    }

    fn y(&self, value: f64, ticks: &[f64]) -> f64 {
        let (low, high) = (ticks[0].log10(), ticks[ticks.len() - 1].log10());
        self.bottom - (self.bottom - self.top) * (value.max(1e-3).log10() - low) / (high - low)
    }
}

/// The point of an engine.
fn shape(svg: &mut String, index: usize, (x, y): (f64, f64)) {
    let shape = match index % 5 {
        0 => format!("<circle class=\"e{index}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => format!("<rect class=\"e{index}\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"/>", x - 4.0, y - 4.0),
        2 => format!("<path class=\"e{index}\" d=\"M{x:.1} {:.1}l5 9h-10Z\"/>", y - 5.5),
        3 => format!("<path class=\"e{index}\" d=\"M{x:.1} {:.1}l5 5-5 5-5-5Z\"/>", y - 5.0),
        _ => format!("<path class=\"e{index}\" d=\"M{x:.1} {:.1}l-5-9h10Z\"/>", y + 5.5),
    };
    add(svg, &shape);
}

/// A line of the file: a change of a point is a line of a diff.
fn add(svg: &mut String, element: &str) {
    writeln!(svg, "{element}").expect("a string takes all that is written");
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answered, invented, with_variant};
    use super::*;

    fn drawn(words: &[&str]) -> (String, String) {
        let made = answered(with_variant(invented(3), 1.0), words);
        (made.text, made.file.unwrap())
    }

    #[test]
    fn measured_lines_are_solid_predictions_dashed_with_bands_and_the_variant_has_none() {
        let (text, svg) = drawn(&["figure", "docs/images/x.svg"]);
        let count = |what: &str| svg.matches(what).count();
        // Three engines with predictions, in two panels; the legend has one dashed line more.
        assert_eq!((count("class=\"band "), count(" dash\" d=") + count(" dash\" stroke=")), (6, 7), "{svg}");
        assert!(svg.contains(">actor-inline</text>") && svg.contains(">64</text>"), "{svg}");
        assert!(text.contains("](docs/images/x.svg)") && text.contains("actor-inline is not predicted."), "{text}");
    }

    #[test]
    fn cores_have_equal_distances_where_they_double() {
        let spots = [];
        let panel = Panel {
            left: 0.0,
            right: 648.0,
            top: 0.0,
            bottom: PLOT,
            title: "",
            unit: Unit::Count,
            spots: &spots,
            cores: &[1, 2, 4, 64],
            of: |spot| spot.rate,
        };
        assert_eq!([1, 2, 4, 64].map(|cores| panel.x(cores)), [24.0, 124.0, 224.0, 624.0]);
    }

    #[test]
    fn both_colour_schemes_have_a_background_text_and_every_engine() {
        let (_, svg) = drawn(&["figure", "x.svg"]);
        let (light, dark) = svg.split_once("prefers-color-scheme:dark").unwrap();
        for part in [light.split_once("<style>").unwrap().1, dark.split_once("</style>").unwrap().0] {
            for rule in [".page{", "text{", ".e0{", ".e3{"] {
                assert!(part.contains(rule), "{rule} in {part}");
            }
        }
        assert!(!svg.contains("href") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn lines_have_no_area_and_bands_no_outline_in_both_colour_schemes() {
        let (_, svg) = drawn(&["figure", "x.svg"]);
        let style = svg.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        let last_colour = style.rfind(".e0{").expect("a colour");
        for rule in [".line{fill:none", ".band{stroke:none"] {
            assert!(style.rfind(rule).is_some_and(|at| at > last_colour), "{rule} is overridden by a colour: {style}");
        }
    }

    #[test]
    fn on_a_phone_the_panels_are_one_below_the_other_and_nothing_leaves_the_page() {
        let found = Situations::of(&with_variant(invented(3), 1.0)).unwrap();
        let (wide, narrow) = (svg(&found, Layout::Wide), svg(&found, Layout::Narrow));
        let count = |svg: &str, what: &str| svg.matches(what).count();
        for what in ["class=\"band ", "<circle", "class=\"grid\""] {
            assert_eq!(count(&wide, what), count(&narrow, what), "{what}");
        }
        let (width, height) = Layout::Narrow.size();
        for (name, limit) in [(" x=\"", width), (" cx=\"", width), (" y=\"", height), (" cy=\"", height)] {
            for rest in narrow.split(name).skip(1) {
                let at: f64 = rest.split_once('"').unwrap().0.parse().unwrap();
                assert!((0.0..limit).contains(&at), "{name}{at}: beyond {limit}");
            }
        }
    }

    #[test]
    fn a_file_without_the_load_says_so_in_the_figure_and_below_it() {
        let mut recorded = invented(3);
        recorded.trials.clear();
        let made = answered(recorded, &["figure", "x.svg"]);
        assert!(made.text.contains("*Not measured:") && made.file.unwrap().contains(">not measured</text>"));
    }
}
