//! The comparison as one HTML page: tables and plot, nothing to fetch.

use super::bootstrap::{Difference, Verdict};
use super::{Side, latency_rows, plot, show_interval};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1b1f24}\
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.3rem .7rem;border-bottom:1px solid #d8dde3;text-align:right}\
th:first-child,td:first-child{text-align:left}.faster{color:#176b2c}.slower{color:#a3231f}.inconclusive{color:#6a6f76}\
svg{max-width:100%;height:auto}";

/// The page's text. `differences` are those of the second side, the third, and so on.
pub(super) fn page(sides: &[Side], differences: &[Vec<Difference>]) -> String {
    let mut html = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.push_str(&format!("<title>Latency compared</title><style>{STYLE}</style></head><body>\n"));
    html.push_str("<h1>Latency compared</h1>\n<ul>\n");
    for side in sides {
        html.push_str(&format!("<li>{}: {}</li>\n", escaped(&side.name), escaped(&side.describe())));
    }
    html.push_str("</ul>\n<h2>Percentiles, in milliseconds</h2>\n<table><tr><th></th>");
    sides.iter().for_each(|side| html.push_str(&format!("<th>{}</th>", escaped(&side.name))));
    html.push_str("</tr>\n");
    for (name, values) in latency_rows(sides) {
        html.push_str(&format!("<tr><td>{name}</td>"));
        values.iter().for_each(|value| html.push_str(&format!("<td>{value}</td>")));
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
    for (side, differences) in sides[1..].iter().zip(differences) {
        html.push_str(&table(&sides[0], side, differences));
    }
    html.push_str("<h2>Latency by percentile</h2>\n");
    html.push_str(&plot::latency_by_percentile(sides));
    html.push_str("\n</body></html>\n");
    html
}

fn table(first: &Side, side: &Side, differences: &[Difference]) -> String {
    let mut html = format!("<h2>{} against {}</h2>\n", escaped(&side.name), escaped(&first.name));
    html.push_str("<table><tr><th></th><th>difference</th><th>95 % interval</th><th>verdict</th></tr>\n");
    for difference in differences {
        let class = match difference.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoChange => "",
            Verdict::Inconclusive => "inconclusive",
        };
        html.push_str(&format!(
            "<tr class=\"{class}\"><td>{}</td><td>{:+.1} %</td><td>{}</td><td>{}</td></tr>\n",
            difference.metric.name(),
            difference.percent,
            show_interval(difference),
            difference.verdict.name(),
        ));
    }
    html.push_str("</table>\n");
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
