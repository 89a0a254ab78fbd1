//! What is told to whoever waits, and which machine is like the one at hand.

use std::time::Duration;

use experiments::machine_at_hand::most_like;
use experiments::waiting::Waiting;
use planner::Progress;
use runtime::cuda::DeviceFacts;
use schema::{Bytes, Nanos};

fn at(phase: &'static str, done: u64, of: u64) -> Progress {
    Progress { phase, done, of }
}

#[test]
fn within_a_phase_it_never_goes_back_and_never_beyond_the_end() {
    let mut waiting = Waiting::new("tide");
    assert_eq!((waiting.position(), waiting.what().as_str()), (None, "tide"));
    let told = [at("annealing", 3, 10), at("annealing", 1, 10), at("annealing", 12, 10)];
    let shown = told.map(|told| {
        waiting.proceed(told);
        waiting.position()
    });
    assert_eq!(shown, [Some((3, 10)), Some((3, 10)), Some((10, 10))]);
    waiting.proceed(at("addresses", 0, 5));
    assert_eq!(waiting.position(), Some((0, 5)));
    // What has no end has no position.
    waiting.proceed(at("bound", 0, 0));
    assert_eq!((waiting.position(), waiting.what().as_str()), (None, "tide, bound"));
}

#[test]
fn a_line_every_ten_seconds_names_the_step_by_whatever_clock() {
    let mut waiting = Waiting::new("tide");
    waiting.step("batch 64");
    waiting.proceed(at("annealing", 3, 10));
    waiting.found(Nanos(1_500_000));
    let lines: Vec<(u64, String)> = (0..40)
        .filter_map(|second| Some((second, waiting.line(Duration::from_secs(second))?)))
        .collect();
    let said = "tide, batch 64, annealing, 1.500 ms so far, 3 of 10";
    let expected = [10, 20, 30].map(|second| (second, format!("{said} ({second} s)\n")));
    assert_eq!(lines, expected);
    // However late it is asked, it is one line.
    assert!(waiting.line(Duration::from_secs(75)).is_some());
    waiting.step("batch 96");
    assert_eq!(waiting.line(Duration::from_secs(79)), None);
    let next = waiting.line(Duration::from_secs(80));
    assert_eq!(next.as_deref(), Some("tide, batch 96 (80 s)\n"));
}

#[test]
fn the_machine_most_like_a_device_has_its_model_and_about_its_memory() {
    let like = |name: &str, memory: u64| {
        let (name, memory) = (name.to_string(), Bytes(memory << 30));
        most_like(&DeviceFacts { name, memory, capability: (8, 0) }).map(|machine| machine.name)
    };
    assert_eq!(like("NVIDIA GeForce RTX 3090", 24).as_deref(), Some("rtx-3090"));
    assert_eq!(like("NVIDIA A100-SXM4-80GB", 80).as_deref(), Some("a100-pcie-80gb"));
    assert_eq!(like("NVIDIA H100 80GB HBM3", 80).as_deref(), Some("h100-measured"));
    assert_eq!(like("NVIDIA X1 80GB HBM3", 80), None);
}
