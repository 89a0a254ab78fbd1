//! Profiling, running and checking on the host device.

use schema::{Document, PlanSeries};
use serde_json::Value;

use crate::sandbox::Sandbox;

/// Quick to measure: what is tested is not how well.
const QUICK: &str = "--warmup 1 --repeats 2 --bandwidth 2GB/s --latency 10us";

fn profiled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("profile plain20 --batch 8 --image 32 {QUICK} --sample zvc -o p"));
    sandbox
}

fn plan(sandbox: &Sandbox, options: &str) {
    sandbox.ok(&format!("plan p/trace.json -m p/machine.json {options} -o plan.json"));
}

const RUN: &str = "run plan.json --trace p/trace.json -m p/machine.json";

#[test]
fn a_network_is_profiled_planned_run_and_reported() {
    let sandbox = profiled();
    let files = ["codec-models.json", "machine.json", "samples.parquet", "trace.json"];
    let mut written: Vec<_> = std::fs::read_dir(sandbox.path("p"))
        .expect("the folder was made")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .collect();
    written.sort();
    assert_eq!(written, files);

    plan(&sandbox, "-b 70% --method pooch");
    let shown = sandbox.ok(&format!("{RUN} --iterations 3 -o timeline.json"));
    for part in ["iteration", "over in-core", "memory", "equal", "loss after the last"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let timeline: Value = serde_json::from_str(&sandbox.text("timeline.json")).expect("JSON");
    assert_eq!(timeline["content"]["basis"], "measured");

    sandbox.ok("report plan.json timeline.json --trace p/trace.json -o page");
    let page = sandbox.text("page/index.html");
    assert!(page.contains("Predicted against measured, what differs most"), "no such table");
    assert!(page.contains("Measured on host"), "the measured timeline is not shown");
}

#[test]
fn zeros_are_counted_by_tensor_and_epoch() {
    let sandbox = Sandbox::new();
    let shown = sandbox.ok(&format!(
        "profile plain20 --batch 2 --image 32 {QUICK} --epochs 2 --epoch-iterations 2 -o p"
    ));
    assert!(shown.contains("after epoch"), "{shown}");
    let rows: Vec<experiments::zeros::TensorZeros> =
        experiments::tables::read_parquet(&sandbox.path("p/zeros.parquet"))
            .expect("it was written");
    let of_epoch = |epoch| rows.iter().filter(move |row| row.epoch == epoch);
    assert_eq!(of_epoch(0).count(), of_epoch(1).count());
    assert_eq!(of_epoch(0).count() * 2, rows.len());
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row.zeros)));
    // What a ReLU makes is neither dense nor empty.
    let relu = of_epoch(1).find(|row| row.name.contains("relu") || row.name.contains("act"));
    assert!(relu.is_some_and(|row| row.zeros > 0.05 && row.zeros < 0.95), "{relu:?}");

    // How smooth they are tells what SZ makes of them: of what the model has not seen, too.
    let relu = relu.expect("it is there");
    let (texture, deviation) = relu.texture().expect("it was looked at");
    assert!(texture.runs > 0.0 && texture.runs <= relu.zeros && deviation > 0.0, "{relu:?}");
    assert!(relu.sizes().windows(2).all(|pair| pair[0].1 < pair[1].1), "{relu:?}");
    let fitted = sandbox.ok("fit p/zeros.parquet -o sz.json");
    for part in ["bundled, of other networks", "of half of the layers, on the other"] {
        let line = fitted.lines().find(|line| line.starts_with(part)).expect("a line");
        let median = line.split_whitespace().rev().nth(5).and_then(|text| text.parse::<f64>().ok());
        assert!(median.is_some_and(|percent| percent < 25.0), "{fitted}");
    }
    assert!(sandbox.text("sz.json").contains("value_permille"), "no model");
    // So does JPEG-ACT, which has a size of each feature map.
    let maps: Vec<_> =
        rows.iter().filter_map(|row| Some((row.jpeg_act_l?, row.jpeg_act_h?))).collect();
    assert!(maps.len() > 40 && maps.iter().all(|(low, high)| high <= low), "{maps:?}");
    let read =
        fitted.lines().find(|line| line.starts_with("what convolutions read")).expect("a line");
    let ratios = read.split_whitespace().rev().take(2).map(|ratio| ratio.trim_end_matches('x'));
    let ratios: Vec<f64> = ratios.filter_map(|ratio| ratio.parse().ok()).collect();
    assert!(ratios[0] > ratios[1] && ratios[1] > 4.0, "{fitted}");
    // Zeros by layer and epoch, as the networks that come with tidegate have them.
    sandbox.ok("fit p/zeros.parquet -o zeros.toml");
    let (toml, permille) = (sandbox.text("zeros.toml"), (1000.0 * relu.zeros).round());
    let line = toml.lines().find(|line| line.starts_with(&format!("\"{}\"", relu.name)));
    assert!(line.is_some_and(|line| line.ends_with(&format!(", {permille}]"))), "{toml}");

    // A training is planned with what was counted, epoch by epoch; not with another network's.
    let planned =
        "epochs p/trace.json -m p/machine.json -b 95% --epochs 0..2 --method sc --codecs zvc";
    let ranges = sandbox.json(&format!("{planned} --zeros p/zeros.parquet --format json"));
    assert!(ranges[0]["compressed"].as_u64().is_some_and(|count| count > 0), "{ranges}");

    // Its plans compute the trace with those zeros, which they name.
    sandbox.ok(&format!("{planned} --zeros p/zeros.parquet -o series.json"));
    let series = PlanSeries::read(&sandbox.path("series.json")).expect("it was written");
    let last = series.plans.last().expect("epochs have a plan");
    std::fs::write(sandbox.path("last.json"), last.plan.to_json()).expect("there is room");
    let verified = sandbox.ok("verify last.json --trace p/trace.json");
    assert!(verified.contains("computes"), "{verified}");
    std::fs::rename(sandbox.path("p/zeros.parquet"), sandbox.path("zeros.parquet")).expect("there");
    sandbox.refuses("verify last.json --trace p/trace.json", 2, "p/zeros.parquet: put them there");

    // A share that is none, and a file that is none.
    let zeros = experiments::zeros::TensorZeros { zeros: f64::NAN, ..rows[0].clone() };
    let file = schema::PendingFile::create(&sandbox.path("nan.parquet")).expect("a folder");
    experiments::tables::write_parquet(&[zeros], file).expect("written");
    sandbox.write("short.parquet", "PAR1");
    for name in ["nan.parquet", "short.parquet"] {
        sandbox.refuses(&format!("{planned} --zeros {name}"), 2, name);
    }

    sandbox.ok(&format!("profile plain20 --batch 3 --image 32 {QUICK} -o q"));
    let other = format!("{planned} --zeros zeros.parquet").replace("p/trace", "q/trace");
    sandbox.refuses(&other, 2, "zeros.parquet");
    sandbox.refuses(&other, 2, "beside the trace");
    assert_eq!(sandbox.run(planned).code, 2);
}

#[test]
fn what_was_measured_is_an_object_for_programs() {
    let sandbox = profiled();
    plan(&sandbox, "-b 70% --method swap-opt");
    let run = sandbox.json(&format!("{RUN} --iterations 2 --format json"));
    assert_eq!(run["arena_bytes"]["measured"], run["arena_bytes"]["predicted"]);
    assert_eq!(run["host_arena_bytes"]["measured"], run["host_arena_bytes"]["predicted"]);
    assert!(run["iteration_ns"]["measured"].as_u64().is_some_and(|time| time > 0));
    assert!(run["slowdown"]["measured"].as_f64().is_some_and(|slowdown| slowdown > 0.0));
    let alone = sandbox.json(&format!("{RUN} --iterations 1 --no-in-core --format json"));
    assert_eq!(alone.get("slowdown"), None);
}

#[test]
fn plans_that_compress_are_run_too() {
    let sandbox = profiled();
    let codecs = "--codecs zvc --codec-models p/codec-models.json";
    plan(&sandbox, &format!("-b 90% --method sc {codecs}"));
    let run = sandbox.json(&format!("{RUN} --iterations 1 --format json"));
    assert_eq!(run["arena_bytes"]["measured"], run["arena_bytes"]["predicted"]);
    assert!(run["outside_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{run}");
    let damaged = sandbox.run(&format!("{RUN} --inject corrupt:1"));
    assert_eq!(damaged.code, 1, "{}", damaged.stderr);
    assert!(damaged.stderr.contains("decompress") || damaged.stderr.contains("codec"));
}

#[test]
fn what_goes_wrong_is_named_and_nothing_is_written() {
    let sandbox = profiled();
    plan(&sandbox, "-b 70% --method swap-all");
    for (fault, said) in [
        ("copy-out:2", "the link failed"),
        ("copy-in:1", "the link failed"),
        ("host-memory", "no host memory"),
    ] {
        let run = sandbox.run(&format!("{RUN} --inject {fault} -o timeline.json"));
        assert_eq!(run.code, 1, "{fault}: {}", run.stderr);
        assert!(run.stderr.contains(said) && run.stderr.contains("action"), "{}", run.stderr);
        assert!(!sandbox.files().contains(&"timeline.json".to_string()));
    }
    let late = sandbox.ok(&format!("{RUN} --inject delay:h2d:1:3ms --iterations 1"));
    assert!(late.contains("iteration"));
    assert_eq!(sandbox.run(&format!("{RUN} --inject fire")).code, 2);
}

/// Killed at any moment, a run leaves no timeline that could be taken for a whole one.
#[test]
fn a_killed_run_leaves_nothing_half_written() {
    let sandbox = profiled();
    plan(&sandbox, "-b 70% --method swap-all");
    let before = sandbox.files();
    let arguments = format!("{RUN} --iterations 1000000 -o timeline.json");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments.split_whitespace())
        .current_dir(sandbox.path("."))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the command starts");
    // Its temporary file is the first thing that it makes.
    while sandbox.files() == before {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    child.kill().expect("it can be killed");
    assert!(!child.wait().expect("it ends").success());
    assert!(!sandbox.files().contains(&"timeline.json".to_string()));
    // And nothing in the way of the next one.
    sandbox.ok(&format!("{RUN} --iterations 1 -o timeline.json"));
}

#[test]
fn plans_are_refused_that_are_not_for_this_machine_or_trace() {
    let sandbox = profiled();
    plan(&sandbox, "-b 70% --method swap-all");
    let other = sandbox.run("run plan.json --trace p/trace.json -m titan-v");
    assert_eq!(other.code, 2, "{}", other.stderr);
    sandbox.ok(&format!("profile plain20 --batch 9 --image 32 {QUICK} -o q"));
    let other = sandbox.run("run plan.json --trace q/trace.json -m p/machine.json");
    assert_eq!(other.code, 4, "{}", other.stderr);
    sandbox.ok("import tests/recordings/small.dtr.jsonl -o recorded.json");
    sandbox.refuses("run plan.json --trace recorded.json -m p/machine.json", 2, "tidegate profile");

    let mut unsafe_plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
    let actions = unsafe_plan["content"]["actions"].as_array_mut().expect("a list");
    let copy = actions.iter_mut().find(|action| action["task"]["d2h"].is_number());
    copy.expect("a swap").as_object_mut().expect("an object").remove("after");
    sandbox.write("plan.json", &unsafe_plan.to_string());
    assert_eq!(sandbox.run(RUN).code, 4);
}

/// Activations and gradients in 16 bits: half of the memory from profile to run, and the network is
/// made again as it was measured.
#[test]
fn a_network_in_16_bits_is_profiled_planned_and_run() {
    let sandbox = profiled();
    let narrow = format!("profile plain20 --batch 8 --image 32 --dtype bf16 {QUICK} -o h");
    sandbox.ok(&narrow);
    let activations = |file: &str| -> u64 {
        let trace: Value = serde_json::from_str(&sandbox.text(file)).expect("JSON");
        let tensors = trace["content"]["tensors"].as_array().expect("a list");
        let made = tensors.iter().filter(|tensor| tensor["role"] == "activation");
        made.map(|tensor| tensor["bytes"].as_u64().expect("a number")).sum()
    };
    let (wide, narrow) = (activations("p/trace.json"), activations("h/trace.json"));
    assert!(narrow * 2 < wide * 11 / 10 && narrow * 2 >= wide, "{narrow} of {wide}");

    sandbox.ok("plan h/trace.json -m h/machine.json -b 80% --method pooch -o half.json");
    let run = "run half.json --trace h/trace.json -m h/machine.json --iterations 1";
    let measured = sandbox.json(&format!("{run} --format json"));
    assert_eq!(measured["arena_bytes"]["measured"], measured["arena_bytes"]["predicted"]);
    // What ops compute on lies outside of the arena.
    assert!(measured["outside_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{measured}");
    assert!(sandbox.ok(run).contains("loss after the last"));
    // The host device has no graphs, and a graph needs an iteration before it.
    for (more, said) in [("", "no graphs"), (" --warmup 0", "--warmup 1 or more")] {
        sandbox.refuses(&format!("{run} --graph{more}"), 2, said);
    }
}

#[test]
fn a_check_runs_every_plan_and_says_how_well_they_were_predicted() {
    let sandbox = Sandbox::new();
    let shown = sandbox.ok(&format!(
        "check plain20:batch=8:image=32 bert-tiny:batch=1 {QUICK} --budgets 70% --methods swap-opt,selective \
         --iterations 1 -o page"
    ));
    for part in ["plain20:batch=8:image=32", "bert-tiny:batch=1", "Kendall's tau", "in the median"]
    {
        assert!(shown.contains(part) || part == "Kendall's tau", "{part}\n{shown}");
    }
    assert!(shown.contains("every plan took the very bytes"), "{shown}");
    let page = sandbox.text("page/index.html");
    assert!(page.contains("Predicted against measured iteration times"));
}

/// Half of what an iteration needs at once is enough to measure it, plan it and run it; what
/// outlives the iterations has the bits that it has with all of it.
#[test]
fn what_does_not_fit_is_measured_within_a_budget() {
    let sandbox = Sandbox::new();
    let network = "stories260k --batch 1 --sequence 128";
    let quick = "--warmup 1 --repeats 2 --bandwidth 4GB/s";
    let said = sandbox.ok(&format!("profile {network} {quick} --budget 70% -o p"));
    assert!(said.contains(" under a plan within "), "{said}");
    let trace = sandbox.text("p/trace.json");
    assert!(trace.contains(
        "Ops were timed, from start to end but for what copies slowed them by, under the "
    ));
    plan(&sandbox, "-b 70% --evaluations 200");
    let measured = sandbox.json(&format!("{RUN} --iterations 9 --format json"));
    assert_eq!(measured["same_bits"], true, "{measured}");
    assert_eq!(measured["arena_bytes"]["measured"], measured["arena_bytes"]["predicted"]);
    let alone = sandbox.json(&format!("{RUN} --no-in-core --format json"));
    assert!(alone["same_bits"].is_null(), "{alone}");
    let checked = sandbox.json(&format!(
        "check stories260k:batch=1:sequence=128 {quick} --within 70% --methods tide --evaluations 200 \
         --iterations 1 --format json"
    ));
    let table = &checked["networks"][0];
    assert!(table["within_bytes"].as_u64() < table["peak_bytes"].as_u64(), "{table}");
    assert_eq!(table["plans"].as_array().map(Vec::len), Some(1), "one budget, one method: {table}");
    assert_eq!(table["plans"][0]["same_bits"], true, "{table}");
    let refused = sandbox.run(&format!("profile {network} {quick} --budget 1KB -o other"));
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(!sandbox.path("other/trace.json").exists());
}
