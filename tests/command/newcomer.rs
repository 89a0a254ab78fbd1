//! What a newcomer meets first: figures that agree wherever they are printed, and words that lead on.

use crate::sandbox::Sandbox;

const SMALL: &str = "tests/recordings/small.dtr.jsonl -m titan-v";

#[test]
fn a_network_that_is_imported_is_told_from_a_recording() {
    let sandbox = Sandbox::new();
    for file in ["model.onnx", "model.toml"] {
        sandbox.write(file, "\u{8}\u{7}\u{12}");
        sandbox.refuses(&format!("import {file}"), 2, "a network is no recording");
        sandbox.refuses(&format!("import {file}"), 2, "--batch and --machine");
    }
    sandbox.write("notes.txt", "nothing that was recorded");
    sandbox.refuses("import notes.txt", 2, "no recording that is known here");
}

/// What is suggested was planned: with it there is a plan.
#[test]
fn a_budget_that_is_suggested_suffices() {
    let sandbox = Sandbox::new();
    for (problem, budget, methods) in [
        (SMALL, "10%", "pooch,in-core"),
        (SMALL, "20%", "swap-all"),
        ("resnet18-host -m titan-v", "99%", "in-core"),
        ("alexnet --batch 64 -m titan-v", "300MB", "swap-opt,sqrt-n"),
    ] {
        let asked = format!("compare {problem} -b {budget} --methods {methods}");
        let run = sandbox.run(&asked);
        assert_eq!(run.code, 3, "{asked}: {}", run.stderr);
        let found = run.stdout.split_once("; --budget ").expect("a budget is suggested").1;
        let (budget, rest) = found.split_once(" would do with ").expect("with a method");
        let method = rest.split([';', '.']).next().expect("a name");
        sandbox.ok(&format!("plan {problem} -b {budget} --method {method}"));
        let json = sandbox.run(&format!("{asked} --format json")).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["sufficient"]["method"], method);
        let bytes = json["sufficient"]["budget_bytes"].as_u64().expect("a budget");
        assert_eq!(format!("{}MB", bytes / 1_000_000), budget);
    }
}

/// A refusal says what of the memory outlives the iteration, which nothing but moving state makes less, and a budget
/// that was planned with, below what the iteration takes in core.
#[test]
fn what_would_do_is_less_than_in_core_where_a_plan_needs_less() {
    let sandbox = Sandbox::new();
    let problem = "gpt2 --batch 8 -m titan-v";
    let asked = format!("compare {problem} -b 3GB --methods swap-all,in-core");
    let refused = sandbox.run(&asked);
    assert_eq!(refused.code, 3, "{}{}", refused.stdout, refused.stderr);
    let json = sandbox.run(&format!("{asked} --format json")).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let bytes = |of: &serde_json::Value| of.as_u64().expect("bytes");
    let [fixed, peak] = ["fixed_bytes", "peak_bytes"].map(|field| bytes(&json["in_core"][field]));
    let enough = bytes(&json["sufficient"]["budget_bytes"]);
    assert!(fixed < enough && enough < peak, "{fixed} {enough} {peak}");
    let said = format!("{} are parameters, optimizer state and inputs", schema::Bytes(fixed));
    assert!(refused.stdout.contains(&said), "{}", refused.stdout);
    sandbox.ok(&format!("plan {problem} -b {enough}B --method swap-all"));
}

/// What compute waits is one figure: the plan's, the timeline's, and the sum of what is printed by cause.
#[test]
fn whoever_prints_how_long_compute_waits_prints_the_same() {
    let sandbox = Sandbox::new();
    for (problem, method) in [(SMALL, "swap-all"), ("resnet18-host -m titan-v", "vdnn-all")] {
        let plan = format!("plan {problem} -b 90% --method {method} -o plan.json --format json");
        let stall = sandbox.json(&plan)["methods"][0]["stall_ns"].as_u64().expect("a time");
        let timeline = sandbox.json("simulate plan.json --format json");
        let timeline = &timeline["content"];
        let compute = timeline["intervals"].as_array().expect("a list").iter();
        let busy: u64 = (compute.filter(|interval| interval["lane"] == "compute"))
            .map(|interval| {
                let at = |field: &str| interval[field].as_u64().expect("a time");
                at("end_ns") - at("start_ns")
            })
            .sum();
        assert_eq!(timeline["iteration_ns"].as_u64().map(|all| all - busy), Some(stall));
        let text = sandbox.ok("simulate plan.json");
        let waits = text.lines().filter(|line| line.starts_with("compute waits for"));
        let share = |line: &str| line.split_whitespace().rev().nth(1)?.parse::<f64>().ok();
        let shares: f64 = waits.filter_map(share).sum();
        let all = 100.0 * stall as f64 / timeline["iteration_ns"].as_f64().expect("a time");
        assert!((shares - all).abs() < 0.3, "{shares} % of {all} %: {text}");
        sandbox.ok("report plan.json -o page");
        let page = sandbox.text("page/index.html");
        assert_eq!(page.contains("Compute never waits"), stall == 0, "{method} waits {stall} ns");
    }
}

/// Rows of one question are held against one bound, in a study as in a comparison, and who ties wins.
#[test]
fn a_question_has_one_bound_and_a_tie_has_no_loser() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "study.toml",
        "description = 'd'\n[[group]]\nnetworks = ['alexnet']\nbatches = [64]\nmachines = ['titan-v']\n\
         budgets = ['99%', '110%']\nmethods = ['swap-all', 'swap-opt', 'tide']\nevaluations = 100\n",
    );
    let text = sandbox.ok("study study.toml -o out");
    let fastest = text.lines().find(|line| line.starts_with("Fastest, or as fast as any"));
    let fastest = fastest.expect("a sentence");
    assert!(fastest.contains("swap-opt") && fastest.contains("tide 2"), "{text}");
    let rows: Vec<experiments::tables::Row> =
        experiments::tables::read_parquet(&sandbox.path("out").join("results.parquet"))
            .expect("a table");
    let bound = |row: &experiments::tables::Row| {
        let (time, gap) = (row.answer.iteration?, row.answer.gap?);
        Some((time.0 as f64 / (1.0 + gap)).round() as u64)
    };
    let methods = "--methods swap-all,tide --evaluations 100 --format json";
    let problem = "alexnet --batch 64 -m titan-v -b 99%";
    let compared = sandbox.json(&format!("compare {problem} {methods}"));
    let bounds: Vec<u64> = rows[..3].iter().filter_map(bound).collect();
    assert!(bounds.len() > 1, "{text}");
    for of_row in bounds {
        assert!(compared["bound_ns"].as_u64().expect("a bound").abs_diff(of_row) <= 1, "{text}");
    }
}

/// Of GPUs that share a host link each has a share of it: a copy takes so many times as long, but for what it
/// takes to begin.
#[test]
fn a_shared_link_is_as_slow_as_its_share() {
    let sandbox = Sandbox::new();
    let copies = |machine: &str, to: &str| -> Vec<u64> {
        let problem = format!("tests/recordings/small.dtr.jsonl -m {machine} -b 90%");
        sandbox.ok(&format!("plan {problem} --method swap-all -o {to}"));
        let plan = sandbox.content(to);
        let actions = plan["actions"].as_array().expect("a list").iter();
        let copies = actions.filter(|a| !a["task"]["d2h"].is_null() || !a["task"]["h2d"].is_null());
        copies.map(|action| action["duration_ns"].as_u64().expect("a time")).collect()
    };
    let alone = copies("titan-v", "alone.json");
    let four = copies("titan-v --share-link 4", "four.json");
    let latency = scenarios::machine("titan-v").expect("it is bundled").link.latency.0;
    assert!(!alone.is_empty() && alone.len() == four.len());
    for (alone, four) in alone.iter().zip(&four) {
        let (bytes, of_four) = (alone - latency, four - latency);
        assert!(of_four.abs_diff(4 * bytes) <= 4 + of_four / 1_000_000, "{alone} {four}");
    }
    assert_eq!(copies("titan-v --share-link 1", "one.json"), alone);
    assert_eq!(copies("titan-v+share-4", "named.json"), four);
    sandbox.ok("verify four.json --trace tests/recordings/small.dtr.jsonl");

    sandbox.write(
        "links.toml",
        "description = 'd'\n[[group]]\nnetworks = ['alexnet']\nbatches = [64]\nmachines = ['titan-v']\n\
         links = ['own', 'pcie4', '8GB/s']\nmethods = ['swap-all']\n",
    );
    let points = sandbox.json("study links.toml --share-link 4 --list --format json");
    let links: Vec<_> = points.as_array().expect("a list").iter().map(|p| &p["link"]).collect();
    assert_eq!(links, ["own", "pcie4+share-4", "2.0 GB/s"]);
    let text = sandbox.ok("study links.toml --share-link 4 -o out");
    assert!(text.contains("pcie4+share-4") && text.contains("titan-v+share-4"), "{text}");
}

/// What one op needs at once is what its operands and workspace take, not the whole iteration's peak.
#[test]
fn no_op_of_a_small_network_needs_the_whole_peak() {
    let sandbox = Sandbox::new();
    let problem = "resnet18 --batch 64 -m titan-v -b 40% --evaluations 10 --format json";
    let refused = sandbox.run(&format!("plan {problem}"));
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    let json: serde_json::Value = serde_json::from_str(&refused.stdout).expect("JSON");
    let [least, peak] = [&json["least_budget_bytes"], &json["in_core"]["peak_bytes"]]
        .map(|bytes| bytes.as_u64().expect("an amount"));
    assert!(least < peak / 2, "{least} of {peak}");
    assert!(refused.stdout.contains("stem.norm_ip_grad"), "{}", refused.stdout);
}
