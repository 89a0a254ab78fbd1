//! Methods side by side.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::documents::plain;

/// Methods side by side on one trace, machine and budget.
#[pyclass(frozen, module = "tidegate")]
pub struct Comparison {
    pub(crate) comparison: reports::Comparison,
}

#[pymethods]
impl Comparison {
    /// A dict for each method, in the order in which they were asked for.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.comparison.methods)
    }

    /// The rows by column, as pandas.DataFrame and polars.DataFrame take them.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.rows(py)?.cast_into::<PyList>()?;
        let columns = PyDict::new(py);
        for row in &rows {
            for name in row.cast::<PyDict>()?.keys() {
                if !columns.contains(&name)? {
                    let column: PyResult<Vec<_>> =
                        rows.iter().map(|row| row.call_method1("get", (&name,))).collect();
                    columns.set_item(name, column?)?;
                }
            }
        }
        Ok(columns)
    }

    /// A time that no plan within the budget can beat, where one was computed.
    #[getter]
    fn bound_ns(&self) -> Option<u64> {
        self.comparison.bound.map(|bound| bound.0)
    }

    /// What no plan can do below.
    #[getter]
    fn least_budget_bytes(&self) -> Option<u64> {
        self.comparison.least_budget.map(|bytes| bytes.0)
    }

    /// The memory that each method had.
    #[getter]
    fn budget_bytes(&self) -> u64 {
        self.comparison.budget.0
    }

    /// What `tidegate compare --format json` prints.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.comparison).map_err(crate::errors::wrong)
    }

    fn __str__(&self) -> String {
        reports::table(&self.comparison, false)
    }

    fn __len__(&self) -> usize {
        self.comparison.methods.len()
    }
}
