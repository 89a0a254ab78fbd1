use super::*;
use crate::Sufficient;
use crate::examples::{comparison, infeasible, infeasible_as, plan};
use insta::assert_snapshot;

#[test]
fn plans_are_sorted_by_time() {
    assert_snapshot!("normal", table(&comparison(), true));
}

#[test]
fn what_does_not_fit_comes_last_with_its_reason() {
    let mut comparison = comparison();
    comparison.methods.insert(0, infeasible());
    comparison.methods.insert(
        2,
        MethodResult::without_plan("ilp", Status::Timeout, "no plan within 60 s".into()),
    );
    comparison.methods[1].compressed = Some(3);
    comparison.bound = None;
    comparison.provenance = None;
    for method in &mut comparison.methods {
        method.gap = None;
    }
    assert_snapshot!("one_infeasible", table(&comparison, true));
}

#[test]
fn when_nothing_fits_the_budget_that_would_do_is_named() {
    let mut comparison = comparison();
    let budget = Bytes(2_090_000_000);
    comparison.sufficient = Some(Sufficient { method: "swap-all".into(), budget });
    comparison.methods = vec![infeasible(), infeasible_as("swap-all", 120)];
    assert_snapshot!("all_infeasible", table(&comparison, true));
}

#[test]
fn when_all_fits_there_is_nothing_to_do() {
    let mut comparison = comparison();
    comparison.budget = Bytes(5_000_000_000);
    comparison.bound = None;
    comparison.methods =
        vec![MethodResult { gap: None, ..plan("in-core", 100, 4_000, [100, 0, 0]) }];
    assert_snapshot!("in_core_fits", table(&comparison, true));
}

#[test]
fn the_last_sentence_names_all_that_tie() {
    let mut comparison = comparison();
    comparison.methods.push(plan("ilp", 107, 1_970, [70, 20, 10]));
    let text = table(&comparison, true);
    let last = text.lines().last().expect("a sentence");
    assert!(last.starts_with("tide and ilp are fastest: 1.070x the in-core time"), "{last}");
}

#[test]
fn the_last_sentence_never_claims_what_the_values_do_not_say() {
    let mut comparison = comparison();
    comparison.budget = Bytes(4_000_000_000);
    comparison.methods = vec![infeasible_as("in-core", 10)];
    let text = table(&comparison, true);
    let fixed =
        "400.000 MB are parameters, optimizer state and inputs, which outlive the iteration";
    let end = format!("nearest and lacks 10.000 MB; {fixed}; no budget below 450.000 MB can do.\n");
    assert!(text.ends_with(&end), "{text}");

    comparison.least_budget = None;
    let text = table(&comparison, true);
    assert!(text.ends_with(&format!("nearest and lacks 10.000 MB; {fixed}.\n")), "{text}");

    comparison.methods[0].shortfall = None;
    comparison.least_budget = Some(Bytes(4_500_000_000));
    let end = "Nothing fits 4.000 GB: no budget below 4.500 GB can do.\n";
    assert!(table(&comparison, true).ends_with(end));
    comparison.least_budget = None;
    let end = "raise the budget, the host's where that is short, or shrink the batch.\n";
    assert!(table(&comparison, true).ends_with(end));
    comparison.methods[0].status = Status::Timeout;
    assert!(table(&comparison, true).ends_with("in time: allow more time.\n"));
    comparison.methods.clear();
    assert!(table(&comparison, true).ends_with("name some with --methods.\n"));
}

#[test]
fn shares_are_rounded_and_never_divide_by_zero() {
    assert_eq!(percent_of(Bytes(1), Bytes(3)), "33.3 %");
    assert_eq!(percent_of(Bytes(1), Bytes(2000)), "0.1 %");
    assert_eq!(percent_of(Bytes(u64::MAX), Bytes(1)), "1844674407370955161500.0 %");
    assert_eq!(percent_of(Bytes(1), Bytes(0)), "- %");
}

#[test]
fn a_narrow_table_leaves_out_what_the_time_is_made_of() {
    assert_snapshot!("narrow", table(&comparison(), false));
}
