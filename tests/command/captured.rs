//! Traces that were captured elsewhere: untimed, with keys, and with what their caller holds.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A batch norm, whose statistics change, a dropout and a product, forward and back.
fn captured() -> Value {
    serde_json::from_str(include_str!("inputs/captured.json")).expect("JSON")
}

/// Planned, compared, proven and simulated from the file as it is: its times are the machine's.
#[test]
fn an_untimed_trace_is_planned_for_the_machine_that_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("trace.json", &captured().to_string());
    let shown =
        sandbox.ok("plan trace.json -m rtx-4090 -b 460MiB --allow keep,recompute -o plan.json");
    assert!(shown.contains("op times are modelled for NVIDIA RTX 4090"), "{shown}");
    let plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
    let actions = plan["content"]["actions"].as_array().expect("a list");
    let again = actions.iter().find(|action| action["task"]["recompute"] == 0);
    let again = again.expect("the norm is run again, without its statistics");
    assert_eq!(["reads", "writes"].map(|list| again[list].as_array().map(Vec::len)), [Some(1); 2]);
    let verified = sandbox.ok("verify plan.json --trace trace.json");
    assert!(verified.contains("computes captured: 6 ops in order"), "{verified}");
    sandbox.ok("simulate plan.json --trace trace.json -m rtx-4090 -o timeline.json");
    let compared = sandbox.ok("compare trace.json -m t4 -b 520MiB --methods in-core,tide");
    assert!(compared.contains("op times are modelled for NVIDIA T4"), "{compared}");
    // Other keys are the same trace; without them it is the same plan.
    let renamed = sandbox.text("trace.json").replace("\"%", "\"$").replace("1234", "5678");
    sandbox.write("renamed.json", &renamed);
    sandbox.ok("verify plan.json --trace renamed.json");
    let freed = sandbox.text("trace.json").replace(",\"held\":true", "");
    sandbox.write("freed.json", &freed);
    sandbox.refuses(
        "verify plan.json --trace freed.json",
        2,
        "the plan was made for trace captured",
    );
}

/// What is wrong with such a trace has a place and a remedy.
#[test]
fn captured_traces_that_make_no_sense_are_refused() {
    let sandbox = Sandbox::new();
    let refused = |change: fn(&mut Value), said: &str| {
        let mut trace = captured();
        change(&mut trace["content"]);
        sandbox.write("trace.json", &trace.to_string());
        sandbox.refuses("plan trace.json -m rtx-4090 -b 60%", 2, said);
    };
    refused(|c| c["ops"][0]["rerun"] = Value::Null, "leave it out of rerun.reads");
    refused(|c| c["ops"][0]["mutates"] = json!([3]), "ops[0].mutates names tensor 3");
    refused(|c| c["ops"][1]["rerun"] = json!({ "reads": [0], "writes": [] }), "ops[1].rerun.reads");
    refused(|c| c["ops"][1]["bytes_moved"] = json!(u64::MAX), "2^50 ns");
    sandbox.write("trace.json", &captured().to_string());
    sandbox.refuses("bench replay trace.json", 2, "ops[0] has no duration_ns");
}
