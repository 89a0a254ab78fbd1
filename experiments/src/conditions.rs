//! What a plan may do, apart from the trace, the machine and the budget; and where a planning problem is
//! made of all of it.

use networks::suggest::instead;
use planner::{Allowed, CodecOptions, Limits, Problem};
use scenarios::Budget;
use schema::{
    Bytes, CodecModel, CodecModels, Document, Fidelity, InCore, Machine, Reference, Role,
    SizeModel, Tensor, Trace,
};
use simulator::in_core;

use crate::{Error, Result};

/// What a plan may do on whatever it is made for.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Host memory that it may use; all of the machine's where none is stated.
    pub host_budget: Option<Bytes>,
    /// What a method may decide.
    pub allowed: Allowed,
    /// How far it may search.
    pub limits: Limits,
    /// What it may compress with.
    pub codecs: Option<CodecInputs>,
}

impl Conditions {
    /// Everything is allowed that there are codecs for.
    pub fn new(limits: Limits, codecs: Option<CodecInputs>) -> Self {
        let allowed = Allowed { swap: true, recompute: true, compress: codecs.is_some() };
        Self { host_budget: None, allowed, limits, codecs }
    }

    /// The planning problem.
    pub fn problem<'a>(
        &self,
        trace: &'a Trace,
        machine: &'a Machine,
        budget: Bytes,
    ) -> Problem<'a> {
        let mut problem = Problem::new(trace, machine, budget)
            .with_host_budget(self.host_budget.unwrap_or(machine.host.memory))
            .with_evaluations(self.limits.evaluations);
        if let Some(codecs) = &self.codecs {
            problem = codecs.apply(problem);
        }
        let compress = self.allowed.compress && self.codecs.is_some();
        problem.with_allowed(Allowed { compress, ..self.allowed })
    }
}

/// A trace on a machine, with a budget.
pub struct Inputs {
    /// The trace, its times carried over to the machine.
    pub trace: Trace,
    /// The machine.
    pub machine: Machine,
    /// The iteration without a memory limit.
    pub in_core: InCore,
    /// Device memory that a plan may use.
    pub budget: Bytes,
    /// What else it may do.
    pub conditions: Conditions,
    /// How the times were carried over, in a sentence.
    pub carry_over: String,
}

impl Inputs {
    /// Of a trace whose times are the machine's; without a budget, that is what the machine has.
    pub fn new(
        (trace, carry_over): (Trace, String),
        machine: Machine,
        budget: Option<Budget>,
        conditions: Conditions,
    ) -> Self {
        let in_core = in_core(&trace);
        let budget = Budget::resolve(budget, &machine, in_core.peak);
        Self { trace, machine, in_core, budget, conditions, carry_over }
    }

    /// The same with only what forward ops make counted as memory; the budget is one of that.
    pub fn counting_activations(mut self, budget: Option<Budget>) -> Self {
        for tensor in self.trace.tensors.iter_mut().filter(|t| t.role != Role::Activation) {
            tensor.bytes = Bytes::ZERO;
        }
        self.trace.ops.iter_mut().for_each(|op| op.workspace = Bytes::ZERO);
        let says = "memory counts activations alone: parameters, gradients, optimizer state, inputs \
                    and workspace weigh nothing, so that no device has room for these plans in their \
                    budget";
        self.trace.provenance.notes.push(says.into());
        let carry_over = format!("{}\n{says}", self.carry_over);
        Self::new((self.trace, carry_over), self.machine, budget, self.conditions)
    }

    /// What the times and sizes of the problem rest on, a line each.
    pub fn assumptions(&self) -> String {
        let codecs = self.conditions.codecs.as_ref();
        let codecs = codecs.map(|codecs| codecs.assumptions(&self.trace, &self.machine) + "\n");
        format!("{}\n{}", self.carry_over, codecs.unwrap_or_default())
    }

    /// The planning problem.
    pub fn problem(&self) -> Problem<'_> {
        self.problem_within(self.budget)
    }

    /// The same within another budget.
    pub fn problem_within(&self, budget: Bytes) -> Problem<'_> {
        self.conditions.problem(&self.trace, &self.machine, budget)
    }
}

/// Codecs that plans may use, and what they assume of the data.
#[derive(Debug, Clone)]
pub struct CodecInputs {
    /// Models of all codecs, as the plan's reference names them.
    pub models: CodecModels,
    /// Those that may be used.
    pub chosen: CodecModels,
    /// Models of codecs on the host's processor.
    pub host: CodecModels,
    /// On what assumption.
    pub options: CodecOptions,
}

impl CodecInputs {
    /// The codecs of these names among the models, in the models' order; `all` are those that do not
    /// err by more than most would accept.
    ///
    /// # Errors
    /// If there is no model of a name, or its codec changes values and that is not allowed.
    pub fn named(
        names: &[String],
        models: CodecModels,
        host: CodecModels,
        options: CodecOptions,
    ) -> Result<Self> {
        let chosen =
            CodecModels { models: chosen(names, &models, options.lossy)?, ..models.clone() };
        Ok(Self { models, chosen, host, options })
    }

    /// Models that were just fitted, all of which may be used, lossy ones too.
    pub fn measured(models: &CodecModels) -> Self {
        Self {
            models: models.clone(),
            chosen: models.clone(),
            host: scenarios::host_codec_models(),
            options: CodecOptions { sparsity: None, lossy: true },
        }
    }

    /// The same with the codecs of other models in place of those that may be used.
    pub fn with(self, chosen: CodecModels) -> Self {
        Self { chosen, ..self }
    }

    fn apply<'a>(&self, problem: Problem<'a>) -> Problem<'a> {
        // The document that a user can look at, not the part of it that may be used.
        let name = self.models.device.clone();
        let source = Reference { name, digest: self.models.digest() };
        problem
            .with_codecs(&self.chosen, self.options)
            .with_host_codecs(&self.host, self.options)
            .with_codec_source(source)
    }

    /// What sizes and times rest on, and where codecs run, a line each.
    pub fn assumptions(&self, trace: &Trace, machine: &Machine) -> String {
        let transient = |t: &&Tensor| matches!(t.role, Role::Activation | Role::Gradient);
        let all = trace.tensors.iter().filter(transient).count();
        let known = trace.tensors.iter().filter(transient).filter(|t| t.sparsity.is_some()).count();
        let unknown = match self.options.sparsity {
            _ if known == all => String::new(),
            Some(share) => format!(", the others are taken for {:.0} % zeros", 100.0 * share),
            None => ", the others do not, and what depends on it leaves them as they are: state \
                     --sparsity"
                .into(),
        };
        let compute = &machine.device.compute;
        let lane = match compute.codec_lane {
            true if compute.beside_codec < 1.0 => format!(
                "codecs have a lane of their own and slow compute to {:.0} % while they run",
                100.0 * compute.beside_codec
            ),
            true => "codecs have a lane of their own and do not slow compute".into(),
            false => "codecs run on compute".into(),
        };
        format!(
            "codecs are {}; {known} of {all} activations and gradients state their share of \
             zeros{unknown}\n{lane}",
            self.models.source
        )
    }
}

fn chosen(names: &[String], models: &CodecModels, lossy: bool) -> Result<Vec<CodecModel>> {
    if names == ["all"] {
        // Larger errors are for who asks for them, and so are those that no parameter states.
        let may = |m: &&CodecModel| {
            m.fidelity != Fidelity::ErrorBounded || m.parameter.is_some_and(|bound| bound <= 1e-3)
        };
        return Ok(models.models.iter().filter(may).cloned().collect());
    }
    let mut at_bounds = Vec::new();
    for name in names {
        let named: Vec<_> = models.models.iter().filter(|m| is_named(m, name)).collect();
        if named.is_empty() {
            if let Some(model) = at_bound(models, name) {
                if !lossy {
                    return Err(Error::Lossy(name.clone()));
                }
                at_bounds.push(model);
                continue;
            }
            let known: Vec<_> = models.models.iter().map(argument).collect();
            return Err(Error::NoModel(
                name.clone(),
                instead(name, known.iter().map(AsRef::as_ref)),
            ));
        }
        if !lossy && named.iter().all(|m| m.fidelity != Fidelity::Lossless) {
            return Err(Error::Lossy(name.clone()));
        }
    }
    let named = |m: &&CodecModel| names.iter().any(|name| is_named(m, name));
    Ok(models.models.iter().filter(named).cloned().chain(at_bounds).collect())
}

/// The model of `sz:0.15` and the like: a model that tells sizes at every bound, at this one.
fn at_bound(models: &CodecModels, name: &str) -> Option<CodecModel> {
    let (codec, bound) = name.split_once(':')?;
    let bound: f64 = bound.parse().ok().filter(|bound| *bound > 0.0 && *bound < f64::INFINITY)?;
    let of = |m: &&CodecModel| m.codec == codec && matches!(m.size, SizeModel::Coded(_));
    let model = models.models.iter().find(of)?;
    Some(CodecModel { parameter: Some(bound), ..model.clone() })
}

/// Whether the text names the model: `zfp` names it at any rate, `zfp:8` at one.
fn is_named(model: &CodecModel, text: &str) -> bool {
    match text.split_once(':') {
        None => text == model.codec,
        Some((codec, parameter)) => {
            codec == model.codec
                && model.parameter.is_some()
                && parameter.parse().ok() == model.parameter
        }
    }
}

/// The model's name as an argument.
fn argument(model: &CodecModel) -> String {
    match model.parameter {
        Some(parameter) if parameter < 0.1 => format!("{}:{parameter:e}", model.codec),
        Some(parameter) => format!("{}:{parameter}", model.codec),
        None => model.codec.clone(),
    }
}
