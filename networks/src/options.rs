//! What a user may choose about a network: the choices are part of documents.

pub(crate) use schema::{Activation, NetworkOptions, Optimizer, Tf32};
