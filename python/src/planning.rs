//! From a trace, a machine and a budget to a plan, or to several.

use experiments::compare::{compare as side_by_side, found_by, method, methods_of};
use experiments::{CodecInputs, Conditions, Inputs, Scatter};
use networks::suggest::instead;
use planner::{Allowed, CodecOptions, Limits, Problem, least_budget};
use pyo3::prelude::*;
use scenarios::Budget;
use schema::Bytes;

use crate::comparison::Comparison;
use crate::documents::{Machine, Trace};
use crate::errors::{PlanError, raised, wrong};
use crate::plan::Plan;
use crate::waiting::{Watch, wait};

/// Bytes, as a number or as text.
#[derive(Clone)]
pub enum Amount {
    /// So many.
    Bytes(u64),
    /// As on the command line.
    Text(String),
}

impl<'py> FromPyObject<'_, 'py> for Amount {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = || value.extract().map(Self::Text);
        value.extract().map(Self::Bytes).or_else(|_| text()).map_err(|_| {
            let what =
                "is neither a number of bytes (an int from 0) nor a text such as '60%' or '8GB'";
            wrong(format!(
                "{} {what}",
                value.repr().map_or_else(|_| "this".into(), |r| r.to_string())
            ))
        })
    }
}

/// One name, several with commas, or a list of names.
pub struct Names(Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Names {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.extract::<String>() {
            Ok(text) => Ok(Self(text.split(',').map(|name| name.trim().to_string()).collect())),
            Err(_) => value.extract().map(Self),
        }
    }
}

const CHOICES: [&str; 4] = ["keep", "swap", "recompute", "compress"];

/// What a plan may do, as Python states it.
#[derive(Default)]
pub struct Asked {
    pub budget: Option<Amount>,
    pub allow: Option<Names>,
    pub codecs: Option<Names>,
    pub host_budget: Option<Amount>,
    pub evaluations: Option<u64>,
}

/// A problem with what its plans state of it.
pub struct Stated {
    pub inputs: Inputs,
    settings: Vec<(String, String)>,
}

impl Stated {
    fn problem(&self) -> Problem<'_> {
        self.inputs.problem().with_settings(self.settings.clone())
    }
}

impl Asked {
    /// The problem that it is for a trace on a machine.
    pub fn of(self, trace: &Trace, machine: &Machine) -> PyResult<Stated> {
        let evaluations = self.evaluations.unwrap_or(Limits::default().evaluations);
        let mut settings = vec![("evaluations".to_string(), evaluations.to_string())];
        let choices =
            self.allow.map_or_else(|| CHOICES.map(String::from).to_vec(), |names| names.0);
        if let Some(unknown) = choices.iter().find(|choice| !CHOICES.contains(&choice.as_str())) {
            return Err(wrong(format!(
                "allow: there is no choice `{unknown}`: {}",
                instead(unknown, CHOICES.into_iter())
            )));
        }
        let may = |choice: &str| choices.iter().any(|chosen| chosen == choice);
        let allowed =
            Allowed { swap: may("swap"), recompute: may("recompute"), compress: may("compress") };
        let stated: Vec<&str> = CHOICES.into_iter().filter(|choice| may(choice)).collect();
        if stated.len() < CHOICES.len() {
            settings.push(("allow".into(), stated.join(",")));
        }
        let codecs = self.codecs.map(|names| names.0).filter(|names| *names != ["none"]);
        settings.extend(codecs.as_ref().map(|names| ("codecs".into(), names.join(","))));
        let machine = machine.machine.clone();
        let codecs = codecs.map(|names| {
            let (models, host) =
                (scenarios::codec_models(&machine), scenarios::host_codec_models());
            CodecInputs::named(&names, models, host, CodecOptions { sparsity: None, lossy: false })
        });
        let conditions = Conditions {
            host_budget: self.host_budget.map(Amount::bytes).transpose()?,
            allowed,
            limits: Limits { evaluations },
            codecs: codecs.transpose().map_err(raised)?,
        };
        let budget = self.budget.map(Amount::budget).transpose()?;
        let carried = scenarios::carry_over(&trace.trace, None, &machine, None);
        let (trace, carried) = carried.map_err(|error| raised(error.into()))?;
        let inputs = Inputs::new((trace, carried.to_string()), machine, budget, conditions);
        Ok(Stated { inputs, settings })
    }
}

impl Amount {
    fn bytes(self) -> PyResult<Bytes> {
        match self {
            Self::Bytes(bytes) => Ok(Bytes(bytes)),
            Self::Text(text) => {
                text.parse().map_err(|error| wrong(format!("host_budget `{text}`: {error}")))
            }
        }
    }

    fn budget(self) -> PyResult<Budget> {
        let text = match self {
            Self::Bytes(bytes) => format!("{bytes}B"),
            Self::Text(text) => text,
        };
        text.parse().map_err(|error| wrong(format!("budget `{text}`: {error}")))
    }
}

/// Plans one training iteration within a memory budget.
///
/// The budget is an amount ("8GB", or an int of bytes), a share of the trace's in-core peak ("60%"), or None
/// for all that the machine has. `allow` and `codecs` are names, in a list or with commas, as on the command line.
/// The same arguments give the same plan, to the byte. `progress` is called with (phase, done, of, best_ns) some
/// twenty times a second from the calling thread; what it raises ends the search, as Ctrl-C does. Other Python
/// threads run meanwhile.
///
/// Raises PlanError where no plan fits, InputError where an argument is wrong.
#[pyfunction]
#[pyo3(signature = (
    trace, machine, budget = Some(Amount::Text("60%".into())), method = "tide", allow = None, codecs = None,
    host_budget = None, evaluations = None, progress = None
))]
#[pyo3(text_signature = "(trace, machine, budget='60%', method='tide', allow=None, codecs=None, \
                         host_budget=None, evaluations=None, progress=None)")]
#[allow(clippy::too_many_arguments, reason = "Python names them")]
pub fn plan(
    py: Python<'_>,
    trace: &Trace,
    machine: &Machine,
    budget: Option<Amount>,
    method: &str,
    allow: Option<Names>,
    codecs: Option<Names>,
    host_budget: Option<Amount>,
    evaluations: Option<u64>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Plan> {
    let method = self::method(method).map_err(raised)?;
    let asked = Asked { budget, allow, codecs, host_budget, evaluations };
    let stated = asked.of(trace, machine)?;
    let search = |watch: &Watch| {
        let problem = stated.problem();
        let find = || planner::plan(method.as_ref(), &problem, &watch.of(method.name()));
        found_by(method.name(), &problem, &stated.inputs.in_core, find)
    };
    let found = wait(py, progress.as_ref(), search)?.map_err(raised)?;
    match found.plan {
        Ok(plan) => Ok(Plan::new(plan.into_plan(), Some(trace.trace.clone()))),
        Err(error) => {
            let least = py.detach(|| least_budget(&stated.problem()).0);
            let words = found.row.reason.unwrap_or_else(|| error.to_string());
            let raised = PlanError::new_err(words);
            raised.value(py).setattr("short_by_bytes", error.short_by().map(|bytes| bytes.0))?;
            raised.value(py).setattr("least_budget_bytes", least.0)?;
            Err(raised)
        }
    }
}

/// Plans with several methods, or with all that there are, and holds them against the bound that no plan beats.
#[pyfunction]
#[pyo3(signature = (trace, machine, budget = Some(Amount::Text("60%".into())), methods = None, allow = None,
                    codecs = None, progress = None))]
#[pyo3(text_signature = "(trace, machine, budget='60%', methods=None, allow=None, codecs=None, \
                         progress=None)")]
#[allow(clippy::too_many_arguments, reason = "Python names them")]
pub fn compare(
    py: Python<'_>,
    trace: &Trace,
    machine: &Machine,
    budget: Option<Amount>,
    methods: Option<Names>,
    allow: Option<Names>,
    codecs: Option<Names>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Comparison> {
    let names = methods.map_or_else(Vec::new, |names| names.0);
    let asked = Asked { budget, allow, codecs, ..Asked::default() };
    let Stated { inputs, .. } = asked.of(trace, machine)?;
    let chosen = methods_of(&names, inputs.conditions.codecs.is_none()).map_err(raised)?;
    let search = |watch: &Watch| {
        let scatter = Scatter::default();
        side_by_side(&inputs, &inputs.problem(), &chosen, &scatter, |name| watch.of(name))
    };
    Ok(Comparison { comparison: wait(py, progress.as_ref(), search)?.map_err(raised)? })
}

/// The trace with modelled times in place of its own: each op takes a kernel's launch and the roofline of its FLOPs and bytes on the
/// machine's device; what an op does not state is taken for the bytes of its tensors, and no FLOPs.
#[pyfunction]
pub fn model_times(trace: &Trace, machine: &Machine) -> PyResult<Trace> {
    let untimed = schema::Untimed::without_times((*trace.trace).clone());
    let modelled = scenarios::modelled_times(untimed, &machine.machine);
    modelled.map(Trace::from).map_err(|error| raised(error.into()))
}
