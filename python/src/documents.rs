//! Traces and machines.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use experiments::Error;
use experiments::sources::{read_machine, read_trace};
use profiler::import::InPlaceOps;
use pyo3::prelude::*;
use schema::{Bytes, Document, InCore};
use serde::Serialize;

use crate::errors::{raised, wrong};

/// What errors call a text that is no file's.
const TEXT: &str = "the text";

/// JSON as Python may have it.
#[derive(FromPyObject)]
pub enum Text {
    /// As text.
    #[pyo3(transparent)]
    Str(String),
    /// As it is in a file.
    #[pyo3(transparent)]
    Bytes(Vec<u8>),
}

impl Text {
    /// The document that it holds.
    pub fn document<D: Document>(self) -> PyResult<D> {
        let text = match self {
            Self::Str(text) => text,
            Self::Bytes(bytes) => String::from_utf8(bytes)
                .map_err(|error| wrong(format!("{TEXT} is not UTF-8: {error}")))?,
        };
        D::from_json(&text, Path::new(TEXT)).map_err(|error| raised(error.into()))
    }
}

/// Writes a document to a file, which is there whole or not at all.
pub fn save(document: &impl Document, path: &Path) -> PyResult<()> {
    document.write(path).map_err(|error| raised(error.into()))
}

/// A value as dicts, lists, numbers and texts.
pub fn plain<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(wrong)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// One training iteration: ops in order, and the tensors that they read and write.
#[pyclass(frozen, module = "tidegate")]
pub struct Trace {
    pub(crate) trace: Arc<schema::Trace>,
    in_core: OnceLock<InCore>,
}

impl From<schema::Trace> for Trace {
    fn from(trace: schema::Trace) -> Self {
        Self { trace: Arc::new(trace), in_core: OnceLock::new() }
    }
}

impl Trace {
    pub(crate) fn in_core(&self) -> InCore {
        *self.in_core.get_or_init(|| simulator::in_core(&self.trace))
    }
}

#[pymethods]
impl Trace {
    /// The trace that a JSON text holds (`tidegate schema trace` prints its schema).
    #[staticmethod]
    fn from_json(text: Text) -> PyResult<Self> {
        Ok(text.document::<schema::Trace>()?.into())
    }

    /// A bundled trace by its name, a trace file, or a recording that `tidegate import` takes.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        let trace = read_trace(&path.to_string_lossy(), InPlaceOps::AsRecorded);
        Ok(trace.map_err(raised)?.into())
    }

    /// The text of its file.
    fn to_json(&self) -> String {
        self.trace.to_json()
    }

    /// Writes its file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        save(&*self.trace, &path)
    }

    /// The network's name.
    #[getter]
    fn network(&self) -> &str {
        &self.trace.network
    }

    /// Samples per iteration, where known.
    #[getter]
    fn batch(&self) -> Option<u32> {
        self.trace.batch
    }

    /// The ops in order, as dicts.
    #[getter]
    fn ops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.trace.ops)
    }

    /// The tensors, as dicts.
    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.trace.tensors)
    }

    /// Memory that the iteration takes as recorded, which budgets in percent refer to.
    #[getter]
    fn in_core_peak_bytes(&self) -> u64 {
        self.in_core().peak.0
    }

    /// Time of all ops, one after another.
    #[getter]
    fn total_time_ns(&self) -> u64 {
        self.trace.total_time().0
    }

    /// Digest of its content.
    #[getter]
    fn digest(&self) -> String {
        self.trace.digest().to_string()
    }

    fn __repr__(&self) -> String {
        let (ops, tensors) = (self.trace.ops.len(), self.trace.tensors.len());
        let peak = self.in_core().peak;
        format!("<Trace {}: {ops} ops, {tensors} tensors, {peak} in core>", self.trace.title())
    }
}

/// A device, its host and the link between them.
#[pyclass(frozen, module = "tidegate")]
pub struct Machine {
    pub(crate) machine: schema::Machine,
}

#[pymethods]
impl Machine {
    /// A bundled machine by its name (`tidegate list machines`), perhaps with another link as in
    /// `titan-v+pcie5`; a file (.toml or .json); or the text of such a file.
    #[staticmethod]
    fn load(name: PathBuf) -> PyResult<Self> {
        let text = name.to_string_lossy();
        let machine = if text.trim_start().starts_with('{') {
            Text::Str(text.into_owned()).document()?
        } else if text.contains('=') {
            let machine = scenarios::machine_from_toml(&text, Path::new("machine.toml"));
            machine.map_err(|error| raised(Error::Machine(error)))?
        } else {
            read_machine(&text).map_err(raised)?
        };
        Ok(Self { machine })
    }

    /// The same with so many bytes that a plan may use: what is reserved comes on top.
    fn with_memory(&self, bytes: u64) -> PyResult<Self> {
        let mut machine = self.machine.clone();
        let memory = bytes.checked_add(machine.device.reserved.0);
        machine.device.memory = Bytes(memory.unwrap_or(u64::MAX));
        machine.sources.insert("device.memory".into(), "stated by the caller".into());
        machine.check().map_err(wrong)?;
        Ok(Self { machine })
    }

    /// The text of its file.
    fn to_json(&self) -> String {
        self.machine.to_json()
    }

    /// Writes its file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        save(&self.machine, &path)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.machine.name
    }

    /// The device's name.
    #[getter]
    fn device(&self) -> &str {
        &self.machine.device.name
    }

    /// Device memory that a plan may use where no budget is stated.
    #[getter]
    fn usable_bytes(&self) -> u64 {
        self.machine.usable_memory().0
    }

    /// Digest of its content.
    #[getter]
    fn digest(&self) -> String {
        self.machine.digest().to_string()
    }

    fn __repr__(&self) -> String {
        let usable = self.machine.usable_memory();
        format!("<Machine {}: {}, {usable} usable>", self.machine.name, self.machine.device.name)
    }
}
