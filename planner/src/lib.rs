//! Methods that decide what leaves device memory, and the lowering that carries it out.
//!
//! Planning has two steps. A [method](methods) *decides*: for the gaps between two uses of a
//! tensor it says whether the tensor is kept, swapped or recomputed. The [lowering](lower::lower)
//! turns decisions into a plan: actions with order, dependencies and addresses. Methods share the
//! lowering; when copies start is a parameter of it ([`simulator::Policy`]).
//!
//! Nothing here touches a file, a clock, a network or a device, and the same problem gives the
//! same plan.

mod bound;
mod decide;
mod error;
mod feature_maps;
mod lower;
pub mod methods;
mod problem;
mod watch;

pub use bound::{Bound, bound};
pub use decide::{Decided, plan};
pub use error::PlanError;
pub use feature_maps::feature_maps;
pub use lower::lower;
pub use problem::{Allowed, Limits, Problem};
pub use watch::{NoWatch, Progress, Watch};
