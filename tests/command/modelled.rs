//! Networks that nobody measured: planned by name, and run.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

#[test]
fn half_of_what_in_core_needs_is_enough_to_run_what_was_planned_by_name() {
    for network in [
        "plain20 --batch 8 --image 32",
        "resnet32 --batch 8 --image 32",
        "mobilenet-v1-cifar10 --batch 16",
        "stories260k --batch 8 --sequence 48",
    ] {
        let sandbox = Sandbox::new();
        let planned =
            format!("plan {network} -m titan-v -b 50% --conventions tidegate --evaluations 1000");
        sandbox.ok(&format!("{planned} -o plan.json"));
        let shown = sandbox.ok("run plan.json --warmup 0 --iterations 2");
        let same = "bits of all that outlives the iterations: those of the runs in core";
        assert!(shown.contains(same), "{network}\n{shown}");
        // The plan alone says which trace it is for.
        let shown = sandbox.ok("verify plan.json");
        assert!(shown.contains("computes"), "{network}\n{shown}");
    }
}

/// What a version that knew no recipes wrote of a network's options.
const OLD: &str = r#"{"batch":8,"image":[32,32],"frames":null,"sequence":null,"activation":null,
    "dtype":null,"optimizer":null,"out_of_place":false,"pool_indices":false,
    "unfused_attention":false,"progress":null,"efficiencies":null}"#;

#[test]
fn documents_without_recipes_are_still_read() {
    let sandbox = Sandbox::new();
    let quick = "--warmup 1 --repeats 1 --bandwidth 2GB/s --latency 10us";
    sandbox.ok(&format!("profile plain20 --batch 8 --image 32 {quick} -o p"));
    let mut trace: Value = serde_json::from_str(&sandbox.text("p/trace.json")).expect("JSON");
    let provenance = &mut trace["content"]["provenance"];
    assert_eq!(provenance["recipe"]["network"], "plain20");
    assert_eq!(provenance["recipe"]["conventions"], "tidegate");
    provenance.as_object_mut().expect("an object").remove("recipe");
    provenance["settings"] = json!({ "network": "plain20", "options": OLD });
    sandbox.write("old.json", &trace.to_string());
    sandbox.ok("plan old.json -m p/machine.json -b 70% --evaluations 1000 -o plan.json");
    let run = "run plan.json --trace old.json -m p/machine.json --warmup 0 --iterations 1";
    sandbox.ok(run);

    sandbox.ok("plan plain20 --batch 8 --image 32 -m titan-v --evaluations 1000 -o plan.json");
    let mut plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
    let content = plan["content"].as_object_mut().expect("an object");
    assert_eq!(content["recipe"]["conventions"], "pytorch");
    content.remove("recipe");
    content["settings"]["network"] = json!(OLD);
    sandbox.write("old-plan.json", &plan.to_string());
    let shown = sandbox.ok("verify old-plan.json");
    assert!(shown.contains("computes"), "{shown}");
}

/// Convolutions are left to TF32 where a GPU has it and nobody says otherwise, as by PyTorch.
#[test]
fn f32_runs_in_tf32_where_it_is_chosen_and_there_are_units_for_it() {
    let sandbox = Sandbox::new();
    let in_core = |machine: &str, tf32: &str| {
        let options = "-b 200% --methods in-core --format json";
        let compared =
            sandbox.json(&format!("compare resnet18 --batch 8 -m {machine} {tf32} {options}"));
        compared["in_core"]["iteration_ns"].as_u64().expect("it has a time")
    };
    let [none, usual, all] =
        ["none", "convolutions", "all"].map(|what| in_core("a100-sxm", &format!("--tf32 {what}")));
    assert!(none > usual && usual >= all, "{none} {usual} {all}");
    assert_eq!(in_core("a100-sxm", ""), usual);
    assert_eq!(in_core("v100-sxm", "--tf32 all"), in_core("v100-sxm", "--tf32 none"));
    let shown = sandbox.ok("compare resnet18 --batch 8 -m a100-sxm -b 200% --methods in-core");
    assert!(shown.contains("f32 (convolutions in TF32)"), "{shown}");
}
