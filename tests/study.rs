//! Studies from start to end: results, partitions, and processes that are killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use experiments::tables::{Row, read_parquet};
use reports::Status;

const STUDY: &str = r#"
description = "Which method?"

[[group]]
networks = ["resnet18", "alexnet"]
batches = [64, 128, 256]
machines = ["titan-v"]
budgets = ["40%", "50%", "60%", "70%", "80%"]
methods = ["swap-all", "sqrt-n", "swap-opt", "pooch"]
evaluations = 100
"#;

const POINTS: usize = 2 * 3 * 5 * 4;

struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("study.toml"), STUDY).expect("it can be written");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        output
    }

    fn rows(&self, folder: &str) -> Vec<Row> {
        let rows = read_parquet(&self.path(folder).join("results.parquet")).expect("a table");
        rows.into_iter()
            .map(|mut row: Row| {
                row.answer.plan_seconds = None;
                row
            })
            .collect()
    }

    /// The content of every part that has its name.
    fn parts(&self, folder: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).expect("a part stays where it is");
            (path, bytes)
        };
        named_parts(&self.path(folder)).map(read).collect()
    }
}

fn named_parts(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder.join("parts")).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
}

/// Kills the process as soon as there are `wanted` parts. Returns whether it was still running.
fn kill_at(mut child: Child, folder: &Path, wanted: usize) -> bool {
    while named_parts(folder).count() < wanted {
        if child.try_wait().expect("it can be asked").is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    child.kill().expect("it can be killed");
    !child.wait().expect("it ends").success()
}

#[test]
fn a_study_that_is_killed_twenty_times_loses_nothing_and_ends_as_if_it_never_was() {
    let sandbox = Sandbox::new();
    sandbox.run(&["study", "study.toml", "-o", "whole"]);
    let whole = sandbox.rows("whole");
    assert_eq!(whole.len(), POINTS);
    assert!(whole.iter().any(|row| row.answer.status == Status::Ok));
    assert!(whole.iter().any(|row| row.answer.status == Status::Infeasible));

    let folder = sandbox.path("killed");
    let mut kept: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut killed = 0;
    for round in 0..20 {
        let mut command = sandbox.command(&["study", "study.toml", "-o", "killed", "--jobs", "2"]);
        let child = command.stdout(Stdio::null()).spawn().expect("it starts");
        // From at once to some parts later.
        killed += usize::from(kill_at(child, &folder, kept.len() + round % 5));
        let now = sandbox.parts("killed");
        for (path, bytes) in &kept {
            assert_eq!(now.get(path), Some(bytes), "round {round}: {}", path.display());
        }
        for path in now.keys() {
            let rows: Vec<experiments::tables::Row> =
                read_parquet(path).expect("what has a name is whole");
            assert_eq!(rows.len(), 1, "round {round}: {}", path.display());
        }
        kept = now;
    }
    assert_eq!(killed, 20, "the study is too short to be killed twenty times");
    assert!(kept.len() < POINTS);

    sandbox.run(&["study", "study.toml", "-o", "killed"]);
    assert_eq!(sandbox.rows("killed"), whole);
    let after = sandbox.parts("killed");
    assert_eq!(after.len(), POINTS);
    assert!(kept.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "planned again");
    let names = std::fs::read_dir(folder.join("parts")).expect("it is there").flatten();
    let left: Vec<_> = names.filter(|entry| entry.path().extension().is_none()).collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
}

#[test]
fn partitions_of_their_own_folders_are_read_together() {
    let sandbox = Sandbox::new();
    sandbox.run(&["study", "study.toml", "-o", "whole", "--jobs", "1"]);
    let first = sandbox.run(&["study", "study.toml", "-o", "first", "--partition", "1/3"]);
    let told = String::from_utf8_lossy(&first.stdout).into_owned();
    assert!(told.contains("40 of 120 points have results in first"), "{told}");
    assert!(!sandbox.path("first").join("results.parquet").exists());
    sandbox.run(&["study", "study.toml", "-o", "second", "--partition", "2/3"]);
    sandbox.run(&[
        "study",
        "study.toml",
        "-o",
        "third",
        "--partition",
        "3/3",
        "--also",
        "first,second",
    ]);
    assert_eq!(sandbox.parts("third").len(), 40);
    assert_eq!(sandbox.rows("third"), sandbox.rows("whole"));
}

#[test]
fn what_is_done_is_not_done_again_and_gives_the_same_bytes() {
    let sandbox = Sandbox::new();
    sandbox.run(&["study", "study.toml", "-o", "out"]);
    let table = std::fs::read(sandbox.path("out").join("results.parquet")).expect("a table");
    let parts = sandbox.parts("out");
    sandbox.run(&["study", "study.toml", "-o", "out"]);
    assert_eq!(std::fs::read(sandbox.path("out").join("results.parquet")).expect("a table"), table);
    assert_eq!(sandbox.parts("out"), parts);
}

#[test]
fn bad_studies_folders_and_parts_end_with_a_sentence_and_the_documented_code() {
    let sandbox = Sandbox::new();
    let bad = |name: &str, text: &str| {
        std::fs::write(sandbox.path(name), text).expect("it can be written");
    };
    let group = "[[group]]\nmachines = ['titan-v']\nmethods = ['pooch']\nbatches = [1]\n";
    bad("no-method.toml", "description = 'd'\n[[group]]\nnetworks = ['vgg16']\n");
    bad("no-file.toml", &format!("description = 'd'\n{group}networks = ['gone.onnx']"));
    bad("a-file", "");
    for (arguments, code, said) in [
        (vec!["study", "poch", "-o", "out"], 2, "did you mean `pooch`?"),
        (vec!["study", "gone.toml", "-o", "out"], 2, "gone.toml"),
        (vec!["study", "no-method.toml", "-o", "out"], 2, "no-method.toml:2"),
        (vec!["study", "no-file.toml", "-o", "out"], 2, "no-file.toml:6"),
        (vec!["study", "study.toml", "-o", "a-file"], 1, "a-file"),
        (vec!["study", "study.toml", "-o", "out", "--also", "gone"], 2, "no results of a study"),
        (vec!["study", "study.toml", "-o", "out", "--partition", "0/2"], 2, "1/4"),
        (vec!["study", "study.toml", "-o", "out", "--partition", "3/2"], 2, "1/4"),
    ] {
        let output = sandbox.command(&arguments).output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    sandbox.run(&["study", "study.toml", "-o", "out"]);
    let part = named_parts(&sandbox.path("out")).next().expect("a part");
    let whole = std::fs::read(&part).expect("it is there");
    std::fs::write(&part, &whole[..whole.len() / 2]).expect("it can be written");
    let output =
        sandbox.command(&["study", "study.toml", "-o", "out"]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("delete it"), "{error}");
    // The part of another point under this one's name is no better.
    let other = named_parts(&sandbox.path("out")).find(|other| *other != part).expect("another");
    std::fs::copy(other, &part).expect("it can be written");
    let output =
        sandbox.command(&["study", "study.toml", "-o", "out"]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("not the result of the point that its name stands for"), "{error}");
    std::fs::remove_file(&part).expect("it can be deleted");
    sandbox.run(&["study", "study.toml", "-o", "out"]);
    assert_eq!(sandbox.parts("out").len(), POINTS);
}

#[test]
fn the_largest_batch_fits_and_one_more_sample_does_not() {
    let sandbox = Sandbox::new();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = sandbox.run(&[arguments, &["--format", "json"]].concat());
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let question = ["-m", "titan-v", "-b", "2GB", "--method", "swap-all"];
    let found = json(&[&["largest", "resnet18"][..], &question].concat());
    let batch = found["batch"].as_u64().expect("a batch");
    assert_eq!(found["comparison"]["methods"][0]["status"], "ok");
    let plan = |batch: u64| {
        let batch = batch.to_string();
        let arguments = [&["plan", "resnet18", "--batch", &batch][..], &question].concat();
        sandbox.command(&arguments).output().expect("it starts").status.code()
    };
    assert_eq!((plan(batch), plan(batch + 1)), (Some(0), Some(3)));

    // A method whose probes decide as its plans do.
    let question = ["resnet18", "--batch", "64", "-m", "titan-v", "--method", "pooch"];
    let found = json(&[&["largest", "--device"][..], &question].concat());
    let budget = found["comparison"]["budget_bytes"].as_u64().expect("a budget");
    let peak = found["comparison"]["in_core"]["peak_bytes"].as_u64().expect("a peak");
    assert!(budget < peak, "{budget} of {peak}");
    let compare = |budget: u64| {
        let budget = budget.to_string();
        let arguments = [&["plan"][..], &question, &["-b", &budget]].concat();
        sandbox.command(&arguments).output().expect("it starts").status.code()
    };
    assert_eq!(compare(budget), Some(0));
    assert_eq!(compare(budget - peak / 100), Some(3));
}

#[test]
fn a_modelled_trace_says_so_wherever_it_is_shown() {
    let sandbox = Sandbox::new();
    let shown =
        |arguments: &[&str]| String::from_utf8(sandbox.run(arguments).stdout).expect("text");
    let network = ["resnet18", "--batch", "32", "-m", "titan-v"];
    let plan = ["--method", "in-core", "-o", "plan.json"];
    assert!(shown(&[&["plan"][..], &network, &plan].concat()).contains("modelled"));
    assert!(shown(&[&["compare"][..], &network].concat()).contains("modelled"));
    assert!(shown(&["verify", "plan.json", "--trace", "resnet18"]).contains("resnet18"));
    assert!(shown(&["largest", "resnet18", "-m", "titan-v", "-b", "1GB"]).contains("modelled"));
    assert!(shown(&["study", "study.toml", "-o", "out"]).contains("modelled"));
}
