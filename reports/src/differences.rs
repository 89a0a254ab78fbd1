//! Which actions differ most between a predicted and a measured timeline of one plan, and why.

use schema::{ActionId, Interval, Lane, Nanos, Task, Timeline};

/// An action that took longer or shorter than predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The action.
    pub action: ActionId,
    /// What it does.
    pub task: Task,
    /// The op or tensor.
    pub label: String,
    /// How long it was predicted to take.
    pub predicted: Nanos,
    /// How long it took.
    pub measured: Nanos,
    /// What the difference is most likely due to.
    pub cause: Cause,
}

/// What a difference is most likely due to, judged by what ran beside the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// An op took longer though little was copied beside it.
    LongerOp,
    /// An op took less time.
    ShorterOp,
    /// An op took longer, and for at least half of its time something was copied or compressed
    /// beside it, as was not when ops were measured.
    Contention,
    /// A copy took longer while the other direction was idle.
    SlowerLink,
    /// A copy took longer, and for at least half of its time the other direction copied, too.
    BothDirections,
    /// A copy took less time.
    FasterLink,
    /// A codec took longer.
    SlowerCodec,
    /// A codec took less time.
    FasterCodec,
}

impl Cause {
    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::LongerOp => "longer op",
            Self::ShorterOp => "shorter op",
            Self::Contention => "contention with copies",
            Self::SlowerLink => "slower link",
            Self::BothDirections => "both directions at once",
            Self::FasterLink => "faster link",
            Self::SlowerCodec => "slower codec",
            Self::FasterCodec => "faster codec",
        }
    }
}

/// What an action does, in a word or two.
pub fn task_name(task: Task) -> &'static str {
    match task {
        Task::Run(_) => "op",
        Task::Recompute(_) => "op, again",
        Task::D2h(_) => "copy out",
        Task::H2d(_) => "copy in",
        Task::Compress(_) => "compress",
        Task::Decompress(_) => "decompress",
    }
}

impl Difference {
    /// By how much the measured time is longer, in nanoseconds.
    pub fn nanos(&self) -> i128 {
        i128::from(self.measured.0) - i128::from(self.predicted.0)
    }
}

/// The actions of both timelines, by descending difference; of equals, the earlier first.
pub fn differences(predicted: &Timeline, measured: &Timeline) -> Vec<Difference> {
    let of_action = |timeline: &Timeline| -> Vec<Interval> {
        let mut intervals = timeline.intervals.clone();
        intervals.sort_by_key(|interval| interval.action);
        intervals
    };
    let (first, second) = (of_action(predicted), of_action(measured));
    let mut all = Vec::new();
    for interval in &second {
        let found = first.binary_search_by_key(&interval.action, |interval| interval.action);
        let Some(before) = found.ok().map(|at| &first[at]).filter(|i| i.task == interval.task)
        else {
            continue;
        };
        let (predicted, took) = (before.duration(), interval.duration());
        if predicted != took {
            all.push(Difference {
                action: interval.action,
                task: interval.task,
                label: interval.label.clone(),
                predicted,
                measured: took,
                cause: cause(interval, took > predicted, measured),
            });
        }
    }
    all.sort_by_key(|difference| std::cmp::Reverse(difference.nanos().unsigned_abs()));
    all
}

fn cause(interval: &Interval, longer: bool, measured: &Timeline) -> Cause {
    match (interval.task, longer) {
        (Task::Run(_) | Task::Recompute(_), false) => Cause::ShorterOp,
        (Task::Run(_) | Task::Recompute(_), true) => match beside(interval, measured, |_| true) {
            true => Cause::Contention,
            false => Cause::LongerOp,
        },
        (Task::D2h(_) | Task::H2d(_), false) => Cause::FasterLink,
        (Task::D2h(_) | Task::H2d(_), true) => {
            let copies = |lane| matches!(lane, Lane::D2h | Lane::H2d);
            match beside(interval, measured, copies) {
                true => Cause::BothDirections,
                false => Cause::SlowerLink,
            }
        }
        (Task::Compress(_) | Task::Decompress(_), true) => Cause::SlowerCodec,
        (Task::Compress(_) | Task::Decompress(_), false) => Cause::FasterCodec,
    }
}

/// Whether other lanes were busy for at least half of an interval. Times of several lanes count
/// each.
fn beside(interval: &Interval, timeline: &Timeline, counts: impl Fn(Lane) -> bool) -> bool {
    let others = timeline.intervals.iter();
    let others = others.filter(|other| other.lane != interval.lane && counts(other.lane));
    let shared: u64 = others
        .map(|other| other.end.min(interval.end).saturating_sub(other.start.max(interval.start)).0)
        .sum();
    2 * shared >= interval.duration().0
}

#[cfg(test)]
mod tests {
    use schema::Basis;

    use super::*;
    use crate::examples;

    /// The example, measured: the first op as predicted, the others off.
    fn measured() -> Timeline {
        let mut timeline = examples::timeline();
        timeline.basis = Basis::Measured;
        let ends = [1_000_001, 2_400_001, 2_900_000, 3_400_001, 4_500_000, 7_800_000, 7_900_000];
        for (interval, end) in timeline.intervals.iter_mut().zip(ends) {
            interval.end = schema::Nanos(end);
        }
        timeline.intervals[6].start = Nanos(7_800_000);
        timeline
    }

    #[test]
    fn the_largest_difference_comes_first_with_its_cause() {
        let found = differences(&examples::timeline(), &measured());
        let line = |d: &Difference| format!("{} {:+} {}", d.label, d.nanos(), d.cause.name());
        let lines: Vec<_> = found.iter().map(line).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        conv1' -900000 shorter op
        conv2' +800000 longer op
        a<1> +400000 slower link
        conv2 +400000 contention with copies
        a<1> +400000 slower link
        ");
    }

    #[test]
    fn equal_timelines_do_not_differ() {
        assert_eq!(differences(&examples::timeline(), &examples::timeline()), []);
    }
}
