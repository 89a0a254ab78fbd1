//! What a plan's document says of itself, computed again.

use schema::{Bytes, Nanos, Plan, Predicted};

use crate::Program;
use crate::replay::{Schedule, replay};

/// A plan that says something of itself that is not so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan states {stated} for its {field}, which is {found}: plan again")]
pub struct Misstated {
    /// What it is, as documents name it.
    pub field: &'static str,
    /// What the plan says.
    pub stated: String,
    /// What follows from its actions and buffers.
    pub found: String,
}

/// What follows from a well-formed plan's actions, durations, buffers and addresses alone; its bound is
/// the plan's.
pub fn figures(plan: &Plan) -> Predicted {
    let mut schedule = Schedule::default();
    replay(&Program::of(plan), &mut schedule);
    let end = |ends: &mut dyn Iterator<Item = (u64, Bytes)>| {
        Bytes(ends.map(|(address, bytes)| address + bytes.0).max().unwrap_or(0))
    };
    Predicted {
        iteration: Nanos(schedule.iteration_ns),
        peak: Bytes(schedule.peak_bytes),
        arena: end(&mut plan.buffers.iter().map(|b| (b.address, b.bytes))),
        host_arena: end(&mut plan.host_buffers.iter().map(|b| (b.address, b.bytes))),
        bound: plan.predicted.bound,
    }
}

/// Holds what a well-formed plan predicts against what follows from it.
///
/// # Errors
///
/// The first figure that differs.
pub fn check_figures(plan: &Plan) -> Result<Predicted, Misstated> {
    let (figures, predicted) = (figures(plan), plan.predicted);
    let bytes = [
        ("arena_bytes", predicted.arena, figures.arena),
        ("host_arena_bytes", predicted.host_arena, figures.host_arena),
        ("peak_bytes", predicted.peak, figures.peak),
    ];
    // To the byte and the nanosecond: larger units hide what differs.
    let bytes = bytes.map(|(field, stated, found)| (field, stated.0, found.0, "B"));
    let time = ("iteration_ns", predicted.iteration.0, figures.iteration.0, "ns");
    for (field, stated, found, unit) in bytes.into_iter().chain([time]) {
        if stated != found {
            let [stated, found] = [stated, found].map(|number| format!("{number} {unit}"));
            return Err(Misstated { field, stated, found });
        }
    }
    Ok(figures)
}
