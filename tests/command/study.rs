//! Studies from start to end: results, partitions, many processes, and those that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use experiments::tables::{Row, read_parquet};
use reports::Status;

use crate::sandbox::Sandbox;

const STUDY: &str = include_str!("inputs/study.toml");

const POINTS: usize = 2 * 3 * 5 * 4;

fn with_study() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", STUDY);
    sandbox
}

fn rows(sandbox: &Sandbox, folder: &str) -> Vec<Row> {
    read_parquet(&sandbox.path(folder).join("results.parquet")).expect("a table")
}

/// The bytes of both tables of results.
fn results(sandbox: &Sandbox, folder: &str) -> [Vec<u8>; 2] {
    let file = |name| std::fs::read(sandbox.path(folder).join(name)).expect("it was written");
    ["results.parquet", "results.csv"].map(file)
}

fn spawn(sandbox: &Sandbox, arguments: &str, settings: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments.split_whitespace()).current_dir(sandbox.path("."));
    for setting in ["HQ_ENTRY", "HQ_TASK_ID", "SLURM_ARRAY_TASK_ID"] {
        command.env_remove(setting);
    }
    command.envs(settings.iter().copied()).stdout(Stdio::null());
    command.spawn().expect("it starts")
}

/// The content of every part that has its name.
fn parts(sandbox: &Sandbox, folder: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a part stays where it is");
        (path, bytes)
    };
    named_parts(&sandbox.path(folder)).map(read).collect()
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
    let sandbox = with_study();
    sandbox.ok("study study.toml -o whole");
    let whole = rows(&sandbox, "whole");
    assert_eq!(whole.len(), POINTS);
    assert!(whole.iter().any(|row| row.answer.status == Status::Ok));
    assert!(whole.iter().any(|row| row.answer.status == Status::Infeasible));

    let folder = sandbox.path("killed");
    let mut kept: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut killed = 0;
    for round in 0..20 {
        let child = spawn(&sandbox, "study study.toml -o killed --jobs 2", &[]);
        // From at once to some parts later.
        killed += usize::from(kill_at(child, &folder, kept.len() + round % 5));
        let now = parts(&sandbox, "killed");
        for (path, bytes) in &kept {
            assert_eq!(now.get(path), Some(bytes), "round {round}: {}", path.display());
        }
        for path in now.keys() {
            let rows: Vec<Row> = read_parquet(path).expect("what has a name is whole");
            assert_eq!(rows.len(), 1, "round {round}: {}", path.display());
        }
        kept = now;
    }
    assert_eq!(killed, 20, "the study is too short to be killed twenty times");
    assert!(kept.len() < POINTS);

    // Once more there is nothing left to do.
    for _ in 0..2 {
        sandbox.ok("study study.toml -o killed");
        assert_eq!(results(&sandbox, "killed"), results(&sandbox, "whole"));
    }
    let after = parts(&sandbox, "killed");
    assert_eq!(after.len(), POINTS);
    assert!(kept.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "planned again");
    let names = std::fs::read_dir(folder.join("parts")).expect("it is there").flatten();
    let left: Vec<_> = names.filter(|entry| entry.path().extension().is_none()).collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
}

#[test]
fn partitions_of_their_own_folders_are_read_together() {
    let sandbox = with_study();
    sandbox.ok("study study.toml -o whole --jobs 1");
    let first = sandbox.ok("study study.toml -o first --partition 1/3");
    assert!(first.contains("40 of 120 points have results in first"), "{first}");
    assert!(!sandbox.path("first").join("results.parquet").exists());
    sandbox.ok("study study.toml -o second --partition slice:2/3");
    let status = sandbox.json("study study.toml -o first --also second --status --format json");
    let third: Vec<usize> = (0..POINTS).filter(|point| point % 3 == 2).collect();
    assert_eq!(status["missing"], serde_json::json!(third));
    sandbox.ok("study study.toml -o third --partition 3/3 --also first,second");
    assert_eq!(parts(&sandbox, "third").len(), 40);
    assert_eq!(results(&sandbox, "third"), results(&sandbox, "whole"));

    // By what points ask: each is in one part, and stays there where the study has others.
    let names = |folder: &str| -> BTreeSet<_> {
        let folder = sandbox.path(folder);
        let parts = named_parts(&folder);
        parts.filter_map(|path| Some(path.file_name()?.to_os_string())).collect()
    };
    for part in 1..=3 {
        sandbox.ok(&format!("study study.toml -o hash-{part} --partition hash:{part}/3"));
    }
    let hashed = ["hash-1", "hash-2", "hash-3"].map(names);
    assert!(hashed.iter().all(|part| part.len() > POINTS / 6), "{:?}", hashed.map(|p| p.len()));
    assert_eq!(hashed.iter().map(BTreeSet::len).sum::<usize>(), POINTS);
    assert_eq!(hashed.iter().flatten().cloned().collect::<BTreeSet<_>>(), names("whole"));
    sandbox.write("study.toml", &STUDY.replace("[64, 128, 256]", "[32, 64, 128, 256]"));
    sandbox.ok("study study.toml -o more --partition hash:2/3");
    assert!(names("more").is_superset(&hashed[1]) && names("more").len() > hashed[1].len());
}

#[test]
fn points_are_listed_and_planned_one_by_one_by_many_processes_as_by_one() {
    let sandbox = with_study();
    sandbox.write("study.toml", &STUDY.replace("[64, 128, 256]", "[64]"));
    let listed = sandbox.json("study study.toml --list --format json");
    let listed = listed.as_array().expect("an array");
    assert_eq!(listed.len(), POINTS / 3);
    assert_eq!((&listed[0]["point"], &listed[0]["network"]), (&0.into(), &"resnet18".into()));
    assert_eq!((&listed[5]["method"], &listed[5]["budget"]), (&"sqrt-n".into(), &"50%".into()));
    let text = sandbox.ok("study study.toml --list");
    assert_eq!(text.lines().count(), listed.len() + 1, "{text}");
    sandbox.ok("study study.toml -o whole");

    // Four at a time: by number, as tasks of either engine, and each point twice.
    let numbers: Vec<String> = (0..listed.len()).map(|number| number.to_string()).collect();
    for (index, four) in numbers.chunks(4).enumerate() {
        let by_number = |number: &String| {
            let all = format!("study study.toml -o many --point {number}");
            spawn(&sandbox, &all, &[])
        };
        let task = "study study.toml -o many --point";
        // An entry of the list says which point it is, whichever task has got it.
        let entry = |number: &String| listed[number.parse::<usize>().expect("one")].to_string();
        let by_task = |number: &String| match index % 3 {
            0 => spawn(&sandbox, task, &[("SLURM_ARRAY_TASK_ID", number)]),
            1 => spawn(&sandbox, task, &[("HQ_TASK_ID", number), ("SLURM_ARRAY_TASK_ID", "0")]),
            _ => spawn(&sandbox, task, &[("HQ_ENTRY", &entry(number)), ("HQ_TASK_ID", "0")]),
        };
        let processes: Vec<Child> = four.iter().flat_map(|n| [by_number(n), by_task(n)]).collect();
        for mut process in processes {
            assert!(process.wait().expect("it ends").success());
        }
        let status = sandbox.ok("study study.toml -o many --status");
        let done = 4 * (index + 1);
        assert!(status.contains(&format!("{done} of {} points", listed.len())), "{status}");
        let missing = format!("missing: {done}-{}", listed.len() - 1);
        assert_eq!(status.contains(&missing), done + 1 < listed.len(), "{status}");
    }
    sandbox.ok("study study.toml -o many");
    assert_eq!(results(&sandbox, "many"), results(&sandbox, "whole"));
}

#[test]
fn processes_that_plan_the_same_study_in_one_folder_at_a_time_lose_and_tear_nothing() {
    let sandbox = with_study();
    sandbox.ok("study study.toml -o whole");
    let arguments = ["", "", "--partition hash:1/2", "--partition slice:2/2"];
    let mut processes: Vec<Child> = arguments
        .iter()
        .map(|part| spawn(&sandbox, &format!("study study.toml -o shared --jobs 1 {part}"), &[]))
        .collect();
    // One is killed, one is asked to end.
    kill_at(processes.pop().expect("four"), &sandbox.path("shared"), 5);
    for process in &mut processes {
        assert!(process.wait().expect("it ends").success());
    }
    for path in parts(&sandbox, "shared").keys() {
        assert_eq!(read_parquet::<Row>(path).expect("whole").len(), 1, "{}", path.display());
    }
    assert_eq!(parts(&sandbox, "shared").len(), POINTS);
    assert_eq!(results(&sandbox, "shared"), results(&sandbox, "whole"));
}

/// A search that is cut short is no result; what has ended by then is shown.
#[test]
#[cfg(unix)]
fn an_interrupted_study_shows_what_is_done() {
    let sandbox = with_study();
    sandbox.ok("study study.toml -o whole");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args("study study.toml -o out --jobs 1".split(' ')).current_dir(sandbox.path("."));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    while named_parts(&sandbox.path("out")).count() < 3 {
        std::thread::yield_now();
    }
    let signal = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(signal.expect("kill is there").success());
    let ended = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(ended.stdout).expect("UTF-8");
    let done = named_parts(&sandbox.path("out")).count();
    assert_eq!(ended.status.code(), Some(143), "{text}");
    assert!((3..POINTS).contains(&done), "{done}");
    assert!(text.contains(&format!("{done} of 120 points have results in out")), "{text}");
    let table = text.lines().filter(|line| line.contains("swap-all") || line.contains("sqrt-n"));
    assert!(table.count() >= done / 2, "{text}");
    sandbox.ok("study study.toml -o out");
    assert_eq!(results(&sandbox, "out"), results(&sandbox, "whole"));
}

#[test]
fn bad_parts_end_with_a_sentence_and_the_documented_code() {
    let sandbox = with_study();
    sandbox.ok("study study.toml -o out");
    let part = named_parts(&sandbox.path("out")).next().expect("a part");
    let whole = std::fs::read(&part).expect("it is there");
    std::fs::write(&part, &whole[..whole.len() / 2]).expect("it can be written");
    sandbox.refuses("study study.toml -o out", 1, "delete it");
    // The part of another point under this one's name is no better.
    let other = named_parts(&sandbox.path("out")).find(|other| *other != part).expect("another");
    std::fs::copy(other, &part).expect("it can be written");
    let said = "not the result of the point that its name stands for";
    sandbox.refuses("study study.toml -o out", 2, said);
    std::fs::remove_file(&part).expect("it can be deleted");
    sandbox.ok("study study.toml -o out");
    assert_eq!(parts(&sandbox, "out").len(), POINTS);
}

#[test]
fn numbers_of_a_paper_are_one_object_with_what_is_supposed_otherwise_apart() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "mine.toml",
        "description = 'd'\npaper = 'pooch'\n[[group]]\nname = 'resnet50'\nnetworks = ['resnet50']\n\
         batches = [128]\nmachines = ['pooch-x86']\nmethods = ['in-core']\n[[what_if]]\nname = 'fast'\n\
         description = 'ops twice as fast'\nof = ['resnet50']\nspeed = 2.0\n",
    );
    let found = sandbox.json("study mine.toml -o out --format json");
    let figures = found["figures"].as_array().expect("a list");
    let of = |assumptions: &str| {
        let is_of = |f: &&serde_json::Value| {
            f["assumptions"] == assumptions && f["printed"] == 316.0 && !f["predicted"].is_null()
        };
        figures.iter().find(is_of).expect("the throughput in core").clone()
    };
    let (base, what_if) = (of("base"), of("what-if"));
    assert_eq!(base["paper"], "pooch");
    let predicted = |figure: &serde_json::Value| figure["predicted"].as_f64().expect("a number");
    assert!((predicted(&what_if) / predicted(&base) - 2.0).abs() < 0.01);
    let off = (predicted(&base) - 316.0).abs() / 316.0;
    assert!((base["error"].as_f64().expect("a share") - off).abs() < 1e-12);
    let without = figures.iter().filter(|figure| figure["predicted"].is_null());
    assert!(without.clone().count() > 10, "other methods have no points here");
    assert!(without.clone().all(|figure| figure["error"].is_null()));
    let text = sandbox.ok("study mine.toml -o out");
    assert!(text.contains("What if:") && text.contains("(ops twice as fast)"), "{text}");
}

/// PooCH, section 5.2: POWER9's plan fails on x86 at batch 640, where x86 has one of its own.
#[test]
fn what_is_decided_on_another_machine_is_its_plans_and_carried_out_as_it_is() {
    let sandbox = Sandbox::new();
    let group = |more: &str| {
        format!(
            "[[group]]\nnetworks = ['resnet50']\nmethods = ['pooch']\nbudgets = ['16GiB']\n\
             framework = 'chainer'\npool_indices = false\n{more}\n"
        )
    };
    let groups = [
        "name = 'own'\nbatches = [384]\nmachines = ['pooch-power9']",
        "name = 'x86'\nbatches = [640]\nmachines = ['pooch-x86']",
        "name = 'other'\nbatches = [384, 640]\nmachines = ['pooch-x86']\ndecided_on = 'pooch-power9'",
    ];
    let groups = groups.map(group).concat();
    sandbox.write("mine.toml", &format!("description = 'd'\n{groups}"));
    sandbox.ok("study mine.toml -o out");
    let rows = rows(&sandbox, "out");
    let statuses: Vec<_> = rows.iter().map(|row| row.answer.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Ok, Status::Ok, Status::Infeasible]);
    let [own, carried] = [&rows[0].answer, &rows[2].answer];
    assert_eq!((own.kept, own.swapped), (carried.kept, carried.swapped));
    assert!(carried.iteration > own.iteration, "over a link that is slower");
}

#[test]
fn the_largest_batch_fits_and_one_more_sample_does_not() {
    let sandbox = Sandbox::new();
    let question = "-m titan-v -b 2GB --method swap-all";
    let found = sandbox.json(&format!("largest resnet18 {question} --format json"));
    let batch = found["batch"].as_u64().expect("a batch");
    assert_eq!(found["comparison"]["methods"][0]["status"], "ok");
    let plan = |batch: u64| sandbox.run(&format!("plan resnet18 --batch {batch} {question}")).code;
    assert_eq!((plan(batch), plan(batch + 1)), (0, 3));

    // A method whose probes decide as its plans do.
    let question = "resnet18 --batch 64 -m titan-v --method pooch";
    let found = sandbox.json(&format!("largest --device {question} --format json"));
    let budget = found["comparison"]["budget_bytes"].as_u64().expect("a budget");
    let peak = found["comparison"]["in_core"]["peak_bytes"].as_u64().expect("a peak");
    assert!(budget < peak, "{budget} of {peak}");
    let plan = |budget: u64| sandbox.run(&format!("plan {question} -b {budget}B")).code;
    assert_eq!((plan(budget), plan(budget - peak / 100)), (0, 3));
}
