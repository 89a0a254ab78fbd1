//! The methods: each decides, for every gap that it considers, what becomes of the tensor.

mod budget_split;
mod capuchin;
mod chain;
mod checkpoints;
mod comet;
mod cswap;
mod dtr;
mod ilp;
mod in_core;
mod overheads;
mod pooch;
mod revolve;
mod rotor;
mod rotor_offload;
mod selective;
mod superneurons;
mod swap_all;
mod swap_opt;
mod swapadvisor;
mod tide;
mod vdnn;
mod vdnn_host;

use std::collections::BTreeMap;

use schema::Bytes;
use simulator::{GapId, Policy, Treatment};

use crate::decide::DECIDED_PERMILLE;
use crate::{Allowed, Decided, Monitor, PlanError, Problem};

pub use budget_split::BudgetSplit;
pub use capuchin::Capuchin;
pub use checkpoints::SqrtN;
pub use comet::{
    ACCEPTABLE, COEFFICIENT, Comet, INTERVAL, LayerStatistics, Refresh, UNIFORM, gradient_sigma,
    loss_weight,
};
pub use cswap::{
    Cswap, ParameterRange, StaticCompression, SwapCost, Swapped, fixed_rates, parameter_range,
};
pub use dtr::{Dtr, OnlineRun};
pub use ilp::Ilp;
pub use in_core::InCoreMethod;
pub use overheads::Exposed;
pub use pooch::Pooch;
pub use revolve::Revolve;
pub use rotor::Rotor;
pub use rotor_offload::RotorOffload;
pub use selective::Selective;
pub use superneurons::SuperNeurons;
pub use swap_all::SwapAll;
pub use swap_opt::SwapOpt;
pub use swapadvisor::SwapAdvisor;
pub use tide::Tide;
pub use vdnn::Vdnn;
pub use vdnn_host::VdnnHost;

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
        monitor: &dyn Monitor,
    ) -> Result<Decided, PlanError>;

    /// Shares of the budget, in thousandths, for which it decides, one after another, until its
    /// decisions can be lowered.
    fn targets(&self) -> &'static [u64] {
        &DECIDED_PERMILLE
    }

    /// Whether it cannot do without a codec, so that a problem without any is none for it.
    fn needs_codecs(&self) -> bool {
        false
    }

    /// Whether a comparison leaves it out unless it is named: it takes long, and seldom beats what it
    /// starts from.
    fn only_on_request(&self) -> bool {
        false
    }

    /// Whether the batches that it trains with are powers of two.
    fn batches_are_powers_of_two(&self) -> bool {
        false
    }

    /// Of what a problem allows, what this method makes use of. Its own decisions and those of the
    /// methods that it includes keep to it: [`plan`](crate::plan) gives them a problem that allows no
    /// more.
    fn restricts(&self, allowed: Allowed) -> Allowed {
        allowed
    }

    /// The same method with a parameter of its lossy codec, where that slides over the epochs of a
    /// training.
    fn with_parameter(&self, _: u32) -> Option<Box<dyn Method>> {
        None
    }

    /// What its plans state as settings.
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

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
        Box::new(Capuchin),
        Box::new(SwapAdvisor),
        Box::new(SqrtN),
        Box::new(Revolve),
        Box::new(Rotor),
        Box::new(RotorOffload),
        Box::new(Selective),
        Box::new(BudgetSplit),
        Box::new(Dtr),
        Box::new(VdnnHost),
        Box::new(StaticCompression::default()),
        Box::new(Cswap::Lossless),
        Box::new(Cswap::Plus { parameter: None }),
        Box::new(Comet::default()),
        Box::new(Ilp::CHECKMATE),
        Box::new(Ilp::POET),
        Box::new(Ilp::AUTOTM),
        Box::new(Ilp::ALL),
        Box::new(Tide),
    ]
}

/// The method that plans use unless told otherwise.
pub const DEFAULT: &str = "tide";

/// Finds a method by its name.
pub fn by_name(name: &str) -> Option<Box<dyn Method>> {
    all().into_iter().find(|method| method.name() == name)
}

/// Decisions about all feature maps.
fn about_feature_maps(problem: &Problem, treatments: Vec<Treatment>, policy: Policy) -> Decided {
    Decided {
        treatments,
        policy,
        considered: problem.feature_maps.clone(),
        steps: None,
        as_recorded: false,
    }
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

/// That the problem has a codec that a method needs, and may use it.
fn needs_codec(
    problem: &Problem,
    what: &'static str,
    option: &'static str,
    has_it: bool,
) -> Result<(), PlanError> {
    match problem.allowed.compress && has_it {
        true => Ok(()),
        false => Err(PlanError::NoCodec { what, option }),
    }
}
