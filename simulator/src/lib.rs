//! The execution model: what a plan's actions do to time and memory.
//!
//! A plan is a set of actions on lanes. [`replay`](replay::replay) gives each a start and an end:
//! the earliest moment when its lane is free and everything it comes after has ended.
//! [`prove`] shows that no timing whatsoever can make a plan read a buffer too early or put two
//! live buffers at one address, and [`check_contract`] that the plan computes its trace. The
//! [`Evaluator`] answers "how long, and how high a peak, under these decisions?" without building
//! a plan.
//!
//! Nothing here touches a file, a clock, a network or a device. Times are integers, events are
//! ordered by (time, lane), and the same input gives the same result bit for bit.

mod account;
mod addresses;
mod caching;
mod clocks;
mod codec_lane;
mod codecs;
mod contract;
mod copy_times;
mod evaluator;
mod figures;
mod in_core;
mod lanes;
mod model;
mod packing;
mod parts;
mod policy;
mod profile;
mod program;
mod proof;
mod proven;
mod record;
pub mod replay;
mod sequence;
mod timeline;
mod timing;

pub use account::Account;
pub use addresses::Addresses;
pub use caching::{
    CachingAllocator, Held, OutOfMemory, Reserved, reserved_by_plan, reserved_in_core,
};
pub use codecs::{CodecLane, Codecs};
pub use contract::{ContractError, check_contract};
pub use evaluator::{
    Awaited, Evaluator, Infeasible, Outcome, Record, RecordedCopy, RecordedUpdate,
};
pub use figures::{Misstated, check_figures, figures};
pub use in_core::in_core;
pub use model::{Gap, GapId, Model, NO_OP};
pub use parts::{Home, Materialised, Packing, Position, Residency, Treatment, Work};
pub use policy::{OffloadStart, Policy, PrefetchGate};
pub use profile::Profile;
pub use program::Program;
pub use proof::{Unsafe, prove};
pub use proven::{ProvenPlan, Unproven};
pub use sequence::{Step, StepError, StepProblem};
pub use timeline::{Event, predict, timeline};

pub use clocks::HappensBefore;
