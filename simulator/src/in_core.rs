//! The iteration as the framework ran it, without a memory limit.

use schema::{Bytes, InCore, Nanos, Trace};

use crate::Program;
use crate::replay::{Schedule, replay};

/// Replays a trace as the framework ran it: each tensor is held until the framework gave it back, and what
/// no op makes all the time.
pub fn in_core(trace: &Trace) -> InCore {
    let mut schedule = Schedule::default();
    replay(&Program::in_core(trace), &mut schedule);
    InCore {
        iteration: Nanos(schedule.iteration_ns),
        peak: Bytes(schedule.peak_bytes),
        fixed: trace.constant_bytes(),
    }
}
