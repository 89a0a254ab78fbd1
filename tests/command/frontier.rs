//! Time against memory.

use serde_json::Value;

use crate::sandbox::Sandbox;

const SMALL: &str =
    "frontier tests/recordings/small.dtr.jsonl -m titan-v --speed 4 --evaluations 200";

#[test]
fn no_plan_is_below_the_bound_and_the_smallest_budget_lies_on_the_curve() {
    let sandbox = Sandbox::new();
    let command = format!("{SMALL} --methods swap-all,tide --slowdown 10% --format json");
    let frontier = sandbox.json(&format!("{command} --budgets 60%,100%,60%,300MB"));
    let in_core = frontier["in_core"]["iteration_ns"].as_f64().expect("a time");
    let points = frontier["points"].as_array().expect("a list");
    let budgets: Vec<u64> = points.iter().filter_map(|p| p["budget_bytes"].as_u64()).collect();
    assert_eq!(budgets.len(), 3, "{budgets:?}");
    assert!(budgets.is_sorted_by(|a, b| a > b), "{budgets:?}");
    for point in points {
        let Some(bound) = point["bound_ns"].as_u64() else { continue };
        for method in point["methods"].as_array().expect("a list") {
            if let Some(time) = method["iteration_ns"].as_u64() {
                assert!(time >= bound, "{method}");
            }
        }
    }
    let smallest = frontier["smallest"].as_array().expect("a list");
    let names: Vec<&Value> = smallest.iter().map(|found| &found["method"]).collect();
    assert_eq!(names, [&Value::Null, &"swap-all".into(), &"tide".into()]);
    for found in smallest {
        let (Some(budget), Some(time)) =
            (found["budget_bytes"].as_u64(), found["iteration_ns"].as_f64())
        else {
            continue;
        };
        assert!(time <= 1.1 * in_core, "{found}");
        if let Some(method) = found["method"].as_str() {
            let options = "tests/recordings/small.dtr.jsonl -m titan-v --speed 4 --evaluations 200";
            let again = format!("compare {options} -b {budget}B --methods {method} --format json");
            let again = sandbox.json(&again);
            assert_eq!(again["methods"][0]["iteration_ns"].as_f64(), Some(time), "{found}");
        }
    }
    // No method does with less than the bound allows.
    let budget = |index: usize| smallest[index]["budget_bytes"].as_u64();
    assert!(budget(0) <= budget(2), "{smallest:?}");
}

#[test]
fn the_curves_are_drawn_into_a_folder_or_a_file() {
    let sandbox = Sandbox::new();
    let command = format!("{SMALL} --methods swap-all,pooch --budgets 100%,60%");
    let shown = sandbox.ok(&format!("{command} -o curves"));
    for (name, begin) in [("svg", "<svg"), ("txt", "trace "), ("json", "{")] {
        let text = sandbox.text(&format!("curves/frontier.{name}"));
        assert!(text.starts_with(begin), "{text}");
    }
    assert!(shown.ends_with(&sandbox.text("curves/frontier.txt")), "{shown}");
    let png = std::fs::read(sandbox.path("curves/frontier.png")).expect("it was written");
    assert!(png.starts_with(b"\x89PNG"));
    sandbox.ok(&format!("{command} -o curves.svg"));
    assert_eq!(sandbox.text("curves.svg"), sandbox.text("curves/frontier.svg"));
    assert_eq!(sandbox.files(), ["curves", "curves.svg"]);
}

#[test]
fn without_budgets_they_go_down_to_where_none_can_fit() {
    let sandbox = Sandbox::new();
    let frontier = sandbox.json(&format!("{SMALL} --methods swap-all --step 10% --format json"));
    let points = frontier["points"].as_array().expect("a list");
    assert!(points.len() > 2 && points.len() < 10, "{}", points.len());
    assert!(points.iter().all(|point| point["bound_ns"].is_u64()), "{points:?}");
}
