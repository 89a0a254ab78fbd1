//! The optimizer on the host: ZeRO-Offload, and ZeRO-Infinity's parameters there, too.

use schema::Bytes;
use simulator::Policy;

use crate::method::{About, Method, Offload};
use crate::methods::SqrtN;
use crate::{Allowed, Decided, Monitor, Problem, Result};

/// ZeRO-Offload (Ren et al., USENIX ATC 2021) on one device, or the offload of parameters to host
/// memory of ZeRO-Infinity (Rajbhandari et al., SC 2021).
///
/// As in section 4.1 of the former, 16-bit parameters are on the device, the 32-bit ones and the
/// optimizer's state on the host, whose processor updates them; a gradient leaves as soon as the
/// backward phase has it, beside the ops that follow. As in the latter's section 5.1, with NVMe left out,
/// a layer's parameters come in for the ops that use them, forward and backward, early where there
/// is room, and leave without a copy. We depart in this:
///
/// - An update starts when its gradients are on the host and its place in the trace has come; the
///   publication's updates start when all gradients are there. Traces have updates after all gradients
///   unless they say otherwise.
/// - Updated parameters come in when the next iteration begins, before the ops that use them, and not
///   tile by tile beside the updates (section 5): the same bytes over the same link.
/// - The delayed update of one step (section 5.2) is left out: it changes what is trained.
/// - What becomes of activations is left to users there. Here they are kept where they fit, and else
///   recomputed by [square-root checkpointing](SqrtN).
/// - One device has nothing to partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zero(Offload);

impl Zero {
    /// ZeRO-Offload.
    pub const OFFLOAD: Self = Self(Offload::Updates);
    /// ZeRO-Infinity's parameters on the host.
    pub const INFINITY: Self = Self(Offload::Parameters);
}

impl Method for Zero {
    fn about(&self) -> About {
        match self.0 {
            Offload::Updates => About {
                name: "zero-offload",
                summary: "optimizer state and its updates on the host, gradients leave as they are made",
                source: "ZeRO-Offload (Ren et al., USENIX ATC 2021), section 4.1",
            },
            Offload::Parameters => About {
                name: "zero-infinity",
                summary: "as zero-offload, and parameters come in for each use",
                source: "ZeRO-Infinity (Rajbhandari et al., SC 2021), section 5.1, without NVMe",
            },
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, monitor: &dyn Monitor) -> Result<Decided> {
        let kept = problem.keep_all();
        match problem.evaluator(Policy::EARLY, target).evaluate(&kept) {
            Ok(_) => Ok(Decided::about_feature_maps(problem, kept, Policy::EARLY)),
            Err(_) => SqrtN::KEPT.decide(problem, target, monitor),
        }
    }

    fn offloads(&self) -> Option<Offload> {
        Some(self.0)
    }

    fn uses(&self) -> Allowed {
        Allowed::WITHOUT_CODECS
    }

    fn only_on_request(&self) -> bool {
        true
    }
}
