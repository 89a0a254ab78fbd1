//! Plans and their timelines.

use std::path::PathBuf;
use std::sync::Arc;

use experiments::plan_trace::{check_machine, check_plan, check_trace, own_trace};
use pyo3::prelude::*;
use schema::{Document, Nanos};
use simulator::{check_contract, in_core, predict};

use crate::documents::{Machine, Text, Trace, plain, save};
use crate::errors::raised;
use crate::pictures;

/// What moves when and to which address, proven safe.
#[pyclass(frozen, module = "tidegate")]
pub struct Plan {
    pub(crate) plan: schema::Plan,
    pub(crate) trace: Option<Arc<schema::Trace>>,
}

impl Plan {
    /// A plan and the trace that it was made for, where that is known.
    pub fn new(plan: schema::Plan, trace: Option<Arc<schema::Trace>>) -> Self {
        Self { plan, trace }
    }

    fn read(plan: schema::Plan, trace: Option<&Trace>) -> PyResult<Self> {
        check_plan(&plan).map_err(raised)?;
        let trace = match trace {
            Some(Trace { trace, .. }) => {
                check_contract(&plan, trace).map_err(|error| raised(error.into()))?;
                Some(trace.clone())
            }
            None => own_trace(&plan).map(Arc::new),
        };
        Ok(Self { plan, trace })
    }

    fn timeline(&self) -> schema::Timeline {
        predict(&self.plan, self.trace.as_deref())
    }
}

#[pymethods]
impl Plan {
    /// The plan that a JSON text holds (`tidegate schema plan` prints its schema), proven again; with the trace
    /// that it was made for, also that it computes it.
    #[staticmethod]
    #[pyo3(signature = (text, trace = None))]
    fn from_json(text: Text, trace: Option<&Trace>) -> PyResult<Self> {
        Self::read(text.document()?, trace)
    }

    /// The same of a file.
    #[staticmethod]
    #[pyo3(signature = (path, trace = None))]
    fn load(path: PathBuf, trace: Option<&Trace>) -> PyResult<Self> {
        Self::read(schema::Plan::read(&path).map_err(|error| raised(error.into()))?, trace)
    }

    /// The text of its file.
    fn to_json(&self) -> String {
        self.plan.to_json()
    }

    /// Writes its file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        save(&self.plan, &path)
    }

    /// The method that made it.
    #[getter]
    fn method(&self) -> &str {
        &self.plan.method
    }

    /// Predicted time of an iteration.
    #[getter]
    fn predicted_ns(&self) -> u64 {
        self.plan.predicted.iteration.0
    }

    /// Largest sum of live buffers at any moment.
    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.plan.predicted.peak.0
    }

    /// Device memory that it was given.
    #[getter]
    fn budget_bytes(&self) -> u64 {
        self.plan.budget.0
    }

    /// Size of one range of device memory that holds everything.
    #[getter]
    fn arena_bytes(&self) -> u64 {
        self.plan.predicted.arena.0
    }

    /// Size of one range of pinned host memory that holds what leaves.
    #[getter]
    fn host_arena_bytes(&self) -> u64 {
        self.plan.predicted.host_arena.0
    }

    /// A time that no plan within this budget can beat, where one was computed.
    #[getter]
    fn bound_ns(&self) -> Option<u64> {
        self.plan.predicted.bound.map(|bound| bound.0)
    }

    /// Predicted time over that of the iteration without a memory limit, where its trace is known.
    #[getter]
    fn slowdown(&self) -> Option<f64> {
        let base: Nanos = in_core(self.trace.as_ref()?).iteration;
        Some(self.plan.predicted.iteration.ratio(base))
    }

    /// What it was asked for, by name.
    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.plan.settings)
    }

    /// What was decided for each tensor between two of its uses, as dicts.
    #[getter]
    fn decisions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.plan.decisions)
    }

    /// Digest of the trace that it was made for.
    #[getter]
    fn trace_digest(&self) -> String {
        self.plan.trace.digest.to_string()
    }

    /// Lanes by time above the memory curve, as SVG.
    fn timeline_svg(&self, py: Python<'_>) -> String {
        py.detach(|| pictures::timeline(&self.timeline(), self.trace.as_deref()))
    }

    /// What memory holds by time, and at its peak, as SVG; None where its trace is not known.
    fn memory_svg(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| pictures::memory(self.timeline(), &self.plan, self.trace.as_deref()?))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let pictures = [Some(self.timeline_svg(py)), self.memory_svg(py)];
        pictures.iter().flatten().map(|svg| pictures::image(py, svg)).collect()
    }

    fn __repr__(&self) -> String {
        let schema::Plan { method, trace, machine, predicted, budget, .. } = &self.plan;
        format!(
            "<Plan by {method}: {} on {}, {} an iteration, peak {} of {budget}>",
            trace.name, machine.name, predicted.iteration, predicted.peak
        )
    }
}

/// What happens when, on which lane, and what memory holds.
#[pyclass(frozen, module = "tidegate")]
pub struct Timeline {
    timeline: schema::Timeline,
    trace: Option<Arc<schema::Trace>>,
}

#[pymethods]
impl Timeline {
    /// The text of its file.
    fn to_json(&self) -> String {
        self.timeline.to_json()
    }

    /// Time of the iteration, all lanes drained.
    #[getter]
    fn iteration_ns(&self) -> u64 {
        self.timeline.iteration.0
    }

    /// Largest sum of live buffers.
    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.timeline.peak.0
    }

    /// Actions as they run, as dicts.
    #[getter]
    fn intervals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.timeline.intervals)
    }

    /// Live bytes at every moment at which they change, as dicts.
    #[getter]
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.timeline.memory)
    }

    /// Lanes by time above the memory curve, as SVG.
    fn svg(&self) -> String {
        pictures::timeline(&self.timeline, self.trace.as_deref())
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        pictures::image(py, &self.svg())
    }
}

/// Simulates a plan. A machine that it was not made for is refused.
#[pyfunction]
#[pyo3(signature = (plan, machine = None))]
pub fn simulate(plan: &Plan, machine: Option<&Machine>) -> PyResult<Timeline> {
    if let Some(Machine { machine }) = machine {
        check_machine(&plan.plan, machine).map_err(raised)?;
    }
    Ok(Timeline { timeline: plan.timeline(), trace: plan.trace.clone() })
}

/// Proves that a plan is safe under every timing, is as it says of itself, and computes the trace; raises
/// ProofError with what breaks it. Returns what then still depends on the data, in words.
#[pyfunction]
pub fn verify(py: Python<'_>, plan: &Plan, trace: &Trace) -> PyResult<String> {
    let (plan, trace) = (&plan.plan, &*trace.trace);
    py.detach(|| check_plan(plan).and_then(|_| check_trace(plan, trace))).map_err(raised)
}
