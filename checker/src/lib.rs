//! A second answer to "does this plan compute this trace under every timing?", for tests alone.
//!
//! It is written from what the documents say of themselves (crate `schema`) and from the execution
//! model in ARCHITECTURE.md, and shares no code with the simulator's proof and contract, so that a
//! mistake in one shows as a disagreement with the other. It is plain and slow on purpose.
//!
//! It answers in two ways:
//!
//! - [`Prepared::check`] is exact. Reachability over lanes and `after` decides for every pair of
//!   actions whether one has ended before the other starts. Where everything that touches the same
//!   memory or changes the same buffer is ordered, all timings compute the same, and one run in the
//!   list's order tells what.
//! - [`Machine::run`] carries the plan out under one drawn timing, in memory whose bytes say whose
//!   they are: content is there when an action ends, and gone as soon as another starts to write
//!   there. What is read too early, overwritten, out of date or in a wrong form shows by itself.
//!
//! `not_before` is ignored by both: it is pacing alone.

pub mod build;
mod codec;
mod exact;
mod layout;
mod machine;
mod memory;
pub mod mutation;
mod order;
mod peak;
mod prepared;
mod random;
mod task;
mod timing;
mod wanted;
mod wrong;

pub use machine::{Fallback, Machine};
pub use mutation::Mutation;
pub use prepared::Prepared;
pub use random::Random;
pub use timing::Timing;
pub use wanted::Wanted;
pub use wrong::{Rule, Wrong};
