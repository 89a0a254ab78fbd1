//! Plans that fail on a device, on a driver that is none: they end nothing but themselves.

use crate::cuda::NETWORK;
use crate::sandbox::{Run, Sandbox};

/// A device on which measurements are small.
const SMALL: (&str, &str) = ("TIDEGATE_MEMORY", "4000000");

fn check(sandbox: &Sandbox, more: &str, settings: &[(&str, &str)]) -> Option<Run> {
    sandbox.write("net.toml", NETWORK);
    let command = format!(
        "check net.toml:batch=2 {more} --device cuda --warmup 1 --repeats 1 --iterations 1 --budgets 110% \
         --methods swap-all,tide,dtr"
    );
    sandbox.run_on_stand_in(&command, &[], &[&[SMALL], settings].concat())
}

/// Allocations of pinned memory, of which a device makes five: the arena, and each lane's room.
const OF_A_DEVICE: usize = 5;

fn pinned(sandbox: &Sandbox) -> Option<usize> {
    let calls = sandbox.path("calls");
    let whole = check(sandbox, "", &[("TIDEGATE_CALLS", calls.to_str().expect("a path"))])?;
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert!(whole.stdout.contains("\n3 plans: "), "{}", whole.stdout);
    Some(sandbox.text("calls").lines().filter(|line| line.starts_with("pin ")).count())
}

/// Whether these are the words of a line.
fn has_row(run: &Run, words: &str) -> bool {
    run.stdout.lines().any(|line| line.split_whitespace().eq(words.split(' ')))
}

#[test]
fn a_plan_that_cannot_be_run_is_a_row_of_a_check() {
    let sandbox = Sandbox::new();
    let Some(all) = pinned(&sandbox) else { return };
    // The first of the second plan's.
    let number = (all - 2 * OF_A_DEVICE + 1).to_string();
    let run = check(&sandbox, "", &[("TIDEGATE_NOT_PINNED", &number)]).expect("there was one");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(has_row(&run, "110 % tide not run"), "{}", run.stdout);
    assert!(run.stdout.contains("\n110 %, tide: the host gives no "), "{}", run.stdout);
    assert!(run.stdout.contains("\n2 plans: "), "{}", run.stdout);
    assert!(run.stderr.contains("1 of the plans or networks could not be run"), "{}", run.stderr);
}

#[test]
fn a_device_that_is_lost_ends_no_check() {
    let sandbox = Sandbox::new();
    let Some(all) = pinned(&sandbox) else { return };
    let number = (all - 2 * OF_A_DEVICE + 1).to_string();
    let lost = [("TIDEGATE_LOST", number.as_str())];
    let run = check(&sandbox, "net.toml:batch=1", &lost).expect("there was one");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(has_row(&run, "110 % tide not run"), "{}", run.stdout);
    assert!(has_row(&run, "110 % dtr device lost"), "{}", run.stdout);
    for part in ["\nnet.toml:batch=1: not run: the device was lost before: ", "\n1 plans: "] {
        assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
    }
    assert!(run.stderr.contains("3 of the plans or networks could not be run"), "{}", run.stderr);
}

#[test]
fn ops_are_timed_in_graphs() {
    let sandbox = Sandbox::new();
    sandbox.write("net.toml", NETWORK);
    let profile = "profile net.toml --batch 2 --device cuda --repeats 2 -o p --graph";
    let command = format!("{profile} --warmup 1");
    if sandbox.ok_on_stand_in(&command, &[], &[SMALL]).is_none() {
        return;
    }
    assert!(
        sandbox.text("p/trace.json").contains("Each iteration was launched as one CUDA graph.")
    );
}
