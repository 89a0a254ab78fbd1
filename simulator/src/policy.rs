//! What of a method is not a decision about a tensor.

/// When copies start: the part of a method that is not a decision about a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// When a copy out may start.
    pub offload: OffloadStart,
    /// When a copy in may start.
    pub prefetch: PrefetchGate,
    /// Each run waits for the copies that were started with the run before it, as in vDNN, which
    /// synchronises compute and copies after every layer.
    pub synchronous: bool,
    /// Codecs run on a lane of their own where the machine has one. If not, they run on compute,
    /// as methods assume that compress before a tensor is handed to the copies.
    pub codecs_beside: bool,
    /// What has been copied out stays on the host until it is needed there for the last time: a
    /// tensor that no op changes in place, is back and leaves again is given up without a copy. If
    /// not, its place on the host is free when it is back, and it is copied out each time that it
    /// leaves.
    pub copies_stay: bool,
}

impl Policy {
    /// PooCH's (section 4.3): out after the last use, in as early as memory allows; codecs, of
    /// which PooCH has none, beside compute; each time that a tensor leaves it is copied.
    pub const EARLY: Self = Self {
        offload: OffloadStart::AfterLastUse,
        prefetch: PrefetchGate::AsMemoryAllows,
        synchronous: false,
        codecs_beside: true,
        copies_stay: false,
    };

    /// As [`Policy::EARLY`], with copies that stay on the host for as long as they are of use.
    pub const EARLY_COPIES_STAY: Self = Self { copies_stay: true, ..Self::EARLY };

    /// As [`Policy::EARLY_COPIES_STAY`], with copies out that start as soon as there is something to copy.
    pub const ONCE_MADE: Self = Self { offload: OffloadStart::OnceMade, ..Self::EARLY_COPIES_STAY };
}

/// When a copy out may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffloadStart {
    /// When the last use before the gap has ended.
    AfterLastUse,
    /// With the last use before the gap, where that only reads the tensor.
    WithLastUse,
    /// As soon as the tensor is as it will be copied, in the order in which tensors leave: it goes when
    /// its copy and its last use before the gap have ended. Where treatments rather than steps make a
    /// sequence, this is as [`Self::WithLastUse`].
    OnceMade,
}

/// When a copy in may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefetchGate {
    /// As soon as there is room for it until it is needed (PooCH 4.3).
    AsMemoryAllows,
    /// With the run before the one that needs it, if there is room by then, and else when there
    /// is (PooCH's "without scheduling").
    WithPrecedingOp,
    /// With the convolution before the run that needs it, whether there is room or not: too
    /// little room is a failure (SuperNeurons, as PooCH 5.2 states it).
    WithPrecedingConvolution,
    /// With the convolution before the run that needs it, or as soon after as there is room
    /// (vDNN's search window).
    FromPrecedingConvolution,
}
