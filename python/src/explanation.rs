//! Whether an iteration fits a device, and what would help.

use experiments::explain::{Subject, explain as explained};
use pyo3::prelude::*;

use crate::documents::{Machine, Trace, plain};
use crate::errors::raised;
use crate::planning::{Amount, Asked, Names};
use crate::waiting::{Watch, wait};

/// Whether an iteration fits, what its memory is made of, and remedies, each planned. Printed, it is what
/// `tidegate explain` prints.
#[pyclass(frozen, module = "tidegate")]
pub struct Explanation {
    explanation: reports::Explanation,
}

#[pymethods]
impl Explanation {
    /// Whether it fits; None where nothing says when memory is needed.
    #[getter]
    fn fits(&self) -> Option<bool> {
        self.explanation.fits
    }

    /// Everything, with the fields that `tidegate explain --format json` has.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.explanation)
    }

    fn __str__(&self) -> String {
        self.explanation.text()
    }
}

/// Says whether a trace fits a machine (within a budget, where one is stated), what its memory is made of, and, where
/// it does not fit or only just, what would help. The commands of remedies call the trace `trace.json`, for
/// which `trace.save("trace.json")` makes it, or by the name of its network.
#[pyfunction]
#[pyo3(signature = (trace, machine, budget = None, allow = None, progress = None))]
pub fn explain(
    py: Python<'_>,
    trace: &Trace,
    machine: &Machine,
    budget: Option<Amount>,
    allow: Option<Names>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Explanation> {
    let asked = Asked { budget, allow, ..Asked::default() };
    let inputs = asked.of(trace, machine)?.inputs;
    let search = |watch: &Watch| {
        let recipe = inputs.trace.provenance.recipe.as_ref();
        let (subject, name) = match recipe {
            Some(recipe) => (Subject::Network(recipe, None), recipe.network.as_str()),
            None => (Subject::Trace, "trace.json"),
        };
        explained(&subject, &inputs, [name, &inputs.machine.name], &watch.of("explain"))
    };
    let explanation = wait(py, progress.as_ref(), search)?.map_err(raised)?;
    Ok(Explanation { explanation })
}
