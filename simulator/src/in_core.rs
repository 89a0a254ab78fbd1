//! The iteration as the framework ran it, without a memory limit.

use schema::{Bytes, Nanos, Trace};

use crate::Program;
use crate::replay::{Schedule, replay};

/// Time and memory of an iteration without a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InCore {
    /// All ops, one after another.
    pub iteration: Nanos,
    /// Largest sum of live tensors, workspace and constants, each held until the framework gave
    /// it back.
    pub peak: Bytes,
    /// The tensors that no op makes.
    pub fixed: Bytes,
}

/// Replays a trace as the framework ran it.
pub fn in_core(trace: &Trace) -> InCore {
    let mut schedule = Schedule::default();
    replay(&Program::in_core(trace), &mut schedule);
    InCore {
        iteration: Nanos(schedule.iteration_ns),
        peak: Bytes(schedule.peak_bytes),
        fixed: trace.constant_bytes(),
    }
}
