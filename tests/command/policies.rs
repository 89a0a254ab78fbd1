//! Plans in the words of other frameworks, and back.

use serde_json::Value;

use crate::sandbox::Sandbox;

const NETWORK: &str = "resnet50 --batch 32";

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// What a plan says, op by op and module by module, and what comes of it when it is read back.
#[test]
fn a_plan_is_exported_as_a_policy_and_read_back() {
    let sandbox = Sandbox::new();
    let problem = format!("{NETWORK} -m rtx-4090 -b 60%");
    sandbox.ok(&format!("plan {problem} --method pooch --evaluations 200 -o plan.json"));
    sandbox.ok("export plan.json --to checkpoint-policy -o ops.json");
    sandbox.ok("export plan.json --to modules -o modules.json");
    let (plan, ops) = (json_of(&sandbox.text("plan.json")), json_of(&sandbox.text("ops.json")));
    let ops = ops["ops"].as_object().expect("ops by key");
    let decided = |choice: &str| {
        let decisions = plan["content"]["decisions"].as_array().expect("a list").iter();
        decisions.filter(|decision| decision["choice"] == choice).count()
    };
    let told = |policy: &str| ops.values().filter(|told| *told == policy).count();
    assert_eq!(told("MUST_CPU_OFFLOAD"), decided("swap"));
    assert!(told("PREFER_RECOMPUTE") >= decided("recompute") && decided("recompute") > 0);
    let modules = json_of(&sandbox.text("modules.json"));
    let listed = ["checkpoint", "offload"].map(|list| modules[list].as_array().map_or(0, Vec::len));
    assert!(listed[0] + listed[1] > 0, "{modules}");

    let compare = |file: &str| {
        let command = format!("compare {problem} --methods pooch --evaluations 200 --plan {file}");
        sandbox.json(&format!("{command} --format json"))
    };
    let compared = compare("ops.json");
    let row = |name: &str| {
        let rows = compared["methods"].as_array().expect("rows").iter();
        rows.clone().find(|row| row["method"] == name).expect("a row").clone()
    };
    // The same decisions under the same policy of copies take the same time.
    assert_eq!(row("policy")["iteration_ns"], row("pooch")["iteration_ns"]);
    assert!(row("policy")["gap"].as_f64().is_some_and(|gap| gap >= 0.0));
}
