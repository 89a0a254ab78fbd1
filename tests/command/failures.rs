//! How the command fails.

use serde_json::Value;

use crate::sandbox::Sandbox;
#[cfg(target_os = "linux")]
use crate::sandbox::signals;

const SMALL: &str = "tests/recordings/small.dtr.jsonl -m titan-v -b 60%";

#[test]
fn an_output_that_cannot_be_written_fails_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("plan {SMALL} -o plan.json"));
    sandbox.ok("simulate plan.json -o timeline.json");
    for command in [
        format!("plan {SMALL} -o absent/plan.json"),
        "import tests/recordings/small.dtr.jsonl -o absent/trace.json".into(),
        "simulate plan.json -o absent/timeline.json".into(),
        "export timeline.json --to perfetto -o absent/perfetto.json".into(),
        "simulate plan.json -o tests".into(),
    ] {
        let failure = sandbox.fails(&command);
        assert!(failure.starts_with("[exit 1] error: cannot write "), "{failure}");
    }
    assert_eq!(sandbox.files(), ["plan.json", "timeline.json"]);
}

/// Contention slows by up to ten times, and by up to a hundred where a copy and a codec do.
#[test]
fn times_that_no_number_holds_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("plan {SMALL} --method swap-all -o plan.json"));
    let mut plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
    let content = &mut plan["content"];
    content["both_directions_permille"] = 100.into();
    let actions = content["actions"].as_array_mut().expect("a list");
    let copy = actions.iter_mut().find(|action| action["task"].get("h2d").is_some());
    copy.expect("it swaps")["duration_ns"] = (1u64 << 59).into();
    sandbox.write("plan.json", &plan.to_string());
    sandbox.refuses("simulate plan.json", 2, "2^50 ns together");

    let log = sandbox.text("tests/recordings/small.dtr.jsonl");
    sandbox.write("long.dtr.jsonl", &log.replacen(r#""TIME": "4"#, r#""TIME": "4000000000"#, 1));
    sandbox.refuses("plan long.dtr.jsonl -m titan-v", 2, "exceeds 2^50 ns");
}

/// A signal while a search runs: it ends with the signal's code and leaves no file.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_search_leaves_nothing() {
    for (signal, code) in signals() {
        interrupt_a_search(signal, code);
    }
}

#[cfg(target_os = "linux")]
fn interrupt_a_search(signal: &str, code: i32) {
    use std::process::{Command, Stdio};

    let sandbox = Sandbox::new();
    sandbox.write("deep.dtr.jsonl", &deep_network(4000));
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["plan", "deep.dtr.jsonl", "-m", "p100", "-b", "50%", "-o", "plan.json"])
        .args(["--evaluations", "1000000000", "--method", "swap-opt"])
        .current_dir(sandbox.path("."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // The plan's file is there as soon as all is read.
    while sandbox.files().len() < 2 {
        std::thread::yield_now();
    }
    let signal = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(signal.expect("kill is there").success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    // Nothing where the search had not yet begun.
    assert!(["", "error: interrupted\n"].contains(&stderr.as_ref()), "{stderr}");
    assert_eq!(sandbox.files(), ["deep.dtr.jsonl"]);
}

/// A chain of layers, forward and back, of which no search sees the end soon.
#[cfg(target_os = "linux")]
fn deep_network(layers: usize) -> String {
    let mut log = String::from("{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n");
    let call = |log: &mut String, name: &str, args: &str, result: String| {
        *log += &format!(
            "{{\"INSTRUCTION\":\"CALL\",\"NAME\":\"{name}\",\"ARGS\":[{args}],\
             \"RESULT\":[\"{result}\"],\"TIME\":\"1000\"}}\n\
             {{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"{result}\",\"MEMORY\":\"1000000\"}}\n\
             {{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"{result}\",\"ALIAS\":\"-1\"}}\n"
        );
    };
    log += "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"a0\"}\n\
            {\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"a0\",\"MEMORY\":\"1000000\"}\n";
    for layer in 1..=layers {
        call(&mut log, "conv2d", &format!("\"a{}\"", layer - 1), format!("a{layer}"));
    }
    log += "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"BACKWARD\"}\n";
    call(&mut log, "loss_backward", &format!("\"a{layers}\""), format!("g{layers}"));
    for layer in (1..=layers).rev() {
        let args = format!("\"g{layer}\",\"a{layer}\"");
        call(&mut log, "conv2d_backward", &args, format!("g{}", layer - 1));
        log += &format!("{{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"g{layer}\"}}\n");
        log += &format!("{{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"a{layer}\"}}\n");
    }
    log
}
