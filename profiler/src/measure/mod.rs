//! What a device can do, measured: its link, how fast it computes.
//!
//! *Invariant: a machine's figures are those that were measured, and say how.* What is measured is
//! behind [`Copies`], so that every device's link is measured alike.

mod link;
mod machine;
mod roofline;

pub use link::{Copies, LinkCurve, Timed, measure_link};
pub use machine::{cuda_machine, host_machine, memory_of_this_machine};
pub use roofline::{Roofline, measure_host};
