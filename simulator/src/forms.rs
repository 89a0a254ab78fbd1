//! Which form of a tensor is where: the part of the contract that copies and codecs keep.
//!
//! A tensor is there as itself or as a small form that a codec made. Where a codec's output may
//! turn out larger than what is reserved for it, the compression puts the tensor itself into its
//! host buffer instead, copies of the small form then have nothing to do, and the decompression
//! fetches the tensor from there. So a small form belongs to one host buffer all its way.

use schema::{
    Action, Buffer, BufferId, Bytes, CodecId, Fidelity, HostBufferId, OpId, Plan, Task, TensorId,
    Trace,
};

/// What a copy moves: a tensor itself or a small form of a size.
type Form = (Option<CodecId>, Bytes);

/// The forms that buffers hold, as a plan's actions are gone through in order.
pub(crate) struct Forms<'a> {
    plan: &'a Plan,
    trace: &'a Trace,
    /// For each device buffer with a small form: the host buffer that may hold the tensor instead.
    instead: Vec<Option<HostBufferId>>,
    /// What was copied out to each host buffer.
    on_host: Vec<Option<Form>>,
    /// The op that has since changed in place what each host buffer is a copy of.
    changed_by: Vec<Option<OpId>>,
}

impl<'a> Forms<'a> {
    pub fn new(plan: &'a Plan, trace: &'a Trace) -> Self {
        let instead = vec![None; plan.buffers.len()];
        let hosts = plan.host_buffers.len();
        let (on_host, changed_by) = (vec![None; hosts], vec![None; hosts]);
        Self { plan, trace, instead, on_host, changed_by }
    }

    /// An op has run for the first time. One that cannot run again may have changed, in place, what it
    /// reads and no op makes: copies of that are out of date.
    pub fn has_run(&mut self, op: OpId, is_made: impl Fn(TensorId) -> bool) {
        let ran = &self.trace.ops[op.index()];
        if ran.rerunnable {
            return;
        }
        for (host, changed_by) in self.plan.host_buffers.iter().zip(&mut self.changed_by) {
            if ran.reads.contains(&host.tensor) && !is_made(host.tensor) {
                *changed_by = Some(op);
            }
        }
    }

    /// What is wrong with a copy's or a codec's action, the next of its kind.
    pub fn problem(&mut self, action: &Action) -> Option<String> {
        match action.task {
            Task::CopyOut(tensor) => self.problem_of_copy_out(action, tensor),
            Task::CopyIn(tensor) => self.problem_of_copy_in(action, tensor),
            Task::Compress(tensor) => self.problem_of_compression(action, tensor),
            Task::Decompress(tensor) => self.problem_of_decompression(action, tensor),
            Task::Run(_) | Task::Recompute(_) => None,
        }
    }

    fn buffer(&self, id: BufferId) -> &'a Buffer {
        &self.plan.buffers[id.index()]
    }

    fn size_varies(&self, codec: Option<CodecId>) -> bool {
        let fidelity = codec.map(|codec| self.plan.codecs[codec.index()].fidelity);
        fidelity.is_some_and(Fidelity::size_varies)
    }

    /// The one buffer of a tensor in a list.
    fn only(&self, buffers: &[BufferId], tensor: TensorId) -> Option<BufferId> {
        match buffers {
            [buffer] if self.buffer(*buffer).tensor == Some(tensor) => Some(*buffer),
            _ => None,
        }
    }

    fn problem_of_copy_out(&mut self, action: &Action, tensor: TensorId) -> Option<String> {
        let copied = self.only(&action.reads, tensor).filter(|_| action.writes.is_empty());
        let Some(copied) = copied else {
            return Some(format!("does not copy one buffer of {tensor}"));
        };
        let form = self.buffer(copied).compressed;
        let host = action.host?;
        if !self.is_for(host, tensor, copied)
            || (self.size_varies(form) && self.instead[copied.index()] != Some(host))
        {
            return Some(format!("copies {tensor} to or from a host buffer that is not its"));
        }
        self.on_host[host.index()] = Some((form, self.buffer(copied).bytes));
        self.changed_by[host.index()] = None;
        None
    }

    fn problem_of_copy_in(&mut self, action: &Action, tensor: TensorId) -> Option<String> {
        let copied = self.only(&action.writes, tensor).filter(|_| action.reads.is_empty());
        let Some(copied) = copied else {
            return Some(format!("does not copy one buffer of {tensor}"));
        };
        let Buffer { compressed, bytes, .. } = *self.buffer(copied);
        let host = action.host?;
        if !self.is_for(host, tensor, copied) {
            return Some(format!("copies {tensor} to or from a host buffer that is not its"));
        }
        if self.on_host[host.index()] != Some((compressed, bytes)) {
            return Some(format!("brings {tensor} back in another form than it went out"));
        }
        if let Some(op) = self.changed_by[host.index()] {
            return Some(format!("brings {tensor} back as it was before {op} may have changed it"));
        }
        self.instead[copied.index()] = action.host.filter(|_| self.size_varies(compressed));
        None
    }

    fn problem_of_compression(&mut self, action: &Action, tensor: TensorId) -> Option<String> {
        let raw = self.only(&action.reads, tensor).filter(|b| self.buffer(*b).compressed.is_none());
        let small = self.only(&action.writes, tensor);
        let small = small.filter(|b| self.buffer(*b).compressed.is_some());
        let (Some(_), Some(small), []) = (raw, small, &action.in_place[..]) else {
            return Some(format!("does not make one small form of {tensor} from the tensor"));
        };
        let needs = self.size_varies(self.buffer(small).compressed);
        if action.host.is_some() != needs
            || action.host.is_some_and(|host| !self.is_for(host, tensor, small))
        {
            return Some(format!("has no host buffer of {tensor} to fall back on, or needs none"));
        }
        self.instead[small.index()] = action.host;
        None
    }

    fn problem_of_decompression(&mut self, action: &Action, tensor: TensorId) -> Option<String> {
        let raw = self.only(&action.writes, tensor);
        let raw = raw.filter(|b| self.buffer(*b).compressed.is_none());
        let small = self.only(&action.reads, tensor);
        let small = small.filter(|b| self.buffer(*b).compressed.is_some());
        let (Some(_), Some(small), []) = (raw, small, &action.in_place[..]) else {
            return Some(format!("does not make {tensor} from one small form of it"));
        };
        (action.host != self.instead[small.index()]).then(|| {
            format!("looks for {tensor} in another host buffer than its compression may have used")
        })
    }

    /// Whether a host buffer is one for what a device buffer holds.
    fn is_for(&self, host: HostBufferId, tensor: TensorId, buffer: BufferId) -> bool {
        let (host, buffer) = (&self.plan.host_buffers[host.index()], self.buffer(buffer));
        let raw = self.trace.tensors[tensor.index()].bytes;
        if buffer.compressed.is_none() && host.compressed.is_some() {
            // The host makes the tensor smaller, and large again before it goes back.
            return host.tensor == tensor && host.bytes < raw;
        }
        let itself = buffer.compressed.is_none() || self.size_varies(buffer.compressed);
        let bytes = if itself { raw } else { buffer.bytes };
        host.tensor == tensor && host.compressed == buffer.compressed && host.bytes == bytes
    }
}
