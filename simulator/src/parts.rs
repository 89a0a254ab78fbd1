//! What a sequence is made of.

use schema::CodecCost;

use crate::{Model, NO_OP};

/// What happens to a tensor in a gap, as the evaluator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Treatment {
    /// It stays on the device.
    Keep,
    /// It is copied to the host and back.
    Swap,
    /// It is copied to the host and back each time that it or another tensor needs it. Where copies
    /// do not stay on the host, as `Swap`.
    SwapEachTime,
    /// It is given up, and its op is run again when it or another tensor needs it; from then on it
    /// stays until its next use.
    Recompute,
    /// It is given up, and its op is run again each time that it or another tensor needs it.
    RecomputeEachTime,
    /// A hypothesis: as `Swap`, but both copies take no time. What a gap costs is measured
    /// against this.
    SwapAtNoCost,
    /// It is copied to the host and back, and the host's processor keeps it in the compressed form
    /// of this codec: what that takes is part of the copies' times.
    SwapCompressedOnHost(u8),
    /// It is made smaller by this codec, and the compressed form is copied to the host and back.
    SwapCompressed(u8),
    /// It is made smaller by this codec, and the compressed form stays on the device.
    Compress(u8),
}

/// One run of an op or a codec. Codecs run among the ops, or on a lane of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The op; of a codec, the op after or before which it runs. [`NO_OP`] for the end of the
    /// iteration, the last position.
    pub op: u32,
    /// What is run.
    pub work: Work,
}

/// What is run at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The op.
    Run,
    /// The op, once more.
    Again,
    /// A codec, which makes the compressed form of a [`Packing`], given by its position in the
    /// list.
    Compress(u32),
    /// A codec, which makes the tensor of a [`Packing`] from its compressed form.
    Decompress(u32),
}

impl Position {
    /// Whether an op is run, rather than a codec or nothing.
    pub(crate) fn runs_op(self) -> bool {
        self.op != NO_OP && !self.is_codec()
    }

    /// Whether a codec is run.
    pub fn is_codec(self) -> bool {
        matches!(self.work, Work::Compress(_) | Work::Decompress(_))
    }
}

/// A tensor's compressed form, from its compression to its decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// The tensor.
    pub tensor: u32,
    /// The codec.
    pub codec: u8,
    /// What the codec makes of it.
    pub cost: CodecCost,
    /// The position at which it is compressed.
    pub position: u32,
    /// The swap that the compressed form leaves with, if it does.
    pub swap: Option<u32>,
}

impl Packing {
    /// Host memory for the raw tensor, from the compression to the decompression: where the data
    /// does worse than was reserved for, that is where it goes.
    pub(crate) fn host_bytes(&self, model: &Model) -> u64 {
        if self.cost.variable { model.bytes[self.tensor as usize] } else { 0 }
    }
}

/// How a tensor came to be in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Materialised {
    /// It is there before the first action.
    AtStart,
    /// The run at the residency's first position wrote it.
    Written,
    /// This return brought it back, in time for the residency's first position.
    CopiedIn(u32),
}

/// The time that a tensor or its compressed form spends in one buffer, in positions of the compute
/// lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residency {
    /// The tensor.
    pub tensor: u32,
    /// The first position that uses it.
    pub first: u32,
    /// The last position that uses it.
    pub last: u32,
    /// How it came there.
    pub origin: Materialised,
    /// The swap that copies it out after its last use, if one does.
    pub copied_out: Option<u32>,
    /// It is the compressed form of this [`Packing`] rather than the tensor itself.
    pub small: Option<u32>,
}

/// A tensor's way out and back, or its compressed form's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swap {
    pub tensor: u32,
    /// What goes over the link.
    pub bytes: u64,
    /// Host memory that is taken while it is away, beside what a packing takes.
    pub host_bytes: u64,
    /// The codec that made the compressed form.
    pub codec: Option<u8>,
    /// The codec by which the host makes it smaller, where that does so.
    pub there: Option<u8>,
    /// Its last use before the gap.
    pub out_after: u32,
    /// So many positions have to have ended before what is copied is all there: those up to the one
    /// that makes the tensor or may change it.
    pub ready: u32,
    pub at_no_cost: bool,
    /// The tensor has its home on the host: that is where it goes.
    pub home: Option<Home>,
}

/// What a swap of a tensor that has its home on the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// Nothing is copied: the tensor is there before the iteration begins.
    pub at_start: bool,
    /// How often the tensor had changed when it was copied.
    pub(crate) version: u32,
    /// How many updates on the host have ended by then: they read what was there before.
    pub(crate) updates: u32,
}

impl Swap {
    /// Whether the host has the tensor itself while it is away.
    pub fn is_plain(&self) -> bool {
        self.codec.is_none() && self.there.is_none() && !self.at_no_cost
    }
}

/// An update that the host's processor runs on what is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Update {
    pub op: u32,
    /// The position that comes before it in the trace, which has ended when it starts.
    pub after: u32,
    /// How many copies out have ended by then.
    pub outs: u32,
    /// Its part of the list of swaps whose host buffers it works on.
    pub reads: (u32, u32),
    /// Host memory that nothing needs after it.
    pub gives_back: u64,
}

/// An output laid over an input that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Donation {
    pub position: u32,
    pub input: u32,
    pub output: u32,
}

/// A tensor or compressed form that comes back from where a swap put it, before a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Return {
    pub swap: u32,
    pub before: u32,
    /// The position with which it has left the device: the swap's own, or a later one where it left
    /// again without a copy.
    pub left_after: u32,
    /// How many updates on the host have ended by then.
    pub updates: u32,
}
