//! Times that scatter.

use serde_json::Value;

use crate::sandbox::Sandbox;

const SMALL: &str =
    "tests/recordings/small.dtr.jsonl --machine titan-v --budget 60% --speed 4 --evaluations 200";

#[test]
fn jitter_has_quantiles_in_order() {
    let sandbox = Sandbox::new();
    let command = format!("compare {SMALL} --methods pooch,sqrt-n,in-core --jitter 10%");
    let json = sandbox.json(&format!("{command} --format json"));
    for row in json["methods"].as_array().expect("a list") {
        let figure = |name: &str| row["jitter"][name].as_u64();
        let all = ["median_ns", "p90_ns", "p99_ns", "worst_ns"].map(figure);
        assert!(all.is_sorted(), "{row}");
        assert_eq!(all[0].is_some(), row["status"] == "ok", "{row}");
    }
}

#[test]
fn at_its_quantile_a_robust_plan_is_never_slower() {
    let sandbox = Sandbox::new();
    let compare = |options: &str| {
        let command =
            "compare resnet18-host -m titan-v -b 70% --speed 100 --methods swap-opt,pooch";
        sandbox.json(&format!("{command} --evaluations 200 --jitter 40% {options} --format json"))
    };
    let (stated, robust) = (compare(""), compare("--robust 40%"));
    let times = |comparison: &Value, figure: &str| -> Vec<u64> {
        let rows = comparison["methods"].as_array().expect("a list");
        rows.iter().filter_map(|row| row["jitter"][figure].as_u64()).collect()
    };
    let (stated, robust) = (times(&stated, "p90_ns"), times(&robust, "p90_ns"));
    assert_eq!(robust.len(), 2);
    assert!(robust.iter().zip(&stated).all(|(robust, stated)| robust <= stated));
    assert_ne!(robust, stated, "nothing is gained, so that nothing is tested");
}

#[test]
fn a_robust_plan_leaves_time_for_slower_copies() {
    let sandbox = Sandbox::new();
    let plan = |options: &str| {
        let row = format!("plan {SMALL} --method swap-opt {options} -o plan.json --format json");
        let row = sandbox.json(&row)["methods"][0].clone();
        sandbox.ok("verify plan.json --trace tests/recordings/small.dtr.jsonl");
        let plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
        (row, plan["content"].clone())
    };
    let (stated, settings) = plan("");
    assert!(settings["settings"]["robust"].is_null(), "{settings}");
    let (robust, settings) = plan("--robust 50% --quantile 99%");
    assert_eq!(settings["settings"]["robust"], "50% at 99%");
    // It is timed as stated, for the stated machine and trace.
    assert!(robust["iteration_ns"].as_u64() >= stated["iteration_ns"].as_u64(), "{robust}");
    assert!(robust["gap"].as_f64() >= Some(0.0), "{robust}");
}
