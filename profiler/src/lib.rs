//! Imports others' recordings as traces: see [`import`].

pub mod import;
