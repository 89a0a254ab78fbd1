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
mod stated;
mod superneurons;
mod swap_all;
mod swap_opt;
mod swapadvisor;
mod tide;
mod vdnn;
mod vdnn_host;
mod zero;

pub use crate::method::{About, Method, Offload};
pub use budget_split::BudgetSplit;
pub use capuchin::Capuchin;
pub use checkpoints::SqrtN;
pub use comet::{
    ACCEPTABLE, Comet, INTERVAL, LayerStatistics, Refresh, UNIFORM, gradient_sigma, loss_weight,
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
pub use stated::Stated;
pub use superneurons::SuperNeurons;
pub use swap_all::SwapAll;
pub use swap_opt::SwapOpt;
pub use swapadvisor::SwapAdvisor;
pub use tide::Tide;
pub use vdnn::Vdnn;
pub use vdnn_host::VdnnHost;
pub use zero::Zero;

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
        Box::new(SqrtN::KEPT),
        Box::new(SqrtN::OFFLOADED),
        Box::new(Revolve),
        Box::new(Rotor),
        Box::new(RotorOffload),
        Box::new(Selective),
        Box::new(BudgetSplit),
        Box::new(Dtr),
        Box::new(VdnnHost),
        Box::new(Zero::OFFLOAD),
        Box::new(Zero::INFINITY),
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
