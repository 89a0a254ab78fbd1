//! Which form of a tensor is where: the part of the contract that copies and codecs keep.
//!
//! A tensor is there as itself or as a compressed form that a codec made. Where a codec's output
//! may turn out larger than what is reserved for it, the compression puts the tensor itself into
//! its host buffer instead, copies of the compressed form then have nothing to do, and the
//! decompression fetches the tensor from there. So a compressed form belongs to one host buffer all
//! its way.

use schema::{
    Action, Buffer, BufferId, Bytes, CodecId, Fidelity, HostBuffer, HostBufferId, Plan, Task,
    TensorId, Trace,
};

use crate::{Model, NO_OP};

/// What a copy moves: a tensor itself or a compressed form of a size.
type Form = (Option<CodecId>, Bytes);

/// The forms that buffers hold, as a plan's actions are gone through in order.
pub(super) struct Forms<'a> {
    plan: &'a Plan,
    trace: &'a Trace,
    model: &'a Model,
    /// For each device buffer with a compressed form: the host buffer that may hold the tensor
    /// instead.
    instead: Vec<Option<HostBufferId>>,
    /// What was copied out to each host buffer.
    on_host: Vec<Option<Form>>,
}

/// What a copy's or a codec's action moves, from one buffer to another.
pub(super) enum Moved {
    Within(BufferId, BufferId),
    Out(BufferId, HostBufferId),
    In(HostBufferId, BufferId),
}

impl<'a> Forms<'a> {
    pub fn new(plan: &'a Plan, trace: &'a Trace, model: &'a Model) -> Self {
        let instead = vec![None; plan.buffers.len()];
        let there = |host: &HostBuffer| host.at_start.then_some((None, host.bytes));
        let on_host = plan.host_buffers.iter().map(there).collect();
        Self { plan, trace, model, instead, on_host }
    }

    /// What a copy's or a codec's action, the next of its kind, moves; or what is wrong with it.
    pub fn moved(&mut self, action: &Action) -> Result<Moved, String> {
        match action.task {
            Task::D2h(tensor) => self.copied_out(action, tensor),
            Task::H2d(tensor) => self.copied_in(action, tensor),
            Task::Compress(tensor) => self.compressed(action, tensor),
            Task::Decompress(tensor) => self.decompressed(action, tensor),
            Task::Run(op) | Task::Recompute(op) => Err(format!("runs {op}, which moves nothing")),
        }
    }

    /// Whether a host buffer has its tensor itself.
    pub fn is_itself_there(&self, host: HostBufferId) -> bool {
        let of = &self.plan.host_buffers[host.index()];
        of.compressed.is_none() && self.on_host[host.index()] == Some((None, of.bytes))
    }

    fn buffer(&self, id: BufferId) -> &'a Buffer {
        &self.plan.buffers[id.index()]
    }

    /// Whether a codec leaves what iterations go on from as it is: what no op makes passes none
    /// that changes values.
    fn may_make(&self, codec: CodecId, tensor: TensorId) -> bool {
        let made = self.model.producer[tensor.index()] != NO_OP;
        made || self.plan.codecs[codec.index()].fidelity == Fidelity::Lossless
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

    fn copied_out(&mut self, action: &Action, tensor: TensorId) -> Result<Moved, String> {
        let copied = self.only(&action.reads, tensor).filter(|_| action.writes.is_empty());
        let (Some(copied), Some(host)) = (copied, action.host) else {
            return Err(format!("does not copy one buffer of {tensor}"));
        };
        let form = self.buffer(copied).compressed;
        let there = self.plan.host_buffers[host.index()].compressed;
        if there.is_some_and(|codec| !self.may_make(codec, tensor)) {
            return Err(format!("changes the values of {tensor}, which the next iteration needs"));
        }
        if !self.is_for(host, tensor, copied)
            || (self.size_varies(form) && self.instead[copied.index()] != Some(host))
        {
            return Err(format!("copies {tensor} to or from a host buffer that is not its"));
        }
        self.on_host[host.index()] = Some((form, self.buffer(copied).bytes));
        Ok(Moved::Out(copied, host))
    }

    fn copied_in(&mut self, action: &Action, tensor: TensorId) -> Result<Moved, String> {
        let copied = self.only(&action.writes, tensor).filter(|_| action.reads.is_empty());
        let (Some(copied), Some(host)) = (copied, action.host) else {
            return Err(format!("does not copy one buffer of {tensor}"));
        };
        let Buffer { compressed, bytes, .. } = *self.buffer(copied);
        if !self.is_for(host, tensor, copied) {
            return Err(format!("copies {tensor} to or from a host buffer that is not its"));
        }
        if self.on_host[host.index()] != Some((compressed, bytes)) {
            return Err(format!("brings {tensor} back in another form than it went out"));
        }
        self.instead[copied.index()] = Some(host).filter(|_| self.size_varies(compressed));
        Ok(Moved::In(host, copied))
    }

    fn compressed(&mut self, action: &Action, tensor: TensorId) -> Result<Moved, String> {
        let raw = self.only(&action.reads, tensor).filter(|b| self.buffer(*b).compressed.is_none());
        let made = self.only(&action.writes, tensor);
        let made = made.filter(|b| self.buffer(*b).compressed.is_some());
        let (Some(raw), Some(made), []) = (raw, made, &action.in_place[..]) else {
            return Err(format!("does not make one compressed form of {tensor} from the tensor"));
        };
        if self.buffer(made).compressed.is_some_and(|codec| !self.may_make(codec, tensor)) {
            return Err(format!("changes the values of {tensor}, which the next iteration needs"));
        }
        let needs = self.size_varies(self.buffer(made).compressed);
        if action.host.is_some() != needs
            || action.host.is_some_and(|host| !self.is_for(host, tensor, made))
        {
            return Err(format!("has no host buffer of {tensor} to fall back on, or needs none"));
        }
        self.instead[made.index()] = action.host;
        Ok(Moved::Within(raw, made))
    }

    fn decompressed(&mut self, action: &Action, tensor: TensorId) -> Result<Moved, String> {
        let raw = self.only(&action.writes, tensor);
        let raw = raw.filter(|b| self.buffer(*b).compressed.is_none());
        let read = self.only(&action.reads, tensor);
        let read = read.filter(|b| self.buffer(*b).compressed.is_some());
        let (Some(raw), Some(read), []) = (raw, read, &action.in_place[..]) else {
            return Err(format!("does not make {tensor} from one compressed form of it"));
        };
        match action.host == self.instead[read.index()] {
            true => Ok(Moved::Within(read, raw)),
            false => Err(format!(
                "looks for {tensor} in another host buffer than its compression may have used"
            )),
        }
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
