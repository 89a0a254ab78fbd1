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
    let Some(run) = sandbox.run_on_stand_in(command, &[], &[]) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "48 samples of 2 codecs on stand-in\n");
    let shown = sandbox.ok("fit samples.parquet -o models.json");
    assert!(shown.contains("zvc compress") && shown.contains("zfp:8 decompress"), "{shown}");
    let models: Value = serde_json::from_str(&sandbox.text("models.json")).expect("JSON");
    assert_eq!(models["content"]["device"], "stand-in");

    let run =
        sandbox.run_on_stand_in("sample codecs --device cuda --codecs lz4 -o s.parquet", &[], &[]);
    let run = run.expect("there was one");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("lz4 compresses on the host alone"), "{}", run.stderr);
}

/// Without a GPU every command that wants one says what is missing and what else there is.
#[test]
fn cuda_is_found_or_what_is_missing_is_named() {
    let sandbox = Sandbox::new();
    for arguments in [
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
