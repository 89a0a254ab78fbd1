//! How the command fails.

use crate::sandbox::Sandbox;

const SMALL: &str = "tests/recordings/small.dtr.jsonl -m titan-v -b 60%";

#[test]
fn unknown_names_are_refused_with_those_that_there_are() {
    let sandbox = Sandbox::new();
    let refusals = [
        "plan resnet19 -m titan-v",
        "plan resnet18-host -m titan-w",
        "plan resnet18-host -m titan-v+pcie7",
        "plan resnet18-host -m absent.toml",
        "compare resnet18-host -m titan-v --methods pooch,poch",
        "compare resnet18-host -m titan-v --methods pooch,pooch",
        "list machine",
    ];
    let refusals =
        refusals.map(|command| format!("$ tidegate {command}\n{}", sandbox.fails(command)));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn wrong_values_are_refused_with_the_remedy() {
    let sandbox = Sandbox::new();
    let refusals = [
        "plan resnet18-host",
        "plan resnet18-host -m titan-v -b 16",
        "plan resnet18-host -m titan-v -b 16GX",
        "plan resnet18-host -m titan-v -b 0%",
        "plan resnet18-host -m titan-v --speed 0",
        "plan resnet18-host -m titan-v --allow keep,drop",
        "export timeline.json --to svg --width 10 -o x.svg",
    ];
    let refusals =
        refusals.map(|command| format!("$ tidegate {command}\n{}", sandbox.fails(command)));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn the_wrong_document_is_refused_by_name() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("plan {SMALL} -o plan.json"));
    sandbox.write("newer.json", r#"{"format":"tidegate/plan","version":99,"content":{}}"#);
    sandbox.write("broken.json", r#"{"format":"tidegate/plan","version":1,"content":{"#);
    let refusals = [
        "simulate absent.json",
        "verify newer.json",
        "verify broken.json",
        "export plan.json --to svg -o x.svg",
        "plan plan.json -m titan-v",
    ];
    let refusals =
        refusals.map(|command| format!("$ tidegate {command}\n{}", sandbox.fails(command)));
    insta::assert_snapshot!(refusals.join("\n"));
    assert_eq!(sandbox.files(), ["broken.json", "newer.json", "plan.json"]);
}

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

#[test]
fn no_feasible_plan_writes_no_file() {
    let sandbox = Sandbox::new();
    let run = sandbox.run("plan tests/recordings/small.dtr.jsonl -m titan-v -b 10% -o plan.json");
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert_eq!(sandbox.files(), [""; 0]);
}

/// Ctrl-C while a search runs: it says so, ends with 130 and leaves no file.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_search_leaves_nothing() {
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
    let status = format!("/proc/{}/status", child.id());
    while !catches_interrupts(&std::fs::read_to_string(&status).expect("it runs")) {
        std::thread::yield_now();
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signal.expect("kill is there").success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.as_ref()), (Some(130), "error: interrupted\n"));
    assert_eq!(sandbox.files(), ["deep.dtr.jsonl"]);
}

/// Whether a process of this `/proc/PID/status` has a handler for SIGINT, signal 2.
#[cfg(target_os = "linux")]
fn catches_interrupts(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
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
