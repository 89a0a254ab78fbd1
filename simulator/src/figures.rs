//! What a plan's document says of itself, computed again.

use schema::{Bytes, Nanos, Plan};

use crate::Program;
use crate::replay::{Schedule, replay};

/// What follows from a plan's actions, durations, buffers and addresses alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Time of one iteration, all lanes drained, with the durations that the plan states.
    pub iteration: Nanos,
    /// Largest sum of live buffers in that time.
    pub peak: Bytes,
    /// End of the highest buffer.
    pub arena: Bytes,
    /// End of the highest host buffer.
    pub host_arena: Bytes,
}

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

impl Figures {
    /// The figures of a well-formed plan.
    pub fn of(plan: &Plan) -> Self {
        let mut schedule = Schedule::default();
        replay(&Program::of(plan), &mut schedule);
        let end = |ends: &mut dyn Iterator<Item = (u64, Bytes)>| {
            Bytes(ends.map(|(address, bytes)| address + bytes.0).max().unwrap_or(0))
        };
        Self {
            iteration: Nanos(schedule.iteration_ns),
            peak: Bytes(schedule.peak_bytes),
            arena: end(&mut plan.buffers.iter().map(|b| (b.address, b.bytes))),
            host_arena: end(&mut plan.host_buffers.iter().map(|b| (b.address, b.bytes))),
        }
    }
}

/// Holds what a well-formed plan predicts against what follows from it.
///
/// # Errors
///
/// The first figure that differs.
pub fn check_figures(plan: &Plan) -> Result<Figures, Misstated> {
    let (figures, predicted) = (Figures::of(plan), plan.predicted);
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
