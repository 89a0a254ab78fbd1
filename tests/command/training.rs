//! Training under a memory budget with several codecs.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Quick: what is tested is not how well it learns, nor how fast.
const QUICK: &str = "--warmup 1 --repeats 1 --bandwidth 2GB/s --latency 10us";

fn numbers(way: &Value, field: &str) -> Vec<f64> {
    let all = way[field].as_array().unwrap_or_else(|| panic!("{field}: {way}"));
    all.iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

#[test]
fn ways_are_trained_side_by_side_and_codecs_do_what_they_say() {
    let sandbox = Sandbox::new();
    let shown = sandbox
        .json(&format!("train --epochs 2 --batches 5 --refresh 4 {QUICK} -o page --format json"));
    let ways = shown["ways"].as_array().expect("a list");
    let names: Vec<_> = ways.iter().map(|way| way["way"].as_str().expect("a name")).collect();
    assert_eq!(names, ["in-core", "zvc", "zfp", "sz"]);
    for way in ways {
        let lengths = ["losses", "epoch_losses", "accuracies"].map(|f| numbers(way, f).len());
        assert_eq!(lengths, [10, 2, 2], "{way}");
        assert!(number(&way["iteration_ns"]) > 0, "{way}");
    }
    let [in_core, zvc, zfp, sz] = ways.as_slice() else { panic!("four of them") };

    // Under the budget, which in-core exceeds.
    let budget = number(&shown["budget_bytes"]);
    assert!(number(&in_core["arena_bytes"]) > budget, "{shown}");
    for way in [zvc, zfp, sz] {
        assert!(number(&way["arena_bytes"]) <= budget, "{way}");
    }
    assert_eq!(number(&in_core["copied_bytes"]), 0);
    assert!(number(&zvc["copied_bytes"]) > 0 && number(&zfp["copied_bytes"]) > 0);
    assert_eq!(number(&sz["copied_bytes"]), 0, "COMET compresses in place");

    // Lossless codecs change nothing, lossy ones do.
    let losses = numbers(in_core, "losses");
    assert_eq!(shown["lossless_equal"], true);
    assert_eq!(numbers(zvc, "losses"), losses);
    assert_eq!(zvc["accuracies"], in_core["accuracies"]);
    let lossy = numbers(zfp, "losses");
    assert_eq!(lossy[0], losses[0], "the first forward pass sees no compressed form");
    assert_ne!(lossy, losses);
    assert_eq!(zfp["codecs"], serde_json::json!(["zfp(16)", "zfp(12)"]), "it slides: {zfp}");

    // COMET compresses nothing before it has statistics.
    assert_eq!(number(&sz["in_core_iterations"]), 4);
    let bounded = numbers(sz, "losses");
    assert_eq!(bounded[..5], losses[..5], "the fifth is computed before its gradients");
    assert_ne!(bounded, losses);

    let page = sandbox.text("page/index.html");
    for part in ["Loss by epoch", "Accuracy by epoch", "Ways to train"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(sandbox.path("page/training-loss.svg").exists());
}

#[test]
fn people_see_tables_and_what_was_equal() {
    let sandbox = Sandbox::new();
    let shown =
        sandbox.ok(&format!("train --ways in-core,zvc --epochs 1 --batches 2 --batch 16 {QUICK}"));
    for part in ["in-core and zvc learnt the same", "bit for bit", "accuracy after each epoch"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn what_cannot_be_trained_is_named() {
    let sandbox = Sandbox::new();
    let short = "train --epochs 1 --batches 1";
    let tight = sandbox.run(&format!("{short} --ways in-core,zvc -b 20% {QUICK}"));
    assert_eq!(tight.code, 3, "{}", tight.stderr);
    assert!(tight.stdout.contains("lacks"), "{}", tight.stdout);
    sandbox.refuses(&format!("{short} --ways sz --sample zvc {QUICK}"), 3, "error-bounded codec");
    sandbox.refuses(&format!("{short} --ways zvc,in-core,zvc {QUICK}"), 2, "`zvc` twice");
}
