//! Commands with `--device cuda`: on a driver that is none, and without one.

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn kernels_are_timed_and_their_bytes_are_the_processors() {
    let sandbox = Sandbox::new();
    let command = "bench codecs --device cuda --size 8KiB --runs 1 --dtype f32,bf16";
    let Some(run) = sandbox.run_on_stand_in(&format!("{command} --format json"), &[], &[]) else {
        return;
    };
    assert_eq!(run.code, 0, "{}", run.stderr);
    let measured: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(measured["device"], "stand-in");
    assert!(measured["copy_bytes_per_second"].as_u64() > Some(0));
    let rows = measured["codecs"].as_array().expect("a list");
    let named = |name: &str| rows.iter().filter(|row| row["codec"] == name).count();
    for name in ["zvc", "rle", "csr", "lz4", "zfp:8", "ibp"] {
        assert_eq!(named(name), 2, "{name} in {rows:?}");
    }
    assert_eq!(named("zstd"), 0, "it has no kernel");
    for row in rows {
        let host_alone = row["codec"].as_str().is_some_and(|name| ["lz4", "ibp"].contains(&name));
        assert_eq!(row["compress"].is_null(), host_alone, "{row}");
        assert!(row["decompress"]["over_copy"].as_f64() > Some(0.0), "{row}");
    }
    let lookups = measured["lookups"].as_array().expect("a list");
    assert_eq!(lookups.len(), 2, "{lookups:?}");
    for speed in ["packed", "raw", "copy"] {
        let speed = lookups[0][format!("{speed}_bytes_per_second")].as_u64();
        assert!(speed > Some(0), "{lookups:?}");
    }
    let half = format!("{command} zvc --codec-sms 50%");
    let text = sandbox.run_on_stand_in(&half, &[], &[]).expect("there was one").stdout;
    assert!(text.starts_with("stand-in, 8 blocks of threads (50 %)"), "{text}");
}

/// A device that computes wrongly fails a check.
#[test]
fn kernels_with_other_bytes_are_said() {
    let sandbox = Sandbox::new();
    let command = "bench codecs zvc --device cuda --size 4KiB --runs 1";
    let Some(run) = sandbox.run_on_stand_in(command, &[], &[("TIDEGATE_DAMAGE", "1")]) else {
        return;
    };
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("kernels of zvc compress to other bytes"), "{}", run.stderr);
}

#[test]
fn samples_of_kernels_are_fitted() {
    let sandbox = Sandbox::new();
    let command = "sample codecs --device cuda --codecs zvc,zfp:8 --sizes 4KiB,8KiB,16KiB --shares 8 \
                   --runs 1 -o samples.parquet";
    let Some(shown) = sandbox.ok_on_stand_in(command, &[], &[]) else { return };
    assert_eq!(shown, "48 samples of 2 codecs on stand-in\n");
    let shown = sandbox.ok("fit samples.parquet -o models.json");
    assert!(shown.contains("zvc compress") && shown.contains("zfp:8 decompress"), "{shown}");
    assert_eq!(sandbox.content("models.json")["device"], "stand-in");

    let run =
        sandbox.run_on_stand_in("sample codecs --device cuda --codecs lz4 -o s.parquet", &[], &[]);
    let run = run.expect("there was one");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("lz4 compresses on the host alone"), "{}", run.stderr);
}

/// Small enough for a CPU that does what a GPU would.
pub const NETWORK: &str = include_str!("inputs/small.toml");

/// A device of 16 MiB, for which measurements are small.
const SMALL: [(&str, &str); 1] = [("TIDEGATE_MEMORY", "16777216")];

#[test]
fn a_network_is_profiled_planned_and_run() {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    let profile = "profile net.toml --batch 2 --device cuda --warmup 1 --repeats 1 -o p";
    let Some(shown) = sandbox.ok_on_stand_in(profile, &[], &SMALL) else { return };
    for part in ["pageable", "4.194 MB", "beside both copies", "activation"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let machine = sandbox.content("p/machine.json");
    let identity = machine["sources"]["device.name"].as_str().expect("a text");
    for part in ["GPU-00112233", "capability 9.0", "2 multiprocessors", "CUDA 12.0"] {
        assert!(identity.contains(part), "{identity}");
    }
    let contention = machine["sources"]["contention"].as_str().expect("a text");
    assert!(contention.contains("product of our own kernels"), "{contention}");
    assert!(contention.contains("beside codec"), "{contention}");
    let host = machine["sources"]["host.memory"].as_str().expect("a text");
    assert!(host.contains("control group") && machine["host"]["memory_bytes"].as_u64() > Some(0));
    assert!(machine["device"]["reserved_bytes"] == 0, "nothing was taken before");
    // 4 KiB to a quarter of the memory, by fours.
    for way in ["pinned", "pageable"] {
        let points = machine["link"]["d2h"][way].as_array().expect("a list");
        let sizes: Vec<_> = points.iter().filter_map(|point| point["bytes"].as_u64()).collect();
        assert_eq!(sizes, [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]);
    }
    let trace = sandbox.content("p/trace.json");
    let tensors = trace["tensors"].as_array().expect("a list");
    let relu = tensors.iter().find(|tensor| tensor["name"] == "relu1").expect("it is there");
    let sparsity = relu["sparsity"].as_f64().expect("it was counted");
    assert!((0.2..0.8).contains(&sparsity), "{sparsity}");

    sandbox.ok("plan p/trace.json -m p/machine.json -b 110% --method swap-all -o plan.json");
    let command = "run plan.json --trace p/trace.json -m p/machine.json --device cuda --iterations 1 \
                   --codec-sms 50%";
    let shown = sandbox.ok_on_stand_in(command, &[], &SMALL).expect("there was one");
    assert!(shown.contains("loss after the last"), "{shown}");
    let wrong = sandbox.run(&format!("{command} --codec-sms 0%"));
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

/// Codecs are sampled on the device in one go with all else, and what copies take from compute is
/// stated.
#[test]
fn a_network_is_profiled_with_codecs_and_planned_with_them() {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    let profile =
        "profile net.toml --batch 2 --device cuda --warmup 1 --repeats 1 --sample zvc -o p";
    let memory = [("TIDEGATE_MEMORY", "4000000")];
    let Some(shown) = sandbox.ok_on_stand_in(profile, &[], &memory) else { return };
    assert!(shown.contains("--codec-models p/codec-models.json"), "{shown}");
    assert!(shown.contains("compute beside a copy: at"), "{shown}");
    let models = sandbox.content("p/codec-models.json");
    assert_eq!(models["device"], "stand-in");
    assert_eq!(models["models"][0]["codec"], "zvc");
    let samples: Vec<profiler::codec_samples::CodecSample> =
        experiments::tables::read_parquet(&sandbox.path("p/samples.parquet"))
            .expect("it was written");
    let sizes: std::collections::BTreeSet<u64> =
        samples.iter().map(|sample| sample.bytes.0).collect();
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [4 << 10, 16 << 10, 64 << 10]);
    let link = &sandbox.content("p/machine.json")["link"];
    let beside_copy = link.get("beside_copy").map_or(Some(1.0), Value::as_f64).expect("a number");
    assert!((0.1..=1.0).contains(&beside_copy), "{link}");
    sandbox.ok("plan p/trace.json -m p/machine.json -b 110% --method cswap+ --codecs zvc \
                --codec-models p/codec-models.json -o plan.json");
    sandbox.ok("verify plan.json --trace p/trace.json");
}

/// Trained with and without codecs, the weights are the same, bit for bit: the command checks it.
#[test]
fn a_network_trains_under_a_budget() {
    let sandbox = Sandbox::new();
    let command = "train --device cuda --ways in-core,zvc --epochs 1 --batches 1 --batch 8 -b 90% \
                   --format json";
    let Some(shown) = sandbox.ok_on_stand_in(command, &[], &SMALL) else { return };
    let summary: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(summary["lossless_equal"], true, "{summary}");
}

/// Without a GPU every command that wants one says what is missing and what else there is.
#[test]
fn cuda_is_found_or_what_is_missing_is_named() {
    let sandbox = Sandbox::new();
    sandbox
        .ok("profile plain20 --batch 2 --image 32 --warmup 1 --repeats 1 --bandwidth 2GB/s -o p");
    sandbox.ok("plan p/trace.json -m p/machine.json -b 90% --method swap-all -o plan.json");
    for arguments in [
        "run plan.json --trace p/trace.json -m p/machine.json --device cuda",
        "profile plain20 --batch 8 --image 32 --device cuda -o q",
        "check plain20:batch=8:image=32 --device cuda",
        "train --device cuda --epochs 1",
        "sample codecs --device cuda -o samples.parquet",
        "bench codecs --device cuda",
    ] {
        let run = sandbox.run(arguments);
        if run.code == 0 {
            println!("skipped: there is a CUDA device here");
            continue;
        }
        assert_eq!(run.code, 1, "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains("or use `--device host`"), "{arguments}: {}", run.stderr);
    }
}

/// What the device has no room for is measured under a plan, planned from that, and run.
#[test]
fn a_network_that_does_not_fit_is_profiled_under_a_plan() {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    let memory = [("TIDEGATE_MEMORY", "3500000")];
    let profile = "profile net.toml --batch 160 --device cuda --warmup 1 --repeats 1 -o p";
    if sandbox.ok_on_stand_in(profile, &[], &memory).is_none() {
        return;
    }
    let trace = sandbox.text("p/trace.json");
    assert!(trace.contains(
        "Ops were timed, from start to end but for what copies slowed them by, under the "
    ));
    sandbox.ok("plan p/trace.json -m p/machine.json -b 70% --evaluations 100 -o plan.json");
    let run = "run plan.json --trace p/trace.json -m p/machine.json --device cuda --no-in-core --warmup 0 --iterations 1";
    let shown = sandbox.ok_on_stand_in(run, &[], &memory).expect("there was one");
    assert!(shown.contains("equal"), "{shown}");
}
