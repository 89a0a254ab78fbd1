//! Every recording in `../shared/traces`, whole: imported, planned, proven.

use std::path::PathBuf;

use serde_json::Value;

use crate::sandbox::{Sandbox, repository};

/// The two recordings with the most ops, on which PooCH's search takes a while.
const LARGE: [&str; 2] = ["transformer", "inceptionv4"];

fn folder() -> Option<PathBuf> {
    let folder = repository().join("../shared/traces");
    if !folder.is_dir() {
        eprintln!("skipped: the folder of recordings {} is absent", folder.display());
        return None;
    }
    Some(folder)
}

/// Whether to plan with every method under every budget, which takes minutes.
fn thorough() -> bool {
    std::env::var_os("TIDEGATE_THOROUGH").is_some()
}

/// Methods that evaluate hundreds of plans.
const SEARCHES: [&str; 6] =
    ["pooch", "swap-opt", "capuchin", "swapadvisor", "rotor-offload", "tide"];

/// Methods that solve integer programmes.
const PROGRAMMES: [&str; 4] = ["checkmate", "poet", "autotm", "ilp"];

/// Plans with every method under each budget, proves every plan, and returns arena over peak.
fn plan_all(name: &str, file: &str, ratios: &mut Vec<f64>) {
    let Some(folder) = folder() else { return };
    let sandbox = Sandbox::new();
    let import = format!("import {} -o trace.json", folder.join(file).display());
    sandbox.ok(&import);
    let methods = sandbox.json("list methods --format json");
    let methods = methods.as_array().expect("a list").iter();
    let methods: Vec<&str> = methods.filter_map(|method| method["name"].as_str()).collect();
    for budget in [80, 60, 50, 40, 30] {
        let mut times = std::collections::BTreeMap::new();
        for method in methods.iter().copied() {
            let searches = SEARCHES.contains(&method);
            let long = searches && LARGE.contains(&name) && budget < 80;
            if (long || PROGRAMMES.contains(&method)) && !thorough() {
                continue;
            }
            let problem = format!("trace.json -m titan-v -b {budget}% --method {method}");
            let run = sandbox
                .run(&format!("plan {problem} --evaluations 300 --format json -o plan.json"));
            let shown: Value = serde_json::from_str(&run.stdout).expect("JSON");
            let row = &shown["methods"][0];
            if row["status"] != "ok" {
                assert_eq!(run.code, 3, "{name} {budget} {method}: {}", run.stderr);
                continue;
            }
            sandbox.ok("verify plan.json --trace trace.json");
            let figure = |name: &str| row[name].as_u64().expect("a figure");
            ratios.push(figure("arena_bytes") as f64 / figure("peak_bytes") as f64);
            times.insert(method, figure("iteration_ns"));
        }
        assert!(!times.contains_key("in-core"), "{name} does not fit {budget} %");
        for (better, worse) in [("swap-opt", "swap-all"), ("pooch", "swap-opt")] {
            if let (Some(better), Some(worse)) = (times.get(better), times.get(worse)) {
                assert!(better <= worse, "{name} at {budget} %: {times:?}");
            }
        }
    }
}

#[test]
fn every_plan_is_proven_and_wastes_little_memory() {
    let mut ratios = Vec::new();
    for (name, file) in [
        ("resnet32", "resnet32.dtr.jsonl"),
        ("unet", "unet.dtr.jsonl"),
        ("transformer", "transformer.dtr.jsonl"),
        ("inceptionv4", "inceptionv4.dtr.jsonl"),
        ("resnet50-p100", "resnet50-p100.opgraph.json"),
        ("vgg16-p100", "vgg16-p100.opgraph.json"),
    ] {
        plan_all(name, file, &mut ratios);
    }
    ratios.sort_by(f64::total_cmp);
    if let Some(median) = ratios.get(ratios.len() / 2) {
        eprintln!("arena over peak: median {median:.4} of {} plans", ratios.len());
        assert!(*median <= 1.02, "{median}");
    }
}
