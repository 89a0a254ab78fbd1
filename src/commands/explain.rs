//! `tidegate explain`

use std::path::Path;

use experiments::Inputs;
use experiments::explain::{Named, Subject, explain, explain_snapshot};
use experiments::plan_trace::computed_trace;
use experiments::sources::read_machine;

use crate::exit::{Result, usage};
use crate::inputs::{BudgetArg, ProblemArgs};
use crate::networks::is_network;
use crate::output::Format;
use crate::progress::Bar;

/// Say whether something fits a GPU, what its memory is made of, and what would help
///
/// Of a network, a trace, a recording of any kind that `import` reads, or a plan. Where it does not fit, or only
/// just, each remedy is planned: what it takes, and the command that does it.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,

    #[command(flatten)]
    budget: BudgetArg,

    /// The trace of a plan, where it is not bundled
    #[arg(long = "trace", value_name = "TRACE")]
    of_plan: Option<String>,

    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let Args { problem, budget: BudgetArg { budget }, of_plan, format } = args;
    let (name, bar) = (&problem.trace, Bar::new("explain"));
    let named = Named::read(name)?;
    if of_plan.is_some() && !matches!(named, Named::Snapshot(_) | Named::Plan(_)) {
        return Err(usage("--trace is for a plan: leave it away"));
    }
    let explained = |subject: &Subject, inputs: &Inputs, name: &str| {
        explain(subject, inputs, [name, &problem.machine()], &bar)
    };
    let explanation = match named {
        Named::Snapshot(figures) => {
            problem.network.none_for(name)?;
            explain_snapshot(&figures, &read_machine(&problem.machine())?, *budget, Path::new(name))
        }
        Named::Plan(plan) => {
            problem.network.none_for(name)?;
            let machine = read_machine(&problem.machine())?;
            let trace = computed_trace(&plan, Path::new(name), of_plan.as_deref())?;
            let about = format!("planned for {}", plan.machine.name);
            let inputs = Inputs::new((trace, about), machine, *budget, problem.conditions()?);
            let of = of_plan.as_ref().or(plan.settings.get("trace")).unwrap_or(name);
            explained(&Subject::Plan(&plan), &inputs, of)?
        }
        Named::Profile(Some(reserved)) => {
            explained(&Subject::Recording(reserved), &problem.read(*budget)?, name)?
        }
        Named::Profile(None) | Named::Trace => {
            let inputs = problem.read(*budget)?;
            let recipe = inputs.trace.provenance.recipe.as_ref().filter(|_| is_network(name));
            let efficiencies = problem.network.efficiencies.as_deref();
            let network = recipe.map(|recipe| Subject::Network(recipe, efficiencies));
            explained(&network.unwrap_or(Subject::Trace), &inputs, name)?
        }
    };
    drop(bar);
    format.show(&explanation, || explanation.text())
}
