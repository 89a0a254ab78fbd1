//! Training under a memory budget with several codecs.

use serde_json::Value;

use crate::sandbox::Sandbox;

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
    let command = "train --epochs 2 --batches 5 --refresh 4 -o page --format json";
    let shown = sandbox.json(command);
    assert_eq!(sandbox.json(command), shown, "no clock has a say");
    let ways = shown["ways"].as_array().expect("a list");
    let names: Vec<_> = ways.iter().map(|way| way["way"].as_str().expect("a name")).collect();
    assert_eq!(names, ["in-core", "zvc", "zfp", "sz"]);
    for way in ways {
        let lengths = ["losses", "epoch_losses", "accuracies"].map(|f| numbers(way, f).len());
        assert_eq!(lengths, [10, 2, 2], "{way}");
        assert_eq!(number(&way["seed"]), 1, "{way}");
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
    let codecs = |way: &Value| way["codecs"].as_array().expect("a list").len();
    assert_eq!((codecs(zvc), codecs(zfp)), (1, 2), "ZFP's rate slides: {zfp}");

    // What codecs made of each tensor after each epoch, by name: less, and no more than a tensor.
    for (way, epochs) in [(in_core, 0), (zvc, 2), (zfp, 2), (sz, 2)] {
        let applied = way["applied"].as_array().expect("a list");
        let mut at: Vec<u64> = applied.iter().map(|one| number(&one["iterations"])).collect();
        at.dedup();
        assert_eq!(at, [5, 10][..epochs], "{way}");
        for one in applied {
            let [raw, small] = ["raw_bytes", "compressed_bytes"].map(|field| number(&one[field]));
            assert!(small < raw, "{one}");
        }
    }
    let bounds = sz["applied"].as_array().expect("a list").iter().map(|one| one["codec"].as_str());
    let bounds: std::collections::BTreeSet<_> = bounds.collect();
    assert!(bounds.len() > 2 && bounds.iter().all(|b| b.is_some_and(|b| b.starts_with("sz("))));

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
    let shown = sandbox.ok("train --ways in-core,zvc --epochs 1 --batches 2 --batch 16");
    for part in ["in-core and zvc learnt the same", "bit for bit", "accuracy after each epoch"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

/// COMET's batch, once its bounds are set: of as many images as have a plan, epochs as long as before.
#[test]
fn a_batch_grows_where_the_budget_has_room_for_twice_as_much() {
    let sandbox = Sandbox::new();
    let command =
        "train --ways in-core,sz-grown --epochs 3 --batches 8 --batch 16 --refresh 8 --format json";
    let trained = |budget: &str| {
        let shown = sandbox.json(&format!("{command} --budget {budget}"));
        let [in_core, grown] = shown["ways"].as_array().expect("a list").as_slice() else {
            panic!("two of them")
        };
        let count = |way: &Value, of: &str| way[of].as_array().expect("a list").len();
        assert_eq!((count(in_core, "losses"), count(in_core, "accuracies")), (24, 3));
        assert_eq!((count(grown, "epoch_losses"), count(grown, "accuracies")), (3, 3));
        let memory = grown["arena_bytes"].as_u64().expect("a number");
        assert!(memory <= shown["budget_bytes"].as_u64().expect("a number"));
        let notes = grown["notes"].as_array().expect("a list").last().expect("one");
        (count(grown, "losses"), notes.as_str().expect("a text").to_string())
    };
    let (iterations, note) = trained("100%");
    assert!(note.contains("After 8 iterations the batch grew from 16 to 32"), "{note}");
    assert_eq!(iterations, 8 + 2 * 4);
    let (iterations, note) = trained("60%");
    assert!(note.contains("The batch stays at 16"), "{note}");
    assert_eq!(iterations, 24);
}

/// What the papers compare their own ways with.
#[test]
fn rates_and_bounds_go_as_they_are_named() {
    let sandbox = Sandbox::new();
    let ways = "in-core,zfp-rising,zfp-32,sz,sz-once,sz-5%,sz-1.4";
    let command = "train --epochs 3 --batches 4 --batch 16 --refresh 3 -b 80% --format json";
    let shown = sandbox.json(&format!("{command} --ways {ways}"));
    let all = shown["ways"].as_array().expect("a list");
    let applied = |way: &str| -> Vec<(u64, f64)> {
        let way = all.iter().find(|one| one["way"] == way).unwrap_or_else(|| panic!("{way}"));
        let list = way["applied"].as_array().expect("a list").iter();
        let parameter = |one: &Value| {
            let name = one["codec"].as_str().expect("a name");
            let text = name.split_once('(').expect("a parameter").1.trim_end_matches(')');
            (number(&one["iterations"]), text.parse().expect("a number"))
        };
        list.map(parameter).collect()
    };
    let rising: Vec<f64> = applied("zfp-rising").into_iter().map(|(_, rate)| rate).collect();
    assert!(rising.is_sorted() && rising[0] < rising[rising.len() - 1], "{rising:?}");
    assert!(applied("zfp-32").iter().all(|(_, rate)| *rate == 8.0));
    // Bounds that were set once are the same after both epochs; larger errors go with larger bounds.
    let once = applied("sz-once");
    let of = |all: &[(u64, f64)], at| -> Vec<f64> {
        all.iter().filter(|(when, _)| *when == at).map(|(_, bound)| *bound).collect()
    };
    assert_eq!(of(&once, 4), of(&once, 12));
    let (sz, wide) = (of(&applied("sz"), 4), of(&applied("sz-5%"), 4));
    assert_eq!(sz, of(&once, 4), "until then they are the same");
    assert!(sz.len() == wide.len() && !sz.is_empty(), "{shown}");
    for (bound, wide) in sz.iter().zip(wide) {
        assert!((wide / bound - 5.0).abs() < 1e-6, "{wide} for {bound}");
    }
    // The same bounds are set for SZ as it was, and other weights learnt within them.
    assert_eq!(sz, of(&applied("sz-1.4"), 4));
    let losses =
        |way: &str| numbers(all.iter().find(|one| one["way"] == way).expect(way), "losses");
    assert_eq!(losses("sz")[..3], losses("sz-1.4")[..3]);
    assert_ne!(losses("sz")[4..], losses("sz-1.4")[4..]);
}

#[test]
fn several_seeds_have_a_spread_and_each_is_what_it_is_alone() {
    let sandbox = Sandbox::new();
    let short = "train --ways in-core,zfp --epochs 1 --batches 3 --batch 8";
    let both = sandbox.json(&format!("{short} --seeds 2 --seed 4 --format json"));
    let alone = sandbox.json(&format!("{short} --seed 5 --format json"));
    let ways = both["ways"].as_array().expect("a list");
    let seeds: Vec<u64> = ways.iter().map(|way| number(&way["seed"])).collect();
    assert_eq!(seeds, [4, 4, 5, 5]);
    assert_eq!(serde_json::json!(ways[2..]), alone["ways"]);
    assert_ne!(ways[0]["losses"], ways[2]["losses"]);
    assert!(alone["spread"][0]["accuracy"].get("deviation").is_none(), "{alone}");
    let accuracy = |way: &Value| numbers(way, "accuracies")[0];
    let of = &both["spread"][0]["accuracy"];
    let mean = f64::midpoint(accuracy(&ways[0]), accuracy(&ways[2]));
    let deviation = (accuracy(&ways[0]) - accuracy(&ways[2])).abs() / 2f64.sqrt();
    for (field, expected) in [("mean", mean), ("deviation", deviation)] {
        assert!((of[field].as_f64().expect("a number") - expected).abs() < 1e-12, "{of}");
    }
    let shown = sandbox.ok(&format!("{short} --seeds 2"));
    assert!(shown.contains("one standard deviation of in-core"), "{shown}");
}

#[test]
fn what_cannot_be_trained_is_named() {
    let sandbox = Sandbox::new();
    let short = "train --epochs 1 --batches 1";
    let tight = sandbox.run(&format!("{short} --ways in-core,zvc -b 20%"));
    assert_eq!(tight.code, 3, "{}", tight.stderr);
    assert!(tight.stdout.contains("lacks"), "{}", tight.stdout);
    let seeds =
        sandbox.run(&format!("{short} --batch 8 --ways in-core,zvc -b 20% --seeds 2 --seed 7"));
    for seed in [7, 8] {
        let said = format!("zvc has no plan with seed {seed}, ");
        assert!(seeds.stdout.contains(&said), "{}", seeds.stdout);
    }
    sandbox.refuses(&format!("{short} --ways zvc,in-core,zvc"), 2, "`zvc` twice");
}
