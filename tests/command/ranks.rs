//! One of several ranks: what it has, what it sends, and what is refused.

use serde_json::Value;

use crate::sandbox::Sandbox;

const NETWORK: &str = "gpt2-characters --layers 2 --batch 2 --optimizer adam -m v100-sxm";
const RANKS: &str = "--ranks 8 --net-link nvlink2";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// A model of 7.5 billion parameters in mixed precision on 64 GPUs: what outlives an iteration is what ZeRO (Rajbhandari
/// et al. 2020, figure 1) prints, but for gradients, which do not outlive it: 120, 31.4, 16.6 and 1.9 GB of all.
#[test]
fn states_take_what_the_paper_prints() {
    let sandbox = Sandbox::new();
    let network = "gpt2-xl --layers 36 --hidden 4096 --heads 32 --batch 1 --sequence 1 --dtype f16 --optimizer adam";
    for (shard, printed, gradients) in [
        ("", 120.0, 2.0),
        ("zero1", 31.4, 2.0),
        ("zero2", 16.6, 2.0 / 64.0),
        ("zero3", 1.9, 2.0 / 64.0),
    ] {
        let shard = if shard.is_empty() { String::new() } else { format!("--shard {shard}") };
        let of =
            format!("-m h100-sxm --ranks 64 --net-link nvlink4 {shard} -b 101% --methods in-core");
        let found = sandbox.json(&format!("compare {network} {of} --format json"));
        let of_paper = printed - 7.5 * gradients;
        let fixed = number(&found["in_core"]["fixed_bytes"]) as f64 / 1e9;
        assert!(
            (fixed - of_paper).abs() < 0.01 * of_paper + 0.05,
            "{shard}: {fixed} for {of_paper} GB"
        );
    }
}

/// Each stage leaves less on a device, and all plans are proven, carried out on paper and say of how many ranks they are.
#[test]
fn a_rank_is_planned_proven_and_explained() {
    let sandbox = Sandbox::new();
    let mut least = u64::MAX;
    for shard in ["zero1", "zero2", "zero3"] {
        let problem = format!("{NETWORK} {RANKS} --shard {shard} -b 80% --evaluations 100");
        let plan = sandbox.json(&format!("plan {problem} -o plan.json --format json"));
        assert_eq!(plan["methods"][0]["status"], "ok", "{plan}");
        let fixed = number(&plan["in_core"]["fixed_bytes"]);
        // Gradients do not outlive the iteration.
        assert!(fixed < least || shard == "zero2" && fixed == least, "{shard}: {fixed} of {least}");
        least = fixed;
        assert!(number(&plan["bound_ns"]) <= number(&plan["methods"][0]["iteration_ns"]), "{plan}");
        let proven = sandbox.ok("verify plan.json");
        assert!(
            proven.starts_with("safe under every timing") && proven.contains("computes"),
            "{proven}"
        );
        assert!(sandbox.ok("simulate plan.json").contains("net busy"), "{shard}");
        let text = sandbox.ok(&format!("compare {problem} --methods tide"));
        assert!(text.contains(&format!("on each of 8 ranks ({shard})")), "{text}");
    }
    let explained =
        sandbox.ok(&format!("explain {NETWORK} {RANKS} --shard zero1 -b 60% --evaluations 100"));
    assert!(
        explained.contains("--shard zero3") && explained.contains("+net-nvlink2"),
        "{explained}"
    );
}

/// State that moves is the rank's share, whether the host's processor updates it or copies bring it in.
#[test]
fn a_share_of_the_state_moves_to_the_host() {
    let sandbox = Sandbox::new();
    let network = NETWORK.replace("v100-sxm", "rtx-4090");
    let mut out_before = u64::MAX;
    for shard in ["zero1", "zero2", "zero3"] {
        let problem = format!("{network} {RANKS} --shard {shard} -b 100% --evaluations 20");
        let fixed = |row: &Value| number(&row["in_core"]["fixed_bytes"]);
        for method in ["zero-offload", "zero-infinity"] {
            let plan = format!("plan {problem} --method {method} -o plan.json --format json");
            let found = sandbox.json(&plan);
            let row = &found["methods"][0];
            assert_eq!(row["status"], "ok", "{found}");
            let moved = &row["moved"];
            // Parameters are at home there, too.
            let there = number(&moved["host_arena_bytes"]);
            assert!(number(&moved["updates"]) > 0 && there >= number(&moved["bytes"]), "{row}");
            assert!(number(&moved["bytes"]) <= fixed(&found), "no more than the share: {row}");
            if method == "zero-offload" {
                let out = number(&moved["gradients"]["d2h_bytes"]);
                assert!(out > 0 && (out < out_before || shard == "zero3"), "{shard}: {row}");
                out_before = out;
            }
            assert!(sandbox.ok("verify plan.json").starts_with("safe under every timing"));
            assert!(sandbox.ok("simulate plan.json").contains("net busy"), "{shard}");
        }
    }
}

/// An ONNX file is a network like others.
#[test]
fn onnx_files_have_ranks() {
    let sandbox = Sandbox::new();
    let network =
        "tests/onnx/block.onnx --sequence 16 --batch 4 --optimizer adam -m v100-sxm -b 200%";
    let fixed = |options: &str| {
        let plan = format!("plan {network} {options} --method in-core -o plan.json --format json");
        let found = sandbox.json(&plan);
        assert_eq!(found["methods"][0]["status"], "ok", "{found}");
        sandbox.ok("verify plan.json");
        number(&found["in_core"]["fixed_bytes"])
    };
    let (alone, ranks) = (fixed(""), "--ranks 4 --net-link 25GB/s");
    let [all, state, parameters] =
        ["", "--shard zero1", "--shard zero3"].map(|shard| fixed(&format!("{ranks} {shard}")));
    assert!(
        alone == all && all > state && state > parameters,
        "{alone} {all} {state} {parameters}"
    );
    let passes = fixed(&format!("{ranks} --shard zero2 --accumulate 2"));
    assert_eq!(passes, state, "gradients do not outlive the iteration");
    sandbox.refuses(&format!("plan {network} --ranks 4"), 2, "--net-link nvlink3");
}

/// With room to spare, no op waits for memory that a collective still reads.
#[test]
fn collectives_hold_nothing_up_where_there_is_room() {
    let sandbox = Sandbox::new();
    let found = sandbox.json(
        "compare gpt2 --batch 1 --sequence 128 --optimizer adam -m rtx-3090 --ranks 4 --net-link 25GB/s \
         --shard zero2 -b 1500MB --methods in-core --format json",
    );
    let [in_core, planned] =
        [&found["in_core"], &found["methods"][0]].map(|of| number(&of["iteration_ns"]));
    assert!(planned <= in_core, "{planned} for {in_core} ns in core");
}

/// Without a stage, ranks have all there is, and send twice their parameters.
#[test]
fn ranks_alone_are_data_parallel() {
    let sandbox = Sandbox::new();
    let found = |ranks: &str| {
        let found = sandbox
            .json(&format!("compare {NETWORK} {ranks} -b 100% --methods in-core --format json"));
        ["fixed_bytes", "peak_bytes", "iteration_ns"].map(|field| number(&found["in_core"][field]))
    };
    let [fixed, peak, time] = found("");
    assert_eq!(found("--ranks 1"), [fixed, peak, time]);
    let [of_rank, at_peak, longer] = found(RANKS);
    assert_eq!((of_rank, at_peak), (fixed, peak));
    assert!(longer > time);
    let [.., slower] = found("--ranks 8 --net-link 1GB/s");
    assert!(slower > longer, "{slower} over 1 GB/s, {longer} over NVLink");
}
