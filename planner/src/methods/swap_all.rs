//! Every feature map is swapped.

use schema::Bytes;
use simulator::{Policy, PrefetchGate, Treatment};

use crate::decided::all_feature_maps;
use crate::method::{About, Method, needs_swap};
use crate::{Allowed, Decided, Monitor, Problem, Result};

/// `swap-all` and `swap-all(w/o scheduling)` of PooCH section 5.1: all feature maps are swapped
/// out after their last forward use. Scheduled, each comes back as early as memory allows
/// (section 4.3); unscheduled, with the computation before the one that needs it.
pub struct SwapAll {
    /// Copies in start as early as memory allows.
    pub scheduled: bool,
}

impl Method for SwapAll {
    fn about(&self) -> About {
        let name = if self.scheduled { "swap-all" } else { "swap-all-unscheduled" };
        let summary = if self.scheduled {
            "swap every feature map, back as early as memory allows"
        } else {
            "swap every feature map, back with the op before the one that needs it"
        };
        About { name, summary, source: "PooCH, section 5.1" }
    }

    fn decide(&self, problem: &Problem, _: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let prefetch = match self.scheduled {
            true => PrefetchGate::AsMemoryAllows,
            false => PrefetchGate::WithPrecedingOp,
        };
        let policy = Policy { prefetch, ..Policy::EARLY };
        let treatments = all_feature_maps(problem, Treatment::Swap);
        Ok(Decided::about_feature_maps(problem, treatments, policy))
    }

    fn uses(&self) -> Allowed {
        Allowed::COPIES
    }
}
