//! What `bench` prints; never how long it takes.

use crate::sandbox::Sandbox;

#[test]
fn replays_are_timed_over_traces_and_sizes() {
    let sandbox = Sandbox::new();
    let figures = sandbox.json("bench replay --sweep 1000 --format json");
    let figures = figures.as_array().expect("a list");
    let names: Vec<_> = figures.iter().filter_map(|figure| figure["trace"].as_str()).collect();
    let bundled = ["resnet18-host", "resnet50-h100", "unet-h100", "vit-l16-h100"];
    assert_eq!(names, [&bundled[..], &["synthetic 1000"]].concat());
    for figure in figures {
        assert!(figure["ops"].as_u64() > Some(0) && figure["actions"].as_u64() > Some(0));
        assert!(
            figure["replay_ns"].as_u64() > Some(0) && figure["ns_per_action"].as_f64() > Some(0.0)
        );
    }
    let text = sandbox
        .ok("bench replay tests/recordings/small.opgraph.json --in-place alias --sweep 3000");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().last().is_some_and(|line| line.contains("the power")), "{text}");
    let text = sandbox.ok("bench replay resnet18-host --sweep 0");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn codecs_are_timed_against_a_naive_loop_and_lz4() {
    let sandbox = Sandbox::new();
    let tiny = "bench codecs --size 8KiB --runs 1";
    let figures = sandbox.json(&format!("{tiny} zvc zfp:8 --dtype f32,bf16 --format json"));
    let figures = figures.as_array().expect("a list");
    let names = figures.iter().map(|row| format!("{} {}", row["codec"], row["dtype"]));
    let expected = ["zvc", "zfp:8"].map(|codec| format!("\"{codec}\""));
    let expected = ["f32", "bf16"]
        .into_iter()
        .flat_map(|dtype| expected.iter().map(move |codec| format!("{codec} \"{dtype}\"")));
    assert!(names.eq(expected), "{figures:?}");
    for row in figures {
        let lossless = row["codec"] == "zvc";
        assert_eq!(row["max_abs_error"].as_f64() == Some(0.0), lossless, "{row}");
        assert!(row["ratio"].as_f64() > Some(1.0), "{row}");
        for way in ["compress", "decompress"] {
            for figure in ["bytes_per_second", "over_naive", "over_lz4", "two_threads"] {
                assert!(row[way][figure].as_f64() > Some(0.0), "{row}");
            }
        }
        for figure in ["bytes_per_second", "two_threads"] {
            assert!(row["copy"][figure].as_f64() > Some(0.0), "{row}");
        }
    }
    // All that are listed, one line each under the head, two that explain, and one about copying.
    let listed = sandbox.ok("list codecs").lines().count();
    let text = sandbox.ok(&format!("{tiny} --dtype f16 --sparsity 0.9"));
    assert_eq!(text.lines().count(), 1 + listed + 3, "{text}");
    assert!(text.contains("copying the f16 tensor: "), "{text}");
}

#[test]
fn planning_is_timed_by_recording_and_method() {
    let sandbox = Sandbox::new();
    // So little memory that no plan is as fast as in core: then there is something to search for.
    let command = "bench plan tests/recordings/small.dtr.jsonl --methods in-core,swap-opt,tide \
                   --budget 45%";
    let figures = sandbox.json(&format!("{command} --evaluations 200 --format json"));
    let figures = figures.as_array().expect("a list");
    let names: Vec<_> = figures.iter().filter_map(|figure| figure["method"].as_str()).collect();
    assert_eq!(names, ["in-core", "swap-opt", "tide"]);
    for figure in figures {
        assert_eq!(figure["trace"], "tests/recordings/small.dtr.jsonl");
        assert!(figure["plan_seconds"].as_f64() > Some(0.0), "{figure}");
        assert!(figure["evaluations_per_second"].as_f64().is_some(), "{figure}");
        let first = figure["first_plan_seconds"].as_f64();
        assert!(first <= figure["plan_seconds"].as_f64(), "{figure}");
        let fields = figure.as_object().map(|fields| fields.len());
        assert_eq!(fields, Some(6 + usize::from(first.is_some())), "{figure}");
    }
    // Only searches evaluate more than once or twice.
    assert!(figures[2]["evaluations"].as_u64() > figures[0]["evaluations"].as_u64(), "{figures:?}");
    // Counts do not depend on the clock or the threads.
    let again = sandbox.json(&format!("{command} --evaluations 200 --format json"));
    let counts = |list: &serde_json::Value| -> Vec<Option<u64>> {
        let list = list.as_array().expect("a list");
        list.iter().map(|figure| figure["evaluations"].as_u64()).collect()
    };
    assert_eq!(counts(&again), counts(&figures.clone().into()));
    let text = sandbox.ok(&format!("{command} --evaluations 200"));
    assert_eq!(text.lines().count(), 4, "{text}");
    let swept =
        sandbox.ok("bench plan tests/recordings/small.dtr.jsonl --methods capuchin --sweep 2000");
    for line in ["synthetic 2000", "capuchin: planning time grows", "an evaluation alone"] {
        assert!(swept.contains(line), "{swept}");
    }
}
