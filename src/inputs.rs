//! Traces, machines and problems as they are named on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use experiments::asked::Asked;
use experiments::plan_trace::{check_plan, own_trace, trace_of};
use experiments::sources::{self, read_machine, with_links};
use experiments::{Conditions, Inputs};
use planner::{Allowed, Limits};
use profiler::import::InPlaceOps;
use scenarios::Budget;
use schema::{Bytes, Document, Machine, Plan, Predicted, Trace};

use crate::codec_args::CodecArgs;
use crate::exit::{Result, usage};
use crate::networks::{NetworkArgs, is_network};

/// How in-place ops of a recording are imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum InPlace {
    /// The output is a tensor beside the argument, as the recordings state.
    #[default]
    AsRecorded,
    /// The output takes over the argument's memory, as in the framework.
    Alias,
}

/// A trace, and what it is run on.
#[derive(Debug, Clone, Args)]
pub struct ProblemArgs {
    /// A network (see `list networks`) or its file (.toml or .onnx), with --batch; a bundled trace
    /// (see `list traces`), a trace file, or a recording (see `import`)
    #[arg(value_name = "NETWORK|TRACE")]
    pub trace: String,

    #[command(flatten)]
    pub network: NetworkArgs,

    /// A machine (see `list machines`), one that differs such as `titan-v+pcie5` (see `list links`)
    /// or `titan-v+no-codec-lane` (also codec-lane, shared-codec-lane, contended), or a file (.toml or .json)
    #[arg(long, short, value_name = "MACHINE")]
    pub machine: String,

    /// So many GPUs copy over one host link at once, and each has its share: as `titan-v+share-4`
    #[arg(long, value_name = "GPUS")]
    pub share_link: Option<u32>,

    /// Host memory that the plan may use [default: the machine's]
    #[arg(long, value_name = "BYTES")]
    pub host_budget: Option<Bytes>,

    #[command(flatten)]
    search: SearchArgs,

    /// The machine that the trace was recorded on, so that its times are scaled by the ratio of
    /// the two devices' rooflines where the trace knows FLOPs and bytes
    #[arg(long, value_name = "MACHINE")]
    pub recorded_on: Option<String>,

    /// How much faster the machine computes than the trace says, for ops that the roofline ratio
    /// does not cover
    #[arg(long, value_name = "FACTOR")]
    pub speed: Option<f64>,

    /// How in-place ops are taken where TRACE is a recording
    #[arg(long, value_enum, default_value_t)]
    pub in_place: InPlace,

    #[command(flatten)]
    pub codecs: CodecArgs,
}

/// How much memory a plan may use.
#[derive(Debug, Args)]
pub struct BudgetArg {
    /// Device memory that the plan may use: an amount such as `14.9GiB`, or a share of the
    /// in-core peak such as `50%` [default: the machine's memory less what is reserved]
    #[arg(long, short, value_name = "BUDGET")]
    pub budget: Option<Budget>,
}

/// What counts against the budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Count {
    /// All that is on the device.
    #[default]
    All,
    /// What forward ops make. Parameters, gradients, optimizer state, inputs and workspace weigh
    /// nothing, as in publications that optimise rematerialisation. No device can carry out such
    /// a plan in the budget that is shown: the figures are for holding against those.
    Activations,
}

/// What counts as memory, where nothing is going to be carried out.
#[derive(Debug, Args)]
pub struct CountArg {
    /// What counts against the budget
    #[arg(long, value_enum, default_value_t)]
    pub count: Count,
}

impl CountArg {
    /// The inputs with that counted; the budget is one of it.
    pub fn of(&self, inputs: Inputs, budget: Option<Budget>) -> Inputs {
        match self.count {
            Count::All => inputs,
            Count::Activations => inputs.counting_activations(budget),
        }
    }
}

/// A choice that a method may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Allow {
    /// Keep a tensor on the device; always allowed.
    Keep,
    /// Copy it to the host.
    Swap,
    /// Run its op again.
    Recompute,
    /// Make it smaller with one of --codecs, on the device and, with `swap`, for its copies.
    Compress,
}

/// What a method may decide, and how far it may search.
#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// What a method may decide besides keeping a tensor
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CHOICES",
        default_value = "keep,swap,recompute,compress"
    )]
    allow: Vec<Allow>,

    /// Evaluations that one search may make
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().evaluations)]
    pub evaluations: u64,
}

impl SearchArgs {
    pub fn allowed(&self) -> Allowed {
        Allowed {
            swap: self.allow.contains(&Allow::Swap),
            recompute: self.allow.contains(&Allow::Recompute),
            compress: self.allow.contains(&Allow::Compress),
        }
    }
}

impl ProblemArgs {
    /// The machine's name, with its links.
    pub fn machine(&self) -> String {
        with_links(&self.machine, self.share_link, self.network.ranks.net_link.as_deref())
    }

    /// Reads everything that the arguments name; without a budget, it is what the machine has.
    pub fn read(&self, budget: Option<Budget>) -> Result<Inputs> {
        let machine = read_machine(&self.machine())?;
        let conditions = self.conditions()?;
        let asked = self.asked()?;
        let trace = asked.read(&machine)?;
        if asked.recipe.is_none() {
            self.network.none_for(&self.trace)?;
        }
        Ok(Inputs::new(trace, machine, budget, conditions))
    }

    /// What a plan may do.
    pub fn conditions(&self) -> Result<Conditions> {
        let codecs = self.codecs.read(&read_machine(&self.machine())?)?;
        let allowed = self.search.allowed();
        if codecs.is_some() && !allowed.compress {
            return Err(usage("--allow leaves compress out: leave --codecs away"));
        }
        let limits = Limits { evaluations: self.search.evaluations };
        Ok(Conditions { host_budget: self.host_budget, allowed, limits, codecs })
    }

    fn asked(&self) -> Result<Asked<'_>> {
        let recipe = is_network(&self.trace).then(|| self.network.recipe(&self.trace));
        Ok(Asked {
            name: &self.trace,
            machine: self.machine(),
            recipe: recipe.transpose()?,
            efficiencies: self.network.efficiencies.as_deref(),
            in_place: self.in_place.into(),
            recorded_on: self.recorded_on.as_deref(),
            speed: self.speed,
        })
    }

    /// What the plan's settings say of these arguments, so that its trace is found again by them and a
    /// person knows the problem.
    pub fn settings(&self, inputs: &Inputs) -> Result<Vec<(String, String)>> {
        let mut settings = self.asked()?.settings(&inputs.trace, &inputs.machine);
        settings.push(("evaluations", self.search.evaluations.to_string()));
        let all = Allow::value_variants();
        let allowed = all.iter().filter(|choice| self.search.allow.contains(choice));
        let names =
            allowed.filter_map(|choice| Some(choice.to_possible_value()?.get_name().into()));
        let names: Vec<String> = names.collect();
        if names.len() < all.len() {
            settings.push(("allow", names.join(",")));
        }
        settings.extend(self.codecs.settings());
        Ok(settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }
}

/// A plan, and the trace that it was made for.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The plan; `-` is the standard input
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// The trace that it was made for; bundled ones, and bundled networks, are found without it
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
}

impl PlanArgs {
    /// The plan, which is safe, with the figures that follow from it, and its trace where that is known.
    pub fn read(&self) -> Result<(Plan, Predicted, Option<Trace>)> {
        let plan = Plan::read(&self.plan)?;
        let figures = check_plan(&plan)?;
        let named = self.trace.as_deref().map(|name| trace_of(&plan, name)).transpose()?;
        let trace = named.or_else(|| own_trace(&plan));
        Ok((plan, figures, trace))
    }
}

/// A bundled trace, a trace file, or a recording.
pub fn read_trace(name: &str, in_place: InPlace, machine: Option<&Machine>) -> Result<Trace> {
    Ok(sources::read_trace(name, in_place.into(), machine)?)
}

impl From<InPlace> for InPlaceOps {
    fn from(in_place: InPlace) -> Self {
        match in_place {
            InPlace::AsRecorded => Self::AsRecorded,
            InPlace::Alias => Self::Alias,
        }
    }
}
