//! The host device runs plans: the same bits as in-core, within the memory that the plan says.

mod bits;
mod compressed;
mod faults;
mod gradient_error;
mod interleavings;
mod networks;
mod problem;
mod random_plans;
mod reference;
mod refusals;
mod tape;
mod trainable;
mod training;

#[path = "../../../planner/tests/all/common/build.rs"]
#[allow(dead_code, reason = "only what `random` needs is used here")]
mod build;
#[path = "../../../planner/tests/all/common/random.rs"]
#[allow(dead_code, reason = "only its decisions are used here")]
mod random;
