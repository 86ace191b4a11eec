//! Figures for humans, and the colours of servers.

use crate::base::text::grouped;
use crate::judging::summary::Metric;
use crate::plan::dimension::Line;
use crate::plan::sweep::Sweep;
use crate::publishing::chart::{Look, Shape};
use crate::results::folder::RunRecord;

/// The name of a metric, for a column.
pub fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::OpsPerSec => "ops/s",
        Metric::P50Us => "p50 µs",
        Metric::P99Us => "p99 µs",
        Metric::P999Us => "p99.9 µs",
        Metric::SingleKeyP99Us => "one-key p99 µs",
        Metric::LagP99Us => "generator's lag p99 µs",
        Metric::ServerCpuUsPerOp => "server CPU µs/op",
        Metric::ServerRssPeakMib => "peak MiB",
        Metric::GeneratorCpuUsPerOp => "generator CPU µs/op",
        Metric::JainIndex => "Jain's index",
        Metric::SlowestConnection => "slowest connection",
    }
}

/// A figure at the precision that its metric deserves.
pub(crate) fn figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::OpsPerSec => grouped(value),
        Metric::P50Us | Metric::P99Us | Metric::P999Us | Metric::SingleKeyP99Us | Metric::LagP99Us => {
            if value >= 100.0 { grouped(value) } else { format!("{value:.1}") }
        }
        Metric::ServerCpuUsPerOp | Metric::GeneratorCpuUsPerOp => format!("{value:.2}"),
        Metric::ServerRssPeakMib => format!("{value:.1}"),
        Metric::JainIndex => format!("{value:.3}"),
        Metric::SlowestConnection => format!("{value:.2}"),
    }
}

/// A place on an axis at a suitable precision.
pub(super) fn short_number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { grouped(value) }
}

/// Three digits.
pub(super) fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => grouped(value),
        size if size >= 1e-3 => format!("{value:.*}", (2 - size.log10().floor() as i32).max(0) as usize),
        _ => format!("{value:.2e}"),
    }
}

pub(super) fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Colours that people with colour blindness can distinguish (Okabe and Ito), by server, then for servers of other
/// names.
const COLOURS: [(&str, (u8, u8, u8)); 8] = [
    ("mutex", (230, 159, 0)),
    ("dashmap", (0, 158, 115)),
    ("actor", (0, 114, 178)),
    ("redis-server", (213, 94, 0)),
    ("valkey-server", (204, 121, 167)),
    ("", (86, 180, 233)),
    ("", (90, 90, 90)),
    ("", (150, 130, 20)),
];

pub(super) fn colour_of(record: &RunRecord, server: &str) -> (u8, u8, u8) {
    let known = |name: &str| COLOURS.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour);
    known(server).unwrap_or_else(|| {
        let others: Vec<&str> =
            record.setup.servers.iter().map(|s| s.name.as_str()).filter(|name| known(name).is_none()).collect();
        let spare = COLOURS.iter().filter(|(known, _)| known.is_empty()).map(|(_, colour)| *colour);
        let place = others.iter().position(|name| *name == server).unwrap_or(0);
        spare.cycle().nth(place).expect("there are spare colours")
    })
}

/// The colour of a line: its server's. In a sweep of one server every variant has one of its own; where there are more,
/// every other variant of a server is lighter. None is darker: it would not show on a dark page.
pub(super) fn colour_of_line(record: &RunRecord, sweep: &Sweep, line: &Line) -> (u8, u8, u8) {
    if sweep.servers.len() == 1 && line.rank > 0 {
        return COLOURS[(line.rank - 1) % COLOURS.len()].1;
    }
    let (red, green, blue) = colour_of(record, &line.server);
    let shade = |part: u8| if line.rank.is_multiple_of(2) { part } else { (f64::from(part) * 0.5 + 90.0) as u8 };
    (shade(red), shade(green), shade(blue))
}

pub(super) fn line_swatch(record: &RunRecord, sweep: &Sweep, line: &Line) -> String {
    swatch(colour_of_line(record, sweep, line), line.rank)
}

/// A piece of the line as the plots have it, inline SVG.
pub(super) fn swatch((red, green, blue): (u8, u8, u8), rank: usize) -> String {
    let (colour, look) = (format!("rgb({red},{green},{blue})"), Look::of(rank));
    let dashes = look.dash.map_or(String::new(), |dash| format!(" stroke-dasharray=\"{dash} 4\""));
    let symbol = match look.shape {
        Shape::Dot => format!("<circle cx=\"13\" cy=\"6\" r=\"3.5\" fill=\"{colour}\"/>"),
        Shape::Ring => "<circle cx=\"13\" cy=\"6\" r=\"3.5\" fill=\"#FFFFFF\"/>".to_owned(),
        Shape::Triangle => format!("<path d=\"M13 1 18 10H8Z\" fill=\"{colour}\"/>"),
        Shape::Cross => "<path d=\"M9 2 17 10M17 2 9 10\"/>".to_owned(),
    };
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\"><g fill=\"none\" stroke=\"{colour}\" \
         stroke-width=\"2\"><path d=\"M0 6H26\"{dashes}/>{symbol}</g></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_three_digits() {
        let texts = [0.0, 0.012_345, 0.5, 12.345, 123_456.0, 1.234e-7].map(significant);
        assert_eq!(texts, ["0", "0.0123", "0.500", "12.3", "123,456", "1.23e-7"]);
    }
}
