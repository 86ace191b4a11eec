//! The comparison as one HTML page: tables and plot, nothing to fetch. It follows the reader's choice of
//! light or dark, and fits a phone without scrolling sideways.

use super::difference::{Difference, Verdict};
use super::plot::{NARROW, STYLE as PLOT_STYLE, WIDE, escaped, inline, swatch};
use super::{Side, latency_rows, show_interval, show_percent};

const STYLE: &str = "\
:root{color-scheme:light dark}*{box-sizing:border-box}\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:var(--ink);background:var(--ground)}\
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}h1,h2,li,th{overflow-wrap:anywhere}td,.differences th{white-space:nowrap}\
ul{list-style:none;padding:0}li{margin:.3rem 0}li b{font-weight:600}.soft{color:var(--soft)}\
table{border-collapse:collapse;margin:1rem 0;max-width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:bottom}\
th:first-child,td:first-child{text-align:left}\
.faster .verdict{color:var(--c2);font-weight:600}.slower .verdict{color:var(--c1);font-weight:600}\
.unsure .verdict{color:var(--soft)}\
svg{display:block;width:100%;height:auto}.swatch{display:inline-block;width:28px;height:10px;margin-right:.5rem;vertical-align:middle}\
.narrow{display:none}\
@media(max-width:640px){body{margin:1rem auto;padding:0 .4rem;font-size:14px}.wide{display:none}.narrow{display:block}\
table{width:100%;font-size:12px}th,td{padding:.3rem .15rem}}";

/// The page's text. `differences` are those of the second side, the third, and so on.
pub(super) fn page(sides: &[Side], differences: &[Vec<Difference>], margin: f64) -> String {
    let mut html = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.push_str(&format!("<title>Latency compared</title><style>{PLOT_STYLE}{STYLE}</style></head><body>\n"));
    html.push_str("<h1>Latency compared</h1>\n<ul>\n");
    for (number, side) in sides.iter().enumerate() {
        let (name, about) = (escaped(&side.name), escaped(&side.describe()));
        html.push_str(&format!("<li>{}<b>{name}</b> <span class=\"soft\">{about}</span></li>\n", swatch(number)));
    }
    html.push_str("</ul>\n<h2>Latency by percentile</h2>\n");
    html.push_str(&format!("<div class=\"wide\">{}</div>\n", inline(sides, WIDE)));
    html.push_str(&format!("<div class=\"narrow\">{}</div>\n", inline(sides, NARROW)));
    html.push_str(
        "<p class=\"soft\">Both axes are logarithmic. A curve is the mean of its runs, a band its 95 % interval ",
    );
    html.push_str("(three runs at least).</p>\n");
    for (side, differences) in sides[1..].iter().zip(differences) {
        html.push_str(&table(&sides[0], side, differences, margin));
    }
    html.push_str(&percentiles(sides));
    html.push_str("</body></html>\n");
    html
}

fn percentiles(sides: &[Side]) -> String {
    let mut html = String::from("<h2>All runs together: percentiles in milliseconds</h2>\n<table><tr><th></th>");
    sides.iter().for_each(|side| html.push_str(&format!("<th>{}</th>", escaped(&side.name))));
    html.push_str("</tr>\n");
    for (name, values) in latency_rows(sides) {
        html.push_str(&format!("<tr><td>{name}</td>"));
        values.iter().for_each(|value| html.push_str(&format!("<td>{value}</td>")));
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
    html
}

fn table(first: &Side, side: &Side, differences: &[Difference], margin: f64) -> String {
    let mut html = format!("<h2>{} against {}</h2>\n", escaped(&side.name), escaped(&first.name));
    html.push_str(
        "<table class=\"differences\"><tr><th></th><th>difference</th><th>95 % interval</th><th>verdict</th></tr>\n",
    );
    for difference in differences {
        let class = match difference.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoChange | Verdict::Below => "same",
            Verdict::Inconclusive | Verdict::CannotTell => "unsure",
        };
        html.push_str(&format!(
            "<tr class=\"{class}\"><td>{}</td><td>{} %</td><td>{}</td><td class=\"verdict\">{}</td></tr>\n",
            difference.metric.name(),
            show_percent(difference.percent),
            show_interval(difference),
            difference.verdict.name(margin),
        ));
    }
    html.push_str("</table>\n");
    html
}
