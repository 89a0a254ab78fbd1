//! vDNN: offload the inputs of layers, layer by layer.

use schema::{Bytes, OpKind, Phase};
use simulator::{GapId, OffloadStart, Policy, PrefetchGate, Treatment};

use crate::decided::{all_feature_maps, with};
use crate::method::{About, Method, needs_swap};
use crate::{Allowed, Decided, Monitor, Problem, Result};

/// vDNN (Rhu et al., MICRO 2016). A feature map is offloaded while the last forward layer that
/// reads it computes, and prefetched while the backward computation reaches the preceding
/// convolution (its `findPrefetchLayer` searches back no further than that); compute and copies
/// are synchronised after every layer (sections 3.2 and 3.3). `All` offloads every feature map,
/// `Conv` those that convolutions read, `Dynamic` nothing, or as `Conv` or `All`: the
/// fastest of those that fit.
///
/// We depart in one point: vDNN also picks a convolution algorithm per layer, fast or frugal; a
/// recording has one time and one workspace per op, so there is nothing to pick.
pub enum Vdnn {
    /// vDNN_all.
    All,
    /// vDNN_conv.
    Conv,
    /// vDNN_dyn.
    Dynamic,
}

/// When vDNN's copies start; and that methods which compress what vDNN swaps do so on compute, as
/// CSWAP+ assumes: its time for a codec is added to that of the layers (equations 3 to 7).
pub(super) const POLICY: Policy = Policy {
    offload: OffloadStart::WithLastUse,
    prefetch: PrefetchGate::FromPrecedingConvolution,
    synchronous: true,
    codecs_beside: false,
    copies_stay: false,
};

impl Method for Vdnn {
    fn about(&self) -> About {
        let name = match self {
            Self::All => "vdnn-all",
            Self::Conv => "vdnn-conv",
            Self::Dynamic => "vdnn-dyn",
        };
        let summary = match self {
            Self::All => "offload every feature map, in step with the layers",
            Self::Conv => "offload the inputs of convolutions, in step with the layers",
            Self::Dynamic => "offload nothing, the inputs of convolutions, or all: the fastest",
        };
        About { name, summary, source: "vDNN (Rhu et al., MICRO 2016), sections 3.2-3.4" }
    }

    fn decide(&self, problem: &Problem, _: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let treatments = match self {
            Self::All => all_feature_maps(problem, Treatment::Swap),
            Self::Conv => with(problem.keep_all(), &convolution_inputs(problem), Treatment::Swap),
            Self::Dynamic => problem.keep_all(),
        };
        Ok(Decided::about_feature_maps(problem, treatments, POLICY))
    }

    fn uses(&self) -> Allowed {
        Allowed::COPIES
    }

    fn includes(&self) -> Vec<Box<dyn Method>> {
        match self {
            Self::All | Self::Conv => Vec::new(),
            Self::Dynamic => vec![Box::new(Self::Conv), Box::new(Self::All)],
        }
    }
}

/// The feature maps that forward convolutions read.
pub(super) fn convolution_inputs(problem: &Problem) -> Vec<GapId> {
    let mut read_by_convolution = vec![false; problem.trace.tensors.len()];
    for op in &problem.trace.ops {
        if op.kind == OpKind::Convolution && op.phase == Phase::Forward {
            op.reads.iter().for_each(|t| read_by_convolution[t.index()] = true);
        }
    }
    let gaps = problem.model.gaps();
    let is_read = |gap: &GapId| read_by_convolution[gaps[*gap].tensor.index()];
    problem.feature_maps.iter().copied().filter(is_read).collect()
}
