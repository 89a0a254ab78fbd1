//! Iterations through the allocator, in the order of their ops or actions.

use schema::{Bytes, Plan, Trace};

use super::{CachingAllocator, Held, OutOfMemory};

/// What PyTorch's allocator would say of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The most that is allocated, each block rounded up.
    pub allocated: Bytes,
    /// The most that is reserved.
    pub reserved: Bytes,
}

struct Blocks {
    allocator: CachingAllocator,
    held: Vec<Option<Held>>,
}

impl Blocks {
    fn new(count: usize, limit: Option<Bytes>) -> Self {
        Self { allocator: CachingAllocator::new(limit), held: vec![None; count] }
    }

    fn make(&mut self, what: usize, bytes: Bytes) -> Result<(), OutOfMemory> {
        if self.held[what].is_none() {
            self.held[what] = self.allocator.allocate(bytes)?;
        }
        Ok(())
    }

    /// What is made over something else has its block, if it fits there.
    fn hand_over(&mut self, from: (usize, Bytes), to: (usize, Bytes)) {
        if to.1 <= from.1 {
            self.held[to.0] = self.held[from.0].take();
        }
    }

    fn free(&mut self, what: usize) {
        if let Some(held) = self.held[what].take() {
            self.allocator.free(held);
        }
    }

    fn reserved(self) -> Reserved {
        let (allocated, reserved) =
            (self.allocator.peak_allocated(), self.allocator.peak_reserved());
        Reserved { allocated, reserved }
    }
}

/// So many iterations, as those after the first begin with segments that the first has left.
const ITERATIONS: usize = 3;

/// What PyTorch reserves when it runs a trace in core, in a process that does nothing else.
///
/// # Errors
/// Where it needs more than the limit.
pub fn reserved_in_core(trace: &Trace, limit: Option<Bytes>) -> Result<Reserved, OutOfMemory> {
    let mut written = vec![false; trace.tensors.len()];
    trace.ops.iter().flat_map(|op| &op.writes).for_each(|t| written[t.index()] = true);
    let mut appears = vec![Vec::new(); trace.ops.len()];
    let workspace = trace.tensors.len();
    let mut blocks = Blocks::new(workspace + 1, limit);
    for (index, tensor) in trace.tensors.iter().enumerate().filter(|(t, _)| !written[*t]) {
        match tensor.appears_before {
            Some(op) => appears[op.index()].push(index),
            None => blocks.make(index, tensor.bytes)?,
        }
    }
    let bytes = |tensor: usize| (tensor, trace.tensors[tensor].bytes);
    for _ in 0..ITERATIONS {
        for (op, appears) in trace.ops.iter().zip(&appears) {
            for pair in &op.in_place {
                blocks.hand_over(bytes(pair.input.index()), bytes(pair.output.index()));
            }
            for tensor in appears.iter().copied().chain(op.writes.iter().map(|t| t.index())) {
                blocks.make(tensor, trace.tensors[tensor].bytes)?;
            }
            blocks.make(workspace, op.workspace)?;
            blocks.free(workspace);
            op.frees.iter().for_each(|tensor| blocks.free(tensor.index()));
        }
    }
    Ok(blocks.reserved())
}

/// What PyTorch reserves when it carries out a well-formed plan's actions one after another, with a block for
/// each buffer.
///
/// # Errors
/// Where it needs more than the limit.
pub fn reserved_by_plan(plan: &Plan, limit: Option<Bytes>) -> Result<Reserved, OutOfMemory> {
    let mut last = vec![None; plan.buffers.len()];
    for (index, action) in plan.actions.iter().enumerate() {
        let used = action.reads.iter().chain(&action.writes).chain(&action.holds);
        used.for_each(|buffer| last[buffer.index()] = Some(index));
    }
    let mut dying = vec![Vec::new(); plan.actions.len()];
    for (buffer, last) in last.iter().enumerate() {
        if let Some(action) = last.filter(|_| !plan.buffers[buffer].at_end) {
            dying[action].push(buffer);
        }
    }
    let bytes = |buffer: usize| (buffer, plan.buffers[buffer].bytes);
    let mut blocks = Blocks::new(plan.buffers.len(), limit);
    let all = plan.buffers.iter().enumerate();
    for (buffer, of) in all.clone().filter(|(_, buffer)| buffer.at_start) {
        blocks.make(buffer, of.bytes)?;
    }
    for (action, dying) in plan.actions.iter().zip(&dying) {
        for pair in &action.in_place {
            blocks.hand_over(bytes(pair.input.index()), bytes(pair.output.index()));
        }
        for buffer in &action.writes {
            blocks.make(buffer.index(), plan.buffers[buffer.index()].bytes)?;
        }
        dying.iter().for_each(|buffer| blocks.free(*buffer));
    }
    Ok(blocks.reserved())
}
