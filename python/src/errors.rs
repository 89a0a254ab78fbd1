//! Errors as Python raises them: what the command prints, as an exception of its kind.

use experiments::Kind;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(tidegate, Error, PyValueError, "What tidegate raises.");
create_exception!(
    tidegate,
    InputError,
    Error,
    "A document, a name or an argument is wrong: the words name the place and the remedy."
);
create_exception!(
    tidegate,
    PlanError,
    Error,
    "No plan fits. `short_by_bytes` is by how much the budget would have to grow for this method, where that \
     is the reason, and `least_budget_bytes` what no plan can do below; both may be None."
);
create_exception!(
    tidegate,
    ProofError,
    Error,
    "A plan is not safe, does not compute its trace, or states figures that do not follow from it."
);

/// The exception of an error.
pub fn raised(error: experiments::Error) -> PyErr {
    let words = error.in_words();
    match error.kind() {
        Kind::Input => InputError::new_err(words),
        Kind::Infeasible => PlanError::new_err(words),
        Kind::NotProven => ProofError::new_err(words),
        Kind::Interrupted => PyKeyboardInterrupt::new_err(words),
        Kind::Failed => PyOSError::new_err(words),
    }
}

/// A wrong argument, in a sentence.
pub fn wrong(words: impl std::fmt::Display) -> PyErr {
    InputError::new_err(words.to_string())
}
