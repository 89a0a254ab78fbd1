//! What `bench` prints; never how long it takes.

use crate::sandbox::Sandbox;

#[test]
fn replays_are_timed_over_traces_and_sizes() {
    let sandbox = Sandbox::new();
    let figures = sandbox.json("bench replay --sweep 1000 --format json");
    let figures = figures.as_array().expect("a list");
    let names: Vec<_> = figures.iter().filter_map(|figure| figure["trace"].as_str()).collect();
    assert_eq!(names, ["resnet18-host", "synthetic 1000"]);
    for figure in figures {
        assert!(figure["ops"].as_u64() > Some(0) && figure["actions"].as_u64() > Some(0));
        assert!(
            figure["replay_ns"].as_u64() > Some(0) && figure["ns_per_action"].as_f64() > Some(0.0)
        );
    }
    let text = sandbox
        .ok("bench replay tests/recordings/small.opgraph.json --in-place alias --sweep 3000");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().last().is_some_and(|line| line.contains("the power")), "{text}");
    let text = sandbox.ok("bench replay resnet18-host --sweep 0");
    assert_eq!(text.lines().count(), 2, "{text}");
}
