//! `tidegate explain`

use std::path::Path;

use experiments::Inputs;
use experiments::explain::{Subject, explain, explain_snapshot};
use experiments::plan_trace::{own_trace, trace_of};
use experiments::sources::read_machine;
use profiler::import::{Format as Kind, ImportOptions, detect, import, unpack};
use scenarios::Budget;
use schema::file::{read_bytes, read_text};
use schema::{Document, Machine, Plan};
use simulator::check_contract;

use crate::exit::{Exit, OrExit, Result};
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
    let Args { problem, budget, of_plan, format } = args;
    let name = &problem.trace;
    let bar = Bar::new("explain");
    let explanation = match (kind_of(name)?, of_plan) {
        (What::Snapshot(bytes), _) => {
            problem.network.none_for(name)?;
            let file = Path::new(name);
            let recording =
                import(&bytes, file, Some(Kind::MemorySnapshot), &ImportOptions::default());
            let figures = recording.or_exit(Exit::Usage)?.figures;
            let machine = read_machine(&problem.machine)?;
            let peak = figures.recorded_peak_bytes.unwrap_or(0);
            let budget = Budget::resolve(budget.budget, &machine, schema::Bytes(peak));
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            explain_snapshot(&figures, &machine, budget, &file)
        }
        (What::Plan(plan), of_plan) => {
            problem.network.none_for(name)?;
            let machine: Machine = read_machine(&problem.machine)?;
            let trace = match of_plan {
                Some(trace) => Some(trace_of(&plan, trace)?),
                None => own_trace(&plan),
            };
            let trace = trace.ok_or_else(|| experiments::Error::NoTraceOfPlan(name.into()))?;
            check_contract(&plan, &trace).map_err(experiments::Error::from)?;
            let about = format!("planned for {}", plan.machine.name);
            let inputs = Inputs::new((trace, about), machine, budget.budget, problem.conditions()?);
            let named = of_plan.clone().or_else(|| plan.settings.get("trace").cloned());
            let asked = [named.as_deref().unwrap_or(name), &problem.machine];
            explain(&Subject::Plan(&plan), &inputs, asked, &bar)?
        }
        (What::Other | What::Profile(_), Some(_)) => {
            return Err(crate::exit::usage("--trace is for a plan: leave it away"));
        }
        (What::Other, None) => {
            let inputs = problem.read(budget.budget)?;
            let recipe = inputs.trace.provenance.recipe.as_ref().filter(|_| is_network(name));
            let efficiencies = problem.network.efficiencies.as_deref();
            let network = recipe.map(|recipe| Subject::Network(recipe, efficiencies));
            let asked = [name.as_str(), &problem.machine];
            explain(&network.unwrap_or(Subject::Trace), &inputs, asked, &bar)?
        }
        (What::Profile(bytes), None) => {
            let inputs = problem.read(budget.budget)?;
            let file = Path::new(name);
            let recording = import(&bytes, file, Some(Kind::Kineto), &ImportOptions::default());
            let reserved = recording.or_exit(Exit::Usage)?.figures.reserved_from_empty_bytes;
            let subject =
                reserved.map_or(Subject::Trace, |bytes| Subject::Recording(schema::Bytes(bytes)));
            explain(&subject, &inputs, [name, &problem.machine], &bar)?
        }
    };
    drop(bar);
    format.show(&explanation, || explanation.text())
}

enum What {
    Snapshot(Vec<u8>),
    Profile(Vec<u8>),
    Plan(Box<Plan>),
    Other,
}

/// What a name is, where that is no trace.
fn kind_of(name: &str) -> Result<What> {
    let path = Path::new(name);
    if is_network(name) || !path.is_file() {
        return Ok(What::Other);
    }
    let bytes = read_bytes(path)?;
    let unpacked = unpack(&bytes, path).or_exit(Exit::Usage)?;
    let beginning = String::from_utf8_lossy(&unpacked[..unpacked.len().min(200)]);
    if beginning.contains("\"tidegate/plan\"") {
        return Ok(What::Plan(Box::new(Plan::from_json(&read_text(path)?, path)?)));
    }
    match detect(&unpacked) {
        // A document may mention anything in its notes.
        _ if beginning.contains("\"tidegate/") => Ok(What::Other),
        Some(Kind::MemorySnapshot) => Ok(What::Snapshot(bytes)),
        Some(Kind::Kineto) => Ok(What::Profile(bytes)),
        _ => Ok(What::Other),
    }
}
