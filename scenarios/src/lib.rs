//! Machines, studies and recorded traces that come with tidegate, and how a trace's
//! compute times are carried to another machine.
//!
//! [`machine`] takes a name such as `titan-v` or, with another link, `titan-v+pcie5`;
//! [`machine_from_toml`] reads a file of the same form that a user wrote. The files, their form
//! and the conventions behind their figures are described in this folder's `README.md`.
//! Everything is embedded in the program: nothing here reads a file.

mod amount;
mod budget;
mod carry_over;
mod codec_models;
mod error;
mod machine_file;
mod machines;
mod modelled_times;
mod studies;
mod traces;

pub use budget::Budget;
pub use carry_over::{CarryOver, CarryOverError, Share, carry_over};
pub use codec_models::{codec_models, host_codec_models};
pub use error::ScenarioError;
pub use machines::{links, machine, machine_from_toml, machine_of_device, machine_with, machines};
pub use modelled_times::modelled_times;
pub use studies::*;
pub use traces::{trace, traces};
