use std::collections::BTreeMap;

use proptest::prelude::*;
use schema::{OpId, TensorId};

use super::*;
use crate::examples;

#[test]
fn a_small_timeline() {
    insta::assert_snapshot!("perfetto", perfetto(&examples::timeline()));
}

#[test]
fn codecs_beside_compute_have_a_thread_of_their_own() {
    insta::assert_snapshot!("perfetto_codecs", perfetto(&examples::timeline_with_codecs()));
}

#[test]
fn times_are_exact_to_the_nanosecond() {
    assert_eq!(micros(Nanos(0)), "0.000");
    assert_eq!(micros(Nanos(1_001)), "1.001");
    assert_eq!(micros(Nanos(u64::MAX)), "18446744073709551.615");
}

/// What a reader of the trace sees.
struct Read {
    events: Vec<Value>,
}

impl Read {
    fn of(timeline: &Timeline) -> Self {
        let trace: Value = serde_json::from_str(&perfetto(timeline)).expect("JSON");
        Self { events: trace["traceEvents"].as_array().expect("a list").clone() }
    }

    fn of_phase(&self, phases: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |e| phases.contains(e["ph"].as_str().expect("a phase")))
    }
}

/// As Perfetto reads a time: microseconds to rounded nanoseconds.
fn nanos(time: &Value) -> u64 {
    (time.as_f64().expect("a number") * 1000.0).round() as u64
}

/// Timelines with lanes that run one action at a time, and any ties between the actions, even to
/// actions that are not there.
fn timelines() -> impl Strategy<Value = Timeline> {
    let action = (0u32..6, 0u64..2_000_000, 0u64..3_000_000, prop::collection::vec(0u32..40, 0..3));
    let actions = prop::collection::vec((action, ".{0,6}"), 0..40);
    (actions, any::<bool>()).prop_map(|(actions, codec_lane)| {
        let mut timeline = examples::timeline();
        let mut free = [0; Lane::COUNT];
        timeline.intervals.clear();
        for (id, ((task, idle, time, follows), label)) in (0u32..).zip(actions) {
            let task = match task {
                0 => Task::Run(OpId(id)),
                1 => Task::Recompute(OpId(id)),
                2 => Task::D2h(TensorId(id)),
                3 => Task::H2d(TensorId(id)),
                4 => Task::Compress(TensorId(id)),
                _ => Task::Decompress(TensorId(id)),
            };
            let lane = task.lane(codec_lane);
            let start = free[lane.index()] + idle;
            free[lane.index()] = start + time;
            let times = [start, start + time];
            let interval = examples::interval(id, task, &label, 7, times, &follows);
            timeline.intervals.push(Interval { lane, ..interval });
        }
        timeline
    })
}

proptest! {
    #[test]
    fn every_flow_starts_once_and_finishes_once(timeline in timelines()) {
        let read = Read::of(&timeline);
        let mut phases: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for event in read.of_phase("stf") {
            let id = event["id"].as_u64().expect("an id");
            phases.entry(id).or_default().push(event["ph"].as_str().expect("a phase"));
        }
        for (id, mut phases) in phases {
            phases.sort_unstable();
            prop_assert!(matches!(phases[..], ["f", "s"] | ["f", "s", "t"]), "{id}: {phases:?}");
        }
        for event in read.of_phase("f") {
            prop_assert_eq!(&event["bp"], "e");
        }
    }

    #[test]
    fn every_flow_event_follows_the_slice_that_it_belongs_to(timeline in timelines()) {
        let read = Read::of(&timeline);
        let mut open: BTreeMap<u64, &Value> = BTreeMap::new();
        for event in read.of_phase("Xstf") {
            let thread = event["tid"].as_u64().expect("a thread");
            if event["ph"] == "X" {
                open.insert(thread, event);
            } else {
                prop_assert_eq!(&event["ts"], &open[&thread]["ts"]);
            }
        }
    }

    #[test]
    fn a_reader_finds_the_intervals_to_the_nanosecond(timeline in timelines()) {
        let read = Read::of(&timeline);
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for (event, interval) in read.of_phase("X").zip(&timeline.intervals) {
            let (start, end) = (nanos(&event["ts"]), nanos(&event["ts"]) + nanos(&event["dur"]));
            prop_assert_eq!((start, end), (interval.start.0, interval.end.0));
            prop_assert_eq!(event["name"].as_str(), Some(interval.label.as_str()));
            let last = ends.insert(event["tid"].as_u64().expect("a thread"), end);
            prop_assert!(last.is_none_or(|last| last <= start), "overlap on a lane");
        }
        prop_assert_eq!(read.of_phase("X").count(), timeline.intervals.len());
    }
}
