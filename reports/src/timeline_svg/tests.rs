use proptest::prelude::*;
use schema::{Basis, Bytes, MemoryPoint, Task, TensorId};

use super::*;
use crate::examples;

#[test]
fn a_small_timeline() {
    insta::assert_snapshot!("small", timeline_svg(&examples::timeline(), 900, &|_| None));
}

#[test]
fn long_timelines_stay_small() {
    let svg = timeline_svg(&examples::long(1500), 900, &|_| None);
    assert!(svg.len() < 300_000, "{} bytes", svg.len());
    assert!(svg.contains("mostly"), "thin boxes are taken together");
}

#[test]
fn all_that_is_drawn_is_in_the_legend() {
    let phases = [Phase::Forward, Phase::Forward, Phase::Backward, Phase::Update];
    let svg = timeline_svg(&examples::timeline(), 900, &|op| phases.get(op.index()).copied());
    for name in ["forward", "backward", "update", "recompute", "copy out", "copy in"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}");
    }
    assert!(!svg.contains(">op</text>"), "every op's phase is known");
    let unknown = timeline_svg(&examples::timeline(), 900, &|_| None);
    assert!(unknown.contains(">op</text>") && !unknown.contains(">forward</text>"));
}

#[test]
fn codecs_have_their_colours_where_there_are_any() {
    let mut timeline = examples::timeline();
    assert!(!timeline_svg(&timeline, 900, &|_| None).contains(".z{"));
    timeline.intervals[2].task = Task::Compress(TensorId(4));
    timeline.intervals[2].bytes = Bytes(12_000_000);
    timeline.intervals[4].task = Task::Decompress(TensorId(4));
    let svg = timeline_svg(&timeline, 900, &|_| None);
    assert!(svg.contains(">compress</text>") && svg.contains(">decompress</text>"));
    assert!(svg.contains(".z{fill:") && svg.contains(".y{fill:"));
    assert!(svg.contains("conv2, compress of 12.000 MB: "));
}

#[test]
fn the_codec_lane_is_drawn_where_something_runs_on_it() {
    let svg = |timeline: &schema::Timeline| timeline_svg(timeline, 900, &|_| None);
    assert!(!svg(&examples::timeline()).contains(">codec</text>"));
    insta::assert_snapshot!("codec_lane", svg(&examples::timeline_with_codecs()));
}

#[test]
fn the_peak_is_drawn_however_short_it_lasts() {
    let mut timeline = examples::timeline();
    timeline.memory.insert(
        2,
        MemoryPoint { at: Nanos(1_000_002), resident: timeline.budget, in_flight: Bytes::ZERO },
    );
    timeline.memory[3].at = Nanos(1_000_003);
    let svg = timeline_svg(&timeline, 900, &|_| None);
    let budget = svg.lines().find(|l| l.contains("class=\"k\"")).expect("the budget's line");
    let height = budget.split_once("d=\"M84 ").expect("from the left").1;
    let height = height.split_once('H').expect("to the right").0;
    let curve = svg.lines().find(|l| l.contains("class=\"cl\"")).expect("the curve");
    assert!(curve.contains(&format!("V{height}H")), "{curve} does not reach {height}");
}

proptest! {
    /// Whatever a timeline says, the picture is XML and its numbers are numbers.
    #[test]
    fn every_timeline_makes_a_picture_that_a_reader_understands(
        times in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
        label: String,
        iteration: u64,
        budget: u64,
        width: u16,
    ) {
        let mut timeline = examples::timeline();
        timeline.basis = Basis::Measured;
        timeline.trace.name = label.clone();
        timeline.iteration = Nanos(iteration);
        timeline.budget = Bytes(budget);
        let limit = u64::MAX >> 6;
        let example = schema::Interval { label, ..timeline.intervals[4].clone() };
        timeline.intervals.clear();
        timeline.memory.clear();
        for (start, end, bytes) in times {
            let (start, end) = (Nanos(start & limit), Nanos(end & limit));
            timeline.intervals.push(schema::Interval { start, end, ..example.clone() });
            let (resident, in_flight) = (Bytes(bytes), Bytes(bytes / 2));
            timeline.memory.push(MemoryPoint { at: start, resident, in_flight });
        }
        let svg = timeline_svg(&timeline, u32::from(width), &|_| None);
        let picture = roxmltree::Document::parse(&svg).map_err(|error| {
            TestCaseError::fail(error.to_string())
        })?;
        for data in picture.descendants().filter_map(|mark| mark.attribute("d")) {
            prop_assert!(!data.contains("NaN") && !data.contains("inf"), "{data}");
        }
        prop_assert_eq!(svg.clone(), timeline_svg(&timeline, u32::from(width), &|_| None));
    }
}
