//! What would not fit the machine's memory is refused before it is made, with the need, the limit
//! and a remedy.

use crate::sandbox::Sandbox;

#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &str, code: i32, parts: &[&str]) {
    let run = sandbox.run(arguments);
    assert_eq!(run.code, code, "{arguments}\n{}{}", run.stdout, run.stderr);
    for part in parts {
        assert!(run.stderr.contains(part), "{arguments}\n{part}\n{}", run.stderr);
    }
    assert!(run.stdout.is_empty(), "{arguments}\n{}", run.stdout);
}

#[test]
fn networks_that_do_not_fit_are_refused_before_anything_is_measured() {
    let sandbox = Sandbox::new();
    let said = ["this machine's memory, which has", "choose a smaller batch"];
    refused(&sandbox, "profile resnet50 --batch 100000 -o p", 1, &said);
    assert!(!sandbox.path("p").exists(), "a folder was made");
    refused(&sandbox, "profile vgg16 --batch 400000 --dtype bf16 -o p", 1, &said);
    refused(&sandbox, "check plain20:batch=2:image=32 resnet50:batch=100000", 1, &said);
    // More than any machine has is known sooner.
    for command in ["profile resnet50 --batch 4294967295 -o p", "check resnet50:batch=4294967295"] {
        refused(&sandbox, command, 2, &["no machine could hold it"]);
    }
    let planned = "plan resnet50 --batch 4294967295 -m titan-v";
    refused(&sandbox, planned, 2, &["no machine could hold it"]);
}

#[test]
fn tensors_that_do_not_fit_are_not_made() {
    let sandbox = Sandbox::new();
    let said = ["this machine's memory, which has", "--size"];
    refused(&sandbox, "bench codecs zvc --size 100TB", 1, &said);
    refused(&sandbox, "bench codecs --size 1000000TB", 1, &said);
    refused(&sandbox, "sample codecs --sizes 1TB -o s.parquet", 2, &["4 GiB"]);
}

#[test]
fn rows_that_do_not_fit_are_not_read() {
    let sandbox = Sandbox::new();
    // Holes take no room on most disks.
    let file = std::fs::File::create(sandbox.path("holes.bin")).expect("there is room");
    if file.set_len(1 << 40).is_err() {
        eprintln!("skipped: this file system has no holes");
        return;
    }
    let table = "table holes.bin -m titan-v --rows-per-lookup 4 --row-bytes";
    let said = ["this machine's memory, which has", "--row-bytes"];
    refused(&sandbox, &format!("{table} 1TiB"), 1, &said);
    refused(&sandbox, &format!("{table} 1GiB"), 1, &said);
    sandbox.write("four.bin", "abcd");
    let clusters = "table four.bin -m titan-v --rows-per-lookup 1 --row-bytes 1 --clusters 1000000";
    refused(&sandbox, clusters, 2, &["between 1 and 65536"]);
}

#[test]
fn files_larger_than_any_of_theirs_are_not_read() {
    let sandbox = Sandbox::new();
    for name in ["net.onnx", "net.toml", "samples.parquet", "plan.json"] {
        let file = std::fs::File::create(sandbox.path(name)).expect("there is room");
        if file.set_len((1 << 30) + 1).is_err() {
            eprintln!("skipped: this file system has no holes");
            return;
        }
    }
    let said = ["larger than 1073741824 bytes"];
    refused(&sandbox, "plan net.onnx --batch 1 -m titan-v", 2, &said);
    refused(&sandbox, "plan net.toml --batch 1 -m titan-v", 2, &said);
    refused(&sandbox, "fit samples.parquet", 2, &said);
    refused(&sandbox, "verify plan.json", 2, &said);
}
