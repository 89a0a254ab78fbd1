//! Questions that take more than one plan or run: comparisons of methods, time against memory, largest
//! batches, studies, trainings planned epoch by epoch, checks of predictions, trainings under a budget,
//! lookups in tables, and benches.
//!
//! *Invariant: nothing is printed. Whoever waits is told of progress by a [`Monitor`](planner::Monitor),
//! which may also end the work; what is wrong is an [`Error`] that names its place and its remedy. What
//! writes files writes them whole or not at all.*

pub mod acceptance;
pub mod asked;
pub mod bench;
pub mod bundled;
pub mod check;
pub mod compare;
pub mod compared;
mod compressed_forms;
mod conditions;
mod devices;
pub mod epochs;
mod error;
pub mod explain;
pub mod fits;
pub mod forecast;
pub mod frontier;
pub mod imported;
pub mod largest;
pub mod lookups;
pub mod machine_at_hand;
pub mod option_text;
pub mod page;
pub mod percent;
pub mod plan_trace;
pub mod policy;
pub mod profile;
mod published;
pub mod rates;
pub mod recipes;
pub mod report;
mod scatter;
mod side_by_side;
pub mod sources;
pub mod study;
pub mod sufficient;
pub mod tables;
pub mod textures;
pub mod train;
pub mod waiting;
pub mod zeros;

pub use compressed_forms::CompressedForms;
pub use conditions::{CodecInputs, Conditions, Inputs};
pub use devices::{Devices, devices};
pub use error::{Error, Kind, Result, SamplesProblem};
pub use published::published_figures;
pub use scatter::{Robust, Scatter};
