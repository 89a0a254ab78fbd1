//! Figures of single plans and timelines.

use schema::{Basis, Lane, Plan, StallCause, Timeline, Trace};

use super::Figure;
use super::bars::{Bar, Bars, Part};
use super::contents::Contents;
use super::hidden::Hidden;
use super::plot::{BLUE, VERMILLION, WIDTH};
use super::{decisions, memory};
use crate::text::{op_times, percent};
use crate::timeline_svg::timeline_picture;

/// A timeline, with the plan that it is of and the trace that was planned, where they are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What happened, or what is predicted to happen.
    pub timeline: Timeline,
    /// Its plan: needed for decisions and for what memory holds.
    pub plan: Option<Plan>,
    /// Its trace: gives names, phases and roles.
    pub trace: Option<Trace>,
}

impl Run {
    pub(super) fn title(&self) -> String {
        let Timeline { method, trace, machine, .. } = &self.timeline;
        format!("{method}: {} on {}", trace.name, machine.name)
    }

    fn heading(&self, what: &str) -> String {
        format!("{what}: {}", self.timeline.method)
    }

    /// What its times rest on, as a sentence.
    fn basis(&self) -> String {
        match self.timeline.basis {
            Basis::Measured => format!("Measured on {}.", self.timeline.machine.name),
            Basis::Predicted => {
                let provenance = self.trace.as_ref().map(|trace| &trace.provenance);
                format!("Predicted; {}.", op_times(provenance))
            }
        }
    }

    /// Whether both are timelines of one plan.
    fn same_plan(&self, other: &Self) -> bool {
        let (a, b) = (&self.timeline, &other.timeline);
        (&a.trace, &a.machine, &a.method, a.budget) == (&b.trace, &b.machine, &b.method, b.budget)
    }
}

/// The predicted and the measured run of each plan that has both.
pub(super) fn pairs(runs: &[Run]) -> Vec<(&Run, &Run)> {
    let measured = runs.iter().filter(|run| run.timeline.basis == Basis::Measured);
    let predicted = |run: &Run| {
        let mut others = runs.iter().filter(|other| other.timeline.basis == Basis::Predicted);
        others.find(|other| other.same_plan(run))
    };
    measured.filter_map(|run| predicted(run).map(|other| (other, run))).collect()
}

/// Timelines: a predicted and a measured one of the same plan in one figure, on one scale.
pub(super) fn timelines(runs: &[Run]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let partner =
            |other: &&Run| other.same_plan(run) && other.timeline.basis != run.timeline.basis;
        if runs[..index].iter().any(|earlier| partner(&earlier)) {
            continue;
        }
        let shown: Vec<&Run> =
            std::iter::once(run).chain(runs[index + 1..].iter().find(partner)).collect();
        let until = shown.iter().map(|run| run.timeline.iteration).max().unwrap_or_default();
        let pictures = shown.iter().map(|run| {
            timeline_picture(&run.timeline, WIDTH, until, &|op| {
                run.trace.as_ref().and_then(|t| t.ops.get(op.index())).map(|op| op.phase)
            })
        });
        let basis: Vec<_> = shown.iter().map(|run| run.basis()).collect();
        figures.push(Figure::new(
            "timeline",
            &run.heading("Timeline"),
            format!(
                "{}. One iteration, from left to right: what the device computes, what is copied \
                 to the host (d2h) and back (h2d), and below the memory that this takes. Hatched \
                 is time in which the device waits: for data to arrive, for memory to be freed, or \
                 for its turn. {} Rest the pointer on a box to see what it is. {}",
                run.title(),
                stalls(&run.timeline),
                basis.join(" ")
            ),
            pictures.collect(),
        ));
    }
    figures
}

/// How long compute waits, by cause, as a sentence.
pub(super) fn stalls(timeline: &Timeline) -> String {
    let of_compute = timeline.intervals.iter().filter(|i| i.lane == Lane::Compute);
    let stalls: Vec<_> = of_compute.filter_map(|i| i.stall).collect();
    let names = [
        (StallCause::Data, "for data"),
        (StallCause::Memory, "for memory"),
        (StallCause::Turn, "for its turn"),
    ];
    let idle = names.map(|(cause, name)| {
        let of_cause = stalls.iter().filter(|stall| stall.cause == cause);
        (of_cause.map(|stall| stall.idle.0 as f64).sum::<f64>(), name)
    });
    let known: f64 = idle.iter().map(|(time, _)| time).sum();
    let rest = (timeline.compute_idle().0 as f64 - known, "for the last copies");
    let by_cause = idle.into_iter().chain([rest]).filter_map(|(time, name)| {
        let share = time / timeline.iteration.0.max(1) as f64;
        (time > 0.0).then(|| format!("{} {name}", percent(share)))
    });
    let by_cause: Vec<_> = by_cause.collect();
    match by_cause.as_slice() {
        [] => "Compute never waits.".into(),
        causes => format!("Of the iteration, compute waits {}.", causes.join(", ")),
    }
}

/// What memory holds; needs plan and trace.
pub(super) fn memory(run: &Run) -> Option<Figure> {
    let (plan, trace) = (run.plan.as_ref()?, run.trace.as_ref()?);
    let contents = Contents::of(plan, &run.timeline, trace);
    Some(Figure::new(
        "memory",
        &run.heading("What memory holds"),
        format!(
            "{}. Device memory over the iteration by what it is for, under the budget; the \
             legend's figures are those of the peak, which the vertical line marks and the bar \
             below takes apart: each part is one tensor, named where there is room and when the \
             pointer rests on it. {}",
            run.title(),
            run.basis()
        ),
        vec![memory::picture(&run.timeline, &contents, trace)],
    ))
}

/// What was decided; needs the plan.
pub(super) fn decisions(run: &Run) -> Option<Figure> {
    let decided = decisions::decided(run.plan.as_ref()?, run.trace.as_ref());
    if decided.is_empty() {
        return None;
    }
    Some(Figure::new(
        "decisions",
        &run.heading("Decisions over the network's depth"),
        format!(
            "{}. Each column is a tensor that the method considered, as high as it is large; the \
             strip below shows the decision alone. What is made early is used late, and waits \
             longest. A tensor that waits several times is shown by its longest wait. From the \
             plan.",
            run.title()
        ),
        vec![decisions::picture(&run.timeline.method, &decided)],
    ))
}

/// The share of copying that goes on while the device computes, of all runs that copy.
pub(super) fn hidden(runs: &[Run]) -> Option<Figure> {
    let mut bars = Vec::new();
    for run in runs {
        for (lane, name) in [(Lane::D2h, "out"), (Lane::H2d, "in")] {
            let Hidden { copying, hidden } = Hidden::of(&run.timeline, lane);
            if copying.0 == 0 {
                continue;
            }
            let bare = copying.saturating_sub(hidden);
            let basis = match run.timeline.basis {
                Basis::Measured => " (measured)",
                Basis::Predicted => "",
            };
            let part = |kind, what: &str, time: schema::Nanos| Part {
                kind,
                value: time.as_millis_f64(),
                title: format!("{}, {name}: {time} {what}", run.title()),
            };
            bars.push(Bar {
                heading: None,
                name: format!("{}{basis}, {name}", run.timeline.method),
                parts: vec![
                    part(0, "while the device computes", hidden),
                    part(1, "while it waits", bare),
                ],
                label: format!("{} hidden", percent(hidden.ratio(copying))),
            });
        }
    }
    let bars = Bars {
        name: "share of copying hidden behind compute".into(),
        axis: "time in which the link copies (ms)".into(),
        kinds: vec![("device computes".into(), BLUE), ("device waits".into(), VERMILLION)],
        bars,
        line: None,
    };
    let mut basis: Vec<_> = runs.iter().map(Run::basis).collect();
    basis.dedup();
    bars.figure(
        "hidden",
        "Copying hidden behind compute",
        format!(
            "How long each direction of the link is busy in one iteration, and how much of that \
             goes on while the device computes: copying costs only what is not hidden, and of \
             that only what compute waits for. {}",
            basis.join(" ")
        ),
    )
}
