//! vDNN++: what vDNN offloads is made smaller on the host.

use schema::Bytes;
use simulator::{GapId, Treatment};

use crate::method::{About, Method, needs_codec, needs_swap};
use crate::methods::cswap::swap_what_fits;
use crate::{Allowed, Decided, Monitor, Problem, Result};

/// vDNN++ (Shriram et al., IPDPS 2019), as CSWAP+ (section 6) implements it to compare with: what
/// vDNN offloads, the inputs of convolutions, goes over the link as it is; on the host, 64 threads
/// make smaller by zero-value compression what is [sparse enough](VdnnHost::SPARSE), and large
/// again before it goes back. So less host memory is taken, and the link carries as much as before.
///
/// The host's work on a tensor is part of its copies: the next one in that direction waits for it,
/// as the pinned buffer that the copies pass through is not free before. That buffer itself, and
/// what turns out larger than is reserved for it, are in host memory of their own, which the plan
/// does not count. The paper's other two techniques, about device memory, are left out, as CSWAP+
/// does.
pub struct VdnnHost;

impl VdnnHost {
    /// The share of zeros above which the host compresses a tensor.
    pub const SPARSE: f64 = 0.6;
}

impl Method for VdnnHost {
    fn about(&self) -> About {
        About {
            name: "vdnn++",
            summary: "offload the inputs of convolutions, which the host compresses where they are sparse",
            source: "vDNN++ (Shriram et al., IPDPS 2019), as CSWAP+, section 6, has it",
        }
    }

    fn needs_codecs(&self) -> bool {
        true
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let zvc = problem.codecs.codecs.iter().position(|codec| codec.codec == "zvc");
        let runs_there = zvc.is_some() && problem.codecs.costs.has_host();
        needs_codec(problem, "zero-value compression on the host", "zvc", runs_there)?;
        let packed = |gap: GapId| {
            let tensor = problem.model.gaps()[gap].tensor;
            let sparse = problem.sparsity(tensor).is_some_and(|share| share > Self::SPARSE);
            let mut costs = problem.may_pack_there(gap).filter(|_| sparse);
            costs.find(|(codec, _)| Some(usize::from(*codec)) == zvc).map(|(codec, _)| codec)
        };
        Ok(swap_what_fits(problem, target, |gap| match packed(gap) {
            Some(codec) => Treatment::SwapCompressedOnHost(codec),
            None => Treatment::Swap,
        }))
    }

    fn uses(&self) -> Allowed {
        Allowed { recompute: false, ..Allowed::ALL }
    }
}
