//! Standard output and error that cannot be written, and names that are no text.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const SMALL: &str = "tests/recordings/small.dtr.jsonl";

/// The exit code of `tidegate` with these streams.
fn code(sandbox: &Sandbox, arguments: &str, stdout: Stdio, stderr: Stdio) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments.split_whitespace()).current_dir(sandbox.path("."));
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.status().expect("it starts").code()
}

fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

#[cfg(target_os = "linux")]
fn full() -> Stdio {
    std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it").into()
}

#[test]
fn no_stream_changes_what_a_command_does_or_says_with_its_code() {
    let sandbox = Sandbox::new();
    let cases = [
        ("verify nosuch", 2),
        ("--nosuch", 2),
        ("plan resnet18-host -m titan-w", 2),
        (&format!("import {SMALL} -o trace.json"), 0),
        (&format!("plan {SMALL} -m titan-v -b 60% --method swap-all -o plan.json"), 0),
        ("verify plan.json --trace trace.json", 0),
        ("verify plan.json --trace tests/recordings/small.opgraph.json", 2),
        (&format!("plan {SMALL} -m titan-v -b 10% --method swap-all"), 3),
        ("simulate plan.json -o -", 0),
        ("export gone.json --to svg -o -", 2),
        ("--help", 0),
    ];
    for (arguments, expected) in cases {
        let of = |stdout, stderr| code(&sandbox, arguments, stdout, stderr);
        assert_eq!(of(closed(), closed()), Some(expected), "closed: {arguments}");
        #[cfg(target_os = "linux")]
        assert_eq!(of(Stdio::null(), full()), Some(expected), "full: {arguments}");
    }
    assert_eq!(sandbox.files(), ["plan.json", "trace.json"]);
}

/// Output that is lost is a failure, which is said; what goes to files is written all the same.
#[cfg(target_os = "linux")]
#[test]
fn an_output_without_room_fails_with_a_sentence() {
    let sandbox = Sandbox::new();
    for arguments in [
        "list machines",
        "--help",
        &format!("plan {SMALL} -m titan-v -b 60% --method swap-all -o plan.json"),
        "simulate plan.json -o -",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments.split_whitespace()).current_dir(sandbox.path(".")).stdout(full());
        let output = command.output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {error}");
        assert!(error.starts_with("error: cannot write "), "{arguments}: {error}");
        assert!(error.contains("No space left"), "{arguments}: {error}");
    }
    assert_eq!(sandbox.files(), ["plan.json"]);
}

#[test]
fn names_do_not_command_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("import {SMALL} -o trace.json"));
    let mut trace: Value = serde_json::from_str(&sandbox.text("trace.json")).expect("JSON");
    let name = "a\u{1b}[31mred\u{9b}2J\u{202e}\r";
    let shown = r"a\u001b[31mred\u009b2J\u202e\u000d";
    trace["content"]["network"] = json!(name);
    trace["content"]["provenance"]["notes"] = json!([name]);
    sandbox.write("trace.json", &trace.to_string());
    sandbox.write("other.json", &json!({"format": name, "version": 1}).to_string());

    let problem = "compare trace.json -m titan-v -b 60% --methods swap-all";
    let table = sandbox.ok(problem);
    assert!(table.contains(shown), "{table}");
    // JSON says the same as before.
    let comparison = sandbox.json(&format!("{problem} --format json"));
    let named = comparison["trace"]["name"].as_str().expect("a name");
    assert!(named.starts_with(name), "{named}");
    let refused = sandbox.run("verify other.json").stderr;
    assert!(refused.contains(shown), "{refused}");
    for text in [table, sandbox.ok(&format!("{problem} --format json")), refused] {
        assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{text}");
    }
}

/// Each thread takes addresses for its stack, of which there are too few for so many.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_cannot_be_had_are_an_error() {
    // Stacks so large that there is room left where the next one does not fit, for what a thread that was
    // just started takes for itself.
    let limits = "ulimit -v 4000000; RUST_MIN_STACK=1500000000 RAYON_NUM_THREADS=6";
    let shell = format!("{limits} exec \"$0\" list machines");
    let command = Command::new("sh").args(["-c", &shell, env!("CARGO_BIN_EXE_tidegate")]).output();
    let output = command.expect("a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: cannot start threads"), "{error}");
}
