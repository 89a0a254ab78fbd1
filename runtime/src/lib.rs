//! Real layers and the devices that run a plan.
//!
//! [`layers`] computes: each layer is a function from slices to slices. [`network`] writes a
//! network down as a list of ops over tensors, forward, backward and update, and runs one op at a
//! time on memory that the caller provides. [`profile`] runs whole iterations and writes what it
//! measures as a [`schema::Trace`]. [`device`] runs a plan of that trace for real iterations, and
//! writes a measured [`schema::Timeline`]; [`training`] feeds it images and keeps the curves.
//!
//! What needs much memory asks [`memory`] for room first.
//!
//! Nothing here decides what stays in memory; that is a plan's business.

pub mod cuda;
pub mod device;
pub mod layers;
pub mod memory;
pub mod network;
pub mod profile;
pub mod training;
