//! `tidegate explain`: whether it fits, why not, and what would help.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn explained(sandbox: &Sandbox, arguments: &str) -> Value {
    sandbox.json(&format!("explain {arguments} --format json"))
}

fn bytes(parts: &Value) -> u64 {
    let parts = parts.as_array().expect("a list").iter();
    parts.map(|part| part["bytes"].as_u64().expect("bytes")).sum()
}

const NETWORK: &str = "resnet18 --batch 64 -m titan-v --evaluations 100";

#[test]
fn what_fits_needs_no_remedy() {
    let sandbox = Sandbox::new();
    let found = explained(&sandbox, NETWORK);
    assert_eq!((&found["fits"], &found["certainty"]), (&true.into(), &"sure".into()));
    assert_eq!(found["remedies"].as_array().map(Vec::len), Some(0));
    let memory = |field: &str| found["memory"][field].as_u64().expect("bytes");
    // What is reserved holds what is allocated, and both parts and whole are the peak.
    assert!(memory("reserved_bytes") >= memory("allocated_bytes"));
    assert_eq!(memory("device_bytes"), memory("budget_bytes") + memory("outside_bytes"));
    for parts in ["kinds", "layers"] {
        assert_eq!(bytes(&found["peak"][parts]), memory("allocated_bytes"), "{parts}");
    }
    assert_eq!(found["peak"]["largest"].as_array().map(Vec::len), Some(10));
}

/// The command that a remedy names makes the plan whose figures it states.
#[test]
fn each_remedy_is_the_plan_that_its_command_makes() {
    let sandbox = Sandbox::new();
    let found = explained(&sandbox, "resnet18 --batch 64 -m titan-v -b 1GB");
    assert_eq!(found["fits"], false);
    let remedies = found["remedies"].as_array().expect("a list");
    assert!(remedies.iter().filter(|remedy| remedy["fits"] == true).count() > 3, "{remedies:#?}");
    for remedy in remedies.iter().filter(|remedy| remedy["fits"] == true) {
        let command = remedy["command"].as_str().expect("a text");
        let command = command.strip_prefix("tidegate ").expect("ours").replace(" -o plan.json", "");
        let made = sandbox.json(&format!("{command} --format json"));
        assert_eq!(made["methods"][0]["iteration_ns"], remedy["iteration_ns"], "{command}");
    }
    // What fits comes first.
    let fits: Vec<bool> = remedies.iter().map(|remedy| remedy["fits"] == true).collect();
    assert!(fits.is_sorted_by(|one, other| one >= other), "{fits:?}");
}

#[test]
fn recordings_snapshots_and_plans_are_explained() {
    let sandbox = Sandbox::new();
    let kineto = explained(&sandbox, "tests/recordings/small.kineto.json -m titan-v -b 17MB");
    assert_eq!((&kineto["fits"], kineto["peak"]["kinds"].is_array()), (&false.into(), true));
    let snapshot = explained(&sandbox, "tests/recordings/small.snapshot-4.pickle -m titan-v");
    assert_eq!(snapshot["fits"], true);
    assert!(
        snapshot["peak"]["layers"][0]["what"].as_str().is_some_and(|what| what.contains(".py"))
    );
    sandbox.ok("plan resnet18-host -m titan-v -b 70% --method swap-all -o plan.json");
    let plan = explained(&sandbox, "plan.json -m titan-v");
    assert_eq!(plan["fits"], true);
    // An explanation is where a report begins.
    let text = sandbox.ok("explain resnet18-host -m titan-v --format json");
    sandbox.write("explained.json", &text);
    sandbox.ok("report explained.json -o page");
    let page = sandbox.text("page/index.html");
    assert!(page.contains("PyTorch would hold"), "{page}");
}

/// A profile that was made without shapes and memory has times, and nothing that could be planned.
#[test]
fn a_recording_without_tensors_is_refused() {
    let sandbox = Sandbox::new();
    let whole = sandbox.text("tests/recordings/small.kineto.json");
    sandbox.write(
        "bare.json",
        &whole.replace("\"[memory]\"", "\"[else]\"").replace("\"Input Dims\"", "\"Else\""),
    );
    sandbox.ok("import bare.json -o trace.json");
    for command in ["explain bare.json -m t4", "plan trace.json -m t4", "compare trace.json -m t4"]
    {
        sandbox.refuses(command, 2, "record it with record_shapes=True and profile_memory=True");
    }
}

/// PyTorch's own sample of a profile, in less memory than it took.
#[test]
fn a_real_profile_is_explained_in_less_memory() {
    let file = crate::sandbox::repository()
        .join("../shared/traces/kineto/resnet50-b32-v100.kineto.json.gz");
    if !file.exists() {
        return println!("skipped: there is no {}", file.display());
    }
    let sandbox = Sandbox::new();
    let arguments = format!("{} -m v100-sxm -b 2GB --evaluations 200", file.display());
    let found = explained(&sandbox, &arguments);
    assert_eq!((&found["fits"], &found["certainty"]), (&false.into(), &"sure".into()));
    let first = &found["remedies"][0];
    assert_eq!(first["fits"], true, "{found:#}");
    assert!(first["memory_bytes"].as_u64() <= Some(2_000_000_000));
}
