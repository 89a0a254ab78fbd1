//! `tidegate forecast`

use serde_json::Value;

use crate::sandbox::{Sandbox, repository};

/// A table of op times in a folder with a device's name.
fn with_table(device: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path(device)).expect("a folder");
    for end in ["csv", "json"] {
        let name = format!("small-train-8-2.{end}");
        let text = std::fs::read_to_string(repository().join("tests/recordings").join(&name));
        sandbox.write(&format!("{device}/{name}"), &text.expect("it is there"));
    }
    (sandbox, format!("{device}/small-train-8-2.csv"))
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} is a number in {value}"))
}

#[test]
fn a_table_of_op_times_is_forecast_by_a_fit_that_has_not_seen_its_device() {
    let (sandbox, file) = with_table("Tesla_V100-PCIE-32GB");
    let all = sandbox.json(&format!("forecast {file} --format json"));
    let [of] = all.as_array().expect("a list").as_slice() else { panic!("{all}") };
    assert_eq!(of["machine"], "v100-pcie");
    assert_eq!((&of["network"], &of["dtype"]), (&"small".into(), &"f32".into()));
    assert_eq!((number(of, "batch"), number(of, "recorded_ns")), (2.0, 22e6));
    assert_eq!(of["seen"], true);
    let error = number(of, "predicted_ns") / 22e6 - 1.0;
    assert!((number(of, "error") - error).abs() < 1e-9, "{of}");
    // Layers that are alike count as often as there are some.
    assert!(number(of, "predicted_ns") > 4.0 * 2e6, "{of}");
    assert_eq!(number(&of["backward"], "recorded_ns"), 15e6);
    assert!(of["predicted_peak_bytes"].is_null() && of["recorded_peak_bytes"].is_null());
    let text = sandbox.ok(&format!("forecast {file}"));
    assert!(text.contains("v100-pcie") && text.contains("iterations: half within"), "{text}");
}

#[test]
fn a_device_that_no_fit_has_seen_needs_its_data_sheet_only() {
    let (sandbox, file) = with_table("NVIDIA_L4");
    let of = &sandbox.json(&format!("forecast {file} --format json"))[0];
    assert_eq!((&of["machine"], of.get("seen")), (&"l4".into(), None));
    let slow = number(of, "predicted_ns");
    let fast = &sandbox.json(&format!("forecast {file} -m h200 --format json"))[0];
    assert!(number(fast, "predicted_ns") < slow, "{fast}");
}

#[test]
fn an_execution_trace_alone_has_no_times() {
    let sandbox = Sandbox::new();
    sandbox.write("alone.et.json", &sandbox.text("tests/recordings/small.et.json"));
    sandbox.refuses("forecast alone.et.json -m t4", 2, "has no times");
}

#[test]
fn what_cannot_be_forecast_does_not_stop_the_rest() {
    let (sandbox, file) = with_table("NVIDIA_L4");
    sandbox.write("notes.txt", "not a recording\n");
    let run = sandbox.run(&format!("forecast notes.txt {file} none.csv --format json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let all: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    assert!(
        run.stderr.contains("left out: notes.txt") && run.stderr.contains("none.csv"),
        "{}",
        run.stderr
    );
}

/// An execution trace has the times of the profile beside it.
#[test]
fn an_execution_trace_is_forecast_with_the_profile_of_its_run() {
    let sandbox = Sandbox::new();
    for kind in ["et", "kineto"] {
        let text = sandbox.text(&format!("tests/recordings/small.{kind}.json"));
        sandbox.write(&format!("run.{kind}.json"), &text);
    }
    let of = &sandbox.json("forecast run.et.json -m t4 --format json")[0];
    assert!(number(of, "recorded_ns") > 0.0 && number(of, "predicted_ns") > 0.0, "{of}");
    // One of another run has other ops.
    let other = sandbox.text("run.kineto.json").replace("\"aten::", "\"aten::other_");
    sandbox.write("run.kineto.json", &other);
    sandbox.refuses("forecast run.et.json -m t4", 2, "so it is of another run");
}

#[test]
fn a_profile_with_shapes_is_forecast_by_what_its_ops_did() {
    let sandbox = Sandbox::new();
    let of = &sandbox.json("forecast tests/recordings/small.kineto.json -m t4 --format json")[0];
    assert_eq!(of["machine"], "t4");
    assert!(number(of, "recorded_ns") > 0.0 && number(of, "predicted_ns") > 0.0, "{of}");
}

/// What the fit says of recordings that are not ours, where they are.
#[test]
fn recordings_at_hand_are_forecast_within_what_is_promised() {
    let folder = repository().join("../shared/traces");
    if !folder.exists() {
        eprintln!("skipped: {} is not there", folder.display());
        return;
    }
    let sandbox = Sandbox::new();
    let mut files = Vec::new();
    for device in ["NVIDIA_A100_80GB_PCIe", "Tesla_V100-PCIE-32GB"] {
        let folder = folder.join("op-times").join(device);
        let found =
            std::fs::read_dir(folder).expect("it is there").map(|file| file.unwrap().path());
        files.extend(found.filter(|file| file.extension().is_some_and(|end| end == "csv")));
    }
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let all = sandbox.json(&format!("forecast {} --format json", files.join(" ")));
    let part = |of: &Value, part: &str| {
        number(&of[part], "predicted_ns") / number(&of[part], "recorded_ns") - 1.0
    };
    let all = all.as_array().expect("a list");
    let mut backward: Vec<f64> = all.iter().map(|of| part(of, "backward").abs()).collect();
    backward.sort_by(f64::total_cmp);
    assert!(backward[backward.len() / 2] < 0.09, "{backward:?}");
    assert!(backward[backward.len() * 9 / 10] < 0.17, "{backward:?}");
}
