//! The plot: latency by percentile, the axis stretched so that each nine takes the same room.
//! A plain SVG, with nothing to fetch.

use plotters::prelude::*;

use super::Side;

const SIZE: (u32, u32) = (900, 520);
const COLORS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 96, 14),
    RGBColor(44, 140, 44),
    RGBColor(148, 63, 158),
    RGBColor(140, 86, 75),
    RGBColor(90, 90, 90),
];
const STEPS_PER_NINE: u32 = 40;

/// The SVG's text.
pub(super) fn latency_by_percentile(sides: &[Side]) -> String {
    let mut svg = String::new();
    draw(sides, &mut svg).expect("drawing into a string cannot fail");
    svg
}

fn draw(sides: &[Side], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let nines = nines_max(sides);
    let mut chart = ChartBuilder::on(&root)
        .caption("Latency by percentile", ("sans-serif", 20))
        .margin(12)
        .margin_right(48)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..nines, latency_range(sides).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("percentile")
        .y_desc("latency (ms)")
        .x_labels(nines as usize + 1)
        .x_label_formatter(&|nines| percentile_label(*nines))
        .y_label_formatter(&|ms| format!("{ms}"))
        .light_line_style(RGBColor(240, 240, 240))
        .draw()?;
    for (side, color) in sides.iter().zip(COLORS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(points(side, nines), color.stroke_width(2)))?
            .label(side.name.clone())
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    root.present()?;
    Ok(())
}

/// As many nines as the largest side has values for.
fn nines_max(sides: &[Side]) -> f64 {
    let requests = sides.iter().map(|side| side.histogram.len()).max().unwrap_or(1);
    (requests as f64).log10().ceil().clamp(1.0, 7.0)
}

fn latency_range(sides: &[Side]) -> std::ops::Range<f64> {
    let lowest = sides.iter().map(|side| side.histogram.min()).min().unwrap_or(1).max(1);
    let highest = sides.iter().map(|side| side.histogram.max()).max().unwrap_or(1).max(lowest);
    lowest as f64 / 1e6 / 1.2..highest as f64 / 1e6 * 1.2
}

fn points(side: &Side, nines: f64) -> impl Iterator<Item = (f64, f64)> {
    let steps = nines as u32 * STEPS_PER_NINE;
    (0..=steps).map(move |step| {
        let x = f64::from(step) / f64::from(STEPS_PER_NINE);
        let quantile = 1.0 - 10_f64.powf(-x);
        let latency_ns = side.histogram.value_at_quantile(quantile).max(1);
        (x, latency_ns as f64 / 1e6)
    })
}

/// 0 is p0, 1 is p90, 2 is p99, 3 is p99.9.
fn percentile_label(nines: f64) -> String {
    let decimals = (nines.ceil() as usize).saturating_sub(2);
    format!("{:.decimals$}", (1.0 - 10_f64.powf(-nines)) * 100.0)
}
