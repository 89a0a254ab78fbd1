//! Figures of single plans and timelines.

use std::cmp::Reverse;

use schema::{Basis, Choice, Lane, Nanos, OpId, Plan, StallCause, TensorId, Timeline, Trace};

use super::bars::{Bar, Bars, Part};
use super::contents::{Contents, Piece};
use super::figure::Figure;
use super::hidden::Hidden;
use super::plot::{BLUE, VERMILLION, WIDTH};
use super::table::Table;
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
    fn heading(&self, what: &str) -> String {
        format!("{what}: {}, within {}", self.timeline.title(), self.timeline.budget)
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

/// So many runs have a column each in one table, and one scale.
pub(super) const FEW_RUNS: usize = 4;

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
        // A few are compared with each other: on one scale.
        let on_scale = if runs.len() <= FEW_RUNS { runs.iter().collect() } else { shown.clone() };
        let until = on_scale.iter().map(|run| run.timeline.iteration).max().unwrap_or_default();
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
                "One iteration, from left to right: what the device computes, what is copied to \
                 the host (d2h) and back (h2d), and below the memory that this takes. Hatched is \
                 time in which the device does not compute, by what it waits for. {} Rest the \
                 pointer on a box to see what it is. {}",
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
    let names = [
        (StallCause::Data, "for data"),
        (StallCause::Memory, "for memory"),
        (StallCause::Turn, "for its turn"),
    ];
    let idle = names.map(|(cause, name)| (timeline.compute_waits(cause).0 as f64, name));
    let known: f64 = idle.iter().map(|(time, _)| time).sum();
    let all = timeline.compute_idle().0 as f64;
    let last = (after_compute(timeline).0 as f64).min(all - known);
    let rest = [(last, "for the last copies"), (all - known - last, "between ops")];
    let by_cause = idle.into_iter().chain(rest).filter_map(|(time, name)| {
        let share = time / timeline.iteration.0.max(1) as f64;
        (time > 0.0).then(|| format!("{} {name}", at_least(share)))
    });
    let by_cause: Vec<_> = by_cause.collect();
    match by_cause.as_slice() {
        [] => "Compute never waits.".into(),
        causes => format!("Of the iteration, compute waits {}.", causes.join(", ")),
    }
}

/// How long the iteration goes on after compute has ended: the last copies take that.
fn after_compute(timeline: &Timeline) -> Nanos {
    let last = timeline.on(Lane::Compute).map(|interval| interval.end).max();
    timeline.iteration.saturating_sub(last.unwrap_or_default())
}

/// A share that is more than nothing, as more than nothing.
fn at_least(share: f64) -> String {
    if share < 0.0005 { "under 0.1 %".into() } else { percent(share) }
}

/// What memory holds; needs plan and trace.
pub(super) fn memory(run: &Run) -> Option<Figure> {
    let (plan, trace) = (run.plan.as_ref()?, run.trace.as_ref()?);
    let contents = Contents::of(plan, &run.timeline, trace);
    Some(
        Figure::new(
            "memory",
            &run.heading("What memory holds"),
            format!(
                "Device memory over the iteration by what it is for, under the budget; the \
             legend's figures are those of the peak, which the vertical line marks and the bar \
             below takes apart: each part is one tensor, named where there is room and when the \
             pointer rests on it. {}",
                run.basis()
            ),
            vec![memory::picture(&run.timeline, &contents, trace)],
        )
        .with_table(largest(plan, trace, &contents)?),
    )
}

/// So many tensors of the peak are told one by one.
const LARGEST: usize = 10;

/// The largest tensors at the peak, and what becomes of each.
fn largest(plan: &Plan, trace: &Trace, contents: &Contents) -> Option<Table> {
    let peak = memory::peak(&contents.moments())?;
    let mut pieces = contents.at(peak.at);
    pieces.sort_by_key(|piece| (Reverse(piece.bytes), piece.tensor));
    let row = |piece: &Piece| {
        let tensor = piece.tensor.and_then(|tensor| trace.tensors.get(tensor.index()));
        vec![
            ("tensor", tensor.map_or("workspace of an op".into(), |tensor| tensor.name.clone())),
            ("kind", piece.content.name().into()),
            ("what becomes of it", piece.tensor.map_or("-".into(), |id| fate(plan, trace, id))),
            ("size", piece.bytes.to_string()),
            ("of the peak", percent(piece.bytes.0 as f64 / peak.total().0.max(1) as f64)),
        ]
    };
    let title = format!("The largest at the peak ({} at {})", peak.total(), peak.at);
    Some(Table::of(title, 3, pieces.iter().take(LARGEST).map(row)))
}

/// What a plan does with a tensor, over all the times that it waits.
fn fate(plan: &Plan, trace: &Trace, tensor: TensorId) -> String {
    if plan.host_buffers.iter().any(|host| host.at_start && host.tensor == tensor) {
        return "on the host between iterations".into();
    }
    let of_tensor = plan.decisions.iter().filter(|decision| decision.tensor == tensor);
    let op = |op: OpId| trace.ops.get(op.index()).map_or(op.to_string(), |op| op.name.clone());
    let mut fates: Vec<String> = Vec::new();
    for decision in of_tensor.clone().filter(|decision| decision.choice != Choice::Keep) {
        let name = decisions::name(decision.choice);
        let codec = if decision.codec.is_some() { ", compressed" } else { "" };
        let until = decision.before.map_or("the end".into(), op);
        fates.push(format!("{name}{codec}, after {}, until {until}", op(decision.after)));
    }
    match (fates.len(), of_tensor.count()) {
        (0, 0) if trace.ops.iter().any(|op| op.writes.contains(&tensor)) => {
            "used soon: nothing to decide".into()
        }
        (0, 0) => "on the device all the time".into(),
        (0, _) => "kept".into(),
        (1, _) => fates.remove(0),
        (several, _) => format!("{}; and {} times more", fates[0], several - 1),
    }
}

pub(super) fn decisions(run: &Run) -> Option<Figure> {
    let decided = decisions::decided(run.plan.as_ref()?, run.trace.as_ref());
    if decided.is_empty() {
        return None;
    }
    Some(Figure::new(
        "decisions",
        &run.heading("Decisions over the network's depth"),
        format!(
            "Each column is a tensor that the method considered, as high as it is large; the strip \
             below shows the decision alone. What is made early is used late, and waits longest. A \
             tensor that waits several times is shown by its longest wait. Of {}, from the plan.",
            run.timeline.method
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
                title: format!("{}, {name}: {time} {what}", run.timeline.title()),
            };
            bars.push(Bar {
                heading: None,
                name: format!("{}{basis}, {name}", run.timeline.method),
                parts: vec![
                    part(0, "while the device computes", hidden),
                    part(1, "while it waits", bare),
                ],
                label: format!("{} beside compute", percent(hidden.ratio(copying))),
            });
        }
    }
    let bars = Bars {
        name: "copying while the device computes".into(),
        axis: "time in which the link copies (ms)".into(),
        kinds: vec![("device computes".into(), BLUE), ("device waits".into(), VERMILLION)],
        bars,
        line: None,
    };
    let mut basis: Vec<_> = runs.iter().map(Run::basis).collect();
    basis.dedup();
    bars.figure(
        "hidden",
        "Copying while the device computes",
        format!(
            "How long each direction of the link is busy in one iteration, and how much of that \
             goes on while the device computes: copying costs only the rest, and of \
             that only what compute waits for. {}",
            basis.join(" ")
        ),
    )
}
