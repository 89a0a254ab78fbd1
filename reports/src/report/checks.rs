//! Predicted against measured iteration times of plans that were run.

use std::collections::BTreeMap;

use super::figure::Figure;
use super::held_out::{Predictions, held_out};
use super::table::Table;
use crate::Checked;
use crate::text::percent;

/// A dot for each plan, a panel for each network.
pub(super) fn figure(checks: &[Checked]) -> Option<Figure> {
    let mut networks: BTreeMap<&str, Vec<&Checked>> = BTreeMap::new();
    for check in checks {
        networks.entry(&check.network).or_default().push(check);
    }
    let panels: Vec<Predictions> = networks
        .into_iter()
        .map(|(network, checks)| Predictions {
            // Its options are in the table; here is little room.
            name: network.split(':').next().unwrap_or(network).into(),
            error: percent(median(&checks)),
            is_used: false,
            times: checks.iter().map(|check| (check.measured, check.predicted)).collect(),
        })
        .collect();
    (!panels.is_empty()).then(|| {
        Figure::new(
            "checked",
            "Predicted against measured iteration times",
            "One dot for each plan that was run, by network, with the median error: to the right \
             its measured iteration time, upwards the predicted one. On the line the prediction is \
             what was measured. Methods and budgets are in the table."
                .into(),
            vec![held_out("Iteration times of plans", &panels)],
        )
    })
}

pub(super) fn table(checks: &[Checked]) -> Table {
    let row = |check: &Checked| {
        vec![
            ("network", check.network.clone()),
            ("method", check.method.clone()),
            ("budget", format!("{:.0} %", check.budget_percent)),
            ("measured", check.measured.to_string()),
            ("predicted", check.predicted.to_string()),
            ("error", format!("{:+.1} %", 100.0 * check.error())),
            ("over in-core", format!("{:.3}x", check.measured_slowdown)),
            ("predicted", format!("{:.3}x", check.predicted_slowdown)),
        ]
    };
    Table::of("Plans that were run", 2, checks.iter().map(row))
}

fn median(checks: &[&Checked]) -> f64 {
    let mut errors: Vec<f64> = checks.iter().map(|check| check.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}
