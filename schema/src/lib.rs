//! The documents that tidegate's parts exchange, and nothing else.
//!
//! A [`Trace`] is one iteration of one network as it was measured, imported or modelled; a
//! [`Machine`] is what it runs on; [`CodecModels`] say what its codecs make of tensors; a [`Plan`]
//! says what moves when and to which address, and a [`PlanSeries`] which plan serves which epochs;
//! a [`Timeline`] is what happened, or what is predicted to happen. Each is a versioned file that a
//! person can read, diff and commit (see [`mod@file`]).
//!
//! This crate knows no algorithm: it holds values, checks that they are well formed, and reads
//! and writes them.

mod codec_cost;
mod codec_models;
mod coded;
pub mod digest;
pub mod file;
mod file_error;
mod ids;
mod json_schema;
mod link;
mod machine;
mod net_link;
mod pending;
mod plan;
mod plan_series;
mod printable;
mod recipe;
mod temporary;
mod timeline;
mod trace;
mod trace_check;
mod units;
mod untimed;

pub use codec_cost::CodecCost;
pub use codec_models::{
    CodecModel, CodecModels, CodecRef, Fidelity, ModelBasis, RatioBand, SizeModel, TimeModel,
    TimePoint,
};
pub use coded::{CodedParts, CodedSize, Texture};
pub use digest::Digest;
pub use file::{Document, FileError, Malformed};
pub use ids::{ActionId, BufferId, CodecId, HostBufferId, OpId, TensorId};
pub use json_schema::json_schema;
pub use link::{Bandwidth, BandwidthPoint, Direction, Link};
pub use machine::{Compute, Device, Host, Machine};
pub use net_link::NetLink;
pub use pending::PendingFile;
pub use plan::{
    Action, Buffer, Choice, Decision, HostBuffer, InPlaceBuffers, Lane, Plan, Predicted, Reference,
    Task,
};
pub use plan_series::{EpochPlan, PlanSeries};
pub use printable::printable;
pub use recipe::{
    Activation, Extents, Framework, Lora, NetworkOptions, Optimizer, Recipe, Shard, Tf32,
};
pub use temporary::{is_temporary, remove_temporary_files};
pub use timeline::{Basis, InCore, Interval, MemoryPoint, Stall, StallCause, Timeline};
pub use trace::{
    Dtype, Home, InPlace, Op, OpKind, Origin, Phase, Processor, Provenance, Rerun, Role, Tensor,
    Trace,
};
pub use units::{Bytes, BytesPerSec, Nanos, ParseUnitError};
pub use untimed::Untimed;
