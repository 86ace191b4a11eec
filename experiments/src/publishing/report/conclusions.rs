//! The conclusions on the page: the audit, the noise, verdicts, crossings, scaling.

use super::figures::{probability, short_number, significant, title};
use crate::judging::analysis::{self, Comparison};
use crate::judging::claims;
use crate::judging::compare::{SIGNIFICANCE, Verdict};
use crate::judging::noise;
use crate::judging::summary::{Metric, Summary};
use crate::plan::dimension::Dimension;
use crate::plan::sweep::Sweep;
use crate::results::observation::Observations;

pub(super) struct ClaimView {
    pub(super) claim: String,
    pub(super) source: String,
    pub(super) expected: String,
    pub(super) found: String,
    pub(super) outcome: &'static str,
    pub(super) class: &'static str,
    pub(super) remarks: String,
    pub(super) sweep: Option<String>,
    pub(super) lines: Vec<usize>,
}

/// The noise that an A/A sweep found.
pub(super) struct NoiseView {
    pub(super) sweep: String,
    pub(super) slowdowns: Vec<String>,
    pub(super) power: String,
    pub(super) rows: Vec<NoiseRow>,
    pub(super) injected: Vec<InjectedRow>,
}

pub(super) struct NoiseRow {
    pub(super) metric: &'static str,
    pub(super) comparisons: usize,
    pub(super) false_positives: String,
    pub(super) floor: String,
    pub(super) power: Vec<String>,
}

pub(super) struct InjectedRow {
    pub(super) place: String,
    pub(super) stopped: String,
    pub(super) found: String,
    pub(super) p: String,
    pub(super) power: String,
    pub(super) verdict: &'static str,
}

pub(super) struct CrossingView {
    pub(super) facet: String,
    pub(super) text: String,
    pub(super) share: String,
    pub(super) clear: bool,
}

pub(super) struct ScalingView {
    pub(super) facet: String,
    pub(super) line: String,
    /// What the parameters are called.
    pub(super) names: [&'static str; 4],
    /// The parameters with their intervals; empty if the fit is bad.
    pub(super) parameters: Vec<String>,
    pub(super) quality: String,
    pub(super) residuals: String,
}

pub(super) fn claim_view(row: claims::Row) -> ClaimView {
    let expected = row.claim.expected.map_or(String::new(), |(low, high)| {
        if row.claim.crossing { format!("{low:.0}–{high:.0}") } else { format!("{low:.2}–{high:.2}") }
    });
    let remarks = row.remarks();
    ClaimView {
        claim: row.claim.claim,
        source: row.source,
        expected,
        found: row.found,
        outcome: row.outcome.word(),
        class: match row.outcome {
            claims::Outcome::Reproduced => "good",
            claims::Outcome::NotReproduced => "bad",
            _ => "open",
        },
        remarks,
        sweep: row.claim.sweep,
        lines: row.lines,
    }
}

pub(super) fn noise_view(
    summary: &Summary,
    observations: &Observations,
    sweeps: &[Sweep],
    sweep: &Sweep,
) -> Option<NoiseView> {
    let found = noise::of(summary, sweeps, sweep);
    let injected = noise::injected(summary, observations, sweep);
    (!found.is_empty()).then(|| NoiseView {
        sweep: sweep.name.clone(),
        slowdowns: noise::SLOWDOWNS.iter().map(|slowdown| format!("{:.0} %", slowdown * 100.0)).collect(),
        power: noise::power_in_words(&found),
        rows: found.iter().map(noise_row).collect(),
        injected: injected.iter().map(injected_row).collect(),
    })
}

fn noise_row(found: &noise::Noise) -> NoiseRow {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let share = found.false_positives as f64 / found.comparisons.max(1) as f64;
    let (low, high) = found.share_interval;
    NoiseRow {
        metric: title(found.metric),
        comparisons: found.comparisons,
        false_positives: format!(
            "{} = {} [{} – {}]",
            found.false_positives,
            percent(share),
            percent(low),
            percent(high)
        ),
        floor: format!("± {}", percent(found.floor)),
        power: found.power.iter().map(|(_, power)| format!("{:.0} %", power * 100.0)).collect(),
    }
}

fn injected_row(found: &noise::Injected) -> InjectedRow {
    let one = &found.difference;
    InjectedRow {
        place: found.place.clone(),
        stopped: format!("{:.1} %", found.stopped_share * 100.0),
        found: format!("{:.3} [{:.3} – {:.3}]", one.ratio, one.low, one.high),
        p: probability(one.p),
        power: format!("{:.0} %", found.power * 100.0),
        verdict: if one.p < SIGNIFICANCE && one.ratio < 1.0 { "found" } else { "not found" },
    }
}

/// How many comparisons of each metric came out how.
pub(super) fn verdict_counts(comparisons: &[Comparison]) -> String {
    let of_metric = |metric: Metric| {
        let count = |verdict| comparisons.iter().filter(|one| one.metric == metric && one.verdict == verdict).count();
        let verdicts = [
            Verdict::Better,
            Verdict::Worse,
            Verdict::Below,
            Verdict::NoChange,
            Verdict::Inconclusive,
            Verdict::Invalid,
        ];
        let counted = verdicts.into_iter().map(|verdict| (count(verdict), verdict)).filter(|(count, _)| *count > 0);
        let words: Vec<String> = counted.map(|(count, verdict)| format!("{count} {}", verdict.word(metric))).collect();
        (!words.is_empty()).then(|| format!("{}: {}", title(metric), words.join(", ")))
    };
    Metric::ALL.into_iter().filter_map(of_metric).collect::<Vec<_>>().join("; ")
}

pub(super) fn crossing_view(axis: &Dimension, one: &analysis::Crossing) -> CrossingView {
    let (low, high) = one.interval;
    CrossingView {
        facet: one.facet.clone(),
        text: format!(
            "{} overtakes {} at {} {} [{} – {}]{}{}",
            one.right,
            one.left,
            short_number(one.at),
            axis.title(),
            short_number(low),
            short_number(high),
            if one.wake_up { format!(" ({})", analysis::WAKE_UP) } else { String::new() },
            analysis::left_out_words(one.left_out)
        ),
        share: format!("{:.0} %", one.share * 100.0),
        clear: one.clear,
    }
}

pub(super) fn scaling_view(one: &analysis::Scaling) -> ScalingView {
    let law = one.fit.law;
    let parameters = one.intervals.map_or(Vec::new(), |intervals| {
        let values = [law.lambda, law.sigma, law.kappa];
        let text = |(value, (low, high)): (f64, (f64, f64))| {
            format!("{} [{} – {}]", significant(value), significant(low), significant(high))
        };
        let mut texts: Vec<String> = values.into_iter().zip(intervals).map(text).collect();
        texts.push(match law.peak() {
            Some(peak) if peak <= one.threads_max => short_number(peak),
            // A law says nothing certain of where nothing was measured.
            Some(_) => format!("beyond {}", one.threads_max),
            None => "none".to_owned(),
        });
        texts
    });
    let residual = |residual: &f64| format!("{:+.0} %", residual * 100.0);
    ScalingView {
        facet: one.facet.clone(),
        line: format!("{}{}", one.line, analysis::left_out_words(one.left_out)),
        names: ["λ, one thread", "σ, contention", "κ, coherence", "peak at"],
        parameters,
        quality: format!("R² {:.3}, worst {:.0} %", one.fit.r_squared, one.fit.worst_residual() * 100.0),
        residuals: one.fit.residuals.iter().map(residual).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_peak_is_shown_where_something_was_measured_and_one_beyond_is_not_placed() {
        let variant = |threads: u32| format!("{{name='t{threads}', flags=['--threads', '{threads}']}}");
        let variants: Vec<String> = [1, 2, 4, 8].map(variant).into();
        let sweep = format!(
            "question='?'\nservers=['mutex']\nclients=[50]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=10\n\
             variant=[{}]\n",
            variants.join(", ")
        );
        let peak = |kappa: f64| {
            let (run, summary) = testing::run("grid", &sweep, |point, round| {
                let threads: f64 = point.variant[1..].parse().unwrap();
                let law = 1000.0 * threads / (1.0 + 0.1 * (threads - 1.0) + kappa * threads * (threads - 1.0));
                law * (1.0 + f64::from(round) * 1e-5)
            });
            let found = analysis::scaling(&summary, &run.setup.sweeps[0]);
            let view = scaling_view(&found[0]);
            (view.names[0], view.parameters[3].clone())
        };
        // The law's peak is at the root of 0.9 / κ.
        assert_eq!(peak(0.036), ("λ, one thread", "5.0".to_owned()));
        assert_eq!(peak(0.001).1, "beyond 8");
    }
}
