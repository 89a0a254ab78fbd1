//! `tidegate._native`: the planner as a Python module.
//!
//! The Python package around it (`python/tidegate`) holds the signatures with their types and what needs
//! PyTorch. Everything here is a thin way into the crates that the command uses, too.

mod comparison;
mod documents;
mod errors;
mod pictures;
mod plan;
mod planning;
mod waiting;

use pyo3::prelude::*;

/// The planner of tidegate.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::comparison::Comparison;
    #[pymodule_export]
    use crate::documents::{Machine, Trace};
    #[pymodule_export]
    use crate::errors::{Error, InputError, PlanError, ProofError};
    #[pymodule_export]
    use crate::plan::{Plan, Timeline, simulate, verify};
    #[pymodule_export]
    use crate::planning::{compare, plan};
}
