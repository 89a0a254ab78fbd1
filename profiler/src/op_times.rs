//! How long ops take on a device, from iterations that keep everything.

use schema::{Bytes, Lane, Nanos, Task, Timeline};

/// Times of a network's ops.
#[derive(Debug, Clone, PartialEq)]
pub struct OpTimes {
    /// For each op, the median over the iterations of the time from its start to the start of the
    /// next: what the lane is taken for, with what the device itself does in between.
    pub durations: Vec<Nanos>,
    /// Half of the ops scatter by no more than this share of their time: the median over the ops of
    /// their median distance from the median.
    pub scatter: f64,
    /// The time of each iteration, ascending.
    pub iterations: Vec<Nanos>,
    /// Whose libraries computed, where that may be one or another.
    pub computed_by: Option<String>,
    /// The budget of the plan that ran meanwhile; none where everything was kept.
    pub within: Option<Bytes>,
}

impl OpTimes {
    /// The same from iterations of a plan that also moves or recomputes: an op's time is that from its
    /// start to its end, as the lane may wait before the next. What copies slowed it by meanwhile is no time
    /// of its own, since a plan's prediction adds that again: beside a copy, an op is taken to have had the
    /// share `beside_copy` of its speed, as the machine says.
    pub fn under_plan(ops: usize, timelines: &[Timeline], beside_copy: f64) -> Self {
        let mut times = vec![Vec::with_capacity(timelines.len()); ops];
        for timeline in timelines {
            let copies = Busy::with_copies(timeline);
            // What ran elsewhere says nothing of the device.
            for interval in timeline.intervals.iter().filter(|i| i.lane != Lane::Host) {
                if let Task::Run(op) = interval.task {
                    let taken = interval.duration();
                    let beside = copies.before(interval.end) - copies.before(interval.start);
                    let lost = (beside.0 as f64 * (1.0 - beside_copy)) as u64;
                    times[op.index()].push(taken.saturating_sub(Nanos(lost)));
                }
            }
        }
        Self::of_times(&times, timelines)
    }

    /// The times of so many ops, from iterations of a plan that only runs them, each once and in
    /// order.
    pub fn of(ops: usize, timelines: &[Timeline]) -> Self {
        let mut times = vec![Vec::with_capacity(timelines.len()); ops];
        for timeline in timelines {
            let starts: Vec<Nanos> = timeline.on(Lane::Compute).map(|i| i.start).collect();
            let ends = starts.iter().skip(1).chain([&timeline.iteration]);
            for ((op, start), end) in times.iter_mut().zip(&starts).zip(ends) {
                op.push(end.saturating_sub(*start));
            }
        }
        Self::of_times(&times, timelines)
    }

    fn of_times(times: &[Vec<Nanos>], timelines: &[Timeline]) -> Self {
        let mut scatter: Vec<f64> = times.iter().map(|times| distance(times)).collect();
        scatter.sort_by(f64::total_cmp);
        let mut iterations: Vec<Nanos> = timelines.iter().map(|t| t.iteration).collect();
        iterations.sort_unstable();
        Self {
            durations: times.iter().map(|times| median(times)).collect(),
            scatter: scatter.get(scatter.len() / 2).copied().unwrap_or(0.0),
            iterations,
            computed_by: None,
            within: None,
        }
    }
}

/// When copies run, in either direction: stretches in their order, apart from each other, each with the
/// time of all before it.
struct Busy(Vec<(Nanos, Nanos, Nanos)>);

impl Busy {
    fn with_copies(timeline: &Timeline) -> Self {
        let copies = timeline.intervals.iter().filter(|i| matches!(i.lane, Lane::D2h | Lane::H2d));
        let mut copies: Vec<_> = copies.map(|copy| (copy.start, copy.end)).collect();
        copies.sort_unstable();
        let mut busy: Vec<(Nanos, Nanos, Nanos)> = Vec::with_capacity(copies.len());
        for (start, end) in copies {
            match busy.last_mut() {
                Some((_, last, _)) if start <= *last => *last = end.max(*last),
                last => {
                    let before = last.map_or(Nanos::ZERO, |(from, to, all)| *all + (*to - *from));
                    busy.push((start, end, before));
                }
            }
        }
        Self(busy)
    }

    /// How long copies have run up to a moment.
    fn before(&self, moment: Nanos) -> Nanos {
        let begun = self.0.partition_point(|(start, ..)| *start < moment);
        begun.checked_sub(1).map_or(Nanos::ZERO, |last| {
            let (start, end, before) = self.0[last];
            before + (end.min(moment) - start)
        })
    }
}

/// The median distance from the median, as a share of that.
fn distance(times: &[Nanos]) -> f64 {
    let middle = median(times);
    let distances: Vec<Nanos> = times.iter().map(|time| Nanos(time.0.abs_diff(middle.0))).collect();
    median(&distances).0 as f64 / middle.0.max(1) as f64
}

fn median(times: &[Nanos]) -> Nanos {
    crate::measure::median(times.to_vec()).unwrap_or_default()
}
