//! Importing recordings.

use crate::sandbox::Sandbox;

#[test]
fn both_kinds_of_recording_are_told_apart_and_summed_up() {
    let sandbox = Sandbox::new();
    for name in ["small.dtr.jsonl", "small.opgraph.json"] {
        let run = sandbox.run(&format!("import tests/recordings/{name} --output trace.json"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        insta::assert_snapshot!(name, run.stderr);
        // What was written is what a plan reads.
        sandbox.ok("compare trace.json -m titan-v --methods in-core");
    }
}

#[test]
fn kind_name_and_in_place_ops_can_be_stated() {
    let sandbox = Sandbox::new();
    let command = "import tests/recordings/small.opgraph.json --from opgraph --network tiny";
    let run = sandbox.run(&format!("{command} --in-place alias -o trace.json"));
    assert!(run.stderr.starts_with("tiny (batch 2)"), "{}", run.stderr);
    let trace = sandbox.text("trace.json");
    assert!(
        trace.starts_with(r#"{"format":"tidegate/trace","version":1,"content":{"network":"tiny""#)
    );
    insta::assert_snapshot!(
        sandbox.fails("import tests/recordings/small.dtr.jsonl --from opgraph")
    );
    insta::assert_snapshot!(sandbox.fails("import tests/recordings/small.dtr.jsonl --from csv"));
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
