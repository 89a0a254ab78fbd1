//! Everything stays on the device, as long as the framework held it.

use schema::Bytes;
use simulator::Policy;

use crate::method::{About, Method};
use crate::{Decided, Monitor, Problem, Result};

/// No plan at all: what the framework does by itself. It fits, or it does not.
pub struct InCoreMethod;

impl Method for InCoreMethod {
    fn about(&self) -> About {
        About {
            name: "in-core",
            summary: "keep everything, as the framework does by itself",
            source: "the recording",
        }
    }

    fn decide(&self, problem: &Problem, _: Bytes, _: &dyn Monitor) -> Result<Decided> {
        let kept = Decided::about_feature_maps(problem, problem.keep_all(), Policy::EARLY);
        Ok(Decided { as_recorded: true, ..kept })
    }
}
