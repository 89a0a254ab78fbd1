//! Planning with codecs.

use serde_json::Value;

use crate::sandbox::{Sandbox, without_times};

const SMALL: &str = "tests/recordings/small.dtr.jsonl --machine titan-v --budget 50%";

#[test]
fn a_comparison_with_codecs_says_what_they_rest_on() {
    let sandbox = Sandbox::new();
    let command = format!("compare {SMALL} --methods swap-all,sc,tide --codecs zvc --sparsity 60%");
    insta::assert_snapshot!(without_times(&sandbox.ok(&command)));
    let json = sandbox.json(&format!("{command} --format json"));
    let field = |name: &str, field: &str| {
        let rows = json["methods"].as_array().expect("a list");
        rows.iter().find(|row| row["method"] == name).and_then(|row| row[field].as_u64())
    };
    assert_eq!(
        (field("swap-all", "compressed"), field("swap-all", "codec_ns")),
        (Some(0), Some(0))
    );
    assert!(field("sc", "codec_ns") > Some(0));
    // What tells SZ's size at every bound is a model of each.
    let comet = "plan vgg16-cifar10 --batch 8 -m titan-v --method comet --codecs sz:0.15";
    sandbox.ok(&format!("{comet} --lossy -o sz.json"));
    let plan = sandbox.content("sz.json");
    assert_eq!(plan["codecs"][0]["parameter"], 0.15);
    assert!(sandbox.fails(comet).contains("--lossy"), "it changes values");
    // Without a share of zeros no lossless codec has a size, and the user is told.
    let unknown = sandbox.ok(&format!("compare {SMALL} --methods tide --codecs zvc"));
    assert!(unknown.contains("state --sparsity"), "{unknown}");
    assert!(!unknown.contains("  compressed  "), "{unknown}");
}

/// JPEG-ACT is planned with where there is a model of it, and by who asks for it; what it changes is what it says.
#[test]
fn jpeg_act_is_planned_and_run() {
    let sandbox = Sandbox::new();
    let plan = "plan plain20-cifar10 --batch 4 -m comet-v100 --method comet \
                --conventions tidegate --codecs jpeg-act-h";
    assert!(sandbox.fails(plan).contains("--lossy"), "it changes values");
    sandbox.ok(&format!("{plan} --lossy -o plan.json"));
    let content = sandbox.content("plan.json");
    let codec = &content["codecs"][0];
    assert_eq!(
        (&codec["codec"], &codec["fidelity"]),
        (&"jpeg-act-h".into(), &"error_bounded".into())
    );
    let shown = sandbox.ok("verify plan.json --trace plain20-cifar10");
    assert!(shown.contains("jpeg-act-h depend on the data"), "{shown}");
    let run = sandbox.ok("run plan.json --iterations 2");
    assert!(run.contains("loss after the last") && !run.contains("bits of all"), "{run}");
    let all = plan.replace("jpeg-act-h", "all");
    sandbox.ok(&format!("{all} --lossy -o all.json"));
    let all = sandbox.content("all.json")["codecs"].to_string();
    assert!(!all.contains("jpeg-act"), "{all}");
}

#[test]
fn a_plan_with_codecs_is_proven_and_says_what_it_was_asked_for() {
    let sandbox = Sandbox::new();
    let options = "--codecs all --lossy --sparsity 60% --allow keep,compress";
    sandbox.ok(&format!("plan {SMALL} {options} --method tide -o plan.json"));
    let plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&plan["content"]["settings"]).expect("JSON")
    );
    assert_eq!(plan["content"]["codec_models"]["name"], "NVIDIA Titan V");
    let tasks = plan["content"]["actions"].as_array().expect("a list");
    assert!(tasks.iter().any(|action| action["task"]["compress"].is_number()));
    let verified = sandbox.ok("verify plan.json --trace tests/recordings/small.dtr.jsonl");
    assert!(verified.contains("ops in order"), "{verified}");
    let simulated = sandbox.ok("simulate plan.json --trace tests/recordings/small.dtr.jsonl");
    assert!(simulated.contains("codec busy"), "{simulated}");
}

/// The machine's name chooses where codecs run; plans, timelines and pictures show it.
#[test]
fn codecs_run_beside_compute_where_the_machine_can() {
    let sandbox = Sandbox::new();
    let trace = "tests/recordings/small.dtr.jsonl";
    let options = "--budget 60% --codecs zvc --sparsity 60% --allow keep,compress";
    let plan = |machine: &str, method: &str| {
        let asked = format!("--machine {machine} {options} --method {method}");
        let printed = sandbox.ok(&format!("plan {trace} {asked} -o plan.json"));
        sandbox.ok(&format!("verify plan.json --trace {trace}"));
        let plan: Value = serde_json::from_str(&sandbox.text("plan.json")).expect("JSON");
        let time = plan["content"]["predicted"]["iteration_ns"].as_u64().expect("a time");
        let bound = plan["content"]["predicted"]["bound_ns"].as_u64().expect("a bound");
        assert!(bound <= time, "{machine}");
        let simulated = sandbox.ok(&format!("simulate plan.json --trace {trace} -o timeline.json"));
        let lane = plan["content"]["codec_lane"] == true;
        assert_eq!(lane, simulated.contains("codec busy"), "{simulated}");
        assert_eq!(!lane, simulated.contains("compute runs codecs"), "{simulated}");
        (printed, lane, time)
    };
    let (printed, lane, beside) = plan("titan-v", "tide");
    assert!(lane && printed.contains("a lane of their own and do not slow compute"), "{printed}");
    sandbox.ok("export timeline.json --to perfetto -o trace.json");
    assert!(sandbox.text("trace.json").contains("{\"name\":\"codec\"}"));
    sandbox.ok("export timeline.json --to svg -o timeline.svg");
    assert!(sandbox.text("timeline.svg").contains(">codec</text>"));
    let (printed, lane, shared) = plan("titan-v+shared-codec-lane", "tide");
    assert!(lane && printed.contains("slow compute to 50 % while they run"), "{printed}");
    let (printed, lane, on_compute) = plan("titan-v+no-codec-lane", "tide");
    assert!(!lane && printed.contains("codecs run on compute"), "{printed}");
    assert!(beside <= shared && shared <= on_compute, "{beside} {shared} {on_compute}");
    assert!(beside < on_compute, "{beside} {on_compute}");
}

#[test]
fn methods_that_assume_codecs_on_compute_keep_them_there() {
    let sandbox = Sandbox::new();
    let trace = "tests/recordings/small.dtr.jsonl";
    let options = "--budget 50% --codecs zvc --sparsity 60% --method sc";
    sandbox.ok(&format!("plan {trace} --machine titan-v {options} -o plan.json"));
    let plan = sandbox.content("plan.json");
    let actions = plan["actions"].as_array().expect("a list");
    assert!(actions.iter().any(|action| action["task"]["compress"].is_number()));
    assert_eq!(plan["codec_lane"], Value::Null);
}

/// Samples whose times follow a stated law, off by up to 2 % as a hash says: a fit does not depend
/// on how busy the machine is.
#[test]
fn the_method_that_is_least_off_on_unseen_samples_is_used_and_plotted() {
    let sandbox = Sandbox::new();
    let mut samples = Vec::new();
    for size in 1..=12u64 {
        for share in 0..15u64 {
            let (bytes, sparsity) = (size << 21, 0.2 + 0.05 * share as f64);
            let compressed = (bytes as f64 * (1.033 - sparsity)) as u64;
            let noise = 0.98 + 0.04 * ((size * 37 + share * 101) % 17) as f64 / 16.0;
            let time = |per_raw: f64, per_small: f64| {
                let time = 5e4 + per_raw * bytes as f64 + per_small * compressed as f64;
                schema::Nanos((time * noise) as u64)
            };
            samples.push(profiler::codec_samples::CodecSample {
                device: "made up".into(),
                codec: "zvc".into(),
                fidelity: "lossless".into(),
                dtype: "f32".into(),
                threads: 1,
                runs: 1,
                sparsity,
                bytes: schema::Bytes(bytes),
                compressed: schema::Bytes(compressed),
                compress: time(0.2, 0.15),
                decompress: time(0.1, 0.05),
                ..Default::default()
            });
        }
    }
    let file = schema::PendingFile::create(&sandbox.path("samples.parquet")).expect("a folder");
    experiments::tables::write_parquet(&samples, file).expect("written");
    let fitted = sandbox.ok("fit samples.parquet -o models.json --plots plots");
    for line in fitted.lines().skip(2) {
        let error = |cell: &str| cell.trim_start_matches('*').parse::<f64>().expect("a number");
        let cells = line.split_whitespace().filter(|cell| cell.contains('.'));
        let cells: Vec<&str> = cells.take(4).collect();
        let used = cells.iter().find(|cell| cell.starts_with('*')).expect("one is used");
        assert!(cells.iter().all(|cell| error(used) <= error(cell)), "{line}");
        assert!(error(used) <= 5.0, "{line}");
    }
    for way in ["compress", "decompress"] {
        let plot = sandbox.text(&format!("plots/zvc-{way}.svg"));
        assert_eq!(plot.matches("<circle").count(), 4 * samples.len());
        assert!(plot.contains("piecewise linear") && plot.contains("SVM"));
    }
    let nameless =
        samples.into_iter().map(|s| profiler::codec_samples::CodecSample { codec: "".into(), ..s });
    let nameless: Vec<_> = nameless.collect();
    let file = schema::PendingFile::create(&sandbox.path("nameless.parquet")).expect("a folder");
    experiments::tables::write_parquet(&nameless, file).expect("written");
    let refused = sandbox.fails("fit nameless.parquet");
    assert!(refused.starts_with("[exit 2] error: nameless.parquet: "), "{refused}");
    let recordings = sandbox.fails("fit samples.toml --plots plots");
    assert!(recordings.starts_with("[exit 2]"), "{recordings}");
}

#[test]
fn samples_become_models_with_which_plans_are_made() {
    let sandbox = Sandbox::new();
    let sizes = "--sizes 64KiB,128KiB,192KiB,256KiB,384KiB,512KiB --shares 4 --runs 1";
    let taken = sandbox.ok(&format!("sample codecs --codecs zvc,zfp:8 {sizes} -o samples.parquet"));
    assert!(taken.starts_with("48 samples of 2 codecs on "), "{taken}");
    let fitted = sandbox.ok("fit samples.parquet -o models.json");
    let lines: Vec<&str> = fitted.lines().collect();
    assert_eq!(lines.len(), 6, "{fitted}");
    for (line, name) in lines[2..].iter().zip(["zvc c", "zvc d", "zfp:8 c", "zfp:8 d"]) {
        assert!(line.starts_with(name) && line.matches('*').count() == 1, "{line}");
    }
    let models = sandbox.content("models.json");
    let models = &models["models"];
    // Sizes do not depend on how busy the machine is.
    let zvc = &models[0]["size"]["sparsity"];
    assert_eq!((&zvc["overhead_permille"], &zvc["dense_permille"]), (&33.into(), &1000.into()));
    assert_eq!(models[1]["size"]["rate"]["permille"], 250);
    assert_eq!(models[1]["compress"]["basis"], "measured");
    let planned = "--codecs zvc,zfp:8 --lossy --sparsity 60% --codec-models models.json";
    sandbox.ok(&format!("plan {SMALL} --method tide {planned} -o plan.json"));
    sandbox.ok("verify plan.json --trace tests/recordings/small.dtr.jsonl");

    let samples = std::fs::read(sandbox.path("samples.parquet")).expect("written");
    std::fs::write(sandbox.path("short.parquet"), &samples[..samples.len() / 2]).expect("written");
    sandbox.refuses("fit short.parquet", 2, "short.parquet");
    sandbox.ok("sample codecs --codecs zvc --sizes 64KiB --shares 12 --runs 1 -o one.parquet");
    let one = sandbox.fails("fit one.parquet -o none.json");
    // On a busy machine some samples do not count, and too few may be left to see that.
    assert!(one.contains("all samples are of one size") || one.contains("take more"), "{one}");
    assert!(!sandbox.path("none.json").exists());
    sandbox.refuses("sample codecs -o samples.csv", 2, "Parquet");
}

/// Samples that a file holds are not taken again: another run with the same file adds what lacks.
#[test]
fn samples_go_on_where_they_ended() {
    let sandbox = Sandbox::new();
    let sample = |codecs: &str, runs: u32| {
        let small = format!("--sizes 8KB,16KB --shares 2 --runs {runs}");
        sandbox.ok(&format!("sample codecs -o samples.parquet --codecs {codecs} {small}"));
        experiments::tables::read_parquet::<profiler::codec_samples::CodecSample>(
            &sandbox.path("samples.parquet"),
        )
        .expect("samples")
    };
    let first = sample("zvc", 5);
    assert_eq!((first.len(), first[0].runs), (4, 5));
    let both = sample("zvc,rle", 5);
    let kept: Vec<_> = both.iter().filter(|sample| sample.codec == "zvc").cloned().collect();
    assert_eq!((both.len(), kept), (8, first));
    // Of fewer runs than settle a time, one goes on.
    std::fs::remove_file(sandbox.path("samples.parquet")).expect("it is there");
    let few = sample("zvc", 2);
    let more = sample("zvc", 4);
    assert!(
        few.iter().all(|sample| sample.runs == 2) && more.iter().all(|sample| sample.runs == 4)
    );
    assert!(few.iter().zip(&more).all(|(few, more)| more.compress <= few.compress));
    sandbox.write("samples.parquet", "no table");
    sandbox.refuses("sample codecs -o samples.parquet", 2, "samples.parquet");
}
