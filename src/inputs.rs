//! Traces, machines and problems as they are named on the command line.

use clap::Args;
use experiments::recipes::description;
use experiments::sources::{self, is_bundled, read_machine};
use experiments::{Conditions, Inputs};
use planner::{Allowed, Limits};
use profiler::import::InPlaceOps;
use scenarios::Budget;
use schema::{Bytes, Machine, Origin, Provenance, Trace};

use crate::codec_args::CodecArgs;
use crate::exit::{Exit, OrExit, Result, usage};
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
    /// or `titan-v+no-codec-lane` (also codec-lane, shared-codec-lane), or a file (.toml or .json)
    #[arg(long, short, value_name = "MACHINE")]
    pub machine: String,

    /// Host memory that the plan may use [default: the machine's]
    #[arg(long, value_name = "BYTES")]
    pub host_budget: Option<Bytes>,

    /// What a method may decide besides keeping a tensor
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CHOICES",
        default_value = "keep,swap,recompute,compress"
    )]
    pub allow: Vec<Allow>,

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

    /// Evaluations that one search may make
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().evaluations)]
    pub evaluations: u64,

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

impl Allow {
    const ALL: [Self; 4] = [Self::Keep, Self::Swap, Self::Recompute, Self::Compress];

    fn name(self) -> &'static str {
        ["keep", "swap", "recompute", "compress"][self as usize]
    }
}

pub fn allowed(choices: &[Allow]) -> Allowed {
    Allowed {
        swap: choices.contains(&Allow::Swap),
        recompute: choices.contains(&Allow::Recompute),
        compress: choices.contains(&Allow::Compress),
    }
}

impl ProblemArgs {
    /// Reads everything that the arguments name; without a budget, it is what the machine has.
    pub fn read(&self, budget: Option<Budget>) -> Result<Inputs> {
        let machine = read_machine(&self.machine)?;
        let conditions = self.conditions()?;
        let (trace, carried) = if is_network(&self.trace) {
            self.model(&machine)?
        } else {
            let recorded = read_trace(&self.trace, self.in_place, Some(&machine))?;
            self.network.none_for(&self.trace)?;
            if self.is_modelled(&recorded, &machine) {
                self.carried(recorded, &machine)?
            } else {
                let from = self.recorded_on.as_deref().map(read_machine).transpose()?;
                let carried = scenarios::carry_over(&recorded, from.as_ref(), &machine, self.speed);
                let (trace, carried) = carried.or_exit(Exit::Usage)?;
                (trace, carried.to_string())
            }
        };
        Ok(Inputs::new((trace, carried), machine, budget, conditions))
    }

    /// What a plan may do.
    pub fn conditions(&self) -> Result<Conditions> {
        let codecs = self.codecs.read(&read_machine(&self.machine)?)?;
        if codecs.is_some() && !self.allow.contains(&Allow::Compress) {
            return Err(usage("--allow leaves compress out: leave --codecs away"));
        }
        Ok(Conditions {
            host_budget: self.host_budget,
            allowed: allowed(&self.allow),
            limits: Limits { evaluations: self.evaluations },
            codecs,
        })
    }

    /// The network's trace on the machine, and what its times are.
    fn model(&self, machine: &Machine) -> Result<(Trace, String)> {
        self.carried(self.network.modelled_trace(&self.trace, machine)?, machine)
    }

    /// Whether a trace's times were modelled for the machine that is named.
    fn is_modelled(&self, trace: &Trace, machine: &Machine) -> bool {
        let Provenance { origin, device, .. } = &trace.provenance;
        *origin == Origin::Modelled && *device == machine.device.name && !is_bundled(&self.trace)
    }

    /// A trace whose times are modelled for the machine, and what they are.
    fn carried(&self, trace: Trace, machine: &Machine) -> Result<(Trace, String)> {
        let name = &self.trace;
        if self.recorded_on.is_some() {
            return Err(usage(format!(
                "nobody recorded {name}, whose times are modelled: leave --recorded-on away"
            )));
        }
        let network = is_network(name);
        let band = if network { self.network.band(name, machine)? } else { None };
        let recipe = trace.provenance.recipe.as_ref().filter(|_| network);
        let what = recipe.map(|recipe| description(recipe, machine));
        let modelled = format!(
            "{}op times are modelled for {}{}: nothing was run",
            what.transpose()?.map_or_else(String::new, |what| what + "\n"),
            machine.device.name,
            band.map_or_else(String::new, |band| format!(" ({band})"))
        );
        if self.speed.is_none() {
            return Ok((trace, modelled));
        }
        let carried = scenarios::carry_over(&trace, None, machine, self.speed);
        let (trace, carried) = carried.or_exit(Exit::Usage)?;
        Ok((trace, format!("{modelled}; {carried}")))
    }

    /// What the plan's settings say of these arguments, so that
    /// [`trace_of`](experiments::plan_trace::trace_of) finds its trace again and a person the problem.
    pub fn settings(&self, inputs: &Inputs) -> Vec<(String, String)> {
        let mut settings = vec![("evaluations", self.evaluations.to_string())];
        if self.in_place == InPlace::Alias {
            settings.push(("in-place", "alias".into()));
        }
        if !Allow::ALL.iter().all(|choice| self.allow.contains(choice)) {
            let allowed = Allow::ALL.iter().filter(|choice| self.allow.contains(choice));
            settings.push(("allow", allowed.map(|a| a.name()).collect::<Vec<_>>().join(",")));
        }
        settings.extend(self.codecs.settings());
        let modelled = is_network(&self.trace) || self.is_modelled(&inputs.trace, &inputs.machine);
        if modelled || self.speed.is_some() || self.recorded_on.is_some() {
            settings.push(("machine", self.machine.clone()));
        }
        if is_bundled(&self.trace) {
            settings.push(("trace", self.trace.clone()));
        }
        let efficiencies = self.network.efficiencies.as_ref();
        settings.extend(efficiencies.map(|file| ("efficiencies", file.display().to_string())));
        settings.extend(self.speed.map(|speed| ("speed", speed.to_string())));
        settings.extend(self.recorded_on.clone().map(|machine| ("recorded-on", machine)));
        settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
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
