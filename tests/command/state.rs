//! Training whose state does not fit the device.

use schema::{Document, Plan};
use serde_json::Value;

use crate::sandbox::Sandbox;

const NETWORK: &str = "gpt2-characters --batch 1 --optimizer adam -m titan-v --evaluations 300";

/// Six tenths of what an iteration leaves on the device.
fn budget(sandbox: &Sandbox) -> String {
    let all = sandbox.json(&format!("compare {NETWORK} --methods in-core --format json"));
    let fixed = all["in_core"]["fixed_bytes"].as_u64().expect("a number");
    format!("{}kB", fixed * 6 / 10_000)
}

fn copied(moved: &Value, kind: &str) -> [u64; 2] {
    ["d2h_bytes", "h2d_bytes"].map(|way| moved[kind][way].as_u64().expect("a number"))
}

#[test]
fn what_has_no_room_begins_and_ends_on_the_host() {
    let sandbox = Sandbox::new();
    let budget = budget(&sandbox);
    let found =
        sandbox.json(&format!("plan {NETWORK} --budget {budget} -o plan.json --format json"));
    let row = &found["methods"][0];
    assert_eq!((&row["method"], &row["status"]), (&"tide".into(), &"ok".into()), "{found}");
    let [out, back] = copied(&row["moved"], "state");
    assert!(out > 0 && out == back, "the state goes out as often as it comes in: {row}");
    let [bound, time] = [&found["bound_ns"], &row["iteration_ns"]].map(|n| n.as_u64());
    assert!(bound.is_some() && bound <= time, "{found}");

    let verified = sandbox.ok("verify plan.json");
    assert!(verified.starts_with("safe under every timing"), "{verified}");
    let plan = Plan::from_json(&sandbox.text("plan.json"), "plan.json".as_ref()).expect("a plan");
    let homes = plan.host_buffers.iter().filter(|host| host.at_start);
    let (count, ends) = (homes.count(), plan.host_buffers.iter().filter(|host| host.at_end));
    assert!(count > 0 && ends.count() == count);
    assert_eq!(row["moved"]["tensors"], count);
    sandbox.ok("simulate plan.json -o timeline.json");

    let shown = sandbox.ok(&format!("compare {NETWORK} --budget {budget} --methods dtr,tide"));
    let line = shown
        .lines()
        .find(|line| line.contains("copies in each iteration: optimizer state"))
        .expect("a line");
    assert!(line.starts_with("tide") && line.contains("of host memory"), "{line}");
}

#[test]
fn a_host_without_room_or_a_plan_that_may_not_copy_is_told_so() {
    let sandbox = Sandbox::new();
    let budget = budget(&sandbox);
    let command = format!("plan {NETWORK} --budget {budget}");
    sandbox.refuses(&format!("{command} --host-budget 100kB"), 3, "the host would hold");
    sandbox.refuses(&format!("{command} --allow keep,recompute"), 3, "on the device at once");
}

/// The network on a Titan V with another figure.
fn on_machine(sandbox: &Sandbox, figure: &str, value: &str) -> String {
    let (table, field) = figure.split_once('.').expect("a figure of a table");
    let text = format!(
        "inherits = \"titan-v\"\ndescription = \"d\"\n[{table}]\n{field} = \"{value}\"\n\
         [sources]\n{figure} = \"assumed\"\n"
    );
    sandbox.write("machine.toml", &text);
    NETWORK.replace("titan-v", "machine.toml")
}

/// Plans in which the host's processor runs the updates: proven, run as in core, and drawn with a lane of it.
#[test]
fn the_hosts_processor_updates() {
    let sandbox = Sandbox::new();
    let network = "stories260k --batch 8 --sequence 48 --optimizer adam";
    for method in ["zero-offload", "zero-infinity"] {
        let plan =
            format!("plan {network} -m rtx-4090 -b 100% --conventions tidegate --method {method}");
        let found = sandbox.json(&format!("{plan} -o plan.json --format json"));
        let row = &found["methods"][0];
        assert_eq!(copied(&row["moved"], "state"), [0, 0], "{row}");
        let [out, back] = copied(&row["moved"], "gradients");
        assert!(out > 0 && back == 0 && row["moved"]["updates"].as_u64() > Some(0), "{row}");
        sandbox.ok("verify plan.json");
        sandbox.ok("simulate plan.json -o timeline.json");
        let shown = sandbox.ok("run plan.json --warmup 0 --iterations 2");
        let same = "bits of all that outlives the iterations: those of the runs in core";
        assert!(shown.contains(same), "{method}\n{shown}");
    }
    let shown = sandbox.ok(&format!("compare {network} -m rtx-4090 --methods zero-offload"));
    assert!(shown.contains("updates on the host; "), "{shown}");
    let missing = format!("plan {network} -m titan-v --method zero-offload");
    assert!(sandbox.fails(&missing).contains("state `host.updates`"));
    let none = "plan stories260k --batch 8 --sequence 48 -m rtx-4090 --method zero-offload --optimizer none";
    assert!(sandbox.fails(none).contains("optimizer's updates"));
}

/// What has no way to the host is planned for without one where that will do, and else refused with a reason.
#[test]
fn machines_without_a_way_to_the_host() {
    let sandbox = Sandbox::new();
    let budget = budget(&sandbox);
    let network = on_machine(&sandbox, "host.memory", "0GB");
    sandbox.refuses(&format!("plan {network} --budget {budget}"), 3, "the host would hold");
    let whole = format!("compare {network} --budget 97% --methods tide --format json");
    let found = sandbox.json(&whole);
    let row = &found["methods"][0];
    assert_eq!((&row["status"], &row["moved"]), (&"ok".into(), &Value::Null), "{row}");
    for (bandwidth, code, said) in [
        ("1B/s", 3, "correct the link's bandwidth"),
        ("0GB/s", 2, "link.h2d must lie between 1 byte/s"),
    ] {
        let network = on_machine(&sandbox, "link.h2d", bandwidth);
        sandbox.refuses(&format!("plan {network} --budget {budget}"), code, said);
    }
    let unknown = NETWORK.replace("adam", "lion");
    sandbox.refuses(&format!("plan {unknown} --budget {budget}"), 2, "adam-8bit");
}

/// A plan whose state is on a host of terabytes, on this machine: nothing is begun.
#[test]
fn more_memory_than_is_here_is_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    let machine = "inherits = \"rtx-4090\"\ndescription = \"d\"\n[host]\nmemory = \"16TB\"\n\
                   [sources]\n\"host.memory\" = \"assumed\"\n";
    sandbox.write("machine.toml", machine);
    let network = "gpt3-175b --batch 1 --sequence 64 --optimizer adam -m machine.toml";
    let method = "--host-budget 15TB --conventions tidegate --method zero-infinity";
    sandbox.ok(&format!("plan {network} -b 100% {method} -o plan.json"));
    sandbox.refuses("run plan.json", 1, "of this machine's memory");
}
