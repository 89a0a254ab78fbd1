//! Methods that decide what leaves device memory, and the lowering that carries it out.
//!
//! Planning has two steps. A [method](methods) *decides*: for the gaps between two uses of a
//! tensor it says whether the tensor is kept, swapped, recomputed or made smaller, or it states the
//! order of computation step by step. The [lowering](lower::lower) turns decisions into a plan:
//! actions with order, dependencies and addresses. Methods share the lowering; when copies start is
//! a parameter of it ([`simulator::Policy`]).
//!
//! Nothing here touches a file, a clock, a network or a device, and the same problem gives the
//! same plan.

mod bound;
mod codecs;
mod cut;
mod decided;
mod error;
pub mod families;
mod feature_maps;
mod fit;
pub mod inference;
mod kept_load;
mod lower;
mod method;
pub mod methods;
mod monitor;
mod moving;
mod plan;
mod points;
mod problem;
mod recomputable;
mod runs;
mod split_mix;
mod spread;

pub use bound::{Bound, bound, tightened};
pub use codecs::{CodecOptions, CodecTable};
pub use cut::least_budget;
pub use decided::{Decided, FROM};
use error::Result;
pub use error::{Beyond, PlanError};
pub use feature_maps::feature_maps;
pub use lower::lower;
pub use monitor::{Monitor, NoMonitor, Progress};
pub use moving::bound::bound as moving_bound;
pub use plan::{INTERRUPTED, decisions, plan};
pub use problem::{Allowed, Limits, Problem};
pub use simulator::{ProvenPlan, Unproven};
pub use spread::{Replays, Spread, SpreadError, replays, retimed, slower};
