//! How well predictions and measurements agree over many plans.

use std::collections::BTreeMap;
use std::fmt;

use reports::Checked;
use schema::{Interval, Task, Timeline};

/// How far predicted iteration times are off, and whether they order methods as measured times do.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Agreement {
    /// How many plans were run.
    pub plans: usize,
    /// Half of the predictions are off by no more, as a share of the measured time.
    pub median: f64,
    /// Nine of ten are.
    pub ninetieth: f64,
    /// Kendall's tau over the pairs that predictions tell apart; none where there is no such pair.
    pub tau: Option<f64>,
    /// How many pairs these are.
    pub pairs: usize,
    /// Plans whose arena was not as predicted.
    pub arenas_off: usize,
    /// Of single ops, copies and codecs: half are off by no more, as a share of the measured time.
    pub actions: [Option<f64>; 3],
}

impl Agreement {
    /// Over all plans. Pairs are of methods under one budget on one network, whose predictions
    /// differ by more than the median error.
    pub fn of(rows: &[&Checked], timelines: &[[&Timeline; 2]]) -> Self {
        let mut errors: Vec<f64> = rows.iter().map(|row| row.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let quantile = |permille: usize| {
            let last = errors.len().saturating_sub(1);
            errors.get((last * permille).div_ceil(1000)).copied().unwrap_or(0.0)
        };
        let median = quantile(500);
        let (mut agree, mut disagree) = (0usize, 0usize);
        for (index, one) in rows.iter().enumerate() {
            for other in &rows[index + 1..] {
                let same =
                    one.network == other.network && one.budget_percent == other.budget_percent;
                let (a, b) = (one.predicted.0 as f64, other.predicted.0 as f64);
                if !same || (a - b).abs() <= median * a.min(b) {
                    continue;
                }
                match (a < b) == (one.measured < other.measured) {
                    true => agree += 1,
                    false => disagree += 1,
                }
            }
        }
        let pairs = agree + disagree;
        Self {
            plans: rows.len(),
            median,
            ninetieth: quantile(900),
            tau: (pairs > 0).then(|| (agree as f64 - disagree as f64) / pairs as f64),
            pairs,
            arenas_off: rows.iter().filter(|row| !row.arena_as_predicted).count(),
            actions: action_errors(timelines),
        }
    }
}

/// Median errors of the actions of plans, each plan's timeline predicted and measured: ops, copies,
/// codecs.
fn action_errors(timelines: &[[&Timeline; 2]]) -> [Option<f64>; 3] {
    let mut errors = [const { Vec::new() }; 3];
    for [predicted, measured] in timelines {
        let length = |interval: &Interval| interval.end.saturating_sub(interval.start).0 as f64;
        let predicted: BTreeMap<_, _> =
            predicted.intervals.iter().map(|i| (i.action, length(i))).collect();
        for interval in &measured.intervals {
            let kind = match interval.task {
                Task::Run(_) | Task::Recompute(_) => 0,
                Task::D2h(_) | Task::H2d(_) => 1,
                Task::Compress(_) | Task::Decompress(_) => 2,
            };
            if let Some(predicted) = predicted.get(&interval.action) {
                let took = length(interval).max(1.0);
                errors[kind].push((predicted - took).abs() / took);
            }
        }
    }
    errors.map(|mut errors: Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    })
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plans, median, ninetieth, tau, pairs, arenas_off, actions } = self;
        if *plans == 0 {
            return writeln!(f, "0 plans were run: there is nothing to hold predictions against");
        }
        writeln!(
            f,
            "{plans} plans: predicted iteration times are off by {:.1} % in the median, by at most \
             {:.1} % in nine of ten",
            100.0 * median,
            100.0 * ninetieth
        )?;
        match tau {
            Some(tau) => writeln!(
                f,
                "order of methods: Kendall's tau {tau:.3} over the {pairs} pairs whose predictions \
                 differ by more than the median error"
            )?,
            None => {
                writeln!(f, "order of methods: no two predictions differ by more than the error")?
            }
        }
        let kinds = ["ops", "copies", "codecs"].into_iter().zip(actions);
        let kinds = kinds.filter_map(|(kind, error)| Some((kind, (*error)?)));
        let kinds: Vec<_> = kinds.map(|(k, e)| format!("{k} by {:.1} %", 100.0 * e)).collect();
        if !kinds.is_empty() {
            writeln!(f, "single actions are off, in the median: {}", kinds.join(", "))?;
        }
        match arenas_off {
            0 => writeln!(f, "memory: every plan took the very bytes that were predicted"),
            count => writeln!(f, "memory: {count} plans took other bytes than predicted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::Nanos;

    use super::*;

    fn row(method: &str, predicted: u64, measured: u64) -> Checked {
        Checked {
            network: "net".into(),
            budget_percent: 50.0,
            method: method.into(),
            measured: Nanos(measured),
            predicted: Nanos(predicted),
            measured_slowdown: 1.0,
            predicted_slowdown: 1.0,
            arena_as_predicted: true,
        }
    }

    #[test]
    fn pairs_that_predictions_do_not_tell_apart_do_not_count() {
        let rows = [row("a", 100, 100), row("b", 101, 99), row("c", 150, 155), row("d", 200, 150)];
        let agreement = Agreement::of(&rows.iter().collect::<Vec<_>>(), &[]);
        // a and b differ by less than the median error; c and d are the wrong way round.
        assert_eq!(agreement.pairs, 5);
        assert_eq!(agreement.tau, Some(0.6));
        insta::assert_snapshot!(agreement.to_string(), @r"
        4 plans: predicted iteration times are off by 3.2 % in the median, by at most 33.3 % in nine of ten
        order of methods: Kendall's tau 0.600 over the 5 pairs whose predictions differ by more than the median error
        memory: every plan took the very bytes that were predicted
        ");
    }

    #[test]
    fn no_plans_are_no_disagreement() {
        let agreement = Agreement::of(&[], &[]);
        assert_eq!((agreement.tau, agreement.pairs, agreement.median), (None, 0, 0.0));
        insta::assert_snapshot!(agreement.to_string(), @"0 plans were run: there is nothing to hold predictions against");
    }
}
