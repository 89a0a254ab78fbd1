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

/// The rows of the README's tables: a recording's name and its figures. Those that are compared
/// with DTR under budgets have fractions and are no such rows.
fn published(readme: &str) -> Vec<(String, Vec<String>)> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let mut published: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let mut cells = row.split(" | ").map(|cell| cell.trim().replace(',', ""));
        let name = cells.next().unwrap_or_default();
        let cells: Vec<String> = cells.collect();
        let figures = cells.iter().all(|cell| cell.parse::<f64>().is_ok());
        if figures && !published.iter().any(|(other, _)| *other == name) {
            published.push((name, cells));
        }
    }
    published
}

#[test]
fn in_core_figures_equal_the_published_ones() {
    let Some(folder) = folder() else { return };
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("the tables are there");
    let published = published(&readme);
    assert_eq!(published.len(), 6, "{published:?}");
    let sandbox = Sandbox::new();
    for (name, figures) in published {
        let log = folder.join(format!("{name}.dtr.jsonl"));
        let (file, columns) = if log.exists() {
            (log, [1, 2, 3])
        } else {
            (folder.join(format!("{name}.opgraph.json")), [2, usize::MAX, usize::MAX])
        };
        let command = format!("compare {} -m titan-v -b 1000%", file.display());
        let comparison = sandbox.json(&format!("{command} --methods in-core --format json"));
        let in_core = &comparison["in_core"];
        let figure = |name: &str| in_core[name].as_u64().expect("a figure") as f64;
        let published = columns
            .map(|column| figures.get(column).map(|text| text.parse::<f64>().expect("a number")));
        match published {
            [Some(time), Some(peak), Some(fixed)] => {
                assert_eq!(figure("iteration_ns"), time, "{name}");
                assert_eq!(figure("fixed_bytes"), fixed, "{name}");
                assert!((figure("peak_bytes") - peak).abs() <= 1024.0, "{name}");
            }
            // In milliseconds, to three decimals.
            [Some(time), ..] => {
                assert!((figure("iteration_ns") / 1e6 - time).abs() < 0.0006, "{name}");
            }
            _ => panic!("{name} has no published time"),
        }
    }
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
