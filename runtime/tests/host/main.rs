//! The host device runs plans: the same bits as in-core, within the memory that the plan says.

mod bits;
mod compressed;
mod faults;
mod interleavings;
mod networks;
mod problem;
mod random_plans;
mod reference;
mod refusals;
mod training;
