//! The methods: each decides, for every gap that it considers, what becomes of the tensor.

mod checkpoints;
mod in_core;
mod overheads;
mod pooch;
mod superneurons;
mod swap_all;
mod swap_opt;
mod vdnn;

use schema::Bytes;
use simulator::{GapId, Policy, Treatment};

use crate::{Decided, PlanError, Problem, Watch};

pub use checkpoints::SqrtN;
pub use in_core::InCoreMethod;
pub use overheads::Exposed;
pub use pooch::Pooch;
pub use superneurons::SuperNeurons;
pub use swap_all::SwapAll;
pub use swap_opt::SwapOpt;
pub use vdnn::Vdnn;

/// A way to decide.
pub trait Method: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in a sentence.
    fn summary(&self) -> &'static str;

    /// The publication that it follows.
    fn source(&self) -> &'static str;

    /// Decisions that fit `target` bytes of device memory.
    fn decide(
        &self,
        problem: &Problem,
        target: Bytes,
        watch: &dyn Watch,
    ) -> Result<Decided, PlanError>;

    /// Methods that this one includes: where one of their plans is faster, it is this one's, too.
    fn includes(&self) -> Vec<Box<dyn Method>> {
        Vec::new()
    }
}

/// All methods, in the order in which they are listed.
pub fn all() -> Vec<Box<dyn Method>> {
    vec![
        Box::new(InCoreMethod),
        Box::new(SwapAll { scheduled: false }),
        Box::new(SwapAll { scheduled: true }),
        Box::new(Vdnn::All),
        Box::new(Vdnn::Conv),
        Box::new(Vdnn::Dynamic),
        Box::new(SuperNeurons),
        Box::new(SwapOpt),
        Box::new(Pooch),
        Box::new(SqrtN),
    ]
}

/// The method that plans use unless told otherwise.
pub const DEFAULT: &str = "pooch";

/// Finds a method by its name.
pub fn by_name(name: &str) -> Option<Box<dyn Method>> {
    all().into_iter().find(|method| method.name() == name)
}

/// Decisions about all feature maps.
fn about_feature_maps(problem: &Problem, treatments: Vec<Treatment>, policy: Policy) -> Decided {
    Decided { treatments, policy, considered: problem.feature_maps.clone(), as_recorded: false }
}

/// Every feature map treated alike.
fn all_feature_maps(problem: &Problem, treatment: Treatment) -> Vec<Treatment> {
    with(problem.keep_all(), &problem.feature_maps, treatment)
}

/// Some gaps treated alike, the others as they were.
fn with(mut treatments: Vec<Treatment>, gaps: &[GapId], treatment: Treatment) -> Vec<Treatment> {
    gaps.iter().for_each(|gap| treatments[*gap] = treatment);
    treatments
}

fn needs_swap(problem: &Problem) -> Result<(), PlanError> {
    if problem.allowed.swap { Ok(()) } else { Err(PlanError::NotAllowed { what: "swap" }) }
}

fn needs_recompute(problem: &Problem) -> Result<(), PlanError> {
    if problem.allowed.recompute {
        Ok(())
    } else {
        Err(PlanError::NotAllowed { what: "recompute" })
    }
}
