//! Imports others' recordings as traces.
