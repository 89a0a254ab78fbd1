//! What a device can do, measured: its link, how fast it computes.
//!
//! *Invariant: a machine's figures are those that were measured, and say how.* What is measured is
//! behind [`Copies`] and [`Loads`], so that every device is measured alike.

use schema::Nanos;

mod contention;
mod link;
mod machine;
mod roofline;

pub use contention::{BESIDE, Contention, Loads, Slowed, measure_contention, name as beside_name};
pub use link::{Copies, LinkCurve, Timed, measure_link};
pub use machine::{cuda_machine, host_machine, memory_of_this_machine};
pub use roofline::{Roofline, measure_host};

pub(crate) fn median(mut times: Vec<Nanos>) -> Option<Nanos> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}
