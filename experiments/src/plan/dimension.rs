//! The dimensions of a sweep: the coordinates of its points, and the lines that a plot draws through them.
//!
//! One coordinate is the horizontal axis. A server under a variant of flags makes a line. Loads that differ in any
//! other coordinate make a set of plots each.

use crate::base::text::grouped;
use crate::plan::point::Point;
use crate::plan::schedule;
use crate::plan::sweep::Sweep;
use crate::plan::values::{FlagValue, RATE};

/// A coordinate that a sweep may vary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// Connections.
    Clients,
    /// Requests in flight.
    Pipeline,
    /// Flags of the server.
    Variant,
    /// Bytes per value.
    DataSize,
    /// SETs to GETs.
    Ratio,
    /// The order of keys.
    KeyPattern,
    /// Size of the key space.
    KeyMaximum,
    /// A further flag of the generator.
    Flag(String),
}

/// The meaning of a line of a plot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The server.
    pub server: String,
    /// Its flags; `None` if they are the horizontal axis.
    pub variant: Option<String>,
    /// The server's name, and the variant's where the server has several.
    pub label: String,
    /// Its place among the lines of its server.
    pub rank: usize,
}

impl Dimension {
    /// All dimensions of a sweep, including those that do not vary.
    pub(crate) fn all(sweep: &Sweep) -> Vec<Self> {
        let mut all = vec![Self::Clients, Self::Pipeline, Self::Variant, Self::DataSize, Self::Ratio, Self::KeyPattern];
        all.push(Self::KeyMaximum);
        all.extend(sweep.loadgen.keys().cloned().map(Self::Flag));
        all
    }

    /// The horizontal axis of a sweep: the one it names, or the first that varies.
    pub(crate) fn axis_of(sweep: &Sweep) -> Self {
        let is_axis = |dimension: &Self| match &sweep.x {
            Some(x) => dimension.field() == x,
            None => dimension.count(sweep) > 1,
        };
        Self::all(sweep).into_iter().find(is_axis).unwrap_or(Self::Clients)
    }

    /// How many values it has.
    pub(crate) fn count(&self, sweep: &Sweep) -> usize {
        self.labels(sweep).len()
    }

    /// Its value at a point.
    pub(crate) fn label(&self, point: &Point) -> String {
        match self {
            Self::Clients => point.clients.to_string(),
            Self::Pipeline => point.pipeline.to_string(),
            Self::Variant => point.variant.clone(),
            Self::DataSize => point.data_size.to_string(),
            Self::Ratio => point.ratio.to_string(),
            Self::KeyPattern => point.key_pattern.clone(),
            Self::KeyMaximum => point.key_maximum.map_or(String::new(), |keys| keys.to_string()),
            Self::Flag(flag) => point.loadgen.get(flag).map(FlagValue::to_string).unwrap_or_default(),
        }
    }

    /// A value of it for humans: rates and numbers of keys have their thousands apart.
    pub(crate) fn shown(&self, label: &str) -> String {
        let has_thousands = matches!(self, Self::KeyMaximum) || self.field() == RATE;
        match label.parse::<u64>() {
            Ok(number) if has_thousands => grouped(number as f64),
            _ => label.to_owned(),
        }
    }

    /// Its name for humans.
    pub fn title(&self) -> String {
        match self {
            Self::Flag(flag) if flag == RATE => "requests/s due".to_owned(),
            Self::Clients => "clients".to_owned(),
            Self::Pipeline => "pipeline".to_owned(),
            Self::Variant => "variant".to_owned(),
            Self::DataSize => "value bytes".to_owned(),
            Self::Ratio => "SET:GET".to_owned(),
            Self::KeyPattern => "keys SET:GET".to_owned(),
            Self::KeyMaximum => "keys".to_owned(),
            Self::Flag(flag) => format!("--{flag}"),
        }
    }

    /// The position of a point on it: numbers above zero on a logarithmic axis, other values at equal distances.
    pub(crate) fn position(&self, sweep: &Sweep, point: &Point) -> f64 {
        let (labels, label) = (self.labels(sweep), self.label(point));
        let number = |label: &String| label.parse::<f64>().ok().filter(|number| *number > 0.0);
        match number(&label) {
            Some(number_here) if labels.iter().all(|label| number(label).is_some()) => number_here.log10(),
            _ => labels.iter().position(|known| *known == label).unwrap_or(0) as f64,
        }
    }

    /// The positions of all its values, with their labels.
    pub(crate) fn ticks(&self, sweep: &Sweep) -> Vec<(f64, String)> {
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for point in schedule::points(sweep) {
            let tick = (self.position(sweep, &point), self.label(&point));
            if !ticks.contains(&tick) {
                ticks.push(tick);
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ticks
    }

    /// The same for humans.
    pub(crate) fn shown_ticks(&self, sweep: &Sweep) -> Vec<(f64, String)> {
        let ticks = self.ticks(sweep).into_iter();
        ticks.map(|(position, label)| (position, self.shown(&label))).collect()
    }

    /// Its name in the file of a sweep.
    pub(crate) fn field(&self) -> &str {
        match self {
            Self::Clients => "clients",
            Self::Pipeline => "pipeline",
            Self::Variant => "variant",
            Self::DataSize => "data_size",
            Self::Ratio => "ratio",
            Self::KeyPattern => "key_pattern",
            Self::KeyMaximum => "key_maximum",
            Self::Flag(flag) => flag,
        }
    }

    /// Whether its values are numbers above zero, placed on a logarithmic axis.
    pub(crate) fn is_logarithmic(&self, sweep: &Sweep) -> bool {
        self.labels(sweep).iter().all(|label| label.parse::<f64>().is_ok_and(|number| number > 0.0))
    }

    /// Its values, in the order of the file.
    pub(crate) fn labels(&self, sweep: &Sweep) -> Vec<String> {
        match self {
            Self::Clients => sweep.clients.iter().map(u32::to_string).collect(),
            Self::Pipeline => sweep.pipeline.iter().map(u32::to_string).collect(),
            Self::Variant => sweep.variants.iter().map(|variant| variant.name.clone()).collect(),
            Self::DataSize => sweep.data_size.iter().map(u32::to_string).collect(),
            Self::Ratio => sweep.ratio.iter().map(ToString::to_string).collect(),
            Self::KeyPattern => sweep.key_pattern.clone(),
            Self::KeyMaximum => sweep.key_maximum.iter().map(u64::to_string).collect(),
            Self::Flag(flag) => sweep.loadgen[flag].iter().map(FlagValue::to_string).collect(),
        }
    }
}

impl Line {
    /// The lines of a sweep's plots, server by server.
    pub(crate) fn all(sweep: &Sweep, axis: &Dimension) -> Vec<Self> {
        sweep.servers.iter().flat_map(|server| Self::of_server(sweep, axis, server)).collect()
    }

    /// Whether a point is on it.
    pub(crate) fn holds(&self, point: &Point) -> bool {
        self.server == point.server && self.variant.as_ref().is_none_or(|variant| *variant == point.variant)
    }

    fn of_server(sweep: &Sweep, axis: &Dimension, server: &str) -> Vec<Self> {
        let line = |rank, variant: Option<&str>, label| Self {
            server: server.to_owned(),
            variant: variant.map(str::to_owned),
            label,
            rank,
        };
        let variants = sweep.variants_of(server);
        if *axis == Dimension::Variant || variants.len() == 1 {
            return vec![line(0, None, server.to_owned())];
        }
        let names = variants.iter().map(|variant| variant.name.as_str()).enumerate();
        names.map(|(rank, name)| line(rank, Some(name), format!("{server} {name}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "question='?'\nservers=['a', 'b']\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=1\n";
    const VARIANTS: &str = "variant = [{ name='fast', flags=[], servers=['a'] }, { name='safe', flags=[], servers=['a'] }, { name='plain', flags=[] }]\n";

    fn sweep(rest: &str) -> Sweep {
        Sweep::parse("s", &format!("{HEAD}{rest}")).unwrap()
    }

    #[test]
    fn the_axis_is_the_one_that_is_named_or_the_first_that_varies() {
        assert_eq!(Dimension::axis_of(&sweep("clients=[1,2]\npipeline=[1,16]")), Dimension::Clients);
        assert_eq!(Dimension::axis_of(&sweep("clients=[50]\npipeline=[1,16]")), Dimension::Pipeline);
        assert_eq!(Dimension::axis_of(&sweep("x='pipeline'\nclients=[1,2]\npipeline=[1,16]")), Dimension::Pipeline);
        let flagged = sweep("x='cross-shard'\nclients=[50]\npipeline=[1,16]\nloadgen = { cross-shard = [0, 50] }");
        assert_eq!(Dimension::axis_of(&flagged), Dimension::Flag("cross-shard".into()));
    }

    #[test]
    fn numbers_lie_on_a_logarithmic_axis_unless_one_is_zero() {
        let ticks = |values: &str| {
            let sweep = sweep(&format!("clients=[1]\nloadgen = {{ share = {values} }}"));
            Dimension::axis_of(&sweep).ticks(&sweep).iter().map(|tick| tick.0).collect::<Vec<_>>()
        };
        assert_eq!(ticks("[1, 10, 1000]"), [0.0, 1.0, 3.0]);
        assert_eq!(ticks("[0, 10, 1000]"), [0.0, 1.0, 2.0]);
        assert_eq!(ticks("['a', 10]"), [0.0, 1.0]);
    }

    #[test]
    fn a_server_has_a_line_for_each_of_its_variants() {
        let labels = |sweep: &Sweep| {
            let lines = Line::all(sweep, &Dimension::axis_of(sweep));
            lines.iter().map(|line| format!("{}/{}", line.label, line.rank)).collect::<Vec<_>>()
        };
        assert_eq!(labels(&sweep(&format!("clients=[1,2]\n{VARIANTS}"))), ["a fast/0", "a safe/1", "b/0"]);
        assert_eq!(labels(&sweep(&format!("clients=[1]\n{VARIANTS}"))), ["a/0", "b/0"]);
    }
}
