//! The sentence under a comparison: what a person can do next.

use schema::{Bytes, Nanos};

use crate::text::percent_of;
use crate::{Comparison, MethodResult, Status};

/// One sentence, derived from the values alone.
pub(crate) fn advice(comparison: &Comparison) -> String {
    if comparison.methods.is_empty() {
        return "No method was asked for: name some with --methods.".into();
    }
    if in_core_fits(comparison) {
        let spare = comparison.budget.saturating_sub(comparison.in_core.peak);
        return format!("Nothing to do: in core it fits, with {spare} to spare.");
    }
    let plans = || comparison.methods.iter().filter_map(|m| Some((m, plan_time(m)?)));
    match plans().map(|(_, time)| time).min() {
        Some(best) => {
            let fastest: Vec<_> =
                plans().filter(|(_, time)| *time == best).map(|(m, _)| m).collect();
            which_is_fastest(comparison, &fastest)
        }
        None => what_would_do(comparison),
    }
}

/// The whole network fits, and the method that keeps it all was not refused for the way its
/// buffers lie.
fn in_core_fits(comparison: &Comparison) -> bool {
    let refused = |m: &MethodResult| m.method == "in-core" && m.status != Status::Ok;
    comparison.in_core.peak <= comparison.budget && !comparison.methods.iter().any(refused)
}

fn plan_time(method: &MethodResult) -> Option<Nanos> {
    method.iteration.filter(|_| method.status == Status::Ok)
}

fn which_is_fastest(comparison: &Comparison, fastest: &[&MethodResult]) -> String {
    let names: Vec<_> = fastest.iter().map(|m| m.method.as_str()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    let mut clauses = vec![format!("{} {verb} fastest", listed(&names))];
    if let Some(slowdown) = fastest[0].slowdown {
        clauses[0] += &format!(": {slowdown:.3}x the in-core time");
        if let Some(peak) = fastest[0].peak {
            clauses[0] +=
                &format!(" with {} of its memory", percent_of(peak, comparison.in_core.peak));
        }
    }
    for (what, alone) in [("recomputing", recomputes_only as Only), ("swapping", swaps_only)] {
        if fastest.iter().any(|m| alone(m)) {
            continue;
        }
        let plans = comparison.methods.iter().filter(|m| alone(m));
        let best = plans.filter_map(|m| Some((plan_time(m)?, m))).min_by_key(|(time, _)| *time);
        if let Some((_, MethodResult { method, slowdown: Some(slowdown), .. })) = best {
            clauses.push(format!("{what} only ({method}) would cost {slowdown:.3}x"));
        }
    }
    if let Some(least) = least_budget(comparison) {
        clauses.push(format!("no budget below {least} can do"));
    }
    clauses.join("; ") + "."
}

/// What every plan needs, where that is known and anything at all.
fn least_budget(comparison: &Comparison) -> Option<Bytes> {
    comparison.least_budget.filter(|least| *least > Bytes::ZERO)
}

type Only = fn(&MethodResult) -> bool;

fn recomputes_only(method: &MethodResult) -> bool {
    let MethodResult { recomputed, compressed, d2h, h2d, .. } = method;
    some(*recomputed) && (*d2h).max(*h2d).unwrap_or_default() == Bytes::ZERO && !some(*compressed)
}

fn swaps_only(method: &MethodResult) -> bool {
    let MethodResult { swapped, recompute, compressed, .. } = method;
    some(*swapped) && recompute.unwrap_or_default() == Nanos::ZERO && !some(*compressed)
}

fn some(count: Option<u64>) -> bool {
    count.is_some_and(|count| count > 0)
}

fn what_would_do(comparison: &Comparison) -> String {
    let Comparison { budget, methods, .. } = comparison;
    let nearest = (methods.iter())
        .filter_map(|m| Some((m.shortfall?, m)))
        .min_by_key(|(shortfall, _)| *shortfall);
    if let Some((shortfall, MethodResult { method, .. })) = nearest {
        let would_do = comparison.sufficient.as_ref().map(|found| {
            let megabytes = found.budget.0.div_ceil(1_000_000);
            format!("--budget {megabytes}MB would do with {}", found.method)
        });
        let least = least_budget(comparison).map(|least| format!("no budget below {least} can do"));
        let fixed = Some(comparison.in_core.fixed).filter(|fixed| fixed.0 > 0);
        let fixed = fixed.map(|fixed| {
            format!(
                "{fixed} are parameters, optimizer state and inputs, which outlive the iteration"
            )
        });
        let clauses: String = [fixed, would_do, least]
            .into_iter()
            .flatten()
            .map(|clause| format!("; {clause}"))
            .collect();
        return format!(
            "No method fits {budget}: {method} comes nearest and lacks {shortfall}{clauses}."
        );
    }
    if methods.iter().any(|m| m.status == Status::Timeout) {
        return format!("No method found a plan for {budget} in time: allow more time.");
    }
    if let Some(least) = least_budget(comparison).filter(|least| least > budget) {
        return format!("Nothing fits {budget}: no budget below {least} can do.");
    }
    format!(
        "No method fits {budget}: raise the budget, the host's where that is short, or shrink the batch."
    )
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
