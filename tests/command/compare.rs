//! Comparing methods.

use serde_json::Value;

use crate::sandbox::Sandbox;

const SMALL: &str = "compare tests/recordings/small.dtr.jsonl --machine titan-v";

fn iteration(comparison: &Value) -> u64 {
    comparison["methods"][0]["iteration_ns"].as_u64().expect("a plan")
}

#[test]
fn as_json_each_figure_has_its_unit() {
    let sandbox = Sandbox::new();
    let command = format!("{SMALL} -b 60% --methods swap-opt,in-core --format json");
    let mut comparison = sandbox.json(&command);
    for method in comparison["methods"].as_array_mut().expect("a list") {
        assert!(method["plan_seconds"].as_f64().expect("a number") >= 0.0);
        method["plan_seconds"] = "...".into();
    }
    let text = serde_json::to_string_pretty(&comparison).expect("JSON");
    insta::assert_snapshot!(text);
}

#[test]
fn no_method_is_below_the_bound_that_the_header_states() {
    let sandbox = Sandbox::new();
    let comparison = sandbox.json(&format!("{SMALL} -b 55% --evaluations 200 --format json"));
    let bound = comparison["bound_ns"].as_u64().expect("a bound") as f64;
    let rows = comparison["methods"].as_array().expect("a list");
    let plans: Vec<&Value> = rows.iter().filter(|row| row["status"] == "ok").collect();
    assert!(!plans.is_empty(), "{comparison}");
    for row in plans {
        let (time, gap) = (row["iteration_ns"].as_f64().expect("a time"), row["gap"].as_f64());
        let expected = time / bound - 1.0;
        assert!(gap.is_some_and(|gap| gap >= 0.0 && (gap - expected).abs() < 1e-9), "{row}");
    }
}

#[test]
fn a_budget_is_an_amount_a_share_or_what_the_machine_has() {
    let sandbox = Sandbox::new();
    let budget = |budget: &str| {
        let command = format!("{SMALL} --methods swap-all {budget} --format json");
        sandbox.json(&command)["budget_bytes"].as_u64()
    };
    assert_eq!(budget("--budget 500MB"), Some(500_000_000));
    assert_eq!(budget("-b 0.5GiB"), Some(1 << 29));
    assert_eq!(budget(""), Some((12 << 30) - 500_000_000));
    let peak = sandbox.json(&format!("{SMALL} --methods in-core --format json"));
    let peak = peak["in_core"]["peak_bytes"].as_u64().expect("a number");
    assert_eq!(budget("-b 75%"), Some(peak * 3 / 4));
}

#[test]
fn only_what_is_allowed_is_decided() {
    let sandbox = Sandbox::new();
    let pooch = |allow: &str| {
        sandbox.json(&format!("{SMALL} -b 60% --methods pooch --allow {allow} --format json"))
    };
    let swaps = pooch("keep,swap");
    assert_eq!(swaps["methods"][0]["recomputed"], 0);
    assert!(swaps["methods"][0]["swapped"].as_u64().expect("a number") > 0);
    let recomputes =
        sandbox.json(&format!("{SMALL} -b 60% --methods sqrt-n --allow recompute --format json"));
    assert_eq!(recomputes["methods"][0]["d2h_bytes"], 0);
    assert!(recomputes["methods"][0]["recompute_ns"].as_u64().expect("a number") > 0);
}

#[test]
fn all_feature_maps_of_resnet50_are_decided_about() {
    let sandbox = Sandbox::new();
    let command = "compare resnet50 --batch 256 -m pooch-x86 --methods swap-all --format json";
    // 53 convolutions, 49 activations and two poolings, down to the pooled features, and where the maxima were.
    assert_eq!(sandbox.json(command)["methods"][0]["swapped"], 53 + 49 + 2 + 1);
}

#[test]
fn a_faster_link_and_a_slower_device_hide_more_copies() {
    let sandbox = Sandbox::new();
    let compare = |machine: &str, options: &str| {
        let small = "compare tests/recordings/small.dtr.jsonl";
        sandbox.json(&format!(
            "{small} -m {machine} -b 60% --methods swap-all {options} --format json"
        ))
    };
    let slowdown = |comparison: &Value| comparison["methods"][0]["slowdown"].as_f64();
    let pcie3 = compare("titan-v", "");
    assert!(iteration(&compare("titan-v+pcie5", "")) < iteration(&pcie3));
    let slower = compare("titan-v", "--speed 0.5");
    assert_eq!(
        slower["in_core"]["iteration_ns"].as_u64(),
        pcie3["in_core"]["iteration_ns"].as_u64().map(|time| time * 2)
    );
    assert!(slowdown(&slower) < slowdown(&pcie3));
}

#[test]
fn without_a_plan_that_fits_json_says_why() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(&format!("{SMALL} -b 10% --methods pooch --format json"));
    let comparison: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((run.code, &comparison["methods"][0]["status"]), (3, &"infeasible".into()));
    assert!(comparison["methods"][0]["reason"].is_string());
}

#[test]
fn activations_alone_may_be_counted_and_what_is_shown_says_so() {
    let sandbox = Sandbox::new();
    let command = "compare tests/recordings/small.opgraph.json --machine p100 --methods tide";
    let peak = |options: &str| {
        let json = sandbox.json(&format!("{command} -b 1GB {options} --format json"));
        let figures = &json["in_core"];
        (figures["peak_bytes"].as_u64(), figures["fixed_bytes"].as_u64())
    };
    let ((all, fixed), (counted, nothing)) = (peak(""), peak("--count activations"));
    assert!(counted < all && nothing == Some(0) && fixed > Some(0), "{all:?} {counted:?}");
    let text = sandbox.ok(&format!("{command} -b 1GB --count activations"));
    assert!(text.contains("memory counts activations alone"), "{text}");
    // No plan is written that way.
    let refused = sandbox.fails("plan resnet18-host -m titan-v --count activations");
    assert!(refused.starts_with("[exit 2]"), "{refused}");
}
