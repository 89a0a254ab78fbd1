//! Importing recordings.

use crate::sandbox::{Sandbox, repository};

#[test]
fn name_and_in_place_ops_can_be_stated() {
    let sandbox = Sandbox::new();
    let command = "import tests/recordings/small.opgraph.json --from opgraph --network tiny";
    let run = sandbox.run(&format!("{command} --in-place alias -o trace.json"));
    assert!(run.stderr.starts_with("tiny (batch 2)"), "{}", run.stderr);
    let trace = sandbox.text("trace.json");
    assert!(
        trace.starts_with(r#"{"format":"tidegate/trace","version":1,"content":{"network":"tiny""#)
    );
}

#[test]
fn a_bad_recording_is_refused_by_line() {
    let sandbox = Sandbox::new();
    let log = sandbox.text("tests/recordings/small.dtr.jsonl");
    sandbox.write("cut.dtr.jsonl", &log[..log.len() - 30]);
    let lines: Vec<&str> = log.lines().collect();
    sandbox.write("short.dtr.jsonl", &[&lines[..2], &lines[3..]].concat().join("\n"));
    sandbox.write("notes.txt", "not a recording\n");
    let cases = ["cut.dtr.jsonl", "short.dtr.jsonl", "notes.txt", "absent.jsonl"];
    let refusals = cases.map(|name| sandbox.fails(&format!("import {name} -o trace.json")));
    insta::assert_snapshot!(refusals.concat());
    assert!(!sandbox.files().contains(&"trace.json".to_string()));
}

#[test]
fn each_kind_has_the_same_fields_as_json() {
    let sandbox = Sandbox::new();
    for (name, kind) in [
        ("small.dtr.jsonl", "dtr"),
        ("small.opgraph.json", "opgraph"),
        ("small.kineto.json", "kineto"),
        ("small.et.json", "execution-trace"),
        ("small.snapshot-4.pickle", "memory-snapshot"),
    ] {
        let command = format!("import tests/recordings/{name} -o trace.json --format json");
        let run = sandbox.run(&command);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let summary: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(summary["kind"], kind);
        let numbers = ["ops", "tensors", "time_ns", "in_core_peak_bytes", "constant_bytes"];
        for field in numbers.iter().chain(&["allocations", "frees", "unmatched"]) {
            assert!(summary[field].is_u64(), "{name}: {field}");
        }
        assert!(summary["notes"].is_array());
    }
}

/// A table of op times has one layer, which the labels beside it say how often there is.
#[test]
fn a_table_of_op_times_becomes_a_trace_of_all_its_layers() {
    let sandbox = Sandbox::new();
    for end in ["csv", "json"] {
        let from = repository().join(format!("tests/recordings/small-train-8-2.{end}"));
        let text = std::fs::read_to_string(from).expect("it is there");
        sandbox.write(&format!("small-train-8-2.{end}"), &text);
    }
    let file = "small-train-8-2.csv";
    let run = sandbox.run(&format!("import {file} -o trace.json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    insta::assert_snapshot!("op-times", run.stderr);
    let of = sandbox.json(&format!("import {file} --format json"));
    assert_eq!(of["kind"], "op-times");
    // An embedding, and four layers of a norm, two products and an activation; forward and backward; the loss.
    assert_eq!(of["ops"], 2 * (1 + 4 * 4) + 1);
    let layer: f64 = 0.037 + 0.750 + 0.060 + 0.740 + 0.045 + 0.038 + 1.555 + 0.080 + 1.576;
    let all = (4.0 * layer + 0.040 + 0.160) * 1e6;
    assert_eq!(of["time_ns"].as_f64().map(f64::round), Some(all.round()));
    // Weights, biases, and the samples.
    let weights = 4 * (2 * 1024 + 2 * 1024 * 4096 + 4096 + 1024) * 4;
    assert_eq!(of["constant_bytes"], weights + 2 * 512 * 8);
    let shown = sandbox.ok("compare trace.json -m titan-v -b 70% --methods tide,in-core");
    assert!(shown.contains("tide"), "{shown}");
    sandbox.refuses(&format!("import {file} --step 1"), 2, "--step does not apply");
}
