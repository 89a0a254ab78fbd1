//! From a trace, a machine and a budget to a plan, or to several.

use experiments::compare::{comparison_with_bound, found_by, method, methods_of};
use experiments::{CodecInputs, Conditions, Inputs};
use networks::suggest::instead;
use planner::{Allowed, CodecOptions, Limits, Problem, least_budget, tightened};
use pyo3::prelude::*;
use scenarios::Budget;
use schema::Bytes;

use crate::comparison::Comparison;
use crate::documents::{Machine, Trace};
use crate::errors::{PlanError, raised, wrong};
use crate::plan::Plan;
use crate::waiting::{Watch, wait};

/// Bytes, as a number or as text.
#[derive(FromPyObject)]
pub enum Amount {
    /// So many.
    #[pyo3(transparent)]
    Bytes(u64),
    /// As on the command line.
    #[pyo3(transparent)]
    Text(String),
}

/// One name, several with commas, or a list of names.
#[derive(FromPyObject)]
pub enum Names {
    /// In one text.
    #[pyo3(transparent)]
    Text(String),
    /// In a list or a tuple.
    #[pyo3(transparent)]
    List(Vec<String>),
}

impl Names {
    fn list(self) -> Vec<String> {
        match self {
            Self::Text(text) => text.split(',').map(|name| name.trim().to_string()).collect(),
            Self::List(names) => names,
        }
    }
}

const CHOICES: [&str; 4] = ["keep", "swap", "recompute", "compress"];

/// What a plan may do, as Python states it.
struct Asked {
    budget: Option<Amount>,
    allow: Option<Names>,
    codecs: Option<Names>,
    host_budget: Option<Amount>,
    evaluations: Option<u64>,
}

/// A problem with what its plans state of it.
struct Stated {
    inputs: Inputs,
    settings: Vec<(String, String)>,
}

impl Stated {
    fn problem(&self) -> Problem<'_> {
        self.inputs.problem().with_settings(self.settings.clone())
    }
}

impl Asked {
    fn of(self, trace: &Trace, machine: &Machine) -> PyResult<Stated> {
        let evaluations = self.evaluations.unwrap_or(Limits::default().evaluations);
        let mut settings = vec![("evaluations".to_string(), evaluations.to_string())];
        let choices = self.allow.map_or_else(|| CHOICES.map(String::from).to_vec(), Names::list);
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
        let codecs = self.codecs.map(Names::list).filter(|names| *names != ["none"]);
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
        let (trace, carried) = carried.map_err(wrong)?;
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
/// for all that the machine has. The same arguments give the same plan, to the byte. `progress` is called with
/// (phase, done, of, best_ns) some twenty times a second from the calling thread; what it raises ends the
/// search, as Ctrl-C does. Other Python threads run meanwhile.
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
        let find = || planner::plan(method.as_ref(), &problem, watch);
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
    let names = methods.map(Names::list).unwrap_or_default();
    let asked = Asked { budget, allow, codecs, host_budget: None, evaluations: None };
    let Stated { inputs, .. } = asked.of(trace, machine)?;
    let chosen = methods_of(&names, inputs.conditions.codecs.is_none()).map_err(raised)?;
    let search = |watch: &Watch| -> experiments::Result<reports::Comparison> {
        let problem = inputs.problem();
        // Found first, so that no row's planning time has it in it.
        tightened(&problem, watch);
        let mut rows = Vec::new();
        for method in &chosen {
            let find = || planner::plan(method.as_ref(), &problem, watch);
            rows.push(found_by(method.name(), &problem, &inputs.in_core, find)?.row);
        }
        Ok(comparison_with_bound(&problem, &inputs.in_core, rows))
    };
    Ok(Comparison { comparison: wait(py, progress.as_ref(), search)?.map_err(raised)? })
}
