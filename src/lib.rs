//! Offline planning and simulation of GPU memory: what of a training iteration is kept, swapped,
//! recomputed or compressed, when, and at which address. The `tidegate` command parses and prints; all
//! else is in these crates, which a program can call:
//!
//! ```
//! use tidegate::{planner, scenarios, simulator};
//!
//! let trace = scenarios::trace("resnet18-host")?;
//! let machine = scenarios::machine("titan-v")?;
//! let budget = scenarios::Budget::Percent(70.0).of(simulator::in_core(&trace).peak);
//! let problem = planner::Problem::new(&trace, &machine, budget).with_evaluations(1_000);
//! let plan = planner::plan(&planner::methods::Tide, &problem, &planner::NoMonitor)?;
//! println!("{} an iteration, {} at most", plan.predicted.iteration, plan.predicted.peak);
//! assert!(plan.predicted.peak <= budget);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The plan carries its proof ([`planner::ProvenPlan`]): that it is safe under every timing, and that it
//! computes its trace.

/// Tensors made smaller.
pub use codecs;
/// Questions that take more than one plan or run.
pub use experiments;
/// Described networks, lowered to traces.
pub use networks;
/// Methods that decide, and the lowering that carries it out.
pub use planner;
/// Traces imported and measured.
pub use profiler;
/// Time models fitted to samples.
pub use regression;
/// Tables, figures and pages.
pub use reports;
/// Layers that compute, and devices that run plans.
pub use runtime;
/// Machines, studies and traces that come with tidegate.
pub use scenarios;
/// Documents, and nothing else.
pub use schema;
/// Replay, proof and evaluation.
pub use simulator;
