//! From a trace to a plan, a timeline and pictures of it.

use schema::{Document, Plan};
use serde_json::Value;

use crate::sandbox::Sandbox;

const SMALL: &str = "tests/recordings/small.dtr.jsonl --machine titan-v --budget 60%";

#[test]
fn a_plan_is_simulated_and_exported() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("plan {SMALL} --method pooch --output plan.json"));
    sandbox.ok("simulate plan.json -o timeline.json");
    sandbox.ok("export timeline.json --to perfetto -o perfetto.json");
    let perfetto: Value = serde_json::from_str(&sandbox.text("perfetto.json")).expect("JSON");
    assert!(!perfetto["traceEvents"].as_array().expect("a list").is_empty());
    sandbox
        .ok("export timeline.json --to svg --width 640 --trace tests/recordings/small.dtr.jsonl \
                -o timeline.svg");
    let picture = sandbox.text("timeline.svg");
    assert!(picture.starts_with("<svg") && picture.contains("640"), "{picture}");
    let files = ["perfetto.json", "plan.json", "timeline.json", "timeline.svg"];
    assert_eq!(sandbox.files(), files);
}

#[test]
fn documents_go_through_pipes() {
    let sandbox = Sandbox::new();
    let plan = sandbox.ok(&format!("plan {SMALL} -o -"));
    assert_eq!(sandbox.run_with_input("verify -", &plan).code, 0);
    let timeline = sandbox.run_with_input("simulate - -o -", &plan).stdout;
    let by_format = sandbox.run_with_input("simulate - --format json", &plan).stdout;
    assert_eq!(timeline, by_format);
    let picture = sandbox.run_with_input("export - --to svg -o -", &timeline);
    assert!(picture.stdout.starts_with("<svg"), "{}", picture.stderr);
    let trace = sandbox.ok("import tests/recordings/small.dtr.jsonl -o -");
    sandbox.write("trace.json", &trace);
    assert_eq!(sandbox.ok("plan trace.json -m titan-v -b 60% -o -"), plan);
    assert_eq!(sandbox.run_with_input("plan - -m titan-v -b 60% -o -", &trace).stdout, plan);
}

#[test]
fn a_plan_prints_its_row_of_a_comparison() {
    let sandbox = Sandbox::new();
    let plan = sandbox.json(&format!("plan {SMALL} --method swap-all --format json"));
    let comparison = sandbox.json(&format!("compare {SMALL} --methods swap-all --format json"));
    let without_seconds = |mut comparison: Value| {
        comparison["methods"][0]["plan_seconds"].take();
        comparison
    };
    assert_eq!(without_seconds(plan), without_seconds(comparison));
}

#[test]
fn an_unsafe_plan_is_refused_and_the_two_actions_are_named() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("plan {SMALL} --method swap-all -o plan.json"));
    let plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");

    // Without its dependency, the first copy out may read what is not yet written.
    let mut early = plan;
    let actions = early["content"]["actions"].as_array_mut().expect("a list");
    let copy = actions.iter_mut().find(|action| action["task"]["d2h"].is_number());
    copy.expect("a swap").as_object_mut().expect("an object").remove("after");
    sandbox.write("early.json", &early.to_string());
    insta::assert_snapshot!(sandbox.fails("verify early.json"));
    assert_eq!(sandbox.run("simulate early.json").code, 4);

    // A buffer moved to where another lies that is read only later.
    sandbox.ok("plan tests/recordings/small.dtr.jsonl -m titan-v --method in-core -o plan.json");
    let mut overlapping: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
    let content = &mut overlapping["content"];
    let actions = content["actions"].as_array().expect("a list");
    let uses = |action: &Value, how: &str| action[how].as_array().cloned().unwrap_or_default();
    let read_after = |at: usize, buffer: &Value| {
        !uses(&actions[at], "reads").contains(buffer)
            && actions[at + 1..].iter().any(|later| uses(later, "reads").contains(buffer))
    };
    let held = uses(&actions[1], "writes")[0].clone();
    let moved = (2..actions.len()).filter(|at| read_after(*at, &held));
    let moved = moved.flat_map(|at| uses(&actions[at], "writes")).next().expect("another buffer");
    let index = |buffer: &Value| buffer.as_u64().expect("a number") as usize;
    let (held, moved) = (index(&held), index(&moved));
    content["buffers"][moved]["address"] = content["buffers"][held]["address"].clone();
    sandbox.write("overlapping.json", &overlapping.to_string());
    insta::assert_snapshot!(sandbox.fails("verify overlapping.json"));
}

#[test]
fn the_trace_of_a_bundled_network_is_found_from_the_plan_alone() {
    let sandbox = Sandbox::new();
    let method = "--method swap-all -b 80%";
    sandbox.ok(&format!("plan squeezenet --batch 8 -m pooch-x86 {method} -o plan.json"));
    let verified = sandbox.ok("verify plan.json");
    assert!(verified.contains("computes squeezenet (batch 8)"), "{verified}");
    // What memory holds is drawn from a trace alone.
    sandbox.ok("report plan.json -o page");
    assert!(sandbox.text("page/index.html").contains("What memory holds"));
    assert!(sandbox.path("page/memory.svg").exists(), "{:?}", sandbox.files());
    sandbox.refuses("report plan.json --trace absent.json -o page", 2, "absent.json");
}

/// Copies that take from compute what it needs make iterations longer, and plans say by how much.
#[test]
fn copies_slow_compute_on_machines_that_say_so() {
    let sandbox = Sandbox::new();
    for (name, share) in [("free", "1.0"), ("half", "0.5")] {
        let machine = format!("inherits = \"p100\"\n[link]\nbeside_copy = {share}\n");
        sandbox.write(&format!("{name}.toml"), &machine);
        sandbox.ok(&format!(
            "plan resnet18-cifar10 --batch 512 -m {name}.toml -b 70% --method swap-all -o {name}.json"
        ));
        sandbox.ok(&format!("verify {name}.json"));
    }
    let plan = |name: &str| Plan::read(&sandbox.path(name)).expect("it was written");
    let (free, half) = (plan("free.json"), plan("half.json"));
    assert_eq!([&free, &half].map(|plan| plan.beside_copy_permille), [1000, 500]);
    let [free, half] = [&free, &half].map(|plan| plan.predicted.iteration);
    assert!(half > free && half.0 < 2 * free.0, "{half}, {free}");
}
